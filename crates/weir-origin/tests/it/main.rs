//! Tests of the origin with real sockets. They check what it counts.

#![allow(clippy::unwrap_used)]

mod echo;
mod faults;
mod http1;
mod http2;
mod timing;
mod tls;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use weir_origin::{Origin, OriginSpec, Stats, start};

pub(crate) fn spec() -> OriginSpec {
    OriginSpec { body_bytes: 64, ..OriginSpec::at(([127, 0, 0, 1], 0).into()) }
}

pub(crate) fn origin(spec: &OriginSpec) -> Origin {
    start(spec).expect("a free port is listened on")
}

/// A client. It keeps bytes that follow the end of a response.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    pub(crate) read: Vec<u8>,
}

pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the origin accepts");
        // If a test hangs, this time-out makes it fail.
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout can be set");
        Self { stream, read: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("the origin reads");
    }

    pub(crate) fn get(&mut self, path: &str) -> Response {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        self.receive(false)
    }

    pub(crate) fn receive(&mut self, head_only: bool) -> Response {
        let end = loop {
            if let Some(at) = self.read.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(self.fill() > 0, "the origin closed within a head: {:?}", self.read);
        };
        let head = String::from_utf8(self.read.drain(..end).collect()).expect("heads are text");
        let status = head[9..12].parse().expect("a status");
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("Content-Length: "))
            .map_or(0, |length| length.parse::<usize>().expect("a length"));
        let length = if head_only { 0 } else { length };
        while self.read.len() < length {
            assert!(self.fill() > 0, "the origin closed within a body");
        }
        Response { status, head, body: self.read.drain(..length).collect() }
    }

    pub(crate) fn fill(&mut self) -> usize {
        let mut buffer = [0; 65_536];
        let read = self.stream.read(&mut buffer).expect("the origin answers or closes");
        self.read.extend_from_slice(&buffer[..read]);
        read
    }

    pub(crate) fn is_at_end(&mut self) -> bool {
        self.read.is_empty() && self.fill() == 0
    }
}

#[track_caller]
pub(crate) fn check_counts(stats: &Stats, requests: u64, by_status: &[(u16, u64)]) {
    assert_eq!(stats.requests, requests);
    assert_eq!(
        stats.by_status.iter().map(|(status, count)| (*status, *count)).collect::<Vec<_>>(),
        by_status
    );
    assert_eq!(stats.responses, by_status.iter().map(|(_, count)| count).sum::<u64>());
}
