//! Values, headlines, objectives, conclusions and problems of whole runs.

use std::collections::BTreeMap;

use weir_analysis::{Figure, Met, Summary, summarize};
use weir_results::{Cell, DIRECT, HostShare, Objective, Reason};

use crate::runs::{Load, cell, failed, full, key, plan, run, tail};

fn summary(gateways: &[&str], objective: Option<Objective>, cells: &[Cell]) -> Summary {
    summarize(&plan(run(gateways, objective), cells), cells)
}

fn disturbed(load: Load) -> Load {
    Load { host: HostShare { steal: 0.1, others: 0.0, idle: 0.2 }, ..load }
}

/// Two gateways and the direct baseline, with three valid repeats. In the closed load, concurrency limits the direct
/// baseline.
pub(crate) fn undisturbed() -> Vec<Cell> {
    let mut cells = Vec::new();
    for (repeat, (weir, nginx, direct)) in
        [(50_000, 40_000, 100_000), (50_500, 40_400, 101_000), (49_500, 39_600, 99_000)]
            .into_iter()
            .enumerate()
    {
        let repeat = repeat as u32;
        cells.push(cell("nginx", repeat, vec![full(nginx), tail(300_000 + u64::from(repeat) * 2_000)]));
        cells.push(cell(DIRECT, repeat, vec![full(direct), tail(100_000)]));
        cells.push(cell("weir", repeat, vec![full(weir), tail(200_000 + u64::from(repeat) * 1_000)]));
    }
    cells
}

#[track_caller]
fn near(value: Option<f64>, expected: f64) {
    let value = value.unwrap_or_else(|| panic!("no value where {expected} is expected"));
    assert!((value - expected).abs() < 1e-3 * expected.abs(), "{value} is not {expected}");
}

#[test]
fn rows_follow_the_scenario_and_direct_comes_last() {
    let summary = summary(&["weir", "nginx"], None, &undisturbed());
    let names = |rows: &[weir_analysis::Row]| rows.iter().map(|row| row.gateway.clone()).collect::<Vec<_>>();
    assert_eq!(summary.points.iter().map(|point| point.load.as_str()).collect::<Vec<_>>(), ["full", "tail"]);
    for point in &summary.points {
        assert_eq!(names(&point.rows), ["weir", "nginx", DIRECT]);
    }
    assert_eq!(summary.problems(), [] as [String; 0]);
}

#[test]
fn figures_are_geometric_means_with_t_intervals() {
    let summary = summary(&["weir", "nginx"], None, &undisturbed());
    let weir = &summary.points[0].rows[0];
    near(weir.throughput_per_s.mean, 49_998.3);
    // The standard deviation of the logarithms is 0.01 and t(2) is 4.3027, so the bounds are the mean divided and
    // multiplied by exp(0.02484).
    let [low, high] = weir.throughput_per_s.interval.unwrap();
    near(Some(low), 48_772.0);
    near(Some(high), 51_256.0);
    assert!(weir.throughput_per_s.headline && weir.cpu_us_per_request.headline);
    assert!(!weir.latency("p99").unwrap().headline, "latency of a closed load is no headline");
    near(weir.cpu_us_per_request.mean, 0.99 * 1e6 / 49_998.3);
}

#[test]
fn added_latency_is_the_difference_in_the_same_repeat() {
    let summary = summary(&["weir", "nginx"], None, &undisturbed());
    let tail = &summary.points[1];
    let added = |row: usize, name: &str| -> &Figure {
        &tail.rows[row].added_latency_ns.iter().find(|(known, _)| known == name).unwrap().1
    };
    near(added(0, "p50").mean, 101_000.0);
    near(added(1, "p50").mean, 202_000.0);
    let [low, high] = added(0, "p50").interval.unwrap();
    near(Some(low), 101_000.0 - 2_484.1);
    near(Some(high), 101_000.0 + 2_484.1);
    assert!(added(0, "p50").headline);
    assert!(tail.rows[2].added_latency_ns.is_empty(), "direct has no added latency");
}

