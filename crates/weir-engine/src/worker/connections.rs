//! The connections of a worker. They are opened before the load starts, and reopened when they end.

use std::ops::Range;

use bytes::Bytes;
use weir_io::{Poll, Timer, mono_ns};

use super::http1::Http1;
use super::http2::{Http2, Http2Books};
use super::{Said, TlsBooks, Worker, WorkerPlan};
use crate::link::{Buffers, CONNECT_TIMEOUT_NS, Dialing, Failure, Link, Opening, is_queue_full};
use crate::recording::books::Cause;
use crate::spec::ProtocolSpec;
use crate::tls::Session;

/// While a worker opens its connections, it checks at this interval whether the load has ended early.
const END_LOOKED_FOR_NS: u64 = 50_000_000;
/// Time between retries while the listen queue of a Unix socket is full.
const QUEUE_LOOKED_FOR_NS: u64 = 2_000_000;

/// One connection and the state of its HTTP version.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) link: Link,
    pub(super) talk: Talk,
    /// Number of requests that were sent since the connection was opened.
    pub(super) requests: u64,
}

/// The HTTP version of a connection, and its state.
#[derive(Debug)]
pub(super) enum Talk {
    Http1(Http1),
    /// `None` while the connection is not up.
    Http2(Option<Box<Http2>>),
}

/// All connections of a worker.
pub(super) struct Net {
    pub(super) poll: Poll,
    pub(super) connections: Vec<Connection>,
    /// Number of connections that are opened before the load starts. Others are opened later, by a ramp.
    first: usize,
    pub(super) buffers: Buffers,
    dialing: Dialing,
    /// Number of slots per connection. A slot holds one in-flight request.
    pub(super) streams: usize,
    /// Whether each connection has a domain. Otherwise each request has one.
    has_domains: bool,
    /// Number of requests after which a connection is closed.
    pub(super) requests_max: u64,
    pub(super) opened: u64,
    /// Number of connection attempts in progress.
    pub(super) opening: usize,
    /// Whether the load has started. Connections are then opened one by one, no longer all at once.
    has_begun: bool,
    /// Whether the kernel adds the arrival time to received bytes.
    pub(super) is_stamped: bool,
    /// Static requests in the form that the HTTP/2 library needs, by the index of the request.
    pub(super) requests: Vec<Option<(http::Request<()>, Bytes)>>,
    pub(super) said: Said,
    /// Causes of attempts that failed before the load started. They are counted when it starts.
    early_failures: Vec<Cause>,
    pub(super) tls: TlsBooks,
    pub(super) http2: Http2Books,
}

impl Talk {
    /// The HTTP/1.1 state of the connection.
    #[inline]
    pub(super) fn http1(&mut self) -> &mut Http1 {
        match self {
            Self::Http1(http1) => http1,
            Self::Http2(_) => unreachable!("all connections of a load use the same HTTP version"),
        }
    }

    /// The HTTP/2 state of the connection; `None` with HTTP/1.1, or while the connection is not up.
    #[inline]
    pub(super) fn http2(&mut self) -> Option<&mut Http2> {
        match self {
            Self::Http1(_) => None,
            Self::Http2(http2) => http2.as_deref_mut(),
        }
    }

    pub(super) fn is_http2(&self) -> bool {
        matches!(self, Self::Http2(_))
    }

    /// Whether HTTP/2 has begun and the peer has not sent its SETTINGS yet.
    fn is_settling(&self) -> bool {
        matches!(self, Self::Http2(Some(http2)) if !http2.is_settled())
    }
}

impl Connection {
    fn new(protocol: ProtocolSpec) -> Self {
        let talk = match protocol {
            ProtocolSpec::Http1 => Talk::Http1(Http1::new()),
            ProtocolSpec::Http2 => Talk::Http2(None),
        };
        Self { link: Link::new(), talk, requests: 0 }
    }

    /// Whether the connection is not usable yet: it is connecting, in its TLS handshake, or waiting for HTTP/2
    /// SETTINGS.
    pub(super) fn is_opening(&self) -> bool {
        self.link.is_opening() || self.talk.is_settling()
    }

    /// Whether the last attempt to open the connection failed.
    fn is_missing(&self) -> bool {
        self.link.has_failed() && (!self.link.is_up() || self.is_opening())
    }

