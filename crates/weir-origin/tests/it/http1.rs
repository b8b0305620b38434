//! HTTP/1.1: framing, counts, and malformed requests.

use std::io::Read;
use std::net::Shutdown;

use weir_origin::OriginSpec;

use crate::{Client, check_counts, origin, spec};

#[test]
fn any_path_is_answered_and_counted_on_a_reused_connection() {
    let origin = origin(&spec());
    let mut client = Client::connect(origin.address());
    let mut bytes = 0;
    for path in ["/", "/get/1", "/a?b=c", "/__weirdo"] {
        let response = client.get(path);
        assert_eq!((response.status, response.body.len()), (200, 64));
        assert!(response.head.contains("\r\nDate: ") && !response.head.contains("Connection"));
        bytes += (response.head.len() + 64) as u64;
    }
    let stats = origin.stats();
    check_counts(&stats, 4, &[(200, 4)]);
    assert_eq!(stats.bytes_sent, bytes);
    assert_eq!(stats.delays, None);
}

#[test]
fn own_paths_are_not_counted() {
    let origin = origin(&OriginSpec { workers: 2, ..spec() });
    for _ in 0..8 {
        assert_eq!(Client::connect(origin.address()).get("/x").status, 200);
    }
    let mut client = Client::connect(origin.address());
    assert_eq!(client.get("/__weir/other").status, 404);
    for _ in 0..2 {
        let response = client.get("/__weir/stats?now");
        assert!(response.head.contains("Content-Type: application/json"));
        let json: serde_json::Value = serde_json::from_slice(&response.body).unwrap();
        assert_eq!((json["requests"].as_u64(), json["responses"].as_u64()), (Some(8), Some(8)));
        assert_eq!(json["by_status"], serde_json::json!({"200": 8}));
        assert_eq!(json["bytes_sent"].as_u64(), Some(origin.stats().bytes_sent));
    }
}

#[test]
fn pipelined_and_split_requests_are_answered_in_order() {
    let origin = origin(&spec());
    let mut client = Client::connect(origin.address());
    let one = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
    let head = "HEAD /b HTTP/1.1\r\nHost: a\r\n\r\n";
    client.send(format!("{one}{head}").repeat(2_000));
    for _ in 0..2_000 {
        assert_eq!(client.receive(false).body.len(), 64);
        assert!(client.receive(true).head.contains("Content-Length: 64"));
    }
    for byte in format!("{one}{head}").as_bytes() {
        client.send([*byte]);
    }
    assert_eq!(client.receive(false).status, 200);
    assert_eq!(client.receive(true).status, 200);
    check_counts(&origin.stats(), 4_002, &[(200, 4_002)]);
}

#[test]
fn request_bodies_are_discarded() {
    let origin = origin(&spec());
    let mut client = Client::connect(origin.address());
    let body = vec![b'x'; 3_000_000];
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len()));
    client.send(&body);
    assert_eq!(client.receive(false).status, 200);

    client.send("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for _ in 0..100 {
        client.send(b"2710\r\n");
        client.send(&body[..10_000]);
        client.send(b"\r\n");
    }
    client.send("0\r\nX-Sum: 1\r\n\r\n");
    assert_eq!(client.receive(false).status, 200);
    assert_eq!(client.get("/").status, 200);
    check_counts(&origin.stats(), 3, &[(200, 3)]);
}

#[test]
fn expect_100_continue_is_answered() {
    let origin = origin(&spec());
    let mut client = Client::connect(origin.address());
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
    let interim = client.receive(true);
    assert_eq!((interim.status, interim.head.as_str()), (100, "HTTP/1.1 100 Continue\r\n\r\n"));
    client.send("abc");
    assert_eq!(client.receive(false).status, 200);
    // A client that sends the body immediately does not need a 100 Continue.
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc");
    assert_eq!(client.receive(false).status, 200);
    check_counts(&origin.stats(), 2, &[(200, 2)]);
}

