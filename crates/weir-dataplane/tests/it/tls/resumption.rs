//! Session resumption: which tickets are accepted, at which listener, and for how long.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::Resumption;
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, HandshakeKind};

use super::authority::{Authority, Leaf, TLS12, TLS13, connect};
use super::{GET, OK, address};
use crate::setup::{Origin, Proxy, compile_with, recompile_with};

/// Ticket keys, one per line. Each line is one letter, 64 times.
fn secrets(letters: &str) -> String {
    // 64 letters are 48 bytes in base64.
    letters.chars().map(|letter| letter.to_string().repeat(64) + "\n").collect()
}

fn ask(config: &Arc<ClientConfig>, address: SocketAddr) {
    assert_eq!(connect(config, address, "a.test").unwrap().ask(GET).body, "ok");
}

/// A configuration with one listener per element of `tls`. Each element contains further TLS fields of its listener.
fn listeners(tls: &[&str], workers: u32, origin: SocketAddr) -> String {
    let listener = |(index, more): (usize, &&str)| {
        let address = format!("'127.0.0.{}:0'", index + 1);
        format!("{{ address: {address}, name: l{index}, tls: {{ certificate: a.pem, key: a.key{more} }} }}")
    };
    let listeners: Vec<String> = tls.iter().enumerate().map(listener).collect();
    format!(
        "listeners: [{}]\nworkers: {workers}\nroutes: [{{ path: /, backend: b }}]\n\
         backends: {{ b: {{ endpoints: ['{origin}'] }} }}\n",
        listeners.join(", ")
    )
}

fn files<'l>(leaf: &'l Leaf, more: &[(&'l str, &'l str)]) -> Vec<(&'l str, &'l str)> {
    let own = [("a.pem", leaf.certificate.as_str()), ("a.key", leaf.key.as_str())];
    own.into_iter().chain(more.iter().copied()).collect()
}

#[test]
fn every_worker_accepts_tickets_of_the_others() {
    let (ca, origin) = (Authority::new("ca"), Origin::answering(OK));
    let leaf = ca.signs(&["a.test"]);
    let keys = secrets("A");
    for (tls, versions) in [
        ("", TLS13),
        ("", TLS12),
        (", tickets: { file: t.keys }", TLS13),
        (", tickets: { file: t.keys }", TLS12),
    ] {
        let text = listeners(&[tls], 4, origin.address);
        let proxy = Proxy::with_files(&text, &files(&leaf, &[("t.keys", &keys)]));
        let config = ca.trust().only(versions).config();
        for _ in 0..17 {
            ask(&config, address(&proxy));
        }
        let stats = proxy.gateway.stats().tls;
        assert_eq!((stats.handshakes, stats.resumed), (17, 16), "{tls}");
    }
}

#[test]
fn handshakes_are_full_without_tickets() {
    let (ca, origin) = (Authority::new("ca"), Origin::answering(OK));
    let leaf = ca.signs(&["a.test"]);
    let proxy = Proxy::with_files(&listeners(&[", tickets: off"], 1, origin.address), &files(&leaf, &[]));
    for versions in [TLS13, TLS12] {
        let config = ca.trust().only(versions).config();
        for _ in 0..3 {
            ask(&config, address(&proxy));
        }
    }
    let stats = proxy.gateway.stats().tls;
    assert_eq!((stats.handshakes, stats.resumed), (6, 0));
}

#[test]
fn ticket_is_not_valid_at_another_listener() {
    let (ca, origin) = (Authority::new("ca"), Origin::answering(OK));
    let (leaf, keys) = (ca.signs(&["a.test"]), secrets("A"));
    for tls in ["", ", tickets: { file: t.keys }"] {
        let text = listeners(&[tls, tls], 1, origin.address);
        let proxy = Proxy::with_files(&text, &files(&leaf, &[("t.keys", &keys)]));
        let addresses = proxy.gateway.addresses();
        let config = ca.trust().config();
        for (turn, &address) in [addresses[0], addresses[0], addresses[1], addresses[1]].iter().enumerate() {
            ask(&config, address);
            let resumed = proxy.gateway.stats().tls.resumed;
            // The client stores sessions by server name, and uses the same server name for both listeners. In turn 2,
            // it offers a ticket of the first listener; in turn 3, a ticket of the second.
            assert_eq!(resumed, [0, 1, 1, 2][turn], "turn {turn} with `{tls}`");
        }
    }
}

#[test]
fn fleet_accepts_tickets_of_all_members() {
    let (ca, origin) = (Authority::new("ca"), Origin::answering(OK));
    let leaf = ca.signs(&["a.test"]);
    let tls = ", tickets: { file: t.keys, lifetime: 1h }";
    let start = |keys: &str| {
        let text = listeners(&[tls], 1, origin.address);
        Proxy::with_files(&text, &files(&leaf, &[("t.keys", keys)]))
    };
    let (old, new, strange) = (start(&secrets("A")), start(&secrets("BA")), start(&secrets("C")));
    let resumed = |proxy: &Proxy| proxy.gateway.stats().tls.resumed;
    let config = ca.trust().config();
    ask(&config, address(&old));
    ask(&config, address(&new));
    assert_eq!((resumed(&old), resumed(&new)), (0, 1), "the second key opens tickets");
    ask(&config, address(&old));
    assert_eq!(resumed(&old), 0, "the first key seals, and the old member lacks it");
    ask(&config, address(&strange));
    assert_eq!(resumed(&strange), 0);
}

