//! The services that a gateway needs: started before it, and stopped after it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use weir_results::{Cell, CellOutcome, Role};
use weir_rig::{
    Act, Action, Binary, KubeAccess, Namespace, RigError, Running, Service, ServiceBinding, ServiceOrigin,
};

use super::Lab;
use super::error::{CellError, failed, service_failed};
use super::kept;
use super::kube::{KubeClient, endpoint_of};
use super::network::CellSite;
use super::publish::Publisher;
use crate::scenario::Scenario;

/// By service name: the binaries of the service, or why they are missing.
pub(crate) type ServiceBinaries = BTreeMap<String, Result<BTreeMap<String, Binary>, CellOutcome>>;

/// The services of a cell while it runs.
#[derive(Default)]
pub(crate) struct Services {
    pub(crate) running: Vec<Running>,
    pub(crate) parts: ServiceParts,
    /// Outputs by service name. Templates of gateways can use them.
    pub(crate) outputs: BTreeMap<String, BTreeMap<String, String>>,
    /// Network namespaces by service name. Services in the network of the host have no entry.
    pub(crate) namespaces: BTreeMap<String, Namespace>,
}

/// By service: the names of its processes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServiceParts(BTreeMap<String, Vec<String>>);

/// After an error, weir checks up to this many times whether a process has died and caused the error.
const DEATH_LOOKS: u32 = 10;
/// Pause between two checks whether a process has died.
const DEATH_EVERY: Duration = Duration::from_millis(20);

impl ServiceParts {
    /// Whether the service `service` was started.
    pub(crate) fn has_service(&self, service: &str) -> bool {
        self.0.contains_key(service)
    }

    /// Whether the process `part` belongs to `service`.
    pub(crate) fn belongs(&self, part: &str, service: &str) -> bool {
        self.0.get(service).is_some_and(|parts| parts.iter().any(|name| name == part))
    }

    /// The service that the process `part` belongs to.
    fn service_of(&self, part: &str) -> Option<&str> {
        self.0.keys().map(String::as_str).find(|service| self.belongs(part, service))
    }

    /// The failure of one of the processes `running`; `None` if all run. Checks services first, because a failed
    /// service can make a gateway fail.
    pub(crate) fn failure(&self, running: &mut [Running]) -> Option<CellError> {
        let of_service = running.iter_mut().find_map(|process| {
            let service = self.service_of(process.name())?;
            Some(service_failed(service, &process.failure()?))
        });
        of_service.or_else(|| Some(running.iter_mut().find_map(Running::failure)?.into()))
    }

    /// Returns the failure of a process in `running` that has died. If none has died, returns `error`, the start error
    /// of a gateway or service.
    fn explain(&self, error: CellError, running: &mut [Running]) -> CellError {
        if matches!(error, CellError::Stopped) || running.is_empty() {
            return error;
        }
        for _ in 0..DEATH_LOOKS {
            if let Some(death) = self.failure(running) {
                return death;
            }
            thread::sleep(DEATH_EVERY);
        }
        error
    }
}

impl Services {
    /// See [`ServiceParts::explain`].
    pub(crate) fn explain(&mut self, error: CellError) -> CellError {
        self.parts.explain(error, &mut self.running)
    }

    /// The output `name` of the service `service`, or an error if the service does not have it.
    pub(crate) fn output(&self, service: &str, name: &str) -> Result<&str, CellError> {
        let output = self.outputs.get(service).and_then(|outputs| outputs.get(name));
        output.map(String::as_str).ok_or_else(|| {
            let message = format!("service `{service}`: `outputs.{name}` is missing");
            failed("render", &message, "add it to `outputs` of its service.yaml", "")
        })
    }

    /// Connects to the NATS service `service`.
    pub(crate) fn publisher(&self, service: &str) -> Result<Publisher, CellError> {
        Publisher::connect(service, self.output(service, "address")?, self.namespaces.get(service))
    }

    /// Connects to a Kubernetes API. `access` selects the API of a service or the API of `part`. `namespace` is the
    /// network namespace where `part` runs.
    pub(crate) fn kube_client(
        &self,
        access: &KubeAccess,
        part: &str,
        namespace: Option<&Namespace>,
    ) -> Result<KubeClient, CellError> {
        match access {
            KubeAccess::Own(endpoint) => KubeClient::connect(part, endpoint, namespace),
            KubeAccess::Service(service) => {
                let endpoint = endpoint_of(service, |name| self.output(service, name).map(str::to_owned))?;
                KubeClient::connect(service, &endpoint, self.namespaces.get(service))
            }
        }
    }

