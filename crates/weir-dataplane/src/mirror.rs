//! Copies of requests for another backend. Nothing waits for them, and their responses are discarded.
//!
//! A copy is collected while its request passes, and sent once it is complete. It has its own task, deadline and
//! upstream connection, so its result never affects the client. Number and length of copies are limited. Requests
//! beyond a limit are counted and not copied.

use std::cell::RefCell;
use std::rc::Rc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::spawn_local;
use weir_http::{FieldSlots, Framing, ResponseTo, parse_response};

use crate::balance::LbContext;
use crate::body::{BodyFault, BodyPump};
use crate::buffer::Buffer;
use crate::cause::Cause;
use crate::io::{Io, IoFault};
use crate::pool::{Link, Upstream};
use crate::request::Plan;
use crate::response::INTERIM_MAX;
use crate::secure::SecureHalf;
use crate::snapshot::Snapshot;
use crate::upstream::checkout;
use crate::worker::Worker;

/// Maximum number of copies that one worker has in flight.
const IN_FLIGHT_MAX: usize = 64;

/// The largest request that is copied, in bytes of headers and body together.
const COPY_BYTES_MAX: usize = 64 << 10;

/// The longest response body that is read to keep the connection. A longer body closes the connection.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// The copy of the current request.
#[derive(Debug)]
pub(crate) struct Copying {
    worker: Rc<Worker>,
    snapshot: Rc<Snapshot>,
    listener: u64,
    backend: usize,
    response_to: ResponseTo,
    /// The bytes so far; `None` once the copy was sent or became too long.
    bytes: RefCell<Option<Vec<u8>>>,
}

impl Copying {
    /// Starts the copy of a planned request. `backend` is the position of the copy's backend in the table.
    pub(crate) fn begin(
        backend: usize,
        plan: &Plan,
        worker: &Worker,
        snapshot: &Rc<Snapshot>,
        listener: u64,
    ) -> Option<Box<Copying>> {
        if matches!(plan.framing, Framing::Length(bytes) if bytes > COPY_BYTES_MAX as u64) {
            worker.upstreams.copies_too_long.add(1);
            return None;
        }
        Some(Box::new(Copying {
            worker: worker.own()?,
            snapshot: Rc::clone(snapshot),
            listener,
            backend,
            response_to: plan.response_to,
            bytes: RefCell::new(Some(Vec::new())),
        }))
    }

    /// Adds bytes of the request to the copy. Sends the copy if they are the last bytes (`is_whole`).
    pub(crate) fn take(&self, more: &[u8], is_whole: bool) {
        let mut held = self.bytes.borrow_mut();
        let Some(bytes) = held.as_mut() else { return };
        if bytes.len() + more.len() > COPY_BYTES_MAX {
            *held = None;
            self.worker.upstreams.copies_too_long.add(1);
            return;
        }
        bytes.extend_from_slice(more);
        if is_whole && let Some(bytes) = held.take() {
            self.leave(bytes);
        }
    }

    fn leave(&self, bytes: Vec<u8>) {
        let counters = &self.worker.upstreams;
        let in_flight = self.worker.copies_in_flight.get();
        if in_flight >= IN_FLIGHT_MAX {
            counters.copies_crowded.add(1);
            return;
        }
        self.worker.copies_in_flight.set(in_flight + 1);
        counters.copies.add(1);
        let (worker, snapshot) = (Rc::clone(&self.worker), Rc::clone(&self.snapshot));
        let (listener, backend, response_to) = (self.listener, self.backend, self.response_to);
        spawn_local(async move {
            let timer = worker.wheel.timer(listener);
            let io = Io { worker: &worker, timer: &timer };
            if deliver(io, &snapshot, backend, &bytes, response_to).await.is_err() {
                worker.upstreams.copy_failures.add(1);
            }
            worker.wheel.forget(&timer);
            worker.copies_in_flight.set(worker.copies_in_flight.get() - 1);
        });
    }
}

