//! One cell: starts fresh processes, waits until they are ready, runs the loads, and cleans up.

pub(crate) mod certificates;
pub(crate) mod cold_start;
pub(crate) mod control;
pub(crate) mod error;
pub(crate) mod from_agents;
mod kept;
pub(crate) mod kube;
pub(crate) mod load;
pub(crate) mod network;
pub(crate) mod origin;
pub(crate) mod own_process;
mod pods;
pub(crate) mod ports;
pub(crate) mod publish;
pub(crate) mod remote;
pub(crate) mod retry;
pub(crate) mod samplers;
mod search;
pub(crate) mod service;
pub(crate) mod start;
mod user_config;
pub(crate) mod watching;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_results::{
    Cell, CellKey, CellOutcome, Configuration, HostBounds, Measurement, Part, Run, is_baseline,
};
use weir_rig::{Binary, Drivers, Rendered, Rig, tokens as tokens_of};

use self::certificates::SharedCertificates;
use self::control::{Burners, Medians};
use self::error::{CellError, file_failed, outcome};
use self::from_agents::Agents;
use self::load::{LoadRunner, Task};
use self::origin::Upstream;
use self::ports::Ports;
use self::remote::{RemoteGateway, RemoteTarget};
use self::retry::{Interference, Retries};
use self::samplers::Samplers;
use self::search::SearchTask;
use self::service::ServiceBinaries;
use self::start::Processes;
use self::watching::CellWatch;
use crate::progress::Observer;
use crate::scenario::secured;
use crate::scenario::setting::{Setting, requests, setting};
use crate::scenario::{Load, Scenario};
use crate::watch::Watcher;
use crate::{LabError, clock, plan};

/// The note for the user when a cell has lost an agent.
const AGAIN: &str = "agent lost; weir re-measures the cell with new agents";

/// Time in which a process must exit after SIGTERM.
pub(crate) const STOP_GRACE: Duration = Duration::from_secs(2);

/// Everything that the cells of a run share: programs, certificates, agents, and the receivers of results.
pub(crate) struct Lab<'a> {
    pub(crate) rig: &'a Rig,
    pub(crate) drivers: &'a Drivers,
    pub(crate) weir: &'a Binary,
    /// The binaries by the gateway's name. `Err` holds the reason why a gateway has no binary.
    pub(crate) binaries: &'a BTreeMap<String, Result<Binary, CellOutcome>>,
    /// The binaries of the servers that are used as upstream, by driver name.
    pub(crate) origins: &'a BTreeMap<String, Binary>,
    /// The binaries by the service's name. `Err` holds the reason why a service has no binaries.
    pub(crate) services: &'a ServiceBinaries,
    /// The user's own configuration files, by the gateway's name.
    pub(crate) configurations: &'a BTreeMap<String, Configuration>,
    /// The remote gateways, by the gateway's name.
    pub(crate) remotes: &'a BTreeMap<String, RemoteGateway<'a>>,
    pub(crate) run: &'a Run,
    pub(crate) stop: &'a Arc<AtomicBool>,
    pub(crate) observer: &'a dyn Observer,
    /// Receives values of loads while they run.
    pub(crate) watcher: Option<&'a dyn Watcher>,
    pub(crate) ports: &'a Ports,
    /// The lowest latency and the highest rate that weir can measure on this host, if `weir doctor` has measured them.
    pub(crate) bounds: Option<HostBounds>,
    /// Certificates that are created once for all cells.
    pub(crate) certificates: &'a SharedCertificates,
    pub(crate) retries: Retries,
    /// p50 latencies of earlier cells, from which the delay of the positive control is computed.
    pub(crate) medians: Medians,
    /// The agents that generate load, if any.
    pub(crate) agents: Agents<'a>,
    /// The agents that sample gateways and upstreams on other hosts or in pods.
    pub(crate) samplers: Samplers<'a>,
}

/// The target of the loads of a cell: a gateway, or the upstream in a direct cell.
#[derive(Clone, Copy)]
struct Target<'a> {
    key: &'a CellKey,
    rendered: Option<&'a Rendered>,
    upstream: &'a Upstream,
    connect: &'a [SocketAddr],
    remote_target: Option<&'a RemoteTarget>,
}

/// A load of the scenario.
#[derive(Clone, Copy)]
struct NamedLoad<'a> {
    name: &'a str,
    load: &'a Load,
}

/// The inputs from which weir derives the random values of a load.
#[derive(Clone, Copy)]
struct Draws {
    seed: u64,
    /// How often the load was measured before in the same cell. Servers keep data that earlier attempts created, so
    /// each attempt must use new names for its data.
    attempt: u32,
}

