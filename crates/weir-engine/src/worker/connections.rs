//! The connections of a worker: opened before the clock starts, opened again when they end.

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

/// While connections open, an early end of the load is looked for so often.
const END_LOOKED_FOR_NS: u64 = 50_000_000;
/// While connections wait for room in the listen queue of a Unix socket, they are tried again so often.
const QUEUE_LOOKED_FOR_NS: u64 = 2_000_000;

/// One connection and what goes on on it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) link: Link,
    pub(super) talk: Talk,
    /// Requests since it was opened.
    pub(super) requests: u64,
}

/// What is spoken on a connection.
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
    /// How many of them are opened before the clock starts.
    first: usize,
    pub(super) buffers: Buffers,
    dialing: Dialing,
    /// Places on each connection.
    pub(super) streams: usize,
    /// Whether connections have domains; else the requests have them.
    has_domains: bool,
    /// Requests after which a connection is opened anew.
    pub(super) requests_max: u64,
    pub(super) opened: u64,
    /// Attempts that last.
    pub(super) opening: usize,
    /// The clock has started: connections are no longer opened all at one time.
    has_begun: bool,
    /// Whether the kernel notes when bytes come.
    pub(super) is_stamped: bool,
    /// Requests as the HTTP/2 library wants them, by their numbers.
    pub(super) requests: Vec<Option<(http::Request<()>, Bytes)>>,
    pub(super) said: Said,
    /// Attempts that failed before the load began: its books count them as soon as they are open.
    early_failures: Vec<Cause>,
    pub(super) tls: TlsBooks,
    pub(super) http2: Http2Books,
}

impl Talk {
    /// HTTP/1.1's part.
    #[inline]
    pub(super) fn http1(&mut self) -> &mut Http1 {
        match self {
            Self::Http1(http1) => http1,
            Self::Http2(_) => unreachable!("all connections of a load speak the same"),
        }
    }

    /// HTTP/2's part, where it is spoken and the connection is up.
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

    /// Whether the peer has yet to say that it speaks HTTP/2.
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

    /// Whether it is on its way to being of use.
    pub(super) fn is_opening(&self) -> bool {
        self.link.is_opening() || self.talk.is_settling()
    }

    /// Whether an attempt to open it failed and none has succeeded since.
    fn is_missing(&self) -> bool {
        self.link.has_failed() && (!self.link.is_up() || self.is_opening())
    }

    /// Whether nothing more is read until the peer has read what waits for it. Where nothing can be written any more,
    /// reading shows how the connection ended.
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

    /// A connection's link and its HTTP/1.1.
    #[inline]
    pub(super) fn http1(&mut self, place: usize) -> (&mut Link, &mut Http1) {
        let connection = &mut self.connections[place];
        (&mut connection.link, connection.talk.http1())
    }

    /// The connection of a place, and which of its places that is.
    #[inline]
    pub(super) fn connection_of(&self, slot: usize) -> (usize, usize) {
        (slot / self.streams, slot % self.streams)
    }

    /// The places of a connection.
    pub(super) fn slots_of(&self, place: usize) -> Range<usize> {
        place * self.streams..(place + 1) * self.streams
    }

    /// The domain that a connection is for, where connections have one each.
    #[inline]
    pub(super) fn domain_of(&self, place: usize) -> Option<u32> {
        if !self.has_domains {
            return None;
        }
        self.connections[place].link.session().map(Session::domain)
    }

    /// Opens the connections that are in use from the start, before the clock starts. Those that fail are retried when
    /// it has started.
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

    /// Begins an attempt before the load has begun. Returns whether a full accept queue asks for another attempt.
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

    /// Goes on with an attempt; whether requests can be sent.
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
                let said = "HTTP/2: the server did not agree on it (ALPN); it may speak HTTP/1.1 only";
                return Err(self.reject(place, now_ns, Cause::Http2, Some(said.into())));
            }
            connection.talk = Talk::Http2(Some(Box::new(Http2::begin(self.streams, now_ns))));
        }
        Ok(())
    }

    /// A connection that came up is of no use.
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
    /// Hands the connections that are open to the load, and opens the others.
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
            // What a peer said before it was asked must not pass for the first answer.
            self.serve(place, true);
        }
    }

    /// Goes on with an attempt, and starts what is due when the connection is up.
    pub(super) fn go_on_opening(&mut self, place: usize, now_ns: u64) {
        match self.net.go_on(place, now_ns) {
            Ok(false) => {}
            Ok(true) => {
                self.open_places(place, mono_ns());
                // An end, or bytes that nobody asked for, may have come along: the poll does not tell of them again.
                self.serve(place, true);
                self.start_due(mono_ns());
            }
            Err(cause) => {
                self.flow.connection_error(now_ns, cause);
                self.retry_if_due(place, now_ns);
            }
        }
    }

    /// Hands the places of a connection that has come up to the load.
    fn open_places(&mut self, place: usize, now_ns: u64) {
        let allowed = match self.net.connections[place].talk.http2() {
            Some(http2) => http2.allowed(),
            None => 1,
        };
        for slot in self.net.slots_of(place).take(allowed) {
            self.flow.connected(slot, now_ns);
        }
    }

    /// The connection broke, or what came on it is no HTTP.
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
        match &mut connection.talk {
            Talk::Http1(http1) => self.partial -= http1.end(),
            Talk::Http2(http2) => *http2 = None,
        }
        connection.link.close(now_ns);
        self.retry_if_due(place, now_ns);
    }

    /// A request was not answered in time.
    pub(super) fn give_up(&mut self, slot: usize, now_ns: u64) {
        if self.net.connections[self.net.connection_of(slot).0].talk.is_http2() {
            self.give_up_http2(slot, now_ns);
        } else {
            // The answer may yet come, and would pass for that to the next request.
            self.reopen(slot, now_ns);
        }
    }

    /// Gives attempts up that last too long, and makes those that are due.
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
                    true => (Cause::Tls, "TLS: the handshake has not ended"),
                    false => (Cause::Connect, "connect: no answer"),
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

    /// Closes a connection whose time in a falling number of them is up, once its last answer is there.
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
