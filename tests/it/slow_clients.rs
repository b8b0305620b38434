//! Measures slow clients beside a load: their requests complete, and the load is not affected.

use serde_json::Value;

use crate::program::{finish, json, text, the_host, weir};
use crate::run::{assert_reconciled, measurements};

const SCENARIO: &str = "\
name: it-slow
question: Who waits for whom?
gateways: [weir, nginx, haproxy, envoy]
limits: { data: { cpus: 0.5, memory: 512MiB } }
origin: { echo: true }
loads:
  alone: { model: open, rate: 100/s, connections: 8 }
  beside: { model: open, rate: 100/s, connections: 8 }
slow: { heads: 5, bodies: 6, responses: 7, piece: 64B, every: 10ms, body: 1KiB, loads: [beside] }
warmup: 300ms
duration: 1500ms
timeout: 10s
repeats: 1
retries: 0
";

#[test]
fn slow_clients_and_the_concurrent_load_get_responses() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("slow.yaml"), SCENARIO).unwrap();
    let output =
        finish(weir(folder.path(), &["run", "slow.yaml", "--db", "weir.db", "--out", "out", "--json"]));
    let result = json(&output);
    let count = |of: &Value, name: &str| of[name].as_u64().unwrap_or_else(|| panic!("no {name}: {of}"));
    for gateway in ["weir", "nginx", "haproxy", "envoy"] {
        let all = measurements(&result, gateway);
        let [alone, beside] = all.as_slice() else { panic!("two loads of {gateway}: {all:?}") };
        assert!(alone["slow"].is_null(), "{gateway}: {alone}");
        assert_reconciled(alone, gateway);
        assert!(
            beside["counters"]["gateway_requests"].is_null(),
            "gateways count slow requests at different times"
        );
        for (kind, connections) in [("heads", 5), ("bodies", 6), ("responses", 7)] {
            let counts = &beside["slow"][kind];
            assert_eq!(count(counts, "connections"), connections, "{gateway}: {counts}");
            assert!(count(counts, "answered") > 0, "{gateway}, {kind}: {counts}");
            let ends = ["answered", "unexpected", "broken", "open_at_end"].map(|name| count(counts, name));
            assert_eq!(count(counts, "opened"), ends.iter().sum::<u64>(), "{gateway}, {kind}: {counts}");
            for wrong in ["unexpected", "broken", "refused"] {
                assert_eq!(count(counts, wrong), 0, "{gateway}, {kind}: {counts}");
            }
        }
        let whole = &beside["record"]["whole"];
        for wrong in ["failed", "timed_out", "dropped", "unexpected"] {
            assert_eq!(count(whole, wrong), 0, "{gateway}: {whole}");
        }
    }
    assert!(measurements(&result, "direct").iter().all(|measurement| measurement["slow"].is_null()));
    let costs = result["summary"]["slow"].as_array().unwrap();
    assert_eq!(costs.len(), 4, "{costs:?}");
    assert!(costs.iter().all(|cost| cost["alone"]["load"] == "alone"), "{costs:?}");
    let report = std::fs::read_to_string(folder.path().join("out/report.md")).unwrap();
    for words in ["## Slow clients", "Cost of slow clients", "Outcomes of slow clients"] {
        assert!(report.contains(words), "{words}: {report}");
    }
}

#[test]
fn slow_clients_of_gateways_with_tls_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("slow.yaml"), format!("{SCENARIO}topology: {{ tls: true }}\n"))
        .unwrap();
    let output = finish(weir(folder.path(), &["run", "slow.yaml", "--plan"]));
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("slow clients send plain HTTP, but the gateways listen for TLS"), "{error}");
}
