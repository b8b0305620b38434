//! TLS to backends.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;

use super::authority::{Authority, Leaf};
use super::origin::{SecureOrigin, request};
use super::{GET, OK};
use crate::setup::{Origin, Proxy, recompile_with};
use crate::unix::lead;

fn text(tls: &str, origin: SocketAddr) -> String {
    format!(
        "listeners: [{{ address: 127.0.0.1:0, name: main }}]\nworkers: 1\nroutes: [{{ path: /, backend: b }}]\n\
         backends: {{ b: {{ endpoints: ['{origin}'], tls: {{ {tls} }} }} }}\n"
    )
}

#[test]
fn verifies_the_name_of_an_upstream_and_reuses_its_connections() {
    let ca = Authority::new("ca");
    let origin = SecureOrigin::answering(&ca.signs(&["up.test"]), None, OK);
    let pem = ca.pem();
    let proxy = Proxy::with_files(&text("ca: ca.pem, sni: up.test", origin.address), &[("ca.pem", &pem)]);
    let mut client = proxy.connect();
    for _ in 0..3 {
        assert_eq!(client.ask(GET).body, "ok");
    }
    let seen = origin.seen();
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert_eq!((seen[0].name.as_deref(), seen[0].alpn.as_deref()), (Some("up.test"), Some("http/1.1")));
    assert_eq!(seen[0].requests.len(), 3);
    let stats = proxy.gateway.stats().upstream;
    assert_eq!((stats.connects, stats.handshakes, stats.reused), (1, 1, 2));
}

#[test]
fn supports_tls_over_a_unix_socket() {
    let (ca, dir) = (Authority::new("ca"), tempfile::tempdir().unwrap());
    let origin = SecureOrigin::answering(&ca.signs(&["up.test"]), None, OK);
    lead(&dir.path().join("up"), origin.address);
    let endpoint = format!("unix:{}", dir.path().join("up").display());
    let text =
        text("ca: ca.pem, sni: up.test", origin.address).replace(&origin.address.to_string(), &endpoint);
    let proxy = Proxy::with_files(&text, &[("ca.pem", &ca.pem())]);
    let mut client = proxy.connect();
    for _ in 0..3 {
        assert_eq!(client.ask(GET).body, "ok");
    }
    let seen = origin.seen();
    assert_eq!((seen.len(), seen[0].name.as_deref(), seen[0].requests.len()), (1, Some("up.test"), 3));
    let stats = proxy.gateway.stats().upstream;
    assert_eq!((stats.connects, stats.handshakes, stats.reused), (1, 1, 2));
}

#[test]
fn without_sni_the_certificate_must_match_the_address() {
    let ca = Authority::new("ca");
    let pem = ca.pem();
    let origin = SecureOrigin::answering(&ca.signs(&["127.0.0.1"]), None, OK);
    let proxy = Proxy::with_files(&text("ca: ca.pem", origin.address), &[("ca.pem", &pem)]);
    assert_eq!(proxy.ask(GET).body, "ok");
    assert_eq!(origin.seen()[0].name, None, "the gateway sends no SNI for an address");
}

#[test]
fn distinguishes_untrusted_upstreams_from_failed_handshakes() {
    let (ca, other) = (Authority::new("ca"), Authority::new("other"));
    let (pem, strange) = (ca.pem(), other.pem());
    let origin = SecureOrigin::answering(&ca.signs(&["up.test"]), None, OK);
    let demanding = SecureOrigin::answering(&ca.signs(&["up.test"]), Some(&other), OK);
    let plain = Origin::start(|served| served.send("HTTP/1.1 400 Bad Request\r\n\r\n"));
    for (tls, address, cause) in [
        ("ca: other.pem, sni: up.test", origin.address, "upstream_certificate"),
        ("ca: ca.pem, sni: down.test", origin.address, "upstream_certificate"),
        ("ca: ca.pem", origin.address, "upstream_certificate"),
        ("ca: ca.pem, sni: up.test", plain.address, "upstream_handshake"),
    ] {
        let files = [("ca.pem", pem.as_str()), ("other.pem", strange.as_str())];
        let proxy = Proxy::with_files(&text(tls, address), &files);
        assert_eq!(proxy.ask(GET).error(), (502, cause), "{tls}");
        let stats = proxy.gateway.stats().upstream;
        assert_eq!((stats.connects, stats.connect_failures, stats.handshakes), (1, 1, 0), "{tls}");
    }
    assert!(
        origin.seen().iter().all(|seen| seen.requests.is_empty()),
        "the gateway must send no request: {:?}",
        origin.seen()
    );
    // A TLS 1.3 client completes its handshake before the upstream finds that the client certificate is missing, so the
    // error occurs later.
    let files = [("ca.pem", pem.as_str())];
    let proxy = Proxy::with_files(&text("ca: ca.pem, sni: up.test", demanding.address), &files);
    assert_eq!(proxy.ask(GET).status, 502);
    assert!(demanding.seen().is_empty());
}

