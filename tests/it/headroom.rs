//! Measures headroom: several rates against the same processes, few and many routes, route changes under load.

use serde_json::Value;

use crate::program::{finish, json, text, the_host, weir};
use crate::run::{assert_reconciled, measurements};

const SCENARIO: &str = "\
name: it-headroom
question: What do rates, routes and their changes cost?
gateways: [weir, nginx]
limits: { data: { cpus: 0.5, memory: 512MiB }, origin: { cpus: 1 } }
topology: { paths: 1 }
origin: { body: 64B }
loads:
  curve: { model: open, rates: 100/s..300/s..3, connections: 4, duration: 300ms }
  changing: { model: open, rate: 200/s, connections: 4, duration: 2500ms }
changes: { every: 400ms, loads: [changing] }
warmup: 100ms
timeout: 10s
vary: { topology.paths: [1, 1000] }
repeats: 1
";

fn changes(measurement: &Value) -> &[Value] {
    measurement["route_changes"].as_array().map_or(&[], Vec::as_slice)
}

#[test]
fn rates_form_a_curve_and_route_changes_lose_no_request() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("headroom.yaml"), SCENARIO).unwrap();
    let output =
        finish(weir(folder.path(), &["run", "headroom.yaml", "--db", "weir.db", "--out", "out", "--json"]));
    let result = json(&output);
    for gateway in ["weir", "nginx", "direct"] {
        let all = measurements(&result, gateway);
        let names: Vec<&str> = all.iter().map(|measured| measured["load"].as_str().unwrap()).collect();
        let of_a_cell = ["curve-100", "curve-200", "curve-300", "changing"];
        assert_eq!(names, of_a_cell.repeat(2), "four loads at two points of {gateway}");
        for measurement in all {
            assert_reconciled(measurement, gateway);
            if measurement["load"] != "changing" || gateway == "direct" {
                assert!(changes(measurement).is_empty(), "{gateway}: {measurement}");
                continue;
            }
            // weir records a change only if a request sees its effect, so a slow host may have fewer records.
            let changes = changes(measurement);
            assert!(!changes.is_empty(), "no change of {gateway}");
            for (place, change) in changes.iter().enumerate() {
                let added = change["routes_added"].as_i64().unwrap();
                assert_eq!(added, if place % 2 == 0 { 1 } else { -1 }, "{change}");
                assert!(change["seen_after_ns"].as_u64().unwrap() > 0, "{change}");
                assert!([1, 2, 1_000, 1_001].contains(&change["routes"].as_i64().unwrap()), "{change}");
            }
            // weir promises a reload without a lost request.
            let requests = &measurement["record"]["whole"];
            for wrong in ["failed", "timed_out", "dropped", "unexpected"] {
                assert!(gateway != "weir" || requests[wrong] == 0, "{wrong}: {requests}");
            }
        }
    }
    let headroom = &result["summary"]["headroom"];
    let curves = headroom["curves"].as_array().unwrap();
    assert_eq!(curves.len(), 6, "two gateways and direct at two points");
    for curve in curves {
        assert_eq!((curve["load"].as_str(), curve["spots"].as_array().unwrap().len()), (Some("curve"), 3));
    }
    let costs = headroom["change_costs"].as_array().unwrap();
    assert_eq!(costs.len(), 4, "two gateways at two points: {costs:?}");
    let report = std::fs::read_to_string(folder.path().join("out/report.md")).unwrap();
    for words in ["## Headroom", "Latency by throughput: curve", "Cost of changes of routes"] {
        assert!(report.contains(words), "{words}: {report}");
    }
    let charts = folder.path().join("out/charts");
    for chart in ["headroom-over-time-cpu.svg", "headroom-over-time-throughput.svg"] {
        let svg = std::fs::read_to_string(charts.join(chart)).unwrap();
        assert!(svg.contains("weir, routes change"), "{chart}");
    }
}

#[test]
fn a_driver_that_cannot_change_routes_is_rejected_before_the_run_starts() {
    let folder = tempfile::tempdir().unwrap();
    let driver = folder.path().join("still");
    std::fs::create_dir(&driver).unwrap();
    let file = "about: one that never changes\n\
                binary: { name: sh, version: { args: [-c, 'echo sh 1'], after: 'sh ' }, get: install a shell }\n\
                processes: [{ name: still, role: data, command: ['{{ binary }}'] }]\n\
                steps: [{ start: still }]\n";
    std::fs::write(driver.join("driver.yaml"), file).unwrap();
    let scenario = "name: x\ngateways: [still]\nloads: { full: { model: closed } }\nchanges: { every: 1s }\n";
    std::fs::write(folder.path().join("x.yaml"), scenario).unwrap();
    let output = finish(weir(folder.path(), &["run", "x.yaml", "--drivers", "still", "--db", "weir.db"]));
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(
        error.contains("the driver has no `apply`, so weir cannot change the running gateway"),
        "{error}"
    );
    assert!(!folder.path().join("weir.db").exists(), "the run has started");
}
