//! Measures one load: reads counters, runs the generator and samples all processes, reads the counters again, and
//! computes the verdicts.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_analysis::{Evidence, cpu_us_per_request, data_usage, judge, origin_usage};
use weir_engine::LoadSpec;
use weir_results::{
    Counters, HostBounds, Judgement, LoadRecord, Measurement, Part, Role, Thresholds, Usage, last_words,
};
use weir_rig::prometheus::{Span, WallClock};
use weir_rig::{Binary, Counted, CounterSource, Namespace, Rig, Running, Sampler, Samples, boot_id};

use super::error::{CellError, failed};
use super::from_agents::Agents;
use super::origin::Delays;
use super::own_process::{OwnFiles, OwnProcess, read_record};
use super::remote::{Observed, RemoteGateway};
use super::samplers::Beside;
use super::service::ServiceParts;
use super::user_config::total;
use super::watching::CellWatch;
use crate::agents::{CrewError, nearest_to_limit};
use crate::clock::LoadClock;
use crate::disturb::{Active, Disturbances, LoadContext, OwnRequests, UnusableCounters};
use crate::pods::PodUsage;
use crate::scenario::setting::Setting;
use crate::scenario::{Load, Scenario};

/// How often weir checks the processes while a load runs.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(50);

/// This long before the end of the warm-up, weir samples the processes of the host that do not belong to the cell.
pub(super) const NEIGHBOURS_BEFORE: Duration = Duration::from_millis(300);

/// If the generator still runs this long after its phases and their drain, it counts as stuck.
const STUCK_AFTER: Duration = Duration::from_secs(30);

/// Assumed time from the launch of the generator to its first request. It is rounded up, so that a disturbance at 5 s
/// falls into the second from 5 s to 6 s, not into the second before.
const LOAD_BEGINS: Duration = Duration::from_millis(200);

/// Assumed maximum length of a closed phase that ends after a number of requests.
const COUNT_MAX: Duration = Duration::from_secs(3_600);

/// Maximum time for counters to settle after a load: workers of a gateway may count their last requests late.
const SETTLE_MAX: Duration = Duration::from_secs(2);
/// Pause between two readings of the counters.
const SETTLE_EVERY: Duration = Duration::from_millis(25);
/// Number of equal readings in a row after which the counters count as settled.
const SETTLED_READINGS: u32 = 8;

/// After a failed load, weir checks this many times whether a process has died and caused the failure.
const DEATH_LOOKS: u32 = 10;
/// Pause between two checks for a dead process.
const DEATH_EVERY: Duration = Duration::from_millis(20);

/// Runs loads against the processes of a cell.
pub(crate) struct LoadRunner<'a> {
    pub(crate) rig: &'a Rig,
    pub(crate) weir: &'a Binary,
    pub(crate) dir: &'a Path,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) scenario: &'a Scenario,
    pub(crate) thresholds: &'a Thresholds,
    /// The lowest latency and the highest rate that weir can measure on this host, if known.
    pub(crate) bounds: Option<&'a HostBounds>,
    /// The processes of the gateway, of its services, and of the upstream, in this order.
    pub(crate) running: &'a mut Vec<Running>,
    /// Which of the processes in `running` belong to which service.
    pub(crate) service_parts: &'a ServiceParts,
    /// The gateway, if it is remote.
    pub(crate) remote: Option<&'a RemoteGateway<'a>>,
    /// The agents that sample parts on other hosts or in pods.
    pub(crate) besides: Vec<Beside<'a>>,
    /// The parts that agents sample: upstreams on other hosts, and parts in pods.
    pub(crate) placed: &'a [Part],
    /// Reads the usage of pods that have no agent.
    pub(crate) usage: Option<&'a dyn PodUsage>,
    /// The parts in pods without an agent.
    pub(crate) watched: &'a [Part],
    /// The network namespace of the generator; `None` means the network of the host.
    pub(crate) generator: Option<&'a Namespace>,
    /// The agents, if they generate the load.
    pub(crate) agents: Option<&'a Agents<'a>>,
    /// Request counters of the gateway, one per process or pod, if the gateway has a counter.
    pub(crate) gateway_counters: &'a [CounterSource],
    /// One request counter per server of the upstream.
    pub(crate) origin_counters: &'a [CounterSource],
    /// The delays that the origin adds; `None` if it adds none.
    pub(crate) origin_delay: Option<&'a Delays>,
    pub(crate) disturbances: Disturbances,
    /// Receives values of loads while they run.
    pub(crate) watch: Option<CellWatch<'a>>,
}

