//! Drives a load: starts the workers, watches the time, merges their results.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use weir_io::{
    CpuTime, JoinHandle, SockAddr, WorkerOptions, available_cpus, mono_ns, process_cpu_time, reserve_files,
    spawn_thread,
};
use weir_results::LoadRecord;

use crate::EngineError;
use crate::flow::Flow;
use crate::link::Dialing;
use crate::pacing::pauses::{Pauses, Ramp};
use crate::pacing::schedule::{Profile, Schedule};
use crate::pacing::source::Source;
use crate::pacing::think::Think;
use crate::record::{PhaseFrame, RecordBuilder};
use crate::recording::recorder::Send;
use crate::recording::routes::Routes;
use crate::request::RequestSource;
use crate::resolve::resolve;
use crate::spec::{LoadSpec, ModelSpec, ProtocolSpec};
use crate::timeline::Timeline;
use crate::tls::TlsClient;
use crate::tls::names::Names;
use crate::warm_up::WarmUp;
use crate::worker::{Event, WorkerPlan, work};

mod progress;
mod steps;

pub use progress::Progress;

/// Open files besides connections: standard streams, and each worker's poll and timers.
const FILES_BASE: u64 = 32;
const FILES_PER_WORKER: u64 = 20;
/// Time between the announcement of the start and the start, so that every worker is waiting by then.
const LEAD_NS: u64 = 2_000_000;
const LEAD_PER_WORKER_NS: u64 = 1_000_000;
/// Every place is visited once before the start.
const LEAD_PER_PLACE_NS: u64 = 3_000;
/// Time between the announcement of an early end and that end, so that every worker learns of it in time.
const EARLY_END_LEAD_NS: u64 = 30_000_000;
/// How long before its end the warm-up is judged, so that no worker waits at the border for the decision.
const WARM_UP_LEAD_NS: u64 = 5_000_000;
/// How often the coordinator checks whether it shall stop.
const STOP_CHECK_PERIOD: Duration = Duration::from_millis(20);

/// Drives the load to its end, or until `stop` is set; then the record contains what was measured so far.
///
/// Errors of peers are counted in the record.
///
/// # Errors
/// When the specification makes no sense, or this process cannot drive it.
pub fn run(spec: &LoadSpec, progress: &dyn Progress, stop: &AtomicBool) -> Result<LoadRecord, EngineError> {
    spec.validate()?;
    let addresses = resolve(spec)?;
    let prepared = Prepared {
        dialing: Dialing {
            // In a closed loop responses are read as they arrive, so kernel timestamps would cost more than they are
            // worth. Unix sockets have none.
            is_stamped: matches!(spec.model, ModelSpec::Open { .. })
                && !addresses.iter().any(SockAddr::is_unix),
            addresses,
            tls: spec
                .tls
                .as_ref()
                .map(|tls| {
                    let names = Names::new(spec, tls)?;
                    TlsClient::new(tls, spec.protocol, names, most_connections(spec), spec.seed)
                })
                .transpose()?,
        },
        requests: RequestSource::new(spec)?,
    };
    if spec.protocol != ProtocolSpec::Http1 {
        prepared.requests.check_http2()?;
    }
    match spec.steps.as_slice() {
        [] => drive(spec, &prepared, progress, stop),
        specs => steps::drive_all(spec, specs, progress, stop, |spec, progress| {
            drive(spec, &prepared, progress, stop)
        }),
    }
}

/// What is prepared once, however many steps a load has.
struct Prepared {
    dialing: Dialing,
    requests: RequestSource,
}

