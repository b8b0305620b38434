//! Clients that disconnect while their request is in flight or pending.

use std::net::{Shutdown, SocketAddr};
use std::sync::Mutex;
use std::sync::mpsc::channel;

use weir_dataplane::Stats;

use crate::breakers::waiting;
use crate::setup::{Client, Origin, Proxy, full_listener};

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const EVENTS: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n";

/// A gateway whose listener, route and backend have these fields.
fn gateway(listener: &str, route: &str, origin: SocketAddr, backend: &str) -> Proxy {
    Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0{listener} }}]\nworkers: 1\n\
         routes: [{{ path: /, backend: b{route} }}]\nbackends: {{ b: {{ endpoints: ['{origin}']{backend} }} }}"
    ))
}

/// An origin that responds to `/ok`, and never to other requests.
fn slow() -> Origin {
    Origin::start(|served| {
        while let Some(request) = served.request() {
            if !request.starts_with("GET /ok ") {
                return served.stall();
            }
            served.send(OK);
        }
    })
}

/// A client that has sent a request. Waits until the origin has received `count` requests.
fn asking(proxy: &Proxy, origin: &Origin, count: usize) -> Client {
    let mut client = proxy.connect();
    client.send(GET);
    proxy.wait_for("the request", |_| origin.requests().len() == count);
    client
}

/// Whether `count` clients disconnected, and all their connections are closed.
fn have_left(stats: &Stats, count: u64) -> bool {
    let is_closed = stats.connections.open == 0 && stats.upstream.open["b"] == 0;
    is_closed && stats.errors["client_closed"] == count
}

/// Waits for `count` disconnects. Checks that they count neither as responses nor as errors of the endpoint.
fn check_left(proxy: &Proxy, count: u64) {
    proxy.wait_for("the disconnects", |stats| have_left(stats, count));
    let stats = proxy.gateway.stats();
    assert_eq!((stats.errors.values().sum::<u64>(), stats.responses), (count, 0), "{:?}", stats.errors);
    let backend = &stats.upstream.backends["b"];
    assert_eq!((backend.ejections, backend.overflows, backend.waits), (0, 0, 0));
    assert_eq!((stats.upstream.retries, stats.upstream.connect_failures), (0, 0));
}

#[test]
fn disconnected_clients_free_the_request_limit() {
    for by_reset in [false, true] {
        let origin = slow();
        let proxy = gateway("", "", origin.address, ", limits: { requests: 5 }");
        let clients: Vec<_> = (1..=5).map(|count| asking(&proxy, &origin, count)).collect();
        assert_eq!(proxy.connect().ask(GET).error(), (503, "upstream_request_limit"));
        clients.into_iter().for_each(|client| client.leave(by_reset));
        proxy.wait_for("the disconnects", |stats| have_left(stats, 5));
        assert_eq!(proxy.connect().ask("GET /ok HTTP/1.1\r\nHost: h\r\n\r\n").body, "ok", "{by_reset}");
        let stats = proxy.gateway.stats();
        assert_eq!((stats.requests, stats.responses, stats.by_status.success), (7, 2, 1));
        assert_eq!((stats.upstream.reused, stats.upstream.backends["b"].overflows), (0, 1));
    }
}

#[test]
fn disconnect_is_neither_retried_nor_counted_against_the_endpoint() {
    for by_reset in [false, true] {
        let origin = slow();
        let route = ", retries: { attempts: 3, backoff: 1ms, on: [connect, reset, timeout, 502, 503] }";
        let proxy = gateway("", route, origin.address, ", ejection: { errors: 1, time: 1h }");
        asking(&proxy, &origin, 1).leave(by_reset);
        check_left(&proxy, 1);
        assert_eq!(origin.requests().len(), 1);
    }
}

