//! The services that a gateway needs: started before it, and ended after it.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use weir_results::{Cell, CellOutcome, Role};
use weir_rig::{Act, Action, Binary, KubeAccess, Namespace, Running, Service, ServiceBinding, ServiceOrigin};

use super::Lab;
use super::error::{CellError, failed};
use super::kept;
use super::kube::{KubeClient, endpoint_of};
use super::network::CellSite;
use super::publish::Publisher;
use crate::scenario::Scenario;

/// By a service's name: its binaries, or why it has none.
pub(crate) type ServiceBinaries = BTreeMap<String, Result<BTreeMap<String, Binary>, CellOutcome>>;

/// The services of a cell while it runs.
#[derive(Default)]
pub(crate) struct Services {
    pub(crate) running: Vec<Running>,
    /// By service: what templates of the gateway find.
    pub(crate) outputs: BTreeMap<String, BTreeMap<String, String>>,
    /// By service: its network namespace; absent for the host's.
    pub(crate) namespaces: BTreeMap<String, Namespace>,
}

impl Services {
    /// An output of a service that the gateway needs.
    pub(crate) fn output(&self, service: &str, name: &str) -> Result<&str, CellError> {
        let output = self.outputs.get(service).and_then(|outputs| outputs.get(name));
        output.map(String::as_str).ok_or_else(|| {
            let message = format!("service `{service}`: `outputs.{name}` is missing");
            failed("render", &message, "add it to `outputs` of its service.yaml", "")
        })
    }

    /// A connection to a service that is a NATS server.
    pub(crate) fn publisher(&self, service: &str) -> Result<Publisher, CellError> {
        Publisher::connect(service, self.output(service, "address")?, self.namespaces.get(service))
    }

    /// A connection to a Kubernetes API: that of a service, or an own one of `part`, which lives in `namespace`.
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

    /// Does what is due after so many processes of `part`, which lives in `namespace`.
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

/// A service that was started.
pub(crate) struct StartedService {
    pub(crate) running: Vec<Running>,
    /// What it is as the upstream; `None` if it cannot play it.
    pub(crate) origin: Option<ServiceOrigin>,
}

impl Lab<'_> {
    /// Starts the services of `driver` that do not run yet, one after the other.
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

    /// Starts a service; `role` is what its processes are in the rig.
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
        let rendered = service.render(&binding, &home)?.within(namespace.as_ref());
        cell.files.extend(kept::configuration(dir, &rendered.files));
        services.outputs.insert(name.to_owned(), rendered.outputs);
        services.namespaces.extend(namespace.clone().map(|namespace| (name.to_owned(), namespace)));
        let mut running = Vec::new();
        services.act(&rendered.actions, running.len(), name, namespace.as_ref())?;
        for process in &rendered.processes {
            let started = self.rig.launch(process)?;
            cell.parts.push(started.part());
            running.push(started);
            services.act(&rendered.actions, running.len(), name, namespace.as_ref())?;
        }
        Ok(StartedService { running, origin: rendered.origin })
    }
}

/// The values that a service is rendered with; `role` is what its processes are in the rig.
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
