//! Names of latency values, and how to look them up.

use weir_results::TimesNs;

/// Names of the latency values of each row, in their order.
pub const LATENCIES: [&str; 13] =
    ["min", "mean", "p50", "p66", "p75", "p80", "p90", "p95", "p98", "p99", "p999", "p9999", "max"];

/// The latency `name`, nanoseconds; `None` if unknown, for example if a quantile ranks among the unanswered requests.
pub(crate) fn latency_ns(times: &TimesNs, name: &str) -> Option<f64> {
    match name {
        "mean" => times.mean,
        "stddev" => times.stddev,
        "min" => times.min.map(|ns| ns as f64),
        "max" => times.max.map(|ns| ns as f64),
        _ => times.quantiles().into_iter().find(|(known, ..)| *known == name)?.2.map(|ns| ns as f64),
    }
}

/// The quantile `name` as a number, 0 to 1; `None` for the mean.
pub(crate) fn quantile(name: &str) -> Option<f64> {
    match name {
        "min" => Some(0.0),
        "max" => Some(1.0),
        _ => {
            TimesNs::default().quantiles().into_iter().find(|(known, ..)| *known == name).map(|(_, at, _)| at)
        }
    }
}

/// A quantile's display name: `p99.9` for `p999`.
pub(crate) fn title(name: &str) -> &str {
    match name {
        "p999" => "p99.9",
        "p9999" => "p99.99",
        "mean" => "the mean",
        "max" => "the maximum",
        other => other,
    }
}