/// The result of generating a load: its record, its samples, and the parts that ran only for this load.
pub(super) struct Generated {
    pub(super) record: LoadRecord,
    pub(super) samples: Samples,
    /// The generator process, or the agents that generated the load.
    pub(super) generators: Vec<Part>,
    /// The usage of agents on other machines, which sample themselves.
    pub(super) usage: Vec<(String, Usage)>,
    /// For each agent that samples itself: the boot ID of its machine, and the name of its part.
    pub(super) agents: Vec<(String, String)>,
    /// Processes of disturbances that ran during the load.
    pub(super) others: Vec<Part>,
}

/// Request counts of the gateway and of the origin since they started; `None` without a usable counter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Readings {
    gateway: Option<u64>,
    origin: Option<Counted>,
}

impl Readings {
    fn origin_requests(&self) -> Option<u64> {
        self.origin.as_ref().map(|counted| counted.requests)
    }

    /// The origin's requests of each kind since `before`. Omits kinds without requests.
    fn origin_by_kind_since(&self, before: &Self) -> BTreeMap<String, u64> {
        let (Some(now), Some(before)) = (&self.origin, &before.origin) else { return BTreeMap::new() };
        let since = |(kind, count): (&String, &u64)| {
            let since = count.saturating_sub(before.by.get(kind).copied().unwrap_or(0));
            (since > 0).then(|| (kind.clone(), since))
        };
        now.by.iter().filter_map(since).collect()
    }
}

/// The observations during a load, from which weir computes the verdicts on the load.
struct Observations<'a> {
    generated: Generated,
    disturbances: &'a Active<'a>,
    counters: Counters,
    /// Usage of parts on other hosts or in pods, each with the name of the part. Reported by Prometheus, kubelets or
    /// agents.
    observed: Vec<(String, Observed)>,
}

/// A load to run.
pub(crate) struct Task<'a> {
    pub(crate) name: &'a str,
    pub(crate) load: &'a Load,
    /// Addresses, requests, seed, durations and timeout of the load.
    pub(crate) setting: Setting,
    /// Maximum share of errors that the objective of the load allows.
    pub(crate) errors_max: Option<f64>,
}

impl Task<'_> {
    /// Converts the load into the specification for the load engine.
    fn spec(&self) -> Result<LoadSpec, CellError> {
        self.load.spec(self.setting.clone()).map_err(|fault| {
            let message = format!("loads.{}.{}: {}", self.name, fault.place, fault.message);
            failed("generator", &message, &fault.remedy, "")
        })
    }
}

