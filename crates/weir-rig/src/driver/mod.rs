//! Drivers: one folder per gateway. It describes, without code, how to find, configure and start the gateway, and how
//! to read its counters.

mod action;
mod apply;
mod binding;
mod counters;
mod form;
mod kubernetes;
mod locate;
mod own;
mod publish;
mod render;
mod service;
mod templates;
mod version;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};
use weir_document::Problem;
use weir_results::Role;

pub use action::{Act, Action, AwaitedObject, KubeAccess, KubeEndpoint, StepRequest};
pub use apply::{Change, ChangeChannel, Manifests};
pub use binding::{Binding, OriginBinding, SecureOrigin, TlsBinding};
pub(crate) use counters::MetricLine;
pub use counters::{Counted, CounterSource};
pub use form::{
    AcceptedFile, Apply, BinaryFile, CountersFile, DriverFile, EqualFile, KindsFile, KubeApi, KubeService,
    KubernetesFile, OriginFile, OwnKubeApi, Parser, Place, ProcessFile, ReadyFile, RightFile, Serves, Step,
    Subject, VersionFile, WorkloadFile, WorkloadKind,
};
pub use kubernetes::{ClusterRoutes, DataService, PodBinding, Workload};
pub use locate::{Binary, Programs};
pub use own::read_configuration;
pub use publish::{Message, Publication};
pub use render::Rendered;
pub use service::{
    RenderedService, Service, ServiceBinding, ServiceFile, ServiceOrigin, ServiceOriginFile, Tokens,
    TokensFile,
};

use crate::RigError;

static EMBEDDED: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../drivers");
static EMBEDDED_SERVICES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../services");

/// The file in a driver's folder that describes the driver.
const DRIVER_FILE: &str = "driver.yaml";

/// The reserved driver name for remote gateways: weir does not start them, and the scenario names their address.
pub const REMOTE: &str = "remote";

/// The file in a service's folder that describes the service.
const SERVICE_FILE: &str = "service.yaml";

/// All known drivers, and the services that they may need.
#[derive(Clone, Debug)]
pub struct Drivers {
    drivers: BTreeMap<String, Driver>,
    services: BTreeMap<String, Service>,
}

/// A driver, read from its folder.
#[derive(Clone, Debug)]
pub struct Driver {
    name: String,
    /// The path of its `driver.yaml`, for errors.
    place: String,
    file: DriverFile,
    templates: BTreeMap<String, String>,
}

impl Drivers {
    /// Loads the built-in drivers and services, then the drivers and services in the folders `extra`. These replace
    /// built-in ones of the same name. A folder in `extra` is itself a driver or a service, or contains drivers and
    /// services.
    ///
    /// # Errors
    /// If a driver or service cannot be read, is inconsistent, or uses something that is not supported yet.
    pub fn load(extra: &[PathBuf]) -> Result<Self, RigError> {
        let mut all = Self { drivers: BTreeMap::new(), services: BTreeMap::new() };
        for (kind, embedded) in [("drivers", &EMBEDDED), ("services", &EMBEDDED_SERVICES)] {
            for folder in embedded.dirs() {
                let name = folder.path().display().to_string();
                let files = folder.files().filter_map(|file| {
                    Some((file.path().file_name()?.to_str()?.to_owned(), file.contents_utf8()?.to_owned()))
                });
                all.add(&name, &format!("{kind}/{name}"), files.collect())?;
            }
        }
        for folder in extra {
            all.add_folder(folder)?;
        }
        all.drivers.values().try_for_each(|driver| all.check_needs(driver))?;
        Ok(all)
    }

    /// Adds the driver or service `name`, whose folder contains `files`.
    fn add(&mut self, name: &str, place: &str, files: BTreeMap<String, String>) -> Result<(), RigError> {
        if files.contains_key(SERVICE_FILE) {
            self.services.insert(name.to_owned(), Service::read(name, place, files)?);
        } else {
            self.drivers.insert(name.to_owned(), Driver::read(name, place, files)?);
        }
        Ok(())
    }

