//! `weir load` against peers that close connections, reset streams, stay silent, or speak another protocol. Request
//! counts balance, causes are reported, nothing hangs.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};

use serde_json::Value;

use crate::load::assert_balanced;
use crate::program::{Origin, finish, free_port, json, text, weir};

/// Runs a load against an origin. Returns the exit code, the result and the origin's counters.
fn check(origin: &[&str], scheme: &str, load: &[&str]) -> (Option<i32>, Value, Value) {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start(folder.path(), free_port(), origin);
    let url = format!("{scheme}://{}/x", origin.address);
    let mut arguments = vec!["load", &url, "--json"];
    arguments.extend(load);
    let output = finish(weir(folder.path(), &arguments));
    assert!(!output.stdout.is_empty(), "{}", text(&output.stderr));
    let result = json(&output);
    assert_balanced(&result["requests"]);
    (output.status.code(), result, origin.stats())
}

fn said(result: &Value, word: &str) -> bool {
    result["said"].as_object().is_some_and(|said| said.keys().any(|what| what.contains(word)))
}

#[test]
fn requests_that_a_goaway_leaves_unprocessed_are_sent_again() {
    for (scheme, tls) in [("http", None), ("https", Some("--tls"))] {
        let mut origin = vec!["--goaway", "100"];
        origin.extend(tls);
        let load = ["-n", "3000", "-c", "3", "--streams", "8", "-k"];
        let load = if tls.is_some() { &load[..] } else { &load[..6] };
        let load: Vec<&str> = load.iter().copied().chain(["--http2"]).collect();
        let (code, result, stats) = check(&origin, scheme, &load);
        assert_eq!((code, &result["requests"]["completed"]), (Some(0), &Value::from(3000)), "{result}");
        assert_eq!(stats["requests"], 3000, "{stats}");
        assert!(result["http2"]["goaways"].as_u64().unwrap() >= 27, "{result}");
        assert_eq!(result["protocol"], "HTTP/2");
    }
}

#[test]
fn reset_and_refused_streams_fail_but_their_connections_stay_open() {
    let load = ["-n", "1000", "-c", "2", "--streams", "8"];
    for (fault, cause) in [("--resets", "stream_reset"), ("--refuse", "refused_stream")] {
        let (code, result, _) = check(&[fault, "10%"], "http", &load);
        assert_eq!(code, Some(0), "{result}");
        assert_eq!(result["requests"]["completed"], 900, "{result}");
        assert_eq!(
            (&result["requests"]["failed"], &result["errors"][cause]),
            (&100.into(), &100.into()),
            "{result}"
        );
        assert_eq!(result["http2"]["streams_reset"], 100, "{result}");
        assert_eq!(result["http2"]["goaways"], 0, "{result}");
    }
}

#[test]
fn the_stream_limit_of_the_server_is_respected() {
    let (code, result, stats) =
        check(&["--max-streams", "3"], "http", &["-n", "500", "-c", "2", "--streams", "20"]);
    assert_eq!((code, &result["requests"]["completed"]), (Some(0), &500.into()), "{result}");
    assert_eq!(result["http2"]["streams_allowed_min"], 3, "{result}");
    assert_eq!(stats["requests"], 500);
}

