//! One connection: requests in, answers out, in order.
//!
//! ```text
//! receive head -> (100 Continue) -> drain body -> wait out the delay -> write the answer -> receive head ...
//!       \-> malformed: refuse, linger, end
//! ```

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use weir_http::{BodyDecoder, CONTINUE, FieldSlots, Framing, HeadLimits, parse_request};
use weir_io::mono_ns;

use crate::answer::{Answer, Persistence};
use crate::idle::Activity;
use crate::stats::Stats;
use crate::worker::Worker;

/// Paths that start with this are the origin's own, and are not counted.
const OWN_PREFIX: &str = "/__weir/";

/// How long, and how far, a refused connection is read on, so that its client gets to see the refusal.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES_MAX: usize = 256 * 1024;

struct Connection {
    worker: Rc<Worker>,
    id: u64,
    activity: Rc<Activity>,
    stream: TcpStream,
    /// What was read and not yet used, from `carry_start` on: the begin of a head, or requests sent ahead.
    carry: Vec<u8>,
    carry_start: usize,
    body: Option<BodyDecoder>,
    request: Option<Request>,
}

/// What has to be known of a request to answer it.
#[derive(Clone, Copy, Debug)]
struct Request {
    kind: Kind,
    head_only: bool,
    persistence: Persistence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Good,
    Error,
    Stats,
    /// Below the origin's own paths, and not there.
    Unknown,
}

/// Where a look at the input has led.
enum Progress {
    /// All of the input is used up, or a head is not whole yet.
    More,
    /// The client waits for leave to send its body.
    Continue,
    Whole(Request),
    Refused(u16, String),
}

/// Serves a connection to its end.
pub(crate) async fn run(worker: Rc<Worker>, id: u64, activity: Rc<Activity>, stream: TcpStream) {
    let mut connection = Connection {
        worker,
        id,
        activity,
        stream,
        carry: Vec::new(),
        carry_start: 0,
        body: None,
        request: None,
    };
    // Whatever breaks a connection is the peer's business; it ends here, and the books show what was sent.
    let _ = connection.serve().await;
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.worker.connections.leave(self.id);
    }
}

impl Connection {
    async fn serve(&mut self) -> io::Result<()> {
        self.stream.set_nodelay(true)?;
        loop {
            match self.receive().await? {
                Progress::Whole(request) => {
                    self.answer(request).await?;
                    if request.persistence == Persistence::Closed {
                        return self.stream.shutdown().await;
                    }
                }
                Progress::Continue => self.stream.write_all(CONTINUE).await?,
                Progress::Refused(status, cause) => {
                    self.write(&Answer::refusal(status, &cause), false, true).await?;
                    return self.linger().await;
                }
                Progress::More => return Ok(()),
            }
        }
    }

