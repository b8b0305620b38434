//! What was tried at a run's start, where its rates are shares of what the gateways carry.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::BoundBy;

/// What a pilot found, and the rates that follow. Nothing of it is a figure of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pilot {
    /// What each gateway carried in a short closed load, at each point of the axes that may change it.
    pub carried: Vec<Carried>,
    /// The rates that were shares.
    pub rates: Vec<PilotRate>,
}

/// A short closed load through a gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Carried {
    /// The gateway's name in the scenario.
    pub gateway: String,
    /// Values of the axes by their path, those of the first of the points that are alike in what is carried.
    pub axes: BTreeMap<String, serde_json::Value>,
    /// The open loads for which it was tried: they ask for the same over as many connections.
    pub loads: Vec<String>,
    /// Connections of the generator.
    pub connections: u32,
    /// Whole responses per second.
    pub rate_per_s: f64,
    /// What bounded it. Where that is not the gateway, it may carry more.
    pub bound_by: BoundBy,
}

/// A rate that was a share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PilotRate {
    /// The load.
    pub load: String,
    /// What was asked (`30%`).
    pub asked: String,
    /// What that is here (`890/s`), to two significant digits.
    pub rate: String,
    /// The gateway of whose throughput it is a share.
    pub gateway: String,
    /// That throughput, per second.
    pub carried_per_s: f64,
    /// Whether the generator was what limited it, so that the gateway carries at least this much.
    pub at_least: bool,
}

impl PilotRate {
    /// It in words: `rate of low: 10% of 8900/s, the capacity of envoy, is 890/s`.
    pub fn words(&self) -> String {
        let Self { load, asked, rate, gateway, carried_per_s, at_least } = self;
        let (least, limit) = match at_least {
            true => ("at least ", " (the load generator was the limit)"),
            false => ("", ""),
        };
        format!(
            "rate of {load}: {asked} of {least}{carried_per_s:.0}/s, the capacity of {gateway}{limit}, is {rate}"
        )
    }
}
