//! Certificate changes under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::authority::{Authority, connect};
use super::{GET, OK, address, text};
use crate::setup::{Origin, Proxy, recompile_with};

#[test]
fn hundred_certificate_changes_under_load_lose_no_request() {
    let (ca, origin) = (Authority::new("ca"), Origin::answering(OK));
    let leaves = [ca.signs(&["a.test"]), ca.signs_rsa(&["a.test"])];
    let text = text("certificate: a.pem, key: a.key", origin.address, "").replace("workers: 1", "workers: 2");
    let files = |turn: usize| {
        let leaf = &leaves[turn % leaves.len()];
        [("a.pem", leaf.certificate.as_str()), ("a.key", leaf.key.as_str())]
    };
    let mut proxy = Proxy::with_files(&text, &files(0));
    let (address, stop) = (address(&proxy), Arc::new(AtomicBool::new(false)));
    let clients: Vec<_> = (0..4)
        .map(|number| {
            // Clients 0 and 1 open a new connection for each request. Only client 0 resumes its sessions.
            let (stop, trust, shared) = (Arc::clone(&stop), ca.trust(), ca.trust().config());
            std::thread::spawn(move || {
                let mut kept = connect(&shared, address, "a.test").unwrap();
                let mut answered = 0;
                while !stop.load(Ordering::SeqCst) {
                    match number {
                        0 => kept = connect(&shared, address, "a.test").unwrap(),
                        1 => kept = trust.connect(address, "a.test").unwrap(),
                        _ => {}
                    }
                    assert_eq!(kept.ask(GET).body, "ok");
                    answered += 1;
                }
                answered
            })
        })
        .collect();
    for turn in 1..=100 {
        let table = recompile_with(&mut proxy.state, &text, &files(turn));
        proxy.gateway.apply(table).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    stop.store(true, Ordering::SeqCst);
    let answered: u64 = clients.into_iter().map(|client| client.join().expect("no lost request")).sum();
    let stats = proxy.gateway.stats();
    assert_eq!((stats.requests, stats.by_status.success), (answered, answered));
    assert_eq!((stats.tls.failed, stats.reloads.applied), (0, 100));
    assert_eq!(stats.tls.handshakes, stats.connections.accepted);
    assert!(stats.tls.resumed > 0, "{:?}", stats.tls);
}
