//! What coordinator and agents say to each other: JSON, each message behind its length.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weir_engine::{LiveSecond, LoadSpec};
use weir_results::{HostShare, HostUsage, LoadRecord, Part, Usage, UsageSecond};

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
    /// The load ends now, with what there is.
    End { load: u64 },
    /// The load is over for all.
    Abort { load: u64 },
    /// Processes to sample from now on.
    Sample { number: u64, sampling: Sampling },
    /// The samples are wanted over this span of the agent's own clock.
    Sampled { number: u64, span: SampleSpan },
    /// An upstream to start, beside those that run.
    Serve { number: u64, serving: Box<Serving> },
    /// All upstreams end.
    StopServing,
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
    Second { load: u64, second: Box<LiveSecond> },
    /// The load has ended.
    Done { load: u64, report: Box<ShardReport> },
    /// The load failed.
    Failed { load: u64, failure: AgentFailure },
    /// What was sampled, or why nothing was.
    Sampled { number: u64, report: Result<Box<SampleReport>, AgentFailure> },
    /// The upstream was started, or why it was not.
    Served { number: u64, served: Result<Box<Served>, AgentFailure> },
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
    /// CPUs that it may run on.
    pub cpus: u32,
    /// Cores that its control groups let it use; `None` without a quota.
    #[serde(default)]
    pub quota_cpus: Option<f64>,
    /// The kernel's id of the boot of its machine; empty if unknown.
    #[serde(default)]
    pub boot_id: String,
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
    /// What went to others there.
    pub others: Option<HostShare>,
}

/// Processes beside an agent that it has not started. One of the ways to find them is given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// Name of the part in the report.
    pub part: String,
    /// The name of their program.
    pub program: Option<String>,
    /// The first of them, which has started the others.
    pub pid: Option<i32>,
    /// Their control group.
    pub group: Option<PathBuf>,
    /// The ids of their containers; empty if they are found otherwise.
    #[serde(default)]
    pub containers: Vec<String>,
    /// The CPUs that they are limited to; `None` if that is unknown.
    pub limit_cpus: Option<f64>,
}

/// An upstream that an agent starts: weir's own origin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Serving {
    /// Name of the part in the report.
    pub part: String,
    /// Arguments of `weir origin`, without address and certificate.
    pub arguments: Vec<String>,
    /// Certificate and key for TLS, PEM.
    pub certificate: Option<[String; 2]>,
    /// The CPUs that it is limited to.
    pub limit_cpus: Option<f64>,
    /// The memory that it is limited to.
    pub limit_memory_bytes: Option<u64>,
}

/// An upstream that an agent has started; it may not listen yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Served {
    /// Where it listens: the agent's address towards the run.
    pub address: SocketAddr,
    /// Its process, for the manifest.
    pub part: Part,
    /// The same, to be sampled.
    pub pid: i32,
}

/// The times of a load, nanoseconds of one monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleSpan {
    /// Start of the load.
    pub start_ns: u64,
    /// The sustained phase.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
}

/// What processes beside an agent used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SampleReport {
    /// In the sustained phase; `None` if the samples do not cover it.
    pub usage: Option<Usage>,
    /// In each second of the load.
    pub seconds: Vec<UsageSecond>,
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
