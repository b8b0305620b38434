//! Starts the processes of a cell and waits until they are ready.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_results::{Cell, CellOutcome, Part, Role, is_baseline};
use weir_rig::{Binary, Binding, CounterSource, Namespace, PodBinding, Rendered, Running, SecureOrigin};

use super::cold_start::{ColdStartSampler, await_last_route};
use super::error::{CellError, failed, file_failed};
use super::network::{CellNetwork, CellSite, Listener};
use super::origin::{Upstream, secure_origin};
use super::remote::RemoteTarget;
use super::samplers::Beside;
use super::service::{ServiceParts, Services};
use super::{Lab, control, kept, user_config};
use crate::disturb::{self, Disturbances};
use crate::pods::PodUsage;
use crate::scenario::{Gateway, Scenario};

/// Maximum number of start attempts. If another process takes a port between weir's check and the server's bind, weir
/// starts the cell again with other ports.
const PORT_TRIES: u32 = 5;

// Parts are not pinned to CPUs: the field `cpus` of each process is `None`, and the limits of each role are quotas.
// Other processes can run on the core of a pinned part. A pinned gateway with a quota of half a core would then wait
// for them, and could not use its whole quota. Without pinning, the scheduler gives each part an idle core.

/// The processes of a cell while it runs.
pub(super) struct Processes<'a> {
    /// The processes of the gateway, which stop before those of the upstream.
    pub(super) gateway: Vec<Running>,
    /// The processes of the required services.
    pub(super) services: Vec<Running>,
    /// For each service, the names of its processes in `services`.
    pub(super) service_parts: ServiceParts,
    pub(super) upstream: Upstream,
    /// The network namespace of the generator; `None` means the network of the host.
    pub(super) generator: Option<Namespace>,
    pub(super) rendered: Option<Rendered>,
    pub(super) disturbances: Disturbances,
    /// The load is sent to these addresses in turn.
    pub(super) connect: Vec<SocketAddr>,
    /// A target that weir did not start. If set, the load is sent to this target, not to the addresses in `connect`.
    pub(super) remote_target: Option<RemoteTarget>,
    /// The parts that run in pods with an agent.
    pub(super) placed: Vec<Part>,
    /// The request counters of the gateway.
    pub(super) counters: Vec<CounterSource>,
    /// The parts in pods that weir did not create.
    pub(super) watched: Vec<Part>,
    /// Reads the usage of the parts in `watched`; `None` if there are none, or if weir lacks the permission.
    pub(super) usage: Option<Box<dyn PodUsage>>,
    /// The parts that agents on nodes sample.
    pub(super) sampled: Vec<Part>,
    /// The agents that sample the parts in `sampled`.
    pub(super) besides: Vec<Beside<'a>>,
}

impl Processes<'_> {
    /// The processes of a cell in which only `upstream` runs so far.
    pub(super) fn of_upstream(upstream: Upstream) -> Self {
        Self {
            gateway: vec![],
            services: vec![],
            service_parts: ServiceParts::default(),
            upstream,
            generator: None,
            rendered: None,
            disturbances: Disturbances::default(),
            connect: vec![],
            remote_target: None,
            placed: vec![],
            counters: vec![],
            watched: vec![],
            usage: None,
            sampled: vec![],
            besides: vec![],
        }
    }
}

/// A gateway whose processes run.
struct StartedGateway {
    running: Vec<Running>,
    rendered: Rendered,
    listener: Listener,
    disturbances: Disturbances,
}

/// The parts that must run before a gateway starts.
struct Behind<'a> {
    upstream: &'a Upstream,
    services: &'a mut Services,
}

/// The inputs, besides the scenario, for rendering a gateway's configuration.
pub(super) struct Surroundings<'a> {
    pub(super) listener: &'a Listener,
    /// The addresses of the upstream's servers.
    pub(super) origins: Vec<SocketAddr>,
    /// Additional addresses of the gateway, by name.
    pub(super) addresses: BTreeMap<String, SocketAddr>,
    /// Outputs of services, by service and name.
    pub(super) services: BTreeMap<String, BTreeMap<String, String>>,
    /// How the gateway connects to the upstream over TLS; `None` if the upstream is plain.
    pub(super) secure_origin: Option<SecureOrigin>,
    /// The cluster of the gateway, if it runs in one.
    pub(super) pods: Option<PodBinding>,
}

