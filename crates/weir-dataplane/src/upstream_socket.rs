//! A socket to an upstream: TCP or Unix.
//!
//! [`Socket`] checks its kind at each read. It is used only for handshakes, health checks and TLS, which cost a
//! thousand times as much as this check. Plain-text exchanges use the concrete socket type.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use weir_config::UpstreamAddress;

/// A connection of either kind.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Connects. A TCP socket sends each write at once (`TCP_NODELAY`).
    pub(crate) async fn connect(to: &UpstreamAddress) -> io::Result<Socket> {
        match to {
            UpstreamAddress::Ip(address) => {
                let stream = TcpStream::connect(*address).await?;
                stream.set_nodelay(true)?;
                Ok(Socket::Tcp(stream))
            }
            // This fails at once if the accept queue of the other side is full.
            UpstreamAddress::Unix(path) => UnixStream::connect(&**path).await.map(Socket::Unix),
        }
    }

    /// Reads available bytes, without a task to wake.
    pub(crate) fn try_read(&self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.try_read(room),
            Socket::Unix(stream) => stream.try_read(room),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_read(cx, room),
            Socket::Unix(stream) => Pin::new(stream).poll_read(cx, room),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Socket::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
            Socket::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Socket::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Socket::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Socket::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
