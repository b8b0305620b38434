//! TLS passthrough by server name.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use super::authority::{Authority, Trust, connect};
use super::origin::SecureOrigin;
use super::{GET, OK, address, check_failed};
use crate::setup::{Client, Origin, Proxy, full_listener};

fn text(tls: &str, hosts: &str, origin: SocketAddr, more: &str) -> String {
    format!(
        "listeners: [{{ address: 127.0.0.1:0, name: main, {tls}passthrough: [{{ hosts: [{hosts}], backend: sealed }}] }}]\n\
         workers: 1\nroutes: [{{ path: /, backend: sealed }}]\n\
         backends: {{ sealed: {{ endpoints: ['{origin}'] }} }}\n{more}"
    )
}

/// A gateway without a certificate.
fn gateway(hosts: &str, origin: SocketAddr, more: &str) -> Proxy {
    Proxy::with(&text("", hosts, origin, more))
}

/// The ClientHello of a client with these settings.
fn hello(trust: &Trust, name: &str) -> Vec<u8> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut connection = ClientConnection::new(trust.config(), name).unwrap();
    let mut bytes = Vec::new();
    connection.write_tls(&mut bytes).unwrap();
    bytes
}

#[test]
fn passes_tls_of_listed_names_to_the_backend() {
    let ca = Authority::new("ca");
    let origin = SecureOrigin::answering(&ca.signs(&["a.test", "x.y.b.test"]), None, OK);
    let proxy = gateway("a.test, '*.b.test'", origin.address, "");
    for name in ["a.test", "x.y.b.test"] {
        let mut client = ca.trust().connect(address(&proxy), name).unwrap();
        for _ in 0..2 {
            assert_eq!(client.ask(GET).body, "ok");
        }
    }
    let names: Vec<_> = origin.seen().into_iter().map(|seen| seen.name.unwrap()).collect();
    assert_eq!(names, ["a.test", "x.y.b.test"]);
    let stats = proxy.gateway.stats();
    assert_eq!((stats.tls.passed_on, stats.tls.handshakes, stats.requests), (2, 0, 0), "no TLS terminated");
    assert!(stats.prometheus().contains("\nweir_tls_passed_on_total{listener=\"main\"} 2\n"));
}

#[test]
fn closes_and_counts_other_names() {
    let ca = Authority::new("ca");
    let origin = SecureOrigin::answering(&ca.signs(&["c.test"]), None, OK);
    let proxy = gateway("a.test, '*.b.test'", origin.address, "");
    for (count, name) in [(1, "c.test"), (2, "b.test"), (3, "127.0.0.1")] {
        assert!(ca.trust().connect(address(&proxy), name).is_err(), "{name}");
        check_failed(&proxy, "unknown_name", count);
    }
    assert!(origin.seen().is_empty());
    assert_eq!(proxy.gateway.stats().tls.passed_on, 0);
}

#[test]
fn terminates_tls_of_other_names_if_the_listener_has_tls() {
    let (ca, plain) = (Authority::new("ca"), Origin::answering(OK));
    let sealed = SecureOrigin::answering(&ca.signs(&["b.test"]), None, OK);
    let leaf = ca.signs(&["a.test"]);
    let text = text("tls: { certificate: a.pem, key: a.key }, ", "b.test", sealed.address, "")
        .replace("path: /, backend: sealed", "path: /, backend: opened")
        .replace("backends: {", &format!("backends: {{ opened: {{ endpoints: ['{}'] }}, ", plain.address));
    let files = [("a.pem", leaf.certificate.as_str()), ("a.key", leaf.key.as_str())];
    let proxy = Proxy::with_files(&text, &files);
    assert_eq!(ca.trust().connect(address(&proxy), "a.test").unwrap().ask(GET).body, "ok");
    assert_eq!(ca.trust().connect(address(&proxy), "b.test").unwrap().ask(GET).body, "ok");
    let stats = proxy.gateway.stats();
    assert_eq!((stats.tls.handshakes, stats.tls.passed_on, stats.requests), (1, 1, 1));
    assert_eq!(proxy.ask(GET).error(), (400, "not_tls"), "plain HTTP gets the same error here");
    assert_eq!((plain.requests().len(), sealed.seen().len()), (1, 1));
}

