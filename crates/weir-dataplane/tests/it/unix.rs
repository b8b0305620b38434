//! Endpoints on Unix sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::setup::{Origin, Proxy};

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Forwards connections of a Unix socket at `path` to `to`, because scripted origins listen on TCP.
pub(crate) fn lead(path: &Path, to: SocketAddr) {
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let far = TcpStream::connect(to).unwrap();
            let (near_end, far_end) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            let (from_near, from_far) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            std::thread::spawn(move || pass(from_near, far, || drop(far_end.shutdown(Shutdown::Write))));
            std::thread::spawn(move || pass(from_far, near, || drop(near_end.shutdown(Shutdown::Write))));
        }
    });
}

fn pass(mut from: impl Read, mut to: impl Write, end: impl FnOnce()) {
    // The direction ends when either side closes.
    let _ = std::io::copy(&mut from, &mut to);
    end();
}

/// A temporary directory for sockets.
struct Sockets(tempfile::TempDir);

impl Sockets {
    fn new() -> Sockets {
        Sockets(tempfile::tempdir().unwrap())
    }

    /// A socket with this name that forwards to `origin`.
    fn lead(&self, name: &str, origin: &Origin) -> String {
        lead(&self.0.path().join(name), origin.address);
        self.endpoint(name)
    }

    /// The configured endpoint for the socket with this name.
    fn endpoint(&self, name: &str) -> String {
        format!("unix:{}", self.0.path().join(name).display())
    }
}

/// A gateway with one backend, which has these endpoints and fields.
fn gateway(endpoints: &[&str], backend: &str, more: &str) -> Proxy {
    let endpoints: Vec<String> = endpoints.iter().map(|endpoint| format!("'{endpoint}'")).collect();
    Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\nroutes: [{{ path: /, backend: b }}]\n\
         backends: {{ b: {{ endpoints: [{}]{backend} }} }}\n{more}",
        endpoints.join(", ")
    ))
}