#[test]
fn a_stream_limit_of_zero_is_reported_and_requests_are_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("http://{}/", says_once(b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\0"));
    let load = ["--http2", "-c", "2", "-d", "200ms", "-r", "50/s", "--timeout", "100ms"];
    let output = finish(weir(folder.path(), &[&["load", &url, "--json"], &load[..]].concat()));
    let result = json(&output);
    let requests = &result["requests"];
    assert_balanced(requests);
    assert_eq!((&requests["dropped"], &requests["sent"]), (&requests["scheduled"], &0.into()), "{result}");
    let found = (&result["http2"]["streams_allowed_min"], &result["errors"]);
    assert_eq!(found, (&0.into(), &no_errors()), "{result}");
}

#[test]
fn reset_codes_are_reported() {
    let (_, result, _) = check(&["--resets", "10%"], "http", &["-n", "100", "-c", "2", "--streams", "8"]);
    assert!(said(&result, "HTTP/2: stream error received"), "{result}");
}

#[test]
fn either_side_may_use_one_connection_per_request() {
    for (origin, load) in [
        (&["--close-after", "1"][..], &["-n", "300", "-c", "4"][..]),
        (&[], &["-n", "300", "-c", "4", "--per-connection", "1"]),
        (&[], &["-n", "300", "-c", "4", "--per-connection", "1", "--http2"]),
    ] {
        let (code, result, stats) = check(origin, "http", load);
        assert_eq!((code, &result["requests"]["completed"]), (Some(0), &300.into()), "{result}");
        assert_eq!((&result["errors"], &stats["requests"]), (&no_errors(), &300.into()), "{result}");
    }
}

fn no_errors() -> Value {
    let columns = [
        "dns",
        "connect",
        "refused",
        "reset",
        "closed",
        "tls",
        "parse",
        "too_large",
        "http2",
        "refused_stream",
        "stream_reset",
        "goaway",
    ];
    columns
        .into_iter()
        .map(|column| (column.to_owned(), Value::from(0)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[test]
fn requests_to_a_peer_that_never_responds_time_out() {
    for protocol in [None, Some("--http2")] {
        let mut load = vec!["-d", "300ms", "-c", "2", "--timeout", "200ms", "-r", "50/s"];
        load.extend(protocol);
        let (code, result, _) = check(&["--silent"], "http", &load);
        let requests = &result["requests"];
        assert_eq!((code, &requests["completed"]), (Some(1), &0.into()), "{result}");
        let ended = requests["timed_out"].as_u64().unwrap() + requests["dropped"].as_u64().unwrap();
        assert!(ended > 0 && requests["scheduled"] == ended, "{result}");
    }
}

#[test]
fn an_expired_certificate_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    let ca = ca.to_str().unwrap();
    let load = ["-d", "200ms", "-c", "2", "--cacert", ca];
    let (code, result, stats) = check(&["--tls", "--expired", "--ca-out", ca], "https", &load);
    assert_eq!((code, &result["requests"]["sent"]), (Some(1), &0.into()), "{result}");
    assert!(said(&result, "expired") && result["errors"]["tls"].as_u64() > Some(0), "{result}");
    assert_eq!(stats["requests"], 0);
    // A valid certificate of the same authority is accepted.
    let (code, result, _) =
        check(&["--tls", "--ca-out", ca], "https", &["-n", "50", "-c", "2", "--cacert", ca]);
    assert_eq!((code, &result["requests"]["completed"]), (Some(0), &50.into()), "{result}");
    assert_eq!(result["tls"]["handshakes"], 2);
}

#[test]
fn an_http2_load_reports_a_server_that_supports_only_http1() {
    let load = ["-d", "200ms", "-c", "2", "--http2"];
    let (code, result, _) = check(&["--http1-only"], "http", &load);
    assert_eq!((code, &result["requests"]["completed"]), (Some(1), &0.into()), "{result}");
    assert!(said(&result, "HTTP/1.1") && result["errors"]["http2"].as_u64() > Some(0), "{result}");
    let load = ["-d", "200ms", "-c", "2", "--http2", "-k"];
    let (code, result, _) = check(&["--tls", "--http1-only"], "https", &load);
    assert_eq!((code, &result["requests"]["completed"]), (Some(1), &0.into()), "{result}");
    assert!(
        result["errors"]["http2"].as_u64() > Some(0) || result["errors"]["tls"].as_u64() > Some(0),
        "{result}"
    );
    assert!(said(&result, "ALPN"), "{result}");
}

#[test]
fn the_requested_share_of_tls_sessions_is_resumed() {
    let resumed = |share: &str| {
        let load = ["-n", "200", "-c", "2", "-k", "--per-connection", "1", "--resumption", share];
        let (code, result, _) = check(&["--tls"], "https", &load);
        assert_eq!((code, &result["requests"]["completed"]), (Some(0), &200.into()), "{result}");
        assert!(result["tls"]["handshake_ns"]["p50"].as_u64() > Some(0));
        let handshakes = result["tls"]["handshakes"].as_u64().unwrap();
        assert!((200..=204).contains(&handshakes), "{result}");
        result["tls"]["resumed"].as_u64().unwrap()
    };
    let many = ["-n", "1500", "-c", "50", "-k", "--per-connection", "1"];
    let (_, result, _) = check(&["--tls"], "https", &many);
    let count = |name: &str| result["tls"][name].as_u64().unwrap();
    assert!(count("resumed") + 50 >= count("handshakes"), "all but each connection's first: {result}");
    assert_eq!(resumed("off"), 0);
    assert!(resumed("on") >= 190);
    assert!((50..150).contains(&resumed("50%")));
}

#[test]
fn failed_checks_are_counted_over_several_urls() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start(folder.path(), free_port(), &["--body", "64B"]);
    let (one, two) =
        (format!("http://{}/one", origin.address), format!("http://{}/two/{{1..9}}", origin.address));
    let checks = ["--check", "length=64", "--check", "body=no such text"];
    let arguments = ["load", &one, &two, "-n", "400", "-c", "4", "--json"];
    for protocol in [None, Some("--http2")] {
        let output = finish(weir(
            folder.path(),
            &arguments.iter().copied().chain(checks).chain(protocol).collect::<Vec<_>>(),
        ));
        let result = json(&output);
        assert_eq!(
            (&result["requests"]["completed"], &result["requests"]["unexpected"]),
            (&400.into(), &400.into())
        );
        assert_eq!(result["said"]["check: body does not contain `no such text`"], 400, "{result}");
    }
}

#[test]
fn the_requests_of_all_steps_add_up() {
    let (code, result, stats) = check(&[], "http", &["-n", "100", "-c", "1,3,6"]);
    assert_eq!((code, &result["requests"]["completed"]), (Some(0), &300.into()), "{result}");
    assert_eq!(stats["requests"], 300);
}

#[test]
fn large_request_bodies_arrive_complete_over_every_protocol() {
    let folder = tempfile::tempdir().unwrap();
    let body = folder.path().join("body");
    std::fs::write(&body, vec![b'b'; 6_000_000]).unwrap();
    let body = format!("@{}", body.display());
    for (origin, scheme, more) in [
        (&["--echo"][..], "http", &[][..]),
        (&["--echo", "--tls"], "https", &["-k"]),
        (&["--echo"], "http", &["--streams", "2"]),
        (&["--echo", "--tls"], "https", &["-k", "--streams", "2"]),
    ] {
        let load = ["-n", "12", "-c", "2", "--body", &body, "--check", "length=6000000"];
        let load: Vec<&str> = load.iter().chain(more).copied().collect();
        let (code, result, stats) = check(origin, scheme, &load);
        assert_eq!((code, &result["requests"]["completed"]), (Some(0), &12.into()), "{result}");
        assert_eq!(
            (&result["requests"]["unexpected"], &stats["requests"]),
            (&0.into(), &12.into()),
            "{result}"
        );
    }
}

/// A server that sends `greeting` after each read.
fn says(greeting: &'static [u8]) -> SocketAddr {
    says_at_most(usize::MAX, greeting)
}

/// A server that sends `greeting` once per client and then only reads.
fn says_once(greeting: &'static [u8]) -> SocketAddr {
    says_at_most(1, greeting)
}

fn says_at_most(times: usize, greeting: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // The thread ends with the test process.
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            std::thread::spawn(move || {
                let mut left = times;
                let mut heard = [0; 4096];
                // A failed read means that the client has disconnected.
                while matches!(client.read(&mut heard), Ok(1..)) {
                    if left > 0 && client.write_all(greeting).is_err() {
                        return;
                    }
                    left = left.saturating_sub(1);
                }
            });
        }
    });
    address
}

