//! Time limits without a timer registration per request: one 100 ms clock per worker, one deadline per connection.
//!
//! Arming a deadline only stores a number. At each tick the worker checks all its connections and wakes those whose
//! deadline has passed. For ten thousand connections, this takes 0.1 ms. A deadline fires up to two ticks late, and
//! never early.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;

/// The time between two ticks.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// Number of ticks after which a wait for a response counts as long: 100 ms to 200 ms, because a wait can start just
/// before a tick.
const LONG_TICKS: u32 = 2;

/// A tick that is never reached.
pub(crate) const NEVER: u32 = u32::MAX;

/// The clock of a worker and the deadlines of its connections.
#[derive(Debug, Default)]
pub(crate) struct Wheel {
    now: Cell<u32>,
    /// Whether all deadlines count as passed, whatever their values.
    is_over: Cell<bool>,
    timers: RefCell<Vec<Rc<Timer>>>,
    /// The tick at which a search found no connection that was idle for long enough.
    nobody_idle: Cell<u32>,
}

/// The deadline of one connection, for all its waits.
#[derive(Debug)]
pub(crate) struct Timer {
    deadline: Cell<u32>,
    /// The latest tick to which a deadline may be set.
    latest: Cell<u32>,
    fired: Cell<bool>,
    waits: Cell<Waits>,
    /// The tick at which the wait for a response began.
    since: Cell<u32>,
    listener: u64,
    position: Cell<usize>,
    waker: RefCell<Option<Waker>>,
}

/// What a connection waits for. `Otherwise` stands for all waits that the wheel handles alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// The first byte of a request.
    Idle,
    /// Response bytes from an upstream.
    Response,
    Otherwise,
}

/// A time limit in ticks. It lasts at least `limit`, even if it starts just before a tick.
pub(crate) fn ticks(limit: Duration) -> u32 {
    let whole = limit.as_nanos().div_ceil(TICK.as_nanos());
    u32::try_from(whole).unwrap_or(NEVER / 2).min(NEVER / 2) + 1
}

impl Wheel {
    pub(crate) fn now(&self) -> u32 {
        self.now.get()
    }

    /// A deadline for a connection of this listener. The caller must return it with [`Wheel::forget`].
    pub(crate) fn timer(&self, listener: u64) -> Rc<Timer> {
        let mut timers = self.timers.borrow_mut();
        let timer = Rc::new(Timer {
            deadline: Cell::new(NEVER),
            latest: Cell::new(self.bounded(NEVER)),
            fired: Cell::new(false),
            waits: Cell::new(Waits::Otherwise),
            since: Cell::new(0),
            listener,
            position: Cell::new(timers.len()),
            waker: RefCell::new(None),
        });
        timers.push(Rc::clone(&timer));
        timer
    }

    pub(crate) fn forget(&self, timer: &Timer) {
        let mut timers = self.timers.borrow_mut();
        let position = timer.position.get();
        timers.swap_remove(position);
        if let Some(moved) = timers.get(position) {
            moved.position.set(position);
        }
    }

    /// Advances by one tick. Wakes connections whose deadline has passed, or whose wait for a response is now long.
    pub(crate) fn turn(&self) {
        let now = self.now.get() + 1;
        self.now.set(now);
        for timer in self.timers.borrow().iter() {
            if timer.deadline.get() <= now {
                timer.fire();
            } else if timer.waits.get() == Waits::Response && timer.since.get() + LONG_TICKS == now {
                timer.wake();
            }
        }
    }

    /// Makes all deadlines expire: existing waits end now, later waits at the next tick.
    pub(crate) fn end(&self) {
        self.is_over.set(true);
        for timer in self.timers.borrow().iter() {
            timer.latest.set(self.now.get());
            timer.fire();
        }
    }

