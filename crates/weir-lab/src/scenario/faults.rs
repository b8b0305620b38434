//! Faults of the upstream's servers, of services, and of gateways in a cluster, while load runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::Time;
use weir_results::{FaultAction, FaultTarget, Plane};

/// A fault that weir causes during every load. The target is one server of the upstream, a service, or a gateway in a
/// cluster. After the load, weir restores every server and service. Direct cells have no faults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduledFault {
    /// Time from the start of the sustained phase of each load. The fault starts up to 0.2 s later; the results have
    /// the actual time.
    pub at: Time,
    /// Replica of the upstream, from 1. Default: 1, if neither `service` nor `gateway` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica: Option<u32>,
    /// Name of a service as the target, instead of a replica. The fault affects all its processes, in the order in
    /// which they start. It applies only to gateways that need the service, and at least one gateway must need it. Not
    /// allowed with `changes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Pods of the gateway as the target, instead of a replica. Only for runs in a cluster, and only for gateways that
    /// already run there; weir skips the fault for other gateways. After the fault, Kubernetes replaces or restarts the
    /// pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<Plane>,
    /// What weir does to the target. For pods of a gateway: `kill`, `evict` or `rollout`. For replicas and services:
    /// `kill`, `stall` or `return`; for replicas of weir's own upstream also `reset`.
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
