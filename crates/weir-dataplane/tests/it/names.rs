//! Endpoints with host names.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex};

use crate::setup::{Origin, Proxy, compile};

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

/// A DNS server over UDP with configurable records.
struct Dns {
    address: SocketAddr,
    zone: Arc<Mutex<Zone>>,
}

#[derive(Default)]
struct Zone {
    addresses: BTreeMap<String, Vec<IpAddr>>,
    /// Whether every query fails.
    is_broken: bool,
    ttl_s: u32,
    asked: usize,
}

impl Dns {
    fn start(name: &str, addresses: &[IpAddr]) -> Dns {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let zone = Zone { ttl_s: 1, ..Zone::default() };
        let dns = Dns { address, zone: Arc::new(Mutex::new(zone)) };
        dns.set(name, addresses);
        let zone = Arc::clone(&dns.zone);
        std::thread::spawn(move || {
            let mut query = [0; 1500];
            while let Ok((bytes, from)) = socket.recv_from(&mut query) {
                let answer = zone.lock().unwrap().answer(&query[..bytes]);
                let _ = socket.send_to(&answer, from);
            }
        });
        dns
    }

    fn set(&self, name: &str, addresses: &[IpAddr]) {
        self.zone.lock().unwrap().addresses.insert(name.to_owned(), addresses.to_vec());
    }

    fn asked(&self) -> usize {
        self.zone.lock().unwrap().asked
    }
}

impl Zone {
    /// The response to one query (RFC 1035, 4.1): header, question, and a record per address.
    fn answer(&mut self, query: &[u8]) -> Vec<u8> {
        self.asked += 1;
        let mut labels = Vec::new();
        let mut at = 12;
        while query[at] > 0 {
            let end = at + 1 + usize::from(query[at]);
            labels.push(String::from_utf8(query[at + 1..end].to_vec()).unwrap().to_lowercase());
            at = end;
        }
        let question = &query[12..at + 5];
        let kind = u16::from_be_bytes([query[at + 1], query[at + 2]]);
        let known = self.addresses.get(&labels.join("."));
        let records: Vec<Vec<u8>> = known
            .into_iter()
            .flatten()
            .filter_map(|ip| match (ip, kind) {
                (IpAddr::V4(ip), 1) => Some(ip.octets().to_vec()),
                (IpAddr::V6(ip), 28) => Some(ip.octets().to_vec()),
                _ => None,
            })
            .collect();
        let records = if self.is_broken { Vec::new() } else { records };
        let code = if self.is_broken {
            2
        } else if known.is_none() {
            3
        } else {
            0
        };
        let mut answer =
            [&query[..2], &[0x84, 0x80 | code, 0, 1, 0, records.len() as u8, 0, 0, 0, 0]].concat();
        answer.extend_from_slice(question);
        for record in records {
            answer.extend_from_slice(&[0xc0, 12, 0, kind as u8, 0, 1]);
            answer.extend_from_slice(&self.ttl_s.to_be_bytes());
            answer.extend_from_slice(&(record.len() as u16).to_be_bytes());
            answer.extend_from_slice(&record);
        }
        answer
    }
}

/// Upstreams on several addresses with the same port, each with its own name.
fn at_one_port(addresses: &[IpAddr]) -> (u16, Vec<Origin>) {
    loop {
        let first = TcpListener::bind((addresses[0], 0)).unwrap();
        let port = first.local_addr().unwrap().port();
        let others = addresses[1..].iter().map(|ip| TcpListener::bind((*ip, port)));
        let Ok(others) = others.collect::<Result<Vec<_>, _>>() else { continue };
        let listeners = std::iter::once(first).chain(others);
        let origins = listeners.zip(["a", "b", "c"]).map(|(listener, name)| {
            Origin::over(listener, move |served| {
                while served.request().is_some() {
                    served.send(&format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{name}"));
                }
            })
        });
        return (port, origins.collect());
    }
}

fn text(dns: &Dns, port: u16, more: &str) -> String {
    format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 2\nroutes: [{{ path: /, backend: b }}]\n\
         resolver: {{ servers: ['{}'] }}\n\
         backends: {{ b: {{ endpoints: ['Up.Test.:{port}']{more} }} }}",
        dns.address
    )
}

