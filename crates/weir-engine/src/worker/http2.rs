//! HTTP/2 on the connections of a worker, with the `h2` crate. A slot is one of the streams that can be in flight
//! on a connection at the same time.
//!
//! ```text
//!   up --preface, SETTINGS--> settling --the peer's SETTINGS--> open: its slots take requests
//!                                                                 |
//!      closed, when its last request has ended <-- retiring: GOAWAY, or enough requests
//! ```

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Connection, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use weir_io::mono_ns;

use super::pipe::Pipe;
use super::woken::Woken;
use super::{Taken, Worker};
use crate::flow::{Answered, Start};
use crate::link::{Buffers, Link, Read};
use crate::recording::books::Cause;
use crate::request::{CheckState, Checks, Place, default_is_unexpected};

/// Flow-control window of streams and connections. It is so large that no load waits for it.
const WINDOW_BYTES: u32 = 1 << 30;
/// A peer that sends no SETTINGS within this time is treated as not supporting HTTP/2.
pub(super) const SETTLE_TIMEOUT_NS: u64 = 5_000_000_000;
/// Length of a frame header (RFC 9113, 4.1).
const FRAME_HEADER_BYTES: usize = 9;
/// Maximum number of cancelled streams whose late responses are still accepted.
const RESET_STREAMS_MAX: usize = 16 * 1024;
/// How long late responses on cancelled streams are accepted.
const RESET_STREAMS_KEPT: Duration = Duration::from_secs(30);
/// Maximum number of static requests that are kept in the form that the library needs.
const READY_MAX: usize = 1024;

/// The HTTP/2 state of a connection.
pub(super) struct Http2 {
    pipe: Pipe,
    connection: Connection<Pipe, Bytes>,
    sender: SendRequest<Bytes>,
    /// The in-flight request on each slot of the connection.
    streams: Vec<Option<Stream>>,
    in_flight: usize,
    woken: Arc<Woken>,
    /// Slots whose requests are queued in the library, with no byte written yet.
    unsent: Vec<usize>,
    /// Number of slots of this connection that the peer allows to use at the same time.
    allowed: usize,
    since_ns: u64,
    greeting: Greeting,
    is_settled: bool,
    is_retiring: bool,
    /// Whether bytes were left in the socket because the library could not accept more.
    is_paused: bool,
    /// Whether the connection is in the list of connections that have output to write.
    is_dirty: bool,
}

/// How much of the peer's first frame has arrived. This frame is SETTINGS (RFC 9113, 3.4).
#[derive(Debug, Default)]
struct Greeting {
    header: [u8; FRAME_HEADER_BYTES],
    bytes: usize,
}

struct Stream {
    phase: Phase,
    request: u32,
    status: u16,
    check: CheckState,
    body_bytes: u64,
}

enum Phase {
    Head(ResponseFuture),
    Body(RecvStream),
}

impl Greeting {
    fn feed(&mut self, input: &[u8]) {
        for (place, byte) in self.header.iter_mut().skip(self.bytes).zip(input) {
            *place = *byte;
        }
        self.bytes += input.len();
    }

    /// Whether the first frame is complete. The library validates its content.
    fn is_whole(&self) -> bool {
        let [high, middle, low, ..] = self.header;
        let length = u32::from_be_bytes([0, high, middle, low]) as usize;
        self.bytes >= FRAME_HEADER_BYTES + length
    }
}

/// HTTP/2 counts of all connections of a worker.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Http2Books {
    pub(crate) streams_allowed_min: Option<u32>,
    pub(crate) goaways: u64,
    pub(crate) sent_again: u64,
    pub(crate) streams_reset: u64,
}

impl Http2Books {
    /// Records that a peer allows only `allowed` concurrent streams per connection, if the load needs more (`streams`).
    pub(super) fn note_allowed(&mut self, allowed: usize, streams: usize) {
        if allowed < streams {
            let least = self.streams_allowed_min.unwrap_or(u32::MAX);
            self.streams_allowed_min = Some(least.min(allowed as u32));
        }
    }

    /// Adds the counts of another worker to these.
    pub(crate) fn add(&mut self, other: &Self) {
        self.streams_allowed_min =
            self.streams_allowed_min.into_iter().chain(other.streams_allowed_min).min();
        self.goaways += other.goaways;
        self.sent_again += other.sent_again;
        self.streams_reset += other.streams_reset;
    }
}

