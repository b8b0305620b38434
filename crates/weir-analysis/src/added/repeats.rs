//! Every repeat of an open load as a row: latencies at the client, and request rates of gateway and upstream.

use serde::Serialize;
use weir_results::{Counters, Reason, Run, is_baseline};

use crate::figures::figure::Sample;
use crate::points::axes::Axes;
use crate::points::grouping::Group;
use crate::points::measured::Repeat;
use crate::verdicts::reasons::Metric;

use super::authentication::spoken;

/// Latencies of a row, in the order of the report's columns.
const LATENCIES: [&str; 7] = ["min", "mean", "p50", "p90", "p95", "p99", "max"];

/// The results of one load in one cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RepeatRow {
    /// Name of the gateway, of the direct baseline, or of the second direct cell.
    pub gateway: String,
    /// Values of the axes.
    pub axes: Axes,
    /// Name of the load.
    pub load: String,
    /// Number of the repeat, from 0.
    pub repeat: u32,
    /// Offered rate, requests per second.
    pub asked_per_s: Option<f64>,
    /// Client authentication, in words.
    pub authentication: String,
    /// Latency in nanoseconds by name: min, mean, p50, p90, p95, p99, max.
    pub latency_ns: Vec<(String, Sample)>,
    /// Requests to the gateway per second of the phase; `None` for direct cells, and if the gateway has no counter.
    pub gateway_per_s: Option<f64>,
    /// Requests to the upstream per second during the phase.
    pub upstream_per_s: Option<f64>,
    /// Why the latency is invalid; empty means *valid*.
    pub reasons: Vec<Reason>,
}

/// The rows of a load point: gateways in the scenario's order, then the direct baseline, then its twin (a second direct
/// cell).
pub(super) fn rows(run: &Run, group: &Group<'_>) -> Vec<RepeatRow> {
    let row = |gateway: &str, repeat: &Repeat<'_>| {
        let measurement = repeat.measurement;
        RepeatRow {
            gateway: gateway.to_owned(),
            axes: group.axes.clone(),
            load: group.load.to_owned(),
            repeat: repeat.cell.key.repeat,
            asked_per_s: measurement.rate_per_s,
            authentication: spoken(run, group.axes, gateway, measurement),
            latency_ns: LATENCIES.map(|name| (name.to_owned(), repeat.latency(name))).to_vec(),
            gateway_per_s: counted(repeat, measurement.counters.gateway_requests)
                .filter(|_| !is_baseline(gateway)),
            upstream_per_s: counted(repeat, upstream(&measurement.counters)),
            reasons: repeat.reasons(Metric::Latency).to_vec(),
        }
    };
    let of_gateway = |(gateway, repeats): &(&str, crate::points::measured::Repeats<'_>)| {
        repeats.iter().map(|repeat| row(gateway, repeat)).collect::<Vec<_>>()
    };
    group.rows.iter().flat_map(of_gateway).collect()
}

/// Number of requests that reached the upstream. Requests that the gateway made itself are included only if the
/// upstream counts requests by kind.
fn upstream(counters: &Counters) -> Option<u64> {
    let by_kind = &counters.origin_by_kind;
    if by_kind.is_empty() { counters.origin_requests } else { Some(by_kind.values().sum()) }
}

/// Converts `requests`, a count over the whole load, to requests per second in the phase. The ratio of `requests` to
/// sent requests is multiplied by the rate of completed requests. `None` if `requests` was not counted or no request
/// was sent.
fn counted(repeat: &Repeat<'_>, requests: Option<u64>) -> Option<f64> {
    let counters = &repeat.measurement.counters;
    let each = requests? as f64 / counters.generator_sent as f64;
    Some(each * repeat.measurement.record.result.rate_per_s).filter(|per_s| per_s.is_finite())
}
