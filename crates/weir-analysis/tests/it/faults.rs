//! Faults of the upstream and of services in synthetic runs: errors before and after each fault, and how long the
//! errors last.

use weir_analysis::findings::{FaultStage, Faults};
use weir_analysis::summarize;
use weir_results::ArrivalModel::Open;
use weir_results::{
    Bounds, Cell, CellOutcome, Event, FailedRegistration, FaultAction, FaultEvent, FaultTarget, Histogram,
    LoadRecord, LoadSecond, Reason, new_histogram,
};

use crate::records::{quiet, record, usage};
use crate::runs::{Load, cell, plan, run, tail};

/// The last second of the record: the drain, in which no requests are sent.
const DRAIN: u32 = 12;

/// A load at 100/s: two seconds of warm-up, a sustained phase of ten seconds, and one second of drain. Each entry of
/// `wrong` is a second, with its numbers of unexpected responses and lost requests.
fn seconds(wrong: &[(u32, u64, u64)]) -> LoadRecord {
    let mut of = record(Open, 100, 1_000_000);
    of.seconds = (0..=DRAIN)
        .map(|second| {
            let (unexpected, lost) =
                wrong.iter().find(|(at, ..)| *at == second).map_or((0, 0), |(_, a, b)| (*a, *b));
            let mut latency = new_histogram();
            let sent = if second < DRAIN { 100 } else { 0 };
            let completed = sent - lost.min(sent);
            latency.record_n(1_000_000, completed).expect("within its bounds");
            LoadSecond {
                t_s: f64::from(second),
                length_s: 1.0,
                sustained: (2..DRAIN).contains(&second),
                sent,
                completed,
                unexpected,
                lost,
                latency: Histogram::encode(&latency),
            }
        })
        .collect();
    of
}

/// A cell in which the second upstream server is killed at 4.5 s and returns at 8.2 s, on the clock of the record.
pub(crate) fn faulted(gateway: &str, repeat: u32, wrong: &[(u32, u64, u64)]) -> Cell {
    let mut record = seconds(wrong);
    let (unexpected, lost) = wrong.iter().fold((0, 0), |(a, b), (_, more, most)| (a + more, b + most));
    let requests = &mut record.result.requests;
    (requests.unexpected, requests.failed, requests.completed) =
        (unexpected, lost, requests.completed - lost);
    let load = Load { name: "steady", record, data: usage(0.5), host: quiet() };
    let mut cell = cell(gateway, repeat, vec![load]);
    let CellOutcome::Measured { measurements } = &mut cell.outcome else { panic!("it was measured") };
    let fault = |t_s, action| FaultEvent {
        t_s,
        sustained: true,
        target: FaultTarget::Replica(2),
        action,
        took_ns: 1_000,
    };
    measurements[0].faults = vec![fault(4.5, FaultAction::Kill), fault(8.2, FaultAction::Return)];
    cell
}

fn faults(cells: &[Cell]) -> (Option<Faults>, Vec<String>) {
    let summary = summarize(&plan(run(&["weir"], None), cells), cells);
    (summary.former.faults.clone(), summary.problems().into_iter().map(str::to_owned).collect())
}

fn counts(stage: &FaultStage) -> (u64, u64, u64, Option<f64>) {
    let wrong_for_s = stage.wrong_for_s.map(|s| (s * 1e3).round() / 1e3);
    (stage.sent, stage.unexpected, stage.lost, wrong_for_s)
}

