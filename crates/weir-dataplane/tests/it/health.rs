//! Unhealthy endpoints: active health checks, ejection, and the case that all endpoints are out.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_dataplane::BackendStats;

use crate::setup::{Origin, Proxy, compile};

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const CHECK: &str = "health: { path: '/health?x', interval: 10ms, healthy: 2, unhealthy: 2 }";

/// An upstream that responds with its name. Its health checks and its responses can be made to fail.
struct Server {
    origin: Origin,
    is_well: Arc<AtomicBool>,
    is_broken: Arc<AtomicBool>,
}

impl Server {
    fn start(name: &'static str) -> Server {
        let (is_well, is_broken) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
        let (well, broken) = (Arc::clone(&is_well), Arc::clone(&is_broken));
        let origin = Origin::start(move |served| {
            while let Some(request) = served.request() {
                let is_good = match request.starts_with("GET /health?x ") {
                    true => well.load(Ordering::SeqCst),
                    false => !broken.load(Ordering::SeqCst),
                };
                let status = if is_good { "200 OK" } else { "503 Service Unavailable" };
                served.send(&format!("HTTP/1.1 {status}\r\nContent-Length: 1\r\n\r\n{name}"));
            }
        });
        Server { origin, is_well, is_broken }
    }

    /// The number of received requests, not counting health checks.
    fn requests(&self) -> usize {
        self.origin.requests().iter().filter(|request| !request.starts_with("GET /health?x ")).count()
    }
}

fn text(backend: &str, servers: &[&Server]) -> String {
    let endpoints: Vec<_> = servers.iter().map(|server| format!("'{}'", server.origin.address)).collect();
    format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\nroutes: [{{ path: /, backend: b }}]\n\
         backends: {{ b: {{ endpoints: [{}], {backend} }} }}",
        endpoints.join(", ")
    )
}

fn stats(proxy: &Proxy) -> BackendStats {
    proxy.gateway.stats().upstream.backends["b"]
}

fn wait_for_out(proxy: &Proxy, count: u64) {
    proxy.wait_for("the health change", |stats| {
        stats.upstream.backends.get("b").is_some_and(|backend| backend.endpoints_out == count)
    });
}

/// Sends this number of requests on one connection. Returns the names of the endpoints that responded, in order.
fn answered(proxy: &Proxy, requests: usize) -> String {
    let mut client = proxy.connect();
    (0..requests).map(|_| client.ask(GET).body).collect()
}

#[test]
fn unhealthy_endpoint_gets_no_requests_until_it_recovers() {
    let (a, b) = (Server::start("a"), Server::start("b"));
    let proxy = Proxy::with(&text(CHECK, &[&a, &b]));
    assert_eq!(answered(&proxy, 4), "abab", "endpoints start healthy");
    a.is_well.store(false, Ordering::SeqCst);
    wait_for_out(&proxy, 1);
    assert_eq!(answered(&proxy, 20), "b".repeat(20));
    a.is_well.store(true, Ordering::SeqCst);
    wait_for_out(&proxy, 0);
    assert_eq!((answered(&proxy, 20).matches('a').count(), a.requests()), (10, 12));
    let asked = a.origin.requests().into_iter().find(|request| request.starts_with("GET /health")).unwrap();
    let address = a.origin.address;
    let expected = format!(
        "GET /health?x HTTP/1.1\r\nHost: {address}\r\nUser-Agent: weir-gateway health check\r\n\
         Connection: close\r\n\r\n"
    );
    assert_eq!(asked, expected);
    let stats = stats(&proxy);
    assert!(stats.check_failures >= 2 && stats.checks >= stats.check_failures + 4, "{stats:?}");
    assert_eq!((stats.ejections, stats.panics), (0, 0));
}

