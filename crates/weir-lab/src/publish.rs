//! `weir publish`: messages that are published again and again, as a process of its own. A specification in, times out.

use serde::{Deserialize, Serialize};

/// What is published.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishSpec {
    /// The address of the NATS server.
    pub address: String,
    /// Subject and content of each message.
    pub messages: Vec<(String, String)>,
    /// Time between two messages, nanoseconds.
    pub gap_ns: u64,
    /// Time from the start of one publication to the start of the next, nanoseconds; the first comes after as long.
    pub every_ns: u64,
}

/// What was published.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishRecord {
    /// Every publication, in order.
    pub publications: Vec<Published>,
}

/// One publication of all messages, or of the first ones if the load ended meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    /// Its start by the monotonic clock, nanoseconds.
    pub start_ns: u64,
    /// Its end, or the moment in which it failed.
    pub end_ns: u64,
    /// Messages that it sent.
    pub messages: u64,
    /// Why it failed, if it did.
    pub error: Option<String>,
}