#[test]
fn errors_are_counted_from_each_fault_to_the_next() {
    let cells = [
        faulted("weir", 0, &[(4, 10, 5), (5, 0, 40)]),
        faulted("weir", 1, &[(4, 1, 0), (8, 2, 0)]),
        faulted("weir", 2, &[]),
    ];
    let (found, problems) = faults(&cells);
    let found = found.unwrap();
    let [course] = found.courses.as_slice() else { panic!("{found:?}") };
    assert_eq!((course.gateway.as_str(), course.load.as_str()), ("weir", "steady"));
    let [before, killed, returned] = course.stages.as_slice() else { panic!("{course:?}") };
    assert_eq!((before.words().as_str(), &before.fault), ("before the first fault", &None));
    assert_eq!(
        (killed.words().as_str(), returned.words().as_str()),
        ("replica 2 killed", "replica 2 returned")
    );
    // A stage starts at the beginning of the second in which its fault occurs.
    assert_eq!(counts(before), (600, 0, 0, Some(0.0)));
    assert_eq!(counts(killed), (1_200, 11, 45, Some(1.5)));
    assert_eq!(counts(returned), (1_200, 2, 0, Some(0.8)));
    assert!((killed.fault.as_ref().unwrap().at_s - 2.5).abs() < 1e-9);
    // A tenth of the requests of one repeat got no response, and such requests rank as the slowest.
    assert!(killed.p99_ns.beyond_timeout && !killed.p50_ns.beyond_timeout);
    assert!((before.p99_ns.mean.unwrap() / 1e6 - 1.0).abs() < 1e-3, "{:?}", before.p99_ns);
    assert_eq!(
        found.conclusions,
        [
            "weir: 58 of 3,000 requests of load `steady` failed. Before the first fault: 0 of 600; replica 2 killed: \
            56 of 1,200, last error after 1.5 s; replica 2 returned: 2 of 1,200, last error after 0.8 s."
        ]
    );
    // Errors that faults cause do not count as problems of the run.
    assert_eq!(problems, [""; 0]);
}

#[test]
fn errors_until_the_end_of_a_stage_are_marked() {
    let cells = [faulted("weir", 0, &[(5, 1, 0), (7, 1, 0)]), faulted("weir", 1, &[])];
    let found = faults(&cells).0.unwrap();
    assert_eq!(counts(&found.courses[0].stages[1]), (800, 2, 0, None));
    assert!(
        found.conclusions[0].contains("replica 2 killed: 2 of 800, with errors until the end of this stage"),
        "{found:?}"
    );
}

#[test]
fn requests_that_time_out_after_the_phase_count_for_its_last_stage() {
    let found = faults(&[faulted("weir", 0, &[(DRAIN, 0, 30)]), faulted("weir", 1, &[])]).0.unwrap();
    let returned = &found.courses[0].stages[2];
    assert_eq!(counts(returned), (800, 0, 30, None));
    assert!(returned.p99_ns.beyond_timeout, "requests without a response rank last");
    assert!(
        found.conclusions[0]
            .contains("replica 2 returned: 30 of 830, with errors until the end of this stage"),
        "{found:?}"
    );
}

#[test]
fn a_run_without_faults_has_no_finding() {
    assert_eq!(faults(&[cell("weir", 0, vec![tail(1_000_000)])]).0, None);
}

/// Adds host noise to the cell. The noise delays a share of the requests: `delayed`.
pub(crate) fn under_noise(mut cell: Cell, delayed: f64) -> Cell {
    let CellOutcome::Measured { measurements } = &mut cell.outcome else { panic!("it was measured") };
    let bounds = ["p50", "p99"].map(|name| {
        let (low, high, reasons) = (Some(0.5e6), Some(1e6), vec![Reason::HostNoise]);
        (name.to_owned(), Bounds { low, high, reasons, is_valid: false })
    });
    measurements[0].judgement.bounds = Some(bounds.into());
    measurements[0].judgement.delayed_share = Some(delayed);
    cell
}

#[test]
fn all_delayed_requests_can_lie_in_one_stage() {
    let noisy = |repeat| {
        let mut cell = faulted("weir", repeat, &[(5, 10, 0)]);
        let CellOutcome::Measured { measurements } = &mut cell.outcome else { panic!("it was measured") };
        for second in &mut measurements[0].record.seconds {
            // In every second, five of a hundred requests take five times as long.
            let mut latency = new_histogram();
            latency.record_n(1_000_000, 95).expect("within its bounds");
            latency.record_n(5_000_000, 5).expect("within its bounds");
            second.latency = Histogram::encode(&latency);
        }
        under_noise(cell, 0.02)
    };
    let (found, _) = faults(&[noisy(0), noisy(1), noisy(2)]);
    let killed = &found.expect("there were faults").courses[0].stages[1];
    // 2 % of all requests were delayed. If all of them were in this stage, they are 5 % of its requests. Without the
    // delay, p99 may then be as low as the measured p94, and p50 as low as the measured p47.5.
    assert_eq!((killed.p50_ns.valid, killed.error_share.valid), (3, 3));
    let [low, high] = [killed.p99_ns.bounds.low, killed.p99_ns.bounds.high].map(Option::unwrap);
    assert!((0.99e6..1.01e6).contains(&low) && (4.99e6..5.01e6).contains(&high), "{low} {high}");
}

