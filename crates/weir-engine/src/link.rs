//! The state of one connection: connecting, TLS handshake, reading, writing, and reconnecting.
//!
//! ```text
//!   Down --connect--> Connecting --writable--> (TLS: Handshaking -->) Up
//!    ^                    |                          |                |
//!    +---- failed, given up, closed, broken ---------+----------------+
//! ```

use std::io::{self, ErrorKind, Read as _, Write as _};

use weir_io::{Poll, SockAddr, Socket, recv_stamped, stamp_arrivals};

use crate::recording::books::Cause;
use crate::spec::ShardSpec;
use crate::tls::{Session, TlsClient};

/// Maximum duration of a connection attempt, including its TLS handshake.
pub(crate) const CONNECT_TIMEOUT_NS: u64 = 5_000_000_000;
/// Delay before the second retry. It doubles from attempt to attempt. The first retry is immediate.
const BACKOFF_FIRST_NS: u64 = 10_000_000;
/// Maximum delay before a retry.
const BACKOFF_MAX_NS: u64 = 500_000_000;
/// A connection that is closed before it carried a request counts as a failed attempt if it was open for less than this
/// time.
const UNUSED_LIFE_NS: u64 = 1_000_000_000;

/// Message for a failed connection to a Unix socket. A retry a moment later may succeed.
const QUEUE_FULL: &str = "connect: the server's listen queue is full";

/// Maximum size of one read from a TLS connection.
const READ_BYTES: usize = 64 * 1024;
/// Buffer space for one more TLS record. This is more than the maximum size of a record (RFC 8446, 5.2).
const RECORD_BYTES_MAX: usize = 32 * 1024;

/// One connection and its state.
#[derive(Debug)]
pub(crate) struct Link {
    state: State,
    socket: Option<Socket>,
    tls: Option<Box<Session>>,
    /// Counts the connections of this `Link`. The count distinguishes kernel events of the current connection from late
    /// events of an earlier one.
    generation: u32,
    /// Number of consecutive failed attempts.
    attempts: u32,
    up_since_ns: u64,
    /// Whether any part of a request was written on this connection.
    was_used: bool,
    /// Cause of a failed write, if any. Reading then shows whether the peer has responded.
    write_broke: Option<Cause>,
    /// Whether the kernel adds the arrival time to received bytes.
    is_stamped: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Down { retry_ns: u64 },
    Connecting { give_up_ns: u64 },
    Handshaking { give_up_ns: u64, since_ns: u64 },
    Up,
}

/// Buffers for received bytes, shared by all connections of a worker.
#[derive(Debug)]
pub(crate) struct Buffers {
    /// Plaintext of the received bytes, for the HTTP parser.
    pub(crate) plain: Box<[u8]>,
    /// Received bytes before TLS decrypts them.
    sealed: Box<[u8]>,
}

impl Buffers {
    pub(crate) fn new(has_tls: bool) -> Self {
        // A read of n encrypted bytes decrypts to at most n bytes, plus one TLS record that mostly arrived earlier.
        let sealed_bytes = if has_tls { READ_BYTES } else { 0 };
        Self { plain: vec![0; READ_BYTES + RECORD_BYTES_MAX].into(), sealed: vec![0; sealed_bytes].into() }
    }
}

/// How the connections of a worker are opened.
#[derive(Clone, Debug)]
pub(crate) struct Dialing {
    pub(crate) addresses: std::sync::Arc<[SockAddr]>,
    pub(crate) tls: Option<TlsClient>,
    /// Whether the kernel should add the arrival time to received bytes.
    pub(crate) is_stamped: bool,
    pub(crate) shard: ShardSpec,
}

/// A failure: its cause and an optional message.
pub(crate) type Failure = (Cause, Option<String>);

/// Whether the connection failed only because the server's listen queue was full. A retry may succeed as soon as
/// the server has accepted other connections.
pub(crate) fn is_queue_full((_, said): &Failure) -> bool {
    said.as_deref() == Some(QUEUE_FULL)
}

/// The result of [`Link::go_on`], which continues a connection attempt.
#[derive(Debug)]
pub(crate) enum Opening {
    /// The attempt has not ended.
    Waits,
    /// The connection is up. With TLS, `handshake_ns` is the duration of the handshake.
    Up { handshake_ns: Option<u64> },
    /// The attempt failed, with an optional message.
    Failed(Cause, Option<String>),
}

