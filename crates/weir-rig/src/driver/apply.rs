//! Another topology for a running gateway: its files are rendered ahead, put in place at once, and a signal says so.
//!
//! Rendering a hundred thousand routes takes a part of a second of CPU time, which nobody may use while load runs. So a
//! change is prepared before, and to apply it costs two system calls a file and a signal.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::templates::Templates;
use super::{Apply, Binding, Driver, Step};
use crate::cleanup::ProcessId;
use crate::{Credentials, RigError, Running};

/// Signals that gateways take for a change, by their names.
const SIGNALS: [(&str, Signal); 3] = [("HUP", Signal::HUP), ("USR1", Signal::USR1), ("USR2", Signal::USR2)];

/// Another topology for a running gateway, which can be applied again and again.
#[derive(Debug)]
pub struct Change {
    files: Vec<Prepared>,
    signal: Option<(Signal, ProcessId)>,
    again_after: Option<Duration>,
}

/// What a driver says of changes, with its words read.
struct Applied<'a> {
    /// Templates with their files.
    templates: Vec<(&'a str, &'a str)>,
    signal: Option<Signal>,
    again_after: Option<Duration>,
}

#[derive(Debug)]
struct Prepared {
    /// What was rendered ahead.
    from: PathBuf,
    /// Where the gateway reads it.
    to: PathBuf,
}

impl Driver {
    /// Refuses a driver that does not say how a change of the topology reaches the running gateway.
    ///
    /// # Errors
    /// [`RigError::Driver`] where it says nothing of it; [`RigError::NotYetServed`] for a way that no code goes yet.
    pub fn check_apply(&self) -> Result<(), RigError> {
        self.applied().map(drop)
    }

    /// Renders what `binding`, another than the one that the gateway was started with, changes in `dir`; `name` tells
    /// it from other changes; certificates stay those of `credentials`. Nothing reaches the gateway, which is among `running`, before [`Change::apply`].
    ///
    /// # Errors
    /// As [`Driver::check_apply`] and [`Driver::render`]; [`RigError::Driver`] where the process that gets the signal
    /// does not run.
    pub fn prepare_change(
        &self,
        binding: &Binding,
        credentials: &Credentials,
        dir: &Path,
        name: &str,
        running: &[Running],
    ) -> Result<Change, RigError> {
        let Applied { templates, signal, again_after } = self.applied()?;
        self.check_topology(binding)?;
        let dir = std::path::absolute(dir).map_err(|error| RigError::file(dir, error))?;
        let rendered = Templates::of_gateway(self, binding, credentials.certificates.as_ref(), &dir)?;
        let mut files = Vec::new();
        for (template, to) in templates {
            let to = self.inside(&dir, to)?;
            let mut from = to.clone().into_os_string();
            from.push(format!(".{name}"));
            let from = PathBuf::from(from);
            fs::write(&from, rendered.file(template)?).map_err(|error| RigError::file(&from, error))?;
            files.push(Prepared { from, to });
        }
        let signal = signal.map(|signal| Ok::<_, RigError>((signal, self.leader(running)?))).transpose()?;
        Ok(Change { files, signal, again_after })
    }

    /// What a change renders again, and how the gateway is told.
    fn applied(&self) -> Result<Applied<'_>, RigError> {
        let (templates, signal, again_after) = match &self.file.apply {
            Some(Apply::Files { templates, signal, again_after }) => (templates, signal, again_after),
            Some(other) => return Err(self.unserved(format!("`apply: {}`", other.name()))),
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
            known.ok_or_else(|| self.contradiction(&format!("`apply`: no signal `{name}`"), name, names))
        });
        let again_after = again_after.map(|time| time.0);
        Ok(Applied { templates, signal: signal.transpose()?, again_after })
    }

    /// Checks what it says of changes, where it says something that is served.
    pub(super) fn check_applied(&self) -> Result<(), RigError> {
        match &self.file.apply {
            Some(Apply::Files { .. }) => self.check_apply(),
            _ => Ok(()),
        }
    }

    /// The process that was started first, which the others of a gateway answer to.
    fn leader(&self, running: &[Running]) -> Result<ProcessId, RigError> {
        let first = self.file.processes.first().map_or("", |process| process.name.as_str());
        let leader = running.iter().find(|running| running.name() == first).map(Running::leader);
        leader.ok_or_else(|| {
            self.wrong(&format!("`{first}` gets a signal but does not run"), "start it with a step")
        })
    }
}

impl Change {
    /// Puts the files in place, each by one rename, so that nobody reads half of one, and sends the signal.
    ///
    /// # Errors
    /// [`RigError::File`] or [`RigError::DiskFull`]. A process that is gone is no error here: whoever watches it says so.
    pub fn apply(&self) -> Result<(), RigError> {
        for Prepared { from, to } in &self.files {
            put(from, to).map_err(|error| RigError::file(to, error))?;
        }
        self.signal();
        Ok(())
    }

    /// When a change that is not in force by then is to be signalled again; `None` where no signal is lost.
    pub fn again_after(&self) -> Option<Duration> {
        self.again_after
    }

    /// Sends the signal alone.
    pub fn signal(&self) {
        if let Some((signal, leader)) = self.signal
            && leader.is_alive()
            && let Some(pid) = Pid::from_raw(leader.pid)
        {
            let _ = kill_process(pid, signal);
        }
    }
}

/// Makes `to` the same as `from`, without a moment in which it is neither what it was nor that.
fn put(from: &Path, to: &Path) -> io::Result<()> {
    let mut next = to.to_owned().into_os_string();
    next.push(".next");
    let next = PathBuf::from(next);
    // What an apply left that failed half way.
    let _ = fs::remove_file(&next);
    // A link is made whatever the size; some file systems have none.
    fs::hard_link(from, &next).or_else(|_| fs::copy(from, &next).map(drop))?;
    // A rename of a file over itself does nothing and leaves both.
    fs::rename(&next, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_take_turns_and_stay_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for (name, text) in [("conf", "old"), ("conf.more", "more"), ("conf.fewer", "fewer")] {
            fs::write(path(name), text).unwrap();
        }
        for (from, expected) in [("conf.more", "more"), ("conf.more", "more"), ("conf.fewer", "fewer")] {
            put(&path(from), &path("conf")).unwrap();
            assert_eq!(fs::read_to_string(path("conf")).unwrap(), expected);
        }
        assert_eq!(fs::read_to_string(path("conf.more")).unwrap(), "more", "what was prepared stays");
        put(&path("conf.more"), &path("conf")).unwrap();
        assert_eq!(fs::read_to_string(path("conf")).unwrap(), "more", "and can be applied again");
        assert!(put(&path("absent"), &path("conf")).is_err());
        assert_eq!(fs::read_to_string(path("conf")).unwrap(), "more");
    }
}