/// The cell of [`faulted`] with NATS instead of a server of the upstream.
fn without_nats(gateway: &str, repeat: u32, wrong: &[(u32, u64, u64)]) -> Cell {
    let mut cell = faulted(gateway, repeat, wrong);
    let CellOutcome::Measured { measurements } = &mut cell.outcome else { panic!("it was measured") };
    for fault in &mut measurements[0].faults {
        fault.target = FaultTarget::Service("nats".into());
    }
    cell
}

#[test]
fn a_gateway_that_serves_without_its_service_is_a_finding() {
    let cells = [without_nats("weir", 0, &[]), without_nats("weir", 1, &[])];
    let (found, problems) = faults(&cells);
    let found = found.expect("there were faults");
    assert_eq!(
        found.conclusions,
        [
            "weir: 0 of 2,000 requests of load `steady` failed. Before the first fault: 0 of 400; nats killed: 0 of \
             800; nats returned: 0 of 800.",
            "weir kept serving while nats was down: 0 of 800 requests failed; p99 1.00 ms [1.00 .. 1.00] (1.00 ms \
             [1.00 .. 1.00] before); throughput 100/s [100 .. 100] (100/s [100 .. 100] before)."
        ]
    );
    assert_eq!(problems, [""; 0]);
}

#[test]
fn errors_during_a_stalled_service_are_compared_with_the_time_before() {
    let stalled = |repeat, wrong: &[(u32, u64, u64)]| {
        let mut cell = without_nats("weir", repeat, wrong);
        let CellOutcome::Measured { measurements } = &mut cell.outcome else { panic!("it was measured") };
        measurements[0].faults[0].action = FaultAction::Stall;
        let failed = FailedRegistration { why: "no response".into(), took_ns: 5 };
        let details = serde_json::to_value(failed).expect("it is plain");
        // The second registration fails at 9 s, after the service came back (8.2 s).
        let kind = FailedRegistration::KIND;
        measurements[0].events = [5.0, 9.0]
            .map(|t_s| Event { t_s, sustained: true, kind: kind.into(), details: details.clone() })
            .to_vec();
        cell
    };
    let (found, _) = faults(&[stalled(0, &[(3, 1, 0), (5, 10, 40)]), stalled(1, &[(6, 2, 0)])]);
    let sentence = &found.expect("there were faults").conclusions[1];
    assert!(
        sentence.starts_with(
            "weir: 52 of 800 requests failed while nats was stalled, 1 of 400 before; p99 > timeout (1.00 ms"
        ),
        "{sentence}"
    );
    assert!(sentence.contains("; throughput 95.0/s ["), "{sentence}");
    assert!(sentence.ends_with("before); 2 re-registrations failed."), "{sentence}");
}

#[test]
fn a_service_that_does_not_return_is_down_until_the_end() {
    let mut cell = without_nats("weir", 0, &[(9, 3, 0)]);
    let CellOutcome::Measured { measurements } = &mut cell.outcome else { panic!("it was measured") };
    measurements[0].faults[1].target = FaultTarget::Replica(1);
    let found = faults(&[cell]).0.expect("there were faults");
    assert!(
        found.conclusions[1]
            .starts_with("weir: 3 of 800 requests failed while nats was down, 0 of 200 before;")
    );
    assert_eq!(found.conclusions.len(), 2, "{found:?}");
}

#[test]
fn gateways_that_do_not_need_the_service_are_named() {
    let mut other = faulted("nginx", 0, &[]);
    let CellOutcome::Measured { measurements } = &mut other.outcome else { panic!("it was measured") };
    measurements[0].faults.clear();
    let cells = [without_nats("weir", 0, &[]), other];
    let summary = summarize(&plan(run(&["weir", "nginx"], None), &cells), &cells);
    let found = summary.former.faults.expect("there were faults");
    let last = found.conclusions.last().expect("it has sentences");
    assert_eq!(last, "nginx: not affected, because it does not use nats.");
    assert_eq!(found.courses.len(), 1);
}
