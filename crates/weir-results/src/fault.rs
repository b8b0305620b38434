//! Faults that weir injects under load. The target is a server of the upstream, a service, or a gateway in a cluster.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A fault injected into one server of the upstream, a service, or a gateway in a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FaultEvent {
    /// When weir injected the fault, in seconds since the start of the warm-up. For the action `return`: when weir
    /// began to restore the target. The restore takes `took_ns`; then the target serves requests again.
    pub t_s: f64,
    /// Whether weir injected the fault in the sustained phase.
    pub sustained: bool,
    /// The target of the fault.
    #[serde(flatten)]
    pub target: FaultTarget,
    /// What weir did to the target.
    pub action: FaultAction,
    /// Time until the action was complete, nanoseconds.
    pub took_ns: u64,
}

/// The target of a fault.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FaultTarget {
    /// A server of the upstream, numbered from 1.
    Replica(u32),
    /// All processes of a service that the gateway needs.
    Service(String),
    /// The pods of a gateway that runs in a cluster.
    Gateway(Plane),
}

/// The part of a gateway in a cluster. A fault is injected into the pods of this part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Plane {
    /// The pods that the load passes through.
    Data,
    /// The pods that configure the data plane.
    Control,
}

/// What weir does to the target of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FaultAction {
    /// Kills the processes with SIGKILL. The kernel then closes their connections and refuses new ones. For a gateway
    /// in a cluster, weir deletes one pod with a grace period of 1 s.
    Kill,
    /// Stops the processes with SIGSTOP. The kernel still accepts connections, but there are no responses.
    Stall,
    /// Makes weir's own upstream reset the connection of every request.
    Reset,
    /// Restores the target. weir restarts killed processes with the same command, limits and addresses, resumes stalled
    /// processes, or makes the upstream respond again.
    Return,
    /// Evicts one pod of the gateway, as a node drain does. The pod ends within its grace period.
    Evict,
    /// Replaces all pods of the gateway, as a rollout of its Deployment or DaemonSet does.
    Rollout,
}

impl FaultTarget {
    /// The service's name; `None` for other targets.
    pub fn service(&self) -> Option<&str> {
        match self {
            Self::Service(name) => Some(name),
            Self::Replica(_) | Self::Gateway(_) => None,
        }
    }
}

impl fmt::Display for FaultTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replica(replica) => write!(f, "replica {replica}"),
            Self::Service(name) => f.write_str(name),
            Self::Gateway(Plane::Data) => f.write_str("data plane"),
            Self::Gateway(Plane::Control) => f.write_str("control plane"),
        }
    }
}

impl FaultAction {
    /// The state of the target after the action, such as `killed`.
    pub fn done(self) -> &'static str {
        match self {
            Self::Kill => "killed",
            Self::Stall => "stalled",
            Self::Reset => "resets",
            Self::Return => "returned",
            Self::Evict => "evicted",
            Self::Rollout => "rolled out",
        }
    }
}

impl fmt::Display for FaultAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kill => "kill",
            Self::Stall => "stall",
            Self::Reset => "reset",
            Self::Return => "return",
            Self::Evict => "evict",
            Self::Rollout => "rollout",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_is_a_field_of_the_event() {
        let check = |target: &str, expected: FaultTarget, words: &str| {
            let json = format!(r#"{{"t_s":1.5,"sustained":true,{target},"action":"kill","took_ns":7}}"#);
            let event: FaultEvent = serde_json::from_str(&json).unwrap();
            assert_eq!((&event.target, event.target.to_string().as_str()), (&expected, words));
            assert_eq!(serde_json::to_string(&event).unwrap(), json);
        };
        // Earlier versions stored a replica in this form.
        check(r#""replica":2"#, FaultTarget::Replica(2), "replica 2");
        check(r#""service":"nats""#, FaultTarget::Service("nats".into()), "nats");
        check(r#""gateway":"data""#, FaultTarget::Gateway(Plane::Data), "data plane");
    }
}
