//! Lets many tasks of a worker wait with a single timer of nanosecond resolution.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::{Context, Poll, Waker, ready};

use weir_io::{PreciseTimer, mono_ns};

/// The tasks of one worker that wait for their deadlines. [`Sleepers::drive`] must run at the same time, because it
/// wakes them.
#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    /// The waits in the order of their deadlines, with a number that distinguishes equal deadlines. A wait that is
    /// cancelled is removed, so there are at most as many entries as delayed responses.
    waits: RefCell<BTreeMap<(u64, u64), Waker>>,
    numbered: Cell<u64>,
    /// The waker of [`Sleepers::drive`]. It is called if a new deadline is earlier than the one that `drive` waits
    /// for.
    driver: RefCell<Option<Waker>>,
}

/// A registered wait. Dropping this value removes it.
struct Entry<'s> {
    sleepers: &'s Sleepers,
    key: (u64, u64),
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.sleepers.waits.borrow_mut().remove(&self.key);
    }
}

impl Sleepers {
    /// Waits until `CLOCK_MONOTONIC` reaches the deadline.
    pub(crate) async fn until(&self, deadline_ns: u64) {
        let mut entry = None;
        poll_fn(|cx| {
            if mono_ns() >= deadline_ns {
                return Poll::Ready(());
            }
            let key = entry.get_or_insert_with(|| self.number(deadline_ns)).key;
            self.enter(key, cx.waker());
            Poll::Pending
        })
        .await;
    }

    /// Wakes the tasks whose deadline has passed. Sleeps on the timer until the next deadline, and never returns.
    pub(crate) async fn drive(&self, timer: PreciseTimer) {
        poll_fn(|cx| self.poll_drive(cx, &timer)).await;
    }

    /// Like [`Sleepers::drive`], but spins instead of sleeping.
    pub(crate) async fn spin(&self) {
        poll_fn(|cx| {
            self.wake_due(mono_ns());
            // Yields to the runtime, which then polls the sockets.
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        })
        .await;
    }

    fn poll_drive(&self, cx: &mut Context<'_>, timer: &PreciseTimer) -> Poll<()> {
        self.driver.replace(Some(cx.waker().clone()));
        loop {
            let nearest_ns = self.waits.borrow().first_key_value().map(|((deadline_ns, _), _)| *deadline_ns);
            let Some(nearest_ns) = nearest_ns else { return Poll::Pending };
            ready!(timer.poll_until(cx, nearest_ns));
            self.wake_due(mono_ns().max(nearest_ns));
        }
    }

    fn wake_due(&self, now_ns: u64) {
        let mut waits = self.waits.borrow_mut();
        while let Some(nearest) = waits.first_entry().filter(|nearest| nearest.key().0 <= now_ns) {
            nearest.remove().wake();
        }
    }

    fn number(&self, deadline_ns: u64) -> Entry<'_> {
        Entry { sleepers: self, key: (deadline_ns, self.numbered.replace(self.numbered.get() + 1)) }
    }

    fn enter(&self, key: (u64, u64), waker: &Waker) {
        let mut waits = self.waits.borrow_mut();
        let is_nearest = waits.first_key_value().is_none_or(|(nearest, _)| key < *nearest);
        waits.insert(key, waker.clone());
        if is_nearest && let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn all_waits_end_and_none_early() {
        check(false);
        check(true);
    }

    fn check(spins: bool) {
        let worker = weir_io::spawn_worker(weir_io::WorkerOptions::default(), move || async move {
            let sleepers: Rc<Sleepers> = Rc::default();
            let timer = PreciseTimer::new().unwrap();
            let driver = Rc::clone(&sleepers);
            tokio::task::spawn_local(async move {
                match spins {
                    true => driver.spin().await,
                    false => driver.drive(timer).await,
                }
            });
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

    #[test]
    fn a_cancelled_wait_is_removed() {
        let sleepers = Sleepers::default();
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..3 {
            let mut wait = Box::pin(sleepers.until(u64::MAX));
            assert!(wait.as_mut().poll(&mut cx).is_pending() && wait.as_mut().poll(&mut cx).is_pending());
            assert_eq!(sleepers.waits.borrow().len(), 1);
        }
        assert!(sleepers.waits.borrow().is_empty());
    }
}
