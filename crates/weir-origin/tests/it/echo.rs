//! Echoes over HTTP/1.1.

use std::io::Write;

use weir_document::{Share, Slow};
use weir_origin::{FaultSpec, OriginSpec};

use crate::{Client, check_counts, origin, spec};

fn echo() -> OriginSpec {
    OriginSpec { is_echo: true, ..spec() }
}

/// Returns bytes that differ from position to position.
pub(crate) fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|place| (place * 31 + place / 251) as u8).collect()
}

fn post(body: &[u8]) -> Vec<u8> {
    let head =
        format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Type: a/b\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn chunked(body: &[u8]) -> Vec<u8> {
    let mut request = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for piece in body.chunks(10_000) {
        request.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        request.extend_from_slice(piece);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"0\r\n\r\n");
    request
}

/// Receives a chunked response, and returns its body.
fn receive_chunked(client: &mut Client) -> Vec<u8> {
    let head = client.receive(true).head;
    assert!(head.contains("Transfer-Encoding: chunked"), "{head}");
    let mut body = Vec::new();
    loop {
        let line_end = loop {
            match client.read.windows(2).position(|bytes| bytes == b"\r\n") {
                Some(at) => break at,
                None => assert!(client.fill() > 0),
            }
        };
        let size = usize::from_str_radix(std::str::from_utf8(&client.read[..line_end]).unwrap(), 16).unwrap();
        let end = line_end + 2 + size + 2;
        while client.read.len() < end {
            assert!(client.fill() > 0);
        }
        body.extend_from_slice(&client.read[line_end + 2..end - 2]);
        client.read.drain(..end);
        if size == 0 {
            return body;
        }
    }
}

/// Sends a request and receives its response at the same time, because the response of a long echo starts before
/// the request is complete.
fn exchange<T>(client: &mut Client, request: &[u8], receive: impl FnOnce(&mut Client) -> T) -> T {
    let mut writer = client.stream.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || writer.write_all(request).unwrap());
        receive(client)
    })
}

#[test]
fn echoes_have_the_whole_body_and_its_type() {
    let origin = origin(&echo());
    let mut client = Client::connect(origin.address());
    for size in [0, 1, 1_000, 65_535, 65_536, 65_537, 5_000_000] {
        let body = bytes(size);
        let response = exchange(&mut client, &post(&body), |client| client.receive(false));
        assert_eq!(response.status, 200);
        assert!(response.body == body, "{size} bytes");
        assert!(response.head.contains("\r\nContent-Type: a/b\r\n"));
    }
    // A short chunked body is complete before the response starts, so the response has a Content-Length.
    let body = bytes(30_000);
    let response = exchange(&mut client, &chunked(&body), |client| client.receive(false));
    assert!(response.body == body && !response.head.contains("Content-Type"));
    let body = bytes(3_000_000);
    assert!(exchange(&mut client, &chunked(&body), receive_chunked) == body);
    let response = client.get("/");
    assert_eq!((response.status, response.body.len()), (200, 0));
    check_counts(&origin.stats(), 10, &[(200, 10)]);
}

#[test]
fn pipelined_requests_are_echoed_in_order() {
    let origin = origin(&echo());
    let mut client = Client::connect(origin.address());
    let requests: Vec<u8> = (1..200).flat_map(|size| post(&bytes(size))).collect();
    client.send(requests);
    for size in 1..200 {
        assert!(client.receive(false).body == bytes(size));
    }
    check_counts(&origin.stats(), 199, &[(200, 199)]);
}

#[test]
fn faults_apply_to_echoes() {
    let slow = Some(Slow { share: Share(0.25), time: "1ms".parse().unwrap() });
    let faults = FaultSpec { errors: Share(0.25), slow, ..FaultSpec::default() };
    let origin = origin(&OriginSpec { faults, ..echo() });
    let mut client = Client::connect(origin.address());
    let mut by_status = [0, 0];
    for round in 0..8 {
        let body = bytes(100_000 + round);
        let response = exchange(&mut client, &post(&body), |client| client.receive(false));
        by_status[usize::from(response.status == 500)] += 1;
        assert!(response.status == 500 || response.body == body, "round {round}");
    }
    assert_eq!(by_status, [6, 2]);
    let stats = origin.stats();
    check_counts(&stats, 8, &[(200, 6), (500, 2)]);
    assert_eq!(stats.faults.unwrap().slow, 2);
}

#[test]
fn a_half_echo_ends_in_the_middle() {
    let faults = FaultSpec { half: Share(1.0), ..FaultSpec::default() };
    let origin = origin(&OriginSpec { faults, ..echo() });
    for size in [10, 200_000] {
        let body = bytes(size);
        let mut client = Client::connect(origin.address());
        client.send(post(&body[..size]));
        let head = client.receive(true).head;
        assert!(head.contains(&format!("Content-Length: {size}\r\n")));
        while client.fill() > 0 {}
        assert!(client.read == body[..size / 2], "{} of {size} bytes", client.read.len());
    }
    let stats = origin.stats();
    check_counts(&stats, 2, &[]);
    assert_eq!(stats.faults.unwrap().half, 2);
}

#[test]
fn a_malformed_body_closes_the_connection() {
    let origin = origin(&echo());
    let mut client = Client::connect(origin.address());
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcdef");
    assert_eq!(client.receive(false).status, 400);
    let mut client = Client::connect(origin.address());
    let mut request = chunked(&bytes(100_000));
    request.truncate(request.len() - 5);
    request.extend_from_slice(b"zz\r\n");
    client.send(request);
    while client.fill() > 0 {}
    assert!(client.read.starts_with(b"HTTP/1.1 200 OK\r\n"));
    check_counts(&origin.stats(), 2, &[(400, 1)]);
}
