//! What was done on purpose to servers of the upstream, to services and to gateways in a cluster, while load ran.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that was done to one server of the upstream, to a service, or to a gateway in a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FaultEvent {
    /// When it was done, seconds from the start of the warm-up. A server that returns starts then, and serves `took_ns`
    /// later.
    pub t_s: f64,
    /// Whether that lies in the sustained phase.
    pub sustained: bool,
    /// To what.
    #[serde(flatten)]
    pub target: FaultTarget,
    /// What.
    pub action: FaultAction,
    /// How long it took until it was done, nanoseconds.
    pub took_ns: u64,
}

/// What a fault is done to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FaultTarget {
    /// A server of the upstream, from 1.
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
    /// Those that load passes through.
    Data,
    /// Those that configure them.
    Control,
}

/// What is done to a server of the upstream, to a service, or to the pods of a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FaultAction {
    /// Its processes are killed: the kernel closes their connections, and refuses further ones. Of the pods of a gateway
    /// one is killed, without a grace period.
    Kill,
    /// Its processes are stopped where they are: connections are accepted by the kernel, and nothing is answered.
    Stall,
    /// It resets the connection of every request; servers of the upstream only.
    Reset,
    /// It is as it was before: started again, let go on, or told to answer.
    Return,
    /// One pod is evicted, as when its node is drained: it ends within its grace period.
    Evict,
    /// All pods are replaced, as its Deployment or DaemonSet does it.
    Rollout,
}

impl FaultTarget {
    /// The service's name; `None` for another target.
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
    /// What became of the target by it: `killed`.
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
        // The form in which earlier versions stored it.
        check(r#""replica":2"#, FaultTarget::Replica(2), "replica 2");
        check(r#""service":"nats""#, FaultTarget::Service("nats".into()), "nats");
        check(r#""gateway":"data""#, FaultTarget::Gateway(Plane::Data), "data plane");
    }
}
