//! `weir load` against `weir origin`: request counts balance, and both sides count the same.

use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use crate::program::{Origin, finish, free_port, json, text, until, wait, weir};

pub fn assert_balanced(requests: &Value) {
    let count = |name: &str| requests[name].as_u64().unwrap();
    let ends =
        ["completed", "failed", "timed_out", "dropped", "in_flight"].iter().map(|n| count(n)).sum::<u64>();
    assert_eq!(count("scheduled"), ends, "{requests}");
}

/// Runs a load against a new origin. Checks that request counts balance, and that the origin received as many requests
/// as the load sent. Returns the JSON.
fn check(origin_arguments: &[&str], load_arguments: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start(folder.path(), free_port(), origin_arguments);
    let url = format!("http://{}/x", origin.address);
    let mut arguments = vec!["load", &url, "--json"];
    arguments.extend(load_arguments);
    let output = finish(weir(folder.path(), &arguments));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let result = json(&output);
    assert_balanced(&result["requests"]);
    assert_eq!(result["requests"]["sent"], origin.stats()["requests"], "{result}");
    result
}

#[test]
fn exactly_the_requested_number_of_requests_is_sent() {
    let result = check(&[], &["--requests", "1000", "--connections", "7"]);
    assert_eq!(result["requests"]["completed"], 1000);
    assert_eq!(result["status"]["200"], 1000);
    assert_eq!(result["model"], "closed");
    assert_eq!(result["lateness_ns"], Value::Null);
}

#[test]
fn a_closed_standard_output_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start(folder.path(), free_port(), &[]);
    let url = format!("http://{}/", origin.address);
    for more in [None, Some("--json")] {
        let mut command = weir(folder.path(), &["load", &url, "--requests", "10"]);
        let mut child = command
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = wait(child);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
}

#[test]
fn an_open_load_sends_its_schedule() {
    let result = check(&["--delay", "const:2ms"], &["--rate", "500/s", "--duration", "1s", "--seed", "7"]);
    assert_eq!(result["model"], "open");
    assert!(result["lateness_ns"]["p50"].is_u64());
    assert!(result["latency_ns"]["min"].as_u64().unwrap() >= 2_000_000, "{result}");
}

#[test]
fn even_arrivals_give_the_exact_count() {
    let result = check(&[], &["--rate", "200/s", "--even", "--duration", "1s", "--workers", "2"]);
    assert_eq!(result["requests"]["scheduled"], 200);
}

#[test]
fn steps_are_reported_one_by_one_and_in_total() {
    let result = check(&[], &["--connections", "1,4", "--requests", "500", "--seed", "3"]);
    let steps = result["steps"].as_array().unwrap();
    let pair = |step: &Value| (step["connections"].clone(), step["result"]["requests"]["completed"].clone());
    assert_eq!(steps.iter().map(pair).collect::<Vec<_>>(), [(1.into(), 500.into()), (4.into(), 500.into())]);
    assert_eq!(result["requests"]["completed"], 1000);
    steps.iter().for_each(|step| assert_balanced(&step["result"]["requests"]));
}

#[test]
fn a_ramp_sends_the_area_under_its_rate() {
    let result = check(&[], &["--rate", "0/s..1000/s", "--even", "--duration", "1s"]);
    assert_eq!(result["requests"]["scheduled"], 500);
}

#[test]
fn bursts_send_their_scheduled_requests() {
    let burst = "--burst=900/s:100ms/500ms";
    let result = check(&[], &["--rate", "100/s", burst, "--even", "--duration", "1s"]);
    // There are two periods of 500 ms. In each period, 90 requests are due in the burst and 40 after it. A request that
    // is due exactly at a boundary may or may not be counted.
    let scheduled = result["requests"]["scheduled"].as_u64().unwrap();
    assert!((259..=261).contains(&scheduled), "{scheduled}");
}

#[test]
fn http2_with_prior_knowledge_sends_the_exact_number_of_requests() {
    let result = check(&["--max-streams", "4"], &["--streams", "16", "-c", "3", "-n", "1000"]);
    assert_eq!(result["protocol"], "HTTP/2");
    assert_eq!(result["requests"]["completed"], 1000);
    assert_eq!(
        (&result["http2"]["streams"], &result["http2"]["streams_allowed_min"]),
        (&16.into(), &4.into())
    );
}

