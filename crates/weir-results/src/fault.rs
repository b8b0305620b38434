//! What was done on purpose to servers of the upstream and to services, while load ran.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that was done to one server of the upstream, or to a service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FaultEvent {
    /// When it was done, seconds from the start of the warm-up. What returns does so at this moment, and serves
    /// [`FaultEvent::took_ns`] later.
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
}

/// What is done to a server of the upstream, or to a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FaultAction {
    /// Its processes are killed: the kernel closes their connections, and refuses further ones.
    Kill,
    /// Its processes are stopped where they are: connections are accepted by the kernel, and nothing is answered.
    Stall,
    /// It resets the connection of every request; servers of the upstream only.
    Reset,
    /// It is as it was before: started again, let go on, or told to answer.
    Return,
}

impl FaultTarget {
    /// The service's name; `None` for a server of the upstream.
    pub fn service(&self) -> Option<&str> {
        match self {
            Self::Replica(_) => None,
            Self::Service(name) => Some(name),
        }
    }
}

impl fmt::Display for FaultTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replica(replica) => write!(f, "replica {replica}"),
            Self::Service(name) => f.write_str(name),
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
    }
}
