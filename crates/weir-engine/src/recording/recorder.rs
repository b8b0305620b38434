//! What one worker records: counts and latencies per interval, and distributions for the sustained phase.

use hdrhistogram::Histogram;
use weir_results::new_histogram;

use crate::recording::books::Phase;
use crate::timeline::{Span, Timeline};

/// What one worker recorded in one interval of the load (usually a second).
#[derive(Clone, Debug)]
pub(crate) struct Interval {
    pub(crate) span: Span,
    pub(crate) sent: u64,
    pub(crate) completed: u64,
    pub(crate) unexpected: u64,
    pub(crate) lost: u64,
    /// The part of `lost` that was sent and timed out.
    pub(crate) timed_out: u64,
    /// The part of `lost` that was never sent.
    pub(crate) dropped: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    /// Latency of the requests of the sustained phase whose responses arrived in this interval.
    pub(crate) sustained: Histogram<u64>,
    /// Latency of warm-up requests whose responses arrived in this interval; `None` if there are none.
    pub(crate) warmup: Option<Histogram<u64>>,
}

/// Distributions for the sustained phase that exist only in an open loop.
#[derive(Clone, Debug)]
pub(crate) struct OpenTimes {
    pub(crate) service_time: Histogram<u64>,
    pub(crate) lateness: Histogram<u64>,
    pub(crate) connection_wait: Histogram<u64>,
}

/// When a request was intended to be sent, and when it was sent, in nanoseconds on the monotonic clock.
pub(crate) type Send = (u64, u64);

/// Maximum number of sends whose times are kept.
const SENDS_MAX: usize = 1_000_000;

/// Records the load of one worker. It reads no clock: every time is passed in.
#[derive(Debug)]
pub(crate) struct Recorder {
    current: Interval,
    finished: Vec<Interval>,
    open: Option<OpenTimes>,
    /// The times of sends in the sustained phase; `None` unless enabled.
    sends: Option<Vec<Send>>,
    /// Number of requests of the sustained phase that did not wait for a connection. They are added to the
    /// distribution of waits at the end.
    waited_for_none: u64,
}

/// Why a request got no complete response before its time-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    Failed,
    TimedOut,
    Dropped,
}

/// The phase, the times and the status of a request that completed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completed {
    pub(crate) phase: Phase,
    pub(crate) is_unexpected: bool,
    pub(crate) latency_ns: u64,
    pub(crate) service_time_ns: u64,
}

impl Recorder {
    pub(crate) fn new(timeline: &Timeline, is_open: bool) -> Self {
        Self {
            current: Interval::new(timeline.span_at(timeline.start_ns)),
            finished: Vec::new(),
            open: is_open.then(OpenTimes::new),
            sends: None,
            waited_for_none: 0,
        }
    }

    /// Enables recording the times of every send, up to [`SENDS_MAX`].
    pub(crate) fn keep_sends(&mut self) {
        self.sends = Some(Vec::new());
    }

    /// Returns the times of the recorded sends.
    pub(crate) fn take_sends(&mut self) -> Vec<Send> {
        self.sends.take().unwrap_or_default()
    }

    /// Records the times of a send in the sustained phase, if enabled.
    #[inline]
    pub(crate) fn keep_send(&mut self, send: Send) {
        if let Some(sends) = &mut self.sends
            && sends.len() < SENDS_MAX
        {
            sends.push(send);
        }
    }

    /// Ends all intervals before `now_ns`, and starts the interval that contains `now_ns`, unless it is already the
    /// current one.
    #[inline]
    pub(crate) fn advance(&mut self, now_ns: u64, timeline: &Timeline) {
        if now_ns >= self.current.span.end_ns {
            self.rotate(now_ns, timeline);
        }
    }

    /// Extends the warm-up. If the current interval was shortened to end with the warm-up, extends the interval too.
    pub(crate) fn put_off(&mut self, timeline: &Timeline) {
        let span = &mut self.current.span;
        if !span.sustained {
            *span = timeline.span_at(span.start_ns);
        }
    }

