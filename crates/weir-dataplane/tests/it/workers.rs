//! Changes of workers and listeners. At worst, a client's connection is closed.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_dataplane::Gateway;

use crate::setup::{Origin, Proxy, compile};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const LAST: &str = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

fn text(listeners: &[SocketAddr], workers: usize, origin: &Origin) -> String {
    let listeners: Vec<String> =
        listeners.iter().map(|a| format!("{{ address: '{a}', name: main }}")).collect();
    format!(
        "listeners: [{}]\nworkers: {workers}\nroutes: [{{ path: /, backend: b }}]\n\
         backends: {{ b: {{ endpoints: ['{}'] }} }}",
        listeners.join(", "),
        origin.address
    )
}

/// An unused address for a listener. Other tests must not use it, because clients still connect to it after the
/// listener is closed.
fn free() -> SocketAddr {
    std::net::TcpListener::bind("127.0.7.1:0").unwrap().local_addr().unwrap()
}

fn set_workers(proxy: &mut Proxy, address: SocketAddr, workers: usize, origin: &Origin) {
    let table = compile(&mut proxy.state, &text(&[address], workers, origin));
    proxy.gateway.apply(table).unwrap();
}

/// One request on a new connection; false if the connection is refused. Panics on any other failure.
fn exchange(address: SocketAddr) -> bool {
    let mut stream = match TcpStream::connect(address) {
        Ok(stream) => stream,
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => return false,
        Err(error) => panic!("{error}"),
    };
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(LAST.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("ok"), "{answer:?}");
    true
}

/// Clients that send one request after the other, each on a new connection. No connection may be refused.
struct Crowd {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<u64>>,
}

impl Crowd {
    fn at(address: SocketAddr) -> Crowd {
        let stop = Arc::new(AtomicBool::new(false));
        let client = |_| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                let mut answered = 0;
                while !stop.load(Ordering::SeqCst) {
                    assert!(exchange(address), "no connection may be refused");
                    answered += 1;
                }
                answered
            })
        };
        let clients = (0..4).map(client).collect();
        Crowd { stop, clients }
    }

    /// Stops the clients. Returns the number of their requests.
    fn leave(self) -> u64 {
        self.stop.store(true, Ordering::SeqCst);
        self.clients.into_iter().map(|client| client.join().unwrap()).sum()
    }
}

#[test]
fn changing_the_number_of_workers_loses_no_client() {
    let (origin, address) = (Origin::answering(OK), free());
    let mut proxy = Proxy::with(&text(&[address], 2, &origin));
    let crowd = Crowd::at(address);
    for workers in [1, 4, 3, 5, 2, 1, 3, 2, 8, 1] {
        set_workers(&mut proxy, address, workers, &origin);
        let before = proxy.gateway.stats().requests;
        proxy.wait_for("some exchanges", |stats| stats.requests > before + 50);
        let version = proxy.gateway.table().version;
        proxy.wait_for("the change in all workers", |stats| {
            stats.workers.len() == workers
                && stats.workers.iter().all(|worker| worker.table_version == version)
        });
    }
    let answered = crowd.leave();
    proxy.wait_for("the last disconnect", |stats| stats.connections.open == 0);
    let stats = proxy.gateway.stats();
    assert_eq!((stats.requests, stats.by_status.success), (answered, answered), "each request counts once");
    assert_eq!(stats.connections.accepted, answered);
    assert!(stats.connections.handed > 0, "some connections are handed to another worker");
    assert!(proxy.gateway.is_healthy());
    proxy.gateway.drain();
    assert!(proxy.gateway.join());
    assert_eq!(proxy.gateway.cut_by_drain(), 0);
}

