//! Input of a judgement.

use weir_results::{Ceiling, Counters, HostProcess, HostShare, LoadRecord, Usage};

/// Everything observed about one load of a cell. `None` means not observed; rules that need it are skipped.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// The generator's record.
    pub record: &'a LoadRecord,
    /// The gateway's data parts, summed; `None` in direct cells.
    pub data: Option<&'a Usage>,
    /// The upstream.
    pub origin: Option<&'a Usage>,
    /// The load generator.
    pub generator: Option<&'a Usage>,
    /// Requests as counted by generator, gateway and origin.
    pub counters: Option<&'a Counters>,
    /// CPU of the host used by processes outside the rig, over the phase.
    pub host: Option<&'a HostShare>,
    /// Logical CPUs of the host; 0 if unknown.
    pub host_cores: u32,
    /// The busiest processes outside the rig.
    pub busiest: &'a [HostProcess],
    /// Whether every limit of the scenario was applied.
    pub limits_applied: bool,
    /// Minimum latency over loopback on this host, nanoseconds.
    pub loopback_floor_ns: Option<u64>,
    /// The maximum rate of the generator on this host.
    pub ceiling: Option<Ceiling>,
    /// Whether the offered load was constant: no ramps, steps or bursts.
    pub is_steady: bool,
    /// The objective's limit on the error share; `None` uses the threshold.
    pub errors_max: Option<f64>,
}
