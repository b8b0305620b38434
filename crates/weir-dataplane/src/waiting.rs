//! Queues of requests at backends whose limit is reached. Each limit has one queue for the whole process, in order of
//! arrival.
//!
//! ```text
//! join -> waits -> gets a permit, or a connection that became free on its own worker
//!           +----> times out, and leaves
//! ```
//! A freed permit goes to the first request in the queue, and new requests go to its end. So no request polls, and none
//! is overtaken. After joining the queue, a request checks once more for a free permit, because a permit may have
//! become free just before the request joined. So either the request finds that permit, or the thread that freed it
//! finds the request.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};

use crate::backend_state::{BackendState, Kind, Permit};
use crate::io::Io;
use crate::pool::Upstream;

/// The requests that wait for a permit of one kind.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// The number of waiting requests, readable without the lock.
    length: AtomicU32,
    /// The limit from the newest version of the table.
    most: AtomicU32,
    waiters: Mutex<VecDeque<Arc<Waiter>>>,
}

/// State of a waiting request, shared with requests that free a permit.
#[derive(Debug)]
struct Waiter {
    /// A connection can only be used on the thread that opened it.
    thread: ThreadId,
    slot: Mutex<Slot>,
}

#[derive(Debug, Default)]
struct Slot {
    grant: Option<Grant>,
    waker: Option<Waker>,
}

/// What a waiting request gets.
#[derive(Debug)]
pub(crate) enum Grant {
    Permit(Permit),
    /// A connection with its permit.
    Connection(Box<Upstream>),
}

/// A waiting request. Dropping this removes the request from the queue.
#[derive(Debug)]
pub(crate) struct Waiting {
    state: Arc<BackendState>,
    kind: Kind,
    waiter: Arc<Waiter>,
    /// Whether the request may still be in the queue.
    is_in: Cell<bool>,
}

impl Queue {
    /// Whether any request waits.
    #[inline]
    pub(crate) fn is_anybody(&self) -> bool {
        // `SeqCst`, as for the permit counts. Otherwise, a thread that frees a permit and a thread that queues a
        // request could both miss the change of the other thread.
        self.length.load(Ordering::SeqCst) > 0
    }

    /// The number of waiting requests.
    pub(crate) fn length(&self) -> u64 {
        u64::from(self.length.load(Ordering::SeqCst))
    }

    /// Sets the limit.
    pub(crate) fn bound(&self, most: u32) {
        self.most.store(most, Ordering::SeqCst);
    }

    /// Gives permits to waiting requests in order, until no request waits or no permit is free. `take` is called with
    /// the limit, and returns `None` if no permit is free.
    #[cold]
    pub(crate) fn serve(&self, take: impl Fn(u32) -> Option<Permit>) {
        while self.is_anybody() {
            let mut waiters = self.lock();
            if waiters.is_empty() {
                return;
            }
            let Some(permit) = take(self.most.load(Ordering::SeqCst)) else { return };
            let first = self.pop(&mut waiters);
            // If no request takes the permit, it is dropped, and the drop needs this lock again.
            drop(waiters);
            if let Some(first) = first {
                first.grant(Grant::Permit(permit));
            }
        }
    }

    /// Gives a connection of this thread to the first waiting request. If that request belongs to another thread, only
    /// the permit is freed. If no request waits, returns the connection.
    #[cold]
    pub(crate) fn hand_over(&self, upstream: Box<Upstream>) -> Option<Box<Upstream>> {
        let mut waiters = self.lock();
        let first = match waiters.front() {
            None => return Some(upstream),
            Some(first) if first.thread == thread::current().id() => self.pop(&mut waiters),
            // Dropping the connection frees its permit, which goes to the first waiting request.
            Some(_) => None,
        };
        drop(waiters);
        if let Some(first) = first {
            first.grant(Grant::Connection(upstream));
        }
        None
    }

