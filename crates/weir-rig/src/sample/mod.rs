//! Samples the resources of every part and of the host every 100 ms, from counters of the kernel.

mod find;
mod group;
mod host;
mod neighbours;
mod network;
mod process_set;
mod processes;
mod sampler;
mod series;
mod tree;

pub use process_set::ProcessSet;
pub use sampler::Sampler;
pub use series::Samples;

use weir_results::{NetworkUsage, Role};

/// The newest sample of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartReading {
    /// The name of the part.
    pub name: String,
    /// The role of the part.
    pub role: Role,
    /// When the part was sampled, `CLOCK_MONOTONIC` in nanoseconds.
    pub at_ns: u64,
    /// CPU time since the part started, nanoseconds; `None` if it could not be read.
    pub cpu_ns: Option<u64>,
    /// Memory without the page cache, bytes; `None` if it could not be read.
    pub memory_bytes: Option<u64>,
}

/// A sample of a part. Counters count from the start of the part. A value that could not be read is `None`, not zero.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct PartSample {
    /// CPU time in user mode and in the kernel, exact with a cgroup.
    pub(crate) cpu_ns: Option<u64>,
    /// CPU time in user mode. Many kernels sample `user_ns` and `system_ns` at the clock tick, so weir uses only the
    /// ratio of the two.
    pub(crate) user_ns: Option<u64>,
    pub(crate) system_ns: Option<u64>,
    pub(crate) throttled_ns: Option<u64>,
    pub(crate) periods: Option<u64>,
    pub(crate) periods_throttled: Option<u64>,
    /// Memory without the page cache.
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) threads: Option<u64>,
    pub(crate) pids: Option<u64>,
    pub(crate) open_files: Option<u64>,
    pub(crate) sockets: Option<u64>,
    pub(crate) block_read_bytes: Option<u64>,
    pub(crate) block_written_bytes: Option<u64>,
    /// Context switches of all threads (voluntary, then involuntary), including ended threads.
    pub(crate) switches_voluntary: Option<u64>,
    pub(crate) switches_involuntary: Option<u64>,
    /// Run-queue delay of all threads, including ended threads.
    pub(crate) waited_ns: Option<u64>,
    /// Traffic on the interfaces of the part's network namespace.
    pub(crate) network: Option<NetworkUsage>,
}

impl PartSample {
    /// The sample of a part before its launch: all counters are zero.
    fn unlaunched(has_quota: bool) -> Self {
        let counted = has_quota.then_some(0);
        Self {
            cpu_ns: Some(0),
            user_ns: Some(0),
            system_ns: Some(0),
            throttled_ns: counted,
            periods: counted,
            periods_throttled: counted,
            block_read_bytes: Some(0),
            block_written_bytes: Some(0),
            switches_voluntary: Some(0),
            switches_involuntary: Some(0),
            waited_ns: Some(0),
            ..Self::default()
        }
    }
}

/// A sample of the host: CPU time of all cores together. Only differences between samples are meaningful.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HostSample {
    /// CPU time of all processes: since boot if weir can read the usage of the root cgroup (v1), otherwise since the
    /// first sample.
    pub(crate) busy_ns: u64,
    pub(crate) idle_ns: u64,
    pub(crate) steal_ns: u64,
    /// Idle plus stolen time of each core.
    pub(crate) core_rest_ns: Vec<u64>,
    /// TCP segments that were retransmitted in the host's network namespace.
    pub(crate) retransmitted_segments: Option<u64>,
    /// CPU time of the sampling process, which belongs to the rig and is not noise.
    pub(crate) lab_ns: u64,
}

/// Number of open files of the process `pid`; `None` if this user may not read it, or the process has exited.
fn open_files(pid: i32) -> Option<u64> {
    let path = format!("/proc/{pid}/fd");
    // From Linux 6.2 on, the size of the folder is the number of open files; before, it is 0. Listing thousands of
    // files would take milliseconds.
    match std::fs::metadata(&path).ok()?.len() {
        0 => Some(std::fs::read_dir(&path).ok()?.count() as u64),
        open => Some(open),
    }
}
