//! Tests how findings are compared: which failures count, which series match, and when no difference is claimed.

use weir_analysis::compare::{
    CompareError, Comparison, Dataset, FigureComparison, LoadPoint, Measure, Question, Series, Verdict,
    compare,
};
use weir_analysis::{Figure, Repeated, Sample};
use weir_results::{
    ArrivalModel, Cell, CellOutcome, Changed, ColdStart, Found, Measurement, Reason, RouteChange, Stopped,
};

use crate::capacity::{found, searched};
use crate::chance::{foreign, gateway_of_a_run};
use crate::compared::dataset;
use crate::faults::faulted;
use crate::records::quiet;
use crate::runs::{Load, cell, tail};

fn measurements(cell: &mut Cell) -> &mut Vec<Measurement> {
    let CellOutcome::Measured { measurements } = &mut cell.outcome else { panic!("it was measured") };
    measurements
}

fn repeats(of: impl Fn(u32) -> Cell) -> Vec<Cell> {
    (0..6).map(of).collect()
}

fn named(name: &str) -> Measure {
    Measure::named(name).expect("a known metric")
}

fn asked(names: &[&str]) -> Question {
    Question { measures: names.iter().map(|name| named(name)).collect(), ..Question::default() }
}

fn sides(a: &[Cell], b: &[Cell]) -> [Dataset; 2] {
    [dataset("a", |_| {}, a), dataset("b", |_| {}, b)]
}

fn compared(a: &[Cell], b: &[Cell]) -> Comparison {
    let [a, b] = sides(a, b);
    compare(&a, &b, &Question::default()).expect("the same scenario")
}

fn figure<'a>(comparison: &'a Comparison, measure: &str) -> &'a FigureComparison {
    let mut figures = comparison.points.iter().flat_map(|point| &point.figures);
    figures.find(|of| of.measure.name() == measure).expect("both have it")
}

/// A series of one metric.
fn series(measure: &str, figure: Figure) -> Series {
    Series { load: "storm".into(), figures: vec![(named(measure), figure)], ..Series::default() }
}

fn of_values(measure: &str, values: [f64; 6]) -> Series {
    series(measure, Figure::of_valid(values.map(Some)))
}

/// Two gateways of one run with one series each.
fn pair(a: Series, b: Series, question: &Question) -> FigureComparison {
    let (a, b) = (gateway_of_a_run("old", vec![a]), gateway_of_a_run("new", vec![b]));
    let comparison = compare(&a, &b, question).expect("the same load");
    comparison.points[0].figures[0].clone()
}

/// Six values with a noise of 1 %.
fn near(value: f64) -> [f64; 6] {
    [1.0, 1.01, 0.99, 1.005, 0.995, 1.0].map(|noise| value * noise)
}

/// Like [`near`], but with different noise, so that the ratios of blocks vary.
fn around(value: f64) -> [f64; 6] {
    [0.995, 1.0, 1.01, 1.0, 0.99, 1.005].map(|noise| value * noise)
}

#[test]
fn a_load_that_fails_in_every_repeat_is_a_failure_although_its_changes_took_effect() {
    let changed = |repeat: u32, unexpected: u64| {
        let mut load = tail(200_000);
        load.record.result.requests.unexpected = unexpected;
        let mut cell = cell("weir", repeat, vec![load]);
        measurements(&mut cell)[0].route_changes = vec![RouteChange {
            t_s: 4.5,
            sustained: true,
            what: Changed::Routes,
            routes_added: 1,
            routes: 2,
            seen_after_ns: 100_000_000 + 1_000_000 * u64::from(repeat),
        }];
        cell
    };
    let (good, bad) = (repeats(|repeat| changed(repeat, 0)), repeats(|repeat| changed(repeat, 25_000)));
    let comparison = compared(&good, &bad);
    assert!(figure(&comparison, "changes.effective_after").ratio.is_some());
    assert_eq!(comparison.failed, ["weir, tail: b fails in every repeat, but a does not"]);
    assert!(comparison.is_worse());
    assert!(!compared(&bad, &good).is_worse());
}

/// A cell with one load, and with a measured cold start.
fn started(load: Load, repeat: u32) -> Cell {
    let mut cell = cell("weir", repeat, vec![load]);
    cell.cold_start = Some(ColdStart {
        first_answer_ns: 100_000_000 + 1_000_000 * u64::from(repeat),
        cpu_s: None,
        memory_bytes: Some(10 << 20),
        host: Some(quiet()),
    });
    cell
}

