//! What a host can be measured with: the generator's ceiling and the latency floor (`docs/method.md#generator-limit`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Manifest;

/// Memory is told apart by this much: kernels keep a little more or less of it for themselves.
const MEMORY_GRAIN_BYTES: u64 = 256 << 20;

/// The bounds of a host, as `weir doctor` measured them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostBounds {
    /// CPU model, cores and memory, by which the host is known again.
    pub fingerprint: String,
    /// When they were measured, milliseconds since the Unix epoch.
    pub measured_unix_ms: u64,
    /// With which weir.
    pub weir_version: String,
    /// The highest rate at which requests left in time; `None` where none of those tried was low enough.
    pub ceiling: Option<Ceiling>,
    /// Least latency of a closed loop over one connection, nanoseconds.
    pub floor_min_ns: Option<u64>,
    /// Its median.
    pub floor_p50_ns: Option<u64>,
    /// Steal plus others' CPU meanwhile, as share of the host.
    pub disturbed_share: Option<f64>,
}

/// A rate that the generator keeps on a host.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ceiling {
    /// Arrivals per second.
    pub rate_per_s: f64,
    /// Worker threads that it was measured with.
    pub workers: u32,
    /// 99th percentile of the lateness at that rate, nanoseconds.
    pub lateness_p99_ns: u64,
}

impl HostBounds {
    /// The least latency that any request can have on this host, nanoseconds. Half of the least that was measured: a
    /// minimum over more requests is lower, and to be called impossible takes more than luck.
    pub fn loopback_floor_ns(&self) -> Option<u64> {
        self.floor_min_ns.map(|least_ns| least_ns / 2)
    }

    /// The text by which a host is known again; `None` where it does not tell enough about itself.
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
    fn a_host_is_known_again_by_cpu_cores_and_memory() {
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
