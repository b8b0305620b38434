//! One load against running processes: counters before, generator and samples during, counters after, verdict.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use weir_analysis::{Evidence, data_usage, judge, origin_usage};
use weir_engine::{LoadSpec, SlowSpec};
use weir_results::{
    Counters, FaultEvent, HostBounds, LoadRecord, Measurement, Part, Role, SlowClients, Thresholds, Usage,
    last_words,
};
use weir_rig::prometheus::{Span, WallClock};
use weir_rig::{Binary, CounterSource, Namespace, ProcessSpec, Ready, Rig, Running, Sampler, Samples};

use crate::cell::error::{CellError, failed, failed_file};
use crate::changer::{Changer, IsGivenUp, Made};
use crate::faults::{FaultCourse, Reach};
use crate::origin::{Delays, Replica};
use crate::own::total;
use crate::remote::{Observed, Watched};
use crate::scenario::{Load, Scenario, ScheduledFault};
use crate::slow;
use crate::spec::Setting;

/// How often the processes are looked at while a load runs.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long before the end of the warm-up weir looks at the other processes of the host, so as to be done by then.
const NEIGHBOURS_BEFORE: Duration = Duration::from_millis(300);

/// What the generator may take beyond its phases and drain before it counts as stuck.
const STUCK_AFTER: Duration = Duration::from_secs(30);

/// What a closed phase may take that is ended by its count alone.
const COUNT_MAX: Duration = Duration::from_secs(3_600);

/// How long counters get to settle after a load: a gateway's worker may add its last requests a little later.
const SETTLE_MAX: Duration = Duration::from_secs(2);
const SETTLE_EVERY: Duration = Duration::from_millis(25);
/// Equal readings in a row that count as settled.
const SETTLED_READINGS: u32 = 8;

/// How often the processes are looked at after a failure, for one that died and is its cause.
const DEATH_LOOKS: u32 = 10;
const DEATH_EVERY: Duration = Duration::from_millis(20);

/// The processes of a cell and how to count at each of them.
pub(crate) struct Bed<'a> {
    pub(crate) rig: &'a Rig,
    pub(crate) weir: &'a Binary,
    pub(crate) dir: &'a Path,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) scenario: &'a Scenario,
    pub(crate) thresholds: &'a Thresholds,
    /// What this host can be measured with, where that is known.
    pub(crate) bounds: Option<&'a HostBounds>,
    /// The gateway's processes and then the upstream's.
    pub(crate) running: &'a mut Vec<Running>,
    /// The gateway, where it runs elsewhere.
    pub(crate) remote: Option<&'a Watched<'a>>,
    /// The generator's network; the host's where there is none.
    pub(crate) generator: Option<&'a Namespace>,
    pub(crate) gateway_counter: Option<&'a CounterSource>,
    /// One for each server of the upstream.
    pub(crate) origin_counters: &'a [CounterSource],
    /// The delays that the origin gave; absent where it was told to give none.
    pub(crate) origin_delay: Option<&'a Delays>,
    /// What changes the gateway's routes; absent where nothing does.
    pub(crate) changer: Option<&'a Changer>,
    /// What is done to the upstream during each load, and the servers to which.
    pub(crate) faults: &'a [ScheduledFault],
    pub(crate) replicas: &'a [Replica],
    /// Slow clients beside loads; absent where there are none.
    pub(crate) slow: Option<&'a SlowSpec>,
}

/// What was seen of a load beside its record.
struct Seen<'a> {
    samples: &'a Samples,
    counters: Counters,
    generator: &'a Part,
    made: Made,
    faults: Vec<FaultEvent>,
    slow: Option<(Part, SlowClients)>,
    /// What a Prometheus says, where somebody asked one.
    observed: Option<Observed>,
}

/// What comes of the generator's process, and of what was done meanwhile.
struct Generated {
    record: LoadRecord,
    samples: Samples,
    generator: Part,
    made: Made,
    faults: Vec<FaultEvent>,
    slow: Option<(Part, SlowClients)>,
}

/// What is beside one load.
#[derive(Clone, Copy)]
struct Beside<'a> {
    changer: Option<&'a Changer>,
    slow: Option<&'a SlowSpec>,
}

/// What one load is.
pub(crate) struct Task<'a> {
    pub(crate) name: &'a str,
    pub(crate) load: &'a Load,
    /// Where it goes and what for, if the load does not say it itself.
    pub(crate) setting: Setting,
    /// Greatest share of errors that its objective allows.
    pub(crate) errors_max: Option<f64>,
}

