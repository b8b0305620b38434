//! One cell: fresh processes, readiness, its loads, and everything gone again.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_engine::RequestSpec;
use weir_results::{Cell, CellKey, CellOutcome, DIRECT, HostBounds, Measurement, Part, Role, Run};
use weir_rig::{
    Binary, Binding, CounterSource, Drivers, Limits, ProcessSpec, Ready, Rendered, Rig, RigError, Running,
};

use crate::load::{Bed, Task, failed_file};
use crate::ports::Ports;
use crate::progress::Observer;
use crate::scenario::{Gateway, Request, Scenario};
use crate::spec::Setting;
use crate::{LabError, clock, plan};

/// How long a process may take to end by itself once it was asked to.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// How long weir's own origin may take to listen.
const ORIGIN_READY: Duration = Duration::from_secs(10);

/// Another process may take a port between the look and the bind; then others are tried.
const PORT_TRIES: u32 = 5;

/// Why a cell has no measurements.
#[derive(Debug)]
pub(crate) enum Setback {
    /// The run was stopped.
    Stopped,
    /// The cell could not be measured; the others can.
    Failed(CellOutcome),
}

impl From<RigError> for Setback {
    fn from(error: RigError) -> Self {
        failed(error.cause(), &error.to_string(), &error.remedy(), error.log_tail())
    }
}

/// A cell that failed by `cause`, one of the closed list of [`CellOutcome::Failed`].
pub(crate) fn failed(cause: &str, message: &str, remedy: &str, log_tail: &str) -> Setback {
    Setback::Failed(CellOutcome::Failed {
        cause: cause.to_owned(),
        message: message.to_owned(),
        remedy: remedy.to_owned(),
        log_tail: log_tail.to_owned(),
    })
}

// No part is pinned to a CPU: `cpus` is `None` for origin and generator, as drivers leave it for gateways.
// Limits by role are quotas, and a quota of half a core that is pinned shares its core with whatever else the
// kernel finds no other place for, so that the gateway waits without being at its limit. On a host with few
// cores the parts together want more than there is, and the scheduler, left alone, gives each what is idle:
// the gateway's quota binds first, which is what makes a cell the gateway's measure and not the host's.

/// What every cell of a run shares.
pub(crate) struct Lab<'a> {
    pub(crate) rig: &'a Rig,
    pub(crate) drivers: &'a Drivers,
    pub(crate) weir: &'a Binary,
    /// By the gateway's name: its binary, or why it has none.
    pub(crate) binaries: &'a BTreeMap<String, Result<Binary, CellOutcome>>,
    pub(crate) run: &'a Run,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) ports: &'a Ports,
    /// What this host can be measured with, where that is known.
    pub(crate) bounds: Option<HostBounds>,
}

/// The processes of a cell while it runs.
struct Processes {
    /// The gateway's and then the origin: in this order they are stopped.
    running: Vec<Running>,
    rendered: Option<Rendered>,
    origin: SocketAddr,
    connect: SocketAddr,
}