#[test]
fn handing_over_sockets_loses_no_client() {
    let (origin, address) = (Origin::answering(OK), free());
    let mut proxy = Proxy::with(&text(&[address], 4, &origin));
    let crowd = Crowd::at(address);
    let (mut accepted, mut handed) = (0, 0);
    for _ in 0..6 {
        proxy.wait_for("some exchanges", |stats| stats.requests > 50);
        let sockets = proxy.gateway.sockets().unwrap();
        let taken: Vec<_> = sockets.iter().map(|passed| passed.listener).collect();
        let table = compile(&mut proxy.state, &text(&[address], 4, &origin));
        let next = Gateway::start_with(table, sockets).unwrap();
        let former = std::mem::replace(&mut proxy.gateway, next);
        former.hand_over(&taken);
        assert!(former.join());
        let connections = former.stats().connections;
        assert_eq!((connections.open, former.cut_by_drain()), (0, 0));
        accepted += connections.accepted;
        handed += connections.handed;
    }
    let answered = crowd.leave();
    assert_eq!(accepted + proxy.gateway.stats().connections.accepted, answered);
    assert!(handed > 0, "some connections are handed to another worker");
}

#[test]
fn removed_worker_serves_its_clients_until_they_close() {
    let origin = Origin::start(|served| {
        while let Some(request) = served.request() {
            if request.contains("Upgrade") {
                served.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
                let words = served.read_exact(5).unwrap();
                return served.send(&words.to_uppercase());
            }
            served.send(OK);
        }
    });
    let address = free();
    let mut proxy = Proxy::with(&text(&[address], 8, &origin));
    // With this many connections, every worker gets some.
    let mut kept: Vec<_> = (0..200).map(|_| proxy.connect()).collect();
    let mut tunnels: Vec<_> = (0..50).map(|_| proxy.connect()).collect();
    kept.iter_mut().for_each(|client| assert_eq!(client.ask(GET).body, "ok"));
    for tunnel in &mut tunnels {
        tunnel.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
        assert_eq!(tunnel.head().status, 101);
    }
    set_workers(&mut proxy, address, 1, &origin);
    set_workers(&mut proxy, address, 2, &origin);
    let mut ended = 0;
    for client in &mut kept {
        let answer = client.ask(GET);
        assert_eq!(answer.body, "ok");
        if answer.field("connection") == Some("close") {
            assert!(client.is_ended());
            ended += 1;
        }
    }
    assert!((1..200).contains(&ended), "{ended} of 200 belong to removed workers");
    for tunnel in &mut tunnels {
        tunnel.send("hello");
        assert_eq!(tunnel.read_exact(5), "HELLO");
    }
    assert_eq!(proxy.gateway.stats().requests, 450);
    assert!(proxy.gateway.is_healthy(), "removed workers do not make the gateway unhealthy");
}

#[test]
fn removed_listener_resets_no_connection() {
    let origin = Origin::answering(OK);
    for _ in 0..5 {
        let (going, staying) = (free(), free());
        let mut proxy = Proxy::with(&text(&[going, staying], 2, &origin));
        let clients: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(move || {
                    let mut answered = 0;
                    while exchange(going) {
                        answered += 1;
                    }
                    answered
                })
            })
            .collect();
        proxy.wait_for("some exchanges", |stats| stats.requests > 50);
        let table = compile(&mut proxy.state, &text(&[staying], 2, &origin));
        proxy.gateway.apply(table).unwrap();
        let answered: u64 = clients.into_iter().map(|client| client.join().unwrap()).sum();
        assert_eq!(proxy.gateway.stats().connections.accepted, answered);
        assert!(exchange(staying));
    }
}

#[test]
fn drain_timeout_closes_a_tunnel() {
    let origin = Origin::start(|served| {
        served.request();
        served.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
        served.stall();
    });
    let proxy = Proxy::to(origin.address, "\ndrain: { delay: 0s, timeout: 500ms }");
    let mut tunnel = proxy.connect();
    tunnel.send("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
    assert_eq!(tunnel.head().status, 101);
    proxy.gateway.drain();
    assert!(tunnel.is_closed());
    assert!(proxy.gateway.join());
    assert_eq!(proxy.gateway.cut_by_drain(), 1);
}
