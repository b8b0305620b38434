//! Services: processes that gateways need, such as a message bus. Each has a folder, like a driver.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use weir_results::Role;

use super::action::{Action, ActionContext, KubeAccess, places};
use super::counters::CounterSource;
use super::form::{BinaryFile, CountersFile, KubeApi, OwnKubeApi, Place, ProcessFile, Step};
use super::render::{ProcessContext, inside, made, rendered_process, started, written};
use super::templates::Templates;
use super::{Binary, Programs, SERVICE_FILE, check_order, misnamed, wrong};
use crate::certificates::LOCAL_NAMES;
use crate::{Certificates, Limits, Namespace, ProcessSpec, RigError};

/// A service: a program that gateways need, such as a message bus. Values marked as templates can use `dir`, `binary`,
/// `binaries['NAME']`, `set.NAME`, `tls` and the addresses.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceFile {
    /// The service, in a few words.
    pub about: String,
    /// Programs of the service. If there are several, each process names its program in `binary`.
    pub binaries: Vec<BinaryFile>,
    /// Names of the addresses of the service. In templates, `NAME` is the IP address with the port, `NAME_ip` only the
    /// IP address, and `NAME_port` only the port.
    pub addresses: Vec<String>,
    /// Processes of the service, with the role `service`.
    pub processes: Vec<ProcessFile>,
    /// Settings for the data that exists before the load, with their defaults. A scenario can change them with
    /// `origin.prepare`.
    #[serde(default)]
    pub settings: BTreeMap<String, Value>,
    /// Steps that start the service, in order. `nats_publish` is not allowed.
    pub steps: Vec<Step>,
    /// Values that drivers can use, as a map from names to templates. Templates of drivers refer to them as
    /// `services.NAME.OUTPUT`.
    #[serde(default)]
    pub outputs: BTreeMap<String, String>,
    /// How the service serves as upstream, if it can (`origin: { service: NAME }` in a scenario).
    pub origin: Option<ServiceOriginFile>,
}

/// A service as upstream. It uses TLS, so it needs a step `certificate`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceOriginFile {
    /// Name of the address to which requests are sent.
    pub on: Place,
    /// Where weir reads how many requests the service has received.
    pub counters: Option<CountersFile>,
    /// How weir creates the tokens of `topology.bearer`, if the service authenticates with tokens.
    pub tokens: Option<TokensFile>,
}

/// Service accounts whose tokens weir creates for `topology.bearer`, one account per token.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokensFile {
    /// Kubernetes API that creates the tokens.
    pub api: OwnKubeApi,
    /// Namespace of the service accounts.
    pub namespace: String,
    /// Prefix of the names of the service accounts; a number follows. In templates, `accounts` lists all names.
    pub account: String,
}

/// A service, read from its folder.
#[derive(Clone, Debug)]
pub struct Service {
    name: String,
    /// The path of its `service.yaml`, for errors.
    place: String,
    file: ServiceFile,
    templates: BTreeMap<String, String>,
}

/// The values with which the templates of a service are rendered.
#[derive(Clone, Debug)]
pub struct ServiceBinding {
    /// An address for each name in [`ServiceFile::addresses`].
    pub addresses: BTreeMap<String, SocketAddr>,
    /// The binaries of the service, by name.
    pub binaries: BTreeMap<String, Binary>,
    /// Limits of each process.
    pub limits: Limits,
    /// The role of the processes: `service`, or `origin` if the service is the upstream.
    pub role: Role,
    /// Additional host names in the service's certificate.
    pub hosts: Vec<String>,
    /// Settings that the scenario overrides.
    pub set: BTreeMap<String, Value>,
    /// Number of bearer tokens that the clients need.
    pub tokens: u32,
}

/// The result of rendering a service.
#[derive(Clone, Debug)]
pub struct RenderedService {
    /// The paths of the files that were written.
    pub files: Vec<PathBuf>,
    /// The processes, in launch order.
    pub processes: Vec<ProcessSpec>,
    /// The values that the service offers to drivers, by name.
    pub outputs: BTreeMap<String, String>,
    /// The steps that neither write a file nor launch a process.
    pub actions: Vec<Action>,
    /// The service as upstream; `None` if it cannot serve as the upstream.
    pub origin: Option<ServiceOrigin>,
}

/// A service as the upstream.
#[derive(Clone, Debug)]
pub struct ServiceOrigin {
    /// The address to which requests are sent.
    pub address: SocketAddr,
    /// Where to read the request counters.
    pub counters: CounterSource,
    /// The certificates of the service, including a client certificate; `None` if the service creates none.
    pub certificates: Option<Certificates>,
    /// How weir creates tokens for clients; `None` if the service does not support tokens.
    pub tokens: Option<Tokens>,
}

