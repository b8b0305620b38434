//! Loads that drift, and loads that seem to drift by chance.

use weir_analysis::{Evidence, judge};
use weir_results::{
    ArrivalModel::{self, Closed, Open},
    Histogram, Judgement, LoadSecond, Reason, Thresholds, Usage, new_histogram,
};

use crate::fuzzed::Random;
use crate::records::{record, usage};

/// A second of the sustained phase. `answers` contains pairs: a number of responses, and their latency in nanoseconds.
/// `lost` is the number of lost requests.
fn second(answers: &[(u64, u64)], lost: u64) -> LoadSecond {
    let mut latency = new_histogram();
    for (count, latency_ns) in answers {
        latency.record_n(*latency_ns, *count).expect("latencies here are under an hour");
    }
    let completed = latency.len();
    let latency = Histogram::encode(&latency);
    LoadSecond {
        t_s: 0.0,
        length_s: 1.0,
        sustained: true,
        sent: completed,
        completed,
        unexpected: 0,
        lost,
        latency,
    }
}

/// A load in three thirds. Each third has `n` seconds with equal values.
fn thirds(n: usize, of: [LoadSecond; 3]) -> Vec<LoadSecond> {
    of.into_iter().flat_map(|second| vec![second; n]).collect()
}

/// A load with these `seconds` and consistent request counts.
struct Load {
    model: ArrivalModel,
    seconds: Vec<LoadSecond>,
    data: Option<Usage>,
    is_steady: bool,
    given_up: u64,
}

impl Load {
    fn of(model: ArrivalModel, seconds: Vec<LoadSecond>) -> Self {
        Self { model, seconds, data: None, is_steady: true, given_up: 0 }
    }

    fn judge(self) -> Judgement {
        let mut record = record(self.model, 1_000, 2_000_000);
        let completed =
            self.seconds.iter().filter(|second| second.sustained).map(|second| second.completed).sum();
        for books in [&mut record.result.requests, &mut record.whole] {
            books.completed = completed;
            books.timed_out = self.given_up;
            books.scheduled = completed + self.given_up;
        }
        record.seconds = self.seconds;
        let evidence = Evidence {
            record: &record,
            data: self.data.as_ref(),
            origin: None,
            generator: None,
            counters: None,
            host: None,
            host_cores: 0,
            busiest: &[],
            limits_applied: true,
            loopback_floor_ns: None,
            ceiling: None,
            is_steady: self.is_steady,
            errors_max: None,
        };
        judge(&evidence, &Thresholds::default())
    }
}

const MS: u64 = 1_000_000;

/// Checks the reasons for latency.
#[track_caller]
fn check(model: ArrivalModel, seconds: Vec<LoadSecond>, expected: &[Reason]) -> Judgement {
    let judgement = Load::of(model, seconds).judge();
    assert_eq!(judgement.verdicts.latency, expected, "{:?}", judgement.evidence);
    judgement
}

const DRIFTED: &[Reason] = &[Reason::NotStationary];

#[test]
fn a_drift_of_throughput_invalidates_everything() {
    let per_s = |completed| second(&[(completed, 2 * MS)], 0);
    let drifted = |last| thirds(5, [per_s(10_000), per_s(9_900), per_s(last)]);
    // A drift of 10 % of the larger value is allowed, up or down.
    check(Closed, drifted(9_000), &[]);
    check(Closed, drifted(11_111), &[]);
    check(Closed, drifted(11_112), DRIFTED);
    let judgement = check(Closed, drifted(8_000), DRIFTED);
    assert_eq!(judgement.verdicts.throughput, DRIFTED);
    assert_eq!(judgement.verdicts.cpu, DRIFTED);
    assert_eq!(
        judgement.evidence[0],
        "not stationary: from the first to the last third of the phase, throughput went from 10,000/s to \
        8,000/s, a difference of 20.0 % (limit 10.0 %; chance explains up to 0 %)"
    );
    assert_eq!(judgement.evidence.len(), 2, "a sentence for the reason and one for the bound");
    check(Closed, drifted(0), DRIFTED);
}

