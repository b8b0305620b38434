//! Connections that never send a request.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::Time;

/// A burst of TCP connections to the gateway that never send a request. weir opens all of them together under load,
/// holds them, then closes them. Direct cells have no burst. In loads with a burst, weir does not compare the gateway's
/// request counter with the load generator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SilentConnections {
    /// Number of connections, 1 to 100,000. Each connection needs a file descriptor in weir and one in the gateway.
    pub connections: u32,
    /// When weir opens the connections: time from the start of the sustained phase of each load.
    pub at: Time,
    /// Time that the connections stay open. weir closes them before the load ends.
    pub hold: Time,
    /// Names of the loads with a burst. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<String>,
}

impl SilentConnections {
    /// Whether the burst applies to `load`.
    pub(crate) fn concerns(&self, load: &str) -> bool {
        self.loads.is_empty() || self.loads.iter().any(|name| name == load)
    }
}