impl Http2 {
    /// Begins HTTP/2 on a new connection. The connection preface and the SETTINGS of this client can be written
    /// now.
    pub(super) fn begin(streams: usize, now_ns: u64) -> Self {
        let pipe = Pipe::default();
        let mut builder = h2::client::Builder::new();
        builder
            .enable_push(false)
            // No stream is opened before the peer's SETTINGS, which limit the number of streams.
            .initial_max_send_streams(0)
            // A response that arrives after its request timed out is not an error of the peer.
            .max_concurrent_reset_streams(RESET_STREAMS_MAX)
            .max_local_error_reset_streams(None)
            .reset_stream_duration(RESET_STREAMS_KEPT)
            .initial_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES);
        let shaking = pin!(builder.handshake(pipe.clone()));
        let Poll::Ready(Ok((sender, connection))) = shaking.poll(&mut nobody()) else {
            unreachable!("the in-memory pipe accepts the preface at once");
        };
        let mut begun = Self {
            pipe,
            connection,
            sender,
            streams: (0..streams).map(|_| None).collect(),
            in_flight: 0,
            woken: Woken::new(streams),
            unsent: Vec::new(),
            allowed: 0,
            since_ns: now_ns,
            greeting: Greeting::default(),
            is_settled: false,
            is_retiring: false,
            is_paused: false,
            is_dirty: false,
        };
        // The library writes the preface by itself, and SETTINGS only when polled. Some servers respond only after
        // both.
        let _ = begun.drive();
        begun
    }

    pub(super) fn is_settled(&self) -> bool {
        self.is_settled
    }

    pub(super) fn is_overdue(&self, now_ns: u64) -> bool {
        !self.is_settled && now_ns >= self.since_ns + SETTLE_TIMEOUT_NS
    }

    /// Number of slots of this connection that the peer allows weir to use at the same time.
    pub(super) fn allowed(&self) -> usize {
        self.allowed
    }

    /// Processes what the peer has sent so far. Returns whether its SETTINGS have arrived.
    pub(super) fn settle(
        &mut self,
        link: &mut Link,
        buffers: &mut Buffers,
    ) -> Result<bool, (Cause, Option<String>)> {
        loop {
            self.write(link).map_err(|cause| (cause, None))?;
            match link.read(buffers) {
                Read::Nothing => return Ok(false),
                Read::Closed => {
                    let said = "HTTP/2: connection closed before SETTINGS";
                    return Err((Cause::Http2, Some(said.into())));
                }
                Read::Broken(cause, said) => return Err((cause, said)),
                Read::Bytes { bytes, .. } => {
                    let input = &buffers.plain[..bytes];
                    if input.starts_with(b"HTTP/1.") {
                        return Err((
                            Cause::Http2,
                            Some("HTTP/2: the server responded with HTTP/1.1".into()),
                        ));
                    }
                    self.pipe.feed(input);
                    self.greeting.feed(input);
                    match self.drive() {
                        None => {}
                        Some(Ok(())) => {
                            let said = "HTTP/2: GOAWAY before the first request";
                            return Err((Cause::GoAway, Some(said.into())));
                        }
                        Some(Err(error)) => return Err((Cause::Http2, Some(said(&error)))),
                    }
                    if let Poll::Ready(Err(error)) = self.sender.poll_ready(&mut nobody()) {
                        return Err((Cause::GoAway, Some(said(&error))));
                    }
                    if self.greeting.is_whole() {
                        self.is_settled = true;
                        self.allowed = self.allowance();
                        // Sends the acknowledgement of the peer's SETTINGS.
                        self.write(link).map_err(|cause| (cause, None))?;
                        return Ok(true);
                    }
                }
            }
        }
    }

    fn allowance(&self) -> usize {
        self.sender.current_max_send_streams().min(self.streams.len())
    }

    /// Whether to pause reading because the peer does not read the library's pending replies.
    #[inline]
    pub(super) fn pauses_reading(&mut self) -> bool {
        let is_blocked = self.pipe.is_blocked();
        self.is_paused |= is_blocked;
        is_blocked
    }

    /// Whether reading can continue after a pause; true only once per pause. If true, the caller must read the bytes
    /// that are left in the socket, because the poll does not report them again.
    fn reads_on(&mut self) -> bool {
        self.is_paused && !self.pipe.is_blocked() && std::mem::take(&mut self.is_paused)
    }

    /// Polls the library, which processes input and output. Returns how the connection ended, if it has.
    fn drive(&mut self) -> Option<Result<(), h2::Error>> {
        match Pin::new(&mut self.connection).poll(&mut nobody()) {
            Poll::Pending => None,
            Poll::Ready(outcome) => Some(outcome),
        }
    }

    /// Writes pending output as far as the socket accepts it. Returns the number of bytes.
    fn write(&mut self, link: &mut Link) -> Result<usize, Cause> {
        let mut written = 0;
        loop {
            let was_full = self.pipe.is_full();
            written += self.pipe.drain(|bytes| link.write(bytes))?;
            if !was_full || self.pipe.is_full() {
                return Ok(written);
            }
            // The pipe was full and now has room again, so the library may have more to write.
            let _ = self.drive();
        }
    }
}

