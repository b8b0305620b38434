//! A load that several machines carry together: what each of them hands in, and the row that stays of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    CpuSeconds, Errors, GeneratorEvidence, Histogram, HostProcess, HostShare, LoadRecord, Requests, TimesNs,
    Verdicts,
};

mod merge;

pub use merge::{MergeError, merge};

/// Distributions of which a record keeps quantiles only. Quantiles cannot be added, so the record of a shard carries
/// these too, and [`crate::merge`] takes them out.
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
    /// All that there are, by what they are of.
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

/// The record of one shard, with what its coordinator knows of it. All shards of a load have the same
/// `planned_start_ns` and `lengths_differ`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShardRecord {
    /// Name of the agent that carried the shard; unique within the load.
    pub agent: String,
    /// `CLOCK_MONOTONIC` of the coordinator minus that of the agent, nanoseconds. It aligns seconds and CPU samples;
    /// no latency depends on it.
    pub clock_offset_ns: i64,
    /// How far the true offset can be from it, nanoseconds.
    pub clock_bound_ns: u64,
    /// Planned start of the load on the coordinator's clock, nanoseconds.
    pub planned_start_ns: u64,
    /// Whether shards may last differently long: the load ends by a number of requests, or was ended early.
    pub lengths_differ: bool,
    /// The machine of the agent; `None` if it is unknown.
    pub machine: Option<AgentMachine>,
    /// What the agent measured.
    pub record: LoadRecord,
}

/// The machine of an agent, over the sustained phase of its shard.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentMachine {
    /// The kernel's id of its boot: agents with the same one share a machine.
    pub boot_id: String,
    /// Whether it is the coordinator's, which samples it itself.
    pub is_here: bool,
    /// Cores that its agents share: its logical CPUs, or the quota of those that the run has started on its own host.
    pub cores: f64,
    /// What went to others, without what parts of the run used there; `None` where the agent has not sampled it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<HostShare>,
    /// The busiest processes outside the agent, the busiest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub busiest: Vec<HostProcess>,
}

/// What one shard contributed to a load, all of the sustained phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShardResult {
    /// Name of the agent that carried the shard.
    pub agent: String,
    /// Start of the shard's load minus the planned start, by the coordinator's clock, nanoseconds.
    pub start_offset_ns: i64,
    /// How far the true start can be from that, nanoseconds: the clocks are only compared so closely.
    #[serde(default)]
    pub clock_bound_ns: u64,
    /// The shard's books.
    pub requests: Requests,
    /// The books of the shard's whole load, warm-up and drain included; empty in records of before.
    #[serde(default)]
    pub whole: Requests,
    /// Whole responses within its phase, per second of it.
    pub rate_per_s: f64,
    /// Latency as in [`crate::LoadResult::latency_ns`].
    pub latency_ns: TimesNs,
    /// Lateness as in [`crate::LoadResult::lateness_ns`].
    pub lateness_ns: Option<TimesNs>,
    /// Failures by cause.
    pub errors: Errors,
    /// CPU time of the shard's process.
    pub cpu_s: CpuSeconds,
    /// Reasons per metric, as far as the generator alone can tell.
    pub verdicts: Verdicts,
    /// What the shard's generator knows about itself, for the verdicts: workers, their CPU time, unsent requests.
    pub generator: GeneratorEvidence,
    /// The machine of the agent; `None` in records of before, and if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<AgentMachine>,
}

impl ShardResult {
    /// The row of a shard with this record, from an agent of this name.
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
