//! Tests that the arrivals of several machines together are like the arrivals of one machine.

use super::spacing::{
    CRITICAL_1_PERCENT, MS, S, against_exponential, dispersion, due_until, gaps, integrated_bursts, poisson,
};
use super::*;

/// The clock skews to test: how far each machine's clock is behind the clock of the previous machine, nanoseconds.
const SKEWS_NS: [u64; 2] = [0, 20 * MS];

fn shards(of: u32) -> impl Iterator<Item = ShardSpec> {
    (0..of).map(move |index| ShardSpec { index, of })
}

/// Returns the arrivals of all machines during the time in which all of them run. The clock of each machine is
/// `skew_ns` behind the clock of the previous machine.
fn union(of_shard: impl Fn(ShardSpec) -> Vec<u64>, of: u32, skew_ns: u64, until_ns: u64) -> Vec<u64> {
    let begun_ns = u64::from(of - 1) * skew_ns;
    let late_ns = |shard: ShardSpec| u64::from(shard.index) * skew_ns;
    let mut all: Vec<u64> = shards(of)
        .flat_map(|shard| of_shard(shard).into_iter().map(move |ns| ns + late_ns(shard)))
        .filter(|ns| (begun_ns..until_ns).contains(ns))
        .map(|ns| ns - begun_ns)
        .collect();
    all.sort_unstable();
    all
}

fn due_of_shard(schedule: Schedule, until_ns: u64) -> impl Fn(ShardSpec) -> Vec<u64> {
    move |shard| due_until(&schedule.of_shard(shard), 0, 1, until_ns)
}

#[test]
fn arrivals_of_four_machines_are_exponential_at_any_clock_skew() {
    for (seed, rate_per_s) in [(1, 5_000.0), (2, 20_000.0), (3, 333.3), (99, 100_000.0)] {
        let until_ns = (50_000.0 / rate_per_s * 1e9) as u64;
        for skew_ns in SKEWS_NS {
            let all = union(due_of_shard(poisson(seed, rate_per_s), until_ns), 4, skew_ns, until_ns);
            let a2 = against_exponential(gaps(&all, rate_per_s), 1);
            assert!(a2 < CRITICAL_1_PERCENT, "seed {seed}, clocks {skew_ns} ns apart: statistic {a2}");
            let length_ns = until_ns - 3 * skew_ns;
            let expected = rate_per_s * length_ns as f64 / 1e9;
            assert!((all.len() as f64 - expected).abs() < 4.0 * expected.sqrt(), "{} arrivals", all.len());
            for windows in [100_u32, 1_000] {
                // The tolerance is four standard errors, as in
                // `workers_together_are_one_poisson_process_without_bursts`.
                let allowed = 4.0 * (2.0 / f64::from(windows)).sqrt();
                let found = dispersion(&all, length_ns / u64::from(windows), length_ns);
                assert!((found - 1.0).abs() < allowed, "seed {seed}, {windows} windows: dispersion {found}");
            }
        }
    }
}

#[test]
fn the_rejection_rate_matches_the_level_of_the_test() {
    for skew_ns in SKEWS_NS {
        let rejected = (0..200).filter(|&seed| {
            let all = union(due_of_shard(poisson(seed, 5_000.0), S / 2), 4, skew_ns, S / 2);
            against_exponential(gaps(&all, 5_000.0), 1) > CRITICAL_1_PERCENT
        });
        // The 1 % test should reject about 2 of 200 loads. The probability that it rejects more than 8 is below 0.03 %.
        let rejected = rejected.count();
        assert!(rejected <= 8, "{rejected} of 200 loads rejected, with clocks {skew_ns} ns apart");
    }
}

#[test]
fn indices_split_over_machines_are_poisson_only_on_one_clock() {
    // A wrong way to split a load: each machine sends every fourth arrival of one schedule.
    let (rate_per_s, until_ns) = (5_000.0, 20 * S);
    let dealt = |shard: ShardSpec| {
        due_until(&poisson(1, rate_per_s), u64::from(shard.index), u64::from(shard.of), until_ns)
    };
    let spread = |skew_ns| {
        let all = union(dealt, 4, skew_ns, until_ns);
        dispersion(&all, 10 * MS, until_ns - 3 * skew_ns)
    };
    assert!((spread(0) - 1.0).abs() < 0.13, "{}", spread(0));
    assert!(spread(20 * MS) < 0.5, "counts vary less than with independent clients: {}", spread(20 * MS));
}

#[test]
fn bursts_of_four_machines_are_exponential_after_mapping_back() {
    let profile = Profile::from(1_000.0).bursts("9000/s:200ms/1s".parse().unwrap());
    for seed in 1..5 {
        let all = union(due_of_shard(poisson(seed, profile), 10 * S), 4, 0, 10 * S);
        let back: Vec<f64> = all.iter().map(|&ns| integrated_bursts(ns as f64 / 1e9)).collect();
        // Two machines may send in the same nanosecond. Such a gap counts as half a nanosecond: at 1,000/s, this is
        // 5e-7 of the mean gap.
        let a2 = against_exponential(back.windows(2).map(|pair| (pair[1] - pair[0]).max(5e-7)), 1);
        assert!(a2 < CRITICAL_1_PERCENT, "seed {seed}: {a2}");
    }
}

#[test]
fn evenly_spaced_arrivals_are_split_exactly() {
    let burst = "30000/s:3ms/10ms".parse().unwrap();
    let bent = Profile::from(500.0).ramp(4_000.0, 50 * MS, 300 * MS).bursts(burst);
    for profile in [Profile::from(8_000.0), bent] {
        let schedule = Schedule::new(7, profile, Spacing::Even);
        let alone = due_until(&schedule, 0, 1, S);
        for of in [2, 3, 7] {
            assert_eq!(union(due_of_shard(schedule, S), of, 0, S), alone, "{of} machines");
        }
    }
    let gaps: Vec<u64> = due_until(
        &Schedule::new(1, 1_000.0, Spacing::Even).of_shard(ShardSpec { index: 1, of: 4 }),
        0,
        1,
        12 * MS,
    );
    assert_eq!(gaps, [MS, 5 * MS, 9 * MS], "the first arrival after one gap, then one every four gaps");
}

#[test]
fn workers_share_the_schedule_of_their_machine_exactly() {
    for spacing in [Spacing::Poisson, Spacing::Even] {
        let schedule = Schedule::new(7, 20_000.0, spacing).of_shard(ShardSpec { index: 2, of: 3 });
        let alone = due_until(&schedule, 0, 1, S / 10);
        let mut together: Vec<u64> =
            (0..3).flat_map(|worker| due_until(&schedule, worker, 3, S / 10)).collect();
        together.sort_unstable();
        assert_eq!(together, alone);
    }
}

#[test]
fn the_only_machine_of_a_load_has_the_whole_schedule() {
    for spacing in [Spacing::Poisson, Spacing::Even] {
        let schedule = Schedule::new(3, 1_234.5, spacing);
        assert_eq!(schedule.of_shard(ShardSpec::WHOLE), schedule);
        let half = schedule.of_shard(ShardSpec { index: 0, of: 2 });
        assert_ne!(due_until(&half, 0, 1, S), due_until(&schedule, 0, 1, S));
    }
}
