//! Clients that exceed size limits, timeouts or connection limits.

use std::sync::Mutex;
use std::sync::mpsc::channel;

use crate::setup::{Client, Origin, Proxy};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

/// Checks the response to `request` with these limits. If `closes`, the gateway must close the connection after it.
fn check(more: &str, request: &str, expected: (u16, &str), closes: bool) {
    let origin = Origin::answering(OK);
    let proxy = Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\n\
         routes: [{{ hosts: [h], path: /, backend: b }}, {{ hosts: [empty], path: /, backend: e }}]\n\
         backends: {{ b: {{ endpoints: ['{}'] }}, e: {{ endpoints: [] }} }}\n{more}",
        origin.address
    ));
    let mut client = proxy.connect();
    let answer = client.ask(request);
    assert_eq!(answer.error(), expected, "{request:?}");
    assert!(answer.whole);
    assert_eq!(answer.field("connection"), closes.then_some("close"));
    match closes {
        true => assert!(client.is_closed()),
        false => assert_eq!(client.ask(GET).body, "ok"),
    }
    assert_eq!(proxy.errors(expected.1), 1);
    assert_eq!(origin.requests().len(), usize::from(!closes));
}

#[test]
fn rejects_requests_that_it_cannot_route() {
    check("", "GET / HTTP/1.1\r\nHost: other\r\n\r\n", (404, "no_route"), false);
    check("", "GET / HTTP/1.1\r\nHost: empty\r\n\r\n", (503, "no_endpoint"), false);
    check("", "GET /a/..%2fb HTTP/1.1\r\nHost: h\r\n\r\n", (400, "bad_path"), false);
    check("", "GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n", (400, "bad_path"), false);
    check("", "CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n\r\n", (501, "connect_unsupported"), true);
    check("", "POST / HTTP/1.1\r\nHost: other\r\nContent-Length: 9\r\n\r\n", (404, "no_route"), true);
}

#[test]
fn rejects_malformed_and_unsupported_requests() {
    check("", "GET / HTTP/1.1\r\n\r\n", (400, "malformed_request"), true);
    check("", "GET / HTTP/1.1\nHost: h\n\n", (400, "malformed_request"), true);
    check("", "\0\0\0\0", (400, "malformed_request"), true);
    check("", "GET / HTTP/1.2\r\nHost: h\r\n\r\n", (505, "unsupported_version"), true);
    check("", "GET / HTTP/1.1\r\nHost: h\r\nExpect: more\r\n\r\n", (417, "expectation"), true);
    let gzip = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n";
    check("", gzip, (501, "unsupported_coding"), true);
    let bad_chunk = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n";
    check("", bad_chunk, (400, "malformed_body"), true);
}

