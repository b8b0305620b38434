//! Capacity searches in every format: their section, and their trials in the table of cells and on the pages of
//! cells.

use weir_analysis::summarize;
use weir_results::{Cell, CellOutcome, Found, Objective, Run, Stopped, Trial, TrialSays};

use crate::fixture::{Scene, run};

/// The run of the fixture with a search in each cell. The search for nginx ends because the load generator is
/// limited.
fn searched() -> (Run, Vec<Cell>) {
    let (run, mut cells) = run(Scene::Good, &[0.5]);
    for cell in &mut cells {
        let (gateway, repeat) = (cell.key.gateway.clone(), cell.key.repeat);
        let CellOutcome::Measured { measurements } = &mut cell.outcome else { continue };
        let tail = measurements[1].clone();
        for number in 1..=2 {
            let found = (number == 2).then(|| found(&gateway, repeat));
            let says = if number == 1 { TrialSays::Met } else { TrialSays::CannotTell };
            let why = "12 of 1,540 requests took longer than 20.0 ms (0.779 %, limit 1.00 %)".into();
            let trial = Some(Trial { number, says, why, found });
            measurements.push(weir_results::Measurement { load: "capacity".into(), trial, ..tail.clone() });
        }
    }
    (run, cells)
}

fn found(gateway: &str, repeat: u32) -> Found {
    let capacity = gateway.len() as f64 * 1_000.0 + f64::from(repeat) * 20.0;
    let is_limited = gateway == "nginx";
    Found {
        objective: Objective {
            latency_ns: [("p99".to_owned(), 20_000_000)].into(),
            errors: Some(0.001),
            ..Objective::default()
        },
        capacity_per_s: (!is_limited).then_some(capacity),
        interval_per_s: (!is_limited).then_some([capacity * 0.96, capacity * 1.05]),
        at_least_per_s: is_limited.then_some(20_000.0),
        below_per_s: None,
        limited_by: (!is_limited).then(|| "p99".to_owned()),
        trials: 2,
        invalid: u32::from(is_limited),
        stopped: if is_limited { Stopped::GeneratorLimited } else { Stopped::Precise },
    }
}

#[test]
fn a_search_as_markdown() {
    let (run, cells) = searched();
    let text = weir_report::markdown(&run, &cells, &summarize(&run, &cells));
    let (start, end) = (text.find("## Capacity").expect("a section"), text.find("## full").expect("a load"));
    insta::assert_snapshot!(text[start..end].trim_end());
}

#[test]
fn a_run_with_only_searches_has_a_complete_report() {
    let (run, mut cells) = searched();
    for cell in &mut cells {
        let CellOutcome::Measured { measurements } = &mut cell.outcome else { continue };
        measurements.retain(|measurement| measurement.trial.is_some());
    }
    let summary = summarize(&run, &cells);
    assert!(summary.points.is_empty());
    let terminal = weir_report::terminal(&run, &cells, &summary, 80, false);
    assert!(
        terminal.contains("Capacity: capacity (p99 at most 20.0 ms")
            && terminal.contains("At least")
            && terminal.contains("20,000/s")
    );
    assert!(terminal.contains("3 valid, 0 bounded, 1 invalid main results"), "{terminal}");
    let folder = tempfile::tempdir().expect("a folder");
    weir_report::write(&run, &cells, &summary, folder.path()).expect("a report");
    let page = std::fs::read_to_string(folder.path().join("report.html")).expect("a page");
    assert!(page.contains("id=\"capacity\""));
    let cell = std::fs::read_to_string(folder.path().join("cells/001-weir-1.html")).expect("a page");
    assert!(cell.contains("Trials of the search capacity") && cell.contains(">undecided<"), "{cell}");
}
