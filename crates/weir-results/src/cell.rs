//! A cell: one gateway (or none, the direct baseline) at one point of the axes, in one repeat.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    ColdStart, CpuSeconds, Event, FaultEvent, Judgement, LoadRecord, RouteChange, SlowClients, Trial,
};

/// Gateway name of the direct baseline.
pub const DIRECT: &str = "direct";

/// Gateway name of a second, identical direct cell. Its difference from the first is an error of the rig itself.
pub const DIRECT_TWIN: &str = "direct-twin";

/// Gateway name of the positive control: a gateway with known extra CPU time and delay.
pub const CONTROL: &str = "control";

/// Whether `gateway` is the direct baseline or its twin.
pub fn is_baseline(gateway: &str) -> bool {
    gateway == DIRECT || gateway == DIRECT_TWIN
}

/// [`Part::limited_by`] of a gateway that weir does not run.
pub const ELSEWHERE: &str = "elsewhere";

/// The key of a cell within its run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellKey {
    /// Index in the shuffled order, from 0.
    pub index: u32,
    /// The gateway's name in the scenario, or `direct`, `direct-twin` or `control`.
    pub gateway: String,
    /// Axis values by path in the scenario (`limits.data.cpus` -> `0.5`); empty without `vary` and `cases`.
    pub axes: BTreeMap<String, serde_json::Value>,
    /// Repeat, from 0.
    pub repeat: u32,
}

/// A finished cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// The key.
    pub key: CellKey,
    /// Start, milliseconds since the Unix epoch.
    pub started_unix_ms: u64,
    /// End, milliseconds since the Unix epoch.
    pub ended_unix_ms: u64,
    /// The result.
    pub outcome: CellOutcome,
    /// The processes of the cell as they were launched.
    pub parts: Vec<Part>,
    /// Settings that differ from the other gateways, from the driver.
    pub unequal: Vec<String>,
    /// Files that its processes read and wrote, as far as weir keeps them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<KeptFile>,
    /// Maximum number of attempts over its loads. weir repeats a load after host noise or late sends, and keeps the
    /// attempt with the least disturbance.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub attempts: u32,
    /// Start of the gateway, if the scenario measures it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold_start: Option<ColdStart>,
}

fn once() -> u32 {
    1
}

fn is_once(attempts: &u32) -> bool {
    *attempts == once()
}

/// A file of a cell, truncated because a run has hundreds of cells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeptFile {
    /// Path in the folder of the cell (`gateway/nginx.conf`).
    pub name: String,
    /// Kind of the file.
    pub kind: FileKind,
    /// Length of the whole file, bytes.
    pub bytes: u64,
    /// The start of a configuration, or the end of a log.
    pub text: String,
}

/// Kind of a kept file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FileKind {
    /// Configuration, rendered by a driver.
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
        /// One per load, in the scenario's order; one per trial for a search.
        measurements: Vec<Measurement>,
    },
    /// The cell failed; the run continued.
    Failed {
        /// A closed list: `port-taken`, `binary-missing`, `died`, `never-ready`, `out-of-memory`, `disk-full`,
        /// `service`, `generator`, `render`, `launch`.
        cause: String,
        /// What failed, and where.
        message: String,
        /// What to do about it.
        remedy: String,
        /// The end of the log of the part that failed.
        log_tail: String,
    },
}

/// The last non-empty line of a log.
pub fn last_words(log_tail: &str) -> Option<&str> {
    log_tail.lines().map(str::trim).rfind(|line| !line.is_empty())
}

/// A role in the rig. Limits are given by role.
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

/// A process (with its children) of the rig.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// Name, unique in the cell (`nginx`, `origin`, `generator`).
    pub name: String,
    /// Its role.
    pub role: Role,
    /// Output of its version command, or weir's version for weir's own parts.
    pub version: String,
    /// The binary; in a container, its path in the image.
    pub binary: String,
    /// SHA-256 of the binary, or of the image with the binary, hexadecimal.
    pub binary_sha256: String,
    /// SHA-256 of the rendered configuration files, including run-specific values (ports, paths), hexadecimal.
    pub config_sha256: Option<String>,
    /// The command line.
    pub command: Vec<String>,
    /// CPU limit in cores; `None` is unlimited.
    pub limit_cpus: Option<f64>,
    /// Memory limit in bytes; `None` is unlimited.
    pub limit_memory_bytes: Option<u64>,
    /// Whether the limits were applied; true without limits.
    pub limits_applied: bool,
    /// How the limits were applied: `cgroup-v1`, `cgroup-v2`, `affinity` or `none`. `elsewhere` for a gateway that weir
    /// does not run; an unstated limit is then unknown.
    pub limited_by: String,
    /// The image of its container; absent for a process of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<PartImage>,
}

/// The image of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PartImage {
    /// Name in the scenario or driver (`nginx:1.29`).
    pub name: String,
    /// Id in the container engine (`sha256:..`).
    pub id: String,
    /// Digest in the registry (`sha256:..`); absent for an image that was built or imported on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The container engine with its version (`docker 28.2.2`).
    pub engine: String,
}

impl Part {
    /// Whether weir does not run this gateway.
    pub fn is_elsewhere(&self) -> bool {
        self.limited_by == ELSEWHERE
    }
}

