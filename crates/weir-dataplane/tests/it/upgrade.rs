//! Upgraded connections.

use std::net::Shutdown;
use std::sync::{Mutex, mpsc};

use crate::setup::{Origin, Proxy};

const UPGRADE: &str = "GET /chat HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
                       Sec-WebSocket-Key: k\r\n\r\n";

#[test]
fn tunnels_bytes_in_both_directions() {
    let origin = Origin::start(|served| {
        served.request();
        served.send(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nfirst",
        );
        let words = served.read_exact(5).unwrap();
        served.send(&words.to_uppercase());
        served.stall();
        served.send("last");
    });
    let proxy = Proxy::to(origin.address, "");
    let mut client = proxy.connect();
    client.send(&format!("{UPGRADE}he"));
    let head = client.head();
    assert_eq!(
        (head.status, head.field("upgrade"), head.field("connection")),
        (101, Some("websocket"), Some("Upgrade"))
    );
    assert_eq!(client.read_exact(5), "first");
    client.send("llo");
    assert_eq!(client.read_exact(5), "HELLO");
    client.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.read_exact(4), "last", "each direction closes separately");
    assert!(client.is_closed());
    let expected = "GET /chat HTTP/1.1\r\nHost: h\r\nSec-WebSocket-Key: k\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    assert_eq!(origin.requests(), [expected]);
    let stats = proxy.gateway.stats();
    assert_eq!((stats.connections.upgraded, stats.responses), (1, 1));
}

#[test]
fn declined_upgrade_is_a_normal_response() {
    let proxy = Proxy::to(Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno").address, "");
    let mut client = proxy.connect();
    assert_eq!(client.ask(UPGRADE).body, "no");
    assert_eq!(client.ask(UPGRADE).body, "no");
}

#[test]
fn idle_tunnel_times_out() {
    let origin = Origin::start(|served| {
        served.request();
        served.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
        served.stall();
    });
    let proxy = Proxy::to(origin.address, "timeouts: { upgraded: 100ms }");
    let mut client = proxy.connect();
    assert_eq!(client.ask(UPGRADE).status, 101);
    assert!(client.is_closed());
}

#[test]
fn upgrade_counts_as_response_if_the_client_disconnected() {
    let (left, has_left) = mpsc::channel::<()>();
    let has_left = Mutex::new(has_left);
    let origin = Origin::start(move |served| {
        served.request();
        has_left.lock().unwrap().recv().unwrap();
        served.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    });
    let proxy = Proxy::to(origin.address, "");
    let mut client = proxy.connect();
    // With this much pipelined data, the gateway detects the disconnect only when it writes the response.
    client.send(&format!("{UPGRADE}{}", "x".repeat(10_000)));
    proxy.wait_for("the request", |s| s.requests == 1);
    client.leave(true);
    left.send(()).unwrap();
    proxy.wait_for("the close of the connection", |s| s.connections.open == 0);
    let stats = proxy.gateway.stats();
    assert_eq!((stats.responses, stats.connections.upgraded, stats.errors["client_closed"]), (1, 1, 1));
}
