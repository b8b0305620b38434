//! The connections of a worker: opened before the clock starts, opened again when they end.

use weir_io::{Poll, Timer, mono_ns};

use super::{Said, Taken, TlsBooks, Worker};
use crate::books::Cause;
use crate::exchange::Exchange;
use crate::link::{Buffers, CONNECT_TIMEOUT_NS, Dialing, Link, Opening, Read};

/// One connection and what goes on on it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) link: Link,
    pub(super) exchange: Exchange,
    /// The arrival whose request is being written, or was last.
    pub(super) index: u64,
    /// How much of it was written.
    pub(super) written: usize,
    /// Whether some of it is still to be written.
    pub(super) is_writing: bool,
    /// Whether a part of the response has come.
    pub(super) is_partial: bool,
    /// Requests since it was opened.
    pub(super) requests: u64,
}

/// All connections of a worker.
pub(super) struct Net {
    pub(super) poll: Poll,
    pub(super) connections: Vec<Connection>,
    pub(super) buffers: Buffers,
    dialing: Dialing,
    /// Requests after which a connection is opened anew.
    pub(super) requests_max: u64,
    pub(super) opened: u64,
    /// Attempts that last.
    pub(super) opening: usize,
    /// Whether the kernel notes when bytes come.
    pub(super) is_stamped: bool,
    pub(super) said: Said,
    pub(super) tls: TlsBooks,
}

impl Connection {
    fn new() -> Self {
        Self {
            link: Link::new(),
            exchange: Exchange::new(),
            index: 0,
            written: 0,
            is_writing: false,
            is_partial: false,
            requests: 0,
        }
    }
}

impl Net {
    pub(super) fn new(connections: usize, dialing: Dialing, poll: Poll, requests_max: Option<u64>) -> Self {
        Self {
            poll,
            connections: (0..connections).map(|_| Connection::new()).collect(),
            buffers: Buffers::new(dialing.tls.is_some()),
            is_stamped: dialing.is_stamped,
            dialing,
            requests_max: requests_max.unwrap_or(u64::MAX),
            opened: 0,
            opening: 0,
            said: Said::default(),
            tls: TlsBooks::default(),
        }
    }

    /// Opens all connections, before the clock starts; those that fail are tried again when it has started.
    pub(super) fn connect_all(&mut self, timer: &mut Timer) {
        let deadline_ns = mono_ns() + CONNECT_TIMEOUT_NS;
        timer.set(deadline_ns);
        for place in 0..self.connections.len() {
            // Why it failed will be seen again, and counted then.
            let _ = self.connect(place, mono_ns());
        }
        while self.opening > 0 && mono_ns() < deadline_ns {
            for at in 0..self.poll.wait() {
                let token = self.poll.readiness(at).token;
                let place = token as u32 as usize;
                let is_meant = self.connections.get(place).is_some_and(|one| one.link.is_meant(token));
                if is_meant && self.connections[place].link.is_opening() {
                    let _ = self.go_on(place, mono_ns());
                }
            }
        }
        timer.rang();
    }

    fn connect(&mut self, place: usize, now_ns: u64) -> Result<(), Cause> {
        self.connections[place].link.connect(&self.dialing, &self.poll, place, now_ns)?;
        self.opening += 1;
        Ok(())
    }

    /// Goes on with an attempt; whether the connection is up.
    fn go_on(&mut self, place: usize, now_ns: u64) -> Result<bool, Cause> {
        let connection = &mut self.connections[place];
        match connection.link.go_on(&mut self.dialing, place, &mut self.buffers, now_ns) {
            Opening::Waits => Ok(false),
            Opening::Up { handshake_ns } => {
                self.opening -= 1;
                self.opened += 1;
                connection.requests = 0;
                connection.is_writing = false;
                if let (Some(took_ns), Some(session)) = (handshake_ns, connection.link.session()) {
                    self.tls.finished(session, took_ns);
                }
                Ok(true)
            }
            Opening::Failed(cause, said) => {
                self.opening -= 1;
                self.tls.failed += u64::from(cause == Cause::Tls);
                self.said.add(said);
                Err(cause)
            }
        }
    }
}

