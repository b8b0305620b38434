//! Faults of the upstream's servers, of services, and of gateways in a cluster, while load runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::Time;
use weir_results::{FaultAction, FaultTarget, Plane};

/// A fault of one server of the upstream, of a service, or of a gateway in a cluster, under load. Every load has all
/// faults, and afterwards every server and service is restored. Direct cells have none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduledFault {
    /// Time from the start of the sustained phase of each load. The fault comes up to 0.2 s later; results have the
    /// actual time.
    pub at: Time,
    /// Replica of the upstream, from 1. Default: the first one, if `service` is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica: Option<u32>,
    /// Service instead of a replica: all its processes, in the order in which they start. Gateways that do not need it
    /// have no such fault; a service that no gateway needs is an error. Not with `changes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Pods of the gateway instead: `data` plane or `control` plane. Only in a cluster, and only for gateways that
    /// already run there; others have no such fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<Plane>,
    /// `kill`: SIGKILL to its processes; connections end, new ones are refused. `stall`: SIGSTOP; connections are
    /// accepted and not answered. `reset`: weir's own upstream resets the connection of every request. `return`:
    /// started again with the same command, limits and addresses, or continued. With `gateway`: `kill` ends one pod
    /// without a grace period, `evict` with it, and `rollout` replaces all pods; Kubernetes starts them again.
    #[serde(rename = "do")]
    pub action: FaultAction,
}

impl ScheduledFault {
    /// The target of the fault.
    pub(crate) fn target(&self) -> FaultTarget {
        match (self.gateway, &self.service) {
            (Some(plane), _) => FaultTarget::Gateway(plane),
            (None, Some(service)) => FaultTarget::Service(service.clone()),
            (None, None) => FaultTarget::Replica(self.replica.unwrap_or(1)),
        }
    }
}
