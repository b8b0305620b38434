//! Which worker has which clients, whoever accepted them.

use std::net::TcpListener;

use weir_config::State;
use weir_dataplane::{Gateway, Passed};

use crate::setup::{Client, Origin, Proxy, compile};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const CLIENTS: usize = 32;

fn text(address: &str, workers: usize, origin: &Origin, more: &str) -> String {
    format!(
        "listeners: [{{ address: '{address}', name: main }}]\nworkers: {workers}\n\
         routes: [{{ path: /, backend: b }}]\nbackends: {{ b: {{ endpoints: ['{}'] }} }}\n{more}",
        origin.address
    )
}

/// Of the clients that connect one after the other and stay, no worker has over 1.25 of the mean.
fn check(proxy: &Proxy, workers: usize) {
    for _ in 0..10 {
        let mut clients: Vec<Client> = (0..CLIENTS).map(|_| proxy.connect()).collect();
        clients.iter_mut().for_each(|client| assert_eq!(client.ask(GET).body, "ok"));
        let stats = proxy.gateway.stats();
        let of_each: Vec<usize> =
            stats.workers.iter().map(|worker| worker.connections_open as usize).collect();
        assert_eq!((of_each.len(), of_each.iter().sum::<usize>()), (workers, CLIENTS));
        assert!(of_each.iter().all(|&open| 4 * workers * open <= 5 * CLIENTS), "{of_each:?}");
        drop(clients);
        proxy.wait_for("the clients' end", |stats| stats.connections.open == 0);
    }
    let stats = proxy.gateway.stats();
    assert_eq!(stats.connections.accepted, 10 * CLIENTS as u64, "each is counted once");
    let handed = stats.connections.handed;
    assert!(handed > 0, "the kernel alone does not do it");
    let line = format!("\nweir_connections_handed_total{{listener=\"main\"}} {handed}\n");
    assert!(stats.prometheus().contains(&line));
}

#[test]
fn no_worker_has_more_than_its_share() {
    let origin = Origin::answering(OK);
    for workers in [2, 4] {
        check(&Proxy::with(&text("127.0.0.1:0", workers, &origin, "")), workers);
    }
}

/// All workers accept from one socket, and the first that looks would take all that wait.
#[test]
fn no_worker_has_more_than_its_share_of_a_socket_that_all_have() {
    let origin = Origin::answering(OK);
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let address = socket.local_addr().unwrap();
    let mut state = State::default();
    let table = compile(&mut state, &text(&address.to_string(), 4, &origin, ""));
    let passed = Passed { listener: address.into(), socket, is_lent: true };
    let gateway = Gateway::start_with(table, vec![passed]).unwrap();
    check(&Proxy { gateway, state }, 4);
}

#[test]
fn one_worker_keeps_what_it_has() {
    let origin = Origin::answering(OK);
    let proxy = Proxy::with(&text("127.0.0.1:0", 1, &origin, ""));
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| proxy.connect()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.ask(GET).body, "ok"));
    assert_eq!(proxy.gateway.stats().connections.handed, 0);
}

#[test]
fn limits_hold_whoever_accepts_and_whoever_serves() {
    let origin = Origin::answering(OK);
    for (limit, cause) in [("connections", "connection_limit"), ("connections_per_address", "address_limit")]
    {
        let more = format!("limits: {{ {limit}: 20 }}");
        let proxy = Proxy::with(&text("127.0.0.1:0", 4, &origin, &more));
        let address = proxy.gateway.addresses()[0];
        for _ in 0..3 {
            let ask = move || {
                let mut client = Client::connect(address);
                let answer = client.ask(GET);
                (client, answer)
            };
            let asking: Vec<_> = (0..48).map(|_| std::thread::spawn(ask)).collect();
            let asked: Vec<_> = asking.into_iter().map(|client| client.join().unwrap()).collect();
            let served = asked.iter().filter(|(_, answer)| answer.body == "ok").count();
            let refused = asked.iter().filter(|(_, answer)| answer.error() == (503, cause)).count();
            assert_eq!((served, refused), (20, 28), "{limit}");
            drop(asked);
            proxy.wait_for("the free places", |stats| stats.connections.open == 0);
        }
        assert!(proxy.gateway.stats().connections.handed > 0);
    }
}
