//! `weir publish`: a process that publishes messages periodically. Input is a specification, output are the times.

use serde::{Deserialize, Serialize};

/// The messages to publish.
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

/// The publications.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishRecord {
    /// Every publication, in order.
    pub publications: Vec<Published>,
}

/// One publication of all messages, or of some if the load ended during it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    /// Its start by the monotonic clock, nanoseconds.
    pub start_ns: u64,
    /// Its end, or the time of its failure.
    pub end_ns: u64,
    /// Number of sent messages.
    pub messages: u64,
    /// The error, if it failed.
    pub error: Option<String>,
}
