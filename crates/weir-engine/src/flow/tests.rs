//! Tests the flow against simulated peers in virtual time: every value is exact or follows from theory.

use hdrhistogram::Histogram;
use weir_results::{Requests, new_histogram};

use super::*;
use crate::pacing::pauses::Seat;
use crate::pacing::schedule::{Schedule, hash};
use crate::spec::{ShardSpec, Spacing};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;

/// A load against a simulated peer. `service` returns how long the peer needs to respond to each request; `None`
/// means that it never responds.
struct Sim<F> {
    flow: Flow,
    now_ns: u64,
    answers_ns: Vec<Option<u64>>,
    service: F,
    /// How late the simulated generator wakes up for a timer.
    oversleep_ns: u64,
    sent: u64,
}

impl<F: FnMut(u64) -> Option<u64>> Sim<F> {
    fn new(source: Source, timeline: Timeline, timeout_ns: u64, connections: usize, service: F) -> Self {
        let mut flow = Flow::new(source, timeline, timeout_ns, connections);
        (0..connections).for_each(|slot| flow.connected(slot, timeline.start_ns));
        let answers_ns = vec![None; connections];
        Self { flow, now_ns: timeline.start_ns, answers_ns, service, oversleep_ns: 0, sent: 0 }
    }

    fn run(mut self) -> FlowReport {
        while self.turn() {}
        self.flow.finish(self.now_ns)
    }

    fn turn(&mut self) -> bool {
        let now_ns = self.now_ns;
        self.flow.turn(now_ns);
        while let Some(start) = self.flow.start(now_ns) {
            self.flow.sent(start.slot);
            self.sent += 1;
            self.answers_ns[start.slot] = (self.service)(start.index).map(|ns| now_ns + ns);
        }
        if self.flow.is_tick_due(now_ns) {
            let mut expired = Vec::new();
            self.flow.tick(now_ns, &mut expired);
            for slot in expired {
                self.answers_ns[slot] = None;
                self.flow.connected(slot, now_ns);
            }
            return true;
        }
        if self.flow.is_finished(now_ns) {
            return false;
        }
        let timer_ns = self.flow.next_deadline_ns(now_ns).max(now_ns) + self.oversleep_ns;
        let answer = self.answers_ns.iter().enumerate().filter_map(|(slot, at)| Some(((*at)?, slot))).min();
        match answer {
            Some((at_ns, slot)) if at_ns <= timer_ns => {
                self.now_ns = at_ns.max(now_ns);
                self.answers_ns[slot] = None;
                self.flow.completed(slot, self.now_ns, response(self.now_ns, 200, true));
            }
            _ => self.now_ns = timer_ns,
        }
        true
    }
}

fn response(came_ns: u64, status: u16, is_reusable: bool) -> Answered {
    Answered { status, is_unexpected: status >= 400, came_ns, is_reusable }
}

fn open(rate_per_s: f64, spacing: Spacing, seed: u64) -> Source {
    Source::open(Schedule::new(seed, rate_per_s, spacing).arrivals(0, 1), 1, u64::MAX)
}

fn latency(report: &FlowReport) -> Histogram<u64> {
    let mut sum = new_histogram();
    report.intervals.iter().for_each(|interval| sum.add(&interval.sustained).unwrap());
    sum
}

fn histogram(values_ns: impl IntoIterator<Item = u64>) -> Histogram<u64> {
    let mut histogram = new_histogram();
    values_ns.into_iter().for_each(|ns| histogram.record(ns).unwrap());
    histogram
}

/// Checks the invariants of every report.
fn check(report: &FlowReport) {
    for books in [&report.warmup, &report.sustained] {
        let requests = &books.requests;
        assert!(requests.balance(), "{requests:?}");
        assert!(requests.sent >= requests.completed + requests.timed_out, "{requests:?}");
        assert!(requests.sent <= requests.scheduled, "{requests:?}");
        assert_eq!(books.by_status().map(|(_, count)| count).sum::<u64>(), requests.completed);
        assert!(books.uncertain <= requests.sent);
    }
    let mut whole = report.warmup.requests;
    whole.add(&report.sustained.requests);
    let sum = |of: fn(&Interval) -> u64| report.intervals.iter().map(of).sum::<u64>();
    assert_eq!(sum(|interval| interval.sent), whole.sent);
    assert_eq!(sum(|interval| interval.completed), whole.completed);
    assert_eq!(sum(|interval| interval.lost), whole.failed + whole.timed_out + whole.dropped);
    assert_eq!(latency(report).len(), report.sustained.requests.completed);
    for pair in report.intervals.windows(2) {
        assert_eq!(pair[0].span.end_ns, pair[1].span.start_ns);
    }
}

