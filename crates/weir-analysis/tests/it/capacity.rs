//! Searches with simulated queues whose capacity is known, and the summary of their results.

use weir_analysis::capacity::{Asked, Bound, InvalidBecause, Search, Seen, Step, TrialSeen};
use weir_analysis::summarize;
use weir_results::{
    ArrivalModel, BoundBy, Cell, CellOutcome, DIRECT, Found, Judgement, Objective, Reason, Stopped, TimesNs,
    Trial, TrialSays, Verdicts,
};

use crate::fuzzed::Random;
use crate::queues::Queue;
use crate::records::record;
use crate::runs::{cell, plan, run, tail};

/// Duration of a trial without its warm-up, seconds.
const TRIAL_S: f64 = 2.0;
/// Duration of the warm-up of a trial, seconds.
const WARMUP_S: f64 = 0.5;

fn p99(limit_ns: u64) -> Objective {
    Objective {
        latency_ns: [("p99".to_owned(), limit_ns)].into(),
        errors: Some(0.001),
        ..Objective::default()
    }
}

fn asked(objective: Objective) -> Asked {
    Asked { objective, first_per_s: 100.0, least_per_s: 10.0, width: 0.15, trials_max: 60 }
}

/// Runs a search; `give(number, rate)` returns the result of a trial.
fn search(asked: &Asked, mut give: impl FnMut(u32, f64) -> Result<Vec<Seen>, InvalidBecause>) -> Found {
    let mut search = Search::new(asked.clone());
    loop {
        match search.step() {
            Step::Try { rate_per_s } => {
                let number = search.trials().len() as u32 + 1;
                assert!(number <= asked.trials_max, "too many trials");
                assert!(rate_per_s >= asked.least_per_s && rate_per_s.is_finite(), "{rate_per_s}");
                search.add(TrialSeen { rate_per_s, seen: give(number, rate_per_s) });
            }
            Step::Stop(found) => return *found,
        }
    }
}

/// The result of a trial of `queue` for p99 and errors. In the middle of the trial, the queue pauses for `pause_s`.
fn shares(queue: &Queue, random: &mut Random, rate_per_s: f64, limit_s: f64, pause_s: f64) -> Vec<Seen> {
    let times_s = queue.responses_s(random, rate_per_s, WARMUP_S, TRIAL_S, pause_s);
    let over = times_s.iter().filter(|time_s| **time_s > limit_s).count() as u64;
    let of = times_s.len() as u64;
    vec![Seen::Share { over, of, allowed: 0.01 }, Seen::Share { over: 0, of, allowed: 0.001 }]
}

/// The results of 200 searches, compared with the true capacity.
struct Record {
    truth: f64,
    answers: Vec<Found>,
}

impl Record {
    fn of(truth: f64, mut one: impl FnMut(&mut Random) -> Found) -> Self {
        let answers = (0..200).map(|seed| one(&mut Random(seed))).collect();
        Self { truth, answers }
    }

    #[track_caller]
    fn check(&self, bias_share: f64, precise_share: f64) {
        let all = self.answers.len() as f64;
        let share = |holds: &dyn Fn(&Found) -> bool| {
            self.answers.iter().filter(|found| holds(found)).count() as f64 / all
        };
        let capacity = |found: &Found| found.capacity_per_s.expect("a capacity");
        let covered = share(&|found| {
            let [low, high] = found.interval_per_s.expect("an interval");
            low <= self.truth && self.truth <= high
        });
        let within = share(&|found| (capacity(found) / self.truth - 1.0).abs() <= 0.1);
        let precise = share(&|found| found.stopped == Stopped::Precise);
        let mean = self.answers.iter().map(capacity).sum::<f64>() / all;
        let trials = self.answers.iter().map(|found| f64::from(found.trials)).sum::<f64>() / all;
        let said = format!(
            "truth {:.0}, mean {mean:.0}, covered {covered}, within 10 % {within}, precise {precise}, {trials} trials",
            self.truth
        );
        assert!((mean / self.truth - 1.0).abs() <= bias_share, "biased: {said}");
        assert!(covered >= 0.8 && within >= 0.9 && precise >= precise_share, "{said}");
    }
}

#[test]
fn the_capacity_of_single_queues_is_found_and_covered() {
    let queue = Queue::exponential(0.001, 1);
    Record::of(1_000.0 - 100.0_f64.ln() / 0.02, |random| {
        search(&asked(p99(20_000_000)), |_, rate| Ok(shares(&queue, random, rate, 0.02, 0.0)))
    })
    .check(0.03, 0.8);
}