/// Drives one step.
fn drive(
    spec: &LoadSpec,
    prepared: &Prepared,
    progress: &dyn Progress,
    stop: &AtomicBool,
) -> Result<LoadRecord, EngineError> {
    let connections = spec.connections.max(spec.connections_from.unwrap_or(0));
    raise_open_files(connections, spec.workers)?;
    let (events_in, events) = channel();
    let early_end_ns = Arc::new(AtomicU64::new(0));
    let mut crew = Crew { starts: Vec::new(), threads: Vec::new() };
    for worker in 0..spec.workers {
        let (start, wait_for_start) = sync_channel(1);
        crew.starts.push(start);
        let plan = WorkerPlan {
            worker,
            connections: connections_of(spec, worker),
            connections_first: connections_first_of(spec, worker),
            protocol: spec.protocol,
            streams: streams_of(spec),
            dialing: prepared.dialing.of_worker(worker),
            requests: prepared.requests.clone(),
            has_domains: !spec.domains.is_empty(),
            requests_per_connection: spec.requests_per_connection,
            early_end_ns: Arc::clone(&early_end_ns),
            timeout_ns: spec.timeout_ns,
            spin: spec.spin,
            events: Sender::clone(&events_in),
            start: wait_for_start,
        };
        let options = WorkerOptions {
            name: format!("load-{worker}"),
            cpu: cpu_of(worker, spec.workers),
            // A closed loop may use its whole CPU, and so does a spinning worker: as urgent ones they would keep the
            // server from it.
            is_urgent: matches!(spec.model, ModelSpec::Open { .. }) && !spec.spin,
        };
        let thread = spawn_thread(options, move || work(plan))
            .map_err(|source| EngineError::Worker { worker, source })?;
        crew.threads.push(thread);
    }
    drop(events_in);
    let is_whole = await_connections(&events, spec.workers, || {
        if stop.load(Ordering::Acquire) {
            // No clock runs yet, so there is no time; this is enough to keep the workers from opening more connections.
            early_end_ns.store(1, Ordering::Release);
        }
        crew.has_lost_one()
    });
    if !is_whole {
        return Err(crew.failure());
    }
    early_end_ns.store(0, Ordering::Release);
    let coordinator =
        Coordinator { spec, requests: &prepared.requests, progress, stop, events, early_end_ns };
    let (timeline, warm_up) = coordinator.start(&mut crew);
    let outcome = coordinator.collect(timeline, warm_up);
    crew.join()?;
    outcome
}

struct Crew {
    starts: Vec<SyncSender<Flow>>,
    threads: Vec<JoinHandle<std::io::Result<()>>>,
}

struct Coordinator<'a> {
    spec: &'a LoadSpec,
    requests: &'a RequestSource,
    progress: &'a dyn Progress,
    stop: &'a AtomicBool,
    events: Receiver<(u32, Event)>,
    early_end_ns: Arc<AtomicU64>,
}

/// CPU time at the borders of the phase.
#[derive(Default)]
struct PhaseCpu {
    start: Option<CpuTime>,
    end: Option<CpuTime>,
}

