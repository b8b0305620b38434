//! A search for the capacity at an objective (`docs/method.md#capacity`): its trials and its result.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Objective;

/// Marks a measurement as a trial of a search. A trial is not a load point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// Number within the search of its load, from 1.
    pub number: u32,
    /// Result of the trial for the objective at its rate.
    pub says: TrialSays,
    /// The evidence in one sentence: each limit with its value.
    pub why: String,
    /// The result of all trials. Only the last trial has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Found>,
}

/// Result of a trial for the objective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TrialSays {
    /// Every limit was met, with statistical significance.
    Met,
    /// A limit was missed, with statistical significance.
    Missed,
    /// Too few requests for a decision at this rate.
    CannotTell,
    /// Invalid: the rig or host noise falsified it.
    Void,
}

/// Result of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Found {
    /// The objective of the search.
    pub objective: Objective,
    /// The capacity, requests per second: the median estimate. `None` if only one side is known.
    pub capacity_per_s: Option<f64>,
    /// Lower and upper end of its 95 % confidence interval, from the trials of this search.
    pub interval_per_s: Option<[f64; 2]>,
    /// The highest rate that met the objective, if no higher rate could be tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least_per_s: Option<f64>,
    /// The lowest tried rate, if it missed the objective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below_per_s: Option<f64>,
    /// The limit that fails first (`p99`, `mean`, `errors`, ..); `None` without a capacity.
    pub limited_by: Option<String>,
    /// Number of trials, including invalid ones.
    pub trials: u32,
    /// Number of invalid trials.
    pub void: u32,
    /// Why the search stopped.
    pub stopped: Stopped,
}

/// Why a search stopped. The list is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stopped {
    /// The interval is as narrow as requested.
    Precise,
    /// The maximum number of trials is reached.
    MostTrials,
    /// The load generator sustains no higher rate, and the highest one met the objective.
    GeneratorLimited,
    /// The upstream sustains no higher rate, and the highest one met the objective.
    UpstreamLimited,
    /// The lowest rate at which a trial can be decided missed the objective.
    NeverMet,
    /// Too many trials were invalid.
    VoidTrials,
}
