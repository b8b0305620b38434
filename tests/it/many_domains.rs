//! Many domains with one certificate each: presented certificates, handshake counts, and cold starts.

use serde_json::Value;

use crate::program::{finish, json, text, the_host, weir};
use crate::run::{assert_reconciled, measurements};

const GATEWAYS: [&str; 4] = ["weir", "nginx", "haproxy", "envoy"];
const CONNECTIONS: u64 = 4;
const DOMAINS: [u64; 2] = [1, 12];

fn scenario() -> String {
    let load = format!("model: closed, connections: {CONNECTIONS}, popularity: zipf");
    format!(
        "name: many\ngateways: [{}]\nlimits: {{ data: {{ cpus: 0.5, memory: 512MiB }} }}\n\
         topology: {{ paths: 3, tls: true, certificates: each, rewrite: / }}\norigin: {{ body: 64B }}\n\
         cold_start: true\nloads:\n  kept: {{ {load} }}\n  \
         handshake: {{ {load}, per_connection: 1, tls: {{ resumption: off }} }}\n  \
         resumed: {{ {load}, per_connection: 1 }}\n\
         cases: [{{ topology.domains: {} }}, {{ topology.domains: {} }}]\n\
         warmup: 100ms\nduration: 500ms\nrepeats: 1\nretries: 0\n",
        GATEWAYS.join(", "),
        DOMAINS[0],
        DOMAINS[1]
    )
}

fn count(of: &Value, name: &str) -> u64 {
    of[name].as_u64().unwrap_or_else(|| panic!("no {name}: {of}"))
}

/// Checks that every request got the expected response and that every handshake completed. The generator accepts only
/// a certificate for the server name that it sent.
#[track_caller]
fn assert_good(measurement: &Value, gateway: &str) {
    assert_reconciled(measurement, gateway);
    let result = &measurement["record"]["result"];
    assert_eq!(
        (count(&result["requests"], "unexpected"), count(&result["requests"], "failed")),
        (0, 0),
        "{gateway}: {result}"
    );
    let tls = &result["tls"];
    assert_eq!(count(tls, "failed"), 0, "{gateway}: {tls}");
    let opened = count(&measurement["record"]["generator"], "connections_opened");
    assert_eq!(count(tls, "handshakes"), opened, "{gateway}: each connection takes one handshake");
    let negotiated: Vec<&String> = tls["negotiated"].as_object().unwrap().keys().collect();
    assert_eq!(negotiated, ["TLS 1.3 TLS13_AES_128_GCM_SHA256 X25519 http/1.1"], "{gateway}");
}

#[track_caller]
fn assert_handshakes(measurement: &Value, gateway: &str, domains: u64) {
    let tls = &measurement["record"]["result"]["tls"];
    let (handshakes, resumed) = (count(tls, "handshakes"), count(tls, "resumed"));
    let sent = count(&measurement["counters"], "generator_sent");
    let load = measurement["load"].as_str().unwrap();
    if load == "kept" {
        assert_eq!(handshakes, CONNECTIONS, "{gateway}: {tls}");
        return;
    }
    // One handshake per sent request. Each connection may have made one more, for a request that was not sent before
    // the load ended.
    assert!((sent..=sent + CONNECTIONS).contains(&handshakes), "{gateway}: {sent} sent, {tls}");
    match load {
        "handshake" => assert_eq!(resumed, 0, "{gateway}: {tls}"),
        // A connection can resume a session only after its first handshake with the domain.
        _ => {
            assert!(resumed > 0, "{gateway}: {tls}");
            assert!(handshakes - resumed <= CONNECTIONS * domains, "{gateway}, {domains} domains: {tls}");
        }
    }
}

