//! Objectives on errors are checked with the error counts of every repeat, including invalid repeats.

use std::collections::BTreeMap;

use weir_analysis::{Met, Outcome, ProblemKind, Summary, summarize};
use weir_results::{BoundBy, HostShare, Objective, Reason, Requests};

use crate::runs::{Load, cell, plan, run, tail};

/// Host noise that takes half of the host's CPU.
const DISTURBED: HostShare = HostShare { steal: 0.3, others: 0.2, idle: 0.1 };

fn objective(p99_ns: Option<u64>, errors: Option<f64>) -> Objective {
    let latency_ns = p99_ns.map(|limit_ns| ("p99".to_owned(), limit_ns));
    Objective { latency_ns: BTreeMap::from_iter(latency_ns), errors, ..Objective::default() }
}

/// Three repeats of an open load with request counts from `change`, on a host with or without noise.
fn repeats(host: HostShare, objective: Option<Objective>, change: fn(&mut Requests)) -> Summary {
    let load = || {
        let mut load: Load = tail(100_000);
        for books in [&mut load.record.result.requests, &mut load.record.whole] {
            change(books);
        }
        Load { host, ..load }
    };
    let cells: Vec<_> = (0..3).map(|repeat| cell("weir", repeat, vec![load()])).collect();
    summarize(&plan(run(&["weir"], objective), &cells), &cells)
}

/// One request in five gets the status 503.
fn a_fifth_of_503(books: &mut Requests) {
    books.unexpected = books.scheduled / 5;
}

/// One request in five gets no response.
fn a_fifth_timed_out(books: &mut Requests) {
    books.timed_out = books.scheduled / 5;
    books.completed -= books.timed_out;
}

fn results(summary: &Summary) -> Vec<(&str, Met)> {
    summary.points[0].rows[0].objective.iter().map(|result| (result.name.as_str(), result.met)).collect()
}

#[test]
fn a_fifth_of_503_misses_the_objective_under_host_noise() {
    let summary = repeats(DISTURBED, Some(objective(Some(20_000_000), Some(0.001))), a_fifth_of_503);
    let row = &summary.points[0].rows[0];
    assert_eq!(row.error_share.reasons(), [(Reason::Errors, 3)], "noise makes no errors");
    assert_eq!(results(&summary), [("p99", Met::Unknown), ("errors", Met::Missed)]);
    let words: Vec<&str> = row.objective.iter().map(|result| result.words.as_str()).collect();
    assert_eq!(
        words,
        [
            "p99 at most 20.0 ms: (250 µs), undecided: host-noise in 3 of 3 repeats, errors in 3 of 3 repeats",
            "errors at most 0.100 %: 20.0 % [20.0 .. 20.0], met in 0 of 3 repeats",
        ]
    );
    assert_eq!(summary.outcome, Outcome::Missed);
    let kinds: Vec<ProblemKind> = summary.problems_by_kind().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, [ProblemKind::Undecided, ProblemKind::Missed], "{:?}", summary.problems());
}

#[test]
fn all_views_of_the_problems_have_the_same_text() {
    let summary = repeats(DISTURBED, Some(objective(Some(20_000_000), Some(0.001))), a_fifth_of_503);
    let words = summary.problems();
    assert_eq!(words.len(), 2, "{words:?}");
    let of_kinds: Vec<&str> = summary.problems_by_kind().map(|(_, words)| words).collect();
    assert_eq!(of_kinds, words);
    let of_causes: Vec<String> =
        summary.problems_by_cause().into_iter().flat_map(|(_, words)| words).collect();
    assert_eq!(of_causes, words);
    assert_eq!(serde_json::to_value(&summary).unwrap()["problems"], serde_json::json!(words));
}

