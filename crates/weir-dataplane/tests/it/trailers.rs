//! Trailers: the gateway forwards only configured ones.

use std::sync::{Arc, Mutex};

use crate::setup::{Origin, Proxy};

const CHUNKED: &str = "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n";
const TRAILERS: &str = "X-Sum: 1\r\nCookie: a=b\r\nX-Forwarded-For: 6.6.6.6\r\nX-Weir-Error: no_route\r\nX_Sum: 2\r\n\
                        Proxy: evil\r\nServer-Timing: a;dur=1\r\nx-sum: 3\r\n";

/// Returns which of [`TRAILERS`] the gateway forwards: to the upstream after the request body, and to the client after
/// the response body.
fn passed(settings: &str, route: &str) -> [Vec<String>; 2] {
    let came = Arc::new(Mutex::new(String::new()));
    let kept = Arc::clone(&came);
    let origin = Origin::start(move |served| {
        while served.request().is_some() {
            assert_eq!(served.read_until("0\r\n").as_deref(), Some("1\r\na\r\n0\r\n"));
            let mut lines = served.read_until("\r\n").unwrap();
            while !lines.ends_with("\r\n\r\n") && lines != "\r\n" {
                lines += &served.read_until("\r\n").unwrap();
            }
            *kept.lock().unwrap() = lines;
            served.send(&format!("HTTP/1.1 200 OK\r\n{CHUNKED}{TRAILERS}\r\n"));
        }
    });
    let proxy = Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\nroutes: [{{ path: /, backend: b{route} }}]\n\
         backends: {{ b: {{ endpoints: ['{}'] }} }}\n{settings}\n",
        origin.address
    ));
    let answer = proxy.ask(&format!("POST / HTTP/1.1\r\nHost: h\r\n{CHUNKED}{TRAILERS}\r\n"));
    assert!(answer.whole && answer.body.starts_with('a'), "{answer:?}");
    let of_response = answer.body[1..].split_terminator(']').map(|line| line[1..].to_owned());
    let came = came.lock().unwrap();
    [
        came.split_terminator("\r\n").filter(|line| !line.is_empty()).map(str::to_owned).collect(),
        of_response.collect(),
    ]
}

#[test]
fn drops_all_trailers_by_default() {
    assert_eq!(passed("", ""), [vec![], Vec::<String>::new()]);
    assert_eq!(passed("underscores_in_headers: true", ""), [vec![], Vec::<String>::new()]);
}

#[test]
fn forwards_configured_trailers_per_direction() {
    let sums = vec!["X-Sum: 1".to_owned(), "x-sum: 3".to_owned()];
    assert_eq!(passed("trailers: { request: [x-sum] }", ""), [sums.clone(), vec![]]);
    let timing = vec!["Server-Timing: a;dur=1".to_owned()];
    let settings = "trailers: { request: [X-Sum], response: [Server-Timing] }";
    assert_eq!(passed(settings, ""), [sums, timing]);
}

#[test]
fn trailers_do_not_restore_headers_that_a_route_changes() {
    let settings = "trailers: { request: [X-Sum, Server-Timing], response: [X-Sum, Server-Timing] }";
    let changes = ", request_headers: { set: { X-Sum: own } }, response_headers: { remove: [server-timing] }";
    let timing = vec!["Server-Timing: a;dur=1".to_owned()];
    let sums = vec!["X-Sum: 1".to_owned(), "x-sum: 3".to_owned()];
    assert_eq!(passed(settings, changes), [timing, sums]);
}
