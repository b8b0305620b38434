//! Samples of every part and of the host, each 100 ms, from the kernel's accounting.

mod group;
mod host;
mod neighbours;
mod network;
mod processes;
mod sampler;
mod series;
mod tree;

pub use sampler::Sampler;
pub use series::Samples;

use weir_results::NetworkUsage;

/// One look at a part. Times are since the part's start; what could not be read is `None`, never zero.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct PartSample {
    /// CPU time, exact.
    pub(crate) cpu_ns: Option<u64>,
    /// CPU time in user mode and in the kernel. Many kernels sample these at their clock's tick, so only their
    /// proportion is used; [`PartSample::cpu_ns`] is exact.
    pub(crate) user_ns: Option<u64>,
    pub(crate) system_ns: Option<u64>,
    pub(crate) throttled_ns: Option<u64>,
    pub(crate) periods: Option<u64>,
    pub(crate) periods_throttled: Option<u64>,
    /// Without the page cache of files.
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) threads: Option<u64>,
    pub(crate) pids: Option<u64>,
    pub(crate) open_files: Option<u64>,
    pub(crate) sockets: Option<u64>,
    pub(crate) block_read_bytes: Option<u64>,
    pub(crate) block_written_bytes: Option<u64>,
    /// Context switches of all threads that ever were.
    pub(crate) switches_voluntary: Option<u64>,
    pub(crate) switches_involuntary: Option<u64>,
    /// What crossed the interfaces of its network namespace.
    pub(crate) network: Option<NetworkUsage>,
}

impl PartSample {
    /// A part before its launch, with or without a quota: what it will have used is nothing yet.
    fn unborn(has_quota: bool) -> Self {
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
            ..Self::default()
        }
    }
}

/// One look at the host: CPU time of all cores since the boot.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HostSample {
    /// What processes used.
    pub(crate) busy_ns: u64,
    pub(crate) idle_ns: u64,
    pub(crate) steal_ns: u64,
    /// Of each core: neither used by anything nor there to be used.
    pub(crate) core_rest_ns: Vec<u64>,
    /// TCP segments sent again by whoever is in the host's network namespace.
    pub(crate) retransmitted_segments: Option<u64>,
    /// CPU time of the sampling process itself, which is the rig's and no disturbance.
    pub(crate) lab_ns: u64,
}

/// Open files of process `pid`.
fn open_files(pid: i32) -> Option<u64> {
    let path = format!("/proc/{pid}/fd");
    // Kernels from 6.2 on give the number as the folder's size; listing thousands would cost milliseconds.
    match std::fs::metadata(&path).ok()?.len() {
        0 => Some(std::fs::read_dir(&path).ok()?.count() as u64),
        open => Some(open),
    }
}
