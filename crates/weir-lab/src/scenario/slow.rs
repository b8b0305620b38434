//! Clients that take their time, beside the loads.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::{Size, Time};

/// Clients that take their time while loads run: each sends a request, or reads its response, a piece at a time, and then
/// does so again on another connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlowClients {
    /// How many send the head of their request slowly.
    #[serde(default)]
    pub heads: u32,
    /// How many send the body of their request slowly.
    #[serde(default)]
    pub bodies: u32,
    /// How many read the response slowly.
    #[serde(default)]
    pub responses: u32,
    /// What is sent or read at a time.
    #[serde(default = "default_piece")]
    pub piece: Size,
    /// Time from one piece to the next.
    #[serde(default = "default_every")]
    pub every: Time,
    /// Length of the bodies that they send, slowly or at once; those whose heads are slow send none.
    #[serde(default = "default_body")]
    pub body: Size,
    /// Names of the loads beside which they are; all of them, if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<String>,
}

impl SlowClients {
    /// Whether they are beside `load`.
    pub(crate) fn concerns(&self, load: &str) -> bool {
        self.loads.is_empty() || self.loads.iter().any(|name| name == load)
    }

    /// How many there are.
    pub(crate) fn connections(&self) -> u64 {
        [self.heads, self.bodies, self.responses].into_iter().map(u64::from).sum()
    }
}

fn default_piece() -> Size {
    Size(16)
}

fn default_every() -> Time {
    Time(Duration::from_secs(1))
}

fn default_body() -> Size {
    Size(64 << 10)
}