#[test]
fn connections_close_or_persist_as_requested() {
    let origin = origin(&spec());
    for (request, connection, closes) in [
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", Some("close"), true),
        ("GET / HTTP/1.0\r\n\r\n", Some("close"), true),
        ("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", Some("keep-alive"), false),
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", None, false),
    ] {
        let mut client = Client::connect(origin.address());
        client.send(request);
        let response = client.receive(false);
        let said = response.head.lines().find_map(|line| line.strip_prefix("Connection: "));
        assert_eq!((response.status, said), (200, connection), "{request:?}");
        if closes {
            assert!(client.is_at_end(), "{request:?}");
        } else {
            assert_eq!(client.get("/").status, 200, "{request:?}");
        }
    }
}

#[test]
fn malformed_requests_are_rejected_counted_and_closed() {
    let origin = origin(&spec());
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(20_000));
    let large = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(40_000));
    let cases: [(&str, u16); 12] = [
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\nHost: a\n\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
        ("GET / HTTP/1.9\r\nHost: a\r\n\r\n", 505),
        ("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", 501),
        (&long, 414),
        (&large, 431),
        ("\0\x16\x03\x01 garbage\r\n\r\n", 400),
    ];
    for (request, status) in &cases {
        let mut client = Client::connect(origin.address());
        client.send(format!("{request}GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"));
        let response = client.receive(false);
        assert_eq!(response.status, *status, "{request:?}");
        assert!(response.head.contains("Connection: close"), "{request:?}");
        assert!(client.is_at_end(), "{request:?}");
    }
    let stats = origin.stats();
    check_counts(&stats, 0, &[(400, 7), (414, 1), (431, 1), (501, 2), (505, 1)]);

    let mut client = Client::connect(origin.address());
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
    assert_eq!(client.receive(false).status, 400);
    assert!(client.is_at_end());
    assert_eq!(origin.stats().requests, 1);
}

#[test]
fn client_disconnects_are_handled() {
    let origin = origin(&OriginSpec { body_bytes: 10_000_000, ..spec() });
    for part in
        ["", "GET", "GET / HTTP/1.1\r\nHost", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc"]
    {
        let mut client = Client::connect(origin.address());
        client.send(part);
        client.stream.shutdown(Shutdown::Write).unwrap();
        assert!(client.is_at_end(), "{part:?}");
    }
    // The client disconnects during a long response. The incomplete response is not counted.
    let mut client = Client::connect(origin.address());
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    client.fill();
    drop(client);
    let mut client = Client::connect(origin.address());
    assert_eq!(client.get("/").body.len(), 10_000_000);
    check_counts(&origin.stats(), 3, &[(200, 1)]);
}

#[test]
fn large_bodies_are_streamed() {
    let body_bytes = 100_000_000;
    let origin = origin(&OriginSpec { body_bytes, ..spec() });
    let mut client = Client::connect(origin.address());
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let mut received = 0_u64;
    let mut first = Vec::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = client.stream.read(&mut buffer).unwrap();
        if read == 0 {
            break;
        }
        if first.len() < 1_000 {
            first.extend_from_slice(&buffer[..read.min(1_000)]);
        }
        received += read as u64;
    }
    let head_bytes = first.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() as u64 + 4;
    assert_eq!(received, head_bytes + body_bytes);
    assert_eq!(origin.stats().bytes_sent, received);
}

#[test]
fn stop_closes_connections_and_frees_the_port() {
    let first = origin(&OriginSpec { workers: 3, ..spec() });
    let address = first.address();
    let mut client = Client::connect(address);
    assert_eq!(client.get("/").status, 200);
    first.stop();
    first.join().unwrap();
    assert!(client.stream.read(&mut [0; 1]).map_or(true, |read| read == 0));
    let second = origin(&OriginSpec { listen: address, ..spec() });
    assert_eq!(second.address(), address);
}
