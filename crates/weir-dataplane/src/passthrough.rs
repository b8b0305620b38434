//! TLS passthrough: the server name (SNI) selects a backend, and the bytes stay encrypted.
//!
//! ```text
//! accepted -> ClientHello read, left in the socket -> name has a backend -> bytes in both directions, to the end
//!                 |                                    +- has none: TLS of the listener (secure.rs), or closed
//!                 +- malformed, too long: closed; not TLS: rejected by TLS of the listener, or closed
//! ```

use std::pin::pin;
use std::sync::Arc;

use tokio::net::TcpStream;
use weir_config::{ByName, Destination};

use crate::affinity::Affinity;
use crate::balance::LbContext;
use crate::buffer::Buffer;
use crate::cause::Cause;
use crate::connection::{Seat, reset_on_close};
use crate::hello::{HELLO_BYTES_MAX, Hello, read_hello};
use crate::io::{Io, IoFault, Look};
use crate::leaving::ClientSide;
use crate::plain::PlainHalf;
use crate::secure::serve_secure;
use crate::tunnel::join;
use crate::upstream::checkout;

/// Serves a client until its connection ends.
pub(crate) async fn serve_by_name(seat: Seat, stream: TcpStream, by_name: Arc<ByName>) {
    // A connection with malformed TLS is closed, because its server name may be one that the gateway must not serve.
    let destination = match (first_message(seat.io(), &stream).await, by_name.tls()) {
        (Ok(Hello::Whole(name)), _) => by_name.destination(name.as_deref()),
        // The TLS listener responds to plain text with an error.
        (Ok(Hello::Foreign), Some(config)) => Destination::Here(config),
        (Ok(_), _) => return count_failed(&seat, Some(Cause::HandshakeFailed)),
        (Err(cause), _) => return count_failed(&seat, cause),
    };
    match destination {
        Destination::Backend(backend) => {
            if let Err(cause) = pass_on(&seat, &stream, backend).await
                && seat.count_failure(cause) == Cause::Drained
            {
                reset_on_close(&stream);
            }
        }
        Destination::Here(config) => serve_secure(seat, stream, Arc::clone(config)).await,
        Destination::Closed => count_failed(&seat, Some(Cause::UnknownName)),
    }
}

/// Counts the client as failed with this cause. `None` means that the client did not fail.
fn count_failed(seat: &Seat, cause: Option<Cause>) {
    if let Some(cause) = cause {
        seat.listening().counters.handshakes_failed.add(1);
        seat.count_failure(cause);
    }
}

/// Reads the ClientHello and leaves it in the socket. If the client closes before its first byte, the error is `None`,
/// because that is not a failure.
async fn first_message(io: Io<'_>, stream: &TcpStream) -> Result<Hello, Option<Cause>> {
    let seen = io.look(stream, HELLO_BYTES_MAX, |bytes| {
        let hello = read_hello(bytes);
        (hello != Hello::Partial).then_some(hello)
    });
    match seen.await {
        Ok(Look::Made(hello)) => Ok(hello),
        Ok(Look::Ended) | Err(IoFault::System(_)) => Err(None),
        Ok(Look::Endless) => Ok(Hello::Malformed),
        Err(IoFault::Timeout) => Err(Some(Cause::HandshakeTimeout)),
    }
}

/// Connects to the backend and passes bytes until both sides have ended, one fails, the idle timeout passes, or the
/// drain timeout passes.
async fn pass_on(seat: &Seat, stream: &TcpStream, backend: &str) -> Result<(), Cause> {
    let io = seat.io();
    let ((mut from_client, to_client), mut inbound) = (PlainHalf::both(stream), Buffer::default());
    let (checkout, ticks) = {
        let snapshot = io.worker.snapshot();
        let position = snapshot.table.backend_named(backend).ok_or(Cause::NoEndpoint)?;
        // The bytes are encrypted, so the client can be identified only by its address.
        let affinity = Affinity::ClientAddress.with(seat.peer().ip());
        let mut context = LbContext { affinity, client: seat.addresses(), ..LbContext::any(position) };
        let mut side = ClientSide {
            io,
            listening: seat.listening(),
            reader: &mut from_client,
            inbound: &mut inbound,
            is_half_closed: &mut false,
        };
        let checking_out = pin!(checkout(io, &snapshot, &mut context, true));
        (side.unless_left(checking_out, || true).await?, snapshot.ticks.upgraded)
    };
    seat.listening().counters.passed_on.add(1);
    let mut upstream = checkout.upstream;
    let client = (from_client, to_client, &mut inbound);
    join(io, client, &mut upstream, ticks).await
}