    /// Whether to pause reading because the peer does not read pending replies. After a failed write, reading
    /// continues, because it shows how the connection ended.
    #[inline]
    pub(super) fn pauses_reading(&mut self) -> bool {
        match &mut self.talk {
            Talk::Http2(Some(http2)) if !self.link.is_write_broken() => http2.pauses_reading(),
            _ => false,
        }
    }
}

impl Net {
    pub(super) fn new(plan: &WorkerPlan, poll: Poll) -> Self {
        let dialing = plan.dialing.clone();
        Self {
            poll,
            connections: (0..plan.connections).map(|_| Connection::new(plan.protocol)).collect(),
            first: plan.connections_first,
            buffers: Buffers::new(dialing.tls.is_some()),
            streams: plan.streams as usize,
            has_domains: plan.has_domains && dialing.tls.is_some(),
            is_stamped: dialing.is_stamped,
            dialing,
            requests_max: plan.requests_per_connection.unwrap_or(u64::MAX),
            opened: 0,
            opening: 0,
            has_begun: false,
            requests: Vec::new(),
            said: Said::default(),
            early_failures: Vec::new(),
            tls: TlsBooks::default(),
            http2: Http2Books::default(),
        }
    }

    /// The transport (link) and the HTTP/1.1 state of connection `place`.
    #[inline]
    pub(super) fn http1(&mut self, place: usize) -> (&mut Link, &mut Http1) {
        let connection = &mut self.connections[place];
        (&mut connection.link, connection.talk.http1())
    }

    /// Returns the index of the connection that a slot belongs to, and the index of the slot on this connection.
    #[inline]
    pub(super) fn connection_of(&self, slot: usize) -> (usize, usize) {
        (slot / self.streams, slot % self.streams)
    }

    /// The slots of connection `place`.
    pub(super) fn slots_of(&self, place: usize) -> Range<usize> {
        place * self.streams..(place + 1) * self.streams
    }

    /// The index of the domain of connection `place`; `None` if connections have no domains, or if this connection has
    /// no TLS session.
    #[inline]
    pub(super) fn domain_of(&self, place: usize) -> Option<u32> {
        if !self.has_domains {
            return None;
        }
        self.connections[place].link.session().map(Session::domain)
    }

    /// Opens the connections that the load uses from its start. Failed attempts are retried after the start.
    pub(super) fn connect_first(&mut self, timer: &mut Timer, is_ended: impl Fn() -> bool) {
        let deadline_ns = mono_ns() + CONNECT_TIMEOUT_NS;
        let mut put_off = Vec::new();
        for place in 0..self.first {
            if self.connect_early(place) {
                put_off.push(place);
            }
        }
        while (self.opening > 0 || !put_off.is_empty()) && mono_ns() < deadline_ns && !is_ended() {
            let look_ns = if put_off.is_empty() { END_LOOKED_FOR_NS } else { QUEUE_LOOKED_FOR_NS };
            timer.set(deadline_ns.min(mono_ns() + look_ns));
            for at in 0..self.poll.wait() {
                let token = self.poll.readiness(at).token;
                let place = token as u32 as usize;
                let is_meant = self.connections.get(place).is_some_and(|one| one.link.is_meant(token));
                if is_meant
                    && self.connections[place].is_opening()
                    && let Err(cause) = self.go_on(place, mono_ns())
                {
                    self.early_failures.push(cause);
                }
            }
            put_off.retain(|&place| {
                let is_due = self.connections[place].link.is_retry_due(mono_ns());
                !is_due || self.connect_early(place)
            });
        }
        timer.rang();
        self.has_begun = true;
    }

    /// Begins a connection attempt before the load has started. Returns whether it must be retried because the
    /// server's listen queue is full.
    fn connect_early(&mut self, place: usize) -> bool {
        match self.connect(place, mono_ns()) {
            Ok(()) => false,
            Err(failure) if is_queue_full(&failure) => true,
            Err((cause, said)) => {
                self.said.add(said);
                self.early_failures.push(cause);
                false
            }
        }
    }

    fn connect(&mut self, place: usize, now_ns: u64) -> Result<(), Failure> {
        self.connections[place].link.connect(&self.dialing, &self.poll, place, now_ns)?;
        self.opening += 1;
        Ok(())
    }