fn named(name: &'static str) -> Origin {
    Origin::start(move |served| {
        while served.request().is_some() {
            served.send(&format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{name}"));
        }
    })
}

#[test]
fn reuses_connections_and_logs_the_socket_path() {
    let (sockets, origin) = (Sockets::new(), Origin::answering(OK));
    let endpoint = sockets.lead("a", &origin);
    let log = sockets.0.path().join("access.log");
    let more = format!("access_log: {{ file: '{}', format: '$upstream_addr $status' }}", log.display());
    let proxy = gateway(&[&endpoint], "", &more);
    let mut client = proxy.connect();
    for _ in 0..3 {
        assert_eq!(client.ask(GET).body, "ok");
    }
    assert_eq!(proxy.ask("GET / HTTP/1.0\r\n\r\n").body, "ok");
    assert_eq!(origin.connections(), 1);
    assert_eq!(origin.requests()[3], "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let stats = proxy.gateway.stats().upstream;
    assert_eq!((stats.connects, stats.connect_failures, stats.reused), (1, 0, 3));
    proxy.wait_for("the lines", |stats| stats.access_log.lines == 4);
    assert_eq!(std::fs::read_to_string(log).unwrap(), format!("{endpoint} 200\n").repeat(4));
}

#[test]
fn skips_a_socket_without_a_listener() {
    let (sockets, origin) = (Sockets::new(), Origin::answering(OK));
    let (live, none) = (sockets.lead("a", &origin), sockets.endpoint("none"));
    let proxy = gateway(&[&none, &live], "", "");
    for _ in 0..4 {
        assert_eq!(proxy.ask(GET).body, "ok");
    }
    assert_eq!(proxy.gateway.stats().upstream.connect_failures, 4, "each rotation tries it again");
    let proxy = gateway(&[&none], "", "");
    assert_eq!(proxy.ask(GET).error(), (502, "upstream_connect_failed"));
}

#[test]
fn reconnects_to_a_recreated_socket() {
    let (sockets, origin) = (
        Sockets::new(),
        Origin::start(|served| {
            if served.request().is_some() {
                served.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
            }
        }),
    );
    let endpoint = sockets.lead("a", &origin);
    let proxy = gateway(&[&endpoint], "", "");
    assert_eq!(proxy.ask(GET).body, "ok");
    std::fs::remove_file(sockets.0.path().join("a")).unwrap();
    assert_eq!(proxy.ask(GET).error(), (502, "upstream_connect_failed"));
    sockets.lead("a", &origin);
    assert_eq!(proxy.ask(GET).body, "ok");
}

#[test]
fn health_checks_detect_a_closed_socket() {
    let (sockets, origin) = (Sockets::new(), Origin::answering(OK));
    let (live, none) = (sockets.lead("a", &origin), sockets.endpoint("none"));
    for health in ["{ path: /up, interval: 10ms, unhealthy: 1 }", "{ interval: 10ms, unhealthy: 1 }"] {
        let proxy = gateway(&[&live, &none], &format!(", health: {health}"), "");
        proxy.wait_for("the check", |stats| {
            stats.upstream.backends.get("b").is_some_and(|b| b.endpoints_out == 1 && b.checks >= 6)
        });
        let mut client = proxy.connect();
        (0..10).for_each(|_| assert_eq!(client.ask(GET).body, "ok"));
        assert_eq!(proxy.gateway.stats().upstream.connect_failures, 0, "{health}");
    }
    let check = "GET /up HTTP/1.1\r\nHost: localhost\r\nUser-Agent: weir-gateway health check\r\n\
                 Connection: close\r\n\r\n";
    let asked = origin.requests();
    assert!(asked.iter().any(|request| request == check), "{asked:?}");
}

#[test]
fn hash_and_sticky_use_the_path() {
    let (sockets, a, b) = (Sockets::new(), named("a"), named("b"));
    let endpoints = [sockets.lead("a", &a), sockets.lead("b", &b)];
    let [first, second] = endpoints.each_ref().map(String::as_str);
    let mut owners: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
    // The endpoint of a hash key must not depend on the order of the endpoints.
    for order in [[first, second], [second, first]] {
        let proxy = gateway(&order, ", balance: { hash: { header: k } }", "");
        let mut client = proxy.connect();
        for key in 0..40 {
            let answer = client.ask(&format!("GET / HTTP/1.1\r\nHost: h\r\nk: {key}\r\n\r\n"));
            owners.entry(key).or_default().insert(answer.body);
        }
    }
    assert!(owners.values().all(|names| names.len() == 1), "{owners:?}");
    assert_eq!(owners.values().flatten().collect::<BTreeSet<_>>().len(), 2);
    let cookie = |order: &[&str]| {
        let proxy = gateway(order, ", balance: { sticky: { cookie: at } }", "");
        let answer = proxy.ask(GET);
        let set = answer.field("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        let again = proxy.ask(&format!("GET / HTTP/1.1\r\nHost: h\r\nCookie: {set}\r\n\r\n"));
        assert_eq!((&again.body, again.field("set-cookie")), (&answer.body, None));
        (answer.body, set)
    };
    let of_both = [cookie(&[first, second]), cookie(&[second, first])];
    assert_eq!(of_both.each_ref().map(|(name, _)| name.as_str()), ["a", "b"]);
    assert_ne!(of_both[0].1, of_both[1].1);
}

#[test]
fn sends_the_proxy_header_to_a_unix_socket() {
    let sockets = Sockets::new();
    let origin = Origin::start(|served| {
        let header = served.read_until("\r\n").unwrap_or_default();
        while served.request().is_some() {
            let reported = header.trim_end();
            served.send(&format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{reported}", reported.len()));
        }
    });
    let endpoint = sockets.lead("a", &origin);
    let health = ", proxy_protocol: v1, health: { path: /, interval: 10ms }";
    let proxy = gateway(&[&endpoint], health, "");
    let mut client = proxy.connect();
    let (from, to) = (client.stream.local_addr().unwrap(), client.stream.peer_addr().unwrap());
    // The header has the addresses of the client connection, not of the upstream connection.
    let expected = format!("PROXY TCP4 127.0.0.1 127.0.0.1 {} {}", from.port(), to.port());
    assert_eq!(client.ask(GET).body, expected);
    proxy.wait_for("checks", |stats| stats.upstream.backends["b"].checks >= 2);
    assert_eq!(proxy.gateway.stats().upstream.backends["b"].check_failures, 0);
}

#[test]
fn transfers_bodies_and_tunnels() {
    let sockets = Sockets::new();
    let origin = Origin::start(|served| {
        while let Some(request) = served.request() {
            if request.starts_with("GET /chat ") {
                served.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
                let words = served.read_exact(5).unwrap_or_default();
                return served.send(&words.to_uppercase());
            }
            let body = &request[request.len() - 8..];
            served.send(&format!("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{body}"));
        }
    });
    let proxy = gateway(&[&sockets.lead("a", &origin)], "", "");
    let mut client = proxy.connect();
    client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 8\r\n\r\nfour");
    proxy.wait_for("the first bytes", |stats| stats.upstream.connects == 1);
    client.send("more");
    assert_eq!(client.response().body, "fourmore");
    let upgrade = "GET /chat HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n";
    assert_eq!(client.ask(upgrade).status, 101);
    client.send("hello");
    assert_eq!(client.read_exact(5), "HELLO");
    assert!(client.is_closed());
}
