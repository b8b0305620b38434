//! The input of [`crate::judge`].

use weir_results::{Ceiling, Counters, HostProcess, HostShare, LoadRecord, Usage};

/// Everything observed about one load of a cell. `None` means not observed; rules that need such a value are skipped.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// What the load generator recorded about the load.
    pub record: &'a LoadRecord,
    /// Resource use of the gateway's data plane, summed over its parts; `None` in direct cells.
    pub data: Option<&'a Usage>,
    /// Resource use of the upstream.
    pub origin: Option<&'a Usage>,
    /// Resource use of the load generator.
    pub generator: Option<&'a Usage>,
    /// Numbers of requests that the generator, the gateway and the upstream counted.
    pub counters: Option<&'a Counters>,
    /// Shares of the host's CPU time in the phase: stolen, used by processes outside the rig, and idle.
    pub host: Option<&'a HostShare>,
    /// Logical CPUs of the host; 0 if unknown.
    pub host_cores: u32,
    /// The processes outside the rig that used the most CPU.
    pub busiest: &'a [HostProcess],
    /// Whether every CPU and memory limit of the scenario was applied.
    pub limits_applied: bool,
    /// Minimum latency over loopback on this host, nanoseconds.
    pub loopback_floor_ns: Option<u64>,
    /// The maximum rate of the generator on this host.
    pub ceiling: Option<Ceiling>,
    /// Whether the offered load was constant: no ramps, steps or bursts.
    pub is_steady: bool,
    /// The objective's limit on the error share; if `None`, the threshold of the run applies.
    pub errors_max: Option<f64>,
}
