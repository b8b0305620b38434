//! Loads with steps. Each step is driven like a load, and the results of all steps are merged.

use std::sync::atomic::{AtomicBool, Ordering};

use weir_document::{Problem, Rate};
use weir_results::{
    Distributions, Histogram, LoadRecord, LoadResult, LoadSecond, StepRecord, TimesNs, TlsResult, add_counts,
    add_routes,
};

use super::gate::Start;
use super::progress::{LiveSecond, Progress};
use crate::EngineError;
use crate::spec::{LoadSpec, ModelSpec, Part, StepSpec};

/// Separates the seeds of steps from each other and from the load's own seed.
const STEP: u64 = 0x6c62_272e_07bb_0142;
/// Time for opening the connections of the next step, in a load with planned starts. It begins after the wait for the
/// last responses of the previous step.
const OPENING_NS: u64 = 1_000_000_000;

/// Drives the steps one after the other, until the last one ends or `stop` is set.
pub(crate) fn drive_all(
    spec: &LoadSpec,
    steps: &[StepSpec],
    start: &Start<'_>,
    progress: &dyn Progress,
    stop: &AtomicBool,
    drive: impl Fn(&LoadSpec, &dyn Progress) -> Result<LoadRecord, EngineError>,
) -> Result<LoadRecord, EngineError> {
    let mut sum: Option<LoadRecord> = None;
    for (nth, step) in (0..).zip(steps) {
        // If a gate decides when the load starts, it does so during the first step. The later steps use this start
        // time.
        let planned = LoadSpec { start_at_ns: start.planned_ns(), ..spec.clone() };
        let step_spec = spec_of(&planned, step, nth);
        let begun_s = match (step_spec.start_at_ns, planned.start_at_ns) {
            (Some(step_ns), Some(load_ns)) => (step_ns - load_ns) as f64 / 1e9,
            _ => sum.as_ref().map_or(0.0, end_s),
        };
        let record = drive(&step_spec, &Later { progress, by_s: begun_s })?;
        let step = step_record(&step_spec, &record);
        let mut whole = match sum.take() {
            None => record,
            Some(sum) => added(sum, record, begun_s),
        };
        whole.steps.push(step);
        sum = Some(whole);
        if stop.load(Ordering::Acquire) {
            break;
        }
    }
    sum.ok_or_else(|| {
        EngineError::Invalid(Problem::new("the load has no steps", "add at least one").at("steps"))
    })
}

/// The record of one step on this machine.
fn step_record(spec: &LoadSpec, record: &LoadRecord) -> StepRecord {
    let part = Part::of(spec);
    // `result` contains only summaries of times, and summaries of several machines cannot be merged. So the record
    // also contains the distributions.
    let distributions = record.distributions.as_ref().map(|kept| Distributions {
        service_time: Some(record.service_time.clone()),
        lateness: record.lateness.clone(),
        ..kept.clone()
    });
    StepRecord {
        connections: part.connections(),
        rate_per_s: part.rate_per_s(),
        result: record.result.clone(),
        latency: record.latency.clone(),
        phase_start_mono_ns: record.phase_start_mono_ns,
        phase_end_mono_ns: record.phase_end_mono_ns,
        distributions,
    }
}

/// Returns the planned start of a step. It is the same on all machines, and does not depend on how long each of
/// them waits for its last responses.
fn start_at_ns(spec: &LoadSpec, nth: u64) -> Option<u64> {
    let load_ns = spec.start_at_ns?;
    let Some(duration_ns) = spec.duration_ns.filter(|_| nth > 0) else { return Some(load_ns) };
    // The only warm-up is before the first step. Before each later step there is time for the last responses of the
    // step before, and for opening connections.
    let pauses_ns = nth * (spec.timeout_ns + OPENING_NS);
    Some(load_ns + spec.warmup_ns + nth * duration_ns + pauses_ns)
}

/// Returns the specification of one step as a load without steps.
fn spec_of(spec: &LoadSpec, step: &StepSpec, nth: u64) -> LoadSpec {
    let mut model = spec.model;
    if let (ModelSpec::Open { rate_per_s, .. }, Some(Rate(asked_per_s))) = (&mut model, step.rate) {
        *rate_per_s = asked_per_s;
    }
    let connections = step.connections.unwrap_or(spec.connections);
    LoadSpec {
        model,
        connections,
        workers: spec.workers.min(connections),
        // After the first step, connections are established and caches are warm.
        warmup_ns: if nth == 0 { spec.warmup_ns } else { 0 },
        warmup_most_ns: 0,
        seed: crate::pacing::schedule::hash(spec.seed ^ STEP, nth),
        start_at_ns: start_at_ns(spec, nth),
        steps: Vec::new(),
        ..spec.clone()
    }
}

/// Passes the seconds of a step to `progress`. Adds `by_s` to `t_s`, which then counts from the start of the whole
/// load.
struct Later<'a> {
    progress: &'a dyn Progress,
    by_s: f64,
}

impl Progress for Later<'_> {
    fn second(&self, live: &LiveSecond) {
        let mut live = live.clone();
        live.second.t_s += self.by_s;
        self.progress.second(&live);
    }
}

fn end_s(record: &LoadRecord) -> f64 {
    record.seconds.iter().map(|second| second.t_s + second.length_s).fold(0.0, f64::max)
}

