//! Gateways with TLS, client certificates and bearer tokens: handshakes, resumed sessions and rendered files.

use serde_json::Value;

use crate::program::{finish, json, text, the_host, weir};
use crate::run::{assert_reconciled, measurements, run};

const ALL: &str = "[weir, nginx, haproxy, envoy]";
const SUITE: &str = "TLS 1.3 TLS13_AES_128_GCM_SHA256 X25519 http/1.1";

/// All measurements of `gateway`, after a check that counters agree and no request failed.
fn good<'a>(result: &'a Value, gateway: &str) -> Vec<&'a Value> {
    let all = measurements(result, gateway);
    for measurement in &all {
        assert_reconciled(measurement, gateway);
        let requests = &measurement["record"]["result"]["requests"];
        assert_eq!(
            (&requests["unexpected"], &requests["failed"]),
            (&0.into(), &0.into()),
            "{gateway}: {requests}"
        );
    }
    all
}

#[test]
fn every_gateway_negotiates_the_same_tls_and_requires_the_same_tokens() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let set = ["topology.tls=true", "topology.client_certificate=required", "topology.bearer=3"];
    let set = set.iter().flat_map(|set| ["--set", set]).chain(["--repeats", "1"]);
    let output = run(folder.path(), ALL, "", &set.collect::<Vec<_>>());
    let result = json(&output);
    // In direct measurements the upstream negotiates the same TLS.
    for gateway in ["weir", "nginx", "haproxy", "envoy", "direct"] {
        for measurement in good(&result, gateway) {
            let tls = &measurement["record"]["result"]["tls"];
            assert!(tls["handshakes"].as_u64().unwrap() > 0, "{gateway}: {tls}");
            assert_eq!(tls["failed"], 0, "{gateway}: {tls}");
            let negotiated: Vec<&String> = tls["negotiated"].as_object().unwrap().keys().collect();
            assert_eq!(negotiated, [SUITE], "{gateway}");
        }
    }
    let kept = result["cells"].to_string();
    assert!(!kept.contains("PRIVATE KEY"), "a private key is stored with the run");
    let report = std::fs::read_to_string(folder.path().join("out/report.md")).unwrap();
    let suite = SUITE.replace('_', "\\_");
    assert!(report.contains(&format!("**TLS**: {suite}\n")), "{report}");
}

#[test]
fn sessions_are_resumed_at_every_gateway() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let more = "cases:\n- { loads.full.per_connection: 5 }\n\
                - { loads.full.per_connection: 5, loads.full.tls.resumption: off }\n";
    let set = ["--set", "topology.tls=true", "--set", "topology.domains=3", "--repeats", "1"];
    let output = run(folder.path(), ALL, more, &set);
    let result = json(&output);
    for gateway in ["weir", "nginx", "haproxy", "envoy"] {
        let cells =
            result["cells"].as_array().unwrap().iter().filter(|cell| cell["key"]["gateway"] == gateway);
        for cell in cells {
            let measurement = &cell["outcome"]["measurements"][0];
            assert_reconciled(measurement, gateway);
            let tls = &measurement["record"]["result"]["tls"];
            let count = |name: &str| tls[name].as_u64().unwrap();
            let is_off = !cell["key"]["axes"]["loads.full.tls.resumption"].is_null();
            assert_eq!(count("resumed") == 0, is_off, "{gateway}: {tls}");
            // The first session of each server name cannot be resumed, and each ticket is used once.
            assert!(
                count("handshakes") > 10 && (is_off || count("resumed") * 2 > count("handshakes")),
                "{gateway}: {tls}"
            );
        }
    }
}

#[test]
fn rendered_configurations_include_their_certificates() {
    let folder = tempfile::tempdir().unwrap();
    for (gateway, file, words) in [
        ("weir", "weir.yaml", "client_ca:"),
        ("nginx", "nginx.conf", "ssl_verify_client on;"),
        ("haproxy", "haproxy.cfg", "verify required"),
        ("envoy", "envoy.yaml", "require_client_certificate: true"),
    ] {
        let out = folder.path().join(gateway);
        let arguments = ["render", "side-by-side", "--gateway", gateway, "--out", out.to_str().unwrap()];
        let set = ["topology.tls=true", "topology.client_certificate=required", "topology.bearer=2"];
        let set = set.iter().flat_map(|set| ["--set", set]);
        let output = finish(weir(folder.path(), &arguments.into_iter().chain(set).collect::<Vec<_>>()));
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(std::fs::read_to_string(out.join(file)).unwrap().contains(words), "{gateway}");
        for certificate in ["ca.pem", "server.pem", "server.pem.key", "client.pem", "client.pem.key"] {
            let path = out.join("tls").join(certificate);
            assert!(
                path.is_file() && text(&output.stdout).contains(path.to_str().unwrap()),
                "{}",
                path.display()
            );
        }
    }
}
