//! A burst of silent connections in synthetic runs.

use weir_analysis::findings::{Finding, Row, Value};
use weir_analysis::summarize;
use weir_results::{Cell, CellOutcome, Event};

use crate::faults::faulted;
use crate::runs::{plan, run};

/// A cell with a burst of 100 connections from 4.5 s to 7.5 s of the record's clock; `wrong` as in [`faulted`].
fn with_burst(gateway: &str, repeat: u32, wrong: &[(u32, u64, u64)]) -> Cell {
    let mut cell = faulted(gateway, repeat, wrong);
    let CellOutcome::Measured { measurements } = &mut cell.outcome else { panic!("it was measured") };
    measurements[0].faults.clear();
    let details = serde_json::json!({
        "connections": 100, "opened": 80, "refused": 15, "unanswered": 5, "closed_by_gateway": 20,
        "opened_after_ns": 40_000_000, "held_ns": 3_000_000_000_u64,
    });
    measurements[0].events =
        vec![Event { t_s: 4.5, sustained: true, kind: "silent-connections".into(), details }];
    cell
}

fn found(cells: &[Cell]) -> (Option<Finding>, Vec<String>) {
    let summary = summarize(&plan(run(&["weir"], None), cells), cells);
    let problems = summary.problems().into_iter().map(str::to_owned).collect();
    (summary.findings.into_iter().find(|finding| finding.key == "silent-connections"), problems)
}

fn value<'a>(finding: &'a Finding, row: &'a Row, key: &str) -> &'a Value {
    let columns = finding.tables[0].columns.iter();
    columns
        .zip(&row.values)
        .find(|(column, _)| column.key == key)
        .map(|(_, value)| value)
        .expect("a column of the table")
}

#[test]
fn a_burst_shows_its_connections_and_the_errors_of_the_load_around_it() {
    // Seconds 4 to 7 overlap the burst; 2 and 3 are before it, and 8 is after it.
    let wrong = [(3, 1, 0), (4, 10, 0), (7, 0, 30), (8, 7, 0)];
    let (finding, problems) = found(&[with_burst("weir", 0, &wrong), with_burst("weir", 1, &[])]);
    let finding = finding.unwrap();
    let [row] = finding.tables[0].rows.as_slice() else { panic!("{finding:?}") };
    let number = |key| value(&finding, row, key).as_number().unwrap();
    assert_eq!(
        ["connections", "refused", "unanswered", "closed"].map(number),
        [200.0, 30.0, 10.0, 40.0],
        "over both repeats"
    );
    assert_eq!(*value(&finding, row, "errors"), Value::Part { part: 40, of: 800 });
    assert_eq!(*value(&finding, row, "errors_before"), Value::Part { part: 1, of: 400 });
    assert!((number("opened_after") - 40e6).abs() < 1.0);
    assert_eq!(
        finding.sentences,
        [
            "weir: 160 of 200 silent connections were opened, and the gateway closed 40 of them; 5.00 % of the \
             requests failed during the burst, 0.250 % before."
        ]
    );
    assert!(
        !problems.iter().any(|problem| problem.contains("errors")),
        "a burst may cause them: {problems:?}"
    );
}

#[test]
fn a_run_without_a_burst_has_no_such_finding() {
    assert_eq!(found(&[faulted("weir", 0, &[])]).0, None);
}