#[test]
fn undetected_pauses_of_the_host_do_not_decide() {
    let queue = Queue::exponential(0.001, 1);
    Record::of(1_000.0 - 100.0_f64.ln() / 0.02, |random| {
        search(&asked(p99(20_000_000)), |_, rate| {
            // In a trial of two seconds, such a pause affects at least a tenth of the requests.
            let pause_s = if random.unit() < 0.08 { 0.1 + 0.2 * random.unit() } else { 0.0 };
            Ok(shares(&queue, random, rate, 0.02, pause_s))
        })
    })
    .check(0.05, 0.5);
}

#[test]
fn one_wrong_trial_changes_little_at_any_position() {
    let queue = Queue::exponential(0.001, 1);
    let truth = 1_000.0 - 100.0_f64.ln() / 0.02;
    let mut off = Vec::new();
    for garbage in 1..=12 {
        for share in [0.0, 0.2, 1.0] {
            let mut random = Random(garbage.into());
            let found = search(&asked(p99(20_000_000)), |number, rate| {
                let mut seen = shares(&queue, &mut random, rate, 0.02, 0.0);
                if let (true, Seen::Share { over, of, .. }) = (number == garbage, &mut seen[0]) {
                    *over = (*of as f64 * share) as u64;
                }
                Ok(seen)
            });
            let by = found.capacity_per_s.unwrap() / truth - 1.0;
            assert!(by.abs() < 0.2, "trial {garbage}, share {share}: {found:?}");
            off.push(by);
        }
    }
    let mean = off.iter().sum::<f64>() / off.len() as f64;
    let within = off.iter().filter(|by| by.abs() <= 0.1).count();
    assert!(mean.abs() < 0.03 && within * 10 >= off.len() * 9, "off by {mean} in the mean: {off:?}");
}

#[test]
fn a_search_for_a_mean_works_like_one_for_a_quantile() {
    let queue = Queue::exponential(0.001, 1);
    let objective = Objective {
        latency_ns: [("mean".to_owned(), 5_000_000)].into(),
        errors: None,
        ..Objective::default()
    };
    // The mean response of M/M/1 is 1 / (service rate - arrival rate).
    Record::of(1_000.0 - 200.0, |random| {
        search(&asked(objective.clone()), |_, rate| {
            let times_s = queue.responses_s(random, rate, WARMUP_S, TRIAL_S, 0.0);
            let n = times_s.len() as f64;
            let mean_s = times_s.iter().sum::<f64>() / n;
            Ok(vec![Seen::Mean { ratio: mean_s / 0.005, standard_error: mean_s / n.sqrt() / 0.005 }])
        })
    })
    .check(0.03, 0.9);
}

#[test]
fn a_step_is_found_from_any_first_rate() {
    for first_per_s in [10.0, 100.0, 999.0, 1_001.0, 50_000.0] {
        let asked = Asked { first_per_s, ..asked(p99(20_000_000)) };
        let found = search(&asked, |_, rate| {
            let of = (rate * TRIAL_S) as u64;
            let over = if rate > 1_000.0 { of / 2 } else { 0 };
            Ok(vec![Seen::Share { over, of, allowed: 0.01 }, Seen::Share { over: 0, of, allowed: 0.001 }])
        });
        let [low, high] = found.interval_per_s.unwrap();
        assert!(low <= 1_000.0 && 1_000.0 <= high, "from {first_per_s}: {found:?}");
        assert_eq!((found.stopped, found.limited_by.as_deref()), (Stopped::Precise, Some("p99")));
    }
}

#[test]
fn errors_can_be_the_first_missed_bound() {
    let found = search(&asked(p99(20_000_000)), |_, rate| {
        let of = (rate * TRIAL_S) as u64;
        let over = if rate > 700.0 { of / 20 } else { 0 };
        Ok(vec![Seen::Share { over: 0, of, allowed: 0.01 }, Seen::Share { over, of, allowed: 0.001 }])
    });
    let capacity = found.capacity_per_s.unwrap();
    assert!(
        (capacity / 700.0 - 1.0).abs() < 0.1 && found.limited_by.as_deref() == Some("errors"),
        "{found:?}"
    );
}

/// The result of a trial in which `percent` of the requests are late, whatever its rate is.
fn always(percent: u64) -> Result<Vec<Seen>, InvalidBecause> {
    let share = |over| Seen::Share { over, of: 1_000, allowed: 0.01 };
    Ok(vec![share(percent * 10), share(0)])
}

