//! Tests connections that are still open when the drain timeout passes. The client sees a reset; the log and the
//! counters report it.

use std::io::{Read as _, Write as _};

use crate::access_log::{configuration, lines};
use crate::setup::{Client, Origin, Proxy, Served};

const TUNNEL: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n";
const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Begins the requested response, and never completes it.
fn act(served: &mut Served) {
    let head = served.read_until("\r\n\r\n").unwrap_or_default();
    let flood = |served: &mut Served| while served.stream.write_all(b"5\r\nhello\r\n").is_ok() {};
    match head.split(' ').nth(1) {
        Some("/stream") => served.send(&format!("{CHUNKED}5\r\nhello\r\n")),
        Some("/tunnel") => served.send(TUNNEL),
        Some("/flood") => {
            served.send(CHUNKED);
            flood(served);
        }
        Some("/tunnel/flood") => {
            served.send(TUNNEL);
            flood(served);
        }
        _ => {}
    }
    served.stall();
}

fn upgrade(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
}

#[test]
fn drain_timeout_cuts_and_reports_open_requests() {
    let origin = Origin::start(act);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("access.log");
    let settings = ", format: '$request_uri $status $cause'";
    let text = configuration(&origin, &file, settings, "") + "\ndrain: { delay: 0s, timeout: 400ms }\n";
    let proxy = Proxy::with(&text);
    let begin = |request: &str| {
        let mut client = proxy.connect();
        client.send(request);
        client
    };
    let waiting = [
        "GET /hang HTTP/1.1\r\nHost: h\r\n\r\n",
        "POST /body HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\na",
        "GET /head HTTP/1.1\r\nHo",
    ]
    .map(begin);
    let mut streaming = begin("GET /stream HTTP/1.1\r\nHost: h\r\n\r\n");
    let mut tunnel = begin(&upgrade("/tunnel"));
    // Connections that always have data to transfer are cut too.
    let floods = [begin("GET /flood HTTP/1.1\r\nHost: h\r\n\r\n"), begin(&upgrade("/tunnel/flood"))];
    let floods = floods.map(|mut client: Client| {
        std::thread::spawn(move || {
            let mut chunk = [0; 1 << 16];
            while client.stream.read(&mut chunk).is_ok_and(|bytes| bytes > 0) {}
        })
    });
    let mut idle = proxy.connect();
    assert_eq!((streaming.head().status, tunnel.head().status), (200, 101));
    proxy.wait_for("all connections", |stats| stats.connections.open == 8 && stats.upstream.connects == 6);
    proxy.wait_for("the responses", |stats| stats.by_status.success == 2 && stats.connections.upgraded == 2);
    proxy.gateway.drain();
    for mut client in waiting {
        let answer = client.response();
        assert_eq!((answer.error(), answer.field("connection")), ((503, "drained"), Some("close")));
    }
    assert_eq!(streaming.read_exact(10), "5\r\nhello\r\n");
    for mut cut in [streaming, tunnel] {
        assert!(!cut.is_ended(), "the connection must be reset");
    }
    assert!(idle.is_ended(), "an idle connection is closed with a FIN");
    floods.into_iter().for_each(|flood| flood.join().unwrap());
    assert!(proxy.gateway.join());
    let mut reported = lines(&file);
    reported.sort();
    let expected = [
        "/body 503 drained",
        "/flood 200 drained",
        "/hang 503 drained",
        "/head 503 drained",
        "/stream 200 drained",
        "/tunnel 101 drained",
        "/tunnel/flood 101 drained",
    ];
    assert_eq!(reported, expected);
    let stats = proxy.gateway.stats();
    assert_eq!((stats.errors["drained"], stats.errors.values().sum::<u64>()), (7, 7), "{:?}", stats.errors);
    assert_eq!(proxy.gateway.cut_by_drain(), 8);
}

/// The response has neither `Content-Length` nor chunks, so a FIN would mark it as complete.
#[test]
fn response_cut_by_drain_does_not_look_complete() {
    let origin = Origin::start(act);
    let proxy = Proxy::to(origin.address, "\ndrain: { delay: 0s, timeout: 200ms }");
    let mut client = proxy.connect();
    client.send("GET /stream HTTP/1.0\r\nHost: h\r\n\r\n");
    assert_eq!(client.head().status, 200);
    proxy.gateway.drain();
    assert_eq!(client.read_exact(5), "hello");
    assert!(!client.is_ended(), "the connection must be reset");
    assert!(proxy.gateway.join());
}

/// Workers that a reload removed have no drain timeout of their own. When the process drains, its timeout cuts their
/// connections too.
#[test]
fn drain_timeout_also_cuts_removed_workers() {
    let origin = Origin::start(act);
    let text = format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 4\nroutes: [{{ path: /, backend: b }}]\n\
         backends: {{ b: {{ endpoints: ['{}'] }} }}\ndrain: {{ delay: 0s, timeout: 200ms }}\n",
        origin.address
    );
    let mut proxy = Proxy::with(&text);
    let mut clients: Vec<Client> = (0..8).map(|_| proxy.connect()).collect();
    for client in &mut clients {
        client.send("GET /hang HTTP/1.1\r\nHost: h\r\n\r\n");
    }
    proxy.wait_for("the exchanges", |stats| stats.upstream.connects == 8);
    let one = crate::setup::compile(&mut proxy.state, &text.replace("workers: 4", "workers: 1"));
    proxy.gateway.apply(one).unwrap();
    proxy.gateway.drain();
    for mut client in clients {
        assert_eq!(client.response().error(), (503, "drained"));
    }
    assert!(proxy.gateway.join());
    assert_eq!(proxy.errors("drained"), 8);
}
