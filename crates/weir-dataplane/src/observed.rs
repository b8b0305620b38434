//! Values of a request for the access log and the latency metrics. Nothing is recorded if neither is configured.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};

use rustls::ProtocolVersion;
use tokio::io::{AsyncRead, AsyncWrite};
use weir_config::{LogLine, UpstreamAddress};
use weir_http::{FieldSlots, parse_request, read_refused};
use weir_io::mono_ns;

use crate::body::{BodyFault, BodyPump};
use crate::buffer::Buffer;
use crate::cause::Cause;
use crate::connection::Client;
use crate::forwarding::{Marks, forwarded_client};
use crate::listener::Listening;
use crate::log_line::{HeadValues, LoggedHead, LoggedRequest};
use crate::request::Routed;
use crate::snapshot::Snapshot;
use crate::worker::Worker;

/// The recorded values of the current request of one connection.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    /// When the request headers were complete.
    began_ns: Cell<u64>,
    /// When the final response headers arrived from the upstream; 0 before.
    answered_ns: Cell<u64>,
    /// The status sent to the client; 0 until it is set.
    pub(crate) status: Cell<u16>,
    /// Why the request failed; `None` if it did not.
    pub(crate) cause: Cell<Option<Cause>>,
    pub(crate) bytes_sent: Cell<u64>,
    /// Bytes of the request headers, plus the bytes read of the body.
    pub(crate) bytes_received: Cell<u64>,
    /// The status of the last upstream response; 0 before.
    pub(crate) upstream_status: Cell<u16>,
    /// Attempts to get a response from an upstream.
    pub(crate) tries: Cell<u32>,
    /// The TLS version of the client's connection; `None` for plain text.
    pub(crate) tls: Option<ProtocolVersion>,
    pub(crate) routed: Cell<Option<Routed>>,
    /// The endpoint of the last attempt.
    pub(crate) upstream: RefCell<Option<UpstreamAddress>>,
    /// The header fields that the gateway adds for upstreams, made before routing.
    pub(crate) marks: RefCell<Option<Box<Marks>>>,
    /// For a request with rejected headers: the client address that a trusted proxy reports. Such a request has no
    /// `marks`.
    pub(crate) refused_client: Cell<Option<IpAddr>>,
    /// The values from the request headers that the access log needs.
    pub(crate) head: RefCell<HeadValues>,
}

impl Observed {
    /// An empty record for the requests of a connection with this TLS version. `None` means plain text.
    pub(crate) fn over(tls: Option<ProtocolVersion>) -> Observed {
        Observed { tls, ..Observed::default() }
    }

    fn begin(&self) {
        self.began_ns.set(mono_ns());
        self.answered_ns.set(0);
        self.status.set(0);
        self.cause.set(None);
        self.bytes_sent.set(0);
        self.bytes_received.set(0);
        self.upstream_status.set(0);
        self.tries.set(0);
        self.routed.set(None);
        self.refused_client.set(None);
        self.upstream.take();
        self.head.borrow_mut().clear();
    }

    /// Records that the final response headers arrived from the upstream.
    pub(crate) fn answered(&self, status: u16) {
        self.answered_ns.set(mono_ns());
        self.upstream_status.set(status);
    }

    /// Records another attempt to get an upstream response.
    #[inline]
    pub(crate) fn begin_try(&self) {
        self.tries.set(self.tries.get() + 1);
    }

    /// Consumes the part of the request body in `inbound`, appends it to `out`, and counts it.
    #[inline]
    pub(crate) fn pass(
        &self,
        body: &mut BodyPump,
        inbound: &mut Buffer,
        out: &mut Vec<u8>,
    ) -> Result<(), BodyFault> {
        let before = inbound.data().len();
        let passed = body.pass(inbound, out);
        self.received(before - inbound.data().len());
        passed
    }

    /// Consumes and counts the body bytes in `inbound` if they pass unchanged and do not include the end of the body.
    #[inline]
    pub(crate) fn pass_in_place(&self, body: &mut BodyPump, inbound: &mut Buffer) -> Result<bool, BodyFault> {
        let before = inbound.data().len();
        let in_place = body.pass_in_place(inbound)?;
        self.received(before - inbound.data().len());
        Ok(in_place)
    }

