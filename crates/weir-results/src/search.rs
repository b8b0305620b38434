//! A search for the capacity at an objective (`docs/method.md#capacity`): its trials, and what they found together.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Objective;

/// What makes a measurement a trial of a search: it stands for no load point of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// Place in the search of its load, from 1.
    pub number: u32,
    /// What it says of the objective at its rate.
    pub says: TrialSays,
    /// The evidence in a sentence: each bound with its figure.
    pub why: String,
    /// What all trials found together; it stands in the last of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Found>,
}

/// What a trial says of the objective, as far as its requests can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TrialSays {
    /// Every bound was met, by more than the chance of its sample.
    Met,
    /// A bound was missed, by more than that.
    Missed,
    /// Too few requests to tell at this rate.
    CannotTell,
    /// Nothing: the rig or its host falsified it.
    Void,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Found {
    /// What was searched for.
    pub objective: Objective,
    /// The capacity, requests per second: as likely above as below. `None` where only a border is known.
    pub capacity_per_s: Option<f64>,
    /// Both ends of its 95 % interval, from the trials of this search alone.
    pub interval_per_s: Option<[f64; 2]>,
    /// The highest rate that met the objective, where nothing higher could be tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least_per_s: Option<f64>,
    /// The lowest rate that was tried, where that missed the objective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below_per_s: Option<f64>,
    /// The bound that gives way first (`p99`, `mean`, `errors`, ..); `None` without a capacity.
    pub limited_by: Option<String>,
    /// Trials, void ones included.
    pub trials: u32,
    /// Void trials.
    pub void: u32,
    /// Why it stopped.
    pub stopped: Stopped,
}

/// Why a search stopped. The list is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stopped {
    /// The interval is as narrow as was asked for.
    Precise,
    /// The most trials that were allowed have been made.
    MostTrials,
    /// The load generator keeps no higher rate, and the objective was met at the highest that it keeps.
    GeneratorLimited,
    /// The upstream carries no higher rate, and the objective was met at the highest that it carries.
    UpstreamLimited,
    /// The objective was missed at the lowest rate that a trial can tell anything about.
    NeverMet,
    /// Too many trials were void.
    VoidTrials,
}