impl Coordinator<'_> {
    /// Starts all workers on one clock.
    fn start(&self, crew: &mut Crew) -> (Timeline, Option<Arc<WarmUp>>) {
        let spec = self.spec;
        let mut duration_ns = spec.duration_ns;
        let mut end_index = u64::MAX;
        let schedule = match spec.model {
            ModelSpec::Closed { .. } => None,
            ModelSpec::Open { rate_per_s, spacing, .. } => {
                let profile = Profile::of(spec).unwrap_or_else(|| rate_per_s.into());
                let schedule = Schedule::new(spec.seed, profile, spacing);
                if let Some(count) = spec.request_count {
                    let (index, end_ns) = schedule.end_of(spec.warmup_ns, count);
                    end_index = index;
                    // The last arrival may have the same nanosecond as the first one after the phase.
                    duration_ns = Some(end_ns - spec.warmup_ns + 1);
                }
                Some(schedule)
            }
        };
        // Only now: walking a long schedule takes time, and so does allocating the workers' books.
        let places = connections_of(spec, 0) as u64 * u64::from(streams_of(spec)) * u64::from(spec.workers);
        let start_ns =
            mono_ns() + LEAD_NS + u64::from(spec.workers) * LEAD_PER_WORKER_NS + places * LEAD_PER_PLACE_NS;
        let timeline = Timeline::new(start_ns, spec.warmup_ns, duration_ns, spec.timeout_ns);
        let warm_up = WarmUp::new(start_ns, spec.warmup_ns, spec.longest_warmup_ns(), spec.workers);
        let workers = u64::from(spec.workers);
        for (worker, start) in (0..).zip(crew.starts.drain(..)) {
            let source = match &schedule {
                Some(schedule) => {
                    Source::open(schedule.arrivals(u64::from(worker), workers), workers, end_index)
                }
                None => {
                    let left = spec.request_count.map(|count| share(count, worker, spec.workers));
                    Source::closed(u64::from(worker), workers, left)
                }
            };
            let slots = connections_of(spec, worker) * streams_of(spec) as usize;
            let flow = Flow::new(source, timeline, spec.timeout_ns, slots)
                .with_pauses(pauses_of(spec, worker, slots))
                .with_replay(self.requests.is_recorded())
                .with_routes(Routes::new(self.requests))
                .with_warm_up(warm_up.clone(), worker)
                .with_trace(spec.trace.is_some());
            // A worker that has ended is noticed when it is joined.
            let _ = start.send(flow);
        }
        (timeline, warm_up)
    }

    /// Receives the workers' messages until all have ended.
    fn collect(
        &self,
        mut timeline: Timeline,
        warm_up: Option<Arc<WarmUp>>,
    ) -> Result<LoadRecord, EngineError> {
        let mut builder = RecordBuilder::new(timeline.start_ns, self.spec.workers, self.spec.counts_only);
        let mut cpu = PhaseCpu::default();
        let mut is_stopping = false;
        let mut growth = warm_up.map(Growth::new);
        loop {
            let now_ns = mono_ns();
            if !is_stopping && self.stop.load(Ordering::Acquire) {
                is_stopping = true;
                let end_ns = now_ns + EARLY_END_LEAD_NS;
                self.early_end_ns.store(end_ns, Ordering::Release);
                timeline.cut(end_ns, 0);
            }
            let look_ns = match &mut growth {
                Some(growth) if !is_stopping => growth.look(now_ns, &mut timeline),
                _ => u64::MAX,
            };
            let next_ns = cpu.observe(now_ns, &timeline).min(look_ns);
            let patience = STOP_CHECK_PERIOD.min(Duration::from_nanos(next_ns.saturating_sub(now_ns)));
            match self.events.recv_timeout(patience) {
                Ok((worker, Event::Interval(interval))) => {
                    if let Some(second) = builder.interval(worker, *interval) {
                        self.progress.second(second);
                    }
                }
                Ok((worker, Event::Ended(report))) => builder.report(worker, *report),
                Ok((_, Event::Connected)) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        // A load stopped during its warm-up has an empty phase.
        let end_ns = builder.phase_end_ns().unwrap_or_else(mono_ns).max(timeline.sustain_ns);
        let now = process_cpu_time();
        let frame = PhaseFrame {
            start_ns: timeline.sustain_ns,
            end_ns,
            cpu_start: cpu.start.unwrap_or(now),
            cpu_end: cpu.end.unwrap_or(now),
        };
        if let Some(path) = &self.spec.trace {
            write_sends(path, &builder.sends(), frame.start_ns)?;
        }
        let mut record = builder.build(self.spec, frame);
        record.generator.left_out = self.requests.left_out().cloned();
        record.generator.warm_up = growth.map(|growth| weir_results::WarmUp {
            asked_ns: self.spec.warmup_ns,
            taken_ns: frame.start_ns - timeline.start_ns,
            has_settled: growth.has_settled,
        });
        Ok(record)
    }
}

/// A warm-up that is extended while latencies have not settled.
struct Growth {
    warm_up: Arc<WarmUp>,
    has_settled: bool,
    is_over: bool,
}

impl Growth {
    fn new(warm_up: Arc<WarmUp>) -> Self {
        Self { warm_up, has_settled: false, is_over: false }
    }

    /// Postpones the sustained phase when the warm-up nears its end and has not settled; returns when to check again.
    fn look(&mut self, now_ns: u64, timeline: &mut Timeline) -> u64 {
        if self.is_over {
            return u64::MAX;
        }
        let look_ns = timeline.sustain_ns.saturating_sub(WARM_UP_LEAD_NS);
        if now_ns < look_ns {
            return look_ns;
        }
        self.has_settled = self.warm_up.has_settled(now_ns);
        match self.warm_up.later_ns(timeline.sustain_ns).filter(|_| !self.has_settled) {
            Some(later_ns) if self.warm_up.put_off(timeline.sustain_ns, later_ns) => {
                timeline.put_off(later_ns);
                later_ns.saturating_sub(WARM_UP_LEAD_NS)
            }
            _ => {
                self.is_over = true;
                u64::MAX
            }
        }
    }
}

/// A line for each send, nanoseconds from the start of the phase; an existing file is appended to.
fn write_sends(path: &Path, sends: &[Send], start_ns: u64) -> Result<(), EngineError> {
    let write = || {
        let mut file = BufWriter::new(File::options().create(true).append(true).open(path)?);
        for (intended_ns, sent_ns) in sends {
            writeln!(file, "{} {}", intended_ns.saturating_sub(start_ns), sent_ns.saturating_sub(start_ns))?;
        }
        file.flush()
    };
    write().map_err(|source| EngineError::Trace { path: path.to_owned(), source })
}

impl PhaseCpu {
    /// Reads the process's CPU time when a border of the phase has passed; returns the next border.
    fn observe(&mut self, now_ns: u64, timeline: &Timeline) -> u64 {
        for (place, border_ns) in [(&mut self.start, timeline.sustain_ns), (&mut self.end, timeline.end_ns)] {
            if place.is_none() {
                if now_ns < border_ns {
                    return border_ns;
                }
                *place = Some(process_cpu_time());
            }
        }
        u64::MAX
    }
}

impl Crew {
    /// Whether a worker has ended before the start.
    fn has_lost_one(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Dismisses all workers, and returns why one of them ended before the start.
    fn failure(mut self) -> EngineError {
        self.starts.clear();
        match self.join() {
            Err(error) => error,
            Ok(()) => {
                EngineError::Worker { worker: 0, source: std::io::Error::other("it ended before the start") }
            }
        }
    }

    fn join(self) -> Result<(), EngineError> {
        for (worker, thread) in (0..).zip(self.threads) {
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(source)) => return Err(EngineError::Worker { worker, source }),
                Err(_) => return Err(EngineError::Panicked { worker }),
            }
        }
        Ok(())
    }
}

