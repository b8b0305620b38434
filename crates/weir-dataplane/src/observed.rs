//! What is told of a request: in the access log, and as its latency. Where neither is asked for, none of it is filled in.

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
use crate::log_line::{HeadValues, LoggedHead, Told};
use crate::request::Routed;
use crate::snapshot::Snapshot;
use crate::worker::Worker;

/// What is known of the request in progress of one connection.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    /// When its head was whole.
    began_ns: Cell<u64>,
    /// When the head of the final answer came from the upstream; 0 before.
    answered_ns: Cell<u64>,
    /// The status that the client got; 0 before.
    pub(crate) status: Cell<u16>,
    /// Why it did not end well.
    pub(crate) cause: Cell<Option<Cause>>,
    pub(crate) bytes_sent: Cell<u64>,
    /// Of the head, and of the body what was read.
    pub(crate) bytes_received: Cell<u64>,
    /// The status of the last answer that an endpoint gave; 0 before.
    pub(crate) upstream_status: Cell<u16>,
    /// How often it was tried to have it answered upstream.
    pub(crate) tries: Cell<u32>,
    /// What the client's connection speaks, where that is TLS.
    pub(crate) tls: Option<ProtocolVersion>,
    pub(crate) routed: Cell<Option<Routed>>,
    /// The endpoint that was asked last.
    pub(crate) upstream: RefCell<Option<UpstreamAddress>>,
    /// What was made of it for upstreams, before all else.
    pub(crate) marks: RefCell<Option<Box<Marks>>>,
    /// The client of a request without marks, as its head was refused, where a trusted proxy reports it.
    pub(crate) refused_client: Cell<Option<IpAddr>>,
    /// What the access log tells of its head.
    pub(crate) head: RefCell<HeadValues>,
}

impl Observed {
    /// Of the requests of a connection that speaks this version of TLS, or plain text.
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

    /// The head of the final answer has come from the upstream.
    pub(crate) fn answered(&self, status: u16) {
        self.answered_ns.set(mono_ns());
        self.upstream_status.set(status);
    }

    /// It is tried once more to have it answered upstream.
    #[inline]
    pub(crate) fn begin_try(&self) {
        self.tries.set(self.tries.get() + 1);
    }

    /// Passes on what `inbound` has of the request's body, and counts it.
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

    /// Consumes what `inbound` has of the request's body if it goes on as it is and is not the end, and counts it.
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

    /// So many bytes have left for the client.
    #[inline]
    pub(crate) fn sent(&self, bytes: usize) {
        self.bytes_sent.set(self.bytes_sent.get() + bytes as u64);
    }

    /// From the whole head to the head of the answer.
    pub(crate) fn upstream_ns(&self) -> Option<u64> {
        (self.answered_ns.get() > 0).then(|| self.answered_ns.get().saturating_sub(self.began_ns.get()))
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Client<'_, R, W> {
    /// Begins to observe a request whose head still stands at the start of what was read; `has_head` is false where it
    /// is not whole, or malformed.
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

    /// Takes what can be read of a head that was refused. The fields of trusted proxies stand behind those of the client,
    /// so they are read only if none is missing.
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

    /// Tells what was observed.
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
        tell(self.io.worker, self.listening, snapshot, (self.peer, self.is_secure), observed, ns);
        observed.marks.take();
    }
}

/// Tells of an answer to a client that has made no request.
pub(crate) fn tell_of_refusal(
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
        tell(worker, listening, &snapshot, client, &observed, 0);
    }
}

fn tell(
    worker: &Worker,
    listening: &Listening,
    snapshot: &Snapshot,
    (peer, is_secure): (SocketAddr, bool),
    observed: &Observed,
    ns: u64,
) {
    if let Some((log, line)) = &snapshot.table.access_log {
        let listener = &listening.counters.name;
        let told = Told { observed, table: &snapshot.table, listener, peer, is_secure, ns };
        worker.log.write(log.sample.0, line, &told, &worker.upstreams);
    }
}
