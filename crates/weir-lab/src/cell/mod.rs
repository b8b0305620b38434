//! One cell: starts fresh processes, waits until they are ready, runs the loads, and cleans up.

pub(crate) mod certificates;
pub(crate) mod cold_start;
pub(crate) mod error;
mod kept;
pub(crate) mod load;
pub(crate) mod network;
pub(crate) mod origin;
pub(crate) mod ports;
pub(crate) mod remote;
mod retry;
mod search;
mod user_config;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_results::{
    Cell, CellKey, CellOutcome, Configuration, DIRECT, HostBounds, Measurement, Part, Role, Run, is_baseline,
};
use weir_rig::{Binary, Binding, Drivers, Namespace, Rendered, Rig, Running};

use self::certificates::SharedCertificates;
use self::cold_start::ColdStartSampler;
use self::error::{CellError, failed, file_failed};
use self::load::{LoadRunner, Task};
use self::network::{CellNetwork, Listener};
use self::origin::Upstream;
use self::ports::Ports;
use self::remote::{RemoteGateway, RemoteTarget};
use self::retry::{Interference, measure_with_retries};
use self::search::SearchTask;
use crate::disturb::{self, Disturbances};
use crate::progress::Observer;
use crate::scenario::secured;
use crate::scenario::setting::{requests, setting};
use crate::scenario::{Gateway, Load, Scenario};
use crate::{LabError, clock, plan};

/// Time in which a process must exit after SIGTERM.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// Number of attempts with other ports, if another process takes one between the check and the bind.
const PORT_TRIES: u32 = 5;

// No part is pinned to a CPU: `cpus` is `None`. Limits by role are quotas. A pinned part with a quota of half a core
// shares that core with other processes, so that a gateway waits before it reaches its limit. Without pinning the
// scheduler gives each part an idle core, and the gateway's quota is reached first.

/// What all cells of a run share.
pub(crate) struct Lab<'a> {
    pub(crate) rig: &'a Rig,
    pub(crate) drivers: &'a Drivers,
    pub(crate) weir: &'a Binary,
    /// By the gateway's name: its binary, or why it has none.
    pub(crate) binaries: &'a BTreeMap<String, Result<Binary, CellOutcome>>,
    /// By the driver's name: the binary of a server that is used as upstream.
    pub(crate) origins: &'a BTreeMap<String, Binary>,
    /// By the gateway's name: a configuration file of the user.
    pub(crate) configurations: &'a BTreeMap<String, Configuration>,
    /// By the gateway's name: remote gateways.
    pub(crate) remotes: &'a BTreeMap<String, RemoteGateway<'a>>,
    pub(crate) run: &'a Run,
    pub(crate) stop: &'a Arc<AtomicBool>,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) ports: &'a Ports,
    /// Measurement bounds of this host, if known.
    pub(crate) bounds: Option<HostBounds>,
    /// Certificates that cells share.
    pub(crate) certificates: &'a SharedCertificates,
}

/// The processes of a cell while it runs.
struct Processes {
    /// The gateway's, which are stopped before the upstream's.
    gateway: Vec<Running>,
    upstream: Upstream,
    /// The generator's network namespace; `None` is the host's.
    generator: Option<Namespace>,
    rendered: Option<Rendered>,
    disturbances: Disturbances,
    /// Addresses that get load, in turn.
    connect: Vec<SocketAddr>,
    /// The target instead of these, if weir does not start it.
    remote_target: Option<RemoteTarget>,
}

/// The target of the loads of a cell.
#[derive(Clone, Copy)]
struct Target<'a> {
    key: &'a CellKey,
    rendered: Option<&'a Rendered>,
    upstream: &'a Upstream,
    generator: Option<&'a Namespace>,
    connect: &'a [SocketAddr],
    remote_target: Option<&'a RemoteTarget>,
}

