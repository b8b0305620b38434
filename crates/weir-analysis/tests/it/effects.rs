//! The effect of each reason on each value, in both directions: the table in `docs/method.md#reasons`, row by row.

use std::collections::BTreeMap;

use weir_analysis::{Evidence, judge};
use weir_results::{
    AgentMachine,
    ArrivalModel::{self, Closed, Open},
    Bounds, Counters, Histogram, HostShare, Judgement, LoadRecord, LoadSecond, Reason, ShardResult,
    Thresholds, TimesNs, Usage, new_histogram,
};

use crate::records::{agreeing, quiet, record, usage};

/// Number of requests. Their latencies are 1 µs, 2 µs and so on up to 10 ms, so the quantile q is q times 10 ms.
const REQUESTS: u64 = 10_000;

struct Load {
    record: LoadRecord,
    data: Usage,
    origin: Usage,
    generator: Usage,
    host: HostShare,
    limits_applied: bool,
}

impl Load {
    fn new(model: ArrivalModel) -> Self {
        let mut record = record(model, REQUESTS / 10, 2_000_000);
        let mut latency = new_histogram();
        (1..=REQUESTS).for_each(|place| latency.record(place * 1_000).expect("within the bounds"));
        let times = TimesNs::of(&latency, 0);
        (record.result.latency_ns, record.result.service_time_ns) = (times, times);
        record.latency = Histogram::encode(&latency);
        record.generator.in_flight_mean = Some(record.result.rate_per_s * times.mean.expect("a mean") / 1e9);
        if model == Open {
            // 3 % of the requests are sent 1 ms late, the others on time.
            let mut lateness = new_histogram();
            lateness.record_n(1_000, REQUESTS * 97 / 100).expect("within the bounds");
            lateness.record_n(1_000_000, REQUESTS * 3 / 100).expect("within the bounds");
            record.lateness = Some(Histogram::encode(&lateness));
        }
        let [data, origin, generator] = [0.5, 0.3, 0.35].map(usage);
        Self { record, data, origin, generator, host: quiet(), limits_applied: true }
    }

    fn bounds(&self) -> BTreeMap<String, Bounds> {
        self.judge().bounds.expect("bounds")
    }

    fn judge(&self) -> Judgement {
        let counters: Counters = agreeing(&self.record);
        let evidence = Evidence {
            record: &self.record,
            data: Some(&self.data),
            origin: Some(&self.origin),
            generator: Some(&self.generator),
            counters: Some(&counters),
            host: Some(&self.host),
            host_cores: 2,
            busiest: &[],
            limits_applied: self.limits_applied,
            loopback_floor_ns: None,
            ceiling: None,
            is_steady: true,
            errors_max: None,
        };
        judge(&evidence, &Thresholds::default())
    }
}

/// The expected bounds of a value, relative to the measured one.
#[derive(Clone, Copy, Debug)]
enum Expected {
    /// The value is valid.
    Valid,
    /// The lower and the upper bound; `None` if unknown.
    Sides(Option<f64>, Option<f64>),
}

use Expected::{Sides, Valid};

const AT_LEAST: Expected = Sides(Some(1.0), None);
const AT_MOST: Expected = Sides(None, Some(1.0));
const INVALID: Expected = Sides(None, None);

/// Checks throughput, p50, p99, CPU time per request and memory of a load that `change` modifies.
#[track_caller]
fn check(model: ArrivalModel, reason: Reason, change: impl FnOnce(&mut Load), expected: [Expected; 5]) {
    let mut load = Load::new(model);
    change(&mut load);
    let bounds = load.bounds();
    let times = &load.record.result.latency_ns;
    let completed = load.record.result.requests.completed as f64;
    let measured = [
        ("throughput", load.record.result.rate_per_s),
        ("p50", times.p50.expect("p50") as f64),
        ("p99", times.p99.expect("p99") as f64),
        ("cpu", load.data.cpu_s.total() * 1e6 / completed),
        ("memory", load.data.memory_bytes_peak.expect("a peak") as f64),
    ];
    for ((name, measured), expected) in measured.into_iter().zip(expected) {
        let found = bounds.get(name).filter(|bounds| !bounds.is_valid);
        match (found, expected) {
            (None, Valid) => {}
            (Some(found), Sides(low, high)) => {
                near(name, found.low.map(|low| low / measured), low);
                near(name, found.high.map(|high| high / measured), high);
                assert_eq!(found.reasons, [reason], "{name}");
            }
            _ => panic!("{name} is {found:?}, not {expected:?}"),
        }
    }
}

