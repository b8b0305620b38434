//! Results of slow clients that run next to a load.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Results of slow clients during the whole load, by kind of client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlowClients {
    /// Clients that send request headers slowly.
    pub heads: SlowCounts,
    /// Clients that send request bodies slowly.
    pub bodies: SlowCounts,
    /// Clients that read responses slowly.
    pub responses: SlowCounts,
}

/// Results of slow clients of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlowCounts {
    /// Number of connections that the slow clients keep open at the same time.
    pub connections: u32,
    /// Number of connections that were opened.
    pub opened: u64,
    /// Opened connections that were still in use at the end of the load.
    pub open_at_end: u64,
    /// Complete responses with a status below 400.
    pub answered: u64,
    /// Complete responses with a status of 400 or more, such as 408 after a timeout of the gateway.
    pub unexpected: u64,
    /// Connections that were closed before a complete response.
    pub broken: u64,
    /// Failed attempts to connect.
    pub refused: u64,
}

impl SlowClients {
    /// The sum over all kinds.
    pub fn total(&self) -> SlowCounts {
        let all = [self.heads, self.bodies, self.responses];
        let sum = |of: fn(&SlowCounts) -> u64| all.iter().map(of).sum::<u64>();
        SlowCounts {
            connections: all.iter().map(|counts| counts.connections).sum(),
            opened: sum(|counts| counts.opened),
            open_at_end: sum(|counts| counts.open_at_end),
            answered: sum(|counts| counts.answered),
            unexpected: sum(|counts| counts.unexpected),
            broken: sum(|counts| counts.broken),
            refused: sum(|counts| counts.refused),
        }
    }
}
