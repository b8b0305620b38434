//! One worker's load without its I/O: which request is sent on which connection, its result, and the end of the load.
//! The caller passes times and events in; the flow never reads a clock or a socket.
//!
//! ```text
//!   a connection:      connected            start            completed (reusable)
//!              Down ---------------> Free -----------> Busy ----------------------> Free
//!                ^                    |                  |
//!                |        closed      |                  | failed, timed out, not reusable,
//!                +--------------------+------------------+ nothing could be sent
//! ```

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use weir_results::Requests;

use crate::pacing::pauses::Pauses;
use crate::pacing::source::{Arrival, Source};
use crate::recording::books::{Books, Cause, Phase, count};
use crate::recording::recorder::{Completed, Interval, Loss, OpenTimes, Recorder, Send};
use crate::recording::routes::Routes;
use crate::timeline::Timeline;
use crate::warm_up::{Meter, WarmUp};

/// Interval at which time-outs are checked and the number of in-flight requests is sampled.
pub(crate) const TICK_NS: u64 = 10_000_000;

/// A queued arrival is dropped if its remaining time-out is at most this factor multiplied by the recent mean response
/// time. It is never dropped in the first three quarters of its time-out.
const RESPONSES_LEFT: u64 = 4;

/// One worker's load.
#[derive(Debug)]
pub(crate) struct Flow {
    source: Source,
    timeline: Timeline,
    timeout_ns: u64,
    slots: Vec<Slot>,
    /// Whether each slot replays a recorded session, beginning with the first request of the session.
    is_replay: bool,
    /// Free slots. The slot that has been free longest comes first, so that all connections carry load.
    free: VecDeque<u32>,
    /// Slots in a pause, each with the end of the pause. The slot whose pause ends first is on top.
    pausing: BinaryHeap<Reverse<(u64, u32)>>,
    pauses: Pauses,
    busy: u32,
    warmup: Books,
    sustained: Books,
    recorder: Recorder,
    /// State of a warm-up that can be extended, shared by all workers; `None` once the sustained phase has started.
    warm_up: Option<Arc<WarmUp>>,
    meter: Option<Arc<Meter>>,
    /// Counts per route; `None` if there is only one route.
    routes: Option<Routes>,
    tick_ns: u64,
    in_flight: Samples,
    /// Samples of the number of connections whose last attempt failed.
    missing: Samples,
    unsent_with_free_connection: u64,
    /// Time at which the last request ended, in any way. A load with a fixed number of requests ends at this time.
    resolved_ns: u64,
    /// Last time at which a connection was up.
    up_ns: u64,
    /// Moving mean of the time from sending a request to its response.
    response_ns: u64,
}

/// The result of a worker's load.
#[derive(Debug)]
pub(crate) struct FlowReport {
    pub(crate) timeline: Timeline,
    pub(crate) warmup: Books,
    pub(crate) sustained: Books,
    pub(crate) intervals: Vec<Interval>,
    pub(crate) open: Option<OpenTimes>,
    pub(crate) routes: Option<Routes>,
    pub(crate) sends: Vec<Send>,
    pub(crate) in_flight: Samples,
    pub(crate) missing: Samples,
    pub(crate) unsent_with_free_connection: u64,
}

/// Accumulates a mean: the sum and the number of samples.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Samples {
    pub(crate) sum: u64,
    pub(crate) count: u64,
}

/// A request to be written to a connection now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) slot: usize,
    pub(crate) index: u64,
    /// The argument for [`crate::request::RequestSource::choose`], which selects the request.
    pub(crate) pick: u64,
}

/// A complete response, with the properties that the counts need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    /// Whether the status is unexpected, or a check of the response failed.
    pub(crate) is_unexpected: bool,
    /// Time at which the last bytes of the response arrived at this host. The worker may have read them later.
    pub(crate) came_ns: u64,
    /// Whether the slot can carry another request.
    pub(crate) is_reusable: bool,
}

