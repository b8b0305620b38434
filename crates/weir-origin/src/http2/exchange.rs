//! An HTTP/2 request whose response cannot be sent immediately: its body, its delay and its response.

use std::future::poll_fn;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Request, header};

use super::response;
use super::wire::Pressure;
use crate::answer::{ERROR_BODY, fields, place};
use crate::decision::ECHO_HELD_BYTES;
use crate::idle::{Activity, Waiting};
use crate::outcome::Outcome;
use crate::stats::Event;
use crate::worker::Worker;

/// Pause between two checks of a full socket. A stream is reset only after pending data is written.
const PRESSURE_PAUSE: Duration = Duration::from_millis(1);

/// An HTTP/2 request and everything that is needed for its response.
pub(super) struct Exchange {
    worker: Rc<Worker>,
    activity: Rc<Activity>,
    pressure: Rc<Pressure>,
    /// The connection is not idle while this value exists, even if responses have a long delay.
    _waiting: Waiting,
    body: RecvStream,
    media_type: Option<HeaderValue>,
    /// The length of the request body, as declared by the request.
    announced_bytes: Option<u64>,
    respond: SendResponse<Bytes>,
    outcome: Outcome,
    head_only: bool,
}

/// Either side has ended the stream or its connection.
struct Ended;

impl From<h2::Error> for Ended {
    fn from(_: h2::Error) -> Self {
        Self
    }
}

/// The parts of a response.
struct Content {
    status: u16,
    fields: HeaderMap,
    body: Body,
    /// The length of the body in bytes; `None` if it is not known.
    bytes: Option<u64>,
}

enum Body {
    /// These bytes, repeated until the length of the body is reached.
    Repeated(Bytes),
    /// These bytes of the request body, then the rest of it as it arrives.
    Echo(Bytes),
}

impl Exchange {
    pub(super) fn new(
        worker: Rc<Worker>,
        activity: Rc<Activity>,
        pressure: Rc<Pressure>,
        request: Request<RecvStream>,
        respond: SendResponse<Bytes>,
        outcome: Outcome,
        head_only: bool,
    ) -> Self {
        let (head, body) = request.into_parts();
        let length = head.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        let announced_bytes =
            if body.is_end_stream() { Some(0) } else { length.and_then(|text| text.parse().ok()) };
        Self {
            _waiting: activity.wait(),
            worker,
            activity,
            pressure,
            body,
            media_type: head.headers.get(header::CONTENT_TYPE).cloned(),
            announced_bytes,
            respond,
            outcome,
            head_only,
        }
    }

    /// Handles the request until its response is sent. Errors of the stream are caused by the client and ignored;
    /// the counters show what was sent.
    pub(super) async fn run(mut self) {
        let _ = self.answer().await;
    }

    async fn answer(&mut self) -> Result<(), Ended> {
        if self.outcome == Outcome::Silent {
            // Only the client can end this stream.
            return unless_reset(&mut self.respond, std::future::pending()).await;
        }
        let is_echo = self.worker.shared.spec.is_echo && self.outcome != Outcome::Error && !self.head_only;
        let held = if is_echo { self.hold().await? } else { self.drain().await? };
        let due = {
            let turn = self.worker.wait_until_due(&self.activity);
            unless_reset(&mut self.respond, async { Ok(turn.await) }).await?
        };
        if self.outcome == Outcome::Reset {
            self.worker.counters().event(Event::Reset);
            self.respond.send_reset(Reason::INTERNAL_ERROR);
            return Ok(());
        }
        let content = self.content(held);
        self.worker.begin_answer(due);
        match self.outcome {
            Outcome::Half => self.send_half(content).await,
            outcome => {
                if outcome == Outcome::Slow {
                    self.worker.counters().event(Event::Slow);
                }
                self.send_whole(content, outcome == Outcome::Slow).await
            }
        }
    }