#[test]
fn conclusions_follow_from_the_values() {
    let objective = Objective {
        latency_ns: BTreeMap::from([("p99".to_owned(), 600_000)]),
        errors: Some(0.001),
        ..Objective::default()
    };
    let summary = summary(&["weir", "nginx"], Some(objective), &undisturbed());
    assert_eq!(
        summary.points[0].conclusions,
        [
            "weir had the highest throughput: 49,998/s [48,772 .. 51,256]. Relative to weir: nginx 80.0 %; \
            its interval does not overlap with weir's.",
            "weir used the least CPU time per request: 19.8 µs [19.3 .. 20.3]. Relative to weir: nginx 1.25 \
            times; its interval does not overlap with weir's.",
            "weir (15.0 MiB [15.0 .. 15.0]) and nginx (15.0 MiB [15.0 .. 15.0]) had the lowest peak memory; \
            their intervals overlap, so this run cannot rank them.",
            "Throughput relative to the direct baseline: weir 50.0 %, nginx 40.0 %.",
            "Objective errors at most 0.100 %: met by weir and nginx.",
        ]
    );
    assert_eq!(
        summary.points[1].conclusions,
        [
            "weir had the lowest p99 latency: 502 µs [496 .. 509]. Relative to weir: nginx 1.50 times; its \
            interval does not overlap with weir's.",
            "weir (100 µs [100 .. 100]) and nginx (100 µs [100 .. 100]) used the least CPU time per request; \
            their intervals overlap, so this run cannot rank them.",
            "Added latency: weir 101 µs [98.5 .. 103] at p50 and 253 µs [246 .. 259] at p99; nginx \
             202 µs [197 .. 207] at p50 and 505 µs [493 .. 517] at p99.",
            "Objective p99 at most 600 µs: met by weir, missed by nginx.",
            "Objective errors at most 0.100 %: met by weir and nginx.",
        ]
    );
    let problems = [
        "tail (open, 5,000/s, 10 connections): nginx misses the objective: p99 at most 600 µs: 755 µs [743 .. 768], missed",
    ];
    assert_eq!(summary.problems(), problems);
}

#[test]
fn a_closed_loop_against_a_quota_is_throttled_and_still_a_good_result() {
    let cells: Vec<Cell> = (0..3)
        .map(|repeat| {
            let mut load = full(20_000 + u64::from(repeat));
            load.data.periods_throttled = Some(99);
            cell("weir", repeat, vec![load])
        })
        .collect();
    let summary = summary(&["weir"], None, &cells);
    assert_eq!(summary.problems(), [] as [String; 0]);
    let weir = &summary.points[0].rows[0];
    assert!(weir.throughput_per_s.headline && weir.cpu_us_per_request.headline);
    assert_eq!(weir.latency("p99").unwrap().reasons(), [(Reason::Throttled, 3)]);
    assert!(!weir.latency("p99").unwrap().is_valid());
}

#[test]
fn nothing_invalid_reaches_a_headline() {
    let mut cells = undisturbed();
    cells.retain(|cell| cell.key.gateway != "weir" || cell.key.repeat != 1);
    cells.push(cell("weir", 1, vec![disturbed(full(1_000_000)), disturbed(tail(1))]));
    let summary = summary(&["weir", "nginx"], None, &cells);
    for (point, problem) in summary.points.iter().zip([
        "full (closed, 10 connections): weir: throughput and CPU per request have no headline: host-noise in 1 of 3 repeats",
        "tail (open, 5,000/s, 10 connections): weir: latency and CPU per request have no headline: host-noise in 1 of 3 repeats",
    ]) {
        let weir = &point.rows[0];
        assert_eq!(weir.throughput_per_s.valid, 2);
        let headline = weir.latency_ns.iter().map(|(_, figure)| figure).chain([&weir.throughput_per_s]);
        assert!(headline.chain([&weir.cpu_us_per_request]).all(|figure| !figure.headline));
        assert!(summary.problems().contains(&problem), "{:?}", summary.problems());
        let named = point.conclusions.iter().filter(|sentence| sentence.contains("weir")).collect::<Vec<_>>();
        assert_eq!(named.len(), 1, "{named:?}");
        assert!(named[0].starts_with("No conclusion about"), "{named:?}");
    }
    // The mean excludes the outlier.
    near(summary.points[0].rows[0].throughput_per_s.mean, 49_749.4);
}

#[test]
fn one_repeat_has_values_without_interval_headline_or_problem() {
    let cells = [cell("weir", 0, vec![full(50_000)]), cell("nginx", 0, vec![full(40_000)])];
    let summary = summary(&["weir", "nginx"], None, &cells);
    assert_eq!(summary.problems(), [] as [String; 0]);
    let weir = &summary.points[0].rows[0].throughput_per_s;
    assert_eq!((weir.mean, weir.interval, weir.headline), (Some(50_000.0), None, false));
    assert_eq!(
        summary.points[0].conclusions,
        [
            "No conclusion about the throughput of weir and nginx (1 valid repeat): three valid repeats are required."
        ]
    );
}

