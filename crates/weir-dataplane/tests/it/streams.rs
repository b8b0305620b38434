//! Bodies that are larger than any buffer, in both directions at the same time.

use std::io::Write;

use crate::setup::{Origin, Proxy, Served};

const SIZE: usize = 3_000_000;

fn pattern() -> String {
    (0..SIZE).map(|n| char::from(b'a' + (n % 23) as u8)).collect()
}

/// Reads a request with a body of `SIZE` bytes, and sends the body back with the same framing while it arrives.
fn echo(served: &mut Served) {
    let head = served.read_until("\r\n\r\n").unwrap();
    let framing =
        if head.contains("chunked") { "Transfer-Encoding: chunked" } else { "Content-Length: 3000000" };
    served.send(&format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n"));
    let mut left = SIZE;
    while left > 0 {
        if head.contains("chunked") {
            let line = served.read_until("\r\n").unwrap();
            let size = usize::from_str_radix(line.trim_end(), 16).unwrap();
            let data = served.read_exact(size + 2).unwrap();
            served.send(&format!("{size:x}\r\n{data}"));
            left -= size;
        } else {
            let size = left.min(10_000);
            let data = served.read_exact(size).unwrap();
            served.send(&data);
            left -= size;
        }
    }
    if head.contains("chunked") {
        assert_eq!(served.read_until("\r\n\r\n").unwrap(), "0\r\n\r\n");
        served.send("0\r\n\r\n");
    }
    served.stall();
}

fn check_echo(framing: &str, encode: impl Fn(&str) -> String) {
    let origin = Origin::start(echo);
    let proxy = Proxy::to(origin.address, "");
    let mut client = proxy.connect();
    client.send(&format!("POST / HTTP/1.1\r\nHost: h\r\n{framing}\r\n\r\n"));
    let mut writer = client.stream.try_clone().unwrap();
    let body = encode(&pattern());
    let sending = std::thread::spawn(move || writer.write_all(body.as_bytes()).unwrap());
    let answer = client.response();
    sending.join().unwrap();
    assert_eq!(answer.status, 200);
    assert!(answer.whole && answer.body == pattern(), "{} bytes came back", answer.body.len());
}

#[test]
fn streams_a_long_body_in_both_directions() {
    check_echo("Content-Length: 3000000", str::to_owned);
}

#[test]
fn streams_a_long_chunked_body_in_both_directions() {
    check_echo("Transfer-Encoding: chunked", |body| {
        let chunks = body.as_bytes().chunks(7_001);
        let framed = |c: &[u8]| format!("{:x}\r\n{}\r\n", c.len(), std::str::from_utf8(c).unwrap());
        chunks.map(framed).collect::<String>() + "0\r\n\r\n"
    });
}

#[test]
fn connections_stay_usable_after_a_long_response() {
    let origin = Origin::start(|served| {
        while served.request().is_some() {
            served.send(&format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n{}", pattern()));
        }
    });
    let proxy = Proxy::to(origin.address, "");
    let mut client = proxy.connect();
    for _ in 0..3 {
        assert!(client.ask("GET / HTTP/1.1\r\nHost: h\r\n\r\n").body == pattern());
    }
    assert_eq!(origin.connections(), 1);
}

#[test]
fn streams_a_long_response_until_close_to_http_1_0_and_1_1() {
    let origin = Origin::start(|served| {
        served.request();
        served.send(&format!("HTTP/1.1 200 OK\r\n\r\n{}", pattern()));
    });
    let proxy = Proxy::to(origin.address, "");
    for (version, framing) in [("1.0", None), ("1.1", Some("chunked"))] {
        let answer = proxy.ask(&format!("GET / HTTP/{version}\r\nHost: h\r\n\r\n"));
        assert_eq!(answer.field("transfer-encoding"), framing);
        assert!(answer.whole && answer.body == pattern(), "{version}: {} bytes came", answer.body.len());
    }
}

#[test]
fn forwards_a_response_before_the_end_of_the_request_body() {
    let origin = Origin::start(|served| {
        served.read_until("\r\n\r\n").unwrap();
        served.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno!");
        served.stall();
    });
    let proxy = Proxy::to(origin.address, "");
    let mut client = proxy.connect();
    let answer = client.ask("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nabc");
    assert_eq!(
        (answer.status, answer.body.as_str(), answer.field("connection")),
        (413, "no!", Some("close"))
    );
}

#[test]
fn client_that_sends_its_whole_body_first_gets_the_response() {
    const BODY: usize = 32 << 20;
    let proxy = Proxy::to(Origin::start(Served::stall).address, "limits: { body: 1KiB }");
    let mut client = proxy.connect();
    client.send(&format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {BODY}\r\n\r\n"));
    let block = vec![b'x'; 1 << 20];
    for _ in 0..BODY >> 20 {
        client.stream.write_all(&block).expect("the gateway discards the rest");
    }
    assert_eq!(client.response().error(), (413, "body_too_large"));
}

#[test]
fn returns_502_if_the_upstream_closes_within_the_request_body() {
    let origin = Origin::start(|served| {
        served.read_until("\r\n\r\n").unwrap();
        served.reset();
    });
    let proxy = Proxy::to(origin.address, "");
    let mut client = proxy.connect();
    client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3000000\r\n\r\n");
    client.send(&pattern()[..100_000]);
    assert_eq!(client.response().error(), (502, "upstream_closed"));
}

#[test]
fn detects_a_disconnect_within_the_request_body() {
    let origin = Origin::start(Served::stall);
    let proxy = Proxy::to(origin.address, "");
    let mut client = proxy.connect();
    client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3000000\r\n\r\nabc");
    proxy.wait_for("the upstream connection", |s| s.upstream.connects == 1);
    drop(client);
    proxy.wait_for("the disconnect", |s| s.errors["client_closed"] == 1 && s.upstream.open["b"] == 0);
}
