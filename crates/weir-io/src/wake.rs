//! Waking a thread at a time: setting the kernel's timer, and ringing it ahead by what waking takes.

use std::os::fd::AsFd;

use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec};

/// The most that a thread is woken ahead of its time, and so the most that it spins.
pub(crate) const AHEAD_NS_MAX: u64 = 60_000;

/// Shorter waits are not cut short: where times are that near, a processor hardly sleeps, and spinning before each of
/// them would cost more than it gives.
pub(crate) const AHEAD_WAIT_NS_MIN: u64 = 200_000;

/// How long waking took of late: moving means of it and of its deviation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lag {
    late_ns: u64,
    deviation_ns: u64,
}

impl Lag {
    /// When to ring for `due_ns` after a wait of `wait_ns`.
    pub(crate) fn ring_ns(self, due_ns: u64, wait_ns: u64) -> u64 {
        if wait_ns >= AHEAD_WAIT_NS_MIN { due_ns - self.ahead_ns() } else { due_ns }
    }

    /// A thread was late by so much.
    pub(crate) fn learn(&mut self, late_ns: u64) {
        let late_ns = late_ns.min(AHEAD_NS_MAX);
        let off_ns = late_ns.abs_diff(self.late_ns);
        self.deviation_ns = (self.deviation_ns * 7 + off_ns) / 8;
        self.late_ns = (self.late_ns * 7 + late_ns) / 8;
    }

    /// The mean and twice the deviation, so that most wake-ups come before their time.
    pub(crate) fn ahead_ns(self) -> u64 {
        (self.late_ns + 2 * self.deviation_ns).min(AHEAD_NS_MAX)
    }
}

/// Sets a timerfd to ring once, at `CLOCK_MONOTONIC`'s `due_ns`; a time gone by rings at once.
pub(crate) fn arm(fd: impl AsFd, due_ns: u64) {
    // A time of zero would switch the timer off.
    let due_ns = due_ns.max(1);
    let it_value =
        Timespec { tv_sec: (due_ns / 1_000_000_000) as i64, tv_nsec: (due_ns % 1_000_000_000) as _ };
    let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
    rustix::time::timerfd_settime(fd, TimerfdTimerFlags::ABSTIME, &once)
        .expect("a valid time is accepted by a timer that is ours");
}