    /// Whether all deadlines have passed.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.get()
    }

    fn bounded(&self, latest: u32) -> u32 {
        if self.is_over.get() { latest.min(self.now.get()) } else { latest }
    }

    /// Ends the wait of the connection that has been idle longest, if it has been idle for at least `least` ticks.
    /// `idle` is the idle timeout in ticks. Returns false if there is no such connection.
    pub(crate) fn end_idle(&self, least: u32, idle: u32) -> bool {
        let now = self.now.get();
        // A search in this tick has already found no connection. Idle times grow only with ticks, so a second search
        // would find none either.
        if self.nobody_idle.get() == now {
            return false;
        }
        let timers = self.timers.borrow();
        let latest = (now + idle).saturating_sub(least);
        let is_idle = |t: &&Rc<Timer>| t.waits.get() == Waits::Idle && t.deadline.get() <= latest;
        let Some(longest) = timers.iter().filter(is_idle).min_by_key(|t| t.deadline.get()) else {
            self.nobody_idle.set(now);
            return false;
        };
        longest.fire();
        true
    }

    /// Limits the idle time of connections (of one listener, or all) to `ticks` from now.
    pub(crate) fn hurry_idle(&self, listener: Option<u64>, ticks: u32) {
        let latest = self.now.get() + ticks;
        let chosen =
            |t: &&Rc<Timer>| t.waits.get() == Waits::Idle && listener.is_none_or(|l| l == t.listener);
        for timer in self.timers.borrow().iter().filter(chosen) {
            timer.deadline.set(timer.deadline.get().min(latest));
        }
    }
}

impl Timer {
    /// Sets the latest tick for all deadlines that are armed from now on. [`NEVER`] removes this limit.
    pub(crate) fn bound(&self, wheel: &Wheel, latest: u32) {
        self.latest.set(wheel.bounded(latest));
    }

    /// Whether the latest tick set by [`Timer::bound`] has been reached. A deadline can only end a wait, so a task that
    /// never waits must check this itself.
    #[inline]
    pub(crate) fn is_past_bound(&self, wheel: &Wheel) -> bool {
        self.latest.get() <= wheel.now.get()
    }

    /// Sets the deadline `ticks` from now, and replaces the former one.
    #[inline]
    pub(crate) fn arm(&self, wheel: &Wheel, ticks: u32) {
        self.fired.set(false);
        self.waits.set(Waits::Otherwise);
        self.deadline.set((wheel.now.get() + ticks).min(self.latest.get()));
    }

    /// Like [`Timer::arm`], for the wait for a request. A drain ends this wait early.
    #[inline]
    pub(crate) fn arm_idle(&self, wheel: &Wheel, ticks: u32) {
        self.arm(wheel, ticks);
        self.waits.set(Waits::Idle);
    }

    /// Like [`Timer::arm`], for waiting for response bytes of an upstream. After `LONG_TICKS`, this also wakes the
    /// task, so that it can check whether the client has disconnected.
    #[inline]
    pub(crate) fn arm_response(&self, wheel: &Wheel, ticks: u32) {
        self.arm(wheel, ticks);
        self.waits.set(Waits::Response);
        self.since.set(wheel.now.get());
    }

    /// Whether the task has waited at least `LONG_TICKS` for response bytes of an upstream. The task is woken when this
    /// becomes true.
    #[inline]
    pub(crate) fn awaits_response_for_long(&self, wheel: &Wheel) -> bool {
        self.waits.get() == Waits::Response && wheel.now.get() - self.since.get() >= LONG_TICKS
    }

    /// Whether the deadline has passed. If not, the task of `cx` is woken when it does.
    #[inline]
    pub(crate) fn poll_over(&self, cx: &Context<'_>) -> bool {
        if self.fired.get() {
            return true;
        }
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        false
    }

