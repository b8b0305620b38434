//! HTTP/1.1 on a worker's connections: one request in flight on each, so a place is a connection.

use weir_io::mono_ns;

use super::{Taken, Worker};
use crate::books::{Cause, is_unexpected};
use crate::exchange::{Answer, Fed};
use crate::flow::{Answered, Start};

impl Worker {
    #[inline]
    pub(super) fn send_http1(&mut self, start: Start) {
        let connection = &mut self.net.connections[start.slot];
        connection.exchange.begin(self.requests.of(start.index).response_to);
        connection.index = start.index;
        connection.written = 0;
        connection.is_writing = true;
        connection.requests += 1;
        self.write_on_http1(start.slot);
    }

    /// Writes what is left of a connection's request.
    #[inline]
    pub(super) fn write_on_http1(&mut self, place: usize) {
        let connection = &mut self.net.connections[place];
        if !connection.is_writing {
            return;
        }
        let bytes = &self.requests.of(connection.index).bytes;
        while connection.written < bytes.len() {
            match connection.link.write(&bytes[connection.written..]) {
                Ok(0) => return,
                Ok(written) => {
                    if connection.written == 0 {
                        self.flow.sent(place);
                    }
                    connection.written += written;
                    self.flow.wrote(written);
                }
                Err(cause) if connection.written == 0 => {
                    // The connection had died unseen before anything was sent on it.
                    self.flow.not_sent(place);
                    return self.lost(place, mono_ns(), cause);
                }
                Err(cause) => {
                    // Perhaps the peer answered before it broke off: reading will tell.
                    connection.is_writing = false;
                    connection.link.stop_writing(cause);
                    return self.again.push(place);
                }
            }
        }
        connection.is_writing = false;
    }

    /// Takes bytes that were read on a connection.
    #[inline]
    pub(super) fn take(&mut self, place: usize, bytes: usize, stamp_ns: Option<u64>) -> Taken {
        if bytes == 0 {
            return Taken::More;
        }
        self.flow.read(bytes);
        if !self.flow.is_busy(place) {
            // Nobody asked for anything.
            let now_ns = mono_ns();
            self.flow.connection_error(now_ns, Cause::Parse);
            self.flow.disconnected(place);
            self.reopen(place, now_ns);
            return Taken::Down;
        }
        let connection = &mut self.net.connections[place];
        match connection.exchange.feed(&self.net.buffers.plain[..bytes]) {
            Ok(Fed::More) => {
                self.partial += usize::from(!std::mem::replace(&mut connection.is_partial, true));
                Taken::More
            }
            Ok(Fed::Whole(answer, used)) => {
                let now_ns = mono_ns();
                // After an answer to half a request, or with bytes nobody asked for, nothing else can follow.
                let is_reusable = answer.reusable
                    && used == bytes
                    && !connection.is_writing
                    && connection.requests < self.net.requests_max;
                self.partial -= usize::from(std::mem::take(&mut connection.is_partial));
                let came_ns = self.came_ns(stamp_ns, now_ns);
                self.flow.completed(place, now_ns, answered(answer, came_ns, is_reusable));
                if used < bytes {
                    self.flow.connection_error(now_ns, Cause::Parse);
                }
                if is_reusable {
                    return Taken::Whole;
                }
                self.reopen(place, now_ns);
                Taken::Down
            }
            Err(cause) => {
                self.broken(place, mono_ns(), cause);
                Taken::Down
            }
        }
    }

    /// The peer has closed.
    pub(super) fn closed(&mut self, place: usize, now_ns: u64) {
        if !self.flow.is_busy(place) {
            return self.disconnect(place, now_ns, Cause::Closed);
        }
        let connection = &mut self.net.connections[place];
        match connection.exchange.close() {
            Ok(answer) => self.flow.completed(place, now_ns, answered(answer, now_ns, false)),
            Err(cause) => self.flow.failed(place, now_ns, connection.link.cause_of_end(cause)),
        }
        self.reopen(place, now_ns);
    }
}

fn answered(answer: Answer, came_ns: u64, is_reusable: bool) -> Answered {
    Answered { status: answer.status, is_unexpected: is_unexpected(answer.status), came_ns, is_reusable }
}