/// Result of polling a stream: its response is incomplete, complete, or failed.
enum Polled {
    Waits,
    Whole,
    Failed(h2::Error),
}

impl Stream {
    /// Reads the part of the response that has arrived.
    fn poll(&mut self, waker: &Waker, checks: Option<&Checks>) -> Polled {
        let mut cx = Context::from_waker(waker);
        loop {
            match &mut self.phase {
                Phase::Head(response) => match Pin::new(response).poll(&mut cx) {
                    Poll::Pending => return Polled::Waits,
                    Poll::Ready(Err(error)) => return Polled::Failed(error),
                    Poll::Ready(Ok(response)) => {
                        self.status = response.status().as_u16();
                        if let Some(checks) = checks.filter(|checks| checks.wants_fields()) {
                            for (name, value) in response.headers() {
                                self.check.field(checks, name.as_str().as_bytes(), value.as_bytes());
                            }
                        }
                        let body = response.into_body();
                        if body.is_end_stream() {
                            return Polled::Whole;
                        }
                        self.phase = Phase::Body(body);
                    }
                },
                Phase::Body(body) => match body.poll_data(&mut cx) {
                    Poll::Pending => return Polled::Waits,
                    Poll::Ready(None) => return Polled::Whole,
                    Poll::Ready(Some(Err(error))) => return Polled::Failed(error),
                    Poll::Ready(Some(Ok(data))) => {
                        self.body_bytes += data.len() as u64;
                        if let Some(checks) = checks.filter(|checks| checks.wants_body()) {
                            self.check.body(checks, &data);
                        }
                        // This fails only if more is released than was received, which cannot happen here.
                        let _ = body.flow_control().release_capacity(data.len());
                        if body.is_end_stream() {
                            return Polled::Whole;
                        }
                    }
                },
            }
        }
    }
}

impl Worker {
    pub(super) fn send_http2(&mut self, start: Start) {
        let (place, at) = self.net.connection_of(start.slot);
        let request = self.requests.choose(start.pick);
        let (head, body) = match self.http2_request(request, place, start.index) {
            Ok(made) => made,
            Err(said) => {
                // This request cannot be sent over HTTP/2. Other requests of the mix may work.
                self.net.said.add(Some(said));
                let now_ns = mono_ns();
                self.flow.failed(start.slot, now_ns, Cause::Http2);
                return self.flow.connected(start.slot, now_ns);
            }
        };
        let connection = &mut self.net.connections[place];
        let Some(http2) = connection.talk.http2() else { return self.flow.not_sent(start.slot) };
        let sent = match http2.sender.poll_ready(&mut nobody()) {
            Poll::Ready(Ok(())) => http2.sender.send_request(head, body.is_empty()),
            // The peer allows no more streams now. The slot is used again once the peer allows more.
            Poll::Pending => return self.flow.not_sent(start.slot),
            Poll::Ready(Err(error)) => Err(error),
        };
        let (response, mut stream) = match sent {
            Ok(sent) => sent,
            Err(_) => {
                // The connection is closing, so another connection sends this request.
                let is_idle = http2.in_flight == 0;
                self.flow.not_sent(start.slot);
                self.hear_goodbye(place);
                if is_idle {
                    self.broken(place, mono_ns(), Cause::GoAway);
                }
                return;
            }
        };
        if !body.is_empty() {
            // A stream that was just opened accepts data. The library buffers what exceeds the flow-control
            // windows.
            let _ = stream.send_data(body, true);
        }
        http2.streams[at] = Some(Stream {
            phase: Phase::Head(response),
            request,
            status: 0,
            check: CheckState::default(),
            body_bytes: 0,
        });
        http2.in_flight += 1;
        http2.unsent.push(at);
        // The first poll registers the stream's waker, so mark the stream as woken to have it polled the first time.
        http2.woken.insert(at);
        connection.requests += 1;
        if connection.requests >= self.net.requests_max {
            http2.is_retiring = true;
            self.rest(place);
        }
        self.mark_dirty(place);
    }

