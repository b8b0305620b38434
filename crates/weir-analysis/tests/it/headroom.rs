//! Headroom of synthetic runs: curves, cost of routes, and cost of changes.

use serde_json::json;
use weir_analysis::headroom::{Curve, Headroom};
use weir_analysis::{Summary, summarize};
use weir_results::ArrivalModel::{Closed, Open};
use weir_results::{
    Cell, CellOutcome, Changed, Histogram, LoadSecond, Measurement, Objective, RouteChange, StepRecord,
    new_histogram,
};

use crate::records::{quiet, record, usage};
use crate::runs::{Load, cell, plan, run};

const RATES: [(u64, &str); 10] = [
    (500, "curve-500"),
    (1_500, "curve-1500"),
    (2_500, "curve-2500"),
    (3_500, "curve-3500"),
    (4_500, "curve-4500"),
    (5_500, "curve-5500"),
    (6_500, "curve-6500"),
    (7_500, "curve-7500"),
    (8_500, "curve-8500"),
    (9_500, "curve-9500"),
];

/// The capacity of the gateway.
const LIMIT_PER_S: f64 = 10_000.0;

fn measurements(cell: &mut Cell) -> &mut Vec<Measurement> {
    match &mut cell.outcome {
        CellOutcome::Measured { measurements } => measurements,
        CellOutcome::Failed { .. } => panic!("it was measured"),
    }
}

/// A cell with one open load per rate. A request takes `cpu_us` of CPU time. p50 rises with the rate: 0.2 ms + 3 s /
/// ([`LIMIT_PER_S`] - rate). p99 is 2.5 times p50.
fn climbing(gateway: &str, repeat: u32, paths: u64, cpu_us: f64) -> Cell {
    let noise = 1.0 + 0.01 * (f64::from(repeat) - 1.0);
    let load = |(rate_per_s, name): &(u64, &'static str)| {
        let p50_ns = (200_000.0 + 3e9 / (LIMIT_PER_S - *rate_per_s as f64)) * noise;
        let record = record(Open, *rate_per_s, p50_ns as u64);
        Load { name, record, data: usage(0.5), host: quiet() }
    };
    let mut cell = cell(gateway, repeat, RATES.iter().map(load).collect());
    cell.key.axes = [("topology.paths".to_owned(), json!(paths))].into();
    for (measurement, (rate_per_s, _)) in measurements(&mut cell).iter_mut().zip(RATES) {
        measurement.rate_per_s = Some(rate_per_s as f64);
        measurement.cpu_us_per_request = Some(cpu_us * noise);
    }
    cell
}

fn summary(cells: &[Cell]) -> Summary {
    let objective = Objective {
        latency_ns: [("p99".to_owned(), 1_000_000)].into(),
        errors: None,
        ..Objective::default()
    };
    let mut run = run(&["weir"], Some(objective));
    run.scenario["loads"] = json!({ "curve": { "model": "open", "rates": ["500/s", "1500/s"] } });
    summarize(&plan(run, cells), cells)
}

#[track_caller]
fn near(value: f64, expected: f64) {
    assert!((value / expected - 1.0).abs() < 1e-3, "{value} is not {expected}");
}

fn only(headroom: &Headroom) -> &Curve {
    let [curve] = headroom.curves.as_slice() else { panic!("one curve: {:?}", headroom.curves) };
    curve
}

