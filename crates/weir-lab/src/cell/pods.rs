//! A cell in a cluster: its upstream and its gateway run in pods, each with an agent that samples it.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weir_results::{Cell, Part, Plane, Role, is_baseline};
use weir_rig::{
    Asked, Binary, Certificates, CounterSource, Credentials, DataService, KubernetesFile, ProcessSpec,
    Rendered, status_of,
};

use super::error::{CellError, failed};
use super::network::{ADMIN_PORT, LISTEN_PORT, Listener};
use super::origin::{Delays, Replica, ReplicaSpec, Upstream, replica_names};
use super::samplers::Beside;
use super::service::Services;
use super::start::{Processes, Surroundings, gateway_of};
use super::{Lab, kept};
use crate::agents::CrewError;
use crate::disturb::{self, Disturbances, InCluster};
use crate::pods::{PartSpec, PodHost, PodUsage, WatchedContainer, part_of_workload, resources_of};
use crate::scenario::{Gateway, Scenario};

/// Interval of readiness checks of a part in a pod.
const READY_EVERY: Duration = Duration::from_millis(50);

/// Timeout until the data plane of a gateway in the cluster serves all routes.
const ROUTES_MAX: Duration = Duration::from_secs(180);
/// Maximum number of hosts whose routes are checked.
const ROUTES_LOOKED_AT: usize = 64;
/// Timeout of a request that checks whether the gateway serves a route.
const ROUTE_TIMEOUT: Duration = Duration::from_secs(5);

/// The listen addresses of parts in pods: all addresses, because the pod's address is unknown before it runs.
fn anywhere([port, admin]: [u16; 2]) -> Listener {
    let at = |port: u16| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    Listener { listen: at(port), admin: at(admin), connect: at(port), namespace: None }
}

/// A gateway that is ready for load.
struct StartedGateway<'a> {
    rendered: Rendered,
    connect: Vec<SocketAddr>,
    counters: Vec<CounterSource>,
    /// The gateway as a part, if weir has created its pod.
    in_pod: Option<Part>,
    /// The parts of a gateway that already runs in the cluster and that no agent samples.
    watched: Vec<Part>,
    usage: Option<Box<dyn PodUsage>>,
    /// For a gateway that already runs in the cluster: the parts that agents on its nodes sample.
    sampled: Vec<Part>,
    /// The agents that sample the parts in `sampled`.
    besides: Vec<Beside<'a>>,
    disturbances: Disturbances,
}

/// A part that weir has started in a pod.
struct Started {
    /// The process of the part. Its readiness check connects to the address of the pod, not to the address on which the
    /// process listens.
    process: ProcessSpec,
    part: Part,
    address: SocketAddr,
}