#[track_caller]
fn near(name: &str, found: Option<f64>, expected: Option<f64>) {
    let is_near = match (found, expected) {
        (Some(found), Some(expected)) => (found / expected - 1.0).abs() < 0.003,
        (found, expected) => found == expected,
    };
    assert!(is_near, "a side of {name} is {found:?}, not {expected:?}");
}

#[test]
fn a_busy_generator_bounds_a_closed_loop_from_below() {
    let busy = |load: &mut Load| load.record.generator.worker_cpu_s = vec![9.5];
    check(Closed, Reason::GeneratorLimited, busy, [AT_LEAST, AT_MOST, AT_MOST, INVALID, AT_LEAST]);
}

#[test]
fn late_requests_of_an_open_loop_move_quantiles_by_their_share() {
    let late = |load: &mut Load| load.record.result.lateness_ns.as_mut().unwrap().p99 = Some(2_000_000);
    // 3 % of the requests are late, so p50, p99 and CPU time may change by 3 %, which is within the tolerance.
    check(Open, Reason::GeneratorLimited, late, [Valid; 5]);
    let later = |load: &mut Load| {
        late(load);
        let mut lateness = new_histogram();
        lateness.record_n(1_000, REQUESTS * 7 / 10).expect("within the bounds");
        lateness.record_n(1_000_000, REQUESTS * 3 / 10).expect("within the bounds");
        load.record.lateness = Some(Histogram::encode(&lateness));
    };
    let quantile = Sides(Some(0.7), Some(1.0));
    let cpu = Sides(Some(0.85), Some(1.15));
    check(Open, Reason::GeneratorLimited, later, [Valid, quantile, quantile, cpu, Valid]);
    let unsent = |load: &mut Load| {
        late(load);
        load.record.lateness = None;
    };
    let unknown = [INVALID, AT_MOST, AT_MOST, INVALID, Valid];
    check(Open, Reason::GeneratorLimited, unsent, unknown);
}

#[test]
fn a_saturated_upstream_bounds_values_that_depend_on_it() {
    let full = |load: &mut Load| load.origin = usage(0.96);
    check(Closed, Reason::UpstreamLimited, full, [AT_LEAST, AT_MOST, AT_MOST, INVALID, AT_LEAST]);
    check(Open, Reason::UpstreamLimited, full, [Valid, AT_MOST, AT_MOST, Valid, Valid]);
}

#[test]
fn host_noise_moves_values_by_its_possible_effect() {
    // Each part waited 5 s of 10 s in the run queue, but other processes used only 0.2 cores. So they stalled parts for
    // at most a fifth of the time.
    let noisy = |waited_s: f64| {
        move |load: &mut Load| {
            load.host = HostShare { steal: 0.0, others: 0.1, idle: 0.3 };
            for usage in [&mut load.data, &mut load.origin, &mut load.generator] {
                usage.runqueue_s = Some(waited_s);
            }
        }
    };
    // The busiest part has a utilization of 0.5, so noise may have delayed 20 % / (1 - 0.5) = 40 % of the requests.
    // Without the noise, each latency could be up to 14 % lower or 7 % higher.
    let quantile = Sides(Some(0.6 * 0.86), Some(1.07));
    let cpu = Sides(Some(0.93), Some(1.07));
    check(Open, Reason::HostNoise, noisy(5.0), [Valid, quantile, quantile, cpu, Valid]);
    // The three parts together waited for 5 % of the time. The busiest part has a utilization of 0.5, so noise may have
    // delayed 5 % / (1 - 0.5) = 10 % of the requests. This is within the tolerance.
    check(Open, Reason::HostNoise, noisy(5.0 / 30.0), [Valid, Valid, Valid, cpu, Valid]);
    let quantile = Sides(None, Some(1.07));
    let throughput = Sides(Some(1.0 / 1.07), Some(1.0 / 0.93 / 0.8));
    check(Closed, Reason::HostNoise, noisy(5.0), [throughput, quantile, quantile, cpu, Valid]);
    let full = |load: &mut Load| {
        noisy(5.0)(load);
        load.data = Usage { runqueue_s: Some(5.0), ..usage(0.99) };
    };
    // Noise changes the throughput of a saturated gateway only through its CPU time per request. This change is within
    // the tolerance for throughput.
    check(Closed, Reason::HostNoise, full, [Valid, quantile, quantile, cpu, Valid]);
}

