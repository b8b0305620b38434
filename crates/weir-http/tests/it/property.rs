//! Properties that every connection must have, for any bytes. The fuzz target includes this file.
//!
//! - Nothing panics, and a decoder with input makes progress or is done.
//! - The result does not depend on where the input is split.
//! - If a proxy forwards an accepted message, the next reader finds the same framing, body and trailers, and no further
//!   bytes.

use weir_http::{
    BodyDecoder, BodyError, CHUNK_END, FieldSlots, Framing, HeadError, HeadLimits, ResponseTo,
    append_chunk_header, append_field, append_framing, append_last_chunk, append_request_line,
    append_status_line_with_reason, parse_request, parse_response,
};

/// Whether the connection carries requests or responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Requests,
    /// Responses, all to requests of this kind.
    Responses(ResponseTo),
}

/// One event that a reader of the connection reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    Message(Message),
    HeadError(HeadError),
    BodyError(BodyError),
    /// The connection became a tunnel, and this number of bytes follows.
    Tunnel(usize),
    /// The input ended within the headers, after this number of their bytes.
    HeadCutOff(usize),
}

/// A complete message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<u8>,
}

/// The parsed headers of a message, without borrowing from the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    /// For a request: method, target, host and path. For a response: status and reason phrase.
    pub(crate) start: Vec<String>,
    pub(crate) framing: Framing,
    pub(crate) keep_alive: bool,
    pub(crate) upgrade: bool,
    pub(crate) interim: bool,
    /// The headers in the form in which a proxy forwards them.
    pub(crate) forwarded: Vec<u8>,
}

/// Limits for the tests. They are small, so that the inputs reach them.
pub(crate) fn limits() -> HeadLimits {
    HeadLimits { head_bytes: 2048, target_bytes: 256, fields: 20 }
}

/// Checks all properties. Reads `bytes` whole, byte by byte, in pieces of `stride` bytes, and in two pieces, split at
/// every position.
pub(crate) fn check(side: Side, bytes: &[u8], stride: usize) {
    let whole = read(side, [bytes]);
    assert_eq!(whole, read(side, bytes.chunks(stride.max(1))), "cut in pieces of {stride}");
    assert_eq!(whole, read(side, bytes.chunks(1)), "byte by byte");
    for cut in 0..=bytes.len() {
        let (first, second) = bytes.split_at(cut);
        assert_eq!(whole, read(side, [first, second]), "cut at {cut}");
    }
    check_forwarding(side, &whole);
}

/// Checks the properties that are fast to check: reading in pieces of `stride` bytes, and forwarding.
pub(crate) fn check_quickly(side: Side, bytes: &[u8], stride: usize) {
    let whole = read(side, [bytes]);
    assert_eq!(whole, read(side, bytes.chunks(stride.max(1))), "cut in pieces of {stride}");
    check_forwarding(side, &whole);
}

/// Reads a connection whose input arrives in these pieces, and returns all events.
pub(crate) fn read<'a>(side: Side, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Event> {
    let mut reader = Reader { side, buffer: Vec::new(), body: None, events: Vec::new(), ended: false };
    for piece in pieces {
        reader.buffer.extend_from_slice(piece);
        reader.read_on();
    }
    reader.finish();
    reader.events
}

struct Reader {
    side: Side,
    buffer: Vec<u8>,
    body: Option<(BodyDecoder, Message)>,
    events: Vec<Event>,
    ended: bool,
}

impl Reader {
    fn read_on(&mut self) {
        while !self.ended {
            let goes_on = if self.body.is_some() { self.read_body() } else { self.read_head() };
            if !goes_on {
                break;
            }
        }
    }

    fn read_head(&mut self) -> bool {
        match parse(self.side, &self.buffer) {
            Ok(None) => {
                assert!(self.buffer.len() < limits().head_bytes, "waits beyond the limit");
                return false;
            }
            Err(error) => {
                self.events.push(Event::HeadError(error));
                self.ended = true;
            }
            Ok(Some((head, head_len))) => {
                assert!(head_len > 0 && head_len <= self.buffer.len().min(limits().head_bytes));
                self.buffer.drain(..head_len);
                let is_tunnel = head.upgrade && self.side != Side::Requests;
                let decoder = BodyDecoder::new(head.framing);
                self.body = Some((decoder, Message { head, body: Vec::new(), trailers: Vec::new() }));
                if is_tunnel {
                    self.end_message();
                    self.ended = true;
                }
            }
        }
        true
    }

    fn read_body(&mut self) -> bool {
        let Some((decoder, message)) = &mut self.body else { return false };
        let step = match decoder.step(&self.buffer) {
            Ok(step) => step,
            Err(error) => {
                self.events.push(Event::BodyError(error));
                self.ended = true;
                self.body = None;
                return false;
            }
        };
        assert!(step.consumed > 0 || step.done || self.buffer.is_empty(), "no progress");
        assert!(step.data.end <= step.consumed && step.consumed <= self.buffer.len());
        assert_eq!(step.done, decoder.is_done());
        message.body.extend_from_slice(&self.buffer[step.data]);
        self.buffer.drain(..step.consumed);
        if step.done {
            self.end_message();
        }
        step.done || !self.buffer.is_empty()
    }