#[test]
fn rejects_requests_that_are_too_large() {
    let limits = "limits: { head: 1KiB, fields: 8, body: 4B }";
    let path = "a".repeat(2000);
    check(limits, &format!("GET /{path} HTTP/1.1\r\nHost: h\r\n\r\n"), (414, "target_too_long"), true);
    check(limits, &format!("GET / HTTP/1.1\r\nHost: h\r\nX: {path}\r\n\r\n"), (431, "head_too_large"), true);
    let fields = "X: y\r\n".repeat(8);
    check(limits, &format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n"), (431, "head_too_large"), true);
    let long = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello";
    check(limits, long, (413, "body_too_large"), true);
    let chunked = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    check(limits, chunked, (413, "body_too_large"), true);
}

#[test]
fn rejects_a_chunked_body_that_grows_too_large() {
    let origin = Origin::start(crate::setup::Served::stall);
    let proxy = Proxy::to(origin.address, "limits: { body: 4B }");
    let mut client = proxy.connect();
    client.send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n");
    proxy.wait_for("the upstream connection", |s| s.upstream.connects == 1);
    assert_eq!(client.ask("3\r\ncde\r\n").error(), (413, "body_too_large"));
}

#[test]
fn slow_client_gets_408() {
    let quick = "timeouts: { head: 100ms, body: 100ms }";
    check(quick, "GET / HTTP/1.1\r\nHos", (408, "head_timeout"), true);
    let origin = Origin::start(crate::setup::Served::stall);
    let proxy = Proxy::to(origin.address, quick);
    let slow = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab";
    assert_eq!(proxy.ask(slow).error(), (408, "body_timeout"));
    assert_eq!(proxy.gateway.stats().timeouts, 1);
}

#[test]
fn closes_idle_connections_without_a_response() {
    let proxy = Proxy::to(Origin::answering(OK).address, "timeouts: { idle: 1s }");
    let mut client = proxy.connect();
    assert_eq!(client.ask(GET).body, "ok");
    assert!(client.is_closed());
    assert!(proxy.connect().is_closed());
    assert_eq!(proxy.gateway.stats().errors.values().sum::<u64>(), 0);
}

#[test]
fn cuts_a_client_that_does_not_read() {
    let origin = Origin::start(|served| {
        served.request();
        served.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
        let block = "x".repeat(1 << 20);
        for _ in 0..1000 {
            served.send(&block);
        }
    });
    let proxy = Proxy::to(origin.address, "timeouts: { write: 100ms }");
    let mut client = proxy.connect();
    client.send(GET);
    proxy.wait_for("the cut", |s| s.errors["client_stalled"] == 1);
    assert!(!client.response().whole);
}

#[test]
fn rejects_clients_above_the_connection_limit() {
    let (release, released) = channel::<()>();
    let released = Mutex::new(released);
    let origin = Origin::start(move |served| {
        while served.request().is_some() {
            released.lock().unwrap().recv().unwrap();
            served.send(OK);
        }
    });
    let proxy = Proxy::to(origin.address, "limits: { connections: 1 }");
    let mut first = proxy.connect();
    first.send(GET);
    proxy.wait_for("its request", |_| origin.requests().len() == 1);
    assert_eq!(proxy.ask(GET).error(), (503, "connection_limit"));
    (0..2).for_each(|_| release.send(()).unwrap());
    assert_eq!(first.response().body, "ok");
    drop(first);
    proxy.wait_for("the closed connections", |s| s.connections.open == 0);
    assert_eq!(proxy.ask(GET).body, "ok");
}

#[test]
fn new_client_replaces_the_longest_idle_one() {
    let origin = Origin::start(|served| {
        while let Some(request) = served.request() {
            if request.starts_with("GET /held ") {
                return served.stall();
            }
            served.send(OK);
        }
    });
    let proxy = Proxy::to(origin.address, "limits: { connections: 3 }\ntimeouts: { idle: 1h }");
    let [mut longest, mut shorter, mut held] = [proxy.connect(), proxy.connect(), proxy.connect()];
    held.send("GET /held HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(longest.ask(GET).body, "ok");
    assert_eq!(shorter.ask(GET).body, "ok");
    let newcomer = || {
        for _ in 0..200 {
            let mut client = proxy.connect();
            if client.ask(GET).status == 200 {
                return client;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        panic!("no idle connection was closed: {:?}", proxy.gateway.stats());
    };
    let mut first = newcomer();
    assert!(longest.is_ended());
    assert_eq!(shorter.ask(GET).body, "ok", "only one connection is closed");
    assert_eq!(first.ask(GET).body, "ok");
    proxy.wait_for("the connection limit", |stats| stats.connections.open == 3);
}

#[test]
fn limits_connections_per_client_address() {
    let text = "limits: { connections_per_address: 2 }";
    let proxy = Proxy::to(Origin::answering(OK).address, text);
    let from = |last: u8| {
        let address = std::net::SocketAddr::from(([127, 0, 0, last], 0));
        let socket =
            rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, None);
        let socket = socket.unwrap();
        rustix::net::bind(&socket, &address).unwrap();
        rustix::net::connect(&socket, &proxy.gateway.addresses()[0]).unwrap();
        Client::over(std::net::TcpStream::from(socket))
    };
    let mut first: Vec<_> = (0..2).map(|_| from(1)).collect();
    first.iter_mut().for_each(|client| assert_eq!(client.ask(GET).body, "ok"));
    assert_eq!(from(1).ask(GET).error(), (503, "address_limit"));
    assert_eq!(from(2).ask(GET).body, "ok", "another address has its own limit");
    assert_eq!(first[0].ask(GET).body, "ok");
    drop(first.pop());
    proxy.wait_for("the closed connections", |s| s.connections.open == 1);
    assert_eq!(from(1).ask(GET).body, "ok");
    assert_eq!((proxy.errors("address_limit"), proxy.errors("connection_limit")), (1, 0));
}

#[test]
fn limits_upstream_connections() {
    let origin = Origin::start(crate::setup::Served::stall);
    let proxy = Proxy::to(origin.address, "limits: { upstream_connections: 1 }");
    let mut first = proxy.connect();
    first.send(GET);
    proxy.wait_for("the upstream connection", |s| s.upstream.open.get("b") == Some(&1));
    assert_eq!(proxy.ask(GET).error(), (503, "upstream_limit"));
}

#[test]
fn timeouts_of_a_backend_override_those_of_the_gateway() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let full = listener.local_addr().unwrap();
    let mut queued = Vec::new();
    while let Ok(stream) = std::net::TcpStream::connect_timeout(&full, std::time::Duration::from_millis(300))
    {
        queued.push(stream);
    }
    let stalling = Origin::start(crate::setup::Served::stall);
    let ok = Origin::answering(OK);
    let proxy = Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\n\
         routes: [{{ path: /full, backend: full }}, {{ path: /slow, backend: slow }}, {{ path: /ok, backend: ok }}]\n\
         backends: {{ full: {{ endpoints: ['{full}'], timeouts: {{ connect: 100ms }} }},\
                      slow: {{ endpoints: ['{}'], timeouts: {{ response: 100ms }} }},\
                      ok: {{ endpoints: ['{}'], timeouts: {{ idle: 100ms }} }} }}\n\
         timeouts: {{ connect: 1h, response: 1h, upstream_idle: 1h }}",
        stalling.address, ok.address
    ));
    let ask = |path: &str| proxy.ask(&format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
    assert_eq!(ask("/full").error(), (504, "upstream_connect_timeout"));
    assert_eq!(ask("/slow").error(), (504, "upstream_response_timeout"));
    assert_eq!(ask("/ok").body, "ok");
    proxy.wait_for("the close of the idle connection", |stats| stats.upstream.open["ok"] == 0);
    assert_eq!(proxy.gateway.stats().timeouts, 2);
}

#[test]
fn upstream_connection_serves_a_limited_number_of_requests() {
    let check = |keepalive: &str, expected: usize| {
        let origin = Origin::answering(OK);
        let proxy = Proxy::with(&format!(
            "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\nroutes: [{{ path: /, backend: b }}]\n\
             backends: {{ b: {{ endpoints: ['{}']{keepalive} }} }}",
            origin.address
        ));
        let mut client = proxy.connect();
        assert!((0..9).all(|_| client.ask(GET).body == "ok"));
        assert_eq!(
            (origin.connections(), proxy.gateway.stats().upstream.retries),
            (expected, 0),
            "{keepalive}"
        );
    };
    check("", 1);
    check(", keepalive: { requests: 3 }", 3);
    check(", keepalive: { requests: 1 }", 9);
    check(", keepalive: { time: 1h }", 1);
}

#[test]
fn upstream_connection_is_replaced_after_its_lifetime() {
    let origin = Origin::answering(OK);
    let proxy = Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\nroutes: [{{ path: /, backend: b }}]\n\
         backends: {{ b: {{ endpoints: ['{}'], keepalive: {{ time: 500ms }} }} }}",
        origin.address
    ));
    let mut client = proxy.connect();
    // The connection is never idle, and is replaced nevertheless.
    let is_replaced = (0..2000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        assert_eq!(client.ask(GET).body, "ok");
        origin.connections() > 1
    });
    assert!(is_replaced);
    assert_eq!(proxy.gateway.stats().upstream.retries, 0);
    proxy.wait_for("the close of the idle connection", |stats| stats.upstream.open["b"] == 0);
}
