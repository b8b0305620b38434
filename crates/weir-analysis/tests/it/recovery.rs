//! Recovery times of gateways after a fault, and their comparison.

use weir_analysis::compare::{Comparison, Dataset, Question, Verdict, compare};
use weir_analysis::findings::{Finding, Value};
use weir_analysis::summarize;
use weir_results::{Cell, CellOutcome, Histogram, new_histogram};

use crate::faults::{faulted, under_noise};
use crate::runs::{plan, run};

fn found(cells: &[Cell]) -> Finding {
    let summary = summarize(&plan(run(&["weir", "nginx"], None), cells), cells);
    summary.findings.into_iter().find(|finding| finding.key == "recovery").expect("there were faults")
}

/// How long a gateway took to recover from its only fault, in seconds: one value per repeat, `None` without recovery.
fn times(finding: &Finding, gateway: &str) -> Vec<Option<f64>> {
    let row = finding.tables[0].rows.iter().find(|row| row.gateway == gateway).expect("it had the fault");
    let Value::Figure { figure } = &row.values[2] else { panic!("{row:?}") };
    let round = |s: f64| (s * 1e3).round() / 1e3;
    figure.repeats.iter().map(|repeat| repeat.value().map(round)).collect()
}

#[test]
fn a_gateway_has_recovered_at_the_end_of_the_last_second_with_an_error() {
    // The server is killed at 4.5 s and returns at 8.2 s.
    let cells = [
        faulted("weir", 0, &[(4, 10, 5), (5, 0, 40)]),
        faulted("weir", 1, &[(4, 1, 0), (8, 2, 0)]),
        faulted("weir", 2, &[]),
        faulted("nginx", 0, &[(4, 1, 0), (12, 0, 1)]),
    ];
    let finding = found(&cells);
    assert_eq!(times(&finding, "weir"), [Some(1.5), Some(4.5), Some(0.0)]);
    assert_eq!(times(&finding, "nginx"), [None], "requests are lost to the end");
    assert_eq!(finding.sentences.len(), 2, "the return of a server is no fault to recover from");
    assert!(
        finding.sentences[0].starts_with("weir: replica 2 killed: recovered within 2.00 s"),
        "{finding:?}"
    );
    assert_eq!(finding.sentences[1], "nginx: replica 2 killed: not recovered in 1 of 1 repeat.");
}

/// A repeat with slow seconds. Each entry of `slow` is a second, its latency in nanoseconds, and its number of
/// responses.
fn with_slow(repeat: u32, slow: &[(usize, u64, u64)]) -> Cell {
    let mut cell = faulted("weir", repeat, &[]);
    let CellOutcome::Measured { measurements } = &mut cell.outcome else { panic!("it was measured") };
    for (second, ns, responses) in slow {
        let mut latency = new_histogram();
        latency.record_n(*ns, *responses).expect("within its bounds");
        let second = &mut measurements[0].record.seconds[*second];
        (second.latency, second.completed) = (Histogram::encode(&latency), *responses);
    }
    cell
}

#[test]
fn errors_until_the_last_second_are_no_recovery_in_spite_of_the_drain() {
    let finding = found(&[faulted("weir", 0, &[(5, 100, 0), (11, 100, 0)])]);
    assert_eq!(times(&finding, "weir"), [None], "the drain has no errors, since nothing is sent there");
}

#[test]
fn slow_seconds_count_but_not_those_of_the_drain_or_with_few_responses() {
    let drain = 12;
    let cells = [
        with_slow(0, &[(6, 5_000_000, 100)]),
        with_slow(1, &[(drain, 5_000_000, 100)]),
        with_slow(2, &[(6, 5_000_000, 10)]),
        with_slow(3, &[(11, 5_000_000, 100)]),
    ];
    assert_eq!(times(&found(&cells), "weir"), [Some(2.5), Some(0.0), Some(0.0), None]);
}

#[test]
fn a_second_that_is_slower_by_microseconds_is_normal() {
    let mut cell = faulted("weir", 0, &[(5, 1, 0)]);
    let CellOutcome::Measured { measurements } = &mut cell.outcome else { panic!("it was measured") };
    for (place, second) in measurements[0].record.seconds.iter_mut().enumerate() {
        let mut latency = new_histogram();
        latency.record_n(if place == 9 { 300_000 } else { 50_000 }, 100).expect("within its bounds");
        second.latency = Histogram::encode(&latency);
    }
    assert_eq!(times(&found(&[cell]), "weir"), [Some(1.5)], "six times as slow, by 0.25 ms");
}

/// Compares weir with nginx in six repeats. The functions `weir` and `nginx` take the number of a repeat, and return
/// its last second with errors. The server is killed at 4.5 s.
fn compared(weir: &dyn Fn(u32) -> u32, nginx: &dyn Fn(u32) -> u32) -> Comparison {
    compared_in(6, weir, nginx)
}

