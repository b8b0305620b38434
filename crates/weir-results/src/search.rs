//! A search for the capacity at an objective (`docs/method.md#capacity`): its trials and its result.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Objective;

/// A trial of a search: one measurement at one rate. A trial is not a load point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// Number of the trial within the search, from 1.
    pub number: u32,
    /// Whether the trial met the objective at its rate.
    pub says: TrialSays,
    /// The evidence in one sentence: each limit with the measured value.
    pub why: String,
    /// The result of the whole search. Only the last trial has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Found>,
}

/// Whether a trial met the objective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TrialSays {
    /// Every limit was met, with statistical confidence.
    Met,
    /// At least one limit was missed, with statistical confidence.
    Missed,
    /// The trial has too few requests to decide at this rate.
    CannotTell,
    /// The trial is invalid: the rig or host noise distorted it.
    #[serde(rename = "void")]
    Invalid,
}

/// Result of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Found {
    /// The objective of the search.
    pub objective: Objective,
    /// The capacity in requests per second: the median estimate. `None` if only a lower or an upper bound is known.
    pub capacity_per_s: Option<f64>,
    /// Lower and upper bound of the capacity's 95 % confidence interval, from the trials of this search.
    pub interval_per_s: Option<[f64; 2]>,
    /// The highest rate that met the objective, if no higher rate could be tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least_per_s: Option<f64>,
    /// The lowest tried rate, if it missed the objective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below_per_s: Option<f64>,
    /// The limit that fails first above the capacity (`p99`, `mean`, `errors`, ..); `None` without a capacity.
    pub limited_by: Option<String>,
    /// Number of trials, including invalid ones.
    pub trials: u32,
    /// Number of invalid trials.
    #[serde(rename = "void")]
    pub invalid: u32,
    /// Why the search stopped.
    pub stopped: Stopped,
}

/// Why a search stopped. There are no other reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stopped {
    /// The confidence interval is as narrow as requested.
    Precise,
    /// The maximum number of trials is reached.
    MostTrials,
    /// The load generator sustains no higher rate, and its highest rate met the objective.
    GeneratorLimited,
    /// The objective was still met at the highest rate that the upstream sustains.
    UpstreamLimited,
    /// The objective was missed at the lowest rate at which weir can decide a trial.
    NeverMet,
    /// Too many trials were invalid.
    #[serde(rename = "void-trials")]
    InvalidTrials,
}
