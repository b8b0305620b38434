//! Changes the topology of a running gateway. The driver selects how: replace files and send a signal, publish messages
//! for added and removed routes, or apply and delete manifests.
//!
//! A change is rendered before the load, because rendering a hundred thousand routes takes a fraction of a second of
//! CPU time, which would disturb the load. Applying the prepared change then costs two system calls per file and a
//! signal.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::render::inside;
use super::templates::Templates;
use super::{Apply, Binding, Driver, KubeAccess, Message, Step, action, publish};
use crate::cleanup::ProcessId;
use crate::{Credentials, RigError, Running};

/// The signals that a driver can name in `apply`.
const SIGNALS: [(&str, Signal); 3] = [("HUP", Signal::HUP), ("USR1", Signal::USR1), ("USR2", Signal::USR2)];

/// A prepared change to another topology, for a running gateway. It can be applied repeatedly.
#[derive(Debug)]
pub struct Change {
    files: Vec<Prepared>,
    messages: Vec<Message>,
    manifests: Manifests,
    signal: Option<(Signal, ProcessId)>,
    again_after: Option<Duration>,
}

/// The Kubernetes manifests of a change.
#[derive(Debug, Default)]
pub struct Manifests {
    /// The manifests to apply.
    pub applied: Vec<Value>,
    /// The manifests whose objects are deleted.
    pub deleted: Vec<Value>,
}

/// How changes reach a gateway that does not read them from files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeChannel {
    /// weir publishes messages to the service with this name, which is a NATS server.
    Nats(String),
    /// weir applies and deletes manifests in a Kubernetes API.
    Kubernetes(KubeAccess),
    /// The gateway already runs in a cluster. For each change, weir applies all objects that define its routes to this
    /// cluster.
    Cluster,
}

/// The `apply` section of a driver, parsed.
enum Applied<'a> {
    Files(AppliedFiles<'a>),
    Nats {
        template: &'a str,
        added: &'a str,
        removed: &'a str,
    },
    Kubernetes {
        template: &'a str,
    },
    /// The driver has no `apply` section, because its gateway already runs in a cluster. weir applies the objects that
    /// define the gateway's routes to this cluster.
    Cluster,
}

/// The `apply` section of a driver that changes files and sends a signal.
struct AppliedFiles<'a> {
    /// Each template with the file into which it is rendered.
    templates: Vec<(&'a str, &'a str)>,
    signal: Option<Signal>,
    again_after: Option<Duration>,
}

#[derive(Debug)]
struct Prepared {
    /// The rendered file.
    from: PathBuf,
    /// The file that the gateway reads.
    to: PathBuf,
}

impl Driver {
    /// Checks that the driver can change a running gateway.
    ///
    /// # Errors
    /// [`RigError::Driver`] if the driver has no `apply`; [`RigError::NotYetServed`] if weir does not support the kind
    /// of its `apply` yet.
    pub fn check_apply(&self) -> Result<(), RigError> {
        self.applied().map(drop)
    }

    /// Whether the driver publishes messages to NATS, at the start or for changes.
    pub fn publishes(&self) -> bool {
        matches!(&self.file.apply, Some(Apply::Nats { .. }))
            || self.file.steps.iter().any(|step| matches!(step, Step::NatsPublish { .. }))
    }

    /// How changes reach the gateway of `binding`; `None` if it reads them from files.
    ///
    /// # Errors
    /// [`RigError::Driver`] if changes go to the gateway's own Kubernetes API, and its address or a certificate to
    /// connect to it is missing.
    pub fn changes_over(
        &self,
        binding: &Binding,
        credentials: &Credentials,
    ) -> Result<Option<ChangeChannel>, RigError> {
        Ok(match &self.file.apply {
            Some(Apply::Nats { service, .. }) => Some(ChangeChannel::Nats(service.clone())),
            Some(Apply::Kubernetes { api, .. }) => {
                let address = |name: &str| binding.address(name);
                let access =
                    action::access(&self.place, "apply", api, credentials.certificates.as_ref(), &address)?;
                Some(ChangeChannel::Kubernetes(access))
            }
            _ => self.kubernetes().map(|_| ChangeChannel::Cluster),
        })
    }

