//! Measures new connections: one per request, with and without TLS. Also checks their section in the report.

use serde_json::Value;

use crate::program::{finish, json, the_host, weir};
use crate::run::{assert_reconciled, measurements};

const CONNECTIONS: u64 = 4;

fn scenario() -> String {
    format!(
        "name: it-storm\ngateways: [weir, nginx, haproxy, envoy]\n\
         limits: {{ data: {{ cpus: 0.5, memory: 512MiB }} }}\norigin: {{ body: 64B }}\n\
         loads:\n  storm: {{ model: closed, connections: {CONNECTIONS}, per_connection: 1 }}\n  \
         kept: {{ model: closed, connections: {CONNECTIONS} }}\n\
         cases:\n  - {{ topology: {{ tls: false }} }}\n  \
         - {{ topology: {{ tls: true }}, loads: {{ storm: {{ tls: {{ resumption: off }} }} }} }}\n\
         warmup: 100ms\nduration: 500ms\nrepeats: 1\nretries: 0\n"
    )
}

fn count(of: &Value, name: &str) -> u64 {
    of[name].as_u64().unwrap_or_else(|| panic!("no {name}: {of}"))
}

#[test]
fn each_request_opens_its_own_connection_with_and_without_tls() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("storm.yaml"), scenario()).unwrap();
    let output =
        finish(weir(folder.path(), &["run", "storm.yaml", "--db", "weir.db", "--out", "out", "--json"]));
    let result = json(&output);
    for gateway in ["weir", "nginx", "haproxy", "envoy", "direct"] {
        let all = measurements(&result, gateway);
        assert_eq!(all.len(), 4, "two loads at two points of {gateway}");
        for measurement in all {
            assert_reconciled(measurement, gateway);
            let opened = count(&measurement["record"]["generator"], "connections_opened");
            let sent = count(&measurement["counters"], "generator_sent");
            match measurement["load"].as_str().unwrap() {
                // Connections may be open without a request when the load ends.
                "storm" => {
                    assert!((sent..=sent + CONNECTIONS).contains(&opened), "{gateway}: {opened} for {sent}");
                }
                _ => assert_eq!(opened, CONNECTIONS, "{gateway}"),
            }
        }
    }
    let found = result["summary"]["new_connections"].as_array().unwrap();
    assert_eq!(found.len(), 2, "one load at two points: {found:?}");
    for load in found {
        let is_secure = load["axes"]["topology.tls"] == true;
        assert_eq!((&load["load"], &load["per_connection"]), (&"storm".into(), &1.into()), "{load}");
        let rows = load["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 5, "{load}");
        for row in rows {
            assert!(row["per_s"]["mean"].as_f64().unwrap() > 0.0, "{row}");
            assert_eq!(row["handshake_p99_ns"].is_object(), is_secure, "{row}");
            assert_eq!(row["failed"], 0, "{row}");
        }
    }
    let report = std::fs::read_to_string(folder.path().join("out/report.md")).unwrap();
    for words in ["## New connections", "one request each", "Handshake p99"] {
        assert!(report.contains(words), "{words}: {report}");
    }
}
