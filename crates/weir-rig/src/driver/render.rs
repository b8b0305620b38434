//! Renders a driver's templates from a topology, the same for every gateway.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use minijinja::value::ViaDeserialize;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, context};
use rustix::process::{Resource, geteuid, getrlimit};
use serde_json::Value;
use sha2::{Digest, Sha256};
use weir_results::Role;

use super::locate::hex;
use super::{Binary, Driver, Place, ProcessFile, ReadyFile, Step};
use crate::{CounterSource, Limits, ProcessSpec, Ready, RigError};

const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// Descriptors that a gateway needs beside those of proxied connections.
const SPARE_FILES: u64 = 512;
/// Where no limit on open files is known.
const OPEN_FILES: u64 = 20_000;

/// What a gateway is to be: its place in the rig and its topology.
#[derive(Clone, Debug)]
pub struct Binding {
    /// Where load arrives.
    pub listen: SocketAddr,
    /// The gateway's own administration.
    pub admin: SocketAddr,
    /// The upstreams, taken in turn.
    pub origins: Vec<SocketAddr>,
    /// Host names that are served; empty is every host.
    pub hosts: Vec<String>,
    /// Exact paths that are served on every host; every other is answered 404.
    pub paths: Vec<String>,
    /// What replaces the path.
    pub rewrite: Option<String>,
    /// Worker threads: the CPU limit of the data plane rounded up.
    pub workers: u32,
    /// Limits by role.
    pub limits: BTreeMap<Role, Limits>,
    /// Settings of the driver that the scenario changes.
    pub set: BTreeMap<String, Value>,
    /// The binary.
    pub binary: Binary,
}

/// What comes of a driver for a binding.
#[derive(Clone, Debug)]
pub struct Rendered {
    /// The files that were written.
    pub files: Vec<PathBuf>,
    /// SHA-256 over their names and contents, hexadecimal.
    pub config_sha256: String,
    /// The processes, in the order in which they are launched.
    pub processes: Vec<ProcessSpec>,
    /// The gateway's own counters.
    pub counters: CounterSource,
    /// What could not be made equal.
    pub unequal: Vec<String>,
}

impl Driver {
    /// Writes the gateway's files into `dir`, and says how to launch it.
    ///
    /// # Errors
    /// [`RigError::Render`] or [`RigError::Driver`] for a wrong template, setting or topology;
    /// [`RigError::DiskFull`] or [`RigError::File`] where a file cannot be written.
    pub fn render(&self, binding: &Binding, dir: &Path) -> Result<Rendered, RigError> {
        self.check_topology(binding)?;
        let dir = &std::path::absolute(dir).map_err(|error| RigError::file(dir, error))?;
        fs::create_dir_all(dir).map_err(|error| RigError::file(dir, error))?;
        let templates = Templates::new(self, binding, dir)?;
        let (mut files, mut started) = (Vec::new(), Vec::new());
        let mut hash = Sha256::new();
        for step in &self.file.steps {
            match step {
                Step::Render { template, to } => {
                    let path = self.inside(dir, to)?;
                    let text = templates.file(template)?;
                    fs::write(&path, &text).map_err(|error| RigError::file(&path, error))?;
                    hash.update(format!("{to}\0{}\0", text.len()));
                    hash.update(text);
                    files.push(path);
                }
                Step::Start(name) => {
                    started.extend(self.file.processes.iter().find(|process| process.name == *name));
                }
                // The launch of a process waits until it is ready; the others were refused when it was loaded.
                _ => {}
            }
        }
        let config_sha256 = hex(&hash.finalize());
        let processes = started
            .into_iter()
            .map(|process| self.process(process, binding, dir, &config_sha256, &templates));
        let unequal = self.file.unequal.iter().map(|text| templates.text("unequal", text));
        Ok(Rendered {
            processes: processes.collect::<Result<_, _>>()?,
            counters: match &self.file.counters {
                Some(counters) => CounterSource::new(binding.place(counters.on), counters),
                None => CounterSource::none(),
            },
            unequal: unequal
                .filter(|text| !matches!(text, Ok(text) if text.is_empty()))
                .collect::<Result<_, _>>()?,
            files,
            config_sha256,
        })
    }

    fn process(
        &self,
        process: &ProcessFile,
        binding: &Binding,
        dir: &Path,
        config_sha256: &str,
        templates: &Templates<'_>,
    ) -> Result<ProcessSpec, RigError> {
        let text = |text: &String| templates.text(&process.name, text);
        let env = process.env.iter().map(|(name, value)| Ok((name.clone(), text(value)?)));
        Ok(ProcessSpec {
            name: process.name.clone(),
            role: process.role,
            binary: binding.binary.clone(),
            config_sha256: Some(config_sha256.to_owned()),
            command: process.command.iter().map(text).collect::<Result<_, _>>()?,
            env: env.collect::<Result<_, RigError>>()?,
            dir: dir.to_owned(),
            log: dir.join(format!("{}.log", process.name)),
            limits: binding.limits.get(&process.role).copied().unwrap_or_default(),
            cpus: None,
            ready: match &process.ready {
                None => Ready::None,
                Some(ReadyFile::Tcp(place)) => Ready::Tcp(binding.place(*place)),
                Some(ReadyFile::Http { on, path, status }) => Ready::Http {
                    address: binding.place(*on),
                    host: binding.place(*on).to_string(),
                    path: path.clone(),
                    status: *status,
                },
            },
            ready_timeout: process.ready_timeout.map_or(READY_TIMEOUT, |time| time.0),
            listens: process.listens.iter().map(|place| binding.place(*place)).collect(),
        })
    }

