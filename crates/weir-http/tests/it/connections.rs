//! Checks the properties in `property.rs` for example connections and for random mutations of them.

use weir_http::{HeadError, ResponseTo};

use crate::property::{self, Event, Side, check, check_quickly, read};
use crate::seeds::{REQUESTS, RESPONSES};

const SIDES: [Side; 4] = [
    Side::Requests,
    Side::Responses(ResponseTo::Other),
    Side::Responses(ResponseTo::Head),
    Side::Responses(ResponseTo::Connect),
];

/// Fragments that often change how a parser reads a message.
const PIECES: [&str; 24] = [
    "\r\n",
    "\n",
    "\r",
    " ",
    "\t",
    "\0",
    ":",
    ",",
    ";",
    "\"",
    "0\r\n\r\n",
    "5",
    "-",
    "+",
    "\u{b}",
    "\u{e9}",
    "Content-Length: 5\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Host: b\r\n",
    "Connection: close\r\n",
    "chunked",
    "HTTP/1.0",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
];

/// A simple generator of random numbers (splitmix64). With a fixed seed, so that failures can be reproduced.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound.max(1) as u64) as usize
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len() + 1);
        let end = (at + 1 + self.below(12)).min(bytes.len());
        match self.below(5) {
            0 => drop(bytes.splice(at..at, PIECES[self.below(PIECES.len())].bytes())),
            1 => drop(bytes.splice(at..end, PIECES[self.below(PIECES.len())].bytes())),
            2 => drop(bytes.drain(at..end)),
            3 => bytes.extend_from_within(at..end),
            _ if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            _ => {}
        }
    }

    fn connection(&mut self, seeds: &[&str]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..=self.below(2) {
            bytes.extend_from_slice(seeds[self.below(seeds.len())].as_bytes());
        }
        for _ in 0..=self.below(3) {
            self.mutate(&mut bytes);
        }
        bytes
    }
}

fn seeds_of(side: Side) -> &'static [&'static str] {
    if side == Side::Requests { REQUESTS } else { RESPONSES }
}

#[test]
fn seeds_hold_when_split_at_every_byte() {
    for side in SIDES {
        for seed in seeds_of(side) {
            check(side, seed.as_bytes(), 5);
        }
    }
}

#[test]
fn mutations_hold_when_split_at_every_byte() {
    let mut random = Random(1);
    for round in 0..400 {
        let side = SIDES[round % SIDES.len()];
        let connection = random.connection(seeds_of(side));
        check(side, &connection, 1 + random.below(40));
    }
}

#[test]
fn many_mutations_hold() {
    let mut random = Random(2);
    let (mut messages, mut errors) = (0, 0);
    for round in 0..20_000 {
        let side = SIDES[round % SIDES.len()];
        let connection = random.connection(seeds_of(side));
        check_quickly(side, &connection, 1 + random.below(40));
        for event in read(side, [&connection[..]]) {
            match event {
                Event::Message(_) => messages += 1,
                Event::HeadError(_) | Event::BodyError(_) => errors += 1,
                Event::Tunnel(_) | Event::HeadCutOff(_) => {}
            }
        }
    }
    // If nearly all inputs were accepted, or nearly all rejected, this test would prove little.
    assert!(messages > 5_000 && errors > 5_000, "{messages} messages, {errors} errors");
}

#[test]
fn headers_at_the_size_limit_hold_when_split_at_every_byte() {
    let limits = property::limits();
    for excess in 0..3 {
        let start = "GET / HTTP/1.1\r\nHost: a\r\nX: ";
        let filler = "x".repeat(limits.head_bytes + excess - 1 - start.len() - 4);
        let connection = format!("{start}{filler}\r\n\r\nGET /");
        check(Side::Requests, connection.as_bytes(), 100);
        let events = read(Side::Requests, [connection.as_bytes()]);
        assert_eq!(events.contains(&Event::HeadError(HeadError::TooLarge)), excess > 1);
    }
}
