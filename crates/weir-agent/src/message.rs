//! The messages between coordinator and agents, which are sent as JSON.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weir_engine::{LiveSecond, LoadSpec};
use weir_results::{HostShare, HostUsage, LoadRecord, Part, Usage, UsageSecond};

/// Version of the messages. The coordinator also requires the same version of weir, so this number only detects
/// programs that are not weir.
pub const PROTOCOL: u32 = 1;

/// Messages from the coordinator to an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "kebab-case")]
pub(crate) enum ToAgent {
    /// The agent takes part, under this name.
    Welcome { name: String },
    /// The agent cannot take part.
    Refuse { why: String, remedy: String },
    /// Prepare this shard of a load.
    Assign(Box<Assignment>),
    /// The content of a file that the agent requested, in base64.
    File { sha256: String, content: String },
    /// Measures the clock offset. `sent_ns` is the coordinator's monotonic clock.
    Ping { sent_ns: u64 },
    /// The load starts at this time of the agent's monotonic clock.
    Start { load: u64, at_ns: u64 },
    /// End the load now, and report the results so far.
    End { load: u64 },
    /// End the load without a report, because it has failed.
    Abort { load: u64 },
    /// Sample these processes from now on.
    Sample { number: u64, sampling: Sampling },
    /// Stop sampling, and report the samples in this span of the agent's monotonic clock.
    Sampled { number: u64, span: SampleSpan },
    /// Start another upstream.
    Serve { number: u64, serving: Box<Serving> },
    /// Stop all upstreams.
    StopServing,
    /// The run is over.
    Leave,
}

/// Messages from an agent to the coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "kebab-case")]
pub(crate) enum FromAgent {
    /// Identifies the agent.
    Hello(Hello),
    /// Requests files that the agent does not have.
    Need { sha256: Vec<String> },
    /// The connections are open, and the agent waits for the start.
    Prepared { load: u64 },
    /// The response to a ping. `ping_ns` is from the ping; the other times are by the agent's monotonic clock.
    Pong { ping_ns: u64, received_ns: u64, sent_ns: u64 },
    /// The results of one second of the load.
    Second { load: u64, second: Box<LiveSecond> },
    /// The load has finished.
    Done { load: u64, report: Box<ShardReport> },
    /// The load failed.
    Failed { load: u64, failure: AgentFailure },
    /// The samples, or the reason why there are none.
    Sampled { number: u64, report: Result<Box<SampleReport>, AgentFailure> },
    /// The upstream that the agent started, or the reason why it did not start.
    Served { number: u64, served: Result<Box<Served>, AgentFailure> },
}

/// What an agent sends about itself when it joins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// Version of the messages.
    pub protocol: u32,
    /// Version of weir.
    pub version: String,
    /// The name that the agent requests: its host name.
    pub name: String,
    /// Number of CPUs in the agent's affinity mask.
    pub cpus: u32,
    /// CPU quota of the agent's cgroups, cores; `None` without a quota.
    #[serde(default)]
    pub quota_cpus: Option<f64>,
    /// Boot ID of the kernel on the agent's machine; empty if unknown.
    #[serde(default)]
    pub boot_id: String,
    /// Process ID of the agent.
    pub pid: u32,
}

/// A shard of a load: the load that one agent executes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// Number of the load, unique in the run.
    pub load: u64,
    /// The specification of the shard. Its file paths are replaced by the names in `files`.
    pub spec: LoadSpec,
    /// Length of each file, bytes, by name (SHA-256 and extension).
    pub files: BTreeMap<String, u64>,
}

/// The result of an agent's shard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShardReport {
    /// The record of the agent's load generator. Its timestamps come from the agent's clock.
    pub record: LoadRecord,
    /// The process of the load generator.
    pub part: Part,
    /// Resources of the load generator in the sustained phase; `None` if nothing was sampled.
    pub usage: Option<Usage>,
    /// Resources of the agent's host in the sustained phase.
    pub host: Option<HostUsage>,
    /// Host noise on the agent's host in the sustained phase: stolen CPU time, and CPU time of processes that do not
    /// belong to the agent.
    pub others: Option<HostShare>,
}

/// The processes of a part on an agent's host, which the agent samples. Exactly one of `program`, `pid`, `group` and
/// `containers` is set, and selects the processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// Name of the part in the report.
    pub part: String,
    /// Selects the processes of the program with this name.
    pub program: Option<String>,
    /// Selects the process with this ID, and its descendants.
    pub pid: Option<i32>,
    /// Selects the processes in this cgroup.
    pub group: Option<PathBuf>,
    /// Selects the processes in the containers with these IDs.
    #[serde(default)]
    pub containers: Vec<String>,
    /// CPU limit of the processes, cores; `None` if it is unknown.
    pub limit_cpus: Option<f64>,
}

/// An upstream that an agent starts: `weir origin`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Serving {
    /// Name of the part in the report.
    pub part: String,
    /// Arguments of `weir origin`, without address and certificate.
    pub arguments: Vec<String>,
    /// Certificate and key for TLS, PEM; `None` serves plain HTTP.
    pub certificate: Option<[String; 2]>,
    /// CPU limit in cores; `None` is unlimited.
    pub limit_cpus: Option<f64>,
    /// Memory limit in bytes; `None` is unlimited.
    pub limit_memory_bytes: Option<u64>,
}

/// An upstream that an agent started. It may not listen yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Served {
    /// The address of the upstream: the IP address from which the agent connects to the coordinator, and a free port.
    pub address: SocketAddr,
    /// The process of the upstream, for the results.
    pub part: Part,
    /// The process ID of the upstream, for sampling.
    pub pid: i32,
}

/// Times of a load, nanoseconds by the monotonic clock of one host.
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
    /// Resources of the processes in the sustained phase; `None` if the samples do not cover it.
    pub usage: Option<Usage>,
    /// Resources of the processes in each second of the load.
    pub seconds: Vec<UsageSecond>,
    /// Resources of the agent's host in the sustained phase.
    pub host: Option<HostUsage>,
}

/// Why a load, a sampling, or the start of an upstream failed on an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentFailure {
    /// The cause in one word, such as `generator`, `lost`, `late` or `disk-full`.
    pub cause: String,
    /// What happened.
    pub message: String,
    /// What the user can do; empty if unknown.
    pub remedy: String,
    /// The end of the load generator's log; empty without one.
    pub log_tail: String,
}

impl AgentFailure {
    /// A failure without a log.
    pub fn new(cause: &str, message: impl Into<String>, remedy: &str) -> Self {
        let (cause, remedy) = (cause.to_owned(), remedy.to_owned());
        Self { cause, message: message.into(), remedy, log_tail: String::new() }
    }
}