impl Lab<'_> {
    /// Starts the processes of a cell. Retries with other ports if another process took one.
    pub(super) fn start(
        &self,
        dir: &Path,
        scenario: &Scenario,
        gateway: &str,
        cell: &mut Cell,
    ) -> Result<Processes<'_>, CellError> {
        let mut tries = 1;
        loop {
            cell.parts.clear();
            cell.files.clear();
            let asked = scenario.gateway(gateway).and_then(|gateway| gateway.listen);
            match self.try_start(dir, scenario, gateway, cell) {
                Err(CellError::Failed(CellOutcome::Failed { cause, .. }))
                    if cause == "port-taken" && asked.is_none() && tries < PORT_TRIES =>
                {
                    tries += 1;
                }
                other => return other,
            }
        }
    }

    fn try_start(
        &self,
        dir: &Path,
        scenario: &Scenario,
        gateway: &str,
        cell: &mut Cell,
    ) -> Result<Processes<'_>, CellError> {
        let from = self.load_from(scenario)?;
        if scenario.is_elsewhere() {
            return self.reach(scenario, gateway, cell);
        }
        if scenario.is_in_pods() {
            return self.start_in_pods(dir, scenario, gateway, cell);
        }
        let network =
            CellNetwork::new(scenario.network(), self.rig, self.ports, !is_baseline(gateway), from)?;
        let site = CellSite { dir, scenario, network: &network };
        let mut services = Services::default();
        let upstream = self.start_upstream(site, is_baseline(gateway), cell, &mut services)?;
        let generator = network.generator();
        if is_baseline(gateway) {
            let connect = upstream.addresses();
            return Ok(Processes {
                service_parts: services.parts,
                generator,
                connect,
                ..Processes::of_upstream(upstream)
            });
        }
        let behind = Behind { upstream: &upstream, services: &mut services };
        let started = match self.start_gateway(site, gateway, behind, cell) {
            Ok(started) => started,
            Err(error) => return Err(services.explain(error)),
        };
        Ok(Processes {
            gateway: started.running,
            services: services.running,
            service_parts: services.parts,
            generator,
            counters: vec![started.rendered.counters.clone()],
            rendered: Some(started.rendered),
            disturbances: started.disturbances,
            connect: vec![started.listener.connect],
            ..Processes::of_upstream(upstream)
        })
    }

    /// Starts the gateway, and prepares its disturbances.
    fn start_gateway(
        &self,
        site: CellSite<'_>,
        gateway: &str,
        behind: Behind<'_>,
        cell: &mut Cell,
    ) -> Result<StartedGateway, CellError> {
        let Behind { upstream, services } = behind;
        let CellSite { dir, scenario, network } = site;
        let entry = gateway_of(scenario, gateway)?;
        let listener = network.gateway(entry.listen)?;
        let home = dir.join("gateway");
        self.start_services(site, &entry.driver, cell, services)?;
        let upstream_certificates = upstream.credentials.as_ref().and_then(|of| of.certificates.as_ref());
        let surroundings = Surroundings {
            listener: &listener,
            origins: upstream.addresses(),
            addresses: network.further(&listener, &self.drivers.driver(&entry.driver)?.file().addresses)?,
            services: services.outputs.clone(),
            secure_origin: secure_origin(scenario, upstream_certificates),
            pods: None,
        };
        let (binding, rendered) = self.render(&home, scenario, entry, surroundings)?;
        cell.files.extend(kept::configuration(dir, &rendered.files));
        cell.unequal.clone_from(&rendered.unequal);
        if let Some(image) = &binding.binary.image {
            cell.unequal.push(format!(
                "{} runs in a container of {}: its system calls pass the engine's seccomp filter, and its start time \
                 includes the container's",
                entry.name,
                image.engine()
            ));
        }
        let configuration = self.configurations.get(&entry.name);
        let sampler = scenario.cold_start.then(|| ColdStartSampler::begin(&upstream.running));
        let mut running = Vec::new();
        let namespace = listener.namespace.as_ref();
        services.act(&rendered.actions, running.len(), gateway, namespace)?;
        for process in &rendered.processes {
            let process = &control::burdened(process, scenario, gateway, self.weir);
            let started = self.rig.launch(process).map_err(|error| match configuration {
                Some(configuration) => user_config::not_started(&error, configuration, listener.listen),
                None => error.into(),
            })?;
            cell.parts.push(started.part());
            running.push(started);
            services.act(&rendered.actions, running.len(), gateway, namespace)?;
            if self.stop.load(Ordering::Relaxed) {
                return Err(CellError::Stopped);
            }
        }
        if let Some(configuration) = configuration {
            user_config::probe(configuration, scenario, &listener, &rendered, &upstream.counters)?;
        }
        cell.cold_start = sampler
            .map(|sampler| sampler.end(scenario, &rendered, &listener, &running, self.stop))
            .transpose()?;
        // The service has received all messages with routes, but the gateway may still process them.
        if cell.cold_start.is_none() && rendered.publications().next().is_some() {
            await_last_route(scenario, &rendered, &listener, self.stop)?;
        }
        let generator = network.generator();
        let disturbances = Disturbances::prepare(&disturb::Gateway {
            scenario,
            driver: self.drivers.driver(&entry.driver)?,
            binding: &binding,
            rendered: &rendered,
            home: &home,
            running: &running,
            listener: &listener,
            upstream,
            services,
            generator: generator.as_ref(),
            weir: self.weir,
            stop: self.stop,
            pods: None,
        })?;
        Ok(StartedGateway { running, rendered, listener, disturbances })
    }

    /// Checks that a remote gateway responds; nothing is started.
    fn reach(&self, scenario: &Scenario, gateway: &str, cell: &mut Cell) -> Result<Processes<'_>, CellError> {
        let remote_target = match self.remotes.get(gateway) {
            Some(remote) => {
                cell.parts.push(remote.part.clone());
                cell.unequal.clone_from(&remote.unequal);
                scenario.gateways.iter().find(|entry| entry.name == gateway).and_then(RemoteTarget::of)
            }
            None => RemoteTarget::direct(scenario),
        };
        let remote_target = remote_target.ok_or_else(|| {
            failed("render", &format!("the scenario has no URL for `{gateway}`"), "start a new run", "")
        })?;
        remote_target.require(scenario, is_baseline(gateway))?;
        let remote_target = Some(remote_target);
        Ok(Processes { remote_target, ..Processes::of_upstream(Upstream::unknown()) })
    }

    pub(super) fn render(
        &self,
        dir: &Path,
        scenario: &Scenario,
        gateway: &Gateway,
        surroundings: Surroundings<'_>,
    ) -> Result<(Binding, Rendered), CellError> {
        let Surroundings { listener, origins, addresses: further, services, secure_origin, pods } =
            surroundings;
        let binary = match self.binaries.get(&gateway.name) {
            Some(Ok(binary)) => binary.clone(),
            Some(Err(outcome)) => return Err(CellError::Failed(outcome.clone())),
            None => {
                let message = "the program of the gateway was not located";
                return Err(failed("binary-missing", message, "start a new run", ""));
            }
        };
        let driver = self.drivers.driver(&gateway.driver)?;
        let addresses = Addresses { listen: listener.listen, admin: listener.admin, origins: &origins };
        let binding = Binding {
            config: self.configurations.get(&gateway.name).cloned(),
            certificates: self.certificates.of(self.rig, &scenario.topology)?,
            services,
            addresses: further,
            secure_origin,
            pods,
            ..binding(scenario, gateway, binary, &addresses, self.run.seed)
        };
        std::fs::create_dir_all(dir).map_err(|error| file_failed("create", dir, &error))?;
        let rendered = driver.render(&binding, dir)?;
        Ok((binding, rendered.within(listener.namespace.as_ref())))
    }
}