impl Task<'_> {
    /// What it asks of the engine.
    fn spec(&self) -> Result<LoadSpec, CellError> {
        self.load.spec(self.setting.clone()).map_err(|fault| {
            let message = format!("loads.{}.{}: {}", self.name, fault.field, fault.message);
            failed("generator", &message, &fault.remedy, "")
        })
    }
}

impl Bed<'_> {
    /// Runs the load and judges it; gives the generator's part beside.
    pub(crate) fn measure(&mut self, task: &Task<'_>) -> Result<(Measurement, Part), CellError> {
        let measured = self.try_measure(task);
        match measured {
            // Counters that cannot be read and loads that break off have their cause where a process is gone.
            Err(CellError::Failed(_)) => self.await_death().and(measured),
            measured => measured,
        }
    }

    /// Looks at the processes for a moment: one that is killed closes its connections before it counts as dead.
    fn await_death(&mut self) -> Result<(), CellError> {
        for _ in 0..DEATH_LOOKS {
            self.look_at_processes()?;
            thread::sleep(DEATH_EVERY);
        }
        Ok(())
    }

    fn try_measure(&mut self, task: &Task<'_>) -> Result<(Measurement, Part), CellError> {
        let spec = task.spec()?;
        let (changes, slow) = (&self.scenario.changes, &self.scenario.slow);
        let beside = Beside {
            changer: self.changer.filter(|_| changes.as_ref().is_some_and(|of| of.concerns(task.name))),
            slow: self.slow.filter(|_| slow.as_ref().is_some_and(|of| of.concerns(task.name))),
        };
        let before = self.count(beside)?;
        let delays_before = self.origin_delay.and_then(Delays::read);
        let clock_before = WallClock::now();
        let Generated { record, samples, generator, made, faults, slow } =
            self.generate(task, &spec, beside)?;
        let mut counters = self.settle(before, &record, beside, &made)?;
        counters.origin_delay_ns_mean =
            self.origin_delay.and_then(|delays| delays.mean_ns_since(delays_before));
        self.look_at_processes()?;
        let (from_ns, to_ns) = (record.phase_start_mono_ns, record.phase_end_mono_ns);
        let span = Span { from_ns, to_ns, clock_before };
        let observed = self.remote.map(|remote| remote.observe(&span, self.stop)).transpose()?.flatten();
        let seen = Seen { samples: &samples, counters, generator: &generator, made, faults, slow, observed };
        Ok((self.judged(task, &spec, record, seen)?, generator))
    }

    /// Starts the generator as a process of its own, samples everything while it runs, and reads its record.
    fn generate(
        &mut self,
        task: &Task<'_>,
        spec: &LoadSpec,
        beside: Beside<'_>,
    ) -> Result<Generated, CellError> {
        let spec_path = self.dir.join(format!("{}.spec.json", task.name));
        let record_path = self.dir.join(format!("{}.record.json", task.name));
        let text = serde_json::to_vec(spec).expect("a load is a tree of plain values");
        std::fs::write(&spec_path, text).map_err(|error| failed_file("write", &spec_path, &error))?;
        let process = self.generator_process(task.name, &spec_path, &record_path);
        // Sampling begins before the generator does: a short warm-up may be over before a busy host lets the lab
        // take its first sample.
        let sampler = Sampler::start(&self.running.iter().collect::<Vec<_>>());
        let slow = beside.slow.map(|spec| self.start_slow(spec, task.name)).transpose()?;
        slow.iter().for_each(|slow| sampler.join(&slow.running));
        let mut generator = self.rig.launch(&process)?;
        sampler.join(&generator);
        let warmup = Duration::from_nanos(spec.warmup_ns);
        sampler.look_at_neighbours(Instant::now() + warmup.saturating_sub(NEIGHBOURS_BEFORE));
        let mut course = FaultCourse::begin(self.faults, self.replicas, warmup);
        let sustained = task.load.sustained(task.setting.duration);
        let (stop, has_failed) = (self.stop, AtomicBool::new(false));
        let is_given_up: IsGivenUp<'_> =
            &|| has_failed.load(Ordering::Relaxed) || stop.load(Ordering::Relaxed);
        let (ended, made) = thread::scope(|scope| {
            let (running, ended) = channel();
            let changing =
                beside.changer.map(|changer| scope.spawn(move || changer.change_until(&ended, is_given_up)));
            let waited = self.await_generator(&mut generator, spec, sustained, &mut course, &sampler);
            has_failed.store(waited.is_err(), Ordering::Relaxed);
            drop(running);
            let made = changing.map(|changing| changing.join().expect("a changer does not panic"));
            (waited, made)
        });
        let ended = ended.and_then(|()| course.undo(self.reach(&sampler)));
        let samples = sampler.finish();
        ended?;
        let made = made.transpose()?.unwrap_or_default();
        let slow = slow.map(slow::Beside::end).transpose()?;
        let record = read_record(&record_path)?;
        let faults = course.on_the_clock_of(&record, start_of(&record));
        Ok(Generated { record, samples, generator: generator.part(), made, faults, slow })
    }

    /// What faults get at.
    fn reach<'b>(&'b mut self, sampler: &'b Sampler) -> Reach<'b> {
        Reach { rig: self.rig, running: self.running.as_mut_slice(), sampler }
    }

    fn generator_process(&self, load: &str, spec: &Path, record: &Path) -> ProcessSpec {
        let weir = self.weir.path.display().to_string();
        let argument = |path: &Path| path.display().to_string();
        ProcessSpec {
            name: "generator".into(),
            role: Role::Generator,
            binary: self.weir.clone(),
            config_sha256: None,
            command: vec![
                weir,
                "generate".into(),
                "--spec".into(),
                argument(spec),
                "--record".into(),
                argument(record),
            ],
            env: vec![],
            dir: self.dir.to_path_buf(),
            log: self.dir.join(format!("{load}.generator.log")),
            limits: crate::cell::limits_of(self.scenario, Role::Generator),
            is_urgent: true,
            cpus: None,
            ready: Ready::None,
            ready_timeout: Duration::ZERO,
            listens: vec![],
            namespace: self.generator.cloned(),
        }
    }

    /// Waits for the generator's end, does the faults of `course`, and looks at everything else meanwhile.
    fn await_generator(
        &mut self,
        generator: &mut Running,
        spec: &LoadSpec,
        sustained: Option<Duration>,
        course: &mut FaultCourse<'_>,
        sampler: &Sampler,
    ) -> Result<(), CellError> {
        let steps = spec.steps.len().max(1) as u32;
        let drains = Duration::from_nanos(spec.timeout_ns) * steps;
        let phases = Duration::from_nanos(spec.warmup_ns.max(spec.warmup_most_ns))
            + sustained.unwrap_or(COUNT_MAX * steps)
            + drains;
        let deadline = Instant::now() + phases + STUCK_AFTER;
        loop {
            let ended = generator.wait(course.pause(LOOK_EVERY))?;
            if self.stop.load(Ordering::Relaxed) {
                return Err(CellError::Stopped);
            }
            // A gateway that died explains a generator that failed, so it is looked at first.
            self.look_at_processes()?;
            match ended {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(generator_failed(generator, &format!("ended with {status}"))),
                None if Instant::now() > deadline => {
                    return Err(generator_failed(generator, "did not exit after its load"));
                }
                None => course.act(self.reach(sampler))?,
            }
        }
    }

    fn look_at_processes(&mut self) -> Result<(), CellError> {
        match self.running.iter_mut().find_map(Running::failure) {
            Some(failure) => Err(failure.into()),
            None => Ok(()),
        }
    }

    /// What gateway and origin have counted so far.
    fn count(&self, beside: Beside<'_>) -> Result<(Option<u64>, Option<u64>), CellError> {
        // Requests of slow clients are counted by some when they begin, and by others once they are whole.
        if beside.slow.is_some() {
            return Ok((None, None));
        }
        let is_lost = |counter: &&CounterSource| beside.changer.is_some() && counter.restarts_on_apply();
        let counter = self.gateway_counter.filter(|counter| !is_lost(counter));
        let gateway = counter.map(CounterSource::read).transpose()?.flatten();
        // A server that is started again counts anew, and gateways may ask several for one request.
        let origin = if self.faults.is_empty() { total(self.origin_counters)? } else { None };
        Ok((gateway, origin))
    }

    /// Reads the counters until they say what the generator sent, or no longer move.
    fn settle(
        &self,
        before: (Option<u64>, Option<u64>),
        record: &LoadRecord,
        beside: Beside<'_>,
        made: &Made,
    ) -> Result<Counters, CellError> {
        let since = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
        let deadline = Instant::now() + SETTLE_MAX;
        let sent = record.whole.sent;
        let (mut last, mut equal) = (None, 0);
        loop {
            let now = self.count(beside)?;
            let gateway = since(now.0, before.0).map(|count| made.looks.off_gateway(count, sent));
            let origin = since(now.1, before.1).map(|count| made.looks.off_origin(count, sent));
            let agree = [gateway, origin].into_iter().flatten().all(|count| count == sent);
            equal = if last == Some(now) { equal + 1 } else { 0 };
            last = Some(now);
            if agree || equal >= SETTLED_READINGS || Instant::now() >= deadline {
                return Ok(Counters {
                    generator_sent: sent,
                    generator_uncertain: record.whole_uncertain,
                    gateway_requests: gateway,
                    origin_requests: origin,
                    origin_delay_ns_mean: None,
                });
            }
            thread::sleep(SETTLE_EVERY);
        }
    }

    fn judged(
        &self,
        task: &Task<'_>,
        spec: &LoadSpec,
        mut record: LoadRecord,
        seen: Seen<'_>,
    ) -> Result<Measurement, CellError> {
        let Seen { samples, counters, generator, made, faults, slow, observed } = seen;
        let (from, to) = (record.phase_start_mono_ns, record.phase_end_mono_ns);
        let remote = self.remote.map(|remote| remote.part.clone());
        let running = self.running.iter().map(Running::part);
        let beside = slow.iter().map(|(part, _)| part.clone());
        let parts: Vec<Part> =
            remote.iter().cloned().chain(running).chain([generator.clone()]).chain(beside).collect();
        let mut usage: BTreeMap<String, Usage> = parts
            .iter()
            .filter_map(|part| Some((part.name.clone(), samples.usage(&part.name, from, to)?)))
            .collect();
        let mut series = samples.seconds(start_of(&record), to);
        if let (Some(part), Some(observed)) = (&remote, &observed) {
            observed.add_to(&part.name, &mut usage, &mut series, start_of(&record), to);
        }
        let (data, origin) = (data_usage(&parts, &usage), origin_usage(&parts, &usage));
        let host = samples.host(from, to).ok_or_else(|| {
            failed(
                "launch",
                "cannot read the CPU accounting of the host",
                "`weir doctor` reports what is missing",
                "",
            )
        })?;
        let host_usage = samples.host_usage(from, to);
        let mut judgement = judge(
            &Evidence {
                record: &record,
                data: data.as_ref(),
                origin: origin.as_ref(),
                generator: usage.get(&generator.name),
                counters: Some(&counters),
                host: Some(&host),
                busiest: host_usage.as_ref().map_or(&[], |usage| &usage.busiest),
                limits_applied: parts.iter().all(|part| part.limits_applied),
                loopback_floor_ns: self.bounds.and_then(HostBounds::loopback_floor_ns),
                ceiling: self.bounds.and_then(|bounds| bounds.ceiling),
                is_steady: spec.is_steady() && self.faults.is_empty(),
                errors_max: task.errors_max,
            },
            self.thresholds,
        );
        let left_out =
            record.generator.left_out.as_ref().map(|left_out| format!("the load's file: {left_out}"));
        for said in observed.map(|observed| observed.said).into_iter().chain(left_out) {
            // What bounds it stands last.
            let place = judgement.evidence.len().saturating_sub(1);
            judgement.evidence.insert(place, said);
        }
        record.result.bound_by = judgement.bound_by;
        record.result.verdicts = judgement.verdicts.clone();
        let completed = record.result.requests.completed;
        let cpu_us_per_request =
            data.filter(|_| completed > 0).map(|data| data.cpu_s.total() * 1e6 / completed as f64);
        Ok(Measurement {
            load: task.name.to_owned(),
            connections: task.load.connections.greatest(),
            rate_per_s: task.load.mean_rate_per_s(),
            series,
            route_changes: made.on_the_clock_of(&record, start_of(&record)),
            faults,
            slow: slow.map(|(_, counts)| counts),
            record,
            usage,
            counters,
            host,
            host_usage,
            judgement,
            cpu_us_per_request,
            trial: None,
        })
    }
}

fn read_record(path: &PathBuf) -> Result<LoadRecord, CellError> {
    let text = std::fs::read(path).map_err(|error| failed_file("read", path, &error))?;
    serde_json::from_slice(&text).map_err(|error| {
        let message = format!("{}: cannot read the record of the load generator: {error}", path.display());
        failed("generator", &message, "report this as a bug", "")
    })
}

/// The start of the warm-up, which is where every series begins.
fn start_of(record: &LoadRecord) -> u64 {
    let warmup_s = record.seconds.iter().find(|second| second.sustained).map_or(0.0, |second| second.t_s);
    record.phase_start_mono_ns.saturating_sub((warmup_s * 1e9) as u64)
}

fn generator_failed(generator: &mut Running, what: &str) -> CellError {
    // Killed for want of memory and a full disk have causes of their own.
    if let Some(failure) = generator.failure()
        && failure.cause() != "died"
    {
        return failure.into();
    }
    let tail = generator.log_tail();
    let last = last_words(&tail).unwrap_or_default();
    failed("generator", &format!("the load generator {what}: {last}"), "see its log", &tail)
}
