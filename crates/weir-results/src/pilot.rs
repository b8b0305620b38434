//! The pilot at the start of a run, if rates are shares of a gateway's throughput.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::BoundBy;

/// The result of a pilot, and the rates derived from it. Results of the run exclude it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pilot {
    /// Throughput of each gateway in a short closed load, at each point of the axes that may change it.
    pub carried: Vec<Carried>,
    /// The rates that were given as shares.
    pub rates: Vec<PilotRate>,
}

/// A short closed load through a gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Carried {
    /// The gateway's name in the scenario.
    pub gateway: String,
    /// Values of the axes by their path. Several points with the same throughput share one pilot; these are the values
    /// of the first.
    pub axes: BTreeMap<String, serde_json::Value>,
    /// The open loads that use this result. They send the same requests over the same number of connections.
    pub loads: Vec<String>,
    /// Connections of the generator.
    pub connections: u32,
    /// Whole responses per second.
    pub rate_per_s: f64,
    /// The bottleneck. If it is not the gateway, the gateway may have more capacity.
    pub bound_by: BoundBy,
}

/// A rate that was given as a share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PilotRate {
    /// The load.
    pub load: String,
    /// The share (`30%`).
    pub asked: String,
    /// The resulting rate (`890/s`), to two significant digits.
    pub rate: String,
    /// The gateway whose throughput the share refers to.
    pub gateway: String,
    /// That throughput, per second.
    pub carried_per_s: f64,
    /// Whether the generator was the limit, so that the gateway's throughput is at least this.
    pub at_least: bool,
}

impl PilotRate {
    /// A sentence: `rate of low: 10% of 8900/s, the capacity of envoy, is 890/s`.
    pub fn words(&self) -> String {
        let Self { load, asked, rate, gateway, carried_per_s, at_least } = self;
        let (bound, limit) = match at_least {
            true => ("at least ", " (the load generator was the limit)"),
            false => ("", ""),
        };
        format!(
            "rate of {load}: {asked} of {bound}{carried_per_s:.0}/s, the capacity of {gateway}{limit}, is {rate}"
        )
    }
}
