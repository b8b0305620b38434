//! Statistical tests of schedules: the Anderson-Darling test of the gaps, and the dispersion of the counts.
//!
//! Seeds are fixed, so results are reproducible. Arrivals with typical errors of load generators must fail the
//! tests.

use super::*;

/// Critical value of the Anderson-Darling statistic at a level of 1 %, for a distribution without estimated
/// parameters and at least five values (Stephens, "EDF statistics for goodness of fit and some comparisons", JASA
/// 69 (1974), table 1, case 0).
pub(super) const CRITICAL_1_PERCENT: f64 = 3.857;

pub(super) const MS: u64 = 1_000_000;
pub(super) const S: u64 = 1_000_000_000;

/// The Anderson-Darling statistic A^2 of values against the uniform distribution from 0 to 1. It is the squared
/// distance between the two distributions, weighted toward both tails.
fn anderson_darling(mut uniform: Vec<f64>) -> f64 {
    uniform.sort_by(f64::total_cmp);
    let n = uniform.len();
    let sum: f64 =
        (0..n).map(|i| (2 * i + 1) as f64 * (uniform[i].ln() + (-uniform[n - 1 - i]).ln_1p())).sum();
    -(n as f64) - sum / n as f64
}

/// The Anderson-Darling statistic of `gaps` against an Erlang distribution: each gap is the sum of `shape` exponential
/// gaps with mean 1. The unit of `gaps` is the mean gap of the whole schedule.
pub(super) fn against_exponential(gaps: impl Iterator<Item = f64>, shape: u32) -> f64 {
    let below = |gap: f64| {
        let mut term = 1.0;
        let mut sum = 1.0;
        for k in 1..shape {
            term *= gap / f64::from(k);
            sum += term;
        }
        -(-gap).exp_m1() - (-gap).exp() * (sum - 1.0)
    };
    anderson_darling(gaps.map(below).collect())
}

pub(super) fn due_until(schedule: &Schedule, worker: u64, workers: u64, until_ns: u64) -> Vec<u64> {
    let mut arrivals = schedule.arrivals(worker, workers);
    let mut all = Vec::new();
    while arrivals.due_ns() < until_ns {
        all.push(arrivals.due_ns());
        arrivals.advance();
    }
    all
}

pub(super) fn gaps(due_ns: &[u64], rate_per_s: f64) -> impl Iterator<Item = f64> {
    // Times are whole nanoseconds. A gap of 0 means less than a nanosecond, and counts as half of one.
    due_ns.windows(2).map(move |pair| ((pair[1] - pair[0]) as f64).max(0.5) * rate_per_s / 1e9)
}

pub(super) fn poisson(seed: u64, profile: impl Into<Profile>) -> Schedule {
    Schedule::new(seed, profile, Spacing::Poisson)
}

/// Variance divided by mean of the counts in windows of `window_ns`; 1 for a Poisson process.
pub(super) fn dispersion(due_ns: &[u64], window_ns: u64, until_ns: u64) -> f64 {
    let mut windows = vec![0.0; (until_ns / window_ns) as usize];
    due_ns.iter().map(|ns| (ns / window_ns) as usize).for_each(|at| {
        if let Some(count) = windows.get_mut(at) {
            *count += 1.0;
        }
    });
    let n = windows.len() as f64;
    let mean = windows.iter().sum::<f64>() / n;
    windows.iter().map(|count: &f64| (count - mean).powi(2)).sum::<f64>() / (n - 1.0) / mean
}

/// Expected number of arrivals in the first `s` seconds at 1,000/s with bursts of 9,000/s in the first 200 ms of
/// each second.
pub(super) fn integrated_bursts(s: f64) -> f64 {
    let (whole, part) = (s.floor(), s.fract());
    let in_cycle = if part < 0.2 { part * 9_000.0 } else { 1_800.0 + (part - 0.2) * 1_000.0 };
    whole * (0.2 * 9_000.0 + 0.8 * 1_000.0) + in_cycle
}

