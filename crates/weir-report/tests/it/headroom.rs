//! Headroom in every format: curves from several rates, and changes of routes.

use std::path::Path;

use weir_analysis::{Summary, summarize};
use weir_results::{Cell, CellOutcome, Changed, RouteChange, Run};

use crate::fixture::{self, Scene};

/// Rates of the open load, in requests per second.
const RATES: [u32; 7] = [500, 1_500, 2_500, 3_500, 4_500, 5_500, 6_500];
/// Throughput per second at which the gateways saturate.
const LIMIT_PER_S: f64 = 7_000.0;

/// The good run with the open load at several rates. Routes change during the load with the last rate.
fn climbing() -> (Run, Vec<Cell>, Summary) {
    let (mut run, mut cells) = fixture::run(Scene::Good, &[0.5]);
    for cell in &mut cells {
        let CellOutcome::Measured { measurements } = &mut cell.outcome else { panic!("it was measured") };
        let tail = measurements.remove(1);
        let p50_ns = tail.record.result.latency_ns.p50.expect("it was measured") as f64;
        for rate in RATES {
            let mut measurement = tail.clone();
            measurement.load = format!("tail-{rate}");
            measurement.rate_per_s = Some(f64::from(rate));
            let result = &mut measurement.record.result;
            result.rate_per_s = f64::from(rate);
            let grown_ns = p50_ns * (0.5 + 1_000.0 / (LIMIT_PER_S - f64::from(rate)));
            let times = &mut result.latency_ns;
            for (time, factor) in [(&mut times.p50, 1.0), (&mut times.p90, 1.5), (&mut times.p99, 3.0)] {
                *time = Some((grown_ns * factor) as u64);
            }
            if Some(rate) == RATES.last().copied() && cell.key.gateway != "direct" {
                let change = |t_s, routes_added| RouteChange {
                    t_s,
                    sustained: true,
                    what: Changed::Routes,
                    routes_added,
                    routes: 2,
                    seen_after_ns: 30_000_000,
                };
                measurement.route_changes = vec![change(4.0, 1), change(8.0, -1)];
            }
            measurements.push(measurement);
        }
    }
    run.scenario["loads"]["tail"] =
        serde_json::json!({ "model": "open", "rates": RATES.map(|rate| format!("{rate}/s")) });
    let summary = summarize(&run, &cells);
    (run, cells, summary)
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn a_curve_has_its_tables_sentences_and_pictures() {
    let (run, cells, summary) = climbing();
    let folder = tempfile::tempdir().unwrap();
    let written = weir_report::write(&run, &cells, &summary, folder.path()).unwrap();
    let markdown = read(&written.markdown);
    for words in [
        "## Headroom",
        "Latency by throughput: tail",
        "Fitted curves and knees",
        "Cost of changes of routes",
        "the knee of p99 is at",
        "6 changes of routes in load `tail-6500`",
        "charts/headroom-tail.svg",
    ] {
        assert!(markdown.contains(words), "no `{words}` in {markdown}");
    }
    let curve = read(&folder.path().join("charts/headroom-tail.svg"));
    for words in ["weir, fitted", "weir, knee", "p99", "500/s offered, throughput 500/s"] {
        assert!(curve.contains(words), "no `{words}` in the curve");
    }
    for chart in ["headroom-over-time-cpu", "headroom-over-time-throughput", "headroom-over-time-p99"] {
        let svg = read(&folder.path().join(format!("charts/{chart}.svg")));
        assert!(svg.contains("nginx, routes change"), "{chart}");
    }
    // A single rate, such as `tail-500`, has no chart.
    assert!(!markdown.contains("Latency by throughput: tail-500"), "{markdown}");
    let html = read(&written.html);
    for words in ["id=\"headroom\"", "id=\"headroom-tail\"", "routes change at 4 s"] {
        assert!(html.contains(words), "no `{words}` in the page");
    }
    assert!(html.find("id=\"headroom-tail\"") < html.find("id=\"point-0\""), "the curve comes first");
}

#[test]
fn changes_are_marked_in_the_series_of_their_load_and_cell() {
    let (run, cells, summary) = climbing();
    let folder = tempfile::tempdir().unwrap();
    weir_report::write(&run, &cells, &summary, folder.path()).unwrap();
    let last = summary.points.len() - 1;
    let series = |at: usize| read(&folder.path().join(format!("charts/point-{at}-rate-per-s.svg")));
    assert!(series(last).contains("weir, routes change"));
    assert!(!series(last - 1).contains("routes change"));
    let cell = cells.iter().find(|cell| cell.key.gateway == "weir").unwrap();
    let page = format!("cells/{:03}-weir-{}.html", cell.key.index + 1, cell.key.repeat + 1);
    assert!(read(&folder.path().join(page)).contains("weir, routes change"));
}

#[test]
fn a_change_that_the_first_check_finds_is_not_printed_as_zero_time() {
    let (run, mut cells, _) = climbing();
    let measured = cells.iter_mut().filter_map(|cell| match &mut cell.outcome {
        CellOutcome::Measured { measurements } => Some(measurements),
        CellOutcome::Failed { .. } => None,
    });
    for change in measured.flatten().flat_map(|measurement| &mut measurement.route_changes) {
        (change.what, change.seen_after_ns) = (Changed::Endpoints, 0);
    }
    let text = weir_report::markdown(&run, &cells, &summarize(&run, &cells));
    assert!(text.contains("| endpoints | 6 | at the first check | at the first check |"), "{text}");
    assert!(
        text.contains("6 changes of endpoints in load `tail-6500`, effective at the first check; "),
        "{text}"
    );
    assert!(!text.contains("0 ns"), "{text}");
}

#[test]
fn a_terminal_has_the_section_too() {
    let (run, cells, summary) = climbing();
    let text = weir_report::terminal(&run, &cells, &summary, 120, false);
    assert!(text.contains("Headroom") && text.contains("Latency by throughput: tail"), "{text}");
}