#[test]
fn values_without_a_load_are_not_matched_as_a_load() {
    let cells = repeats(|repeat| started(tail(200_000 + u64::from(repeat)), repeat));
    let [a, b] = sides(&cells, &cells);
    let of_load = |load: &str| Question { load: Some(load.into()), force: true, ..Question::default() };
    let error = compare(&a, &b, &of_load("tial")).unwrap_err();
    let CompareError::NoLoad { names, .. } = &error else { panic!("{error}") };
    assert_eq!(names, "tail");
    // Results from a file of another program are compared with A's load, not with A's gateway starts.
    let file = foreign("F", vec![of_values("throughput", near(10.0))].into_iter().map(unnamed).collect());
    for question in [of_load("tail"), Question { force: true, ..Question::default() }] {
        let comparison = compare(&a, &file, &question).expect("one load");
        assert_eq!(comparison.points.len(), 1);
    }
    // Starts of B are not compared with a load of A.
    let loads: Vec<String> =
        compare(&a, &b, &of_load("tail")).unwrap().points.iter().map(|point| point.load.clone()).collect();
    assert_eq!(loads, ["tail"]);
    let all = compare(&a, &b, &Question::default()).unwrap();
    assert_eq!(all.points.len(), 2, "without --load, starts are compared with starts");
    assert!(figure(&all, "limits-and-starts.first_200").ratio.is_some());
}

fn unnamed(series: Series) -> Series {
    Series { load: String::new(), ..series }
}

#[test]
fn a_run_with_only_a_search_has_a_load_to_name() {
    let cells = repeats(|repeat| searched("weir", repeat, found(800.0 + f64::from(repeat))));
    let [a, b] = sides(&cells, &cells);
    let question = Question { load: Some("capacity".into()), ..Question::default() };
    assert_eq!(compare(&a, &b, &question).unwrap().points.len(), 1);
    let question = Question { load: Some("tial".into()), ..question };
    let error = compare(&a, &b, &question).unwrap_err();
    assert!(error.to_string().contains("the loads are capacity"), "{error}");
}

fn never_met(stopped: Stopped) -> Found {
    Found { capacity_per_s: None, interval_per_s: None, below_per_s: Some(10.0), stopped, ..found(1.0) }
}

#[test]
fn a_capacity_without_any_result_is_not_reached_unless_the_rig_is_the_reason() {
    let good = repeats(|repeat| searched("weir", repeat, found(800.0 + f64::from(repeat))));
    let bad = repeats(|repeat| searched("weir", repeat, never_met(Stopped::NeverMet)));
    let comparison = compared(&good, &bad);
    assert_eq!(comparison.failed, [""; 0], "no load failed");
    assert_eq!(
        comparison.not_reached,
        ["weir, capacity: capacity.rate: no capacity found in 6 of 6 repeats of b, but a has 6 values"]
    );
    assert!(comparison.is_worse());
    assert_eq!(comparison.headline(), "b against a: no value in 1 metric, 1 undecided");
    assert!(!compared(&bad, &good).is_worse() && !compared(&bad, &bad).is_worse());
    // A missing value makes a comparison worse only if its metric gets a verdict.
    let [a, b] = sides(&good, &bad);
    assert!(!compare(&a, &b, &asked(&["p99"])).unwrap().is_worse());
    let mut noisy = repeats(|repeat| searched("weir", repeat, never_met(Stopped::InvalidTrials)));
    for cell in &mut noisy {
        measurements(cell)[0].judgement.verdicts.latency = vec![Reason::HostNoise];
        measurements(cell)[0].judgement.bounds = None;
    }
    let comparison = compared(&good, &noisy);
    assert!(!comparison.is_worse(), "{:?}", comparison.not_reached);
}

#[test]
fn a_search_of_only_one_side_is_listed() {
    let both = repeats(|repeat| {
        let mut cell = searched("weir", repeat, found(800.0 + f64::from(repeat)));
        let mut with_load = crate::runs::cell("weir", repeat, vec![tail(200_000)]);
        measurements(&mut cell).append(measurements(&mut with_load));
        cell
    });
    let without = repeats(|repeat| cell("weir", repeat, vec![tail(200_000)]));
    assert_eq!(compared(&both, &without).unmatched, ["only in a: weir, capacity (capacity.rate)"]);
    assert_eq!(compared(&without, &both).unmatched, ["only in b: weir, capacity (capacity.rate)"]);
    // A finding about a fault that only one side has is not listed as unmatched, because the load itself is compared.
    let faulted = repeats(|repeat| {
        let mut cell = faulted("weir", repeat, &[]);
        measurements(&mut cell)[0].load = "tail".into();
        cell
    });
    assert_eq!(compared(&faulted, &without).unmatched, [""; 0]);
}

