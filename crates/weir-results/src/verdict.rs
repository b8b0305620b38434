//! What bounds a measurement, and whether its values are valid (`docs/method.md#trust`).

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What kept a measurement from carrying more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BoundBy {
    /// The gateway used at least 95 % of its CPU limit.
    Gateway,
    /// The upstream used at least 95 % of its share.
    Upstream,
    /// The load generator was the limit.
    Generator,
    /// The host was: others took its CPU.
    Host,
    /// Nothing else was the limit of a closed loop, or of an open one that was not carried: more connections would
    /// carry more.
    Concurrency,
    /// Open loop, and nothing else was the limit: the asked rate was carried.
    Rate,
}

/// A reason why a figure is not valid. The list is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The generator was the limit.
    GeneratorLimited,
    /// The upstream was the limit.
    UpstreamLimited,
    /// Processes outside the rig, or other virtual machines, took CPU time: `host-disturbed` before 0.2.
    #[serde(alias = "host-disturbed")]
    HostNoise,
    /// Bound by the gateway or by connections that were all busy, and under 99 % of the scheduled completed.
    Overloaded,
    /// More than 1 % of the quota periods throttled.
    Throttled,
    /// The error share is above the objective's, else above 0.1 %; or over 1 % of the connections were missing on
    /// average, since attempts to open them failed.
    Errors,
    /// Throughput or p50 of the first and the last third of the phase differ by more than 10 % and more than chance gives.
    NotStationary,
    /// The interval over repeats is wider than the scenario allows; never a reason of a single cell.
    Noisy,
    /// Figures contradict each other or physics.
    Implausible,
    /// A limit that the scenario asks for could not be applied on this host.
    LimitNotApplied,
    /// Several machines generated the load, and started too far apart, or it is not known how far.
    ClockUncertain,
}

/// Reasons per metric: those of all its values together. An empty list means that every value is *valid*.
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

    /// The reasons of all metrics, each once, in their order.
    pub fn reasons(&self) -> BTreeSet<Reason> {
        [&self.throughput, &self.latency, &self.cpu].into_iter().flatten().copied().collect()
    }
}

/// A value that a disturbance can have moved: what is known of the value without it (`docs/method.md#bounds`).
///
/// It is *valid* if both sides lie within its tolerance. Otherwise it is *bounded* with one side or both, and *invalid*
/// without any.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bounds {
    /// Lower bound, in the unit of the value; `None` if nothing is known of this side.
    pub low: Option<f64>,
    /// Upper bound.
    pub high: Option<f64>,
    /// What can have moved it; at least one reason.
    pub reasons: Vec<Reason>,
    /// Whether both sides lie within the tolerance, so that the value is valid.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_valid: bool,
}

/// What bounds a measurement, and which of its values are valid, with the evidence in words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judgement {
    /// What bounds it.
    pub bound_by: BoundBy,
    /// Reasons per metric.
    pub verdicts: Verdicts,
    /// The values that a disturbance can have moved, by name: `throughput`, `cpu` (CPU time per request, microseconds), `cores`,
    /// `memory`, `mean` and the quantiles of the latency (`p99`, nanoseconds). `None` in judgements before 0.2: there, a
    /// reason excludes every value of its metric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<BTreeMap<String, Bounds>>,
    /// Share of the requests that a disturbance can have delayed; `None` if none, and in judgements before 0.2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delayed_share: Option<f64>,
    /// One sentence with figures per reason given and for `bound_by`, in that order, computed from the data; before the last one,
    /// of a gateway that runs elsewhere, where its CPU time comes from.
    pub evidence: Vec<String>,
}