#[test]
fn exceptions_of_a_wildcard_host_are_terminated_or_closed() {
    let (ca, plain) = (Authority::new("ca"), Origin::answering(OK));
    let sealed = SecureOrigin::answering(&ca.signs(&["*.w.test", "who.org"]), None, OK);
    let leaf = ca.signs(&["a.w.test", "x.c.w.test"]);
    let entries = "backend: sealed }, { hosts: [a.w.test, '*.c.w.test'], instead: open }, \
                   { hosts: [b.w.test, '*'], instead: close";
    let text = text("tls: { certificate: a.pem, key: a.key }, ", "'*.w.test'", sealed.address, "")
        .replacen("backend: sealed }]", &format!("{entries} }}]"), 1)
        .replace("path: /, backend: sealed", "path: /, backend: opened")
        .replace("backends: {", &format!("backends: {{ opened: {{ endpoints: ['{}'] }}, ", plain.address));
    let files = [("a.pem", leaf.certificate.as_str()), ("a.key", leaf.key.as_str())];
    let proxy = Proxy::with_files(&text, &files);
    let is_served = |name: &str| {
        let client = ca.trust().connect(address(&proxy), name);
        client.is_ok_and(|mut client| client.ask(GET).body == "ok")
    };
    let served = ["a.w.test", "x.c.w.test", "z.w.test", "b.w.test", "who.org", "127.0.0.1"].map(is_served);
    assert_eq!(served, [true, true, true, false, false, false]);
    let stats = proxy.gateway.stats();
    assert_eq!((stats.tls.handshakes, stats.tls.passed_on, stats.errors["unknown_name"]), (2, 1, 3));
    assert_eq!((plain.requests().len(), sealed.seen().len()), (2, 1));
    assert_eq!(proxy.ask(GET).error(), (400, "not_tls"));
}

/// An attacker can truncate or pad a ClientHello so that its server name is unreadable. The gateway must not terminate
/// such a connection, because it may have to pass it on.
#[test]
fn closes_tls_with_an_unreadable_server_name() {
    let (ca, plain) = (Authority::new("ca"), Origin::answering(OK));
    let leaf = ca.signs(&["*.w.test"]);
    let text = text("tls: { certificate: a.pem, key: a.key }, ", "bank.w.test", plain.address, "");
    let files = [("a.pem", leaf.certificate.as_str()), ("a.key", leaf.key.as_str())];
    let proxy = Proxy::with_files(&text, &files);
    let padded = |protocols: usize| {
        let mut config = ClientConfig::clone(&ca.trust().config());
        config.alpn_protocols = vec![vec![b'x'; 255]; protocols];
        config.alpn_protocols.push(b"http/1.1".to_vec());
        Arc::new(config)
    };
    // Without the size limit, the listener's TLS would accept both ClientHellos.
    assert!(connect(&padded(50), address(&proxy), "shop.w.test").is_ok());
    assert!(connect(&padded(80), address(&proxy), "bank.w.test").is_err());
    check_failed(&proxy, "handshake_failed", 1);
    let stats = proxy.gateway.stats().tls;
    assert_eq!((stats.handshakes, stats.passed_on), (1, 0));
}

#[test]
fn passes_every_server_name_with_a_wildcard() {
    let ca = Authority::new("ca");
    let origin = SecureOrigin::answering(&ca.signs(&["a.test", "127.0.0.1"]), None, OK);
    let proxy = gateway("'*'", origin.address, "");
    for name in ["a.test", "127.0.0.1"] {
        assert_eq!(ca.trust().connect(address(&proxy), name).unwrap().ask(GET).body, "ok", "{name}");
    }
    assert_eq!(proxy.gateway.stats().tls.passed_on, 2);
}

