//! A real Kubernetes API server, as the upstream of gateways and as the source of a gateway's routes.

use std::path::Path;

use serde_json::Value;

use crate::program::{finish, json, text, the_host, weir};
use crate::run::{assert_reconciled, measurements};

/// The folder with the drivers' files.
const PARTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/it");

/// A scenario that reads and creates ConfigMaps. `topology` selects how clients authenticate.
fn api_scenario(topology: &str) -> String {
    format!(
        "name: it-api\nquestion: What does the API server see?\ngateways: [weir]\n\
         topology: {{ tls: true, {topology}, paths: ['/api/v1/namespaces/weir/configmaps/c-{{1..20}}', \
         /api/v1/namespaces/weir/configmaps] }}\n\
         origin: {{ service: kubernetes-api, prepare: {{ configmaps: 20, size: 100B }} }}\n\
         loads:\n\
         \x20 get: {{ model: open, rate: 40/s, connections: 4, mix: [{{ path: '/api/v1/namespaces/weir/configmaps/c-{{1..20}}' }}] }}\n\
         \x20 create: {{ model: open, rate: 20/s, connections: 2, mix: [{{ path: /api/v1/namespaces/weir/configmaps, \
         headers: {{ Content-Type: application/json }}, \
         body: '{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{{\"name\":\"n-{{uuid}}\"}}}}', checks: {{ status: [201] }} }}] }}\n\
         warmup: 300ms\nduration: 1s\ntimeout: 10s\nrepeats: 1\nretries: 0\n"
    )
}

fn run(folder: &Path, scenario: &str, drivers: &[&str]) -> std::process::Output {
    std::fs::write(folder.join("k.yaml"), scenario).unwrap();
    let drivers = drivers.iter().flat_map(|drivers| ["--drivers", drivers]);
    let options = ["run", "k.yaml", "--db", "weir.db", "--out", "out", "--json"];
    finish(weir(folder, &options.into_iter().chain(drivers).collect::<Vec<_>>()))
}

/// Checks that every request got the expected response and that all counters agree.
fn assert_answered(result: &Value, gateway: &str, loads: usize) {
    let all = measurements(result, gateway);
    assert_eq!(all.len(), loads, "{gateway}");
    for measurement in all {
        let whole = &measurement["record"]["whole"];
        let wrong =
            ["failed", "timed_out", "dropped", "unexpected"].map(|name| whole[name].as_u64().unwrap());
        assert_eq!(wrong, [0; 4], "{gateway}: {whole}");
        let counters = &measurement["counters"];
        assert_eq!(counters["origin_requests"], counters["generator_sent"], "{gateway}: {counters}");
        assert_eq!(
            counters["origin_by_kind"]["configmaps"], counters["generator_sent"],
            "{gateway}: {counters}"
        );
        if gateway == "weir" {
            assert_reconciled(measurement, gateway);
        }
    }
}

#[test]
fn the_api_server_counts_every_request_and_tokens_stay_secret() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let output = run(folder, &api_scenario("bearer: 2"), &[]);
    let result = json(&output);
    ["weir", "direct"].iter().for_each(|gateway| assert_answered(&result, gateway, 2));
    let parts = result["cells"][0]["parts"].as_array().unwrap();
    let origins =
        parts.iter().filter(|part| part["role"] == "origin").map(|part| part["name"].as_str().unwrap());
    assert_eq!(origins.collect::<Vec<_>>(), ["etcd", "kube-apiserver"]);
    let findings = result["summary"]["findings"].as_array().unwrap();
    let finding = findings.iter().find(|finding| finding["key"] == "amplification").unwrap();
    let rows = finding["tables"][0]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4, "{rows:?}");
    assert!(rows.iter().all(|row| row["values"][4]["figure"]["mean"] == 1.0), "{rows:?}");
    // A token of a service account is a JSON Web Token, which begins with `{"alg":` in base64. No output and no file
    // may contain one.
    let said = [text(&output.stdout), text(&output.stderr)].concat();
    assert!(!said.contains("eyJhbGci"));
    for file in walk(folder) {
        let content = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
        assert!(!content.contains("eyJhbGci"), "{}", file.display());
    }
}

fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let of = |entry: std::fs::DirEntry| match entry.file_type().unwrap() {
        kind if kind.is_dir() => walk(&entry.path()),
        kind if kind.is_file() => vec![entry.path()],
        _ => Vec::new(),
    };
    entries.flat_map(of).collect()
}

