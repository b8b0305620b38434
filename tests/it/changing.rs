//! Measures configuration changes of running gateways: routes, endpoints and certificates in turn. Each change must
//! take effect.

use serde_json::Value;

use crate::program::{finish, json, the_host, weir};
use crate::run::{assert_reconciled, measurements};

const SCENARIO: &str = "\
name: it-changing
question: Who notices?
gateways: [weir, nginx, haproxy, envoy]
limits: { data: { cpus: 0.5, memory: 512MiB } }
topology: { tls: true }
origin: { replicas: 2, body: 64B }
loads:
  quiet: { model: open, rate: 200/s, connections: 8, duration: 1s }
  changing: { model: open, rate: 200/s, connections: 8 }
changes: { every: 700ms, of: [routes, endpoints, certificates], loads: [changing] }
warmup: 200ms
duration: 6s
timeout: 10s
repeats: 1
retries: 0
";

/// The kind of a change; the default is `routes`.
fn what(change: &Value) -> &str {
    change["what"].as_str().unwrap_or("routes")
}

#[test]
fn routes_endpoints_and_certificates_change_in_turn_and_weir_loses_no_request() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("changing.yaml"), SCENARIO).unwrap();
    let output =
        finish(weir(folder.path(), &["run", "changing.yaml", "--db", "weir.db", "--out", "out", "--json"]));
    let result = json(&output);
    for gateway in ["weir", "nginx", "haproxy", "envoy"] {
        let all = measurements(&result, gateway);
        let [quiet, changing] = all.as_slice() else { panic!("two loads of {gateway}: {all:?}") };
        assert!(quiet["route_changes"].is_null(), "{gateway}: {quiet}");
        let changes = changing["route_changes"].as_array().unwrap();
        // A slow host may skip changes but never reorders them.
        assert!(!changes.is_empty(), "no change of {gateway}");
        for (place, change) in changes.iter().enumerate() {
            assert_eq!(
                what(change),
                ["routes", "endpoints", "certificates"][place % 3],
                "{gateway}: {change}"
            );
            assert!(change["seen_after_ns"].as_u64().is_some(), "{change}");
            let has_more = matches!(place % 6, 0..3);
            assert_eq!(change["routes"], 1 + u64::from(has_more), "{gateway}: {place}: {change}");
        }
        if gateway == "weir" {
            let whole = &changing["record"]["whole"];
            for wrong in ["failed", "timed_out", "dropped", "unexpected"] {
                assert_eq!(whole[wrong], 0, "{wrong}: {whole}");
            }
            assert_reconciled(changing, gateway);
        }
    }
    let costs = result["summary"]["headroom"]["change_costs"].as_array().unwrap();
    assert_eq!(costs.len(), 4, "{costs:?}");
    for cost in costs {
        assert_eq!(cost["quiet"]["load"], "quiet", "{cost}");
        assert!(cost["quiet"]["sent"].as_u64().unwrap() > 0, "{cost}");
        assert!(!cost["in_force"].as_array().unwrap().is_empty(), "{cost}");
    }
    let report = std::fs::read_to_string(folder.path().join("out/report.md")).unwrap();
    for words in [
        "## Changes under load",
        "Cost of changes",
        "With and without changes",
        "Time until changes take effect",
    ] {
        assert!(report.contains(words), "{words}: {report}");
    }
    let svg = std::fs::read_to_string(folder.path().join("out/charts/changes-wrong-changing.svg")).unwrap();
    assert!(svg.contains("routes change") && svg.contains("haproxy"), "{svg}");
}
