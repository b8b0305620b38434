//! TLS clients: certificates, failed handshakes, and HTTP over TLS.

mod authority;
mod changes;
mod fallback;
mod filters;
mod offload;
mod origin;
mod passthrough;
mod policy;
mod resumption;
mod swaps;
mod upstream;

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, SystemTime};

use weir_dataplane::TlsStats;

use self::authority::{Authority, Leaf, TLS12, TLS13, connect, shake_hands};
use crate::breakers::waiting;
use crate::setup::{Client, Origin, Proxy, compile_with, reset};

const GET: &str = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn text(tls: &str, origin: SocketAddr, more: &str) -> String {
    format!(
        "listeners: [{{ address: 127.0.0.1:0, name: main, tls: {{ {tls} }} }}]\nworkers: 1\n\
         routes: [{{ path: /, backend: b }}]\nbackends: {{ b: {{ endpoints: ['{origin}'] }} }}\n{more}"
    )
}

/// A gateway with one certificate.
fn gateway(leaf: &Leaf, origin: SocketAddr, more: &str) -> Proxy {
    let files = [("a.pem", leaf.certificate.as_str()), ("a.key", leaf.key.as_str())];
    Proxy::with_files(&text("certificate: a.pem, key: a.key", origin, more), &files)
}

fn address(proxy: &Proxy) -> SocketAddr {
    proxy.gateway.addresses()[0]
}

/// Waits for `count` handshakes that failed with this cause. No handshake may fail with another cause.
fn check_failed(proxy: &Proxy, cause: &str, count: u64) {
    proxy.wait_for(cause, |stats| stats.errors[cause] == count);
    let stats = proxy.gateway.stats();
    assert_eq!((stats.errors.values().sum::<u64>(), stats.tls.failed), (count, count), "{:?}", stats.errors);
}

