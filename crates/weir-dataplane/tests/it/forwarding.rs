//! Headers for upstreams: client address, request ID and trace context.

use std::collections::BTreeSet;

use serde_json::Value;
use weir_config::{Scope, State};
use weir_dataplane::{Outcome, explain};

use crate::setup::{Origin, Proxy, compile};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

/// Returns the header fields after `Host` in the upstream request for a client request with `fields`.
fn fields_of(settings: &str, route: &str, fields: &str) -> Vec<String> {
    let origin = Origin::answering(OK);
    let proxy = Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\nroutes: [{{ path: /, backend: b{route} }}]\n\
         backends: {{ b: {{ endpoints: ['{}'] }} }}\nforwarding: {{ {settings} }}\n",
        origin.address
    ));
    assert_eq!(proxy.ask(&format!("GET / HTTP/1.1\r\nHost: h:80\r\n{fields}\r\n")).body, "ok");
    let requests = origin.requests();
    requests[0].trim_end().split("\r\n").skip(2).map(str::to_owned).collect()
}

fn check(settings: &str, fields: &str, expected: &[&str]) {
    assert_eq!(fields_of(settings, "", fields), expected, "{settings}: {fields}");
}

#[test]
fn adds_no_headers_by_default() {
    let claims = "X-Forwarded-For: 1.1.1.1\r\nForwarded: for=1.1.1.1\r\nX-Request-Id: a\r\nb3: x\r\n";
    let lines: Vec<&str> = claims.trim_end().split("\r\n").collect();
    check("", claims, &lines);
}

#[test]
fn replaces_forwarding_headers_of_untrusted_clients() {
    let claims = "x-forwarded-for: 1.1.1.1\r\nX-Real-IP: 1.1.1.1\r\nX-Forwarded-Port: 1\r\nForwarded: for=1.1.1.1\r\n\
                  Connection: X-Forwarded-For\r\nAccept: */*\r\n";
    let own = ["X-Forwarded-For: 127.0.0.1", "X-Forwarded-Proto: http", "X-Forwarded-Host: h:80"];
    check("x_forwarded: true", claims, &[&["Accept: */*"], &own[..]].concat());
    let forwarded = "Forwarded: for=127.0.0.1;host=\"h:80\";proto=http";
    check("forwarded: true", claims, &["Accept: */*", forwarded]);
    check("forwarded: true, x_forwarded: true", "", &[&[forwarded], &own[..]].concat());
}

#[test]
fn keeps_forwarding_headers_of_trusted_proxies() {
    let chain = "X-Forwarded-For: 1.1.1.1, 2.2.2.2\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Port: 443\r\n";
    check(
        "x_forwarded: true, trusted_hops: 1",
        chain,
        &[
            "X-Forwarded-Port: 443",
            "X-Forwarded-For: 2.2.2.2, 127.0.0.1",
            "X-Forwarded-Proto: https",
            "X-Forwarded-Host: h:80",
        ],
    );
}

/// An upstream may read either header. So the gateway drops the header that the trusted proxy does not write, because
/// the client controls its value.
#[test]
fn drops_the_forwarding_header_that_is_not_trusted() {
    let both = "Forwarded: for=6.6.6.6\r\nX-Forwarded-For: 6.6.6.6, 2.2.2.2\r\nX-Forwarded-Port: 1\r\n";
    let own = ["X-Forwarded-For: 2.2.2.2, 127.0.0.1", "X-Forwarded-Proto: http", "X-Forwarded-Host: h:80"];
    check("x_forwarded: true, trusted_hops: 1", both, &[&["X-Forwarded-Port: 1"], &own[..]].concat());
    let forwarded = "Forwarded: for=6.6.6.6, for=127.0.0.1;host=\"h:80\";proto=http";
    check("forwarded: true, trusted_hops: 1", both, &[forwarded]);
    // If both headers are configured, the gateway reads the trusted one and writes the other one from it.
    let reported = |forwarded| [&["X-Forwarded-Port: 1", forwarded], &own[..]].concat();
    let written = reported("Forwarded: for=2.2.2.2, for=127.0.0.1;host=\"h:80\";proto=http");
    check("forwarded: true, x_forwarded: true, trusted_hops: 1", both, &written);
    let settings = "forwarded: true, x_forwarded: true, trusted_hops: 1, trusted_header: forwarded";
    let both = "Forwarded: for=6.6.6.6, for=2.2.2.2\r\nX-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Port: 1\r\n";
    check(settings, both, &written);
    let lines: Vec<&str> = both.trim_end().split("\r\n").collect();
    check("trusted_hops: 1", both, &lines);
}

