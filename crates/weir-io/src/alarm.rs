//! Wakes a thread at times that are known in advance, with several timers.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use rustix::time::{TimerfdClockId, TimerfdFlags};

use crate::wake::{Lag, arm};
use crate::{Poll, mono_ns};

/// Number of timers that can be set in advance.
const TIMERS: usize = 16;
/// Alarms in ascending order. Each has its own kernel timer.
///
/// Setting the earliest timer of a CPU writes to the timer hardware. In a virtual machine, this write causes a VM exit
/// of about 10 µs. Setting a later timer costs only a system call: when the earliest timer fires, the interrupt handler
/// sets the hardware to the next one. So several alarms are set in advance. On a virtual machine, this has reduced the
/// CPU time per wake-up from 19 µs to 9 µs.
///
/// If a CPU has slept, it takes tens of microseconds from the timer interrupt until the thread runs. So an alarm after
/// a long pause fires early, by the recent wake-up latency. The caller then spins until the alarm is due.
#[derive(Debug)]
pub struct Alarms {
    timers: Vec<OwnedFd>,
    idle: Vec<usize>,
    armed: VecDeque<Alarm>,
    lag: Lag,
}

#[derive(Clone, Copy, Debug)]
struct Alarm {
    timer: usize,
    rings_ns: u64,
    due_ns: u64,
}

/// A timer with nanosecond resolution that can be set repeatedly.
#[derive(Debug)]
pub struct Timer {
    fd: OwnedFd,
    armed_ns: u64,
}

impl Alarms {
    /// Creates alarms that wake the thread waiting on `poll`. Their events carry `token`.
    ///
    /// # Errors
    /// If no file descriptor is left.
    pub fn new(poll: &Poll, token: u64) -> io::Result<Self> {
        let timers: Vec<OwnedFd> = (0..TIMERS).map(|_| timer(poll, token)).collect::<io::Result<_>>()?;
        let idle = (0..timers.len()).collect();
        Ok(Self { timers, idle, armed: VecDeque::with_capacity(TIMERS), lag: Lag::default() })
    }

    /// Whether the caller should set more alarms, because only a few are set.
    #[inline]
    pub fn is_low(&self) -> bool {
        self.armed.len() <= TIMERS / 8
    }

    /// Whether another alarm can be set.
    #[inline]
    pub fn has_room(&self) -> bool {
        !self.idle.is_empty()
    }

    /// Returns the due time of the next alarm.
    #[inline]
    pub fn next_ns(&self) -> Option<u64> {
        Some(self.armed.front()?.due_ns)
    }

    /// Returns the due time of the latest alarm.
    pub fn last_ns(&self) -> Option<u64> {
        Some(self.armed.back()?.due_ns)
    }

    /// Sets an alarm. It must not be due before an alarm that is already set. Does nothing if no timer is free.
    pub fn set(&mut self, due_ns: u64, now_ns: u64) {
        let before_ns = self.last_ns().unwrap_or(now_ns);
        let Some(timer) = self.idle.pop() else { return };
        let rings_ns = self.lag.ring_ns(due_ns, due_ns.saturating_sub(before_ns));
        arm(&self.timers[timer], rings_ns);
        self.armed.push_back(Alarm { timer, rings_ns, due_ns });
    }

    /// Removes the alarms that are due.
    #[inline]
    pub fn pass(&mut self, now_ns: u64) {
        while let Some(alarm) = self.armed.front().filter(|alarm| alarm.due_ns <= now_ns) {
            self.idle.push(alarm.timer);
            self.armed.pop_front();
        }
    }

    /// Sleeps until the next alarm, and ignores all other events. Returns immediately if no alarm is set.
    pub fn sleep(&mut self) {
        let Some(alarm) = self.armed.front().copied() else { return };
        let mut count = [0; 8];
        // A signal may end the read early. Callers treat this like an alarm that fired too early.
        let _ = rustix::io::read(&self.timers[alarm.timer], &mut count);
        self.lag.learn(mono_ns().saturating_sub(alarm.rings_ns));
    }

    /// Whether the next alarm has fired early, so that the caller should spin until it is due.
    #[inline]
    pub fn is_ahead(&self, now_ns: u64) -> bool {
        self.armed.front().is_some_and(|alarm| alarm.rings_ns <= now_ns && now_ns < alarm.due_ns)
    }

    /// Records that the thread that waits on the poll has woken up at `now_ns`.
    #[inline]
    pub fn woken(&mut self, now_ns: u64) {
        if let Some(alarm) = self.armed.front().filter(|alarm| alarm.rings_ns <= now_ns) {
            self.lag.learn(now_ns - alarm.rings_ns);
        }
    }
}