    /// Shortens the current interval if it ends after `end_ns`, the new end of the sustained phase.
    pub(crate) fn cut(&mut self, end_ns: u64) {
        let span = &mut self.current.span;
        span.end_ns = span.end_ns.min(end_ns.max(span.start_ns));
    }

    /// Returns the intervals that have ended since the last call.
    pub(crate) fn take_finished(&mut self) -> std::vec::Drain<'_, Interval> {
        self.finished.drain(..)
    }

    pub(crate) fn has_finished(&self) -> bool {
        !self.finished.is_empty()
    }

    #[inline]
    pub(crate) fn sent(&mut self, phase: Phase, lateness_ns: u64, connection_wait_ns: u64) {
        self.current.sent += 1;
        if phase == Phase::Sustained
            && let Some(open) = &mut self.open
        {
            open.lateness.saturating_record(lateness_ns);
            if connection_wait_ns == 0 {
                self.waited_for_none += 1;
            } else {
                open.connection_wait.saturating_record(connection_wait_ns);
            }
        }
    }

    #[inline]
    pub(crate) fn completed(&mut self, times: Completed) {
        self.current.completed += 1;
        self.current.unexpected += u64::from(times.is_unexpected);
        if times.phase == Phase::Sustained {
            self.current.sustained.saturating_record(times.latency_ns);
            if let Some(open) = &mut self.open {
                open.service_time.saturating_record(times.service_time_ns);
            }
        } else {
            self.current.warmup.get_or_insert_with(new_histogram).saturating_record(times.latency_ns);
        }
    }

    #[inline]
    pub(crate) fn lost(&mut self, loss: Loss) {
        self.current.lost += 1;
        match loss {
            Loss::Failed => {}
            Loss::TimedOut => self.current.timed_out += 1,
            Loss::Dropped => self.current.dropped += 1,
        }
    }

    #[inline]
    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.current.bytes_sent += bytes as u64;
    }

    #[inline]
    pub(crate) fn read(&mut self, bytes: usize) {
        self.current.bytes_received += bytes as u64;
    }

    /// Ends the record at `now_ns`. Returns the remaining intervals, and the distributions of an open loop. The
    /// time after the phase is an interval only if something happened in it.
    pub(crate) fn finish(mut self, now_ns: u64, timeline: &Timeline) -> (Vec<Interval>, Option<OpenTimes>) {
        self.current.span.end_ns = self.current.span.end_ns.min(now_ns.max(self.current.span.start_ns));
        if self.current.span.start_ns < timeline.end_ns || self.current.has_something() {
            self.finished.push(self.current);
        }
        if let Some(open) = &mut self.open {
            open.connection_wait.saturating_record_n(0, self.waited_for_none);
        }
        (self.finished, self.open)
    }

    #[cold]
    fn rotate(&mut self, now_ns: u64, timeline: &Timeline) {
        while now_ns >= self.current.span.end_ns {
            let next = Interval::new(timeline.span_at(self.current.span.end_ns));
            self.finished.push(std::mem::replace(&mut self.current, next));
        }
    }
}

impl Interval {
    fn new(span: Span) -> Self {
        Self {
            span,
            sent: 0,
            completed: 0,
            unexpected: 0,
            lost: 0,
            timed_out: 0,
            dropped: 0,
            bytes_sent: 0,
            bytes_received: 0,
            sustained: new_histogram(),
            warmup: None,
        }
    }

    fn has_something(&self) -> bool {
        let Self { sent, completed, lost, bytes_sent, bytes_received, .. } = self;
        [sent, completed, lost, bytes_sent, bytes_received].into_iter().any(|count| *count > 0)
    }

