//! A client whose TLS is passed on sealed, by the name that it asks for.
//!
//! ```text
//! accepted -> first message looked at, not taken -> name known here -> bytes both ways, to the end
//!                 |                                    +- not: TLS of the listener (secure.rs), or closed
//!                 +- malformed, too long: closed; not of TLS at all: TLS of the listener says so, or closed
//! ```

use std::pin::pin;
use std::sync::Arc;

use tokio::net::TcpStream;
use weir_config::{ByName, Destination};

use crate::affinity::Affinity;
use crate::balance::Wish;
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

/// Serves a client to its end.
pub(crate) async fn serve_by_name(seat: Seat, stream: TcpStream, by_name: Arc<ByName>) {
    // Whoever speaks TLS in a way that cannot be read here is closed: its name may be one that is not to be opened.
    let destination = match (first_message(seat.io(), &stream).await, by_name.tls()) {
        (Ok(Hello::Whole(name)), _) => by_name.destination(name.as_deref()),
        // Plain text is told by TLS of the listener that it is wrong here.
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

/// Counts a client that came to nothing; without a cause it was none.
fn count_failed(seat: &Seat, cause: Option<Cause>) {
    if let Some(cause) = cause {
        seat.listening().counters.handshakes_failed.add(1);
        seat.count_failure(cause);
    }
}

/// What a client's first message is, which stays in the socket. Who closes before a byte is no failure.
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

/// Connects to the backend and passes bytes until both sides have ended, one failed, nothing moved for long, or the time to
/// drain is over.
async fn pass_on(seat: &Seat, stream: &TcpStream, backend: &str) -> Result<(), Cause> {
    let io = seat.io();
    let ((mut from_client, to_client), mut inbound) = (PlainHalf::both(stream), Buffer::default());
    let (checkout, ticks) = {
        let snapshot = io.worker.snapshot();
        let position = snapshot.table.backend_named(backend).ok_or(Cause::NoEndpoint)?;
        // Nothing but the address tells one client from another.
        let affinity = Affinity::ClientAddress.with(seat.peer().ip());
        let mut wish = Wish { affinity, client: seat.addresses(), ..Wish::any(position) };
        let mut side = ClientSide {
            io,
            listening: seat.listening(),
            reader: &mut from_client,
            inbound: &mut inbound,
            is_half_closed: &mut false,
        };
        let checking_out = pin!(checkout(io, &snapshot, &mut wish, true));
        (side.unless_left(checking_out, || true).await?, snapshot.ticks.upgraded)
    };
    seat.listening().counters.passed_on.add(1);
    let mut upstream = checkout.upstream;
    let client = (from_client, to_client, &mut inbound);
    join(io, client, &mut upstream, ticks).await
}
