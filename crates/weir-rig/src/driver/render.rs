//! Renders the templates of a driver for a gateway or an upstream.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use minijinja::context;
use weir_document::Problem;
use weir_results::Role;

use super::action::{Act, Action, ActionContext, credentials};
use super::binding::{Binding, OriginBinding};
use super::counters::CounterSource;
use super::publish::Publication;
use super::templates::Templates;
use super::{Binary, CountersFile, Driver, Place, ProcessFile, ReadyFile, Serves, Step, wrong};
use crate::digest::Digest;
use crate::{Certificates, Credentials, Limits, Namespace, ProcessSpec, Ready, RigError};

const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// The result of rendering a driver.
#[derive(Clone, Debug)]
pub struct Rendered {
    /// The paths of the files that were written.
    pub files: Vec<PathBuf>,
    /// SHA-256 of the names and contents of `files`, in hexadecimal digits.
    pub config_sha256: String,
    /// The processes, in launch order.
    pub processes: Vec<ProcessSpec>,
    /// Where to read the request counters.
    pub counters: CounterSource,
    /// The credentials for requests to the gateway.
    pub credentials: Credentials,
    /// Differences between the configurations of this gateway and other gateways, as sentences for the report.
    pub unequal: Vec<String>,
    /// The steps that neither write a file nor launch a process.
    pub actions: Vec<Action>,
}

/// The values with which the processes of a driver or service are rendered.
pub(super) struct ProcessContext<'a> {
    pub(super) binary: &'a dyn Fn(&ProcessFile) -> Binary,
    pub(super) dir: &'a Path,
    /// Returns the address with a name such as `listen`; `None` if no process will listen on it.
    pub(super) address: &'a dyn Fn(&str) -> Option<SocketAddr>,
    pub(super) limits: &'a dyn Fn(Role) -> Limits,
    pub(super) certificates: Option<&'a Certificates>,
    pub(super) config_sha256: String,
}

impl Driver {
    /// Writes the gateway's files into `dir`, and returns how to launch it.
    ///
    /// # Errors
    /// [`RigError::Render`] or [`RigError::Driver`] for an invalid template, setting or topology;
    /// [`RigError::DiskFull`] or [`RigError::File`] if a file cannot be written.
    pub fn render(&self, binding: &Binding, dir: &Path) -> Result<Rendered, RigError> {
        self.check_topology(binding)?;
        self.require(&binding.wants())?;
        let dir = &made(dir)?;
        let certificates = self.certificates(binding, dir)?;
        let templates = Templates::of_gateway(self, binding, certificates.as_ref(), dir)?;
        let (files, config_sha256) = written(&self.place, &self.file.steps, dir, &templates)?;
        let mut unequal = Vec::new();
        for text in &self.file.unequal {
            unequal.extend(Some(templates.text("unequal", text)?).filter(|text| !text.is_empty()));
        }
        let mut admin = Some(binding.admin);
        if let Some(own) = &binding.config {
            unequal.extend(self.lint(own, &templates)?);
            if !self.has_admin(own)? {
                admin = None;
            }
            if admin.is_none() && self.file.counters.is_some() {
                unequal.push(
                    "the configuration does not listen on {{ admin }}, so weir cannot read the gateway's request counters"
                        .into(),
                );
            }
        }
        let limits = |role: Role| binding.limits.get(&role).copied().unwrap_or_default();
        let binary = |_: &ProcessFile| binding.binary.clone();
        let address = |name: &str| match name {
            Place::ADMIN => admin,
            name => binding.address(name),
        };
        let context = ProcessContext {
            binary: &binary,
            dir,
            address: &address,
            limits: &limits,
            certificates: certificates.as_ref(),
            config_sha256: config_sha256.clone(),
        };
        let processes = started(&self.file.steps, &self.file.processes)
            .map(|process| rendered_process(process, process.name.clone(), &context, &templates))
            .collect::<Result<_, _>>()?;
        let actions = ActionContext {
            place: &self.place,
            templates: &templates,
            certificates: certificates.as_ref(),
            address: &address,
            publication: &|step| self.publication(step, binding, &templates),
        };
        let actions = actions.actions(&self.file.steps)?;
        let counters = context.counters(self.file.counters.as_ref());
        let credentials = Credentials {
            certificates,
            shows_certificate: binding.tls.is_some_and(|tls| tls.client_certificate),
            token: binding.tokens.first().cloned(),
        };
        Ok(Rendered { files, config_sha256, processes, counters, credentials, unequal, actions })
    }

    /// Checks that the driver supports all features in `wants`.
    ///
    /// # Errors
    /// [`RigError::Driver`], which names the field of the scenario that requires a missing feature.
    pub fn require(&self, wants: &[Serves]) -> Result<(), RigError> {
        match wants.iter().find(|want| !self.file.serves.contains(want)) {
            None => Ok(()),
            Some(want) => {
                let (field, name) = (want.field(), want.name());
                let message = format!("its driver does not support `{field}`");
                let remedy = format!(
                    "remove the gateway or `{field}`, or extend the driver and add `serves: [{name}]` (docs/drivers.md)"
                );
                Err(RigError::Driver(Problem::of(format!("gateway `{}`", self.name), message).help(remedy)))
            }
        }
    }

