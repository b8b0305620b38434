//! Reloads without a lost request, and graceful shutdown.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_dataplane::{GatewayError, Phase, Stats};

use crate::setup::{Client, Origin, Proxy, compile, recompile_with};

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

fn configuration(listeners: &str, workers: u32, origin: &Origin) -> String {
    format!(
        "listeners: [{listeners}]\nworkers: {workers}\nroutes: [{{ path: /, backend: b }}]\n\
         backends: {{ b: {{ endpoints: ['{}'] }} }}",
        origin.address
    )
}

fn answering_with(name: &'static str) -> Origin {
    Origin::start(move |served| {
        while served.request().is_some() {
            served.send(&format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len()));
        }
    })
}

#[test]
fn open_connection_uses_the_new_routes() {
    let (old, new) = (answering_with("old"), answering_with("new"));
    let listener = "{ address: 127.0.0.1:0 }";
    let mut proxy = Proxy::with(&configuration(listener, 1, &old));
    let mut client = proxy.connect();
    assert_eq!(client.ask(GET).body, "old");
    let table = compile(&mut proxy.state, &configuration(listener, 1, &new));
    proxy.gateway.apply(table).unwrap();
    assert_eq!(client.ask(GET).body, "new");
}

#[test]
fn idle_upstream_connections_close_after_their_backend_changed() {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = std::sync::Mutex::new(released);
    let origin = Origin::start(move |served| {
        while let Some(request) = served.request() {
            if request.starts_with("GET /held ") {
                released.lock().unwrap().recv().unwrap();
            }
            served.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let other = answering_with("other");
    let first = configuration("{ address: 127.0.0.1:0 }", 1, &origin);
    let mut proxy = Proxy::with(&first);
    let open = |proxy: &Proxy, count: u64| {
        // A backend without connections is not listed.
        let of_b = |stats: &Stats| stats.upstream.open.get("b").copied().unwrap_or_default();
        proxy.wait_for("the number of connections", |stats| of_b(stats) == count);
    };
    // An in-flight request keeps its table, and does not delay the reload for other requests.
    let mut held = proxy.connect();
    held.send("GET /held HTTP/1.1\r\nHost: h\r\n\r\n");
    proxy.wait_for("the held request", |_| origin.requests().len() == 1);
    assert_eq!(proxy.ask(GET).body, "ok");
    open(&proxy, 2);
    let with_header = first.replace("endpoints:", "proxy_protocol: v1, endpoints:");
    let elsewhere = configuration("{ address: 127.0.0.1:0 }", 1, &other);
    let without_it = first.replace("backend: b", "respond: { status: 204 }").replace(" b: {", " c: {");
    for (text, left) in [(with_header, 1), (first.clone(), 1), (elsewhere, 1)] {
        let table = recompile_with(&mut proxy.state, &text, &[]);
        proxy.gateway.apply(table).unwrap();
        open(&proxy, left);
        if text == first {
            assert_eq!(proxy.ask(GET).body, "ok");
            open(&proxy, 2);
        }
    }
    assert_eq!(proxy.ask(GET).body, "other");
    open(&proxy, 2);
    let table = compile(&mut proxy.state, &without_it);
    proxy.gateway.apply(table).unwrap();
    open(&proxy, 1);
    release.send(()).unwrap();
    assert_eq!(held.response().body, "ok");
    open(&proxy, 0);
}

#[test]
fn reloads_under_load_lose_no_request() {
    let origins = [answering_with("a"), answering_with("b")];
    let listener = "{ address: 127.0.0.1:0 }";
    let mut proxy = Proxy::with(&configuration(listener, 2, &origins[0]));
    let address = proxy.gateway.addresses()[0];
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..6)
        .map(|number| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                let mut kept = Client::connect(address);
                let mut answered = 0;
                while !stop.load(Ordering::SeqCst) {
                    if number % 2 == 0 {
                        kept = Client::connect(address);
                    }
                    assert_eq!(kept.ask(GET).status, 200);
                    answered += 1;
                }
                answered
            })
        })
        .collect();
    for turn in 0..100 {
        let table = compile(&mut proxy.state, &configuration(listener, 2, &origins[turn % 2]));
        proxy.gateway.apply(table).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(3));
    }
    stop.store(true, Ordering::SeqCst);
    let answered: u64 = clients.into_iter().map(|c| c.join().unwrap()).sum();
    let stats = proxy.gateway.stats();
    assert_eq!((stats.requests, stats.by_status.success), (answered, answered));
    assert_eq!(
        origins.iter().map(|o| o.requests().len() as u64).sum::<u64>(),
        answered + stats.upstream.retries
    );
}