#[test]
fn cells_of_a_search_that_failed_on_only_one_side_fail_the_comparison() {
    let of = |gateway: &'static str| {
        repeats(move |repeat| searched(gateway, repeat, found(800.0 + f64::from(repeat))))
    };
    let good = [of("weir"), of("nginx")].concat();
    let bad = [of("weir"), repeats(|repeat| crate::runs::failed("nginx", repeat))].concat();
    let comparison = compared(&good, &bad);
    assert_eq!(comparison.failed, ["nginx, capacity: the cells of b failed, but the cells of a did not"]);
    assert!(comparison.is_worse() && !compared(&bad, &good).is_worse());
}

const CPU_OF_FINDINGS: [&str; 3] =
    ["new-connections.cpu", "limits-and-starts.handshakes_per_cpu_s", "new-connections.cpu_without_requests"];

#[test]
fn cpu_time_of_findings_is_compared_at_equal_speed_of_the_host() {
    let speeds = [1.0, 1.3, 0.8, 1.1, 0.9, 1.2];
    for measure in CPU_OF_FINDINGS {
        let power = if measure.contains("handshakes") { -1.0 } else { 1.0 };
        let with_rig = |values: [f64; 6], speeds: [f64; 6]| Series {
            rig_cpu: Figure::of_valid(speeds.map(|speed| Some(30.0 * speed))),
            ..of_values(measure, std::array::from_fn(|at| values[at] * speeds[at].powf(power)))
        };
        let slowed = with_rig(around(120.0), speeds.map(|speed| speed * speed));
        let of = pair(with_rig(near(100.0), speeds), slowed, &asked(&[measure]));
        let speed = of.host_speed.unwrap_or_else(|| panic!("{measure} is not corrected"));
        assert!((speed.power - power).abs() < 0.1, "{measure}: {speed:?}");
    }
}

#[test]
fn cpu_time_of_findings_is_compared_at_equal_load_points_only() {
    for measure in CPU_OF_FINDINGS {
        let at = |connections| {
            let load_point = Some(LoadPoint { model: ArrivalModel::Closed, connections, rate_per_s: None });
            move |values| Series { load_point, ..of_values(measure, values) }
        };
        let of = pair(at(10)(near(100.0)), at(20)(around(150.0)), &asked(&[measure]));
        assert_eq!(of.verdict, Some(Verdict::Undecided), "{measure}");
        assert!(
            of.why.contains("only at the same number of connections or the same rate"),
            "{measure}: {}",
            of.why
        );
    }
}

#[test]
fn cpu_time_of_findings_excludes_repeats_below_the_rate() {
    let storm = |overloaded: bool| {
        let cells = repeats(|repeat| {
            let mut cell = cell("weir", repeat, vec![tail(200_000 + u64::from(repeat))]);
            if overloaded && repeat > 0 {
                measurements(&mut cell)[0].judgement.verdicts.latency = vec![Reason::Overloaded];
                measurements(&mut cell)[0].judgement.bounds = None;
            }
            cell
        });
        let per_connection = |run: &mut weir_results::Run| {
            run.scenario["loads"]["tail"]["per_connection"] = 4.into();
        };
        dataset(if overloaded { "b" } else { "a" }, per_connection, &cells)
    };
    let comparison = compare(&storm(false), &storm(true), &asked(&["cpu", "new-connections.cpu"])).unwrap();
    for measure in ["cpu", "new-connections.cpu"] {
        let of = figure(&comparison, measure);
        assert_eq!((of.a.valid, of.b.valid), (6, 1), "{measure}");
        assert!(of.why.contains("overloaded"), "{measure}: {}", of.why);
    }
}

#[test]
fn a_rescaled_copy_of_cpu_time_is_judged_only_on_request() {
    let judged: Vec<&str> = Measure::judged().map(Measure::name).collect();
    for measure in CPU_OF_FINDINGS {
        assert!(!judged.contains(&measure), "{measure}");
    }
    assert!(judged.contains(&"recovery.time") && judged.contains(&"capacity.rate"));
}

#[test]
fn values_of_zero_or_below_have_no_ratio() {
    let measure = "slow-clients.memory_per_client";
    let mut values = near(1_000.0);
    for odd in [-20.0, 0.0] {
        values[2] = odd;
        for (a, b) in [(values, near(1_000.0)), (near(1_000.0), values)] {
            let of = pair(of_values(measure, a), of_values(measure, b), &asked(&[measure]));
            assert_eq!((of.ratio, of.verdict), (None, Some(Verdict::Undecided)), "{of:?}");
            assert_eq!(of.why, "a repeat has a value of zero or less, so there is no ratio");
        }
    }
    // A time below the resolution counts as the resolution.
    let of = pair(
        of_values("recovery.time", [0.0; 6]),
        of_values("recovery.time", near(6.0)),
        &asked(&["recovery.time"]),
    );
    assert_eq!(of.verdict, Some(Verdict::Worse), "{of:?}");
}

