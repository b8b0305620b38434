//! Connections that never send a request.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::Time;

/// A burst of TCP connections to the gateway that never send a request: opened at once while a load runs, held, then
/// closed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SilentConnections {
    /// Number of connections.
    pub connections: u32,
    /// When they are opened, from the start of the sustained phase of each load.
    pub at: Time,
    /// How long they stay open.
    pub hold: Time,
    /// Names of the loads during which they are opened; all of them, if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<String>,
}

impl SilentConnections {
    /// Whether they are opened during `load`.
    pub(crate) fn concerns(&self, load: &str) -> bool {
        self.loads.is_empty() || self.loads.iter().any(|name| name == load)
    }
}