#[test]
fn sessions_survive_new_certificates_but_not_new_client_authentication() {
    let (ca, origin) = (Authority::new("ca"), Origin::answering(OK));
    let (clients, others) = (Authority::new("clients"), Authority::new("others"));
    let (first, renewed) = (ca.signs(&["a.test"]), ca.signs(&["a.test"]));
    let both = clients.pem() + &others.pem();
    for tickets in ["", ", tickets: { file: t.keys }"] {
        let policy = format!(", client_ca: ca.pem{tickets}");
        let keys = secrets("A");
        let config = ca.trust().showing(&clients.signs(&["me"])).config();
        let optional = format!("{policy}, client_auth: optional");
        let steps = [
            (&first, clients.pem(), &policy, 0),
            (&first, clients.pem(), &policy, 1),
            (&renewed, clients.pem(), &policy, 2),
            (&renewed, both.clone(), &policy, 2),
            (&renewed, both.clone(), &policy, 3),
            (&renewed, both.clone(), &optional, 3),
            (&renewed, both.clone(), &optional, 4),
        ];
        let start = listeners(&[policy.as_str()], 1, origin.address);
        let mut proxy = Proxy::with_files(&start, &files(&first, &[("ca.pem", &both), ("t.keys", &keys)]));
        for (turn, (leaf, authority, tls, resumed)) in steps.iter().enumerate() {
            let text = listeners(&[tls.as_str()], 1, origin.address);
            let files = files(leaf, &[("ca.pem", authority), ("t.keys", &keys)]);
            let table = recompile_with(&mut proxy.state, &text, &files);
            proxy.gateway.apply(table).unwrap();
            ask(&config, address(&proxy));
            assert_eq!(proxy.gateway.stats().tls.resumed, *resumed, "turn {turn} with `{tickets}`");
        }
    }
}

/// A clock that stands still, so that no ticket expires at the client.
#[derive(Debug)]
struct Still(UnixTime);

impl TimeProvider for Still {
    fn current_time(&self) -> Option<UnixTime> {
        Some(self.0)
    }
}

#[test]
fn rejects_an_expired_ticket() {
    const TICKETS: usize = 100;
    let (ca, origin) = (Authority::new("ca"), Origin::answering(OK));
    let (leaf, keys) = (ca.signs(&["a.test"]), secrets("A"));
    let still = Arc::new(Still(UnixTime::now()));
    for (tls, versions) in [
        (", tickets: { lifetime: 2s }", TLS13),
        (", tickets: { lifetime: 2s }", TLS12),
        (", tickets: { file: t.keys, lifetime: 2s }", TLS13),
    ] {
        let text = listeners(&[tls], 1, origin.address);
        let proxy = Proxy::with_files(&text, &files(&leaf, &[("t.keys", &keys)]));
        let client = || {
            let mut config = ClientConfig::clone(&ca.trust().only(versions).config());
            config.time_provider = Arc::clone(&still) as Arc<dyn TimeProvider>;
            config.resumption = Resumption::in_memory_sessions(2);
            Arc::new(config)
        };
        let is_resumed = |config: &Arc<ClientConfig>| {
            let mut client = connect(config, address(&proxy), "a.test").unwrap();
            assert_eq!(client.ask(GET).body, "ok");
            client.stream.conn.handshake_kind() == Some(HandshakeKind::Resumed)
        };
        // A ticket is accepted during its lifetime.
        let at_once = (0..10).find(|_| {
            let config = client();
            !is_resumed(&config) && is_resumed(&config)
        });
        let before = 2 * (at_once.expect("one handshake must take less than 2 s") + 1);
        // Each client offers its ticket once.
        let clients: Vec<Arc<ClientConfig>> = (0..TICKETS).map(|_| client()).collect();
        assert!(!clients.iter().any(is_resumed), "no client has a ticket yet");
        let mut shown = clients.iter();
        let refused = shown.position(|config| {
            std::thread::sleep(Duration::from_millis(100));
            !is_resumed(config)
        });
        let taken = refused.expect("all tickets have the same lifetime") as u64;
        // The lifetime is 2 s. After this pause, the remaining tickets are expired, however long the handshakes above
        // took.
        std::thread::sleep(Duration::from_secs(3));
        assert!(!shown.any(is_resumed), "the remaining tickets are expired too");
        let stats = proxy.gateway.stats().tls;
        let all = before + 2 * TICKETS as u64;
        assert_eq!((stats.handshakes, stats.resumed, stats.failed), (all, taken + 1, 0), "{tls}");
    }
}

#[test]
fn new_state_has_new_ticket_keys() {
    let (ca, origin) = (Authority::new("ca"), Origin::answering(OK));
    let leaf = ca.signs(&["a.test"]);
    let text = listeners(&[""], 1, origin.address);
    let mut proxy = Proxy::with_files(&text, &files(&leaf, &[]));
    let config = ca.trust().config();
    ask(&config, address(&proxy));
    let table = compile_with(&mut proxy.state, &text, &files(&leaf, &[]));
    proxy.gateway.apply(table).unwrap();
    ask(&config, address(&proxy));
    assert_eq!(proxy.gateway.stats().tls.resumed, 0, "like after a restart");
}
