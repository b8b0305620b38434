//! Load balancing: the endpoint for each request.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use crate::setup::{Origin, Proxy, compile};

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

fn named(name: &'static str) -> Origin {
    Origin::start(move |served| {
        while served.request().is_some() {
            served.send(&format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{name}"));
        }
    })
}

/// A configuration with one backend, which has these fields.
fn text(workers: u32, backend: &str) -> String {
    format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: {workers}\n\
         routes: [{{ path: /, backend: b, retries: {{ on: [503], backoff: 1ms }} }}]\n\
         backends: {{ b: {{ {backend} }} }}"
    )
}

/// A list of these endpoints, each with its weight.
fn weighted(origins: &[(&Origin, u32)]) -> String {
    let all = origins.iter().map(|(o, weight)| format!("{{ address: '{}', weight: {weight} }}", o.address));
    format!("endpoints: [{}]", all.collect::<Vec<_>>().join(", "))
}

fn even(origins: &[Origin]) -> String {
    weighted(&origins.iter().map(|origin| (origin, 1)).collect::<Vec<_>>())
}

/// Sends this many requests on one connection. Returns the names of the endpoints that responded, in order.
fn answered(proxy: &Proxy, requests: usize) -> String {
    let mut client = proxy.connect();
    (0..requests).map(|_| client.ask(GET).body).collect()
}

#[test]
fn distributes_requests_by_weight() {
    let (a, b, c) = (named("a"), named("b"), named("c"));
    let proxy = Proxy::with(&text(1, &weighted(&[(&a, 3), (&b, 1), (&c, 0)])));
    assert_eq!(answered(&proxy, 8), "aabaaaba");
    assert_eq!([a, b, c].map(|origin| origin.requests().len()), [6, 2, 0]);
    let d = named("d");
    let proxy = Proxy::with(&text(1, &weighted(&[(&d, 0)])));
    assert_eq!(proxy.ask(GET).error(), (503, "no_endpoint"), "all weights are 0");
}

#[test]
fn least_requests_prefers_an_idle_endpoint() {
    let (release, released) = channel::<()>();
    let released = Arc::new(Mutex::new(released));
    let script = move |name: &'static str| {
        let released = Arc::clone(&released);
        Origin::start(move |served| {
            while let Some(request) = served.request() {
                if request.starts_with("GET /slow") {
                    released.lock().unwrap().recv().unwrap();
                }
                served.send(&format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{name}"));
            }
        })
    };
    let origins = [script("a"), script("b")];
    let proxy = Proxy::with(&text(1, &format!("{}, balance: least_requests", even(&origins))));
    let mut slow = proxy.connect();
    slow.send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n");
    proxy.wait_for("the slow request", |stats| stats.upstream.connects == 1);
    let others = answered(&proxy, 40);
    release.send(()).unwrap();
    let busy = slow.response().body;
    assert_eq!(others, if busy == "a" { "b".repeat(40) } else { "a".repeat(40) });
    let both: BTreeSet<char> = answered(&proxy, 200).chars().collect();
    assert_eq!(both.len(), 2, "completed requests no longer count");
}

#[test]
fn random_reaches_every_endpoint() {
    let origins = [named("a"), named("b")];
    let proxy = Proxy::with(&text(1, &format!("{}, balance: random", even(&origins))));
    let order = answered(&proxy, 200);
    assert!(order.contains("aa") && order.contains("bb"), "{order}");
}

#[test]
fn hash_sends_equal_keys_to_one_endpoint() {
    let origins = [named("a"), named("b"), named("c")];
    for (balance, field) in [("{ header: X-Id }", "x-id: "), ("{ cookie: id }", "Cookie: a=b; id=")] {
        let proxy = Proxy::with(&text(2, &format!("{}, balance: {{ hash: {balance} }}", even(&origins))));
        let mut owners: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
        for number in 0..150 {
            let key = number % 50;
            let answer =
                proxy.ask(&format!("GET / HTTP/1.1\r\nHost: h\r\n{field}{key}\r\nConnection: close\r\n\r\n"));
            owners.entry(key).or_default().insert(answer.body);
        }
        assert!(owners.values().all(|names| names.len() == 1), "{balance}: {owners:?}");
        let all: BTreeSet<&String> = owners.values().flatten().collect();
        assert_eq!(all.len(), 3, "{balance}");
        let without: BTreeSet<char> = answered(&proxy, 200).chars().collect();
        assert_eq!(without.len(), 3, "{balance}: requests without a key go to any endpoint");
    }
}

