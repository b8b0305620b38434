//! Each case makes one change to a valid load: a value at a threshold or next to it.

use weir_analysis::{Evidence, judge};
use weir_results::{
    ArrivalModel::{self, Closed, Open},
    BoundBy, Ceiling, Counters, HostProcess, HostShare, Judgement, LoadRecord, LoadSecond, Reason,
    Thresholds, Usage, Verdicts, WarmUp,
};

use crate::records::{agreeing, quiet, record, usage};

/// A load with all its evidence, which tests change.
struct Load {
    record: LoadRecord,
    data: Option<Usage>,
    origin: Option<Usage>,
    generator: Option<Usage>,
    counters: Counters,
    host: HostShare,
    busiest: Vec<HostProcess>,
    limits_applied: bool,
    loopback_floor_ns: Option<u64>,
    ceiling: Option<Ceiling>,
    is_steady: bool,
    errors_max: Option<f64>,
}

impl Load {
    fn new(model: ArrivalModel) -> Self {
        let record = record(model, 1_000, 2_000_000);
        Self {
            counters: agreeing(&record),
            record,
            data: Some(usage(0.5)),
            origin: Some(usage(0.3)),
            generator: Some(usage(0.35)),
            host: quiet(),
            busiest: Vec::new(),
            limits_applied: true,
            loopback_floor_ns: Some(20_000),
            ceiling: None,
            is_steady: true,
            errors_max: None,
        }
    }

    fn judge(&self) -> Judgement {
        let evidence = Evidence {
            record: &self.record,
            data: self.data.as_ref(),
            origin: self.origin.as_ref(),
            generator: self.generator.as_ref(),
            counters: Some(&self.counters),
            host: Some(&self.host),
            host_cores: 2,
            busiest: &self.busiest,
            limits_applied: self.limits_applied,
            loopback_floor_ns: self.loopback_floor_ns,
            ceiling: self.ceiling,
            is_steady: self.is_steady,
            errors_max: self.errors_max,
        };
        judge(&evidence, &Thresholds::default())
    }

    fn books(&mut self, change: impl Fn(&mut weir_results::Requests)) {
        change(&mut self.record.result.requests);
        change(&mut self.record.whole);
    }
}

/// Checks the judgement of a load after `change`: `bound_by`, and the reasons for throughput, latency and CPU.
#[track_caller]
fn check(
    model: ArrivalModel,
    change: impl Fn(&mut Load),
    bound_by: BoundBy,
    [throughput, latency, cpu]: [&[Reason]; 3],
) -> Judgement {
    let mut load = Load::new(model);
    change(&mut load);
    let judgement = load.judge();
    let expected = Verdicts { throughput: throughput.to_vec(), latency: latency.to_vec(), cpu: cpu.to_vec() };
    assert_eq!(judgement.bound_by, bound_by, "{:?}", judgement.evidence);
    assert_eq!(judgement.verdicts, expected, "{:?}", judgement.evidence);
    let mut reasons = judgement.verdicts.latency.clone();
    reasons.dedup();
    assert_eq!(judgement.evidence.len(), reasons.len() + 1, "a sentence per reason and one for the bound");
    judgement
}

const VALID: [&[Reason]; 3] = [&[], &[], &[]];

fn all(reasons: &'static [Reason]) -> [&'static [Reason]; 3] {
    [reasons; 3]
}

fn latency(reasons: &'static [Reason]) -> [&'static [Reason]; 3] {
    [&[], reasons, &[]]
}

#[test]
fn a_delay_of_the_upstream_limits_a_closed_loop() {
    let with_delay = |model, share: f64| {
        let mut load = Load::new(model);
        let service_ns = load.record.result.service_time_ns.mean.unwrap();
        load.counters.origin_delay_ns_mean = Some((service_ns * share).ceil() as u64);
        load
    };
    let judgement = with_delay(ArrivalModel::Closed, 0.5).judge();
    assert_eq!(judgement.bound_by, BoundBy::Upstream);
    assert_eq!(judgement.verdicts.throughput, [Reason::UpstreamLimited]);
    assert_eq!(with_delay(ArrivalModel::Closed, 0.49).judge().bound_by, BoundBy::Concurrency);

    // Even with a long upstream delay, an open load that was served in full is limited by its rate, and a saturated
    // gateway is the bottleneck.
    assert_eq!(with_delay(ArrivalModel::Open, 0.9).judge().bound_by, BoundBy::Rate);
    let mut short = with_delay(ArrivalModel::Open, 0.9);
    short.books(|books| {
        books.dropped = books.completed / 2;
        books.completed -= books.dropped;
    });
    assert_eq!(short.judge().bound_by, BoundBy::Upstream);
    let mut full = with_delay(ArrivalModel::Closed, 0.9);
    full.data = Some(usage(1.0));
    assert_eq!(full.judge().bound_by, BoundBy::Gateway);
}

