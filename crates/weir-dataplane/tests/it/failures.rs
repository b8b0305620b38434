//! Upstreams that fail in every way, and what the client is told.

use std::io::Write as _;
use std::net::TcpListener;

use crate::setup::{Origin, Proxy, Served};

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";

/// The answer's status and cause when the upstream does this, and that it is counted.
fn check(script: impl Fn(&mut Served) + Send + Sync + 'static, expected: (u16, &str)) {
    // A short limit only where it is to be reached: this host may be busy.
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

/// The response began and broke off: the client must see that.
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
fn an_upstream_that_takes_no_connection() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let proxy = Proxy::to(address, "");
    let mut client = proxy.connect();
    for _ in 0..2 {
        assert_eq!(
            client.ask(GET).error(),
            (502, "upstream_connect_failed"),
            "and the client's connection goes on"
        );
    }
    assert_eq!(proxy.gateway.stats().upstream.connect_failures, 2);
}

#[test]
fn an_upstream_that_answers_no_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let address = listener.local_addr().unwrap();
    // The queue takes one or two; then the kernel drops what asks for a connection.
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
fn an_upstream_that_closes_or_resets() {
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
fn an_upstream_that_stalls() {
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
fn an_upstream_whose_head_is_too_large() {
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
fn an_upstream_whose_head_only_trickles() {
    check(
        |served| {
            served.request();
            served.send("HTTP/1.1 200 OK\r\nX: ");
            // As long as the gateway listens.
            while served.stream.write_all(b"x").is_ok() {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        },
        (504, "upstream_response_timeout"),
    );
}

#[test]
fn an_upstream_that_speaks_something_else() {
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

/// A head that is not there, or not whole, whichever way its connection ends.
#[test]
fn an_upstream_that_ends_within_its_head() {
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
fn a_kept_connection_that_ends_within_a_head_is_not_replaced() {
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
fn a_response_that_breaks_off_is_never_made_whole() {
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
fn a_body_that_turns_malformed_is_cut() {
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
fn a_kept_connection_that_was_closed_is_replaced() {
    // It answers once, and closes when the second request has come.
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
    assert_eq!(origin.requests().len(), 5, "two of the three were sent twice");
    let post = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx";
    assert_eq!(client.ask(post).error(), (502, "upstream_closed"), "a POST is not sent twice");
    assert_eq!(client.ask(post).body, "ok");
}

#[test]
fn a_retry_happens_once() {
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
fn a_connection_that_closed_while_idle_is_not_used() {
    let origin = Origin::start(|served| {
        served.request();
        served.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    });
    let proxy = Proxy::to(origin.address, "");
    let post = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx";
    for _ in 0..3 {
        assert_eq!(proxy.ask(post).body, "ok");
        // It is seen within a second, and the place given up.
        proxy.wait_for("the sweep", |s| s.upstream.open["b"] == 0);
    }
    assert_eq!(proxy.gateway.stats().upstream.retries, 0);
}

#[test]
fn all_that_closed_while_idle_are_let_go() {
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
fn what_an_upstream_sends_unasked_ends_its_connection() {
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
fn a_dead_endpoint_costs_no_request() {
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
    assert_eq!(alive.connections(), 1, "nor a connection each to its neighbour");
    assert_eq!(proxy.gateway.stats().upstream.connect_failures, 6);
}

#[test]
fn the_share_of_a_dead_endpoint_is_spread_over_the_others() {
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
