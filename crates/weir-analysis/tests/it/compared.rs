//! Comparisons of two datasets: verdicts, matched values, and refusals.

use std::collections::BTreeMap;

use weir_analysis::compare::{
    CompareError, Comparison, Dataset, FigureComparison, Margins, Measure, Question, Series, Verdict,
    compare, interval_words, label_apart, ratio_words, smallest_effect_words,
};
use weir_analysis::{Figure, HEADLINE_REPEATS};
use weir_results::{Cell, CellOutcome, DIRECT, HostShare, Reason, Run};

use crate::chance::{foreign, only_cpu};
use crate::runs::{Load, cell, excluded_as_before_0_2, full, plan, run, tail};

fn one(values: [&[f64]; 2], measure: Measure) -> [Vec<Series>; 2] {
    values.map(|values| {
        let figure = Figure::of_valid(values.iter().copied().map(Some));
        vec![Series { figures: vec![(measure, figure)], ..Series::default() }]
    })
}

/// Checks the verdict and its reason for CPU per request in two samples.
#[track_caller]
fn check(a: &[f64], b: &[f64], verdict: Verdict, why: &str) {
    let [a, b] = one([a, b], Measure::CpuPerRequest);
    let comparison = compare(&foreign("A", a), &foreign("B", b), &only_cpu()).expect("one figure each");
    let figure = &comparison.points[0].figures[0];
    assert_eq!(figure.verdict, Some(verdict), "{}", figure.why);
    assert!(figure.why.contains(why), "{}", figure.why);
}

#[test]
fn verdicts_follow_the_interval_and_the_number_of_repeats() {
    let six = [10.0, 10.1, 9.9, 10.05, 9.95, 10.0];
    let times = |ratio: f64| six.map(|value| value * ratio);
    check(&six, &times(1.2), Verdict::Worse, "");
    check(&six, &times(1.0 / 1.2), Verdict::Better, "");
    check(&six, &times(1.01), Verdict::Same, "");
    check(&six, &times(1.05), Verdict::Undecided, "the interval crosses the margin of 5 %");
    check(
        &six[..3],
        &times(1.05)[..3],
        Verdict::Undecided,
        "crosses the margin, and a verdict of better or worse needs 6 valid repeats of A and of B: A has 3, B has 3",
    );
    check(
        &six[..5],
        &times(1.5),
        Verdict::Undecided,
        "needs 6 valid repeats of A and of B: A has 5, B has 6",
    );
    check(
        &six[..1],
        &times(1.5),
        Verdict::Undecided,
        "because an interval needs two valid repeats of A and of B: A has 1, B has 6",
    );
    check(&[10.0; 6], &[12.0; 6], Verdict::Undecided, "the repeats are all equal");
    // A verdict is possible even if all repeats of one dataset are equal.
    check(&[10.0; 6], &times(1.5), Verdict::Worse, "");
    check(&six, &[15.0; 6], Verdict::Worse, "");
    // A has only five repeats: enough for the verdict `same`, but not for better or worse.
    check(&six[..5], &times(1.001), Verdict::Same, "");
}

#[test]
fn a_comparison_that_cannot_find_anything_worse_gives_the_reason() {
    let six = [10.0, 10.1, 9.9, 10.05, 9.95, 10.0];
    let why = |a: &[f64], b: &[f64]| {
        let [a, b] = one([a, b], Measure::CpuPerRequest);
        compare(&foreign("A", a), &foreign("B", b), &only_cpu()).unwrap().nothing_decidable()
    };
    let times = |ratio: f64| six.map(|value| value * ratio);
    for ratio in [1.0, 1.05, 1.5] {
        assert_eq!(why(&six, &times(ratio)), None, "with six repeats only chance leaves it undecided");
    }
    assert_eq!(why(&six[..3], &times(1.001)[..3]), None, "the same is a decision");
    let few = why(&six[..3], &times(1.5)[..3]).unwrap();
    assert_eq!(few, "a verdict of better or worse needs 6 valid repeats of A and of B: A has 3, B has 3");
    assert!(
        why(&six[..1], &six)
            .unwrap()
            .starts_with("no interval, because an interval needs two valid repeats of A and of B")
    );
    // No block is valid, neither in A nor in B.
    let mut cells = cells(1.5, 1.0);
    for cell in &mut cells {
        let CellOutcome::Measured { measurements } = &mut cell.outcome else { panic!("it was measured") };
        for measurement in measurements {
            excluded_as_before_0_2(&mut measurement.judgement, Reason::HostNoise);
        }
    }
    let (a, b) = (dataset("a", |_| {}, &cells), dataset("b", |_| {}, &cells));
    let why = compare(&a, &b, &Question::default()).unwrap().nothing_decidable().unwrap();
    assert!(why.contains("A has 0, B has 0 (host-noise)"), "{why}");
}

