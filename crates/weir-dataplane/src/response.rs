//! Passes a response to the client.

use tokio::io::{AsyncRead, AsyncWrite};
use weir_http::{
    FieldSlots, Framing, ResponseHead, Version, append_field, append_framing, append_status_line_with_reason,
    fields_named, parse_response,
};

use crate::affinity::Affinity;
use crate::body::BodyPump;
use crate::buffer::Buffer;
use crate::cause::Cause;
use crate::compress::{Encoded, ResponseBody};
use crate::exchange::Exchange;
use crate::io::{IoFault, Piece};
use crate::respond::CAUSE_FIELD;
use crate::trailers::PassedTrailers;

/// Limit of interim responses before the final one. An upstream that sends more is considered broken.
pub(crate) const INTERIM_MAX: u32 = 32;

/// The end of an exchange: the response was passed on completely, or set aside for a retry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Relayed {
    pub(crate) status: u16,
    /// Whether the response was discarded, because the request is retried. None of it was passed on.
    pub(crate) set_aside: bool,
    /// Whether the client's connection can be reused.
    pub(crate) client_keep: bool,
    /// Whether the upstream's connection can be reused.
    pub(crate) upstream_keep: bool,
    /// Whether both sides switch to another protocol.
    pub(crate) upgraded: bool,
}

/// Result of parsing the first response headers in the bytes received from an upstream.
enum Head {
    Partial,
    /// An interim response (1xx), with its length. `read_head` has appended it to the client's output, unless the
    /// client uses HTTP/1.0 or an earlier attempt returned the same status.
    Interim(usize),
    /// A final response that is discarded, because the request is retried.
    SetAside {
        status: u16,
        head_len: usize,
        framing: Framing,
        keep_alive: bool,
    },
    Final {
        status: u16,
        head_len: usize,
        framing: Framing,
        to_chunks: bool,
        encoded: Encoded,
        relayed: Relayed,
    },
}

/// Waits for the response and relays it, except for the last part, which [`send_rest`] sends. If this function fails
/// while `x.begun` is false, the gateway can still send an error response.
#[inline]
pub(crate) async fn relay<F: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    x: &Exchange<'_>,
    from: &mut F,
    inbound: &mut Buffer,
    to: &mut W,
) -> Result<Relayed, Cause> {
    let mut out = Vec::new();
    let relayed = relay_with(x, from, inbound, to, &mut out).await;
    match relayed.is_ok() && !out.is_empty() {
        true => x.rest.set(out),
        false => x.io.worker.buffers.put_output(out),
    }
    relayed
}

/// Sends the remaining bytes of a response that was received completely.
#[inline]
pub(crate) async fn send_rest<W: AsyncWrite + Unpin>(x: &Exchange<'_>, to: &mut W) -> Result<(), Cause> {
    let mut rest = x.rest.take();
    let sent = write_out(x, to, &mut rest).await;
    x.io.worker.buffers.put_output(rest);
    sent
}

async fn relay_with<F: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    x: &Exchange<'_>,
    from: &mut F,
    inbound: &mut Buffer,
    to: &mut W,
    out: &mut Vec<u8>,
) -> Result<Relayed, Cause> {
    let mut interim = 0;
    // Headers that arrive in several pieces have one time limit. After an interim response, the limit starts again.
    let mut is_armed = false;
    let (status, mut body, relayed) = loop {
        if !is_armed && !x.is_sending() {
            x.io.timer.arm_response(&x.io.worker.wheel, x.response_ticks);
            is_armed = true;
        }
        match x.io.read_armed(from, inbound).await {
            Ok(0) | Err(IoFault::System(_)) => return Err(Cause::UpstreamClosed),
            Ok(_) => x.heard.set(true),
            Err(IoFault::Timeout) => return Err(Cause::ResponseTimeout),
        }
        x.io.worker.buffers.fill_output(out);
        let head = loop {
            match read_head(x, inbound.data(), out)? {
                Head::Interim(head_len) => {
                    inbound.consume(head_len);
                    is_armed = false;
                    interim += 1;
                    if interim > INTERIM_MAX {
                        return Err(Cause::UpstreamMalformed);
                    }
                }
                head => break head,
            }
        };
        match head {
            Head::Final { status, head_len, framing, to_chunks, encoded, relayed } => {
                inbound.consume(head_len);
                break (status, body_of(x, framing, to_chunks, encoded), relayed);
            }
            Head::SetAside { status, head_len, framing, keep_alive } => {
                inbound.consume(head_len);
                return Ok(set_aside((status, framing, keep_alive), inbound, out));
            }
            // Send an interim response at once.
            _ => write_out(x, to, out).await?,
        }
    };
    // No byte of the final response was sent yet, so after an error the gateway can still respond itself.
    if !relayed.upgraded && body.pass(inbound, out).is_err() {
        return Err(Cause::UpstreamMalformed);
    }
    x.begun.set(true);
    x.count_response(status);
    let mut piece = Piece::default();
    loop {
        // Return a reusable upstream connection without waiting for the client.
        if body.is_done() && relayed.upstream_keep && !relayed.upgraded && x.is_passed() {
            return Ok(relayed);
        }
        write_out(x, to, out).await?;
        if body.is_done() || relayed.upgraded {
            return Ok(relayed);
        }
        if x.io.timer.is_past_bound(&x.io.worker.wheel) {
            return Err(Cause::UpstreamStalled);
        }
        x.io.give_way_after(piece, x.seals_response, inbound).await;
        x.io.timer.arm_response(&x.io.worker.wheel, x.body_ticks);
        match x.io.read_armed(from, inbound).await {
            Ok(0) => body.close(out).map_err(|_| Cause::UpstreamTruncated)?,
            Ok(_) => {}
            Err(IoFault::System(_)) => return Err(Cause::UpstreamTruncated),
            Err(IoFault::Timeout) => return Err(Cause::UpstreamStalled),
        }
        let buffers = &x.io.worker.buffers;
        piece.bytes = inbound.data().len();
        piece.in_place = body.pass_in_place(inbound).map_err(|_| Cause::UpstreamTruncated)?;
        // While the client reads, each branch holds only one of the buffers `inbound` and `out`.
        if piece.in_place {
            buffers.put_output(std::mem::take(out));
            write(x, to, inbound.consumed(piece.bytes)).await?;
        } else {
            buffers.fill_output(out);
            body.pass(inbound, out).map_err(|_| Cause::UpstreamTruncated)?;
            inbound.release_if_empty(buffers);
        }
    }
}