#[test]
fn a_median_that_drifts_is_that_of_all_requests_of_a_third() {
    let with_p50 = |latency_ns| second(&[(600, latency_ns), (399, 50 * MS)], 0);
    check(Open, thirds(5, [with_p50(2 * MS), with_p50(2 * MS), with_p50(2 * MS + MS / 10)]), &[]);
    let judgement = check(Open, thirds(5, [with_p50(2 * MS), with_p50(2 * MS), with_p50(3 * MS)]), DRIFTED);
    assert!(judgement.evidence[0].contains("p50 went from 2.00 ms to 3.00 ms"), "{:?}", judgement.evidence);
    // Tails may drift.
    let with_tail = |tail_ns| second(&[(600, 2 * MS), (399, tail_ns)], 0);
    check(Open, thirds(5, [with_tail(10 * MS), with_tail(20 * MS), with_tail(90 * MS)]), &[]);
    // Each second is weighted by its number of requests. The unweighted mean of the medians per second would be 2.40
    // ms.
    let mut seconds = thirds(5, [with_p50(2 * MS), with_p50(2 * MS), with_p50(8 * MS)]);
    seconds[0] = second(&[(10, 4 * MS)], 0);
    let judgement = check(Closed, seconds, DRIFTED);
    assert!(judgement.evidence[0].contains("p50 went from 2.00 ms to 8.00 ms"), "{:?}", judgement.evidence);
}

#[test]
fn lost_requests_rank_last_in_the_median() {
    let with_lost = |lost| second(&[(600, 2 * MS), (400, 9 * MS)], lost);
    check(Open, thirds(4, [with_lost(0), with_lost(0), with_lost(200)]), &[]);
    let judgement = check(Open, thirds(4, [with_lost(0), with_lost(0), with_lost(300)]), DRIFTED);
    assert!(judgement.evidence[0].contains("p50 went from 2.00 ms to 9.00 ms"), "{:?}", judgement.evidence);
}

#[test]
fn a_phase_under_twelve_seconds_is_not_judged() {
    let per_s = |completed| second(&[(completed, 2 * MS)], 0);
    let twelve = thirds(4, [per_s(1_000), per_s(3_000), per_s(9_000)]);
    check(Closed, twelve[1..].to_vec(), &[]);
    check(Closed, twelve.clone(), DRIFTED);
    // A phase of about one second, as in the quickstart scenario; its last second is shorter.
    let quickstart = vec![per_s(1_000), LoadSecond { length_s: 0.6, ..per_s(60) }];
    check(Closed, quickstart, &[]);
    let mut cut_short = twelve;
    cut_short[11].length_s = 0.99;
    check(Closed, cut_short, &[]);
}

#[test]
fn a_linear_drift_is_detected_from_twelve_seconds() {
    let rising =
        |seconds: u64| (0..seconds).map(|at| second(&[(1_000 + 50 * at, 2 * MS)], 0)).collect::<Vec<_>>();
    check(Closed, rising(11), &[]);
    for seconds in [12, 13, 15, 60] {
        check(Closed, rising(seconds), DRIFTED);
    }
}

#[test]
fn warm_up_and_drain_are_excluded() {
    let per_s = |completed| second(&[(completed, 2 * MS)], 0);
    let aside = || vec![LoadSecond { sustained: false, ..per_s(10) }; 4];
    let steady = thirds(4, [per_s(1_000), per_s(1_000), per_s(1_000)]);
    check(Closed, [aside(), steady, aside()].concat(), &[]);
}

#[test]
fn a_load_that_changes_by_design_is_not_judged() {
    let per_s = |completed| second(&[(completed, 2 * MS)], 0);
    let ramp = thirds(4, [per_s(1_000), per_s(3_000), per_s(9_000)]);
    let judgement = Load { is_steady: false, ..Load::of(Closed, ramp) }.judge();
    assert!(judgement.verdicts.all_valid(), "{judgement:?}");
}

#[test]
fn the_growing_queue_of_an_overload_is_no_drift() {
    let with_p50 = |latency_ns| second(&[(900, latency_ns)], 0);
    let growing = thirds(4, [with_p50(100 * MS), with_p50(500 * MS), with_p50(900 * MS)]);
    let overloaded = |seconds| {
        Load { data: Some(usage(0.99)), given_up: 5_000, ..Load::of(Open, seconds) }.judge().verdicts
    };
    let verdicts = overloaded(growing);
    assert_eq!(verdicts.latency, [Reason::Overloaded]);
    assert!(verdicts.throughput.is_empty() && verdicts.cpu.is_empty(), "{verdicts:?}");
    // The throughput of an overloaded gateway must still be constant.
    let fewer = |completed| second(&[(completed, 100 * MS)], 0);
    let verdicts = overloaded(thirds(4, [fewer(900), fewer(900), fewer(500)]));
    assert_eq!(verdicts.throughput, DRIFTED);
}

