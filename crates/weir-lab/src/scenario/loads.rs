//! The loads of a scenario.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::{Rate, Time};

use super::Named;

/// The loads by name, in the order in which they run.
pub type Loads = Named<Load>;

/// One load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// The arrival model.
    pub model: Model,
    /// Connections to the gateway, over all workers.
    #[serde(default = "default_connections")]
    pub connections: u32,
    /// Rate of arrivals (open model only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// How arrivals are spaced (open model only); Poisson by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spacing: Option<Spacing>,
    /// Sustained phase, where it is not the scenario's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Time>,
}

/// When requests start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Model {
    /// Each connection sends when it has been answered.
    Closed,
    /// By a schedule that waits for nobody.
    Open,
}

/// How the arrivals of an open load are spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Spacing {
    /// Exponential gaps, as many independent clients make them.
    Poisson,
    /// Equal gaps.
    Even,
}

fn default_connections() -> u32 {
    32
}