    /// Adds what another worker recorded in the same interval.
    pub(crate) fn add(&mut self, other: &Interval) {
        debug_assert_eq!(
            (self.span.start_ns, self.span.sustained),
            (other.span.start_ns, other.span.sustained)
        );
        self.span.end_ns = self.span.end_ns.max(other.span.end_ns);
        self.sent += other.sent;
        self.completed += other.completed;
        self.unexpected += other.unexpected;
        self.lost += other.lost;
        self.timed_out += other.timed_out;
        self.dropped += other.dropped;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        add_histogram(&mut self.sustained, &other.sustained);
        if let Some(warmup) = &other.warmup {
            add_histogram(self.warmup.get_or_insert_with(new_histogram), warmup);
        }
    }

    /// Latency of all requests whose responses arrived in this interval. Includes the requests of the warm-up and of
    /// the sustained phase.
    pub(crate) fn latency(&self) -> Histogram<u64> {
        let mut all = self.sustained.clone();
        if let Some(warmup) = &self.warmup {
            add_histogram(&mut all, warmup);
        }
        all
    }
}

impl OpenTimes {
    pub(crate) fn new() -> Self {
        Self { service_time: new_histogram(), lateness: new_histogram(), connection_wait: new_histogram() }
    }

    pub(crate) fn add(&mut self, other: &OpenTimes) {
        add_histogram(&mut self.service_time, &other.service_time);
        add_histogram(&mut self.lateness, &other.lateness);
        add_histogram(&mut self.connection_wait, &other.connection_wait);
    }
}

/// Adds a histogram to another of the same fixed range, without loss.
pub(crate) fn add_histogram(sum: &mut Histogram<u64>, other: &Histogram<u64>) {
    sum.add(other).expect("histograms with the same bounds can be added");
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn completed(phase: Phase, latency_ns: u64) -> Completed {
        Completed { phase, is_unexpected: false, latency_ns, service_time_ns: latency_ns }
    }

    #[test]
    fn every_event_is_in_an_interval_and_empty_intervals_are_kept() {
        let timeline = Timeline::new(0, S, Some(3 * S), S);
        let mut recorder = Recorder::new(&timeline, false);
        recorder.completed(completed(Phase::Warmup, 500));
        recorder.advance(S + 1, &timeline);
        recorder.completed(completed(Phase::Warmup, 700));
        recorder.completed(completed(Phase::Sustained, 900));
        recorder.advance(3 * S, &timeline);
        let (mut intervals, _) = recorder.finish(3 * S + S / 2, &timeline);
        intervals.iter_mut().for_each(|interval| assert_eq!(interval.latency().len(), interval.completed));
        let seen: Vec<_> = intervals
            .iter()
            .map(|i| (i.span.start_ns / S, i.span.sustained, i.completed, i.sustained.len()))
            .collect();
        assert_eq!(seen, [(0, false, 1, 0), (1, true, 2, 1), (2, true, 0, 0), (3, true, 0, 0)]);
        assert_eq!(intervals[3].span.end_ns, 3 * S + S / 2);
    }

    #[test]
    fn a_drain_without_events_is_not_an_interval() {
        let timeline = Timeline::new(0, 0, Some(S), S);
        for answers in 0..2 {
            let mut recorder = Recorder::new(&timeline, false);
            recorder.advance(S, &timeline);
            (0..answers).for_each(|_| recorder.completed(completed(Phase::Sustained, 500)));
            let (intervals, _) = recorder.finish(S + 5_000, &timeline);
            assert_eq!(intervals.len(), 1 + answers);
        }
    }

    #[test]
    fn lateness_exists_only_in_the_sustained_phase_of_an_open_loop() {
        let timeline = Timeline::new(0, S, Some(S), S);
        let mut recorder = Recorder::new(&timeline, true);
        recorder.sent(Phase::Warmup, 5, 0);
        recorder.sent(Phase::Sustained, 5_000, 0);
        recorder.sent(Phase::Sustained, 6_000, 9_000);
        let open = recorder.finish(0, &timeline).1.unwrap();
        assert_eq!((open.lateness.len(), open.connection_wait.len(), open.connection_wait.min()), (2, 2, 0));
    }
}
