//! JUnit output of the objective, and tables with the number of instances, for a synthetic run.

use weir_analysis::sizing::{Bound, Demand, Price, PriceOf, size};
use weir_analysis::summarize;
use weir_results::{CellOutcome, Reason};

use crate::fixture::{self, Scene};

fn demand(rate_per_s: f64) -> Demand {
    Demand {
        rate_per_s,
        bounds: None,
        cpu_share_max: None,
        spare: 0,
        price: None,
        growth_per_year: None,
        extrapolate: false,
    }
}

fn sizing(scene: Scene, cpus: &[f64], demand: Demand, width: usize) -> String {
    let (run, cells) = fixture::run(scene, cpus);
    let sizing = size(&run, &summarize(&run, &cells), demand);
    weir_report::sizing(&run, &sizing, width, false)
}

#[test]
fn missed_and_undecided_objectives_and_failed_cells_as_junit() {
    let (run, cells) = fixture::run(Scene::Mixed, &[0.5]);
    let tests = weir_report::junit(&run, &summarize(&run, &cells)).unwrap();
    insta::assert_snapshot!(tests);
}

#[test]
fn errors_under_host_noise_are_a_failure_and_not_skipped() {
    let (run, mut cells) = fixture::run(Scene::Good, &[0.5]);
    for cell in cells.iter_mut().filter(|cell| cell.key.gateway == "nginx") {
        let CellOutcome::Measured { measurements } = &mut cell.outcome else { panic!("it was measured") };
        for measurement in measurements {
            let requests = &mut measurement.record.result.requests;
            requests.unexpected = requests.completed / 5;
            measurement.judgement.bounds = None;
            let verdicts = &mut measurement.judgement.verdicts;
            for reasons in [&mut verdicts.throughput, &mut verdicts.latency, &mut verdicts.cpu] {
                *reasons = vec![Reason::HostNoise, Reason::Errors];
            }
        }
    }
    let tests = weir_report::junit(&run, &summarize(&run, &cells)).unwrap();
    let failures = tests
        .matches("<failure message=\"errors at most 0.100 %: 20.0 % [20.0 .. 20.0], met in 0 of 3 repeats");
    assert_eq!(failures.count(), 2, "one for each load: {tests}");
    let why =
        "undecided: host-noise in 3 of 3 repeats, errors in 3 of 3 repeats\" type=\"objective-unknown\"/>";
    let skipped: Vec<&str> = tests.lines().filter(|line| line.contains("<skipped")).collect();
    assert_eq!(skipped.len(), 1, "{tests}");
    assert!(skipped[0].contains("p99 at most 20.0 ms: (") && skipped[0].ends_with(why), "{skipped:?}");
}

#[test]
fn markup_in_a_failure_is_no_markup() {
    let (mut run, cells) = fixture::run(Scene::Mixed, &[0.5]);
    run.name = "</testsuites><x y=\"\u{1b}[31m".into();
    let tests = weir_report::junit(&run, &summarize(&run, &cells)).unwrap();
    assert_eq!(tests.matches("</testsuites>").count(), 1, "{tests}");
    assert!(!tests.contains("<x") && !tests.contains('\u{1b}'), "{tests}");
}

fn everything() -> Demand {
    Demand {
        bounds: Some(vec![Bound { name: "p999".into(), limit: 2.6e6 }]),
        cpu_share_max: Some(0.6),
        spare: 1,
        price: Some(Price { per_hour: 0.04, of: PriceOf::Core }),
        growth_per_year: Some(0.3),
        extrapolate: true,
        ..demand(40_000.0)
    }
}

#[test]
fn a_sizing_with_everything_on_a_terminal() {
    insta::assert_snapshot!(sizing(Scene::Good, &[0.5, 1.0], everything(), 150));
}

#[test]
fn a_narrow_sizing_keeps_all_requested_columns() {
    let drawn = sizing(Scene::Good, &[0.5, 1.0], everything(), 80);
    // In a narrow table, the words of a title are on separate lines.
    for title in ["CPU %", "Instances", "In 12", "In 24", "Cost per", "month", "million"] {
        assert!(drawn.contains(title), "{title}: {drawn}");
    }
}

#[test]
fn a_sizing_on_a_narrow_terminal() {
    insta::assert_snapshot!(sizing(Scene::Mixed, &[0.5], demand(40_000.0), 80));
}

#[test]
fn no_line_of_a_sizing_is_wider_than_the_terminal() {
    for width in [80, 100, 140] {
        for line in sizing(Scene::Mixed, &[0.5, 1.0], demand(40_000.0), width).lines() {
            assert!(line.chars().count() <= width, "{} > {width}: {line}", line.chars().count());
        }
    }
}
