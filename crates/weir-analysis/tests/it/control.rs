//! Tests the positive control: one gateway measured again, with known changes. Checks in synthetic runs when the
//! changes are detected, and that the control is not listed as a gateway.

use weir_analysis::compare::Dataset;
use weir_analysis::findings::{Finding, Value};
use weir_analysis::summarize;
use weir_results::{Burned, CONTROL, Cell, CellOutcome, Event, Run};

use crate::runs::{cell, failed, full, plan, run, tail};

const P50_NS: u64 = 1_000_000;
const DELAY_NS: u64 = 100_000;

/// One repeat. Throughput, CPU time per request and p50 are higher by the share `jitter` in even repeats, and lower in
/// odd ones. The control uses 10 % more CPU time, and its p50 is [`DELAY_NS`] higher.
fn repeat(gateway: &str, number: u32, jitter: f64) -> Cell {
    let is_control = gateway == CONTROL;
    let sign = if number.is_multiple_of(2) { 1.0 } else { -1.0 };
    let at = |value: f64| value * (1.0 + sign * jitter);
    let slower = if is_control { 1.1 } else { 1.0 };
    let p50_ns = P50_NS + if is_control { DELAY_NS } else { 0 };
    let (rate_per_s, p50_ns) = (at(20_000.0) / slower, at(p50_ns as f64));
    let mut cell = cell(gateway, number, vec![full(rate_per_s as u64), tail(p50_ns as u64)]);
    let CellOutcome::Measured { measurements } = &mut cell.outcome else { panic!("it was measured") };
    for measurement in measurements.iter_mut() {
        measurement.cpu_us_per_request = Some(at(50.0) * slower);
    }
    let details = serde_json::to_value(Burned { used_ns: 1_000, burned_ns: 100 }).expect("plain values");
    for measurement in measurements.iter_mut().filter(|_| is_control) {
        let (kind, details) = (Burned::KIND.into(), details.clone());
        measurement.events = vec![Event { t_s: 0.0, sustained: false, kind, details }];
    }
    measurements[1].counters.origin_delay_ns_mean = is_control.then_some(DELAY_NS);
    cell
}

fn with_control(cells: &[Cell]) -> Run {
    let mut run = plan(run(&["weir"], None), cells);
    run.scenario["control"] = serde_json::json!({ "share": "10%", "gateway": "weir" });
    run
}

fn cells(repeats: u32, jitter: impl Fn(u32) -> f64) -> Vec<Cell> {
    let both =
        |number| [repeat("weir", number, jitter(number)), repeat(CONTROL, number, 0.7 * jitter(number))];
    (0..repeats).flat_map(both).collect()
}

fn finding(cells: &[Cell]) -> Finding {
    let summary = summarize(&with_control(cells), cells);
    summary.findings.into_iter().find(|finding| finding.key == "control").expect("there is a control")
}

fn texts(finding: &Finding) -> Vec<Vec<String>> {
    let text = |value: &Value| match value {
        Value::Text { text } => text.clone(),
        _ => String::new(),
    };
    finding.tables[0].rows.iter().map(|row| row.values.iter().map(text).collect()).collect()
}

#[test]
fn a_quiet_run_detects_the_added_cpu_time() {
    let finding = finding(&cells(8, |number| 0.001 * f64::from(number + 1)));
    let rows = texts(&finding);
    let found: Vec<[&str; 3]> =
        rows.iter().map(|row| [row[1].as_str(), row[2].as_str(), row[4].as_str()]).collect();
    assert_eq!(
        found,
        [
            ["throughput", "-9.09 %", "detected"],
            ["CPU per request", "+10.0 %", "detected"],
            ["CPU per request", "+10.0 %", "detected"],
            ["p50 latency", "+10.0 % (+100 µs)", "detected"],
            ["p99 latency", found[4][1], found[4][2]],
        ]
    );
    assert!(
        finding.sentences[1]
            .starts_with("weir, full: the added +10.0 % CPU per request is detected: measured +"),
        "{:?}",
        finding.sentences
    );
}

#[test]
fn a_noisy_run_does_not_detect_it_and_gives_the_reason() {
    let finding = finding(&cells(8, |number| 0.12 * f64::from(number % 3 + 1)));
    assert!(texts(&finding).iter().all(|row| row[4] == "not detected" && !row[6].is_empty()), "{finding:?}");
}

#[test]
fn few_repeats_detect_nothing() {
    let finding = finding(&cells(3, |number| 0.001 * f64::from(number + 1)));
    assert!(texts(&finding).iter().all(|row| row[4] == "not detected"), "{finding:?}");
    assert!(finding.sentences[0].contains("needs 6 valid repeats"), "{:?}", finding.sentences);
}

#[test]
fn a_control_is_no_gateway_of_the_run() {
    let cells = cells(3, |_| 0.001);
    let run = with_control(&cells);
    let summary = summarize(&run, &cells);
    let names: Vec<&str> = summary.gateways.iter().map(|gateway| gateway.name.as_str()).collect();
    assert_eq!((names, summary.cells_planned, summary.cells_measured), (vec!["weir"], 3, 3));
    assert!(summary.points.iter().all(|point| point.rows.iter().all(|row| row.gateway == "weir")));
    let compared = |gateway| Dataset::of_run(&run, &cells, gateway).unwrap().series.len();
    assert_eq!((compared(None), compared(Some(CONTROL))), (2, 2), "it is compared by name only");

    let mut plain = run.clone();
    plain.scenario = serde_json::json!({ "gateways": ["weir", "control"] });
    assert_eq!(summarize(&plain, &cells).gateways.len(), 2, "a gateway of that name in an older run");
}

#[test]
fn a_failed_control_is_reported() {
    let cells = [repeat("weir", 0, 0.0), failed(CONTROL, 0)];
    let finding = finding(&cells);
    assert!(finding.sentences[0].starts_with("The positive control failed."), "{:?}", finding.sentences);
    let summary = summarize(&with_control(&cells), &cells);
    assert!(summary.problems().is_empty(), "{:?}", summary.problems());
}
