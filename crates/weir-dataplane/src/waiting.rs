//! Requests that wait for a place at a backend whose limit is reached: one queue for each limit, of the whole process, in
//! the order in which they came.
//!
//! ```text
//! join -> waits -> has a place, or the very connection that became free on its own worker
//!           +----> its time is over, and it leaves
//! ```
//! Whoever gives a place back gives it to the first who waits, and newcomers stand behind: nobody asks again and again,
//! and nobody is passed over. A request that joins looks for a place once more, as the last one may have become free
//! before it was there to be seen. So either it finds that place, or who gave it back has found the request.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};

use crate::backend_state::{BackendState, Kind, Place};
use crate::io::Io;
use crate::pool::Upstream;

/// Those who wait for a place of one kind.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// How many there are; it is looked at without the lock.
    length: AtomicU32,
    /// How many places there are, by the newest version of the table.
    most: AtomicU32,
    waiters: Mutex<VecDeque<Arc<Waiter>>>,
}

/// One who waits, as those see it who have something to give.
#[derive(Debug)]
struct Waiter {
    /// Connections can be used where they were made, and nowhere else.
    thread: ThreadId,
    slot: Mutex<Slot>,
}

#[derive(Debug, Default)]
struct Slot {
    grant: Option<Grant>,
    waker: Option<Waker>,
}

/// What somebody has waited for.
#[derive(Debug)]
pub(crate) enum Grant {
    Place(Place),
    /// A connection with its place.
    Connection(Box<Upstream>),
}

/// One who waits, for as long as this is there.
#[derive(Debug)]
pub(crate) struct Waiting {
    state: Arc<BackendState>,
    kind: Kind,
    waiter: Arc<Waiter>,
    /// It may still stand in the queue.
    is_in: Cell<bool>,
}

impl Queue {
    /// Whether somebody waits.
    #[inline]
    pub(crate) fn is_anybody(&self) -> bool {
        // Ordered with the counts of places: of two who change one and look at the other at one time, one sees it.
        self.length.load(Ordering::SeqCst) > 0
    }

    /// How many wait.
    pub(crate) fn length(&self) -> u64 {
        u64::from(self.length.load(Ordering::SeqCst))
    }

    /// From now on there are so many places.
    pub(crate) fn bound(&self, most: u32) {
        self.most.store(most, Ordering::SeqCst);
    }

    /// Gives places to those who wait, the first one first, as long as `take` finds one below the limit that it is told.
    #[cold]
    pub(crate) fn serve(&self, take: impl Fn(u32) -> Option<Place>) {
        while self.is_anybody() {
            let mut waiters = self.lock();
            if waiters.is_empty() {
                return;
            }
            let Some(place) = take(self.most.load(Ordering::SeqCst)) else { return };
            let first = self.pop(&mut waiters);
            // What is dropped with its lock held would ask for the lock.
            drop(waiters);
            if let Some(first) = first {
                first.grant(Grant::Place(place));
            }
        }
    }