    /// Returns a request in the form that the library needs.
    fn http2_request(
        &mut self,
        request: u32,
        place: usize,
        index: u64,
    ) -> Result<(http::Request<()>, Bytes), String> {
        let known = self.net.requests.get(request as usize).and_then(Option::as_ref);
        if let Some((head, body)) = known {
            return Ok((head.clone(), body.clone()));
        }
        let at = Place { index, domain: self.net.domain_of(place), close: false };
        self.requests.http2(request, &at, &mut self.rendered);
        let made = self.rendered.to_http()?;
        if self.rendered.key().is_some() && (request as usize) < READY_MAX {
            let least = request as usize + 1;
            if self.net.requests.len() < least {
                self.net.requests.resize(least, None);
            }
            self.net.requests[request as usize] = Some(made.clone());
        }
        Ok(made)
    }

    fn mark_dirty(&mut self, place: usize) {
        if let Some(http2) = self.net.connections[place].talk.http2()
            && !std::mem::replace(&mut http2.is_dirty, true)
        {
            self.dirty.push(place);
        }
    }

    /// Writes the pending output of all connections that have some.
    pub(super) fn flush_dirty(&mut self) {
        while let Some(place) = self.dirty.pop() {
            if let Some(http2) = self.net.connections[place].talk.http2() {
                http2.is_dirty = false;
            }
            self.write_on_http2(place);
        }
    }

    pub(super) fn write_on_http2(&mut self, place: usize) {
        self.write_out(place);
        let http2 = self.net.connections[place].talk.http2();
        if http2.is_some_and(|http2| http2.pipe.is_flooded()) {
            self.end_flood(place);
        }
    }

    fn write_out(&mut self, place: usize) {
        let connection = &mut self.net.connections[place];
        let Some(http2) = connection.talk.http2() else { return };
        // If the connection has ended, the next read shows how.
        let _ = http2.drive();
        let now_ns = mono_ns();
        let written = http2.write(&mut connection.link);
        if http2.reads_on() {
            self.again.push(place);
        }
        match written {
            Ok(0) => {}
            Ok(written) => {
                self.flow.wrote(written);
                if !http2.unsent.is_empty() {
                    connection.link.mark_used();
                }
                for at in http2.unsent.drain(..) {
                    self.flow.sent_at(place * self.net.streams + at, now_ns);
                }
                self.poll_streams(place, now_ns, now_ns);
            }
            Err(cause) => {
                // The connection was closed before these requests were sent, so other connections send them.
                let unsent = std::mem::take(&mut http2.unsent);
                connection.link.stop_writing(cause);
                for at in unsent {
                    if http2.streams[at].take().is_some() {
                        http2.in_flight -= 1;
                        self.flow.not_sent(place * self.net.streams + at);
                    }
                }
                // The peer may have responded before the connection broke. Reading shows whether it did.
                self.again.push(place);
            }
        }
    }

    /// Closes a connection whose peer demands more and more replies and reads none of them. Otherwise memory would
    /// run out.
    fn end_flood(&mut self, place: usize) {
        let said =
            "HTTP/2: the server floods the connection with PING or SETTINGS and does not read the replies";
        self.net.said.add(Some(said.to_owned()));
        // The peer would not read a GOAWAY either, so none is sent.
        self.broken(place, mono_ns(), Cause::Http2);
    }

