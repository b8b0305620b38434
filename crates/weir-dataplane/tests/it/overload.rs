//! An overloaded gateway: which requests it rejects, the response, and the end of the overload.

use std::sync::Mutex;
use std::sync::mpsc::channel;

use crate::setup::{Answer, Origin, Proxy, recompile_with};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

/// Less memory than any process uses.
const NO_MEMORY: &str = "overload: { memory: 1MiB }";
/// A lag below that of any event loop.
const NO_TIME: &str = "overload: { lag: 1ns }";

fn text(origin: &Origin, more: &str) -> String {
    format!(
        "listeners: [{{ address: 127.0.0.1:0, name: main }}]\nworkers: 1\n\
         routes: [{{ path: /, backend: b }}, {{ path: /own, respond: {{ body: own }} }}]\n\
         backends: {{ b: {{ endpoints: ['{}'] }} }}\n{more}\n",
        origin.address
    )
}

fn reload(proxy: &mut Proxy, origin: &Origin, more: &str) {
    let table = recompile_with(&mut proxy.state, &text(origin, more), &[]);
    proxy.gateway.apply(table).unwrap();
}

/// Sends requests until a response has this status, and returns that response. Earlier responses must have status 200
/// or 503.
fn wait_for_status(proxy: &Proxy, status: u16) -> Answer {
    for _ in 0..2000 {
        let answer = proxy.ask("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        if answer.status == status {
            return answer;
        }
        assert!([200, 503].contains(&answer.status), "{answer:?}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("no response has status {status}");
}

fn check(overload: &str, reason: &str) {
    let origin = Origin::answering(OK);
    let mut proxy = Proxy::with(&text(&origin, ""));
    assert_eq!(proxy.ask(&GET.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")).status, 200);
    assert!(proxy.gateway.overload_reasons().is_empty());
    reload(&mut proxy, &origin, overload);
    let refused = wait_for_status(&proxy, 503);
    assert_eq!((refused.error(), refused.whole), ((503, "overloaded"), true));
    assert_eq!((refused.field("retry-after"), refused.field("connection")), (Some("1"), Some("close")));
    assert_eq!(proxy.gateway.overload_reasons(), [reason]);
    let asked = origin.requests().len();
    // The overload applies to every request, even to requests with a fixed response or an invalid path.
    for request in [GET, "GET /own HTTP/1.1\r\nHost: h\r\n\r\n", "GET /a%zz HTTP/1.1\r\nHost: h\r\n\r\n"] {
        let mut client = proxy.connect();
        assert_eq!(client.ask(request).error(), (503, "overloaded"), "{request}");
        assert!(client.is_closed());
    }
    let mut client = proxy.connect();
    client.send("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(client.head().error(), (503, "overloaded"));
    assert!(client.is_closed(), "a response to HEAD has no body");
    assert_eq!(proxy.ask("nonsense\r\n\r\n").status, 400, "a malformed request gets its own error");
    assert_eq!(origin.requests().len(), asked, "upstreams get none of these requests");
    let stats = proxy.gateway.stats();
    let shed = stats.errors["overloaded"];
    let by_reason = |of: &str| if of == reason { shed } else { 0 };
    assert_eq!(stats.overload.shed_by_memory, by_reason("memory"));
    assert_eq!(stats.overload.shed_by_lag, by_reason("lag"));
    assert!(shed >= 5);
    let metrics = stats.prometheus();
    for of in ["memory", "lag"] {
        let gauge = format!("\nweir_overloaded{{reason=\"{of}\"}} {}\n", u8::from(of == reason));
        let counter = format!("\nweir_requests_shed_total{{reason=\"{of}\"}} {}\n", by_reason(of));
        assert!(metrics.contains(&gauge) && metrics.contains(&counter), "{metrics}");
    }
    reload(&mut proxy, &origin, "");
    wait_for_status(&proxy, 200);
    proxy.wait_for("the end of the overload", |_| proxy.gateway.overload_reasons().is_empty());
}

#[test]
fn rejects_requests_above_the_memory_threshold() {
    check(NO_MEMORY, "memory");
}

#[test]
fn rejects_requests_above_the_lag_threshold() {
    check(NO_TIME, "lag");
}

#[test]
fn in_flight_requests_complete() {
    let (begin, begun) = channel();
    let (release, wait) = channel::<()>();
    let ends = Mutex::new((begin, wait));
    let origin = Origin::start(move |served| {
        while let Some(request) = served.request() {
            if request.starts_with("GET /slow ") {
                served.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab");
                let ends = ends.lock().unwrap();
                ends.0.send(()).unwrap();
                ends.1.recv().unwrap();
                served.send("cd");
            } else {
                served.send(OK);
            }
        }
    });
    let mut proxy = Proxy::with(&text(&origin, ""));
    let mut client = proxy.connect();
    client.send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n");
    begun.recv().unwrap();
    reload(&mut proxy, &origin, NO_MEMORY);
    wait_for_status(&proxy, 503);
    release.send(()).unwrap();
    let answer = client.response();
    assert_eq!((answer.status, answer.body.as_str(), answer.whole), (200, "abcd", true));
    assert_eq!(client.ask(GET).error(), (503, "overloaded"), "the next request is rejected");
    assert!(client.is_closed());
}

#[test]
fn accepts_requests_below_the_thresholds() {
    let origin = Origin::answering(OK);
    let proxy = Proxy::with(&text(&origin, "overload: { memory: 1TiB, lag: 1h }"));
    proxy.wait_for("a reading", |stats| stats.overload.memory_used_bytes > 0);
    assert_eq!(proxy.connect().ask(GET).status, 200);
    let overload = proxy.gateway.stats().overload;
    assert_eq!((overload.memory, overload.late_workers, overload.memory_limit_bytes), (false, 0, 1 << 40));
}
