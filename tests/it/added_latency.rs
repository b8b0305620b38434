//! Rates as shares of the gateways' capacity, the second direct baseline (`twin`), and tables of added latency.

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::program::{finish, json, text, the_host, weir};
use crate::run::{assert_reconciled, measurements, outcomes};

const SHARES: &str = "\
name: shares
question: What does it add?
gateways: [weir, nginx]
limits: { data: { cpus: 0.5, memory: 256MiB } }
topology: { paths: [/a] }
origin: { body: 64B }
loads:
  get-5: { model: open, rate: 5%, mix: [{ path: /a }] }
  get-10: { model: open, rate: 10%, mix: [{ path: /a }] }
  create-5: { model: open, rate: 5%, of: greatest, mix: [{ path: /a, body: 'n-{seq}' }] }
  named: { model: open, rate: 123/s }
warmup: 100ms
duration: 400ms
twin: true
repeats: 1
";

const GATEWAYS: [&str; 2] = ["weir", "nginx"];
const LOADS: [&str; 4] = ["get-5", "get-10", "create-5", "named"];

fn written(folder: &Path, scenario: &str) -> PathBuf {
    let path = folder.join("shares.yaml");
    std::fs::write(&path, scenario).unwrap();
    path
}

fn run(folder: &Path, scenario: &str, arguments: &[&str]) -> Output {
    let path = written(folder, scenario);
    let mut all = vec!["run", path.to_str().unwrap(), "--db", "weir.db", "--out", "out", "--json"];
    all.extend(arguments);
    finish(weir(folder, &all))
}

/// The rate of a load in the stored scenario, per second.
fn kept_rate(result: &Value, load: &str) -> f64 {
    let rate = result["run"]["scenario"]["loads"][load]["rate"].as_str().unwrap();
    rate.strip_suffix("/s").unwrap_or_else(|| panic!("{load}: {rate}")).parse().unwrap()
}

fn pilots(output: &Output) -> usize {
    text(&output.stderr).lines().filter(|line| line.starts_with("pilot: ")).count()
}

#[test]
fn shares_of_capacity_become_stored_rates() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), SHARES, &[]);
    let result = json(&output);
    let pilot = &result["run"]["manifest"]["pilot"];
    let carried = pilot["carried"].as_array().unwrap();
    let tried = |gateway: &str, load: &str| {
        let is_meant = |one: &&Value| {
            one["gateway"] == gateway && one["loads"].as_array().unwrap().iter().any(|name| name == load)
        };
        carried.iter().filter(is_meant).map(|one| one["rate_per_s"].as_f64().unwrap()).collect::<Vec<_>>()
    };
    // Four pilots: two kinds of requests on each of two gateways. Loads that differ only in rate share a pilot.
    assert_eq!(carried.len(), 4, "{pilot}");
    assert_eq!(pilots(&output), 4, "{}", text(&output.stderr));
    let all = |load: &str| GATEWAYS.iter().flat_map(|gateway| tried(gateway, load)).collect::<Vec<f64>>();
    let least = all("get-5").into_iter().fold(f64::INFINITY, f64::min);
    let greatest = all("create-5").into_iter().fold(0.0, f64::max);
    for (load, of, share) in [("get-5", least, 0.05), ("get-10", least, 0.1), ("create-5", greatest, 0.05)] {
        let rate = kept_rate(&result, load);
        // Rounding to two significant digits changes a rate by at most 5 %.
        assert!((rate / (of * share) - 1.0).abs() <= 0.05, "{load}: {rate}/s of {of}/s");
        assert!(result["run"]["scenario"]["loads"][load].get("of").is_none());
    }
    assert_eq!(pilot["rates"].as_array().unwrap().len(), 3, "{pilot}");
    for gateway in GATEWAYS.into_iter().chain(["direct", "direct-twin"]) {
        let all = measurements(&result, gateway);
        assert_eq!(all.len(), LOADS.len(), "{gateway}");
        for (measurement, load) in all.into_iter().zip(LOADS) {
            assert_eq!(measurement["load"], load);
            assert_eq!(measurement["rate_per_s"].as_f64().unwrap(), kept_rate(&result, load));
            let who = if gateway == "direct-twin" { "direct" } else { gateway };
            assert_reconciled(measurement, who);
            assert!(measurement["record"]["result"]["status"]["200"].as_u64().unwrap() > 0, "{measurement}");
        }
    }
    assert_eq!(result["cells"].as_array().unwrap().len(), 4, "a pilot is no cell");

    // A second repeat uses the same rates without a new pilot.
    let again = ["run", "--resume", "last", "--repeats", "2", "--db", "weir.db", "--out", "out", "--json"];
    let output = finish(weir(folder.path(), &again));
    let more = json(&output);
    assert_eq!((pilots(&output), more["cells"].as_array().unwrap().len()), (0, 8));
    assert_eq!(&more["run"]["manifest"]["pilot"], pilot);
    for load in LOADS {
        assert_eq!(kept_rate(&more, load), kept_rate(&result, load));
    }
}