#[test]
fn few_noisy_repeats_give_no_absurd_numbers() {
    // So much noise that the interval exceeds the range of a float.
    let [a, b] = one([&[10.0, 5_000.0], &[10.0, 9_000.0]], Measure::CpuPerRequest);
    let comparison = compare(&foreign("A", a), &foreign("B", b), &only_cpu()).unwrap();
    let figure = &comparison.points[0].figures[0];
    assert!(figure.ratio_words().ends_with(" (any)"), "{}", figure.ratio_words());
    let smallest = figure.smallest_effect.unwrap();
    assert_eq!(smallest_effect_words(smallest), "> 1,000 %");
    assert!(smallest.is_finite() && figure.interval.unwrap().iter().all(|end| end.is_finite()));
    assert_eq!(
        (smallest_effect_words(0.375), smallest_effect_words(10.0)),
        ("37.5 %".into(), "1,000 %".into())
    );
    assert_eq!(interval_words([0.000_5, 1.25]), "< 0.001 .. 1.250");
    assert_eq!(interval_words([0.5, 5e9]), "0.500 .. > 1,000");
    for (ratio, words) in
        [(0.0005, "< 0.001"), (0.012, "0.012"), (1.0, "1.000"), (12.34, "12.3"), (2e54, "> 1,000")]
    {
        assert_eq!(ratio_words(ratio), words);
    }
}

#[test]
fn more_throughput_is_better() {
    let six = [10.0, 10.1, 9.9, 10.05, 9.95, 10.0];
    let [a, b] = one([&six, &six.map(|value| value * 1.5)], Measure::Throughput);
    let (a, b) = (foreign("A", a), foreign("B", b));
    let verdict = |a, b| compare(a, b, &Question::default()).unwrap().points[0].figures[0].verdict;
    assert_eq!((verdict(&a, &b), verdict(&b, &a)), (Some(Verdict::Better), Some(Verdict::Worse)));
}

/// Six repeats of weir and the direct baseline. `factor` scales the values of weir, `direct` those of the baseline.
fn cells(factor: f64, direct: f64) -> Vec<Cell> {
    let times = |ns: f64, factor: f64| (ns * factor) as u64;
    (0..6)
        .flat_map(|repeat| {
            let wobble = 1.0 + 0.004 * f64::from(repeat % 3);
            let rate = (40_000.0 / factor * wobble) as u64;
            [
                cell("weir", repeat, vec![full(rate), tail(times(200_000.0 * wobble, factor))]),
                cell(
                    DIRECT,
                    repeat,
                    vec![full(90_000 + u64::from(repeat)), tail(times(100_000.0 * wobble, direct))],
                ),
            ]
        })
        .collect()
}

pub(crate) fn dataset(id: &str, change: impl Fn(&mut Run), cells: &[Cell]) -> Dataset {
    let mut run = plan(run(&["weir"], None), cells);
    run.id = id.into();
    run.scenario = serde_json::json!({
        "name": "side-by-side", "gateways": ["weir"], "seed": 1, "repeats": 6,
        "limits": { "data": { "cpus": 0.5 } },
        "loads": { "tail": { "model": "open", "rate": "5000/s" } },
    });
    change(&mut run);
    Dataset::of_run(&run, cells, None).expect("all gateways")
}