/// The result of [`Link::read`].
#[derive(Debug)]
pub(crate) enum Read {
    /// No bytes are available. The poll reports when bytes arrive.
    Nothing,
    /// This number of bytes is in the buffer. The last of them arrived at this host at the real time `stamp_ns`, if
    /// known. If `is_drained`, no more bytes are available now.
    Bytes { bytes: usize, stamp_ns: Option<u64>, is_drained: bool },
    /// The peer has closed its direction of the connection.
    Closed,
    /// The connection broke.
    Broken(Cause, Option<String>),
}

impl Dialing {
    /// The same configuration for the connections of another worker.
    pub(crate) fn of_worker(&self, worker: u32) -> Self {
        let tls = self.tls.as_ref().map(|tls| tls.of_worker(worker));
        Self { tls, ..self.clone() }
    }

    /// Address for connection `place` of this worker after a number of failed attempts. The connections of all
    /// machines use the addresses in round robin, and each retry uses the next address.
    fn address(&self, place: usize, attempts: u32) -> &SockAddr {
        let turn = self.shard.number(place as u64) + u64::from(attempts);
        &self.addresses[(turn % self.addresses.len() as u64) as usize]
    }
}

impl Link {
    pub(crate) fn new() -> Self {
        Self {
            state: State::Down { retry_ns: 0 },
            socket: None,
            tls: None,
            generation: 0,
            attempts: 0,
            up_since_ns: 0,
            was_used: false,
            write_broke: None,
            is_stamped: false,
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.state == State::Up
    }

    pub(crate) fn is_opening(&self) -> bool {
        matches!(self.state, State::Connecting { .. } | State::Handshaking { .. })
    }

    /// Whether the last finished attempt failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.attempts > 0
    }

    /// The token under which the poll reports events of this connection. `place` is the connection's index.
    pub(crate) fn token(&self, place: usize) -> u64 {
        u64::from(self.generation) << 32 | place as u64
    }

    /// Whether a poll event with `token` is for this connection.
    #[inline]
    pub(crate) fn is_meant(&self, token: u64) -> bool {
        (token >> 32) as u32 == self.generation && self.socket.is_some()
    }

    /// Whether the connection is down and the delay before the next attempt is over.
    pub(crate) fn is_retry_due(&self, now_ns: u64) -> bool {
        matches!(self.state, State::Down { retry_ns } if retry_ns <= now_ns)
    }

    /// Whether the current attempt has exceeded its time-out.
    pub(crate) fn is_given_up(&self, now_ns: u64) -> bool {
        match self.state {
            State::Connecting { give_up_ns } | State::Handshaking { give_up_ns, .. } => give_up_ns <= now_ns,
            State::Down { .. } | State::Up => false,
        }
    }

    /// Starts a connection attempt. [`Link::go_on`] continues it when the poll reports an event.
    pub(crate) fn connect(
        &mut self,
        dialing: &Dialing,
        poll: &Poll,
        place: usize,
        now_ns: u64,
    ) -> Result<(), Failure> {
        let address = dialing.address(place, self.attempts);
        self.was_used = false;
        self.up_since_ns = now_ns;
        self.generation = self.generation.wrapping_add(1);
        let attempt = weir_io::connect(address).and_then(|socket| {
            poll.add_socket(&socket, self.token(place))?;
            Ok(socket)
        });
        match attempt {
            Ok(socket) => {
                self.is_stamped = dialing.is_stamped && stamp_arrivals(&socket);
                self.socket = Some(socket);
                self.state = State::Connecting { give_up_ns: now_ns + CONNECT_TIMEOUT_NS };
                Ok(())
            }
            Err(error) => {
                self.attempt_failed(now_ns);
                Err(connect_failure(&error))
            }
        }
    }

    /// Continues a connection attempt after a poll event.
    pub(crate) fn go_on(
        &mut self,
        dialing: &mut Dialing,
        place: usize,
        buffers: &mut Buffers,
        now_ns: u64,
    ) -> Opening {
        if let State::Connecting { give_up_ns } = self.state {
            let Some(socket) = &self.socket else { return Opening::Waits };
            match socket.take_error() {
                Ok(None) => {}
                Ok(Some(error)) | Err(error) => {
                    self.attempt_failed(now_ns);
                    let (cause, said) = connect_failure(&error);
                    return Opening::Failed(cause, said);
                }
            }
            if socket.peer_addr().is_err() {
                // A spurious event: the attempt has not ended.
                return Opening::Waits;
            }
            let Some(tls) = &mut dialing.tls else {
                self.came_up(now_ns);
                return Opening::Up { handshake_ns: None };
            };
            self.tls = Some(Box::new(tls.session(place)));
            self.state = State::Handshaking { give_up_ns, since_ns: now_ns };
        }
        self.shake_hands(buffers, now_ns)
    }

