//! Timeouts of routes.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::filters::gateway;
use crate::setup::{Origin, Proxy, Served, full_listener};

const GET: &str = "GET /api HTTP/1.1\r\nHost: h\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Runs this script at the upstream of a route with these timeouts. Checks that the client gets a 504 with this cause,
/// and that the gateway counts a timeout.
fn check(timeouts: &str, script: impl Fn(&mut Served) + Send + Sync + 'static, cause: &str) {
    let origin = Origin::start(script);
    let proxy = gateway(&format!("backend: b, timeouts: {timeouts}"), &origin);
    let mut client = proxy.connect();
    let answer = client.ask(GET);
    assert_eq!(answer.error(), (504, cause), "{timeouts}");
    assert!(answer.whole);
    assert_eq!((proxy.errors(cause), proxy.gateway.stats().timeouts), (1, 1));
    assert_eq!(client.ask(GET).error(), (504, cause), "the connection stays open, and timeouts restart");
}

#[test]
fn returns_504_if_the_upstream_sends_nothing_in_time() {
    check("{ request: 100ms }", Served::stall, "request_timeout");
    check("{ backend: 100ms }", Served::stall, "backend_timeout");
    check("{ request: 10m, backend: 100ms }", Served::stall, "backend_timeout");
    check("{ request: 100ms, backend: 100ms }", Served::stall, "request_timeout");
}

#[test]
fn returns_504_if_the_response_headers_trickle() {
    let origin = Origin::start(|served| {
        served.request();
        while served.stream.write_all(b"HTTP/1.1 103 Early Hints\r\n\r\n").is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    });
    let proxy = gateway("backend: b, timeouts: { request: 200ms }", &origin);
    let mut client = proxy.connect();
    client.send(GET);
    let last = loop {
        let answer = client.response();
        if answer.status != 103 {
            break answer;
        }
    };
    assert_eq!(last.error(), (504, "request_timeout"), "interim responses do not extend the timeout");
}

/// Checks that the client notices if a timeout cuts a response that has begun.
fn check_cut(timeouts: &str, more: &'static str, pause_ms: u64, cause: &str) {
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    let origin = Origin::start(move |served| {
        served.request();
        served.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        while !over.load(Ordering::SeqCst) {
            served.send(more);
            std::thread::sleep(std::time::Duration::from_millis(pause_ms));
        }
    });
    let proxy = gateway(&format!("backend: b, timeouts: {timeouts}"), &origin);
    let answer = proxy.ask(GET);
    is_over.store(true, Ordering::SeqCst);
    assert_eq!((answer.status, answer.whole), (200, false), "{timeouts}");
    assert_eq!(proxy.errors(cause), 1, "{:?}", proxy.gateway.stats().errors);
}

#[test]
fn cuts_a_response_that_takes_too_long() {
    check_cut("{ request: 200ms }", "1\r\na\r\n", 20, "request_timeout");
    check_cut("{ backend: 200ms }", "1\r\na\r\n", 20, "backend_timeout");
}

#[test]
fn cuts_a_response_that_never_pauses() {
    const BLOCK: &str = concat!(
        "80\r\n",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "\r\n"
    );
    check_cut("{ request: 200ms }", BLOCK, 0, "request_timeout");
}

#[test]
fn body_timeout_of_a_route_overrides_that_of_the_gateway() {
    const BEGUN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab";
    let origin = Origin::start(|served| {
        while let Some(request) = served.request() {
            served.send(BEGUN);
            if request.starts_with("GET /api ") {
                return served.stall();
            }
            // This pause is longer than the gateway's body timeout.
            std::thread::sleep(std::time::Duration::from_millis(700));
            served.send("cd");
        }
    });
    let proxy = gateway("backend: b, timeouts: { body: 100ms }", &origin);
    let answer = proxy.ask(GET);
    assert_eq!((answer.status, answer.body.as_str(), answer.whole), (200, "ab", false));
    assert_eq!((proxy.errors("upstream_stalled"), proxy.gateway.stats().timeouts), (1, 1));
    let slow = "POST /api HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab";
    assert_eq!(proxy.ask(slow).error(), (408, "body_timeout"));

    let routes = "routes: [{ path: /, backend: b }, { path: /long, backend: b, timeouts: { body: 1h } }]";
    let proxy = Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\ntimeouts: {{ body: 100ms }}\n{routes}\n\
         backends: {{ b: {{ endpoints: ['{}'] }} }}",
        origin.address
    ));
    assert!(!proxy.ask("GET /short HTTP/1.1\r\nHost: h\r\n\r\n").whole);
    let answer = proxy.ask("GET /long HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!((answer.body.as_str(), answer.whole), ("abcd", true));
    assert_eq!(proxy.errors("upstream_stalled"), 1);
}

