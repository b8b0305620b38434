//! What a disturbance did to a gateway, or around it, while a load ran.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that a disturbance did during a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// When it began, seconds from the start of the warm-up.
    pub t_s: f64,
    /// Whether that lies in the sustained phase.
    pub sustained: bool,
    /// The kind of disturbance; `details` has the fields of this kind.
    pub kind: String,
    /// Details of this kind.
    pub details: serde_json::Value,
}

/// The details of a burst of silent connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SilentBurst {
    /// Connections that were asked for: the sum of `opened`, `refused` and `unanswered`.
    pub connections: u32,
    /// Connections that were established.
    pub opened: u32,
    /// Attempts that failed.
    pub refused: u32,
    /// Attempts that were neither established nor refused in time.
    pub unanswered: u32,
    /// Of the opened ones, connections that the gateway closed before the end.
    pub closed_by_gateway: u32,
    /// Time until the last connection was established, nanoseconds.
    pub opened_after_ns: u64,
    /// Time until the connections were closed, nanoseconds.
    pub held_ns: u64,
}

impl SilentBurst {
    /// The kind of its events.
    pub const KIND: &str = "silent-connections";
}

/// The details of CPU time that a positive control used on purpose, over a whole load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Burned {
    /// CPU time that the gateway used, nanoseconds.
    pub used_ns: u64,
    /// CPU time that was used beside it, nanoseconds.
    pub burned_ns: u64,
}

impl Burned {
    /// The kind of its events.
    pub const KIND: &str = "burned";
}

/// The details of routes that are published again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Registration {
    /// Messages that were published, one for each route.
    pub messages: u64,
    /// Time until the service had taken the last one, nanoseconds.
    pub took_ns: u64,
}

impl Registration {
    /// The kind of its events.
    pub const KIND: &str = "registration";
}

/// The details of routes that should have been published again, but were not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedRegistration {
    /// Why.
    pub why: String,
    /// Time until that was known, nanoseconds.
    pub took_ns: u64,
}

impl FailedRegistration {
    /// The kind of its events.
    pub const KIND: &str = "registration-failed";
}
