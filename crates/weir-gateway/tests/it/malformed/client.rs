//! The client: sends a case and then the marked request, and checks the responses.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use weir_http::{BodyDecoder, FieldSlots, HeadLimits, ResponseTo, parse_response};

use super::classes::{Class, First};
use super::draft::{Draft, Random};

/// What one client connection sends.
pub(crate) struct Case {
    pub(crate) class: &'static Class,
    pub(crate) number: usize,
    pieces: Vec<Vec<u8>>,
}

/// One response.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    /// The `X-Id` of the request that the origin responded to; empty if the gateway responded.
    served: String,
}

/// How the connection ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Closed,
    /// The marked request got a response, and the connection was still open.
    Marked,
    /// No response to the marked request, and no close, within the timeout.
    Hanging,
    /// Bytes that are not a response.
    Garbage(String),
}

impl Case {
    /// Generates a case. The same class, variation and number give the same case.
    pub(crate) fn new(class: &'static Class, variation: usize, number: usize) -> Case {
        let mut draft = Draft { random: Random(number as u64), number, variation };
        let mut bytes = (class.draft)(&mut draft);
        let marked = format!("GET /marked HTTP/1.1\r\nHost: example.com\r\nX-Id: marked-{number}\r\n\r\n");
        bytes.extend_from_slice(marked.as_bytes());
        let mut pieces = Vec::new();
        for _ in 0..draft.random.below(4) {
            let end = bytes.split_off(draft.random.below(bytes.len()));
            pieces.push(end);
        }
        pieces.push(bytes);
        pieces.reverse();
        Case { class, number, pieces }
    }

    /// Identifiers of the requests that must be served.
    pub(crate) fn served(&self) -> Vec<String> {
        let (first, marked) = (format!("first-{}", self.number), format!("marked-{}", self.number));
        match self.class.first {
            First::Served => vec![first, marked],
            First::ServedThenRefused => vec![first],
            First::Refused | First::RefusedInBody => vec![],
        }
    }

    /// Identifier of a request that may reach the origin without its whole body.
    pub(crate) fn cut_off(&self) -> Option<String> {
        (self.class.first == First::RefusedInBody).then(|| format!("first-{}", self.number))
    }

    /// Sends the case. Returns what is wrong with the responses, if anything.
    pub(crate) fn run(&self, gateway: SocketAddr, patience: Duration) -> Option<String> {
        let (answers, end) = match self.exchange(gateway, patience) {
            Ok(exchange) => exchange,
            Err(error) => return Some(format!("{}: {error}", self.describe())),
        };
        let mut expected = self.served().into_iter();
        let mut rest = answers.iter();
        for id in expected.by_ref() {
            if rest.next() != Some(&Answer { status: 200, served: id }) {
                return Some(format!("{}: answered {answers:?}, {end:?}", self.describe()));
            }
        }
        let is_right = match self.class.first {
            First::Served => rest.len() == 0 && end == End::Marked,
            _ => rest.len() <= 1 && rest.all(is_refusal) && end == End::Closed,
        };
        (!is_right).then(|| format!("{}: answered {answers:?}, {end:?}", self.describe()))
    }

    fn describe(&self) -> String {
        let bytes = self.pieces.concat();
        let text: String = String::from_utf8_lossy(&bytes).chars().take(300).collect();
        format!("{} ({}) {text:?}", self.class.name, self.number)
    }

    fn exchange(&self, gateway: SocketAddr, patience: Duration) -> std::io::Result<(Vec<Answer>, End)> {
        let mut stream = TcpStream::connect(gateway)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        for piece in &self.pieces {
            // The gateway may reject and close the connection before it has read everything.
            if stream.write_all(piece).is_err() {
                break;
            }
        }
        let marked = format!("marked-{}", self.number);
        let mut received = Vec::new();
        let mut buffer = [0; 16 * 1024];
        let mut end = None;
        while end.is_none() {
            end = match stream.read(&mut buffer) {
                Ok(0) => Some(End::Closed),
                Ok(count) => {
                    received.extend_from_slice(&buffer[..count]);
                    let answers = answers(&received).0;
                    answers.iter().any(|answer| answer.served == marked).then_some(End::Marked)
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    Some(End::Hanging)
                }
                Err(_) => Some(End::Closed),
            };
        }
        // The gateway may have closed the connection already.
        let _ = stream.shutdown(Shutdown::Both);
        let (answers, rest) = answers(&received);
        let garbage = (!rest.is_empty()).then(|| End::Garbage(String::from_utf8_lossy(rest).into_owned()));
        Ok((answers, garbage.or(end).unwrap_or(End::Closed)))
    }
}

/// Whether the gateway rejected a malformed request.
fn is_refusal(answer: &Answer) -> bool {
    matches!(answer.status, 400 | 413 | 414 | 417 | 431 | 501 | 505) && answer.served.is_empty()
}

/// The complete responses in these bytes, and the remaining bytes.
fn answers(mut bytes: &[u8]) -> (Vec<Answer>, &[u8]) {
    let mut answers = Vec::new();
    loop {
        let mut slots = FieldSlots::new();
        let parsed = parse_response(bytes, ResponseTo::Other, &HeadLimits::default(), &mut slots);
        let Ok(Some(head)) = parsed else { return (answers, bytes) };
        let served = String::from_utf8_lossy(head.field("x-served").unwrap_or(b"")).into_owned();
        let mut decoder = BodyDecoder::new(head.framing);
        let mut rest = &bytes[head.head_len..];
        while !decoder.is_done() {
            match decoder.step(rest) {
                Ok(step) if step.consumed > 0 || step.done => rest = &rest[step.consumed..],
                _ if decoder.finish().is_ok() => break,
                _ => return (answers, bytes),
            }
        }
        bytes = rest;
        if !head.interim {
            answers.push(Answer { status: head.status, served });
        }
    }
}