#[test]
fn hash_sends_a_client_address_to_one_endpoint() {
    let origins = [named("a"), named("b"), named("c")];
    let proxy = Proxy::with(&text(2, &format!("{}, balance: {{ hash: client_address }}", even(&origins))));
    let names: BTreeSet<String> = (0..20).map(|_| answered(&proxy, 1)).collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

#[test]
fn hash_skips_an_endpoint_that_fails() {
    let busy = Origin::answering("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
    let well = named("w");
    let endpoints = weighted(&[(&busy, 1), (&well, 1)]);
    let proxy = Proxy::with(&text(1, &format!("{endpoints}, balance: {{ hash: {{ header: k }} }}")));
    let mut client = proxy.connect();
    for key in 0..40 {
        assert_eq!(client.ask(&format!("GET / HTTP/1.1\r\nHost: h\r\nk: {key}\r\n\r\n")).body, "w");
    }
    let failed = busy.requests().len();
    assert!((1..40).contains(&failed), "{failed} keys belong to the failing endpoint");
    assert_eq!(proxy.gateway.stats().upstream.retries, failed as u64);
}

#[test]
fn sticky_client_keeps_its_endpoint() {
    let origins = [named("a"), named("b")];
    let sticky = "balance: { sticky: { cookie: at, max_age: 1h } }";
    let mut proxy = Proxy::with(&text(1, &format!("{}, {sticky}", even(&origins))));
    let first = proxy.ask("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    let set = first.field("set-cookie").unwrap().to_owned();
    let (cookie, attributes) = set.split_once("; ").unwrap();
    assert_eq!(attributes, "Path=/; Max-Age=3600; HttpOnly; SameSite=Lax");
    assert_eq!(cookie.len(), "at=".len() + 16, "{cookie}");
    let with_cookie = format!("GET / HTTP/1.1\r\nHost: h\r\nCookie: x=y; {cookie}\r\n\r\n");
    let mut client = proxy.connect();
    for _ in 0..6 {
        let answer = client.ask(&with_cookie);
        assert_eq!((&answer.body, answer.field("set-cookie")), (&first.body, None));
        assert!(proxy.ask("GET / HTTP/1.0\r\n\r\n").field("set-cookie").is_some(), "others get a cookie");
    }
    let other = usize::from(first.body == "a");
    assert!(origins[other].requests().len() >= 3);
    // The endpoint is drained: it gets no other clients.
    let drained: Vec<_> = (0..2).map(|number| (&origins[number], u32::from(number == other))).collect();
    let table = compile(&mut proxy.state, &text(1, &format!("{}, {sticky}", weighted(&drained))));
    proxy.gateway.apply(table).unwrap();
    for _ in 0..6 {
        assert_eq!(client.ask(&with_cookie).body, first.body);
        assert_ne!(client.ask(GET).body, first.body);
    }
    // The endpoint is removed: its client gets another one, with a new cookie.
    let table = compile(&mut proxy.state, &text(1, &format!("{}, {sticky}", even(&origins[other..=other]))));
    proxy.gateway.apply(table).unwrap();
    let answer = client.ask(&with_cookie);
    assert_ne!(answer.body, first.body);
    assert_ne!(answer.field("set-cookie").unwrap(), set);
}

#[test]
fn slow_start_begins_with_a_tenth_of_the_share() {
    let (a, b) = (named("a"), named("b"));
    let mut proxy = Proxy::with(&text(1, &format!("{}, slow_start: 1h", weighted(&[(&a, 1)]))));
    assert_eq!(answered(&proxy, 1), "a");
    let both = text(1, &format!("{}, slow_start: 1h", weighted(&[(&a, 1), (&b, 1)])));
    proxy.gateway.apply(compile(&mut proxy.state, &both)).unwrap();
    answered(&proxy, 110);
    assert_eq!([a, b].map(|origin| origin.requests().len()), [101, 10]);
}

#[test]
fn ipv6_works_on_both_sides() {
    let listener = TcpListener::bind("[::1]:0").unwrap();
    let address = listener.local_addr().unwrap();
    let origin = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 1024];
        let bytes = stream.read(&mut head).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        String::from_utf8(head[..bytes].to_vec()).unwrap()
    });
    let more = text(1, &format!("endpoints: ['{address}'], balance: {{ hash: client_address }}"));
    let proxy = Proxy::with(&more.replace("address: 127.0.0.1:0", "address: '[::1]:0'"));
    assert!(proxy.gateway.addresses()[0].is_ipv6());
    assert_eq!(proxy.ask("GET / HTTP/1.0\r\n\r\n").body, "ok");
    assert_eq!(origin.join().unwrap(), format!("GET / HTTP/1.1\r\nHost: {address}\r\n\r\n"));
}