#[test]
fn a_difference_below_one_step_of_the_measurement_is_not_claimed() {
    let check = |a: f64, b: f64, expected: Verdict| {
        let turned = match expected {
            Verdict::Worse => Verdict::Better,
            other => other,
        };
        for (a, b, expected) in [(a, b, expected), (b, a, turned)] {
            let [side_a, side_b] = [near(a), around(b)].map(|values| of_values("recovery.time", values));
            let of = pair(side_a, side_b, &asked(&["recovery.time"]));
            assert_eq!(of.verdict, Some(expected), "{a} s and {b} s: {}, {}", of.ratio_words(), of.why);
        }
    };
    check(3.0, 3.9, Verdict::Undecided);
    check(3.0, 4.5, Verdict::Undecided);
    check(3.0, 5.2, Verdict::Worse);
    // For times of about a minute, the resolution of one second is within the margin.
    check(60.0, 60.9, Verdict::Same);
    check(3.0, 3.1, Verdict::Undecided);
}

/// Values of six repeats; `None` is beyond the measured range.
fn with_beyond(values: [Option<f64>; 6]) -> Series {
    let repeated = |(repeat, value): (usize, Option<f64>)| Repeated {
        repeat: repeat as u32,
        sample: value.map_or(Sample::BeyondTimeout, Sample::Value),
        reasons: Vec::new(),
        ..Repeated::default()
    };
    let repeats: Vec<Repeated> = values.into_iter().enumerate().map(repeated).collect();
    let beyond_timeout = values.contains(&None);
    let valid = repeats.len();
    series("recovery.time", Figure { repeats, valid, beyond_timeout, ..Figure::default() })
}

#[test]
fn repeats_beyond_the_measured_range_rank_last() {
    let check = |b: [Option<f64>; 6], verdict: Verdict, why: &str| {
        let a = with_beyond(near(2.0).map(Some));
        let of = pair(a.clone(), with_beyond(b), &asked(&["recovery.time"]));
        assert_eq!((of.verdict, of.why.as_str()), (Some(verdict), why), "{:?}", of.beyond);
        assert_eq!((of.ratio, of.interval), (None, None));
        let turned = pair(with_beyond(b), a, &asked(&["recovery.time"]));
        assert_eq!(turned.verdict == Some(Verdict::Better), verdict == Verdict::Worse);
        assert!(of.is_decidable);
    };
    let late = Some(9.0);
    check([None; 6], Verdict::Worse, "");
    check([Some(2.0), None, None, None, None, None], Verdict::Worse, "");
    // Every repeat of B ranks after all repeats of A: five repeats recover late, and one does not recover, so it ranks
    // last.
    check([late, late, late, late, late, None], Verdict::Worse, "");
    check(
        [Some(2.0), Some(2.0), None, None, None, None],
        Verdict::Undecided,
        "not recovered in 4 of 6 repeats of B and in 0 of 6 repeats of A, which may be chance",
    );
    check(
        [Some(2.5), late, late, late, late, None],
        Verdict::Undecided,
        "not recovered in 1 of 6 repeats of B and in 0 of 6 repeats of A, which may be chance",
    );
}

#[test]
fn sentences_name_metrics_of_findings_as_command_lines_do() {
    let of = |gateway, series| gateway_of_a_run(gateway, vec![series]);
    let old = of("old", of_values("recovery.time", near(2.0)));
    let later = of("new", of_values("recovery.time", around(9.0)));
    let comparison = compare(&old, &later, &Question::default()).unwrap();
    let said = comparison.conclusions().join("\n");
    assert!(said.contains("recovery.time of new is worse: 4.500 ("), "{said}");
    let never = of("new", with_beyond([None; 6]));
    let comparison = compare(&old, &never, &Question::default()).unwrap();
    let said = comparison.conclusions().join("\n");
    assert!(
        said.ends_with("recovery.time of new is worse: not recovered in 6 of 6 repeats (old: 0 of 6)."),
        "{said}"
    );
    for measure in
        Measure::all().filter(|measure| measure.name().contains('.') && measure.name().contains('-'))
    {
        assert_eq!(measure.title(), measure.name());
    }
}
