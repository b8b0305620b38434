//! The PROXY protocol: headers from load balancers, and headers for backends.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::SocketAddr;

use crate::setup::{Client, Origin, Proxy, compile};

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

fn named(name: &'static str) -> Origin {
    Origin::start(move |served| {
        while served.request().is_some() {
            served.send(&format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{name}"));
        }
    })
}

/// A listener that requires PROXY headers. The backend selects endpoints by client address.
fn gateway(origins: &[Origin; 2], more: &str) -> Proxy {
    let [a, b] = origins.each_ref().map(|origin| origin.address);
    Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0, proxy_protocol: true }}]\nworkers: 1\n\
         routes: [{{ path: /, backend: b }}]\n\
         backends: {{ b: {{ endpoints: ['{a}', '{b}'], balance: {{ hash: client_address }} }} }}\n{more}"
    ))
}

fn ask(proxy: &Proxy, header: &[u8]) -> String {
    let mut client = proxy.connect();
    client.stream.write_all(header).unwrap();
    client.ask(GET).body
}

fn binary(last: u8) -> Vec<u8> {
    [SIGNATURE, &[0x21, 0x11, 0, 12, 192, 0, 2, last, 192, 0, 2, 200, 0, 80, 1, 187]].concat()
}

#[test]
fn uses_the_client_address_of_the_proxy_header() {
    let proxy = gateway(&[named("a"), named("b")], "");
    let mut all = BTreeSet::new();
    for last in 0..40 {
        let text = |port: u16| format!("PROXY TCP4 192.0.2.{last} 192.0.2.200 {port} 443\r\n");
        let mapped = format!("PROXY TCP6 ::ffff:192.0.2.{last} ::1 5 443\r\n");
        let reported = [ask(&proxy, text(5).as_bytes()), ask(&proxy, text(6).as_bytes())];
        let same = [ask(&proxy, mapped.as_bytes()), ask(&proxy, &binary(last))];
        assert_eq!(reported, same, "port and address form do not matter");
        assert_eq!(reported[0], reported[1]);
        all.extend(reported);
    }
    assert_eq!(all.len(), 2, "clients behind one load balancer have different addresses");
    for own in [&b"PROXY UNKNOWN\r\n"[..], &[SIGNATURE, &[0x20, 0, 0, 0]].concat()] {
        let once: BTreeSet<String> = (0..6).map(|_| ask(&proxy, own)).collect();
        assert_eq!(once.len(), 1, "the address of the load balancer");
    }
    assert_eq!(proxy.gateway.stats().responses, 40 * 4 + 12);
}

#[test]
fn limits_connections_by_the_address_of_the_proxy_header() {
    let proxy = gateway(&[named("a"), named("b")], "limits: { connections_per_address: 2 }");
    let begin = |header: &[u8]| {
        let mut client = proxy.connect();
        client.stream.write_all(header).unwrap();
        client.send(GET);
        let answer = client.response();
        (client, answer)
    };
    let mut held: Vec<_> = [1, 1, 2, 2, 3].map(|last| begin(&binary(last))).into();
    assert!(held.iter().all(|(_, answer)| answer.status == 200), "five clients of one load balancer");
    assert_eq!(begin(&binary(2)).1.error(), (503, "address_limit"));
    let own = b"PROXY UNKNOWN\r\n";
    held.extend([begin(own), begin(own)]);
    assert_eq!(begin(own).1.error(), (503, "address_limit"), "the address of the load balancer");
    drop(held.remove(0));
    proxy.wait_for("the closed connection", |stats| stats.connections.open == 6);
    assert_eq!(begin(&binary(1)).1.status, 200);
    assert_eq!((proxy.errors("address_limit"), proxy.errors("connection_limit")), (2, 0));
}