#[test]
fn a_load_without_interference_is_valid() {
    check(Closed, |_| {}, BoundBy::Concurrency, VALID);
    check(Open, |_| {}, BoundBy::Rate, VALID);
}

#[test]
fn the_gateway_is_the_limit_from_95_percent_of_its_cpu_limit() {
    let at = |share| move |load: &mut Load| load.data = Some(usage(share));
    check(Closed, at(0.9499), BoundBy::Concurrency, VALID);
    let judgement = check(Closed, at(0.95), BoundBy::Gateway, VALID);
    assert_eq!(
        judgement.evidence,
        [
            "limited by the gateway: the gateway used 0.950 cores, 95.0 % of its CPU limit (saturation starts at 95.0 %)"
        ]
    );
    check(Open, at(0.95), BoundBy::Gateway, VALID);
}

#[test]
fn a_part_without_a_limit_is_never_saturated() {
    let unlimited = |load: &mut Load| {
        load.data = Some(Usage { cpu_share_of_limit: None, ..usage(1.0) });
        load.origin = Some(Usage { cpu_share_of_limit: None, ..usage(1.0) });
        load.generator = Some(Usage { cpu_share_of_limit: None, ..usage(1.0) });
    };
    check(Closed, unlimited, BoundBy::Concurrency, VALID);
}

#[test]
fn a_saturated_upstream_limits_a_closed_loop_and_the_latency_of_an_open_loop() {
    let at = |share| move |load: &mut Load| load.origin = Some(usage(share));
    check(Closed, at(0.95), BoundBy::Upstream, all(&[Reason::UpstreamLimited]));
    check(Open, at(0.95), BoundBy::Upstream, latency(&[Reason::UpstreamLimited]));
    check(Closed, at(0.949), BoundBy::Concurrency, VALID);
}

#[test]
fn a_closed_loop_on_a_saturated_gateway_is_valid_if_other_parts_are_busy() {
    let both = |load: &mut Load| {
        load.data = Some(usage(0.99));
        load.origin = Some(usage(0.96));
        load.generator = Some(usage(0.96));
    };
    check(Closed, both, BoundBy::Gateway, VALID);
    let generator: &[Reason] = &[Reason::GeneratorLimited];
    let of_latency: &[Reason] = &[Reason::GeneratorLimited, Reason::UpstreamLimited];
    check(Open, both, BoundBy::Gateway, [generator, of_latency, generator]);
}

#[test]
fn a_squeezed_generator_is_called_generator_limited() {
    let by_quota = |load: &mut Load| load.generator = Some(usage(0.95));
    check(Closed, by_quota, BoundBy::Generator, all(&[Reason::GeneratorLimited]));
    check(Open, by_quota, BoundBy::Generator, all(&[Reason::GeneratorLimited]));
}

#[test]
fn a_closed_loop_worker_is_the_limit_above_90_percent_busy_while_the_gateway_is_below_90() {
    let busy = |cpu_s: f64, runqueue_s: f64, gateway: f64| {
        move |load: &mut Load| {
            load.record.generator.worker_cpu_s = vec![1.0, cpu_s];
            load.record.generator.worker_runqueue_s = vec![1.0, runqueue_s];
            load.data = Some(usage(gateway));
        }
    };
    check(Closed, busy(6.0, 3.0, 0.5), BoundBy::Concurrency, VALID);
    let judgement = check(Closed, busy(6.0, 3.01, 0.5), BoundBy::Generator, all(&[Reason::GeneratorLimited]));
    assert!(judgement.evidence[0].contains("generator worker 1"), "{:?}", judgement.evidence);
    check(Closed, busy(9.5, 0.0, 0.9), BoundBy::Concurrency, VALID);
    check(Closed, busy(9.5, 0.0, 0.8999), BoundBy::Generator, all(&[Reason::GeneratorLimited]));
    check(Open, busy(9.5, 0.0, 0.5), BoundBy::Rate, VALID);
    let no_schedstat = |load: &mut Load| {
        load.record.generator.worker_cpu_s = vec![9.5];
        load.record.generator.worker_runqueue_s = Vec::new();
        load.data = None;
        load.counters.gateway_requests = None;
    };
    check(Closed, no_schedstat, BoundBy::Generator, all(&[Reason::GeneratorLimited]));
}