#[test]
fn noise_on_the_machine_of_an_agent_delays_the_requests_of_that_agent() {
    // Other processes used 0.2 cores of the machine of agent b, one of two agents. So they stalled its worker for at
    // most 20 % of the time. The worker has a utilization of 0.5, so 20 % / (1 - 0.5) = 40 % of its requests may have
    // been delayed.
    let noisy = |load: &mut Load| {
        let mut shards = ["a", "b"].map(|agent| ShardResult::of(agent, &load.record, 0, 0));
        shards[1].machine = Some(AgentMachine {
            boot_id: "of-b".into(),
            is_here: false,
            cores: 2.0,
            share: Some(HostShare { steal: 0.0, others: 0.1, idle: 0.6 }),
            busiest: Vec::new(),
        });
        let own = &mut shards[1].generator;
        (own.wall_s, own.worker_cpu_s, own.worker_runqueue_s) = (10.0, vec![5.0], vec![5.0]);
        load.record.shards = shards.to_vec();
        load.host = HostShare { steal: 0.0, others: 0.0, idle: 0.4 };
    };
    let quantile = Sides(Some(0.8 * 0.86), Some(1.0));
    check(Open, Reason::HostNoise, noisy, [Valid, quantile, Valid, Valid, Valid]);
    let mut load = Load::new(Open);
    noisy(&mut load);
    let said = load.judge().evidence.remove(0);
    assert_eq!(
        said,
        "processes outside the rig took 10.0 % of the CPU of agent b's machine (limit 2.00 %): 10.0 % on this machine, \
         0 % in other virtual machines (steal). They may have delayed 40.0 % of its requests. Stop them, or use another machine"
    );
}

#[test]
fn noise_at_one_agent_does_not_excuse_another_that_sent_late() {
    let mut load = Load::new(Open);
    let mut shards = ["late", "noisy"].map(|agent| ShardResult::of(agent, &load.record, 0, 0));
    let machine = |boot_id: &str, others| AgentMachine {
        boot_id: boot_id.into(),
        cores: 2.0,
        share: Some(HostShare { others, ..HostShare::default() }),
        ..AgentMachine::default()
    };
    shards[0].machine = Some(machine("quiet", 0.0));
    shards[0].lateness_ns.as_mut().unwrap().p99 = Some(20_000_000);
    shards[1].machine = Some(machine("noisy", 0.1));
    load.record.shards = shards.to_vec();
    let says = |load: &Load, words: &str| load.judge().evidence.iter().any(|said| said.contains(words));
    assert!(says(&load, "agent late sent late: ") && says(&load, "of agent noisy's machine (limit "));
    // Noise on the agent's machine explains why the agent sent late.
    load.record.shards[0].machine = Some(machine("noisy, too", 0.1));
    assert!(!says(&load, "sent late"));
}

#[test]
fn agents_that_need_more_cores_than_their_machine_has_limit_the_load() {
    let crowded = |load: &mut Load| {
        let mut shard = ShardResult::of("a", &load.record, 0, 0);
        let own = &mut shard.generator;
        (own.wall_s, own.worker_cpu_s, own.worker_runqueue_s) = (10.0, vec![0.5], vec![2.0]);
        let here =
            AgentMachine { boot_id: "here".into(), is_here: true, cores: 2.0, ..AgentMachine::default() };
        shard.machine = Some(here);
        load.record.shards = vec![shard; 18];
    };
    check(Closed, Reason::GeneratorLimited, crowded, [AT_LEAST, AT_MOST, AT_MOST, INVALID, AT_LEAST]);
    // The agents are not the bottleneck of an open load that was served in full, or of a closed load that saturates the
    // gateway.
    check(Open, Reason::GeneratorLimited, crowded, [Valid; 5]);
    let full = |load: &mut Load| {
        crowded(load);
        load.data = usage(0.99);
    };
    check(Closed, Reason::GeneratorLimited, full, [Valid; 5]);
    let mut load = Load::new(Closed);
    crowded(&mut load);
    let said = load.judge().evidence.remove(0);
    assert_eq!(said, "18 agents on this host needed 4.50 cores, but the machine has only 2.00");
}

