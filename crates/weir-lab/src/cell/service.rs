//! The services that a gateway needs: started before it, and ended after it.

use std::collections::BTreeMap;
use std::path::Path;

use weir_results::{Cell, CellOutcome, Role};
use weir_rig::{Binary, Namespace, Running, Service, ServiceBinding};

use super::Lab;
use super::error::{CellError, failed};
use super::kept;
use super::network::CellNetwork;
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
}

impl Lab<'_> {
    /// Starts the services of `driver`, one after the other.
    pub(crate) fn start_services(
        &self,
        dir: &Path,
        scenario: &Scenario,
        driver: &str,
        network: &CellNetwork<'_>,
        cell: &mut Cell,
    ) -> Result<Services, CellError> {
        let mut services = Services::default();
        for service in self.drivers.needed_by(driver)? {
            self.start_service(dir, scenario, service, network, cell, &mut services)?;
        }
        Ok(services)
    }

    fn start_service(
        &self,
        dir: &Path,
        scenario: &Scenario,
        service: &Service,
        network: &CellNetwork<'_>,
        cell: &mut Cell,
        services: &mut Services,
    ) -> Result<(), CellError> {
        let name = service.name();
        let binaries = match self.services.get(name) {
            Some(Ok(binaries)) => binaries.clone(),
            Some(Err(outcome)) => return Err(CellError::Failed(outcome.clone())),
            None => {
                let message = format!("{name}: its programs were not located");
                return Err(failed("binary-missing", &message, "start a new run", ""));
            }
        };
        let (addresses, namespace) = network.service(&service.file().addresses)?;
        let binding = ServiceBinding { addresses, binaries, limits: scenario.limits_of(Role::Service) };
        let home = dir.join(name);
        let rendered = service.render(&binding, &home)?.within(namespace.as_ref());
        cell.files.extend(kept::configuration(dir, &rendered.files));
        for process in &rendered.processes {
            let running = self.rig.launch(process)?;
            cell.parts.push(running.part());
            services.running.push(running);
        }
        services.outputs.insert(name.to_owned(), rendered.outputs);
        services.namespaces.extend(namespace.map(|namespace| (name.to_owned(), namespace)));
        Ok(())
    }
}