fn compared(factor: f64, direct: f64) -> Comparison {
    let (a, b) = (cells(1.0, 1.0), cells(factor, direct));
    compare(&dataset("a", |_| {}, &a), &dataset("b", |_| {}, &b), &Question::default())
        .expect("the same scenario")
}

fn figure<'a>(comparison: &'a Comparison, load: &str, measure: &str) -> &'a FigureComparison {
    let point = comparison.points.iter().find(|point| point.load == load).expect("the load");
    point.figures.iter().find(|of| of.measure.name() == measure).expect("the figure")
}

#[test]
fn each_load_is_compared_in_its_main_metrics() {
    let comparison = compared(1.5, 1.0);
    let verdict = |load, measure| figure(&comparison, load, measure).verdict;
    assert_eq!(verdict("full", "throughput"), Some(Verdict::Worse));
    assert_eq!(verdict("full", "cpu"), Some(Verdict::Worse));
    assert_eq!(verdict("full", "p99"), None, "there is an open load for it");
    assert_eq!(verdict("tail", "p50"), Some(Verdict::Worse));
    assert_eq!(verdict("tail", "throughput"), None, "the rate is given");
    assert_eq!(verdict("tail", "p90"), None, "p90 has no verdict by default");
    assert!(figure(&comparison, "tail", "p90").ratio.is_some());
    assert_eq!(comparison.points.len(), 2, "direct is no gateway");
    assert_eq!(
        comparison.family,
        comparison.points.iter().flat_map(|point| &point.figures).filter(|of| of.verdict.is_some()).count()
    );
    let said = comparison.conclusions().join("\n");
    assert!(said.contains("weir, full: CPU per request of b is worse: 1.500"), "{said}");
    assert!(comparison.headline().starts_with("b against a: "), "{}", comparison.headline());
}

#[test]
fn an_open_load_below_its_rate_is_compared_in_throughput() {
    let mut slow = cells(1.0, 1.0);
    for cell in slow.iter_mut().filter(|cell| cell.key.gateway == "weir") {
        let repeat = cell.key.repeat;
        let mut load: Load = tail(3_000_000_000);
        load.data.cpu_share_of_limit = Some(0.99);
        load.record.result.rate_per_s = 3_000.0 + f64::from(repeat);
        for books in [&mut load.record.result.requests, &mut load.record.whole] {
            books.completed = 30_000;
            books.timed_out = 20_000;
        }
        load.record.whole_uncertain = 20_000;
        *cell = crate::runs::cell("weir", repeat, vec![full(40_000 + u64::from(repeat) * 10), load]);
    }
    let mut good = cells(1.0, 1.0);
    for (cell, add) in good.iter_mut().zip(0_u32..) {
        // Rates of an open load also vary by chance.
        if let weir_results::CellOutcome::Measured { measurements } = &mut cell.outcome {
            measurements[1].record.result.rate_per_s += f64::from(add);
        }
    }
    let comparison =
        compare(&dataset("a", |_| {}, &good), &dataset("b", |_| {}, &slow), &Question::default()).unwrap();
    assert_eq!(figure(&comparison, "tail", "throughput").verdict, Some(Verdict::Worse));
    // The latency of an overloaded gateway is a lower bound.
    assert_eq!(figure(&comparison, "tail", "p99").verdict, Some(Verdict::Worse));
    let cpu = figure(&comparison, "tail", "cpu");
    assert_eq!(cpu.verdict, Some(Verdict::Undecided), "its throughput differs");
    assert!(cpu.why.contains("overloaded"), "{}", cpu.why);
}

