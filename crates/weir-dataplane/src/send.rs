//! Sends a request to an upstream. The response may arrive before the request is sent completely.

use tokio::io::{AsyncRead, AsyncWrite};

use crate::body::{BodyFault, BodyPump};
use crate::buffer::Buffer;
use crate::cause::Cause;
use crate::exchange::Exchange;
use crate::io::{IoFault, Piece};

/// Why the rest of a request can't be sent.
pub(crate) enum SendFault {
    /// The client failed, so the exchange is over.
    Client(Cause),
    /// The upstream failed. It may have sent a response nevertheless.
    Upstream,
    /// The upstream stopped reading.
    Stalled,
}

/// Sends the request headers in `out`, then the body as it arrives.
pub(crate) async fn send<R: AsyncRead + Unpin, T: AsyncWrite + Unpin>(
    x: &Exchange<'_>,
    from: &mut R,
    inbound: &mut Buffer,
    to: &mut T,
    out: &mut Vec<u8>,
    body: &mut BodyPump,
) -> Result<(), SendFault> {
    let ticks = &x.snapshot.ticks;
    let buffers = &x.io.worker.buffers;
    let mut piece = Piece::default();
    loop {
        let bytes = passing(piece, inbound, out);
        let mut sent = 0;
        let written = x.io.write_all(to, bytes, &mut sent, ticks.write).await;
        x.sent.set(x.sent.get() + sent);
        match written {
            Ok(()) if body.is_done() => {
                // Return unused buffers to the stock, because the response may take long.
                inbound.shorten(buffers);
                buffers.put_output(std::mem::take(out));
                return Ok(());
            }
            Ok(()) => out.clear(),
            Err(IoFault::Timeout) => return Err(SendFault::Stalled),
            Err(IoFault::System(_)) => return Err(SendFault::Upstream),
        }
        if x.io.timer.is_past_bound(&x.io.worker.wheel) {
            return Err(SendFault::Client(Cause::BodyTimeout));
        }
        x.io.give_way_after(piece, x.seals_request, inbound).await;
        piece.in_place = false;
        while !piece.in_place && out.is_empty() && !body.is_done() {
            match x.io.read(from, inbound, x.body_ticks).await {
                Ok(0) | Err(IoFault::System(_)) => return Err(SendFault::Client(Cause::ClientClosed)),
                Ok(_) => {
                    let fault = |fault| SendFault::Client(cause_of(fault));
                    piece.bytes = inbound.data().len();
                    piece.in_place = x.observed.pass_in_place(body, inbound).map_err(fault)?;
                    // In both branches, only one of the two buffers is held while the bytes are sent.
                    if piece.in_place {
                        buffers.put_output(std::mem::take(out));
                    } else {
                        buffers.fill_output(out);
                        x.observed.pass(body, inbound, out).map_err(fault)?;
                        inbound.release_if_empty(buffers);
                    }
                    let bytes = passing(piece, inbound, out);
                    if let Some(copying) = x.copying {
                        copying.take(bytes, body.is_done());
                    }
                    x.tries.take(bytes);
                }
                Err(IoFault::Timeout) => return Err(SendFault::Client(Cause::BodyTimeout)),
            }
        }
    }
}

/// The bytes to send: a piece in the read buffer, or the content of `out`.
fn passing<'b>(piece: Piece, inbound: &'b Buffer, out: &'b [u8]) -> &'b [u8] {
    if piece.in_place { inbound.consumed(piece.bytes) } else { out }
}

/// The cause to report if the client's body is not acceptable.
pub(crate) fn cause_of(fault: BodyFault) -> Cause {
    match fault {
        BodyFault::TooLarge => Cause::BodyTooLarge,
        BodyFault::Malformed(error) => Cause::of_body(error),
    }
}