    /// Continues the TLS handshake until it has to wait for the peer, or is complete.
    fn shake_hands(&mut self, buffers: &mut Buffers, now_ns: u64) -> Opening {
        let State::Handshaking { since_ns, .. } = self.state else { return Opening::Waits };
        let (Some(socket), Some(tls)) = (&mut self.socket, &mut self.tls) else { return Opening::Waits };
        let outcome = tls.shake_hands(socket, &mut buffers.sealed);
        match outcome {
            Ok(false) => Opening::Waits,
            Ok(true) => {
                self.came_up(now_ns);
                // The clock is read again, so that the duration includes the computations of this step.
                Opening::Up { handshake_ns: Some(weir_io::mono_ns().saturating_sub(since_ns)) }
            }
            Err((cause, said)) => {
                self.attempt_failed(now_ns);
                Opening::Failed(cause, said)
            }
        }
    }

    fn came_up(&mut self, now_ns: u64) {
        self.state = State::Up;
        self.up_since_ns = now_ns;
        self.write_broke = None;
    }

    /// The TLS session of this connection; `None` without TLS.
    pub(crate) fn session(&self) -> Option<&Session> {
        self.tls.as_deref()
    }

    /// Records that an attempt failed. The first retry is immediate; later retries wait longer and longer.
    pub(crate) fn attempt_failed(&mut self, now_ns: u64) {
        self.socket = None;
        self.tls = None;
        self.state = State::Down { retry_ns: now_ns + backoff_ns(self.attempts) };
        self.attempts = self.attempts.saturating_add(1);
    }

    /// Whether the connection counts as a failed attempt if it is closed now: it is unused and younger than
    /// `UNUSED_LIFE_NS`.
    pub(crate) fn is_useless(&self, now_ns: u64) -> bool {
        !self.was_used && now_ns.saturating_sub(self.up_since_ns) < UNUSED_LIFE_NS
    }

    /// Closes the connection and schedules a reconnect: after the backoff if the connection counts as a failed attempt,
    /// otherwise at once.
    pub(crate) fn close(&mut self, now_ns: u64) {
        if self.is_useless(now_ns) {
            return self.attempt_failed(now_ns);
        }
        if let (Some(socket), Some(tls)) = (&mut self.socket, &mut self.tls) {
            tls.say_goodbye(socket);
        }
        self.attempts = 0;
        self.socket = None;
        self.tls = None;
        self.state = State::Down { retry_ns: now_ns };
    }

    /// Records that writing failed because of `cause`. Reading then shows whether the peer has responded.
    pub(crate) fn stop_writing(&mut self, cause: Cause) {
        self.write_broke = Some(cause);
    }

    /// Whether the peer accepts no more bytes.
    pub(crate) fn is_write_broken(&self) -> bool {
        self.write_broke.is_some()
    }

    /// Returns why the connection ended, after a read reported `cause`. If a write failed before, returns the cause of
    /// that failure, because the kernel reports a reset only once.
    pub(crate) fn cause_of_end(&self, cause: Cause) -> Cause {
        self.write_broke.unwrap_or(cause)
    }