    /// The certificates of a topology with TLS: existing ones from `binding`, or new ones in the folder that the step
    /// `certificate` names. `None` without TLS.
    fn certificates(&self, binding: &Binding, dir: &Path) -> Result<Option<Certificates>, RigError> {
        let to = self.file.steps.iter().find_map(|step| match step {
            Step::Certificate { to, clients, addresses } => Some((to, clients, *addresses)),
            _ => None,
        });
        let (Some((to, clients, addresses)), Some(tls)) = (to, binding.tls) else { return Ok(None) };
        if binding.certificates.is_some() {
            return Ok(binding.certificates.clone());
        }
        let to = inside(&self.place, dir, to)?;
        match tls.certificate_each {
            true => Certificates::make_each(&to, &binding.hosts).map(Some),
            false => {
                let own = [binding.listen.ip().to_string()].into_iter().filter(|_| addresses);
                let hosts: Vec<String> = binding.hosts.iter().cloned().chain(own).collect();
                Certificates::make_for(&to, &hosts, clients).map(Some)
            }
        }
    }

    /// Writes the files of an upstream into `dir`, and returns how to launch it.
    ///
    /// # Errors
    /// As [`Driver::render`]; also [`RigError::Driver`] if the driver cannot serve as the upstream.
    pub fn render_origin(&self, binding: &OriginBinding, dir: &Path) -> Result<Rendered, RigError> {
        let Some(origin) = &self.file.origin else {
            let message = "the driver cannot serve as the upstream";
            return Err(
                self.wrong(message, "add `origin` to the driver, or use another driver for the origin")
            );
        };
        let dir = &made(dir)?;
        let templates = Templates::of_origin(self, binding, dir)?;
        let (files, config_sha256) = written(&self.place, &origin.steps, dir, &templates)?;
        let binary = |_: &ProcessFile| binding.binary.clone();
        let address = |name: &str| Some(if name == Place::LISTEN { binding.listen } else { binding.admin });
        let limits = |_: Role| binding.limits;
        let context = ProcessContext {
            binary: &binary,
            dir,
            address: &address,
            limits: &limits,
            certificates: None,
            config_sha256: config_sha256.clone(),
        };
        let name = |process: &ProcessFile| match origin.processes.len() {
            1 => binding.name.clone(),
            _ => format!("{}-{}", binding.name, process.name),
        };
        let processes = started(&origin.steps, &origin.processes)
            .map(|process| rendered_process(process, name(process), &context, &templates))
            .collect::<Result<_, _>>()?;
        let counters = context.counters(origin.counters.as_ref());
        Ok(Rendered {
            files,
            config_sha256,
            processes,
            counters,
            credentials: Credentials::default(),
            unequal: Vec::new(),
            actions: Vec::new(),
        })
    }

    /// Rejects hosts and paths with a character that has a special meaning in the configuration language of any
    /// gateway. So an accepted topology is valid for all gateways. Also rejects a topology without paths or without
    /// upstream.
    pub(super) fn check_topology(&self, binding: &Binding) -> Result<(), RigError> {
        let wrong = |what: &str, value: &str, remedy: &str| {
            let message = format!("{what} `{value}` is invalid for some gateways");
            RigError::Driver(Problem::of(format!("gateway `{}`", self.name), message).help(remedy))
        };
        let plain = |text: &str, extra: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || extra.contains(c))
        };
        if let Some(host) = binding.hosts.iter().find(|host| !plain(host, "-._")) {
            return Err(wrong("the host", host, "use letters, digits, hyphens and dots"));
        }
        let is_path = |path: &str| path.starts_with('/') && plain(path, "/-._~!*+,=:@");
        if let Some(path) = binding.paths.iter().chain(&binding.rewrite).find(|path| !is_path(path)) {
            return Err(wrong("the path", path, "start with a slash; use letters, digits and /-._~!*+,=:@"));
        }
        if binding.paths.is_empty() || binding.origins.is_empty() {
            let what = if binding.paths.is_empty() { "paths" } else { "origins" };
            let message = format!("the topology has no {what}");
            let problem = Problem::of(format!("gateway `{}`", self.name), message);
            return Err(RigError::Driver(problem.help("add at least one to the scenario")));
        }
        Ok(())
    }
}

/// The path of `to` in the folder `dir`. If `to` lies outside `dir`, returns an error that names the file `place`.
pub(super) fn inside(place: &str, dir: &Path, to: &str) -> Result<PathBuf, RigError> {
    let plain = Path::new(to).components().all(|component| matches!(component, Component::Normal(_)));
    if !plain || to.is_empty() {
        return Err(wrong(place, &format!("`to: {to}` is outside the work folder"), "use a file name"));
    }
    Ok(dir.join(to))
}

