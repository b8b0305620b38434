//! A cell: one gateway (or no gateway, the direct baseline) with one value of each axis, in one repeat.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    ColdStart, CpuSeconds, Event, FaultEvent, Judgement, LoadRecord, RouteChange, SlowClients, Trial,
};

/// Gateway name of the direct baseline.
pub const DIRECT: &str = "direct";

/// Gateway name of a second, identical direct cell. A difference between the two shows the measurement error of the rig
/// itself.
pub const DIRECT_TWIN: &str = "direct-twin";

/// Gateway name of the positive control: a gateway with known extra CPU time and delay.
pub const CONTROL: &str = "control";

/// Whether `gateway` is [`DIRECT`] or [`DIRECT_TWIN`].
pub fn is_baseline(gateway: &str) -> bool {
    gateway == DIRECT || gateway == DIRECT_TWIN
}

/// Value of [`Part::limited_by`] for a gateway that weir does not run.
pub const ELSEWHERE: &str = "elsewhere";

/// Identifies a cell within its run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellKey {
    /// Index in the shuffled order of the run, from 0.
    pub index: u32,
    /// The gateway's name in the scenario, or `direct`, `direct-twin` or `control`.
    pub gateway: String,
    /// Axis values by their path in the scenario (`limits.data.cpus` -> `0.5`); empty if the scenario has neither
    /// `vary` nor `cases`.
    pub axes: BTreeMap<String, serde_json::Value>,
    /// Repeat, from 0.
    pub repeat: u32,
}

/// A finished cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// The key, which identifies the cell within the run.
    pub key: CellKey,
    /// Start, milliseconds since the Unix epoch.
    pub started_unix_ms: u64,
    /// End, milliseconds since the Unix epoch.
    pub ended_unix_ms: u64,
    /// The measurements, or why the cell failed.
    pub outcome: CellOutcome,
    /// The processes of the cell as they were launched.
    pub parts: Vec<Part>,
    /// Settings in which this gateway differs from the other gateways, as its driver declares them.
    pub unequal: Vec<String>,
    /// Configuration files and logs of the cell's processes: at most 16 of each kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<KeptFile>,
    /// Highest number of attempts among the cell's loads. weir repeats a load after host noise or late sends, and keeps
    /// the attempt with the least interference. Missing means 1.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub attempts: u32,
    /// Time, CPU time and memory of the gateway's start, if the scenario measures it (`cold_start`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold_start: Option<ColdStart>,
}

fn once() -> u32 {
    1
}

fn is_once(attempts: &u32) -> bool {
    *attempts == once()
}

/// A file of a cell. weir stores only a part of a long file, because a run has hundreds of cells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeptFile {
    /// Path in the folder of the cell, such as `gateway/nginx.conf`.
    pub name: String,
    /// Kind of the file.
    pub kind: FileKind,
    /// Length of the whole file, bytes.
    pub bytes: u64,
    /// The first 32 KiB of a configuration, or the last 4 KiB of a log.
    pub text: String,
}

/// Kind of a kept file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FileKind {
    /// Configuration that a driver rendered.
    Configuration,
    /// Standard output and standard error of a process.
    Log,
}

/// Result of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum CellOutcome {
    /// Every load of the scenario ran.
    Measured {
        /// One measurement per load, in the scenario's order. A search has one per trial.
        measurements: Vec<Measurement>,
    },
    /// The cell failed. The run continued with the next cell.
    Failed {
        /// One of `port-taken`, `binary-missing`, `died`, `never-ready`, `out-of-memory`, `disk-full`, `service`,
        /// `generator`, `render`, `launch`.
        cause: String,
        /// What failed, and where.
        message: String,
        /// How the user can fix the problem.
        remedy: String,
        /// The end of the log of the process that failed.
        log_tail: String,
    },
}

/// The last non-empty line of a log.
pub fn last_words(log_tail: &str) -> Option<&str> {
    log_tail.lines().map(str::trim).rfind(|line| !line.is_empty())
}

/// The role of a process in the rig. Resource limits are set per role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The gateway's data plane.
    Data,
    /// The gateway's control plane.
    Control,
    /// The upstream.
    Origin,
    /// The load generator.
    Generator,
    /// A program that the gateway needs, such as a message bus.
    Service,
}