/// Waits until every worker has tried all its connections, which is bounded in time; false if one has ended without a
/// message while the others wait for a start that must not come.
fn await_connections(events: &Receiver<(u32, Event)>, workers: u32, has_lost_one: impl Fn() -> bool) -> bool {
    let mut connected = 0;
    while connected < workers {
        match events.recv_timeout(STOP_CHECK_PERIOD) {
            Ok(_) => connected += 1,
            Err(RecvTimeoutError::Timeout) if !has_lost_one() => {}
            // Its message may have arrived between the two checks, but then it would not have ended.
            Err(_) => return false,
        }
    }
    true
}

/// The greatest number of connections that the load has at any time.
fn most_connections(spec: &LoadSpec) -> usize {
    let steps = spec.steps.iter().filter_map(|step| step.connections);
    steps.chain(spec.connections_from).fold(spec.connections, u32::max) as usize
}

/// Connections of a worker; a changing number counts with its maximum.
fn connections_of(spec: &LoadSpec, worker: u32) -> usize {
    let most = spec.connections.max(spec.connections_from.unwrap_or(0));
    share(u64::from(most), worker, spec.workers) as usize
}

/// The connections that are open from the start.
fn connections_first_of(spec: &LoadSpec, worker: u32) -> usize {
    let first = spec.connections_from.unwrap_or(spec.connections);
    share(u64::from(first), worker, spec.workers) as usize
}

/// Places for requests in flight on each connection.
fn streams_of(spec: &LoadSpec) -> u32 {
    spec.streams.unwrap_or(1)
}

fn pauses_of(spec: &LoadSpec, worker: u32, slots: usize) -> Pauses {
    let think = match spec.model {
        ModelSpec::Closed { think } => think.map(|think| Think::new(spec.seed, think)),
        ModelSpec::Open { .. } => None,
    };
    let ramp = spec.connections_from.map(|from| Ramp {
        from,
        to: spec.connections,
        worker,
        workers: spec.workers,
        streams: streams_of(spec),
    });
    Pauses::new(think, ramp, worker, spec.workers, slots)
}

/// The share of `total` for worker `worker` of `workers`: equal shares, and the first workers get the remainder.
fn share(total: u64, worker: u32, workers: u32) -> u64 {
    let (worker, workers) = (u64::from(worker), u64::from(workers));
    total / workers + u64::from(worker < total % workers)
}

/// The CPU of a worker; `None` when there are more workers than CPUs. Servers on the same host bind their workers from
/// the first CPU upwards, so these are bound from the last CPU downwards.
fn cpu_of(worker: u32, workers: u32) -> Option<usize> {
    let cpus = available_cpus();
    if workers as usize > cpus.len() {
        return None;
    }
    cpus.iter().rev().nth(worker as usize).copied()
}