#[test]
fn a_closed_loop_sends_after_each_response() {
    let timeline = Timeline::new(7 * S, 0, Some(S), 10 * S);
    let report = Sim::new(Source::closed(0, 1, None), timeline, 10 * S, 2, |_| Some(100 * US)).run();
    check(&report);
    let all = Requests { scheduled: 20_000, sent: 20_000, completed: 20_000, ..Requests::default() };
    assert_eq!(report.sustained.requests, all);
    assert_eq!(latency(&report), histogram((0..20_000).map(|_| 100 * US)));
    assert!(report.open.is_none());
    assert_eq!(report.in_flight.sum, 2 * report.in_flight.count);
}

#[test]
fn an_open_loop_below_capacity_measures_the_service_time() {
    let timeline = Timeline::new(S, 0, Some(S), 10 * S);
    let report = Sim::new(open(1_000.0, Spacing::Even, 1), timeline, 10 * S, 4, |_| Some(3_500 * US)).run();
    check(&report);
    let open = report.open.as_ref().unwrap();
    assert_eq!(report.sustained.requests.completed, 1_000);
    assert_eq!(latency(&report), histogram((0..1_000).map(|_| 3_500 * US)));
    assert_eq!(open.service_time, latency(&report));
    assert_eq!((open.lateness.max(), open.connection_wait.max()), (0, 0));
}

#[test]
fn a_long_overload_measures_the_capacity_of_the_peer() {
    // One connection completes 500 of 1,000 requests per second, and the time-out is a tenth of the phase. So the
    // oldest arrival in the queue is always about to expire.
    let timeline = Timeline::new(S, 0, Some(10 * S), S);
    let report = Sim::new(open(1_000.0, Spacing::Even, 1), timeline, S, 1, |_| Some(2 * MS)).run();
    check(&report);
    let requests = &report.sustained.requests;
    assert_eq!(requests.timed_out, 0, "{requests:?}");
    // The capacity of 500/s times 10 s, plus the part of the queue that completes in the drain.
    assert!((5_000..=5_500).contains(&requests.completed), "{requests:?}");
    assert_eq!(requests.dropped, requests.scheduled - requests.completed);
}

#[test]
fn slow_responses_without_a_queue_drop_nothing() {
    // Responses take 0.9 of the time-out and nothing queues: all requests are sent and complete in time.
    let timeline = Timeline::new(S, 0, Some(10 * S), S);
    let report = Sim::new(open(10.0, Spacing::Even, 1), timeline, S, 16, |_| Some(900 * MS)).run();
    check(&report);
    assert_eq!(report.sustained.requests.completed, 100);
}

#[test]
fn latency_includes_the_queue_from_the_intended_start() {
    // There is only one connection. Requests are due every 1 ms, but each response takes 2 ms. So request i, counted
    // from 0, waits for i ms.
    let timeline = Timeline::new(S, 0, Some(3 * S), 10 * S);
    let report = Sim::new(open(1_000.0, Spacing::Even, 1), timeline, 10 * S, 1, |_| Some(2 * MS)).run();
    check(&report);
    let open = report.open.as_ref().unwrap();
    assert_eq!(report.sustained.requests.completed, 3_000);
    assert_eq!(latency(&report), histogram((0..3_000).map(|i| i * MS + 2 * MS)));
    assert_eq!(open.connection_wait, histogram((0..3_000).map(|i| i * MS)));
    assert_eq!(open.service_time, histogram((0..3_000).map(|_| 2 * MS)));
    // The generator itself was never late: the whole lateness is the wait for the connection.
    assert_eq!(open.lateness, open.connection_wait);
    let in_phase: u64 = report.intervals.iter().filter(|i| i.span.sustained).map(|i| i.completed).sum();
    assert_eq!(in_phase, 1_499);
}