#[test]
fn serves_http_over_tls() {
    let (ca, origin) = (Authority::new("ca"), Origin::answering(OK));
    let proxy = gateway(&ca.signs(&["a.test"]), origin.address, "");
    for (versions, suite) in
        [(TLS13, "TLS13_AES_128_GCM_SHA256"), (TLS12, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256")]
    {
        let mut client = ca.trust().only(versions).connect(address(&proxy), "a.test").unwrap();
        for _ in 0..3 {
            assert_eq!(client.ask(GET).body, "ok");
        }
        let connection = &client.stream.conn;
        let negotiated = connection.negotiated_cipher_suite().unwrap().suite().as_str();
        assert_eq!((negotiated, connection.alpn_protocol()), (Some(suite), Some(&b"http/1.1"[..])));
        let last = client.ask("GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
        assert_eq!(last.body, "ok");
        assert!(client.is_ended(), "close_notify comes before the FIN");
    }
    let stats = proxy.gateway.stats();
    assert_eq!((stats.requests, stats.by_status.success), (8, 8));
    assert_eq!(stats.tls, TlsStats { handshakes: 2, ..TlsStats::default() });
    assert_eq!(stats.tls, stats.listeners["main"].tls);
    assert!(stats.prometheus().contains("\nweir_tls_handshakes_total{listener=\"main\"} 2\n"));
}

#[test]
fn logs_the_tls_version() {
    let (ca, origin) = (Authority::new("ca"), Origin::answering(OK));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("access.log");
    let log = format!("access_log: {{ file: '{}', format: $ssl_protocol }}\n", file.display());
    let proxy = gateway(&ca.signs(&["a.test"]), origin.address, &log);
    for versions in [TLS13, TLS12] {
        let mut client = ca.trust().only(versions).connect(address(&proxy), "a.test").unwrap();
        assert_eq!((client.ask(GET).body, client.ask(GET).body), ("ok".to_owned(), "ok".to_owned()));
    }
    proxy.wait_for("the lines", |stats| stats.access_log.lines == 4);
    assert_eq!(std::fs::read_to_string(file).unwrap(), "TLSv1.3\nTLSv1.3\nTLSv1.2\nTLSv1.2\n");
}

#[test]
fn selects_the_certificate_by_its_names() {
    let (ca, origin) = (Authority::new("ca"), Origin::answering(OK));
    let leaves = [ca.signs(&["a.test"]), ca.signs(&["b.test", "*.c.test"])];
    let files = [
        ("a.pem", leaves[0].certificate.as_str()),
        ("a.key", leaves[0].key.as_str()),
        ("b.pem", leaves[1].certificate.as_str()),
        ("b.key", leaves[1].key.as_str()),
    ];
    let tls = "certificate: a.pem, key: a.key, certificates: [{ certificate: b.pem, key: b.key }]";
    let proxy = Proxy::with_files(&text(tls, origin.address, ""), &files);
    for name in ["a.test", "A.Test", "b.test", "x.c.test"] {
        assert_eq!(ca.trust().connect(address(&proxy), name).unwrap().ask(GET).body, "ok", "{name}");
    }
    // Clients with another server name get the first certificate, and reject it.
    for (count, name) in [(1, "c.test"), (2, "x.x.c.test"), (3, "127.0.0.1")] {
        let said = ca.trust().connect(address(&proxy), name).err().unwrap();
        assert!(said.contains("not valid for name"), "{name}: {said}");
        check_failed(&proxy, "handshake_refused", count);
    }
}

#[test]
fn selects_the_certificate_by_configured_hosts() {
    let (ours, theirs) = (Authority::new("ours"), Authority::new("theirs"));
    let (a, b) = (ours.signs(&["*.w.test"]), theirs.signs(&["*.w.test"]));
    let files = [
        ("a.pem", a.certificate.as_str()),
        ("a.key", a.key.as_str()),
        ("b.pem", b.certificate.as_str()),
        ("b.key", b.key.as_str()),
    ];
    let tls = "certificate: a.pem, key: a.key, hosts: [a.w.test], strict_sni: true, \
               certificates: [{ certificate: b.pem, key: b.key, hosts: [b.w.test] }]";
    let proxy = Proxy::with_files(&text(tls, Origin::answering(OK).address, ""), &files);
    let is_trusted =
        |name: &str| [&ours, &theirs].map(|ca| ca.trust().connect(address(&proxy), name).is_ok());
    assert_eq!(
        ["a.w.test", "b.w.test", "c.w.test"].map(is_trusted),
        [[true, false], [false, true], [false, false]]
    );
}

#[test]
fn requires_a_client_certificate_if_configured() {
    let (ca, clients, origin) = (Authority::new("ca"), Authority::new("clients"), Origin::answering(OK));
    let leaf = ca.signs(&["a.test"]);
    let authority = clients.pem();
    let files =
        [("a.pem", leaf.certificate.as_str()), ("a.key", leaf.key.as_str()), ("ca.pem", authority.as_str())];
    let tls = "certificate: a.pem, key: a.key, client_ca: ca.pem";
    let proxy = Proxy::with_files(&text(tls, origin.address, ""), &files);
    let good = ca.trust().showing(&clients.signs(&["me"]));
    assert_eq!(good.connect(address(&proxy), "a.test").unwrap().ask(GET).body, "ok");
    let expired = clients.signs_until(&["me"], SystemTime::now() - Duration::from_secs(3600));
    let strange = Authority::new("others").signs(&["me"]);
    let bad = [ca.trust(), ca.trust().showing(&expired), ca.trust().showing(&strange)];
    let mut count = 0;
    for trust in bad {
        for versions in [TLS13, TLS12] {
            // A TLS 1.3 client completes its handshake before the gateway verifies the client certificate.
            if let Ok(mut client) = trust.clone().only(versions).connect(address(&proxy), "a.test") {
                client.send(GET);
                assert!(client.is_closed());
            }
            count += 1;
            check_failed(&proxy, "client_certificate", count);
        }
    }
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn plain_http_request_to_https_gets_an_error() {
    let (ca, origin) = (Authority::new("ca"), Origin::answering(OK));
    let proxy = gateway(&ca.signs(&["a.test"]), origin.address, "");
    for (count, request) in [(1, GET), (2, "SSH-2.0-OpenSSH_9.2\r\n"), (3, "\0")] {
        let answer = proxy.ask(request);
        assert_eq!(answer.error(), (400, "not_tls"), "{}", answer.head);
        assert!(answer.body.contains("HTTPS"), "{}", answer.body);
        check_failed(&proxy, "not_tls", count);
    }
    assert_eq!(proxy.gateway.stats().requests, 0);
}

#[test]
fn rejects_malformed_handshakes() {
    let (ca, origin) = (Authority::new("ca"), Origin::answering(OK));
    let proxy = gateway(&ca.signs(&["a.test"]), origin.address, "");
    let mut count = 0;
    for seed in 0_u8..40 {
        // A handshake record with nonsense of this length.
        let content: Vec<u8> =
            (0..usize::from(seed) * 7 + 1).map(|n| (n as u8).wrapping_mul(seed) ^ seed).collect();
        let mut bytes = vec![22, 3, 1];
        bytes.extend((content.len() as u16).to_be_bytes());
        bytes.extend(content);
        let mut client = Client::connect(address(&proxy));
        client.stream.write_all(&bytes).unwrap();
        client.stream.shutdown(std::net::Shutdown::Write).unwrap();
        while !client.is_closed() {
            client.read_exact(1);
        }
        count += 1;
        proxy.wait_for("the failed handshake", |stats| stats.tls.failed == count);
    }
    let nothing_in_common = ca.trust().offering(&[&b"h2"[..]]);
    assert!(nothing_in_common.connect(address(&proxy), "a.test").is_err());
    proxy.wait_for("the failed handshake", |stats| stats.tls.failed == count + 1);
    let errors = proxy.gateway.stats().errors;
    assert_eq!(errors["handshake_failed"] + errors["client_closed"], count + 1, "{errors:?}");
    assert_eq!(ca.trust().connect(address(&proxy), "a.test").unwrap().ask(GET).body, "ok");
    assert!(proxy.gateway.is_healthy());
}

#[test]
fn slow_handshakes_time_out_and_port_scans_are_no_failures() {
    let (ca, origin) = (Authority::new("ca"), Origin::answering(OK));
    let proxy = gateway(&ca.signs(&["a.test"]), origin.address, "timeouts: { head: 100ms }");
    for (count, start) in [(1, &[][..]), (2, &[22][..]), (3, &[22, 3, 1, 2, 0, 1][..])] {
        let mut client = Client::connect(address(&proxy));
        client.stream.write_all(start).unwrap();
        assert!(client.is_closed());
        check_failed(&proxy, "handshake_timeout", count);
    }
    assert_eq!(proxy.gateway.stats().timeouts, 3);
    drop(TcpStream::connect(address(&proxy)).unwrap());
    proxy.wait_for("the close", |stats| stats.connections.accepted == 4 && stats.connections.open == 0);
    check_failed(&proxy, "handshake_timeout", 3);
}

#[test]
fn transfers_large_bodies_in_both_directions() {
    const LENGTH: usize = 3_000_000;
    let origin = Origin::start(|served| {
        while let Some(request) = served.request() {
            let body = request.split_once("\r\n\r\n").unwrap().1;
            served.send(&format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
        }
    });
    let ca = Authority::new("ca");
    let proxy = gateway(&ca.signs(&["a.test"]), origin.address, "");
    let mut client = ca.trust().connect(address(&proxy), "a.test").unwrap();
    let body: String = (0..LENGTH).map(|n| char::from(b'a' + (n % 23) as u8)).collect();
    let head = format!("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {LENGTH}\r\n\r\n");
    for _ in 0..2 {
        client.send(&head);
        client.send(&body);
        let answer = client.response();
        assert!(answer.whole && answer.body == body);
    }
}

#[test]
fn truncated_response_does_not_look_complete() {
    let origin = Origin::start(|served| {
        served.request();
        served.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n");
    });
    let ca = Authority::new("ca");
    let proxy = gateway(&ca.signs(&["a.test"]), origin.address, "");
    let mut client = ca.trust().connect(address(&proxy), "a.test").unwrap();
    assert!(!client.ask("GET / HTTP/1.0\r\n\r\n").whole, "the gateway sends no close_notify");
    assert_eq!(proxy.errors("upstream_truncated"), 1);
}

#[test]
fn detects_a_disconnect_by_close_notify_fin_or_reset() {
    let ca = Authority::new("ca");
    for (versions, leaves) in [(TLS13, "goodbye"), (TLS12, "goodbye"), (TLS13, "end"), (TLS13, "reset")] {
        let origin = Origin::start(|served| {
            served.request();
            served.stall();
        });
        let proxy = gateway(&ca.signs(&["a.test"]), origin.address, "");
        let mut client = ca.trust().only(versions).connect(address(&proxy), "a.test").unwrap();
        client.send(GET);
        proxy.wait_for("the request", |_| origin.requests().len() == 1);
        match leaves {
            "goodbye" => {
                client.stream.conn.send_close_notify();
                client.stream.flush().unwrap();
            }
            "end" => client.stream.sock.shutdown(std::net::Shutdown::Write).unwrap(),
            _ => reset(&client.stream.sock),
        }
        let held = (leaves != "reset").then_some(client);
        proxy.wait_for(leaves, |stats| stats.connections.open == 0 && stats.upstream.open["b"] == 0);
        let stats = proxy.gateway.stats();
        assert_eq!((stats.errors["client_closed"], stats.responses), (1, 0), "{leaves}");
        assert!(held.is_none_or(|mut client| client.is_closed() && !client.is_ended()), "{leaves}");
    }
}

#[test]
fn half_closed_tls_client_gets_responses_to_pipelined_requests() {
    let ca = Authority::new("ca");
    let leaf = ca.signs(&["a.test"]);
    let (origin, release) = waiting();
    let files = [("a.pem", leaf.certificate.as_str()), ("a.key", leaf.key.as_str())];
    let text = text("certificate: a.pem, key: a.key", origin.address, "");
    let proxy = Proxy::with_files(&text.replace("name: main,", "name: main, half_close: true,"), &files);
    let mut client = ca.trust().connect(address(&proxy), "a.test").unwrap();
    client.send(GET);
    proxy.wait_for("the request", |_| origin.requests().len() == 1);
    client.send(GET);
    client.stream.conn.send_close_notify();
    client.stream.flush().unwrap();
    (0..2).for_each(|_| release.send(()).unwrap());
    assert_eq!([client.response().body, client.response().body], ["ok", "ok"]);
    assert_eq!((origin.requests().len(), proxy.errors("client_closed")), (2, 0));
}

#[test]
fn upgraded_connection_stays_encrypted() {
    let origin = Origin::start(|served| {
        served.request();
        served.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n");
        let said = served.read_exact(4).unwrap();
        served.send(&said.to_uppercase());
    });
    let ca = Authority::new("ca");
    let proxy = gateway(&ca.signs(&["a.test"]), origin.address, "");
    let mut client = ca.trust().connect(address(&proxy), "a.test").unwrap();
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n");
    assert_eq!(client.head().status, 101);
    client.send("ping");
    assert_eq!(client.read_exact(4), "PING");
    assert!(client.is_ended());
}

#[test]
fn resumes_sessions_and_serves_renewed_certificates() {
    let (ca, origin) = (Authority::new("ca"), Origin::answering(OK));
    let leaf = ca.signs(&["a.test"]);
    let mut proxy = gateway(&leaf, origin.address, "");
    let config = ca.trust().config();
    let ask = |proxy: &Proxy| connect(&config, address(proxy), "a.test").unwrap().ask(GET).body;
    for _ in 0..3 {
        assert_eq!(ask(&proxy), "ok");
    }
    assert_eq!(proxy.gateway.stats().tls, TlsStats { handshakes: 3, resumed: 2, ..TlsStats::default() });

    let mut kept = ca.trust().connect(address(&proxy), "a.test").unwrap();
    let other = Authority::new("other");
    let leaf = other.signs(&["a.test"]);
    let files = [("a.pem", leaf.certificate.as_str()), ("a.key", leaf.key.as_str())];
    let changed = text("certificate: a.pem, key: a.key", origin.address, "");
    let table = compile_with(&mut proxy.state, &changed, &files);
    proxy.gateway.apply(table).unwrap();
    assert_eq!(kept.ask(GET).body, "ok", "open connections stay open");
    assert_eq!(other.trust().connect(address(&proxy), "a.test").unwrap().ask(GET).body, "ok");
    let said = ca.trust().connect(address(&proxy), "a.test").err().unwrap();
    assert!(said.contains("UnknownIssuer"), "{said}");
    check_failed(&proxy, "handshake_refused", 1);
    assert_eq!(proxy.gateway.stats().tls.resumed, 2);
}

#[test]
fn drain_sends_close_notify() {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = std::sync::Mutex::new(released);
    let origin = Origin::start(move |served| {
        served.request();
        released.lock().unwrap().recv().unwrap();
        served.send(OK);
        served.stall();
    });
    let ca = Authority::new("ca");
    let proxy = gateway(&ca.signs(&["a.test"]), origin.address, "");
    let mut idle = ca.trust().connect(address(&proxy), "a.test").unwrap();
    let mut busy = ca.trust().connect(address(&proxy), "a.test").unwrap();
    busy.send(GET);
    proxy.wait_for("the exchange", |stats| stats.upstream.connects == 1 && stats.tls.handshakes == 2);
    proxy.gateway.drain();
    assert!(idle.is_ended());
    release.send(()).unwrap();
    let answer = busy.response();
    assert_eq!((answer.body.as_str(), answer.field("connection")), ("ok", Some("close")));
    assert!(busy.is_ended());
    assert!(proxy.gateway.join());
    assert_eq!(proxy.gateway.cut_by_drain(), 0);
}

#[test]
fn drain_timeout_cuts_without_close_notify() {
    let origin = Origin::start(|served| {
        served.request();
        served.send("HTTP/1.0 200 OK\r\n\r\nab");
        served.stall();
    });
    let ca = Authority::new("ca");
    let drain = "\ndrain: { delay: 0s, timeout: 200ms }\n";
    let proxy = gateway(&ca.signs(&["a.test"]), origin.address, drain);
    let mut client = ca.trust().connect(address(&proxy), "a.test").unwrap();
    client.send("GET / HTTP/1.0\r\nHost: a.test\r\n\r\n");
    assert_eq!(client.head().status, 200);
    proxy.gateway.drain();
    assert_eq!(client.read_exact(2), "ab");
    assert!(!client.is_ended(), "a truncated response must not look complete");
    assert!(proxy.gateway.join());
    assert_eq!(proxy.errors("drained"), 1);
}

#[test]
fn connections_above_the_limit_get_no_handshake() {
    let (ca, origin) = (Authority::new("ca"), Origin::answering(OK));
    let proxy = gateway(&ca.signs(&["a.test"]), origin.address, "limits: { connections: 1 }");
    let mut first = ca.trust().connect(address(&proxy), "a.test").unwrap();
    assert!(ca.trust().connect(address(&proxy), "a.test").is_err());
    assert_eq!(first.ask(GET).body, "ok");
    assert_eq!((proxy.errors("connection_limit"), proxy.gateway.stats().tls.handshakes), (1, 1));
}

/// Clients behind a load balancer. The worker that serves a client may differ from the one that accepted it.
#[test]
fn serves_tls_clients_after_a_handover_to_another_worker() {
    let ca = Authority::new("ca");
    let own = ca.signs(&["a.test"]);
    let origin = Origin::start(|served| {
        let header = served.read_until("\r\n").unwrap_or_default();
        served.request();
        let client = header.split(' ').nth(2).unwrap_or_default();
        served.send(&format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{client}", client.len()));
    });
    let text = text("certificate: a.pem, key: a.key", origin.address, "")
        .replace("workers: 1", "workers: 4")
        .replace("name: main,", "name: main, proxy_protocol: true,")
        .replace("'] }", "'], proxy_protocol: v1 }");
    let proxy = Proxy::with_files(&text, &[("a.pem", &own.certificate), ("a.key", &own.key)]);
    let config = ca.trust().config();
    let clients: Vec<_> = (0..64)
        .map(|number| {
            let mut socket = Client::connect(address(&proxy));
            socket.send(&format!("PROXY TCP4 192.0.2.{number} 192.0.2.200 1 443\r\n"));
            let mut client = shake_hands(&config, socket.stream, "a.test").unwrap();
            assert_eq!(client.ask(GET).body, format!("192.0.2.{number}"));
            client
        })
        .collect();
    let stats = proxy.gateway.stats();
    assert_eq!((stats.connections.open, stats.connections.accepted, stats.tls.handshakes), (64, 64, 64));
    assert!(stats.connections.handed > 0);
    drop(clients);
}

#[test]
fn reads_the_proxy_header_before_the_handshake() {
    const HEADER: &str = "PROXY TCP4 192.0.2.1 192.0.2.2 1 443\r\n";
    let ca = Authority::new("ca");
    let own = ca.signs(&["a.test"]);
    let origin = Origin::start(|served| {
        let header = served.read_until("\r\n").unwrap_or_default();
        served.request();
        served.send(if header == HEADER { OK } else { "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n" });
    });
    let text = text("certificate: a.pem, key: a.key", origin.address, "")
        .replace("name: main,", "name: main, proxy_protocol: true,")
        .replace("'] }", "'], proxy_protocol: v1 }");
    let proxy = Proxy::with_files(&text, &[("a.pem", &own.certificate), ("a.key", &own.key)]);
    let mut socket = Client::connect(address(&proxy));
    socket.send(HEADER);
    let mut client = shake_hands(&ca.trust().config(), socket.stream, "a.test").unwrap();
    assert_eq!(client.ask(GET).body, "ok");
    assert!(ca.trust().connect(address(&proxy), "a.test").is_err(), "no handshake without a PROXY header");
    proxy.wait_for("the cause", |stats| stats.errors["proxy_header"] == 1);
}