/// Adds the record of a step to the sum of the previous steps. The step began `begun_s` after the start of the load.
fn added(mut sum: LoadRecord, step: LoadRecord, begun_s: f64) -> LoadRecord {
    let before_s = sum.result.duration_s;
    let total_s = before_s + step.result.duration_s;
    let per_s = |before: f64, now: f64| {
        if total_s > 0.0 { (before * before_s + now * step.result.duration_s) / total_s } else { 0.0 }
    };
    sum.latency = both(&sum.latency, &step.latency);
    sum.service_time = both(&sum.service_time, &step.service_time);
    sum.lateness = sum.lateness.zip(step.lateness.as_ref()).map(|(before, now)| both(&before, now));
    let mean =
        |before: Option<f64>, now: Option<f64>| before.zip(now).map(|(before, now)| per_s(before, now));
    let (before, now) = (&sum.generator, &step.generator);
    let in_flight_mean = mean(before.in_flight_mean, now.in_flight_mean);
    let connections_missing_mean = mean(before.connections_missing_mean, now.connections_missing_mean);
    sum.generator.in_flight_mean = in_flight_mean;
    sum.generator.connections_missing_mean = connections_missing_mean;
    let rate_per_s = per_s(sum.result.rate_per_s, step.result.rate_per_s);
    sum.whole.add(&step.whole);
    sum.whole_uncertain += step.whole_uncertain;
    sum.phase_end_mono_ns = step.phase_end_mono_ns;
    add_evidence(&mut sum, &step);
    add_result(&mut sum.result, &step.result);
    sum.result.rate_per_s = rate_per_s;
    let unanswered = sum.result.requests.unanswered();
    let unsent = sum.result.requests.scheduled - sum.result.requests.sent;
    sum.result.latency_ns = times(&sum.latency, unanswered);
    sum.result.service_time_ns = times(&sum.service_time, unanswered);
    sum.result.lateness_ns = sum.lateness.as_ref().map(|lateness| times(lateness, unsent));
    sum.seconds
        .extend(step.seconds.into_iter().map(|second| LoadSecond { t_s: second.t_s + begun_s, ..second }));
    add_routes(&mut sum.routes, &step.routes).expect("our own encoding");
    // The distributions and the wait for a connection are kept only per step.
    sum.distributions = None;
    sum
}

fn add_evidence(sum: &mut LoadRecord, step: &LoadRecord) {
    let (sum, step) = (&mut sum.generator, &step.generator);
    sum.connections = sum.connections.max(step.connections);
    sum.workers = sum.workers.max(step.workers);
    sum.wall_s += step.wall_s;
    add_columns(&mut sum.worker_cpu_s, &step.worker_cpu_s);
    add_columns(&mut sum.worker_runqueue_s, &step.worker_runqueue_s);
    sum.unsent_with_free_connection += step.unsent_with_free_connection;
    sum.connections_opened += step.connections_opened;
    // Quantiles cannot be added, and the distribution of the wait for a connection is not kept.
    sum.connection_wait_ns = None;
}

fn add_columns(sum: &mut Vec<f64>, step: &[f64]) {
    sum.resize(sum.len().max(step.len()), 0.0);
    sum.iter_mut().zip(step).for_each(|(sum, step)| *sum += step);
}

fn add_result(sum: &mut LoadResult, step: &LoadResult) {
    sum.duration_s += step.duration_s;
    sum.requests.add(&step.requests);
    sum.errors.add(&step.errors);
    sum.bytes.sent += step.bytes.sent;
    sum.bytes.received += step.bytes.received;
    add_counts(&mut sum.status, &step.status);
    add_counts(&mut sum.said, &step.said);
    sum.cpu_s.user += step.cpu_s.user;
    sum.cpu_s.system += step.cpu_s.system;
    if let (Some(sum), Some(step)) = (&mut sum.tls, &step.tls) {
        add_tls(sum, step);
    }
    if let (Some(sum), Some(step)) = (&mut sum.http2, &step.http2) {
        sum.add(step);
    }
}

fn add_tls(sum: &mut TlsResult, step: &TlsResult) {
    sum.handshakes += step.handshakes;
    sum.resumed += step.resumed;
    sum.failed += step.failed;
    add_counts(&mut sum.negotiated, &step.negotiated);
    // The quantiles of the steps cannot be added, so the sum has none.
    sum.handshake_ns = TimesNs::default();
}

fn both(before: &Histogram, now: &Histogram) -> Histogram {
    let mut sum = before.clone();
    sum.add(now).expect("our own encoding");
    sum
}

fn times(histogram: &Histogram, unanswered: u64) -> TimesNs {
    TimesNs::of(&histogram.decode().expect("our own encoding"), unanswered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planned_starts_of_steps_are_the_same_on_all_machines() {
        const S: u64 = 1_000_000_000;
        let spec = LoadSpec {
            warmup_ns: 2 * S,
            duration_ns: Some(5 * S),
            timeout_ns: 3 * S,
            start_at_ns: Some(100 * S),
            ..LoadSpec::default()
        };
        // The warm-up of 2 s is before the first step. After each step of 5 s, there are 3 s for its last responses and
        // 1 s for opening connections.
        assert_eq!([0, 1, 2].map(|nth| start_at_ns(&spec, nth)), [100 * S, 111 * S, 120 * S].map(Some));
        assert_eq!(start_at_ns(&LoadSpec { start_at_ns: None, ..spec }, 1), None);
    }
}