#[test]
fn reload_adds_and_removes_listeners() {
    let origin = answering_with("ok");
    let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (first, second) = (free(), free());
    let both = [first, second].map(|a| format!("{{ address: '{a}' }}"));
    let mut proxy = Proxy::with(&configuration(&both[0], 2, &origin));
    let mut kept = Client::connect(first);
    assert_eq!(kept.ask(GET).body, "ok");
    let table = compile(&mut proxy.state, &configuration(&both[1], 2, &origin));
    proxy.gateway.apply(table).unwrap();
    assert_eq!(proxy.gateway.addresses(), [second]);
    assert_eq!(Client::connect(second).ask(GET).body, "ok");
    assert!(kept.is_closed(), "idle connections of a removed listener are closed");
    proxy.wait_for("the close", |s| s.listeners[&first.to_string()].connections.open == 0);
    assert!(std::net::TcpStream::connect(first).is_err());
    let stats = proxy.gateway.stats();
    assert_eq!(stats.listeners[&first.to_string()].requests, 1, "counters are kept");
}

#[test]
fn removed_listener_can_return_at_once() {
    let origin = answering_with("ok");
    let free = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (first, second) = (free(), free());
    let at =
        |address: std::net::SocketAddr| configuration(&format!("{{ address: '{address}' }}"), 2, &origin);
    let mut proxy = Proxy::with(&at(first));
    for address in [second, first, second, first] {
        let table = compile(&mut proxy.state, &at(address));
        proxy.gateway.apply(table).unwrap();
        assert_eq!(Client::connect(address).ask(GET).body, "ok");
    }
    assert_eq!(proxy.gateway.stats().reloads.applied, 4);
}

#[test]
fn failed_reload_changes_nothing() {
    let origin = answering_with("ok");
    let listener = "{ address: 127.0.0.1:0 }";
    let mut proxy = Proxy::with(&configuration(listener, 1, &origin));
    let version = proxy.gateway.table().version;
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = format!("{listener}, {{ address: '{}' }}", held.local_addr().unwrap());
    let table = compile(&mut proxy.state, &configuration(&taken, 3, &origin));
    assert!(matches!(proxy.gateway.apply(table), Err(GatewayError::Listen { .. })));
    assert_eq!(proxy.gateway.table().version, version);
    assert_eq!(proxy.ask(GET).body, "ok");
}

#[test]
fn drain_waits_for_in_flight_requests() {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = std::sync::Mutex::new(released);
    let origin = Origin::start(move |served| {
        served.request();
        released.lock().unwrap().recv().unwrap();
        served.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        served.stall();
    });
    let proxy = Proxy::to(origin.address, "");
    let mut idle = proxy.connect();
    let mut busy = proxy.connect();
    busy.send(GET);
    proxy.wait_for("the exchange", |s| s.upstream.connects == 1 && s.connections.open == 2);
    proxy.gateway.drain();
    assert_eq!(proxy.gateway.phase(), Phase::Draining);
    assert!(idle.is_closed());
    release.send(()).unwrap();
    let answer = busy.response();
    assert_eq!((answer.body.as_str(), answer.field("connection")), ("ok", Some("close")));
    assert!(busy.is_closed());
    assert!(proxy.gateway.join(), "all workers must end without a panic");
    assert_eq!(proxy.gateway.cut_by_drain(), 0);
    let stats = proxy.gateway.stats();
    assert_eq!((stats.requests, stats.by_status.success, stats.connections.open), (1, 1, 0));
}

