//! Drives a load: starts the workers, lets the phases begin and end, and merges the results.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use weir_io::{CpuTime, SockAddr, mono_ns, process_cpu_time};
use weir_results::LoadRecord;

use crate::EngineError;
use crate::flow::Flow;
use crate::link::Dialing;
use crate::pacing::pauses::{Pauses, Ramp, Seat};
use crate::pacing::schedule::{Profile, Schedule, seed_of_shard};
use crate::pacing::source::Source;
use crate::pacing::think::Think;
use crate::record::{Closed, PhaseFrame, RecordBuilder};
use crate::recording::recorder::Send;
use crate::recording::routes::Routes;
use crate::request::RequestSource;
use crate::resolve::resolve;
use crate::spec::{LoadSpec, ModelSpec, Part, ProtocolSpec, check_start_ahead, share};
use crate::timeline::Timeline;
use crate::tls::TlsClient;
use crate::tls::names::Names;
use crate::warm_up::WarmUp;
use crate::worker::Event;

mod crew;
mod gate;
mod progress;
mod steps;

pub(crate) use crew::raise_open_files;
pub use gate::Gate;
pub use progress::{LiveSecond, Progress};

use crew::{Crew, await_connections};
use gate::Start;
use progress::Asked;

/// Minimum time between the announcement of the start and the start, so that all workers are ready in time.
const LEAD_NS: u64 = 2_000_000;
/// Additional lead time before the start, per worker.
const LEAD_PER_WORKER_NS: u64 = 1_000_000;
/// Additional lead time before the start, per slot (a connection or HTTP/2 stream), because workers visit each slot
/// once before the start.
const LEAD_PER_PLACE_NS: u64 = 3_000;
/// Time between the announcement of an early end and the end, so that all workers receive it in time.
const EARLY_END_LEAD_NS: u64 = 30_000_000;
/// Time before the end of the warm-up at which weir decides whether to extend it, so that no worker has to wait for
/// the decision.
const WARM_UP_LEAD_NS: u64 = 5_000_000;
/// How often the coordinator checks the stop flag.
const STOP_CHECK_PERIOD: Duration = Duration::from_millis(20);

/// Drives the load until it ends, or until `stop` is set. If it is stopped, the record contains the measurements
/// until then.
///
/// Errors of the server are counted in the record.
///
/// # Errors
/// If the specification is invalid, if this process cannot drive the load, or if the load cannot start at its planned
/// time.
pub fn run(spec: &LoadSpec, progress: &dyn Progress, stop: &AtomicBool) -> Result<LoadRecord, EngineError> {
    run_behind(&(), spec, progress, stop)
}

/// Like [`run`], with a `gate` that decides when the load starts. The gate is not called if the load has a planned
/// start.
///
/// # Errors
/// Like [`run`].
pub fn run_behind(
    gate: &dyn Gate,
    spec: &LoadSpec,
    progress: &dyn Progress,
    stop: &AtomicBool,
) -> Result<LoadRecord, EngineError> {
    spec.validate()?;
    check_start(spec.start_at_ns, mono_ns())?;
    let start = Start::new(gate, spec.start_at_ns);
    let shard = spec.shard.unwrap_or_default();
    let addresses = resolve(spec)?;
    let prepared = Prepared {
        dialing: Dialing {
            // A closed loop reads responses when they arrive, so timestamps of the kernel would cost more than they
            // gain. Unix sockets have no timestamps.
            is_stamped: matches!(spec.model, ModelSpec::Open { .. })
                && !addresses.iter().any(SockAddr::is_unix),
            addresses,
            tls: spec
                .tls
                .as_ref()
                .map(|tls| {
                    let names = Names::new(spec, tls)?;
                    let seed = seed_of_shard(spec.seed, shard);
                    TlsClient::new(tls, spec.protocol, names, most_connections(spec), seed)
                })
                .transpose()?,
            shard,
        },
        requests: RequestSource::new(spec)?,
    };
    if spec.protocol != ProtocolSpec::Http1 {
        prepared.requests.check_http2()?;
    }
    match spec.steps.as_slice() {
        [] => drive(spec, &prepared, &start, progress, stop),
        specs => steps::drive_all(spec, specs, &start, progress, stop, |spec, progress| {
            drive(spec, &prepared, &start, progress, stop)
        }),
    }
}

/// What is prepared once and used by all steps of a load.
struct Prepared {
    dialing: Dialing,
    requests: RequestSource,
}