    /// Runs the actions that are due once the number of started processes of `part` is `after`. `part` runs in the
    /// network namespace `namespace`.
    pub(crate) fn act(
        &self,
        actions: &[Action],
        after: usize,
        part: &str,
        namespace: Option<&Namespace>,
    ) -> Result<(), CellError> {
        for action in actions.iter().filter(|action| action.after == after) {
            match &action.what {
                Act::Publish(publication) => {
                    let publisher = self.publisher(&publication.service)?;
                    publisher.publish(&publication.messages, publication.gap)?;
                }
                Act::Request(request) => request.send(namespace)?,
                Act::Apply(access, manifests) => {
                    self.kube_client(access, part, namespace)?.apply(manifests)?
                }
                Act::Await(access, awaited) => self.kube_client(access, part, namespace)?.wait(awaited)?,
            }
        }
        Ok(())
    }
}

/// A started service.
pub(crate) struct StartedService {
    pub(crate) running: Vec<Running>,
    /// How the service serves as the upstream; `None` if it cannot.
    pub(crate) origin: Option<ServiceOrigin>,
}

impl Lab<'_> {
    /// Starts the services of `driver` that are not running yet, one after the other.
    pub(crate) fn start_services(
        &self,
        site: CellSite<'_>,
        driver: &str,
        cell: &mut Cell,
        services: &mut Services,
    ) -> Result<(), CellError> {
        for service in self.drivers.needed_by(driver)? {
            if !services.outputs.contains_key(service.name()) {
                let started = self.start_service(site, service, Role::Service, cell, services)?;
                services.running.extend(started.running);
            }
        }
        Ok(())
    }

    /// Starts a service. `role` is the role of its processes: `Origin` if the service is the upstream.
    pub(crate) fn start_service(
        &self,
        site: CellSite<'_>,
        service: &Service,
        role: Role,
        cell: &mut Cell,
        services: &mut Services,
    ) -> Result<StartedService, CellError> {
        let name = service.name();
        let binaries = match self.services.get(name) {
            Some(Ok(binaries)) => binaries.clone(),
            Some(Err(outcome)) => return Err(CellError::Failed(outcome.clone())),
            None => {
                let message = format!("{name}: its programs were not located");
                return Err(failed("binary-missing", &message, "start a new run", ""));
            }
        };
        let CellSite { dir, scenario, network } = site;
        let (addresses, namespace) = network.service(&service.file().addresses)?;
        let binding = service_binding(scenario, addresses, binaries, role);
        let home = dir.join(name);
        let of_service = |error: RigError| service_failed(name, &error);
        let rendered = service.render(&binding, &home).map_err(of_service)?.within(namespace.as_ref());
        cell.files.extend(kept::configuration(dir, &rendered.files));
        let parts = rendered.processes.iter().map(|process| process.name.clone()).collect();
        services.parts.0.insert(name.to_owned(), parts);
        services.outputs.insert(name.to_owned(), rendered.outputs);
        services.namespaces.extend(namespace.clone().map(|namespace| (name.to_owned(), namespace)));
        let mut running: Vec<Running> = Vec::new();
        let mut launch = || {
            services.act(&rendered.actions, running.len(), name, namespace.as_ref())?;
            for process in &rendered.processes {
                let started = self.rig.launch(process).map_err(of_service)?;
                cell.parts.push(started.part());
                running.push(started);
                services.act(&rendered.actions, running.len(), name, namespace.as_ref())?;
            }
            Ok(())
        };
        match launch() {
            Ok(()) => Ok(StartedService { running, origin: rendered.origin }),
            Err(error) => Err(services.parts.explain(error, &mut running)),
        }
    }
}

/// The values for the templates of a service. `role` is the role of its processes: `Origin` if the service is the
/// upstream.
pub fn service_binding(
    scenario: &Scenario,
    addresses: BTreeMap<String, SocketAddr>,
    binaries: BTreeMap<String, Binary>,
    role: Role,
) -> ServiceBinding {
    let is_origin = role == Role::Origin;
    ServiceBinding {
        addresses,
        binaries,
        limits: scenario.limits_of(role),
        role,
        hosts: if is_origin { scenario.topology.hosts() } else { Vec::new() },
        set: if is_origin { scenario.origin.prepare.to_map() } else { BTreeMap::new() },
        tokens: if is_origin { scenario.topology.bearer } else { 0 },
    }
}