    /// Reads the available bytes into `buffers.plain`. With TLS, they pass through `buffers.sealed`.
    #[inline]
    pub(crate) fn read(&mut self, buffers: &mut Buffers) -> Read {
        let Some(socket) = &mut self.socket else { return Read::Nothing };
        let Some(tls) = &mut self.tls else {
            let room = buffers.plain.len();
            return match receive(socket, &mut buffers.plain, self.is_stamped) {
                Ok((0, _)) => Read::Closed,
                Ok((bytes, stamp_ns)) => Read::Bytes { bytes, stamp_ns, is_drained: bytes < room },
                Err(error) => not_read(&error),
            };
        };
        match tls.take_early(&mut buffers.plain) {
            Ok(0) => {}
            Ok(bytes) => return Read::Bytes { bytes, stamp_ns: None, is_drained: false },
            Err(said) => return Read::Broken(Cause::Tls, Some(said)),
        }
        if tls.is_ended() {
            // The peer sent close_notify after the bytes that were read before. Its socket may stay open for a long
            // time.
            return Read::Closed;
        }
        match receive(socket, &mut buffers.sealed, self.is_stamped) {
            Ok((0, _)) => Read::Closed,
            Ok((received, stamp_ns)) => {
                let decrypted = tls.decrypt(&buffers.sealed[..received], &mut buffers.plain);
                // Sends messages that TLS itself has to send. If this fails, the next read or write reports it.
                let _ = tls.flush(socket);
                match decrypted {
                    Ok(0) if tls.is_ended() => Read::Closed,
                    Ok(bytes) => {
                        let is_drained = received < buffers.sealed.len() && !tls.is_ended();
                        Read::Bytes { bytes, stamp_ns, is_drained }
                    }
                    Err(said) => Read::Broken(Cause::Tls, Some(said)),
                }
            }
            Err(error) => not_read(&error),
        }
    }

    /// Writes as much of `bytes` as the socket accepts, and returns how much was written. The caller writes the
    /// rest when the poll reports that the socket is writable.
    #[inline]
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<usize, Cause> {
        let Some(socket) = &mut self.socket else { return Ok(0) };
        let taken = match &mut self.tls {
            None => send(socket, bytes),
            Some(tls) => tls.write(socket, bytes),
        };
        taken.map_err(|error| Cause::of_broken(&error))
    }

    /// Writes encrypted bytes that the socket did not accept before.
    pub(crate) fn flush(&mut self) -> Result<(), Cause> {
        let (Some(socket), Some(tls)) = (&mut self.socket, &mut self.tls) else { return Ok(()) };
        tls.flush(socket).map(|_| ()).map_err(|error| Cause::of_broken(&error))
    }

    /// Records that a part of a request was written.
    #[inline]
    pub(crate) fn mark_used(&mut self) {
        self.was_used = true;
    }

    /// Whether the kernel timestamps received bytes.
    pub(crate) fn is_stamped(&self) -> bool {
        self.is_stamped
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        matches!(self.state, State::Handshaking { .. })
    }
}