#[test]
fn only_valid_repeats_count() {
    let mut disturbed = cells(1.5, 1.0);
    let repeat = 3;
    let noisy = HostShare { steal: 0.1, others: 0.0, idle: 0.2 };
    for cell in disturbed.iter_mut().filter(|cell| cell.key.repeat == repeat && cell.key.gateway == "weir") {
        let loads = vec![Load { host: noisy, ..full(1_000_000) }, Load { host: noisy, ..tail(1) }];
        *cell = crate::runs::cell("weir", repeat, loads);
    }
    let comparison = compare(
        &dataset("a", |_| {}, &cells(1.0, 1.0)),
        &dataset("b", |_| {}, &disturbed),
        &Question::default(),
    )
    .unwrap();
    let throughput = figure(&comparison, "full", "throughput");
    assert_eq!(throughput.verdict, Some(Verdict::Undecided));
    assert!(throughput.why.contains("A has 6, B has 5 (host-noise)"), "{}", throughput.why);
    assert!((throughput.ratio.unwrap() - 1.0 / 1.5).abs() < 0.01, "the outlier is not in it");
    assert!(throughput.b.valid >= HEADLINE_REPEATS);
}

#[test]
fn a_failed_side_is_worse_without_any_valid_value() {
    let good = || dataset("a", |_| {}, &cells(1.0, 1.0));
    let without_answers = |load: Load| {
        let mut load = load;
        load.record.result.requests.unexpected = load.record.result.requests.completed / 2;
        load
    };
    let broken: Vec<Cell> = cells(1.0, 1.0)
        .into_iter()
        .map(|cell| match cell.key.gateway.as_str() {
            "weir" => {
                crate::runs::cell("weir", cell.key.repeat, vec![full(40_000), without_answers(tail(200_000))])
            }
            _ => cell,
        })
        .collect();
    let bad = || dataset("b", |_| {}, &broken);
    let comparison = compare(&good(), &bad(), &Question::default()).unwrap();
    assert_eq!(comparison.failed, ["weir, tail: b fails in every repeat, but a does not"]);
    assert!(comparison.is_worse() && comparison.count(Verdict::Worse) == 0, "{}", comparison.headline());
    assert!(comparison.headline().starts_with("b against a: failed at 1 load point, "));
    // B is not worse if only A failed, or if both failed.
    assert!(!compare(&bad(), &good(), &Question::default()).unwrap().is_worse());
    let other = dataset("c", |_| {}, &broken);
    assert_eq!(compare(&bad(), &other, &Question::default()).unwrap().failed, [""; 0]);
}

#[test]
fn cells_that_failed_on_only_one_side_are_reported() {
    let at = |cpus: f64, mut cells: Vec<Cell>| {
        for cell in &mut cells {
            cell.key.axes.insert("limits.data.cpus".into(), cpus.into());
        }
        cells
    };
    let without_gateway = |cells: Vec<Cell>| -> Vec<Cell> {
        let failed = |cell: Cell| match cell.key.gateway.as_str() {
            "weir" => Cell { key: cell.key.clone(), ..crate::runs::failed("weir", cell.key.repeat) },
            _ => cell,
        };
        cells.into_iter().map(failed).collect()
    };
    let good = [at(0.5, cells(1.0, 1.0)), at(1.0, cells(1.0, 1.0))].concat();
    let bad = [at(0.5, cells(1.0, 1.0)), without_gateway(at(1.0, cells(1.0, 1.0)))].concat();
    let side = |id: &str, cells: &[Cell]| dataset(id, |_| {}, cells);
    let comparison = compare(&side("a", &good), &side("b", &bad), &Question::default()).unwrap();
    let of = |load: &str| {
        format!("weir, {load}, limits.data.cpus = 1.0: the cells of b failed, but the cells of a did not")
    };
    assert_eq!(comparison.failed, [of("full"), of("tail")]);
    assert!(comparison.is_worse() && comparison.unmatched.len() == 2, "{:?}", comparison.unmatched);
    assert!(!compare(&side("b", &bad), &side("a", &good), &Question::default()).unwrap().is_worse());
}