#[test]
fn stolen_time_is_no_run_queue_delay() {
    let stolen = |load: &mut Load| {
        load.host = HostShare { steal: 0.04, others: 0.0, idle: 0.3 };
        for usage in [&mut load.data, &mut load.origin, &mut load.generator] {
            usage.runqueue_s = Some(0.0);
        }
    };
    let quantile = Sides(Some(0.84 * 0.944), Some(1.028));
    check(Open, Reason::HostNoise, stolen, [Valid, quantile, Valid, Valid, Valid]);
}

#[test]
fn lateness_under_noise_is_an_effect_of_the_noise() {
    let late = |load: &mut Load| {
        load.host = HostShare { steal: 0.0, others: 0.03, idle: 0.3 };
        load.record.result.lateness_ns.as_mut().unwrap().p99 = Some(2_000_000);
        let mut lateness = new_histogram();
        lateness.record_n(1_000, REQUESTS * 7 / 10).expect("within the bounds");
        lateness.record_n(1_000_000, REQUESTS * 3 / 10).expect("within the bounds");
        load.record.lateness = Some(Histogram::encode(&lateness));
    };
    let quantile = Sides(Some(0.7 * 0.958), Some(1.021));
    let cpu = Sides(Some(0.85), Some(1.15));
    check(Open, Reason::HostNoise, late, [Valid, quantile, quantile, cpu, Valid]);
}

#[test]
fn an_overloaded_gateway_bounds_latency_from_below() {
    let overloaded = |load: &mut Load| {
        load.data = usage(0.99);
        for books in [&mut load.record.result.requests, &mut load.record.whole] {
            books.in_flight = books.completed / 10;
            books.completed -= books.in_flight;
        }
    };
    check(Open, Reason::Overloaded, overloaded, [Valid, AT_LEAST, AT_LEAST, Valid, Valid]);
}

#[test]
fn throttled_periods_delay_their_requests_and_those_of_the_next() {
    let throttled = |periods| move |load: &mut Load| load.data.periods_throttled = Some(periods);
    check(Open, Reason::Throttled, throttled(2), [Valid; 5]);
    let moved = Sides(Some(0.7), Some(1.0));
    check(Open, Reason::Throttled, throttled(15), [Valid, moved, moved, Valid, Valid]);
    // If half of the periods are throttled, the lower bound is unknown.
    check(Open, Reason::Throttled, throttled(50), [Valid, AT_MOST, AT_MOST, Valid, Valid]);
}

#[test]
fn errors_invalidate_every_value_that_they_can_move() {
    let wrong = |load: &mut Load| {
        for books in [&mut load.record.result.requests, &mut load.record.whole] {
            books.unexpected = books.scheduled / 10;
        }
    };
    let [p50, p99] = [0.5, 0.99].map(|quantile| {
        // The upper bound of p99 would lie above the slowest request, so it is unknown.
        let high = Some((quantile + 0.1) / quantile).filter(|_| quantile < 0.9);
        Sides(Some((quantile - 0.1) / quantile), high)
    });
    let cpu = Sides(Some(0.8 / 0.9), Some(1.0 / 0.9));
    for model in [Closed, Open] {
        check(model, Reason::Errors, wrong, [Sides(Some(0.9), Some(1.0)), p50, p99, cpu, Valid]);
    }
}

#[test]
fn missing_connections_reduce_the_load() {
    let missing = |load: &mut Load| load.record.generator.connections_missing_mean = Some(2.0);
    for model in [Closed, Open] {
        check(model, Reason::Errors, missing, [AT_LEAST, AT_LEAST, AT_LEAST, INVALID, AT_LEAST]);
    }
}

/// Sets the seconds of the phase: four seconds in each third. All seconds of a third have the same number of responses
/// and the same latency.
fn thirds(load: &mut Load, thirds: [(u64, u64); 3]) {
    load.record.seconds = (0..12)
        .map(|second| {
            let (completed, latency_ns) = thirds[second / 4];
            let mut latency = new_histogram();
            latency.record_n(latency_ns, completed).expect("within the bounds");
            LoadSecond {
                t_s: second as f64,
                length_s: 1.0,
                sustained: true,
                sent: completed,
                completed,
                unexpected: 0,
                lost: 0,
                latency: Histogram::encode(&latency),
            }
        })
        .collect();
}