#[test]
fn a_late_generator_reports_its_lateness_and_the_full_latency() {
    let timeline = Timeline::new(S, 0, Some(S), S);
    let mut sim = Sim::new(open(100.0, Spacing::Even, 1), timeline, S, 4, |_| Some(MS));
    sim.oversleep_ns = 70 * US;
    let report = sim.run();
    check(&report);
    // The first arrival is due at the start, so the generator does not sleep before it.
    let late = |i: u64| if i == 0 { 0 } else { 70 * US };
    let lateness = &report.open.as_ref().unwrap().lateness;
    assert_eq!(*lateness, histogram((0..100).map(late)));
    assert_eq!(latency(&report), histogram((0..100).map(|i| MS + late(i))));
}

#[test]
fn a_single_server_queue_agrees_with_theory() {
    // M/M/1 at 70 % load: the mean time in the system is 1 / (mu - lambda), and its p90 is ln(10) times that.
    let (lambda, mu) = (700.0, 1_000.0);
    let timeline = Timeline::new(S, 10 * S, Some(600 * S), 10 * S);
    let service = |index| {
        let uniform = ((hash(99, index) >> 11) + 1) as f64 / (1u64 << 53) as f64;
        Some((-uniform.ln() * 1e9 / mu) as u64)
    };
    let report = Sim::new(open(lambda, Spacing::Poisson, 5), timeline, 10 * S, 1, service).run();
    check(&report);
    let seen = latency(&report);
    let mean_s = 1.0 / (mu - lambda);
    let near = |name: &str, seen_ns: f64, expected_s: f64| {
        // 420,000 correlated samples: the sampling error of the mean is about 1 %.
        assert!((seen_ns / 1e9 / expected_s - 1.0).abs() < 0.04, "{name}: {seen_ns} ns, not {expected_s} s");
    };
    near("mean", seen.mean(), mean_s);
    near("p50", seen.value_at_quantile(0.5) as f64, mean_s * 2f64.ln());
    near("p90", seen.value_at_quantile(0.9) as f64, mean_s * 10f64.ln());
    let in_flight = report.in_flight.sum as f64 / report.in_flight.count as f64;
    near("in flight by Little's law", in_flight * 1e9, lambda * mean_s);
}

#[test]
fn overload_counts_as_dropped_and_timed_out() {
    let timeline = Timeline::new(S, 0, Some(2 * S), 100 * MS);
    // The peer completes 500 of 1,000 requests per second, and sometimes stalls for longer than the time-out.
    let service = |index| Some(if index % 97 == 96 { 150 * MS } else { 2 * MS });
    let report = Sim::new(open(1_000.0, Spacing::Even, 1), timeline, 100 * MS, 1, service).run();
    check(&report);
    let requests = report.sustained.requests;
    assert_eq!(requests.scheduled, 2_000);
    assert!(requests.dropped > 800 && requests.timed_out > 3 && requests.completed > 400, "{requests:?}");
    assert_eq!(requests.in_flight, 0);
    assert!(requests.unanswered() > 0);
}

#[test]
fn a_peer_that_never_answers_times_out() {
    let timeline = Timeline::new(S, 0, Some(S), 200 * MS);
    let report = Sim::new(open(100.0, Spacing::Even, 1), timeline, 200 * MS, 4, |_| None).run();
    check(&report);
    let requests = report.sustained.requests;
    assert_eq!((requests.scheduled, requests.completed, requests.in_flight), (100, 0, 0));
    assert_eq!(requests.timed_out, requests.sent);
    assert_eq!(requests.dropped, 100 - requests.sent);
    assert_eq!(report.sustained.uncertain, requests.sent);
}

#[test]
fn requests_belong_to_the_phase_of_their_intended_start() {
    let timeline = Timeline::new(S, S, Some(S), S);
    let report = Sim::new(open(1_000.0, Spacing::Even, 1), timeline, S, 64, |_| Some(50 * MS)).run();
    check(&report);
    assert_eq!((report.warmup.requests.scheduled, report.sustained.requests.scheduled), (1_000, 1_000));
    assert_eq!((report.warmup.requests.completed, report.sustained.requests.completed), (1_000, 1_000));
    let seen: Vec<_> =
        report.intervals.iter().map(|i| (i.span.sustained, i.sent, i.completed, i.sustained.len())).collect();
    // A response that is due at the boundary of two intervals counts in the later interval.
    assert_eq!(seen, [(false, 1_000, 950, 0), (true, 1_000, 1_000, 950), (false, 0, 50, 50)]);
}

