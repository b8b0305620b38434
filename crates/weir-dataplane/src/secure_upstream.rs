//! TLS upstreams: the handshake, and the check whether an idle connection can be reused.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, Read};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use rustls::{Error, HandshakeKind};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use weir_config::{UpstreamAddress, UpstreamTls};

use crate::cause::Cause;
use crate::io::{Io, IoFault};
use crate::pool::Link;
use crate::upstream_socket::Socket;

/// Performs the TLS handshake with `endpoint` over a new connection.
pub(crate) async fn shake_hands(
    io: Io<'_>,
    tls: &UpstreamTls,
    endpoint: &UpstreamAddress,
    socket: Socket,
    ticks: u32,
) -> Result<Link, Cause> {
    io.timer.arm(&io.worker.wheel, ticks);
    let connector = TlsConnector::from(Arc::clone(&tls.config));
    let mut connecting = pin!(connector.connect(tls.name(endpoint), socket));
    let outcome = poll_fn(|cx| match connecting.as_mut().poll(cx) {
        Poll::Ready(outcome) => Poll::Ready(outcome.map_err(IoFault::System)),
        Poll::Pending => io.poll_timeout(cx),
    })
    .await;
    let stream = outcome.map_err(|fault| cause_of(&fault))?;
    let counters = &io.worker.upstreams;
    counters.handshakes.add(1);
    if stream.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed) {
        counters.handshakes_resumed.add(1);
    }
    Ok(Link::Tls(Box::new(RefCell::new(stream))))
}

fn cause_of(fault: &IoFault) -> Cause {
    let error = match fault {
        IoFault::Timeout => return Cause::ConnectTimeout,
        IoFault::System(error) => error,
    };
    match error.get_ref().and_then(|cause| cause.downcast_ref::<Error>()) {
        Some(Error::InvalidCertificate(_) | Error::NoCertificatesPresented) => Cause::UpstreamCertificate,
        _ => Cause::UpstreamHandshake,
    }
}

/// Whether nothing except session tickets has arrived: no content, and no end of the stream.
pub(crate) fn is_quiet(stream: &mut TlsStream<Socket>) -> bool {
    let (socket, connection) = stream.get_mut();
    loop {
        match connection.process_new_packets() {
            Ok(state) if state.plaintext_bytes_to_read() == 0 && !state.peer_has_closed() => {}
            _ => return false,
        }
        match connection.read_tls(&mut WithoutTask(socket)) {
            Ok(bytes) if bytes > 0 => {}
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            Ok(_) => return false,
        }
    }
}

/// Reads from the socket outside of tokio's task budget. A normal read returns "would block" if the task has used up
/// its budget, even if data has arrived.
struct WithoutTask<'s>(&'s Socket);

impl Read for WithoutTask<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(room)
    }
}