    /// Continues a connection attempt. Returns whether requests can be sent now.
    fn go_on(&mut self, place: usize, now_ns: u64) -> Result<bool, Cause> {
        if !self.connections[place].talk.is_settling() {
            let link = &mut self.connections[place].link;
            match link.go_on(&mut self.dialing, place, &mut self.buffers, now_ns) {
                Opening::Waits => return Ok(false),
                Opening::Up { handshake_ns } => self.came_up(place, handshake_ns, now_ns)?,
                Opening::Failed(cause, said) => {
                    self.tls.failed += u64::from(cause == Cause::Tls);
                    return Err(self.attempt_failed(cause, said));
                }
            }
        }
        let connection = &mut self.connections[place];
        if let Some(http2) = connection.talk.http2() {
            match http2.settle(&mut connection.link, &mut self.buffers) {
                Ok(true) => self.http2.note_allowed(http2.allowed(), self.streams),
                Ok(false) => return Ok(false),
                Err((cause, said)) => return Err(self.reject(place, now_ns, cause, said)),
            }
        }
        self.opening -= 1;
        self.opened += 1;
        Ok(true)
    }

    fn came_up(&mut self, place: usize, handshake_ns: Option<u64>, now_ns: u64) -> Result<(), Cause> {
        let connection = &mut self.connections[place];
        connection.requests = 0;
        self.is_stamped &= connection.link.is_stamped();
        let session = connection.link.session();
        if let (Some(took_ns), Some(session)) = (handshake_ns, session) {
            self.tls.finished(session, took_ns, !self.has_begun);
        }
        if connection.talk.is_http2() {
            if session.is_some_and(|session| !session.is_http2()) {
                let said = "HTTP/2: the server did not negotiate h2 (ALPN); it may support only HTTP/1.1";
                return Err(self.reject(place, now_ns, Cause::Http2, Some(said.into())));
            }
            connection.talk = Talk::Http2(Some(Box::new(Http2::begin(self.streams, now_ns))));
        }
        Ok(())
    }

    /// Gives up a connection that was established, but cannot be used.
    fn reject(&mut self, place: usize, now_ns: u64, cause: Cause, said: Option<String>) -> Cause {
        let connection = &mut self.connections[place];
        connection.talk = Talk::Http2(None);
        connection.link.attempt_failed(now_ns);
        self.attempt_failed(cause, said)
    }

    fn attempt_failed(&mut self, cause: Cause, said: Option<String>) -> Cause {
        self.opening -= 1;
        self.said.add(said);
        cause
    }
}

impl Worker {
    /// At the start of the load, makes the open connections available to it, and opens the missing ones.
    pub(super) fn adopt_connections(&mut self) {
        let now_ns = self.flow.timeline().start_ns;
        for cause in std::mem::take(&mut self.net.early_failures) {
            self.flow.connection_error(now_ns, cause);
        }
        for place in 0..self.net.connections.len() {
            let connection = &self.net.connections[place];
            if !connection.link.is_up() || connection.is_opening() {
                self.retry_if_due(place, now_ns);
                continue;
            }
            self.open_places(place, now_ns);
            // Bytes that arrived before the first request belong to no response, so read them now.
            self.serve(place, true);
        }
    }

    /// Continues a connection attempt. Once the connection is up, starts the requests that are due.
    pub(super) fn go_on_opening(&mut self, place: usize, now_ns: u64) {
        match self.net.go_on(place, now_ns) {
            Ok(false) => {}
            Ok(true) => {
                self.open_places(place, mono_ns());
                // The peer may already have closed the connection, or sent bytes that belong to no request. The poll
                // does not report these events again, so read now.
                self.serve(place, true);
                self.start_due(mono_ns());
            }
            Err(cause) => {
                self.flow.connection_error(now_ns, cause);
                self.retry_if_due(place, now_ns);
            }
        }
    }

    /// Reports to the load that the slots of a new connection can be used.
    fn open_places(&mut self, place: usize, now_ns: u64) {
        let allowed = match self.net.connections[place].talk.http2() {
            Some(http2) => http2.allowed(),
            None => 1,
        };
        for slot in self.net.slots_of(place).take(allowed) {
            self.flow.connected(slot, now_ns);
        }
    }

    /// Handles a connection that broke, or on which the peer sent malformed data: its requests fail, and it is
    /// reopened.
    pub(super) fn broken(&mut self, place: usize, now_ns: u64, cause: Cause) {
        let mut was_busy = false;
        for slot in self.net.slots_of(place) {
            if self.flow.is_busy(slot) {
                was_busy = true;
                self.flow.failed(slot, now_ns, cause);
            } else {
                self.flow.disconnected(slot);
            }
        }
        match was_busy {
            true => self.reopen(place, now_ns),
            false => self.lost(place, now_ns, cause),
        }
    }