impl LoadRunner<'_> {
    /// Runs the load and computes its verdicts. Also returns the parts that generated the load.
    pub(crate) fn measure(&mut self, task: &Task<'_>) -> Result<(Measurement, Vec<Part>), CellError> {
        let measured = self.try_measure(task);
        match measured {
            // A dead process explains unreadable counters and failed loads, so its error is reported instead.
            Err(CellError::Failed(_) | CellError::Refused { .. }) => self.await_death().and(measured),
            measured => measured,
        }
    }

    /// Checks for a short time whether a process has died. A killed process closes its connections before the kernel
    /// reports it as dead.
    fn await_death(&mut self) -> Result<(), CellError> {
        for _ in 0..DEATH_LOOKS {
            self.look_at_processes()?;
            thread::sleep(DEATH_EVERY);
        }
        Ok(())
    }

    fn try_measure(&mut self, task: &Task<'_>) -> Result<(Measurement, Vec<Part>), CellError> {
        let mut disturbances = std::mem::take(&mut self.disturbances);
        let measured = self.measure_disturbed(task, &mut disturbances.of_load(task.name));
        if let Some(watch) = self.watch {
            watch.end(task.name, measured.as_ref().ok().map(|(measurement, _)| measurement));
        }
        self.disturbances = disturbances;
        measured
    }

    fn measure_disturbed(
        &mut self,
        task: &Task<'_>,
        disturbances: &mut Active<'_>,
    ) -> Result<(Measurement, Vec<Part>), CellError> {
        let spec = task.spec()?;
        let unusable = disturbances.unusable_counters();
        let before = self.count(unusable)?;
        let delays_before = self.origin_delay.and_then(Delays::read);
        let clock_before = WallClock::now();
        self.besides.iter().for_each(Beside::begin);
        let generated = match self.agents {
            Some(agents) => self.generate_by_agents(agents, task, &spec, disturbances),
            None => self.generate(task, &spec, disturbances),
        };
        let generated = generated.inspect_err(|_| disturbances.abandon())?;
        let record = &generated.record;
        let mut counters = self.settle(before, record, unusable, disturbances.own_requests())?;
        counters.origin_delay_ns_mean =
            self.origin_delay.and_then(|delays| delays.mean_ns_since(delays_before));
        self.look_at_processes()?;
        let (from_ns, to_ns) = (record.phase_start_mono_ns, record.phase_end_mono_ns);
        let span = Span { from_ns, to_ns, clock_before };
        let start_ns = LoadClock::of(record).start_ns;
        let mut observed: Vec<(String, Observed)> = self
            .besides
            .iter()
            .map(|beside| (beside.part().to_owned(), beside.observe(start_ns, &span)))
            .collect();
        for part in self.watched {
            if let Some(usage) = self.usage {
                let (readings, said) = usage.observe(&part.name, &span, part.limit_cpus, self.stop);
                observed.push((part.name.clone(), Observed { readings, report: None, said }));
            }
        }
        if let Some(remote) = self.remote
            && let Some(seen) = remote.observe(&span, self.stop)?
        {
            observed.push((remote.part.name.clone(), seen));
        }
        let generators = generated.generators.clone();
        let seen = Observations { generated, disturbances, counters, observed };
        Ok((self.judged(task, &spec, seen)?, generators))
    }

    /// Starts the generator as a separate process, samples everything while it runs, and reads its record.
    fn generate(
        &mut self,
        task: &Task<'_>,
        spec: &LoadSpec,
        disturbances: &mut Active<'_>,
    ) -> Result<Generated, CellError> {
        let file = |end: &str| self.dir.join(format!("{}.{end}", task.name));
        let files = OwnFiles {
            spec: file("spec.json"),
            record: file("record.json"),
            log: file("generator.log"),
            progress: self.watch.map(|_| file("progress.jsonl")),
        };
        let watching = self.watch.zip(files.progress.clone());
        let mut watching = watching.map(|(watch, progress)| watch.begin(task.name, spec, progress));
        let process = self.generator().prepare(self.dir, &files, spec)?;
        // Sampling begins before the generator: on a busy host a short warm-up may end before the first sample.
        let sampler = Sampler::start(&self.running.iter().collect::<Vec<_>>());
        disturbances.start(&mut self.context(task.name, &sampler))?;
        let mut generator = self.rig.launch(&process)?;
        sampler.join(&generator);
        let warmup = Duration::from_nanos(spec.warmup_ns);
        sampler.look_at_neighbours(Instant::now() + warmup.saturating_sub(NEIGHBOURS_BEFORE));
        let mut look = || watching.iter_mut().for_each(|watching| watching.look(&sampler));
        let waited = self.await_generator(&mut generator, task, spec, disturbances, &sampler, &mut look);
        let undone = waited.and_then(|()| disturbances.undo(&mut self.context(task.name, &sampler)));
        let samples = sampler.finish();
        undone?;
        let others = disturbances.end()?;
        let record = read_record(&files.record, "the load generator")?;
        let generators = vec![generator.part()];
        Ok(Generated { record, samples, generators, usage: Vec::new(), agents: Vec::new(), others })
    }

    /// The objects that the disturbances of `load` can act on.
    pub(super) fn context<'b>(&'b mut self, load: &'b str, sampler: &'b Sampler) -> LoadContext<'b> {
        LoadContext { load, rig: self.rig, dir: self.dir, running: self.running.as_mut_slice(), sampler }
    }

    fn generator(&self) -> OwnProcess {
        OwnProcess {
            name: "generator",
            role: Role::Generator,
            command: "generate",
            weir: self.weir.clone(),
            limits: self.scenario.limits_of(Role::Generator),
            is_urgent: true,
            namespace: self.generator.cloned(),
        }
    }

    /// Waits until the generator exits. Meanwhile polls the disturbances, checks all processes, and calls `look`.
    fn await_generator(
        &mut self,
        generator: &mut Running,
        task: &Task<'_>,
        spec: &LoadSpec,
        disturbances: &mut Active<'_>,
        sampler: &Sampler,
        look: &mut dyn FnMut(),
    ) -> Result<(), CellError> {
        let sustained_at = Instant::now() + LOAD_BEGINS + Duration::from_nanos(spec.warmup_ns);
        let default_ns = task.setting.spec.duration_ns.unwrap_or_default();
        let sustained = task.load.sustained(Duration::from_nanos(default_ns));
        let steps = spec.steps.len().max(1) as u32;
        let drains = Duration::from_nanos(spec.timeout_ns) * steps;
        let phases = Duration::from_nanos(spec.warmup_ns.max(spec.warmup_most_ns))
            + sustained.unwrap_or(COUNT_MAX * steps)
            + drains;
        let deadline = Instant::now() + phases + STUCK_AFTER;
        loop {
            let pause = disturbances.poll(&mut self.context(task.name, sampler), sustained_at, LOOK_EVERY)?;
            let ended = generator.wait(pause)?;
            look();
            if self.stop.load(Ordering::Relaxed) {
                return Err(CellError::Stopped);
            }
            // Check the other processes first: a gateway that died explains a failed generator.
            self.look_at_processes()?;
            match ended {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(generator_failed(generator, &format!("exited ({status})"))),
                None if Instant::now() > deadline => {
                    return Err(generator_failed(generator, "did not exit after its load"));
                }
                None => {}
            }
        }
    }

    pub(super) fn look_at_processes(&mut self) -> Result<(), CellError> {
        if let Some(error) = self.besides.iter().find_map(Beside::pod_failure) {
            return Err(CrewError::from(error).into());
        }
        self.service_parts.failure(self.running).map_or(Ok(()), Err)
    }

    /// The current counters of gateway and origin, if usable.
    fn count(&self, unusable: UnusableCounters) -> Result<Readings, CellError> {
        let gateway = if unusable.gateway { None } else { total(self.gateway_counters)? };
        let gateway = gateway.map(|counted| counted.requests);
        let origin = if unusable.origin { None } else { total(self.origin_counters)? };
        Ok(Readings { gateway, origin })
    }

    /// Reads the counters until they agree with the generator or no longer change, for at most [`SETTLE_MAX`].
    fn settle(
        &self,
        before: Readings,
        record: &LoadRecord,
        unusable: UnusableCounters,
        own: OwnRequests,
    ) -> Result<Counters, CellError> {
        let since = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
        let deadline = Instant::now() + SETTLE_MAX;
        let sent = record.whole.sent;
        let (mut last, mut equal) = (None, 0);
        loop {
            let now = self.count(unusable)?;
            let gateway =
                since(now.gateway, before.gateway).map(|count| own.subtracted_from_gateway(count, sent));
            let origin = since(now.origin_requests(), before.origin_requests());
            let origin = origin.map(|count| own.subtracted_from_origin(count, sent));
            let agree = [gateway, origin].into_iter().flatten().all(|count| count == sent);
            equal = if last.as_ref() == Some(&now) { equal + 1 } else { 0 };
            if agree || equal >= SETTLED_READINGS || Instant::now() >= deadline {
                let origin_by_kind = now.origin_by_kind_since(&before);
                return Ok(Counters {
                    generator_sent: sent,
                    generator_uncertain: record.whole_uncertain,
                    gateway_requests: gateway,
                    origin_requests: origin,
                    origin_delay_ns_mean: None,
                    origin_by_kind,
                });
            }
            last = Some(now);
            thread::sleep(SETTLE_EVERY);
        }
    }

    /// Computes the verdicts of the load from all observations.
    fn judged(
        &self,
        task: &Task<'_>,
        spec: &LoadSpec,
        seen: Observations<'_>,
    ) -> Result<Measurement, CellError> {
        let Observations { generated, disturbances, counters, observed } = seen;
        let Generated { mut record, samples, generators, usage: of_agents, agents, others } = generated;
        let (from, to) = (record.phase_start_mono_ns, record.phase_end_mono_ns);
        let clock = LoadClock::of(&record);
        let parts = self.parts(&generators, others);
        let mut usage: BTreeMap<String, Usage> = parts
            .iter()
            .filter_map(|part| Some((part.name.clone(), samples.usage(&part.name, from, to)?)))
            .chain(of_agents)
            .collect();
        let mut series = samples.seconds(clock.start_ns, to);
        for (part, observed) in &observed {
            observed.add_to(part, &mut usage, &mut series, clock.start_ns, to);
        }
        let (data, origin) = (data_usage(&parts, &usage), origin_usage(&parts, &usage));
        let mut host = samples.host(from, to).ok_or_else(host_unknown)?;
        // The CPU time of agents, and of the parts that they sample, is not host noise. It is subtracted if they run on
        // this host.
        let sampled = || {
            let besides = self.besides.iter().map(|beside| (&beside.boot_id, beside.part()));
            besides.chain(agents.iter().map(|(boot_id, part)| (boot_id, part.as_str())))
        };
        let cores_at = |boot: &str| -> f64 {
            let there = sampled().filter(|(boot_id, _)| *boot_id == boot);
            there.filter_map(|(_, part)| Some(usage.get(part)?.cpu_cores)).sum()
        };
        let host_usage = samples.host_usage(from, to);
        let cores = host_usage.as_ref().map_or(1, |usage| usage.core_busy_shares.len().max(1));
        host.others = (host.others - cores_at(&boot_id()) / cores as f64).max(0.0);
        for machine in record.shards.iter_mut().filter_map(|shard| shard.machine.as_mut()) {
            let besides = self.besides.iter().filter(|beside| beside.boot_id == machine.boot_id);
            let used: f64 = besides.filter_map(|beside| Some(usage.get(beside.part())?.cpu_cores)).sum();
            if let Some(share) = &mut machine.share {
                share.others = (share.others - used / machine.cores.max(1.0)).max(0.0);
            }
        }
        let mut judgement = judge(
            &Evidence {
                record: &record,
                data: data.as_ref(),
                origin: origin.as_ref(),
                generator: nearest_to_limit(generators.iter().filter_map(|part| usage.get(&part.name))),
                counters: Some(&counters),
                host: Some(&host),
                host_cores: host_usage.as_ref().map_or(0, |usage| usage.core_busy_shares.len() as u32),
                busiest: host_usage.as_ref().map_or(&[], |usage| &usage.busiest),
                limits_applied: parts.iter().all(|part| part.limits_applied),
                loopback_floor_ns: self.bounds.and_then(HostBounds::loopback_floor_ns),
                ceiling: self.bounds.and_then(|bounds| bounds.ceiling),
                is_steady: spec.is_steady() && !disturbances.are_unsteady(),
                errors_max: task.errors_max,
            },
            self.thresholds,
        );
        add_sources(&mut judgement, &record, observed);
        record.result.bound_by = judgement.bound_by;
        record.result.verdicts = judgement.verdicts.clone();
        let cpu_us_per_request = data.and_then(|data| cpu_us_per_request(&data, &record.result));
        let mut measurement = Measurement {
            load: task.name.to_owned(),
            connections: task.load.connections.greatest(),
            rate_per_s: task.load.mean_rate_per_s(),
            series,
            route_changes: Vec::new(),
            faults: Vec::new(),
            slow: None,
            events: Vec::new(),
            record,
            usage,
            counters,
            host,
            host_usage,
            judgement,
            cpu_us_per_request,
            trial: None,
        };
        disturbances.record(&clock, &mut measurement);
        Ok(measurement)
    }

    /// The parts of the cell; `others` are processes that disturbances ran during the load.
    fn parts(&self, generators: &[Part], others: Vec<Part>) -> Vec<Part> {
        let remote = self.remote.map(|remote| remote.part.clone());
        let running = self.running.iter().map(Running::part);
        remote
            .into_iter()
            .chain(running)
            .chain(self.placed.iter().chain(self.watched).cloned())
            .chain(generators.iter().cloned())
            .chain(others)
            .collect()
    }
}

