//! The bottleneck of a measurement, and the validity of its values (`docs/method.md#trust`).

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The bottleneck: what limited a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BoundBy {
    /// The gateway used at least 95 % of its CPU limit.
    Gateway,
    /// The upstream used at least 95 % of its CPU limit.
    Upstream,
    /// The load generator was the limit.
    Generator,
    /// The host was the limit: other processes or virtual machines took its CPU time.
    Host,
    /// No other limit applies, and the load is a closed loop, or an open loop that did not reach its rate. More
    /// connections would increase the throughput.
    Concurrency,
    /// No other limit applies, and the load is an open loop that reached its rate.
    Rate,
}

/// A reason why a value is not valid. The list is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The load generator was the limit.
    GeneratorLimited,
    /// The upstream was the limit.
    UpstreamLimited,
    /// Processes outside the rig, or other virtual machines, took CPU time. Versions before 0.2 call this reason
    /// `host-disturbed`.
    #[serde(alias = "host-disturbed")]
    HostNoise,
    /// Fewer than 99 % of the scheduled requests completed: the gateway was the limit, or all connections were busy.
    Overloaded,
    /// The CPU quota throttled a part in more than 1 % of the quota periods.
    Throttled,
    /// One of two causes. Errors: the error share is above the objective's limit, or above 0.1 % if no objective limits
    /// errors. Connections: on average, over 1 % of them were missing, because attempts to open them failed.
    Errors,
    /// Throughput or p50 differs between the first and last third of the sustained phase by more than 10 %, and by more
    /// than chance explains.
    NotStationary,
    /// The confidence interval from the repeats is wider than the scenario allows. A single cell never has this reason.
    Noisy,
    /// Values contradict each other, or are physically impossible.
    Implausible,
    /// The host could not apply a resource limit of the scenario.
    LimitNotApplied,
    /// Several machines generated the load, and the time between their starts is too long or unknown.
    ClockUncertain,
}

/// For each metric, the reasons why its values are not *valid*; an empty list if there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdicts {
    /// Reasons why throughput is not *valid*.
    pub throughput: Vec<Reason>,
    /// Reasons why the mean and the quantiles of the latency are not *valid*.
    pub latency: Vec<Reason>,
    /// Reasons why CPU use, CPU time per request and memory are not *valid*.
    pub cpu: Vec<Reason>,
}

impl Verdicts {
    /// Whether every metric is valid.
    pub fn all_valid(&self) -> bool {
        self.throughput.is_empty() && self.latency.is_empty() && self.cpu.is_empty()
    }

    /// All reasons of all metrics, each once, sorted.
    pub fn reasons(&self) -> BTreeSet<Reason> {
        [&self.throughput, &self.latency, &self.cpu].into_iter().flatten().copied().collect()
    }
}

/// Bounds of a value that interference may have changed: the range in which the value would be without the interference
/// (`docs/method.md#bounds`).
///
/// The value is *valid* if both bounds are within its tolerance. Otherwise it is *bounded* if at least one bound is
/// known, and *invalid* if none is known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bounds {
    /// Lower bound, in the unit of the value; `None` if unknown.
    pub low: Option<f64>,
    /// Upper bound, in the unit of the value; `None` if unknown.
    pub high: Option<f64>,
    /// Why the value may have changed; at least one reason.
    pub reasons: Vec<Reason>,
    /// Whether both bounds are within the tolerance, so that the value is valid.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_valid: bool,
}

/// Bottleneck and validity of a measurement, with the evidence in sentences.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judgement {
    /// The bottleneck: what limited the measurement.
    pub bound_by: BoundBy,
    /// For each metric, the reasons why its values are not *valid*; an empty list if there are none.
    pub verdicts: Verdicts,
    /// Bounds of the values that interference may have changed. The key is the name of the value: `throughput`, `cpu`
    /// (CPU time per request, microseconds), `cores`, `memory`, `mean` or a latency quantile (`p99`, nanoseconds).
    /// `None` in results of versions before 0.2: there, a reason excludes every value of the metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<BTreeMap<String, Bounds>>,
    /// Share of the requests that interference may have delayed; `None` if it delayed none, and in results of versions
    /// before 0.2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delayed_share: Option<f64>,
    /// Sentences in this order: one for each reason, with the measured values; then notes, such as the source of the
    /// CPU time of a gateway that weir does not run; last, one that explains `bound_by`.
    pub evidence: Vec<String>,
}
