//! Remote gateways: a real Caddy that weir does not start, and a real Prometheus that scrapes it.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::program::{Origin, finish, free_port, json, text, the_host, the_host_alone, weir};
use crate::prometheus::{Exporter, caddy, cpu_ns, prometheus, weir_gateway};
use crate::run::measurements;

/// A scenario with remote gateways. A phase covers about ten scrapes.
fn scenario(folder: &Path, gateways: &str) -> String {
    let text = format!(
        "name: elsewhere\nquestion: What does it cost there?\ngateways: [{gateways}]\n\
         topology: {{ paths: [/ping] }}\n\
         loads:\n  full: {{ model: closed, connections: 4 }}\n  tail: {{ model: open, rate: 300/s }}\n\
         warmup: 400ms\nduration: 2s\nrepeats: 1\nretries: 0\n"
    );
    let path = folder.join("remote.yaml");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

fn run(folder: &Path, gateways: &str, more: &[&str]) -> Output {
    let path = scenario(folder, gateways);
    let arguments = ["run", path.as_str(), "--db", "weir.db", "--out", "out", "--json"];
    finish(weir(folder, &[&arguments[..], more].concat()))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// Number of requests in a gateway's cells.
fn sent(result: &Value, gateway: &str) -> u64 {
    let counters = measurements(result, gateway).into_iter().map(|measurement| &measurement["counters"]);
    counters.map(|counters| counters["generator_sent"].as_u64().unwrap()).sum()
}

#[test]
fn an_agent_beside_a_gateway_samples_its_processes() {
    // A Caddy of another test would also match `program: caddy`, so no other test may run now.
    let _host = the_host_alone();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let origin = Origin::start(folder, free_port(), &["--body", "64B"]);
    let (caddy, _) = caddy(folder, origin.address);
    let entry = |name: &str, which: &str| {
        format!(
            "{{ name: {name}, driver: remote, url: 'http://{}', limits: {{ cpus: 4 }}, \
             sampler: {{ on: 'local:1', {which} }} }}",
            caddy.address
        )
    };
    let gateways = [
        entry("by-pid", &format!("pid: {}", caddy.pid())),
        entry("by-program", "program: caddy"),
        entry("missing", "program: no-such-program"),
    ];
    let cpu_before_ns = cpu_ns(caddy.pid());
    let output = run(folder, &gateways.join(", "), &["--listen", "127.0.0.1:0"]);
    let cpu_s = (cpu_ns(caddy.pid()) - cpu_before_ns) as f64 / 1e9;
    assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{}", text(&output.stderr));
    let result = json(&output);
    let mut phases_cpu_s = 0.0;
    for (gateway, words) in [("by-pid", ": process "), ("by-program", ": program caddy")] {
        for measurement in measurements(&result, gateway) {
            let usage = &measurement["usage"][gateway];
            let used_s = number(&usage["cpu_s"]["user"]) + number(&usage["cpu_s"]["system"]);
            phases_cpu_s += used_s;
            assert!(used_s > 0.0 && number(&usage["memory_bytes_mean"]) > 1e6, "{usage}");
            let share = number(&usage["cpu_share_of_limit"]);
            assert!((share * 4.0 - number(&usage["cpu_cores"])).abs() < 1e-9, "{usage}");
            assert!(number(&measurement["cpu_us_per_request"]) > 0.0, "{measurement}");
            let evidence = measurement["judgement"]["evidence"].to_string();
            assert!(evidence.contains(words) && evidence.contains("sampled by the agent"), "{evidence}");
            let seconds = measurement["series"].as_array().unwrap();
            assert!(seconds.iter().any(|second| second["cpu_cores"][gateway].is_number()), "{seconds:?}");
        }
    }
    // Both gateways are the same Caddy, and phases do not overlap, so the CPU times of the phases add up to at most the
    // CPU time of Caddy. The kernel's counters may differ by a few ticks of 10 ms.
    assert!(phases_cpu_s <= cpu_s + 0.04, "{phases_cpu_s} s in the phases, {cpu_s} s in all");
    for measurement in measurements(&result, "missing") {
        assert!(measurement["usage"]["missing"].is_null(), "{measurement}");
        let evidence = measurement["judgement"]["evidence"].to_string();
        assert!(evidence.contains("there is no process of the program `no-such-program`"), "{evidence}");
    }
}

#[test]
fn the_cost_of_a_remote_gateway_comes_from_its_scrapes() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let origin = Origin::start(folder, free_port(), &["--body", "64B"]);
    let (caddy, metrics) = caddy(folder, origin.address);
    let exporter = Exporter::start(caddy.pid());
    let prometheus = prometheus(folder, &[("caddy", metrics), ("kubelet", exporter.address)]);
    let entry = |name: &str, more: &str| {
        format!(
            "{{ name: {name}, driver: remote, url: 'http://{}', direct: 'http://{}', \
             prometheus: {{ url: 'http://{}', {more} }} }}",
            caddy.address, origin.address, prometheus.address
        )
    };
    // The same Caddy as two remote gateways: one with the metrics of its process, one with a kubelet's metrics of its
    // container.
    let process = entry("process", "metrics: process, selector: 'job=\"caddy\"'");
    let container = entry("container", "selector: 'namespace=\"shop\",pod=~\"gw-.*\"'");
    let asked_before = origin.stats()["requests"].as_u64().unwrap();
    let cpu_before_ns = cpu_ns(caddy.pid());
    let output = run(folder, &format!("{process}, {container}"), &[]);
    let cpu_s = (cpu_ns(caddy.pid()) - cpu_before_ns) as f64 / 1e9;
    let said = text(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{said}");
    check_destinations(&said, &["process", "container"], caddy.address);
    check_destinations(&said, &["direct"], origin.address);
    let result = json(&output);

    let mut phases_cpu_s = 0.0;
    for gateway in ["process", "container"] {
        let all = measurements(&result, gateway);
        assert_eq!(all.len(), 2, "two loads of {gateway}");
        for measurement in all {
            let usage = &measurement["usage"][gateway];
            let requests = &measurement["record"]["result"]["requests"];
            assert_eq!(requests["unexpected"], 0, "{requests}");
            let used_s = number(&usage["cpu_s"]["user"]) + number(&usage["cpu_s"]["system"]);
            phases_cpu_s += used_s;
            let per_request_us = used_s * 1e6 / number(&requests["completed"]);
            let difference_us = number(&measurement["cpu_us_per_request"]) - per_request_us;
            assert!(used_s > 0.0 && difference_us.abs() < 1e-6 * per_request_us, "{measurement}");
            assert!(number(&usage["memory_bytes_mean"]) > 1e6, "{usage}");
            assert_eq!((&usage["cpu_is_unsplit"], &usage["threads_max"]), (&true.into(), &Value::Null));
            let counters = &measurement["counters"];
            assert_eq!(
                (&counters["gateway_requests"], &counters["origin_requests"]),
                (&Value::Null, &Value::Null)
            );
            let evidence = measurement["judgement"]["evidence"].to_string();
            for words in ["from 1 series of http://127.0.0.1:", "scrapes in the phase", "bounds"] {
                assert!(evidence.contains(words), "{words}: {evidence}");
            }
            let seconds = measurement["series"].as_array().unwrap();
            assert!(seconds.iter().any(|second| second["cpu_cores"][gateway].is_number()), "{seconds:?}");
        }
    }
    // The gateways `process` and `container` are the same Caddy, and phases do not overlap. So the CPU times of all
    // phases add up to at most Caddy's CPU time. Caddy reports it in hundredths of a second.
    assert!(phases_cpu_s <= cpu_s + 0.04, "{phases_cpu_s} s in the phases, {cpu_s} s in all");
    let share = |gateway: &str| &measurements(&result, gateway)[0]["usage"][gateway]["cpu_share_of_limit"];
    assert!(share("process").is_null() && number(share("container")) > 0.0, "a quota of four cores");

    // Besides load, weir sends readiness checks: one to each gateway and to the upstream before the first cell, and one
    // in each of the three cells.
    let loads: u64 = ["process", "container", "direct"].iter().map(|gateway| sent(&result, gateway)).sum();
    let asked = origin.stats()["requests"].as_u64().unwrap() - asked_before;
    assert_eq!(asked, loads + 3 + 3, "{said}");

    let report = std::fs::read_to_string(folder.join("out/report.md")).unwrap();
    for words in [
        "remote gateway at http://127.0.0.1:",
        "| process | data plane | gateway under test, driver remote, at http://127.0.0.1:",
        "| n/a | n/a | n/a | elsewhere |",
        "| n/a | 4.00 cores | n/a | elsewhere |",
        "weir did not start the gateways",
    ] {
        assert!(report.contains(words), "{words}: {report}");
    }
}

/// Checks that a line before the first cell states target and size of the load for each of `names`.
fn check_destinations(said: &str, names: &[&str], address: SocketAddr) {
    let before = said.split("[1/").next().unwrap();
    for name in names {
        let line = format!(
            "{name}: loads sent to http://{address}: full (closed, at most 4 connections), \
             tail (open, 300/s, at most 32 connections)"
        );
        assert!(before.contains(&line), "{line}: {said}");
    }
}

#[test]
fn a_plan_prints_the_target_of_the_load_and_sends_none() {
    let folder = tempfile::tempdir().unwrap();
    let gateways = "{ name: prod, driver: remote, url: 'https://gw.invalid', direct: 'http://127.0.0.1:9' }";
    let output = run(folder.path(), gateways, &["--plan", "--set", "loads.full.connections=1"]);
    // With --json, the plan contains these lines in `notes`.
    let notes = json(&output)["notes"].to_string();
    let loads = "full (closed, at most 1 connection), tail (open, 300/s, at most 32 connections)";
    for line in [
        format!(
            "prod: loads sent to https://gw.invalid: {loads}; send load only to systems that you are allowed to test"
        ),
        format!("direct: loads sent to http://127.0.0.1:9: {loads}\""),
    ] {
        assert!(notes.contains(&line), "{line}: {notes}");
    }
}

#[test]
fn metrics_of_weir_gateway_give_its_cost() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let origin = Origin::start(folder, free_port(), &["--body", "64B"]);
    let (gateway, metrics) = weir_gateway(folder, origin.address);
    let prometheus = prometheus(folder, &[("weir-gateway", metrics)]);
    let entry = format!(
        "{{ name: prod, driver: remote, url: 'http://{}', prometheus: {{ url: 'http://{}', metrics: process, \
         selector: 'job=\"weir-gateway\"' }} }}",
        gateway.address, prometheus.address
    );
    let cpu_before_ns = cpu_ns(gateway.pid());
    let output = run(folder, &entry, &[]);
    let cpu_s = (cpu_ns(gateway.pid()) - cpu_before_ns) as f64 / 1e9;
    let result = json(&output);
    let all = measurements(&result, "prod");
    assert_eq!(all.len(), 2, "{}", text(&output.stderr));
    let mut phases_cpu_s = 0.0;
    for measurement in all {
        let usage = &measurement["usage"]["prod"];
        phases_cpu_s += number(&usage["cpu_s"]["user"]) + number(&usage["cpu_s"]["system"]);
        assert!(number(&measurement["cpu_us_per_request"]) > 0.0, "{measurement}");
        assert!(number(&usage["memory_bytes_mean"]) > 1e6, "{usage}");
        let evidence = measurement["judgement"]["evidence"].to_string();
        assert!(evidence.contains("from 1 series of"), "{evidence}");
    }
    // Both CPU times come from the kernel: one in nanoseconds, one in microseconds.
    assert!(
        phases_cpu_s > 0.0 && phases_cpu_s <= cpu_s + 0.01,
        "{phases_cpu_s} s in the phases, {cpu_s} s in all"
    );
}

#[test]
fn without_direct_and_prometheus_only_load_is_measured() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let ca = folder.join("ca.pem");
    let ca = ca.to_str().unwrap();
    let origin = Origin::start(folder, free_port(), &["--tls", "--ca-out", ca]);
    let url = format!("https://localhost:{}", origin.address.port());
    let gateway = format!("{{ name: prod, driver: remote, url: '{url}', tls: {{ ca: ./ca.pem }} }}");
    let output = run(folder, &gateway, &["--set", "duration=300ms"]);
    let result = json(&output);
    let all = measurements(&result, "prod");
    assert_eq!(all.len(), 2, "{}", text(&output.stderr));
    for measurement in all {
        assert_eq!(measurement["record"]["result"]["requests"]["unexpected"], 0);
        assert!(measurement["record"]["result"]["tls"]["handshakes"].as_u64() > Some(0), "{measurement}");
        assert!(measurement["usage"]["prod"].is_null() && measurement["cpu_us_per_request"].is_null());
    }
    let cells = result["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 1, "no direct baseline");
    let unequal = cells[0]["unequal"].to_string();
    for words in
        ["`direct`, the URL of its upstream, is not set", "neither `prometheus` nor `sampler` is set"]
    {
        assert!(unequal.contains(words), "{words}: {unequal}");
    }
}

#[test]
fn series_are_summed_and_a_phase_with_too_few_scrapes_has_no_value() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let origin = Origin::start(folder, free_port(), &[]);
    // One Prometheus that is scraped as two jobs has two series.
    let prometheus = prometheus(folder, &[]);
    let twice = again(folder, prometheus.address);
    let gateway = format!("{{ name: prod, driver: remote, url: 'http://{}' }}", origin.address);
    let url = format!("http://{}", twice.address);
    let metrics = ["--set", "gateways.prod.prometheus.metrics=process"];
    let asked = ["--prometheus", &url, "--selector", "job=~\"one|two\""];
    // The flags apply after --set, so --selector replaces the selector that --set contains.
    let set =
        format!("gateways.prod.prometheus={{ url: '{url}', metrics: process, selector: 'job=\"one\"' }}");
    let result = json(&run(folder, &gateway, &[&["--set", &set][..], &asked[..]].concat()));
    for measurement in measurements(&result, "prod") {
        let evidence = measurement["judgement"]["evidence"].to_string();
        assert!(evidence.contains("from 2 series of"), "{evidence}");
    }
    let short = ["--set", &set, "--set", "duration=300ms"];
    let output = run(folder, &gateway, &[&short[..], &metrics[..]].concat());
    assert!(text(&output.stderr).contains("is too short to measure CPU"), "{}", text(&output.stderr));
    for measurement in measurements(&json(&output), "prod") {
        let evidence = measurement["judgement"]["evidence"].to_string();
        let is_known = measurement["usage"]["prod"].is_object();
        assert_eq!(is_known, evidence.contains("scrapes in the phase, one every"), "{evidence}");
        assert!(is_known || evidence.contains("but weir needs at least 3"), "{evidence}");
    }
}

