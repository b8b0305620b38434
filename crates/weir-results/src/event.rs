//! Events under load, except configuration changes, faults and slow clients, which have their own fields in the
//! results.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An event during a load, such as a burst of silent connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// When the event started, in seconds since the start of the warm-up.
    pub t_s: f64,
    /// Whether the event started in the sustained phase.
    pub sustained: bool,
    /// The kind of event, which determines the fields of `details`.
    pub kind: String,
    /// The fields of this kind, such as `opened` and `refused` for `silent-connections`.
    pub details: serde_json::Value,
}

/// Details of a burst of connections on which weir sends nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SilentBurst {
    /// Connections that weir tried to open: the sum of `opened`, `refused` and `unanswered`.
    pub connections: u32,
    /// Connections that were established.
    pub opened: u32,
    /// Attempts to connect that failed.
    pub refused: u32,
    /// Attempts to connect that neither succeeded nor failed in time.
    pub unanswered: u32,
    /// Established connections that the gateway closed before weir did.
    pub closed_by_gateway: u32,
    /// Time from the start of the burst until the last connection was established, nanoseconds.
    pub opened_after_ns: u64,
    /// Time from the start of the burst until weir closed the connections, nanoseconds.
    pub held_ns: u64,
}

impl SilentBurst {
    /// [`Event::kind`] of a burst of silent connections.
    pub const KIND: &str = "silent-connections";
}

/// Details about CPU time that the positive control burned on purpose during a whole load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Burned {
    /// CPU time that the gateway used, without the burned CPU time, nanoseconds.
    pub used_ns: u64,
    /// Extra CPU time that the positive control burned, nanoseconds.
    pub burned_ns: u64,
}

impl Burned {
    /// [`Event::kind`] of an event with the CPU time that the positive control burned.
    pub const KIND: &str = "burned";
}

/// Details of a registration: weir published routes to a service, for example NATS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Registration {
    /// Number of published messages, one per route.
    pub messages: u64,
    /// Time from the first message until the service had accepted the last one, nanoseconds.
    pub took_ns: u64,
}

impl Registration {
    /// [`Event::kind`] of a registration.
    pub const KIND: &str = "registration";
}

/// Details of a registration that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedRegistration {
    /// Why it failed.
    pub why: String,
    /// Time from the start of the registration to its failure, nanoseconds.
    pub took_ns: u64,
}

impl FailedRegistration {
    /// [`Event::kind`] of a failed registration.
    pub const KIND: &str = "registration-failed";
}