#[test]
fn an_extended_warm_up_only_moves_the_phase() {
    // In the second case, an extension is announced while the worker gets no CPU time. The worker wakes up only after
    // the former start of the phase.
    for oversleep_ns in [0, 45 * MS] {
        let timeline = Timeline::new(S, 100 * MS, Some(S), S);
        let warm_up = WarmUp::new(S, 100 * MS, 300 * MS, 1).unwrap();
        let mut sim = Sim::new(open(1_000.0, Spacing::Even, 1), timeline, S, 8, |_| Some(2 * MS));
        sim.flow = sim.flow.with_warm_up(Some(Arc::clone(&warm_up)), 0);
        while sim.turn() {
            sim.oversleep_ns = 0;
            for (sustain_ns, later_ns) in [(1_100 * MS, 1_150 * MS), (1_150 * MS, 1_200 * MS)] {
                if (sustain_ns - 10 * MS..sustain_ns).contains(&sim.now_ns) {
                    warm_up.put_off(sustain_ns, later_ns);
                    sim.oversleep_ns = oversleep_ns;
                }
            }
        }
        assert!(!warm_up.put_off(1_200 * MS, 1_250 * MS), "it was reached");
        let report = sim.flow.finish(sim.now_ns);
        check(&report);
        let timeline = report.timeline;
        assert_eq!((timeline.sustain_ns, timeline.end_ns), (1_200 * MS, 2_200 * MS));
        assert_eq!((report.warmup.requests.scheduled, report.sustained.requests.scheduled), (200, 1_000));
        assert_eq!((report.warmup.requests.completed, report.sustained.requests.completed), (200, 1_000));
        let seen: Vec<_> = report
            .intervals
            .iter()
            .map(|i| (i.span.start_ns / MS, i.span.end_ns / MS, i.span.sustained))
            .collect();
        assert_eq!(seen[..2], [(1_000, 1_200, false), (1_200, 2_200, true)]);
    }
}

#[test]
fn a_count_of_requests_is_kept_exactly() {
    for workers in 1..4u64 {
        let mut scheduled = 0;
        for worker in 0..workers {
            let left = 1_000 / workers + u64::from(worker < 1_000 % workers);
            let timeline = Timeline::new(S, S / 2, None, 10 * S);
            let source = Source::closed(worker, workers, Some(left));
            let report = Sim::new(source, timeline, 10 * S, 3, |_| Some(MS)).run();
            check(&report);
            assert_eq!(report.sustained.requests.completed, left);
            assert!(report.warmup.requests.completed > 0);
            // The phase ends when the last request completes. Three requests are in flight at a time, and each
            // takes 1 ms.
            let took_ns = report.timeline.end_ns - report.timeline.sustain_ns;
            assert!(took_ns.abs_diff(left.div_ceil(3) * MS) <= MS, "{took_ns}");
            scheduled += report.sustained.requests.scheduled;
        }
        assert_eq!(scheduled, 1_000);
    }
    for workers in 1..4u64 {
        let schedule = Schedule::new(4, 5_000.0, Spacing::Poisson);
        let (end_index, end_ns) = schedule.end_of(S / 2, 1_000);
        let timeline = Timeline::new(S, S / 2, Some(end_ns - S / 2 + 1), S);
        let scheduled: u64 = (0..workers)
            .map(|worker| {
                let source = Source::open(schedule.arrivals(worker, workers), workers, end_index);
                Sim::new(source, timeline, S, 3, |_| Some(MS)).run().sustained.requests.completed
            })
            .sum();
        assert_eq!(scheduled, 1_000);
    }
}

