//! TLS clients: the handshake, and the two halves of the stream.
//!
//! ```text
//! accepted -> first byte -> handshake -> exchanges, as in plain text -> close_notify
//!                |              +- failed: counted by cause; TLS has sent an alert to the client
//!                +- not TLS: 400 in plain text
//! ```

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use rustls::server::Acceptor;
use rustls::{Error, HandshakeKind, ProtocolVersion, ServerConfig, SignatureAlgorithm};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, LazyConfigAcceptor, TlsAcceptor};

use crate::buffer::Buffer;
use crate::cause::Cause;
use crate::connection::{After, Seat, converse, reset_on_close};
use crate::hello::HANDSHAKE;
use crate::io::{Io, IoFault};
use crate::observed::log_refusal;
use crate::offload::Overflow;
use crate::plain::PlainHalf;
use crate::respond::Refusal;

/// Serves a client until its connection ends.
pub(crate) async fn serve_secure(seat: Seat, stream: TcpStream, config: Arc<ServerConfig>) {
    let stream = match shake_hands(&seat, stream, config).await {
        Ok(stream) => RefCell::new(stream),
        Err(None) => return,
        Err(Some(cause)) => {
            seat.listening().counters.handshakes_failed.add(1);
            seat.count_failure(cause);
            return;
        }
    };
    // A completed handshake has a version.
    let version = stream.borrow().get_ref().1.protocol_version().unwrap_or(ProtocolVersion::TLSv1_3);
    let after = converse(&seat, SecureHalf(&stream), SecureHalf(&stream), Some(version)).await;
    let mut stream = stream.into_inner();
    match after {
        After::Close => {
            // A client that has disconnected does not receive `close_notify`.
            let ticks = seat.io().worker.snapshot().ticks.write;
            let _ = seat.io().shut_down(&mut stream, ticks).await;
        }
        After::Cut => {
            // A reset sends no `close_notify`.
            reset_on_close(stream.get_ref().0);
        }
        After::Linger | After::Next => {}
    }
}

/// Performs the handshake within the time limit of request headers. If a client closes before its first byte, the error
/// is `None`: this is not a failure, because the client may have checked whether the port is open.
async fn shake_hands(
    seat: &Seat,
    stream: TcpStream,
    config: Arc<ServerConfig>,
) -> Result<TlsStream<TcpStream>, Option<Cause>> {
    let io = seat.io();
    io.timer.arm(&io.worker.wheel, io.worker.snapshot().ticks.head);
    match first_byte(io, &stream).await {
        Ok(Some(HANDSHAKE)) => {}
        Ok(Some(_)) => {
            refuse_plain_text(seat, stream).await;
            return Err(Some(Cause::NotTls));
        }
        Ok(None) | Err(IoFault::System(_)) => return Err(None),
        Err(IoFault::Timeout) => return Err(Some(Cause::HandshakeTimeout)),
    }
    let counters = &seat.listening().counters;
    let mut accepting = pin!(accept(seat, stream, config));
    let mut place = None;
    let outcome = poll_fn(|cx| {
        let is_waiting = place.is_some();
        if io.worker.turns.poll_step(&mut place, cx).is_pending() {
            counters.handshakes_delayed.add(u64::from(!is_waiting));
            return io.poll_timeout(cx);
        }
        match accepting.as_mut().poll(cx) {
            Poll::Ready(outcome) => Poll::Ready(outcome.map_err(IoFault::System)),
            Poll::Pending => io.poll_timeout(cx),
        }
    })
    .await;
    let stream = outcome.map_err(|fault| Some(cause_of(&fault)))?;
    counters.handshakes.add(1);
    if stream.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed) {
        counters.handshakes_resumed.add(1);
    }
    Ok(stream)
}

/// Performs the handshake. If a listener has an RSA key, RSA signatures are computed outside the workers.
async fn accept(
    seat: &Seat,
    stream: TcpStream,
    config: Arc<ServerConfig>,
) -> io::Result<TlsStream<TcpStream>> {
    if seat.io().worker.shared.offload.is_running() {
        // Boxed, because few configurations have RSA keys: other connections use no memory for this future.
        Box::pin(accept_by_key(seat, stream, config)).await
    } else {
        TlsAcceptor::from(config).accept(stream).await
    }
}