#[test]
fn an_open_loop_may_be_late_by_250_us_or_a_tenth_of_the_latency() {
    let late = |lateness_p99_ns: u64, latency_p99_ns: u64| {
        move |load: &mut Load| {
            load.record.result.lateness_ns.as_mut().unwrap().p99 = Some(lateness_p99_ns);
            load.record.result.latency_ns.p99 = Some(latency_p99_ns);
        }
    };
    let limited = all(&[Reason::GeneratorLimited]);
    check(Open, late(250_000, 1_000_000), BoundBy::Rate, VALID);
    check(Open, late(250_001, 1_000_000), BoundBy::Generator, limited);
    check(Open, late(500_000, 5_000_000), BoundBy::Rate, VALID);
    check(Open, late(500_001, 5_000_000), BoundBy::Generator, limited);
}

#[test]
fn lateness_from_a_wait_for_connections_is_no_generator_limit() {
    let waiting = |busy_s: f64, lateness_ns: u64| {
        move |load: &mut Load| {
            load.record.result.lateness_ns.as_mut().unwrap().p99 = Some(lateness_ns);
            load.record.generator.connection_wait_ns.as_mut().unwrap().p99 = Some(3_000_000);
            load.record.generator.worker_cpu_s = vec![busy_s];
        }
    };
    let limited = all(&[Reason::GeneratorLimited]);
    check(Open, waiting(3.0, 3_000_000), BoundBy::Rate, VALID);
    check(Open, waiting(3.0, 3_500_001), BoundBy::Generator, limited);
    check(Open, waiting(9.5, 3_000_000), BoundBy::Generator, limited);
}

#[test]
fn an_open_loop_may_leave_one_percent_unsent_despite_free_connections() {
    let unsent = |n: u64| move |load: &mut Load| load.record.generator.unsent_with_free_connection = n;
    check(Open, unsent(100), BoundBy::Rate, VALID);
    check(Open, unsent(101), BoundBy::Generator, all(&[Reason::GeneratorLimited]));
    check(Closed, unsent(101), BoundBy::Concurrency, VALID);
}

#[test]
fn host_noise_is_allowed_up_to_two_percent() {
    let host = |steal, others| move |load: &mut Load| load.host = HostShare { steal, others, idle: 0.3 };
    check(Closed, host(0.01, 0.01), BoundBy::Concurrency, VALID);
    check(Closed, host(0.01, 0.0101), BoundBy::Host, latency(&[Reason::HostNoise]));
    let busy = |load: &mut Load| {
        host(0.0, 0.5)(load);
        let process = |name: &str, pid, cores| HostProcess { name: name.into(), pid, cores };
        load.busiest = vec![process("cc1", 42, 0.99), process("make", 41, 0.012), process("idle", 7, 0.001)];
    };
    let noise: &[Reason] = &[Reason::HostNoise];
    let judgement = check(Open, busy, BoundBy::Rate, [&[], noise, noise]);
    assert_eq!(
        judgement.evidence[0],
        "processes outside the rig took 50.0 % of the host's CPU (limit 2.00 %): 50.0 % on this host, 0 % \
         in other virtual machines (steal). They may have delayed 100 % of the requests and changed CPU time per request by 35.0 %; busiest: cc1 (pid 42) 0.99 of a core, make (pid 41) 0.01 of a core. Stop other programs, pin them to CPUs that weir does not use \
         (`taskset`), or raise `repeats`; `weir doctor` checks this host"
    );
}