#[test]
fn tls_trusts_only_the_given_authority() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start(folder.path(), free_port(), &["--tls", "--ca-out", "ca.pem"]);
    let url = format!("https://{}/", origin.address);
    let load = |flags: &[&str]| {
        let all = [&["load", &url, "--json", "-c", "4", "-n", "200"], flags].concat();
        finish(weir(folder.path(), &all))
    };
    for (flags, alpn) in [(&["--tls", "1.2"][..], "http/1.1"), (&["--http2"], "h2")] {
        let output = load(&[&["--cacert", "ca.pem"], flags].concat());
        let result = json(&output);
        assert_eq!(result["requests"]["completed"], 200, "{}", text(&output.stderr));
        let negotiated = result["tls"]["negotiated"].as_object().unwrap();
        assert!(negotiated.keys().all(|key| key.ends_with(alpn)), "{negotiated:?}");
    }
    assert_eq!(json(&load(&["-k"]))["requests"]["completed"], 200);
    let refused = finish(weir(folder.path(), &["load", &url, "--json", "-d", "200ms", "--timeout", "200ms"]));
    assert_eq!(refused.status.code(), Some(1));
    assert!(json(&refused)["tls"]["failed"].as_u64().unwrap() > 0);
}

#[test]
fn a_mix_of_urls_and_a_file_of_requests_have_their_routes() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("urls"), "/a\nPOST /b/17\n/b/18\n").unwrap();
    let origin = Origin::start(folder.path(), free_port(), &[]);
    let base = format!("http://{}", origin.address);
    let routes = |arguments: &[&str]| {
        let all = [&["load", "--json", "-n", "3000", "--check", "length=64"], arguments].concat();
        let output = finish(weir(folder.path(), &all));
        assert!(output.status.success(), "{}", text(&output.stderr));
        let result = json(&output);
        assert_eq!(result["requests"]["unexpected"], 0);
        let routes = result["routes"].as_array().unwrap().clone();
        let scheduled = |route: &Value| route["requests"]["scheduled"].as_u64().unwrap();
        assert_eq!(routes.iter().map(scheduled).sum::<u64>(), 3000);
        routes.iter().map(|route| route["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let [x, y] = ["/x", "/get/{1..9}"].map(|path| format!("{base}{path}"));
    assert_eq!(routes(&[&x, &y]), ["GET /x", "GET /get/{1..9}"]);
    assert_eq!(routes(&[&base, "-f", "urls"]), ["GET /a", "POST /b/:id", "GET /b/:id"]);
}

#[test]
fn failed_checks_are_unexpected_and_reported() {
    let result = check(&[], &["-n", "100", "--check", "length=65", "--check", "status=2xx"]);
    assert_eq!(result["requests"]["unexpected"], 100);
    let said = result["said"].as_object().unwrap();
    assert!(said.iter().any(|(said, count)| said.contains("65") && count == 100), "{said:?}");
}

#[test]
fn error_responses_are_completed_and_unexpected() {
    let result = check(&["--errors", "10%"], &["--requests", "1000"]);
    assert_eq!(result["requests"]["unexpected"], 100);
    assert_eq!(result["status"]["500"], 100);
}

#[test]
fn the_load_reconnects_after_the_origin_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let origin = Origin::start(folder.path(), port, &[]);
    let url = format!("http://127.0.0.1:{port}/");
    let load = weir(
        folder.path(),
        &["load", &url, "--json", "--rate", "500/s", "--duration", "4s", "--timeout", "2s"],
    )
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    until("requests at the first origin", || origin.stats()["requests"].as_u64().unwrap() > 100);
    origin.kill();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let origin = Origin::start(folder.path(), port, &[]);
    let output = wait(load);
    let result = json(&output);
    assert_balanced(&result["requests"]);
    let errors = &result["errors"];
    assert!(errors["refused"].as_u64().unwrap() > 0, "{errors}");
    assert!(origin.stats()["requests"].as_u64().unwrap() > 0, "nothing reached the second origin: {result}");
}

#[test]
fn a_load_without_a_completed_request_exits_with_1() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("http://127.0.0.1:{}/", free_port());
    let output =
        finish(weir(folder.path(), &["load", &url, "--json", "--duration", "500ms", "--timeout", "500ms"]));
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let result = json(&output);
    assert_balanced(&result["requests"]);
    assert!(result["errors"]["refused"].as_u64().unwrap() > 0);
    assert_eq!(result["latency_ns"]["p50"], Value::Null);
}

#[test]
fn a_port_in_use_exits_with_3_and_names_the_address() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start(folder.path(), free_port(), &[]);
    let listen = origin.address.to_string();
    let output = finish(weir(folder.path(), &["origin", "--listen", &listen]));
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains(&listen) && error.contains("help:"), "{error}");
}

#[test]
fn an_origin_exits_cleanly_on_signals() {
    let folder = tempfile::tempdir().unwrap();
    for (signal, code) in [(Signal::TERM, 0), (Signal::INT, 130)] {
        let mut origin = Origin::start(folder.path(), free_port(), &[]);
        assert_eq!(origin.end_by(signal), Some(code), "{signal:?}");
    }
}