#[test]
fn every_gateway_presents_its_certificate_to_the_api_server() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let gateways = ["weir", "nginx", "haproxy", "envoy"];
    let scenario = api_scenario("client_certificate: required")
        .replace("gateways: [weir]", &format!("gateways: [{}]", gateways.join(", ")));
    let result = json(&run(folder.path(), &scenario, &[]));
    gateways.iter().chain(&["direct"]).for_each(|gateway| assert_answered(&result, gateway, 2));
    let cell = |name: &str| {
        let cells = result["cells"].as_array().unwrap();
        cells.iter().find(|cell| cell["key"]["gateway"] == name).unwrap().clone()
    };
    for gateway in gateways {
        assert!(cell(gateway)["unequal"].to_string().contains("the gateway's certificate"), "{gateway}");
    }
}

#[test]
fn a_gateway_reads_routes_and_changes_from_an_api_server() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let own = folder.join("drivers/over-kubernetes");
    std::fs::create_dir_all(&own).unwrap();
    let from = Path::new(PARTS);
    for file in [
        "over-kubernetes/driver.yaml",
        "over-kubernetes/follow.py",
        "over-kubernetes/routes.yaml",
        "drivers/over-nats/gateway.py",
    ] {
        let file = from.join(file);
        std::fs::copy(&file, own.join(file.file_name().unwrap())).unwrap();
    }
    let scenario = "name: it-follow\nquestion: Who follows an API server?\n\
         gateways: [{ name: kube, driver: over-kubernetes }]\n\
         topology: { domains: 2, paths: [/ping, /get/1] }\norigin: { body: 64B, replicas: 2 }\n\
         loads: { steady: { model: open, rate: 60/s, connections: 4 } }\n\
         changes: { every: 400ms, of: [routes, endpoints] }\n\
         warmup: 300ms\nduration: 2s\ntimeout: 10s\nrepeats: 1\nretries: 0\n";
    let result = json(&run(folder, scenario, &["drivers"]));
    let all = measurements(&result, "kube");
    assert_reconciled(all[0], "kube");
    let changes = all[0]["route_changes"].as_array().unwrap();
    let endpoints = changes.iter().filter(|change| change["what"] == "endpoints").count();
    assert!(endpoints >= 1 && changes.len() > endpoints, "{changes:?}");
    let added: i64 = changes.iter().map(|change| change["routes_added"].as_i64().unwrap()).sum();
    assert!(added == 0 || added == 2, "added routes are not removed: {changes:?}");
    let cells = result["cells"].as_array().unwrap();
    let cell = cells.iter().find(|cell| cell["key"]["gateway"] == "kube").unwrap();
    let services = cell["parts"].as_array().unwrap().iter().filter(|part| part["role"] == "service");
    assert_eq!(
        services.map(|part| part["name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["etcd", "kube-apiserver"]
    );
}

#[test]
fn options_that_an_api_server_does_not_support_are_rejected_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let check = |scenario: &str, expected: &str| {
        std::fs::write(folder.join("k.yaml"), scenario).unwrap();
        let output = finish(weir(folder, &["run", "k.yaml", "--plan"]));
        let said = [text(&output.stdout), text(&output.stderr)].concat();
        assert!(said.contains(expected), "{said}");
    };
    let good = api_scenario("bearer: 1");
    check(&good.replace("tls: true, ", ""), "so clients must connect to the gateways with TLS");
    check(&api_scenario("bearer: 0"), "requires either a client certificate or a token");
    check(&api_scenario("bearer: 1, client_certificate: required"), "and not both");
    check(
        &good.replace("service: kubernetes-api", "service: kubernetes-ipa"),
        "did you mean `kubernetes-api`?",
    );
    check(&good.replace("c-{1..20}", "c-{20..1}"), "is empty");
    check(&good.replace("size: 100B }", "size: 100B }, replicas: 2"), "has no `replicas`");
    let plain = "name: x\nquestion: y\ngateways: [weir]\ntopology: { token_cache: 1s }\norigin: { prepare: { a: 1 } }\n\
                 loads: { l: { model: closed } }\n";
    check(plain, "`prepare` needs an upstream that is a service");
    check(plain, "this upstream does not validate tokens");
    std::fs::write(folder.join("k.yaml"), good.replace("configmaps: 20", "configmap: 20")).unwrap();
    let output = finish(weir(folder, &["run", "k.yaml", "--db", "weir.db"]));
    let said = text(&output.stderr);
    assert!(
        said.contains("unknown setting `origin.prepare.configmap`") && said.contains("`configmaps`"),
        "{said}"
    );
}
