//! Makes kernel timers fire early, by the recent wake-up latency, so that threads are awake at the due time.

use std::os::fd::AsFd;

use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec};

/// Maximum time by which a thread is woken early. This is also the maximum time that it spins.
pub(crate) const AHEAD_NS_MAX: u64 = 60_000;

/// Waits shorter than this are not ended early. A CPU hardly sleeps in such a short time, so spinning would cost
/// more than it saves.
pub(crate) const AHEAD_WAIT_NS_MIN: u64 = 200_000;

/// The recent wake-up latency: moving means of the latency and of its deviation from the mean.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lag {
    late_ns: u64,
    deviation_ns: u64,
}

impl Lag {
    /// Returns the time at which the timer must fire, so that the thread is awake at `due_ns`. It is earlier than
    /// `due_ns` only if the wait (`wait_ns`) is at least [`AHEAD_WAIT_NS_MIN`].
    pub(crate) fn ring_ns(self, due_ns: u64, wait_ns: u64) -> u64 {
        if wait_ns >= AHEAD_WAIT_NS_MIN { due_ns - self.ahead_ns() } else { due_ns }
    }

    /// Records that a thread woke up `late_ns` after its timer was due.
    pub(crate) fn learn(&mut self, late_ns: u64) {
        let late_ns = late_ns.min(AHEAD_NS_MAX);
        let off_ns = late_ns.abs_diff(self.late_ns);
        self.deviation_ns = (self.deviation_ns * 7 + off_ns) / 8;
        self.late_ns = (self.late_ns * 7 + late_ns) / 8;
    }

    /// Returns how early timers must fire: the mean latency plus twice the deviation, so that most threads are
    /// awake in time.
    pub(crate) fn ahead_ns(self) -> u64 {
        (self.late_ns + 2 * self.deviation_ns).min(AHEAD_NS_MAX)
    }
}

/// Sets a kernel timer (timerfd) to fire once, at `due_ns` (`CLOCK_MONOTONIC`). It fires immediately if this time
/// has passed.
pub(crate) fn arm(fd: impl AsFd, due_ns: u64) {
    // A time of zero would switch the timer off.
    let due_ns = due_ns.max(1);
    let it_value =
        Timespec { tv_sec: (due_ns / 1_000_000_000) as i64, tv_nsec: (due_ns % 1_000_000_000) as _ };
    let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
    rustix::time::timerfd_settime(fd, TimerfdTimerFlags::ABSTIME, &once)
        .expect("timerfd_settime accepts a valid time");
}