/// Drives one step, or a load without steps.
fn drive(
    spec: &LoadSpec,
    prepared: &Prepared,
    start: &Start<'_>,
    progress: &dyn Progress,
    stop: &AtomicBool,
) -> Result<LoadRecord, EngineError> {
    let part = Part::of(spec);
    raise_open_files(part.connections_most(), part.workers)?;
    let (events_in, events) = channel();
    let early_end_ns = Arc::new(AtomicU64::new(0));
    let mut crew = Crew::start(part, prepared, &events_in, &early_end_ns)?;
    drop(events_in);
    let is_whole = await_connections(&events, part.workers, || {
        if stop.load(Ordering::Acquire) {
            // Any time other than 0 stops the workers from opening more connections. Its value does not matter, because
            // the load has not started.
            early_end_ns.store(1, Ordering::Release);
        }
        crew.has_lost_one()
    });
    if !is_whole {
        return Err(crew.failure());
    }
    early_end_ns.store(0, Ordering::Release);
    let coordinator =
        Coordinator { part, requests: &prepared.requests, start, progress, stop, events, early_end_ns };
    match coordinator.start(&mut crew) {
        Ok((timeline, warm_up)) => {
            let outcome = coordinator.collect(timeline, warm_up);
            crew.join()?;
            outcome
        }
        Err(error) => {
            crew.dismiss()?;
            Err(error)
        }
    }
}

/// Checks that a planned start is in the future, but not too far.
fn check_start(start_ns: Option<u64>, now_ns: u64) -> Result<(), EngineError> {
    let Some(start_ns) = start_ns else { return Ok(()) };
    if start_ns < now_ns {
        return Err(EngineError::Late { late_ns: now_ns - start_ns });
    }
    check_start_ahead(start_ns, now_ns)
}

struct Coordinator<'a> {
    part: Part<'a>,
    requests: &'a RequestSource,
    start: &'a Start<'a>,
    progress: &'a dyn Progress,
    stop: &'a AtomicBool,
    events: Receiver<(u32, Event)>,
    early_end_ns: Arc<AtomicU64>,
}

/// CPU time of this process at the start and at the end of the sustained phase.
#[derive(Default)]
struct PhaseCpu {
    start: Option<CpuTime>,
    end: Option<CpuTime>,
}