    fn pop(&self, waiters: &mut VecDeque<Arc<Waiter>>) -> Option<Arc<Waiter>> {
        let first = waiters.pop_front()?;
        self.length.fetch_sub(1, Ordering::SeqCst);
        Some(first)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Waiter>>> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter {
    /// Gives the request its grant. If the request has left in the meantime, dropping its waiter passes the grant to
    /// the next one.
    fn grant(&self, grant: Grant) {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        slot.grant = Some(grant);
        let waker = slot.waker.take();
        drop(slot);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Grant {
    /// Returns the permit. If the grant is a connection, closes the connection.
    pub(crate) fn into_permit(self) -> Permit {
        match self {
            Grant::Permit(permit) => permit,
            Grant::Connection(upstream) => upstream.into_permit(),
        }
    }
}

impl Waiting {
    /// Joins the end of the queue for a permit of this kind.
    pub(crate) fn join(state: &Arc<BackendState>, kind: Kind) -> Waiting {
        let waiter = Waiter { thread: thread::current().id(), slot: Mutex::default() };
        let waiting =
            Waiting { state: Arc::clone(state), kind, waiter: Arc::new(waiter), is_in: Cell::new(true) };
        if let Some(queue) = state.queue(kind) {
            let mut waiters = queue.lock();
            waiters.push_back(Arc::clone(&waiting.waiter));
            queue.length.fetch_add(1, Ordering::SeqCst);
        }
        state.serve(kind);
        waiting
    }

    /// Waits for at most `ticks`, then leaves the queue. `None` after a timeout.
    pub(crate) async fn granted(self, io: Io<'_>, ticks: u32) -> Option<Grant> {
        match self.granted_within(io, ticks).await {
            Some(grant) => Some(grant),
            None => self.leave(),
        }
    }

    /// Like [`Waiting::granted`], but stays in the queue after a timeout.
    pub(crate) async fn granted_within(&self, io: Io<'_>, ticks: u32) -> Option<Grant> {
        io.timer.arm(&io.worker.wheel, ticks);
        let granted = poll_fn(|cx| match self.poll(cx) {
            Poll::Ready(grant) => Poll::Ready(Ok(grant)),
            Poll::Pending => io.poll_timeout(cx),
        })
        .await;
        granted.ok()
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<Grant> {
        let mut slot = self.waiter.slot.lock().unwrap_or_else(PoisonError::into_inner);
        match slot.grant.take() {
            Some(grant) => {
                self.is_in.set(false);
                Poll::Ready(grant)
            }
            None => {
                slot.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Leaves the queue. Returns the grant if one arrived at the last moment.
    pub(crate) fn leave(self) -> Option<Grant> {
        self.step_out();
        self.waiter.slot.lock().unwrap_or_else(PoisonError::into_inner).grant.take()
    }

    /// Leaves the queue if still in it.
    fn step_out(&self) {
        let Some(queue) = self.state.queue(self.kind).filter(|_| self.is_in.replace(false)) else { return };
        let mut waiters = queue.lock();
        let Some(position) = waiters.iter().position(|waiter| Arc::ptr_eq(waiter, &self.waiter)) else {
            return;
        };
        waiters.remove(position);
        queue.length.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.step_out();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;
    use std::thread::Thread;
    use std::time::Duration;

    use super::*;
    use crate::backend_state::Bounds;
    use crate::backend_states::BackendStates;

    /// The state of a backend with this request limit.
    fn bounded(requests: u32) -> Arc<BackendState> {
        let state = BackendStates::default().of("b");
        state.bound(Bounds { requests, ..Bounds::default() });
        state
    }

    fn join(state: &Arc<BackendState>) -> Waiting {
        Waiting::join(state, Kind::Request)
    }

    fn granted(waiting: &Waiting) -> Option<Permit> {
        match waiting.poll(&Context::from_waker(Waker::noop())) {
            Poll::Ready(grant) => Some(grant.into_permit()),
            Poll::Pending => None,
        }
    }

    #[test]
    fn permits_are_granted_in_order() {
        let state = bounded(1);
        let held = state.request(1).unwrap();
        let waiting = [1, 2, 3].map(|_| join(&state));
        assert!(waiting.iter().all(|waiting| granted(waiting).is_none()));
        assert!(state.is_waited_for(Kind::Request));
        drop(held);
        for turn in 0..3 {
            let permit = granted(&waiting[turn]).unwrap();
            assert!(waiting[turn + 1..].iter().all(|waiting| granted(waiting).is_none()), "{turn}");
            assert!(state.request(1).is_none(), "the waiting request holds the only permit");
            drop(permit);
        }
        assert!(!state.is_waited_for(Kind::Request));
        assert!(state.request(1).is_some());
    }

    #[test]
    fn a_request_that_leaves_is_skipped() {
        let state = bounded(1);
        let held = state.request(1).unwrap();
        let [first, second, third] = [1, 2, 3].map(|_| join(&state));
        drop(first);
        drop(held);
        // The second request was granted a permit, and leaves without taking it.
        drop(second);
        let permit = granted(&third).unwrap();
        assert!(third.leave().is_none());
        drop(permit);
        assert!(state.request(1).is_some() && !state.is_waited_for(Kind::Request));
    }

    #[test]
    fn a_grant_of_the_last_moment_counts() {
        let state = bounded(1);
        let held = state.request(1).unwrap();
        let waiting = join(&state);
        drop(held);
        let permit = waiting.leave().unwrap().into_permit();
        assert!(state.request(1).is_none());
        drop(permit);
        assert!(state.request(1).is_some());
    }

    #[test]
    fn a_permit_that_is_free_at_joining_is_granted_at_once() {
        let state = bounded(1);
        assert!(granted(&join(&state)).is_some());
    }

    #[test]
    fn waiting_requests_use_the_newest_limit() {
        let state = bounded(1);
        let held = state.request(1).unwrap();
        let waiting = [1, 2, 3].map(|_| join(&state));
        let bound = |version: u64, requests: u32| state.bound(Bounds { version, requests, connections: 0 });
        let permits = || waiting.iter().map(granted).map(|permit| permit.is_some()).collect::<Vec<_>>();
        bound(2, 2);
        let second = granted(&waiting[0]);
        assert!(second.is_some() && granted(&waiting[1]).is_none());
        bound(1, 9);
        assert!(granted(&waiting[1]).is_none(), "an older version has no effect");
        bound(3, 1);
        drop(second);
        assert_eq!(permits(), [false; 3], "the only permit is in use");
        drop(held);
        assert_eq!(
            permits(),
            [false, true, true],
            "waiting[1] frees its permit at once, so waiting[2] gets it"
        );
    }

    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    /// Waits for a permit on this thread.
    fn wait(state: &Arc<BackendState>) -> Permit {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let waiting = join(state);
        loop {
            if let Poll::Ready(grant) = waiting.poll(&Context::from_waker(&waker)) {
                return grant.into_permit();
            }
            let looked = std::time::Instant::now();
            thread::park_timeout(Duration::from_secs(20));
            assert!(looked.elapsed() < Duration::from_secs(20), "no wake-up: {state:?}");
        }
    }

    #[test]
    fn threads_lose_no_place_to_each_other() {
        let state = bounded(2);
        let (inside, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2_000 {
                        let permit = match state.is_waited_for(Kind::Request) {
                            false => state.request(2).unwrap_or_else(|| wait(&state)),
                            true => wait(&state),
                        };
                        assert!(inside.fetch_add(1, Ordering::SeqCst) < 2);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(permit);
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(done.into_inner(), 8_000);
        assert!([1, 2].map(|_| state.request(2)).iter().all(Option::is_some), "all permits are free again");
    }
}
