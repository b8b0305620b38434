//! Input and output of `weir publish`, a process that periodically publishes messages to a NATS server.

use serde::{Deserialize, Serialize};

/// Input of `weir publish`: the messages, and when to publish them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishSpec {
    /// The address of the NATS server.
    pub address: String,
    /// Subject and content of each message.
    pub messages: Vec<(String, String)>,
    /// Time between two messages, nanoseconds.
    pub gap_ns: u64,
    /// Interval between the starts of two publications, nanoseconds. The first starts after one interval.
    pub every_ns: u64,
}

/// Output of `weir publish`: when it published the messages, and whether that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishRecord {
    /// Every publication, in order.
    pub publications: Vec<Published>,
}

/// One publication of all messages. It is incomplete if it failed, or if the load ended during it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    /// Start of the publication by the monotonic clock, nanoseconds.
    pub start_ns: u64,
    /// When the publication ended or failed, by the monotonic clock, nanoseconds.
    pub end_ns: u64,
    /// Number of messages that were sent.
    pub messages: u64,
    /// Why the publication failed; `None` if it succeeded.
    pub error: Option<String>,
}
