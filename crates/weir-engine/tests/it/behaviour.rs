//! Peers that close, reset, stall, or send malformed or unusually framed responses. Errors are counted by cause,
//! and the load continues.

use std::net::TcpListener;
use std::time::Duration;

use weir_engine::{Body, LoadSpec};
use weir_results::Errors;

use crate::load::{MS, check, closed, drive, get, open};
use crate::peer::{Behaviour, Peer, last, reset, say};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

#[test]
fn every_request_to_a_responding_peer_is_counted() {
    let peer = Peer::start(|stream, _| say(stream, OK));
    let record = drive(&closed(peer.address, 1_000));
    assert_eq!((record.result.requests.completed, record.result.errors), (1_000, Errors::default()));
    assert_eq!((record.whole.sent, record.whole_uncertain, peer.requests()), (1_000, 0, 1_000));
    assert_eq!(record.result.status.get("200"), Some(&1_000));
    assert_eq!(record.generator.connections_opened, 4);
    assert_eq!(record.result.bytes.received, 1_000 * OK.len() as u64);
}

#[test]
fn ramp_connections_open_once_each_and_close_when_it_falls() {
    let peer = Peer::start(|stream, _| say(stream, OK));
    for (from, to, opened) in [(1, 6, 5), (6, 1, 6)] {
        let spec = LoadSpec {
            connections_from: Some(from),
            connections: to,
            duration_ns: Some(400 * MS),
            request_count: None,
            ..closed(peer.address, 0)
        };
        let record = drive(&spec);
        // With a rising ramp, the last connection would open exactly when the load ends, so it is not opened.
        assert_eq!((record.generator.connections_opened, record.result.errors), (opened, Errors::default()));
    }
}