/// Renders the files of `steps` into `dir`. Returns their paths, and the hash of their names and contents. Errors name
/// `place`, the file with the steps.
pub(super) fn written(
    place: &str,
    steps: &[Step],
    dir: &Path,
    templates: &Templates<'_>,
) -> Result<(Vec<PathBuf>, String), RigError> {
    let mut files = Vec::new();
    let mut hash = Digest::new();
    for step in steps {
        // Certificates differ in each cell, so they are not part of the configuration hash. Other steps write no file.
        // Steps that weir does not support were rejected when the driver was loaded.
        let Step::Render { template, to } = step else { continue };
        let path = inside(place, dir, to)?;
        let text = templates.file(template)?;
        fs::write(&path, &text).map_err(|error| RigError::file(&path, error))?;
        hash.update(format!("{to}\0{}\0", text.len()));
        hash.update(text);
        files.push(path);
    }
    Ok((files, hash.hex()))
}

/// Renders the templates of `process`. The rendered process gets the name `name`.
pub(super) fn rendered_process(
    process: &ProcessFile,
    name: String,
    context: &ProcessContext<'_>,
    templates: &Templates<'_>,
) -> Result<ProcessSpec, RigError> {
    let binary = (context.binary)(process);
    let more = context! { binary => binary.path.display().to_string() };
    let text = |text: &String| templates.text_with(&process.name, text, more.clone());
    let env = process.env.iter().map(|(name, value)| Ok((name.clone(), text(value)?)));
    Ok(ProcessSpec {
        role: process.role,
        config_sha256: Some(context.config_sha256.clone()),
        command: process.command.iter().map(text).collect::<Result<_, _>>()?,
        env: env.collect::<Result<_, RigError>>()?,
        dir: context.dir.to_owned(),
        log: context.dir.join(format!("{name}.log")),
        input: None,
        limits: (context.limits)(process.role),
        is_urgent: false,
        cpus: None,
        ready: context.ready(process.ready.as_ref()),
        ready_timeout: process.ready_timeout.map_or(READY_TIMEOUT, |time| time.0),
        listens: process.listens.iter().filter_map(|place| (context.address)(&place.0)).collect(),
        namespace: None,
        binary,
        name,
    })
}

impl Rendered {
    /// The messages to publish to NATS services, in order.
    pub fn publications(&self) -> impl Iterator<Item = &Publication> {
        self.actions.iter().filter_map(|action| match &action.what {
            Act::Publish(publication) => Some(publication),
            _ => None,
        })
    }

    /// Moves processes and counters into `namespace`, in which the addresses of the binding exist; `None` is the host.
    #[must_use]
    pub fn within(mut self, namespace: Option<&Namespace>) -> Self {
        for process in &mut self.processes {
            process.namespace = namespace.cloned();
        }
        Self { counters: self.counters.within(namespace), ..self }
    }

    /// Replaces unspecified addresses (`0.0.0.0`, `::`) with `ip`. Parts in a pod listen on all addresses, and weir
    /// connects to the pod's IP.
    #[must_use]
    pub fn reached_at(self, ip: IpAddr) -> Self {
        let processes = self.processes.into_iter().map(|process| process.reached_at(ip)).collect();
        Self { processes, counters: self.counters.reached_at(ip), ..self }
    }
}

impl ProcessContext<'_> {
    fn ready(&self, file: Option<&ReadyFile>) -> Ready {
        let (place, asked) = match file {
            None => return Ready::None,
            Some(ReadyFile::Tcp(place)) => (place, None),
            Some(ReadyFile::Http { on, path, status, tls }) => (on, Some((path, *status, *tls))),
        };
        match ((self.address)(&place.0), asked) {
            // The gateway does not listen on the address of the readiness check, because the user's own configuration
            // does not use this address. So wait until the gateway accepts connections on `listen`.
            (None, _) => (self.address)(Place::LISTEN).map_or(Ready::None, Ready::Tcp),
            (Some(address), None) => Ready::Tcp(address),
            (Some(address), Some((path, status, tls))) => Ready::Http {
                address,
                host: address.to_string(),
                path: path.clone(),
                status,
                credentials: Box::new(credentials(self.certificates, tls)),
            },
        }
    }

    pub(super) fn counters(&self, file: Option<&CountersFile>) -> CounterSource {
        match file.and_then(|file| Some((file, (self.address)(&file.on.0)?))) {
            Some((file, address)) => CounterSource::new(address, file)
                .secured(&credentials(self.certificates, file.tls), &address.to_string()),
            None => CounterSource::none(),
        }
    }
}

/// The processes that the steps start, in order. `wait` steps are skipped, because a launch always waits until the
/// process is ready.
pub(super) fn started<'a>(
    steps: &'a [Step],
    processes: &'a [ProcessFile],
) -> impl Iterator<Item = &'a ProcessFile> {
    steps.iter().filter_map(|step| match step {
        Step::Start(name) => processes.iter().find(|process| process.name == *name),
        _ => None,
    })
}

/// The absolute path of the folder `dir`, which is created if it is missing.
pub(super) fn made(dir: &Path) -> Result<PathBuf, RigError> {
    let dir = std::path::absolute(dir).map_err(|error| RigError::file(dir, error))?;
    fs::create_dir_all(&dir).map_err(|error| RigError::file(&dir, error))?;
    Ok(dir)
}
