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
    /// Start and end of every publication, by the monotonic clock, nanoseconds.
    pub publications: Vec<(u64, u64)>,
}
