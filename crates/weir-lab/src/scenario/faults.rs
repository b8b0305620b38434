//! What is done to servers of the upstream, or to services, while load runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::Time;
use weir_results::{FaultAction, FaultTarget};

/// Something that is done to one server of the upstream, or to a service, while load runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduledFault {
    /// When, from the start of the sustained phase of each load.
    pub at: Time,
    /// To which of the upstream's replicas, from 1; the first if neither a replica nor a service is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica: Option<u32>,
    /// To which service instead: one that a gateway needs. Gateways that do not need it have no such fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// What: `kill` its processes, `stall` them where they are, `reset` the connection of every request (weir's own
    /// upstream alone), or let it `return` to what it was.
    #[serde(rename = "do")]
    pub action: FaultAction,
}

impl ScheduledFault {
    /// To what it is done.
    pub(crate) fn target(&self) -> FaultTarget {
        match &self.service {
            Some(service) => FaultTarget::Service(service.clone()),
            None => FaultTarget::Replica(self.replica.unwrap_or(1)),
        }
    }
}