#[test]
fn each_domain_has_its_certificate_and_handshakes_are_counted() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("many.yaml"), scenario()).unwrap();
    let arguments = ["run", "many.yaml", "--db", "weir.db", "--out", "out", "--json"];
    let output = finish(weir(folder.path(), &arguments));
    let result = json(&output);
    let cells = result["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 2 * (GATEWAYS.len() + 1), "{}", text(&output.stderr));
    for cell in cells {
        let gateway = cell["key"]["gateway"].as_str().unwrap();
        let domains = cell["key"]["axes"]["topology.domains"].as_u64().unwrap();
        assert_eq!(cell["outcome"]["kind"], "measured", "{gateway}: {}", cell["outcome"]);
        let loads = cell["outcome"]["measurements"].as_array().unwrap();
        assert_eq!(loads.len(), 3);
        for measurement in loads {
            assert_good(measurement, gateway);
            assert_handshakes(measurement, gateway, domains);
        }
        let start = &cell["cold_start"];
        if gateway == "direct" {
            assert!(start.is_null(), "{start}");
            continue;
        }
        let cpu_s = start["cpu_s"]["user"].as_f64().unwrap() + start["cpu_s"]["system"].as_f64().unwrap();
        assert!(count(start, "first_answer_ns") > 0 && cpu_s > 0.0, "{gateway}: {start}");
        assert!(count(start, "memory_bytes") > 1 << 20, "{gateway}: {start}");
        // All cells with the same number of domains share the certificates.
        let kept = cell["files"].to_string();
        assert!(kept.contains(&format!("/certificates-{domains}/domains/")), "{gateway}: {kept}");
        assert!(!kept.contains("PRIVATE KEY"), "{gateway}: a private key is stored with the run");
    }
    let report = std::fs::read_to_string(folder.path().join("out/report.md")).unwrap();
    for said in
        ["## Throughput per CPU limit, and startup", "Handshakes per CPU second", "Memory of configuration"]
    {
        assert!(report.contains(said), "{said}: {report}");
    }
    let again = json(&finish(weir(folder.path(), &["report", "last", "--db", "weir.db", "--json"])));
    let starts = again["summary"]["domains"]["starts"].as_array().unwrap();
    assert_eq!(starts.len(), DOMAINS.len());
    for (starts, has_more) in starts.iter().zip([false, true]) {
        for row in starts["rows"].as_array().unwrap() {
            assert_eq!(row["configuration_memory_bytes"].is_object(), has_more, "{row}");
        }
    }
}

#[test]
fn certificates_of_each_domain_are_rendered() {
    let folder = tempfile::tempdir().unwrap();
    for (gateway, file) in [
        ("weir", "weir.yaml"),
        ("nginx", "nginx.conf"),
        ("haproxy", "certificates.lst"),
        ("envoy", "envoy.yaml"),
    ] {
        let out = folder.path().join(gateway);
        let arguments = ["render", "side-by-side", "--gateway", gateway, "--out", out.to_str().unwrap()];
        let set = ["topology.tls=true", "topology.certificates=each", "topology.domains=3"];
        let set = set.iter().flat_map(|set| ["--set", set]);
        let output = finish(weir(folder.path(), &arguments.into_iter().chain(set).collect::<Vec<_>>()));
        assert!(output.status.success(), "{}", text(&output.stderr));
        let rendered = std::fs::read_to_string(out.join(file)).unwrap();
        for domain in ["d0001", "d0002", "d0003"] {
            let certificate = out.join(format!("tls/domains/{domain}.gateway.test.pem"));
            let path = certificate.to_str().unwrap();
            assert!(certificate.is_file() && rendered.contains(path), "{gateway}: {path}: {rendered}");
        }
    }
}

/// HAProxy that returns 404 if the host of a request differs from the server name of the handshake.
const STRICT: &str = "\
defaults
    mode http
    option http-ignore-probes
    timeout connect 5s
    timeout client 60s
    timeout server 60s

frontend data
    bind {{ listen }} ssl crt {{ tls.certificate }} crt-list {{ dir }}/certificates.lst alpn http/1.1
    http-request set-var(txn.host) req.hdr(host)
    http-request return status 404 unless { ssl_fc_sni,strcmp(txn.host) eq 0 }
    default_backend origin

backend origin
    server origin {{ origins[0] }}

frontend admin
    bind {{ admin }}
    stats enable
    stats uri /stats
";

#[test]
fn requests_use_the_host_of_their_handshake() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let scenario = "name: strict\ngateways: [{ name: strict, driver: haproxy, config: strict.cfg }]\n\
        topology: { domains: 8, paths: 3, tls: true, certificates: each }\norigin: { body: 64B }\n\
        loads:\n  drawn: { model: closed, connections: 4, popularity: uniform, per_connection: 3 }\n  \
        kept: { model: closed, connections: 4 }\n\
        warmup: 100ms\nduration: 400ms\nrepeats: 1\nretries: 0\n";
    for (name, text) in [("strict.yaml", scenario), ("strict.cfg", STRICT)] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let arguments = ["run", "strict.yaml", "--db", "weir.db", "--out", "out", "--json"];
    let result = json(&finish(weir(folder.path(), &arguments)));
    let all = measurements(&result, "strict");
    assert_eq!(all.len(), 2);
    for measurement in all {
        assert_reconciled(measurement, "strict");
        let result = &measurement["record"]["result"];
        let statuses: Vec<&String> = result["status"].as_object().unwrap().keys().collect();
        assert_eq!(statuses, ["200"], "{result}");
        assert_eq!(count(&result["tls"], "failed"), 0, "{result}");
    }
}