#[test]
fn sends_a_client_certificate() {
    let (ca, gateways) = (Authority::new("ca"), Authority::new("gateways"));
    let (pem, own) = (ca.pem(), gateways.signs(&["gateway"]));
    let origin = SecureOrigin::answering(&ca.signs(&["up.test"]), Some(&gateways), OK);
    let files = [("ca.pem", pem.as_str()), ("g.pem", &own.certificate), ("g.key", &own.key)];
    let tls = "ca: ca.pem, sni: up.test, certificate: g.pem, key: g.key";
    let proxy = Proxy::with_files(&text(tls, origin.address), &files);
    assert_eq!(proxy.ask(GET).body, "ok");
    assert!(origin.seen()[0].has_certificate);
}

#[test]
fn does_not_reuse_connections_of_other_tls_settings() {
    let (ca, gateways) = (Authority::new("ca"), Authority::new("gateways"));
    let leaf = ca.signs(&["up.test", "also.test"]);
    let origin = SecureOrigin::answering(&leaf, Some(&gateways), OK);
    let (first, second) = (gateways.signs(&["first"]), gateways.signs(&["second"]));
    let pem = ca.pem();
    let tls = |name: &str| format!("ca: ca.pem, sni: {name}, certificate: g.pem, key: g.key");
    let (up, also) = (text(&tls("up.test"), origin.address), text(&tls("also.test"), origin.address));
    let files = |own: &Leaf| {
        [("ca.pem", pem.clone()), ("g.pem", own.certificate.clone()), ("g.key", own.key.clone())]
    };
    let steps =
        [(&up, &first, 1), (&up, &first, 1), (&up, &second, 2), (&also, &second, 3), (&also, &second, 3)];
    let start = files(&first);
    let mut proxy =
        Proxy::with_files(&up, &start.each_ref().map(|(name, content)| (*name, content.as_str())));
    let mut client = proxy.connect();
    for (turn, (text, own, connections)) in steps.into_iter().enumerate() {
        let contents = files(own);
        let contents = contents.each_ref().map(|(name, content)| (*name, content.as_str()));
        let table = recompile_with(&mut proxy.state, text, &contents);
        proxy.gateway.apply(table).unwrap();
        assert_eq!(client.ask(GET).body, "ok");
        assert_eq!(origin.seen().len(), connections, "turn {turn}");
    }
    let stats = proxy.gateway.stats().upstream;
    assert_eq!((stats.handshakes, stats.handshakes_resumed), (3, 0), "sessions are not reused either");
}

