//! Messages between coordinator and agents: JSON, prefixed with its length.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weir_engine::{LiveSecond, LoadSpec};
use weir_results::{HostShare, HostUsage, LoadRecord, Part, Usage, UsageSecond};

/// Version of the messages. Both sides have the same version of weir, so it only identifies other programs.
pub const PROTOCOL: u32 = 1;

/// Messages of the coordinator.
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
    /// A clock measurement, sent at this time of the coordinator.
    Ping { sent_ns: u64 },
    /// The load starts at this time of the agent's monotonic clock.
    Start { load: u64, at_ns: u64 },
    /// The load ends now, with the results so far.
    End { load: u64 },
    /// The load has failed; end it.
    Abort { load: u64 },
    /// Sample these processes from now on.
    Sample { number: u64, sampling: Sampling },
    /// Report the samples over this span of the agent's clock.
    Sampled { number: u64, span: SampleSpan },
    /// Start another upstream.
    Serve { number: u64, serving: Box<Serving> },
    /// Stop all upstreams.
    StopServing,
    /// The run is over.
    Leave,
}

/// Messages of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "kebab-case")]
pub(crate) enum FromAgent {
    /// Identifies the agent.
    Hello(Hello),
    /// Files that the agent does not have.
    Need { sha256: Vec<String> },
    /// The connections are open, and the agent waits for the start.
    Prepared { load: u64 },
    /// The response to a ping, with times of the agent.
    Pong { ping_ns: u64, received_ns: u64, sent_ns: u64 },
    /// A second of the load.
    Second { load: u64, second: Box<LiveSecond> },
    /// The load has finished.
    Done { load: u64, report: Box<ShardReport> },
    /// The load failed.
    Failed { load: u64, failure: AgentFailure },
    /// The samples, or why there are none.
    Sampled { number: u64, report: Result<Box<SampleReport>, AgentFailure> },
    /// The started upstream, or why it did not start.
    Served { number: u64, served: Result<Box<Served>, AgentFailure> },
}

/// Identity of an agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of the messages.
    pub protocol: u32,
    /// Version of weir.
    pub version: String,
    /// Its requested name: the host name.
    pub name: String,
    /// CPUs in its affinity mask.
    pub cpus: u32,
    /// CPU quota of its control groups, in cores; `None` without a quota.
    #[serde(default)]
    pub quota_cpus: Option<f64>,
    /// Boot id of its machine's kernel; empty if unknown.
    #[serde(default)]
    pub boot_id: String,
    /// Its process id.
    pub pid: u32,
}

/// A shard of a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// Number of the load, unique in the run.
    pub load: u64,
    /// The load of this shard. Paths of files are replaced by their names on agents.
    pub spec: LoadSpec,
    /// Length of each file, bytes, by name (SHA-256 and extension).
    pub files: BTreeMap<String, u64>,
}

/// Result of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShardReport {
    /// The record of its generator, in times of the agent's clock.
    pub record: LoadRecord,
    /// The generator's process.
    pub part: Part,
    /// Resources of the generator in the sustained phase; `None` if nothing was sampled.
    pub usage: Option<Usage>,
    /// Resources of the agent's host in the sustained phase.
    pub host: Option<HostUsage>,
    /// CPU time that others took from that host.
    pub others: Option<HostShare>,
}

/// Processes on an agent's host that the agent did not start. Exactly one way to find them is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// Name of the part in the report.
    pub part: String,
    /// Name of their program.
    pub program: Option<String>,
    /// Their parent process.
    pub pid: Option<i32>,
    /// Their control group.
    pub group: Option<PathBuf>,
    /// Ids of their containers; empty if they are found in another way.
    #[serde(default)]
    pub containers: Vec<String>,
    /// Their CPU limit in cores; `None` if it is unknown.
    pub limit_cpus: Option<f64>,
}

/// An upstream that an agent starts: `weir origin`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Serving {
    /// Name of the part in the report.
    pub part: String,
    /// Arguments of `weir origin`, without address and certificate.
    pub arguments: Vec<String>,
    /// Certificate and key for TLS, PEM.
    pub certificate: Option<[String; 2]>,
    /// CPU limit in cores.
    pub limit_cpus: Option<f64>,
    /// Memory limit in bytes.
    pub limit_memory_bytes: Option<u64>,
}

/// An upstream that an agent started. It may not listen yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Served {
    /// Its address, with the IP address that the agent uses towards the coordinator.
    pub address: SocketAddr,
    /// Its process, for the results.
    pub part: Part,
    /// Its process id, for sampling.
    pub pid: i32,
}

/// Times of a load, nanoseconds of one monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleSpan {
    /// Start of the load.
    pub start_ns: u64,
    /// Start of the sustained phase.
    pub from_ns: u64,
    /// End of the sustained phase.
    pub to_ns: u64,
}

/// Resources of processes that an agent did not start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SampleReport {
    /// In the sustained phase; `None` if the samples do not cover it.
    pub usage: Option<Usage>,
    /// Per second of the load.
    pub seconds: Vec<UsageSecond>,
    /// Resources of the agent's host in the sustained phase.
    pub host: Option<HostUsage>,
}

/// Why a load failed on an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentFailure {
    /// The cause in one word: `generator`, `lost`, `late`, `disk-full`.
    pub cause: String,
    /// What happened.
    pub message: String,
    /// The remedy; empty if unknown.
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
