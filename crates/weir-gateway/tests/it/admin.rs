//! The admin server beyond health and counters.

use std::io::{Read as _, Write as _};
use std::time::{Duration, SystemTime};

use crate::process::{Gateway, config, connect, origin, response};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn ask(gateway: &Gateway) {
    let mut client = connect(gateway.address);
    client.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").expect("it reads");
    assert!(response(&mut client).expect("an answer").starts_with("HTTP/1.1 200 "));
}

fn post(gateway: &Gateway, target: &str, fields: &str) -> String {
    let mut client = connect(gateway.admin);
    let request = format!("POST {target} HTTP/1.1\r\nHost: h\r\n{fields}Connection: close\r\n\r\n");
    client.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    answer
}

fn body(answer: &str) -> &str {
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"), "{answer}");
    answer.split_once("\r\n\r\n").expect("a body").1
}

#[test]
fn the_configuration_in_force_is_shown_without_secrets() {
    let text = config(origin().0)
        .replace("backend: api }", "backend: api, request_headers: { set: { x-auth: hush } } }");
    let mut gateway = Gateway::start_with(&text, &[]);
    let answer = gateway.admin("/config");
    let shown = body(&answer);
    assert!(shown.starts_with("{\"version\":1,\"configuration\":{\"listeners\":["), "{shown}");
    assert!(shown.contains("\"x-auth\":\"<left out>\"") && !shown.contains("hush"), "{shown}");
    gateway.configure(&text.replace("path: /,", "path: /changed,"));
    gateway.reload();
    let answer = gateway.admin("/config");
    assert!(body(&answer).contains("\"path\":\"/changed\"") && answer.contains("\"version\":2"), "{answer}");
}

#[test]
fn clusters_are_shown_with_their_counters() {
    let (origin, _) = origin();
    let gateway = Gateway::start_with(&config(origin), &[]);
    for _ in 0..3 {
        ask(&gateway);
    }
    let answer = gateway.admin("/clusters");
    let start = format!("{{\"clusters\":{{\"api\":{{\"tls\":false,\"endpoints\":[\"{origin}\"],\"open\":");
    assert!(body(&answer).starts_with(&start), "{answer}");
    let counted = "\"by_status\":{\"1xx\":0,\"2xx\":3,\"3xx\":0,\"4xx\":0,\"5xx\":0}}}}\n";
    assert!(answer.ends_with(counted), "{answer}");
}

/// A certificate for this name, good for so many days and an hour, and its key.
fn certificate(name: &str, days: u32) -> (String, String) {
    let key = rcgen::KeyPair::generate().expect("a key");
    let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).expect("a name");
    let end = SystemTime::now() + DAY * days + Duration::from_secs(3600);
    params.not_after = end.into();
    let certificate = params.self_signed(&key).expect("a certificate");
    (certificate.pem(), key.serialize_pem())
}

#[test]
fn certificates_are_shown_with_the_days_they_have_left() {
    let ((soon, soon_key), (late, late_key)) = (certificate("soon.test", 3), certificate("late.test", 400));
    let tls = "tls: { certificate: late.pem, key: late.key, certificates: [{ certificate: soon.pem, key: soon.key }] }";
    let text = config(origin().0).replace("127.0.0.1:0 }", &format!("127.0.0.1:0, name: web, {tls} }}"));
    let files = [("soon.pem", &soon), ("soon.key", &soon_key), ("late.pem", &late), ("late.key", &late_key)];
    let gateway = Gateway::start_with(&text, &files.map(|(name, text)| (name, text.as_str())));
    let answer = gateway.admin("/certs");
    let shown = body(&answer);
    let (first, second) = shown.split_once("},{").expect("two certificates");
    for (part, name, days) in [(first, "soon", 3), (second, "late", 400)] {
        let told = format!("\"listener\":\"web\",\"file\":\"{name}.pem\",\"names\":[\"{name}.test\"]");
        assert!(part.contains(&told) && part.contains(&format!("\"days_left\":{days}")), "{shown}");
    }
    let metrics = gateway.admin("/metrics");
    let sample = metrics.split("\nweir_certificate_expiry_timestamp_seconds{listener=\"web\"} ").nth(1);
    let end: u64 = sample.and_then(|rest| rest.lines().next()?.parse().ok()).expect("a sample");
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a time").as_secs();
    assert_eq!((end - now) / DAY.as_secs(), 3, "that of the first to end");
}

#[test]
fn the_level_of_the_log_changes_at_run_time() {
    let text = config(origin().0) + "access_log: { file: access.log, format: $request_uri, sample: 0% }\n";
    let gateway = Gateway::start_with(&text, &[]);
    assert_eq!(body(&gateway.admin("/log")), "{\"level\":\"info\"}\n");
    ask(&gateway);
    // What is told of a request is decided at its end.
    gateway.wait_for("its end", |g| g.stat("open") == 0);
    assert_eq!(body(&post(&gateway, "/log?level=debug", "")), "{\"level\":\"debug\"}\n");
    for lines in 1..=3 {
        ask(&gateway);
        gateway.wait_for("the line", |g| g.stat("lines") == lines);
    }
    assert_eq!(body(&post(&gateway, "/log?level=off", "")), "{\"level\":\"off\"}\n");
    ask(&gateway);
    let wrong = post(&gateway, "/log?level=loud", "");
    let remedy = "\r\n\r\nask for /log?level=LEVEL, where LEVEL is one of off, error, info, debug\n";
    assert!(wrong.starts_with("HTTP/1.1 400 ") && wrong.ends_with(remedy), "{wrong}");
    let file = gateway.dir.path().join("access.log");
    let kept = tempfile::tempdir().expect("a temporary folder");
    std::fs::hard_link(&file, kept.path().join("log")).expect("a link");
    assert_eq!(gateway.stop(), "");
    assert_eq!(std::fs::read_to_string(kept.path().join("log")).expect("a log"), "/\n/\n/\n");
}

#[test]
fn a_drain_can_be_asked_for() {
    let gateway = Gateway::start_with(&config(origin().0), &[]);
    let get = gateway.admin("/drain");
    assert!(get.starts_with("HTTP/1.1 405 ") && get.contains("\r\nAllow: POST\r\n"), "{get}");
    let of_a_page = post(&gateway, "/drain", "Origin: https://evil.example\r\n");
    assert!(of_a_page.starts_with("HTTP/1.1 403 "), "{of_a_page}");
    ask(&gateway);
    assert!(post(&gateway, "/drain", "").starts_with("HTTP/1.1 202 "));
    assert_eq!(gateway.wait(), (Some(0), String::new()));
}