#[test]
fn every_framing_ends_correctly() {
    let framings: [(Behaviour, u64); 7] = [
        (
            |s, _| {
                say(s, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n")
            },
            200,
        ),
        (|s, _| say(s, "HTTP/1.1 204 No Content\r\n\r\n"), 204),
        (|s, _| say(s, "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n"), 304),
        (|s, _| say(s, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n") && say(s, OK), 200),
        (|s, _| say(s, "HTTP/1.1 200 OK\r\nContent-Le") && say(s, "ngth: 2\r\n\r\nh") && say(s, "i"), 200),
        (
            |s, _| {
                say(s, "HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n") && say(s, &"x".repeat(300_000))
            },
            200,
        ),
        (|s, _| say(s, "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"), 503),
    ];
    for (behaviour, status) in framings {
        let peer = Peer::start(behaviour);
        let record = drive(&closed(peer.address, 60));
        assert_eq!(record.result.status.get(&status.to_string()), Some(&60), "{:?}", record.result);
        assert_eq!(record.result.errors, Errors::default());
        assert_eq!(record.result.requests.unexpected, if status >= 400 { 60 } else { 0 });
        assert_eq!((peer.requests(), record.generator.connections_opened), (60, 4));
    }
}

#[test]
fn responses_that_close_the_connection_are_not_failures() {
    let closing: [Behaviour; 3] = [
        |s, _| last(s, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi"),
        |s, _| last(s, "HTTP/1.0 200 OK\r\n\r\nuntil the end"),
        // The third response announces that the peer closes. The load must notice it before it sends the next
        // request.
        |s, nth| {
            say(
                s,
                if nth == 2 {
                    "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
                } else {
                    OK
                },
            ) && nth < 2
        },
    ];
    for behaviour in closing {
        let peer = Peer::start(behaviour);
        let record = drive(&closed(peer.address, 60));
        assert_eq!((record.result.requests.completed, record.result.errors), (60, Errors::default()));
        assert!(record.generator.connections_opened >= 20);
        assert_eq!(peer.requests(), 60);
    }
}

#[test]
fn a_head_request_has_no_body() {
    let peer = Peer::start(|s, _| say(s, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"));
    let mut spec = closed(peer.address, 50);
    spec.requests[0].method = "HEAD".into();
    assert_eq!(drive(&spec).result.requests.completed, 50);
    assert_eq!(peer.requests(), 50);
}

#[test]
fn bodies_of_any_size_are_sent_completely() {
    let peer = Peer::start(|s, _| say(s, OK));
    let mut spec = closed(peer.address, 8);
    spec.requests[0].method = "POST".into();
    spec.requests[0].body = Body::Text("b".repeat(20_000_000));
    let record = drive(&spec);
    assert_eq!((record.result.requests.completed, peer.requests()), (8, 8));
    assert!(record.result.bytes.sent > 8 * 20_000_000);
}

#[test]
fn the_seed_chooses_the_requests() {
    let peer = Peer::start(|s, _| say(s, OK));
    let mut spec = closed(peer.address, 100);
    spec.requests = (0..5).map(|n| get(&format!("/{n}"))).collect();
    assert_eq!(drive(&spec).result.requests.completed, 100);
}

/// Sends 40 requests to a peer that makes all of them fail, and returns the counts of causes.
fn all_fail(behaviour: Behaviour) -> Errors {
    let peer = Peer::start(behaviour);
    let record = drive(&closed(peer.address, 40));
    let requests = record.result.requests;
    assert_eq!((requests.scheduled, requests.failed, requests.completed), (40, 40, 0), "{:?}", record.result);
    assert_eq!((requests.sent, peer.requests()), (40, 40));
    assert_eq!(record.whole_uncertain, 40);
    assert!(record.generator.connections_opened >= 40);
    assert_eq!(record.result.latency_ns.p50, None);
    record.result.errors
}

#[test]
fn malformed_responses_are_counted_by_cause() {
    let closed = |errors: Errors| assert_eq!(errors, Errors { closed: 40, ..Errors::default() });
    closed(all_fail(|_, _| false));
    closed(all_fail(|s, _| last(s, "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nonly half")));
    closed(all_fail(|s, _| last(s, "HTTP/1.1 200 OK\r\nContent-")));
    closed(all_fail(|s, _| last(s, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel")));
    let parse = |errors: Errors| assert_eq!(errors, Errors { parse: 40, ..Errors::default() });
    parse(all_fail(|s, _| say(s, "220 mail.example ESMTP\r\n")));
    parse(all_fail(|s, _| say(s, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello")));
    parse(all_fail(|s, _| say(s, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n")));
    let errors = all_fail(|s, _| say(s, "HTTP/1.1 200 OK\r\nX: ") && say(s, &"x".repeat(100_000)));
    assert_eq!(errors, Errors { too_large: 40, ..Errors::default() });
    let errors = all_fail(|s, _| {
        reset(s);
        false
    });
    assert_eq!(errors, Errors { reset: 40, ..Errors::default() });
}

#[test]
fn unsolicited_bytes_only_close_the_connection() {
    let peer = Peer::start(|s, _| say(s, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi and more"));
    let record = drive(&closed(peer.address, 30));
    assert_eq!((record.result.requests.completed, record.result.requests.failed), (30, 0));
    assert_eq!(record.result.errors.parse, 30);
    assert!(record.generator.connections_opened >= 30);
}

#[test]
fn requests_to_a_stalled_peer_time_out_and_connections_are_replaced() {
    let peer = Peer::start(|s, nth| nth > 0 || say(s, OK));
    let mut spec = closed(peer.address, 24);
    // The time-out is long enough that requests are sent before they time out, even on a busy host.
    spec.timeout_ns = 400 * MS;
    let record = drive(&spec);
    let requests = record.result.requests;
    assert_eq!(requests.completed + requests.timed_out, 24);
    assert!(requests.timed_out >= 12, "{requests:?}");
    assert_eq!(record.whole_uncertain, requests.timed_out);
    assert_eq!(record.result.errors, Errors::default());
    assert!(record.generator.connections_opened > 4);
    assert_eq!(record.result.latency_ns.p9999, None, "the rank falls among the unanswered");
}

#[test]
fn a_refusing_peer_is_counted_and_nothing_completes() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut spec = open(address, 500.0, 300 * MS);
    spec.timeout_ns = 100 * MS;
    let record = drive(&spec);
    let requests = record.result.requests;
    assert!(requests.scheduled > 0);
    assert_eq!((requests.dropped, requests.sent), (requests.scheduled, 0));
    assert!(record.result.errors.refused > 0);
    // The delay between connection attempts grows, so they do not flood the peer.
    assert!(record.result.errors.refused < 100, "{:?}", record.result.errors);
    let mut spec = closed(address, 10);
    spec.timeout_ns = 100 * MS;
    assert_eq!(drive(&spec).result.requests.scheduled, 0);
}

#[test]
fn the_load_continues_when_the_peer_starts_later() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let spec = closed(address, 200);
    let load = std::thread::spawn({
        let spec = spec.clone();
        move || drive(&spec)
    });
    std::thread::sleep(Duration::from_millis(100));
    let peer = Peer::on(TcpListener::bind(address).unwrap(), |s, _| say(s, OK));
    let record = load.join().unwrap();
    assert_eq!((record.result.requests.completed, peer.requests()), (200, 200));
    assert!(record.result.errors.refused > 0);
}

#[test]
fn the_load_continues_when_the_peer_restarts() {
    // The first peer resets every connection after some requests. The second peer at the same address responds to
    // all requests.
    let first = Peer::start(|s, nth| {
        if nth == 20 {
            reset(s);
        }
        nth < 20 && say(s, OK)
    });
    let address = first.address;
    let mut spec = open(address, 2_000.0, 1_500 * MS);
    spec.timeout_ns = 1_000 * MS;
    let load = std::thread::spawn({
        let spec = spec.clone();
        move || drive(&spec)
    });
    std::thread::sleep(Duration::from_millis(300));
    let counts = first.stop();
    std::thread::sleep(Duration::from_millis(200));
    let second = Peer::on(TcpListener::bind(address).unwrap(), |s, _| say(s, OK));
    let record = load.join().unwrap();
    check(&spec, &record);
    let arrived = counts.requests.load(std::sync::atomic::Ordering::Relaxed) + second.requests();
    let whole = &record.whole;
    assert!(arrived <= whole.sent && arrived >= whole.sent - record.whole_uncertain, "{arrived} {whole:?}");
    assert!(record.result.errors.reset > 0 && record.result.errors.refused > 0, "{:?}", record.result.errors);
    assert!(second.requests() > 0);
}
