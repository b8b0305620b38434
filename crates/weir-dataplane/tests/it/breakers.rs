//! Bounds on what one backend has at one time, counted over all workers.

use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::setup::{Origin, Proxy};

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// An upstream that answers as often as it may.
fn waiting() -> (Origin, Sender<()>) {
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

fn gateway(address: std::net::SocketAddr, limits: &str) -> Proxy {
    Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 2\nroutes: [{{ path: /, backend: b }}]\n\
         backends: {{ b: {{ endpoints: ['{address}'], limits: {limits} }} }}"
    ))
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
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let address = listener.local_addr().unwrap();
    // The queue takes one or two; then the kernel drops what asks for a connection.
    let mut queued = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
        queued.push(stream);
    }
    let proxy = gateway(address, "{ pending: 2 }");
    let mut waiting: Vec<_> = (0..2).map(|_| proxy.connect()).collect();
    waiting.iter_mut().for_each(|client| client.send(GET));
    proxy.wait_for("both", |stats| stats.upstream.connects == 2);
    for _ in 0..8 {
        assert_eq!(proxy.connect().ask(GET).error(), (503, "upstream_pending_limit"));
    }
    assert_eq!(proxy.gateway.stats().upstream.connects, 2);
    assert_eq!(proxy.gateway.stats().upstream.backends["b"].overflows, 8);
}
