//! Writes HTTP/1.1 responses: normal ones, injected faults and echoes.

use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use weir_http::{CHUNK_END, Framing, append_chunk_header, append_last_chunk};

use super::{Connection, Echo, Progress, Request};
use crate::answer::{Answer, Answers, head};
use crate::decision::{Due, Kind};
use crate::outcome::Outcome;
use crate::stats::Event;

/// Maximum time of a lingering close: after the last response, the origin continues to read, so that the client can
/// receive this response.
const LINGER: Duration = Duration::from_secs(1);
/// Maximum number of bytes that a lingering close reads.
const LINGER_BYTES_MAX: usize = 256 * 1024;

impl Connection {
    pub(super) async fn answer(&mut self, mut request: Request) -> io::Result<()> {
        let outcome = match request.kind {
            Kind::Counted(outcome) => outcome,
            Kind::Own(own) => {
                let own = self.worker.answer_own(own);
                let answer = Answer::of_text(own.status, request.persistence, own.media_type, &own.text);
                return self.write(&answer, request.head_only, false).await;
            }
        };
        if outcome == Outcome::Silent {
            return Box::pin(self.stay_silent()).await;
        }
        let due = self.worker.wait_until_due(&self.activity).await;
        let is_plain = matches!(outcome, Outcome::Good | Outcome::Error);
        if is_plain && request.echo.is_none() {
            let answers = Rc::clone(&self.worker.answers.borrow());
            self.worker.begin_answer(due);
            let answer = answers.pick(outcome == Outcome::Error, request.persistence);
            return self.write(answer, request.head_only, true).await;
        }
        // The futures are boxed, so that a connection without faults uses no memory for them.
        match request.echo.take() {
            Some(echo) => Box::pin(self.answer_echo(outcome, &request, &echo, due)).await,
            None => Box::pin(self.answer_otherwise(outcome, &request, due)).await,
        }
    }

    /// Reads until the client closes the connection, and never responds.
    async fn stay_silent(&mut self) -> io::Result<()> {
        let _waiting = self.activity.wait();
        while self.stream.read_into(&self.worker, &self.activity).await? > 0 {}
        Err(io::ErrorKind::ConnectionAborted.into())
    }

    /// Resets the connection instead of responding.
    fn reset(&self) -> io::Result<()> {
        self.worker.counters().event(Event::Reset);
        self.stream.reset_at_end()?;
        Err(io::ErrorKind::ConnectionReset.into())
    }

    async fn answer_otherwise(&mut self, outcome: Outcome, request: &Request, due: Due) -> io::Result<()> {
        if outcome == Outcome::Reset {
            return self.reset();
        }
        let answers = Rc::clone(&self.worker.answers.borrow());
        let answer = answers.pick(outcome == Outcome::Error, request.persistence);
        let (head, body_bytes) = (answer.first(true), answer.body_bytes(request.head_only));
        self.worker.begin_answer(due);
        if outcome == Outcome::Half {
            self.worker.counters().event(Event::Half);
            self.write_piece(half_head(head, Some(body_bytes)), true).await?;
            self.write_body(answer, 0..body_bytes / 2, false).await?;
            return self.break_off().await;
        }
        self.worker.counters().event(Event::Slow);
        if body_bytes == 0 {
            return self.write(answer, true, true).await;
        }
        self.write_piece(head, true).await?;
        for (due_ns, piece) in self.worker.slow_pieces(body_bytes) {
            self.worker.wait_until(due_ns, &self.activity).await;
            let is_last = piece.end == body_bytes;
            self.write_body(answer, piece, is_last).await?;
        }
        Ok(())
    }