    /// Processes bytes that were read from connection `place`.
    pub(super) fn take_http2(&mut self, place: usize, bytes: usize, stamp_ns: Option<u64>) -> Taken {
        let Some(http2) = self.net.connections[place].talk.http2() else { return Taken::More };
        http2.pipe.feed(&self.net.buffers.plain[..bytes]);
        let ended = http2.drive();
        let now_ns = mono_ns();
        let came_ns = self.came_ns(stamp_ns, now_ns);
        let has_freed = self.poll_streams(place, now_ns, came_ns);
        self.hear_goodbye(place);
        if let Some(outcome) = ended {
            let cause = outcome.err().map_or(Cause::Closed, |error| self.cause_of(place, &error));
            self.broken(place, mono_ns(), cause);
            return Taken::Down;
        }
        if self.heed_peer(place, now_ns) {
            return Taken::Down;
        }
        self.mark_dirty(place);
        if has_freed { Taken::Whole(mono_ns()) } else { Taken::More }
    }

    /// Handles a close by the peer.
    pub(super) fn closed_http2(&mut self, place: usize, now_ns: u64) {
        let connection = &mut self.net.connections[place];
        let cause = connection.link.cause_of_end(Cause::Closed);
        if let Some(http2) = connection.talk.http2() {
            http2.pipe.end();
            let _ = http2.drive();
        }
        self.poll_streams(place, now_ns, now_ns);
        self.hear_goodbye(place);
        self.broken(place, now_ns, cause);
    }

    /// Polls the streams that have been woken, and ends their requests if they are complete or failed. Returns
    /// whether slots became free.
    fn poll_streams(&mut self, place: usize, now_ns: u64, came_ns: u64) -> bool {
        let mut has_freed = false;
        let words = self.net.connections[place].talk.http2().map_or(0, |http2| http2.woken.words());
        for word in 0..words {
            let Some(http2) = self.net.connections[place].talk.http2() else { break };
            let bits = http2.woken.take(word);
            for at in bits {
                let Some(http2) = self.net.connections[place].talk.http2() else { break };
                let Some(stream) = &mut http2.streams[at] else { continue };
                let checks = self.requests.checks(stream.request);
                match stream.poll(http2.woken.waker(at), checks) {
                    Polled::Waits => continue,
                    Polled::Whole => self.complete_http2(place, at, now_ns, came_ns),
                    Polled::Failed(error) => self.fail_http2(place, at, now_ns, &error),
                }
                has_freed = true;
            }
        }
        has_freed
    }

    fn complete_http2(&mut self, place: usize, at: usize, now_ns: u64, came_ns: u64) {
        let Some(http2) = self.net.connections[place].talk.http2() else { return };
        let Some(mut stream) = http2.streams[at].take() else { return };
        http2.in_flight -= 1;
        let is_reusable = !http2.is_retiring && at < http2.allowed;
        let status = stream.status;
        let is_unexpected = match self.requests.checks(stream.request) {
            None => default_is_unexpected(status),
            Some(checks) => match stream.check.finish(checks, status, stream.body_bytes) {
                Ok(()) => false,
                Err(failed) => {
                    self.net.said.add(Some(failed.to_string()));
                    true
                }
            },
        };
        let slot = place * self.net.streams + at;
        self.flow.completed(slot, now_ns, Answered { status, is_unexpected, came_ns, is_reusable });
    }

    fn fail_http2(&mut self, place: usize, at: usize, now_ns: u64, error: &h2::Error) {
        let cause = self.cause_of(place, error);
        let Some(http2) = self.net.connections[place].talk.http2() else { return };
        http2.streams[at] = None;
        http2.in_flight -= 1;
        let is_reusable = !http2.is_retiring && at < http2.allowed;
        let slot = place * self.net.streams + at;
        match cause {
            // The peer did not process streams above the last stream that its GOAWAY names (RFC 9113, 6.8).
            Cause::GoAway if error.reason() == Some(Reason::NO_ERROR) => {
                self.net.http2.sent_again += 1;
                self.flow.not_processed(slot);
            }
            cause => {
                self.net.http2.streams_reset += u64::from(error.is_reset() && error.is_remote());
                self.flow.failed(slot, now_ns, cause);
                if is_reusable {
                    self.flow.connected(slot, now_ns);
                }
            }
        }
    }