#[test]
fn reads_a_header_in_pieces() {
    let origins = [named("a"), named("b")];
    let proxy = gateway(&origins, "");
    let mut client = proxy.connect();
    for piece in ["PROXY", " TCP4 192.0.2.1", " 192.0.2.2 1 2\r", "\nGET / HTTP/1.1\r\nHo", "st: h\r\n\r\n"] {
        client.send(piece);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(client.response().status, 200);
    assert_eq!(client.ask(GET).status, 200, "a connection has only one header");
    assert!(origins.iter().flat_map(Origin::requests).all(|request| request == GET));
}

#[test]
fn closes_connections_without_a_valid_header() {
    let proxy = gateway(&[named("a"), named("b")], "timeouts: { head: 100ms }");
    for wrong in [GET, "PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n", "\r\n\r\n\0\r\nQUIX"] {
        let mut client = proxy.connect();
        client.send(wrong);
        assert!(client.is_closed(), "{wrong:?}");
    }
    proxy.wait_for("the causes", |stats| stats.errors["proxy_header"] == 3);
    let mut slow = proxy.connect();
    slow.send("PROXY TCP4");
    assert!(slow.is_closed());
    drop(proxy.connect());
    proxy.wait_for("the close", |stats| stats.connections.accepted == 5 && stats.connections.open == 0);
    let stats = proxy.gateway.stats();
    assert_eq!(
        (stats.errors["proxy_header"], stats.errors.values().sum::<u64>()),
        (4, 4),
        "{:?}",
        stats.errors
    );
    assert_eq!(stats.requests, 0, "a connection without data is no failure");
}

#[test]
fn reload_applies_to_new_connections() {
    let origins = [named("a"), named("b")];
    let mut proxy = gateway(&origins, "");
    assert_eq!(ask(&proxy, &binary(1)).len(), 1);
    let address = proxy.gateway.addresses()[0];
    let [a, b] = origins.each_ref().map(|origin| origin.address);
    let without = format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\nroutes: [{{ path: /, backend: b }}]\n\
         backends: {{ b: {{ endpoints: ['{a}', '{b}'] }} }}"
    );
    proxy.gateway.apply(compile(&mut proxy.state, &without)).unwrap();
    assert_eq!(proxy.gateway.addresses(), [address]);
    assert_eq!(ask(&proxy, b"").len(), 1);
}

/// An upstream that reads a PROXY header and sends it as the response: `binary` bytes in hexadecimal, or a line as
/// text.
fn taking_headers(binary: Option<usize>) -> Origin {
    Origin::start(move |served| {
        let header = match binary {
            None => served.read_until("\r\n").unwrap_or_default(),
            Some(len) => served.read_raw(len).iter().map(|byte| format!("{byte:02x}")).collect(),
        };
        while served.request().is_some() {
            let reported = header.trim_end();
            served.send(&format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{reported}", reported.len()));
        }
    })
}

fn sending(version: &str, origin: &Origin, listener: &str) -> Proxy {
    Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0{listener} }}]\nworkers: 1\nroutes: [{{ path: /, backend: b }}]\n\
         backends: {{ b: {{ endpoints: ['{}'], proxy_protocol: {version} }} }}",
        origin.address
    ))
}

fn own(client: &Client) -> (SocketAddr, SocketAddr) {
    (client.stream.local_addr().unwrap(), client.stream.peer_addr().unwrap())
}

#[test]
fn sends_the_client_address_to_the_backend() {
    let origin = taking_headers(None);
    let proxy = sending("v1", &origin, "");
    for _ in 0..2 {
        let mut client = proxy.connect();
        let (from, to) = own(&client);
        let expected = format!("PROXY TCP4 127.0.0.1 127.0.0.1 {} {}", from.port(), to.port());
        assert_eq!([client.ask(GET).body, client.ask(GET).body], [expected.clone(), expected]);
    }
    assert_eq!(origin.connections(), 4, "no connection is reused: its header names one client");
    let origin = taking_headers(Some(28));
    let proxy = sending("v2", &origin, "");
    let mut client = proxy.connect();
    let (from, to) = own(&client);
    let ports = format!("{:04x}{:04x}", from.port(), to.port());
    let expected = format!("0d0a0d0a000d0a515549540a2111000c7f0000017f000001{ports}");
    assert_eq!(client.ask(GET).body, expected);
}

#[test]
fn forwards_the_address_of_the_received_header() {
    let origin = taking_headers(None);
    let proxy = sending("v1", &origin, ", proxy_protocol: true");
    assert_eq!(ask(&proxy, &binary(9)), "PROXY TCP4 192.0.2.9 192.0.2.200 80 443");
}

#[test]
fn health_checks_send_proxy_unknown() {
    let origin = Origin::start(|served| {
        let header = served.read_until("\r\n").unwrap_or_default();
        let request = served.request().unwrap_or_default();
        let is_right = header == "PROXY UNKNOWN\r\n" && request.starts_with("GET /up ");
        served.send(if is_right { OK } else { "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n" });
    });
    let proxy = Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\nroutes: [{{ path: /, backend: b }}]\n\
         backends: {{ b: {{ endpoints: ['{}'], proxy_protocol: v1,\
                            health: {{ path: /up, interval: 10ms }} }} }}",
        origin.address
    ));
    proxy.wait_for("checks", |stats| stats.upstream.backends.get("b").is_some_and(|b| b.checks >= 5));
    assert_eq!(proxy.gateway.stats().upstream.backends["b"].check_failures, 0);
}