impl Lab<'_> {
    /// Measures the cell `key` of `scenario`; `None` when the run was stopped meanwhile.
    ///
    /// # Errors
    /// None of a cell's own failures is one: they are its outcome.
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
        };
        let result = self.measure_in(&dir, scenario, key, &mut cell);
        // Logs are in the failure's tail by now; a folder that stays is removed with the run's.
        let _ = std::fs::remove_dir_all(&dir);
        cell.ended_unix_ms = clock::unix_ms();
        cell.outcome = match result {
            Ok(measurements) => CellOutcome::Measured { measurements },
            // What fails while everything is being stopped says nothing about the cell.
            Err(_) if self.stop.load(Ordering::Relaxed) => return Ok(None),
            Err(Setback::Failed(outcome)) => outcome,
            Err(Setback::Stopped) => return Ok(None),
        };
        Ok(Some(cell))
    }

    fn measure_in(
        &self,
        dir: &Path,
        scenario: &Scenario,
        key: &CellKey,
        cell: &mut Cell,
    ) -> Result<Vec<Measurement>, Setback> {
        std::fs::create_dir_all(dir).map_err(|error| failed_file("make", dir, &error))?;
        let mut processes = self.start(dir, scenario, &key.gateway, cell)?;
        let measurements = self.measure_loads(dir, scenario, key, &mut processes, cell);
        for running in processes.running {
            running.stop(STOP_GRACE);
        }
        measurements
    }

    /// Starts origin and gateway, with other ports where somebody took one in the meantime.
    fn start(
        &self,
        dir: &Path,
        scenario: &Scenario,
        gateway: &str,
        cell: &mut Cell,
    ) -> Result<Processes, Setback> {
        let mut tries = 1;
        loop {
            cell.parts.clear();
            let asked = scenario.gateways.iter().find(|g| g.name == gateway).and_then(|g| g.listen);
            match self.try_start(dir, scenario, gateway, cell) {
                Err(Setback::Failed(CellOutcome::Failed { cause, .. }))
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
    ) -> Result<Processes, Setback> {
        let origin = self.ports.free()?;
        let process = self.origin_process(dir, scenario, origin);
        let origin_running = self.rig.launch(&process)?;
        cell.parts.push(origin_running.part());
        if gateway == DIRECT {
            let running = vec![origin_running];
            return Ok(Processes { running, rendered: None, origin, connect: origin });
        }
        let entry = scenario.gateways.iter().find(|entry| entry.name == gateway).ok_or_else(|| {
            failed("render", &format!("the scenario has no gateway `{gateway}`"), "start a new run", "")
        })?;
        let (rendered, connect) = self.render(dir, scenario, entry, origin)?;
        cell.unequal.clone_from(&rendered.unequal);
        let mut running = Vec::new();
        for process in &rendered.processes {
            let started = self.rig.launch(process)?;
            cell.parts.push(started.part());
            running.push(started);
            if self.stop.load(Ordering::Relaxed) {
                return Err(Setback::Stopped);
            }
        }
        running.push(origin_running);
        Ok(Processes { running, rendered: Some(rendered), origin, connect })
    }

    fn render(
        &self,
        dir: &Path,
        scenario: &Scenario,
        gateway: &Gateway,
        origin: SocketAddr,
    ) -> Result<(Rendered, SocketAddr), Setback> {
        let binary = match self.binaries.get(&gateway.name) {
            Some(Ok(binary)) => binary.clone(),
            Some(Err(outcome)) => return Err(Setback::Failed(outcome.clone())),
            None => {
                return Err(failed(
                    "binary-missing",
                    "its binary was never looked for",
                    "start a new run",
                    "",
                ));
            }
        };
        let listen = match gateway.listen {
            Some(listen) => listen,
            None => self.ports.free()?,
        };
        let admin = self.ports.free()?;
        let binding = binding(scenario, gateway, binary, listen, admin, origin);
        let dir = dir.join("gateway");
        std::fs::create_dir_all(&dir).map_err(|error| failed_file("make", &dir, &error))?;
        Ok((self.drivers.driver(&gateway.driver)?.render(&binding, &dir)?, listen))
    }

    fn origin_process(&self, dir: &Path, scenario: &Scenario, listen: SocketAddr) -> ProcessSpec {
        let mut command = vec![self.weir.path.display().to_string(), "origin".into()];
        command.extend(["--listen".into(), listen.to_string()]);
        command.extend(["--workers".into(), scenario.origin_workers().to_string()]);
        command.extend(scenario.origin.arguments());
        ProcessSpec {
            name: "origin".into(),
            role: Role::Origin,
            binary: self.weir.clone(),
            config_sha256: None,
            command,
            env: vec![],
            dir: dir.to_path_buf(),
            log: dir.join("origin.log"),
            limits: limits_of(scenario, Role::Origin),
            cpus: None,
            ready: Ready::Tcp(listen),
            ready_timeout: ORIGIN_READY,
            listens: vec![listen],
        }
    }

    fn measure_loads(
        &self,
        dir: &Path,
        scenario: &Scenario,
        key: &CellKey,
        processes: &mut Processes,
        cell: &mut Cell,
    ) -> Result<Vec<Measurement>, Setback> {
        let origin_counter = CounterSource::json(processes.origin, "/__weir/stats", "/requests");
        let origin_delay = CounterSource::json(processes.origin, "/__weir/stats", "/delays/mean_ns");
        let gateway_counter = processes.rendered.as_ref().map(|rendered| &rendered.counters);
        let direct = key.gateway == DIRECT;
        let mut bed = Bed {
            rig: self.rig,
            weir: self.weir,
            dir,
            stop: self.stop,
            scenario,
            thresholds: &self.run.thresholds,
            bounds: self.bounds.as_ref(),
            running: &mut processes.running,
            gateway_counter,
            origin_counter: &origin_counter,
            origin_delay: scenario.origin.is_timed().then_some(&origin_delay),
        };
        let mut measurements = Vec::new();
        let mut generator: Option<Part> = None;
        for (place, (name, load)) in scenario.loads.iter().enumerate() {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Setback::Stopped);
            }
            self.observer.load_started(key, name, plan::load_time(scenario, load));
            let seed = plan::arrivals_seed(self.run.seed, key, place);
            let connect = processes.connect.to_string();
            let setting = setting(scenario, connect, requests(scenario, direct), direct, seed);
            let task = Task { name, load, setting };
            let (measurement, part) = bed.measure(&task)?;
            self.observer.load_measured(key, &measurement);
            measurements.push(measurement);
            generator.get_or_insert(part);
        }
        cell.parts.extend(generator);
        Ok(measurements)
    }
}