/// A slot for one in-flight request: a connection or an HTTP/2 stream.
#[derive(Debug)]
struct Slot {
    state: State,
    /// Whether the queue of free slots contains this slot. A slot may stay in the queue after it is no longer free; it
    /// is then skipped.
    is_queued: bool,
    /// Number of requests of a recorded session that this slot has started.
    replayed: u64,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Down,
    Pausing { until_ns: u64 },
    Free { since_ns: u64 },
    Busy(InFlight),
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    arrival: Arrival,
    /// Time at which the slot last became free.
    free_ns: u64,
    start_ns: u64,
    /// Whether at least one byte of the request was written.
    is_sent: bool,
}

impl InFlight {
    /// Whether at least one byte of the request was written, in this attempt or in an earlier one that a peer did
    /// not process.
    fn was_ever_sent(&self) -> bool {
        self.is_sent || self.arrival.was_sent
    }
}

impl Flow {
    /// A worker's load with this number of slots, all of which are down.
    pub(crate) fn new(source: Source, timeline: Timeline, timeout_ns: u64, slots: usize) -> Self {
        Self {
            recorder: Recorder::new(&timeline, source.is_open()),
            source,
            timeline,
            timeout_ns,
            slots: (0..slots).map(|_| Slot { state: State::Down, is_queued: false, replayed: 0 }).collect(),
            is_replay: false,
            free: VecDeque::with_capacity(slots),
            pausing: BinaryHeap::new(),
            pauses: Pauses::default(),
            busy: 0,
            warmup: Books::default(),
            sustained: Books::default(),
            warm_up: None,
            meter: None,
            routes: None,
            tick_ns: timeline.start_ns + TICK_NS,
            in_flight: Samples::default(),
            missing: Samples::default(),
            unsent_with_free_connection: 0,
            resolved_ns: timeline.start_ns,
            up_ns: timeline.start_ns,
            response_ns: 0,
        }
    }

    /// Sets the pauses: think times between requests, and the period in which each slot is used.
    pub(crate) fn with_pauses(self, pauses: Pauses) -> Self {
        Self { pauses, ..self }
    }

    /// Sets the state of a warm-up that is extended until it has settled. `worker` is the index of this flow's
    /// worker.
    pub(crate) fn with_warm_up(mut self, warm_up: Option<Arc<WarmUp>>, worker: u32) -> Self {
        self.meter = warm_up.as_ref().map(|warm_up| warm_up.meter(worker));
        self.warm_up = warm_up;
        self
    }

    /// If `is_recorded`, lets each slot of a closed loop replay the recorded session. The arrivals of an open loop
    /// share one pass through the session.
    pub(crate) fn with_replay(self, is_recorded: bool) -> Self {
        Self { is_replay: is_recorded && !self.source.is_open(), ..self }
    }

    /// Also keeps counts per route if `routes` is given.
    pub(crate) fn with_routes(self, routes: Option<Routes>) -> Self {
        Self { routes, ..self }
    }

    /// If `is_wanted`, keeps the intended and the actual time of every send.
    pub(crate) fn with_trace(mut self, is_wanted: bool) -> Self {
        if is_wanted {
            self.recorder.keep_sends();
        }
        self
    }

    pub(crate) fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// Reports that the connection or the HTTP/2 stream of `slot` is up and idle.
    pub(crate) fn connected(&mut self, slot: usize, now_ns: u64) {
        debug_assert!(matches!(self.slots[slot].state, State::Down));
        self.release(slot, now_ns);
    }

    /// Reports that an idle slot is down: its connection was closed, or accepts no more requests.
    pub(crate) fn disconnected(&mut self, slot: usize) {
        debug_assert!(!matches!(self.slots[slot].state, State::Busy(_)));
        self.slots[slot].state = State::Down;
    }

    /// Counts a connection attempt that failed, or an idle connection that ended without an orderly close.
    pub(crate) fn connection_error(&mut self, now_ns: u64, cause: Cause) {
        let phase = if self.timeline.sustained_at(now_ns) { Phase::Sustained } else { Phase::Warmup };
        count(&mut self.books(phase).errors, cause);
    }

    /// Records how many connections are missing because their last connection attempt failed.
    pub(crate) fn note_missing(&mut self, connections: u64, now_ns: u64) {
        if self.timeline.sustained_at(now_ns) {
            self.missing.sum += connections;
            self.missing.count += 1;
        }
    }