#[test]
fn one_failed_check_does_not_reach_the_threshold() {
    let a = Server::start("a");
    a.is_well.store(false, Ordering::SeqCst);
    let check = "health: { path: '/health?x', interval: 1h, unhealthy: 2 }";
    let proxy = Proxy::with(&text(check, &[&a]));
    proxy.wait_for("the check", |stats| {
        stats.upstream.backends.get("b").is_some_and(|backend| backend.checks == 1)
    });
    assert_eq!((stats(&proxy).check_failures, stats(&proxy).endpoints_out), (1, 0));
}

#[test]
fn connect_check_detects_a_refused_connection() {
    let a = Server::start("a");
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let backend = text("health: { interval: 10ms, unhealthy: 1 }", &[&a]);
    let proxy = Proxy::with(&backend.replace("endpoints: [", &format!("endpoints: ['{dead}', ")));
    wait_for_out(&proxy, 1);
    assert_eq!(answered(&proxy, 20), "a".repeat(20));
    assert_eq!(proxy.gateway.stats().upstream.connect_failures, 0);
    assert!(a.origin.requests().iter().all(|request| request == GET), "the check sends no request");
}

#[test]
fn check_that_times_out_fails() {
    let origin = Origin::start(|served| {
        let request = served.request().unwrap_or_default();
        if request.contains("Host: check.test\r\n") {
            return served.stall();
        }
        served.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    });
    let check = "health: { path: /, host: check.test, interval: 1ms, timeout: 20ms, unhealthy: 2 }";
    let proxy = Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\nroutes: [{{ path: /, backend: b }}]\n\
         backends: {{ b: {{ endpoints: ['{}'], {check} }} }}",
        origin.address
    ));
    wait_for_out(&proxy, 1);
}

#[test]
fn uses_all_endpoints_if_all_are_unhealthy() {
    let (a, b) = (Server::start("a"), Server::start("b"));
    [&a, &b].iter().for_each(|server| server.is_well.store(false, Ordering::SeqCst));
    let proxy = Proxy::with(&text(CHECK, &[&a, &b]));
    wait_for_out(&proxy, 2);
    assert_eq!(answered(&proxy, 10).len(), 10);
    assert_eq!((a.requests(), b.requests(), stats(&proxy).panics), (5, 5, 10));
}

#[test]
fn endpoint_without_checks_is_healthy_after_a_reload() {
    let a = Server::start("a");
    a.is_well.store(false, Ordering::SeqCst);
    let mut proxy = Proxy::with(&text(CHECK, &[&a]));
    wait_for_out(&proxy, 1);
    let without = compile(&mut proxy.state, &text("balance: random", &[&a]));
    proxy.gateway.apply(without).unwrap();
    wait_for_out(&proxy, 0);
    let checks = stats(&proxy).checks;
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(stats(&proxy).checks, checks, "no further checks run");
    let again = compile(&mut proxy.state, &text(CHECK, &[&a]));
    proxy.gateway.apply(again).unwrap();
    wait_for_out(&proxy, 1);
}

#[test]
fn consecutive_errors_eject_an_endpoint() {
    let (a, b) = (Server::start("a"), Server::start("b"));
    a.is_broken.store(true, Ordering::SeqCst);
    let proxy = Proxy::with(&text("ejection: { errors: 3, time: 1h }", &[&a, &b]));
    let mut client = proxy.connect();
    let reported: Vec<u16> = (0..20).map(|_| client.ask(GET).status).collect();
    assert_eq!(reported[..6], [503, 200, 503, 200, 503, 200]);
    assert!(reported[6..].iter().all(|status| *status == 200), "{reported:?}");
    assert_eq!((a.requests(), b.requests()), (3, 17));
    assert_eq!((stats(&proxy).ejections, stats(&proxy).endpoints_out), (1, 1));
}

#[test]
fn unreachable_endpoint_is_ejected_after_the_threshold() {
    let a = Server::start("a");
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let backend = text("ejection: { errors: 3, time: 1h }", &[&a]);
    let proxy = Proxy::with(&backend.replace("endpoints: [", &format!("endpoints: ['{dead}', ")));
    assert_eq!(answered(&proxy, 20), "a".repeat(20));
    let stats = proxy.gateway.stats().upstream;
    assert_eq!((stats.connects, stats.connect_failures, stats.backends["b"].ejections), (4, 3, 1));
}

