//! The templates of a driver or service, and the values with which they are rendered.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use minijinja::value::ViaDeserialize;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, context};
use rustix::process::{Resource, geteuid, getrlimit};
use serde_json::Value;
use weir_document::{Problem, Size};
use weir_results::Configuration;

use super::{Binding, Driver, OriginBinding, SecureOrigin, Service, ServiceBinding};
use crate::certificates::CLIENT;
use crate::{Binary, CertificateFiles, Certificates, RigError};

/// File descriptors that a gateway needs for purposes other than proxied connections.
const SPARE_FILES: u64 = 512;
/// The number of open files to assume if this process has no limit on them.
const OPEN_FILES: u64 = 20_000;

/// The templates of a driver or service, ready to be rendered with the values of a binding.
pub(super) struct Templates<'a> {
    /// The folder of the driver or service, with a slash, for errors.
    folder: &'a str,
    environment: Environment<'a>,
    values: minijinja::Value,
    /// The name of the replaced template, and the user's own configuration file that replaces it.
    own: Option<(&'a str, &'a Configuration)>,
}

/// A template environment in which unknown names are errors and nothing is escaped.
pub(super) fn environment<'a>() -> Environment<'a> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_keep_trailing_newline(true);
    // The filter `quoted` writes JSON. JSON is also valid YAML, so templates of both formats can use the filter.
    environment.add_filter("quoted", |value: ViaDeserialize<Value>| value.0.to_string());
    environment.add_filter("bytes", bytes);
    environment.add_filter("base64_file", base64_file);
    environment
}

/// The filter `bytes`: converts a size such as `1KiB` to a number of bytes.
fn bytes(size: String) -> Result<u64, minijinja::Error> {
    let size: Result<Size, _> = size.parse();
    size.map(|size| size.0)
        .map_err(|error| minijinja::Error::new(minijinja::ErrorKind::InvalidOperation, error.to_string()))
}

/// The filter `base64_file`: the content of a file in base64, the format of certificates in Kubernetes manifests.
fn base64_file(path: String) -> Result<String, minijinja::Error> {
    let content = std::fs::read(&path).map_err(|error| {
        let message = format!("cannot read {path}: {error}");
        minijinja::Error::new(minijinja::ErrorKind::InvalidOperation, message)
    })?;
    Ok(STANDARD.encode(content))
}

impl<'a> Templates<'a> {
    pub(super) fn of_gateway(
        driver: &'a Driver,
        binding: &'a Binding,
        certificates: Option<&Certificates>,
        dir: &Path,
    ) -> Result<Self, RigError> {
        let address = |address: &SocketAddr| {
            BTreeMap::from([("ip", address.ip().to_string()), ("port", address.port().to_string())])
        };
        let values = context! {
            origins => binding.origins.iter().map(SocketAddr::to_string).collect::<Vec<_>>(),
            origin_addresses => binding.origins.iter().map(address).collect::<Vec<_>>(),
            hosts => binding.hosts,
            paths => binding.paths,
            rewrite => binding.rewrite,
            tls => certificates.map(|certificates| tls(certificates, binding)),
            tokens => binding.tokens,
            token_cache => format!("{}s", binding.token_cache.as_secs()),
            changes => binding.changes,
            services => binding.services,
            secure_origin => binding.secure_origin.as_ref().map(secure_origin),
            pods => binding.pods,
            set => driver.settings(&binding.set)?,
            ..of_process(&binding.binary, dir, binding.listen, binding.admin, binding.workers)
        };
        let values = context! { ..values, ..of_addresses(&binding.addresses) };
        let own = match &binding.config {
            Some(config) => Some((driver.main()?, config)),
            None => None,
        };
        Self::with(driver.folder(), &driver.templates, values, own)
    }

    pub(super) fn of_origin(
        driver: &'a Driver,
        binding: &OriginBinding,
        dir: &Path,
    ) -> Result<Self, RigError> {
        let values = context! {
            body => "x".repeat(usize::try_from(binding.body_bytes).unwrap_or(usize::MAX)),
            body_bytes => binding.body_bytes,
            set => driver.settings(&BTreeMap::new())?,
            ..of_process(&binding.binary, dir, binding.listen, binding.admin, binding.workers)
        };
        Self::with(driver.folder(), &driver.templates, values, None)
    }

