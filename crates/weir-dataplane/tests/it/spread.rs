//! Distribution of client connections among workers, whichever worker accepts them.

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

/// Clients connect one after the other and stay. No worker may have more than 1.25 times the mean.
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
        proxy.wait_for("the disconnects", |stats| stats.connections.open == 0);
    }
    let stats = proxy.gateway.stats();
    assert_eq!(stats.connections.accepted, 10 * CLIENTS as u64, "each connection is counted once");
    let handed = stats.connections.handed;
    assert!(handed > 0, "the kernel alone does not balance connections");
    let line = format!("\nweir_connections_handed_total{{listener=\"main\"}} {handed}\n");
    assert!(stats.prometheus().contains(&line));
}

#[test]
fn no_worker_exceeds_its_share() {
    let origin = Origin::answering(OK);
    for workers in [2, 4] {
        check(&Proxy::with(&text("127.0.0.1:0", workers, &origin, "")), workers);
    }
}

/// All workers accept from one socket. Without handing over, the first one to wake would keep all pending connections.
#[test]
fn no_worker_exceeds_its_share_of_a_shared_socket() {
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
fn single_worker_hands_over_no_connection() {
    let origin = Origin::answering(OK);
    let proxy = Proxy::with(&text("127.0.0.1:0", 1, &origin, ""));
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| proxy.connect()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.ask(GET).body, "ok"));
    assert_eq!(proxy.gateway.stats().connections.handed, 0);
}

#[test]
fn connection_limits_hold_after_a_handover() {
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
            proxy.wait_for("the closed connections", |stats| stats.connections.open == 0);
        }
        assert!(proxy.gateway.stats().connections.handed > 0);
    }
}