/// The gateway called `gateway`, or an error if the scenario does not have it.
pub(super) fn gateway_of<'s>(scenario: &'s Scenario, gateway: &str) -> Result<&'s Gateway, CellError> {
    scenario.gateway(gateway).ok_or_else(|| {
        failed("render", &format!("the scenario has no gateway `{gateway}`"), "start a new run", "")
    })
}

/// The addresses that a gateway's configuration contains.
#[derive(Clone, Copy, Debug)]
pub struct Addresses<'a> {
    /// The address where the gateway listens for clients.
    pub listen: SocketAddr,
    /// The address of the gateway's admin endpoint.
    pub admin: SocketAddr,
    /// The addresses of the upstream's servers.
    pub origins: &'a [SocketAddr],
}

/// The values for the templates of a gateway's configuration. Bearer tokens derive from `seed`.
pub fn binding(
    scenario: &Scenario,
    gateway: &Gateway,
    binary: Binary,
    addresses: &Addresses<'_>,
    seed: u64,
) -> Binding {
    let roles = [Role::Data, Role::Control, Role::Origin, Role::Generator, Role::Service];
    Binding {
        listen: addresses.listen,
        admin: addresses.admin,
        origins: addresses.origins.to_vec(),
        hosts: scenario.topology.hosts(),
        paths: scenario.topology.paths(),
        rewrite: scenario.topology.rewrite.clone(),
        tls: scenario.topology.tls_binding(),
        certificates: None,
        tokens: weir_rig::tokens(seed, scenario.known_tokens()),
        token_cache: scenario.topology.token_cache.map_or(Duration::ZERO, |time| time.0),
        workers: scenario.data_workers(),
        limits: roles.into_iter().map(|role| (role, scenario.limits_of(role))).collect(),
        set: gateway.set.to_map(),
        binary,
        config: None,
        changes: scenario.changes.is_some(),
        services: BTreeMap::new(),
        addresses: BTreeMap::new(),
        secure_origin: None,
        pods: None,
    }
}
