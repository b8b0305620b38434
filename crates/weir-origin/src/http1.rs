//! HTTP/1.1: reads requests and writes their responses in order.
//!
//! ```text
//! receive headers -> (100 Continue) -> drain body -> wait until due -> write the response -> receive headers ...
//!       \                                \-> echo: starts once enough is buffered; forwards the rest as it arrives
//!        \-> malformed: reject, linger, close
//! ```

mod send;

use std::io;
use std::rc::Rc;

use tokio::io::AsyncWriteExt;
use weir_http::{BodyDecoder, CONTINUE, FieldSlots, Framing, HeadLimits, RequestHead, parse_request};

use crate::answer::{Answer, Persistence};
use crate::decision::{ECHO_HELD_BYTES, Kind, is_own};
use crate::idle::Activity;
use crate::outcome::Outcome;
use crate::stream::Stream;
use crate::worker::Worker;

/// Which paths may be requested on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    All,
    OwnPaths,
}

struct Connection {
    worker: Rc<Worker>,
    activity: Rc<Activity>,
    stream: Stream,
    reach: Reach,
    /// Number of responses so far. It is counted only if the specification limits the requests per connection.
    answered: u32,
    /// Input that is not used yet, from position `carry_start`: incomplete headers or pipelined requests.
    carry: Vec<u8>,
    carry_start: usize,
    /// Decoder of the request body that is being read.
    body: Option<BodyDecoder>,
    request: Option<Request>,
    /// Bytes of a request body that an echo has not sent yet.
    held: Vec<u8>,
    is_held: bool,
}

/// The parts of a request that affect its response.
#[derive(Debug)]
struct Request {
    kind: Kind,
    head_only: bool,
    persistence: Persistence,
    echo: Option<Box<Echo>>,
}

/// The properties of a request, besides its body, that determine an echo response.
#[derive(Debug)]
struct Echo {
    media_type: Option<Vec<u8>>,
    /// Length of the request body; `None` if the request does not declare it.
    body_bytes: Option<u64>,
}

/// What to do after parsing the input.
enum Progress {
    /// More input is needed: the input is used up, or the headers are incomplete.
    More,
    /// The client waits for `100 Continue`.
    Continue,
    /// Enough of the request has arrived to respond.
    Whole(Request),
    /// More of the request body is buffered for an echo, or the body has ended.
    Piece,
    Refused(u16, String),
}

/// Serves a connection until it closes. `first` are the bytes already read from it.
pub(crate) async fn serve(
    worker: Rc<Worker>,
    activity: Rc<Activity>,
    stream: Stream,
    first: Vec<u8>,
    reach: Reach,
) -> io::Result<()> {
    let mut connection = Connection {
        worker,
        activity,
        stream,
        reach,
        answered: 0,
        carry: first,
        carry_start: 0,
        body: None,
        request: None,
        held: Vec::new(),
        is_held: false,
    };
    connection.serve().await
}

impl Connection {
    async fn serve(&mut self) -> io::Result<()> {
        loop {
            match self.receive().await? {
                Progress::Whole(mut request) => {
                    self.limit(&mut request);
                    let persistence = request.persistence;
                    self.answer(request).await?;
                    if persistence == Persistence::Closed {
                        return self.stream.shutdown().await;
                    }
                }
                Progress::Continue => self.write_plainly(CONTINUE).await?,
                Progress::Refused(status, cause) => {
                    self.write(&Answer::refusal(status, &cause), false, true).await?;
                    return self.linger().await;
                }
                // The client has closed its side of the connection.
                Progress::More | Progress::Piece => return Ok(()),
            }
        }
    }

    /// Makes this request the last one of the connection, if the specification limits the requests per connection
    /// and the limit is reached.
    #[inline]
    fn limit(&mut self, request: &mut Request) {
        if let (Some(last), Kind::Counted(_)) = (self.worker.shared.spec.close_after, request.kind) {
            self.answered += 1;
            if self.answered >= last.get() {
                request.persistence = Persistence::Closed;
            }
        }
    }

