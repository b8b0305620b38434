//! Limits of one backend, counted over all workers.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_dataplane::{BackendStats, Stats};

use crate::setup::{Client, Origin, Proxy, full_listener, recompile_with};

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// An upstream that waits for a message on the returned channel before each response.
pub(crate) fn waiting() -> (Origin, Sender<()>) {
    let (release, released) = channel::<()>();
    let released = Arc::new(Mutex::new(released));
    let origin = Origin::start(move |served| {
        while served.request().is_some() {
            released.lock().unwrap().recv().unwrap();
            served.send(OK);
        }
    });
    (origin, release)
}

fn text(workers: u32, address: SocketAddr, limits: &str) -> String {
    format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: {workers}\nroutes: [{{ path: /, backend: b }}]\n\
         backends: {{ b: {{ endpoints: ['{address}'], limits: {limits} }} }}"
    )
}

fn gateway(address: SocketAddr, limits: &str) -> Proxy {
    Proxy::with(&text(2, address, limits))
}

fn stats(proxy: &Proxy) -> BackendStats {
    proxy.gateway.stats().upstream.backends["b"]
}

/// Clients that each sent one request, for `/0`, `/1` and so on. The first request is at the origin. The others are
/// pending in this order.
fn in_line(proxy: &Proxy, origin: &Origin, count: u64) -> Vec<Client> {
    let send = |number: u64| {
        let mut client = proxy.connect();
        client.send(&format!("GET /{number} HTTP/1.1\r\nHost: h\r\n\r\n"));
        proxy.wait_for("the request", |stats| match number {
            0 => origin.requests().len() == 1,
            _ => stats.upstream.backends["b"].pending == number,
        });
        client
    };
    (0..count).map(send).collect()
}

/// The request targets that the origin received.
fn asked(origin: &Origin) -> Vec<String> {
    let path = |request: &String| request.split(' ').nth(1).unwrap().to_owned();
    origin.requests().iter().map(path).collect()
}