/// How weir creates tokens for clients.
#[derive(Clone, Debug)]
pub struct Tokens {
    /// The Kubernetes API that creates the tokens.
    pub api: KubeAccess,
    /// The namespace of the service accounts.
    pub namespace: String,
    /// The names of the service accounts, one for each token.
    pub accounts: Vec<String>,
}

impl Service {
    /// The name of the service, which is the name of its folder.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The parsed `service.yaml`.
    pub fn file(&self) -> &ServiceFile {
        &self.file
    }

    pub(super) fn folder(&self) -> &str {
        self.place.trim_end_matches(SERVICE_FILE)
    }

    pub(super) fn templates(&self) -> &BTreeMap<String, String> {
        &self.templates
    }

    pub(super) fn read(
        name: &str,
        place: &str,
        mut files: BTreeMap<String, String>,
    ) -> Result<Self, RigError> {
        let place = format!("{place}/{SERVICE_FILE}");
        let text = files.remove(SERVICE_FILE).unwrap_or_default();
        let file: ServiceFile = weir_document::read(&place, &text)?;
        let service = Self { name: name.to_owned(), place, file, templates: files };
        service.check()?;
        Ok(service)
    }

    fn check(&self) -> Result<(), RigError> {
        let file = &self.file;
        if file.binaries.is_empty() {
            return Err(self.wrong("the service has no binary", "add one to `binaries`"));
        }
        for step in &file.steps {
            match step {
                Step::NatsPublish { .. } => {
                    let message = "a service cannot use the step `nats_publish`";
                    return Err(self.wrong(
                        message,
                        "move the step to the driver of the gateway that needs the service",
                    ));
                }
                Step::KubeApply { api: KubeApi::Service(_), .. }
                | Step::KubeWait { api: KubeApi::Service(_), .. } => {
                    let message =
                        format!("`{}`: a service cannot use the API of another service", step.name());
                    return Err(self.wrong(&message, "use an address of this service: `api: { on: NAME }`"));
                }
                _ => {}
            }
            if let Some(template) = step.template().filter(|template| !self.templates.contains_key(*template))
            {
                let known = self.templates.keys().map(String::as_str);
                return Err(self.unknown("template", template, known));
            }
        }
        let has_certificates = file.steps.iter().any(|step| matches!(step, Step::Certificate { .. }));
        if file.origin.is_some() && !has_certificates {
            return Err(self.wrong("`origin` needs a certificate", "add the step `certificate`"));
        }
        check_order(&file.steps, &file.processes)
            .map_err(|(message, remedy)| self.wrong(&message, remedy))?;
        let addresses: HashSet<&str> = file.addresses.iter().map(String::as_str).collect();
        let of_origin = file.origin.iter().flat_map(|origin| {
            let of_counters = origin.counters.iter().map(|counters| &counters.on);
            of_counters.chain([&origin.on]).chain(origin.tokens.iter().map(|tokens| &tokens.api.on))
        });
        let mut named = file.steps.iter().filter_map(places).chain(of_origin);
        if let Some(Place(name)) = named.find(|place| !addresses.contains(place.0.as_str())) {
            return Err(self.unknown("address", name, addresses.iter().copied()));
        }
        for process in &file.processes {
            if process.role != Role::Service {
                let message = format!("the process `{}` of a service has a wrong role", process.name);
                return Err(self.wrong(&message, "use `role: service`"));
            }
            if let Some(Place(name)) = process.places().find(|place| !addresses.contains(place.0.as_str())) {
                return Err(self.unknown("address", name, addresses.iter().copied()));
            }
            let names = || file.binaries.iter().map(|binary| binary.name.as_str());
            match &process.binary {
                Some(name) if !names().any(|known| known == name) => {
                    return Err(self.unknown("binary", name, names()));
                }
                None if file.binaries.len() > 1 => {
                    let message = format!(
                        "the process `{}` has no `binary`, but the service has several binaries",
                        process.name
                    );
                    return Err(self.wrong(&message, "add `binary` with the name of one of them"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn wrong(&self, message: &str, remedy: &str) -> RigError {
        wrong(&self.place, message, remedy)
    }

    fn unknown<'a>(&self, what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> RigError {
        misnamed(&self.place, &format!("no {what} `{name}`"), name, known)
    }

    /// Finds the binaries of the service, as [`crate::Driver::locate`] does.
    ///
    /// # Errors
    /// [`RigError::BinaryMissing`]; its remedy describes how to get the binary.
    pub fn locate(&self) -> Result<BTreeMap<String, Binary>, RigError> {
        self.locate_with(&Programs::default())
    }

    /// As [`Service::locate`], but a binary can also be in an image.
    ///
    /// # Errors
    /// [`RigError::BinaryMissing`]; [`RigError::EngineMissing`] and [`RigError::Image`] if an image cannot be used.
    pub fn locate_with(&self, programs: &Programs<'_>) -> Result<BTreeMap<String, Binary>, RigError> {
        let of = |file: &BinaryFile| Ok((file.name.clone(), programs.find(&self.name, file, None, None)?));
        self.file.binaries.iter().map(of).collect()
    }

    /// Searches for each binary of the service on this host. Returns for each binary its name, and the file that was
    /// found or an error.
    pub fn locate_each(&self) -> Vec<(String, Result<Binary, RigError>)> {
        let of = |file: &BinaryFile| (file.name.clone(), Binary::find(&self.name, file, None));
        self.file.binaries.iter().map(of).collect()
    }

    /// Writes the files of the service into `dir`, and returns how to launch it.
    ///
    /// # Errors
    /// [`RigError::Render`] or [`RigError::Driver`] for an invalid template; [`RigError::DiskFull`] or
    /// [`RigError::File`] if a file cannot be written.
    pub fn render(&self, binding: &ServiceBinding, dir: &Path) -> Result<RenderedService, RigError> {
        let dir = &made(dir)?;
        let to = self.file.steps.iter().find_map(|step| match step {
            Step::Certificate { to, clients, .. } => Some((to, clients)),
            _ => None,
        });
        let certificates = match to {
            Some((to, clients)) => {
                Some(Certificates::make_for(&inside(&self.place, dir, to)?, &binding.names(), clients)?)
            }
            None => None,
        };
        let templates = Templates::of_service(self, binding, certificates.as_ref(), dir)?;
        let (files, config_sha256) = written(&self.place, &self.file.steps, dir, &templates)?;
        let binary = |process: &ProcessFile| {
            let name = process.binary.as_ref().unwrap_or(&self.file.binaries[0].name);
            binding.binaries.get(name).cloned().unwrap_or_default()
        };
        let address = |name: &str| binding.addresses.get(name).copied();
        let limits = |_: Role| binding.limits;
        let context = ProcessContext {
            binary: &binary,
            dir,
            address: &address,
            limits: &limits,
            certificates: certificates.as_ref(),
            config_sha256,
        };
        let rendered = |process: &ProcessFile| {
            let rendered = rendered_process(process, process.name.clone(), &context, &templates)?;
            Ok(ProcessSpec { role: binding.role, ..rendered })
        };
        let processes =
            started(&self.file.steps, &self.file.processes).map(rendered).collect::<Result<_, RigError>>()?;
        let outputs = self.file.outputs.iter();
        let outputs = outputs.map(|(name, text)| Ok((name.clone(), templates.text(name, text)?)));
        let outputs = outputs.collect::<Result<_, RigError>>()?;
        let actions = ActionContext {
            place: &self.place,
            templates: &templates,
            certificates: certificates.as_ref(),
            address: &address,
            publication: &|_| Ok(None),
        };
        let origin = self.file.origin.as_ref().and_then(|origin| Some((origin, address(&origin.on.0)?)));
        let origin = origin.map(|(origin, address)| {
            let accounts = (1..=binding.tokens).filter_map(|number| self.account(number)).collect();
            let tokens = |file: &TokensFile| {
                let api = actions.access("tokens", &KubeApi::Own(file.api.clone()))?;
                Ok::<_, RigError>(Tokens { api, namespace: file.namespace.clone(), accounts })
            };
            Ok::<_, RigError>(ServiceOrigin {
                address,
                counters: context.counters(origin.counters.as_ref()),
                certificates: certificates.clone(),
                tokens: origin.tokens.as_ref().map(tokens).transpose()?,
            })
        });
        let actions = actions.actions(&self.file.steps)?;
        Ok(RenderedService { files, processes, outputs, actions, origin: origin.transpose()? })
    }

    /// The name of the service account `number`, counted from 1; `None` if the service does not support tokens.
    pub(super) fn account(&self, number: u32) -> Option<String> {
        let tokens = self.file.origin.as_ref()?.tokens.as_ref()?;
        Some(format!("{}{number}", tokens.account))
    }

    /// Whether a step uses a Kubernetes API.
    pub fn uses_kubernetes(&self) -> bool {
        self.file.steps.iter().any(Step::uses_kubernetes)
    }
}

impl ServiceBinding {
    /// The names in the service's certificate: the names of this host, the IPs of the service's addresses, and `hosts`.
    fn names(&self) -> Vec<String> {
        let addresses = self.addresses.values().map(|address| address.ip().to_string());
        let local = LOCAL_NAMES.map(str::to_owned);
        local.into_iter().chain(addresses).chain(self.hosts.iter().cloned()).collect()
    }
}

impl RenderedService {
    /// Sets the network namespace in which the processes run and the counters are read. The addresses of the
    /// [`ServiceBinding`] exist in this namespace. `None` is the namespace of the host.
    #[must_use]
    pub fn within(mut self, namespace: Option<&Namespace>) -> Self {
        for process in &mut self.processes {
            process.namespace = namespace.cloned();
        }
        if let Some(origin) = &mut self.origin {
            origin.counters = origin.counters.clone().within(namespace);
        }
        self
    }
}
