//! Upstream failures, and the responses to the client.

use std::io::Write as _;
use std::net::TcpListener;

use crate::setup::{Origin, Proxy, Served};

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

/// Runs this script at the upstream. Checks status and cause of the response, and that the error is counted.
fn check(script: impl Fn(&mut Served) + Send + Sync + 'static, expected: (u16, &str)) {
    // Only tests of timeouts use a short timeout, because this host may be busy.
    let more = if expected.0 == 504 { "timeouts: { response: 100ms }" } else { "" };
    let origin = Origin::start(script);
    let proxy = Proxy::to(origin.address, more);
    let answer = proxy.ask(GET);
    assert_eq!(answer.error(), expected, "{}", answer.head);
    assert!(answer.whole);
    assert_eq!(proxy.errors(expected.1), 1);
    let stats = proxy.gateway.stats();
    assert_eq!((stats.requests, stats.responses, stats.by_status.server_error), (1, 1, 1));
}

/// Checks that the client detects a response that starts and does not complete.
fn check_cut(response: &'static str, cause: &str, stall: bool) {
    let origin = Origin::start(move |served| {
        served.request();
        served.send(response);
        if stall {
            served.stall();
        }
    });
    let proxy = Proxy::to(origin.address, if stall { "timeouts: { body: 100ms }" } else { "" });
    for request in [GET, "GET / HTTP/1.0\r\n\r\n"] {
        let answer = proxy.ask(request);
        assert_eq!((answer.status, answer.whole), (200, false), "{request:?} {response:?}");
        assert!("abcde".starts_with(&answer.body));
    }
    assert_eq!(proxy.errors(cause), 2);
}

#[test]
fn returns_502_if_the_upstream_refuses_connections() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let proxy = Proxy::to(address, "");
    let mut client = proxy.connect();
    for _ in 0..2 {
        assert_eq!(
            client.ask(GET).error(),
            (502, "upstream_connect_failed"),
            "the client connection stays open"
        );
    }
    assert_eq!(proxy.gateway.stats().upstream.connect_failures, 2);
}

#[test]
fn returns_504_if_the_connect_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let address = listener.local_addr().unwrap();
    // The accept queue takes one or two connections. Then the kernel drops SYN packets.
    let mut queued = Vec::new();
    while let Ok(stream) =
        std::net::TcpStream::connect_timeout(&address, std::time::Duration::from_millis(300))
    {
        queued.push(stream);
    }
    let proxy = Proxy::to(address, "timeouts: { connect: 100ms }");
    assert_eq!(proxy.ask(GET).error(), (504, "upstream_connect_timeout"));
}

#[test]
fn returns_502_if_the_upstream_closes_or_resets() {
    check(|served| drop(served.request()), (502, "upstream_closed"));
    check(|_| {}, (502, "upstream_closed"));
    check(
        |served| {
            served.request();
            served.reset();
        },
        (502, "upstream_closed"),
    );
}

#[test]
fn returns_504_if_the_upstream_stalls() {
    check(Served::stall, (504, "upstream_response_timeout"));
    check(
        |served| {
            served.request();
            served.send("HTTP/1.1 200 OK\r\nContent-");
            served.stall();
        },
        (504, "upstream_response_timeout"),
    );
}