#[test]
fn reads_a_client_hello_in_pieces() {
    let ca = Authority::new("ca");
    let origin = SecureOrigin::answering(&ca.signs(&["a.test"]), None, OK);
    let proxy = gateway("a.test", origin.address, "");
    let hello = hello(&ca.trust(), "a.test");
    let mut client = Client::connect(address(&proxy));
    for piece in hello.chunks(hello.len() / 7) {
        client.stream.write_all(piece).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    proxy.wait_for("the backend", |stats| stats.tls.passed_on == 1);
    assert_eq!(client.read_bytes(1), [22], "the backend responds to the handshake");
}

#[test]
fn closes_connections_without_a_client_hello() {
    let ca = Authority::new("ca");
    let origin = SecureOrigin::answering(&ca.signs(&["a.test"]), None, OK);
    let proxy = gateway("a.test", origin.address, "timeouts: { head: 100ms }");
    let whole = hello(&ca.trust(), "a.test");
    for (count, start) in [(1, &[][..]), (2, &whole[..1]), (3, &whole[..whole.len() - 1])] {
        let mut client = Client::connect(address(&proxy));
        client.stream.write_all(start).unwrap();
        assert!(client.is_closed());
        check_failed(&proxy, "handshake_timeout", count);
    }
    let malformed = [GET.as_bytes().to_vec(), [22, 3, 1, 0, 4, 2, 0, 0, 0].to_vec()];
    let endless = [[22, 3, 1, 0, 5, 1, 0, 0x3f, 0xff, 0].to_vec(), [22, 3, 1, 0, 1, 0].repeat(4000)].concat();
    let proxy = gateway("a.test", origin.address, "");
    for (count, bytes) in (1..).zip(malformed.into_iter().chain([endless])) {
        let mut client = Client::connect(address(&proxy));
        // The gateway may close the connection before it has read all bytes.
        let _ = client.stream.write_all(&bytes);
        assert!(client.is_closed());
        check_failed(&proxy, "handshake_failed", count);
    }
    assert!(origin.seen().is_empty());
}

#[test]
fn detects_a_disconnect_during_the_backend_connect() {
    let (listener, _queued) = full_listener();
    let hello = hello(&Authority::new("ca").trust(), "a.test");
    for by_reset in [false, true] {
        let proxy = gateway("a.test", listener.local_addr().unwrap(), "");
        let mut client = Client::connect(address(&proxy));
        client.stream.write_all(&hello).unwrap();
        proxy.wait_for("the connection", |stats| stats.upstream.connects == 1);
        client.leave(by_reset);
        proxy.wait_for("the disconnect", |stats| stats.connections.open == 0);
        let stats = proxy.gateway.stats();
        assert_eq!((stats.errors["client_closed"], stats.errors.values().sum::<u64>()), (1, 1));
        assert_eq!(
            (stats.tls.passed_on, stats.upstream.connect_failures, stats.upstream.open["sealed"]),
            (0, 0, 0)
        );
    }
}

#[test]
fn counts_a_backend_that_refuses_connections() {
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = held.local_addr().unwrap();
    drop(held);
    let ca = Authority::new("ca");
    let proxy = gateway("a.test", gone, "");
    assert!(ca.trust().connect(address(&proxy), "a.test").is_err());
    proxy.wait_for("the failure", |stats| stats.errors["upstream_connect_failed"] == 1);
    assert_eq!(proxy.gateway.stats().tls.passed_on, 0);
}

#[test]
fn drain_timeout_resets_and_counts_passthrough() {
    let ca = Authority::new("ca");
    let origin = SecureOrigin::answering(&ca.signs(&["a.test"]), None, OK);
    let proxy = gateway("a.test", origin.address, "\ndrain: { delay: 0s, timeout: 200ms }\n");
    let mut client = ca.trust().connect(address(&proxy), "a.test").unwrap();
    assert_eq!(client.ask(GET).body, "ok");
    proxy.gateway.drain();
    assert!(!client.is_ended(), "the connection must be reset");
    assert!(proxy.gateway.join());
    assert_eq!(proxy.errors("drained"), 1);
}