#[test]
fn errors_are_checked_with_every_reason() {
    // Stored verdicts may have any combination of reasons.
    let all = [
        Reason::GeneratorLimited,
        Reason::UpstreamLimited,
        Reason::HostNoise,
        Reason::Overloaded,
        Reason::Throttled,
        Reason::Errors,
        Reason::NotStationary,
        Reason::Noisy,
        Reason::Implausible,
        Reason::LimitNotApplied,
    ];
    for reason in all {
        let mut load = tail(100_000);
        a_fifth_of_503(&mut load.record.result.requests);
        let mut cells = vec![cell("weir", 0, vec![load])];
        let weir_results::CellOutcome::Measured { measurements } = &mut cells[0].outcome else {
            panic!("it was measured")
        };
        let verdicts = &mut measurements[0].judgement.verdicts;
        for reasons in [&mut verdicts.throughput, &mut verdicts.latency, &mut verdicts.cpu] {
            *reasons = vec![reason];
        }
        measurements[0].judgement.bound_by = BoundBy::Host;
        let with = |errors| {
            let run = plan(run(&["weir"], Some(objective(None, Some(errors)))), &cells);
            results(&summarize(&run, &cells))[0].1
        };
        assert_eq!((with(0.19), with(0.2)), (Met::Missed, Met::Met), "{reason:?}");
    }
}

#[test]
fn requests_without_a_response_are_undecided_under_host_noise() {
    let bound = || Some(objective(None, Some(0.001)));
    let summary = repeats(DISTURBED, bound(), a_fifth_timed_out);
    assert_eq!(results(&summary), [("errors", Met::Unknown)]);
    assert_eq!(
        summary.points[0].rows[0].objective[0].words,
        "errors at most 0.100 %: 20.0 % [20.0 .. 20.0], undecided: timed-out and dropped requests may not be \
         the gateway's fault: host-noise in 3 of 3 repeats"
    );
    assert_eq!(summary.outcome, Outcome::Undecided);
    // Without noise, the gateway is responsible.
    let quiet = HostShare { steal: 0.0, others: 0.0, idle: 0.5 };
    let summary = repeats(quiet, bound(), a_fifth_timed_out);
    assert_eq!((results(&summary), summary.outcome), (vec![("errors", Met::Missed)], Outcome::Missed));
    // The objective allows 20 % errors, so their cause does not matter.
    let summary = repeats(DISTURBED, Some(objective(None, Some(0.2))), a_fifth_timed_out);
    assert_eq!(results(&summary), [("errors", Met::Met)]);
}

#[test]
fn zero_errors_meet_the_objective_under_host_noise() {
    let summary = repeats(DISTURBED, Some(objective(None, Some(0.001))), |_| {});
    assert_eq!(results(&summary), [("errors", Met::Met)]);
    assert_eq!(summary.outcome, Outcome::Undecided, "the headline on latency is");
}

#[test]
fn counts_that_contradict_each_other_decide_nothing() {
    let summary = repeats(DISTURBED, Some(objective(None, Some(0.001))), |books| {
        a_fifth_of_503(books);
        books.scheduled += 1;
    });
    assert_eq!(results(&summary), [("errors", Met::Unknown)]);
    assert!(summary.points[0].rows[0].objective[0].words.contains("undecided"));
}

#[test]
fn errors_miss_an_objective_that_has_only_latency() {
    let latency = || Some(objective(Some(20_000_000), None));
    let summary = repeats(DISTURBED, latency(), a_fifth_of_503);
    assert_eq!(results(&summary), [("p99", Met::Unknown), ("errors", Met::Missed)]);
    assert_eq!(summary.outcome, Outcome::Missed);
    // If there are no errors, the default limit on errors is not shown. If there is no objective, nothing can be
    // missed.
    assert_eq!(results(&repeats(DISTURBED, latency(), |_| {})), [("p99", Met::Unknown)]);
    let summary = repeats(DISTURBED, None, a_fifth_of_503);
    assert_eq!((results(&summary), summary.outcome), (vec![], Outcome::Undecided));
}