/// Raises the process's limit of open files as far as the connections need it.
pub(crate) fn raise_open_files(connections: u32, workers: u32) -> Result<(), EngineError> {
    let needed = u64::from(connections) + u64::from(workers) * FILES_PER_WORKER + FILES_BASE;
    if getrlimit(Resource::Nofile).current.is_some_and(|current| current < needed) {
        // If it cannot be raised, the check below reports that.
        weir_io::raise_open_files();
    }
    reserve_files(needed);
    match getrlimit(Resource::Nofile).current {
        Some(limit) if limit < needed => Err(EngineError::OpenFiles { connections, needed, limit }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_ends_without_a_word_keeps_nobody_waiting() {
        let (events_in, events) = channel();
        for worker in 0..2 {
            events_in.send((worker, Event::Connected)).unwrap();
        }
        assert!(await_connections(&events, 2, || true), "who has reported may end");
        events_in.send((0, Event::Connected)).unwrap();
        // The sender stays alive, like that of a worker that waits for the start.
        assert!(!await_connections(&events, 2, || true));
    }

    /// Looks at a warm-up of 100 ms, 250 ms at most, whose latencies `latency_ns` gives by millisecond.
    fn grown(latency_ns: impl Fn(u64) -> u64) -> (Timeline, Growth) {
        const MS: u64 = 1_000_000;
        let warm_up = WarmUp::new(0, 100 * MS, 250 * MS, 1).unwrap();
        let meter = warm_up.meter(0);
        let mut growth = Growth::new(warm_up);
        let mut timeline = Timeline::new(0, 100 * MS, Some(1_000 * MS), MS);
        let mut look_ns = 0;
        for ms in 0..300 {
            meter.answered(ms * MS, latency_ns(ms));
            if ms * MS >= look_ns {
                look_ns = growth.look(ms * MS, &mut timeline);
            }
        }
        assert!(growth.is_over && timeline.end_ns - timeline.sustain_ns == 1_000 * MS);
        (timeline, growth)
    }

    #[test]
    fn a_warm_up_grows_until_it_has_settled_and_no_further_than_it_may() {
        let taken = |latency_ns: fn(u64) -> u64| {
            let (timeline, growth) = grown(latency_ns);
            (timeline.sustain_ns / 1_000_000, growth.has_settled)
        };
        assert_eq!(taken(|_| 5_000), (100, true));
        assert_eq!(taken(|ms| 5_000 + 100 * 40u64.saturating_sub(ms)), (100, true));
        assert_eq!(taken(|ms| 5_000 + 100 * 65u64.saturating_sub(ms)), (150, true));
        assert_eq!(taken(|ms| 5_000 + 100 * 85u64.saturating_sub(ms)), (200, true));
        assert_eq!(taken(|ms| 5_000 + 100 * ms), (250, false));
    }

    #[test]
    fn a_ramp_opens_what_it_begins_with_and_the_rest_when_its_time_comes() {
        let spec = |from, to| LoadSpec { connections_from: from, connections: to, ..LoadSpec::default() };
        let of_all = |spec: &LoadSpec, of: fn(&LoadSpec, u32) -> usize| [of(spec, 0), of(spec, 1)];
        for (from, to, first, most) in [(Some(1), 60, [1, 0], [30, 30]), (Some(7), 1, [4, 3], [4, 3])] {
            let spec = LoadSpec { workers: 2, ..spec(from, to) };
            assert_eq!((of_all(&spec, connections_first_of), of_all(&spec, connections_of)), (first, most));
        }
        let constant = spec(None, 9);
        assert_eq!((connections_first_of(&constant, 0), connections_of(&constant, 0)), (9, 9));
    }

    #[test]
    fn an_end_before_the_start_is_reported_with_its_reason() {
        let (start, wait_for_start) = sync_channel::<Flow>(1);
        let waiting = spawn_thread(WorkerOptions::default(), move || {
            drop(wait_for_start.recv());
            Ok(())
        });
        let failed =
            spawn_thread(WorkerOptions::default(), || Err(std::io::Error::other("no descriptor is left")));
        let crew = Crew { starts: vec![start], threads: vec![waiting.unwrap(), failed.unwrap()] };
        assert_eq!(crew.failure().to_string(), "worker 1 could not start: no descriptor is left");
    }
}