    /// Reads until something has to be done; `More` is the peer's end of the connection.
    async fn receive(&mut self) -> io::Result<Progress> {
        if !self.carry.is_empty() {
            let progress = self.advance_carry();
            if !matches!(progress, Progress::More) {
                return Ok(progress);
            }
        }
        loop {
            let read = self.read().await?;
            if read == 0 {
                return Ok(Progress::More);
            }
            // No other task runs between the read and the next await, so what was read is still there.
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

    /// Goes on with what was kept; keeps what is left of it, and no memory where nothing is.
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

    /// Goes on with the input; says how much of it was used, and what is to be done now.
    fn advance(&mut self, input: &[u8]) -> (usize, Progress) {
        let mut used = 0;
        if self.request.is_none() {
            let mut slots = FieldSlots::new();
            let head = match parse_request(input, &HeadLimits::default(), &mut slots) {
                Ok(Some(head)) => head,
                Ok(None) => return (0, Progress::More),
                Err(error) => return (input.len(), Progress::Refused(error.status(), error.to_string())),
            };
            if head.method == "CONNECT" {
                return (input.len(), Progress::Refused(501, "this is no proxy".to_owned()));
            }
            used = head.head_len;
            let request = Request {
                kind: self.classify(head.path_and_query),
                head_only: head.method == "HEAD",
                persistence: Persistence::of(head.version, head.keep_alive),
            };
            if matches!(head.framing, Framing::None | Framing::Length(0)) {
                return (used, Progress::Whole(request));
            }
            self.request = Some(request);
            self.body = Some(BodyDecoder::new(head.framing));
            if head.expect_continue && used == input.len() {
                return (used, Progress::Continue);
            }
        }
        self.drain(input, used)
    }

    /// Reads over the body.
    fn drain(&mut self, input: &[u8], mut used: usize) -> (usize, Progress) {
        let Some(body) = &mut self.body else { return (used, Progress::More) };
        while used < input.len() {
            match body.step(&input[used..]) {
                Ok(step) => {
                    used += step.consumed;
                    if step.done {
                        self.body = None;
                        let request = self.request.take();
                        return (used, request.map_or(Progress::More, Progress::Whole));
                    }
                }
                Err(error) => return (input.len(), Progress::Refused(error.status(), error.to_string())),
            }
        }
        (used, Progress::More)
    }

    /// Counts the request, unless it asks for the counts.
    #[inline]
    fn classify(&self, path_and_query: &str) -> Kind {
        if path_and_query.starts_with(OWN_PREFIX) {
            let path = path_and_query.split('?').next().unwrap_or("");
            return if path == "/__weir/stats" { Kind::Stats } else { Kind::Unknown };
        }
        self.worker.counters.request();
        if self.worker.errors.next_is_picked() { Kind::Error } else { Kind::Good }
    }

    async fn answer(&mut self, request: Request) -> io::Result<()> {
        let Request { kind, head_only, persistence } = request;
        let is_error = match kind {
            Kind::Good => false,
            Kind::Error => true,
            Kind::Stats => {
                let stats = Stats::of(&self.worker.all_counters);
                let json = serde_json::to_string(&stats).map_err(io::Error::other)?;
                let answer = Answer::of_text(200, persistence, "application/json", &json);
                return self.write(&answer, head_only, false).await;
            }
            Kind::Unknown => {
                let answer = Answer::of_text(404, persistence, "text/plain", "only /__weir/stats is here\n");
                return self.write(&answer, head_only, false).await;
            }
        };
        if let Some(delay_ns) = self.worker.delay_ns {
            self.wait(delay_ns).await;
        }
        let answers = Rc::clone(&self.worker.answers.borrow());
        self.write(answers.pick(is_error, persistence), head_only, true).await
    }

    async fn wait(&self, delay_ns: u64) {
        let asked_ns = mono_ns();
        self.activity.set_waiting(true);
        self.worker.sleepers.until(asked_ns.saturating_add(delay_ns)).await;
        self.activity.set_waiting(false);
        self.worker.counters.delayed(mono_ns() - asked_ns);
    }

    /// Writes an answer: in one write where the kernel takes it.
    async fn write(&mut self, answer: &Answer, head_only: bool, is_counted: bool) -> io::Result<()> {
        if is_counted {
            self.worker.counters.response(answer.status);
        }
        let result = self.write_whole(answer, head_only, is_counted).await;
        if is_counted && result.is_err() {
            self.worker.counters.response_failed(answer.status);
        }
        result
    }

    async fn write_whole(&mut self, answer: &Answer, head_only: bool, is_counted: bool) -> io::Result<()> {
        self.write_piece(answer.first(head_only), is_counted).await?;
        let mut rest_bytes = answer.rest_bytes(head_only);
        while rest_bytes > 0 {
            let piece = answer.piece(rest_bytes);
            self.write_piece(piece, is_counted).await?;
            rest_bytes -= piece.len() as u64;
        }
        Ok(())
    }

    /// Counts first, as with responses: what a client has seen has been counted.
    async fn write_piece(&mut self, mut bytes: &[u8], is_counted: bool) -> io::Result<()> {
        if is_counted {
            self.worker.counters.sent(bytes.len());
        }
        while !bytes.is_empty() {
            let written = poll_fn(|cx| Pin::new(&mut self.stream).poll_write(cx, bytes)).await;
            let Ok(written @ 1..) = written else {
                if is_counted {
                    self.worker.counters.not_sent(bytes.len());
                }
                return written.and(Err(io::ErrorKind::WriteZero.into()));
            };
            self.activity.touch(&self.worker.connections);
            bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Reads into the worker's buffer; 0 is the end.
    #[inline]
    async fn read(&mut self) -> io::Result<usize> {
        let read = poll_fn(|cx| {
            let mut scratch = self.worker.scratch.borrow_mut();
            let mut buffer = ReadBuf::new(&mut scratch);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) => Poll::Ready(Ok(buffer.filled().len())),
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Pending => Poll::Pending,
            }
        })
        .await?;
        self.activity.touch(&self.worker.connections);
        Ok(read)
    }

    /// Ends the connection so that the client can read the last answer: closing with unread input would
    /// reset it.
    async fn linger(&mut self) -> io::Result<()> {
        self.stream.shutdown().await?;
        let read_on = async {
            let mut seen_bytes = 0;
            while seen_bytes < LINGER_BYTES_MAX {
                match self.read().await {
                    Ok(0) | Err(_) => break,
                    Ok(read) => seen_bytes += read,
                }
            }
        };
        // Its time is over either way.
        let _ = tokio::time::timeout(LINGER, read_on).await;
        Ok(())
    }
}