impl Timer {
    /// Creates a timer that wakes the thread waiting on `poll`. Its events carry `token`.
    ///
    /// # Errors
    /// If no file descriptor is left.
    pub fn new(poll: &Poll, token: u64) -> io::Result<Self> {
        Ok(Self { fd: timer(poll, token)?, armed_ns: 0 })
    }

    /// Sets the timer to fire at `due_ns` (`CLOCK_MONOTONIC`), instead of at its previous time. It fires
    /// immediately if this time has passed.
    #[inline]
    pub fn set(&mut self, due_ns: u64) {
        // 0 means that the timer is not set.
        let due_ns = due_ns.max(1);
        if self.armed_ns != due_ns {
            self.armed_ns = due_ns;
            arm(&self.fd, due_ns);
        }
    }

    /// Records that the timer has fired, so that the next [`Timer::set`] sets the kernel timer even if the time is the
    /// same.
    #[inline]
    pub fn rang(&mut self) {
        self.armed_ns = 0;
    }
}

fn timer(poll: &Poll, token: u64) -> io::Result<OwnedFd> {
    let fd = rustix::time::timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
    poll.add_readable(&fd, token)?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wake::{AHEAD_NS_MAX, AHEAD_WAIT_NS_MIN};

    #[test]
    fn alarms_fire_in_order_and_never_early() {
        let mut poll = Poll::new().unwrap();
        let mut alarms = Alarms::new(&poll, 1).unwrap();
        let start_ns = mono_ns();
        let due: Vec<u64> = (1..=5).map(|nth| start_ns + nth * 100_000).collect();
        due.iter().for_each(|&due_ns| alarms.set(due_ns, start_ns));
        assert_eq!((alarms.next_ns(), alarms.last_ns()), (Some(due[0]), Some(due[4])));
        alarms.sleep();
        assert!(mono_ns() >= due[0]);
        while let Some(next_ns) = alarms.next_ns() {
            if mono_ns() < next_ns {
                poll.wait();
            }
            assert!(mono_ns() >= start_ns);
            alarms.pass(mono_ns());
        }
        assert!(mono_ns() >= due[4]);
    }

    #[test]
    fn no_alarm_is_set_until_a_timer_is_free() {
        let poll = Poll::new().unwrap();
        let mut alarms = Alarms::new(&poll, 1).unwrap();
        for nth in 0..=TIMERS as u64 {
            assert_eq!(alarms.has_room(), nth < TIMERS as u64);
            alarms.set(1_000 + nth, 0);
        }
        assert_eq!(alarms.last_ns(), Some(1_000 + TIMERS as u64 - 1));
        alarms.pass(1_000 + TIMERS as u64);
        assert!(alarms.is_low() && alarms.has_room() && alarms.next_ns().is_none());
    }

    #[test]
    fn only_alarms_after_a_pause_fire_early() {
        let poll = Poll::new().unwrap();
        let mut alarms = Alarms::new(&poll, 1).unwrap();
        (0..100).for_each(|_| alarms.lag.learn(1_000_000));
        // The input of the moving mean is capped, so the mean stays below the cap.
        let ahead_ns = alarms.lag.ahead_ns();
        assert!((AHEAD_NS_MAX * 9 / 10..=AHEAD_NS_MAX).contains(&ahead_ns), "{ahead_ns}");
        let now_ns = mono_ns() + 3_600_000_000_000;
        alarms.set(now_ns + 1_000_000, now_ns);
        assert!(alarms.is_ahead(now_ns + 1_000_000 - ahead_ns) && !alarms.is_ahead(now_ns + 1_000_000));
        assert!(!alarms.is_ahead(now_ns + 1_000_000 - ahead_ns - 1));
        alarms.pass(now_ns + 1_000_000);
        alarms.set(now_ns + AHEAD_WAIT_NS_MIN - 1, now_ns);
        assert!(!alarms.is_ahead(now_ns + AHEAD_WAIT_NS_MIN - 2));
    }

    #[test]
    fn a_timer_fires_at_the_last_time_set() {
        let mut poll = Poll::new().unwrap();
        let mut timer = Timer::new(&poll, 9).unwrap();
        timer.set(mono_ns() + 3_600_000_000_000);
        assert_eq!(poll.now(), 0);
        let due_ns = mono_ns() + 100_000;
        timer.set(due_ns);
        assert_eq!(poll.wait(), 1);
        assert!(poll.readiness(0).token == 9 && mono_ns() >= due_ns);
        timer.set(0);
        assert_eq!(poll.wait(), 1, "a past time fires immediately");
    }
}
