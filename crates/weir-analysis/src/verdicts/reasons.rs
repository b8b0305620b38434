//! Names the reasons that make values invalid, and assigns each value to a metric.

use std::collections::{BTreeMap, BTreeSet};

use weir_results::{Bounds, Judgement, Reason, Verdicts};

use crate::figures::figure::Range;
use crate::figures::quantity::counted;

/// A group of values that share one verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Throughput: complete responses per second.
    Throughput,
    /// All latency values.
    Latency,
    /// CPU use, CPU time per request, and memory.
    Cpu,
}

/// Keys of the values other than latencies in `Judgement::bounds`.
pub mod value {
    /// Complete responses per second.
    pub const THROUGHPUT: &str = "throughput";
    /// CPU time of the data plane per request.
    pub const CPU: &str = "cpu";
    /// Cores used by the data plane.
    pub const CORES: &str = "cores";
    /// Peak memory of the data plane.
    pub const MEMORY: &str = "memory";
}

/// Lists reasons with their numbers of repeats: `host-noise in 2 of 3 repeats, throttled in 1 of 3 repeats`. Empty
/// without reasons.
pub(crate) fn in_repeats(reasons: &[(Reason, usize)], repeats: usize) -> String {
    let of = counted(repeats as u64, "repeat");
    let words: Vec<String> =
        reasons.iter().map(|(reason, n)| format!("{} in {n} of {of}", reason_name(*reason))).collect();
    words.join(", ")
}

/// The reason's name in reports and in the JSON: `generator-limited`.
pub fn reason_name(reason: Reason) -> &'static str {
    match reason {
        Reason::GeneratorLimited => "generator-limited",
        Reason::UpstreamLimited => "upstream-limited",
        Reason::HostNoise => "host-noise",
        Reason::Overloaded => "overloaded",
        Reason::Throttled => "throttled",
        Reason::Errors => "errors",
        Reason::NotStationary => "not-stationary",
        Reason::Noisy => "noisy",
        Reason::Implausible => "implausible",
        Reason::LimitNotApplied => "limit-not-applied",
        Reason::ClockUncertain => "clock-uncertain",
    }
}

/// A reason with the number of `repeats` that it excludes: `host-noise 2×`. If it excludes all `measured` repeats, the
/// number is left out.
pub fn reason_times(reason: Reason, repeats: usize, measured: usize) -> String {
    let name = reason_name(reason);
    if repeats == measured { name.to_owned() } else { format!("{name} {repeats}×") }
}

/// Collects for each metric the reasons that make its values invalid.
pub(crate) fn verdicts(bounds: &BTreeMap<String, Bounds>) -> Verdicts {
    let of = |metric: Metric| {
        let values = bounds.iter().filter(|(name, of)| metric_of(name) == metric && !of.is_valid);
        let reasons: BTreeSet<Reason> = values.flat_map(|(_, bounds)| &bounds.reasons).copied().collect();
        reasons.into_iter().collect()
    };
    Verdicts { throughput: of(Metric::Throughput), latency: of(Metric::Latency), cpu: of(Metric::Cpu) }
}

/// The metric to which the value `name` belongs.
pub(crate) fn metric_of(name: &str) -> Metric {
    match name {
        value::THROUGHPUT => Metric::Throughput,
        value::CPU | value::CORES | value::MEMORY => Metric::Cpu,
        _ => Metric::Latency,
    }
}

/// The reasons why `metric` is invalid; empty means *valid*.
pub(crate) fn reasons_for(verdicts: &Verdicts, metric: Metric) -> &[Reason] {
    match metric {
        Metric::Throughput => &verdicts.throughput,
        Metric::Latency => &verdicts.latency,
        Metric::Cpu => &verdicts.cpu,
    }
}

/// The reasons why the value `name` is invalid or bounded, and its bounds. Without reasons, the value is valid. `name` is
/// a key of [`Judgement::bounds`]: a latency like `p99`, or a constant of [`value`].
pub fn reasons_and_range(judgement: &Judgement, name: &str) -> (Vec<Reason>, Range) {
    let Some(bounds) = &judgement.bounds else {
        return (reasons_for(&judgement.verdicts, metric_of(name)).to_vec(), Range::default());
    };
    match bounds.get(name) {
        Some(Bounds { low, high, reasons, is_valid }) => {
            let reasons = if *is_valid { Vec::new() } else { reasons.clone() };
            (reasons, Range { low: *low, high: *high })
        }
        None => (Vec::new(), Range::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_json() {
        for reason in [
            Reason::GeneratorLimited,
            Reason::UpstreamLimited,
            Reason::HostNoise,
            Reason::Overloaded,
            Reason::Throttled,
            Reason::Errors,
            Reason::NotStationary,
            Reason::Noisy,
            Reason::Implausible,
            Reason::LimitNotApplied,
            Reason::ClockUncertain,
        ] {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason_name(reason));
        }
    }
}