#[test]
fn a_difference_below_that_of_the_rig_is_undecided() {
    let honest = compared(1.3, 1.0);
    let bias = figure(&honest, "tail", "p50").bias.unwrap();
    assert!(!bias.excludes_one() && (bias.ratio - 1.0).abs() < 0.01, "{bias:?}");
    assert_eq!(figure(&honest, "tail", "p50").verdict, Some(Verdict::Worse));
    // The direct baseline got slower by more than the gateway.
    let biased = compared(1.3, 1.4);
    let p50 = figure(&biased, "tail", "p50");
    assert!(p50.bias.unwrap().excludes_one());
    assert_eq!(p50.verdict, Some(Verdict::Undecided));
    assert!(p50.why.contains("does not exceed that of the direct baselines"), "{}", p50.why);
    assert!(
        biased.conclusions().iter().any(|said| said.contains("the direct baselines differ in p50 latency"))
    );
    // A difference between the direct baselines can hide a difference of the gateway.
    let hidden = compared(1.0, 1.2);
    let p50 = figure(&hidden, "tail", "p50");
    assert_eq!(p50.verdict, Some(Verdict::Undecided));
    assert!(p50.why.contains("the direct baselines differ too much"), "{}", p50.why);
    // The verdict stays if the gateway's difference is larger than the difference between the direct baselines.
    assert_eq!(figure(&compared(2.0, 1.2), "tail", "p50").verdict, Some(Verdict::Worse));
}