#[test]
fn successes_between_errors_prevent_ejection() {
    let (a, b) = (Server::start("a"), Server::start("b"));
    let proxy = Proxy::with(&text("ejection: { errors: 2, time: 1h }", &[&a, &b]));
    let mut client = proxy.connect();
    for turn in 0..10 {
        a.is_broken.store(turn % 2 == 0, Ordering::SeqCst);
        assert_eq!((client.ask(GET).body, client.ask(GET).body), ("a".to_owned(), "b".to_owned()));
    }
    assert_eq!(stats(&proxy).ejections, 0);
}

#[test]
fn error_rate_ejects_an_endpoint() {
    let check = |ejection: &str, of_a: usize, by_share: u64| {
        let (a, b) = (Server::start("a"), Server::start("b"));
        let proxy = Proxy::with(&text(&format!("ejection: {{ {ejection}, time: 1h }}"), &[&a, &b]));
        let mut client = proxy.connect();
        // Every second request to `a` fails.
        for turn in 0..of_a {
            a.is_broken.store(turn % 2 == 1, Ordering::SeqCst);
            let status = if turn % 2 == 1 { 503 } else { 200 };
            assert_eq!(
                (client.ask(GET).status, client.ask(GET).body),
                (status, "b".to_owned()),
                "{ejection}"
            );
        }
        let stats = stats(&proxy);
        let counted = (stats.ejections, stats.ejections_by_share, stats.endpoints_out);
        assert_eq!(counted, (by_share, by_share, by_share), "{ejection}");
        if by_share > 0 {
            assert_eq!(answered(&proxy, 10), "b".repeat(10), "{ejection}");
            assert_eq!(a.requests(), of_a, "{ejection}");
        }
    };
    check("share: { errors: 50%, requests: 10, window: 1h }", 10, 1);
    check("errors: 0, share: { errors: 40%, requests: 6, window: 1h }", 6, 1);
    check("share: { errors: 51%, requests: 10, window: 1h }", 40, 0);
    check("share: { errors: 50%, requests: 41, window: 1h }", 40, 0);
    check("errors: 2", 40, 0);
}

#[test]
fn ejects_at_most_the_configured_share() {
    let servers = ["a", "b", "c", "d"].map(Server::start);
    servers.iter().for_each(|server| server.is_broken.store(true, Ordering::SeqCst));
    let each = servers.each_ref();
    let check = |most: &str, expected: u64| {
        let proxy = Proxy::with(&text(&format!("ejection: {{ errors: 1, time: 1h{most} }}"), &each));
        assert_eq!(answered(&proxy, 40).len(), 40);
        let stats = stats(&proxy);
        assert_eq!((stats.ejections, stats.endpoints_out), (expected, expected), "{most}");
    };
    check("", 2);
    check(", share: { errors: 50%, requests: 1 }", 2);
    check(", most: 25%", 1);
    check(", most: 20%", 0);
    check(", most: 100%", 4);
}

#[test]
fn ejected_endpoint_returns_after_the_ejection_time() {
    let (a, b) = (Server::start("a"), Server::start("b"));
    a.is_broken.store(true, Ordering::SeqCst);
    let proxy = Proxy::with(&text("ejection: { errors: 1, time: 300ms }", &[&a, &b]));
    assert_eq!(answered(&proxy, 1), "a");
    a.is_broken.store(false, Ordering::SeqCst);
    let mut client = proxy.connect();
    // Workers check ejection times every 100 ms.
    let is_back = (0..2000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        client.ask(GET).body == "a"
    });
    assert!(is_back, "{:?}", stats(&proxy));
    assert_eq!((stats(&proxy).ejections, a.requests()), (1, 2));
}
