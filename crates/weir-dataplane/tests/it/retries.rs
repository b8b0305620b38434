//! Retries by the policy of the route.

use std::collections::HashSet;
use std::net::TcpListener;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use crate::setup::{Origin, Proxy, Served};

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy";

/// A gateway with one route and one backend. `route` and `backend` add fields to them.
fn gateway(route: &str, backend: &str) -> Proxy {
    Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\n\
         routes: [{{ path: /, backend: b, {route} }}]\nbackends: {{ b: {{ {backend} }} }}"
    ))
}

fn to(origin: &Origin, route: &str) -> Proxy {
    gateway(route, &format!("endpoints: ['{}']", origin.address))
}

/// An origin that sends `first` to the first `times` requests, and then normal responses. It keeps connections open.
fn failing(times: usize, first: &'static str) -> Origin {
    let left = Mutex::new(times);
    Origin::start(move |served| {
        while served.request().is_some() {
            let mut left = left.lock().unwrap();
            let is_failing = *left > 0;
            *left = left.saturating_sub(1);
            drop(left);
            served.send(if is_failing { first } else { OK });
        }
    })
}

/// Checks the final status and the number of upstream requests (`expected`) for a route with `retries`. The upstream
/// sends 503 to the first `busy` requests.
fn check(retries: &str, request: &str, busy: usize, expected: (u16, usize)) {
    let origin = failing(busy, BUSY);
    let proxy = to(&origin, &format!("retries: {retries}"));
    let mut client = proxy.connect();
    let answer = client.ask(request);
    assert_eq!((answer.status, origin.requests().len()), expected, "{retries} {request:?}");
    assert_eq!(answer.error().1, "none", "the last response comes from the upstream");
    assert!(origin.requests().iter().all(|sent| *sent == origin.requests()[0]));
    assert_eq!(origin.connections(), 1, "a discarded complete response keeps its connection open");
    let stats = proxy.gateway.stats();
    assert_eq!((stats.requests, stats.responses), (1, 1));
    assert_eq!(stats.upstream.retries, expected.1 as u64 - 1);
    assert!(client.ask(GET).whole, "the client connection stays open");
}

#[test]
fn retries_statuses_up_to_the_configured_attempts() {
    check("{ attempts: 2, on: [503], backoff: 1ms }", GET, 1, (200, 2));
    check("{ attempts: 2, on: [502, 503], backoff: 1ms }", GET, 2, (200, 3));
    check("{ attempts: 2, on: [503], backoff: 1ms }", GET, 9, (503, 3));
    check("{ attempts: 2, on: [connect, reset, timeout, 502], backoff: 1ms }", GET, 9, (503, 1));
    check("{}", GET, 9, (503, 1));
}

#[test]
fn retries_non_idempotent_methods_only_if_configured() {
    check("{ on: [503], backoff: 1ms }", POST, 9, (503, 1));
    check("{ on: [503], backoff: 1ms, non_idempotent: true }", POST, 1, (200, 2));
    check("{ on: [503], backoff: 1ms }", &POST.replace("POST", "PUT"), 1, (200, 2));
}

#[test]
fn retries_failed_connects_for_every_method() {
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let proxy = gateway("retries: { attempts: 3, backoff: 1ms }", &format!("endpoints: ['{dead}']"));
    assert_eq!(proxy.ask(POST).error(), (502, "upstream_connect_failed"));
    let upstream = proxy.gateway.stats().upstream;
    assert_eq!((upstream.connects, upstream.connect_failures, upstream.retries), (4, 4, 3));
    let proxy = gateway("retries: { on: [reset] }", &format!("endpoints: ['{dead}']"));
    assert_eq!(proxy.ask(GET).error(), (502, "upstream_connect_failed"));
    assert_eq!(proxy.gateway.stats().upstream.connects, 1);
}

