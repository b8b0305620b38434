//! The bottleneck of a measurement, and the validity of its values (`docs/method.md#trust`).

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What limited a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BoundBy {
    /// The gateway used at least 95 % of its CPU limit.
    Gateway,
    /// The upstream used at least 95 % of its CPU limit.
    Upstream,
    /// The load generator was the limit.
    Generator,
    /// The host was the limit: others took its CPU.
    Host,
    /// Nothing else limited a closed loop, or an open loop that did not reach its rate. More connections would increase
    /// the throughput.
    Concurrency,
    /// Nothing else limited an open loop: it reached its rate.
    Rate,
}

/// A reason why a value is not valid. The list is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The generator was the limit.
    GeneratorLimited,
    /// The upstream was the limit.
    UpstreamLimited,
    /// Processes outside the rig, or other virtual machines, took CPU time. `host-disturbed` before 0.2.
    #[serde(alias = "host-disturbed")]
    HostNoise,
    /// The gateway, or connections that were all busy, limited the load, and under 99 % of the scheduled requests
    /// completed.
    Overloaded,
    /// More than 1 % of the quota periods were throttled.
    Throttled,
    /// The error share is above the objective's limit, or above 0.1 % without one; or over 1 % of the connections were
    /// missing on average, because attempts to open them failed.
    Errors,
    /// Throughput or p50 of the first and last third of the phase differ by more than 10 %, and by more than chance.
    NotStationary,
    /// The interval over repeats is wider than the scenario allows. Never a reason of a single cell.
    Noisy,
    /// Values contradict each other or physics.
    Implausible,
    /// The host cannot apply a limit of the scenario.
    LimitNotApplied,
    /// Several machines generated the load, and their starts were too far apart, or by an unknown time.
    ClockUncertain,
}

/// Reasons per metric, for all values of the metric. An empty list means that every value is *valid*.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdicts {
    /// For throughput.
    pub throughput: Vec<Reason>,
    /// For the mean and the quantiles of the latency.
    pub latency: Vec<Reason>,
    /// For CPU use, CPU time per request and memory.
    pub cpu: Vec<Reason>,
}

impl Verdicts {
    /// Whether every metric is valid.
    pub fn all_valid(&self) -> bool {
        self.throughput.is_empty() && self.latency.is_empty() && self.cpu.is_empty()
    }

    /// The reasons of all metrics, each once, in order.
    pub fn reasons(&self) -> BTreeSet<Reason> {
        [&self.throughput, &self.latency, &self.cpu].into_iter().flatten().copied().collect()
    }
}

/// Bounds of a value that a disturbance may have moved: the range of the value without it (`docs/method.md#bounds`).
///
/// It is *valid* if both sides lie within its tolerance. Otherwise it is *bounded* if at least one side is known, and
/// *invalid* if none is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bounds {
    /// Lower bound, in the unit of the value; `None` if it is unknown.
    pub low: Option<f64>,
    /// Upper bound; `None` if it is unknown.
    pub high: Option<f64>,
    /// Reasons why it may have moved; at least one.
    pub reasons: Vec<Reason>,
    /// Whether both sides lie within the tolerance, so that the value is valid.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_valid: bool,
}

/// Bottleneck and validity of a measurement, with the evidence in words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judgement {
    /// What limited it.
    pub bound_by: BoundBy,
    /// Reasons per metric.
    pub verdicts: Verdicts,
    /// Bounds of values that a disturbance may have moved, by name: `throughput`, `cpu` (CPU time per request,
    /// microseconds), `cores`, `memory`, `mean` and the latency quantiles (`p99`, nanoseconds). `None` in judgements
    /// before 0.2, where a reason excludes every value of its metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<BTreeMap<String, Bounds>>,
    /// Share of the requests that a disturbance may have delayed; `None` if none, and in judgements before 0.2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delayed_share: Option<f64>,
    /// One sentence with values per reason, then one for `bound_by`, computed from the data. For a gateway that weir
    /// does not run, the sentence before the last names the source of its CPU time.
    pub evidence: Vec<String>,
}