#[test]
fn malformed_responses_are_reported_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let settings = b"\0\0\x06\x04\0\0\0\0\0\0\x03\0\0\0\x64";
    for (greeting, scheme, cause, words) in [
        (&b"SSH-2.0-OpenSSH_9.2\r\n"[..], "http", "parse", "begins with \"SSH-2.0-OpenSSH_9.2\""),
        (settings, "http", "parse", "add --http2"),
        (b"\x15\x03\x01\0\x02\x02\x46", "http", "parse", "write https:// in the URL"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "https", "tls", "write http:// in the URL"),
    ] {
        let url = format!("{scheme}://{}/", says(greeting));
        let arguments = ["load", &url, "--json", "-n", "20", "-c", "1", "--timeout", "1s"];
        let output = finish(weir(folder.path(), &arguments));
        let result = json(&output);
        assert_balanced(&result["requests"]);
        assert_eq!(
            (output.status.code(), &result["requests"]["completed"]),
            (Some(1), &0.into()),
            "{result}"
        );
        assert!(said(&result, words), "{result}");
        // Connection attempts that fail before the load begins are also counted.
        let reported: u64 = result["said"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
        assert_eq!(result["errors"][cause].as_u64(), Some(reported), "{result}");
    }
}

#[test]
fn unsolicited_response_bytes_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("http://{}/", says(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokjunk"));
    let output = finish(weir(folder.path(), &["load", &url, "--json", "-n", "20", "-c", "1"]));
    let result = json(&output);
    let counts = (&result["requests"]["completed"], &result["errors"]["parse"]);
    assert_eq!(counts, (&20.into(), &20.into()), "{result}");
    assert!(said(&result, "unsolicited response bytes: \"junk\""), "{result}");
}
