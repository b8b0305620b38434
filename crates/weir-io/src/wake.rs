//! Timed wake-ups: sets the kernel timer early, by the recent wake-up latency.

use std::os::fd::AsFd;

use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec};

/// Maximum time that a thread wakes early, and therefore the maximum time that it spins.
pub(crate) const AHEAD_NS_MAX: u64 = 60_000;

/// Shorter waits do not wake early. During them a CPU hardly sleeps, so spinning would cost more than it saves.
pub(crate) const AHEAD_WAIT_NS_MIN: u64 = 200_000;

/// Recent wake-up latency: moving means of the latency and of its deviation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lag {
    late_ns: u64,
    deviation_ns: u64,
}

impl Lag {
    /// Returns when the timer must fire for `due_ns` after a wait of `wait_ns`.
    pub(crate) fn ring_ns(self, due_ns: u64, wait_ns: u64) -> u64 {
        if wait_ns >= AHEAD_WAIT_NS_MIN { due_ns - self.ahead_ns() } else { due_ns }
    }

    /// Records that a thread woke up late by `late_ns`.
    pub(crate) fn learn(&mut self, late_ns: u64) {
        let late_ns = late_ns.min(AHEAD_NS_MAX);
        let off_ns = late_ns.abs_diff(self.late_ns);
        self.deviation_ns = (self.deviation_ns * 7 + off_ns) / 8;
        self.late_ns = (self.late_ns * 7 + late_ns) / 8;
    }

    /// Returns the mean plus twice the deviation, so that most wake-ups are early.
    pub(crate) fn ahead_ns(self) -> u64 {
        (self.late_ns + 2 * self.deviation_ns).min(AHEAD_NS_MAX)
    }
}

/// Sets a timerfd to fire once at `due_ns` (`CLOCK_MONOTONIC`). A past time fires at once.
pub(crate) fn arm(fd: impl AsFd, due_ns: u64) {
    // A time of zero would disarm the timer.
    let due_ns = due_ns.max(1);
    let it_value =
        Timespec { tv_sec: (due_ns / 1_000_000_000) as i64, tv_nsec: (due_ns % 1_000_000_000) as _ };
    let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
    rustix::time::timerfd_settime(fd, TimerfdTimerFlags::ABSTIME, &once)
        .expect("a valid time is accepted by a timer that is ours");
}