    /// The templates of a service.
    pub(super) fn of_service(
        service: &'a Service,
        binding: &ServiceBinding,
        certificates: Option<&Certificates>,
        dir: &Path,
    ) -> Result<Self, RigError> {
        let tls = certificates.map(|made| {
            context! {
                client_certificate => made.client.display().to_string(),
                client_key => made.client_key.display().to_string(),
                ..of_server(made)
            }
        });
        let accounts = (1..=binding.tokens).map(|number| service.account(number));
        let path = |binary: &Binary| binary.path.display().to_string();
        let binaries = binding.binaries.iter().map(|(name, binary)| (name.clone(), path(binary)));
        let values = context! {
            dir => dir.display().to_string(),
            binaries => binaries.collect::<BTreeMap<String, String>>(),
            binary => binding.binaries.values().next().map(path),
            tls,
            hosts => binding.hosts,
            user => CLIENT,
            accounts => accounts.collect::<Vec<_>>(),
            set => service.settings(&binding.set)?,
            ..of_addresses(&binding.addresses)
        };
        Self::with(service.folder(), service.templates(), values, None)
    }

    fn with(
        folder: &'a str,
        texts: &'a BTreeMap<String, String>,
        values: minijinja::Value,
        own: Option<(&'a str, &'a Configuration)>,
    ) -> Result<Self, RigError> {
        let mut templates = Self { folder, environment: environment(), values, own };
        for (name, text) in texts {
            let text = match own {
                Some((main, config)) if main == name => &config.text,
                _ => text,
            };
            let added = templates.environment.add_template(name, text);
            added.map_err(|error| templates.error(name, &error))?;
        }
        Ok(templates)
    }

    /// Renders the template `name`.
    pub(super) fn file(&self, name: &str) -> Result<String, RigError> {
        self.file_of(name, &self.values)
    }

    /// Renders the template `name` with additional values.
    pub(super) fn file_with(&self, name: &str, more: minijinja::Value) -> Result<String, RigError> {
        self.file_of(name, &context! { ..more, ..self.values.clone() })
    }

    fn file_of(&self, name: &str, values: &minijinja::Value) -> Result<String, RigError> {
        self.environment
            .get_template(name)
            .and_then(|template| template.render(values))
            .map_err(|error| self.error(name, &error))
    }

    /// Renders `text`, a template inside `driver.yaml` or `service.yaml`. `place` names it in errors.
    pub(super) fn text(&self, place: &str, text: &str) -> Result<String, RigError> {
        self.text_with(place, text, context! {})
    }

    /// As [`Self::text`], with additional values.
    pub(super) fn text_with(
        &self,
        place: &str,
        text: &str,
        more: minijinja::Value,
    ) -> Result<String, RigError> {
        self.environment
            .render_str(text, context! { ..more, ..self.values.clone() })
            .map_err(|error| self.error(&format!("{place}: {text:?}"), &error))
    }

    fn error(&self, name: &str, error: &minijinja::Error) -> RigError {
        match self.own {
            Some((main, config)) if main == name => template_error(&config.path, error),
            _ => template_error(&format!("{}{name}", self.folder), error),
        }
    }
}

/// The value `tls` of a gateway's templates.
fn tls(certificates: &Certificates, binding: &Binding) -> minijinja::Value {
    let each = certificates.each.iter().map(|one| {
        context! {
            host => one.host,
            certificate => one.certificate.display().to_string(),
            key => one.key.display().to_string(),
        }
    });
    context! {
        certificates => each.collect::<Vec<_>>(),
        client_certificate => binding.tls.is_some_and(|tls| tls.client_certificate),
        ..of_server(certificates)
    }
}

/// The fields of `tls` that gateways and services share: the paths of the CA certificate, of the server certificate and
/// its key, and of each additional client certificate.
fn of_server(certificates: &Certificates) -> minijinja::Value {
    context! {
        ca => certificates.ca.display().to_string(),
        certificate => certificates.server.display().to_string(),
        key => certificates.server_key.display().to_string(),
        clients => certificates.clients.iter().map(|(name, files)| (name.clone(), of_client(files))).collect::<BTreeMap<_, _>>(),
    }
}

/// The paths of a client certificate and its key.
fn of_client(files: &CertificateFiles) -> minijinja::Value {
    context! { certificate => files.certificate.display().to_string(), key => files.key.display().to_string() }
}

/// The value `secure_origin`: the files for TLS from the gateway to its upstream.
fn secure_origin(origin: &SecureOrigin) -> minijinja::Value {
    context! {
        ca => origin.ca.display().to_string(),
        client => origin.client.as_ref().map(of_client),
    }
}