    fn fire(&self) {
        self.fired.set(true);
        self.deadline.set(NEVER);
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use std::task::Wake;

    use super::*;

    /// Counts wake-ups.
    #[derive(Default)]
    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    fn is_over(timer: &Timer) -> bool {
        timer.poll_over(&Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_deadline_is_never_early() {
        assert_eq!(ticks(Duration::from_nanos(1)), 2);
        assert_eq!(ticks(Duration::from_millis(100)), 2);
        assert_eq!(ticks(Duration::from_millis(101)), 3);
        assert_eq!(ticks(Duration::from_secs(1)), 11);
    }

    #[test]
    fn a_deadline_fires_at_its_tick_unless_armed_again() {
        let wheel = Wheel::default();
        let (a, b) = (wheel.timer(1), wheel.timer(1));
        a.arm(&wheel, 2);
        b.arm(&wheel, 3);
        wheel.turn();
        assert!(!is_over(&a));
        b.arm(&wheel, 3);
        wheel.turn();
        assert!(is_over(&a) && !is_over(&b));
        a.arm(&wheel, 1);
        assert!(!is_over(&a));
        wheel.turn();
        wheel.turn();
        assert!(is_over(&a) && is_over(&b));
    }

    #[test]
    fn no_deadline_is_set_after_the_bound() {
        let wheel = Wheel::default();
        let timer = wheel.timer(1);
        timer.bound(&wheel, wheel.now() + 2);
        timer.arm(&wheel, 100);
        wheel.turn();
        timer.arm(&wheel, 100);
        assert!(!is_over(&timer) && !timer.is_past_bound(&wheel));
        wheel.turn();
        assert!(is_over(&timer) && timer.is_past_bound(&wheel));
        timer.bound(&wheel, NEVER);
        timer.arm(&wheel, 2);
        wheel.turn();
        assert!(!is_over(&timer) && !timer.is_past_bound(&wheel));
        wheel.turn();
        assert!(is_over(&timer));
    }

    #[test]
    fn forgetting_timers_keeps_the_others() {
        let wheel = Wheel::default();
        let timers: Vec<_> = (0..4).map(|_| wheel.timer(1)).collect();
        wheel.forget(&timers[1]);
        wheel.forget(&timers[3]);
        timers[0].arm(&wheel, 1);
        timers[2].arm(&wheel, 1);
        wheel.turn();
        assert!(is_over(&timers[0]) && is_over(&timers[2]));
        wheel.forget(&timers[0]);
        wheel.forget(&timers[2]);
        assert!(wheel.timers.borrow().is_empty());
    }

    #[test]
    fn the_longest_idle_connection_ends_first() {
        let wheel = Wheel::default();
        let (young, old, older, busy) = (wheel.timer(1), wheel.timer(1), wheel.timer(1), wheel.timer(1));
        busy.arm(&wheel, 5);
        older.arm_idle(&wheel, 100);
        wheel.turn();
        old.arm_idle(&wheel, 100);
        assert!(!wheel.end_idle(2, 100), "a tick is not enough");
        (0..2).for_each(|_| wheel.turn());
        young.arm_idle(&wheel, 100);
        let over = || [&young, &old, &older, &busy].map(|timer| is_over(timer));
        assert!(wheel.end_idle(2, 100));
        assert_eq!(over(), [false, false, true, false]);
        assert!(wheel.end_idle(2, 100));
        assert_eq!(over(), [false, true, true, false]);
        assert!(!wheel.end_idle(2, 100));
        (0..2).for_each(|_| wheel.turn());
        assert!(wheel.end_idle(2, 100) && !wheel.end_idle(2, 100));
        assert_eq!(over(), [true, true, true, true], "the deadline of the busy connection has passed");
    }

    #[test]
    fn only_idle_connections_are_hurried() {
        let wheel = Wheel::default();
        let (idle, busy, other) = (wheel.timer(1), wheel.timer(1), wheel.timer(2));
        idle.arm_idle(&wheel, 100);
        busy.arm(&wheel, 100);
        other.arm_idle(&wheel, 100);
        wheel.hurry_idle(Some(1), 1);
        wheel.turn();
        assert!(is_over(&idle) && !is_over(&busy) && !is_over(&other));
    }

    #[test]
    fn a_long_wait_for_a_response_wakes_once() {
        let wheel = Wheel::default();
        let (timer, woken) = (wheel.timer(1), Arc::new(Woken::default()));
        let waker = Waker::from(Arc::clone(&woken));
        timer.arm_response(&wheel, 5);
        assert!(!timer.poll_over(&Context::from_waker(&waker)));
        let turn = || {
            wheel.turn();
            (woken.0.load(Relaxed), timer.awaits_response_for_long(&wheel))
        };
        assert_eq!([turn(), turn(), turn()], [(0, false), (1, true), (1, true)]);
        timer.arm_response(&wheel, 5);
        assert!(!timer.awaits_response_for_long(&wheel), "a new wait");
        timer.arm(&wheel, 5);
        for _ in 0..LONG_TICKS {
            wheel.turn();
        }
        assert!(!timer.awaits_response_for_long(&wheel), "a wait of another kind");
    }

    #[test]
    fn after_the_end_no_wait_lasts_longer_than_a_tick() {
        let wheel = Wheel::default();
        let early = wheel.timer(1);
        early.arm(&wheel, 100);
        wheel.turn();
        wheel.end();
        assert!(is_over(&early) && early.is_past_bound(&wheel));
        let late = wheel.timer(1);
        early.bound(&wheel, NEVER);
        for timer in [&early, &late] {
            timer.arm(&wheel, 100);
            assert!(!is_over(timer), "a pending write still gets one tick");
        }
        wheel.turn();
        assert!(is_over(&early) && is_over(&late));
    }
}
