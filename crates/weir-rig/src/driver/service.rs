//! Services: processes that gateways need, such as a message bus. A folder each, as of drivers.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use weir_results::Role;

use super::form::{BinaryFile, Place, ProcessFile, Step};
use super::render::{ProcessContext, inside, made, rendered_process, started, written};
use super::templates::Templates;
use super::{Binary, SERVICE_FILE, check_order, misnamed, wrong};
use crate::{Certificates, Limits, Namespace, ProcessSpec, RigError};

/// A service's file.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceFile {
    /// What it is, in a few words.
    pub about: String,
    /// Its binaries.
    pub binaries: Vec<BinaryFile>,
    /// The names of its addresses. Templates find each as `NAME`, `NAME_ip` and `NAME_port`.
    pub addresses: Vec<String>,
    /// The processes, of the role `service`.
    pub processes: Vec<ProcessFile>,
    /// What is done to get it running, in order: `certificate`, `render`, `start`, `wait`.
    pub steps: Vec<Step>,
    /// What templates of gateways and scenarios find in `services.NAME`, each a template.
    #[serde(default)]
    pub outputs: BTreeMap<String, String>,
}

/// One service.
#[derive(Clone, Debug)]
pub struct Service {
    name: String,
    /// The path of its file, for errors.
    place: String,
    file: ServiceFile,
    templates: BTreeMap<String, String>,
}

/// A service: its addresses, binaries and limits.
#[derive(Clone, Debug, Default)]
pub struct ServiceBinding {
    /// Every address of [`ServiceFile::addresses`].
    pub addresses: BTreeMap<String, SocketAddr>,
    /// Every binary, by name.
    pub binaries: BTreeMap<String, Binary>,
    /// Limits of each process.
    pub limits: Limits,
}

/// The result of rendering a service.
#[derive(Clone, Debug)]
pub struct RenderedService {
    /// The written files.
    pub files: Vec<PathBuf>,
    /// The processes, in launch order.
    pub processes: Vec<ProcessSpec>,
    /// Its outputs, by name.
    pub outputs: BTreeMap<String, String>,
}

impl Service {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its file.
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
                Step::Certificate { .. } | Step::Start(_) | Step::Wait(_) => {}
                Step::Render { template, .. } if self.templates.contains_key(template) => {}
                Step::Render { template, .. } => {
                    let known = self.templates.keys().map(String::as_str);
                    return Err(self.unknown("template", template, known));
                }
                other => {
                    let what = format!("the step `{}` of a service", other.name());
                    return Err(RigError::NotYetServed { place: self.place.clone(), what });
                }
            }
        }
        check_order(&file.steps, &file.processes)
            .map_err(|(message, remedy)| self.wrong(&message, remedy))?;
        let addresses: HashSet<&str> = file.addresses.iter().map(String::as_str).collect();
        for process in &file.processes {
            if process.role != Role::Service {
                let message = format!("the process `{}` of a service has another role", process.name);
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
                        "the process `{}` has no `binary`, and the service has several",
                        process.name
                    );
                    return Err(self.wrong(&message, "name one of them"));
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

    /// Finds its binaries, as a driver finds its own.
    ///
    /// # Errors
    /// [`RigError::BinaryMissing`], which says how to get it.
    pub fn locate(&self) -> Result<BTreeMap<String, Binary>, RigError> {
        let of = |file: &BinaryFile| Ok((file.name.clone(), Binary::find(&self.name, file, None)?));
        self.file.binaries.iter().map(of).collect()
    }

    /// Writes its files into `dir`, and returns how to launch it.
    ///
    /// # Errors
    /// [`RigError::Render`] or [`RigError::Driver`] for an invalid template; [`RigError::DiskFull`] or
    /// [`RigError::File`] if a file cannot be written.
    pub fn render(&self, binding: &ServiceBinding, dir: &Path) -> Result<RenderedService, RigError> {
        let dir = &made(dir)?;
        let to = self.file.steps.iter().find_map(|step| match step {
            Step::Certificate { to } => Some(to),
            _ => None,
        });
        let certificates = match to {
            Some(to) => Some(Certificates::make(&inside(&self.place, dir, to)?, &[])?),
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
        let context =
            ProcessContext { binary: &binary, dir, address: &address, limits: &limits, config_sha256 };
        let processes = started(&self.file.steps, &self.file.processes)
            .map(|process| rendered_process(process, process.name.clone(), &context, &templates))
            .collect::<Result<_, _>>()?;
        let outputs = self.file.outputs.iter();
        let outputs = outputs.map(|(name, text)| Ok((name.clone(), templates.text(name, text)?)));
        Ok(RenderedService { files, processes, outputs: outputs.collect::<Result<_, RigError>>()? })
    }
}

impl RenderedService {
    /// The same processes in `namespace`, which has the addresses of the binding; `None` is the host.
    #[must_use]
    pub fn within(mut self, namespace: Option<&Namespace>) -> Self {
        for process in &mut self.processes {
            process.namespace = namespace.cloned();
        }
        self
    }
}