#[test]
fn closed_loop_slots_each_replay_a_session_and_an_open_loop_replays_it_once() {
    let timeline = Timeline::new(S, 0, Some(S), S);
    let flow = |source: Source| {
        let mut flow = Flow::new(source, timeline, S, 2).with_replay(true);
        (0..2).for_each(|slot| flow.connected(slot, S));
        flow
    };
    let mut closed = flow(Source::closed(0, 1, None));
    let started = |flow: &mut Flow| {
        let start = flow.start(S).unwrap();
        flow.sent(start.slot);
        (start.slot, start.index, start.pick)
    };
    assert_eq!([started(&mut closed), started(&mut closed)], [(0, 0, 0), (1, 1, 0)]);
    for (index, pick) in [(2, 1), (3, 2)] {
        closed.completed(1, S, response(S, 200, true));
        assert_eq!(started(&mut closed), (1, index, pick), "slot 0 still waits for its response");
    }
    closed.completed(0, S, response(S, 200, true));
    let lost = closed.start(S).unwrap();
    assert_eq!((lost.slot, lost.pick), (0, 1));
    closed.not_sent(0);
    closed.connected(0, S);
    assert_eq!(started(&mut closed), (0, 4, 1), "what could not be sent is sent again");
    let mut open = flow(open(1_000.0, Spacing::Even, 1));
    let mut picks = Vec::new();
    for ms in 0..4 {
        let now_ns = S + ms * MS;
        let start = open.start(now_ns).unwrap();
        open.sent(start.slot);
        picks.push(start.pick);
        open.completed(start.slot, now_ns, response(now_ns, 200, true));
    }
    assert_eq!(picks, [0, 1, 2, 3]);
}

#[test]
fn a_count_is_given_up_if_nothing_ever_connects() {
    let timeline = Timeline::new(S, 0, None, S);
    let mut flow = Flow::new(Source::closed(0, 1, Some(10)), timeline, S, 2);
    let mut now_ns = S;
    while !flow.is_finished(now_ns) {
        flow.tick(now_ns, &mut Vec::new());
        flow.connection_error(now_ns, Cause::Refused);
        now_ns += TICK_NS;
        assert!(now_ns < 3 * S, "it must end");
    }
    let report = flow.finish(now_ns);
    check(&report);
    assert_eq!(report.sustained.requests, Requests::default());
    assert!(report.sustained.errors.refused > 90);
}

#[test]
fn an_early_end_leaves_requests_in_flight_and_balanced_counts() {
    let timeline = Timeline::new(S, 0, Some(100 * S), 10 * S);
    let mut sim = Sim::new(open(1_000.0, Spacing::Even, 1), timeline, 10 * S, 2, |_| Some(8 * MS));
    while sim.now_ns < 3 * S {
        sim.turn();
    }
    // Workers check for an early end at every tick.
    while sim.turn() {
        sim.flow.cut(3 * S + 500 * MS, 100 * MS);
    }
    let report = sim.run();
    check(&report);
    assert!(report.intervals.iter().all(|interval| interval.span.start_ns < interval.span.end_ns));
    let requests = report.sustained.requests;
    assert_eq!(requests.scheduled, 2_500);
    assert_eq!(requests.completed + requests.in_flight, 2_500);
    assert!(requests.in_flight > 1_800, "{requests:?}");
    assert_eq!(report.timeline.end_ns, 3 * S + 500 * MS);
}

#[test]
fn bytes_belong_to_the_interval_of_their_turn() {
    let timeline = Timeline::new(S, 0, Some(S), S);
    let mut flow = Flow::new(open(1.0, Spacing::Even, 1), timeline, S, 1);
    flow.turn(2 * S - 1);
    flow.wrote(3);
    flow.turn(2 * S);
    flow.read(5);
    let intervals = flow.finish(2 * S + MS).intervals;
    let bytes: Vec<_> =
        intervals.iter().map(|i| (i.span.sustained, i.bytes_sent, i.bytes_received)).collect();
    assert_eq!(bytes, [(true, 3, 0), (false, 0, 5)]);
}

#[test]
fn a_request_on_a_dead_connection_is_sent_on_another() {
    for source in [Source::closed(0, 1, None), open(1_000.0, Spacing::Even, 1)] {
        let is_open = source.is_open();
        let timeline = Timeline::new(S, 0, Some(S), S);
        let mut flow = Flow::new(source, timeline, S, 1);
        flow.connected(0, S);
        assert_eq!(flow.start(S), Some(Start { slot: 0, index: 0, pick: 0 }));
        flow.not_sent(0);
        assert_eq!(flow.start(S), None);
        flow.connected(0, S + 5 * US);
        assert_eq!(flow.start(S + 5 * US), Some(Start { slot: 0, index: 0, pick: 0 }));
        flow.sent(0);
        flow.completed(0, S + 9 * US, response(S + 9 * US, 200, false));
        let report = flow.finish(S + 20 * US);
        check(&report);
        assert_eq!((report.sustained.requests.scheduled, report.sustained.requests.sent), (1, 1));
        assert_eq!(latency(&report), histogram([9 * US]), "open: {is_open}");
    }
}

