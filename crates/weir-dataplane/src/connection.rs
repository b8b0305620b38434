//! A client connection: exchanges in sequence until one ends the connection.
//!
//! ```text
//!            +--------------------------------- keep-alive ------------------------------+
//!            v                                                                            |
//! accept -> idle -> partial head -> planned -> exchange (upstream, body, response) -> responded
//!            |           |             |               |                                  |
//!            +- closed   +- 4xx -------+- 4xx, 5xx ----+- 5xx, or reset mid-response      +- close
//! ```

use std::net::SocketAddr;
use std::rc::Rc;

use rustls::ProtocolVersion;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::addresses::AddressSeat;
use crate::buffer::Buffer;
use crate::cause::Cause;
use crate::forwarding::Arrival;
use crate::io::{Io, IoFault};
use crate::leaving::ClientSide;
use crate::listener::{Listening, reject};
use crate::observed::{Observed, log_refusal};
use crate::parses::Parses;
use crate::plain::PlainHalf;
use crate::program_log::seldom;
use crate::proxy_header::Addresses;
use crate::request::{Incoming, Plan, Routed, plan};
use crate::respond::Refusal;
use crate::snapshot::Snapshot;
use crate::spread::HostSeat;
use crate::wheel::Timer;
use crate::worker::{LAST_REQUEST_TICKS, Worker};

/// A client connection over the two halves of a socket or of a TLS session.
pub(crate) struct Client<'a, R, W> {
    pub(crate) io: Io<'a>,
    pub(crate) listening: &'a Listening,
    pub(crate) reader: R,
    pub(crate) writer: W,
    /// Address of the client.
    pub(crate) peer: SocketAddr,
    /// Whether the client uses TLS.
    pub(crate) is_secure: bool,
    /// Data about the request in progress, for the log.
    pub(crate) observed: &'a Observed,
    /// The client's source and destination address, for PROXY protocol headers to backends. `None` if no backend has
    /// `proxy_protocol` and the client's connection did not begin with such a header.
    pub(crate) addresses: Option<Addresses>,
    /// Bytes read but not yet consumed: the rest of a body, or pipelined requests.
    pub(crate) inbound: Buffer,
    /// Whether the client has closed its sending side and still gets the response.
    is_half_closed: bool,
}

/// What happens to the connection after an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// Serve the next request.
    Next,
    /// Close immediately.
    Close,
    /// Close after the client had time to read the response.
    Linger,
    /// Reset: the response is truncated and must not look complete.
    Cut,
}

/// Serves a client without TLS until its connection ends.
pub(crate) async fn serve(seat: Seat, stream: TcpStream) {
    let (reader, writer) = PlainHalf::both(&stream);
    let after = converse(&seat, reader, writer, None).await;
    if after == After::Cut {
        reset_on_close(&stream);
    }
}

/// Makes the socket reset the connection when it is closed, so that a truncated response does not look complete. If the
/// option cannot be set, the client can still see that the end of the body or the TLS `close_notify` is missing.
pub(crate) fn reset_on_close(stream: &TcpStream) {
    let _ = rustix::net::sockopt::set_socket_linger(stream, Some(std::time::Duration::ZERO));
}

/// Counts a failure, logs it at debug level, and returns the cause to report.
pub(crate) fn count_failure(worker: &Worker, listening: &Listening, peer: SocketAddr, cause: Cause) -> Cause {
    let cause = worker.reported_cause(cause);
    listening.counters.failure(cause);
    let listener = &listening.counters.name;
    seldom!(log::Level::Debug, "{listener}: {peer}: {}: {}", cause.name(), cause.text());
    cause
}

/// Serves requests until one of them ends the connection. If necessary, gives the client time to read the last
/// response. The caller closes or resets the connection.
#[inline]
pub(crate) async fn converse<R, W>(seat: &Seat, reader: R, writer: W, tls: Option<ProtocolVersion>) -> After
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let io = seat.io();
    let mut client = Client {
        io,
        listening: &seat.listening,
        reader,
        writer,
        peer: seat.peer,
        is_secure: tls.is_some(),
        observed: &Observed::over(tls),
        addresses: seat.addresses,
        inbound: Buffer::default(),
        is_half_closed: false,
    };
    let after = loop {
        match client.serve_one().await {
            After::Next => {}
            end => break end,
        }
    };
    if after == After::Linger {
        io.linger(&mut client.reader, &mut client.writer, &mut client.inbound).await;
    }
    after
}

/// Sends an error response to a client that exceeds a limit.
pub(crate) async fn refuse_connection(
    worker: Rc<Worker>,
    listening: Rc<Listening>,
    mut stream: TcpStream,
    peer: SocketAddr,
    cause: Cause,
) {
    listening.rejecting.set(listening.rejecting.get() + 1);
    send_error(&worker, &listening, &mut stream, peer, cause).await;
    listening.rejecting.set(listening.rejecting.get() - 1);
}

