//! The steps of a driver or service other than files and processes: messages, requests, manifests.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::form::{KubeApi, KubeService, OwnKubeApi, Place, Step};
use super::publish::Publication;
use super::templates::Templates;
use super::{misnamed, wrong};
use crate::http::{self, Asked, Sent};
use crate::{Certificates, Credentials, Namespace, RigError};

/// Default timeout of the step `kube_wait`.
const PATIENCE: Duration = Duration::from_secs(30);

/// Timeout of the response to the request of a step.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// The pause before a request is repeated.
const SEND_AGAIN: Duration = Duration::from_millis(20);

/// Maximum characters of an unexpected response in an error.
const BODY_SHOWN: usize = 300;

/// An action, and when it is due.
#[derive(Clone, Debug)]
pub struct Action {
    /// The number of processes that are launched before it.
    pub after: usize,
    /// The operation.
    pub what: Act,
}

/// An operation of an action.
#[derive(Clone, Debug)]
pub enum Act {
    /// Publishes messages to NATS.
    Publish(Publication),
    /// Sends a request.
    Request(Box<StepRequest>),
    /// Applies manifests to a Kubernetes API.
    Apply(KubeAccess, Vec<Value>),
    /// Waits for an object of a Kubernetes API.
    Await(KubeAccess, AwaitedObject),
}

/// The request of a step.
#[derive(Clone, Debug)]
pub struct StepRequest {
    place: String,
    address: SocketAddr,
    host: String,
    method: String,
    path: String,
    content_type: String,
    body: String,
    status: u16,
    /// How long the request is repeated until it gets that status.
    patience: Duration,
    credentials: Credentials,
}

/// How to reach a Kubernetes API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KubeAccess {
    /// By the outputs of a service.
    Service(String),
    /// By this address and these files.
    Own(KubeEndpoint),
}

/// A Kubernetes API and the files for it, PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeEndpoint {
    /// Its address.
    pub address: SocketAddr,
    /// The certificate of its authority.
    pub ca: PathBuf,
    /// The client's certificate.
    pub certificate: PathBuf,
    /// The key of that certificate.
    pub key: PathBuf,
}

/// An object of a Kubernetes API for which a step waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwaitedObject {
    /// Group and version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The namespace.
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
    /// The condition that must be `True`; `None` if the object only has to exist.
    pub condition: Option<String>,
    /// Timeout.
    pub patience: Duration,
}

/// The values that the rig passes to actions.
pub(super) struct ActionContext<'a> {
    /// The path of the file with these steps, for errors.
    pub(super) place: &'a str,
    pub(super) templates: &'a Templates<'a>,
    pub(super) certificates: Option<&'a Certificates>,
    /// An address by its name; `None` if nothing will listen there.
    pub(super) address: &'a dyn Fn(&str) -> Option<SocketAddr>,
    /// The messages of the step `nats_publish`.
    pub(super) publication: &'a dyn Fn(&Step) -> Result<Option<Publication>, RigError>,
}

impl StepRequest {
    /// Sends it to its address, in `namespace` or on the host.
    ///
    /// # Errors
    /// [`RigError::Launch`] if the response has another status, or the request fails.
    pub fn send(&self, namespace: Option<&Namespace>) -> Result<(), RigError> {
        let deadline = Instant::now() + self.patience;
        loop {
            let Err(why) = self.try_send(namespace) else { return Ok(()) };
            if Instant::now() >= deadline {
                let Self { place, address, method, path, .. } = self;
                let message = format!("{method} {path} at {address}: {why}");
                return Err(RigError::Launch { part: place.clone(), message });
            }
            thread::sleep(SEND_AGAIN);
        }
    }

