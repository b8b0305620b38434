//! HTTP/1.1 on the connections of a worker. Each connection has one in-flight request at a time, so a slot is a
//! connection.

use weir_io::mono_ns;

use super::{Taken, Worker};
use crate::exchange::{Answer, Exchange, Fed, Judged, Unreadable};
use crate::flow::{Answered, Start};
use crate::recording::books::Cause;
use crate::request::Place;

/// The HTTP/1.1 state of a connection.
#[derive(Debug)]
pub(super) struct Http1 {
    exchange: Exchange,
    /// The arrival index of the in-flight request, or else of the last one.
    index: u64,
    /// The index of this request in the mix.
    request: u32,
    /// How many bytes of the request were written.
    written: usize,
    /// Whether bytes of the request are left to write.
    is_writing: bool,
    /// Whether a part of the response has arrived.
    is_partial: bool,
    /// Whether the write is blocked: the socket accepts no more bytes of the request until the poll reports it as
    /// writable.
    is_blocked: bool,
}

impl Http1 {
    pub(super) fn new() -> Self {
        let exchange = Exchange::new();
        Self {
            exchange,
            index: 0,
            request: 0,
            written: 0,
            is_writing: false,
            is_partial: false,
            is_blocked: false,
        }
    }

    /// Resets the state when the connection ends. Returns by how much [`Worker::partial`] must decrease: 1 for a
    /// partial response, and 1 for a blocked write.
    pub(super) fn end(&mut self) -> usize {
        self.is_writing = false;
        usize::from(std::mem::take(&mut self.is_partial)) + usize::from(std::mem::take(&mut self.is_blocked))
    }
}

impl Worker {
    #[inline]
    pub(super) fn send_http1(&mut self, start: Start) {
        let request = self.requests.choose(start.pick);
        let (_, http1) = self.net.http1(start.slot);
        http1.exchange.begin(self.requests.response_to(request));
        http1.index = start.index;
        http1.request = request;
        http1.written = 0;
        http1.is_writing = true;
        self.net.connections[start.slot].requests += 1;
        self.write_on_http1(start.slot);
    }

    /// Writes the rest of the request of connection `place`, as far as the socket accepts it.
    #[inline]
    pub(super) fn write_on_http1(&mut self, place: usize) {
        let domain = self.net.domain_of(place);
        let requests_max = self.net.requests_max;
        let close = self.net.connections[place].requests >= requests_max;
        let (link, http1) = self.net.http1(place);
        if !http1.is_writing {
            return;
        }
        let at = Place { index: http1.index, domain, close };
        let bytes = self.requests.http1(http1.request, &at, &mut self.scratch);
        while http1.written < bytes.len() {
            match link.write(&bytes[http1.written..]) {
                Ok(0) => {
                    self.partial += usize::from(!std::mem::replace(&mut http1.is_blocked, true));
                    return;
                }
                Ok(written) => {
                    if http1.written == 0 {
                        link.mark_used();
                        self.flow.sent(place);
                    }
                    http1.written += written;
                    self.flow.wrote(written);
                }
                Err(cause) if http1.written == 0 => {
                    // The connection was closed before anything of the request was sent.
                    self.flow.not_sent(place);
                    return self.lost(place, mono_ns(), cause);
                }
                Err(cause) => {
                    // The peer may have responded before the connection broke. Reading shows whether it did.
                    http1.is_writing = false;
                    self.partial -= usize::from(std::mem::take(&mut http1.is_blocked));
                    link.stop_writing(cause);
                    return self.again.push(place);
                }
            }
        }
        http1.is_writing = false;
        self.partial -= usize::from(std::mem::take(&mut http1.is_blocked));
    }

    /// Processes bytes that were read from connection `place`.
    #[inline]
    pub(super) fn take_http1(&mut self, place: usize, bytes: usize, stamp_ns: Option<u64>) -> Taken {
        if !self.flow.is_busy(place) {
            // No request is in flight, so the bytes are not a response.
            let now_ns = mono_ns();
            let unasked = Unreadable::unasked(&self.net.buffers.plain[..bytes]);
            self.net.said.add(Some(unasked.said));
            self.flow.connection_error(now_ns, unasked.cause);
            self.flow.disconnected(place);
            self.reopen(place, now_ns);
            return Taken::Down;
        }
        let requests_max = self.net.requests_max;
        let input = &self.net.buffers.plain[..bytes];
        let connection = &mut self.net.connections[place];
        let is_last = connection.requests >= requests_max;
        let http1 = connection.talk.http1();
        let checks = self.requests.checks(http1.request);
        match http1.exchange.feed(input, checks) {
            Ok(Fed::More) => {
                self.partial += usize::from(!std::mem::replace(&mut http1.is_partial, true));
                Taken::More
            }
            Ok(Fed::Whole(answer, used)) => {
                let now_ns = mono_ns();
                // The connection cannot be reused if the response came before the whole request was sent, or if
                // more bytes follow it.
                let is_reusable = answer.reusable && used == bytes && !http1.is_writing && !is_last;
                self.partial -= usize::from(std::mem::take(&mut http1.is_partial));
                let came_ns = self.came_ns(stamp_ns, now_ns);
                self.complete_http1(place, answer, now_ns, came_ns, is_reusable);
                if used < bytes {
                    let unasked = Unreadable::unasked(&self.net.buffers.plain[used..bytes]);
                    self.net.said.add(Some(unasked.said));
                    self.flow.connection_error(now_ns, unasked.cause);
                }
                if is_reusable {
                    return Taken::Whole(now_ns);
                }
                self.reopen(place, now_ns);
                Taken::Down
            }
            Err(unreadable) => {
                self.net.said.add(Some(unreadable.said));
                self.broken(place, mono_ns(), unreadable.cause);
                Taken::Down
            }
        }
    }

    /// Handles a close by the peer. `came_ns` is the arrival time of the last bytes before the close.
    pub(super) fn closed_http1(&mut self, place: usize, now_ns: u64, came_ns: u64) {
        if !self.flow.is_busy(place) {
            return self.disconnect(place, now_ns, Cause::Closed);
        }
        let (link, http1) = self.net.http1(place);
        match http1.exchange.close() {
            Ok(answer) => self.complete_http1(place, answer, now_ns, came_ns, false),
            Err(cause) => {
                let cause = link.cause_of_end(cause);
                self.flow.failed(place, now_ns, cause);
            }
        }
        self.reopen(place, now_ns);
    }

    #[inline]
    fn complete_http1(&mut self, place: usize, answer: Answer, now_ns: u64, came_ns: u64, is_reusable: bool) {
        let http1 = self.net.connections[place].talk.http1();
        let judged = http1.exchange.judge(answer.status, self.requests.checks(http1.request));
        if let Judged::Unexpected(Some(failed)) = judged {
            self.net.said.add(Some(failed.to_string()));
        }
        let is_unexpected = judged != Judged::Expected;
        self.flow.completed(
            place,
            now_ns,
            Answered { status: answer.status, is_unexpected, came_ns, is_reusable },
        );
    }
}