#[test]
fn the_twin_is_no_gateway_and_every_repeat_has_a_row() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let scenario = SHARES.replace("5%", "200/s").replace("10%", "400/s").replace(", of: greatest", "");
    let result = json(&run(folder.path(), &scenario, &["--repeats", "2"]));
    assert!(result["run"]["manifest"].get("pilot").is_none(), "fixed rates need no pilot");
    let summary = &result["summary"];
    let names: Vec<&str> = summary["gateways"]
        .as_array()
        .unwrap()
        .iter()
        .map(|gateway| gateway["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["weir", "nginx", "direct"]);
    for point in summary["points"].as_array().unwrap() {
        let rows: Vec<&str> =
            point["rows"].as_array().unwrap().iter().map(|row| row["gateway"].as_str().unwrap()).collect();
        assert_eq!(rows, ["weir", "nginx", "direct"], "{}", point["load"]);
        let median = &point["bias"]["difference_ns"][1];
        assert_eq!((&median[0], median[1]["repeats"].as_array().unwrap().len()), (&Value::from("p50"), 2));
    }
    assert_eq!(outcomes(&result, "direct-twin").len(), 2);

    let added = &summary["added"];
    let rows = added["repeats"].as_array().unwrap();
    // Two gateways and two direct cells, times four loads, times two repeats.
    assert_eq!(rows.len(), 32);
    for row in rows {
        let is_baseline = row["gateway"].as_str().unwrap().starts_with("direct");
        assert_eq!(row["gateway_per_s"].is_null(), is_baseline, "{row}");
        assert!(row["upstream_per_s"].is_number(), "{row}");
        assert_eq!(row["authentication"], "none");
    }
    // On a busy host, a short load can end before its first request arrives.
    for gateway in ["weir", "nginx", "direct", "direct-twin"] {
        let of_gateway = rows.iter().filter(|row| row["gateway"] == gateway);
        let received: f64 = of_gateway.map(|row| row["upstream_per_s"].as_f64().unwrap()).sum();
        assert!(received > 0.0, "{gateway}: {rows:?}");
    }
    let curves: Vec<(&str, usize)> = added["curves"]
        .as_array()
        .unwrap()
        .iter()
        .map(|curve| (curve["title"].as_str().unwrap(), curve["points"].as_array().unwrap().len()))
        .collect();
    assert_eq!(curves, [("get", 2), ("create-5", 1), ("named", 1)]);

    let report = std::fs::read_to_string(folder.path().join("out/report.md")).unwrap();
    for columns in [
        "| Client QPS | Gateway | Added mean | Added p50 | Added p90 | Added p99 | Added p99.9 | Significant | Valid repeats |",
        "| Gateway | Case | Repeat | Client QPS | Authentication | min | mean | P50 | P90 | P95 | P99 | max | Gateway throughput | Upstream throughput | Verdict |",
        "the rig (A/A)",
        "charts/added-p50-over-asked-rate.svg",
    ] {
        assert!(report.contains(columns), "{columns}");
    }
    let html = std::fs::read_to_string(folder.path().join("out/report.html")).unwrap();
    assert!(html.contains("id=\"added-latency\"") && html.contains("id=\"added-p99-over-asked-rate\""));
    let table = std::fs::read_to_string(folder.path().join("out/findings.csv")).unwrap();
    assert_eq!(table.lines().filter(|line| line.contains(",latency_min,ns,")).count(), 32);
}

#[test]
fn a_plan_mentions_the_pilot() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), SHARES);
    let output = finish(weir(folder.path(), &["run", path.to_str().unwrap(), "--plan"]));
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(said.contains("(pilot: "), "{said}");
    assert!(said.contains("rates of get-5, get-10, create-5 are shares of a capacity"), "{said}");
    let output = finish(weir(folder.path(), &["run", path.to_str().unwrap(), "--plan", "--json"]));
    let plan = json(&output);
    assert!(plan["pilot_s"].as_f64().unwrap() > 0.0, "{plan}");
    assert_eq!(plan["cells"].as_array().unwrap().len(), 4);
}