    /// Begins a turn of the worker's loop. Bytes that are read and written in this turn belong to the interval of
    /// `now_ns`.
    #[inline]
    pub(crate) fn turn(&mut self, now_ns: u64) {
        self.observe(now_ns);
        self.recorder.advance(now_ns, &self.timeline);
        self.end_pauses(now_ns);
    }

    /// Takes the next due arrival and assigns it to a free slot. The caller must then write the request at once.
    /// Returns `None` if no arrival is due or no slot is free.
    #[inline]
    pub(crate) fn start(&mut self, now_ns: u64) -> Option<Start> {
        self.observe(now_ns);
        let (slot, free_ns) = self.next_free(now_ns)?;
        let arrival = loop {
            let arrival = self.take_arrival(self.is_replay.then_some(slot), now_ns)?;
            if !self.is_hopeless(arrival, now_ns) {
                break arrival;
            }
            self.drop_arrival(arrival);
        };
        self.recorder.advance(now_ns, &self.timeline);
        self.free.pop_front();
        let place = &mut self.slots[slot];
        place.is_queued = false;
        place.state = State::Busy(InFlight { arrival, free_ns, start_ns: now_ns, is_sent: false });
        self.busy += 1;
        Some(Start { slot, index: arrival.index, pick: arrival.pick })
    }

    /// Whether [`Flow::start`] would return a request.
    #[inline]
    pub(crate) fn is_start_due(&mut self, now_ns: u64) -> bool {
        self.next_free(now_ns).is_some()
            && self.source.next_due_ns(now_ns, &self.timeline).is_some_and(|due_ns| due_ns <= now_ns)
    }

    /// Reports that the first bytes of the request on `slot` were written.
    #[inline]
    pub(crate) fn sent(&mut self, slot: usize) {
        let State::Busy(request) = &mut self.slots[slot].state else { return };
        request.is_sent = true;
        let request = *request;
        let intended_ns = request.arrival.intended_ns;
        let could_ns = intended_ns.max(request.free_ns);
        let phase = self.timeline.phase(intended_ns);
        let end_ns = self.timeline.end_ns;
        if request.arrival.was_sent {
            return;
        }
        self.count(request.arrival, |requests| requests.sent += 1);
        let lateness_ns = request.start_ns.saturating_sub(intended_ns);
        self.recorder.sent(phase, lateness_ns, request.free_ns.saturating_sub(intended_ns));
        if phase == Phase::Sustained {
            self.recorder.keep_send((intended_ns, request.start_ns));
        }
        if phase == Phase::Sustained && could_ns < end_ns && request.start_ns >= end_ns {
            self.unsent_with_free_connection += 1;
        }
    }

    /// Like [`Flow::sent`], for a request that was started earlier and is written at `now_ns`.
    pub(crate) fn sent_at(&mut self, slot: usize, now_ns: u64) {
        if let State::Busy(request) = &mut self.slots[slot].state {
            request.start_ns = request.start_ns.max(now_ns);
        }
        self.sent(slot);
    }

    /// Reports that nothing of the request on `slot` could be written. The slot is now down, and another slot sends
    /// the request.
    pub(crate) fn not_sent(&mut self, slot: usize) {
        let State::Busy(request) = self.slots[slot].state else { return };
        debug_assert!(!request.is_sent);
        self.slots[slot].state = State::Down;
        self.busy -= 1;
        self.source.give_back(request.arrival);
    }

    /// Reports that the peer did not process the request on `slot`. The slot is now down, and another slot sends
    /// the request.
    pub(crate) fn not_processed(&mut self, slot: usize) {
        let State::Busy(request) = self.slots[slot].state else { return };
        self.slots[slot].state = State::Down;
        self.busy -= 1;
        let was_sent = request.was_ever_sent();
        self.source.give_back(Arrival { was_sent, ..request.arrival });
    }