/// The body of a response, as it is passed on.
#[inline]
fn body_of(x: &Exchange<'_>, framing: Framing, to_chunks: bool, encoded: Encoded) -> ResponseBody {
    let filters = x.plan.filtered.as_deref().map(|filtered| filtered.filters(x.snapshot));
    let is_coded = matches!(encoded, Encoded::By(_));
    let trailers = PassedTrailers::of_response(x.plan, (framing, is_coded), x.snapshot);
    match (encoded, filters.and_then(|filters| filters.compress.as_ref())) {
        (Encoded::By(coding), Some(policy)) => ResponseBody::coded(framing, (coding, policy), trailers),
        _ => ResponseBody::plain(framing, to_chunks, trailers),
    }
}

/// Discards the received part of a response. Its connection can be reused if that part is the whole response.
fn set_aside(
    (status, framing, keep_alive): (u16, Framing, bool),
    inbound: &mut Buffer,
    out: &mut Vec<u8>,
) -> Relayed {
    let mut body = BodyPump::new(framing, false, u64::MAX);
    let is_right = body.pass(inbound, out).is_ok();
    out.clear();
    Relayed {
        status,
        set_aside: true,
        client_keep: true,
        upstream_keep: keep_alive && is_right && body.is_done(),
        upgraded: false,
    }
}

/// Sends `out` to the client and clears it.
#[inline]
async fn write_out<W: AsyncWrite + Unpin>(
    x: &Exchange<'_>,
    to: &mut W,
    out: &mut Vec<u8>,
) -> Result<(), Cause> {
    if out.is_empty() {
        return Ok(());
    }
    let written = write(x, to, out).await;
    out.clear();
    written
}

/// Sends these bytes to the client.
#[inline]
async fn write<W: AsyncWrite + Unpin>(x: &Exchange<'_>, to: &mut W, bytes: &[u8]) -> Result<(), Cause> {
    let mut sent = 0;
    let written = x.io.write_all(to, bytes, &mut sent, x.snapshot.ticks.write).await;
    x.observed.sent(sent);
    written.map_err(|fault| match fault {
        IoFault::Timeout => Cause::ClientStalled,
        IoFault::System(_) => Cause::ClientClosed,
    })
}