    /// Prepares the change of a running gateway from the topology `before` to `binding`. Renders files next to their
    /// targets in `dir`, with the suffix `name`; [`Change::apply`] puts them in place. Each change needs a different
    /// `name`. Messages and manifests contain only the differences. If the gateway already runs in a cluster, manifests
    /// contain all objects instead. `credentials` contains the certificates. `running` contains the processes of the
    /// gateway. If `apply` has a signal, the driver's first process gets it.
    ///
    /// # Errors
    /// As [`Driver::check_apply`] and [`Driver::render`]; [`RigError::Driver`] if the process that gets the signal is
    /// not in `running`.
    pub fn prepare_change(
        &self,
        before: &Binding,
        binding: &Binding,
        credentials: &Credentials,
        dir: &Path,
        name: &str,
        running: &[Running],
    ) -> Result<Change, RigError> {
        let applied = self.applied()?;
        self.check_topology(binding)?;
        let dir = std::path::absolute(dir).map_err(|error| RigError::file(dir, error))?;
        let certificates = credentials.certificates.as_ref();
        let AppliedFiles { templates, signal, again_after } = match applied {
            Applied::Files(files) => files,
            Applied::Nats { template, added, removed } => {
                let of = |binding: &Binding, subject: &str| {
                    let templates = Templates::of_gateway(self, binding, certificates, &dir)?;
                    publish::messages(binding, &templates, template, subject)
                };
                let messages = publish::difference(of(before, removed)?, of(binding, added)?);
                return Ok(Change { messages, ..Change::none() });
            }
            Applied::Kubernetes { template } => {
                let of = |binding: &Binding| {
                    let templates = Templates::of_gateway(self, binding, certificates, &dir)?;
                    action::manifests(template, &templates.file(template)?)
                };
                let manifests = Manifests::between(of(before)?, of(binding)?);
                return Ok(Change { manifests, ..Change::none() });
            }
            Applied::Cluster => {
                // This change contains all objects. The code that applies it skips unchanged objects and deletes old
                // ones.
                let applied = self.cluster_routes(binding, certificates, &dir)?.objects;
                let manifests = Manifests { applied, deleted: Vec::new() };
                return Ok(Change { manifests, ..Change::none() });
            }
        };
        let rendered = Templates::of_gateway(self, binding, certificates, &dir)?;
        let mut files = Vec::new();
        for (template, to) in templates {
            let to = inside(&self.place, &dir, to)?;
            let mut from = to.clone().into_os_string();
            from.push(format!(".{name}"));
            let from = PathBuf::from(from);
            fs::write(&from, rendered.file(template)?).map_err(|error| RigError::file(&from, error))?;
            files.push(Prepared { from, to });
        }
        let signal = signal.map(|signal| Ok::<_, RigError>((signal, self.leader(running)?))).transpose()?;
        Ok(Change { files, signal, again_after, ..Change::none() })
    }

    /// Parses and validates the `apply` section.
    fn applied(&self) -> Result<Applied<'_>, RigError> {
        let (templates, signal, again_after) = match &self.file.apply {
            Some(Apply::Files { templates, signal, again_after }) => (templates, signal, again_after),
            Some(Apply::Nats { service, template, added, removed }) => {
                self.check_need("apply", service)?;
                self.check_template(template)?;
                return Ok(Applied::Nats { template, added, removed });
            }
            Some(Apply::Kubernetes { api, template }) => {
                self.check_api("apply", api)?;
                self.check_template(template)?;
                return Ok(Applied::Kubernetes { template });
            }
            Some(other) => return Err(self.unsupported(format!("`apply: {}`", other.name()))),
            None if self.kubernetes().is_some() => return Ok(Applied::Cluster),
            None => {
                return Err(self.wrong(
                    "the driver has no `apply`, so weir cannot change the running gateway",
                    "add `apply` to the driver, or remove `changes` from the scenario",
                ));
            }
        };
        let to = |template: &String| {
            let step = self.file.steps.iter().find_map(|step| match step {
                Step::Render { template: rendered, to } if rendered == template => {
                    Some((rendered.as_str(), to.as_str()))
                }
                _ => None,
            });
            let rendered = self.file.steps.iter().filter_map(|step| match step {
                Step::Render { template, .. } => Some(template.as_str()),
                _ => None,
            });
            step.ok_or_else(|| {
                self.contradiction(&format!("`apply`: no step renders `{template}`"), template, rendered)
            })
        };
        let templates = templates.iter().map(to).collect::<Result<_, _>>()?;
        let signal = signal.as_ref().map(|name| {
            let known = SIGNALS.iter().find(|(known, _)| known == name).map(|(_, signal)| *signal);
            let names = SIGNALS.iter().map(|(name, _)| *name);
            known.ok_or_else(|| self.contradiction(&format!("`apply`: unknown signal `{name}`"), name, names))
        });
        let again_after = again_after.map(|time| time.0);
        Ok(Applied::Files(AppliedFiles { templates, signal: signal.transpose()?, again_after }))
    }

    /// Validates the `apply` section if the driver has one and weir supports its kind.
    pub(super) fn check_applied(&self) -> Result<(), RigError> {
        match &self.file.apply {
            Some(Apply::Files { .. } | Apply::Nats { .. } | Apply::Kubernetes { .. }) => self.check_apply(),
            _ => Ok(()),
        }
    }

    /// The first process of the driver, which gets the signal: it controls the other processes of the gateway.
    fn leader(&self, running: &[Running]) -> Result<ProcessId, RigError> {
        let first = self.file.processes.first().map_or("", |process| process.name.as_str());
        let leader = running.iter().find(|running| running.name() == first).map(Running::leader);
        leader.ok_or_else(|| {
            let message = format!("`apply` sends a signal to `{first}`, but this process does not run");
            self.wrong(&message, "add a step that starts the process")
        })
    }
}