    fn cause_of(&mut self, place: usize, error: &h2::Error) -> Cause {
        if error.is_io() {
            return self.net.connections[place].link.cause_of_end(Cause::Closed);
        }
        let cause = match error.reason() {
            Some(Reason::NO_ERROR) if error.is_go_away() && error.is_remote() => return Cause::GoAway,
            Some(Reason::REFUSED_STREAM) if error.is_reset() => return Cause::RefusedStream,
            _ if error.is_go_away() && error.is_remote() => Cause::GoAway,
            Some(_) if error.is_reset() && error.is_remote() => Cause::StreamReset,
            _ => Cause::Http2,
        };
        self.net.said.add(Some(said(error)));
        cause
    }

    /// Stops sending requests on a connection whose peer has sent GOAWAY.
    fn hear_goodbye(&mut self, place: usize) {
        let Some(http2) = self.net.connections[place].talk.http2() else { return };
        if !http2.is_retiring
            && let Poll::Ready(Err(error)) = http2.sender.poll_ready(&mut nobody())
        {
            http2.is_retiring = true;
            self.net.http2.goaways += u64::from(error.is_go_away() && error.is_remote());
            self.rest(place);
        }
    }

    /// Handles everything that the peer sent besides responses. Returns whether the connection is down now.
    fn heed_peer(&mut self, place: usize, now_ns: u64) -> bool {
        let streams = self.net.streams;
        let Some(http2) = self.net.connections[place].talk.http2() else { return true };
        if http2.is_retiring {
            let is_over = http2.in_flight == 0;
            if is_over {
                self.reopen(place, now_ns);
            }
            return is_over;
        }
        let allowed = http2.allowance();
        http2.allowed = allowed;
        self.net.http2.note_allowed(allowed, streams);
        for at in 0..streams {
            let slot = place * streams + at;
            if at >= allowed {
                if !self.flow.is_busy(slot) {
                    self.flow.disconnected(slot);
                }
            } else if self.flow.is_down(slot) {
                self.flow.connected(slot, now_ns);
            }
        }
        false
    }

    /// Stops using the idle slots of a connection.
    pub(super) fn rest(&mut self, place: usize) {
        for slot in self.net.slots_of(place) {
            if !self.flow.is_busy(slot) {
                self.flow.disconnected(slot);
            }
        }
    }

    /// Handles a time-out: cancels the stream of the request, and lets its slot be used again.
    pub(super) fn give_up_http2(&mut self, slot: usize, now_ns: u64) {
        let (place, at) = self.net.connection_of(slot);
        let Some(http2) = self.net.connections[place].talk.http2() else { return };
        http2.in_flight -= usize::from(http2.streams[at].take().is_some());
        http2.unsent.retain(|&unsent| unsent != at);
        if http2.is_retiring && http2.in_flight == 0 {
            return self.reopen(place, now_ns);
        }
        if !http2.is_retiring && at < http2.allowed {
            self.flow.connected(slot, now_ns);
        }
        // RST_STREAM tells the peer that the response is no longer needed, so it is sent now.
        self.mark_dirty(place);
    }
}

/// A context without a waker. The library is polled after every event, so it need not wake anything.
fn nobody() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

fn said(error: &h2::Error) -> String {
    format!("HTTP/2: {error}").chars().take(120).collect()
}

impl std::fmt::Debug for Http2 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http2")
            .field("in_flight", &self.in_flight)
            .field("allowed", &self.allowed)
            .field("is_retiring", &self.is_retiring)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_pauses_until_the_peer_reads_its_replies() {
        let mut http2 = Http2::begin(1, 0);
        let drain = |http2: &mut Http2| http2.pipe.drain(|bytes| Ok::<_, ()>(bytes.len())).unwrap();
        drain(&mut http2);
        http2.pipe.feed(b"\0\0\0\x04\0\0\0\0\0");
        let pings = b"\0\0\x08\x06\0\0\0\0\0PINGPING".repeat(20_000);
        http2.pipe.feed(&pings);
        assert!(http2.drive().is_none() && !http2.reads_on());
        assert!(http2.pauses_reading() && !http2.reads_on(), "the pipe is full");
        assert!(http2.pipe.is_flooded());
        // Once the peer has read the pending replies, the library writes the replies that did not fit before.
        let first = drain(&mut http2);
        assert!(http2.drive().is_none() && !http2.pauses_reading());
        assert!(http2.reads_on() && !http2.reads_on(), "once");
        assert!(!http2.pipe.is_blocked() && first < pings.len());
        assert_eq!(first + drain(&mut http2), 9 + pings.len());
        assert!(!http2.pipe.is_flooded());
    }
}