#[test]
fn rates_of_one_load_are_a_curve_with_its_fit_and_its_knee() {
    let cells: Vec<Cell> = (0..3).map(|repeat| climbing("weir", repeat, 1, 50.0)).collect();
    let summary = summary(&cells);
    let curve = only(&summary.headroom);
    assert_eq!((curve.gateway.as_str(), curve.load.as_str(), curve.spots.len()), ("weir", "curve", 10));
    let fit = curve.fitted("p50").unwrap().fit().unwrap();
    near(fit.base_ns, 200_000.0);
    near(fit.limit_per_s, LIMIT_PER_S);
    near(fit.work, 3e9);
    near(fit.within_per_s[0], 500.0);
    near(fit.within_per_s[1], 9_500.0);
    near(curve.fitted("p99").unwrap().fit().unwrap().base_ns, 500_000.0);
    let knee = curve.knee.unwrap();
    near(knee.throughput_per_s, 7_500.0);
    let said = summary.headroom.conclusions.join("\n");
    assert!(said.contains("weir (topology.paths = 1): the knee of p99 is at 7,500/s"), "{said}");
    assert!(said.contains("not for sizing") && said.contains("from the 10 points"), "{said}");
    // Rates of a curve have no objective, because high rates would miss it by design.
    assert!(summary.points.iter().all(|point| point.rows.iter().all(|row| row.objective.is_empty())));
    assert!(summary.problems().is_empty(), "{:?}", summary.problems());
}

#[test]
fn rates_beyond_the_limit_are_no_problem_and_enter_no_fit() {
    let mut cells: Vec<Cell> = (0..3).map(|repeat| climbing("weir", repeat, 1, 50.0)).collect();
    for cell in &mut cells {
        let overloaded = Load { name: "curve-9500", record: overloaded(), data: usage(0.99), host: quiet() };
        let mut beyond = crate::runs::cell("weir", cell.key.repeat, vec![overloaded]);
        let mut beyond = measurements(&mut beyond).remove(0);
        beyond.rate_per_s = Some(9_500.0);
        *measurements(cell).last_mut().unwrap() = beyond;
    }
    let summary = summary(&cells);
    let curve = only(&summary.headroom);
    assert_eq!(curve.spots.len(), 10, "it stays in the table");
    assert!(!curve.spots[9].latency("p99").unwrap().is_valid());
    assert_eq!(curve.fitted("p99").unwrap().fit().unwrap().points, 9);
    assert!(summary.problems().is_empty(), "{:?}", summary.problems());

    // Host noise is reported as a problem, whether the request rate is high or low.
    for cell in &mut cells {
        let mut disturbed = record(Open, 500, 400_000);
        disturbed.result.rate_per_s = 500.0;
        let host = weir_results::HostShare { steal: 0.2, others: 0.0, idle: 0.3 };
        let load = Load { name: "curve-500", record: disturbed, data: usage(0.5), host };
        let mut measured = crate::runs::cell("weir", cell.key.repeat, vec![load]);
        let mut measured = measurements(&mut measured).remove(0);
        measured.rate_per_s = Some(500.0);
        measurements(cell)[0] = measured;
    }
    let problems = self::summary(&cells).problems().join("\n");
    assert!(problems.contains("host-noise") && !problems.contains("overloaded"), "{problems}");
}

/// An open load of which a third did not complete.
fn overloaded() -> weir_results::LoadRecord {
    let mut record = record(Open, 9_500, 1_000_000_000);
    record.result.requests.completed = 63_000;
    record.result.requests.timed_out = 32_000;
    record.result.rate_per_s = 6_300.0;
    record
}

