//! Objectives: limits that a gateway must meet.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_analysis::findings::{self, Unit};
use weir_document::{Problem, Rate, Share, Size, Time};
use weir_results::Objective;

use super::Scenario;
use crate::check::problem::suggestion;

/// What a gateway must achieve. The scenario, a case, a load and a gateway can have an objective; each overrides the
/// one before, limit by limit. Latency is judged on open loads, or on closed ones if a run has no open load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs)]
pub struct ObjectiveSpec {
    /// Maximum mean latency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<Time>,
    /// Maximum p50 latency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<Time>,
    /// Maximum p66 latency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p66: Option<Time>,
    /// Maximum p75 latency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p75: Option<Time>,
    /// Maximum p80 latency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p80: Option<Time>,
    /// Maximum p90 latency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p90: Option<Time>,
    /// Maximum p95 latency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95: Option<Time>,
    /// Maximum p98 latency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p98: Option<Time>,
    /// Maximum p99 latency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<Time>,
    /// Maximum p99.9 latency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p999: Option<Time>,
    /// Maximum p99.99 latency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p9999: Option<Time>,
    /// Maximum latency of any request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<Time>,
    /// Maximum share of errors, like `0.1%`. It also replaces `thresholds.error_share`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<Share>,
    /// Limits of findings, by metric: the maximum, or the minimum if higher values are better. Example: `{
    /// recovery.time: 5s, slow-clients.memory_per_client: 32KiB, capacity.rate: 5000/s }`. The name of a metric is
    /// `finding` and `value_of` of a row in `findings.csv`, joined with a dot. `weir compare --help` lists the main
    /// names. weir judges each row of the finding by the confidence interval of the value. If a gateway has no value of
    /// the metric, the result is undecided.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub findings: BTreeMap<String, FindingLimit>,
}

/// The limit for one metric of a finding. The metric determines the unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum FindingLimit {
    /// A number without unit, for ratios and counts.
    Number(f64),
    /// A number with its unit: `5s`, `32KiB`, `0.1%`, `5000/s`.
    Text(String),
}

impl FindingLimit {
    /// The limit in the unit of `metric`.
    pub(crate) fn of(&self, metric: &str) -> Result<f64, Problem<()>> {
        let Some(column) = findings::column_named(metric) else { return Err(unknown(metric)) };
        let text = match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        };
        let time_s = || text.parse::<Time>().map(|time| time.0.as_secs_f64());
        let read = match column.unit {
            Unit::Nanoseconds => time_s().map(|s| s * 1e9),
            Unit::Microseconds => time_s().map(|s| s * 1e6),
            Unit::Seconds => time_s(),
            Unit::Bytes => text.parse::<Size>().map(|size| size.0 as f64),
            Unit::Share => text.parse::<Share>().map(|share| share.0),
            Unit::PerSecond => text.parse::<Rate>().map(|rate| rate.0),
            _ => {
                let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
                let remedy = "write a number without unit, like 1.5";
                return number.ok_or_else(|| Problem::new(format!("`{text}` is not a number"), remedy));
            }
        };
        read.map_err(Problem::from)
    }
}

fn unknown(metric: &str) -> Problem<()> {
    let known: Vec<String> = findings::metrics().map(|(metric, _)| metric).collect();
    let remedy = suggestion(metric, known.iter().map(String::as_str), "metrics");
    Problem::new(format!("unknown metric `{metric}`"), remedy)
}

impl ObjectiveSpec {
    /// The latency limits, by name.
    pub fn latencies(&self) -> Vec<(&'static str, Time)> {
        let all = [
            ("mean", self.mean),
            ("p50", self.p50),
            ("p66", self.p66),
            ("p75", self.p75),
            ("p80", self.p80),
            ("p90", self.p90),
            ("p95", self.p95),
            ("p98", self.p98),
            ("p99", self.p99),
            ("p999", self.p999),
            ("p9999", self.p9999),
            ("max", self.max),
        ];
        all.into_iter().filter_map(|(name, time)| Some((name, time?))).collect()
    }

    /// Converts the objective to the form that results contain.
    pub fn objective(&self) -> Objective {
        let latency_ns: BTreeMap<String, u64> =
            self.latencies().into_iter().map(|(name, time)| (name.to_owned(), time.as_ns())).collect();
        let limit =
            |(metric, limit): (&String, &FindingLimit)| Some((metric.clone(), limit.of(metric).ok()?));
        Objective {
            latency_ns,
            errors: self.errors.map(|share| share.0),
            findings: self.findings.iter().filter_map(limit).collect(),
            own: Vec::new(),
        }
    }

    /// Merges two objectives: limits of `self` override those of `other`.
    pub(crate) fn over(self, other: Self) -> Self {
        let mut findings = other.findings;
        findings.extend(self.findings);
        Self {
            mean: self.mean.or(other.mean),
            p50: self.p50.or(other.p50),
            p66: self.p66.or(other.p66),
            p75: self.p75.or(other.p75),
            p80: self.p80.or(other.p80),
            p90: self.p90.or(other.p90),
            p95: self.p95.or(other.p95),
            p98: self.p98.or(other.p98),
            p99: self.p99.or(other.p99),
            p999: self.p999.or(other.p999),
            p9999: self.p9999.or(other.p9999),
            max: self.max.or(other.max),
            errors: self.errors.or(other.errors),
            findings,
        }
    }
}

impl Scenario {
    /// The objective of `gateway` at `load`. For the direct baseline, it is the objective that applies to any gateway.
    pub fn objective_of(&self, gateway: &str, load: &str) -> ObjectiveSpec {
        self.gateway(gateway)
            .and_then(|gateway| gateway.objective.clone())
            .unwrap_or_default()
            .over(self.objective_at(load))
    }

    /// The objective at `load` that all gateways share, before the limits of each gateway override it.
    pub(crate) fn objective_at(&self, load: &str) -> ObjectiveSpec {
        let of_load = self.loads.named(load).and_then(|load| load.objective.clone()).unwrap_or_default();
        of_load.over(self.objective.clone().unwrap_or_default())
    }

    /// The scenario without objectives, which do not change the measurement.
    pub(crate) fn without_objectives(&self) -> Self {
        let mut bare = self.clone();
        bare.objective = None;
        bare.gateways.iter_mut().for_each(|gateway| gateway.objective = None);
        bare.loads.0.iter_mut().for_each(|(_, load)| load.objective = None);
        bare
    }
}