#[test]
fn a_host_without_idle_time_limits_a_closed_loop() {
    let full = |idle| move |load: &mut Load| load.host.idle = idle;
    check(Closed, full(0.04), BoundBy::Host, VALID);
    check(Closed, full(0.06), BoundBy::Concurrency, VALID);
    check(Open, full(0.0), BoundBy::Rate, VALID);
}

#[test]
fn overload_invalidates_only_latency() {
    let done = |completed: u64, gateway: f64| {
        move |load: &mut Load| {
            load.data = Some(usage(gateway));
            load.books(|books| {
                books.completed = completed;
                books.timed_out = books.scheduled - completed;
            });
            load.counters.generator_uncertain = 10_000 - completed;
        }
    };
    check(Open, done(9_899, 0.97), BoundBy::Gateway, latency(&[Reason::Overloaded]));
    // With exactly 99 % completed requests, the gateway is not overloaded, so timeouts are ordinary errors.
    check(Open, done(9_900, 0.97), BoundBy::Gateway, all(&[Reason::Errors]));
    // No part is saturated, but all connections are busy, so the latency still measures a queue.
    let errors: &[Reason] = &[Reason::Errors];
    check(
        Open,
        done(9_000, 0.5),
        BoundBy::Concurrency,
        [errors, &[Reason::Overloaded, Reason::Errors], errors],
    );
}

#[test]
fn responses_after_the_phase_do_not_count_as_throughput() {
    let second = |completed| LoadSecond {
        t_s: 0.0,
        length_s: 10.0,
        sustained: true,
        sent: 10_000,
        completed,
        unexpected: 0,
        lost: 0,
        latency: record(Open, 1, 1).latency,
    };
    let drained = |completed: u64| {
        move |load: &mut Load| {
            load.data = Some(usage(0.99));
            load.record.seconds = vec![second(completed)];
        }
    };
    check(Open, drained(8_000), BoundBy::Gateway, latency(&[Reason::Overloaded]));
    check(Open, drained(9_900), BoundBy::Gateway, VALID);
}

#[test]
fn refused_requests_are_errors_even_under_overload() {
    let refused = |load: &mut Load| {
        load.data = Some(usage(0.99));
        load.books(|books| {
            books.completed = 9_000;
            books.timed_out = 1_000;
            books.unexpected = 11;
        });
        load.counters.generator_uncertain = 1_000;
    };
    check(
        Open,
        refused,
        BoundBy::Gateway,
        [&[Reason::Errors], &[Reason::Overloaded, Reason::Errors], &[Reason::Errors]],
    );
}

#[test]
fn a_part_may_be_throttled_in_one_percent_of_its_periods() {
    let throttled = |n: u64| move |load: &mut Load| load.data.as_mut().unwrap().periods_throttled = Some(n);
    check(Closed, throttled(1), BoundBy::Concurrency, VALID);
    check(Closed, throttled(2), BoundBy::Concurrency, latency(&[Reason::Throttled]));
    let origin = |load: &mut Load| load.origin.as_mut().unwrap().periods_throttled = Some(2);
    let judgement = check(Open, origin, BoundBy::Rate, latency(&[Reason::Throttled]));
    assert_eq!(
        judgement.evidence[0],
        "the CPU quota throttled the upstream in 2 of 100 periods (2.00 %, limit 1.00 %)"
    );
    let no_quota = |load: &mut Load| {
        load.data = Some(Usage { periods: Some(0), periods_throttled: Some(0), ..usage(0.5) });
    };
    check(Closed, no_quota, BoundBy::Concurrency, VALID);
}

#[test]
fn errors_are_judged_by_the_objective_or_by_a_tenth_of_a_percent() {
    let unexpected = |n: u64, errors_max| {
        move |load: &mut Load| {
            load.books(|books| books.unexpected = n);
            load.errors_max = errors_max;
        }
    };
    check(Open, unexpected(10, None), BoundBy::Rate, VALID);
    check(Open, unexpected(11, None), BoundBy::Rate, all(&[Reason::Errors]));
    check(Open, unexpected(100, Some(0.01)), BoundBy::Rate, VALID);
    check(Open, unexpected(1, Some(0.0)), BoundBy::Rate, all(&[Reason::Errors]));
    let nothing = |load: &mut Load| load.books(|books| *books = weir_results::Requests::default());
    let silent = |load: &mut Load| {
        nothing(load);
        load.counters = Counters { generator_sent: 0, generator_uncertain: 0, ..agreeing(&load.record) };
    };
    check(Open, silent, BoundBy::Rate, all(&[Reason::Errors]));
}

