//! Capacity searches: a load that finds the highest rate within an objective.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_analysis::capacity::Asked;
use weir_document::{AskedRate, Levels, Rate, Share, Time};

use super::{Load, ObjectiveSpec};

/// Default length of a trial.
pub(crate) const TRIAL: Duration = Duration::from_secs(2);
/// Default rate of the first trial.
const FIRST_PER_S: f64 = 100.0;
/// Minimum number of requests of a trial. This number divided by the trial's length is the lowest rate of a search.
const REQUESTS_MIN: f64 = 20.0;
/// Default of `width`: a search ends when its confidence interval is at most this wide, as share of the capacity.
const WIDTH: f64 = 0.1;
/// Default maximum number of trials.
const TRIALS_MAX: u32 = 60;
/// Warm-up of a trial, as a share of the trial's length. The first trial uses the warm-up of the scenario instead.
const WARMUP_SHARE: f64 = 0.25;

/// Searches for the highest rate that meets these limits, by short trials. If no limits are set here, the limits of the
/// load's objective apply, or else the limits of the scenario's objective. Latency is measured from the intended send
/// time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs)]
pub struct Search {
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
    /// Maximum share of errors, like `0.1%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<Share>,
    /// The search ends when the 95 % confidence interval is at most this wide, as share of the capacity: `1%` to
    /// `100%`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`10%`"))]
    pub width: Option<Share>,
    /// Maximum number of trials, invalid ones included: 10 to 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`60`"))]
    pub trials: Option<u32>,
}

impl Search {
    /// Returns the limits in the fields of this search. If there are none, returns the limits of `otherwise`, an
    /// objective that all gateways share at the load, so that their capacities are comparable.
    pub(crate) fn objective(&self, otherwise: ObjectiveSpec) -> ObjectiveSpec {
        let own = ObjectiveSpec {
            mean: self.mean,
            p50: self.p50,
            p66: self.p66,
            p75: self.p75,
            p80: self.p80,
            p90: self.p90,
            p95: self.p95,
            p98: self.p98,
            p99: self.p99,
            p999: self.p999,
            p9999: self.p9999,
            max: None,
            errors: self.errors,
            findings: BTreeMap::new(),
        };
        let otherwise = ObjectiveSpec { findings: BTreeMap::new(), ..otherwise };
        if own == ObjectiveSpec::default() { otherwise } else { own }
    }

    /// Maximum number of trials of this search.
    pub(crate) fn trials_max(&self) -> u32 {
        self.trials.unwrap_or(TRIALS_MAX)
    }

    /// The parameters of this search for the load `load`. For `otherwise`, see [`Search::objective`].
    pub(crate) fn asked(&self, load: &Load, otherwise: ObjectiveSpec) -> Asked {
        let least_per_s = REQUESTS_MIN / load.trial_length().as_secs_f64();
        Asked {
            objective: self.objective(otherwise).objective(),
            first_per_s: load.first_per_s().max(least_per_s),
            least_per_s,
            width: self.width.map_or(WIDTH, |width| width.0),
            trials_max: self.trials_max(),
        }
    }
}

impl Load {
    /// Length of a trial's sustained phase.
    pub(crate) fn trial_length(&self) -> Duration {
        self.duration.map_or(TRIAL, |duration| duration.0)
    }

    /// Warm-up of every trial but the first.
    pub(crate) fn trial_warmup(&self) -> Duration {
        self.trial_length().mul_f64(WARMUP_SHARE)
    }

    /// The rate of the first trial.
    pub(crate) fn first_per_s(&self) -> f64 {
        match &self.rate {
            Some(Levels::Constant(rate)) => rate.per_s().unwrap_or(FIRST_PER_S),
            _ => FIRST_PER_S,
        }
    }

    /// The load of one trial at the rate `rate_per_s`.
    pub(crate) fn trial(&self, rate_per_s: f64) -> Self {
        Self {
            rate: Some(Levels::Constant(AskedRate::Rate(Rate(rate_per_s)))),
            of: None,
            duration: Some(Time(self.trial_length())),
            search: None,
            ..self.clone()
        }
    }
}
