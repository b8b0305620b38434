//! A timer of nanosecond grain in the runtime's own poll.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};

use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::mono_ns;

/// A timerfd registered with the runtime's poll. Tokio's own timer rounds up to a millisecond; this does not.
///
/// It serves one waiter at a time.
#[derive(Debug)]
pub struct PreciseTimer {
    fd: AsyncFd<OwnedFd>,
    /// What the kernel's timer is set to; 0 is not set.
    armed_ns: Cell<u64>,
}

impl PreciseTimer {
    /// Makes a timer on the current runtime.
    ///
    /// # Errors
    /// When no file descriptor is left.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // SAFETY: an `OwnedFd` is an open descriptor, is the same for as long as it lives, and the `AsyncFd`
        // owns it to the end; nobody else can close or replace it.
        let fd = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?;
        Ok(Self { fd, armed_ns: Cell::new(0) })
    }

    /// Waits until `CLOCK_MONOTONIC` has reached `deadline_mono_ns`; a time gone by does not wait.
    pub async fn wait_until(&self, deadline_mono_ns: u64) {
        poll_fn(|cx| self.poll_until(cx, deadline_mono_ns)).await;
    }

    /// The same as a poll: ready once the time has come, else the task is woken when it comes.
    ///
    /// The deadline may differ from call to call; the kernel is asked only when it changed.
    pub fn poll_until(&self, cx: &mut Context<'_>, deadline_mono_ns: u64) -> Poll<()> {
        if mono_ns() >= deadline_mono_ns {
            return Poll::Ready(());
        }
        self.arm(deadline_mono_ns);
        loop {
            let mut guard = match ready!(self.fd.poll_read_ready(cx)) {
                Ok(guard) => guard,
                // The runtime is shutting down: nobody will be woken any more.
                Err(_) => return Poll::Ready(()),
            };
            // Setting the timer anew resets its count, so what has expired need not be read.
            guard.clear_ready();
            if mono_ns() >= deadline_mono_ns {
                self.armed_ns.set(0);
                return Poll::Ready(());
            }
        }
    }

    fn arm(&self, deadline_mono_ns: u64) {
        if self.armed_ns.replace(deadline_mono_ns) == deadline_mono_ns {
            return;
        }
        let it_value = Timespec {
            tv_sec: (deadline_mono_ns / 1_000_000_000) as i64,
            tv_nsec: (deadline_mono_ns % 1_000_000_000) as _,
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
        rustix::time::timerfd_settime(self.fd.get_ref(), TimerfdTimerFlags::ABSTIME, &once)
            .expect("a valid time is accepted by a timer that is ours");
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap().block_on(future)
    }

    #[test]
    fn the_time_has_come_when_the_wait_ends() {
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
    fn a_later_and_a_nearer_deadline_replace_the_one_before() {
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