#[test]
fn a_load_without_its_first_seconds_after_failed_connections_is_invalid() {
    let missing = |connections: f64, allowed: Option<f64>| {
        move |load: &mut Load| {
            load.record.generator.connections_missing_mean = Some(connections);
            load.errors_max = allowed;
        }
    };
    for (model, bound_by) in [(Open, BoundBy::Rate), (Closed, BoundBy::Concurrency)] {
        check(model, missing(0.1, None), bound_by, VALID);
        check(model, missing(2.0, Some(0.2)), bound_by, VALID);
        let judgement = check(model, missing(2.5, None), bound_by, all(&[Reason::Errors]));
        assert_eq!(
            judgement.evidence[0],
            "2.50 of 10 connections were missing on average, because they could not be opened (25.0 %, limit 1.00 %)"
        );
    }
    // A saturated gateway may refuse connections, so missing connections are not reported.
    let overloaded = |load: &mut Load| {
        missing(2.5, None)(load);
        load.data = Some(usage(0.97));
        load.books(|books| (books.completed, books.timed_out) = (9_000, 1_000));
        load.counters.generator_uncertain = 1_000;
    };
    check(Open, overloaded, BoundBy::Gateway, latency(&[Reason::Overloaded]));
}

#[test]
fn counters_may_differ_by_uncertain_and_in_flight_requests() {
    let counted = |gateway: u64, origin: u64, uncertain: u64| {
        move |load: &mut Load| {
            load.counters.gateway_requests = Some(gateway);
            load.counters.origin_requests = Some(origin);
            load.counters.generator_uncertain = uncertain;
        }
    };
    let implausible = all(&[Reason::Implausible]);
    check(Open, counted(9_999, 10_000, 0), BoundBy::Rate, implausible);
    check(Open, counted(10_000, 10_001, 0), BoundBy::Rate, implausible);
    check(Open, counted(9_997, 9_997, 3), BoundBy::Rate, VALID);
    let judgement = check(Open, counted(9_996, 9_997, 3), BoundBy::Rate, implausible);
    assert_eq!(
        judgement.evidence[0],
        "counters disagree: the generator sent 10,000 requests, the gateway counted 9,996 (at most 3 may differ: failed or in-flight requests)"
    );
    let answered_by_the_gateway = |load: &mut Load| {
        load.books(|books| books.unexpected = 5);
        load.counters.origin_requests = Some(9_995);
    };
    check(Open, answered_by_the_gateway, BoundBy::Rate, VALID);
}

#[test]
fn inconsistent_request_counts_are_implausible() {
    let lost = |load: &mut Load| load.record.whole.completed -= 1;
    check(Closed, lost, BoundBy::Concurrency, all(&[Reason::Implausible]));
}

#[test]
fn a_latency_below_the_loopback_floor_is_implausible() {
    let least = |ns| move |load: &mut Load| load.record.result.latency_ns.min = Some(ns);
    check(Closed, least(20_000), BoundBy::Concurrency, VALID);
    check(Closed, least(19_999), BoundBy::Concurrency, all(&[Reason::Implausible]));
}