    fn end_message(&mut self) {
        if let Some((decoder, mut message)) = self.body.take() {
            message.trailers = decoder.trailers().to_vec();
            self.events.push(Event::Message(message));
        }
    }

    fn finish(&mut self) {
        match &self.body {
            Some((decoder, _)) => match decoder.finish() {
                Ok(()) => self.end_message(),
                Err(error) => self.events.push(Event::BodyError(error)),
            },
            None if !self.ended && !self.buffer.is_empty() => {
                self.events.push(Event::HeadCutOff(self.buffer.len()));
            }
            None if self.ended && matches!(self.events.last(), Some(Event::Message(_))) => {
                self.events.push(Event::Tunnel(self.buffer.len()));
            }
            None => {}
        }
    }
}

fn parse(side: Side, buf: &[u8]) -> Result<Option<(Head, usize)>, HeadError> {
    let mut slots = FieldSlots::new();
    match side {
        Side::Requests => {
            let Some(head) = parse_request(buf, &limits(), &mut slots)? else { return Ok(None) };
            let mut forwarded = Vec::new();
            append_request_line(&mut forwarded, head.method, head.target);
            if head.field("host").is_none() {
                append_field(
                    &mut forwarded,
                    "Host",
                    if head.host.is_empty() { "x" } else { head.host }.as_bytes(),
                );
            }
            head.end_to_end().for_each(|field| append_field(&mut forwarded, field.name, field.value));
            let start = [head.method, head.target, head.host, head.path_and_query].map(str::to_owned);
            let (keep_alive, upgrade) = (head.keep_alive, head.upgrade);
            end_forwarded(&mut forwarded, head.framing);
            let framing = head.framing;
            let head_len = head.head_len;
            Ok(Some((
                Head { start: start.into(), framing, keep_alive, upgrade, interim: false, forwarded },
                head_len,
            )))
        }
        Side::Responses(request_was) => {
            let Some(head) = parse_response(buf, request_was, &limits(), &mut slots)? else {
                return Ok(None);
            };
            let mut forwarded = Vec::new();
            append_status_line_with_reason(&mut forwarded, head.status, head.reason);
            head.end_to_end().for_each(|field| append_field(&mut forwarded, field.name, field.value));
            end_forwarded(&mut forwarded, head.framing);
            let start = vec![head.status.to_string(), head.reason.to_owned()];
            let (keep_alive, upgrade, interim) = (head.keep_alive, head.upgrade, head.interim);
            let head_len = head.head_len;
            Ok(Some((
                Head { start, framing: head.framing, keep_alive, upgrade, interim, forwarded },
                head_len,
            )))
        }
    }
}

/// Ends the forwarded headers. If the body is chunked, first adds a new Transfer-Encoding, because the received one is
/// never forwarded. Content-Length was forwarded with the other fields.
fn end_forwarded(forwarded: &mut Vec<u8>, framing: Framing) {
    if framing == Framing::Chunked {
        append_framing(forwarded, framing);
    }
    forwarded.extend_from_slice(b"\r\n");
}

fn check_forwarding(side: Side, events: &[Event]) {
    for event in events {
        let Event::Message(message) = event else { continue };
        let mut bytes = message.head.forwarded.clone();
        if bytes.len() > limits().head_bytes {
            // A space is added after each colon, so the forwarded headers may exceed the limit.
            continue;
        }
        match message.head.framing {
            Framing::Chunked => {
                for piece in message.body.chunks(7) {
                    append_chunk_header(&mut bytes, piece.len());
                    bytes.extend_from_slice(piece);
                    bytes.extend_from_slice(CHUNK_END);
                }
                append_last_chunk(&mut bytes, &message.trailers);
            }
            _ => bytes.extend_from_slice(&message.body),
        }
        let events = read(side, [&bytes[..]]);
        let Some(Event::Message(again)) = events.first() else {
            panic!("forwarded, {:?} is {events:?}", String::from_utf8_lossy(&bytes));
        };
        assert_eq!(again.head.framing, message.head.framing);
        assert_eq!(again.head.start[0], message.head.start[0]);
        if side == Side::Requests && !message.head.start[2].is_empty() {
            assert_eq!(again.head.start, message.head.start);
        }
        assert_eq!((&again.body, &again.trailers), (&message.body, &message.trailers));
        let rest = if again.head.upgrade && side != Side::Requests { &[Event::Tunnel(0)][..] } else { &[] };
        assert_eq!(&events[1..], rest, "forwarded, one message became more");
    }
}
