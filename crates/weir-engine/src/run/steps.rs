//! A load in steps: each step is driven alone, and their results are added up.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_document::{Problem, Rate};
use weir_results::{
    Histogram, LoadRecord, LoadResult, LoadSecond, RouteResult, StepRecord, TimesNs, TlsResult,
};

use super::progress::Progress;
use crate::EngineError;
use crate::recording::books::add_requests;
use crate::recording::recorder::add_histogram;
use crate::spec::{LoadSpec, ModelSpec, StepSpec};

/// Derives independent seeds for steps.
const STEP: u64 = 0x6c62_272e_07bb_0142;

/// Drives the steps one after the other until `stop` is set.
pub(crate) fn drive_all(
    spec: &LoadSpec,
    steps: &[StepSpec],
    progress: &dyn Progress,
    stop: &AtomicBool,
    drive: impl Fn(&LoadSpec, &dyn Progress) -> Result<LoadRecord, EngineError>,
) -> Result<LoadRecord, EngineError> {
    let mut sum: Option<LoadRecord> = None;
    for (nth, step) in (0..).zip(steps) {
        let begun_s = sum.as_ref().map_or(0.0, end_s);
        let step_spec = spec_of(spec, step, nth);
        let record = drive(&step_spec, &Later { progress, by_s: begun_s })?;
        let rate_per_s = match step_spec.model {
            ModelSpec::Open { rate_per_s, .. } => Some(rate_per_s),
            ModelSpec::Closed { .. } => None,
        };
        let step = StepRecord {
            connections: step_spec.connections,
            rate_per_s,
            result: record.result.clone(),
            latency: record.latency.clone(),
            phase_start_mono_ns: record.phase_start_mono_ns,
            phase_end_mono_ns: record.phase_end_mono_ns,
            distributions: None,
        };
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

/// The load of one step.
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
        // Connections and caches are warm after the first step.
        warmup_ns: if nth == 0 { spec.warmup_ns } else { 0 },
        warmup_most_ns: 0,
        seed: crate::pacing::schedule::hash(spec.seed ^ STEP, nth),
        steps: Vec::new(),
        ..spec.clone()
    }
}

/// Reports the seconds of a step as seconds of the whole load.
struct Later<'a> {
    progress: &'a dyn Progress,
    by_s: f64,
}

impl Progress for Later<'_> {
    fn second(&self, second: &LoadSecond) {
        self.progress.second(&LoadSecond { t_s: second.t_s + self.by_s, ..second.clone() });
    }
}

fn end_s(record: &LoadRecord) -> f64 {
    record.seconds.iter().map(|second| second.t_s + second.length_s).fold(0.0, f64::max)
}

/// Adds a step that began `begun_s` after the start to the steps before.
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
    add_requests(&mut sum.whole, &step.whole);
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
    step.routes.into_iter().for_each(|route| add_route(&mut sum.routes, route));
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
    // Quantiles cannot be added, and the distribution is not kept.
    sum.connection_wait_ns = None;
}

fn add_columns(sum: &mut Vec<f64>, step: &[f64]) {
    sum.resize(sum.len().max(step.len()), 0.0);
    sum.iter_mut().zip(step).for_each(|(sum, step)| *sum += step);
}

fn add_result(sum: &mut LoadResult, step: &LoadResult) {
    sum.duration_s += step.duration_s;
    add_requests(&mut sum.requests, &step.requests);
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
        sum.streams_allowed_min = sum.streams_allowed_min.into_iter().chain(step.streams_allowed_min).min();
        sum.goaways += step.goaways;
        sum.sent_again += step.sent_again;
        sum.streams_reset += step.streams_reset;
    }
}

fn add_tls(sum: &mut TlsResult, step: &TlsResult) {
    sum.handshakes += step.handshakes;
    sum.resumed += step.resumed;
    sum.failed += step.failed;
    add_counts(&mut sum.negotiated, &step.negotiated);
    // Quantiles cannot be added; each step has its own.
    sum.handshake_ns = TimesNs::default();
}

fn add_counts(sum: &mut BTreeMap<String, u64>, step: &BTreeMap<String, u64>) {
    for (name, count) in step {
        *sum.entry(name.clone()).or_default() += count;
    }
}

fn add_route(sum: &mut Vec<RouteResult>, route: RouteResult) {
    let Some(known) = sum.iter_mut().find(|known| known.name == route.name) else { return sum.push(route) };
    add_requests(&mut known.requests, &route.requests);
    for (class, step) in route.by_class {
        match known.by_class.get_mut(&class) {
            Some(sum) => {
                sum.latency = both(&sum.latency, &step.latency);
                sum.latency_ns = times(&sum.latency, 0);
            }
            None => {
                known.by_class.insert(class, step);
            }
        }
    }
}

fn both(before: &Histogram, now: &Histogram) -> Histogram {
    let mut sum = decoded(before);
    // Histograms of routes resize with their values.
    sum.auto(true);
    add_histogram(&mut sum, &decoded(now));
    Histogram::encode(&sum)
}

fn times(histogram: &Histogram, unanswered: u64) -> TimesNs {
    TimesNs::of(&decoded(histogram), unanswered)
}

fn decoded(histogram: &Histogram) -> hdrhistogram::Histogram<u64> {
    histogram.decode().expect("our own encoding")
}