#[test]
fn the_statistic_matches_the_published_one() {
    // Computed by hand: the statistic of the single value 0.5 is -1 - 2 ln 0.5. For evenly spaced values, the statistic
    // is far below the critical value.
    assert!((anderson_darling(vec![0.5]) - (-1.0 - 2.0 * 0.5f64.ln())).abs() < 1e-12);
    assert!(anderson_darling((0..1_000).map(|i| (f64::from(i) + 0.5) / 1_000.0).collect()) < 0.02);
    assert!(anderson_darling(vec![0.0, 0.5]) > 1e9, "an impossible value is always rejected");
}

#[test]
fn gaps_of_the_schedule_are_exponential() {
    for (seed, rate_per_s) in [(1, 5_000.0), (2, 20_000.0), (3, 333.3), (99, 100_000.0)] {
        let due = due_until(&poisson(seed, rate_per_s), 0, 1, (50_000.0 / rate_per_s * 1e9) as u64);
        let a2 = against_exponential(gaps(&due, rate_per_s), 1);
        assert!(a2 < CRITICAL_1_PERCENT, "seed {seed}: {a2}");
    }
}

#[test]
fn shares_of_workers_are_sums_of_exponential_gaps() {
    let schedule = poisson(5, 20_000.0);
    for workers in [2, 3, 8] {
        for worker in 0..workers {
            let due = due_until(&schedule, worker, workers, 5 * S);
            let a2 = against_exponential(gaps(&due, 20_000.0), workers as u32);
            assert!(a2 < CRITICAL_1_PERCENT, "worker {worker} of {workers}: statistic {a2}");
            let alone = against_exponential(gaps(&due, 20_000.0 / workers as f64), 1);
            assert!(
                alone > CRITICAL_1_PERCENT,
                "the arrivals of one worker are more even than Poisson: {alone}"
            );
        }
    }
}

#[test]
fn ramps_and_bursts_are_exponential_after_mapping_back() {
    // Integrated rates, computed independently of the schedule as areas of trapezoids.
    let up = |s: f64| if s < 1.0 { 1_000.0 * s } else { 1_000.0 * s + 9_000.0 * (s - 1.0).powi(2) / 8.0 };
    let down = |s: f64| 8_000.0 * s - 1_000.0 * s * s;
    let burst = "9000/s:200ms/1s".parse().unwrap();
    check(Profile::from(1_000.0).ramp(10_000.0, S, 4 * S), 5 * S, &up);
    check(Profile::from(8_000.0).ramp(0.0, 0, 4 * S), 4 * S, &down);
    check(Profile::from(1_000.0).bursts(burst), 10 * S, &integrated_bursts);

    fn check(profile: Profile, until_ns: u64, integrated: &dyn Fn(f64) -> f64) {
        for seed in 1..5 {
            let due = due_until(&poisson(seed, profile), 0, 1, until_ns);
            let expected = integrated(until_ns as f64 / 1e9);
            assert!((due.len() as f64 - expected).abs() < 4.0 * expected.sqrt(), "{} arrivals", due.len());
            let back: Vec<f64> = due.iter().map(|&ns| integrated(ns as f64 / 1e9)).collect();
            let a2 = against_exponential(back.windows(2).map(|pair| pair[1] - pair[0]), 1);
            assert!(a2 < CRITICAL_1_PERCENT, "seed {seed}: {a2}");
            let unbent = against_exponential(gaps(&due, due.len() as f64 * 1e9 / until_ns as f64), 1);
            assert!(
                unbent > CRITICAL_1_PERCENT,
                "the gaps between unmapped due times are not exponential: {unbent}"
            );
            let even = due_until(&Schedule::new(seed, profile, Spacing::Even), 0, 1, until_ns);
            for (index, ns) in even.iter().enumerate() {
                let mass = integrated(*ns as f64 / 1e9);
                // Due times are whole nanoseconds. At the highest rate, the tolerance of 2e-5 arrivals is 2 ns.
                assert!(
                    (mass - index as f64).abs() < 2e-5,
                    "arrival {index} at {ns} ns: integrated rate {mass}"
                );
            }
            assert!((even.len() as f64 - expected).abs() <= 1.0, "{} of {expected}", even.len());
        }
    }
}

