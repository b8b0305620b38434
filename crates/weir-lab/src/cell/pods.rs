//! A cell in a cluster: its upstream and its gateway run in pods, each with an agent that samples it.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weir_results::{Cell, Part, is_baseline};
use weir_rig::{Binary, Certificates, Credentials, OriginBinding, ProcessSpec};

use super::error::{CellError, failed, file_failed};
use super::network::{ADMIN_PORT, LISTEN_PORT, Listener};
use super::origin::{Delays, Replica, ReplicaSpec, Upstream, replica_names};
use super::service::ServiceParts;
use super::start::{Processes, Surroundings};
use super::{Lab, kept};
use crate::disturb::Disturbances;
use crate::pods::PartSpec;
use crate::scenario::Scenario;

/// How often a part in a pod is asked whether it is ready.
const READY_EVERY: Duration = Duration::from_millis(50);

/// Where parts in pods listen: each has an address of its own, which nobody knows before.
fn anywhere() -> Listener {
    let at = |port: u16| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    Listener { listen: at(LISTEN_PORT), admin: at(ADMIN_PORT), connect: at(LISTEN_PORT), namespace: None }
}

/// A part that was started in a pod.
struct Started {
    /// Its process, reached at the pod's address.
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
    ) -> Result<Processes, CellError> {
        // What a cell that failed has left.
        self.samplers.end_pods();
        let mut placed = Vec::new();
        let upstream = self.upstream_in_pods(dir, scenario, is_baseline(gateway), cell, &mut placed)?;
        let (mut rendered, mut connect) = (None, upstream.addresses());
        if !is_baseline(gateway) {
            let entry = scenario.gateway(gateway).ok_or_else(|| {
                failed("render", &format!("the scenario has no gateway `{gateway}`"), "start a new run", "")
            })?;
            let home = dir.join("gateway");
            let surroundings = Surroundings {
                listener: &anywhere(),
                origins: upstream.addresses(),
                addresses: BTreeMap::new(),
                services: BTreeMap::new(),
                secure_origin: None,
            };
            let (binding, made) = self.render(&home, scenario, entry, surroundings)?;
            cell.files.extend(kept::configuration(dir, &made.files));
            cell.unequal.clone_from(&made.unequal);
            let [process] = &made.processes[..] else {
                let message = format!("{gateway}: a pod has one process, and this gateway has several");
                return Err(failed("render", &message, "measure it on one host", ""));
            };
            let certificates = binding.certificates.as_ref().and_then(|made| made.server.parent());
            let folders = [home.as_path()].into_iter().chain(certificates).collect();
            let started = self.pod_of(scenario, process, folders)?;
            connect = vec![started.address];
            cell.parts.push(started.part.clone());
            placed.push(started.part);
            rendered = Some(made.reached_at(started.address.ip()));
            self.await_pod(&started.process)?;
        }
        Ok(Processes {
            gateway: vec![],
            services: vec![],
            service_parts: ServiceParts::default(),
            upstream,
            generator: None,
            rendered,
            disturbances: Disturbances::default(),
            connect,
            remote_target: None,
            placed,
        })
    }

    /// Starts the servers of the upstream.
    fn upstream_in_pods(
        &self,
        dir: &Path,
        scenario: &Scenario,
        direct: bool,
        cell: &mut Cell,
        placed: &mut Vec<Part>,
    ) -> Result<Upstream, CellError> {
        let listener = anywhere();
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
                    let binary = self.origins.get(driver).cloned().unwrap_or_default();
                    let home = dir.join(name);
                    std::fs::create_dir_all(&home).map_err(|error| file_failed("make", &home, &error))?;
                    let binding = OriginBinding {
                        listen: listener.listen,
                        admin: listener.admin,
                        workers: scenario.origin_workers(),
                        limits: scenario.limits_of(weir_results::Role::Origin),
                        body_bytes: scenario.origin.body.0,
                        binary,
                        name: name.clone(),
                    };
                    let rendered = self.drivers.driver(driver)?.render_origin(&binding, &home)?;
                    cell.files.extend(kept::configuration(dir, &rendered.files));
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

    /// Starts the pod of a process; `folders` have its files.
    fn pod_of(
        &self,
        scenario: &Scenario,
        process: &ProcessSpec,
        folders: Vec<&Path>,
    ) -> Result<Started, CellError> {
        let Binary { path, pod_image, .. } = &process.binary;
        let mut command = process.command.clone();
        // The program of weir is called otherwise in its image.
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
                return Err(failed("never-ready", &message, "see its log: kubectl logs", ""));
            }
            std::thread::sleep(READY_EVERY);
        }
    }
}
