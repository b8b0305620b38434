//! A response on its way back to the client.

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

/// Interim responses before the final one; an upstream that sends more is broken.
pub(crate) const INTERIM_MAX: u32 = 32;

/// A response that was passed on to its end, or set aside for that of another try.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Relayed {
    pub(crate) status: u16,
    /// Nothing of it was passed on: the request is to be sent again.
    pub(crate) set_aside: bool,
    /// The client's connection can go on.
    pub(crate) client_keep: bool,
    /// The upstream's connection can go on.
    pub(crate) upstream_keep: bool,
    /// Both speak another protocol from here.
    pub(crate) upgraded: bool,
}

/// What stands at the start of an upstream's bytes.
enum Head {
    Partial,
    /// As many bytes of an interim response; it was appended unless the client is too old for it, or has had it.
    Interim(usize),
    /// As many bytes of a final one that is not passed on.
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

/// Waits for the response and passes it on, but for what [`send_rest`] sends. An error before `begun` can still be
/// answered.
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

/// Sends the client what is left of a response that has come whole.
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
    // A head that comes in pieces gets no more time for each; what follows an interim response does.
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
            // An interim response waits for nothing.
            _ => write_out(x, to, out).await?,
        }
    };
    // What breaks before the first byte has left can still be answered.
    if !relayed.upgraded && body.pass(inbound, out).is_err() {
        return Err(Cause::UpstreamMalformed);
    }
    x.begun.set(true);
    x.count_response(status);
    let mut piece = Piece::default();
    loop {
        // A connection that others may have next does not wait for the client.
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
        // Either way one buffer is held while the client takes it, not two.
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

/// The body of a response, as it passes.
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

/// Throws away what is there of a response. Its connection can go on where that is all of it.
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

/// Sends what was put together to the client.
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

/// Reads a head and appends the client's.
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
    // In the middle of a request's body there is nothing that could be upgraded.
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

/// Status line and end-to-end fields, with a Date where the upstream gave none.
#[inline]
fn append_start(x: &Exchange<'_>, head: &ResponseHead<'_>, encoded: Encoded, out: &mut Vec<u8>) {
    append_status_line_with_reason(out, head.status, head.reason);
    // Interim responses, and the 101 that ends HTTP, are between the two protocols alone.
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

/// Appends the end-to-end fields whose names are kept; whether a Date is among them. The field that tells a cause ends
/// here: with it an upstream would speak for the gateway.
#[inline]
pub(crate) fn append_fields(
    head: &ResponseHead<'_>,
    keeps: impl Fn(&str) -> bool,
    out: &mut Vec<u8>,
) -> bool {
    let mut is_dated = false;
    // These have no body and may not speak of its length (RFC 9110, 8.6), which some readers would believe.
    let is_bodiless = head.status < 200 || head.status == 204;
    for field in head.end_to_end() {
        let is_moot = is_bodiless && field.name.eq_ignore_ascii_case("content-length");
        if !is_moot && !is_cause(field.name) && keeps(field.name) {
            is_dated |= field.name.len() == 4 && field.name.eq_ignore_ascii_case("date");
            append_field(out, field.name, field.value);
        }
    }
    is_dated
}

/// Whether a field is the one by which clients tell answers of the gateway itself.
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

/// Appends whether the connection goes on, where that is not what the client expects by itself.
#[inline]
pub(crate) fn append_persistence(client_keep: bool, is_old: bool, out: &mut Vec<u8>) {
    if !client_keep {
        append_field(out, "Connection", b"close");
    } else if is_old {
        append_field(out, "Connection", b"keep-alive");
    }
}