/// A process of the rig, together with its children.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// Name, unique in the cell, such as `nginx`, `origin` or `generator`.
    pub name: String,
    /// Role of the process in the rig.
    pub role: Role,
    /// Version that the program's version command prints; for weir's own parts, the version of weir.
    pub version: String,
    /// Path of the binary; in a container, its path in the image.
    pub binary: String,
    /// SHA-256 of the binary, or of the image that contains it, hexadecimal.
    pub binary_sha256: String,
    /// SHA-256 of the rendered configuration files, hexadecimal. The files contain values such as ports and paths, so
    /// the hash can differ between runs.
    pub config_sha256: Option<String>,
    /// The command line that started the process.
    pub command: Vec<String>,
    /// CPU limit in cores; `None` means unlimited.
    pub limit_cpus: Option<f64>,
    /// Memory limit in bytes; `None` means unlimited.
    pub limit_memory_bytes: Option<u64>,
    /// Whether all limits were applied; true if there are none.
    pub limits_applied: bool,
    /// How the limits were applied: `cgroup-v1`, `cgroup-v2`, `affinity` or `none`. For a gateway that weir does not
    /// run, the value is `elsewhere`, and a limit that is `None` is unknown.
    pub limited_by: String,
    /// The image of the container; absent for a process that runs on the host itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<PartImage>,
}

/// The image of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PartImage {
    /// Name of the image in the scenario or driver, such as `nginx:1.29`.
    pub name: String,
    /// Id in the container engine, such as `sha256:..`.
    pub id: String,
    /// Digest in the registry, such as `sha256:..`; absent for an image that was built or imported on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The container engine with its version, such as `docker 28.2.2`.
    pub engine: String,
}

impl Part {
    /// Whether this is a gateway that weir does not run.
    pub fn is_elsewhere(&self) -> bool {
        self.limited_by == ELSEWHERE
    }
}

/// The measurement of one load in a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measurement {
    /// Name of the load in the scenario, such as `full` or `tail`.
    pub load: String,
    /// Number of connections that the load generator holds.
    pub connections: u32,
    /// Offered rate; `None` in closed loop.
    pub rate_per_s: Option<f64>,
    /// What the load generator recorded.
    pub record: LoadRecord,
    /// Resources that each part used in the sustained phase, by the part's name.
    pub usage: BTreeMap<String, Usage>,
    /// Number of requests, as counted by generator, gateway and upstream.
    pub counters: Counters,
    /// Shares of the host's CPU time in the sustained phase: steal, other processes, idle.
    pub host: HostShare,
    /// Busy time of each core of the host, TCP retransmissions and the busiest other processes, in the sustained phase;
    /// `None` if weir did not sample them.
    #[serde(default)]
    pub host_usage: Option<HostUsage>,
    /// The bottleneck, and which values are valid.
    pub judgement: Judgement,
    /// CPU time of all processes of the data plane divided by completed requests, microseconds; `None` for direct cells
    /// or without samples.
    pub cpu_us_per_request: Option<f64>,
    /// Samples of all parts, averaged over each second.
    pub series: Vec<UsageSecond>,
    /// Changes of the gateway's configuration under load, in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub route_changes: Vec<RouteChange>,
    /// Faults that weir injected under load into the upstream, services or pods, in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultEvent>,
    /// Slow clients next to the load; `None` if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow: Option<SlowClients>,
    /// Events under load, in order of time, such as bursts of silent connections. Configuration changes, faults and
    /// slow clients are not included. Each kind of event has its own details.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// The trial of a search that this measurement belongs to; `None` for a load point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
}

/// Resources that a part used in the sustained phase, as accounted by the kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// CPU time in user and system mode, seconds.
    pub cpu_s: CpuSeconds,
    /// Whether only the sum of user and system time is known. `cpu_s.user` then has the sum.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cpu_is_unsplit: bool,
    /// Cores used: CPU time divided by wall time.
    pub cpu_cores: f64,
    /// Cores used divided by the CPU limit; `None` without a limit.
    pub cpu_share_of_limit: Option<f64>,
    /// Time in which the CPU quota throttled the part, seconds.
    pub throttled_s: Option<f64>,
    /// Number of quota periods in the sustained phase.
    pub periods: Option<u64>,
    /// Number of quota periods in which the part was throttled.
    pub periods_throttled: Option<u64>,
    /// Mean memory in the sustained phase, without the page cache, bytes.
    pub memory_bytes_mean: Option<u64>,
    /// Maximum of the memory samples in the sustained phase, without the page cache, bytes.
    pub memory_bytes_peak: Option<u64>,
    /// Maximum number of threads.
    pub threads_max: Option<u64>,
    /// Maximum number of processes.
    pub pids_max: Option<u64>,
    /// Maximum number of open files.
    pub open_files_max: Option<u64>,
    /// Maximum number of open sockets.
    #[serde(default)]
    pub sockets_max: Option<u64>,
    /// Traffic of the part's own network interface; `None` if it uses the host's loopback.
    #[serde(default)]
    pub network: Option<NetworkUsage>,
    /// Bytes read from block devices, without page cache hits.
    #[serde(default)]
    pub block_read_bytes: Option<u64>,
    /// Bytes written to block devices.
    #[serde(default)]
    pub block_written_bytes: Option<u64>,
    /// Voluntary context switches of the part's threads: a thread blocked, for example on I/O or a lock.
    #[serde(default)]
    pub switches_voluntary: Option<u64>,
    /// Involuntary context switches of the part's threads: the kernel preempted them.
    #[serde(default)]
    pub switches_involuntary: Option<u64>,
    /// Run-queue delay: time in which the part's threads were ready and waited for a CPU, summed over all threads,
    /// seconds. It includes throttling by the quota. `None` if the kernel does not report it.
    #[serde(default)]
    pub runqueue_s: Option<f64>,
}

