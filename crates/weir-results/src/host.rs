//! Limits of a host: the maximum rate of the load generator, and the minimum latency
//! (`docs/method.md#generator-limit`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Manifest;

/// Memory sizes are rounded to multiples of this value, because kernels reserve different amounts of memory.
const MEMORY_GRAIN_BYTES: u64 = 256 << 20;

/// The limits of a host, measured by `weir doctor`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostBounds {
    /// CPU model, number of CPUs and memory, which together identify the host.
    pub fingerprint: String,
    /// When the limits were measured, milliseconds since the Unix epoch.
    pub measured_unix_ms: u64,
    /// The version of weir that measured the limits.
    pub weir_version: String,
    /// The highest rate that the generator sent on time; `None` if every tried rate was too high.
    pub ceiling: Option<Ceiling>,
    /// Minimum latency of a closed loop over one connection, nanoseconds.
    pub floor_min_ns: Option<u64>,
    /// Median latency of a closed loop over one connection, nanoseconds.
    pub floor_p50_ns: Option<u64>,
    /// Share of the host's CPU that others took during the measurement: steal plus other processes.
    pub disturbed_share: Option<f64>,
}

/// A rate that the generator sustains on a host.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ceiling {
    /// The rate, in arrivals per second.
    pub rate_per_s: f64,
    /// Worker threads of the generator.
    pub workers: u32,
    /// 99th percentile of the lateness at `rate_per_s`, nanoseconds.
    pub lateness_p99_ns: u64,
}

impl HostBounds {
    /// The minimum latency that weir considers possible on this host, nanoseconds. It is half of the measured minimum,
    /// because a longer measurement would find a lower one, and weir must not reject possible values.
    pub fn loopback_floor_ns(&self) -> Option<u64> {
        self.floor_min_ns.map(|min_ns| min_ns / 2)
    }

    /// The text that identifies a host; `None` if the manifest lacks one of its parts.
    pub fn fingerprint(host: &Manifest) -> Option<String> {
        let memory = (host.memory_bytes? + MEMORY_GRAIN_BYTES / 2) / MEMORY_GRAIN_BYTES;
        let mebibytes = memory * (MEMORY_GRAIN_BYTES >> 20);
        Some(format!("{}, {} CPUs, {mebibytes} MiB", host.cpu_model.as_deref()?, host.cpus?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_cores_and_memory_identify_a_host() {
        let host = |model: &str, cpus, memory_bytes| Manifest {
            cpu_model: Some(model.into()),
            cpus: Some(cpus),
            memory_bytes: Some(memory_bytes),
            ..Manifest::default()
        };
        let known = |host: &Manifest| HostBounds::fingerprint(host).unwrap();
        let one = host("A", 2, 8_200_000_000);
        assert_eq!(known(&one), "A, 2 CPUs, 7936 MiB");
        assert_eq!(known(&one), known(&host("A", 2, 8_210_000_000)), "another kernel");
        for other in [host("B", 2, 8_200_000_000), host("A", 4, 8_200_000_000), host("A", 2, 16_400_000_000)]
        {
            assert_ne!(known(&one), known(&other));
        }
        assert_eq!(HostBounds::fingerprint(&Manifest { cpu_model: None, ..one }), None);
    }
}