/// Checks the number of requests that are allowed at the same time, and the error of further requests.
fn check(limits: &str, most: usize, cause: &str) {
    let (origin, release) = waiting();
    let proxy = gateway(origin.address, limits);
    let mut inside: Vec<_> = (0..most).map(|_| proxy.connect()).collect();
    inside.iter_mut().for_each(|client| client.send(GET));
    for _ in 0..2000 {
        if origin.requests().len() == most {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    // The kernel distributes connections among the workers. With this many connections, each worker gets some.
    for _ in 0..16 {
        let mut beyond = proxy.connect();
        assert_eq!(beyond.ask(GET).error(), (503, cause), "{limits}");
    }
    assert_eq!(origin.requests().len(), most, "{limits}");
    assert_eq!(proxy.errors(cause), 16);
    assert_eq!(proxy.gateway.stats().upstream.backends["b"].overflows, 16);
    (0..most + 1).for_each(|_| release.send(()).unwrap());
    assert!(inside.iter_mut().all(|client| client.response().body == "ok"));
    assert_eq!(inside[0].ask(GET).body, "ok", "completed requests no longer count");
}

#[test]
fn limits_in_flight_requests() {
    check("{ requests: 1 }", 1, "upstream_request_limit");
    check("{ requests: 5 }", 5, "upstream_request_limit");
}

#[test]
fn limits_connections_of_a_backend() {
    check("{ connections: 3 }", 3, "upstream_limit");
}

#[test]
fn limits_pending_requests_for_connections() {
    let (listener, _queued) = full_listener();
    let proxy = gateway(listener.local_addr().unwrap(), "{ pending: 2 }");
    let mut waiting: Vec<_> = (0..2).map(|_| proxy.connect()).collect();
    waiting.iter_mut().for_each(|client| client.send(GET));
    proxy.wait_for("both requests", |stats| stats.upstream.connects == 2);
    for _ in 0..8 {
        assert_eq!(proxy.connect().ask(GET).error(), (503, "upstream_pending_limit"));
    }
    assert_eq!(proxy.gateway.stats().upstream.connects, 2);
    assert_eq!(proxy.gateway.stats().upstream.backends["b"].overflows, 8);
}

#[test]
fn pending_requests_are_served_in_order() {
    for workers in [1, 2] {
        let (origin, release) = waiting();
        let proxy = Proxy::with(&text(workers, origin.address, "{ requests: 1, pending: 3 }"));
        let mut clients = in_line(&proxy, &origin, 4);
        assert_eq!(proxy.connect().ask(GET).error(), (503, "upstream_pending_limit"));
        let (now, errors) = (stats(&proxy), proxy.errors("upstream_pending_limit"));
        assert_eq!((now.pending, now.waits, now.overflows, errors), (3, 3, 1, 1));
        (0..4).for_each(|_| release.send(()).unwrap());
        assert!(clients.iter_mut().all(|client| client.response().body == "ok"));
        assert_eq!(asked(&origin), ["/0", "/1", "/2", "/3"], "{workers}");
        let now = stats(&proxy);
        assert_eq!((now.pending, now.waits, now.overflows), (0, 3, 1));
    }
}

#[test]
fn pending_request_times_out() {
    let (origin, release) = waiting();
    for (limits, waits) in [("{ requests: 1, pending: 1 }", 1), ("{ connections: 1, pending: 2 }", 1)] {
        let proxy = gateway(origin.address, &format!("{limits}, timeouts: {{ pending: 100ms }}"));
        let before = origin.requests().len();
        let mut held = proxy.connect();
        held.send(GET);
        proxy.wait_for("the first", |_| origin.requests().len() == before + 1);
        assert_eq!(proxy.connect().ask(GET).error(), (503, "upstream_pending_timeout"), "{limits}");
        assert_eq!((proxy.errors("upstream_pending_timeout"), proxy.gateway.stats().timeouts), (1, 1));
        let now = stats(&proxy);
        assert_eq!((now.pending, now.waits, now.overflows), (0, waits, 1), "{limits}");
        (0..2).for_each(|_| release.send(()).unwrap());
        assert_eq!(held.response().body, "ok");
        assert_eq!(held.ask(GET).body, "ok", "the limit has capacity again");
        assert_eq!(origin.requests().len(), before + 2, "the request that timed out is not sent");
    }
}

#[test]
fn disconnected_client_frees_its_place_in_the_queue() {
    for (limits, by_reset) in
        [("{ requests: 1, pending: 1 }", false), ("{ connections: 1, pending: 1 }", true)]
    {
        let (origin, release) = waiting();
        let proxy = Proxy::with(&text(1, origin.address, limits));
        let clients = in_line(&proxy, &origin, 2);
        let [mut first, second] = <[Client; 2]>::try_from(clients).ok().unwrap();
        second.leave(by_reset);
        let is_out = |stats: &Stats| stats.upstream.backends["b"].pending == 0;
        proxy.wait_for("the disconnect", |stats| stats.errors["client_closed"] == 1 && is_out(stats));
        let mut third = proxy.connect();
        third.send("GET /third HTTP/1.1\r\nHost: h\r\n\r\n");
        proxy.wait_for("the next pending request", |stats| stats.upstream.backends["b"].pending == 1);
        // The gateway serves a pipelined request after the pending one.
        third.send("GET /fourth HTTP/1.1\r\nHost: h\r\n\r\n");
        (0..3).for_each(|_| release.send(()).unwrap());
        assert_eq!(first.response().body, "ok");
        assert_eq!([third.response().body, third.response().body], ["ok", "ok"]);
        assert_eq!(asked(&origin), ["/0", "/third", "/fourth"], "{limits}");
        assert_eq!((stats(&proxy).waits, stats(&proxy).overflows), (2, 0), "{limits}");
    }
}

#[test]
fn request_timeout_of_a_route_limits_the_wait() {
    let (origin, release) = waiting();
    let limited = "{ path: /limited, backend: b, timeouts: { request: 200ms } }";
    let text = text(1, origin.address, "{ requests: 1, pending: 1 }")
        .replace("backend: b }]", &format!("backend: b }}, {limited}]"));
    let proxy = Proxy::with(&text);
    let mut held = in_line(&proxy, &origin, 1);
    let answer = proxy.ask("GET /limited HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(answer.error(), (504, "request_timeout"));
    release.send(()).unwrap();
    assert_eq!(held[0].response().body, "ok");
    assert_eq!((asked(&origin), stats(&proxy).waits), (vec!["/0".to_owned()], 1));
}

#[test]
fn pending_requests_use_raised_limits_after_a_reload() {
    let (origin, release) = waiting();
    let limits = |most: u32| format!("{{ requests: {most}, connections: {most}, pending: 2 }}");
    let mut proxy = Proxy::with(&text(1, origin.address, &limits(1)));
    let clients = in_line(&proxy, &origin, 3);
    for most in [2, 3] {
        let table = recompile_with(&mut proxy.state, &text(1, origin.address, &limits(most)), &[]);
        proxy.gateway.apply(table).unwrap();
        proxy.wait_for("one more", |_| origin.requests().len() == most as usize);
    }
    (0..3).for_each(|_| release.send(()).unwrap());
    assert!(clients.into_iter().all(|mut client| client.response().body == "ok"));
    assert_eq!((origin.connections(), stats(&proxy).pending, stats(&proxy).overflows), (3, 0, 0));
}

#[test]
fn freed_connection_goes_to_a_pending_request() {
    let (origin, release) = waiting();
    let proxy = Proxy::with(&text(1, origin.address, "{ connections: 1, pending: 3 }"));
    let mut clients = in_line(&proxy, &origin, 4);
    assert_eq!(proxy.connect().ask(GET).error(), (503, "upstream_pending_limit"));
    (0..4).for_each(|_| release.send(()).unwrap());
    assert!(clients.iter_mut().all(|client| client.response().body == "ok"));
    assert_eq!(
        (asked(&origin), origin.connections()),
        (["/0", "/1", "/2", "/3"].map(str::to_owned).to_vec(), 1)
    );
    let upstream = proxy.gateway.stats().upstream;
    assert_eq!((upstream.connects, upstream.reused, upstream.backends["b"].waits), (1, 3, 3));
}

/// An upstream that responds to every request except `/held`. Also counts each new connection that raises the number of
/// open connections above `most`.
fn counting(most: usize) -> (Origin, Arc<AtomicUsize>) {
    let (here, beyond) = (Mutex::new(Vec::<TcpStream>::new()), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&beyond);
    let origin = Origin::start(move |served| {
        let mut here = here.lock().unwrap();
        here.push(served.stream.try_clone().unwrap());
        // The origin may detect a closed connection later than a new one.
        for _ in 0..500 {
            here.retain(is_open);
            if here.len() <= most {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        count.fetch_add(usize::from(here.len() > most), Ordering::SeqCst);
        drop(here);
        while let Some(request) = served.request() {
            if request.starts_with("GET /held ") {
                return served.stall();
            }
            served.send(OK);
        }
    });
    (origin, beyond)
}

/// Whether the peer keeps the connection open.
fn is_open(stream: &TcpStream) -> bool {
    use rustix::net::{RecvFlags, recv};
    let looked = recv(stream, &mut [0][..], RecvFlags::PEEK | RecvFlags::DONTWAIT);
    !matches!(looked.map(|(_, bytes)| bytes), Ok(0))
}

#[test]
fn closes_idle_connections_of_other_workers_at_the_limit() {
    let check = |workers: u32, most: usize, pending: &str, held: bool| {
        let (origin, beyond) = counting(most);
        let limits = format!("{{ connections: {most}{pending} }}");
        let proxy = Proxy::with(&text(workers, origin.address, &limits));
        let mut holding = proxy.connect();
        if held {
            holding.send("GET /held HTTP/1.1\r\nHost: h\r\n\r\n");
            proxy.wait_for("the held request", |_| origin.requests().len() == 1);
        }
        // The kernel distributes clients to all workers.
        for turn in 0..24 {
            let answer = proxy.ask(GET);
            assert_eq!(answer.error(), (200, "none"), "{workers} workers, {limits}, turn {turn}");
        }
        assert_eq!((stats(&proxy).overflows, stats(&proxy).pending), (0, 0));
        assert_eq!(beyond.load(Ordering::SeqCst), 0, "{workers} workers, {limits}");
    };
    check(2, 1, "", false);
    check(4, 1, "", false);
    check(2, 2, "", false);
    check(4, 2, "", true);
    check(2, 1, ", pending: 1", false);
}

#[test]
fn rejects_requests_if_all_connections_are_in_use() {
    let (origin, _) = counting(2);
    let proxy = Proxy::with(&text(4, origin.address, "{ connections: 2 }"));
    let held = "GET /held HTTP/1.1\r\nHost: h\r\n\r\n";
    let mut holding: Vec<_> = (0..2).map(|_| proxy.connect()).collect();
    holding.iter_mut().for_each(|client| client.send(held));
    proxy.wait_for("both requests", |_| origin.requests().len() == 2);
    for _ in 0..8 {
        assert_eq!(proxy.ask(GET).error(), (503, "upstream_limit"));
    }
    assert_eq!((stats(&proxy).overflows, stats(&proxy).waits), (8, 0));
}

#[test]
fn pending_request_with_a_key_opens_its_own_connection() {
    let (release, released) = channel::<()>();
    let released = Arc::new(Mutex::new(released));
    let named = |name: &'static str| {
        let released = Arc::clone(&released);
        Origin::start(move |served| {
            while let Some(request) = served.request() {
                if request.starts_with("GET /slow ") {
                    released.lock().unwrap().recv().unwrap();
                }
                served.send(&format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{name}"));
            }
        })
    };
    let (a, b) = (named("a"), named("b"));
    let endpoints = format!("{}', '{}", a.address, b.address);
    let text = text(1, a.address, "{ connections: 1, pending: 1 }, balance: { hash: { header: k } }");
    let proxy = Proxy::with(&text.replace(&a.address.to_string(), &endpoints));
    let get = |path: &str, key: u32| format!("GET {path} HTTP/1.1\r\nHost: h\r\nk: {key}\r\n\r\n");
    let mut client = proxy.connect();
    let owners: Vec<String> = (0..40).map(|key| client.ask(&get("/", key)).body).collect();
    let key_of = |name: &str| owners.iter().position(|owner| owner == name).unwrap() as u32;
    let mut slow = proxy.connect();
    slow.send(&get("/slow", key_of("a")));
    proxy.wait_for("the slow request", |_| asked(&a).last().is_some_and(|path| path == "/slow"));
    client.send(&get("/", key_of("b")));
    proxy.wait_for("the pending request", |stats| stats.upstream.backends["b"].pending == 1);
    release.send(()).unwrap();
    assert_eq!((slow.response().body, client.response().body), ("a".to_owned(), "b".to_owned()));
    assert_eq!((stats(&proxy).waits, stats(&proxy).overflows), (1, 0));
}

#[test]
fn serves_all_of_many_pending_requests() {
    let (inside, most) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&most);
    let origin = Origin::start(move |served| {
        while served.request().is_some() {
            seen.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::yield_now();
            inside.fetch_sub(1, Ordering::SeqCst);
            served.send(OK);
        }
    });
    let limits = "{ connections: 2, requests: 3, pending: 64 }, timeouts: { pending: 1m }";
    let proxy = gateway(origin.address, limits);
    let address = proxy.gateway.addresses()[0];
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(move || {
                let mut client = Client::connect(address);
                (0..40).for_each(|_| assert_eq!(client.ask(GET).body, "ok"));
            });
        }
    });
    assert!(most.load(Ordering::SeqCst) <= 2);
    let now = stats(&proxy);
    assert_eq!((origin.requests().len(), now.overflows, now.pending), (480, 0, 0));
    assert!(now.waits > 0);
}