#[test]
fn response_timeout_of_a_route_overrides_other_timeouts() {
    check("{ response: 100ms }", Served::stall, "upstream_response_timeout");
    check("{ request: 10m, backend: 10m, response: 100ms }", Served::stall, "upstream_response_timeout");
    let origin = Origin::start(|served| {
        while served.request().is_some() {
            // This delay exceeds the timeouts of 100 ms and 200 ms, but not the timeouts of 1 h.
            std::thread::sleep(std::time::Duration::from_millis(700));
            served.send(OK);
        }
    });
    let proxy = Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\ntimeouts: {{ response: 100ms }}\n\
         routes: [{{ path: /, backend: b }}, {{ path: /long, backend: b, timeouts: {{ response: 1h }} }},
           {{ path: /own, backend: own, timeouts: {{ response: 1h }} }}]\n\
         backends: {{ b: {{ endpoints: ['{0}'] }}, own: {{ endpoints: ['{0}'], timeouts: {{ response: 200ms }} }} }}",
        origin.address
    ));
    let answer = |path: &str| proxy.ask(&format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
    assert_eq!(answer("/").error(), (504, "upstream_response_timeout"));
    for path in ["/long", "/own"] {
        let answer = answer(path);
        assert_eq!((answer.status, answer.body.as_str()), (200, "ok"), "{path}");
    }
    let mut client = proxy.connect();
    client.send("POST /long HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n");
    client.send("ab");
    assert_eq!(client.response().status, 200, "a later body has the same timeout");
    assert_eq!(proxy.gateway.stats().timeouts, 1);
}

#[test]
fn upgraded_timeout_of_a_route_overrides_that_of_the_gateway() {
    let origin = Origin::start(|served| {
        served.request();
        served.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
        let word = served.read_exact(2).unwrap();
        served.send(&word);
        served.stall();
    });
    let upgraded = |timeouts: &str, pause_ms: u64| {
        let proxy = gateway(&format!("backend: b, timeouts: {timeouts}"), &origin);
        let mut client = proxy.connect();
        client.send("GET /api HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
        assert_eq!(client.head().status, 101);
        std::thread::sleep(std::time::Duration::from_millis(pause_ms));
        client.send("hi");
        (proxy, client)
    };
    // The tunnel is closed, although the timeout of the gateway is an hour.
    let (_proxy, mut client) = upgraded("{ upgraded: 200ms }", 0);
    assert_eq!(client.read_exact(2), "hi");
    assert!(client.is_closed());
    // The other timeouts of the route end with the response headers.
    let (_proxy, mut client) = upgraded("{ upgraded: 1h, body: 100ms, request: 100ms }", 500);
    assert_eq!(client.read_exact(2), "hi");
}

#[test]
fn slow_request_body_gets_408() {
    let origin = Origin::start(Served::stall);
    let proxy = gateway("backend: b, timeouts: { request: 100ms }", &origin);
    let mut client = proxy.connect();
    let answer = client.ask("POST /api HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab");
    assert_eq!(answer.error(), (504, "request_timeout"));
    assert!(client.is_ended(), "the end of the request body is unknown");
}

#[test]
fn timeouts_end_with_the_response() {
    const UPGRADE: &str = "GET /api HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n";
    let origin = Origin::start(|served| {
        while let Some(request) = served.request() {
            if request.contains("Upgrade") {
                served.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
                let word = served.read_exact(2).unwrap();
                served.send(&word);
                served.stall();
            } else {
                served.send(OK);
            }
        }
    });
    let proxy = gateway("backend: b, timeouts: { request: 2s, backend: 2s }", &origin);
    let (mut kept, mut upgraded) = (proxy.connect(), proxy.connect());
    assert_eq!(kept.ask(GET).body, "ok");
    upgraded.send(UPGRADE);
    assert_eq!(upgraded.head().status, 101);
    // The pause is longer than the route's timeouts. They must apply neither to the tunnel nor to the client between
    // two requests.
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    upgraded.send("hi");
    assert_eq!(upgraded.read_exact(2), "hi");
    assert_eq!(kept.ask(GET).body, "ok");
    assert_eq!(proxy.gateway.stats().timeouts, 0);
}

#[test]
fn returns_504_if_the_endpoint_accepts_no_connection_in_time() {
    let (listener, _queued) = full_listener();
    let address = listener.local_addr().unwrap();
    let proxy = Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\n\
         routes: [{{ path: /, backend: b, timeouts: {{ backend: 100ms }} }}]\n\
         backends: {{ b: {{ endpoints: ['{address}'] }} }}"
    ));
    assert_eq!(proxy.ask(GET).error(), (504, "backend_timeout"));
}