#[test]
fn a_search_stops_at_the_limits_of_the_rig() {
    for (invalid, stopped) in [
        (InvalidBecause::Generator, Stopped::GeneratorLimited),
        (InvalidBecause::Upstream, Stopped::UpstreamLimited),
    ] {
        let found =
            search(&asked(p99(20_000_000)), |_, rate| if rate > 5_000.0 { Err(invalid) } else { always(0) });
        let least = found.at_least_per_s.unwrap();
        assert_eq!((found.stopped, found.capacity_per_s), (stopped, None));
        assert!((4_000.0..=5_000.0).contains(&least), "{found:?}");
        assert!(found.invalid >= 2 && found.trials < 20, "{found:?}");
    }
}

#[test]
fn an_objective_that_is_never_met_ends_at_the_lowest_rate() {
    let found = search(&asked(p99(20_000_000)), |_, _| always(50));
    assert_eq!(
        (found.stopped, found.below_per_s, found.capacity_per_s),
        (Stopped::NeverMet, Some(10.0), None)
    );
}

#[test]
fn undecided_trials_end_a_search() {
    let found = search(&asked(p99(20_000_000)), |_, _| Err(InvalidBecause::Otherwise));
    assert_eq!((found.stopped, found.invalid, found.trials), (Stopped::InvalidTrials, found.trials, 21));
    let endless = search(&asked(p99(20_000_000)), |_, _| always(0));
    assert_eq!((endless.stopped, endless.trials, endless.below_per_s), (Stopped::MostTrials, 60, None));
    assert!(endless.at_least_per_s.is_some());
}

#[test]
fn an_invalid_trial_is_repeated_and_is_no_evidence() {
    let queue = Queue::exponential(0.001, 1);
    let mut random = Random(7);
    let found = search(&asked(p99(20_000_000)), |number, rate| match number % 4 {
        0 => Err(InvalidBecause::Otherwise),
        _ => Ok(shares(&queue, &mut random, rate, 0.02, 0.0)),
    });
    assert!((found.capacity_per_s.unwrap() / 769.7 - 1.0).abs() < 0.1, "{found:?}");
    assert_eq!(found.invalid, found.trials / 4);
}

/// A record of 50,000 requests, one of them without a response.
#[test]
fn bounds_come_from_request_counts_and_histogram() {
    let mut record = tail(1_000_000).record;
    let mut latency = weir_results::new_histogram();
    latency.record_n(1_000_000, 49_899).unwrap();
    latency.record_n(30_000_000, 100).unwrap();
    record.latency = weir_results::Histogram::encode(&latency);
    record.result.requests.completed -= 1;
    record.result.requests.timed_out = 1;
    let objective = Objective {
        latency_ns: [("p99".to_owned(), 20_000_000), ("mean".to_owned(), 2_000_000)].into(),
        errors: Some(0.001),
        ..Objective::default()
    };
    let seen: Vec<Seen> =
        Bound::all(&objective).iter().map(|bound| bound.seen(&record, 1_000_000_000).unwrap()).collect();
    assert!(
        matches!(seen[0], Seen::Mean { ratio, .. } if (ratio - (1.1 * 49_999.0 + 1_000.0) / 50_000.0 / 2.0).abs() < 1e-9),
        "{seen:?}"
    );
    assert!(matches!(seen[1], Seen::Share { over: 101, of: 50_000, .. }), "{seen:?}");
    assert!(matches!(seen[2], Seen::Share { over: 1, of: 50_000, .. }), "{seen:?}");
}

pub(crate) fn found(capacity_per_s: f64) -> Found {
    Found {
        objective: p99(20_000_000),
        capacity_per_s: Some(capacity_per_s),
        interval_per_s: Some([capacity_per_s * 0.96, capacity_per_s * 1.04]),
        at_least_per_s: None,
        below_per_s: None,
        limited_by: Some("p99".into()),
        trials: 2,
        invalid: 0,
        stopped: Stopped::Precise,
    }
}

/// A cell with a search of two trials; the last trial holds the result of the search.
pub(crate) fn searched(gateway: &str, repeat: u32, found: Found) -> Cell {
    let mut cell = cell(gateway, repeat, vec![tail(1_000_000), tail(1_000_000)]);
    let CellOutcome::Measured { measurements } = &mut cell.outcome else { unreachable!() };
    for (place, measurement) in measurements.iter_mut().enumerate() {
        measurement.load = "capacity".into();
        let number = place as u32 + 1;
        let found = (place == 1).then(|| found.clone());
        measurement.trial = Some(Trial { number, says: TrialSays::Met, why: String::new(), found });
    }
    cell
}