/// The error of the template `place`, with the line in the template if it is known.
pub(super) fn template_error(place: &str, error: &minijinja::Error) -> RigError {
    let line = error.line().map(|line| format!(":{line}")).unwrap_or_default();
    let mut message = error.to_string();
    if let Some(cause) = std::error::Error::source(error) {
        message = format!("{message}: {cause}");
    }
    RigError::Render { place: format!("{place}{line}"), message }
}

/// The values `NAME`, `NAME_ip` and `NAME_port` of each address.
fn of_addresses(addresses: &BTreeMap<String, SocketAddr>) -> minijinja::Value {
    let mut values: BTreeMap<String, minijinja::Value> = BTreeMap::new();
    for (name, address) in addresses {
        values.insert(name.clone(), address.to_string().into());
        values.insert(format!("{name}_ip"), address.ip().to_string().into());
        values.insert(format!("{name}_port"), address.port().into());
    }
    minijinja::Value::from(values)
}

/// The values that the templates of gateways and upstreams share.
fn of_process(
    binary: &Binary,
    dir: &Path,
    listen: SocketAddr,
    admin: SocketAddr,
    workers: u32,
) -> minijinja::Value {
    let open_files = getrlimit(Resource::Nofile).maximum.unwrap_or(OPEN_FILES).min(1 << 20);
    context! {
        binary => binary.path.display().to_string(),
        dir => dir.display().to_string(),
        listen => listen.to_string(),
        listen_ip => listen.ip().to_string(),
        listen_port => listen.port(),
        admin => admin.to_string(),
        admin_ip => admin.ip().to_string(),
        admin_port => admin.port(),
        workers => workers,
        // A proxied connection needs two descriptors: one to the client, one to the upstream.
        connections_max => open_files.saturating_sub(SPARE_FILES).max(SPARE_FILES) / 2,
        root => geteuid().is_root(),
    }
}

impl Driver {
    /// Checks that the driver has all settings in `set`, and that each value has the type of the default.
    ///
    /// # Errors
    /// [`RigError::Driver`], which names the setting.
    pub fn check_settings(&self, set: &BTreeMap<String, Value>) -> Result<(), RigError> {
        self.settings(set).map(|_| ())
    }

    /// The settings of the driver. Values in `set`, which come from the scenario, override the defaults.
    pub(super) fn settings(
        &self,
        set: &BTreeMap<String, Value>,
    ) -> Result<BTreeMap<String, Value>, RigError> {
        settings(&format!("gateway `{}`", self.name), "set", &self.file.settings, set)
    }
}

impl Service {
    /// Checks that the service has all settings in `set`, and that each value has the type of the default.
    ///
    /// # Errors
    /// [`RigError::Driver`], which names the setting.
    pub fn check_settings(&self, set: &BTreeMap<String, Value>) -> Result<(), RigError> {
        self.settings(set).map(|_| ())
    }

    /// The settings of the service. Values in `set`, which come from the scenario, override the defaults.
    fn settings(&self, set: &BTreeMap<String, Value>) -> Result<BTreeMap<String, Value>, RigError> {
        settings(&format!("service `{}`", self.name()), "origin.prepare", &self.file().settings, set)
    }
}

/// Returns the settings `defaults`, overridden by `set`. Errors name `place` (the gateway or service) and `field` (the
/// scenario field that contains `set`).
fn settings(
    place: &str,
    field: &str,
    defaults: &BTreeMap<String, Value>,
    set: &BTreeMap<String, Value>,
) -> Result<BTreeMap<String, Value>, RigError> {
    let mut settings = defaults.clone();
    for (name, value) in set {
        let known = settings.keys().map(String::as_str);
        let Some(default) = settings.get(name) else {
            let message = format!("unknown setting `{field}.{name}`");
            let remedy = match (weir_document::nearest(name, known), settings.is_empty()) {
                (Some(nearest), _) => format!("did you mean `{nearest}`?"),
                (None, true) => format!("remove `{field}.{name}`: this driver or service has no settings"),
                (None, false) => {
                    format!("known settings: {}", settings.keys().cloned().collect::<Vec<_>>().join(", "))
                }
            };
            return Err(RigError::Driver(Problem::of(place, message).help(remedy)));
        };
        if std::mem::discriminant(default) != std::mem::discriminant(value) {
            let message = format!("`{field}.{name}` has the wrong type: {value}");
            let remedy = format!("use a value of the same type as the default, {default}");
            let problem = Problem::of(place, message).help(remedy);
            return Err(RigError::Driver(problem));
        }
        settings.insert(name.clone(), value.clone());
    }
    Ok(settings)
}