    /// Refuses what would mean something else in one of the configuration languages, for every gateway alike.
    fn check_topology(&self, binding: &Binding) -> Result<(), RigError> {
        let wrong = |what: &str, value: &str, remedy: &str| RigError::Driver {
            place: format!("gateway `{}`", self.name),
            message: format!("{what} `{value}` cannot be rendered the same for every gateway"),
            remedy: remedy.into(),
        };
        let plain = |text: &str, extra: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || extra.contains(c))
        };
        if let Some(host) = binding.hosts.iter().find(|host| !plain(host, "-._")) {
            return Err(wrong("the host", host, "use letters, digits, hyphens and dots"));
        }
        let is_path = |path: &str| path.starts_with('/') && plain(path, "/-._~!*+,=:@");
        if let Some(path) = binding.paths.iter().chain(&binding.rewrite).find(|path| !is_path(path)) {
            return Err(wrong("the path", path, "begin with a slash; use letters, digits and /-._~!*+,=:@"));
        }
        if binding.paths.is_empty() || binding.origins.is_empty() {
            let what = if binding.paths.is_empty() { "a path" } else { "an origin" };
            return Err(wrong("a topology without", what, "give at least one"));
        }
        Ok(())
    }

    /// `to` in `dir`; a driver writes nowhere else.
    fn inside(&self, dir: &Path, to: &str) -> Result<PathBuf, RigError> {
        let plain = Path::new(to).components().all(|component| matches!(component, Component::Normal(_)));
        if !plain || to.is_empty() {
            return Err(
                self.wrong(&format!("`to: {to}` lies outside the gateway's folder"), "use a file name")
            );
        }
        Ok(dir.join(to))
    }

    /// The driver's settings with those of the scenario.
    fn settings(&self, set: &BTreeMap<String, Value>) -> Result<BTreeMap<String, Value>, RigError> {
        let mut settings = self.file.settings.clone();
        for (name, value) in set {
            let known = settings.keys().map(String::as_str);
            let Some(default) = settings.get(name) else {
                let place = format!("gateway `{}`", self.name);
                let message = format!("`set` has no `{name}`");
                let remedy = match (weir_document::nearest(name, known), settings.is_empty()) {
                    (Some(nearest), _) => format!("did you mean `{nearest}`?"),
                    (None, true) => "this driver has no settings".into(),
                    (None, false) => {
                        format!("it has {}", settings.keys().cloned().collect::<Vec<_>>().join(", "))
                    }
                };
                return Err(RigError::Driver { place, message, remedy });
            };
            if std::mem::discriminant(default) != std::mem::discriminant(value) {
                let place = format!("gateway `{}`", self.name);
                let message = format!("`set.{name}` cannot be {value}");
                return Err(RigError::Driver { place, message, remedy: format!("its default is {default}") });
            }
            settings.insert(name.clone(), value.clone());
        }
        Ok(settings)
    }
}

impl Binding {
    fn place(&self, place: Place) -> SocketAddr {
        match place {
            Place::Listen => self.listen,
            Place::Admin => self.admin,
        }
    }
}

/// The templates of a driver with the values of a binding.
struct Templates<'a> {
    driver: &'a Driver,
    environment: Environment<'a>,
    values: minijinja::Value,
}

impl<'a> Templates<'a> {
    fn new(driver: &'a Driver, binding: &Binding, dir: &Path) -> Result<Self, RigError> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_keep_trailing_newline(true);
        // JSON is YAML, so what is quoted can stand in either.
        environment.add_filter("quoted", |value: ViaDeserialize<Value>| value.0.to_string());
        let open_files = getrlimit(Resource::Nofile).maximum.unwrap_or(OPEN_FILES).min(1 << 20);
        let address = |address: &SocketAddr| {
            BTreeMap::from([("ip", address.ip().to_string()), ("port", address.port().to_string())])
        };
        let text = |addresses: &[SocketAddr]| addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>();
        let values = context! {
            binary => binding.binary.path.display().to_string(),
            dir => dir.display().to_string(),
            listen => binding.listen.to_string(),
            listen_ip => binding.listen.ip().to_string(),
            listen_port => binding.listen.port(),
            admin => binding.admin.to_string(),
            admin_ip => binding.admin.ip().to_string(),
            admin_port => binding.admin.port(),
            origins => text(&binding.origins),
            origin_addresses => binding.origins.iter().map(address).collect::<Vec<_>>(),
            hosts => binding.hosts,
            paths => binding.paths,
            rewrite => binding.rewrite,
            workers => binding.workers,
            // Two descriptors for each proxied connection.
            connections_max => open_files.saturating_sub(SPARE_FILES).max(SPARE_FILES) / 2,
            root => geteuid().is_root(),
            set => driver.settings(&binding.set)?,
        };
        for (name, text) in &driver.templates {
            environment.add_template(name, text).map_err(|error| driver.template_error(name, &error))?;
        }
        Ok(Self { driver, environment, values })
    }

    fn file(&self, name: &str) -> Result<String, RigError> {
        self.environment
            .get_template(name)
            .and_then(|template| template.render(&self.values))
            .map_err(|error| self.driver.template_error(name, &error))
    }

    fn text(&self, place: &str, text: &str) -> Result<String, RigError> {
        self.environment
            .render_str(text, &self.values)
            .map_err(|error| self.driver.template_error(&format!("{place}: {text:?}"), &error))
    }
}

impl Driver {
    fn template_error(&self, name: &str, error: &minijinja::Error) -> RigError {
        let line = error.line().map(|line| format!(":{line}")).unwrap_or_default();
        let folder = self.place.trim_end_matches(super::DRIVER_FILE);
        let mut message = error.to_string();
        if let Some(cause) = std::error::Error::source(error) {
            message = format!("{message}: {cause}");
        }
        RigError::Render { place: format!("{folder}{name}{line}"), message }
    }
}