#[test]
fn capacities_are_compared_over_repeats_and_trials_are_no_load_points() {
    let mut cells = Vec::new();
    for (repeat, (weir, nginx, direct)) in
        [(800.0, 600.0, 900.0), (808.0, 606.0, 909.0), (792.0, 594.0, 891.0)].into_iter().enumerate()
    {
        let repeat = repeat as u32;
        cells.push(searched("nginx", repeat, found(nginx)));
        cells.push(searched(DIRECT, repeat, found(direct)));
        cells.push(searched("weir", repeat, found(weir)));
    }
    let summary = summarize(&plan(run(&["weir", "nginx"], None), &cells), &cells);
    assert_eq!((summary.points.len(), summary.capacities.len()), (0, 1));
    assert_eq!(summary.problems(), [] as [String; 0]);
    let capacity = &summary.capacities[0];
    let names: Vec<&str> = capacity.rows.iter().map(|row| row.gateway.as_str()).collect();
    assert_eq!(names, ["weir", "nginx", DIRECT]);
    let weir = &capacity.rows[0];
    assert!(weir.per_s.headline && !capacity.rows[2].per_s.headline);
    assert_eq!((weir.trials(), weir.stopped()), (6, vec![(Stopped::Precise, 3)]));
    assert_eq!(
        capacity.conclusions,
        [
            "Capacity at p99 at most 20.0 ms and errors at most 0.100 %: weir 800/s [780 .. 820], nginx 600/s [585 .. 615].",
            "weir had the highest capacity: 800/s [780 .. 820]. Relative to weir: nginx 75.0 %; its \
            interval does not overlap with weir's.",
        ]
    );
}

#[test]
fn a_limit_of_the_rig_is_not_a_capacity() {
    let limited = |at_least_per_s| Found {
        capacity_per_s: None,
        interval_per_s: None,
        at_least_per_s: Some(at_least_per_s),
        stopped: Stopped::GeneratorLimited,
        ..found(1.0)
    };
    let mut cells: Vec<Cell> =
        (0..3).map(|repeat| searched("weir", repeat, limited(5_000.0 + f64::from(repeat)))).collect();
    for cell in &mut cells {
        let CellOutcome::Measured { measurements } = &mut cell.outcome else { unreachable!() };
        measurements[0].judgement.verdicts.latency = vec![Reason::GeneratorLimited];
        measurements[0].judgement.bounds = None;
    }
    let summary = summarize(&plan(run(&["weir"], None), &cells), &cells);
    let row = &summary.capacities[0].rows[0];
    assert_eq!((row.per_s.valid, row.at_least_per_s()), (0, Some(5_000.0)));
    assert_eq!(
        summary.capacities[0].conclusions,
        ["The capacity of weir is at least 5,000/s in every repeat: the load generator is saturated."]
    );
    assert_eq!(
        summary.problems(),
        ["capacity (p99 at most 20.0 ms and errors at most 0.100 %): weir: the capacity has no headline: \
            the load generator is saturated in 3 of 3 repeats"]
    );
}

#[test]
fn lateness_that_cannot_change_the_result_invalidates_no_trial() {
    let limited = Judgement {
        bound_by: BoundBy::Generator,
        verdicts: Verdicts { latency: vec![Reason::GeneratorLimited], ..Verdicts::default() },
        bounds: None,
        delayed_share: None,
        evidence: vec!["late".into()],
    };
    let check = |limit_ns, lateness_p99_ns, unsent, expected| {
        let mut record = record(ArrivalModel::Open, 1_000, 400_000);
        record.result.lateness_ns = Some(TimesNs { p99: Some(lateness_p99_ns), ..TimesNs::default() });
        record.result.requests.sent -= unsent;
        let bounds = Bound::all(&p99(limit_ns));
        let says = TrialSeen::of(&bounds, 1_000.0, &record, &limited, 1_000_000_000, false).says();
        assert_eq!(says == TrialSays::Invalid, expected, "{limit_ns} {lateness_p99_ns} {unsent}");
    };
    check(20_000_000, 600_000, 0, false);
    check(20_000_000, 2_000_000, 0, false);
    check(20_000_000, 2_000_001, 0, true);
    check(5_000_000, 600_000, 0, true);
    check(20_000_000, 600_000, 1, true);
}
