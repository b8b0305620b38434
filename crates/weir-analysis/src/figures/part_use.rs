//! Resource use of each part of the rig, including the load generator and the upstream.

use serde::Serialize;
use weir_results::{NetworkUsage, Part, Role, Usage};

use crate::points::measured::Repeat;

/// Resource use of a part of the rig. Each value is a mean of the repeats with valid CPU use, or of all repeats if none
/// is valid; peak and `_max` values are maxima of the same repeats. `None` means not measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartUse {
    /// Name of the part, unique in the cell.
    pub name: String,
    /// Role of the part.
    pub role: Role,
    /// Whether the values come from valid repeats; `false` if no repeat is valid.
    pub counts: bool,
    /// CPU limit, cores; `None` without one.
    pub limit_cpus: Option<f64>,
    /// Memory limit, bytes; `None` without one.
    pub limit_memory_bytes: Option<u64>,
    /// Whether the limits are known. If true, `None` means no limit. If false, the limits are unknown, because weir
    /// does not run the part.
    pub limits_known: bool,
    /// Cores used by the part.
    pub cpu_cores: Option<f64>,
    /// Cores used in user mode.
    pub cpu_cores_user: Option<f64>,
    /// Cores used in kernel mode for the part.
    pub cpu_cores_system: Option<f64>,
    /// Cores used divided by `limit_cpus`; `None` without a limit.
    pub cpu_share_of_limit: Option<f64>,
    /// Share of the CPU quota's periods in which the part was throttled.
    pub throttled_share: Option<f64>,
    /// Memory without page cache, bytes.
    pub memory_bytes_mean: Option<f64>,
    /// Mean memory divided by `limit_memory_bytes`; `None` without a limit.
    pub memory_share_of_limit: Option<f64>,
    /// Peak memory: the maximum over the repeats, bytes.
    pub memory_bytes_peak: Option<f64>,
    /// Bytes received per second on the part's own network interface.
    pub network_received_bytes_per_s: Option<f64>,
    /// Bytes sent per second on the part's own network interface.
    pub network_sent_bytes_per_s: Option<f64>,
    /// Packets received per second on the part's own network interface.
    pub network_received_packets_per_s: Option<f64>,
    /// Packets sent per second on the part's own network interface.
    pub network_sent_packets_per_s: Option<f64>,
    /// Retransmitted TCP segments per second.
    pub retransmitted_segments_per_s: Option<f64>,
    /// Bytes read from block devices, per second.
    pub block_read_bytes_per_s: Option<f64>,
    /// Bytes written to block devices, per second.
    pub block_written_bytes_per_s: Option<f64>,
    /// Voluntary context switches per second.
    pub switches_voluntary_per_s: Option<f64>,
    /// Involuntary context switches per second.
    pub switches_involuntary_per_s: Option<f64>,
    /// Maximum number of threads.
    pub threads_max: Option<u64>,
    /// Maximum number of processes.
    pub pids_max: Option<u64>,
    /// Maximum number of open files.
    pub open_files_max: Option<u64>,
    /// Maximum number of open sockets.
    pub sockets_max: Option<u64>,
}

/// Resource use of `part` in `repeats`; `counts` is true if these repeats are valid.
pub(crate) fn part_use(part: &Part, repeats: &[&Repeat<'_>], counts: bool) -> PartUse {
    let used = Used::of(part, repeats);
    let limit_memory = part.limit_memory_bytes.filter(|bytes| *bytes > 0).map(|bytes| bytes as f64);
    let memory_bytes_mean = used.mean(|usage| usage.memory_bytes_mean.map(|bytes| bytes as f64));
    PartUse {
        name: part.name.clone(),
        role: part.role,
        counts,
        limit_cpus: part.limit_cpus,
        limit_memory_bytes: part.limit_memory_bytes,
        limits_known: !part.is_elsewhere(),
        cpu_cores: used.mean(|usage| Some(usage.cpu_cores)),
        cpu_cores_user: used.mean(user_cores),
        cpu_cores_system: used.mean(|usage| Some(usage.cpu_cores - user_cores(usage)?)),
        cpu_share_of_limit: used.mean(|usage| usage.cpu_share_of_limit),
        throttled_share: used.mean(|usage| {
            let periods = usage.periods.filter(|periods| *periods > 0)?;
            Some(usage.periods_throttled? as f64 / periods as f64)
        }),
        memory_bytes_mean,
        memory_share_of_limit: memory_bytes_mean.zip(limit_memory).map(|(used, limit)| used / limit),
        memory_bytes_peak: used.greatest(|usage| usage.memory_bytes_peak).map(|bytes| bytes as f64),
        network_received_bytes_per_s: used.network_per_s(|network| Some(network.received_bytes)),
        network_sent_bytes_per_s: used.network_per_s(|network| Some(network.sent_bytes)),
        network_received_packets_per_s: used.network_per_s(|network| Some(network.received_packets)),
        network_sent_packets_per_s: used.network_per_s(|network| Some(network.sent_packets)),
        retransmitted_segments_per_s: used.network_per_s(|network| network.retransmitted_segments),
        block_read_bytes_per_s: used.per_s(|usage| usage.block_read_bytes),
        block_written_bytes_per_s: used.per_s(|usage| usage.block_written_bytes),
        switches_voluntary_per_s: used.per_s(|usage| usage.switches_voluntary),
        switches_involuntary_per_s: used.per_s(|usage| usage.switches_involuntary),
        threads_max: used.greatest(|usage| usage.threads_max),
        pids_max: used.greatest(|usage| usage.pids_max),
        open_files_max: used.greatest(|usage| usage.open_files_max),
        sockets_max: used.greatest(|usage| usage.sockets_max),
    }
}

/// The usage of a part in each repeat, with the duration of the sustained phase in seconds.
struct Used<'a>(Vec<(&'a Usage, f64)>);

impl<'a> Used<'a> {
    fn of(part: &Part, repeats: &[&Repeat<'a>]) -> Self {
        let used = |repeat: &&Repeat<'a>| {
            let usage = repeat.measurement.usage.get(&part.name)?;
            Some((usage, repeat.measurement.record.result.duration_s))
        };
        Self(repeats.iter().filter_map(used).collect())
    }

    fn mean(&self, of: impl Fn(&Usage) -> Option<f64>) -> Option<f64> {
        mean(self.0.iter().filter_map(|(usage, _)| of(usage)))
    }

    fn per_s(&self, of: impl Fn(&Usage) -> Option<u64>) -> Option<f64> {
        mean(self.0.iter().filter_map(|(usage, duration_s)| Some(of(usage)? as f64 / duration_s)))
    }

    fn network_per_s(&self, of: impl Fn(&NetworkUsage) -> Option<u64>) -> Option<f64> {
        self.per_s(|usage| of(usage.network.as_ref()?))
    }

    fn greatest(&self, of: impl Fn(&Usage) -> Option<u64>) -> Option<u64> {
        self.0.iter().filter_map(|(usage, _)| of(usage)).max()
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Cores used in user mode, from the split of CPU time into user and kernel mode; `None` if the split is unknown.
fn user_cores(usage: &Usage) -> Option<f64> {
    let total = usage.cpu_s.total();
    let share = if total > 0.0 { usage.cpu_s.user / total } else { 1.0 };
    (!usage.cpu_is_unsplit).then_some(usage.cpu_cores * share)
}