#[test]
fn seconds_with_only_counts_have_no_drift_of_latency() {
    let counted = |completed| LoadSecond { completed, ..second(&[], 0) };
    check(Closed, thirds(4, [counted(900), counted(900), counted(900)]), &[]);
    check(Closed, thirds(4, [counted(900), counted(900), counted(700)]), DRIFTED);
}

#[test]
fn seconds_with_a_large_variation_are_no_drift() {
    let per_s = |counts: [u64; 12]| counts.map(|completed| second(&[(completed, 2 * MS)], 0)).to_vec();
    // In both loads, the first third has 100/s and the last 120/s, 17 % apart. In the first load the seconds vary so
    // much that this may be chance.
    check(Closed, per_s([50, 150, 80, 120, 90, 110, 100, 100, 110, 170, 80, 120]), &[]);
    check(Closed, per_s([99, 101, 100, 100, 110, 110, 110, 110, 119, 121, 120, 120]), DRIFTED);
}

/// A random number, exponentially distributed with mean one.
fn exponential(random: &mut Random) -> f64 {
    -random.unit().ln()
}

/// Returns how many `loads` have a reported drift (an alarm), and in how many the first and the last third differ by
/// more than a tenth.
fn alarms(loads: impl Iterator<Item = Vec<LoadSecond>>) -> (usize, usize) {
    let (mut alarms, mut apart) = (0, 0);
    for seconds in loads {
        let n = seconds.len() / 3;
        let count = |third: &[LoadSecond]| third.iter().map(|second| second.completed).sum::<u64>() as f64;
        let (first, last) = (count(&seconds[..n]), count(&seconds[seconds.len() - n..]));
        apart += usize::from((first - last).abs() > first.max(last) / 10.0);
        alarms += usize::from(!Load::of(Closed, seconds).judge().verdicts.all_valid());
    }
    (alarms, apart)
}

/// Maximum number of alarms by chance: the expected number plus six standard deviations. Each load has two comparisons,
/// and each comparison causes an alarm with a probability of 0.1 %.
fn most(loads: usize) -> usize {
    let expected = 2.0 * loads as f64 / 1_000.0;
    (expected + 6.0 * expected.sqrt()).ceil() as usize
}

#[test]
fn random_arrivals_are_no_drift() {
    const LOADS: usize = 2_000;
    let mut random = Random(1);
    let empty = second(&[], 0);
    let loads = (0..LOADS).map(|_| {
        // Random arrivals at 20/s, for twelve seconds.
        let mut seconds = vec![empty.clone(); 12];
        let mut at_s = exponential(&mut random) / 20.0;
        while at_s < 12.0 {
            seconds[at_s as usize].completed += 1;
            at_s += exponential(&mut random) / 20.0;
        }
        seconds
    });
    let (alarms, apart) = alarms(loads);
    assert!(apart > LOADS / 3, "only {apart} of {LOADS} loads would have tempted a rule without chance");
    assert!(alarms <= most(LOADS), "{alarms} false alarms in {LOADS} loads");
}

#[test]
fn queues_with_correlated_waits_are_no_drift() {
    const LOADS: usize = 150;
    let mut random = Random(2);
    let loads = (0..LOADS).map(|_| {
        // An M/M/1 queue at 80 % utilization and 50/s: fifteen seconds, after five seconds that are discarded.
        let mut latencies: Vec<Vec<(u64, u64)>> = vec![Vec::new(); 15];
        let (mut at_s, mut free_s) = (0.0, 0.0_f64);
        while at_s < 20.0 {
            free_s = free_s.max(at_s) + exponential(&mut random) * 0.8 / 50.0;
            if (5.0..20.0).contains(&free_s) {
                latencies[(free_s - 5.0) as usize].push((1, ((free_s - at_s) * 1e9) as u64));
            }
            at_s += exponential(&mut random) / 50.0;
        }
        latencies.iter().map(|answers| second(answers, 0)).collect()
    });
    let (alarms, _) = alarms(loads);
    assert!(alarms <= most(LOADS), "{alarms} false alarms in {LOADS} loads");
}
