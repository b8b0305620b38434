//! Bounds on what one backend has at one time, counted over all workers.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_dataplane::{BackendStats, Stats};

use crate::setup::{Client, Origin, Proxy, full_listener, recompile_with};

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// An upstream that answers as often as it may.
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

/// Clients that have sent one request each, for `/0`, `/1` and so on, in this order: the first is at the origin, and each
/// of the others waits behind those before it.
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

/// What the origin was asked for.
fn asked(origin: &Origin) -> Vec<String> {
    let path = |request: &String| request.split(' ').nth(1).unwrap().to_owned();
    origin.requests().iter().map(path).collect()
}

/// As many requests as are let in at one time, and what those beyond are told.
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
    // Connections are shared out among the workers by the kernel: with so many, each worker has some.
    for _ in 0..16 {
        let mut beyond = proxy.connect();
        assert_eq!(beyond.ask(GET).error(), (503, cause), "{limits}");
    }
    assert_eq!(origin.requests().len(), most, "{limits}");
    assert_eq!(proxy.errors(cause), 16);
    assert_eq!(proxy.gateway.stats().upstream.backends["b"].overflows, 16);
    (0..most + 1).for_each(|_| release.send(()).unwrap());
    assert!(inside.iter_mut().all(|client| client.response().body == "ok"));
    assert_eq!(inside[0].ask(GET).body, "ok", "the places are free again");
}

#[test]
fn requests_in_flight_are_bounded() {
    check("{ requests: 1 }", 1, "upstream_request_limit");
    check("{ requests: 5 }", 5, "upstream_request_limit");
}

#[test]
fn connections_of_one_backend_are_bounded() {
    check("{ connections: 3 }", 3, "upstream_limit");
}

#[test]
fn requests_that_wait_for_a_connection_are_bounded() {
    let (listener, _queued) = full_listener();
    let proxy = gateway(listener.local_addr().unwrap(), "{ pending: 2 }");
    let mut waiting: Vec<_> = (0..2).map(|_| proxy.connect()).collect();
    waiting.iter_mut().for_each(|client| client.send(GET));
    proxy.wait_for("both", |stats| stats.upstream.connects == 2);
    for _ in 0..8 {
        assert_eq!(proxy.connect().ask(GET).error(), (503, "upstream_pending_limit"));
    }
    assert_eq!(proxy.gateway.stats().upstream.connects, 2);
    assert_eq!(proxy.gateway.stats().upstream.backends["b"].overflows, 8);
}

#[test]
fn requests_wait_for_a_place_in_their_order() {
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
fn a_wait_is_over_some_time() {
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
        assert_eq!(held.ask(GET).body, "ok", "the place was left to nobody");
        assert_eq!(origin.requests().len(), before + 2, "what has waited in vain is not sent");
    }
}

#[test]
fn who_leaves_makes_room_for_others_who_wait() {
    for (limits, by_reset) in
        [("{ requests: 1, pending: 1 }", false), ("{ connections: 1, pending: 1 }", true)]
    {
        let (origin, release) = waiting();
        let proxy = Proxy::with(&text(1, origin.address, limits));
        let clients = in_line(&proxy, &origin, 2);
        let [mut first, second] = <[Client; 2]>::try_from(clients).ok().unwrap();
        second.leave(by_reset);
        let is_out = |stats: &Stats| stats.upstream.backends["b"].pending == 0;
        proxy.wait_for("its leave", |stats| stats.errors["client_closed"] == 1 && is_out(stats));
        let mut third = proxy.connect();
        third.send("GET /third HTTP/1.1\r\nHost: h\r\n\r\n");
        proxy.wait_for("the next", |stats| stats.upstream.backends["b"].pending == 1);
        // What it sends ahead meanwhile has its turn behind.
        third.send("GET /fourth HTTP/1.1\r\nHost: h\r\n\r\n");
        (0..3).for_each(|_| release.send(()).unwrap());
        assert_eq!(first.response().body, "ok");
        assert_eq!([third.response().body, third.response().body], ["ok", "ok"]);
        assert_eq!(asked(&origin), ["/0", "/third", "/fourth"], "{limits}");
        assert_eq!((stats(&proxy).waits, stats(&proxy).overflows), (2, 0), "{limits}");
    }
}

#[test]
fn a_route_may_have_less_time_to_wait() {
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
fn who_waits_has_the_places_of_a_reload() {
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
fn a_connection_that_becomes_free_goes_to_who_waits() {
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

/// An upstream that answers everything but `/held`, and fails once it has more connections than so many that nobody has
/// closed.
fn counting(most: usize) -> (Origin, Arc<AtomicUsize>) {
    let (here, beyond) = (Mutex::new(Vec::<TcpStream>::new()), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&beyond);
    let origin = Origin::start(move |served| {
        let mut here = here.lock().unwrap();
        here.push(served.stream.try_clone().unwrap());
        // That a connection is closed may be seen a little later than that there is another.
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

/// Whether the other side has not closed it.
fn is_open(stream: &TcpStream) -> bool {
    use rustix::net::{RecvFlags, recv};
    let looked = recv(stream, &mut [0][..], RecvFlags::PEEK | RecvFlags::DONTWAIT);
    !matches!(looked.map(|(_, bytes)| bytes), Ok(0))
}

#[test]
fn idle_connections_of_other_workers_give_way() {
    let check = |workers: u32, most: usize, pending: &str, held: bool| {
        let (origin, beyond) = counting(most);
        let limits = format!("{{ connections: {most}{pending} }}");
        let proxy = Proxy::with(&text(workers, origin.address, &limits));
        let mut holding = proxy.connect();
        if held {
            holding.send("GET /held HTTP/1.1\r\nHost: h\r\n\r\n");
            proxy.wait_for("the held one", |_| origin.requests().len() == 1);
        }
        // The kernel gives clients to all workers.
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
fn where_all_connections_are_in_use_nobody_waits() {
    let (origin, _) = counting(2);
    let proxy = Proxy::with(&text(4, origin.address, "{ connections: 2 }"));
    let held = "GET /held HTTP/1.1\r\nHost: h\r\n\r\n";
    let mut holding: Vec<_> = (0..2).map(|_| proxy.connect()).collect();
    holding.iter_mut().for_each(|client| client.send(held));
    proxy.wait_for("both", |_| origin.requests().len() == 2);
    for _ in 0..8 {
        assert_eq!(proxy.ask(GET).error(), (503, "upstream_limit"));
    }
    assert_eq!((stats(&proxy).overflows, stats(&proxy).waits), (8, 0));
}

#[test]
fn a_request_with_a_key_takes_the_place_and_leaves_the_connection() {
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
    proxy.wait_for("the slow one", |_| asked(&a).last().is_some_and(|path| path == "/slow"));
    client.send(&get("/", key_of("b")));
    proxy.wait_for("who waits", |stats| stats.upstream.backends["b"].pending == 1);
    release.send(()).unwrap();
    assert_eq!((slow.response().body, client.response().body), ("a".to_owned(), "b".to_owned()));
    assert_eq!((stats(&proxy).waits, stats(&proxy).overflows), (1, 0));
}

#[test]
fn many_wait_and_none_is_forgotten() {
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