#[test]
fn hashes_the_client_address_from_a_trusted_proxy() {
    let origins = ["a", "b"].map(|name| {
        Origin::start(move |served| {
            while served.request().is_some() {
                served.send(&format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{name}"));
            }
        })
    });
    let [a, b] = origins.each_ref().map(|origin| origin.address);
    let proxy = Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\nforwarding: {{ trusted_hops: 1 }}\n\
         routes: [{{ path: /, backend: b }}, {{ path: /f, backend: b, request_headers: {{ remove: [x] }} }}]\n\
         backends: {{ b: {{ endpoints: ['{a}', '{b}'], balance: {{ hash: client_address }} }} }}"
    ));
    let mut client = proxy.connect();
    let mut all = BTreeSet::new();
    for last in 0..40 {
        let of_client = ["/", "/f", "/"].map(|path| {
            let reported = format!("X-Forwarded-For: 6.6.6.6, 192.0.2.{last}");
            client.ask(&format!("GET {path} HTTP/1.1\r\nHost: h\r\n{reported}\r\n\r\n")).body
        });
        assert!(of_client.iter().all(|name| *name == of_client[0]));
        all.extend(of_client);
    }
    assert_eq!(all.len(), 2, "clients of one proxy have different addresses");
}

#[test]
fn request_headers_of_a_route_apply_last() {
    let changes = ", request_headers: { set: { x-forwarded-for: hidden }, remove: [X-Forwarded-Host] }";
    let fields = fields_of("x_forwarded: true", changes, "X-Forwarded-For: 1.1.1.1\r\n");
    assert_eq!(fields, ["X-Forwarded-Proto: http", "x-forwarded-for: hidden"]);
}

#[test]
fn adds_request_ids() {
    check("request_id: pass", "X-Request-Id: abc\r\n", &["X-Request-Id: abc"]);
    for (rule, field) in [("pass", ""), ("make", "X-Request-Id: abc\r\n")] {
        let fields = fields_of(&format!("request_id: {rule}"), "", field);
        let [id] = fields.as_slice() else { panic!("{fields:?}") };
        assert_eq!(id.len(), "X-Request-Id: ".len() + 36, "{id}");
    }
}

#[test]
fn continues_or_starts_traces() {
    let came = format!("traceparent: 00-{TRACE}-{SPAN}-01\r\ntracestate: a=b\r\n");
    let lines: Vec<&str> = came.trim_end().split("\r\n").collect();
    check("trace: {}", &came, &lines);
    let b3 = format!("b3: {TRACE}-{SPAN}-1");
    check("trace: { b3: single }", &came, &[lines[0], lines[1], &b3]);
    check("trace: { w3c: false, b3: single }", &format!("{b3}\r\n"), &[&b3]);
    let alone = fields_of("trace: { w3c: false, b3: single }", "", "");
    assert!(alone.len() == 1 && alone[0].starts_with("b3: "), "{alone:?}");
    let made = fields_of("trace: { b3: multi, sampled: 0% }", "", "traceparent: x\r\ntracestate: a=b\r\n");
    let values: Vec<&str> = made.iter().filter_map(|line| line.split(": ").nth(1)).collect();
    let [parent, trace, span, sampled] = values.as_slice() else { panic!("{made:?}") };
    assert_eq!((*parent, *sampled), (&*format!("00-{trace}-{span}-00"), "0"));
}