#[test]
fn other_conditions_are_refused_field_by_field_unless_forced() {
    let (one, other) = (cells(1.0, 1.0), cells(1.0, 1.0));
    let a = dataset("a", |_| {}, &one);
    let b = dataset(
        "b",
        |run| {
            run.scenario["limits"]["data"]["cpus"] = 1.into();
            run.scenario["loads"]["tail"]["rate"] = "3000/s".into();
            run.scenario["seed"] = 2.into();
            run.scenario["gateways"] = serde_json::json!([{ "name": "weir", "binary": "/opt/weir" }]);
            run.manifest.kernel = Some("Linux 7".into());
            run.thresholds.margins = BTreeMap::from([("cpu".to_owned(), 0.5)]);
        },
        &other,
    );
    let Err(error @ CompareError::Conditions(_)) = compare(&a, &b, &Question::default()) else {
        panic!("refused")
    };
    let said = error.to_string();
    for words in ["limits.data.cpus: 0.5 in A, 1 in B", "loads.tail.rate: 5000/s in A, 3000/s in B"] {
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(said.lines().count(), 3, "seed, gateways and the host are no conditions: {said}");
    let comparison = compare(&a, &b, &Question { force: true, ..Question::default() }).unwrap();
    assert_eq!(comparison.forced.len(), 2);
    assert!(comparison.notes[0].starts_with("Forced"), "{:?}", comparison.notes);
    let words = |all: &[weir_analysis::compare::Difference]| {
        all.iter().map(|difference| difference.words()).collect::<Vec<_>>().join("\n")
    };
    assert!(words(&comparison.environment).contains("kernel: missing in A, Linux 7 in B"));
    assert!(words(&comparison.gateways).contains("weir: binary: missing in A, /opt/weir in B"));
    assert_eq!(figure(&comparison, "full", "cpu").margin, 0.05, "the margin of A");
}

#[test]
fn a_refused_comparison_gives_the_reason() {
    let all = cells(1.0, 1.0);
    let a = dataset("a", |_| {}, &all);
    let error = |a: &Dataset, b: &Dataset, question: &Question| {
        let error = compare(a, b, question).unwrap_err();
        assert!(!error.remedy().is_empty());
        error.to_string()
    };
    assert!(error(&a, &a, &Question::default()).contains("the same: run a"));
    let others: Vec<Cell> = all
        .iter()
        .map(|cell| {
            let mut cell = cell.clone();
            if cell.key.gateway == "weir" {
                cell.key.gateway = "nginx".into();
            }
            cell
        })
        .collect();
    let b = dataset("b", |_| {}, &others);
    let said = error(&a, &b, &Question::default());
    assert!(said.ends_with("\n  gateways: weir in A, nginx in B"), "{said}");
    let [mut steps, alone] = one([&[1.0, 2.0], &[1.0, 3.0]], Measure::Throughput);
    steps = (1..=96).map(|at| Series { load: format!("step {at}"), ..steps[0].clone() }).collect();
    let (steps, alone) = (foreign("S", steps), foreign("F", alone));
    let apart = compare(&alone, &steps, &Question::default()).unwrap_err();
    let said = apart.to_string();
    assert!(said.contains("loads: unnamed in A, step 1, step 2"), "{said}");
    assert!(said.ends_with("step 5 and 91 more in B"), "{said}");
    assert!(apart.remedy().contains("--load NAME"), "{}", apart.remedy());
    let step = Question { load: Some("step 2".into()), ..Question::default() };
    let comparison = compare(&alone, &steps, &step).expect("the remedy works");
    assert_eq!(comparison.points.iter().map(|point| point.load.as_str()).collect::<Vec<_>>(), ["step 2"]);
    let loads = Question { load: Some("fall".into()), ..Question::default() };
    assert!(error(&a, &dataset("b", |_| {}, &all), &loads).contains("full, tail"));
    let [foreign_series, _] = one([&[1.0, 2.0], &[1.0]], Measure::Throughput);
    let formula = foreign("F", foreign_series);
    let forced = Question { force: true, ..Question::default() };
    assert!(error(&a, &formula, &Question::default()).contains("measured by: weir in A, a formula in B"));
    assert!(error(&a, &formula, &forced).contains("weir, full; weir, tail"));
    let named = Question { load: Some("full".into()), ..forced };
    assert_eq!(compare(&a, &formula, &named).unwrap().points.len(), 1);
    let absent = Question {
        must_have: vec![Measure::Latency("p99")],
        measures: vec![Measure::Latency("p99")],
        ..named
    };
    assert!(error(&a, &formula, &absent).contains("`p99`"));
    let remedy = compare(&a, &formula, &absent).unwrap_err().remedy();
    assert!(remedy.ends_with("name one of throughput"), "{remedy}");
    assert_eq!(Dataset::of_run(&run(&["weir"], None), &all, Some("wier")).unwrap_err(), ["weir"]);
}

#[test]
fn two_gateways_of_one_run_are_compared_block_by_block() {
    // Values differ between blocks by a factor of up to 20, equally for both gateways.
    let cells: Vec<Cell> = (0..6)
        .flat_map(|repeat| {
            let rate = [10_000, 200_000, 40_000, 20_000, 90_000, 50_000][repeat as usize];
            let more = rate * 3 / 2 + rate / 100 * u64::from(repeat % 3);
            [cell("old", repeat, vec![full(rate)]), cell("new", repeat, vec![full(more)])]
        })
        .collect();
    let run = plan(run(&["old", "new"], None), &cells);
    let side = |gateway| Dataset::of_run(&run, &cells, Some(gateway)).unwrap();
    let (mut a, mut b) = (side("old"), side("new"));
    label_apart(&mut a, &mut b);
    assert_eq!((a.label.as_str(), b.label.as_str()), ("old 1.0", "new 1.0"));
    let comparison = compare(&a, &b, &Question::default()).unwrap();
    assert!(comparison.is_paired);
    assert_eq!(comparison.points[0].gateways, ["old", "new"].map(str::to_owned));
    assert_eq!(figure(&comparison, "full", "throughput").verdict, Some(Verdict::Better));
    assert!(comparison.points[0].figures.iter().all(|of| of.bias.is_none()), "they share direct");
    assert!(Margins::default().of(Measure::Throughput) < 0.5);
}

#[test]
fn a_gateway_is_not_compared_with_itself_in_the_whole_run() {
    let all = cells(1.0, 1.0);
    let run = plan(run(&["weir"], None), &all);
    let side = |gateway| Dataset::of_run(&run, &all, gateway).unwrap();
    let (whole, weir) = (side(None), side(Some("weir")));
    for (a, b) in [(&whole, &weir), (&weir, &whole), (&weir, &weir)] {
        let error = compare(a, b, &Question::default()).unwrap_err().to_string();
        assert!(error.starts_with("A and B are the same: gateway weir of run "), "{error}");
    }
}