impl Lab<'_> {
    /// Measures the cell `key` of `scenario`; `None` if the run was stopped meanwhile.
    ///
    /// # Errors
    /// If the disk is still full after the cell failed for this reason, because further cells would also fail. Other
    /// failures are outcomes of the cell.
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
        let mut result = self.measure_in(&dir, scenario, key, &mut cell);
        self.samplers.end_pods();
        if let Err(why) = &result
            && self.give_up_lost()
            && !self.stop.load(Ordering::Relaxed)
        {
            // Measures the cell once more, with new agents.
            let why = match why {
                CellError::Failed(CellOutcome::Failed { message, .. }) => format!(" ({message})"),
                _ => String::new(),
            };
            self.observer.note(&format!("{}, repeat {}: {AGAIN}{why}", key.gateway, key.repeat + 1));
            let _ = std::fs::remove_dir_all(&dir);
            (cell.parts, cell.unequal, cell.files) = (vec![], vec![], vec![]);
            result = self.measure_in(&dir, scenario, key, &mut cell);
            self.samplers.end_pods();
            cell.attempts += 1;
            self.give_up_lost();
        }
        cell.files.extend(kept::logs(&dir));
        // If this fails, the folder is removed at the end of the run, with the run's folder.
        let _ = std::fs::remove_dir_all(&dir);
        cell.ended_unix_ms = clock::unix_ms();
        cell.outcome = match result {
            Ok(measurements) => CellOutcome::Measured { measurements },
            // Errors during a stop are not errors of the cell.
            Err(_) if self.stop.load(Ordering::Relaxed) => return Ok(None),
            Err(CellError::Failed(outcome)) => {
                if matches!(&outcome, CellOutcome::Failed { cause, .. } if cause == "disk-full") {
                    self.rig.check_room()?;
                }
                outcome
            }
            Err(CellError::Refused { part, why }) => {
                let is_service = self.services.contains_key(&part);
                let (name, home) = match is_service {
                    true => (format!("service `{part}`"), part.as_str()),
                    false => (part.clone(), "gateway"),
                };
                let message = format!("{name}: {why}");
                let log_tail = kept::log_of(&cell.files, home);
                let remedy = format!("see the log of {name}; to see its configuration, run `weir render`");
                outcome("service", &message, &remedy, &log_tail)
            }
            Err(CellError::Stopped) => return Ok(None),
        };
        self.medians.note(scenario, &cell);
        Ok(Some(cell))
    }

    /// Releases the agents if one of them was lost. Returns whether one was lost.
    fn give_up_lost(&self) -> bool {
        let (load, others) = (self.agents.give_up_lost(), self.samplers.give_up_lost());
        load || others
    }

    fn measure_in(
        &self,
        dir: &Path,
        scenario: &Scenario,
        key: &CellKey,
        cell: &mut Cell,
    ) -> Result<Vec<Measurement>, CellError> {
        std::fs::create_dir_all(dir).map_err(|error| file_failed("create", dir, &error))?;
        let Processes {
            gateway,
            mut services,
            service_parts,
            mut upstream,
            generator,
            rendered,
            disturbances,
            connect,
            remote_target,
            mut placed,
            counters,
            watched,
            usage,
            sampled,
            besides: on_nodes,
        } = self.start(dir, scenario, &key.gateway, cell)?;
        let mut running = gateway;
        running.append(&mut services);
        running.append(&mut upstream.running);
        let target = Target {
            key,
            rendered: rendered.as_ref(),
            upstream: &upstream,
            connect: &connect,
            remote_target: remote_target.as_ref(),
        };
        let of_upstream = upstream.served.as_ref().map(|served| self.beside_upstream(served));
        let of_pods: Vec<_> = placed.iter().map(|part| self.beside_pod(part)).collect();
        let besides = self.beside(scenario, &key.gateway)?.into_iter().chain(of_upstream).chain(of_pods);
        let besides = besides.chain(on_nodes).collect();
        placed.extend(sampled);
        placed.extend(upstream.served.as_ref().map(|served| served.part.clone()));
        let mut runner = LoadRunner {
            rig: self.rig,
            weir: self.weir,
            dir,
            stop: self.stop,
            scenario,
            thresholds: &self.run.thresholds,
            bounds: self.bounds.as_ref(),
            running: &mut running,
            service_parts: &service_parts,
            remote: self.remotes.get(&key.gateway),
            besides,
            placed: &placed,
            usage: usage.as_deref(),
            watched: &watched,
            generator: generator.as_ref(),
            agents: scenario.generator.on.is_some().then_some(&self.agents),
            gateway_counters: &counters,
            origin_counters: &upstream.counters,
            origin_delay: upstream.delay.as_ref(),
            disturbances,
            watch: self.watcher.map(|watcher| CellWatch { watcher, run: &self.run.id, key }),
        };
        let measurements = self.measure_loads(scenario, target, &mut runner, cell);
        // Ends the disturbances first, because they act on the processes.
        drop(runner);
        for running in running {
            running.stop(STOP_GRACE);
        }
        measurements
    }

    /// Runs all loads of the cell, one after the other.
    fn measure_loads(
        &self,
        scenario: &Scenario,
        target: Target<'_>,
        runner: &mut LoadRunner<'_>,
        cell: &mut Cell,
    ) -> Result<Vec<Measurement>, CellError> {
        let key = target.key;
        let burners = Burners::of(scenario, &key.gateway, &runner.dir.join("gateway"), &cell.parts);
        let mut measurements = Vec::new();
        let mut generator_parts: Vec<Part> = Vec::new();
        for (place, (name, load)) in scenario.loads.iter().enumerate() {
            if self.stop.load(Ordering::Relaxed) {
                return Err(CellError::Stopped);
            }
            if scenario.is_control(&key.gateway) {
                let delay = self.medians.delay(scenario, key, name, load);
                control::delay_responses(target.upstream, delay)?;
            }
            let seed = plan::arrivals_seed(self.run.seed, key, place);
            let mut attempt = 0;
            let mut measure = || {
                let draws = Draws { seed, attempt };
                attempt += 1;
                self.measure_load(scenario, target, runner, NamedLoad { name, load }, draws)
            };
            let measure = || burners.around(&mut measure);
            let before_retry = |by: Interference| self.observer.load_retried(key, name, by.words());
            let most = (scenario.retries, plan::load_time(scenario, load).min);
            let interference = |(of, _): &(Vec<Measurement>, _)| Interference::of(of);
            let ((measured, parts), attempts) =
                self.retries.measure(most, measure, interference, before_retry)?;
            cell.attempts = cell.attempts.max(attempts);
            measured.iter().for_each(|of| secured::note(scenario, load, of, &mut cell.unequal));
            measurements.extend(measured);
            if generator_parts.is_empty() {
                generator_parts = parts;
            }
        }
        cell.parts.extend(generator_parts);
        Ok(measurements)
    }

    /// Measures one load, or all trials of a search. Also returns the parts that generated the load.
    fn measure_load(
        &self,
        scenario: &Scenario,
        target: Target<'_>,
        runner: &mut LoadRunner<'_>,
        load: NamedLoad<'_>,
        draws: Draws,
    ) -> Result<(Vec<Measurement>, Vec<Part>), CellError> {
        let (key, NamedLoad { name, load }) = (target.key, load);
        let errors_max = scenario.objective_of(&key.gateway, name).errors.map(|share| share.0);
        let Draws { seed, attempt } = draws;
        let put = |load: &Load, seed: u64| {
            let (load, mut setting) = self.with_setting(scenario, target, load, seed);
            setting.spec.attempt = attempt;
            (load, setting)
        };
        if let Some(search) = &load.search {
            let asked = search.asked(load, scenario.objective_at(name));
            return self.search(runner, asked, &SearchTask { key, name, load, errors_max, seed, put: &put });
        }
        self.observer.load_started(key, name, plan::load_time(scenario, load).min);
        let (load, setting) = put(load, seed);
        let (measurement, parts) = runner.measure(&Task { name, load: &load, setting, errors_max })?;
        self.observer.load_measured(key, &measurement);
        Ok((vec![measurement], parts))
    }

    /// Adapts `load` to the target of the cell. Returns the adapted load and its [`Setting`], which contains addresses,
    /// requests, tokens and phase lengths.
    fn with_setting(
        &self,
        scenario: &Scenario,
        target: Target<'_>,
        load: &Load,
        seed: u64,
    ) -> (Load, Setting) {
        let direct = is_baseline(&target.key.gateway);
        if let Some(remote) = target.remote_target {
            return (remote.load(load), remote.setting(scenario, load.popularity, direct, seed));
        }
        let requests = requests(scenario, &scenario.topology.hosts(), load.popularity, direct);
        let mut setting = setting(scenario, target.connect, requests, direct, seed);
        if scenario.has_schedule() {
            // The warm-up must not grow, because scheduled disturbances start relative to its end.
            setting.spec.warmup_most_ns = setting.spec.warmup_ns;
        }
        let credentials = target.rendered.map(|rendered| &rendered.credentials);
        let credentials = credentials.or(target.upstream.credentials.as_ref());
        let tokens = target.upstream.tokens.clone();
        let tokens = tokens.unwrap_or_else(|| tokens_of(self.run.seed, scenario.topology.bearer));
        secured::secured(scenario, load, setting, credentials, tokens)
    }
}