impl Lab<'_> {
    /// Starts the pods of a cell, and waits until they are ready.
    pub(super) fn start_in_pods(
        &self,
        dir: &Path,
        scenario: &Scenario,
        gateway: &str,
        cell: &mut Cell,
    ) -> Result<Processes<'_>, CellError> {
        // Deletes pods that an earlier, failed cell has left.
        self.samplers.end_pods();
        let mut placed = Vec::new();
        let upstream = self.upstream_in_pods(dir, scenario, is_baseline(gateway), cell, &mut placed)?;
        if is_baseline(gateway) {
            let connect = upstream.addresses();
            return Ok(Processes { connect, placed, ..Processes::of_upstream(upstream) });
        }
        let entry = gateway_of(scenario, gateway)?;
        let started = match self.drivers.driver(&entry.driver)?.kubernetes() {
            None => self.gateway_in_pod(dir, scenario, entry, &upstream, cell)?,
            Some(of) => self.gateway_in_cluster(dir, scenario, entry, of, &upstream, cell)?,
        };
        let StartedGateway {
            rendered,
            connect,
            counters,
            in_pod,
            watched,
            usage,
            sampled,
            besides,
            disturbances,
        } = started;
        placed.extend(in_pod);
        let rendered = Some(rendered);
        Ok(Processes {
            rendered,
            connect,
            placed,
            counters,
            watched,
            usage,
            sampled,
            besides,
            disturbances,
            ..Processes::of_upstream(upstream)
        })
    }

    /// Starts a gateway in a pod that weir creates.
    fn gateway_in_pod(
        &self,
        dir: &Path,
        scenario: &Scenario,
        entry: &Gateway,
        upstream: &Upstream,
        cell: &mut Cell,
    ) -> Result<StartedGateway<'_>, CellError> {
        let home = dir.join("gateway");
        let surroundings = Surroundings {
            listener: &anywhere([LISTEN_PORT, ADMIN_PORT]),
            origins: upstream.addresses(),
            addresses: BTreeMap::new(),
            services: BTreeMap::new(),
            secure_origin: None,
            pods: None,
        };
        let (binding, made) = self.render(&home, scenario, entry, surroundings)?;
        cell.files.extend(kept::configuration(dir, &made.files));
        cell.unequal.clone_from(&made.unequal);
        let [process] = &made.processes[..] else {
            let message = format!(
                "{}: this gateway has several processes, but weir runs one process per pod",
                entry.name
            );
            return Err(failed("render", &message, "measure this gateway on one host", ""));
        };
        let certificates = binding.certificates.as_ref().and_then(|made| made.server.parent());
        let folders = [home.as_path()].into_iter().chain(certificates).collect();
        let started = self.pod_of(scenario, process, folders)?;
        cell.parts.push(started.part.clone());
        self.await_pod(&started.process)?;
        let rendered = made.reached_at(started.address.ip());
        Ok(StartedGateway {
            connect: vec![started.address],
            counters: vec![rendered.counters.clone()],
            rendered,
            in_pod: Some(started.part),
            watched: vec![],
            usage: None,
            sampled: vec![],
            besides: vec![],
            disturbances: Disturbances::default(),
        })
    }

    /// Applies routes and limits to a gateway that already runs in the cluster, and replaces its pods.
    fn gateway_in_cluster(
        &self,
        dir: &Path,
        scenario: &Scenario,
        entry: &Gateway,
        of: &KubernetesFile,
        upstream: &Upstream,
        cell: &mut Cell,
    ) -> Result<StartedGateway<'_>, CellError> {
        let Some(host) = &self.agents.options().pods else {
            let message = format!("{}: this gateway runs only in a cluster", entry.name);
            return Err(failed("render", &message, "use `weir run SCENARIO --on k8s`", ""));
        };
        let home = dir.join("gateway");
        let port = if scenario.topology.tls { of.tls_port.unwrap_or(of.port) } else { of.port };
        let listener = anywhere([port, of.admin_port.unwrap_or(ADMIN_PORT)]);
        let mut pods = host.binding(LISTEN_PORT).map_err(CrewError::from)?;
        pods.resources = resources_of(scenario.limits_of(Role::Data));
        let run = pods.run.clone();
        let surroundings = Surroundings {
            listener: &listener,
            // Routes lead to the Service of the upstream.
            origins: vec![listener.connect],
            addresses: BTreeMap::new(),
            services: BTreeMap::new(),
            secure_origin: None,
            pods: Some(pods),
        };
        let (binding, rendered) = self.render(&home, scenario, entry, surroundings)?;
        cell.unequal.clone_from(&rendered.unequal);
        let driver = self.drivers.driver(&entry.driver)?;
        let mut routes =
            driver.cluster_routes(&binding, rendered.credentials.certificates.as_ref(), &home)?;
        // 100,000 routes need more than 100 MiB, so they do not stay in memory during the measurement.
        let objects = std::mem::take(&mut routes.objects);
        host.put_routes(&entry.name, &objects, routes.accepted.as_ref()).map_err(CrewError::from)?;
        drop(objects);
        let (mut watched, mut sampled, mut besides) = (Vec::new(), Vec::new(), Vec::new());
        let (mut containers, mut connect, mut workloads) = (Vec::new(), Vec::new(), BTreeMap::new());
        let has_faults = scenario.faults.iter().any(|fault| fault.gateway.is_some());
        let control = routes.control.iter().map(|workload| (workload, Role::Control));
        // The control plane first: the data plane connects to it at its start.
        for (workload, role) in control.chain([(&routes.data, Role::Data)]) {
            let is_alone = routes.control.as_ref().is_none_or(|control| control.name != routes.data.name);
            let name = match (role, is_alone) {
                (Role::Control, false) => format!("{}-control", workload.name),
                // Parts of different runs are compared by name, and a name with the ID of this run would match no other
                // run.
                (Role::Data, _) if workload.name.contains(&run) => entry.name.clone(),
                _ => workload.name.clone(),
            };
            let placed = host.restart(&name, workload, scenario.limits_of(role)).map_err(CrewError::from)?;
            cell.unequal.extend(placed.notes.iter().cloned());
            let part = part_of_workload(&name, role, workload, &placed);
            cell.parts.push(part.clone());
            let plane = if role == Role::Data { Plane::Data } else { Plane::Control };
            workloads.insert(plane, (name.clone(), workload.clone()));
            if role == Role::Data {
                connect.extend(placed.pods.iter().map(|pod| SocketAddr::new(pod.address, port)));
            }
            let node = &placed.pods[0].node;
            let is_on_one = placed.pods.iter().all(|pod| pod.node == *node);
            if has_faults {
                // Faults replace pods, and neither agents nor samples of kubelets cover the new pods.
                watched.push(part);
                continue;
            }
            if host.has_samplers() && is_on_one {
                let ids = placed.pods.iter().map(|pod| pod.container_id.clone()).collect();
                besides.push(self.beside_containers(scenario, &part, node, ids)?);
                sampled.push(part);
                continue;
            }
            containers.extend(placed.pods.iter().map(|pod| WatchedContainer {
                part: name.clone(),
                node: pod.node_address,
                namespace: workload.namespace.clone(),
                pod: pod.name.clone(),
                container: workload.container.clone(),
            }));
            watched.push(part);
        }
        for address in &connect {
            self.await_routes(scenario, &rendered, *address)?;
        }
        let counters =
            connect.iter().map(|address| rendered.counters.clone().reached_at(address.ip())).collect();
        if has_faults {
            connect = vec![self.service_of(entry, host.as_ref(), routes.service.as_ref())?];
            self.await_routes(scenario, &rendered, connect[0])?;
            cell.unequal.push(format!(
                "{}: faults replace its pods, so weir sends load to its Service, and does not measure CPU time and memory",
                entry.name
            ));
        }
        let usage = match (!containers.is_empty()).then(|| host.watch(&containers)).transpose() {
            Ok(usage) => usage,
            Err(error) => {
                cell.unequal.push(format!("{}: its CPU and memory are unknown: {error}", entry.name));
                None
            }
        };
        let pods = InCluster { host: Arc::clone(host), gateway: entry.name.clone(), workloads };
        let disturbances = Disturbances::prepare(&disturb::Gateway {
            scenario,
            driver,
            binding: &binding,
            rendered: &rendered,
            home: &home,
            running: &[],
            listener: &Listener { connect: connect[0], ..listener },
            upstream,
            services: &Services::default(),
            generator: None,
            weir: self.weir,
            stop: self.stop,
            pods: Some(&pods),
        })?;
        Ok(StartedGateway {
            rendered,
            connect,
            counters,
            in_pod: None,
            watched,
            usage,
            sampled,
            besides,
            disturbances,
        })
    }

    /// The address of the Service in front of a gateway's pods.
    fn service_of(
        &self,
        entry: &Gateway,
        host: &dyn PodHost,
        service: Option<&DataService>,
    ) -> Result<SocketAddr, CellError> {
        let Some(service) = service else {
            let message = format!(
                "{}: the driver names no Service of the data plane with a port for this topology, so load cannot reach new pods",
                entry.name
            );
            let remedy = "add `service: { name: .., port: .. }` to `kubernetes` in its driver.yaml";
            return Err(failed("render", &message, remedy, ""));
        };
        let address = host.service(service).map_err(CrewError::from)?;
        Ok(SocketAddr::new(address, service.port))
    }

    /// Waits until the gateway serves the first and the last path of up to [`ROUTES_LOOKED_AT`] hosts. A control plane
    /// sends routes in pieces, so these hosts are spread over the whole list of hosts.
    fn await_routes(
        &self,
        scenario: &Scenario,
        rendered: &Rendered,
        address: SocketAddr,
    ) -> Result<(), CellError> {
        let (hosts, paths) = (scenario.topology.hosts(), scenario.topology.paths());
        let step = hosts.len().div_ceil(ROUTES_LOOKED_AT).max(1);
        let asked = hosts.iter().rev().step_by(step);
        let deadline = Instant::now() + ROUTES_MAX;
        for host in asked {
            for path in [paths.last(), paths.first()].into_iter().flatten() {
                loop {
                    let asked = Asked { host, path };
                    let seen = status_of(&rendered.credentials, None, address, asked, ROUTE_TIMEOUT);
                    if seen == Ok(200) {
                        break;
                    }
                    if self.stop.load(Ordering::Relaxed) {
                        return Err(CellError::Stopped);
                    }
                    if Instant::now() >= deadline {
                        let said = seen.map_or_else(|error| error, |status| format!("status {status}"));
                        let message = format!(
                            "{address}{path} (Host: {host}) did not return status 200 within {} s: {said}",
                            ROUTES_MAX.as_secs()
                        );
                        let remedy = "check the log of the control plane, and check that the control plane watches all namespaces";
                        return Err(failed("never-ready", &message, remedy, ""));
                    }
                    std::thread::sleep(READY_EVERY);
                }
            }
        }
        Ok(())
    }

    /// Starts the servers of the upstream in pods. Adds the parts to the cell and to `placed`.
    fn upstream_in_pods(
        &self,
        dir: &Path,
        scenario: &Scenario,
        direct: bool,
        cell: &mut Cell,
        placed: &mut Vec<Part>,
    ) -> Result<Upstream, CellError> {
        let listener = anywhere([LISTEN_PORT, ADMIN_PORT]);
        let home = dir.join("origin");
        let is_own = scenario.origin.driver.is_none();
        let certificates = (is_own && direct && scenario.topology.tls)
            .then(|| Certificates::make(&home, &scenario.topology.hosts()))
            .transpose()?;
        let credentials = certificates
            .clone()
            .map(|made| Credentials { certificates: Some(made), ..Credentials::default() });
        let mut upstream = Upstream { credentials, ..Upstream::unknown() };
        let (mut delays, mut processes) = (Vec::new(), Vec::new());
        for (place, name) in replica_names(scenario.origin.replica_count()).iter().enumerate() {
            let replica = ReplicaSpec { name, listener: &listener };
            let (process, counters) = match &scenario.origin.driver {
                None => {
                    let origin = self.origin_of(scenario, cell.key.repeat, place);
                    let process = self.own_origin(dir, scenario, &origin, certificates.as_ref(), replica);
                    (process, None)
                }
                Some(driver) => {
                    let rendered = self.render_replica(dir, scenario, driver, replica, cell)?;
                    let Some(process) = rendered.processes.into_iter().next() else { continue };
                    (ProcessSpec { name: name.clone(), ..process }, Some(rendered.counters))
                }
            };
            let folder = if is_own { home.clone() } else { dir.join(name) };
            let started = self.pod_of(scenario, &process, vec![&folder])?;
            cell.parts.push(started.part.clone());
            placed.push(started.part);
            let replica = Replica { name: name.clone(), connect: started.address, namespace: None };
            let counters = match counters {
                Some(counters) => counters.reached_at(started.address.ip()),
                None => {
                    let host = &scenario.topology.hosts()[0];
                    let (counter, delay) = replica.statistics(upstream.credentials.as_ref(), host);
                    delays.push(delay);
                    counter
                }
            };
            upstream.counters.push(counters);
            upstream.replicas.push(replica);
            processes.push(started.process);
        }
        for process in &processes {
            self.await_pod(process)?;
        }
        upstream.delay = (is_own && scenario.origin.is_timed()).then_some(Delays(delays));
        Ok(upstream)
    }

    /// Starts the pod of a process; `folders` contain the files of the process.
    fn pod_of(
        &self,
        scenario: &Scenario,
        process: &ProcessSpec,
        folders: Vec<&Path>,
    ) -> Result<Started, CellError> {
        let Binary { path, pod_image, .. } = &process.binary;
        let mut command = process.command.clone();
        // In weir's own image, the path of weir differs from its path on this host.
        if let (None, Some(program)) = (pod_image, command.first_mut()) {
            debug_assert_eq!(Path::new(program), path);
            *program = "weir".into();
        }
        let image = pod_image.as_ref().map(ToString::to_string);
        let spec = PartSpec {
            name: &process.name,
            role: process.role,
            image: image.as_deref(),
            command: &command,
            env: &process.env,
            limits: process.limits,
            folders,
            root: self.rig.work_dir(),
        };
        let (ip, part) = self.start_pod(scenario, spec, process.config_sha256.clone())?;
        let process = process.clone().reached_at(ip);
        Ok(Started { process, part, address: (ip, LISTEN_PORT).into() })
    }

    /// Waits until a part in a pod is ready.
    fn await_pod(&self, process: &ProcessSpec) -> Result<(), CellError> {
        let deadline = Instant::now() + process.ready_timeout;
        loop {
            let Err(why) = process.look() else { return Ok(()) };
            if let Some(error) = self.samplers.pod_failure(&process.name) {
                return Err(error.into());
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err(CellError::Stopped);
            }
            if Instant::now() >= deadline {
                let message = format!(
                    "{}: not ready within {} s: {why}",
                    process.name,
                    process.ready_timeout.as_secs()
                );
                let remedy = format!("see the log of the pod of {} with `kubectl logs`", process.name);
                return Err(failed("never-ready", &message, &remedy, ""));
            }
            std::thread::sleep(READY_EVERY);
        }
    }
}