/// A second Prometheus that scrapes the first as two jobs.
fn again(folder: &Path, first: SocketAddr) -> crate::prometheus::Started {
    let folder = folder.join("again");
    std::fs::create_dir(&folder).unwrap();
    prometheus(&folder, &[("one", first), ("two", first)])
}

#[test]
fn invalid_targets_are_reported_once_and_leave_no_run() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let origin = Origin::start(folder, free_port(), &[]);
    let prometheus = prometheus(folder, &[]);
    let gateway =
        |url: SocketAddr, more: &str| format!("{{ name: prod, driver: remote, url: 'http://{url}'{more} }}");
    let check = |gateways: &str, code: i32, words: &[&str]| {
        let output = run(folder, gateways, &[]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert_eq!(error.lines().filter(|line| line.starts_with("error")).count(), 1, "{error}");
        assert!(words.iter().all(|word| error.contains(word)), "{words:?}: {error}");
        let runs = finish(weir(folder, &["runs", "--db", "weir.db", "--json"]));
        assert!(!text(&runs.stdout).contains("elsewhere"), "the run has started: {}", text(&runs.stdout));
    };
    let nowhere = SocketAddr::from(([127, 0, 0, 1], free_port()));
    check(&gateway(nowhere, ""), 3, &["no response: ", "refused", "correct its URL"]);
    let with = |prometheus: SocketAddr, more: &str| {
        gateway(origin.address, &format!(", prometheus: {{ url: 'http://{prometheus}', {more} }}"))
    };
    check(
        &with(nowhere, "selector: 'a=\"b\"'"),
        3,
        &[&format!("http://{nowhere}: "), "this host can reach it"],
    );
    check(
        &with(origin.address, "selector: 'a=\"b\"'"),
        3,
        &["the response is not from Prometheus", "/api/v1/query"],
    );
    let prometheus = prometheus.address;
    check(
        &with(prometheus, "metrics: process, selector: 'job=\"gw\"'"),
        2,
        &[
            "no series matches process_cpu_seconds_total{job=\"gw\"}",
            "{instance=\"127.0.0.1:",
            "job=\"prometheus\"}",
        ],
    );
    check(
        &with(prometheus, "selector: 'pod=\"gw\"'"),
        2,
        &["no series of container_cpu", "`metrics: process`"],
    );
    check(&with(prometheus, "selector: 'pod='"), 2, &["parse error", "namespace=\"shop\""]);
    check(&with(prometheus, "queries: { cpu: 'sum(up)' }"), 2, &["sum(up)", "without functions"]);
}

#[test]
fn the_documented_scenario_is_valid() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let guide = crate::pages::blocks("remote.md");
    let scenario = guide.iter().find(|block| block.text.starts_with("name: prod")).unwrap();
    std::fs::write(folder.join("prod.yaml"), &scenario.text).unwrap();
    for file in ["ca.pem", "token"] {
        std::fs::write(folder.join(file), "x\n").unwrap();
    }
    // A plan sends no request.
    let read = ["run", "prod.yaml", "--plan", "--json"];
    let plan = json(&finish(weir(folder, &read)));
    assert_eq!(plan["cells"].as_array().unwrap().len(), 6, "through and direct in three repeats: {plan}");
    let rendered = finish(weir(folder, &["render", "prod.yaml", "--gateway", "prod", "--out", "out"]));
    assert_eq!(rendered.status.code(), Some(2));
    assert!(text(&rendered.stderr).contains("gateway `prod` is remote"), "{}", text(&rendered.stderr));
}