#[test]
fn a_baseline_limited_by_the_rig_gives_an_upper_bound_of_the_ratio() {
    let mut cells = undisturbed();
    for cell in cells.iter_mut().filter(|cell| cell.key.gateway == DIRECT) {
        let repeat = cell.key.repeat;
        let mut load = full(100_000);
        load.record.generator.worker_cpu_s = vec![9.9];
        *cell = crate::runs::cell(DIRECT, repeat, vec![load]);
    }
    let summary = summary(&["weir", "nginx"], None, &cells);
    let ratio = summary.points[0].rows[0].ratio_to_direct.as_ref().unwrap();
    assert!(ratio.at_most && ratio.ratio.headline);
    let sentence = "Throughput relative to the direct baseline, at most: weir 50.8 %, nginx 40.7 %. The rig limited \
                    the direct load, so the shares are upper bounds.";
    assert!(
        summary.points[0].conclusions.contains(&sentence.to_owned()),
        "{:?}",
        summary.points[0].conclusions
    );
    assert_eq!(summary.problems(), [] as [String; 0], "a direct cell limited by the rig is no problem");
}

#[test]
fn a_baseline_with_host_noise_has_no_conclusions() {
    let mut cells = undisturbed();
    for cell in cells.iter_mut().filter(|cell| cell.key.gateway == DIRECT) {
        *cell = crate::runs::cell(
            DIRECT,
            cell.key.repeat,
            vec![disturbed(full(100_000)), disturbed(tail(100_000))],
        );
    }
    let summary = summary(&["weir", "nginx"], None, &cells);
    let weir = &summary.points[0].rows[0];
    assert!(!weir.ratio_to_direct.as_ref().unwrap().ratio.is_valid());
    assert!(summary.points[1].rows[0].added_latency_ns.iter().all(|(_, added)| !added.headline));
    assert!(summary.points.iter().flat_map(|point| &point.conclusions).all(|s| !s.contains("direct")));
}

#[test]
fn an_overloaded_gateway_misses_a_latency_objective() {
    let cells: Vec<Cell> = (0..3)
        .map(|repeat| {
            let mut load = tail(3_000_000_000);
            load.data.cpu_share_of_limit = Some(0.99);
            for books in [&mut load.record.result.requests, &mut load.record.whole] {
                books.completed = 40_000;
                books.timed_out = 10_000;
            }
            load.record.whole_uncertain = 10_000;
            load.record.result.latency_ns.p99 = None;
            cell("weir", repeat, vec![load])
        })
        .collect();
    let objective = Objective {
        latency_ns: BTreeMap::from([("p99".to_owned(), 20_000_000)]),
        errors: None,
        ..Objective::default()
    };
    let summary = summary(&["weir"], Some(objective), &cells);
    let weir = &summary.points[0].rows[0];
    assert_eq!(weir.objective[0].met, Met::Missed);
    assert!(weir.latency("p99").unwrap().beyond_timeout);
    assert_eq!(weir.reasons(), [(Reason::Overloaded, 3)]);
    assert!(weir.throughput_per_s.is_valid() && weir.cpu_us_per_request.is_valid());
    assert!(!weir.cpu_us_per_request.headline, "CPU time is compared only at the offered rate");
    assert_eq!(
        summary.problems().len(),
        1,
        "its p50 is bounded, and the objective missed: {:?}",
        summary.problems()
    );
}

#[test]
fn failed_and_missing_cells_are_problems_and_others_remain() {
    let mut cells = undisturbed();
    cells.retain(|cell| cell.key.gateway != "nginx" || cell.key.repeat != 2);
    cells.push(failed("nginx", 2));
    let mut run = plan(run(&["weir", "nginx"], None), &cells);
    run.plan.push(key("weir", 3));
    let summary = summarize(&run, &cells);
    assert_eq!((summary.cells_planned, summary.cells_measured, summary.failed.len()), (10, 8, 1));
    assert_eq!(
        summary.problems(),
        [
            "nginx, repeat 3: never-ready: 127.0.0.1:8080 did not answer within 10 s",
            "1 of 10 cells did not run",
        ]
    );
    assert!(summary.points[0].rows[0].throughput_per_s.headline);
}

#[test]
fn a_run_without_cells_is_a_problem() {
    let summary = summary(&["weir"], None, &[]);
    assert_eq!(summary.problems(), ["no gateway was measured"]);
}

#[test]
fn the_latency_curve_adds_histograms_and_ends_at_the_last_response() {
    let mut load = tail(200_000);
    let mut histogram = weir_results::new_histogram();
    for value in 1..=900_u64 {
        histogram.record(value * 1_000).unwrap();
    }
    load.record.latency = weir_results::Histogram::encode(&histogram);
    load.record.result.requests.scheduled = 1_000;
    load.record.result.requests.completed = 900;
    let summary = summary(&["weir"], None, &[cell("weir", 0, vec![load])]);
    let curve = &summary.points[0].rows[0].latency_curve;
    let last = curve.last().unwrap();
    assert!((last.quantile - 0.9).abs() < 1e-9, "{last:?}");
    assert!(last.latency_ns.abs_diff(900_000) < 1_000, "{last:?}");
    assert!(curve.windows(2).all(|pair| pair[0].latency_ns <= pair[1].latency_ns));
}