#[test]
fn wrong_arrivals_are_rejected() {
    let rate_per_s = 5_000.0;
    let right = due_until(&poisson(1, rate_per_s), 0, 1, 2 * S);
    let rejected = |name: &str, due: &[u64]| {
        let a2 = against_exponential(gaps(due, rate_per_s), 1);
        assert!(a2 > CRITICAL_1_PERCENT, "{name}: {a2}");
    };
    rejected("even", &due_until(&Schedule::new(1, rate_per_s, Spacing::Even), 0, 1, 2 * S));
    // A millisecond timer sends all due requests in one batch per millisecond.
    let batched: Vec<u64> = right.iter().map(|ns| ns.div_ceil(MS) * MS).collect();
    rejected("one batch per millisecond", &batched);
    // The same batches, with 4 us between the requests of a batch.
    let mut spread = batched;
    for at in 1..spread.len() {
        spread[at] = spread[at].max(spread[at - 1] + 4_000);
    }
    rejected("one batch per millisecond, requests 4 us apart", &spread);
    // 10 % too slow: the lateness of each request is 10 % of its intended send time.
    let drifting: Vec<u64> = right.iter().map(|&ns| ns + (ns as f64 * 0.1) as u64).collect();
    rejected("a tenth too slow", &drifting);
}

#[test]
fn workers_together_are_one_poisson_process_without_bursts() {
    let (rate_per_s, until_ns) = (20_000.0, 4 * S);
    let schedule = poisson(11, rate_per_s);
    for workers in [1, 2, 7, 32] {
        let mut together: Vec<u64> =
            (0..workers).flat_map(|worker| due_until(&schedule, worker, workers, until_ns)).collect();
        together.sort_unstable();
        assert_eq!(together, due_until(&schedule, 0, 1, until_ns), "{workers} workers");
        for window_ns in [MS / 5, MS, 10 * MS] {
            // With n windows, (n - 1) x dispersion has a chi-squared distribution with n - 1 degrees of freedom. The
            // tolerance is four standard errors.
            let allowed = 4.0 * (2.0 * window_ns as f64 / until_ns as f64).sqrt();
            let found = dispersion(&together, window_ns, until_ns);
            assert!((found - 1.0).abs() < allowed, "{workers} workers, {window_ns} ns: {found}");
        }
    }
    // A wrong way to generate load: 32 generators start together, each with its own schedule, and send 32 requests at
    // once. One schedule for all of them avoids that.
    let clock = due_until(&Schedule::new(1, rate_per_s / 32.0, Spacing::Even), 0, 1, until_ns);
    let clocks: Vec<u64> = clock.iter().flat_map(|&ns| [ns; 32]).collect();
    assert!(dispersion(&clocks, MS / 5, until_ns) > 20.0);
}

#[test]
fn workers_share_a_ramp_with_bursts_exactly() {
    let burst = "30000/s:3ms/10ms".parse().unwrap();
    let profile = Profile::from(500.0).ramp(4_000.0, 50 * MS, 300 * MS).bursts(burst);
    for spacing in [Spacing::Poisson, Spacing::Even] {
        let schedule = Schedule::new(7, profile, spacing);
        let alone = due_until(&schedule, 0, 1, S);
        assert!(alone.is_sorted());
        for workers in [2, 3, 7] {
            for worker in 0..workers {
                let share: Vec<u64> =
                    alone.iter().skip(worker as usize).step_by(workers as usize).copied().collect();
                assert_eq!(due_until(&schedule, worker, workers, S), share);
            }
        }
    }
}

#[test]
fn no_arrival_is_due_after_the_rate_reaches_zero() {
    for spacing in [Spacing::Poisson, Spacing::Even] {
        let schedule = Schedule::new(1, Profile::from(100.0).ramp(0.0, 0, S), spacing);
        let mut arrivals = schedule.arrivals(0, 1);
        while arrivals.due_ns() <= S {
            arrivals.advance();
        }
        assert_eq!(arrivals.due_ns(), NEVER_NS);
        assert!((20..80).contains(&arrivals.index()), "{}", arrivals.index());
    }
}