#[test]
fn a_drift_bounds_in_its_own_direction() {
    let rising = |load: &mut Load| thirds(load, [(1_000, 5_000_000), (1_500, 5_000_000), (2_000, 5_000_000)]);
    check(Closed, Reason::NotStationary, rising, [AT_LEAST, AT_MOST, AT_MOST, INVALID, INVALID]);
    let falling =
        |load: &mut Load| thirds(load, [(2_000, 5_000_000), (1_500, 5_000_000), (1_000, 5_000_000)]);
    check(Closed, Reason::NotStationary, falling, [AT_MOST, AT_LEAST, AT_LEAST, INVALID, INVALID]);
    let slower = |load: &mut Load| thirds(load, [(1_000, 5_000_000), (1_000, 6_000_000), (1_000, 7_000_000)]);
    check(Closed, Reason::NotStationary, slower, [Valid, AT_LEAST, AT_LEAST, INVALID, INVALID]);
    let faster = |load: &mut Load| thirds(load, [(1_000, 7_000_000), (1_000, 6_000_000), (1_000, 5_000_000)]);
    check(Closed, Reason::NotStationary, faster, [Valid, AT_MOST, AT_MOST, INVALID, INVALID]);
}

#[test]
fn contradictions_and_missing_limits_leave_no_bounds() {
    let contradicting = |load: &mut Load| load.record.generator.in_flight_mean = Some(1_000.0);
    let unlimited = |load: &mut Load| load.limits_applied = false;
    for model in [Closed, Open] {
        check(model, Reason::Implausible, contradicting, [INVALID; 5]);
        check(model, Reason::LimitNotApplied, unlimited, [INVALID; 5]);
    }
}

#[test]
fn shards_that_start_apart_move_throughput_and_cpu_by_the_share_of_the_phase() {
    let started = |apart_ns: i64| {
        move |load: &mut Load| {
            load.record.shards = [0, apart_ns].map(|start_ns| shard(&load.record, start_ns)).to_vec();
        }
    };
    for model in [Closed, Open] {
        let duration_ns = Load::new(model).record.result.duration_s * 1e9;
        check(model, Reason::ClockUncertain, started(9_000_000), [Valid; 5]);
        // If shards start 4 % of the phase apart, the effect is within the tolerance of throughput and CPU time.
        check(model, Reason::ClockUncertain, started((duration_ns * 0.04) as i64), [Valid; 5]);
        let sides = Sides(Some(0.5), Some(1.5));
        let half = started((duration_ns * 0.5) as i64);
        check(model, Reason::ClockUncertain, half, [sides, Valid, Valid, sides, Valid]);
    }
}

fn shard(record: &LoadRecord, start_offset_ns: i64) -> ShardResult {
    ShardResult::of(&format!("agent-{start_offset_ns}"), record, start_offset_ns, 0)
}

#[test]
fn two_reasons_with_opposite_bounds_leave_no_bounds() {
    let mut load = Load::new(Open);
    load.origin = usage(0.96);
    load.record.generator.connections_missing_mean = Some(2.0);
    let p50 = load.bounds().remove("p50").unwrap();
    assert_eq!((p50.low, p50.high, p50.is_valid), (None, None, false));
    assert_eq!(p50.reasons, [Reason::UpstreamLimited, Reason::Errors]);
}

#[test]
fn a_bound_far_beyond_the_next_quantile_is_dropped() {
    let mut load = Load::new(Open);
    // 85 % of the requests took 1 ms, the others 1 s. 20 % errors shift quantiles by up to 20 points, so the upper
    // bound of p66 is p86 (1 s), and the lower bound of p95 is p75 (1 ms). Both bounds are dropped, because they are
    // far from the next measured quantiles: p75 (1 ms) and p90 (1 s).
    let mut latency = new_histogram();
    latency.record_n(1_000_000, REQUESTS * 85 / 100).expect("within the bounds");
    latency.record_n(1_000_000_000, REQUESTS * 15 / 100).expect("within the bounds");
    load.record.result.latency_ns = TimesNs::of(&latency, 0);
    load.record.latency = Histogram::encode(&latency);
    load.record.result.requests.unexpected = REQUESTS / 5;
    let bounds = load.bounds();
    let ms = |end: Option<f64>| end.map(|ns| (ns / 1e6).round());
    assert_eq!((ms(bounds["p50"].low), ms(bounds["p50"].high)), (Some(1.0), Some(1.0)));
    assert_eq!((ms(bounds["p66"].low), ms(bounds["p66"].high)), (Some(1.0), None));
    assert_eq!((ms(bounds["p80"].low), ms(bounds["p80"].high)), (Some(1.0), Some(1_000.0)));
    assert_eq!((ms(bounds["p95"].low), ms(bounds["p95"].high)), (None, None));
}