/// Sends an error response with this cause and gives the client time to read it.
pub(crate) async fn send_error(
    worker: &Worker,
    listening: &Listening,
    stream: &mut TcpStream,
    peer: SocketAddr,
    cause: Cause,
) {
    let timer = worker.wheel.timer(listening.id);
    let io = Io { worker, timer: &timer };
    let (mut reader, mut writer) = PlainHalf::both(stream);
    let mut answer = Vec::new();
    Refusal::new(cause).append(&mut answer, worker.date.text().as_bytes());
    let mut bytes = 0;
    let sent = io.write_all(&mut writer, &answer, &mut bytes, 1).await;
    log_refusal(worker, listening, (peer, false), cause, bytes);
    if sent.is_ok() {
        io.linger(&mut reader, &mut writer, &mut Buffer::default()).await;
    }
    worker.wheel.forget(&timer);
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Client<'_, R, W> {
    /// The reading side, to detect disconnects during other waits.
    #[inline]
    pub(crate) fn side(&mut self) -> ClientSide<'_, R> {
        self.split().0
    }

    /// The reading side and the writer.
    #[inline]
    pub(crate) fn split(&mut self) -> (ClientSide<'_, R>, &mut W) {
        let Client { io, listening, reader, writer, inbound, is_half_closed, .. } = self;
        (ClientSide { io: *io, listening, reader, inbound, is_half_closed }, writer)
    }

    /// Waits for a request and serves it.
    async fn serve_one(&mut self) -> After {
        let buffers = &self.io.worker.buffers;
        let mut out = Vec::new();
        let (incoming, snapshot) = match self.next_request(&mut out).await {
            Ok(next) => next,
            Err(after) => return after,
        };
        self.listening.counters.requests.add(1);
        if snapshot.is_observed {
            let has_head = !matches!(incoming, Incoming::Refused(_, 0));
            self.begin_observation(&snapshot, has_head);
        }
        let after = match incoming {
            Incoming::Request(plan) => self.exchange(&plan, &snapshot, &mut out).await,
            Incoming::Answered(answer) => self.answer(&answer, &snapshot, &mut out).await,
            Incoming::Refused(refusal, head_len) => {
                if refusal.cause == Cause::Overloaded {
                    self.io.worker.pressure.count(&self.io.worker.upstreams);
                }
                self.inbound.consume(head_len);
                self.refuse(refusal, &snapshot).await
            }
            Incoming::Partial => After::Close,
        };
        if snapshot.is_observed {
            self.conclude_observation(&snapshot);
        }
        buffers.put_output(out);
        after
    }

    /// Reads complete request headers; appends the request headers for the upstream to `out`.
    async fn next_request(&mut self, out: &mut Vec<u8>) -> Result<(Incoming, Rc<Snapshot>), After> {
        let Io { worker, timer } = self.io;
        // Bytes of incomplete headers at the previous parse.
        let mut seen = 0;
        let mut parses = Parses::default();
        loop {
            let snapshot = worker.snapshot();
            let bytes = self.inbound.data();
            if bytes.is_empty() {
                timer.arm_idle(&worker.wheel, self.idle_ticks(&snapshot));
            } else if parses.are_due(bytes, seen, snapshot.head_limits.head_bytes) {
                if out.capacity() == 0 {
                    *out = worker.buffers.output();
                }
                match plan(bytes, &snapshot, &self.arrival(&snapshot), out) {
                    Incoming::Partial if seen > 0 => {}
                    Incoming::Partial => timer.arm(&worker.wheel, snapshot.ticks.head),
                    whole => return Ok((whole, snapshot)),
                }
            }
            seen = bytes.len();
            match self.io.read_armed(&mut self.reader, &mut self.inbound).await {
                Ok(bytes) if bytes > 0 => {}
                Err(IoFault::Timeout) if !self.inbound.is_empty() => {
                    return Ok((Incoming::Refused(Refusal::new(Cause::HeadTimeout), 0), snapshot));
                }
                Ok(_) if !self.inbound.is_empty() => {
                    self.count_failure(Cause::ClientClosed);
                    return Err(After::Close);
                }
                _ => return Err(After::Close),
            }
        }
    }

    fn arrival(&self, snapshot: &Snapshot) -> Arrival<'_> {
        Arrival {
            scope: self.listening.scope(&snapshot.table),
            peer: self.peer,
            listener: Some(&self.listening.counters),
            is_secure: self.is_secure,
            ids: &self.io.worker.ids,
            observed: self.observed,
            is_shed: self.io.worker.pressure.is_on(),
        }
    }

    fn idle_ticks(&self, snapshot: &Snapshot) -> u32 {
        let ticks = snapshot.ticks.idle;
        let is_closed = self.io.worker.is_closed() || self.listening.is_retired();
        if is_closed { ticks.min(LAST_REQUEST_TICKS) } else { ticks }
    }

    /// Whether the connection should close after the response in progress.
    pub(crate) fn is_draining(&self) -> bool {
        self.io.worker.is_ending() || self.listening.is_retired()
    }

    /// Sends an error response of the gateway.
    pub(crate) async fn refuse(&mut self, mut refusal: Refusal, snapshot: &Snapshot) -> After {
        refusal.close |= self.is_draining();
        refusal.cause = self.io.worker.reported_cause(refusal.cause);
        self.count_failure(refusal.cause);
        self.count_response(refusal.routed, refusal.cause.status(), snapshot);
        let Io { worker, .. } = self.io;
        let mut answer = worker.buffers.output();
        refusal.append(&mut answer, worker.date.text().as_bytes());
        let mut bytes = 0;
        let sent = self.io.write_all(&mut self.writer, &answer, &mut bytes, snapshot.ticks.write).await;
        self.observed.sent(bytes);
        worker.buffers.put_output(answer);
        match sent {
            Err(_) => After::Close,
            Ok(()) if refusal.close => After::Linger,
            Ok(()) => After::Next,
        }
    }

    /// Counts a failure and records its cause for the log.
    pub(crate) fn count_failure(&self, cause: Cause) {
        let cause = count_failure(self.io.worker, self.listening, self.peer, cause);
        self.observed.cause.set(Some(cause));
    }

    /// Counts a response of the gateway itself; `routed` is `None` if no route matched.
    pub(crate) fn count_response(&self, routed: Option<Routed>, status: u16, snapshot: &Snapshot) {
        self.listening.counters.response(status);
        self.observed.status.set(status);
        self.observed.routed.set(routed);
        if let Some(Routed { series, .. }) = routed {
            let place = (self.io.worker, self.listening, &*snapshot.table);
            snapshot.series.with(series, place, |counters| counters.response(status));
        }
    }

    /// Sends an error response for an exchange that failed before its response began.
    pub(crate) async fn fail(
        &mut self,
        cause: Cause,
        plan: &Plan,
        request_done: bool,
        snapshot: &Snapshot,
    ) -> After {
        let refusal = Refusal {
            routed: Some(plan.routed),
            head_only: plan.response_to == weir_http::ResponseTo::Head,
            fields: plan.filtered.as_deref().map_or_else(Vec::new, |filtered| filtered.cors.clone()),
            close: !request_done || !plan.keep_alive || plan.version == weir_http::Version::Http10,
            ..Refusal::new(cause)
        };
        self.refuse(refusal, snapshot).await
    }
}

