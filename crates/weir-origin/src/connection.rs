//! One connection: detects the protocol, then serves it until the connection closes.
//!
//! ```text
//! TLS off: first bytes -> HTTP/2's preface? -> HTTP/2, else HTTP/1.1
//! TLS on:  first byte  -> a handshake's? -> handshake -> ALPN h2? -> HTTP/2, else HTTP/1.1
//!                             \-> plain HTTP/1.1, only the origin's own paths
//! ```

use std::io;
use std::rc::Rc;

use rustls::HandshakeKind;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use crate::http1::{self, Reach};
use crate::http2;
use crate::idle::Activity;
use crate::stats::Event;
use crate::stream::Stream;
use crate::worker::Worker;

/// The connection preface of an HTTP/2 client with prior knowledge.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The first byte of a TLS handshake. No HTTP message starts with it.
const TLS_HANDSHAKE: u8 = 0x16;

/// The ALPN protocol ID of HTTP/2.
pub(crate) const ALPN_HTTP2: &[u8] = b"h2";

/// An open connection of a worker. Dropping this value removes the connection from the worker's list.
struct Open {
    worker: Rc<Worker>,
    id: u64,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.worker.connections.leave(self.id);
    }
}

/// Serves a connection until it closes.
pub(crate) async fn run(worker: Rc<Worker>, id: u64, activity: Rc<Activity>, stream: TcpStream) {
    let open = Open { worker, id };
    // The error is ignored: it is caused by the client and closes the connection, and the counters show what was sent.
    let _ = serve(&open.worker, activity, stream).await;
}

async fn serve(worker: &Rc<Worker>, activity: Rc<Activity>, tcp: TcpStream) -> io::Result<()> {
    tcp.set_nodelay(true)?;
    if let Some(acceptor) = &worker.shared.tls {
        // The future is boxed, so that a plain-text connection does not reserve memory for a TLS handshake.
        return Box::pin(serve_secure(worker, activity, tcp, acceptor)).await;
    }
    let mut stream = Stream::Plain(tcp);
    let mut first = Vec::new();
    if !worker.shared.spec.http2.is_off && is_http2(worker, &activity, &mut stream, &mut first).await? {
        return Box::pin(http2::serve(Rc::clone(worker), activity, stream, first)).await;
    }
    http1::serve(Rc::clone(worker), activity, stream, first, Reach::All).await
}

/// Reads until it is clear whether the connection begins with the HTTP/2 preface, and appends the bytes to `first`.
async fn is_http2(
    worker: &Worker,
    activity: &Activity,
    stream: &mut Stream,
    first: &mut Vec<u8>,
) -> io::Result<bool> {
    loop {
        let read = stream.read_into(worker, activity).await?;
        first.extend_from_slice(&worker.scratch.borrow()[..read]);
        let compared = first.len().min(PREFACE.len());
        if read == 0 || first[..compared] != PREFACE[..compared] {
            return Ok(false);
        }
        if compared == PREFACE.len() {
            return Ok(true);
        }
    }
}

async fn serve_secure(
    worker: &Rc<Worker>,
    activity: Rc<Activity>,
    tcp: TcpStream,
    acceptor: &TlsAcceptor,
) -> io::Result<()> {
    let mut first = [0];
    if tcp.peek(&mut first).await? == 1 && first[0] != TLS_HANDSHAKE {
        // On a TLS port, plain text is accepted only for the origin's own paths, such as the statistics.
        return http1::serve(Rc::clone(worker), activity, Stream::Plain(tcp), Vec::new(), Reach::OwnPaths)
            .await;
    }
    let counters = worker.counters();
    let tls = acceptor.accept(tcp).await.inspect_err(|_| counters.event(Event::HandshakeFailed))?;
    activity.touch(&worker.connections);
    counters.event(Event::Handshake);
    let session = tls.get_ref().1;
    if session.handshake_kind() == Some(HandshakeKind::Resumed) {
        counters.event(Event::Resumed);
    }
    let is_http2 = session.alpn_protocol() == Some(ALPN_HTTP2);
    let (worker, stream) = (Rc::clone(worker), Stream::Secure(Box::new(tls)));
    match is_http2 {
        true => http2::serve(worker, activity, stream, Vec::new()).await,
        false => http1::serve(worker, activity, stream, Vec::new(), Reach::All).await,
    }
}