/// Reads from the socket without blocking.
#[inline]
fn receive(socket: &mut Socket, buffer: &mut [u8], is_stamped: bool) -> io::Result<(usize, Option<u64>)> {
    loop {
        let read = if is_stamped {
            recv_stamped(socket, buffer)
        } else {
            socket.read(buffer).map(|bytes| (bytes, None))
        };
        match read {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// Writes as much as the socket accepts. Returns 0 if it accepts nothing now.
#[inline]
pub(crate) fn send(socket: &mut Socket, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match socket.write(bytes) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            written => return written,
        }
    }
}

fn not_read(error: &io::Error) -> Read {
    match error.kind() {
        ErrorKind::WouldBlock => Read::Nothing,
        _ => Read::Broken(Cause::of_broken(error), None),
    }
}

fn backoff_ns(attempts: u32) -> u64 {
    match attempts {
        0 => 0,
        _ => (BACKOFF_FIRST_NS << (attempts - 1).min(16)).min(BACKOFF_MAX_NS),
    }
}

/// Returns why an attempt failed, with a message if the cause alone is not clear. A shortage of resources on this
/// host is not an error of the server.
fn connect_failure(error: &io::Error) -> Failure {
    let said = match error.kind() {
        ErrorKind::ConnectionRefused => return (Cause::Refused, None),
        ErrorKind::ConnectionReset => return (Cause::Reset, None),
        // This happens only with Unix sockets: their `connect` fails at once if the listen queue is full.
        ErrorKind::WouldBlock => QUEUE_FULL.to_owned(),
        ErrorKind::AddrNotAvailable => {
            "connect: no local port left on the load generator's host (net.ipv4.ip_local_port_range)"
                .to_owned()
        }
        _ if [libc::EMFILE, libc::ENFILE].iter().any(|&no| error.raw_os_error() == Some(no)) => {
            "connect: no file descriptor left for the load generator (ulimit -n)".to_owned()
        }
        _ => format!("connect: {error}"),
    };
    (Cause::Connect, Some(said))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn retries_back_off_up_to_a_maximum() {
        let waits: Vec<u64> = (0..9).map(|attempts| backoff_ns(attempts) / 1_000_000).collect();
        assert_eq!(waits, [0, 10, 20, 40, 80, 160, 320, 500, 500]);
        assert_eq!(backoff_ns(u32::MAX), BACKOFF_MAX_NS);
    }

    #[test]
    fn a_connection_closed_unused_counts_as_a_failed_attempt() {
        let mut link = Link::new();
        link.close(5);
        assert!(link.is_retry_due(5));
        link.close(5);
        assert!(!link.is_retry_due(5) && link.is_retry_due(5 + BACKOFF_FIRST_NS));
        link.was_used = true;
        link.close(7);
        assert!(link.is_retry_due(7));
    }

    /// A connection that the peer reset after the load generator sent `written` bytes.
    fn reset_by_its_peer(written: usize) -> Link {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addresses = Arc::from([listener.local_addr().unwrap().into()]);
        let mut dialing = Dialing { addresses, tls: None, is_stamped: true, shard: ShardSpec::WHOLE };
        let mut poll = Poll::new().unwrap();
        let mut link = Link::new();
        link.connect(&dialing, &poll, 3, 0).unwrap();
        assert!(poll.wait() == 1 && link.is_meant(poll.readiness(0).token));
        let opening = link.go_on(&mut dialing, 3, &mut Buffers::new(false), 0);
        assert!(matches!(opening, Opening::Up { handshake_ns: None }), "{opening:?}");
        let (peer, _) = listener.accept().unwrap();
        assert_eq!(link.write(&vec![b'x'; written]), Ok(written));
        socket2::SockRef::from(&peer).set_linger(Some(Duration::ZERO)).unwrap();
        drop(peer);
        while !(poll.wait() > 0 && poll.readiness(0).is_ended) {}
        link
    }

    #[test]
    fn a_connection_that_accepted_no_byte_counts_as_a_failed_attempt() {
        let mut link = reset_by_its_peer(0);
        assert_eq!(link.write(b"GET"), Err(Cause::Reset));
        assert!(link.is_useless(5));
        link.attempts = 1;
        link.close(5);
        assert!(!link.is_retry_due(5), "a flood of attempts would follow");
    }

    #[test]
    fn a_reset_during_a_write_is_not_reported_as_a_close() {
        let mut link = reset_by_its_peer(3);
        let cause = link.write(b"more").unwrap_err();
        link.stop_writing(cause);
        let Read::Closed = link.read(&mut Buffers::new(false)) else { panic!("the kernel tells it once") };
        assert_eq!(link.cause_of_end(Cause::Closed), Cause::Reset);
    }

    #[test]
    fn connections_of_all_machines_use_addresses_in_round_robin() {
        let addresses: Arc<[SockAddr]> =
            (1..=3).map(|port| std::net::SocketAddr::from(([127, 0, 0, 1], port)).into()).collect();
        let dialing = |index, of| {
            let shard = ShardSpec { index, of };
            Dialing { addresses: Arc::clone(&addresses), tls: None, is_stamped: false, shard }
        };
        let port = |dialing: &Dialing, place, attempts| {
            dialing.address(place, attempts).as_socket().map_or(0, |address| address.port())
        };
        let ports = |dialing: &Dialing| [0, 1, 2].map(|place| port(dialing, place, 0));
        assert_eq!(ports(&dialing(0, 1)), [1, 2, 3]);
        // The first machine has connections 0, 2 and 4 of the load; the second has 1, 3 and 5.
        assert_eq!([0, 1].map(|index| ports(&dialing(index, 2))), [[1, 3, 2], [2, 1, 3]]);
        assert_eq!(port(&dialing(1, 2), 1, 1), 2, "an attempt later");
    }

    #[test]
    fn events_of_an_earlier_connection_are_ignored() {
        let mut link = reset_by_its_peer(0);
        let token = link.token(3);
        link.close(0);
        assert!(!link.is_meant(token), "it has no socket");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addresses = Arc::from([listener.local_addr().unwrap().into()]);
        let dialing = Dialing { addresses, tls: None, is_stamped: false, shard: ShardSpec::WHOLE };
        link.connect(&dialing, &Poll::new().unwrap(), 3, 0).unwrap();
        assert!(!link.is_meant(token) && link.is_meant(link.token(3)));
    }
}