    async fn answer_echo(
        &mut self,
        outcome: Outcome,
        request: &Request,
        echo: &Echo,
        due: Due,
    ) -> io::Result<()> {
        if outcome == Outcome::Reset {
            return self.reset();
        }
        let answers = Rc::clone(&self.worker.answers.borrow());
        if outcome == Outcome::Error {
            self.drain_held().await?;
            self.worker.begin_answer(due);
            return self.write(answers.pick(true, request.persistence), request.head_only, true).await;
        }
        let held_whole = self.body.is_none().then_some(self.held.len() as u64);
        let body_bytes = echo.body_bytes.or(held_whole);
        let head = echo_head(request, echo, body_bytes, &answers);
        if request.head_only {
            self.drain_held().await?;
        }
        let sent_bytes = if request.head_only { Some(0) } else { body_bytes };
        self.worker.begin_answer(due);
        match outcome {
            Outcome::Half => {
                self.worker.counters().event(Event::Half);
                self.write_piece(half_head(&head, sent_bytes), true).await?;
                self.write_half_echo(sent_bytes).await?;
                self.break_off().await
            }
            _ if request.head_only => self.write_last(&head, 200).await,
            Outcome::Slow => {
                self.worker.counters().event(Event::Slow);
                self.write_slow_echo(&head, sent_bytes).await
            }
            _ => {
                let held = std::mem::take(&mut self.held);
                self.write_echo(head, &held, sent_bytes).await
            }
        }
    }

    /// Writes `out` and the first piece of an echo, and then the rest of the request body as it arrives.
    async fn write_echo(
        &mut self,
        mut out: Vec<u8>,
        piece: &[u8],
        body_bytes: Option<u64>,
    ) -> io::Result<()> {
        append_piece(&mut out, piece, body_bytes);
        while self.body.is_some() {
            self.write_piece(&out, true).await?;
            self.held.clear();
            self.receive_piece().await?;
            out.clear();
            append_piece(&mut out, &self.held, body_bytes);
        }
        self.held = Vec::new();
        if body_bytes.is_none() {
            append_last_chunk(&mut out, b"");
        }
        self.write_last(&out, 200).await
    }

    /// Writes the buffered part of an echo in pieces over the duration of a slow response, and then the rest of the
    /// request body as it arrives.
    async fn write_slow_echo(&mut self, head: &[u8], body_bytes: Option<u64>) -> io::Result<()> {
        self.write_piece(head, true).await?;
        let held = std::mem::take(&mut self.held);
        let held_bytes = held.len() as u64;
        for (due_ns, piece) in self.worker.slow_pieces(held_bytes) {
            self.worker.wait_until(due_ns, &self.activity).await;
            let is_last = piece.end == held_bytes;
            let piece = &held[piece.start as usize..piece.end as usize];
            let mut out = Vec::new();
            if is_last {
                return self.write_echo(out, piece, body_bytes).await;
            }
            append_piece(&mut out, piece, body_bytes);
            self.write_piece(&out, true).await?;
        }
        Ok(())
    }

    /// Writes only half of an echo's body. If the length of the body is unknown, writes half of the buffered bytes.
    async fn write_half_echo(&mut self, body_bytes: Option<u64>) -> io::Result<()> {
        let mut left_bytes = body_bytes.unwrap_or(self.held.len() as u64) / 2;
        while left_bytes > 0 {
            let held = std::mem::take(&mut self.held);
            let piece = &held[..held.len().min(usize::try_from(left_bytes).unwrap_or(usize::MAX))];
            left_bytes -= piece.len() as u64;
            let mut out = Vec::new();
            append_piece(&mut out, piece, body_bytes);
            self.write_piece(&out, true).await?;
            if left_bytes > 0 {
                self.receive_piece().await?;
            }
        }
        Ok(())
    }

    /// Reads the request body to its end and discards it.
    async fn drain_held(&mut self) -> io::Result<()> {
        while self.body.is_some() {
            self.held.clear();
            self.receive_piece().await?;
        }
        self.held = Vec::new();
        Ok(())
    }