/// Sends a copy and reads its response to the end.
async fn deliver(
    io: Io<'_>,
    snapshot: &Snapshot,
    backend: usize,
    copy: &[u8],
    response_to: ResponseTo,
) -> Result<(), Cause> {
    let mut checkout = checkout(io, snapshot, &mut LbContext::any(backend), false).await?;
    let Upstream { link, inbound, .. } = &mut *checkout.upstream;
    let is_kept = match link {
        Link::Plain(stream) => converse(io, snapshot, (stream, inbound), copy, response_to).await?,
        Link::Unix(stream) => converse(io, snapshot, (stream, inbound), copy, response_to).await?,
        Link::Tls(stream) => {
            converse(io, snapshot, (&mut SecureHalf(stream), inbound), copy, response_to).await?
        }
    };
    if is_kept {
        checkout.keep(io, snapshot);
    }
    Ok(())
}

/// Like [`deliver`], over one type of stream. Returns whether the connection can be kept.
async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
    io: Io<'_>,
    snapshot: &Snapshot,
    mut upstream: (&mut S, &mut Buffer),
    copy: &[u8],
    response_to: ResponseTo,
) -> Result<bool, Cause> {
    let written = io.write_all(upstream.0, copy, &mut 0, snapshot.ticks.write).await;
    written.map_err(|_| Cause::UpstreamClosed)?;
    // The time limit for response headers covers the whole response, because no client waits for it.
    io.timer.arm(&io.worker.wheel, snapshot.ticks.response);
    let head = final_head(io, snapshot, &mut upstream, response_to).await?;
    let is_whole = throw_away(io, &mut upstream, head.framing).await?;
    Ok(is_whole && head.is_kept)
}

/// The parts of response headers that are needed here.
struct AnswerHead {
    len: usize,
    is_interim: bool,
    framing: Framing,
    is_kept: bool,
}

/// Reads and skips interim responses, and reads the headers of the final response.
async fn final_head<S: AsyncRead + Unpin>(
    io: Io<'_>,
    snapshot: &Snapshot,
    upstream: &mut (&mut S, &mut Buffer),
    response_to: ResponseTo,
) -> Result<AnswerHead, Cause> {
    let mut interim = 0;
    loop {
        let Some(head) = read_head(upstream.1.data(), response_to, snapshot)? else {
            if read_more(io, upstream).await? == 0 {
                return Err(Cause::UpstreamTruncated);
            }
            continue;
        };
        upstream.1.consume(head.len);
        if !head.is_interim {
            return Ok(head);
        }
        interim += 1;
        if interim > INTERIM_MAX {
            return Err(Cause::UpstreamMalformed);
        }
    }
}

fn read_head(
    bytes: &[u8],
    response_to: ResponseTo,
    snapshot: &Snapshot,
) -> Result<Option<AnswerHead>, Cause> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut slots = FieldSlots::new();
    let head = parse_response(bytes, response_to, &snapshot.head_limits, &mut slots);
    let Some(head) = head.map_err(Cause::of_response_head)? else { return Ok(None) };
    // The copy requests no upgrade.
    if head.upgrade {
        return Err(Cause::UpstreamMalformed);
    }
    Ok(Some(AnswerHead {
        len: head.head_len,
        is_interim: head.interim,
        framing: head.framing,
        is_kept: head.keep_alive,
    }))
}

/// Reads and discards a body. Returns whether the end was reached.
async fn throw_away<S: AsyncRead + Unpin>(
    io: Io<'_>,
    upstream: &mut (&mut S, &mut Buffer),
    framing: Framing,
) -> Result<bool, Cause> {
    let mut body = BodyPump::new(framing, false, ANSWER_BYTES_MAX);
    let mut thrown = Vec::new();
    loop {
        match body.pass(upstream.1, &mut thrown) {
            Ok(()) => thrown.clear(),
            Err(BodyFault::TooLarge) => return Ok(false),
            Err(BodyFault::Malformed(_)) => return Err(Cause::UpstreamTruncated),
        }
        if body.is_done() {
            return Ok(true);
        }
        if read_more(io, upstream).await? == 0 {
            body.close(&mut thrown).map_err(|_| Cause::UpstreamTruncated)?;
        }
    }
}

async fn read_more<S: AsyncRead + Unpin>(
    io: Io<'_>,
    (stream, inbound): &mut (&mut S, &mut Buffer),
) -> Result<usize, Cause> {
    match io.read_armed(*stream, inbound).await {
        Ok(bytes) => Ok(bytes),
        Err(IoFault::Timeout) => Err(Cause::ResponseTimeout),
        Err(IoFault::System(_)) => Err(Cause::UpstreamTruncated),
    }
}
