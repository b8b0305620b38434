//! Copies of requests for another backend. Nobody waits for them, and their answers are thrown away.
//!
//! A copy is put together while its request passes, and leaves once that is whole. It has a task, a deadline and an
//! upstream connection of its own, so whatever becomes of it changes nothing for the client. There is room for so many
//! copies of such a length; what finds none is counted and not copied.

use std::cell::RefCell;
use std::rc::Rc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::spawn_local;
use weir_http::{FieldSlots, Framing, ResponseTo, parse_response};

use crate::balance::Wish;
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

/// Copies that one worker has on their way at one time.
const IN_FLIGHT_MAX: usize = 64;

/// Bytes of a request that is copied, head and body.
const COPY_BYTES_MAX: usize = 64 << 10;

/// Bytes of an answer's body that are read to keep the connection; a longer one ends with it.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// The copy of a request that is passing.
#[derive(Debug)]
pub(crate) struct Copying {
    worker: Rc<Worker>,
    snapshot: Rc<Snapshot>,
    listener: u64,
    backend: usize,
    response_to: ResponseTo,
    /// What has passed so far; `None` once it has left, or is too long.
    bytes: RefCell<Option<Vec<u8>>>,
}

impl Copying {
    /// Begins the copy of a planned request for the backend at this position.
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

    /// Takes what goes to the request's own upstream; with the end of it the copy leaves.
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

/// Sends a copy and reads its answer to the end.
async fn deliver(
    io: Io<'_>,
    snapshot: &Snapshot,
    backend: usize,
    copy: &[u8],
    response_to: ResponseTo,
) -> Result<(), Cause> {
    let mut checkout = checkout(io, snapshot, &mut Wish::any(backend), false).await?;
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

/// The same over what the upstream speaks; whether the connection can go on.
async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
    io: Io<'_>,
    snapshot: &Snapshot,
    mut upstream: (&mut S, &mut Buffer),
    copy: &[u8],
    response_to: ResponseTo,
) -> Result<bool, Cause> {
    let written = io.write_all(upstream.0, copy, &mut 0, snapshot.ticks.write).await;
    written.map_err(|_| Cause::UpstreamClosed)?;
    // All of the answer has the time that a client's has for its head: nobody is served by more.
    io.timer.arm(&io.worker.wheel, snapshot.ticks.response);
    let head = final_head(io, snapshot, &mut upstream, response_to).await?;
    let is_whole = throw_away(io, &mut upstream, head.framing).await?;
    Ok(is_whole && head.is_kept)
}

/// What is to be known of an answer's head.
struct AnswerHead {
    len: usize,
    is_interim: bool,
    framing: Framing,
    is_kept: bool,
}

/// Reads past interim responses to the head of the final one, and past that.
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
    // No upgrade was asked for.
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

/// Reads a body; whether to its end.
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