    /// Adds the driver or service in the user's folder `folder`, or the drivers and services in its subfolders.
    fn add_folder(&mut self, folder: &Path) -> Result<(), RigError> {
        let is_one = |path: &Path| [DRIVER_FILE, SERVICE_FILE].iter().any(|file| path.join(file).exists());
        let folders = match is_one(folder) {
            true => vec![folder.to_owned()],
            false => listed(folder)?.into_iter().filter(|path| is_one(path)).collect(),
        };
        for folder in folders {
            let mut files = BTreeMap::new();
            for path in listed(&folder)?.into_iter().filter(|path| path.is_file()) {
                let text = fs::read_to_string(&path).map_err(|error| RigError::file(&path, error))?;
                files.insert(path.file_name().unwrap_or_default().to_string_lossy().into_owned(), text);
            }
            let name = folder.canonicalize().map_err(|error| RigError::file(&folder, error))?;
            let name = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
            self.add(&name, &folder.display().to_string(), files)?;
        }
        Ok(())
    }

    /// Checks that the services in the driver's `needs` exist.
    fn check_needs(&self, driver: &Driver) -> Result<(), RigError> {
        match driver.file.needs.iter().find(|need| !self.services.contains_key(*need)) {
            None => Ok(()),
            Some(unknown) => {
                let known = self.services.keys().map(String::as_str);
                Err(driver.contradiction(&format!("`needs`: unknown service `{unknown}`"), unknown, known))
            }
        }
    }

    /// The services, in alphabetical order.
    pub fn services(&self) -> impl Iterator<Item = &Service> {
        self.services.values()
    }

    /// The names of services that can serve as the upstream, in alphabetical order.
    pub fn service_origins(&self) -> Vec<&str> {
        let origins = self.services.iter().filter(|(_, service)| service.file().origin.is_some());
        origins.map(|(name, _)| name.as_str()).collect()
    }

    /// The service `name`.
    ///
    /// # Errors
    /// [`RigError::Driver`] for an unknown name, with the most similar name of a service.
    pub fn service(&self, name: &str) -> Result<&Service, RigError> {
        self.services.get(name).ok_or_else(|| {
            let known = self.services.keys().map(String::as_str);
            misnamed("origin.service", &format!("unknown service `{name}`"), name, known)
        })
    }

    /// The services that the driver `name` needs, in the order in which they start.
    ///
    /// # Errors
    /// As [`Drivers::driver`].
    pub fn needed_by(&self, name: &str) -> Result<Vec<&Service>, RigError> {
        let needs = &self.driver(name)?.file.needs;
        Ok(needs.iter().filter_map(|need| self.services.get(need)).collect())
    }

    /// The names of all drivers, in alphabetical order.
    pub fn names(&self) -> Vec<&str> {
        self.drivers.keys().map(String::as_str).collect()
    }

    /// The names of drivers that can serve as the upstream, in alphabetical order.
    pub fn origins(&self) -> Vec<&str> {
        let origins = self.drivers.iter().filter(|(_, driver)| driver.file.origin.is_some());
        origins.map(|(name, _)| name.as_str()).collect()
    }

    /// The driver `name`.
    ///
    /// # Errors
    /// [`RigError::UnknownDriver`], with the most similar name.
    pub fn driver(&self, name: &str) -> Result<&Driver, RigError> {
        self.drivers.get(name).ok_or_else(|| RigError::UnknownDriver {
            name: name.to_owned(),
            known: self.drivers.keys().cloned().collect(),
            nearest: weir_document::nearest(name, self.names()).map(str::to_owned),
        })
    }
}

impl Driver {
    /// The name of the driver, which is the name of its folder.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The parsed `driver.yaml`.
    pub fn file(&self) -> &DriverFile {
        &self.file
    }

    /// How to get the driver's binary, as a sentence; empty if the driver has no binary.
    pub fn how_to_get(&self) -> &str {
        self.file.binary.as_ref().map_or("", |binary| &binary.get)
    }

    fn read(name: &str, place: &str, mut files: BTreeMap<String, String>) -> Result<Self, RigError> {
        let place = format!("{place}/{DRIVER_FILE}");
        if name == REMOTE {
            let message = format!("`{REMOTE}` is reserved for remote gateways");
            return Err(RigError::Driver(Problem::of(place, message).help("rename the folder")));
        }
        let text = files.remove(DRIVER_FILE).ok_or_else(|| {
            let remedy = "add a driver.yaml to this folder, or remove the folder";
            RigError::Driver(Problem::of(place.as_str(), "the file is missing").help(remedy))
        })?;
        let file: DriverFile = weir_document::read(&place, &text)?;
        let driver = Self { name: name.to_owned(), place, file, templates: files };
        driver.check()?;
        Ok(driver)
    }