#[test]
fn detects_a_disconnect_between_two_attempts() {
    let origin = Origin::start(|served| {
        served.request();
        served.send("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
    });
    let proxy = gateway("", ", retries: { on: [503], backoff: 1h }", origin.address, "");
    let mut client = proxy.connect();
    client.send(GET);
    proxy.wait_for("the first attempt", |stats| stats.upstream.retries == 1);
    client.leave(false);
    proxy.wait_for("the disconnect", |stats| have_left(stats, 1));
    assert_eq!((origin.requests().len(), proxy.gateway.stats().responses), (1, 0));
}

#[test]
fn detects_a_disconnect_during_the_upstream_connect() {
    let (listener, _queued) = full_listener();
    for by_reset in [false, true] {
        let proxy = gateway("", "", listener.local_addr().unwrap(), "");
        let mut client = proxy.connect();
        client.send(GET);
        proxy.wait_for("the connection", |stats| stats.upstream.connects == 1);
        client.leave(by_reset);
        proxy.wait_for("the disconnect", |stats| have_left(stats, 1));
        assert_eq!(proxy.gateway.stats().upstream.connect_failures, 0);
    }
}

#[test]
fn closes_an_event_stream_when_the_client_disconnects() {
    for by_reset in [false, true] {
        let origin = Origin::start(|served| {
            served.request();
            served.send(EVENTS);
            served.stall();
        });
        let proxy = gateway("", "", origin.address, "");
        let mut client = proxy.connect();
        client.send(GET);
        assert_eq!(client.head().status, 200);
        assert_eq!(client.read_exact(14), "9\r\ndata: 1\n\n\r\n");
        client.leave(by_reset);
        proxy.wait_for("the disconnect", |stats| have_left(stats, 1));
        let stats = proxy.gateway.stats();
        assert_eq!((stats.responses, stats.by_status.success), (1, 1));
    }
}

#[test]
fn detects_a_disconnect_after_an_upload() {
    let origin = slow();
    let proxy = gateway("", "", origin.address, "");
    let mut client = proxy.connect();
    client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab");
    proxy.wait_for("the connection", |stats| stats.upstream.connects == 1);
    client.send("cde");
    proxy.wait_for("the request", |_| origin.requests().len() == 1);
    client.leave(false);
    check_left(&proxy, 1);
}

#[test]
fn half_closed_client_gets_a_response_only_if_the_listener_allows_it() {
    let (origin, release) = waiting();
    let half = gateway(", half_close: true", "", origin.address, "");
    let mut client = asking(&half, &origin, 1);
    client.stream.shutdown(Shutdown::Write).unwrap();
    // The response to another request shows that the worker has processed the half-close.
    assert_eq!(half.ask("nonsense\r\n\r\n").status, 400);
    release.send(()).unwrap();
    assert_eq!(client.response().body, "ok");
    assert!(client.is_ended());
    // Even with `half_close`, a reset is a disconnect.
    asking(&half, &origin, 2).leave(true);
    half.wait_for("the disconnect", |stats| have_left(stats, 1));
    assert_eq!(half.gateway.stats().by_status.success, 1);

    let origin = slow();
    let whole = gateway("", "", origin.address, "");
    let mut client = asking(&whole, &origin, 1);
    client.stream.shutdown(Shutdown::Write).unwrap();
    check_left(&whole, 1);
    assert!(client.is_closed() && !client.is_ended());
}

#[test]
fn half_closed_client_gets_a_whole_stream() {
    let (more, is_more) = channel::<()>();
    let is_more = Mutex::new(is_more);
    let origin = Origin::start(move |served| {
        served.request();
        served.send(EVENTS);
        for () in is_more.lock().unwrap().iter() {
            served.send("data: 2\n\n");
        }
    });
    let proxy = gateway(", half_close: true", "", origin.address, "");
    let mut client = proxy.connect();
    client.send(GET);
    client.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.head().status, 200);
    for turn in 0..3 {
        assert_eq!(client.read_exact(14)[3..9], *"data: ", "{turn}");
        more.send(()).unwrap();
    }
    drop(more);
    assert!(client.read_exact(19).ends_with("\r\n0\r\n\r\n"));
    assert_eq!(proxy.errors("client_closed"), 0);
}

/// A response of the route needs no wait, so the gateway does not check for a disconnect.
#[test]
fn half_closed_client_gets_an_immediate_response() {
    let proxy = Proxy::with(
        "listeners: [{ address: 127.0.0.1:0 }]\nworkers: 1\nroutes: [{ path: /, respond: { body: ok } }]",
    );
    let mut client = proxy.connect();
    client.send(GET);
    client.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.response().body, "ok");
}

#[test]
fn serves_pipelined_requests_in_order() {
    let (origin, release) = waiting();
    let proxy = gateway("", "", origin.address, "");
    let mut client = asking(&proxy, &origin, 1);
    let body = "0123456789".repeat(10_000);
    client.send(GET);
    client.send(&format!("POST /long HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
    (0..3).for_each(|_| release.send(()).unwrap());
    for turn in 0..3 {
        assert_eq!(client.response().body, "ok", "{turn}");
    }
    assert!(origin.requests()[2].ends_with(&body));
    assert_eq!((proxy.errors("client_closed"), origin.connections()), (0, 1));
}

#[test]
fn detects_a_disconnect_with_a_stalled_unix_socket() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let proxy = Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\nroutes: [{{ path: /, backend: b }}]\n\
         backends: {{ b: {{ endpoints: ['unix:{}'] }} }}",
        path.display()
    ));
    let mut client = proxy.connect();
    client.send(GET);
    let (mut upstream, _) = listener.accept().unwrap();
    client.leave(false);
    proxy.wait_for("the disconnect", |stats| have_left(stats, 1));
    let mut asked = String::new();
    std::io::Read::read_to_string(&mut upstream, &mut asked).unwrap();
    assert!(asked.starts_with("GET / HTTP/1.1\r\n"), "the connection must be closed: {asked}");
}