#[test]
fn requests_in_flight_are_rate_times_mean_latency_within_the_sampling() {
    // 20,000/s x 2.2 ms is 44 requests in flight. The lowest tolerated number is 44 / 1.5 - 3 = 26.3, the highest is 44
    // x 1.5 + 3 = 69.
    let sampled = |in_flight: f64, service_ns: f64| {
        move |load: &mut Load| {
            load.record = record(Open, 20_000, 2_000_000);
            load.counters = agreeing(&load.record);
            load.record.generator.in_flight_mean = Some(in_flight);
            load.record.result.service_time_ns.mean = Some(service_ns);
        }
    };
    let implausible = all(&[Reason::Implausible]);
    check(Open, sampled(44.0, 2_200_000.0), BoundBy::Rate, VALID);
    check(Open, sampled(68.9, 2_200_000.0), BoundBy::Rate, VALID);
    check(Open, sampled(69.1, 2_200_000.0), BoundBy::Rate, implausible);
    check(Open, sampled(26.4, 2_200_000.0), BoundBy::Rate, VALID);
    check(Open, sampled(26.2, 2_200_000.0), BoundBy::Rate, implausible);
    // Requests spend half of their latency waiting for a connection, so only 22 are in flight on connections.
    check(Open, sampled(22.0, 1_100_000.0), BoundBy::Rate, VALID);
    check(Open, sampled(11.6, 1_100_000.0), BoundBy::Rate, implausible);
    // In a phase of 20 ms, too many requests begin before it or end after it, so the check is skipped.
    let phase = |ms: u64| {
        move |load: &mut Load| {
            sampled(11.6, 1_100_000.0)(load);
            load.record.phase_end_mono_ns = load.record.phase_start_mono_ns + ms * 1_000_000;
        }
    };
    check(Open, phase(23), BoundBy::Rate, implausible);
    check(Open, phase(20), BoundBy::Rate, VALID);
}

#[test]
fn a_limit_that_was_not_applied_invalidates_everything() {
    check(Closed, |load| load.limits_applied = false, BoundBy::Concurrency, all(&[Reason::LimitNotApplied]));
}

#[test]
fn a_record_without_other_evidence_is_judged() {
    let record = record(Open, 1_000, 2_000_000);
    let evidence = Evidence {
        record: &record,
        data: None,
        origin: None,
        generator: None,
        counters: None,
        host: None,
        host_cores: 2,
        busiest: &[],
        limits_applied: true,
        loopback_floor_ns: None,
        ceiling: None,
        is_steady: true,
        errors_max: None,
    };
    let judgement = judge(&evidence, &Thresholds::default());
    assert!(judgement.verdicts.all_valid(), "{judgement:?}");
    assert_eq!(
        judgement.evidence,
        [
            "limited by the rate: 10,000 of 10,000 scheduled requests completed in the phase; the generator was not the limit"
        ]
    );
}

#[test]
fn the_bound_of_a_load_does_not_repeat_a_reason() {
    let busy = check(
        Closed,
        |load| load.record.generator.worker_cpu_s = vec![load.record.generator.wall_s; 2],
        BoundBy::Generator,
        all(&[Reason::GeneratorLimited]),
    );
    assert!(busy.evidence[0].starts_with("generator worker"), "{:?}", busy.evidence);
    assert_eq!(busy.evidence[1], "limited by the generator");
}

#[test]
fn an_extended_warm_up_is_reported_and_invalidates_nothing() {
    let judged = |taken_ns, has_settled| {
        let mut load = Load::new(Open);
        load.record.generator.warm_up = Some(WarmUp { asked_ns: 5_000_000_000, taken_ns, has_settled });
        load.judge()
    };
    let grown = judged(7_500_000_000, true);
    assert_eq!(grown.verdicts, Verdicts::default());
    let said = "the warm-up was extended from 5.00 s to 7.50 s, until latencies settled (MSER-5)";
    assert_eq!(grown.evidence[0], said);
    assert!(
        judged(15_000_000_000, false).evidence[0].contains("from 5.00 s to 15.0 s, but latencies did not")
    );
    assert_eq!(judged(5_000_000_000, true).evidence.len(), 1);
}

#[test]
fn a_load_above_the_ceiling_of_the_generator_is_reported() {
    let said = |model: ArrivalModel, rate_per_s: f64, workers: u32| {
        let mut load = Load::new(model);
        load.record.generator.workers = workers;
        load.ceiling = Some(Ceiling { rate_per_s, workers: 1, lateness_p99_ns: 100_000 });
        let judgement = load.judge();
        assert!(judgement.verdicts.all_valid(), "only lateness may invalidate it: {judgement:?}");
        judgement.evidence.iter().any(|sentence| sentence.contains("exceeds the generator's maximum of 999"))
    };
    assert!(said(Open, 999.0, 1));
    assert!(!said(Open, 1_000.0, 1));
    assert!(!said(Closed, 999.0, 1), "a closed loop has no target rate");
    assert!(!said(Open, 999.0, 2), "two workers have a higher ceiling than one");
}