impl Worker {
    /// Hands the connections that are open to the load, and opens the others.
    pub(super) fn adopt_connections(&mut self) {
        let now_ns = self.flow.timeline().start_ns;
        for place in 0..self.net.connections.len() {
            if !self.net.connections[place].link.is_up() {
                self.retry_if_due(place, now_ns);
                continue;
            }
            self.flow.connected(place, now_ns);
            // What a peer said before it was asked must not pass for the first answer.
            match self.net.connections[place].link.read(&mut self.net.buffers) {
                Read::Nothing | Read::Bytes { bytes: 0, .. } => {}
                Read::Bytes { bytes, stamp_ns, .. } => {
                    let _: Taken = self.take(place, bytes, stamp_ns);
                }
                Read::Closed => self.closed(place, now_ns),
                Read::Broken(cause, said) => {
                    self.net.said.add(said);
                    self.broken(place, now_ns, cause);
                }
            }
        }
    }

    /// Goes on with an attempt, and starts what is due when the connection is up.
    pub(super) fn go_on_opening(&mut self, place: usize, now_ns: u64) {
        match self.net.go_on(place, now_ns) {
            Ok(false) => {}
            Ok(true) => {
                let now_ns = mono_ns();
                self.flow.connected(place, now_ns);
                self.start_due(now_ns);
            }
            Err(cause) => {
                self.flow.connection_error(now_ns, cause);
                self.retry_if_due(place, now_ns);
            }
        }
    }

    /// The connection broke, or what came on it is no HTTP.
    pub(super) fn broken(&mut self, place: usize, now_ns: u64, cause: Cause) {
        if !self.flow.is_busy(place) {
            return self.disconnect(place, now_ns, cause);
        }
        self.flow.failed(place, now_ns, cause);
        self.reopen(place, now_ns);
    }

    /// An idle connection has ended.
    pub(super) fn disconnect(&mut self, place: usize, now_ns: u64, cause: Cause) {
        self.flow.disconnected(place);
        self.lost(place, now_ns, cause);
    }

    /// A connection ended that carried no request: its peer's right, but for one that never was of use.
    pub(super) fn lost(&mut self, place: usize, now_ns: u64, cause: Cause) {
        if self.net.connections[place].link.is_useless(now_ns) {
            self.flow.connection_error(now_ns, cause);
        }
        self.reopen(place, now_ns);
    }

    /// Closes a connection that carries no request any more, and opens it again, now or later.
    pub(super) fn reopen(&mut self, place: usize, now_ns: u64) {
        let connection = &mut self.net.connections[place];
        connection.is_writing = false;
        self.partial -= usize::from(std::mem::take(&mut connection.is_partial));
        connection.link.close(now_ns);
        self.retry_if_due(place, now_ns);
    }

    /// A request was not answered in time: its connection is of no further use.
    pub(super) fn give_up(&mut self, slot: usize, now_ns: u64) {
        self.reopen(slot, now_ns);
    }

    /// Gives attempts up that last too long, and makes those that are due.
    pub(super) fn mend_connections(&mut self, now_ns: u64) {
        for place in 0..self.net.connections.len() {
            if self.net.connections[place].link.is_given_up(now_ns) {
                self.net.connections[place].link.attempt_failed(now_ns);
                self.net.opening -= 1;
                self.flow.connection_error(now_ns, Cause::Connect);
            }
            self.retry_if_due(place, now_ns);
        }
    }

    fn retry_if_due(&mut self, place: usize, now_ns: u64) {
        let is_due = self.net.connections[place].link.is_retry_due(now_ns);
        if is_due
            && self.flow.needs_connections(now_ns)
            && let Err(cause) = self.net.connect(place, now_ns)
        {
            self.flow.connection_error(now_ns, cause);
        }
    }
}
