//! CPU time of this process and its threads, as the kernel accounts it.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use rustix::time::{ClockId, clock_gettime};

/// CPU time of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// Time in user mode, nanoseconds.
    pub user_ns: u64,
    /// Time in the kernel, nanoseconds.
    pub system_ns: u64,
}

/// Returns the CPU time of this process and all its threads since it started.
pub fn process_cpu_time() -> CpuTime {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the pointer is valid for writes of a `rusage`. On success the call writes all of it. With RUSAGE_SELF and
    // a valid pointer the call cannot fail.
    let usage = unsafe {
        assert_eq!(
            libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()),
            0,
            "getrusage(RUSAGE_SELF) cannot fail"
        );
        usage.assume_init()
    };
    CpuTime { user_ns: timeval_ns(usage.ru_utime), system_ns: timeval_ns(usage.ru_stime) }
}

/// Returns the CPU time of the calling thread, nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}

/// Returns how long the calling thread has been ready to run but had no CPU, in nanoseconds. `None` if the kernel
/// does not report this.
pub fn thread_runqueue_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn timeval_ns(time: libc::timeval) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_never_decreases() {
        let (process, thread) = (process_cpu_time(), thread_cpu_ns());
        let work: u64 = (0..3_000_000u64).fold(0, |sum, n| sum ^ n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        std::hint::black_box(work);
        let after = process_cpu_time();
        assert!(thread_cpu_ns() > thread);
        assert!(after.user_ns >= process.user_ns && after.system_ns >= process.system_ns);
    }
}