/// Reads the ClientHello to find the key that will sign. With an RSA key, runs the handshake outside the workers;
/// otherwise runs it here.
async fn accept_by_key(
    seat: &Seat,
    stream: TcpStream,
    config: Arc<ServerConfig>,
) -> io::Result<TlsStream<TcpStream>> {
    let start = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
    let certified = config.cert_resolver.resolve(start.client_hello());
    if certified.is_none_or(|certified| certified.key.algorithm() != SignatureAlgorithm::RSA) {
        return start.into_stream(config).await;
    }
    let offload = &seat.io().worker.shared.offload;
    let (mut woken, mut waker) = Woken::here().await;
    let begun = offload.run(move || step(start.into_stream(config), &waker)).await;
    let (mut accepting, mut outcome) = begun.map_err(io::Error::other)?;
    // After a HelloRetryRequest, a later step computes the signature, so all steps run outside the workers.
    let stream = loop {
        if let Poll::Ready(stream) = outcome {
            break stream?;
        }
        poll_fn(|_| woken.poll()).await;
        (woken, waker) = Woken::here().await;
        let taken = offload.run(move || step(accepting, &waker)).await;
        (accepting, outcome) = taken.map_err(io::Error::other)?;
    };
    // A resumed session needs no signature.
    let is_signed = stream.get_ref().1.handshake_kind() != Some(HandshakeKind::Resumed);
    seat.listening().counters.handshakes_offloaded.add(u64::from(is_signed));
    Ok(stream)
}

/// Continues a handshake until it waits for the client or is done. `waker` is woken when it can continue.
fn step(
    mut accepting: Accept<TcpStream>,
    waker: &Waker,
) -> (Accept<TcpStream>, Poll<io::Result<TlsStream<TcpStream>>>) {
    let outcome = Pin::new(&mut accepting).poll(&mut Context::from_waker(waker));
    (accepting, outcome)
}

/// Wakes a task, and records that this wake-up was for the handshake.
struct Woken {
    task: Waker,
    is_due: AtomicBool,
}

impl Woken {
    /// A flag for the current task, and the waker that sets it.
    async fn here() -> (Arc<Woken>, Waker) {
        let task = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
        let woken = Arc::new(Woken { task, is_due: AtomicBool::new(false) });
        (Arc::clone(&woken), Waker::from(woken))
    }

    fn poll(&self) -> Poll<()> {
        if self.is_due.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.is_due.store(true, Ordering::Release);
        self.task.wake_by_ref();
    }
}

/// Peeks at the first byte. `None` if the client closes without sending one.
async fn first_byte(io: Io<'_>, stream: &TcpStream) -> Result<Option<u8>, IoFault> {
    poll_fn(|cx| {
        let mut byte = [0];
        let mut room = ReadBuf::new(&mut byte);
        match stream.poll_peek(cx, &mut room) {
            Poll::Ready(Ok(_)) => Poll::Ready(Ok(room.filled().first().copied())),
            Poll::Ready(Err(error)) => Poll::Ready(Err(IoFault::System(error))),
            Poll::Pending => io.poll_timeout(cx),
        }
    })
    .await
}

/// Sends an error to a client that uses plain text.
async fn refuse_plain_text(seat: &Seat, stream: TcpStream) {
    let io = seat.io();
    let ticks = io.worker.snapshot().ticks.write;
    let (mut reader, mut writer) = PlainHalf::both(&stream);
    let mut answer = Vec::new();
    Refusal::new(Cause::NotTls).append(&mut answer, io.worker.date.text().as_bytes());
    let mut bytes = 0;
    let sent = io.write_all(&mut writer, &answer, &mut bytes, ticks).await;
    log_refusal(io.worker, seat.listening(), (seat.peer, false), Cause::NotTls, bytes);
    if sent.is_ok() {
        io.linger(&mut reader, &mut writer, &mut Buffer::default()).await;
    }
}

/// The text of the rustls error for a server name without a certificate. rustls has no error type for it.
const NO_CERTIFICATE: &str = "no server certificate chain resolved";

fn cause_of(fault: &IoFault) -> Cause {
    let error = match fault {
        IoFault::Timeout => return Cause::HandshakeTimeout,
        IoFault::System(error) => error,
    };
    if error.get_ref().is_some_and(|cause| cause.is::<Overflow>()) {
        return Cause::HandshakeOverload;
    }
    match error.get_ref().and_then(|cause| cause.downcast_ref::<Error>()) {
        Some(Error::NoCertificatesPresented | Error::InvalidCertificate(_)) => Cause::ClientCertificate,
        Some(Error::AlertReceived(_)) => Cause::HandshakeRefused,
        Some(Error::General(text)) if text == NO_CERTIFICATE => Cause::UnknownName,
        Some(_) => Cause::HandshakeFailed,
        None => Cause::ClientClosed,
    }
}

/// One half of a TLS stream. One task uses both halves, and each half borrows the stream only during a poll.
pub(crate) struct SecureHalf<'a, S>(pub(crate) &'a RefCell<S>);

impl<S> Clone for SecureHalf<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for SecureHalf<'_, S> {}

impl<S: AsyncRead + Unpin> AsyncRead for SecureHalf<'_, S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for SecureHalf<'_, S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_shutdown(cx)
    }
}
