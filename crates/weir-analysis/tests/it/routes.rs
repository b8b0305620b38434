//! The cost of many routes compared with few.

use serde_json::json;
use weir_analysis::findings::{Finding, Value};
use weir_analysis::summarize;
use weir_results::{
    Cell, CellOutcome, Found, Measurement, Objective, Reason, Stopped, Trial, TrialSays, Usage,
};

use crate::records::usage;
use crate::runs::{Load, cell, excluded_as_before_0_2, plan, run, tail};

const MIB: u64 = 1 << 20;

/// A cell with `domains` domains. Peak memory is 10 MiB plus 1 KiB per further domain, and a request takes 100 µs of
/// CPU time. With several domains, CPU time is 10 % higher and capacity falls from 4,000/s to 3,000/s. Repeats differ
/// by 1 %.
fn at(domains: u64, repeat: u32, is_searched: bool) -> Cell {
    let noise = 1.0 + 0.01 * f64::from(repeat);
    let bytes = (10 * MIB + 1024 * (domains - 1)) as f64 * noise;
    let data = Usage { memory_bytes_peak: Some(bytes as u64), ..usage(0.5) };
    let mut cell = cell("weir", repeat, vec![Load { data, ..tail(1_000_000) }]);
    cell.key.axes = [("topology.domains".to_owned(), json!(domains))].into();
    let CellOutcome::Measured { measurements } = &mut cell.outcome else { panic!("it was measured") };
    let is_one = domains == 1;
    measurements[0].cpu_us_per_request = Some(if is_one { 100.0 } else { 110.0 } * noise);
    if is_searched {
        let found = Found {
            objective: Objective { latency_ns: [("p99".into(), 20_000_000)].into(), ..Objective::default() },
            capacity_per_s: Some(if is_one { 4_000.0 } else { 3_000.0 } * noise),
            interval_per_s: None,
            at_least_per_s: None,
            below_per_s: None,
            limited_by: Some("p99".into()),
            trials: 12,
            invalid: 0,
            stopped: Stopped::Precise,
        };
        let trial = Trial { number: 12, says: TrialSays::Met, why: String::new(), found: Some(found) };
        let mut last = measurements[0].clone();
        (last.load, last.trial) = ("capacity".into(), Some(trial));
        measurements.push(last);
    }
    cell
}

fn found(domains: &[u64], is_searched: bool) -> Option<Finding> {
    let at = |repeat| domains.iter().map(move |domains| at(*domains, repeat, is_searched));
    let cells: Vec<Cell> = (0..3).flat_map(at).collect();
    let summary = summarize(&plan(run(&["weir"], None), &cells), &cells);
    summary.findings.into_iter().find(|finding| finding.key == "routes")
}

fn mean(value: &Value) -> Option<f64> {
    value.as_number().map(|number| (number * 1e3).round() / 1e3)
}

#[test]
fn many_routes_are_compared_with_few() {
    let finding = found(&[1, 10_241], true).expect("two numbers of routes");
    let rows = &finding.tables[0].rows;
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0].axes["topology.domains"], json!(1));
    assert_eq!(mean(&rows[0].values[2]), None, "the base has no ratio");
    // 10,240 further domains take 10 MiB more.
    assert_eq!(mean(&rows[1].values[2]), Some(2.0));
    let per_route = mean(&rows[1].values[3]).expect("memory of each");
    assert!((per_route / 1024.0 - 1.01).abs() < 1e-3, "{per_route}");
    assert_eq!(mean(&rows[1].values[5]), Some(1.1), "CPU time per request");
    assert_eq!(mean(&rows[1].values[7]), Some(0.75), "capacity");
    assert_eq!(
        finding.sentences,
        [
            "weir, tail: with 10,241 domains, memory is 2.00 [2.00 .. 2.00] times, CPU time per request 1.10 [1.10 .. 1.10] \
             times and capacity 0.750 [0.750 .. 0.750] times the value with 1 domain. Memory is 20.2 MiB [19.7 .. 20.7], \
             1.01 KiB [1,009 B .. 1.04 KiB] per added domain."
        ]
    );
}

#[test]
fn the_base_is_listed_once_and_capacity_needs_a_search() {
    let finding = found(&[1, 11, 101], false).expect("three numbers of routes");
    let rows = &finding.tables[0].rows;
    let domains: Vec<_> = rows.iter().map(|row| row.axes["topology.domains"].as_u64().unwrap()).collect();
    assert_eq!(domains, [1, 11, 101]);
    assert!(rows.iter().all(|row| row.values[6] == Value::Missing));
    assert!(finding.sentences.iter().all(|sentence| !sentence.contains("capacity")));
    assert!(found(&[1], true).is_none(), "nothing to compare with");
}

#[test]
fn the_load_is_the_highest_valid_rate_or_else_the_lowest() {
    let load_of = |invalid: &[&str]| {
        let mut cells: Vec<Cell> = Vec::new();
        for (repeat, domains) in [(0, 1), (0, 11), (1, 1), (1, 11)] {
            let mut cell = at(domains, repeat, false);
            let CellOutcome::Measured { measurements } = &mut cell.outcome else { panic!("it was measured") };
            let tail = measurements.remove(0);
            for (load, rate_per_s) in [("low", 1_000.0), ("middle", 2_000.0), ("high", 3_000.0)] {
                let mut one = Measurement { load: load.into(), rate_per_s: Some(rate_per_s), ..tail.clone() };
                if invalid.contains(&load) {
                    excluded_as_before_0_2(&mut one.judgement, Reason::HostNoise);
                }
                measurements.push(one);
            }
            cells.push(cell);
        }
        let summary = summarize(&plan(run(&["weir"], None), &cells), &cells);
        let finding = summary.findings.into_iter().find(|finding| finding.key == "routes").unwrap();
        finding.tables[0].rows[1].load.clone()
    };
    assert_eq!(load_of(&[]), "high");
    assert_eq!(load_of(&["high"]), "middle");
    assert_eq!(load_of(&["low", "middle", "high"]), "low");
}
