//! What coordinator and agents say to each other: JSON, each message behind its length.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_engine::LoadSpec;
use weir_results::{HostUsage, LoadRecord, LoadSecond, Part, Usage};

/// Version of the messages. Both sides are the same version of weir, so it only tells a stranger from an agent.
pub const PROTOCOL: u32 = 1;

/// From the coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "kebab-case")]
pub(crate) enum ToAgent {
    /// The agent takes part, under this name.
    Welcome { name: String },
    /// The agent cannot take part.
    Refuse { why: String, remedy: String },
    /// A shard to prepare.
    Assign(Box<Assignment>),
    /// The content of a file, in base64.
    File { sha256: String, content: String },
    /// A question about the clock, sent at this time of the coordinator.
    Ping { sent_ns: u64 },
    /// The load starts at this time of the agent's own monotonic clock.
    Start { load: u64, at_ns: u64 },
    /// The load is over for all.
    Abort { load: u64 },
    /// There is nothing more to do.
    Leave,
}

/// From an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "kebab-case")]
pub(crate) enum FromAgent {
    /// Who it is.
    Hello(Hello),
    /// Files that it does not have.
    Need { sha256: Vec<String> },
    /// Its connections are open, and it waits for the start.
    Prepared { load: u64 },
    /// The answer to a ping, received and sent at these times of the agent.
    Pong { ping_ns: u64, received_ns: u64, sent_ns: u64 },
    /// A second of the load.
    Second { load: u64, second: Box<LoadSecond> },
    /// The load has ended.
    Done { load: u64, report: Box<ShardReport> },
    /// The load failed.
    Failed { load: u64, failure: AgentFailure },
}

/// Who an agent is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of the messages.
    pub protocol: u32,
    /// Version of weir.
    pub version: String,
    /// The name that it wants: its host's.
    pub name: String,
    /// CPUs that it may use.
    pub cpus: u32,
    /// Its process.
    pub pid: u32,
}

/// A shard of a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// Number of the load, unique in the run.
    pub load: u64,
    /// The load with its shard. Paths of files are their hashes.
    pub spec: LoadSpec,
    /// Length of each file, bytes, by SHA-256.
    pub files: BTreeMap<String, u64>,
}

/// What an agent measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShardReport {
    /// The record of its generator. Its times are those of the agent's clock.
    pub record: LoadRecord,
    /// The generator's process.
    pub part: Part,
    /// What the generator used in the sustained phase; `None` where nothing could be sampled.
    pub usage: Option<Usage>,
    /// What the agent's host used in the sustained phase.
    pub host: Option<HostUsage>,
}

/// Why a load failed on an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentFailure {
    /// What failed, in one word: `generator`, `lost`, `late`, `disk-full`.
    pub cause: String,
    /// What happened.
    pub message: String,
    /// What to do about it; empty if nothing is known.
    pub remedy: String,
    /// The end of the generator's log.
    pub log_tail: String,
}

impl AgentFailure {
    /// A failure without a log.
    pub fn new(cause: &str, message: impl Into<String>, remedy: &str) -> Self {
        let (cause, remedy) = (cause.to_owned(), remedy.to_owned());
        Self { cause, message: message.into(), remedy, log_tail: String::new() }
    }
}
