//! Events of disturbances under load.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An event of a disturbance during a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// When it started, seconds from the start of the warm-up.
    pub t_s: f64,
    /// Whether `t_s` lies in the sustained phase.
    pub sustained: bool,
    /// The kind of disturbance; `details` has the fields of this kind.
    pub kind: String,
    /// Fields of this kind.
    pub details: serde_json::Value,
}

/// Details of a burst of silent connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SilentBurst {
    /// Requested connections: the sum of `opened`, `refused` and `unanswered`.
    pub connections: u32,
    /// Connections that were established.
    pub opened: u32,
    /// Attempts that failed.
    pub refused: u32,
    /// Attempts that were neither established nor refused in time.
    pub unanswered: u32,
    /// Established connections that the gateway closed before the end of the burst.
    pub closed_by_gateway: u32,
    /// Time until the last connection was established, nanoseconds.
    pub opened_after_ns: u64,
    /// Time until weir closed the connections, nanoseconds.
    pub held_ns: u64,
}

impl SilentBurst {
    /// The kind of its events.
    pub const KIND: &str = "silent-connections";
}

/// Details of the CPU time that a positive control used on purpose, over a whole load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Burned {
    /// CPU time that the gateway used, nanoseconds.
    pub used_ns: u64,
    /// Extra CPU time that the control used, nanoseconds.
    pub burned_ns: u64,
}

impl Burned {
    /// The kind of its events.
    pub const KIND: &str = "burned";
}

/// Details of a publication of routes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Registration {
    /// Published messages, one per route.
    pub messages: u64,
    /// Time until the service had accepted the last one, nanoseconds.
    pub took_ns: u64,
}

impl Registration {
    /// The kind of its events.
    pub const KIND: &str = "registration";
}

/// Details of a failed publication of routes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedRegistration {
    /// Why.
    pub why: String,
    /// Time until the failure, nanoseconds.
    pub took_ns: u64,
}

impl FailedRegistration {
    /// The kind of its events.
    pub const KIND: &str = "registration-failed";
}
