//! Clients behind a load balancer that sends their address in the PROXY protocol.

use std::future::poll_fn;
use std::io;

use tokio::net::TcpStream;
use weir_config::Transport;

use crate::cause::Cause;
use crate::connection::{Seat, serve};
use crate::io::{Io, IoFault, Look};
use crate::passthrough::serve_by_name;
use crate::proxy_header::{Addresses, HEADER_BYTES_MAX, ProxyHeader, read_header};
use crate::secure::serve_secure;

/// Serves a client that starts with a PROXY protocol header, until its connection ends.
pub(crate) async fn serve_proxied(mut seat: Seat, stream: TcpStream, transport: Transport) {
    match addresses(seat.io(), &stream).await {
        Ok(Some(addresses)) => seat.set_addresses(addresses),
        // The header has no addresses, because the balancer itself connects, for example for a health check.
        Ok(None) => {}
        Err(cause) => {
            if let Some(cause) = cause {
                seat.count_failure(cause);
            }
            return;
        }
    }
    if let Err(cause) = seat.take_address_seat() {
        return seat.reject(stream, cause);
    }
    match transport {
        Transport::Plain => serve(seat, stream).await,
        Transport::Tls(config) => serve_secure(seat, stream, config).await,
        Transport::ByName(by_name) => serve_by_name(seat, stream, by_name).await,
    }
}

/// Reads the header, and leaves all later bytes in the socket. If the client closes before its first byte, the error is
/// `None`, because that is not a failure.
async fn addresses(io: Io<'_>, stream: &TcpStream) -> Result<Option<Addresses>, Option<Cause>> {
    let seen = io.look(stream, HEADER_BYTES_MAX, |bytes| match read_header(bytes) {
        ProxyHeader::Whole(len, addresses) => Some(Ok((len, addresses))),
        ProxyHeader::Malformed => Some(Err(Some(Cause::ProxyHeader))),
        ProxyHeader::Partial => None,
    });
    let (len, addresses) = match seen.await {
        Ok(Look::Made(header)) => header?,
        Ok(Look::Ended) | Err(IoFault::System(_)) => return Err(None),
        Err(IoFault::Timeout) if io.worker.wheel.is_over() => return Err(Some(Cause::Drained)),
        // The PROXY protocol header is late, not the request headers, so the cause is not a request header timeout.
        Ok(Look::Endless) | Err(IoFault::Timeout) => return Err(Some(Cause::ProxyHeader)),
    };
    take(stream, len).await.map_err(|_| None)?;
    Ok(addresses)
}

/// Removes `len` bytes from the socket. Until now they were only peeked at.
async fn take(stream: &TcpStream, len: usize) -> io::Result<()> {
    let mut header = [0; HEADER_BYTES_MAX];
    let mut taken = 0;
    while taken < len {
        poll_fn(|cx| stream.poll_read_ready(cx)).await?;
        match stream.try_read(&mut header[taken..len]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(bytes) => taken += bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
