//! Faults that weir injects under load into servers of the upstream, services and gateways in a cluster.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A fault injected into one server of the upstream, a service, or a gateway in a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FaultEvent {
    /// When it was injected, seconds from the start of the warm-up. For `return`, the start of the server, which serves
    /// `took_ns` later.
    pub t_s: f64,
    /// Whether `t_s` lies in the sustained phase.
    pub sustained: bool,
    /// The target.
    #[serde(flatten)]
    pub target: FaultTarget,
    /// The action.
    pub action: FaultAction,
    /// Time until the action was done, nanoseconds.
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

/// Which pods of a gateway in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Plane {
    /// Pods that load passes through.
    Data,
    /// Pods that configure them.
    Control,
}

/// The action of a fault on a server of the upstream, a service, or the pods of a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FaultAction {
    /// Kills the processes: the kernel closes their connections and refuses new ones. Of a gateway in a cluster, one
    /// pod is killed, without a grace period.
    Kill,
    /// Stops the processes (SIGSTOP): the kernel accepts connections, but there are no responses.
    Stall,
    /// Resets the connection of every request; only servers of the upstream.
    Reset,
    /// Restores the target: it is started again, continued, or responds again.
    Return,
    /// Evicts one pod, as a node drain does: it ends within its grace period.
    Evict,
    /// Replaces all pods, as a rollout of its Deployment or DaemonSet does.
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
    /// The state of the target after it: `killed`.
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
        // The form in which earlier versions stored a replica.
        check(r#""replica":2"#, FaultTarget::Replica(2), "replica 2");
        check(r#""service":"nats""#, FaultTarget::Service("nats".into()), "nats");
        check(r#""gateway":"data""#, FaultTarget::Gateway(Plane::Data), "data plane");
    }
}