#[test]
fn drain_ends_after_its_timeout() {
    let origin = Origin::start(crate::setup::Served::stall);
    let proxy = Proxy::to(origin.address, "\ndrain: { delay: 0s, timeout: 100ms }");
    let mut busy = proxy.connect();
    busy.send(GET);
    proxy.wait_for("the exchange", |s| s.upstream.connects == 1);
    proxy.gateway.drain();
    assert!(proxy.gateway.join());
    assert_eq!(proxy.gateway.cut_by_drain(), 1);
}

#[test]
fn workers_report_their_connections_and_table_version() {
    let origin = answering_with("ok");
    let listener = "{ address: 127.0.0.1:0 }";
    let mut proxy = Proxy::with(&configuration(listener, 2, &origin));
    let mut clients: Vec<Client> = (0..6).map(|_| proxy.connect()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.ask(GET).body, "ok"));
    let stats = proxy.gateway.stats();
    assert_eq!(stats.workers.len(), 2);
    assert_eq!(stats.workers.iter().map(|worker| worker.connections_open).sum::<u64>(), 6);
    let first = proxy.gateway.table().version;
    assert!(stats.workers.iter().all(|worker| worker.table_version == first), "{:?}", stats.workers);
    let table = recompile_with(&mut proxy.state, &configuration(listener, 2, &answering_with("new")), &[]);
    assert!(table.version > first);
    proxy.gateway.apply(table).unwrap();
    // Workers switch to the new version even without a request.
    let of_all = |stats: &Stats, version| stats.workers.iter().all(|worker| worker.table_version == version);
    proxy.wait_for("the new version", |stats| of_all(stats, first + 1));
    drop(clients);
    proxy.wait_for("the last disconnect", |stats| stats.workers.iter().all(|w| w.connections_open == 0));
    let text = proxy.gateway.stats().prometheus();
    for sample in
        ["weir_worker_connections_open{worker=\"1\"} 0", "weir_worker_table_version{worker=\"1\"} 2"]
    {
        assert!(text.contains(&format!("\n{sample}\n")), "{text}");
    }
}

#[test]
fn draining_gateway_rejects_reloads() {
    let origin = answering_with("ok");
    let listener = "{ address: 127.0.0.1:0 }";
    let mut proxy = Proxy::with(&configuration(listener, 1, &origin));
    proxy.gateway.drain();
    let table = compile(&mut proxy.state, &configuration(listener, 2, &origin));
    assert!(matches!(proxy.gateway.apply(table), Err(GatewayError::Ending)));
    assert!(proxy.gateway.join());
}

/// Regression test: two listeners with port 0 were once treated as one.
#[test]
fn distinguishes_listeners_with_port_0() {
    let origin = answering_with("ok");
    let (one, other) = ("{ address: 127.0.0.1:0, name: one }", "{ address: 127.0.0.1:0, name: other }");
    let mut proxy = Proxy::with(&configuration(&format!("{one}, {other}"), 2, &origin));
    let addresses = proxy.gateway.addresses();
    assert_eq!(addresses.len(), 2);
    assert_ne!(addresses[0], addresses[1]);
    for (address, exchanges) in [(addresses[0], 1), (addresses[1], 2)] {
        let mut client = Client::connect(address);
        (0..exchanges).for_each(|_| assert_eq!(client.ask(GET).body, "ok"));
    }
    let stats = proxy.gateway.stats();
    assert_eq!((stats.listeners["one"].requests, stats.listeners["other"].requests), (1, 2));
    let table = compile(&mut proxy.state, &configuration(&format!("{one}, {other}"), 1, &origin));
    proxy.gateway.apply(table).unwrap();
    assert_eq!(proxy.gateway.addresses(), addresses);
    let table = compile(&mut proxy.state, &configuration(one, 1, &origin));
    proxy.gateway.apply(table).unwrap();
    assert_eq!(proxy.gateway.addresses(), addresses[..1]);
    assert_eq!(Client::connect(addresses[0]).ask(GET).body, "ok");
}