    #[inline]
    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.recorder.wrote(bytes);
    }

    #[inline]
    pub(crate) fn read(&mut self, bytes: usize) {
        self.recorder.read(bytes);
    }

    pub(crate) fn is_busy(&self, slot: usize) -> bool {
        matches!(self.slots[slot].state, State::Busy(_))
    }

    /// Whether the slot should be used now. This depends on the time if the number of connections changes.
    pub(crate) fn is_in_use(&self, slot: usize, now_ns: u64) -> bool {
        self.pauses.begins_ns(slot, &self.timeline) <= now_ns && !self.is_done(slot, now_ns)
    }

    /// Whether the slot is no longer used.
    pub(crate) fn is_done(&self, slot: usize, now_ns: u64) -> bool {
        self.pauses.ends_ns(slot, &self.timeline) <= now_ns
    }

    pub(crate) fn is_down(&self, slot: usize) -> bool {
        matches!(self.slots[slot].state, State::Down)
    }

    /// Reports that the response on `slot` is complete. The slot becomes free, or down if it cannot be reused.
    #[inline]
    pub(crate) fn completed(&mut self, slot: usize, now_ns: u64, answered: Answered) {
        let Some(request) = self.resolve(slot, now_ns) else { return };
        let Answered { status, is_unexpected, came_ns, is_reusable } = answered;
        let intended_ns = request.arrival.intended_ns;
        let phase = self.timeline.phase(intended_ns);
        let service_time_ns = came_ns.saturating_sub(request.start_ns);
        self.learn(service_time_ns);
        if came_ns >= intended_ns.saturating_add(self.timeout_ns) {
            // The response arrived too late to count. But the peer received the request, and the connection is
            // intact.
            self.count(request.arrival, |requests| requests.timed_out += 1);
            self.recorder.lost(Loss::TimedOut);
        } else {
            let latency_ns = came_ns.saturating_sub(intended_ns);
            self.books(phase).complete(status);
            self.count(request.arrival, |requests| {
                requests.completed += 1;
                requests.unexpected += u64::from(is_unexpected);
            });
            if phase == Phase::Warmup
                && let Some(meter) = &self.meter
            {
                meter.answered(came_ns, latency_ns);
            }
            self.recorder.completed(Completed { phase, is_unexpected, latency_ns, service_time_ns });
            if phase == Phase::Sustained
                && let Some(routes) = &mut self.routes
            {
                routes.completed(request.arrival.pick, status, latency_ns);
            }
        }
        if is_reusable {
            self.release(slot, now_ns);
        }
    }

    /// Reports that the request on `slot` failed without a complete response. The slot is now down.
    pub(crate) fn failed(&mut self, slot: usize, now_ns: u64, cause: Cause) {
        let Some(request) = self.resolve(slot, now_ns) else { return };
        self.count(request.arrival, |requests| requests.failed += 1);
        let books = self.books(self.timeline.phase(request.arrival.intended_ns));
        books.uncertain += u64::from(request.was_ever_sent());
        count(&mut books.errors, cause);
        self.recorder.lost(Loss::Failed);
    }

    /// Whether [`Flow::tick`] is due.
    #[inline]
    pub(crate) fn is_tick_due(&self, now_ns: u64) -> bool {
        now_ns >= self.tick_ns
    }

    /// Takes samples, and ends requests that timed out. If such a request has a slot, sets the slot to `Down` and adds
    /// it to `expired`. For each slot in `expired`, the caller must close the connection or reset the HTTP/2 stream.
    pub(crate) fn tick(&mut self, now_ns: u64, expired: &mut Vec<usize>) {
        self.tick_ns = now_ns + TICK_NS;
        self.recorder.advance(now_ns, &self.timeline);
        self.drop_expired(now_ns);
        self.time_out(now_ns, expired);
        if self.timeline.sustained_at(now_ns) {
            self.in_flight.sum += u64::from(self.busy) + self.source.waiting(now_ns, &self.timeline);
            self.in_flight.count += 1;
        }
        if self.slots.iter().any(|slot| !matches!(slot.state, State::Down)) {
            self.up_ns = now_ns;
        }
    }

    /// Makes the start of the sustained phase final before this worker schedules a request in that phase. If the start
    /// was postponed, the worker uses the new start. So all workers use the same start, even if a worker is late
    /// because it got no CPU time.
    #[inline]
    fn observe(&mut self, now_ns: u64) {
        while now_ns >= self.timeline.sustain_ns
            && let Some(warm_up) = &self.warm_up
        {
            match warm_up.reach(self.timeline.sustain_ns) {
                Ok(()) => self.warm_up = None,
                Err(later_ns) => {
                    self.timeline.put_off(later_ns);
                    self.recorder.put_off(&self.timeline);
                }
            }
        }
    }

    /// Ends the phase at `end_ns`, and then waits at most `drain_ns` for responses. Does nothing if `end_ns` is not
    /// earlier than the planned end.
    pub(crate) fn cut(&mut self, end_ns: u64, drain_ns: u64) {
        if end_ns < self.timeline.end_ns {
            self.timeline.cut(end_ns, drain_ns);
            self.recorder.cut(end_ns);
        }
    }

    /// Returns the next time at which [`Flow::start`] or [`Flow::tick`] has something to do, a pause ends, or a
    /// phase begins or ends.
    #[inline]
    pub(crate) fn next_deadline_ns(&mut self, now_ns: u64) -> u64 {
        let mut deadline_ns = self.tick_ns;
        for border_ns in [self.timeline.sustain_ns, self.timeline.end_ns] {
            if border_ns > now_ns {
                deadline_ns = deadline_ns.min(border_ns);
            }
        }
        if let Some(Reverse((until_ns, _))) = self.pausing.peek() {
            deadline_ns = deadline_ns.min(*until_ns);
        }
        match self.source.next_due_ns(now_ns, &self.timeline) {
            Some(due_ns) if due_ns < deadline_ns && self.next_free(now_ns).is_some() => due_ns,
            _ => deadline_ns,
        }
    }

    /// Like [`Flow::next_deadline_ns`], but ignores arrivals.
    pub(crate) fn next_event_ns(&self, now_ns: u64) -> u64 {
        let borders = [self.timeline.sustain_ns, self.timeline.end_ns];
        let pause = self.pausing.peek().map(|Reverse((until_ns, _))| *until_ns);
        let next = borders.into_iter().filter(|&border_ns| border_ns > now_ns).chain(pause);
        next.fold(self.tick_ns, u64::min)
    }

    /// Returns the due time of the first arrival of an open loop after `covered_ns`.
    pub(crate) fn next_arrival_after_ns(&mut self, covered_ns: u64) -> Option<u64> {
        self.source.next_after(covered_ns, &self.timeline)
    }

    /// Returns an upper bound on the number of free slots. Some of the counted slots may no longer be free.
    pub(crate) fn free_slots(&self) -> usize {
        self.free.len()
    }

    /// Whether requests are left to send.
    pub(crate) fn needs_connections(&self, now_ns: u64) -> bool {
        let is_used_up = self.timeline.end_ns == u64::MAX && self.source.is_used_up();
        now_ns < self.timeline.end_ns && !is_used_up
            || self.source.next_due_ns(now_ns, &self.timeline).is_some()
    }

    /// Whether the load is finished: the phase is over, and all requests have ended or the time to wait for
    /// responses is over.
    pub(crate) fn is_finished(&mut self, now_ns: u64) -> bool {
        if self.timeline.end_ns == u64::MAX && self.source.ends_by_count() {
            let gave_up = now_ns.saturating_sub(self.up_ns) > self.timeout_ns && self.busy == 0;
            if now_ns < self.timeline.sustain_ns || !(gave_up || self.source.is_used_up() && self.busy == 0) {
                return false;
            }
            // The load has a fixed number of requests: the phase lasted until the last request ended.
            let end_ns = if gave_up { now_ns } else { self.resolved_ns.max(self.timeline.sustain_ns) };
            self.cut(end_ns, 0);
            return true;
        }
        if now_ns < self.timeline.end_ns {
            return false;
        }
        now_ns >= self.timeline.drain_end_ns
            || (self.busy == 0 && self.source.next_due_ns(now_ns, &self.timeline).is_none())
    }

    /// Returns the intervals that have ended since the last call.
    pub(crate) fn take_finished_intervals(&mut self) -> impl Iterator<Item = Interval> {
        self.recorder.take_finished()
    }

    pub(crate) fn has_finished_intervals(&self) -> bool {
        self.recorder.has_finished()
    }

    /// Ends the load and returns its counts. Requests that have not ended count as in flight.
    pub(crate) fn finish(mut self, now_ns: u64) -> FlowReport {
        self.observe(now_ns);
        self.recorder.advance(now_ns, &self.timeline);
        self.drop_expired(now_ns);
        self.time_out(now_ns, &mut Vec::new());
        for slot in 0..self.slots.len() {
            if let State::Busy(request) = self.slots[slot].state {
                self.count(request.arrival, |requests| requests.in_flight += 1);
                let books = self.books(self.timeline.phase(request.arrival.intended_ns));
                books.uncertain += u64::from(request.was_ever_sent());
            }
        }
        if self.source.is_open() {
            // At the end of an open load, all due arrivals count as scheduled. A closed load starts no request after
            // its end.
            while let Some(arrival) = self.take_arrival(None, now_ns) {
                self.leave_in_flight(arrival);
            }
        } else {
            while let Some(arrival) = self.source.take_expired(u64::MAX, &self.timeline) {
                self.leave_in_flight(arrival);
            }
        }
        let sends = self.recorder.take_sends();
        let (intervals, open) = self.recorder.finish(now_ns, &self.timeline);
        FlowReport {
            timeline: self.timeline,
            warmup: self.warmup,
            sustained: self.sustained,
            intervals,
            open,
            routes: self.routes,
            sends,
            in_flight: self.in_flight,
            missing: self.missing,
            unsent_with_free_connection: self.unsent_with_free_connection,
        }
    }

    #[inline]
    fn books(&mut self, phase: Phase) -> &mut Books {
        match phase {
            Phase::Warmup => &mut self.warmup,
            Phase::Sustained => &mut self.sustained,
        }
    }

    /// Changes the counts of the phase and of the route that an arrival belongs to.
    #[inline]
    fn count(&mut self, arrival: Arrival, change: impl Fn(&mut Requests)) {
        let phase = self.timeline.phase(arrival.intended_ns);
        change(&mut self.books(phase).requests);
        if phase == Phase::Sustained
            && let Some(routes) = &mut self.routes
        {
            change(routes.requests(arrival.pick));
        }
    }

    /// Returns the slot that has been free longest, and the time at which it became free.
    #[inline]
    fn next_free(&mut self, now_ns: u64) -> Option<(usize, u64)> {
        loop {
            let slot = *self.free.front()? as usize;
            if let State::Free { since_ns } = self.slots[slot].state {
                if now_ns < self.pauses.ends_ns(slot, &self.timeline) {
                    return Some((slot, since_ns));
                }
                // The load has reduced its number of connections, and no longer uses this slot.
                self.slots[slot].state = State::Down;
            }
            self.slots[slot].is_queued = false;
            self.free.pop_front();
        }
    }

    /// Takes the next due arrival. If `replaying` is set, this slot replays a recorded session: its position in the
    /// session selects the request. An arrival that was given back keeps its request, and is not counted again.
    #[inline]
    fn take_arrival(&mut self, replaying: Option<usize>, now_ns: u64) -> Option<Arrival> {
        let mut arrival = self.source.take(now_ns, &self.timeline)?;
        if !arrival.is_again {
            if let Some(slot) = replaying {
                let place = &mut self.slots[slot];
                arrival.pick = place.replayed;
                place.replayed += 1;
            }
            self.count(arrival, |requests| requests.scheduled += 1);
        }
        Some(arrival)
    }

    /// Counts an arrival that still waits for a slot when the load ends. It counts as in flight.
    fn leave_in_flight(&mut self, arrival: Arrival) {
        self.count(arrival, |requests| requests.in_flight += 1);
        self.books(self.timeline.phase(arrival.intended_ns)).uncertain += u64::from(arrival.was_sent);
    }

    fn drop_arrival(&mut self, arrival: Arrival) {
        if arrival.was_sent {
            // The request was sent once, and no peer processed it.
            self.count(arrival, |requests| requests.failed += 1);
            let books = self.books(self.timeline.phase(arrival.intended_ns));
            books.uncertain += 1;
            count(&mut books.errors, Cause::GoAway);
            self.recorder.lost(Loss::Failed);
        } else {
            self.count(arrival, |requests| requests.dropped += 1);
            self.recorder.lost(Loss::Dropped);
        }
    }

    /// Whether an arrival has waited so long that no response is likely to arrive within its time-out.
    ///
    /// In a long overload, every arrival reaches the head of the queue just before its time-out. If requests were sent
    /// then, all of them would time out, and a saturated peer would seem to have no capacity. So an arrival is dropped
    /// if the rest of its time-out is shorter than a few recent response times. It is never dropped in the first three
    /// quarters of its time-out.
    #[inline]
    fn is_hopeless(&self, arrival: Arrival, now_ns: u64) -> bool {
        let waited_ns = now_ns.saturating_sub(arrival.intended_ns);
        let needed_ns = (self.response_ns * RESPONSES_LEFT).min(self.timeout_ns / 4);
        waited_ns.saturating_add(needed_ns) >= self.timeout_ns
    }

    #[inline]
    fn learn(&mut self, response_ns: u64) {
        self.response_ns = (self.response_ns * 7 + response_ns) / 8;
    }

    /// Drops arrivals that were not sent within their time-out.
    fn drop_expired(&mut self, now_ns: u64) {
        let Some(before_ns) = now_ns.checked_sub(self.timeout_ns) else { return };
        while let Some(arrival) = self.source.take_expired(before_ns, &self.timeline) {
            if !arrival.is_again {
                self.count(arrival, |requests| requests.scheduled += 1);
            }
            self.drop_arrival(arrival);
        }
    }

    /// Gives up on requests at their time-out. Requests that were never sent count as dropped.
    fn time_out(&mut self, now_ns: u64, expired: &mut Vec<usize>) {
        for slot in 0..self.slots.len() {
            let State::Busy(request) = self.slots[slot].state else { continue };
            let intended_ns = request.arrival.intended_ns;
            if now_ns < intended_ns.saturating_add(self.timeout_ns) {
                continue;
            }
            self.resolve(slot, now_ns);
            self.learn(now_ns.saturating_sub(request.start_ns));
            if request.was_ever_sent() {
                self.count(request.arrival, |requests| requests.timed_out += 1);
                self.books(self.timeline.phase(intended_ns)).uncertain += 1;
                self.recorder.lost(Loss::TimedOut);
            } else {
                self.count(request.arrival, |requests| requests.dropped += 1);
                self.recorder.lost(Loss::Dropped);
            }
            expired.push(slot);
        }
    }

    /// Ends and returns the request on `slot`; `None` if there is none. The slot is `Down` until it is released.
    #[inline]
    fn resolve(&mut self, slot: usize, now_ns: u64) -> Option<InFlight> {
        let State::Busy(request) = self.slots[slot].state else { return None };
        self.observe(now_ns);
        self.recorder.advance(now_ns, &self.timeline);
        self.slots[slot].state = State::Down;
        self.busy -= 1;
        self.resolved_ns = now_ns;
        self.pauses.resolved(slot, now_ns);
        Some(request)
    }

    /// Starts the pause of a slot that is up and idle. Without a pause, the slot becomes free.
    #[inline]
    fn release(&mut self, slot: usize, now_ns: u64) {
        let until_ns = self.pauses.until_ns(slot, now_ns, &self.timeline);
        if until_ns > now_ns {
            self.slots[slot].state = State::Pausing { until_ns };
            self.pausing.push(Reverse((until_ns, slot as u32)));
            return;
        }
        self.free_up(slot, now_ns);
    }

    #[inline]
    fn end_pauses(&mut self, now_ns: u64) {
        while let Some(&Reverse((until_ns, slot))) = self.pausing.peek() {
            if until_ns > now_ns {
                return;
            }
            self.pausing.pop();
            // The slot may have lost its connection during this pause. It is then down or in a later pause, and this
            // queue entry is outdated.
            if matches!(self.slots[slot as usize].state, State::Pausing { until_ns: until } if until == until_ns)
            {
                self.free_up(slot as usize, until_ns);
            }
        }
    }

    #[inline]
    fn free_up(&mut self, slot: usize, now_ns: u64) {
        let place = &mut self.slots[slot];
        place.state = State::Free { since_ns: now_ns };
        if !std::mem::replace(&mut place.is_queued, true) {
            self.free.push_back(slot as u32);
        }
    }
}

#[cfg(test)]
mod tests;
