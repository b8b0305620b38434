//! A cell: one gateway (or none, the direct baseline) at one point of the axes, in one repeat.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    ColdStart, CpuSeconds, Event, FaultEvent, Judgement, LoadRecord, RouteChange, SlowClients, Trial,
};

/// Name of the direct baseline where a gateway's name stands.
pub const DIRECT: &str = "direct";

/// Name of a second direct cell, alike in all: how far it is apart from the first is the rig's own doing.
pub const DIRECT_TWIN: &str = "direct-twin";

/// Name of the positive control: a gateway once more, which uses more CPU time and answers later, by known amounts.
pub const CONTROL: &str = "control";

/// Whether `gateway` is no gateway, but the direct baseline or its twin.
pub fn is_baseline(gateway: &str) -> bool {
    gateway == DIRECT || gateway == DIRECT_TWIN
}

/// What stands in [`Part::limited_by`] for a gateway that weir does not run.
pub const ELSEWHERE: &str = "elsewhere";

/// What identifies a cell within its run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellKey {
    /// Place in the shuffled order, from 0.
    pub index: u32,
    /// The gateway's name in the scenario, or `direct`, `direct-twin` or `control`.
    pub gateway: String,
    /// Values of the axes by their path in the scenario (`limits.data.cpus` -> `0.5`); empty without `vary` and `cases`.
    pub axes: BTreeMap<String, serde_json::Value>,
    /// Repeat, from 0.
    pub repeat: u32,
}

/// A finished cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// Which cell.
    pub key: CellKey,
    /// Start, milliseconds since the Unix epoch.
    pub started_unix_ms: u64,
    /// End, milliseconds since the Unix epoch.
    pub ended_unix_ms: u64,
    /// What came of it.
    pub outcome: CellOutcome,
    /// The processes of the cell as they were launched.
    pub parts: Vec<Part>,
    /// What could not be made equal for this gateway, from its driver.
    pub unequal: Vec<String>,
    /// What its processes were given to read and what they wrote, as far as it is kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<KeptFile>,
    /// How often its loads were measured at the most, because the host disturbed one or its generator sent late; these
    /// are the least spoiled attempts.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub attempts: u32,
    /// How the gateway started; only where the scenario asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold_start: Option<ColdStart>,
}

fn once() -> u32 {
    1
}

fn is_once(attempts: &u32) -> bool {
    *attempts == once()
}

/// A file of a cell, or a part of it: cells are kept by the hundred.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeptFile {
    /// Its path in the folder of the cell (`gateway/nginx.conf`).
    pub name: String,
    /// What it is.
    pub kind: FileKind,
    /// Length of the whole file, bytes.
    pub bytes: u64,
    /// The beginning of a configuration, the end of a log.
    pub text: String,
}

/// What a kept file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FileKind {
    /// Configuration, as a driver rendered it.
    Configuration,
    /// What a process wrote to its standard output and standard error.
    Log,
}

/// What came of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum CellOutcome {
    /// Every load of the scenario ran.
    Measured {
        /// One per load, in the scenario's order; of a load that is a search, one per trial.
        measurements: Vec<Measurement>,
    },
    /// The cell could not be measured; the run went on.
    Failed {
        /// A closed list: `port-taken`, `binary-missing`, `died`, `never-ready`, `out-of-memory`, `disk-full`, `service`, `generator`,
        /// `render`, `launch`.
        cause: String,
        /// What happened, with the place.
        message: String,
        /// What to do about it.
        remedy: String,
        /// The end of the log of the part at fault.
        log_tail: String,
    },
}

/// The last line of a log's end that says something.
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
    /// What the gateway needs, such as a message bus.
    Service,
}

/// A process (with its children) of the rig.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// Its name, unique in the cell (`nginx`, `origin`, `generator`).
    pub name: String,
    /// Its role.
    pub role: Role,
    /// What its version command printed, or weir's version for weir's own parts.
    pub version: String,
    /// The binary; in a container, its path in the image.
    pub binary: String,
    /// SHA-256 of the binary, or of the image that contains it, hexadecimal.
    pub binary_sha256: String,
    /// SHA-256 over the rendered configuration files with run-specific values (ports, paths) as they were, hexadecimal.
    pub config_sha256: Option<String>,
    /// The command line.
    pub command: Vec<String>,
    /// CPU limit in cores; `None` is unlimited.
    pub limit_cpus: Option<f64>,
    /// Memory limit in bytes; `None` is unlimited.
    pub limit_memory_bytes: Option<u64>,
    /// Whether the limits were applied (true where none was asked).
    pub limits_applied: bool,
    /// How limits were applied: `cgroup-v1`, `cgroup-v2`, `affinity` or `none`; `elsewhere` for a gateway that weir
    /// does not run, of which a limit that nobody told is not known.
    pub limited_by: String,
    /// The image of the container that it ran in; absent for a process of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<PartImage>,
}

/// The image of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PartImage {
    /// Its name in the scenario or driver (`nginx:1.29`).
    pub name: String,
    /// The hash by which the engine knows it (`sha256:..`).
    pub id: String,
    /// Its digest in the registry (`sha256:..`); absent for an image that was built or imported on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The engine that ran it, with its version (`docker 28.2.2`).
    pub engine: String,
}