#[test]
fn a_share_needs_a_gateway_that_completes_requests() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let gone = "[{ name: gone, driver: nginx, binary: /nonexistent/nginx }]";
    let output = run(folder.path(), &SHARES.replace("[weir, nginx]", gone), &[]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("pilot: gone failed: binary-missing"), "{said}");
    assert!(
        said.contains("loads.get-5.rate: cannot compute 5% of the capacity: the pilot could not measure it"),
        "{said}"
    );
    let runs = json(&finish(weir(folder.path(), &["runs", "--db", "weir.db", "--json"])));
    assert_eq!(runs.as_array().unwrap().len(), 0, "a run that could not begin leaves no trace");
}

#[test]
fn the_cost_of_authentication_is_compared_with_direct_cells_with_tls() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let scenario = "name: shown\ngateways: [weir, nginx]\ntopology: { paths: [/a] }\norigin: { body: 64B }\n\
         loads: { get: { model: open, rate: 200/s, mix: [{ path: /a }] } }\n\
         cases: [{ topology.tls: false }, { topology.tls: true }, \
         { topology.tls: true, topology.client_certificate: required }, { topology.tls: true, topology.bearer: 3 }]\n\
         warmup: 100ms\nduration: 400ms\ntwin: true\nrepeats: 1\n";
    let result = json(&run(folder.path(), scenario, &[]));
    for gateway in GATEWAYS.into_iter().chain(["direct", "direct-twin"]) {
        for measurement in measurements(&result, gateway) {
            assert_reconciled(measurement, if gateway == "direct-twin" { "direct" } else { gateway });
            assert_eq!(measurement["record"]["result"]["requests"]["unexpected"], 0, "{gateway}");
        }
    }
    let added = &result["summary"]["added"];
    let said = |of_direct: bool| {
        let rows = added["repeats"].as_array().unwrap().iter();
        let rows = rows.filter(|row| row["gateway"].as_str().unwrap().starts_with("direct") == of_direct);
        let mut said: Vec<&str> = rows.map(|row| row["authentication"].as_str().unwrap()).collect();
        said.sort_unstable();
        said.dedup();
        said
    };
    assert_eq!(said(false), ["TLS", "TLS client certificate", "TLS, bearer token", "none"]);
    assert_eq!(said(true), ["TLS", "none"]);
    let costs = added["costs"].as_array().unwrap();
    let mut ways: Vec<&str> = costs.iter().map(|cost| cost["authentication"].as_str().unwrap()).collect();
    ways.sort_unstable();
    assert_eq!(ways, ["TLS", "TLS client certificate", "TLS, bearer token"]);
    for cost in costs {
        let rows = cost["rows"].as_array().unwrap().iter().map(|row| row["gateway"].as_str().unwrap());
        assert_eq!(rows.collect::<Vec<_>>(), ["weir", "nginx", "direct"], "{cost}");
    }
}
