//! Many waits on one nanosecond timer.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker, ready};

use weir_io::{PreciseTimer, mono_ns};

/// The waits of one worker. [`Sleepers::drive`] must run beside them.
#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    /// The nearest on top.
    waits: RefCell<BinaryHeap<Wait>>,
    /// The driver's, to be told of a deadline nearer than the one it waits for.
    driver: RefCell<Option<Waker>>,
}

/// One who waits. Who gave up waiting stays until his time has come, and is then woken in vain.
#[derive(Debug)]
struct Wait {
    deadline_ns: u64,
    waker: Waker,
}

impl Sleepers {
    /// Waits until `CLOCK_MONOTONIC` has reached the deadline.
    pub(crate) async fn until(&self, deadline_ns: u64) {
        let mut entered = false;
        poll_fn(|cx| {
            if mono_ns() >= deadline_ns {
                return Poll::Ready(());
            }
            if !entered {
                entered = true;
                self.enter(Wait { deadline_ns, waker: cx.waker().clone() });
            }
            Poll::Pending
        })
        .await;
    }

    /// Wakes those whose time has come, for ever.
    pub(crate) async fn drive(&self, timer: PreciseTimer) {
        poll_fn(|cx| self.poll_drive(cx, &timer)).await;
    }

    fn poll_drive(&self, cx: &mut Context<'_>, timer: &PreciseTimer) -> Poll<()> {
        self.driver.replace(Some(cx.waker().clone()));
        loop {
            let nearest_ns = self.waits.borrow().peek().map(|wait| wait.deadline_ns);
            let Some(nearest_ns) = nearest_ns else { return Poll::Pending };
            ready!(timer.poll_until(cx, nearest_ns));
            self.wake_due(mono_ns().max(nearest_ns));
        }
    }

    fn wake_due(&self, now_ns: u64) {
        let mut waits = self.waits.borrow_mut();
        while waits.peek().is_some_and(|wait| wait.deadline_ns <= now_ns) {
            if let Some(wait) = waits.pop() {
                wait.waker.wake();
            }
        }
    }

    fn enter(&self, wait: Wait) {
        let mut waits = self.waits.borrow_mut();
        let is_nearest = waits.peek().is_none_or(|nearest| wait.deadline_ns < nearest.deadline_ns);
        waits.push(wait);
        if is_nearest && let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }
}

/// The greatest of a heap is on its top, so the nearer deadline is the greater.
impl Ord for Wait {
    fn cmp(&self, other: &Self) -> Ordering {
        other.deadline_ns.cmp(&self.deadline_ns)
    }
}

impl PartialOrd for Wait {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Wait {
    fn eq(&self, other: &Self) -> bool {
        self.deadline_ns == other.deadline_ns
    }
}

impl Eq for Wait {}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn all_wake_and_none_early() {
        let worker = weir_io::spawn_worker(weir_io::WorkerOptions::default(), || async {
            let sleepers: Rc<Sleepers> = Rc::default();
            let timer = PreciseTimer::new().unwrap();
            let driver = Rc::clone(&sleepers);
            tokio::task::spawn_local(async move { driver.drive(timer).await });
            let start_ns = mono_ns();
            let woken: Rc<RefCell<Vec<u64>>> = Rc::default();
            let waits: Vec<_> = (0..500_u64)
                .map(|index| {
                    let (sleepers, woken) = (Rc::clone(&sleepers), Rc::clone(&woken));
                    let deadline_ns = start_ns + 10_000 * ((index * 7919) % 500);
                    tokio::task::spawn_local(async move {
                        sleepers.until(deadline_ns).await;
                        woken.borrow_mut().push(deadline_ns);
                        mono_ns() >= deadline_ns
                    })
                })
                .collect();
            for wait in waits {
                assert!(wait.await.unwrap());
            }
            woken.take().len()
        });
        assert_eq!(worker.unwrap().join().unwrap(), 500);
    }
}