/// Adds sentences to the evidence: where the CPU time of parts on other hosts comes from, and which content of a
/// request file was skipped. The sentence that explains `bound_by` stays last.
fn add_sources(judgement: &mut Judgement, record: &LoadRecord, observed: Vec<(String, Observed)>) {
    let left_out =
        record.generator.left_out.as_ref().map(|left_out| format!("the load's request file: {left_out}"));
    for sentence in observed.into_iter().map(|(_, observed)| observed.said).chain(left_out) {
        let place = judgement.evidence.len().saturating_sub(1);
        judgement.evidence.insert(place, sentence);
    }
}

fn host_unknown() -> CellError {
    let message = "cannot read the CPU accounting of the host";
    failed("launch", message, "`weir doctor` reports what is missing", "")
}

fn generator_failed(generator: &mut Running, what: &str) -> CellError {
    // Report out of memory or a full disk as the cause, not the generator's last log line.
    if let Some(failure) = generator.failure()
        && failure.cause() != "died"
    {
        return failure.into();
    }
    let tail = generator.log_tail();
    let last = last_words(&tail).unwrap_or_default();
    let remedy = "correct the cause of the failure; the report shows the end of the generator's log";
    failed("generator", &format!("the load generator {what}: {last}"), remedy, &tail)
}
