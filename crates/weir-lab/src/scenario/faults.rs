//! What is done to servers of the upstream while load runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::Time;
use weir_results::FaultAction;

/// Something that is done to one server of the upstream while load runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduledFault {
    /// When, from the start of the sustained phase of each load.
    pub at: Time,
    /// To which of the upstream's replicas, from 1.
    #[serde(default = "default_replica")]
    pub replica: u32,
    /// What: `kill` its processes, `stall` them where they are, `reset` the connection of every request (weir's own
    /// upstream alone), or let it `return` to what it was.
    #[serde(rename = "do")]
    pub action: FaultAction,
}

fn default_replica() -> u32 {
    1
}