    fn received(&self, bytes: usize) {
        self.bytes_received.set(self.bytes_received.get() + bytes as u64);
    }

    /// Counts bytes sent to the client.
    #[inline]
    pub(crate) fn sent(&self, bytes: usize) {
        self.bytes_sent.set(self.bytes_sent.get() + bytes as u64);
    }

    /// Nanoseconds from complete request headers to the final response headers of the upstream. `None` if no response
    /// arrived.
    pub(crate) fn upstream_ns(&self) -> Option<u64> {
        (self.answered_ns.get() > 0).then(|| self.answered_ns.get().saturating_sub(self.began_ns.get()))
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Client<'_, R, W> {
    /// Starts recording a request whose headers are still at the start of `inbound`. `has_head` is false if they are
    /// incomplete or malformed.
    #[inline(never)]
    pub(crate) fn begin_observation(&self, snapshot: &Snapshot, has_head: bool) {
        self.observed.begin();
        let Some((_, line)) = &snapshot.table.access_log else { return };
        let mut slots = FieldSlots::new();
        let came = self.inbound.data();
        if !has_head {
            self.observed.received(came.len());
            return self.observe_refused(snapshot, line);
        }
        if let Ok(Some(head)) = parse_request(came, &snapshot.head_limits, &mut slots) {
            self.observed
                .head
                .borrow_mut()
                .fill(line, &LoggedHead::of(&head, snapshot.table.underscores_in_headers));
            self.observed.received(head.head_len);
        }
    }

    /// Records the readable parts of rejected headers. Records the client address only if all header fields were read:
    /// trusted proxies append their fields last, so an unread field may come from one of them.
    #[cold]
    fn observe_refused(&self, snapshot: &Snapshot, line: &LogLine) {
        let mut slots = FieldSlots::new();
        let head = read_refused(self.inbound.data(), &snapshot.head_limits, &mut slots);
        let client = head.fields.zip(snapshot.table.forwarding.as_ref());
        let client = client.and_then(|(fields, forwarding)| forwarded_client(forwarding, fields));
        self.observed.refused_client.set(client);
        self.observed
            .head
            .borrow_mut()
            .fill(line, &LoggedHead::of_refused(&head, snapshot.table.underscores_in_headers));
    }

    /// Logs the recorded request and counts its latency.
    #[inline(never)]
    pub(crate) fn conclude_observation(&self, snapshot: &Snapshot) {
        let observed = self.observed;
        let ns = mono_ns().saturating_sub(observed.began_ns.get());
        if let Some(Routed { series, .. }) = observed.routed.get()
            && snapshot.table.metrics.latency
            && observed.status.get() >= 200
        {
            let place = (self.io.worker, self.listening, &*snapshot.table);
            snapshot.series.with(series, place, |counters| counters.latency(ns));
        }
        log_request(self.io.worker, self.listening, snapshot, (self.peer, self.is_secure), observed, ns);
        observed.marks.take();
    }
}

/// Logs a response to a client that has sent no request.
pub(crate) fn log_refusal(
    worker: &Worker,
    listening: &Listening,
    client: (SocketAddr, bool),
    cause: Cause,
    bytes_sent: usize,
) {
    let snapshot = worker.snapshot();
    if snapshot.table.access_log.is_some() {
        let observed = Observed::default();
        observed.status.set(cause.status());
        observed.cause.set(Some(cause));
        observed.sent(bytes_sent);
        log_request(worker, listening, &snapshot, client, &observed, 0);
    }
}

fn log_request(
    worker: &Worker,
    listening: &Listening,
    snapshot: &Snapshot,
    (peer, is_secure): (SocketAddr, bool),
    observed: &Observed,
    ns: u64,
) {
    if let Some((log, line)) = &snapshot.table.access_log {
        let listener = &listening.counters.name;
        let request = LoggedRequest { observed, table: &snapshot.table, listener, peer, is_secure, ns };
        worker.log.write(log.sample.0, line, &request, &worker.upstreams);
    }
}
