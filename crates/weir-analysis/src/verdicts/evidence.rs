//! What is known of a load when it is judged.

use weir_results::{Ceiling, Counters, HostProcess, HostShare, LoadRecord, Usage};

/// All that is known about one load of a cell; what is `None` was not observed, and is not judged.
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
    /// Who counted how many requests.
    pub counters: Option<&'a Counters>,
    /// What others did to the host over the phase.
    pub host: Option<&'a HostShare>,
    /// Logical CPUs of the host; 0 if unknown.
    pub host_cores: u32,
    /// The busiest processes outside the rig.
    pub busiest: &'a [HostProcess],
    /// Whether every limit of the scenario was applied.
    pub limits_applied: bool,
    /// The least latency that this host can have, nanoseconds.
    pub loopback_floor_ns: Option<u64>,
    /// The highest rate that the generator keeps on this host.
    pub ceiling: Option<Ceiling>,
    /// Whether the load asked for the same all along: without ramps, steps and bursts.
    pub is_steady: bool,
    /// The objective's share of errors; `None` takes the threshold's.
    pub errors_max: Option<f64>,
}