/// Parses the upstream's response headers, and appends the headers for the client to `out`.
#[inline]
fn read_head(x: &Exchange<'_>, bytes: &[u8], out: &mut Vec<u8>) -> Result<Head, Cause> {
    let mut slots = FieldSlots::new();
    let parsed = parse_response(bytes, x.plan.response_to, &x.snapshot.head_limits, &mut slots);
    let Some(head) = parsed.map_err(Cause::of_response_head)? else { return Ok(Head::Partial) };
    if head.interim {
        if x.plan.version == Version::Http11 && x.tries.passes_interim(head.status) {
            x.listening.counters.response(head.status);
            append_start(x, &head, Encoded::AsItIs, out);
            out.extend_from_slice(b"\r\n");
        }
        return Ok(Head::Interim(head.head_len));
    }
    if x.tries.go_on_instead_of(head.status) {
        let ResponseHead { status, head_len, framing, keep_alive, .. } = head;
        return Ok(Head::SetAside { status, head_len, framing, keep_alive });
    }
    // Reject an upgrade that the client did not ask for, or that comes while the request's body is still being sent.
    if head.upgrade && (!x.plan.upgrade || x.is_sending()) {
        return Err(Cause::UpstreamMalformed);
    }
    let is_old = x.plan.version == Version::Http10;
    let until_end = matches!(head.framing, Framing::Chunked | Framing::UntilClose);
    let ends = x.io.worker.is_ending() || x.listening.is_retired();
    let client_keep = x.plan.keep_alive && x.request_done.get() && !ends && !(is_old && until_end);
    let filtered = x.plan.filtered.as_deref();
    let encoded = filtered.map_or(Encoded::AsItIs, |filtered| filtered.encoded(&head, x.snapshot));
    append_start(x, &head, encoded, out);
    let to_chunks = (until_end || matches!(encoded, Encoded::By(_))) && !is_old;
    if to_chunks {
        append_framing(out, Framing::Chunked);
    }
    append_connection(&head, client_keep, is_old, out);
    out.extend_from_slice(b"\r\n");
    let relayed = Relayed {
        status: head.status,
        set_aside: false,
        client_keep,
        upstream_keep: head.keep_alive,
        upgraded: head.upgrade,
    };
    Ok(Head::Final {
        status: head.status,
        head_len: head.head_len,
        framing: head.framing,
        to_chunks,
        encoded,
        relayed,
    })
}

/// Appends the status line and end-to-end fields, and a `Date` if the upstream sent none.
#[inline]
fn append_start(x: &Exchange<'_>, head: &ResponseHead<'_>, encoded: Encoded, out: &mut Vec<u8>) {
    append_status_line_with_reason(out, head.status, head.reason);
    // Filters do not apply to interim responses or to status 101, which belong to the protocol.
    let filtered = x.plan.filtered.as_deref().filter(|_| head.status >= 200);
    let is_dated = match filtered {
        None => append_fields(head, |_| true, out),
        Some(filtered) => filtered.append_response_fields(head, encoded, x.snapshot, out),
    };
    if head.status >= 200 && matches!(x.plan.affinity, Affinity::Endpoint { .. }) {
        let backend = &x.snapshot.table.backends()[x.plan.backend].backend;
        x.plan.affinity.append_cookie(backend, x.endpoint_id, out);
    }
    if !is_dated && head.status >= 200 {
        append_field(out, "Date", x.io.worker.date.text().as_bytes());
    }
}

/// Appends the end-to-end fields that `keeps` selects. Returns whether a `Date` is among them. `X-Weir-Error` is
/// dropped, because an upstream could use it to pretend to be the gateway.
#[inline]
pub(crate) fn append_fields(
    head: &ResponseHead<'_>,
    keeps: impl Fn(&str) -> bool,
    out: &mut Vec<u8>,
) -> bool {
    let mut is_dated = false;
    // Responses with these statuses have no body, and RFC 9110, 8.6, forbids `Content-Length` in them. The field is
    // dropped, because some clients would trust it.
    let is_bodiless = head.status < 200 || head.status == 204;
    for field in head.end_to_end() {
        let is_forbidden = is_bodiless && field.name.eq_ignore_ascii_case("content-length");
        if !is_forbidden && !is_cause(field.name) && keeps(field.name) {
            is_dated |= field.name.len() == 4 && field.name.eq_ignore_ascii_case("date");
            append_field(out, field.name, field.value);
        }
    }
    is_dated
}

/// Whether this is the field by which clients recognise responses of the gateway itself.
#[inline]
fn is_cause(name: &str) -> bool {
    name.len() == CAUSE_FIELD.len() && name.eq_ignore_ascii_case(CAUSE_FIELD)
}

#[inline]
fn append_connection(head: &ResponseHead<'_>, client_keep: bool, is_old: bool, out: &mut Vec<u8>) {
    if head.upgrade {
        append_field(out, "Connection", b"Upgrade");
        for field in fields_named(head.fields, "upgrade") {
            append_field(out, field.name, field.value);
        }
    } else {
        append_persistence(client_keep, is_old, out);
    }
}

/// Appends `Connection: close` if the connection closes, or `Connection: keep-alive` if an HTTP/1.0 client can reuse
/// it.
#[inline]
pub(crate) fn append_persistence(client_keep: bool, is_old: bool, out: &mut Vec<u8>) {
    if !client_keep {
        append_field(out, "Connection", b"close");
    } else if is_old {
        append_field(out, "Connection", b"keep-alive");
    }
}