impl Manifests {
    /// Computes the change from `before` to `after`: applies new and changed manifests, deletes removed ones.
    fn between(before: Vec<Value>, after: Vec<Value>) -> Self {
        let identity = |manifest: &Value| -> Vec<String> {
            let text = |pointer: &str| manifest.pointer(pointer).map(Value::to_string).unwrap_or_default();
            ["/apiVersion", "/kind", "/metadata/namespace", "/metadata/name"].map(text).to_vec()
        };
        let kept: HashSet<Vec<String>> = after.iter().map(identity).collect();
        let known: HashSet<String> = before.iter().map(Value::to_string).collect();
        let deleted = before.into_iter().filter(|manifest| !kept.contains(&identity(manifest))).collect();
        let applied = after.into_iter().filter(|manifest| !known.contains(&manifest.to_string())).collect();
        Self { applied, deleted }
    }
}

impl Change {
    fn none() -> Self {
        Self {
            files: Vec::new(),
            messages: Vec::new(),
            manifests: Manifests::default(),
            signal: None,
            again_after: None,
        }
    }

    /// Replaces each file with a rename, so that the gateway never reads a partial file, then sends the signal.
    ///
    /// # Errors
    /// [`RigError::File`] or [`RigError::DiskFull`] if a file cannot be replaced. A process that has exited is not an
    /// error here: the code that watches the gateway reports it.
    pub fn apply(&self) -> Result<(), RigError> {
        for Prepared { from, to } in &self.files {
            put(from, to).map_err(|error| RigError::file(to, error))?;
        }
        self.signal();
        Ok(())
    }

    /// The messages for this change, which the caller publishes.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// The manifests of this change. The caller applies some, and deletes the objects of the others.
    pub fn manifests(&self) -> &Manifests {
        &self.manifests
    }

    /// How long to wait for the change to take effect before the signal is repeated; `None` if the gateway never loses
    /// a signal.
    pub fn again_after(&self) -> Option<Duration> {
        self.again_after
    }

    /// Sends the signal again, without replacing files.
    pub fn signal(&self) {
        if let Some((signal, leader)) = self.signal
            && leader.is_alive()
            && let Some(pid) = Pid::from_raw(leader.pid)
        {
            let _ = kill_process(pid, signal);
        }
    }
}

/// Atomically replaces `to` with a copy of `from`; `from` stays.
fn put(from: &Path, to: &Path) -> io::Result<()> {
    let mut next = to.to_owned().into_os_string();
    next.push(".next");
    let next = PathBuf::from(next);
    // An earlier apply that failed halfway may have left this file.
    let _ = fs::remove_file(&next);
    // A hard link is fast for files of any size. File systems without hard links need a copy.
    fs::hard_link(from, &next).or_else(|_| fs::copy(from, &next).map(drop))?;
    // If `to` already is a link to the same file, the rename does nothing and keeps `next`.
    fs::rename(&next, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_manifests_are_applied_and_removed_ones_deleted() {
        let manifest = |name: &str, data: &str| serde_json::json!({ "kind": "A", "metadata": { "name": name }, "data": data });
        let of =
            |all: &[(&str, &str)]| all.iter().map(|(name, data)| manifest(name, data)).collect::<Vec<_>>();
        let change = Manifests::between(
            of(&[("same", "1"), ("other", "1"), ("gone", "1")]),
            of(&[("same", "1"), ("other", "2"), ("new", "1")]),
        );
        assert_eq!(change.applied, of(&[("other", "2"), ("new", "1")]));
        assert_eq!(change.deleted, of(&[("gone", "1")]));
    }

    #[test]
    fn files_are_replaced_repeatedly_and_stay_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for (name, text) in [("conf", "old"), ("conf.more", "more"), ("conf.fewer", "fewer")] {
            fs::write(path(name), text).unwrap();
        }
        for (from, expected) in [("conf.more", "more"), ("conf.more", "more"), ("conf.fewer", "fewer")] {
            put(&path(from), &path("conf")).unwrap();
            assert_eq!(fs::read_to_string(path("conf")).unwrap(), expected);
        }
        assert_eq!(fs::read_to_string(path("conf.more")).unwrap(), "more", "the prepared file stays");
        put(&path("conf.more"), &path("conf")).unwrap();
        assert_eq!(fs::read_to_string(path("conf")).unwrap(), "more", "and can be applied again");
        assert!(put(&path("absent"), &path("conf")).is_err());
        assert_eq!(fs::read_to_string(path("conf")).unwrap(), "more");
    }
}