/// One load of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measurement {
    /// The load's name in the scenario (`full`, `tail`).
    pub load: String,
    /// Connections of the generator.
    pub connections: u32,
    /// Offered rate (open loop only).
    pub rate_per_s: Option<f64>,
    /// The generator's record.
    pub record: LoadRecord,
    /// Resources per part over the sustained phase, by the part's name.
    pub usage: BTreeMap<String, Usage>,
    /// Number of requests as counted by each side.
    pub counters: Counters,
    /// CPU time that others took from the host over the sustained phase.
    pub host: HostShare,
    /// Use of cores and TCP over the sustained phase; `None` if it was not sampled.
    #[serde(default)]
    pub host_usage: Option<HostUsage>,
    /// Bottleneck and validity.
    pub judgement: Judgement,
    /// CPU time of all data parts per completed request, microseconds; `None` for direct cells or without samples.
    pub cpu_us_per_request: Option<f64>,
    /// Samples of every part, averaged per second.
    pub series: Vec<UsageSecond>,
    /// Changes of the gateway's configuration under load, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub route_changes: Vec<RouteChange>,
    /// Faults of servers of the upstream and of services under load, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultEvent>,
    /// Slow clients next to the load; `None` if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow: Option<SlowClients>,
    /// Events of other disturbances under load, in order of time. Each kind has its own details.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// The trial, if the load is a search. A trial is not a load point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
}

/// Resources of a part over a phase, from the kernel's accounting.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// CPU time.
    pub cpu_s: CpuSeconds,
    /// Whether user and system time are not known separately; then `user` has the sum.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cpu_is_unsplit: bool,
    /// Cores used: CPU time divided by wall time.
    pub cpu_cores: f64,
    /// Cores used divided by the limit; `None` without a limit.
    pub cpu_share_of_limit: Option<f64>,
    /// Time throttled by the quota.
    pub throttled_s: Option<f64>,
    /// Quota periods in the phase.
    pub periods: Option<u64>,
    /// Throttled quota periods.
    pub periods_throttled: Option<u64>,
    /// Mean memory over the phase without the page cache, bytes.
    pub memory_bytes_mean: Option<u64>,
    /// Maximum sampled memory in the phase without the page cache, bytes.
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
    /// Voluntary context switches of its threads (they waited).
    #[serde(default)]
    pub switches_voluntary: Option<u64>,
    /// Involuntary context switches of its threads.
    #[serde(default)]
    pub switches_involuntary: Option<u64>,
    /// Run-queue delay: time that its threads were ready and waited for a CPU, summed over all threads. It includes
    /// throttling by the quota. `None` if the kernel does not report it.
    #[serde(default)]
    pub runqueue_s: Option<f64>,
}

/// Traffic of a part's network namespace in a phase.
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
    /// Retransmitted TCP segments.
    pub retransmitted_segments: u64,
}

impl std::ops::Add for NetworkUsage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            received_bytes: self.received_bytes + other.received_bytes,
            sent_bytes: self.sent_bytes + other.sent_bytes,
            received_packets: self.received_packets + other.received_packets,
            sent_packets: self.sent_packets + other.sent_packets,
            retransmitted_segments: self.retransmitted_segments + other.retransmitted_segments,
        }
    }
}

/// Requests as counted by each side over the whole load, including warm-up and drain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counters {
    /// Requests that the generator sent.
    pub generator_sent: u64,
    /// Sent requests that may or may not have arrived: their connection broke, or they timed out.
    pub generator_uncertain: u64,
    /// Requests that the gateway received by its own counter; `None` in direct cells or without a counter.
    pub gateway_requests: Option<u64>,
    /// Requests that the origin received by its own counter.
    pub origin_requests: Option<u64>,
    /// Mean delay that the origin added by its own measurement; `None` without a configured delay.
    #[serde(default)]
    pub origin_delay_ns_mean: Option<u64>,
    /// All requests that the origin received, by kind, if it counts kinds: requests of clients, and requests that the
    /// gateway itself made.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub origin_by_kind: BTreeMap<String, u64>,
}

/// Shares of the host's CPU over the phase, of all cores, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostShare {
    /// Stolen by the hypervisor.
    pub steal: f64,
    /// Used by processes outside the rig.
    pub others: f64,
    /// Idle.
    pub idle: f64,
}

impl HostShare {
    /// Share that others took: steal plus processes outside the rig.
    pub fn taken(&self) -> f64 {
        self.steal + self.others
    }
}

/// Use of cores and TCP of the host over a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostUsage {
    /// Per core, in order: share of the time in which it was neither idle nor stolen, 0 to 1.
    pub core_busy_shares: Vec<f64>,
    /// Retransmitted TCP segments in the host's network namespace. `usage` has those of parts with their own network
    /// namespace.
    pub retransmitted_segments: Option<u64>,
    /// The three processes outside the rig with the most CPU time, busiest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub busiest: Vec<HostProcess>,
}

/// A process outside the rig. Its arguments and user are not stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostProcess {
    /// Name, at most 15 bytes; control characters are replaced.
    pub name: String,
    /// Process id in the PID namespace of weir.
    pub pid: u32,
    /// Cores used by the process, and by children that exited during the load.
    pub cores: f64,
}

/// One second of samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UsageSecond {
    /// Start of the second, seconds from the start of the warm-up.
    pub t_s: f64,
    /// Cores used, by part.
    pub cpu_cores: BTreeMap<String, f64>,
    /// Memory in bytes without page cache, by part.
    pub memory_bytes: BTreeMap<String, u64>,
}