    /// Reads and parses input until there is something to do. Returns `More` if the client has closed its side of the
    /// connection.
    async fn receive(&mut self) -> io::Result<Progress> {
        if !self.carry.is_empty() {
            let progress = self.advance_carry();
            if !matches!(progress, Progress::More) {
                return Ok(progress);
            }
        }
        loop {
            let read = self.stream.read_into(&self.worker, &self.activity).await?;
            if read == 0 {
                return Ok(Progress::More);
            }
            // No other task runs between the read and the next `await`, so the buffer that all connections share
            // still contains what was read.
            let worker = Rc::clone(&self.worker);
            let scratch = worker.scratch.borrow();
            let fresh = &scratch[..read];
            let progress = if self.carry.is_empty() {
                let (used, progress) = self.advance(fresh);
                self.carry.extend_from_slice(&fresh[used..]);
                progress
            } else {
                self.carry.drain(..std::mem::take(&mut self.carry_start));
                self.carry.extend_from_slice(fresh);
                self.advance_carry()
            };
            if !matches!(progress, Progress::More) {
                return Ok(progress);
            }
        }
    }

    /// Parses the input that earlier calls kept. Keeps the unused rest, or frees the memory if nothing is left.
    fn advance_carry(&mut self) -> Progress {
        let carry = std::mem::take(&mut self.carry);
        let (used, progress) = self.advance(&carry[self.carry_start..]);
        self.carry_start += used;
        if self.carry_start < carry.len() {
            self.carry = carry;
        } else {
            self.carry_start = 0;
        }
        progress
    }

    /// Parses the input. Returns how much of it was used and what to do next.
    fn advance(&mut self, input: &[u8]) -> (usize, Progress) {
        let mut used = 0;
        if self.body.is_none() {
            let mut slots = FieldSlots::new();
            let head = match parse_request(input, &HeadLimits::default(), &mut slots) {
                Ok(Some(head)) => head,
                Ok(None) => return (0, Progress::More),
                Err(error) => return (input.len(), Progress::Refused(error.status(), error.to_string())),
            };
            if head.method == "CONNECT" {
                return (
                    input.len(),
                    Progress::Refused(501, "the origin does not support CONNECT".to_owned()),
                );
            }
            if self.reach == Reach::OwnPaths && !is_own(head.path_and_query) {
                let why = "plain HTTP request sent to an HTTPS origin".to_owned();
                return (input.len(), Progress::Refused(400, why));
            }
            used = head.head_len;
            let request = self.request_of(&head);
            if matches!(head.framing, Framing::None | Framing::Length(0)) {
                return (used, Progress::Whole(request));
            }
            self.is_held = request.echo.is_some();
            self.request = Some(request);
            self.body = Some(BodyDecoder::new(head.framing));
            if head.expect_continue && used == input.len() {
                return (used, Progress::Continue);
            }
        }
        self.drain(input, used)
    }

    #[inline]
    fn request_of(&self, head: &RequestHead<'_>) -> Request {
        let kind = match self.worker.decide(head.path_and_query) {
            // Only HTTP/2 can refuse a stream.
            Kind::Counted(Outcome::Refused) => Kind::Counted(Outcome::Good),
            kind => kind,
        };
        let echo = (self.worker.shared.spec.is_echo && matches!(kind, Kind::Counted(_))).then(|| {
            let body_bytes = match head.framing {
                Framing::None => Some(0),
                Framing::Length(body_bytes) => Some(body_bytes),
                Framing::Chunked | Framing::UntilClose => None,
            };
            Box::new(Echo { media_type: head.field("content-type").map(<[u8]>::to_vec), body_bytes })
        });
        Request {
            kind,
            head_only: head.method == "HEAD",
            persistence: Persistence::of(head.version, head.keep_alive),
            echo,
        }
    }

    /// Decodes more of the request body. The bytes are discarded, unless an echo needs them.
    fn drain(&mut self, input: &[u8], mut used: usize) -> (usize, Progress) {
        let Some(body) = &mut self.body else { return (used, Progress::More) };
        // Before the response of an echo starts, bytes are buffered up to a limit. After that, they are forwarded
        // as they arrive.
        let enough_bytes = if self.request.is_some() { ECHO_HELD_BYTES } else { 1 };
        while used < input.len() {
            let step = match body.step(&input[used..]) {
                Ok(step) => step,
                Err(error) => return (input.len(), Progress::Refused(error.status(), error.to_string())),
            };
            if self.is_held {
                self.held.extend_from_slice(&input[used..][step.data.clone()]);
            }
            used += step.consumed;
            if step.done {
                self.body = None;
            } else if !self.is_held || self.held.len() < enough_bytes {
                continue;
            }
            return (used, self.request.take().map_or(Progress::Piece, Progress::Whole));
        }
        (used, Progress::More)
    }
}