impl Part {
    /// Whether it is a gateway that weir does not run.
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
    /// Asked rate (open loop only).
    pub rate_per_s: Option<f64>,
    /// The generator's record.
    pub record: LoadRecord,
    /// Resources per part over the sustained phase, by the part's name.
    pub usage: BTreeMap<String, Usage>,
    /// Who counted how many requests.
    pub counters: Counters,
    /// What others did to the host over the sustained phase.
    pub host: HostShare,
    /// What each core and TCP did over the sustained phase; `None` where that was not sampled.
    #[serde(default)]
    pub host_usage: Option<HostUsage>,
    /// What bounds it and what the figures are worth.
    pub judgement: Judgement,
    /// CPU time of all data parts per completed request, microseconds; `None` for direct cells or without samples.
    pub cpu_us_per_request: Option<f64>,
    /// Samples of every part, averaged per second; `t_s` as in the record's seconds.
    pub series: Vec<UsageSecond>,
    /// Changes of the gateway's routes while the load ran, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub route_changes: Vec<RouteChange>,
    /// What was done to servers of the upstream and to services while the load ran, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultEvent>,
    /// Clients that took their time beside the load; `None` where there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow: Option<SlowClients>,
    /// What further disturbances did while the load ran, in the order of time; each kind has its own details.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// Where the load is a search, which of its trials this is; a trial is no load point of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
}

/// Resources of a part over a phase, from the kernel's accounting.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// CPU time.
    pub cpu_s: CpuSeconds,
    /// Whether user and system time were not told apart; then all of it stands under `user`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cpu_is_unsplit: bool,
    /// Cores used: CPU time over wall time.
    pub cpu_cores: f64,
    /// Cores used over the limit; `None` without a limit.
    pub cpu_share_of_limit: Option<f64>,
    /// Time throttled by the quota.
    pub throttled_s: Option<f64>,
    /// Quota periods in the phase.
    pub periods: Option<u64>,
    /// Quota periods in which it was throttled.
    pub periods_throttled: Option<u64>,
    /// Memory without the page cache of files, mean over the phase, bytes.
    pub memory_bytes_mean: Option<u64>,
    /// The greatest such sampled in the phase, bytes.
    pub memory_bytes_peak: Option<u64>,
    /// Greatest number of threads.
    pub threads_max: Option<u64>,
    /// Greatest number of processes.
    pub pids_max: Option<u64>,
    /// Greatest number of open files.
    pub open_files_max: Option<u64>,
    /// Greatest number of open sockets.
    #[serde(default)]
    pub sockets_max: Option<u64>,
    /// What went over the part's own network interface; `None` where it shares the host's loopback.
    #[serde(default)]
    pub network: Option<NetworkUsage>,
    /// Bytes read from block devices, without what the page cache answered.
    #[serde(default)]
    pub block_read_bytes: Option<u64>,
    /// Bytes written to block devices.
    #[serde(default)]
    pub block_written_bytes: Option<u64>,
    /// How often its threads gave the processor up by themselves (to wait).
    #[serde(default)]
    pub switches_voluntary: Option<u64>,
    /// How often the kernel took the processor from its threads.
    #[serde(default)]
    pub switches_involuntary: Option<u64>,
    /// Run-queue delay: time in which its threads were ready and waited for a CPU, over all threads. It includes
    /// pauses by the quota. `None` if the kernel does not show it.
    #[serde(default)]
    pub runqueue_s: Option<f64>,
}

/// What went over the interface of a part's network namespace in a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkUsage {
    /// Bytes received, with their Ethernet heads.
    pub received_bytes: u64,
    /// Bytes sent, with their Ethernet heads.
    pub sent_bytes: u64,
    /// Packets received. With segmentation offload a packet may be larger than the interface's MTU.
    pub received_packets: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// TCP segments sent again.
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

/// Requests as counted by each side over the whole load (warm-up and drain included).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counters {
    /// Requests the generator sent.
    pub generator_sent: u64,
    /// Of these, requests of which nobody can say whether they arrived (their connection broke, or they timed out).
    pub generator_uncertain: u64,
    /// Requests the gateway says it received; `None` in direct cells or where it has no counter.
    pub gateway_requests: Option<u64>,
    /// Requests the origin says it received.
    pub origin_requests: Option<u64>,
    /// The delay that the origin says it gave in the mean; `None` where it was told to give none.
    #[serde(default)]
    pub origin_delay_ns_mean: Option<u64>,
    /// All requests that the origin received, by kind, where it counts kinds: those of clients, and those that the gateway
    /// made of its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub origin_by_kind: BTreeMap<String, u64>,
}

/// Share of the host's CPU that went elsewhere, over the phase; of all cores, 0..=1.
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
    /// What went elsewhere: stolen, or used by processes outside the rig.
    pub fn taken(&self) -> f64 {
        self.steal + self.others
    }
}

/// Use of cores and TCP of the host over a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostUsage {
    /// Of each core, in their order: the share of the time in which it was neither idle nor stolen, 0..=1.
    pub core_busy_shares: Vec<f64>,
    /// TCP segments that were retransmitted in the host's network namespace. Parts in a network namespace of their own
    /// count theirs in `usage`.
    pub retransmitted_segments: Option<u64>,
    /// The three processes outside the rig that used the most CPU time, the busiest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub busiest: Vec<HostProcess>,
}

/// A process outside the rig, as the kernel names it: neither its arguments nor its user are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostProcess {
    /// Its name, at most 15 bytes; what a terminal would obey is replaced.
    pub name: String,
    /// Its process id, as it is seen from where weir ran.
    pub pid: u32,
    /// Cores used by the process, and by its children that ended during the load.
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