    /// Handles the end of an idle HTTP/1.1 connection.
    pub(super) fn disconnect(&mut self, place: usize, now_ns: u64, cause: Cause) {
        self.flow.disconnected(place);
        self.lost(place, now_ns, cause);
    }

    /// Handles the end of a connection without in-flight requests. This is an error only if the connection was closed
    /// soon after it was opened and never carried a request.
    pub(super) fn lost(&mut self, place: usize, now_ns: u64, cause: Cause) {
        if self.net.connections[place].link.is_useless(now_ns) {
            self.flow.connection_error(now_ns, cause);
        }
        self.reopen(place, now_ns);
    }

    /// Closes a connection without in-flight requests. Reopens it at once, or after a delay if attempts fail.
    pub(super) fn reopen(&mut self, place: usize, now_ns: u64) {
        let connection = &mut self.net.connections[place];
        match &mut connection.talk {
            Talk::Http1(http1) => self.partial -= http1.end(),
            Talk::Http2(http2) => *http2 = None,
        }
        connection.link.close(now_ns);
        self.retry_if_due(place, now_ns);
    }

    /// Handles the time-out of a request: cancels its stream (HTTP/2), or reopens its connection (HTTP/1.1).
    pub(super) fn give_up(&mut self, slot: usize, now_ns: u64) {
        if self.net.connections[self.net.connection_of(slot).0].talk.is_http2() {
            self.give_up_http2(slot, now_ns);
        } else {
            // The late response could be mistaken for the response to the next request.
            self.reopen(slot, now_ns);
        }
    }

    /// Gives up connection attempts that timed out, and starts the attempts that are due.
    pub(super) fn mend_connections(&mut self, now_ns: u64) {
        let mut missing = 0;
        for place in 0..self.net.connections.len() {
            let slot = self.net.slots_of(place).start;
            let is_missing = self.net.connections[place].is_missing() && self.flow.is_in_use(slot, now_ns);
            missing += u64::from(is_missing);
            let connection = &mut self.net.connections[place];
            let is_handshaking = connection.link.is_handshaking();
            if connection.link.is_given_up(now_ns) {
                connection.link.attempt_failed(now_ns);
                let (cause, what) = match is_handshaking {
                    true => (Cause::Tls, "TLS: no complete handshake"),
                    false => (Cause::Connect, "connect: no response"),
                };
                let said = format!("{what} within {} s", CONNECT_TIMEOUT_NS / 1_000_000_000);
                let cause = self.net.attempt_failed(cause, Some(said));
                self.flow.connection_error(now_ns, cause);
            } else if connection.talk.http2().is_some_and(|http2| http2.is_overdue(now_ns)) {
                let said = "HTTP/2: no SETTINGS from the server within 5 s".to_owned();
                let cause = self.net.reject(place, now_ns, Cause::Http2, Some(said));
                self.flow.connection_error(now_ns, cause);
            }
            self.close_if_done(place, now_ns);
            self.retry_if_due(place, now_ns);
        }
        self.flow.note_missing(missing, now_ns);
    }

    /// Closes an idle connection if the number of connections has decreased and the load no longer uses this one.
    fn close_if_done(&mut self, place: usize, now_ns: u64) {
        let connection = &self.net.connections[place];
        let is_idle = connection.link.is_up() && !connection.is_opening();
        let mut slots = self.net.slots_of(place);
        if !is_idle || !self.flow.is_done(slots.start, now_ns) || slots.any(|slot| self.flow.is_busy(slot)) {
            return;
        }
        self.rest(place);
        self.reopen(place, now_ns);
    }

    fn retry_if_due(&mut self, place: usize, now_ns: u64) {
        let is_due = self.net.connections[place].link.is_retry_due(now_ns);
        let slot = self.net.slots_of(place).start;
        if is_due
            && self.flow.is_in_use(slot, now_ns)
            && self.flow.needs_connections(now_ns)
            && let Err((cause, said)) = self.net.connect(place, now_ns)
        {
            self.net.said.add(said);
            self.flow.connection_error(now_ns, cause);
        }
    }
}