/// What a gateway is rendered for.
pub fn binding(
    scenario: &Scenario,
    gateway: &Gateway,
    binary: Binary,
    listen: SocketAddr,
    admin: SocketAddr,
    origin: SocketAddr,
) -> Binding {
    let roles = [Role::Data, Role::Control, Role::Origin, Role::Generator];
    Binding {
        listen,
        admin,
        origins: vec![origin],
        hosts: scenario.topology.hosts(),
        paths: scenario.topology.paths(),
        rewrite: scenario.topology.rewrite.clone(),
        workers: scenario.data_workers(),
        limits: roles.into_iter().map(|role| (role, limits_of(scenario, role))).collect(),
        set: gateway.set.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect(),
        binary,
    }
}

/// The limits of a role.
pub(crate) fn limits_of(scenario: &Scenario, role: Role) -> Limits {
    let limits = &scenario.limits;
    let limit = match role {
        Role::Data => limits.data,
        Role::Control => limits.control,
        Role::Origin => limits.origin,
        Role::Generator => limits.generator,
    };
    let limit = limit.unwrap_or_default();
    Limits { cpus: limit.cpus, memory_bytes: limit.memory.map(|memory| memory.0) }
}

/// What a load is put to: each path of the topology at each domain, or its own mix there.
pub(crate) fn setting(
    scenario: &Scenario,
    connect: String,
    requests: Vec<RequestSpec>,
    direct: bool,
    seed: u64,
) -> Setting {
    let hosts = scenario.topology.hosts();
    Setting {
        connect,
        host: hosts[0].clone(),
        authority: hosts[0].clone(),
        resolve: Vec::new(),
        requests,
        base: Request { path: "/".into(), ..Request::default() },
        domains: if hosts.len() > 1 { hosts } else { Vec::new() },
        rewrite: scenario.topology.rewrite.clone().filter(|_| direct),
        workers: scenario.workers,
        warmup: scenario.warmup.0,
        duration: scenario.duration.0,
        timeout: scenario.timeout.0,
        seed,
    }
}

/// Every request that may be sent: each host with each path. A direct cell asks for what the gateway would.
fn requests(scenario: &Scenario, direct: bool) -> Vec<RequestSpec> {
    let topology = &scenario.topology;
    let (hosts, paths) = (topology.hosts(), topology.paths());
    let path_for = |path: &String| match &topology.rewrite {
        Some(rewrite) if direct => rewrite.clone(),
        _ => path.clone(),
    };
    let request = |host: &String, path: &String| RequestSpec {
        path: path_for(path),
        headers: vec![("Host".into(), host.clone())],
        ..RequestSpec::default()
    };
    hosts.iter().flat_map(|host| paths.iter().map(move |path| request(host, path))).collect()
}
