//! Many clients and an origin that misbehave at random: no panic, consistent counters, no leak.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;
use weir_dataplane::{RouteStats, Stats};

use crate::setup::{Origin, Proxy, Served};

const CLIENTS: u64 = 8;
const CONNECTIONS_EACH: u64 = 60;

/// A small random number generator. A seed gives the same numbers on every machine.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end as u64) as usize
    }

    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

const REQUESTS: [&str; 9] = [
    "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
    "HEAD /a?b HTTP/1.1\r\nHost: h\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello",
    "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n",
    "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc",
    "GET /%00 HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET / HTTP/1.0\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
];

const RESPONSES: [&str; 9] = [
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
    "HTTP/1.0 200 OK\r\n\r\nuntil the end",
    "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nother words",
    "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ntoo short",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "nonsense\r\n\r\n",
    "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n",
];

/// Responds to any data with a random response, perhaps truncated. Closes the connection sooner or later.
fn misbehave(served: &mut Served) {
    let mut numbers = Numbers(served.number as u64);
    let mut chunk = [0; 4096];
    while served.stream.read(&mut chunk).is_ok_and(|bytes| bytes > 0) {
        let response = if numbers.below(3) == 0 { numbers.pick(&RESPONSES) } else { RESPONSES[0] };
        let end = if numbers.below(6) == 0 { numbers.below(response.len()) } else { response.len() };
        served.send(&response[..end]);
        match numbers.below(8) {
            0 => return served.reset(),
            1 => return,
            _ if end < response.len() || response != RESPONSES[0] => return,
            _ => {}
        }
    }
}

/// Sends complete, truncated, corrupted or pipelined requests, and disconnects in several ways.
fn client(proxy: std::net::SocketAddr, seed: u64) {
    let mut numbers = Numbers(seed);
    let mut stream = TcpStream::connect(proxy).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let mut chunk = [0; 4096];
    for _ in 0..1 + numbers.below(5) {
        let mut request = numbers.pick(&REQUESTS).as_bytes().to_vec();
        match numbers.below(6) {
            0 => request.truncate(numbers.below(request.len())),
            1 => {
                let at = numbers.below(request.len());
                request[at] = numbers.below(256) as u8;
            }
            2 => request.extend_from_slice(REQUESTS[0].as_bytes()),
            _ => {}
        }
        let cut = numbers.below(request.len() + 1);
        for part in [&request[..cut], &request[cut..]] {
            if stream.write_all(part).is_err() {
                return;
            }
        }
        if numbers.below(5) > 0 && stream.read(&mut chunk).is_err() {
            // No response yet. The next request follows anyway.
            continue;
        }
    }
    if numbers.below(3) == 0 {
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    }
}

/// Counts panics on the gateway's threads, because a panic itself only closes a connection.
fn count_panics() -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let (counted, former) = (Arc::clone(&count), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().name().is_some_and(|name| name.starts_with("weir-")) {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        former(info);
    }));
    count
}

const QUICK: &str =
    "timeouts: { head: 100ms, body: 100ms, response: 100ms, write: 100ms, idle: 200ms, upgraded: 100ms }";

/// Routes that use every route feature.
const FILTERED: &str = "
listeners: [{ address: 127.0.0.1:0 }]
workers: 1
routes:
  - { exact: /a, respond: { body: ok }, cors: { origins: ['*'] } }
  - path: /
    backends: [{ backend: b, weight: 3 }, { backend: c }]
    rewrite: { host: up.test, path: /x }
    request_headers: { set: { A: a }, remove: [Accept] }
    response_headers: { add: { B: b }, remove: [Server] }
    cors: { origins: [https://a.test] }
    mirror: { backend: m, share: 50% }
    timeouts: { request: 200ms, backend: 100ms }
backends: { b: { endpoints: ['ORIGIN'] }, c: { endpoints: ['ORIGIN'] }, m: { endpoints: ['ORIGIN'] } }
";

/// Settings that turn on all optional metrics and headers.
const TOLD: &str = "metrics: { latency: true }\n\
    forwarding: { x_forwarded: true, forwarded: true, trusted_hops: 1, request_id: pass, trace: { b3: multi } }\n";

/// Each request must have one log line, and each final response of a route one latency sample.
fn check_told(stats: &Stats, log: &str) {
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let reported = stats.access_log;
    assert_eq!((reported.lines, reported.dropped, reported.failed), (stats.requests, 0, 0));
    assert_eq!(lines.len() as u64, stats.requests);
    let answered = lines.iter().filter(|line| line["status"].as_u64().is_some()).count();
    assert_eq!(answered as u64, stats.responses);
    for cause in ["upstream_truncated", "malformed_request", "no_route", "upstream_closed"] {
        let count = lines.iter().filter(|line| line["cause"] == cause).count();
        assert_eq!(count as u64, stats.errors[cause], "{cause}");
    }
    let finals = |r: &RouteStats| {
        let by = r.by_status;
        by.success + by.redirection + by.client_error + by.server_error
    };
    let timed = |r: &RouteStats| r.latency.by_bucket.iter().sum::<u64>();
    assert!(stats.routes.iter().map(finals).sum::<u64>() > 0);
    for route in &stats.routes {
        assert_eq!(timed(route), finals(route), "{route:?}");
    }
}

#[test]
fn misbehaving_peers_cause_no_panic_and_no_leak() {
    check(Proxy::to(Origin::start(misbehave).address, QUICK));
}

#[test]
fn misbehaving_peers_cause_no_panic_with_every_filter() {
    let origin = Origin::start(misbehave).address.to_string();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("access.log");
    let log = format!("access_log: {{ file: '{}' }}", file.display());
    let proxy = Proxy::with(&format!("{}{QUICK}\n{TOLD}{log}", FILTERED.replace("ORIGIN", &origin)));
    let stats = check(proxy);
    let mirror = stats.upstream.mirror;
    assert!(mirror.copies > mirror.failures && mirror.failures > 0, "{mirror:?}");
    check_told(&stats, &std::fs::read_to_string(file).unwrap());
}

/// Runs the clients against a gateway. Returns its final counters.
fn check(proxy: Proxy) -> Stats {
    let panics = count_panics();
    let address = proxy.gateway.addresses()[0];
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            std::thread::spawn(move || {
                for turn in 0..CONNECTIONS_EACH {
                    client(address, number * CONNECTIONS_EACH + turn);
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|c| c.join().unwrap());
    proxy.wait_for("the close of the last connection", |s| {
        s.connections.accepted == CLIENTS * CONNECTIONS_EACH && s.connections.open == 0
    });
    let stats = proxy.gateway.stats();
    assert_eq!(panics.load(Ordering::SeqCst), 0);
    let by = stats.by_status;
    assert!(by.success > 0 && by.client_error > 0 && by.server_error > 0, "{stats:?}");
    // Every request gets a response, unless its client disconnects first.
    let left = stats.errors["client_closed"] + stats.errors["client_stalled"];
    assert!(stats.responses <= stats.requests && stats.requests <= stats.responses + left, "{stats:?}");
    proxy.gateway.drain();
    assert!(proxy.gateway.join());
    let stats = proxy.gateway.stats();
    assert_eq!(stats.upstream.open.values().sum::<u64>(), 0, "workers must close their upstream connections");
    stats
}
