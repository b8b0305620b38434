//! Headlines whose intervals are wider than the scenario allows (`docs/method.md#verdicts`, `noisy`).
//!
//! Noise is a property of all repeats together, not of a cell: each repeat stays valid, but the metric is not a
//! headline.

use crate::figures::figure::Figure;
use crate::figures::quantity::{bytes, percent, rate, time_ns};
use crate::points::Row;
use crate::points::conclusions::with_interval;

/// Quantiles that conclusions use.
const QUOTED: [&str; 2] = ["p50", "p99"];

/// Removes the headline mark from a metric if the farther end of its interval is more than `allowed` away from the
/// mean. `allowed` is a share of the mean. For added latency, which may be near zero, it is a share of the gateway's
/// total latency.
pub(crate) fn mark(row: &mut Row, allowed: f64) {
    let own: Vec<(String, Option<f64>)> =
        row.latency_ns.iter().map(|(name, figure)| (name.clone(), figure.mean)).collect();
    let mut noisy = Vec::new();
    let mut judge = |name: &str, figure: &mut Figure, format: fn(f64) -> String| {
        let reach = figure.mean.and_then(|mean| figure.judge_noise(mean, allowed));
        noisy.extend(reach.map(|reach| words(name, figure, format, reach, "of the mean", allowed)));
    };
    judge("throughput", &mut row.throughput_per_s, rate);
    judge("CPU per request", &mut row.cpu_us_per_request, |us| time_ns(us * 1e3));
    judge("peak memory", &mut row.memory_bytes_peak, bytes);
    if let Some(to_direct) = &mut row.ratio_to_direct {
        judge("share of direct", &mut to_direct.ratio, percent);
    }
    let (quoted, others): (Vec<_>, Vec<_>) =
        row.latency_ns.iter_mut().partition(|(name, _)| QUOTED.contains(&name.as_str()));
    quoted.into_iter().for_each(|(name, figure)| judge(name, figure, time_ns));
    // Noise in quantiles other than `QUOTED` is marked in the tables, but not reported as a problem.
    for (_, figure) in others {
        figure.mean.and_then(|mean| figure.judge_noise(mean, allowed));
    }
    for (name, figure) in &mut row.added_latency_ns {
        let own = own.iter().find(|(known, _)| known == name).and_then(|(_, mean)| *mean);
        let reach = own.and_then(|own| figure.judge_noise(own, allowed));
        let is_quoted = QUOTED.contains(&name.as_str());
        noisy.extend(reach.filter(|_| is_quoted).map(|reach| {
            words(&format!("added {name}"), figure, time_ns, reach, "of the total latency", allowed)
        }));
    }
    row.noisy = noisy;
}

fn words(
    name: &str,
    figure: &Figure,
    format: fn(f64) -> String,
    reach: f64,
    of: &str,
    allowed: f64,
) -> String {
    let (interval, reach) = (with_interval(figure, format), percent(reach));
    format!("{name} {interval} is uncertain by {reach} {of} (allowed: {})", percent(allowed))
}