/// Sends `requests` requests, one per connection. Returns the responding endpoints, and the causes of errors.
fn answered(proxy: &Proxy, requests: usize) -> BTreeSet<String> {
    let ask = |_| {
        let answer = proxy.ask("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        if answer.status == 200 { answer.body } else { answer.error().1.to_owned() }
    };
    (0..requests).map(ask).collect()
}

/// Waits until exactly these endpoints respond. Workers use new addresses within 100 ms.
fn wait_for(proxy: &Proxy, names: &[&str]) {
    let names: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
    for _ in 0..500 {
        if answered(proxy, 24) == names {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("timed out waiting for {names:?}: {:?} {:?}", answered(proxy, 24), proxy.gateway.stats().upstream);
}

const FIRST: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1));
const SECOND: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
const SIXTH: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

#[test]
fn uses_all_addresses_of_a_name_and_follows_changes() {
    let (port, origins) = at_one_port(&[FIRST, SECOND, SIXTH]);
    let dns = Dns::start("up.test", &[FIRST, SIXTH]);
    let proxy = Proxy::with(&text(&dns, port, ""));
    wait_for(&proxy, &["a", "c"]);
    dns.set("up.test", &[SIXTH, SECOND]);
    wait_for(&proxy, &["b", "c"]);
    let before = origins[0].requests().len();
    assert_eq!(answered(&proxy, 20).len(), 2);
    assert_eq!(origins[0].requests().len(), before, "a removed address gets no requests");
    dns.set("up.test", &[]);
    wait_for(&proxy, &["no_endpoint"]);
    dns.set("up.test", &[FIRST]);
    wait_for(&proxy, &["a"]);
    assert_eq!(proxy.gateway.stats().upstream.names.failures, 0);
}

#[test]
fn unchanged_addresses_keep_their_connections() {
    let (port, origins) = at_one_port(&[FIRST, SECOND]);
    let dns = Dns::start("up.test", &[FIRST]);
    let proxy = Proxy::with(&text(&dns, port, "").replace("workers: 2", "workers: 1"));
    wait_for(&proxy, &["a"]);
    let connections = origins[0].connections();
    dns.set("up.test", &[FIRST, SECOND]);
    wait_for(&proxy, &["a", "b"]);
    assert_eq!((connections, origins[0].connections()), (1, 1));
    assert_eq!(proxy.gateway.stats().upstream.retries, 0);
}

#[test]
fn failed_lookup_keeps_the_previous_addresses() {
    let (port, _origins) = at_one_port(&[FIRST]);
    let dns = Dns::start("up.test", &[FIRST]);
    let proxy = Proxy::with(&text(&dns, port, ""));
    wait_for(&proxy, &["a"]);
    dns.zone.lock().unwrap().is_broken = true;
    proxy.wait_for("a failure", |stats| stats.upstream.names.failures > 0);
    assert_eq!(answered(&proxy, 12), BTreeSet::from(["a".to_owned()]));
}

#[test]
fn caches_a_response_for_its_ttl() {
    let (port, _origins) = at_one_port(&[FIRST]);
    let dns = Dns::start("up.test", &[FIRST]);
    dns.zone.lock().unwrap().ttl_s = 3600;
    let mut proxy = Proxy::with(&text(&dns, port, ""));
    wait_for(&proxy, &["a"]);
    let asked = dns.asked();
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    // A reload that does not change the endpoints causes no query.
    let table = compile(&mut proxy.state, &text(&dns, port, ", balance: random"));
    proxy.gateway.apply(table).unwrap();
    assert_eq!(answered(&proxy, 12), BTreeSet::from(["a".to_owned()]));
    assert_eq!((dns.asked(), proxy.gateway.stats().upstream.names.lookups), (asked, 1));
}

#[test]
fn hash_checks_and_weights_use_the_addresses() {
    let (port, origins) = at_one_port(&[FIRST, SECOND]);
    let dns = Dns::start("up.test", &[FIRST, SECOND]);
    let more = ", balance: { hash: { header: k } }, health: { interval: 10ms, unhealthy: 1 }";
    let proxy = Proxy::with(&text(&dns, port, more));
    wait_for(&proxy, &["a", "b"]);
    proxy.wait_for("checks", |stats| stats.upstream.backends["b"].checks > 4);
    let mut client = proxy.connect();
    for key in 0..20 {
        let request = format!("GET / HTTP/1.1\r\nHost: h\r\nk: {key}\r\n\r\n");
        assert_eq!(client.ask(&request).body, client.ask(&request).body);
    }
    // The health check detects an address without a listener.
    dns.set("up.test", &[FIRST, IpAddr::V4(Ipv4Addr::new(127, 0, 0, 3))]);
    proxy.wait_for("the check", |stats| stats.upstream.backends["b"].endpoints_out == 1);
    wait_for(&proxy, &["a"]);
    assert!(origins.iter().all(|origin| !origin.requests().is_empty()));
    assert_eq!(client.ask(GET).body, "a");
}