    /// Rejects unsupported features and inconsistent steps.
    fn check(&self) -> Result<(), RigError> {
        let file = &self.file;
        self.check_kubernetes()?;
        if file.kubernetes.is_none() {
            self.check_steps(&file.steps, &file.processes)?;
        }
        if file.binary.is_none() && file.kubernetes.is_none() {
            return Err(self.wrong("the driver has no `binary`", "add `binary` to driver.yaml"));
        }
        self.check_roles(&file.processes, &[Role::Data, Role::Control])?;
        self.check_places(&file.processes, file.counters.as_ref())?;
        self.check_applied()?;
        if let Some(origin) = &file.origin {
            let is_unsupported =
                |step: &&Step| !matches!(step, Step::Render { .. } | Step::Start(_) | Step::Wait(_));
            if let Some(step) = origin.steps.iter().find(is_unsupported) {
                return Err(self.unsupported(format!("the step `{}` under `origin`", step.name())));
            }
            self.check_steps(&origin.steps, &origin.processes)?;
            self.check_roles(&origin.processes, &[Role::Origin])?;
            self.check_places(&origin.processes, origin.counters.as_ref())?;
        }
        self.check_serves()?;
        let rendered = || {
            file.steps.iter().filter_map(|step| match step {
                Step::Render { template, .. } => Some(template.as_str()),
                _ => None,
            })
        };
        match &file.main {
            Some(main) if !rendered().any(|template| template == main) => {
                Err(self.contradiction(&format!("`main`: no step renders `{main}`"), main, rendered()))
            }
            _ => Ok(()),
        }
    }

    /// The driver's folder with a slash at the end, for errors of templates.
    fn folder(&self) -> &str {
        self.place.trim_end_matches(DRIVER_FILE)
    }

    fn check_steps(&self, steps: &[Step], processes: &[ProcessFile]) -> Result<(), RigError> {
        for step in steps {
            match step {
                Step::NatsPublish { service, .. } => self.check_need(step.name(), service)?,
                Step::KubeApply { api, .. } | Step::KubeWait { api, .. } => {
                    self.check_api(step.name(), api)?
                }
                Step::Start(process) | Step::Wait(process) => {
                    let known = || processes.iter().map(|process| process.name.as_str());
                    if !known().any(|name| name == process) {
                        return Err(self.contradiction(
                            &format!("unknown process `{process}`"),
                            process,
                            known(),
                        ));
                    }
                }
                Step::Render { .. } | Step::Certificate { .. } | Step::Http { .. } => {}
            }
            step.template().map_or(Ok(()), |template| self.check_template(template))?;
        }
        check_order(steps, processes).map_err(|(message, remedy)| self.wrong(&message, remedy))
    }

    /// Checks that the driver lists `service` in `needs`. `what` is the step or section that uses the service.
    fn check_need(&self, what: &str, service: &str) -> Result<(), RigError> {
        let needs = self.file.needs.iter();
        if needs.clone().any(|need| need == service) {
            return Ok(());
        }
        let message = format!("`{what}`: `{service}` is not in `needs`");
        Err(match weir_document::nearest(service, needs.map(String::as_str)) {
            Some(nearest) => self.wrong(&message, &format!("did you mean `{nearest}`?")),
            None => self.wrong(&message, &format!("add `needs: [{service}]`")),
        })
    }

    /// Checks that the driver can use the Kubernetes API `api`. For the API of a service, the service must be in
    /// `needs`. For the gateway's own API, the driver must create certificates. `what` is the step or section that uses
    /// the API.
    fn check_api(&self, what: &str, api: &KubeApi) -> Result<(), RigError> {
        match api {
            KubeApi::Service(KubeService { service }) => self.check_need(what, service),
            KubeApi::Own(_)
                if self.file.steps.iter().any(|step| matches!(step, Step::Certificate { .. })) =>
            {
                Ok(())
            }
            KubeApi::Own(_) => {
                let message = format!("`{what}`: the gateway's own Kubernetes API needs certificates");
                Err(self.wrong(&message, "add the step `certificate`"))
            }
        }
    }

