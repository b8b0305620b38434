//! Registrations of all routes during a load. Seconds with registrations are compared with the other seconds.

use weir_analysis::findings::{Finding, Value};
use weir_analysis::summarize;
use weir_results::ArrivalModel::Open;
use weir_results::{
    Cell, CellOutcome, Event, Histogram, LoadSecond, Registration, UsageSecond, new_histogram,
};

use crate::records::{quiet, record, usage};
use crate::runs::{Load, cell, plan, run};

/// Ten sustained seconds. In the seconds `busy` the gateway uses 0.4 cores instead of 0.2, and responds within 4 ms
/// instead of 1 ms. A registration begins at each time of `at` and takes 0.5 s.
fn registered(gateway: &str, repeat: u32, at: &[f64], busy: &[u32]) -> Cell {
    let mut of = record(Open, 100, 1_000_000);
    let second = |second: u32| {
        let mut latency = new_histogram();
        let ns = if busy.contains(&second) { 4_000_000 } else { 1_000_000 };
        latency.record_n(ns, 100).expect("within its bounds");
        LoadSecond {
            t_s: f64::from(second),
            length_s: 1.0,
            sustained: true,
            sent: 100,
            completed: 100,
            unexpected: 0,
            lost: 0,
            latency: Histogram::encode(&latency),
        }
    };
    of.seconds = (0..10).map(second).collect();
    let load = Load { name: "steady", record: of, data: usage(0.5), host: quiet() };
    let mut cell = cell(gateway, repeat, vec![load]);
    let CellOutcome::Measured { measurements } = &mut cell.outcome else { panic!("it was measured") };
    let details =
        serde_json::to_value(Registration { messages: 1_000, took_ns: 500_000_000 }).expect("plain values");
    let event = |t_s: &f64| Event {
        t_s: *t_s,
        sustained: true,
        kind: Registration::KIND.into(),
        details: details.clone(),
    };
    measurements[0].events = at.iter().map(event).collect();
    let sample = |second: u32| UsageSecond {
        t_s: f64::from(second),
        cpu_cores: [(gateway.to_owned(), if busy.contains(&second) { 0.4 } else { 0.2 })].into(),
        memory_bytes: [].into(),
    };
    measurements[0].series = (0..10).map(sample).collect();
    cell
}

fn found(cells: &[Cell]) -> Option<Finding> {
    let summary = summarize(&plan(run(&["weir"], None), cells), cells);
    summary.findings.into_iter().find(|finding| finding.key == "registrations")
}

#[test]
fn seconds_of_registrations_are_compared_with_the_others() {
    // Each registration covers the time from its start to one second after its end: 2.0 to 3.5 s and 6.0 to 7.5 s.
    let cells: Vec<Cell> =
        (0..3).map(|repeat| registered("weir", repeat, &[2.0, 6.0], &[2, 3, 6, 7])).collect();
    let finding = found(&cells).expect("routes were registered");
    let row = &finding.tables[0].rows[0];
    let mean = |place: usize| match &row.values[place] {
        Value::Figure { figure } => (figure.mean.unwrap() * 100.0).round() / 100.0,
        other => other.as_number().unwrap(),
    };
    assert_eq!((mean(1), mean(2), mean(3)), (6.0, 1_000.0, 5e8));
    assert_eq!((mean(4), mean(5), mean(6)), (0.4, 0.2, 2.0), "cores during, the rest, and their ratio");
    // The gateway uses 0.2 cores more for four seconds: 0.8 CPU seconds, or 0.4 per registration.
    assert_eq!(mean(7), 0.4, "CPU time of each");
    assert_eq!(mean(8), 1.0, "throughput is the same");
    assert!((mean(11) - 4.0).abs() < 0.02, "p99: {}", mean(11));
    assert_eq!(
        finding.sentences[0],
        "weir, steady: during 6 registrations of all routes (1,000 messages each), compared with the rest of the \
         phase: CPU 2.00 [2.00 .. 2.00] times, throughput 1.00 [1.00 .. 1.00] times, p99 4.00 [4.00 .. 4.00] times."
    );
}

#[test]
fn without_other_seconds_there_is_nothing_to_compare_with() {
    let always: Vec<f64> = (0..10).map(f64::from).collect();
    assert!(found(&[registered("weir", 0, &always, &[])]).is_none());
    assert!(found(&[registered("weir", 0, &[], &[])]).is_none());
}
