//! Shards of a load that several machines generate: the record of each shard, and the row that is stored for it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    CpuSeconds, Errors, GeneratorEvidence, Histogram, HostProcess, HostShare, LoadRecord, Requests, TimesNs,
    Verdicts,
};

mod merge;

pub use merge::{MergeError, merge};

/// Distributions that weir needs to merge the shards of a load, because quantiles cannot be added. After the merge,
/// weir removes them from the record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Distributions {
    /// Service time; only in the record of a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_time: Option<Histogram>,
    /// Lateness. Set only for a step of an open loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Histogram>,
    /// Time that requests waited for a free connection; `None` in closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_wait: Option<Histogram>,
    /// Duration of TLS handshakes of connections that were opened before the load; `None` if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshakes_before: Option<Histogram>,
    /// Duration of TLS handshakes of connections that were opened under load; `None` if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshakes_under_load: Option<Histogram>,
}

impl Distributions {
    /// All histograms that are present, with their names.
    pub(crate) fn by_name(&self) -> impl Iterator<Item = (&'static str, &Histogram)> {
        // The pattern has no `..`, so that the compiler reports a new field.
        let Self { service_time, lateness, connection_wait, handshakes_before, handshakes_under_load } = self;
        let all = [
            ("the service time histogram of a step", service_time),
            ("the lateness histogram of a step", lateness),
            ("the histogram of waits for a connection", connection_wait),
            ("the histogram of TLS handshakes before the load", handshakes_before),
            ("the histogram of TLS handshakes under load", handshakes_under_load),
        ];
        all.into_iter().filter_map(|(name, histogram)| Some((name, histogram.as_ref()?)))
    }
}

/// The record of one shard, with data that the coordinator adds. All shards of a load have the same `planned_start_ns`
/// and `lengths_differ`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShardRecord {
    /// Name of the agent that ran the shard; unique within the load.
    pub agent: String,
    /// `CLOCK_MONOTONIC` of the coordinator minus `CLOCK_MONOTONIC` of the agent, nanoseconds. It aligns seconds and
    /// CPU samples; no latency depends on it.
    pub clock_offset_ns: i64,
    /// Maximum error of `clock_offset_ns`, nanoseconds.
    pub clock_bound_ns: u64,
    /// When the load should start, on the coordinator's clock, nanoseconds.
    pub planned_start_ns: u64,
    /// Whether the shards may have different durations, because the load ends after a number of requests or was stopped
    /// early.
    pub lengths_differ: bool,
    /// The machine where the agent runs; `None` if it is unknown.
    pub machine: Option<AgentMachine>,
    /// What the agent recorded.
    pub record: LoadRecord,
}

/// The machine where an agent runs, and the CPU use of the machine in the sustained phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentMachine {
    /// Boot ID of the kernel: agents with the same boot ID run on the same machine.
    pub boot_id: String,
    /// Whether the coordinator runs on this machine. If so, the coordinator samples the machine itself, and `share` is
    /// `None`.
    pub is_here: bool,
    /// Number of cores that all agents on this machine share: its logical CPUs. On the host of the coordinator, it is
    /// at most the CPU quota of the agents that weir started there.
    pub cores: f64,
    /// Shares of the machine's CPU time: steal, processes outside the run, idle; `None` if the agent did not sample
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<HostShare>,
    /// The processes outside the agent that used the most CPU time, busiest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub busiest: Vec<HostProcess>,
}

/// The results of one shard of a load, in the sustained phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShardResult {
    /// Name of the agent that ran the shard.
    pub agent: String,
    /// Actual start of the shard's load minus the planned start, on the coordinator's clock, nanoseconds.
    pub start_offset_ns: i64,
    /// Maximum error of `start_offset_ns`, nanoseconds. The clocks can be compared only approximately.
    #[serde(default)]
    pub clock_bound_ns: u64,
    /// Request counts of the shard in the sustained phase.
    pub requests: Requests,
    /// Request counts of the shard during the whole load, including warm-up and drain; all 0 in older records.
    #[serde(default)]
    pub whole: Requests,
    /// Complete responses within the sustained phase, per second.
    pub rate_per_s: f64,
    /// Latency of the shard's requests, measured as in `result.latency_ns`.
    pub latency_ns: TimesNs,
    /// Lateness of the shard's requests, measured as in `result.lateness_ns`; `None` in closed loop.
    pub lateness_ns: Option<TimesNs>,
    /// Failures by cause.
    pub errors: Errors,
    /// CPU time of the shard's process.
    pub cpu_s: CpuSeconds,
    /// For each metric, the reasons why its values are not *valid*; an empty list if there are none. The load generator
    /// has no data about the gateway, so reasons about the gateway are missing here.
    pub verdicts: Verdicts,
    /// Measurements about the load generator of the shard: workers, their CPU time, unsent requests.
    pub generator: GeneratorEvidence,
    /// The machine where the agent runs; `None` in older records, or if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<AgentMachine>,
}

impl ShardResult {
    /// Makes the row for the `record` of an agent.
    pub fn of(agent: &str, record: &LoadRecord, start_offset_ns: i64, clock_bound_ns: u64) -> Self {
        let LoadRecord { result, whole, generator, .. } = record;
        Self {
            agent: agent.to_owned(),
            start_offset_ns,
            clock_bound_ns,
            requests: result.requests,
            whole: *whole,
            rate_per_s: result.rate_per_s,
            latency_ns: result.latency_ns,
            lateness_ns: result.lateness_ns,
            errors: result.errors,
            cpu_s: result.cpu_s,
            verdicts: result.verdicts.clone(),
            generator: generator.clone(),
            machine: None,
        }
    }
}