fn compared_in(repeats: u32, weir: &dyn Fn(u32) -> u32, nginx: &dyn Fn(u32) -> u32) -> Comparison {
    let of =
        |gateway: &str, last: &dyn Fn(u32) -> u32, repeat| faulted(gateway, repeat, &[(last(repeat), 1, 0)]);
    let cells: Vec<Cell> =
        (0..repeats).flat_map(|repeat| [of("weir", weir, repeat), of("nginx", nginx, repeat)]).collect();
    let run = plan(run(&["weir", "nginx"], None), &cells);
    let side = |gateway| Dataset::of_run(&run, &cells, Some(gateway)).expect("it is in the run");
    compare(&side("weir"), &side("nginx"), &Question::default()).expect("one run")
}

fn verdict(comparison: &Comparison) -> Option<Verdict> {
    let mut figures = comparison.points.iter().flat_map(|point| &point.figures);
    figures.find(|figure| figure.measure.name() == "recovery.time").expect("both had the fault").verdict
}

/// The last second with errors of a gateway that recovers late: after 2.5 s in repeat 0, and after 3.5 s in all others.
fn late(repeat: u32) -> u32 {
    if repeat == 0 { 6 } else { 7 }
}

#[test]
fn a_gateway_that_recovers_later_is_worse() {
    let comparison = compared(&|_| 4, &late);
    assert_eq!(verdict(&comparison), Some(Verdict::Worse), "{comparison:#?}");
    assert!(comparison.is_worse());
    let turned = compared(&late, &|_| 4);
    assert_eq!(verdict(&turned), Some(Verdict::Better));
}

#[test]
fn times_below_a_second_are_the_same() {
    // One gateway fails for half a second, the other does not fail.
    let comparison = compared(&|_| 4, &|_| 3);
    assert_eq!(verdict(&comparison), Some(Verdict::Same));
    assert!(!comparison.is_worse());
}

#[test]
fn a_difference_of_one_second_is_not_claimed() {
    // Recovery times have a resolution of one second, so the true difference may be close to zero.
    let second = |repeat| if repeat == 0 { 4 } else { 5 };
    assert_eq!(verdict(&compared(&|_| 4, &second)), Some(Verdict::Undecided));
    assert_eq!(verdict(&compared(&second, &|_| 4)), Some(Verdict::Undecided));
}

#[test]
fn a_gateway_that_never_recovers_is_worse() {
    let comparison = compared(&|_| 4, &|_| 12);
    assert_eq!(verdict(&comparison), Some(Verdict::Worse), "{comparison:#?}");
    assert!(comparison.is_worse());
    assert_eq!(comparison.failed, [""; 0], "it answers requests");
    assert!(comparison.not_reached.is_empty(), "the verdict covers it");
    assert!(!compared(&|_| 12, &|_| 4).is_worse());
}

#[test]
fn a_gateway_that_recovers_in_one_repeat_of_six_is_worse() {
    let hardly = |repeat| if repeat == 3 { 4 } else { 12 };
    let comparison = compared(&|_| 4, &hardly);
    assert_eq!(verdict(&comparison), Some(Verdict::Worse), "{comparison:#?}");
    let said = comparison.conclusions().join("\n");
    assert!(
        said.contains("recovery.time of nginx is worse: not recovered in 5 of 6 repeats (weir: 0 of 6)."),
        "{said}"
    );
    assert_eq!(verdict(&compared(&hardly, &|_| 4)), Some(Verdict::Better));
}

#[test]
fn a_gateway_that_recovers_in_no_repeat_fails_the_comparison_even_with_one_repeat() {
    let comparison = compared_in(1, &|_| 4, &|_| 12);
    assert_eq!(verdict(&comparison), Some(Verdict::Undecided), "one repeat is no statistics");
    let [words] = comparison.not_reached.as_slice() else { panic!("{comparison:#?}") };
    assert!(
        words.ends_with("recovery.time: not recovered in 1 of 1 repeat of nginx, but weir has 1 value"),
        "{words}"
    );
    assert!(comparison.is_worse() && comparison.headline().contains("no value in 1 metric"));
    assert!(!compared_in(1, &|_| 12, &|_| 4).is_worse());
}

#[test]
fn noise_that_keeps_the_median_keeps_the_recovery_time() {
    let recovered = |delayed| {
        let cell = under_noise(faulted("weir", 0, &[(5, 10, 0)]), delayed);
        let finding = found(&[cell]);
        let Value::Figure { figure } = &finding.tables[0].rows[0].values[2] else { panic!("{finding:?}") };
        (figure.valid, figure.is_bounded())
    };
    assert_eq!(recovered(0.05), (1, false));
    assert_eq!(recovered(1.0), (0, false), "a slow second may be the noise's, or a fast one be slow before");
}
