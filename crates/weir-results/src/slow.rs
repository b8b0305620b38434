//! What became of clients that took their time beside a load.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Slow clients, by what was slow of them, over the whole load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlowClients {
    /// Those that sent the heads of their requests slowly.
    pub heads: SlowCounts,
    /// Those that sent the bodies of their requests slowly.
    pub bodies: SlowCounts,
    /// Those that read the responses slowly.
    pub responses: SlowCounts,
}

/// Slow clients of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SlowCounts {
    /// Connections at one time.
    pub connections: u32,
    /// Connections that were made.
    pub opened: u64,
    /// Of those, connections that were still busy when the load had ended.
    pub open_at_end: u64,
    /// Whole responses with a status below 400.
    pub answered: u64,
    /// Whole responses with another status: a gateway that had enough of it says 408.
    pub unexpected: u64,
    /// Connections that ended without a whole response.
    pub broken: u64,
    /// Attempts to connect that failed.
    pub refused: u64,
}

impl SlowClients {
    /// All of them together.
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