#[test]
fn samples_a_share_of_the_traces() {
    let origin = Origin::answering(OK);
    let proxy = Proxy::to(origin.address, "forwarding: { trace: { sampled: 20% } }");
    let mut client = proxy.connect();
    for _ in 0..50 {
        client.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    let sampled = origin.requests().iter().filter(|request| request.contains("-01\r\n")).count();
    assert_eq!(sampled, 10);
}

#[test]
fn logs_request_ids_and_client_addresses() {
    let origin = Origin::answering(OK);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("access.log");
    let more = format!(
        "access_log: {{ file: '{}' }}\n\
         forwarding: {{ x_forwarded: true, trusted_hops: 1, request_id: pass, trace: {{}} }}\n\
         limits: {{ body: 1B }}\n",
        file.display()
    );
    let proxy = Proxy::to(origin.address, &more);
    let fields = format!("X-Forwarded-For: 192.0.2.7\r\ntraceparent: 00-{TRACE}-{SPAN}-01\r\n");
    let mut client = proxy.connect();
    client.ask(&format!("GET / HTTP/1.1\r\nHost: h\r\nX-Request-Id: one\r\n{fields}\r\n"));
    client.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    let refused = "POST / HTTP/1.1\r\nHost: h\r\nX-Request-Id: two\r\nContent-Length: 2\r\n\r\nab";
    assert_eq!(client.ask(refused).error(), (413, "body_too_large"));
    proxy.wait_for("the lines", |stats| stats.access_log.lines == 3);
    let text = std::fs::read_to_string(file).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["client"], &lines[0]["request_id"]), (&"192.0.2.7".into(), &"one".into()));
    assert_eq!(lines[0]["trace_id"], TRACE);
    assert_eq!(lines[1]["client"], "127.0.0.1");
    let requests = origin.requests();
    for (field, header) in [("request_id", "X-Request-Id: "), ("trace_id", "traceparent: 00-")] {
        let made = format!("{header}{}", lines[1][field].as_str().unwrap());
        assert!(requests[1].contains(&made), "{made} is not in {}", requests[1]);
    }
    assert_eq!((&lines[2]["request_id"], &lines[2]["cause"]), (&"two".into(), &"body_too_large".into()));
}

#[test]
fn logs_the_client_address_without_forwarding_headers() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("access.log");
    let log = format!("access_log: {{ file: '{}', format: $remote_addr }}\n", file.display());
    let proxy = Proxy::to(Origin::answering(OK).address, &(log + "forwarding: { trusted_hops: 1 }\n"));
    let mut client = proxy.connect();
    for fields in ["X-Forwarded-For: 6.6.6.6, 192.0.2.7\r\n", "Forwarded: for=6.6.6.6\r\n"] {
        client.ask(&format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
    }
    proxy.wait_for("the lines", |stats| stats.access_log.lines == 2);
    assert_eq!(std::fs::read_to_string(file).unwrap(), "192.0.2.7\n127.0.0.1\n");
}

#[test]
fn explain_shows_added_headers() {
    let text = "listeners: [{ address: 127.0.0.1:0 }]\nroutes: [{ path: /, backend: b }]\n\
                backends: { b: { endpoints: ['127.0.0.1:1'] } }\nforwarding: { x_forwarded: true }\n";
    let table = compile(&mut State::default(), text);
    let request = b"GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 1.1.1.1\r\n\r\n";
    let Some(Outcome::Sent { head, .. }) =
        explain(&table, request, Scope::default(), true).map(|reported| reported.outcome)
    else {
        panic!("the request must be forwarded");
    };
    let fields = "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: h\r\n";
    assert_eq!(head, format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
}
