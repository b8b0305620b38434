//! A timer with nanosecond resolution for async code.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};

use rustix::time::{TimerfdClockId, TimerfdFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::mono_ns;
use crate::wake::{Lag, arm};

/// A kernel timer (timerfd) that wakes a task of the async runtime. The timer of Tokio rounds up to a millisecond.
///
/// If a CPU has slept, it takes tens of microseconds from the timer interrupt until the task runs. On a virtual
/// machine, this latency was 20 to 38 µs. So the kernel timer of a long wait fires before the deadline, and the task
/// spins until the deadline. The recent wake-up latency determines how early the timer fires.
///
/// Only one task at a time can wait on a timer.
#[derive(Debug)]
pub struct PreciseTimer {
    fd: AsyncFd<OwnedFd>,
    /// The time to which the kernel timer is set; 0 if it is not set.
    armed_ns: Cell<u64>,
    /// The current deadline, and the time at which the kernel timer must fire so that the task runs by the deadline.
    aim_ns: Cell<(u64, u64)>,
    lag: Cell<Lag>,
}

impl PreciseTimer {
    /// Creates a timer for the current async runtime.
    ///
    /// # Errors
    /// If no file descriptor is left.
    ///
    /// # Panics
    /// If there is no current async runtime.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // SAFETY: an `OwnedFd` is an open descriptor and never changes. The `AsyncFd` owns it, so no other code can
        // close or replace it.
        let fd = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?;
        Ok(Self { fd, armed_ns: Cell::new(0), aim_ns: Cell::new((0, 0)), lag: Cell::default() })
    }

    /// Waits until `CLOCK_MONOTONIC` reaches `deadline_mono_ns`. Returns immediately if this time has passed.
    pub async fn wait_until(&self, deadline_mono_ns: u64) {
        poll_fn(|cx| self.poll_until(cx, deadline_mono_ns)).await;
    }

    /// Like [`PreciseTimer::wait_until`], but as a poll function. Returns `Ready` if the deadline has passed;
    /// otherwise the task is woken when it passes.
    ///
    /// The deadline may change from call to call. Only a changed deadline needs a system call.
    pub fn poll_until(&self, cx: &mut Context<'_>, deadline_mono_ns: u64) -> Poll<()> {
        let now_ns = mono_ns();
        if now_ns >= deadline_mono_ns {
            return Poll::Ready(());
        }
        let wake_ns = self.aim(now_ns, deadline_mono_ns);
        if now_ns >= wake_ns {
            return spin(cx);
        }
        self.arm(wake_ns);
        loop {
            let mut guard = match ready!(self.fd.poll_read_ready(cx)) {
                Ok(guard) => guard,
                // The runtime is shutting down, so no task will be woken.
                Err(_) => return Poll::Ready(()),
            };
            // Setting the timer again resets its counter, so the counter need not be read.
            guard.clear_ready();
            let woken_ns = mono_ns();
            if woken_ns >= wake_ns {
                self.armed_ns.set(0);
                self.learn(woken_ns - wake_ns);
                return if woken_ns >= deadline_mono_ns { Poll::Ready(()) } else { spin(cx) };
            }
        }
    }

    /// Returns when the kernel timer must fire for a deadline. The result stays the same for repeated calls with
    /// the same deadline.
    fn aim(&self, now_ns: u64, deadline_ns: u64) -> u64 {
        let (aimed_ns, wake_ns) = self.aim_ns.get();
        if aimed_ns == deadline_ns {
            return wake_ns;
        }
        let wake_ns = self.lag.get().ring_ns(deadline_ns, deadline_ns - now_ns);
        self.aim_ns.set((deadline_ns, wake_ns));
        wake_ns
    }

    fn learn(&self, late_ns: u64) {
        let mut lag = self.lag.get();
        lag.learn(late_ns);
        self.lag.set(lag);
    }

    fn arm(&self, deadline_mono_ns: u64) {
        if self.armed_ns.replace(deadline_mono_ns) != deadline_mono_ns {
            arm(self.fd.get_ref(), deadline_mono_ns);
        }
    }
}

/// Asks the runtime to poll this task again. The runtime first polls other tasks that are ready.
fn spin(cx: &mut Context<'_>) -> Poll<()> {
    cx.waker().wake_by_ref();
    Poll::Pending
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;
    use crate::wake::{AHEAD_NS_MAX, AHEAD_WAIT_NS_MIN};

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap().block_on(future)
    }

    #[test]
    fn a_wait_never_ends_early() {
        block_on(async {
            let timer = PreciseTimer::new().unwrap();
            for wait_ns in [0, 1, 50_000, 1_000_000] {
                let deadline = mono_ns() + wait_ns;
                timer.wait_until(deadline).await;
                assert!(mono_ns() >= deadline);
            }
            timer.wait_until(0).await;
        });
    }

    #[test]
    fn only_long_waits_wake_early() {
        block_on(async {
            let timer = PreciseTimer::new().unwrap();
            assert_eq!(timer.aim(0, 1_000_000), 1_000_000);
            for _ in 0..100 {
                timer.learn(1_000_000);
            }
            // The input of the moving mean is capped, so the mean stays below the cap.
            let ahead_ns = timer.lag.get().ahead_ns();
            assert!((AHEAD_NS_MAX * 9 / 10..=AHEAD_NS_MAX).contains(&ahead_ns), "{ahead_ns}");
            assert_eq!(timer.aim(0, 2_000_000), 2_000_000 - ahead_ns);
            assert_eq!(timer.aim(1_999_999, 2_000_000), 2_000_000 - ahead_ns);
            assert_eq!(timer.aim(0, AHEAD_WAIT_NS_MIN - 1), AHEAD_WAIT_NS_MIN - 1);
        });
    }

    #[test]
    fn a_later_or_earlier_deadline_replaces_the_previous_one() {
        block_on(async {
            let timer = PreciseTimer::new().unwrap();
            let mut cx = Context::from_waker(Waker::noop());
            let far = mono_ns() + 3_600_000_000_000;
            assert!(timer.poll_until(&mut cx, far).is_pending());
            let near = mono_ns() + 100_000;
            timer.wait_until(near).await;
            assert!(mono_ns() >= near);
            assert!(timer.poll_until(&mut cx, far).is_pending());
        });
    }
}