    async fn receive_piece(&mut self) -> io::Result<()> {
        match self.receive().await? {
            Progress::Piece => Ok(()),
            // The response has started, so a malformed request can no longer be rejected.
            Progress::Refused(..) => Err(io::ErrorKind::InvalidData.into()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Writes a response, with a single system call if the kernel accepts all of it.
    pub(super) async fn write(
        &mut self,
        answer: &Answer,
        head_only: bool,
        is_counted: bool,
    ) -> io::Result<()> {
        if is_counted {
            self.worker.counters().response(answer.status);
        }
        let result = self.write_whole(answer, head_only, is_counted).await;
        if is_counted && result.is_err() {
            self.worker.counters().response_failed(answer.status);
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

    /// Writes a part of a response body. `is_last` says whether the body ends with this part.
    async fn write_body(&mut self, answer: &Answer, mut part: Range<u64>, is_last: bool) -> io::Result<()> {
        let body_bytes = answer.body_bytes(false);
        while part.start < part.end {
            let piece = answer.piece(body_bytes - part.start);
            let piece =
                &piece[..piece.len().min(usize::try_from(part.end - part.start).unwrap_or(usize::MAX))];
            part.start += piece.len() as u64;
            match is_last && part.start == part.end {
                true => self.write_last(piece, answer.status).await?,
                false => self.write_piece(piece, true).await?,
            }
        }
        Ok(())
    }

    /// Writes the last bytes of a response, and counts the response.
    async fn write_last(&mut self, bytes: &[u8], status: u16) -> io::Result<()> {
        self.worker.counters().response(status);
        let result = self.write_piece(bytes, true).await;
        if result.is_err() {
            self.worker.counters().response_failed(status);
        }
        result
    }

    /// Writes bytes. They are counted before they are written, so that the counters include everything that a client
    /// has received.
    async fn write_piece(&mut self, mut bytes: &[u8], is_counted: bool) -> io::Result<()> {
        if is_counted {
            self.worker.counters().sent(bytes.len());
        }
        while !bytes.is_empty() {
            let written = poll_fn(|cx| Pin::new(&mut self.stream).poll_write(cx, bytes)).await;
            let Ok(written @ 1..) = written else {
                if is_counted {
                    self.worker.counters().not_sent(bytes.len());
                }
                return written.and(Err(io::ErrorKind::WriteZero.into()));
            };
            self.activity.touch(&self.worker.connections);
            bytes = &bytes[written..];
        }
        match self.stream.is_buffered() {
            true => self.stream.flush().await,
            false => Ok(()),
        }
    }

    pub(super) async fn write_plainly(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_piece(bytes, false).await
    }

    /// Closes the connection in the middle of a response.
    async fn break_off(&mut self) -> io::Result<()> {
        self.linger().await?;
        Err(io::ErrorKind::ConnectionAborted.into())
    }

    /// Closes the connection in a way that lets the client read the last response. Closing with unread input would
    /// reset the connection.
    pub(super) async fn linger(&mut self) -> io::Result<()> {
        self.stream.shutdown().await?;
        let read_on = async {
            let mut seen_bytes = 0;
            while seen_bytes < LINGER_BYTES_MAX {
                match self.stream.read_into(&self.worker, &self.activity).await {
                    Ok(0) | Err(_) => break,
                    Ok(read) => seen_bytes += read,
                }
            }
        };
        // The connection is closed even if reading times out.
        let _ = tokio::time::timeout(LINGER, read_on).await;
        Ok(())
    }
}

fn echo_head(request: &Request, echo: &Echo, body_bytes: Option<u64>, answers: &Answers) -> Vec<u8> {
    let framing = body_bytes.map_or(Framing::Chunked, Framing::Length);
    head(200, request.persistence, echo.media_type.as_deref(), &answers.date, framing)
}

/// Returns the headers to write for a response that must stay incomplete: all of them, or half of them if the body is
/// empty.
fn half_head(head: &[u8], body_bytes: Option<u64>) -> &[u8] {
    if body_bytes == Some(0) { &head[..head.len() / 2] } else { head }
}

/// Appends a piece of a body to `out`, as a chunk if the length of the body is unknown.
fn append_piece(out: &mut Vec<u8>, piece: &[u8], body_bytes: Option<u64>) {
    if body_bytes.is_some() {
        out.extend_from_slice(piece);
    } else if !piece.is_empty() {
        append_chunk_header(out, piece.len());
        out.extend_from_slice(piece);
        out.extend_from_slice(CHUNK_END);
    }
}