#[test]
fn only_the_first_attempt_tries_further_endpoints() {
    let dead: [String; 5] = std::array::from_fn(|_| {
        format!("'{}'", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap())
    });
    let backend = format!("endpoints: [{}]", dead.join(", "));
    for (route, retries) in [("", 0), ("retries: { attempts: 3, on: [connect], backoff: 1ms }", 3)] {
        let proxy = gateway(route, &backend);
        assert_eq!(proxy.ask(POST).error(), (502, "upstream_connect_failed"));
        let stats = proxy.gateway.stats();
        let (upstream, of_backend) = (&stats.upstream, &stats.upstream.backends["b"]);
        assert_eq!((upstream.connects, upstream.connect_failures), (3 + retries, 3 + retries), "{route}");
        assert_eq!((upstream.retries, of_backend.connects_further), (retries, 2 + retries), "{route}");
        let text = stats.prometheus();
        for (family, count) in [
            ("connects_total", 3 + retries),
            ("connects_further_total", 2 + retries),
            ("connect_failures_total", 3 + retries),
            ("retries_total", retries),
            ("retries_over_budget_total", 0),
        ] {
            let sample = format!("\nweir_upstream_{family}{{backend=\"b\"}} {count}\n");
            assert!(text.contains(&sample), "{sample} {text}");
        }
    }
}

/// Checks the response if the upstream resets this number of new connections.
fn check_reset(retries: &str, request: &str, resets: usize, expected: (u16, &str), connections: usize) {
    let origin = Origin::start(move |served| {
        served.request();
        if served.number < resets {
            return served.reset();
        }
        served.send(OK);
        served.stall();
    });
    let proxy = to(&origin, &format!("retries: {retries}"));
    assert_eq!(proxy.ask(request).error(), expected, "{retries}");
    assert_eq!(origin.connections(), connections, "{retries}");
    assert_eq!(proxy.gateway.stats().upstream.retries, connections as u64 - 1);
}

#[test]
fn retries_resets_of_new_connections() {
    check_reset("{ backoff: 1ms }", GET, 1, (200, "none"), 2);
    check_reset("{ backoff: 1ms, attempts: 2 }", GET, 9, (502, "upstream_closed"), 3);
    check_reset("{ backoff: 1ms }", POST, 1, (502, "upstream_closed"), 1);
    check_reset("{ backoff: 1ms, on: [503, connect] }", GET, 1, (502, "upstream_closed"), 1);
}

#[test]
fn retries_responses_that_end_within_the_headers() {
    for begun in ["", "HTTP/1.1 200 OK\r\nContent-Le", "HTTP/1.1 103 Early Hints\r\n\r\n"] {
        let origin = Origin::start(move |served| {
            served.request();
            if served.number == 0 {
                return served.send(begun);
            }
            served.send(OK);
            served.stall();
        });
        let proxy = to(&origin, "retries: { on: [reset], backoff: 1ms }");
        let mut client = proxy.connect();
        let mut answer = client.ask(GET);
        if answer.status == 103 {
            answer = client.response();
        }
        assert_eq!((answer.body.as_str(), origin.connections()), ("ok", 2), "{begun:?}");
        assert_eq!(proxy.gateway.stats().upstream.retries, 1);
    }
}

#[test]
fn forwards_each_interim_response_from_only_one_attempt() {
    const HINTS: &str = "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n";
    let origin = Origin::start(|served| {
        served.request();
        served.send(&HINTS.repeat(2));
        if served.number < 2 {
            return;
        }
        served.send("HTTP/1.1 102 Processing\r\n\r\n");
        served.send(OK);
        served.stall();
    });
    let proxy = to(&origin, "retries: { attempts: 2, on: [reset], backoff: 1ms }");
    let mut client = proxy.connect();
    let first = client.ask(GET).status;
    let reported: Vec<u16> = std::iter::once(first).chain((0..3).map(|_| client.response().status)).collect();
    assert_eq!((reported, origin.connections()), (vec![103, 103, 102, 200], 3));
    assert_eq!(proxy.gateway.stats().by_status.informational, 3);
}