    /// Gives a connection of this thread to the first who waits, or its place alone where that is one of another thread.
    /// Where nobody waits it comes back.
    #[cold]
    pub(crate) fn hand_over(&self, upstream: Box<Upstream>) -> Option<Box<Upstream>> {
        let mut waiters = self.lock();
        let first = match waiters.front() {
            None => return Some(upstream),
            Some(first) if first.thread == thread::current().id() => self.pop(&mut waiters),
            // With the connection its place is given back, which serves whoever is first.
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
    /// Who has left meanwhile lets go of it with this waiter, which gives it to the next one.
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
    /// The place alone.
    pub(crate) fn into_place(self) -> Place {
        match self {
            Grant::Place(place) => place,
            Grant::Connection(upstream) => upstream.into_place(),
        }
    }
}

impl Waiting {
    /// Stands behind those who wait for a place of this kind.
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

    /// Waits for so many ticks at most, and then no more; `None` when these are over.
    pub(crate) async fn granted(self, io: Io<'_>, ticks: u32) -> Option<Grant> {
        match self.granted_within(io, ticks).await {
            Some(grant) => Some(grant),
            None => self.leave(),
        }
    }

    /// The same for one that may wait on.
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

    /// Waits no more; what it was granted at the last moment.
    pub(crate) fn leave(self) -> Option<Grant> {
        self.step_out();
        self.waiter.slot.lock().unwrap_or_else(PoisonError::into_inner).grant.take()
    }

    /// Leaves the queue, where it is in it.
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

    /// The state of a backend that may have so many requests.
    fn bounded(requests: u32) -> Arc<BackendState> {
        let state = BackendStates::default().of("b");
        state.bound(Bounds { requests, ..Bounds::default() });
        state
    }

    fn join(state: &Arc<BackendState>) -> Waiting {
        Waiting::join(state, Kind::Request)
    }

    fn granted(waiting: &Waiting) -> Option<Place> {
        match waiting.poll(&Context::from_waker(Waker::noop())) {
            Poll::Ready(grant) => Some(grant.into_place()),
            Poll::Pending => None,
        }
    }

    #[test]
    fn places_go_to_who_came_first() {
        let state = bounded(1);
        let held = state.request(1).unwrap();
        let waiting = [1, 2, 3].map(|_| join(&state));
        assert!(waiting.iter().all(|waiting| granted(waiting).is_none()));
        assert!(state.is_waited_for(Kind::Request));
        drop(held);
        for turn in 0..3 {
            let place = granted(&waiting[turn]).unwrap();
            assert!(waiting[turn + 1..].iter().all(|waiting| granted(waiting).is_none()), "{turn}");
            assert!(state.request(1).is_none(), "it is never free meanwhile");
            drop(place);
        }
        assert!(!state.is_waited_for(Kind::Request));
        assert!(state.request(1).is_some());
    }

    #[test]
    fn who_leaves_is_passed_over() {
        let state = bounded(1);
        let held = state.request(1).unwrap();
        let [first, second, third] = [1, 2, 3].map(|_| join(&state));
        drop(first);
        drop(held);
        // It was granted a place, and goes without having looked.
        drop(second);
        let place = granted(&third).unwrap();
        assert!(third.leave().is_none());
        drop(place);
        assert!(state.request(1).is_some() && !state.is_waited_for(Kind::Request));
    }

    #[test]
    fn what_is_granted_at_the_last_moment_counts() {
        let state = bounded(1);
        let held = state.request(1).unwrap();
        let waiting = join(&state);
        drop(held);
        let place = waiting.leave().unwrap().into_place();
        assert!(state.request(1).is_none());
        drop(place);
        assert!(state.request(1).is_some());
    }

    #[test]
    fn who_joins_where_there_is_room_has_a_place_at_once() {
        let state = bounded(1);
        assert!(granted(&join(&state)).is_some());
    }

    #[test]
    fn who_waits_goes_by_the_newest_bounds() {
        let state = bounded(1);
        let held = state.request(1).unwrap();
        let waiting = [1, 2, 3].map(|_| join(&state));
        let bound = |version: u64, requests: u32| state.bound(Bounds { version, requests, connections: 0 });
        let places = || waiting.iter().map(granted).map(|place| place.is_some()).collect::<Vec<_>>();
        bound(2, 2);
        let second = granted(&waiting[0]);
        assert!(second.is_some() && granted(&waiting[1]).is_none());
        bound(1, 9);
        assert!(granted(&waiting[1]).is_none(), "an older version says nothing any more");
        bound(3, 1);
        drop(second);
        assert_eq!(places(), [false; 3], "one is in use, and there is one");
        drop(held);
        assert_eq!(places(), [false, true, true], "the one gives it back at once");
    }

    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    /// A place, waited for by the thread.
    fn wait(state: &Arc<BackendState>) -> Place {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let waiting = join(state);
        loop {
            if let Poll::Ready(grant) = waiting.poll(&Context::from_waker(&waker)) {
                return grant.into_place();
            }
            let looked = std::time::Instant::now();
            thread::park_timeout(Duration::from_secs(20));
            assert!(looked.elapsed() < Duration::from_secs(20), "nobody has woken it: {state:?}");
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
                        let place = match state.is_waited_for(Kind::Request) {
                            false => state.request(2).unwrap_or_else(|| wait(&state)),
                            true => wait(&state),
                        };
                        assert!(inside.fetch_add(1, Ordering::SeqCst) < 2);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(place);
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(done.into_inner(), 8_000);
        assert!([1, 2].map(|_| state.request(2)).iter().all(Option::is_some), "all places are free again");
    }
}