    /// Sends it once; the error describes the unexpected response.
    fn try_send(&self, namespace: Option<&Namespace>) -> Result<(), String> {
        let Self { address, host, method, path, content_type, body, status, .. } = self;
        let (asked, sent) = (Asked { host, path }, Sent { method, content_type, body });
        match http::send(&self.credentials, namespace, *address, asked, sent, RESPONSE_TIMEOUT) {
            Ok(answer) if answer.status == *status => Ok(()),
            Ok(answer) => {
                let body: String = answer.body.chars().take(BODY_SHOWN).collect();
                Err(format!("status {}, not {status}: {}", answer.status, body.trim_end()))
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

impl ActionContext<'_> {
    /// The actions of `steps`, in their order.
    pub(super) fn actions(&self, steps: &[Step]) -> Result<Vec<Action>, RigError> {
        let mut after = 0;
        let mut actions = Vec::new();
        for step in steps {
            if matches!(step, Step::Start(_)) {
                after += 1;
            }
            actions.extend(self.act(step)?.map(|what| Action { after, what }));
        }
        Ok(actions)
    }

    fn act(&self, step: &Step) -> Result<Option<Act>, RigError> {
        Ok(match step {
            Step::NatsPublish { .. } => (self.publication)(step)?.map(Act::Publish),
            Step::Http { on, method, path, host, template, content_type, status, patience, tls } => {
                let address = self.place_of("http", on)?;
                let request = StepRequest {
                    place: self.place.to_owned(),
                    address,
                    host: host
                        .as_ref()
                        .map_or(Ok(address.to_string()), |host| self.templates.text("http", host))?,
                    method: method.clone(),
                    path: self.templates.text("http", path)?,
                    content_type: content_type.clone().unwrap_or_default(),
                    body: template.as_ref().map_or(Ok(String::new()), |name| self.templates.file(name))?,
                    status: *status,
                    patience: patience.map_or(Duration::ZERO, |time| time.0),
                    credentials: credentials(self.certificates, *tls),
                };
                Some(Act::Request(Box::new(request)))
            }
            Step::KubeApply { api, template } => {
                let manifests = manifests(template, &self.templates.file(template)?)?;
                let access = self.access("kube_apply", api)?;
                (!manifests.is_empty()).then_some(Act::Apply(access, manifests))
            }
            Step::KubeWait { api, api_version, kind, namespace, name, condition, patience } => {
                let text = |text: &String| self.templates.text("kube_wait", text);
                let awaited = AwaitedObject {
                    api_version: text(api_version)?,
                    kind: text(kind)?,
                    namespace: namespace.as_ref().map(text).transpose()?,
                    name: text(name)?,
                    condition: condition.as_ref().map(text).transpose()?,
                    patience: patience.map_or(PATIENCE, |time| time.0),
                };
                Some(Act::Await(self.access("kube_wait", api)?, awaited))
            }
            Step::Render { .. } | Step::Start(_) | Step::Wait(_) | Step::Certificate { .. } => None,
        })
    }

    /// How to reach the API.
    pub(super) fn access(&self, step: &str, api: &KubeApi) -> Result<KubeAccess, RigError> {
        access(self.place, step, api, self.certificates, self.address)
    }

    fn place_of(&self, step: &str, on: &Place) -> Result<SocketAddr, RigError> {
        place_of(self.place, step, on, self.address)
    }
}

/// How to reach a Kubernetes API; `place` and `step` are for errors.
pub(super) fn access(
    place: &str,
    step: &str,
    api: &KubeApi,
    certificates: Option<&Certificates>,
    address: &dyn Fn(&str) -> Option<SocketAddr>,
) -> Result<KubeAccess, RigError> {
    let OwnKubeApi { on, client } = match api {
        KubeApi::Service(KubeService { service }) => return Ok(KubeAccess::Service(service.clone())),
        KubeApi::Own(own) => own,
    };
    let Some(made) = certificates else {
        let message = format!("`{step}`: the gateway's own Kubernetes API needs certificates");
        return Err(wrong(place, &message, "set `topology.tls: true` in the scenario"));
    };
    let (certificate, key) = match client {
        None => (made.client.clone(), made.client_key.clone()),
        Some(name) => match made.clients.get(name) {
            Some(files) => (files.certificate.clone(), files.key.clone()),
            None => {
                let known = made.clients.keys().map(String::as_str);
                let message = format!("`{step}`: no certificate for the client `{name}`");
                return Err(misnamed(place, &message, name, known));
            }
        },
    };
    let address = place_of(place, step, on, address)?;
    Ok(KubeAccess::Own(KubeEndpoint { address, ca: made.ca.clone(), certificate, key }))
}

fn place_of(
    place: &str,
    step: &str,
    on: &Place,
    address: &dyn Fn(&str) -> Option<SocketAddr>,
) -> Result<SocketAddr, RigError> {
    address(&on.0).ok_or_else(|| {
        wrong(place, &format!("`{step}`: nothing listens at `{}`", on.0), "name one of the addresses")
    })
}

/// The credentials of the rig's client for an address; `tls` is whether it speaks TLS.
pub(super) fn credentials(certificates: Option<&Certificates>, tls: bool) -> Credentials {
    Credentials { certificates: certificates.filter(|_| tls).cloned(), shows_certificate: tls, token: None }
}

/// The manifests of a rendered template.
pub(super) fn manifests(template: &str, text: &str) -> Result<Vec<Value>, RigError> {
    let read = |part: &weir_document::StreamPart<'_>| Ok(weir_document::read(template, part.text)?);
    weir_document::documents(text).iter().map(read).collect()
}

/// The addresses that a step names.
pub(super) fn places(step: &Step) -> Option<&Place> {
    match step {
        Step::Http { on, .. } => Some(on),
        Step::KubeApply { api: KubeApi::Own(own), .. } | Step::KubeWait { api: KubeApi::Own(own), .. } => {
            Some(&own.on)
        }
        _ => None,
    }
}