#[test]
fn retries_a_put_on_a_closed_connection() {
    let origin = Origin::start(|served| {
        served.request();
        served.send(OK);
        // The next request finds the connection closed.
        served.request();
    });
    let proxy = Proxy::to(origin.address, "");
    let mut client = proxy.connect();
    assert_eq!(client.ask(GET).body, "ok");
    assert_eq!(client.ask(&POST.replace("POST", "PUT")).body, "ok", "without a retry policy");
    assert_eq!((origin.requests().len(), proxy.gateway.stats().upstream.retries), (3, 1));
}

#[test]
fn retries_an_attempt_that_times_out() {
    let origin = Origin::start(|served| {
        served.request();
        if served.number == 0 {
            return served.stall();
        }
        served.send(OK);
        served.stall();
    });
    let proxy = to(&origin, "timeouts: { backend: 100ms }, retries: { on: [timeout], backoff: 1ms }");
    assert_eq!(proxy.ask(GET).body, "ok");
    assert_eq!((origin.connections(), proxy.gateway.stats().timeouts), (2, 0));
    let origin = Origin::start(Served::stall);
    let proxy = to(&origin, "timeouts: { backend: 100ms }, retries: { on: [timeout], backoff: 1ms }");
    assert_eq!(proxy.ask(GET).error(), (504, "backend_timeout"));
    assert_eq!((origin.connections(), proxy.gateway.stats().timeouts), (2, 1));
}

#[test]
fn request_timeout_ends_the_backoff() {
    let origin = failing(usize::MAX, BUSY);
    let proxy = to(&origin, "timeouts: { request: 200ms }, retries: { attempts: 9, on: [503], backoff: 1h }");
    let mut client = proxy.connect();
    assert_eq!(client.ask(GET).error(), (504, "request_timeout"));
    assert_eq!(client.ask(GET).error(), (504, "request_timeout"), "the connection stays open");
    assert_eq!(proxy.errors("request_timeout"), 2);
}

#[test]
fn buffers_bodies_up_to_64_kib() {
    let ask = |bytes: usize| {
        let origin = failing(1, BUSY);
        let proxy = to(&origin, "retries: { on: [503], backoff: 1ms }");
        let body = "0123456789".repeat(bytes / 10);
        let request = format!("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: {bytes}\r\n\r\n{body}");
        let answer = proxy.ask(&request);
        let requests = origin.requests();
        assert!(requests.iter().all(|sent| sent.ends_with(&body)), "every attempt sends the whole body");
        (answer.status, requests.len(), proxy.gateway.stats().upstream.retries)
    };
    assert_eq!(ask(60_000), (200, 2, 1));
    assert_eq!(ask(70_000), (503, 1, 0));
}

#[test]
fn resends_a_streamed_body_completely() {
    const PIECE: usize = 20_000;
    let (read, reading) = channel();
    let read = Mutex::new(read);
    let origin = Origin::start(move |served| {
        served.read_until("\r\n\r\n").unwrap();
        if served.number == 0 {
            for _ in 0..2 {
                served.read_exact(PIECE).unwrap();
                read.lock().unwrap().send(String::new()).unwrap();
            }
            return served.reset();
        }
        read.lock().unwrap().send(served.read_exact(3 * PIECE).unwrap()).unwrap();
        served.send(OK);
        served.stall();
    });
    let proxy = to(&origin, "retries: { backoff: 1ms }");
    let body: String = (0..3 * PIECE).map(|n| char::from(b'a' + (n % 23) as u8)).collect();
    let mut client = proxy.connect();
    client.send(&format!("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", body.len()));
    for piece in [&body[..PIECE], &body[PIECE..2 * PIECE]] {
        client.send(piece);
        assert_eq!(reading.recv().unwrap(), "");
    }
    proxy.wait_for("the second attempt", |stats| stats.upstream.retries == 1);
    client.send(&body[2 * PIECE..]);
    assert!(reading.recv().unwrap() == body, "the body must be complete and in order");
    assert_eq!(client.response().body, "ok");
    assert_eq!(origin.connections(), 2);
}

