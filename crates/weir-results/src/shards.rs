//! A load on several machines: the record of each shard, and the row that is stored for it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    CpuSeconds, Errors, GeneratorEvidence, Histogram, HostProcess, HostShare, LoadRecord, Requests, TimesNs,
    Verdicts,
};

mod merge;

pub use merge::{MergeError, merge};

/// Distributions for which a record has only quantiles. Quantiles cannot be added, so the record of a shard carries
/// these, and [`crate::merge`] removes them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Distributions {
    /// Service time of a step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_time: Option<Histogram>,
    /// Lateness of a step; `None` in closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Histogram>,
    /// Wait for a free connection; `None` in closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_wait: Option<Histogram>,
    /// TLS handshakes of connections that were opened before the load started; `None` if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshakes_before: Option<Histogram>,
    /// TLS handshakes of connections that were opened under load; `None` if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshakes_under_load: Option<Histogram>,
}

impl Distributions {
    /// All present histograms with their names.
    pub(crate) fn by_name(&self) -> impl Iterator<Item = (&'static str, &Histogram)> {
        // Without `..`, so that a new one cannot be forgotten.
        let Self { service_time, lateness, connection_wait, handshakes_before, handshakes_under_load } = self;
        let all = [
            ("service time of a step", service_time),
            ("lateness of a step", lateness),
            ("wait for a connection", connection_wait),
            ("TLS handshakes before the load", handshakes_before),
            ("TLS handshakes under load", handshakes_under_load),
        ];
        all.into_iter().filter_map(|(name, histogram)| Some((name, histogram.as_ref()?)))
    }
}

/// The record of one shard, with data from its coordinator. All shards of a load have the same `planned_start_ns` and
/// `lengths_differ`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShardRecord {
    /// Name of the agent that carried the shard; unique within the load.
    pub agent: String,
    /// `CLOCK_MONOTONIC` of the coordinator minus that of the agent, nanoseconds. It aligns seconds and CPU samples;
    /// no latency depends on it.
    pub clock_offset_ns: i64,
    /// Maximum error of the offset, nanoseconds.
    pub clock_bound_ns: u64,
    /// Planned start of the load on the coordinator's clock, nanoseconds.
    pub planned_start_ns: u64,
    /// Whether the shards may have different durations: the load ends after a number of requests, or was stopped early.
    pub lengths_differ: bool,
    /// The machine of the agent; `None` if it is unknown.
    pub machine: Option<AgentMachine>,
    /// What the agent measured.
    pub record: LoadRecord,
}

/// The machine of an agent, over the sustained phase of its shard.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentMachine {
    /// Boot id of the kernel: agents with the same one share a machine.
    pub boot_id: String,
    /// Whether it is the machine of the coordinator, which samples it itself.
    pub is_here: bool,
    /// Cores shared by its agents: its logical CPUs, or the quota of agents that the run started on its own host.
    pub cores: f64,
    /// CPU time that others took, without parts of the run on this machine; `None` if the agent did not sample it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<HostShare>,
    /// The busiest processes outside the agent, busiest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub busiest: Vec<HostProcess>,
}

/// The part of one shard in a load, over the sustained phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShardResult {
    /// Name of the agent that carried the shard.
    pub agent: String,
    /// Start of the shard's load minus the planned start, on the coordinator's clock, nanoseconds.
    pub start_offset_ns: i64,
    /// Maximum error of that start, from the comparison of the clocks, nanoseconds.
    #[serde(default)]
    pub clock_bound_ns: u64,
    /// Request counts of the shard.
    pub requests: Requests,
    /// Request counts of the shard's whole load, including warm-up and drain; empty in older records.
    #[serde(default)]
    pub whole: Requests,
    /// Whole responses within the phase, per second.
    pub rate_per_s: f64,
    /// Latency as in [`crate::LoadResult::latency_ns`].
    pub latency_ns: TimesNs,
    /// Lateness as in [`crate::LoadResult::lateness_ns`].
    pub lateness_ns: Option<TimesNs>,
    /// Failures by cause.
    pub errors: Errors,
    /// CPU time of the shard's process.
    pub cpu_s: CpuSeconds,
    /// Reasons per metric, as far as the generator alone can determine them.
    pub verdicts: Verdicts,
    /// Measurements of the shard's generator: workers, their CPU time, unsent requests.
    pub generator: GeneratorEvidence,
    /// The machine of the agent; `None` in older records, or if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<AgentMachine>,
}

impl ShardResult {
    /// The row for this record of an agent.
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