#[test]
fn returns_502_if_the_response_headers_are_too_large() {
    let check_head = |fields: String| {
        check(
            move |served| {
                served.request();
                served.send(&format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 0\r\n\r\n"));
            },
            (502, "upstream_head_too_large"),
        );
    };
    check_head(format!("X: {}\r\n", "y".repeat(40_000)));
    check_head("X: y\r\n".repeat(100));
}

#[test]
fn returns_504_if_the_response_headers_trickle() {
    check(
        |served| {
            served.request();
            served.send("HTTP/1.1 200 OK\r\nX: ");
            // Until the gateway closes the connection.
            while served.stream.write_all(b"x").is_ok() {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        },
        (504, "upstream_response_timeout"),
    );
}

#[test]
fn returns_502_for_malformed_responses() {
    for nonsense in [
        "SSH-2.0-OpenSSH_9.2\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
        "HTTP/1.1 200 OK\r\nX : y\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        "HTTP/2 200\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcdeXX",
    ] {
        check(
            move |served| {
                served.request();
                served.send(nonsense);
            },
            (502, "upstream_malformed"),
        );
    }
    check(
        |served| {
            served.request();
            served.send(&"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(1000));
        },
        (502, "upstream_malformed"),
    );
}

/// Missing or incomplete response headers, if the upstream closes or resets the connection.
#[test]
fn returns_502_if_the_response_headers_are_incomplete() {
    for begun in ["", "HTTP/1.1 200 OK\r\nContent-Le", "HTTP/1.1 103 Early Hints\r\n\r\n"] {
        for is_reset in [false, true] {
            let answer_of_one = move |served: &mut Served| {
                served.request();
                served.send(begun);
                if is_reset {
                    served.reset();
                }
            };
            let origin = Origin::start(answer_of_one);
            let proxy = Proxy::to(origin.address, "");
            let mut client = proxy.connect();
            let mut answer = client.ask(GET);
            if answer.status == 103 {
                answer = client.response();
            }
            assert_eq!(answer.error(), (502, "upstream_closed"), "{begun:?} {is_reset}");
            assert_eq!((origin.connections(), proxy.errors("upstream_malformed")), (1, 0));
        }
    }
}

#[test]
fn does_not_retry_a_reused_connection_that_ends_within_the_headers() {
    for begun in ["HTTP/1.1 200 OK\r\nContent-Le", "HTTP/1.1 103 Early Hints\r\n\r\n"] {
        let origin = Origin::start(move |served| {
            served.request();
            served.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            served.request();
            served.send(begun);
        });
        let proxy = Proxy::to(origin.address, "");
        let mut client = proxy.connect();
        assert_eq!(client.ask(GET).body, "ok");
        let mut answer = client.ask(GET);
        if answer.status == 103 {
            answer = client.response();
        }
        assert_eq!(answer.error(), (502, "upstream_closed"), "{begun:?}");
        assert_eq!((origin.connections(), proxy.gateway.stats().upstream.retries), (1, 0));
    }
}

#[test]
fn truncated_response_does_not_look_complete() {
    check_cut("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabcde", "upstream_truncated", false);
    check_cut(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n",
        "upstream_truncated",
        false,
    );
    check_cut("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabcde", "upstream_stalled", true);
    check_cut("HTTP/1.1 200 OK\r\n\r\nabcde", "upstream_stalled", true);
}

#[test]
fn cuts_a_response_with_a_malformed_body() {
    let origin = Origin::start(|served| {
        served.request();
        let chunk = "x".repeat(200_000);
        served.send(&format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{chunk}XX",
            chunk.len()
        ));
        served.stall();
    });
    let proxy = Proxy::to(origin.address, "");
    assert!(!proxy.ask(GET).whole);
    assert_eq!(proxy.errors("upstream_truncated"), 1);
}

#[test]
fn replaces_a_reused_connection_that_the_upstream_closed() {
    // The origin responds once, and closes the connection when the second request arrives.
    let script = |served: &mut Served| {
        served.request();
        served.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        served.request();
    };
    let origin = Origin::start(script);
    let proxy = Proxy::to(origin.address, "");
    let mut client = proxy.connect();
    for _ in 0..3 {
        assert_eq!(client.ask(GET).body, "ok");
    }
    assert_eq!(proxy.gateway.stats().upstream.retries, 2);
    assert_eq!(origin.requests().len(), 5, "the gateway retried two of the three requests");
    let post = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx";
    assert_eq!(client.ask(post).error(), (502, "upstream_closed"), "a POST is not retried");
    assert_eq!(client.ask(post).body, "ok");
}

#[test]
fn retries_a_closed_connection_only_once() {
    let origin = Origin::start(|served| {
        served.request();
        if served.number == 0 {
            served.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            served.request();
        }
    });
    let proxy = Proxy::to(origin.address, "");
    let mut client = proxy.connect();
    assert_eq!(client.ask(GET).body, "ok");
    assert_eq!(client.ask(GET).error(), (502, "upstream_closed"));
    assert_eq!((origin.connections(), proxy.gateway.stats().upstream.retries), (2, 1));
}

#[test]
fn does_not_reuse_a_connection_that_closed_while_idle() {
    let origin = Origin::start(|served| {
        served.request();
        served.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    });
    let proxy = Proxy::to(origin.address, "");
    let post = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx";
    for _ in 0..3 {
        assert_eq!(proxy.ask(post).body, "ok");
        // The sweep detects the closed connection within a second, and releases it.
        proxy.wait_for("the sweep", |s| s.upstream.open["b"] == 0);
    }
    assert_eq!(proxy.gateway.stats().upstream.retries, 0);
}

#[test]
fn releases_all_connections_that_closed_while_idle() {
    const MANY: usize = 200;
    let all_are_here = std::sync::Arc::new(std::sync::Barrier::new(MANY));
    let origin = Origin::start(move |served| {
        served.request();
        all_are_here.wait();
        served.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    });
    let proxy = Proxy::to(origin.address, "");
    let mut clients: Vec<_> = (0..MANY).map(|_| proxy.connect()).collect();
    clients.iter_mut().for_each(|c| c.send(GET));
    assert!(clients.iter_mut().all(|c| c.response().body == "ok"));
    proxy.wait_for("the sweep", |s| s.upstream.open["b"] == 0);
}

#[test]
fn unrequested_bytes_close_the_upstream_connection() {
    let origin = Origin::start(|served| {
        served.request();
        served.send(
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
        );
        served.stall();
    });
    let proxy = Proxy::to(origin.address, "");
    let mut client = proxy.connect();
    for _ in 0..3 {
        assert_eq!(client.ask(GET).body, "ok");
    }
    assert_eq!(origin.connections(), 3);
}

#[test]
fn unreachable_endpoint_fails_no_request() {
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let alive = Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    let proxy = Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\nroutes: [{{ path: /, backend: b }}]\n\
         backends: {{ b: {{ endpoints: ['{dead}', '{}'] }} }}",
        alive.address
    ));
    let mut client = proxy.connect();
    for _ in 0..6 {
        assert_eq!(client.ask(GET).body, "ok");
    }
    assert_eq!(alive.connections(), 1, "requests share one connection to the other endpoint");
    assert_eq!(proxy.gateway.stats().upstream.connect_failures, 6);
}

#[test]
fn distributes_the_share_of_an_unreachable_endpoint() {
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let alive: [Origin; 3] =
        std::array::from_fn(|_| Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
    let [a, b, c] = alive.each_ref().map(|o| o.address);
    let proxy = Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\nroutes: [{{ path: /, backend: b }}]\n\
         backends: {{ b: {{ endpoints: ['{a}', '{dead}', '{b}', '{c}'] }} }}"
    ));
    let mut client = proxy.connect();
    for _ in 0..9 {
        assert_eq!(client.ask(GET).body, "ok");
    }
    assert_eq!(alive.each_ref().map(|o| (o.requests().len(), o.connections())), [(3, 1); 3]);
}