impl Lab<'_> {
    /// Measures the cell `key` of `scenario`; `None` if the run was stopped meanwhile.
    ///
    /// # Errors
    /// If the disk is still full after the cell, since all further cells would fail. Other failures are outcomes of the
    /// cell.
    pub(crate) fn measure(&self, scenario: &Scenario, key: &CellKey) -> Result<Option<Cell>, LabError> {
        let started_unix_ms = clock::unix_ms();
        let dir = self.rig.work_dir().join(format!("cell-{}", key.index));
        let mut cell = Cell {
            key: key.clone(),
            started_unix_ms,
            ended_unix_ms: started_unix_ms,
            outcome: CellOutcome::Measured { measurements: vec![] },
            parts: vec![],
            unequal: vec![],
            files: vec![],
            attempts: 1,
            cold_start: None,
        };
        let result = self.measure_in(&dir, scenario, key, &mut cell);
        cell.files.extend(kept::logs(&dir));
        // If this fails, the folder is removed with that of the run.
        let _ = std::fs::remove_dir_all(&dir);
        cell.ended_unix_ms = clock::unix_ms();
        cell.outcome = match result {
            Ok(measurements) => CellOutcome::Measured { measurements },
            // Errors during a stop say nothing about the cell.
            Err(_) if self.stop.load(Ordering::Relaxed) => return Ok(None),
            Err(CellError::Failed(outcome)) => {
                if matches!(&outcome, CellOutcome::Failed { cause, .. } if cause == "disk-full") {
                    self.rig.check_room()?;
                }
                outcome
            }
            Err(CellError::Stopped) => return Ok(None),
        };
        Ok(Some(cell))
    }

    fn measure_in(
        &self,
        dir: &Path,
        scenario: &Scenario,
        key: &CellKey,
        cell: &mut Cell,
    ) -> Result<Vec<Measurement>, CellError> {
        std::fs::create_dir_all(dir).map_err(|error| file_failed("make", dir, &error))?;
        let Processes { gateway, mut upstream, generator, rendered, disturbances, connect, remote_target } =
            self.start(dir, scenario, &key.gateway, cell)?;
        let mut running = gateway;
        running.append(&mut upstream.running);
        let target = Target {
            key,
            rendered: rendered.as_ref(),
            upstream: &upstream,
            generator: generator.as_ref(),
            connect: &connect,
            remote_target: remote_target.as_ref(),
        };
        let measurements = self.measure_loads(dir, scenario, target, &mut running, disturbances, cell);
        for running in running {
            running.stop(STOP_GRACE);
        }
        measurements
    }

    /// Starts origin and gateway; tries other ports if one was taken meanwhile.
    fn start(
        &self,
        dir: &Path,
        scenario: &Scenario,
        gateway: &str,
        cell: &mut Cell,
    ) -> Result<Processes, CellError> {
        let mut tries = 1;
        loop {
            cell.parts.clear();
            cell.files.clear();
            let asked = scenario.gateways.iter().find(|g| g.name == gateway).and_then(|g| g.listen);
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
    ) -> Result<Processes, CellError> {
        if scenario.is_elsewhere() {
            return self.reach(scenario, gateway, cell);
        }
        let network = CellNetwork::new(scenario.network, self.rig, self.ports, !is_baseline(gateway))?;
        let upstream = self.start_upstream(dir, scenario, is_baseline(gateway), &network, cell)?;
        let generator = network.generator();
        if is_baseline(gateway) {
            let connect = upstream.addresses();
            return Ok(Processes {
                gateway: vec![],
                upstream,
                generator,
                rendered: None,
                disturbances: Disturbances::default(),
                connect,
                remote_target: None,
            });
        }
        let entry = scenario.gateways.iter().find(|entry| entry.name == gateway).ok_or_else(|| {
            failed("render", &format!("the scenario has no gateway `{gateway}`"), "start a new run", "")
        })?;
        let listener = network.gateway(entry.listen)?;
        let home = dir.join("gateway");
        let (binding, rendered) = self.render(&home, scenario, entry, &listener, &upstream.addresses())?;
        cell.files.extend(kept::configuration(dir, &rendered.files));
        cell.unequal.clone_from(&rendered.unequal);
        let configuration = self.configurations.get(gateway);
        let watch = scenario.cold_start.then(|| ColdStartSampler::begin(&upstream.running));
        let mut running = Vec::new();
        for process in &rendered.processes {
            let started = self.rig.launch(process).map_err(|error| match configuration {
                Some(configuration) => user_config::not_started(&error, configuration, listener.listen),
                None => error.into(),
            })?;
            cell.parts.push(started.part());
            running.push(started);
            if self.stop.load(Ordering::Relaxed) {
                return Err(CellError::Stopped);
            }
        }
        if let Some(configuration) = configuration {
            user_config::probe(configuration, scenario, &listener, &rendered, &upstream.counters)?;
        }
        cell.cold_start =
            watch.map(|watch| watch.end(scenario, &rendered, &listener, &running, self.stop)).transpose()?;
        let driver = self.drivers.driver(&entry.driver)?;
        let disturbances = Disturbances::prepare(&disturb::Gateway {
            scenario,
            driver,
            binding: &binding,
            rendered: &rendered,
            home: &home,
            running: &running,
            listener: &listener,
            upstream: &upstream,
            generator: generator.as_ref(),
            weir: self.weir,
            stop: self.stop,
        })?;
        let (rendered, connect) = (Some(rendered), vec![listener.connect]);
        Ok(Processes {
            gateway: running,
            upstream,
            generator,
            rendered,
            disturbances,
            connect,
            remote_target: None,
        })
    }

    /// Checks that a remote gateway responds; nothing is started.
    fn reach(&self, scenario: &Scenario, gateway: &str, cell: &mut Cell) -> Result<Processes, CellError> {
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
        let (upstream, connect, remote_target) = (Upstream::unknown(), vec![], Some(remote_target));
        let (generator, rendered, disturbances) = (None, None, Disturbances::default());
        Ok(Processes { gateway: vec![], upstream, generator, rendered, disturbances, connect, remote_target })
    }

    fn render(
        &self,
        dir: &Path,
        scenario: &Scenario,
        gateway: &Gateway,
        listener: &Listener,
        origins: &[SocketAddr],
    ) -> Result<(Binding, Rendered), CellError> {
        let binary = match self.binaries.get(&gateway.name) {
            Some(Ok(binary)) => binary.clone(),
            Some(Err(outcome)) => return Err(CellError::Failed(outcome.clone())),
            None => {
                return Err(failed("binary-missing", "its program was not located", "start a new run", ""));
            }
        };
        let binding = Binding {
            config: self.configurations.get(&gateway.name).cloned(),
            certificates: self.certificates.of(self.rig, &scenario.topology)?,
            ..binding(scenario, gateway, binary, [listener.listen, listener.admin], origins, self.run.seed)
        };
        std::fs::create_dir_all(dir).map_err(|error| file_failed("make", dir, &error))?;
        let rendered = self.drivers.driver(&gateway.driver)?.render(&binding, dir)?;
        Ok((binding, rendered.within(listener.namespace.as_ref())))
    }

    fn measure_loads(
        &self,
        dir: &Path,
        scenario: &Scenario,
        target: Target<'_>,
        running: &mut Vec<Running>,
        disturbances: Disturbances,
        cell: &mut Cell,
    ) -> Result<Vec<Measurement>, CellError> {
        let Target { key, rendered, upstream, generator, connect, remote_target } = target;
        let direct = is_baseline(&key.gateway);
        let credentials = rendered.map(|rendered| &rendered.credentials);
        let mut runner = LoadRunner {
            rig: self.rig,
            weir: self.weir,
            dir,
            stop: self.stop,
            scenario,
            thresholds: &self.run.thresholds,
            bounds: self.bounds.as_ref(),
            running,
            remote: self.remotes.get(&key.gateway),
            generator,
            gateway_counter: rendered.map(|rendered| &rendered.counters),
            origin_counters: &upstream.counters,
            origin_delay: upstream.delay.as_ref(),
            disturbances,
        };
        let put = |load: &Load, seed: u64| match remote_target {
            None => {
                let requests = requests(scenario, &scenario.topology.hosts(), load.popularity, direct);
                let mut setting = setting(scenario, connect, requests, direct, seed);
                if scenario.has_schedule() {
                    // Scheduled disturbances count from its end.
                    setting.warmup_most = setting.warmup;
                }
                let credentials = credentials.or(upstream.credentials.as_ref());
                secured::secured(scenario, load, setting, credentials, self.run.seed)
            }
            Some(remote_target) => {
                (remote_target.load(load), remote_target.setting(scenario, load.popularity, direct, seed))
            }
        };
        let mut measurements = Vec::new();
        let mut generator_part: Option<Part> = None;
        for (place, (name, load)) in scenario.loads.iter().enumerate() {
            if self.stop.load(Ordering::Relaxed) {
                return Err(CellError::Stopped);
            }
            let seed = plan::arrivals_seed(self.run.seed, key, place);
            let errors_max = scenario.objective_of(&key.gateway, name).errors.map(|share| share.0);
            let measure = || match &load.search {
                Some(search) => {
                    let asked = search.asked(load, scenario.objective_at(name));
                    self.search(
                        &mut runner,
                        asked,
                        &SearchTask { key, name, load, errors_max, seed, put: &put },
                    )
                }
                None => {
                    self.observer.load_started(key, name, plan::load_time(scenario, load).min);
                    let (load, setting) = put(load, seed);
                    let (measurement, part) =
                        runner.measure(&Task { name, load: &load, setting, errors_max })?;
                    self.observer.load_measured(key, &measurement);
                    Ok((vec![measurement], Some(part)))
                }
            };
            let again = |by: Interference| {
                let of = if key.gateway == DIRECT { "the direct cell" } else { &key.gateway };
                self.observer.note(&format!(
                    "{of}, repeat {}, {name}: {}; once more",
                    key.repeat + 1,
                    by.words()
                ));
            };
            let ((measured, part), attempts) =
                measure_with_retries(scenario.retries, measure, |(of, _)| Interference::of(of), again)?;
            cell.attempts = cell.attempts.max(attempts);
            measured.iter().for_each(|of| secured::note(scenario, load, of, &mut cell.unequal));
            measurements.extend(measured);
            generator_part = generator_part.or(part);
        }
        cell.parts.extend(generator_part);
        Ok(measurements)
    }
}

/// The values that a gateway is rendered with; bearer tokens derive from `seed`.
pub fn binding(
    scenario: &Scenario,
    gateway: &Gateway,
    binary: Binary,
    [listen, admin]: [SocketAddr; 2],
    origins: &[SocketAddr],
    seed: u64,
) -> Binding {
    let roles = [Role::Data, Role::Control, Role::Origin, Role::Generator];
    Binding {
        listen,
        admin,
        origins: origins.to_vec(),
        hosts: scenario.topology.hosts(),
        paths: scenario.topology.paths(),
        rewrite: scenario.topology.rewrite.clone(),
        tls: scenario.topology.tls_binding(),
        certificates: None,
        tokens: weir_rig::tokens(seed, scenario.topology.bearer),
        workers: scenario.data_workers(),
        limits: roles.into_iter().map(|role| (role, scenario.limits_of(role))).collect(),
        set: gateway.set.to_map(),
        binary,
        config: None,
        changes: scenario.changes.is_some(),
    }
}