    fn content(&self, held: Bytes) -> Content {
        let worker = &self.worker;
        let answers = Rc::clone(&worker.answers.borrow());
        let whole_bytes = worker.shared.spec.body_bytes;
        if self.outcome == Outcome::Error {
            let body = Body::Repeated(Bytes::from_static(ERROR_BODY));
            return Content {
                status: 500,
                fields: answers.fields(true).clone(),
                body,
                bytes: Some(ERROR_BODY.len() as u64),
            };
        }
        if !worker.shared.spec.is_echo {
            let body = Body::Repeated(worker.body.clone());
            return Content {
                status: 200,
                fields: answers.fields(false).clone(),
                body,
                bytes: Some(whole_bytes),
            };
        }
        let is_whole = self.body.is_end_stream() && !self.head_only;
        let bytes = if is_whole { Some(held.len() as u64) } else { self.announced_bytes };
        let fields = fields(self.media_type.clone(), &answers.date, bytes);
        Content { status: 200, fields, body: Body::Echo(held), bytes }
    }

    /// Buffers the part of the request body that an echo needs before its response starts.
    async fn hold(&mut self) -> Result<Bytes, Ended> {
        let mut held = BytesMut::new();
        while held.len() < ECHO_HELD_BYTES {
            let Some(piece) = self.receive().await? else { break };
            held.extend_from_slice(&piece);
        }
        Ok(held.freeze())
    }

    /// Reads the request body and discards it.
    async fn drain(&mut self) -> Result<Bytes, Ended> {
        while self.receive().await?.is_some() {}
        Ok(Bytes::new())
    }

    async fn receive(&mut self) -> Result<Option<Bytes>, Ended> {
        let Some(piece) = self.body.data().await else { return Ok(None) };
        let piece = piece?;
        self.body.flow_control().release_capacity(piece.len())?;
        Ok(Some(piece))
    }

    async fn send_whole(&mut self, content: Content, is_slow: bool) -> Result<(), Ended> {
        let Content { status, fields, body, bytes } = content;
        if self.head_only || bytes == Some(0) {
            self.worker.counters().response(status);
            let sent = self.respond.send_response(response(status, fields), true);
            return sent.map(drop).map_err(|error| self.failed(status, error.into()));
        }
        let mut send = self.respond.send_response(response(status, fields), false)?;
        match body {
            Body::Repeated(kept) => {
                let bytes = bytes.unwrap_or(kept.len() as u64);
                if !is_slow {
                    return self.send_repeated(&mut send, &kept, 0..bytes, Some(status)).await;
                }
                for (due_ns, piece) in self.worker.slow_pieces(bytes) {
                    self.pause(&mut send, due_ns).await?;
                    let last = (piece.end == bytes).then_some(status);
                    self.send_repeated(&mut send, &kept, piece, last).await?;
                }
                Ok(())
            }
            Body::Echo(mut held) => {
                let held_bytes = held.len() as u64;
                for (due_ns, piece) in self.worker.slow_pieces(held_bytes).filter(|_| is_slow) {
                    self.pause(&mut send, due_ns).await?;
                    let piece = held.split_to((piece.end - piece.start) as usize);
                    self.send(&mut send, piece).await?;
                }
                self.send(&mut send, held).await?;
                while let Some(piece) = self.receive().await? {
                    self.send(&mut send, piece).await?;
                }
                self.send_now(&mut send, Bytes::new(), Some(status))
            }
        }
    }

    /// Sends half of the body, or half of the buffered bytes if the length is unknown, and then resets the stream.
    async fn send_half(&mut self, content: Content) -> Result<(), Ended> {
        let Content { status, fields, body, bytes } = content;
        self.worker.counters().event(Event::Half);
        if self.head_only || bytes == Some(0) {
            self.respond.send_reset(Reason::INTERNAL_ERROR);
            return Ok(());
        }
        let mut send = self.respond.send_response(response(status, fields), false)?;
        match body {
            Body::Repeated(kept) => {
                let half = bytes.unwrap_or(kept.len() as u64) / 2;
                self.send_repeated(&mut send, &kept, 0..half, None).await?;
            }
            Body::Echo(mut held) => {
                let mut left_bytes = bytes.unwrap_or(held.len() as u64) / 2;
                while left_bytes > 0 {
                    held.truncate(usize::try_from(left_bytes).unwrap_or(usize::MAX));
                    left_bytes -= held.len() as u64;
                    self.send(&mut send, held).await?;
                    held = match left_bytes {
                        0 => Bytes::new(),
                        _ => self.receive().await?.ok_or(Ended)?,
                    };
                }
            }
        }
        self.let_out().await;
        send.send_reset(Reason::INTERNAL_ERROR);
        Ok(())
    }