#[test]
fn forwards_the_rest_of_a_body_after_a_retry() {
    let (begun, beginning) = channel();
    let begun = Mutex::new(begun);
    let origin = Origin::start(move |served| {
        let head = served.read_until("\r\n\r\nabcd").unwrap();
        if served.number == 0 {
            return served.reset();
        }
        begun.lock().unwrap().send(head).unwrap();
        assert_eq!(served.read_exact(4).unwrap(), "efgh");
        served.send(OK);
        served.stall();
    });
    let proxy = to(&origin, "retries: { backoff: 1ms }");
    let mut client = proxy.connect();
    client.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 8\r\n\r\nabcd");
    // The client sends the second half of the body only after the first half arrived on the second upstream connection.
    let again = beginning.recv().unwrap();
    assert!(again.starts_with("PUT / HTTP/1.1\r\nHost: h\r\n"), "{again}");
    client.send("efgh");
    assert_eq!(client.response().body, "ok");
    assert_eq!((origin.connections(), proxy.gateway.stats().upstream.retries), (2, 1));
}

#[test]
fn does_not_retry_after_the_response_started() {
    let origin = Origin::start(|served| {
        served.request();
        served.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
    });
    let proxy = to(&origin, "retries: { attempts: 9, on: [connect, reset, timeout, 503], backoff: 1ms }");
    let answer = proxy.ask(GET);
    assert_eq!((answer.status, answer.whole, origin.requests().len()), (200, false, 1));
    assert_eq!(proxy.errors("upstream_truncated"), 1);
}

/// An upstream that sends 503 to the first request for each path. It responds to the second one after a message on the
/// returned channel.
fn busy_first() -> (Origin, std::sync::mpsc::Sender<()>) {
    let (release, released) = channel::<()>();
    let (seen, released) = (Arc::new(Mutex::new(HashSet::new())), Mutex::new(released));
    let origin = Origin::start(move |served| {
        while let Some(request) = served.request() {
            let path = request.split(' ').nth(1).unwrap().to_owned();
            if seen.lock().unwrap().insert(path) {
                served.send(BUSY);
            } else {
                released.lock().unwrap().recv().unwrap();
                served.send(OK);
            }
        }
    });
    (origin, release)
}

/// Checks how many of four concurrent requests are retried with this budget.
fn check_budget(limits: &str, expected: u64) {
    let (origin, release) = busy_first();
    let backend = format!("endpoints: ['{}']{limits}", origin.address);
    let proxy = gateway("retries: { on: [503], backoff: 1ms }", &backend);
    let mut clients: Vec<_> = (0..4).map(|_| proxy.connect()).collect();
    for (number, client) in (1..).zip(&mut clients) {
        client.send(&format!("GET /{number} HTTP/1.1\r\nHost: h\r\n\r\n"));
        proxy.wait_for("the retry or the response", |stats| {
            stats.upstream.retries + stats.upstream.retries_over_budget == number
        });
    }
    let upstream = proxy.gateway.stats().upstream;
    assert_eq!((upstream.retries, upstream.retries_over_budget), (expected, 4 - expected), "{limits}");
    (0..expected).for_each(|_| release.send(()).unwrap());
    let reported: Vec<u16> = clients.iter_mut().map(|client| client.response().status).collect();
    assert_eq!(reported.iter().filter(|&&status| status == 200).count() as u64, expected);
    assert_eq!(reported.iter().filter(|&&status| status == 503).count() as u64, 4 - expected);
    // A completed retry frees its part of the budget.
    release.send(()).unwrap();
    assert_eq!(proxy.ask("GET /5 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").status, 200);
}

#[test]
fn limits_concurrent_retries() {
    check_budget("", 3);
    check_budget(", limits: { retries: 100% }", 4);
    check_budget(", limits: { retries: 0% }", 3);
}