    fn check_template(&self, template: &str) -> Result<(), RigError> {
        if self.templates.contains_key(template) {
            return Ok(());
        }
        let known = self.templates.keys().map(String::as_str);
        Err(self.contradiction(&format!("unknown template `{template}`"), template, known))
    }

    /// Whether the steps or the changes of the driver use a Kubernetes API.
    pub fn uses_kubernetes(&self) -> bool {
        matches!(&self.file.apply, Some(Apply::Kubernetes { .. }))
            || self.file.steps.iter().any(Step::uses_kubernetes)
    }

    /// Checks that a driver that serves TLS has exactly one step `certificate`, and other drivers have none.
    fn check_serves(&self) -> Result<(), RigError> {
        let serves = |what| self.file.serves.contains(&what);
        let made = self.file.steps.iter().filter(|step| matches!(step, Step::Certificate { .. })).count();
        match (serves(Serves::Tls), made) {
            (true, 0) => {
                Err(self
                    .wrong("the driver serves TLS but creates no certificate", "add the step `certificate`"))
            }
            (false, 1..) => {
                Err(self
                    .wrong("the driver creates a certificate but does not serve TLS", "add `serves: [tls]`"))
            }
            (_, 2..) => {
                Err(self.wrong("the driver has more than one `certificate` step", "remove one of them"))
            }
            (false, 0) if serves(Serves::ClientCertificate) => {
                Err(self.wrong("client certificates need TLS", "add `tls` to `serves`"))
            }
            (false, 0) if serves(Serves::Certificates) => {
                Err(self.wrong("certificates for each host need TLS", "add `tls` to `serves`"))
            }
            _ => Ok(()),
        }
    }

    /// Checks that processes, counters and steps use only addresses that the gateway has.
    fn check_places(
        &self,
        processes: &[ProcessFile],
        counters: Option<&CountersFile>,
    ) -> Result<(), RigError> {
        let own = self.file.addresses.iter().map(String::as_str);
        let known: Vec<&str> = [Place::LISTEN, Place::ADMIN].into_iter().chain(own).collect();
        let of_counters = counters.map(|counters| &counters.on);
        let of_steps = self.file.steps.iter().filter_map(action::places);
        let mut places = processes.iter().flat_map(ProcessFile::places).chain(of_counters).chain(of_steps);
        match places.find(|place| !known.contains(&place.0.as_str())) {
            None => Ok(()),
            Some(Place(name)) => {
                Err(self.contradiction(&format!("unknown address `{name}`"), name, known.iter().copied()))
            }
        }
    }

    fn check_roles(&self, processes: &[ProcessFile], roles: &[Role]) -> Result<(), RigError> {
        match processes.iter().find(|process| !roles.contains(&process.role)) {
            Some(process) => Err(self.wrong(
                &format!("process `{}` has an invalid role", process.name),
                "use `data` or `control` in `processes`, and `origin` in `origin.processes`",
            )),
            None => Ok(()),
        }
    }

    fn unsupported(&self, what: String) -> RigError {
        RigError::NotYetServed { place: self.place.clone(), what }
    }

    fn wrong(&self, message: &str, remedy: &str) -> RigError {
        wrong(&self.place, message, remedy)
    }

    fn contradiction<'a>(&self, message: &str, word: &str, known: impl Iterator<Item = &'a str>) -> RigError {
        misnamed(&self.place, message, word, known)
    }
}

/// An error in the file `place` of a driver or service.
fn wrong(place: &str, message: &str, remedy: &str) -> RigError {
    RigError::Driver(Problem::of(place, message).help(remedy))
}

/// The error for a `word` that is not in `known`; its remedy is the most similar known word.
fn misnamed<'a>(place: &str, message: &str, word: &str, known: impl Iterator<Item = &'a str>) -> RigError {
    match weir_document::nearest(word, known) {
        Some(nearest) => wrong(place, message, &format!("did you mean `{nearest}`?")),
        None => wrong(place, message, "correct the name"),
    }
}