#[test]
fn a_response_after_the_time_out_does_not_count_but_keeps_the_connection() {
    let timeline = Timeline::new(S, 0, Some(S), S);
    let mut flow = Flow::new(open(10.0, Spacing::Even, 1), timeline, 5 * MS, 1);
    flow.connected(0, S);
    flow.start(S).unwrap();
    flow.sent(0);
    flow.completed(0, S + 6 * MS, response(S + 6 * MS, 200, true));
    assert_eq!(flow.start(S + 100 * MS), Some(Start { slot: 0, index: 1, pick: 1 }));
    flow.not_sent(0);
    let report = flow.finish(S + 101 * MS);
    check(&report);
    let requests = report.sustained.requests;
    assert_eq!((requests.completed, requests.timed_out, requests.in_flight), (0, 1, 1));
    assert_eq!(report.sustained.uncertain, 0);
}

#[test]
fn a_pause_follows_each_response_and_never_precedes_the_first_request() {
    let timeline = Timeline::new(S, 0, Some(S), S);
    let mut sim = Sim::new(Source::closed(0, 1, None), timeline, S, 0, |_| Some(2 * MS));
    let think = crate::pacing::think::Think::new(1, "8ms".parse().unwrap());
    let seat = Seat { worker: 0, workers: 1, shard: ShardSpec::WHOLE };
    let pauses = Pauses::new(Some(think), None, seat, 3);
    sim.flow = Flow::new(Source::closed(0, 1, None), timeline, S, 3).with_pauses(pauses);
    (0..3).for_each(|slot| sim.flow.connected(slot, S));
    sim.answers_ns = vec![None; 3];
    let report = sim.run();
    check(&report);
    // Three slots, each with a request every 10 ms, starting at once.
    assert_eq!(report.sustained.requests.completed, 300);
    assert_eq!(latency(&report), histogram((0..300).map(|_| 2 * MS)));
    assert!(report.in_flight.sum <= report.in_flight.count * 3);
}

#[test]
fn latency_ends_when_the_response_arrives_not_when_it_is_read() {
    let timeline = Timeline::new(S, 0, Some(S), S);
    let mut flow = Flow::new(open(1_000.0, Spacing::Even, 1), timeline, S, 2);
    flow.connected(0, S);
    let start = flow.start(S).unwrap();
    flow.sent(start.slot);
    flow.completed(start.slot, S + 900 * US, response(S + 70 * US, 200, true));
    let report = flow.finish(S + MS);
    check(&report);
    assert_eq!(latency(&report), histogram([70 * US]));
    assert_eq!(report.open.unwrap().service_time, histogram([70 * US]));
}

#[test]
fn a_request_that_was_not_processed_counts_as_sent_once() {
    let timeline = Timeline::new(S, 0, Some(S), S);
    let mut flow = Flow::new(Source::closed(0, 1, Some(1)), timeline, S, 2);
    flow.connected(0, S);
    let start = flow.start(S).unwrap();
    flow.sent(start.slot);
    flow.not_processed(start.slot);
    assert_eq!(flow.start(S + MS), None, "its place is down");
    flow.connected(1, S + 2 * MS);
    let again = flow.start(S + 2 * MS).unwrap();
    assert_eq!((again.slot, again.index), (1, start.index));
    flow.sent(again.slot);
    flow.completed(again.slot, S + 3 * MS, response(S + 3 * MS, 200, true));
    let report = flow.finish(S + 4 * MS);
    check(&report);
    let once = Requests { scheduled: 1, sent: 1, completed: 1, ..Requests::default() };
    assert_eq!((report.sustained.requests, report.sustained.errors.goaway), (once, 0));
    // Latency is measured from the first attempt, so it includes the time until the second attempt.
    assert_eq!(latency(&report), histogram([3 * MS]));
}