impl Coordinator<'_> {
    /// Passes each worker its flow. All workers then start at the same time.
    fn start(&self, crew: &mut Crew) -> Result<(Timeline, Option<Arc<WarmUp>>), EngineError> {
        let Part { spec, shard, workers } = self.part;
        let mut duration_ns = spec.duration_ns;
        let mut end_index = u64::MAX;
        let schedule = match spec.model {
            ModelSpec::Closed { .. } => None,
            ModelSpec::Open { rate_per_s, spacing, .. } => {
                let profile = Profile::of(spec).unwrap_or_else(|| rate_per_s.into());
                let schedule = Schedule::new(spec.seed, profile, spacing).of_shard(shard);
                if let Some(count) = self.part.request_count() {
                    let (index, end_ns) = schedule.end_of(spec.warmup_ns, count);
                    end_index = index;
                    // The last arrival of the phase may be due in the same nanosecond as the next arrival. One more
                    // nanosecond keeps the last arrival in the phase.
                    duration_ns = Some(end_ns - spec.warmup_ns + 1);
                }
                Some(schedule)
            }
        };
        let start_ns = self.start_ns()?;
        let timeline = Timeline::new(start_ns, spec.warmup_ns, duration_ns, spec.timeout_ns);
        let warm_up = WarmUp::new(start_ns, spec.warmup_ns, spec.longest_warmup_ns(), workers);
        for (worker, start) in (0..).zip(crew.starts.drain(..)) {
            let source = match &schedule {
                Some(schedule) => {
                    let arrivals = schedule.arrivals(u64::from(worker), u64::from(workers));
                    Source::open(arrivals, u64::from(workers), end_index)
                }
                None => {
                    let left = self.part.request_count().map(|count| share(count, worker, workers));
                    Source::closed(u64::from(worker), u64::from(workers), left)
                }
            };
            let slots = self.part.connections_of(worker) * self.part.streams() as usize;
            let flow = Flow::new(source.of_shard(shard), timeline, spec.timeout_ns, slots)
                .with_pauses(pauses_of(self.part, worker, slots))
                .with_replay(self.requests.is_recorded())
                .with_routes(Routes::new(self.requests))
                .with_warm_up(warm_up.clone(), worker)
                .with_trace(spec.trace.is_some());
            // If the worker has ended, joining its thread reports why.
            let _ = start.send(flow);
        }
        Ok((timeline, warm_up))
    }

    /// Returns the planned start if all workers can be ready by then. Without a planned start, returns a time at
    /// which all workers are ready.
    fn start_ns(&self) -> Result<u64, EngineError> {
        let (part, workers) = (&self.part, u64::from(self.part.workers));
        // A step can have its own planned start. The gate is called only if there is no planned start.
        let planned_ns = match part.spec.start_at_ns {
            Some(planned_ns) => Some(planned_ns),
            None => self.start.wait(self.stop),
        };
        check_start(planned_ns, mono_ns())?;
        // The clock is read only now, because computing the due times of a long schedule and allocating memory for
        // the counts take time.
        let places = part.connections_of(0) as u64 * u64::from(part.streams()) * workers;
        let ready_ns = mono_ns() + LEAD_NS + workers * LEAD_PER_WORKER_NS + places * LEAD_PER_PLACE_NS;
        match planned_ns {
            Some(start_ns) if start_ns < ready_ns => Err(EngineError::Late { late_ns: ready_ns - start_ns }),
            Some(start_ns) => Ok(start_ns),
            None => Ok(ready_ns),
        }
    }

    /// Collects the workers' messages until all workers have ended, and returns the record.
    fn collect(
        &self,
        mut timeline: Timeline,
        warm_up: Option<Arc<WarmUp>>,
    ) -> Result<LoadRecord, EngineError> {
        let spec = self.part.spec;
        let mut builder = RecordBuilder::new(timeline.start_ns, self.part.workers, spec.counts_only);
        let mut cpu = PhaseCpu::default();
        let mut is_stopping = false;
        let mut growth = warm_up.map(Growth::new);
        let asked = Asked::of(self.part.spec);
        let tell = |closed: &Closed, timeline: &Timeline| self.progress.second(&asked.live(closed, timeline));
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
                    builder.interval(worker, *interval).iter().for_each(|closed| tell(closed, &timeline));
                }
                Ok((worker, Event::Ended(report))) => {
                    builder.report(worker, *report).iter().for_each(|closed| tell(closed, &timeline));
                }
                Ok((_, Event::Connected)) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        builder.close_all().iter().for_each(|closed| tell(closed, &timeline));
        // If a load is stopped during its warm-up, its sustained phase is empty.
        let end_ns = builder.phase_end_ns().unwrap_or_else(mono_ns).max(timeline.sustain_ns);
        let now = process_cpu_time();
        let frame = PhaseFrame {
            start_ns: timeline.sustain_ns,
            end_ns,
            cpu_start: cpu.start.unwrap_or(now),
            cpu_end: cpu.end.unwrap_or(now),
        };
        if let Some(path) = &spec.trace {
            write_sends(path, &builder.sends(), frame.start_ns)?;
        }
        let mut record = builder.build(self.part, frame);
        record.generator.left_out = self.requests.left_out().cloned();
        record.generator.warm_up = growth.map(|growth| weir_results::WarmUp {
            asked_ns: spec.warmup_ns,
            taken_ns: frame.start_ns - timeline.start_ns,
            has_settled: growth.has_settled,
        });
        Ok(record)
    }
}

/// Extends a warm-up while latencies have not settled.
struct Growth {
    warm_up: Arc<WarmUp>,
    has_settled: bool,
    is_over: bool,
}

impl Growth {
    fn new(warm_up: Arc<WarmUp>) -> Self {
        Self { warm_up, has_settled: false, is_over: false }
    }

    /// If the warm-up is about to end and latencies have not settled, postpones the sustained phase. Returns the time
    /// of the next call.
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

/// Appends one line per send to the file: the intended and the actual time, in nanoseconds from the start of the
/// sustained phase.
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
    /// Reads the CPU time of this process when the sustained phase has begun or ended. Returns the time of the next
    /// boundary.
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

/// Maximum number of connections that this machine uses at the same time.
fn most_connections(spec: &LoadSpec) -> usize {
    let steps = spec.steps.iter().filter_map(|step| step.connections);
    let most = steps.chain(spec.connections_from).fold(spec.connections, u32::max);
    spec.shard.unwrap_or_default().share(most.into()) as usize
}

fn pauses_of(part: Part<'_>, worker: u32, slots: usize) -> Pauses {
    let Part { spec, shard, workers } = part;
    let seat = Seat { worker, workers, shard };
    let think = match spec.model {
        ModelSpec::Closed { think } => think.map(|think| Think::new(spec.seed, think)),
        ModelSpec::Open { .. } => None,
    };
    let streams = part.streams();
    let ramp = spec.connections_from.map(|from| Ramp { from, to: spec.connections, seat, streams });
    Pauses::new(think, ramp, seat, slots)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a warm-up of 100 ms that may be extended to 250 ms. `latency_ns` gives the latency at each millisecond.
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
    fn a_warm_up_grows_until_it_settles_or_reaches_its_maximum() {
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
}