    /// Sends the byte range `part` of a body that repeats the bytes `kept`. If the range ends the body, `last` is the
    /// status with which the response is counted.
    async fn send_repeated(
        &self,
        send: &mut SendStream<Bytes>,
        kept: &Bytes,
        mut part: Range<u64>,
        last: Option<u16>,
    ) -> Result<(), Ended> {
        while part.start < part.end {
            // A piece is at most as large as the flow-control window. Bytes beyond it would need another frame, and
            // clients treat many small frames as an attack.
            let wanted_bytes = usize::try_from(part.end - part.start).unwrap_or(usize::MAX).min(kept.len());
            let room_bytes = room(send, wanted_bytes).await?;
            let at = place(part.start);
            let end = kept.len().min(at + room_bytes.min(wanted_bytes));
            part.start += (end - at) as u64;
            let last = last.filter(|_| part.start == part.end);
            self.send_now(send, kept.slice(at..end), last)?;
        }
        Ok(())
    }

    /// Sends data in pieces, as the flow-control windows allow.
    async fn send(&self, send: &mut SendStream<Bytes>, mut data: Bytes) -> Result<(), Ended> {
        while !data.is_empty() {
            let room_bytes = room(send, data.len()).await?;
            let piece = data.split_to(room_bytes.min(data.len()));
            self.send_now(send, piece, None)?;
        }
        Ok(())
    }

    /// Sends data that fits into the flow-control window. If it is the last data of a response, `last` is the
    /// status of the response.
    fn send_now(&self, send: &mut SendStream<Bytes>, data: Bytes, last: Option<u16>) -> Result<(), Ended> {
        let (counters, data_bytes) = (self.worker.counters(), data.len());
        if let Some(status) = last {
            counters.response(status);
        }
        counters.sent(data_bytes);
        send.send_data(data, last.is_some()).map_err(|error| {
            counters.not_sent(data_bytes);
            last.map_or(Ended, |status| self.failed(status, error.into()))
        })
    }

    fn failed(&self, status: u16, ended: Ended) -> Ended {
        self.worker.counters().response_failed(status);
        ended
    }

    /// Waits until `due_ns` in the middle of a response, or until the client abandons the stream.
    async fn pause(&self, send: &mut SendStream<Bytes>, due_ns: u64) -> Result<(), Ended> {
        let mut wait = pin!(self.worker.wait_until(due_ns, &self.activity));
        poll_fn(|cx| match (wait.as_mut().poll(cx), send.poll_reset(cx)) {
            (Poll::Ready(()), _) => Poll::Ready(Ok(())),
            (_, Poll::Ready(_)) => Poll::Ready(Err(Ended)),
            _ => Poll::Pending,
        })
        .await
    }

    /// Waits until the connection has written pending data. Otherwise a reset would overtake data that the library
    /// still buffers.
    async fn let_out(&self) {
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        while self.pressure.is_full() {
            tokio::time::sleep(PRESSURE_PAUSE).await;
        }
    }
}

/// Waits until at least one byte may be sent, and returns how many may be sent.
async fn room(send: &mut SendStream<Bytes>, wanted_bytes: usize) -> Result<usize, Ended> {
    send.reserve_capacity(wanted_bytes);
    while send.capacity() == 0 {
        poll_fn(|cx| send.poll_capacity(cx)).await.ok_or(Ended)??;
    }
    Ok(send.capacity())
}

/// Waits for `future`, or until the client abandons the stream.
async fn unless_reset<T>(
    respond: &mut SendResponse<Bytes>,
    future: impl Future<Output = Result<T, Ended>>,
) -> Result<T, Ended> {
    let mut future = pin!(future);
    poll_fn(|cx| match (future.as_mut().poll(cx), respond.poll_reset(cx)) {
        (Poll::Ready(result), _) => Poll::Ready(result),
        (_, Poll::Ready(_)) => Poll::Ready(Err(Ended)),
        _ => Poll::Pending,
    })
    .await
}