#[test]
fn resumes_sessions_with_upstreams() {
    let ca = Authority::new("ca");
    let pem = ca.pem();
    let origin = SecureOrigin::start(&ca.signs(&["up.test"]), None, |stream, seen| {
        if let Some(request) = request(stream) {
            seen(request);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    });
    let proxy = Proxy::with_files(&text("ca: ca.pem, sni: up.test", origin.address), &[("ca.pem", &pem)]);
    let mut client = proxy.connect();
    for _ in 0..4 {
        assert_eq!(client.ask(GET).body, "ok");
    }
    let stats = proxy.gateway.stats().upstream;
    assert_eq!((stats.handshakes, stats.handshakes_resumed, stats.reused), (4, 3, 0));
}

#[test]
fn detects_a_closed_idle_connection() {
    let ca = Authority::new("ca");
    let pem = ca.pem();
    let origin = SecureOrigin::start(&ca.signs(&["up.test"]), None, |stream, seen| {
        if let Some(request) = request(stream) {
            seen(request);
            // The response has no `Connection: close`, although the upstream closes the connection afterwards.
            let _ = stream.write_all(OK.as_bytes());
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    });
    let proxy = Proxy::with_files(&text("ca: ca.pem, sni: up.test", origin.address), &[("ca.pem", &pem)]);
    let mut client = proxy.connect();
    let post = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx";
    for turn in 1..4 {
        // The gateway must not retry this request, so it has to detect the close before it sends the request.
        assert_eq!(client.ask(post).body, "ok", "turn {turn}");
        proxy.wait_for("the close", |stats| stats.upstream.open["b"] == 0);
    }
    assert_eq!(origin.seen().len(), 3);
}

#[test]
fn transfers_large_bodies_in_both_directions() {
    const LENGTH: usize = 2_000_000;
    let ca = Authority::new("ca");
    let pem = ca.pem();
    let origin = SecureOrigin::start(&ca.signs(&["up.test"]), None, |stream, _| {
        while let Some(request) = request(stream) {
            let mut body = request.split_once("\r\n\r\n").unwrap().1.as_bytes().to_vec();
            let start = body.len();
            body.resize(LENGTH, 0);
            stream.read_exact(&mut body[start..]).unwrap();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n");
            stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)).unwrap();
        }
    });
    let proxy = Proxy::with_files(&text("ca: ca.pem, sni: up.test", origin.address), &[("ca.pem", &pem)]);
    let body: String = (0..LENGTH).map(|n| char::from(b'a' + (n % 23) as u8)).collect();
    let mut client = proxy.connect();
    for _ in 0..2 {
        client.send(&format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {LENGTH}\r\n\r\n"));
        client.send(&body);
        let answer = client.response();
        assert!(answer.whole && answer.body == body);
    }
    assert_eq!(origin.seen().len(), 1, "the connection is reused");
}

#[test]
fn response_until_close_is_complete_only_with_close_notify() {
    let ca = Authority::new("ca");
    let pem = ca.pem();
    for says_goodbye in [true, false] {
        let origin = SecureOrigin::start(&ca.signs(&["up.test"]), None, move |stream, _| {
            request(stream);
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nall of it").unwrap();
            if says_goodbye {
                stream.conn.send_close_notify();
            }
            let _ = stream.flush();
        });
        let proxy = Proxy::with_files(&text("ca: ca.pem, sni: up.test", origin.address), &[("ca.pem", &pem)]);
        assert_eq!(proxy.ask(GET).whole, says_goodbye);
        assert_eq!(proxy.errors("upstream_truncated"), u64::from(!says_goodbye));
    }
}

#[test]
fn upgraded_upstream_connection_stays_encrypted() {
    let ca = Authority::new("ca");
    let pem = ca.pem();
    let origin = SecureOrigin::start(&ca.signs(&["up.test"]), None, |stream, _| {
        request(stream);
        stream
            .write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
            .unwrap();
        let mut said = [0; 4];
        stream.read_exact(&mut said).unwrap();
        stream.write_all(&said.to_ascii_uppercase()).unwrap();
        stream.conn.send_close_notify();
        let _ = stream.flush();
        let _ = stream.read(&mut said);
    });
    let proxy = Proxy::with_files(&text("ca: ca.pem, sni: up.test", origin.address), &[("ca.pem", &pem)]);
    let mut client = proxy.connect();
    client.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n");
    assert_eq!(client.head().status, 101);
    client.send("ping");
    assert_eq!(client.read_exact(4), "PING");
    assert!(client.is_ended());
}

#[test]
fn health_checks_use_tls() {
    let ca = Authority::new("ca");
    let origin = SecureOrigin::answering(&ca.signs(&["up.test"]), None, OK);
    let pem = ca.pem();
    let is_out = |sni: &str, expected: u64| {
        let tls = format!("ca: ca.pem, sni: {sni} }}, health: {{ path: /up, interval: 10ms");
        let proxy = Proxy::with_files(&text(&tls, origin.address), &[("ca.pem", &pem)]);
        proxy.wait_for("checks", |stats| {
            stats.upstream.backends.get("b").is_some_and(|b| b.checks >= 6 && b.endpoints_out == expected)
        });
    };
    is_out("up.test", 0);
    is_out("down.test", 1);
    let seen = origin.seen();
    let asked = seen.iter().flat_map(|seen| &seen.requests).all(|request| request.starts_with("GET /up "));
    assert!(asked, "{seen:?}");
}
