//! Mirroring of requests to another backend.

use std::net::TcpListener;

use weir_dataplane::MirrorStats;

use crate::setup::{Origin, Proxy, Served};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const GET: &str = "GET /api?q HTTP/1.1\r\nHost: h\r\nAccept: */*\r\n\r\n";

/// Maximum number of in-flight copies per worker.
const IN_FLIGHT_MAX: u64 = 64;

/// A gateway that forwards requests to `origin`, and copies a share of them to `mirror`.
fn gateway(share: &str, origin: &Origin, mirror: std::net::SocketAddr, more: &str) -> Proxy {
    Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\n\
         routes: [{{ path: /, backend: b, rewrite: {{ prefix: /v2 }}, mirror: {{ backend: m, share: {share} }}, \
                     request_headers: {{ set: {{ X-Set: s }} }} }}]\n\
         backends: {{ b: {{ endpoints: ['{}'] }}, m: {{ endpoints: ['{mirror}'] }} }}\n{more}",
        origin.address
    ))
}

/// Waits until the mirror got this number of requests.
fn wait_for_copies(mirror: &Origin, copies: usize) -> Vec<String> {
    for _ in 0..2000 {
        if mirror.requests().len() >= copies {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    mirror.requests()
}

#[test]
fn copies_a_share_of_upstream_requests() {
    let origin = Origin::answering(OK);
    let mirror =
        Origin::answering("HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n");
    let proxy = gateway("20%", &origin, mirror.address, "");
    let mut client = proxy.connect();
    for _ in 0..20 {
        let answer = client.ask(GET);
        assert_eq!((answer.status, answer.body.as_str()), (200, "ok"));
    }
    let expected = "GET /v2/api?q HTTP/1.1\r\nHost: h\r\nAccept: */*\r\nX-Set: s\r\n\r\n";
    assert_eq!(wait_for_copies(&mirror, 4), [expected; 4]);
    assert_eq!(origin.requests(), [expected; 20]);
    proxy.wait_for("the last copy", |s| s.upstream.mirror.copies == 4);
    let stats = proxy.gateway.stats();
    assert_eq!((stats.requests, stats.by_status.success, stats.by_status.server_error), (20, 20, 0));
    assert_eq!(stats.upstream.mirror, MirrorStats { copies: 4, ..MirrorStats::default() });
}

#[test]
fn copies_complete_bodies() {
    let origin = Origin::answering(OK);
    let mirror = Origin::answering(OK);
    let proxy = gateway("100%", &origin, mirror.address, "");
    let mut client = proxy.connect();
    client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhel");
    proxy.wait_for("the upstream connection", |s| s.upstream.connects == 1);
    assert_eq!(proxy.gateway.stats().upstream.mirror.copies, 0, "the body is not complete");
    assert_eq!(client.ask("lo ther").body, "ok");
    let expected = "POST /v2/ HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\nX-Set: s\r\n\r\nhello ther";
    assert_eq!(wait_for_copies(&mirror, 1), [expected]);
    assert_eq!(client.ask("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi").body, "ok");
    assert!(wait_for_copies(&mirror, 2)[1].ends_with("\r\n\r\nhi"));
    // A request whose body ends early never becomes complete, so it is not mirrored.
    client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhel");
    drop(client);
    proxy.wait_for("the disconnect", |s| s.errors["client_closed"] == 1);
    assert_eq!(proxy.gateway.stats().upstream.mirror.copies, 2);
}

#[test]
fn copies_chunked_bodies_as_chunks() {
    let (tell, reported) = std::sync::mpsc::channel();
    let script = move |served: &mut Served| {
        let head = served.read_until("\r\n\r\n").unwrap();
        let body = served.read_until("0\r\n\r\n").unwrap();
        served.send(OK);
        tell.send((head, body)).unwrap();
        served.stall();
    };
    let (origin, mirror) = (Origin::start(script.clone()), Origin::start(script));
    let proxy = gateway("100%", &origin, mirror.address, "");
    let mut client = proxy.connect();
    client.send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2;x\r\nab\r\n");
    proxy.wait_for("the upstream connection", |s| s.upstream.connects == 1);
    assert_eq!(client.ask("1\r\nc\r\n0\r\n\r\n").body, "ok");
    let (passed, copied) = (reported.recv().unwrap(), reported.recv().unwrap());
    assert_eq!(passed, copied);
    assert_eq!(copied.1, "2\r\nab\r\n1\r\nc\r\n0\r\n\r\n");
    assert_eq!(proxy.gateway.stats().upstream.mirror.copies, 1);
}

#[test]
fn does_not_copy_long_bodies() {
    let (origin, mirror) = (Origin::answering(OK), Origin::answering(OK));
    let proxy = gateway("100%", &origin, mirror.address, "");
    let mut client = proxy.connect();
    let body = "x".repeat(65_537);
    let long = format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 65537\r\n\r\n{body}");
    assert_eq!(client.ask(&long).body, "ok");
    assert_eq!(proxy.gateway.stats().upstream.mirror, MirrorStats { too_long: 1, ..MirrorStats::default() });
    // The body alone would fit, but not together with the headers.
    let long = format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 65500\r\n\r\n{}", &body[..65_500]);
    assert_eq!(client.ask(&long).body, "ok");
    let short = format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 60000\r\n\r\n{}", &body[..60_000]);
    assert_eq!(client.ask(&short).body, "ok");
    assert_eq!(wait_for_copies(&mirror, 1).len(), 1);
    assert!(mirror.requests()[0].ends_with(&body[..60_000]));
    proxy.wait_for("the counts", |s| (s.upstream.mirror.copies, s.upstream.mirror.too_long) == (1, 2));
}

#[test]
fn stalled_mirror_delays_no_request() {
    let origin = Origin::answering(OK);
    let mirror = Origin::start(Served::stall);
    let proxy = gateway("100%", &origin, mirror.address, "timeouts: { response: 2s }");
    let mut client = proxy.connect();
    for _ in 0..IN_FLIGHT_MAX + 10 {
        assert_eq!(client.ask(GET).body, "ok");
    }
    let stats = proxy.gateway.stats().upstream;
    assert!(stats.open["m"] <= IN_FLIGHT_MAX, "{stats:?}");
    let stats = stats.mirror;
    assert_eq!(stats.copies + stats.crowded, IN_FLIGHT_MAX + 10);
    assert!(stats.copies >= IN_FLIGHT_MAX, "{stats:?}");
    // In-flight copies time out and make room for others.
    let begun = stats.copies;
    proxy.wait_for("the limit", |s| s.upstream.mirror.failures == begun);
    proxy.wait_for("the close of the connections", |s| s.upstream.open["m"] == 0);
    assert_eq!(client.ask(GET).body, "ok");
    proxy.wait_for("another copy", |s| s.upstream.mirror.copies == begun + 1);
    assert_eq!(proxy.gateway.stats().errors.values().sum::<u64>(), 0, "copies count no client errors");
}

#[test]
fn unreachable_or_broken_mirror_is_only_counted() {
    let origin = Origin::answering(OK);
    let away = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let broken = Origin::answering("HTTP/1.1 100 Continue\r\n\r\nnonsense\r\n\r\n");
    let cut = Origin::start(|served| {
        served.request();
        served.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab");
    });
    let upgrading = Origin::answering("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n");
    for mirror in [away, broken.address, cut.address, upgrading.address] {
        let proxy = gateway("100%", &origin, mirror, "");
        assert_eq!(proxy.ask(GET).body, "ok");
        proxy.wait_for("the failure", |s| s.upstream.mirror.failures == 1);
        assert_eq!(proxy.gateway.stats().upstream.mirror.copies, 1);
    }
}

#[test]
fn reuses_a_mirror_connection_after_a_complete_response() {
    let origin = Origin::answering(OK);
    let mirror = Origin::start(|served| {
        while let Some(request) = served.request() {
            served.send("HTTP/1.1 103 Early Hints\r\n\r\n");
            served.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n");
            if !request.starts_with("HEAD") {
                served.send("abc");
            }
        }
    });
    let proxy = gateway("100%", &origin, mirror.address, "");
    let mut client = proxy.connect();
    let is_kept = (1..2000).any(|requests| {
        if requests % 2 == 0 {
            client.send("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
            assert_eq!(client.head().status, 200);
        } else {
            assert_eq!(client.ask(GET).body, "ok");
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
        // Client requests cause `requests - 1` of the reuses of upstream connections. Mirrored copies cause all others.
        proxy.gateway.stats().upstream.reused >= requests + 10
    });
    assert!(is_kept, "{:?}", proxy.gateway.stats());
    assert_eq!(proxy.gateway.stats().upstream.mirror.failures, 0);
}

#[test]
fn copies_rejected_requests_but_not_upgrades() {
    let mirror = Origin::answering(OK);
    let proxy = Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\n\
         routes: [{{ path: /, backend: e, mirror: {{ backend: m }} }}]\n\
         backends: {{ e: {{ endpoints: [] }}, m: {{ endpoints: ['{}'] }} }}",
        mirror.address
    ));
    let upgrade = "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n";
    assert_eq!(proxy.ask(upgrade).error(), (503, "no_endpoint"));
    assert_eq!(proxy.ask("GET /second HTTP/1.1\r\nHost: h\r\n\r\n").error(), (503, "no_endpoint"));
    assert_eq!(wait_for_copies(&mirror, 1), ["GET /second HTTP/1.1\r\nHost: h\r\n\r\n"]);
    assert_eq!(proxy.gateway.stats().upstream.mirror.copies, 1);
}
