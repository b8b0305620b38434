//! Routes with several weighted backends.

use crate::setup::{Origin, Proxy, compile};

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

fn named(name: &'static str) -> Origin {
    Origin::start(move |served| {
        while served.request().is_some() {
            served.send(&format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{name}"));
        }
    })
}

/// `first` is a route in front of the route for `/`.
fn text(first: &str, backends: &str, origins: &[&Origin; 3]) -> String {
    let [a, b, c] = origins.map(|origin| origin.address);
    format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\n\
         routes: [{first}{{ path: /, backends: [{backends}] }}]\n\
         backends: {{ a: {{ endpoints: ['{a}'] }}, b: {{ endpoints: ['{b}'] }}, c: {{ endpoints: ['{c}'] }}, \
                      e: {{ endpoints: [] }} }}"
    )
}

/// The names of the backends that respond to consecutive requests on one connection.
fn answered(proxy: &Proxy, requests: usize) -> String {
    let mut client = proxy.connect();
    (0..requests).map(|_| client.ask(GET).body).collect()
}

#[test]
fn distributes_requests_among_backends_by_weight() {
    let (a, b, c) = (named("a"), named("b"), named("c"));
    let proxy = Proxy::with(&text(
        "",
        "{ backend: a, weight: 5 }, { backend: b }, { backend: c, weight: 0 }",
        &[&a, &b, &c],
    ));
    assert_eq!(answered(&proxy, 12), "aaabaaaaabaa");
    for _ in 0..4 {
        assert_eq!(answered(&proxy, 3).len(), 3, "the rotation continues on new connections");
    }
    assert_eq!([a, b, c].map(|origin| origin.requests().len()), [20, 4, 0]);
}

#[test]
fn reload_with_the_same_weights_continues_the_rotation() {
    let (a, b, c) = (named("a"), named("b"), named("c"));
    let shared = "{ backend: a, weight: 3 }, { backend: b }";
    let mut proxy = Proxy::with(&text("", shared, &[&a, &b, &c]));
    let mut order = answered(&proxy, 1);
    for turn in 0..7 {
        // The additional backend `0` sorts first, so it shifts the positions of all other backends.
        let more = text("", shared, &[&a, &b, &c]).replace(
            "backends: { a:",
            if turn % 2 == 0 { "backends: { '0': { endpoints: [] }, a:" } else { "backends: { a:" },
        );
        proxy.gateway.apply(compile(&mut proxy.state, &more)).unwrap();
        order += &answered(&proxy, 1);
    }
    assert_eq!(order, "aabaaaba");
    let other = text("", "{ backend: a }, { backend: b, weight: 3 }", &[&a, &b, &c]);
    proxy.gateway.apply(compile(&mut proxy.state, &other)).unwrap();
    assert_eq!(answered(&proxy, 4), "babb");
}

#[test]
fn backend_without_endpoint_or_weight_does_not_respond() {
    let (a, b, c) = (named("a"), named("b"), named("c"));
    let check = |backends: &str, expected: &[(u16, &str)]| {
        let proxy = Proxy::with(&text("", backends, &[&a, &b, &c]));
        let mut client = proxy.connect();
        let reported: Vec<_> = (0..expected.len()).map(|_| client.ask(GET)).collect();
        let reported: Vec<_> = reported.iter().map(|answer| answer.error()).collect();
        assert_eq!(reported, expected, "{backends}");
    };
    check("{ backend: e }, { backend: a }", &[(503, "no_endpoint"), (200, "none"), (503, "no_endpoint")]);
    check("{ backend: a, weight: 0 }, { backend: b, weight: 0 }", &[(500, "no_backend"); 2]);
    check("", &[(500, "no_backend"); 2]);
}

#[test]
fn retries_on_the_same_backend() {
    let a = Origin::start(|served| {
        served.request();
        served.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na");
        // The next request on this connection gets no response: the connection is closed.
        served.request();
    });
    let (b, c) = (named("b"), named("c"));
    let proxy = Proxy::with(&text("", "{ backend: a }, { backend: b }", &[&a, &b, &c]));
    assert_eq!(answered(&proxy, 6), "ababab");
    assert_eq!(proxy.gateway.stats().upstream.retries, 2);
}
