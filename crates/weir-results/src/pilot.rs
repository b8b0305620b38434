//! The pilot: short loads at the start of a run, if the scenario gives rates as shares of a gateway's throughput.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::BoundBy;

/// The results of a pilot, and the rates derived from it. They are not part of the run's results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pilot {
    /// Throughput of each gateway in a short closed load, for each combination of axis values that may change it.
    pub carried: Vec<Carried>,
    /// The rates that the scenario gives as shares.
    pub rates: Vec<PilotRate>,
}

/// The result of a short closed load through a gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Carried {
    /// The gateway's name in the scenario.
    pub gateway: String,
    /// Axis values by their path. If several combinations of values share one pilot, this field contains the first
    /// combination.
    pub axes: BTreeMap<String, serde_json::Value>,
    /// Names of the open loads whose rates use this result. They send the same requests with the same number of
    /// connections.
    pub loads: Vec<String>,
    /// Number of connections of the load generator.
    pub connections: u32,
    /// Throughput: complete responses per second.
    pub rate_per_s: f64,
    /// The bottleneck of the pilot. If it is not the gateway, the gateway may have more capacity.
    pub bound_by: BoundBy,
}

/// A rate that the scenario gives as a share of a gateway's throughput.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PilotRate {
    /// The name of the load.
    pub load: String,
    /// The share of the gateway's throughput, such as `30%`.
    pub asked: String,
    /// The resulting rate, such as `890/s`, rounded to two significant digits.
    pub rate: String,
    /// The gateway. `asked` is a share of its throughput.
    pub gateway: String,
    /// The throughput of that gateway in the pilot, complete responses per second.
    pub carried_per_s: f64,
    /// Whether the load generator was the limit of the pilot. If true, the gateway's throughput is at least
    /// `carried_per_s`.
    pub at_least: bool,
}

impl PilotRate {
    /// The rate in one sentence: `rate of low: 890/s (10% of the capacity of envoy: 8900/s)`.
    pub fn words(&self) -> String {
        let Self { load, asked, rate, gateway, carried_per_s, at_least } = self;
        let (bound, limit) = match at_least {
            true => ("at least ", ", limited by the load generator"),
            false => ("", ""),
        };
        format!(
            "rate of {load}: {rate} ({asked} of the capacity of {gateway}: {bound}{carried_per_s:.0}/s{limit})"
        )
    }
}