/// Rejects steps that start a process twice, wait for it before its start, or never start it. The error is a message
/// and a remedy.
fn check_order(steps: &[Step], processes: &[ProcessFile]) -> Result<(), (String, &'static str)> {
    let mut started: Vec<&str> = Vec::new();
    for step in steps {
        let (Step::Start(process) | Step::Wait(process)) = step else { continue };
        let waits = matches!(step, Step::Wait(_));
        if waits != started.contains(&process.as_str()) {
            return Err(match waits {
                true => {
                    (format!("`{process}` has a `wait` before its `start`"), "correct the order of the steps")
                }
                false => (format!("`{process}` is started twice"), "remove one of the two `start` steps"),
            });
        }
        if !waits {
            started.push(process);
        }
    }
    if processes.is_empty() {
        return Err(("`processes` is empty".to_owned(), "add a process"));
    }
    match processes.iter().find(|process| !started.contains(&process.name.as_str())) {
        Some(idle) => Err((format!("no step starts `{}`", idle.name), "add `start` and `wait` to the steps")),
        None => Ok(()),
    }
}

/// The paths in a folder, sorted by name.
fn listed(folder: &Path) -> Result<Vec<PathBuf>, RigError> {
    let entries = fs::read_dir(folder).map_err(|error| RigError::file(folder, error))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROCESS: &str = "about: x\nbinary: { name: x, version: { args: [], after: x }, get: x }\n\
                           processes: [{ name: p, role: data, command: [x] }]\n";

    fn check(text: &str, expected: Result<(), &str>) {
        let files = [(DRIVER_FILE.to_owned(), text.to_owned()), ("page".into(), String::new())];
        let read = Driver::read("d", "d", files.into()).map(drop);
        match (&read, expected) {
            (Ok(()), Ok(())) => {}
            (Err(error), Err(part)) => {
                let text = format!("{error} | {}", error.remedy());
                assert!(text.contains(part), "{text}");
                assert_eq!(error.cause(), "render");
            }
            _ => panic!("{read:?} for {text}"),
        }
    }

    #[test]
    fn invalid_drivers_are_rejected_with_a_reason() {
        let steps = |steps: &str| format!("{PROCESS}steps: [{steps}]\n");
        check(&steps("{ start: p }, { wait: p }"), Ok(()));
        check(&steps("{ render: { template: page, to: t } }, { start: p }"), Ok(()));
        check(&steps("{ render: { template: paeg, to: t } }, { start: p }"), Err("did you mean `page`"));
        check(&steps("{ start: q }"), Err("unknown process `q`"));
        check(&steps("{ wait: p }"), Err("`wait` before its `start`"));
        check(&steps("{ start: p }, { start: p }"), Err("started twice"));
        check(PROCESS, Err("no step starts `p`"));
        check("about: x\n", Err("`processes` is empty"));
        check("abuot: x\n", Err("about"));
        check(&steps("{ shell: ls }"), Err("shell"));
        let error = Driver::read(REMOTE, "d", BTreeMap::new()).unwrap_err();
        assert!(error.to_string().contains("`remote` is reserved for remote gateways"), "{error}");
    }

    #[test]
    fn roles_and_main_files_are_validated() {
        let gateway =
            format!("{PROCESS}steps: [{{ render: {{ template: page, to: t }} }}, {{ start: p }}]\n");
        check(&format!("{gateway}main: page\n"), Ok(()));
        check(&format!("{gateway}main: pgae\n"), Err("no step renders `pgae` | did you mean `page`"));
        let origin = |process: &str| {
            format!("{gateway}origin: {{ processes: [{process}], steps: [{{ start: o }}] }}\n")
        };
        check(&origin("{ name: o, role: origin, command: [x] }"), Ok(()));
        check(&origin("{ name: o, role: data, command: [x] }"), Err("process `o` has an invalid role"));
        check(&origin("{ name: q, role: origin, command: [x] }"), Err("unknown process `o`"));
        check(&gateway.replace("role: data", "role: origin"), Err("process `p` has an invalid role"));
    }

    #[test]
    fn certificate_steps_must_match_serves() {
        let of = |serves: &str, steps: &str| {
            format!("{PROCESS}serves: [{serves}]\nsteps: [{steps}{{ start: p }}]\n")
        };
        let made = "{ certificate: { to: tls } }, ";
        check(&of("tls, client_certificate, bearer", made), Ok(()));
        check(&of("bearer", ""), Ok(()));
        check(&of("tls", ""), Err("add the step `certificate`"));
        check(&of("", made), Err("add `serves: [tls]`"));
        check(&of("tls", &made.repeat(2)), Err("remove one of them"));
        check(&of("client_certificate", ""), Err("add `tls` to `serves`"));
        check(&of("certificates", ""), Err("add `tls` to `serves`"));
        check(&of("tsl", ""), Err("tls"));
        let origin = "origin: { processes: [{ name: o, role: origin, command: [x] }], \
                      steps: [{ certificate: { to: x } }, { start: o }] }\n";
        check(
            &format!("{}{origin}", of("", "")),
            Err("the step `certificate` under `origin` is not supported yet"),
        );
    }

    #[test]
    fn unsupported_steps_are_rejected_by_name() {
        let origin = "origin: { processes: [], steps: [{ http: { on: listen, method: GET, path: /, status: 200 } }] }\n";
        check(&format!("{PROCESS}steps: [{{ start: p }}]\n{origin}"), Err("the step `http` under `origin`"));
    }

    #[test]
    fn requests_and_manifests_must_name_existing_items() {
        let with = |more: &str, step: &str| {
            format!(
                "{PROCESS}{more}steps: [{{ start: p }}, {{ certificate: {{ to: tls }} }}, {step}]\nserves: [tls]\n"
            )
        };
        let http = |on: &str| {
            format!("{{ http: {{ on: {on}, method: GET, path: /, status: 200, template: page }} }}")
        };
        check(&with("", &http("admin")), Ok(()));
        check(&with("", &http("amdin")), Err("unknown address `amdin` | did you mean `admin`?"));
        check(&with("", &http("admin").replace("page", "pgae")), Err("did you mean `page`?"));
        let apply = |api: &str| format!("{{ kube_apply: {{ api: {{ {api} }}, template: page }} }}");
        check(&with("needs: [k]\n", &apply("service: k")), Ok(()));
        check(&with("", &apply("service: k")), Err("`kube_apply`: `k` is not in `needs` | add `needs: [k]`"));
        check(&with("", &apply("on: admin")), Ok(()));
        check(&with("", &apply("on: amdin")), Err("did you mean `admin`?"));
        let wait =
            "{ kube_wait: { api: { on: admin }, api_version: v1, kind: ConfigMap, name: x, patience: 5s } }";
        check(&with("", wait), Ok(()));
        let plain = format!("{PROCESS}steps: [{{ start: p }}, {wait}]\n");
        check(
            &plain,
            Err("the gateway's own Kubernetes API needs certificates | add the step `certificate`"),
        );
        let changes = "apply: { kubernetes: { api: { service: k }, template: page } }\n";
        check(&with(&format!("needs: [k]\n{changes}"), wait), Ok(()));
        check(&with(changes, wait), Err("`apply`: `k` is not in `needs`"));
    }

    #[test]
    fn published_services_must_be_in_needs() {
        let publish = |needs: &str, service: &str, template: &str| {
            format!(
                "{PROCESS}needs: [{needs}]\nsteps: [{{ start: p }}, {{ nats_publish: {{ service: {service}, subject: s, \
                 template: {template} }} }}]\n"
            )
        };
        check(&publish("nats", "nats", "page"), Ok(()));
        check(&publish("", "nats", "page"), Err("`nats` is not in `needs`"));
        check(&publish("nats", "nast", "page"), Err("did you mean `nats`?"));
        check(&publish("nats", "nats", "pgae"), Err("unknown template `pgae` | did you mean `page`?"));
        let place = PROCESS.replace("command: [x]", "command: [x], listens: [amdin]");
        check(
            &format!("{place}steps: [{{ start: p }}]\n"),
            Err("unknown address `amdin` | did you mean `admin`?"),
        );
    }

    #[test]
    fn an_unknown_driver_name_gets_the_closest_suggestion() {
        let drivers = Drivers::load(&[]).unwrap();
        assert_eq!(
            drivers.names(),
            [
                "contour",
                "envoy",
                "envoy-gateway",
                "gorouter",
                "haproxy",
                "istio",
                "kubegateway",
                "nginx",
                "weir"
            ]
        );
        let error = drivers.driver("ngnix").unwrap_err();
        assert_eq!(error.to_string(), "unknown driver `ngnix`");
        assert!(error.remedy().contains("did you mean `nginx`"), "{}", error.remedy());
    }
}