#[test]
fn wake_ups_are_announced_ahead_and_cover_each_arrival_once() {
    let timeline = Timeline::new(S, 0, Some(S), S);
    let mut flow = Flow::new(open(1_000.0, Spacing::Even, 1), timeline, S, 2);
    let mut covered_ns = S - 1;
    let ahead: Vec<u64> = std::iter::from_fn(|| {
        covered_ns = flow.next_arrival_after_ns(covered_ns)?;
        Some(covered_ns)
    })
    .collect();
    assert_eq!(ahead, (0..1_000).map(|i| S + i * MS).collect::<Vec<_>>());
    // A wake-up at 1.5 ms covers the arrivals at 0 and 1 ms.
    let mut flow = Flow::new(open(1_000.0, Spacing::Even, 1), timeline, S, 2);
    assert_eq!(flow.next_arrival_after_ns(S + 1_500 * US), Some(S + 2 * MS));
}

/// In any order of events, the counts balance and agree with the events that the test generates. Each seed gives
/// another order.
#[test]
fn counts_balance_in_every_order_of_events() {
    for seed in 0..400 {
        let mut random = (0u64..).map(|index| hash(seed, index));
        let mut draw = |below: u64| random.next().unwrap() % below;
        let connections = 1 + draw(5) as usize;
        let source = match draw(3) {
            0 => Source::closed(0, 1, None),
            1 => Source::closed(0, 1, Some(draw(50))),
            _ => open(2_000.0, Spacing::Poisson, seed),
        };
        let timeout_ns = 20 * MS;
        let duration_ns = if source.ends_by_count() { None } else { Some(100 * MS) };
        let timeline = Timeline::new(S, 20 * MS, duration_ns, timeout_ns);
        let mut flow = Flow::new(source, timeline, timeout_ns, connections);
        let mut is_up = vec![false; connections];
        let (mut now_ns, mut answered, mut failed) = (S, 0, 0);
        let mut sent = std::collections::BTreeSet::new();

        for _ in 0..600 {
            now_ns += draw(MS);
            let slot = draw(connections as u64) as usize;
            match (draw(9), flow.is_busy(slot), is_up[slot]) {
                (0..=2, true, _) => {
                    is_up[slot] = draw(10) > 0;
                    answered += 1;
                    let status = 200 + draw(400) as u16;
                    flow.completed(slot, now_ns, response(now_ns, status, is_up[slot]));
                }
                (3, true, _) => {
                    is_up[slot] = false;
                    failed += 1;
                    flow.failed(slot, now_ns, Cause::Reset);
                }
                (4, false, true) => {
                    is_up[slot] = false;
                    flow.disconnected(slot);
                }
                (0..=4, false, false) => {
                    is_up[slot] = true;
                    flow.connected(slot, now_ns);
                }
                // The peer sends GOAWAY and has not processed the request.
                (8, true, _) => {
                    is_up[slot] = false;
                    flow.not_processed(slot);
                }
                (5, _, _) => flow.connection_error(now_ns, Cause::Refused),
                (6, _, _) if draw(200) == 0 => flow.cut(now_ns + draw(10 * MS), 5 * MS),
                _ => {
                    if let Some(start) = flow.start(now_ns) {
                        if draw(5) == 0 {
                            is_up[start.slot] = false;
                            flow.not_sent(start.slot);
                        } else {
                            sent.insert(start.index);
                            flow.sent(start.slot);
                        }
                    }
                }
            }
            if flow.is_tick_due(now_ns) {
                let mut expired = Vec::new();
                flow.tick(now_ns, &mut expired);
                expired.into_iter().for_each(|slot| is_up[slot] = false);
            }
            if flow.is_finished(now_ns) {
                break;
            }
        }
        let report = flow.finish(now_ns);
        check(&report);
        let mut whole = report.warmup.requests;
        whole.add(&report.sustained.requests);
        // An arrival counts as sent only once, even if it is sent again. If no peer processed it, it counts as failed.
        let left = report.warmup.errors.goaway + report.sustained.errors.goaway;
        assert_eq!((whole.sent, whole.failed), (sent.len() as u64, failed + left), "seed {seed}");
        assert!(whole.completed <= answered && answered <= whole.completed + whole.timed_out, "seed {seed}");
    }
}
