//! One load of one cell over time.

use serde::Serialize;
use weir_results::{Cell, Measurement, Role, quantile_ns};

/// Throughput, latency and the data plane's resources, second by second; missing samples are `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Timeline {
    /// Start of the sustained phase, seconds from the start of the warm-up.
    pub sustained_from_s: Option<f64>,
    /// Start of each second of the load.
    pub t_s: Vec<f64>,
    /// Whole responses per second.
    pub rate_per_s: Vec<Option<f64>>,
    /// p99 of the responses of the second, nanoseconds.
    pub p99_ns: Vec<Option<u64>>,
    /// Start of each second of samples.
    pub sampled_t_s: Vec<f64>,
    /// Cores used by the data plane.
    pub data_cores: Vec<Option<f64>>,
    /// Working set of the data plane, bytes.
    pub data_memory_bytes: Vec<Option<u64>>,
}

/// Draws up the timeline of a measurement of `cell`.
pub fn timeline(cell: &Cell, measurement: &Measurement) -> Timeline {
    // What came after the phase is the drain, in which nothing is sent.
    let seconds = &measurement.record.seconds;
    let end = seconds.iter().rposition(|second| second.sustained).map_or(seconds.len(), |last| last + 1);
    let seconds = &seconds[..end];
    let ended_s = seconds.last().map_or(f64::INFINITY, |second| second.t_s + second.length_s);
    let samples = || measurement.series.iter().filter(|sample| sample.t_s < ended_s);
    let p99 = |histogram: &weir_results::Histogram| {
        histogram.decode().ok().and_then(|histogram| quantile_ns(&histogram, 0, 0.99))
    };
    let data: Vec<&str> =
        cell.parts.iter().filter(|part| part.role == Role::Data).map(|part| part.name.as_str()).collect();
    let cores = |second: &weir_results::UsageSecond| {
        let used: Vec<f64> = data.iter().filter_map(|name| second.cpu_cores.get(*name).copied()).collect();
        (!used.is_empty()).then(|| used.iter().sum())
    };
    let memory = |second: &weir_results::UsageSecond| {
        let used: Vec<u64> = data.iter().filter_map(|name| second.memory_bytes.get(*name).copied()).collect();
        (!used.is_empty()).then(|| used.iter().fold(0, |sum: u64, next| sum.saturating_add(*next)))
    };
    Timeline {
        sustained_from_s: seconds.iter().find(|second| second.sustained).map(|second| second.t_s),
        t_s: seconds.iter().map(|second| second.t_s).collect(),
        rate_per_s: seconds
            .iter()
            .map(|second| (second.length_s > 0.0).then(|| second.completed as f64 / second.length_s))
            .collect(),
        p99_ns: seconds.iter().map(|second| p99(&second.latency)).collect(),
        sampled_t_s: samples().map(|sample| sample.t_s).collect(),
        data_cores: samples().map(cores).collect(),
        data_memory_bytes: samples().map(memory).collect(),
    }
}
