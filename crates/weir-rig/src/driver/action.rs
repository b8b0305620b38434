//! The steps of a driver or service that write no file and start no process: messages, requests, manifests.

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

/// Timeout of each request that a step sends.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// The pause between a failed request and its retry.
const SEND_AGAIN: Duration = Duration::from_millis(20);

/// Maximum number of characters that an error quotes from an unexpected response.
const BODY_SHOWN: usize = 300;

/// A step that the caller of the rig executes, and when to execute it.
#[derive(Clone, Debug)]
pub struct Action {
    /// The number of processes that must be launched before this action.
    pub after: usize,
    /// What to do.
    pub what: Act,
}

/// What an [`Action`] does.
#[derive(Clone, Debug)]
pub enum Act {
    /// Publishes messages to NATS.
    Publish(Publication),
    /// Sends a request.
    Request(Box<StepRequest>),
    /// Applies manifests to a Kubernetes API.
    Apply(KubeAccess, Vec<Value>),
    /// Waits until an object of a Kubernetes API exists, or meets a condition.
    Await(KubeAccess, AwaitedObject),
}

/// The HTTP request of a step `http`.
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
    /// For at most this time, the request is repeated until the response has the status `status`. If zero, it is sent
    /// once.
    patience: Duration,
    credentials: Credentials,
}

/// How to reach a Kubernetes API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KubeAccess {
    /// The API of the service with this name. The outputs of the service contain address and credentials.
    Service(String),
    /// The API that the gateway or service serves itself: its address and the PEM files to connect to it.
    Own(KubeEndpoint),
}

/// The address of a Kubernetes API, and the PEM files to connect to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeEndpoint {
    /// The address of the API server.
    pub address: SocketAddr,
    /// The certificate of the CA that signed the server's certificate.
    pub ca: PathBuf,
    /// The client certificate.
    pub certificate: PathBuf,
    /// The private key of the client certificate.
    pub key: PathBuf,
}

/// An object of a Kubernetes API for which a step waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwaitedObject {
    /// API group and version, such as `apps/v1`.
    pub api_version: String,
    /// The kind of the object.
    pub kind: String,
    /// The namespace of the object; `None` for the default namespace, and for kinds without namespaces.
    pub namespace: Option<String>,
    /// The name of the object.
    pub name: String,
    /// The condition that must be `True`; `None` if the object only has to exist.
    pub condition: Option<String>,
    /// How long the step waits for the object.
    pub patience: Duration,
}

/// The values that are needed to convert steps to [`Action`]s.
pub(super) struct ActionContext<'a> {
    /// The path of the `driver.yaml` or `service.yaml` with the steps, for errors.
    pub(super) place: &'a str,
    pub(super) templates: &'a Templates<'a>,
    pub(super) certificates: Option<&'a Certificates>,
    /// Returns the address with a name such as `listen`; `None` if no process will listen on it.
    pub(super) address: &'a dyn Fn(&str) -> Option<SocketAddr>,
    /// Returns the messages of a step `nats_publish`.
    pub(super) publication: &'a dyn Fn(&Step) -> Result<Option<Publication>, RigError>,
}

impl StepRequest {
    /// Sends the request from `namespace`, or from the host's network. Repeats it until the response has the expected
    /// status, or the step's `patience` is over.
    ///
    /// # Errors
    /// [`RigError::Launch`] if the last response has another status, or the last request fails.
    pub fn send(&self, namespace: Option<&Namespace>) -> Result<(), RigError> {
        let deadline = Instant::now() + self.patience;
        loop {
            let Err(why) = self.try_send(namespace) else { return Ok(()) };
            if Instant::now() >= deadline {
                let Self { place, address, method, path, .. } = self;
                let message = format!("`http`: {method} {path} at {address}: {why}");
                return Err(RigError::Launch { part: place.clone(), message });
            }
            thread::sleep(SEND_AGAIN);
        }
    }

    /// Sends the request once; the error describes the unexpected response.
    fn try_send(&self, namespace: Option<&Namespace>) -> Result<(), String> {
        let Self { address, host, method, path, content_type, body, status, .. } = self;
        let (asked, sent) = (Asked { host, path }, Sent { method, content_type, body });
        match http::send(&self.credentials, namespace, *address, asked, sent, RESPONSE_TIMEOUT) {
            Ok(answer) if answer.status == *status => Ok(()),
            Ok(answer) => {
                let body: String = answer.body.chars().take(BODY_SHOWN).collect();
                Err(format!("status {} instead of {status}: {}", answer.status, body.trim_end()))
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

impl ActionContext<'_> {
    /// The actions of `steps`, in the same order.
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

    /// How to reach the Kubernetes API `api`. Errors name the step `step`.
    pub(super) fn access(&self, step: &str, api: &KubeApi) -> Result<KubeAccess, RigError> {
        access(self.place, step, api, self.certificates, self.address)
    }

    fn place_of(&self, step: &str, on: &Place) -> Result<SocketAddr, RigError> {
        place_of(self.place, step, on, self.address)
    }
}

/// How to reach the Kubernetes API `api`. Errors name the file `place` and the step `step`.
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
        let message = format!("`{step}`: unknown address in `on: {}`", on.0);
        wrong(place, &message, "use `listen`, `admin` or a name in `addresses`")
    })
}

/// The credentials of the rig's own requests: the client certificate if `tls` is set, otherwise none.
pub(super) fn credentials(certificates: Option<&Certificates>, tls: bool) -> Credentials {
    Credentials { certificates: certificates.filter(|_| tls).cloned(), shows_certificate: tls, token: None }
}

/// Parses the manifests in `text`, the result of rendering the template `template`.
pub(super) fn manifests(template: &str, text: &str) -> Result<Vec<Value>, RigError> {
    let read = |part: &weir_document::StreamPart<'_>| Ok(weir_document::read(template, part.text)?);
    weir_document::documents(text).iter().map(read).collect()
}

/// The name of the address that a step uses, if any.
pub(super) fn places(step: &Step) -> Option<&Place> {
    match step {
        Step::Http { on, .. } => Some(on),
        Step::KubeApply { api: KubeApi::Own(own), .. } | Step::KubeWait { api: KubeApi::Own(own), .. } => {
            Some(&own.on)
        }
        _ => None,
    }
}