#[test]
fn the_cost_of_routes_is_a_ratio_of_cpu_per_request_in_the_same_repeat() {
    let mut cells: Vec<Cell> = (0..3).map(|repeat| climbing("weir", repeat, 1, 50.0)).collect();
    cells.extend((0..3).map(|repeat| climbing("weir", repeat, 100_000, 65.0)));
    let headroom = summary(&cells).headroom;
    assert_eq!(headroom.curves.len(), 2);
    assert_eq!(headroom.route_costs.len(), 10, "one at each rate");
    let cost = &headroom.route_costs[0];
    assert_eq!((cost.few, cost.many, cost.rate_per_s), (1, 100_000, 500.0));
    near(cost.ratio.mean.unwrap(), 1.3);
    let [low, high] = cost.ratio.interval.unwrap();
    assert!(low > 1.29 && high < 1.31, "shared noise cancels out: {low} .. {high}");
    let said = headroom.conclusions.join("\n");
    let expected = "weir: at 9,500/s, a request takes 1.30 [1.30 .. 1.30] times as much CPU time with 100,000 paths as with 1.";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn routes_without_a_cost_have_no_measurable_cost() {
    let mut cells: Vec<Cell> = (0..3).map(|repeat| climbing("weir", repeat, 1, 50.0)).collect();
    cells.extend((0..3).map(|repeat| climbing("weir", repeat, 100_000, [49.0, 51.0, 50.5][repeat as usize])));
    let said = summary(&cells).headroom.conclusions.join("\n");
    assert!(
        said.contains("times that with 1: no significant difference, because the interval includes 1."),
        "{said}"
    );
}

/// Ten sustained seconds at 100/s. Requests take 1 ms, but 5 ms from 4 s to 6 s, where three of them fail.
fn changed(gateway: &str, repeat: u32) -> Cell {
    let mut of = record(Open, 100, 1_000_000);
    of.seconds = (0..12)
        .map(|second| {
            let is_near = (4..6).contains(&second);
            let mut latency = new_histogram();
            latency.record_n(if is_near { 5_000_000 } else { 1_000_000 }, 100).expect("within its bounds");
            LoadSecond {
                t_s: f64::from(second),
                length_s: 1.0,
                sustained: second >= 2,
                sent: 100,
                completed: 100,
                unexpected: u64::from(second == 4),
                lost: 2 * u64::from(second == 5),
                latency: Histogram::encode(&latency),
            }
        })
        .collect();
    let load = Load { name: "changing", record: of, data: usage(0.5), host: quiet() };
    let mut cell = cell(gateway, repeat, vec![load]);
    let change = |t_s, sustained, routes_added| RouteChange {
        t_s,
        sustained,
        what: Changed::Routes,
        routes_added,
        routes: 2,
        seen_after_ns: 100_000_000 + 20_000_000 * u64::from(repeat),
    };
    // All seconds near the first change are in the warm-up, which ends at 2 s. The seconds 4 and 5 are near the change
    // at 4.5 s.
    measurements(&mut cell)[0].route_changes = vec![change(0.5, false, 1), change(4.5, true, -1)];
    cell
}

#[test]
fn the_cost_of_changes_compares_near_seconds_with_the_rest() {
    let cells: Vec<Cell> = (0..3).map(|repeat| changed("weir", repeat)).collect();
    let summary = summary(&cells);
    let headroom = &summary.headroom;
    let [cost] = headroom.change_costs.as_slice() else { panic!("{:?}", headroom.change_costs) };
    assert_eq!((cost.gateway.as_str(), cost.load.as_str(), cost.changes), ("weir", "changing", 3));
    assert_eq!((cost.errors_near, cost.sent_near), (9, 600));
    assert_eq!((cost.errors_rest, cost.sent_rest), (0, 2_400));
    assert_eq!(cost.seen_after_ns_max, 140_000_000);
    near(cost.p99_rest_ns.mean.unwrap(), 1_000_000.0);
    near(cost.p99_near_ns.mean.unwrap(), 5_000_000.0);
    near(cost.p99_ratio.mean.unwrap(), 5.0);
    let finding = summary.findings.iter().find(|finding| finding.key == "changes").unwrap();
    let said = finding.sentences.join("\n");
    for words in [
        "weir: 3 changes of routes in load `changing`",
        "at most 140 ms",
        "in seconds near changes, 9 of 600 requests failed, otherwise 0 of 2,400",
        " near changes and ",
        "otherwise, a ratio of 5.00 [5.00 .. 5.00]",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn changes_are_reported_by_kind_and_compared_with_a_load_without_changes() {
    let at = |repeat| {
        let mut cell = changed("weir", repeat);
        let mut quiet = measurements(&mut cell)[0].clone();
        quiet.load = "quiet".into();
        quiet.route_changes.clear();
        quiet.record.seconds.iter_mut().for_each(|second| (second.unexpected, second.lost) = (0, 0));
        let of = |what, seen_after_ns| RouteChange {
            t_s: 3.0,
            sustained: true,
            what,
            routes_added: 0,
            routes: 1,
            seen_after_ns,
        };
        measurements(&mut cell)[0].route_changes =
            vec![of(Changed::Certificates, 30), of(Changed::Endpoints, 20), of(Changed::Certificates, 50)];
        measurements(&mut cell).push(quiet);
        cell
    };
    let cells: Vec<Cell> = (0..3).map(at).collect();
    let summary = summary(&cells);
    let headroom = &summary.headroom;
    let [cost] = headroom.change_costs.as_slice() else { panic!("{:?}", headroom.change_costs) };
    let kinds: Vec<_> =
        cost.by_kind.iter().map(|kind| (kind.what, kind.changes, kind.seen_after_ns_max)).collect();
    assert_eq!(kinds, [(Changed::Endpoints, 3, 20), (Changed::Certificates, 6, 50)]);
    near(cost.by_kind[1].seen_after_ns.mean.unwrap(), 40.0);
    let quiet = cost.quiet.as_ref().unwrap();
    assert_eq!((quiet.load.as_str(), quiet.errors, quiet.sent), ("quiet", 0, 3_000));
    near(quiet.p99_ratio.mean.unwrap(), 1.0);
    let finding = summary.findings.iter().find(|finding| finding.key == "changes").unwrap();
    let said = finding.sentences.join("\n");
    assert!(said.contains("weir: 9 changes of endpoints and certificates in load `changing`"), "{said}");
    assert!(said.contains("; in load `quiet`, 0 of 3,000 requests failed"), "{said}");
    assert!(headroom.is_empty());
}

#[test]
fn a_load_in_steps_has_a_fit_of_the_scalability_law() {
    const CONNECTIONS: [u32; 7] = [1, 2, 4, 8, 16, 32, 60];
    let climb = |repeat: u32| {
        let mut of = record(Closed, 5_000, 1_000_000);
        of.steps = CONNECTIONS
            .iter()
            .map(|connections| {
                let n = f64::from(*connections);
                let per_s = 1_000.0 * n / (1.0 + 0.1 * (n - 1.0) + 0.001 * n * (n - 1.0));
                let step = record(Closed, per_s as u64, 1_000_000);
                StepRecord {
                    connections: *connections,
                    rate_per_s: None,
                    latency: step.latency.clone(),
                    phase_start_mono_ns: 0,
                    phase_end_mono_ns: 1,
                    distributions: None,
                    result: step.result,
                }
            })
            .collect();
        cell("weir", repeat, vec![Load { name: "ramp", record: of, data: usage(0.99), host: quiet() }])
    };
    let cells: Vec<Cell> = (0..3).map(climb).collect();
    let headroom = summary(&cells).headroom;
    assert_eq!(only(&headroom).spots.len(), 7);
    let [law] = headroom.scalability.as_slice() else { panic!("{:?}", headroom.scalability) };
    let usl = law.usl.fit().unwrap();
    // The parameters match only roughly, because rates are rounded to integers.
    assert!((usl.sigma.value - 0.1).abs() < 1e-3 && (usl.kappa.value - 0.001).abs() < 1e-4, "{usl:?}");
    assert!(usl.r_squared > 0.999, "{usl:?}");
    let conclusions = headroom.conclusions.join("\n");
    let is_stated = |words| conclusions.contains(words);
    assert!(
        is_stated("throughput by ")
            && is_stated("follows the Universal Scalability Law with contention 1.0e-1"),
        "{conclusions}"
    );
}

#[test]
fn a_run_without_rates_or_changes_has_no_headroom() {
    let cells: Vec<Cell> =
        (0..3).map(|repeat| cell("weir", repeat, vec![crate::runs::full(9_000)])).collect();
    assert!(summary(&cells).headroom.is_empty());
}