/// Registration of a connection in counters, limits and on the timer wheel. Drop removes it. It is created before the
/// connection's task first runs, so that a draining worker does not exit before the task starts.
pub(crate) struct Seat {
    worker: Rc<Worker>,
    listening: Rc<Listening>,
    timer: Rc<Timer>,
    /// Counts the connection in the connection count of its worker.
    _of_worker: HostSeat,
    /// Counts the connection in the connection count of its client address, if `limits.connections_per_address` is set.
    of_address: Option<AddressSeat>,
    /// Address of the client.
    pub(crate) peer: SocketAddr,
    addresses: Option<Addresses>,
}

impl Seat {
    /// Registers a connection that [`crate::worker::Shared::enter`] has admitted.
    pub(crate) fn take(
        worker: Rc<Worker>,
        listening: Rc<Listening>,
        (peer, addresses): (SocketAddr, Option<Addresses>),
        (of_worker, of_address): (HostSeat, Option<AddressSeat>),
    ) -> Seat {
        let timer = worker.wheel.timer(listening.id);
        listening.counters.open.add(1);
        Seat { worker, listening, timer, peer, addresses, _of_worker: of_worker, of_address }
    }

    /// Worker and timer for the task of the connection.
    pub(crate) fn io(&self) -> Io<'_> {
        Io { worker: &self.worker, timer: &self.timer }
    }

    /// Address of the client.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The client's source and destination address, for PROXY protocol headers to backends. `None` if no backend has
    /// `proxy_protocol` and the client's connection did not begin with such a header.
    pub(crate) fn addresses(&self) -> Option<Addresses> {
        self.addresses
    }

    /// Sets the client addresses from a PROXY protocol header.
    pub(crate) fn set_addresses(&mut self, addresses: Addresses) {
        self.peer = addresses.source;
        self.addresses = Some(addresses);
    }

    /// Counts a client that failed before its first request. Returns the cause to report.
    pub(crate) fn count_failure(&self, cause: Cause) -> Cause {
        count_failure(&self.worker, &self.listening, self.peer, cause)
    }

    /// Counts the connection toward the limit of its client address, if configured.
    pub(crate) fn take_address_seat(&mut self) -> Result<(), Cause> {
        let most = self.worker.snapshot().table.limits.connections_per_address;
        self.of_address = AddressSeat::take_any(&self.worker.shared, self.peer, most)?;
        Ok(())
    }

    /// The listener that accepted the connection.
    pub(crate) fn listening(&self) -> &Listening {
        &self.listening
    }

    /// Removes the registration and rejects the client.
    pub(crate) fn reject(self, stream: TcpStream, cause: Cause) {
        let (worker, listening, peer) = (Rc::clone(&self.worker), Rc::clone(&self.listening), self.peer);
        drop(self);
        reject(&worker, &listening, (stream, peer), cause);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.worker.wheel.forget(&self.timer);
        self.listening.counters.open.subtract(1);
        self.worker.shared.leave();
    }
}