/// Network traffic of a part during the phase, counted in the part's network namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkUsage {
    /// Bytes received, including Ethernet headers.
    pub received_bytes: u64,
    /// Bytes sent, including Ethernet headers.
    pub sent_bytes: u64,
    /// Packets received. With segmentation offload a packet may be larger than the interface's MTU.
    pub received_packets: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Retransmitted TCP segments; `None` if the source, such as cAdvisor, does not report them.
    #[serde(default)]
    pub retransmitted_segments: Option<u64>,
}

impl std::ops::Add for NetworkUsage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            received_bytes: self.received_bytes + other.received_bytes,
            sent_bytes: self.sent_bytes + other.sent_bytes,
            received_packets: self.received_packets + other.received_packets,
            sent_packets: self.sent_packets + other.sent_packets,
            retransmitted_segments: self
                .retransmitted_segments
                .zip(other.retransmitted_segments)
                .map(|(own, others)| own + others),
        }
    }
}

/// Requests as counted by generator, gateway and upstream during the whole load, including warm-up and drain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counters {
    /// Requests that the generator sent.
    pub generator_sent: u64,
    /// Sent requests that may not have arrived: their connection broke, or they timed out.
    pub generator_uncertain: u64,
    /// Requests that the gateway received, according to its own counter; `None` in direct cells, or if it has no
    /// counter.
    pub gateway_requests: Option<u64>,
    /// Requests that the upstream received, according to its own counter.
    pub origin_requests: Option<u64>,
    /// Mean delay that the upstream added, according to its own measurement, nanoseconds; `None` without a configured
    /// delay.
    #[serde(default)]
    pub origin_delay_ns_mean: Option<u64>,
    /// All requests that the upstream received, by kind: requests of clients, and requests that the gateway itself
    /// made. Empty if the upstream does not count kinds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub origin_by_kind: BTreeMap<String, u64>,
}

/// Shares of the CPU time of all cores of the host during a phase, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostShare {
    /// Share of CPU time that the hypervisor stole.
    pub steal: f64,
    /// Share of CPU time that processes outside the rig used.
    pub others: f64,
    /// Share of idle time.
    pub idle: f64,
}

impl HostShare {
    /// Host noise as a share of CPU time: steal plus processes outside the rig.
    pub fn taken(&self) -> f64 {
        self.steal + self.others
    }
}

/// Busy time of each core of the host, TCP retransmissions and the busiest other processes, in the sustained phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostUsage {
    /// Share of the time in which a core was neither idle nor stolen, 0 to 1: one value per core, in the order of
    /// cores.
    pub core_busy_shares: Vec<f64>,
    /// Retransmitted TCP segments in the host's network namespace. For parts with a network namespace of their own, see
    /// `usage.NAME.network`.
    pub retransmitted_segments: Option<u64>,
    /// The three processes outside the rig that used most CPU time, busiest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub busiest: Vec<HostProcess>,
}

/// A process outside the rig. weir stores neither the arguments nor the user of the process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostProcess {
    /// Name of the process, at most 15 bytes; control characters are replaced.
    pub name: String,
    /// Process id, as seen in the PID namespace of weir.
    pub pid: u32,
    /// Cores used by the process, and by its children that exited during the load.
    pub cores: f64,
}

/// Samples of one second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UsageSecond {
    /// Start of the second, in seconds since the start of the warm-up.
    pub t_s: f64,
    /// Cores used, by part.
    pub cpu_cores: BTreeMap<String, f64>,
    /// Memory in bytes without page cache, by part.
    pub memory_bytes: BTreeMap<String, u64>,
}
