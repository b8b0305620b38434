//! The byte stream of a connection, in plain text or over TLS.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::idle::Activity;
use crate::worker::Worker;

/// The stream of one connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Reads into the buffer of the worker, and returns the number of bytes; 0 at the end of the stream. The bytes
    /// stay valid until the next `await`.
    #[inline]
    pub(crate) async fn read_into(&mut self, worker: &Worker, activity: &Activity) -> io::Result<usize> {
        let read = poll_fn(|cx| {
            let mut scratch = worker.scratch.borrow_mut();
            let mut buffer = ReadBuf::new(&mut scratch);
            match Pin::new(&mut *self).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) => Poll::Ready(Ok(buffer.filled().len())),
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Pending => Poll::Pending,
            }
        })
        .await?;
        activity.touch(&worker.connections);
        Ok(read)
    }

    /// Whether written bytes may still be in a buffer of this process.
    #[inline]
    pub(crate) fn is_buffered(&self) -> bool {
        matches!(self, Self::Secure(_))
    }

    /// Sets `SO_LINGER` to 0: closing the socket then resets the connection, and discards bytes that are not sent yet.
    pub(crate) fn reset_at_end(&self) -> io::Result<()> {
        let tcp = match self {
            Self::Plain(tcp) => tcp,
            Self::Secure(tls) => tls.get_ref().0,
        };
        SockRef::from(tcp).set_linger(Some(Duration::ZERO))
    }
}

impl AsyncRead for Stream {
    #[inline]
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_read(cx, buf),
            Self::Secure(tls) => Pin::new(tls).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    #[inline]
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_write(cx, buf),
            Self::Secure(tls) => Pin::new(tls).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_write_vectored(cx, bufs),
            Self::Secure(tls) => Pin::new(tls).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(tcp) => tcp.is_write_vectored(),
            Self::Secure(tls) => tls.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Self::Secure(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Self::Secure(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}
