//! Reading, writing and connecting, each under the connection's deadline.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use weir_config::UpstreamAddress;

use crate::buffer::{BUFFER_BYTES, Buffer};
use crate::upstream_socket::Socket;
use crate::wheel::Timer;
use crate::worker::Worker;

/// A client's incomplete first bytes are parsed at most this many times. Real clients send them in one or two pieces.
/// Without this limit, a client that sends single bytes would cause one parse per byte.
const LOOKS_MAX: usize = 64;

/// The result of looking at the first bytes of a client.
#[derive(Debug)]
pub(crate) enum Look<T> {
    /// The value parsed from the complete first bytes.
    Made(T),
    /// The client closed before its bytes were complete.
    Ended,
    /// The client's first bytes were parsed [`LOOKS_MAX`] times, and are still incomplete.
    Endless,
}

/// A piece of a body that was passed on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Piece {
    pub(crate) bytes: usize,
    /// Whether the piece is written straight from the buffer that it was read into.
    pub(crate) in_place: bool,
}

/// Why an operation failed.
#[derive(Debug)]
pub(crate) enum IoFault {
    /// The time limit of the operation has passed.
    Timeout,
    /// The system's error. A write of zero bytes counts as a closed connection.
    System(io::Error),
}

/// I/O for one connection's task. Every operation restarts the deadline, so the deadline limits the time without
/// progress. Readers and writers are generic types, so that TLS adds no cost to plain sockets.
#[derive(Clone, Copy)]
pub(crate) struct Io<'a> {
    pub(crate) worker: &'a Worker,
    pub(crate) timer: &'a Timer,
}

impl Io<'_> {
    /// Reads available bytes; 0 at the end of the stream. An empty buffer holds no memory during the wait.
    #[inline]
    pub(crate) async fn read<R: AsyncRead + Unpin>(
        self,
        from: &mut R,
        buffer: &mut Buffer,
        ticks: u32,
    ) -> Result<usize, IoFault> {
        self.timer.arm(&self.worker.wheel, ticks);
        self.read_armed(from, buffer).await
    }

    /// Like [`Io::read`], under the deadline that is already set.
    #[inline]
    pub(crate) async fn read_armed<R: AsyncRead + Unpin>(
        self,
        from: &mut R,
        buffer: &mut Buffer,
    ) -> Result<usize, IoFault> {
        poll_fn(|cx| {
            let mut room = ReadBuf::new(buffer.room(&self.worker.buffers));
            match Pin::new(&mut *from).poll_read(cx, &mut room) {
                Poll::Ready(Ok(())) => {
                    let bytes = room.filled().len();
                    buffer.filled(bytes);
                    Poll::Ready(Ok(bytes))
                }
                Poll::Ready(Err(error)) => Poll::Ready(Err(IoFault::System(error))),
                Poll::Pending => {
                    buffer.release_if_empty(&self.worker.buffers);
                    self.poll_timeout(cx)
                }
            }
        })
        .await
    }

    /// Applies `of` to the first received bytes, up to `most`, and leaves them in the socket. `None` at the end of the
    /// stream.
    pub(crate) async fn peek<T>(
        self,
        from: &TcpStream,
        most: usize,
        of: impl Fn(&[u8]) -> T,
    ) -> Result<Option<T>, IoFault> {
        let stock = &self.worker.buffers;
        let mut buffer = Buffer::default();
        poll_fn(|cx| {
            let room = buffer.room(stock);
            let length = room.len().min(most);
            let mut room = ReadBuf::new(&mut room[..length]);
            let looked = match from.poll_peek(cx, &mut room) {
                Poll::Ready(Ok(_)) if room.filled().is_empty() => Poll::Ready(Ok(None)),
                Poll::Ready(Ok(_)) => Poll::Ready(Ok(Some(of(room.filled())))),
                Poll::Ready(Err(error)) => Poll::Ready(Err(IoFault::System(error))),
                Poll::Pending => self.poll_timeout(cx),
            };
            buffer.release_if_empty(stock);
            looked
        })
        .await
    }

    /// Parses the first received bytes (at most `most`) with `of`. Parses again when more bytes arrive, at most
    /// [`LOOKS_MAX`] times in total, until `of` returns a value or the request header timeout passes. All bytes stay in
    /// the socket.
    pub(crate) async fn look<T>(
        self,
        from: &TcpStream,
        most: usize,
        of: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Look<T>, IoFault> {
        self.timer.arm(&self.worker.wheel, self.worker.snapshot().ticks.head);
        for _ in 0..LOOKS_MAX {
            match self.peek(from, most, &of).await? {
                Some(Some(made)) => return Ok(Look::Made(made)),
                None => return Ok(Look::Ended),
                // The bytes stay in the socket. This call clears the socket's readiness; otherwise the next peek would
                // return the same bytes at once.
                Some(None) => {
                    let _ =
                        from.try_io(Interest::READABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
                }
            }
        }
        Ok(Look::Endless)
    }

    /// Writes all of `bytes`. On a fault, `written` holds the number of bytes that were sent before it.
    #[inline]
    pub(crate) async fn write_all<W: AsyncWrite + Unpin>(
        self,
        to: &mut W,
        bytes: &[u8],
        written: &mut usize,
        ticks: u32,
    ) -> Result<(), IoFault> {
        self.timer.arm(&self.worker.wheel, ticks);
        poll_fn(|cx| {
            while *written < bytes.len() {
                match Pin::new(&mut *to).poll_write(cx, &bytes[*written..]) {
                    Poll::Ready(Ok(0)) => {
                        return Poll::Ready(Err(IoFault::System(io::ErrorKind::WriteZero.into())));
                    }
                    Poll::Ready(Ok(more)) => {
                        *written += more;
                        self.timer.arm(&self.worker.wheel, ticks);
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(IoFault::System(error))),
                    Poll::Pending => return self.poll_timeout(cx),
                }
            }
            // TLS buffers encrypted bytes that the socket did not accept. A plain socket has no such buffer.
            match Pin::new(&mut *to).poll_flush(cx) {
                Poll::Ready(flushed) => Poll::Ready(flushed.map_err(IoFault::System)),
                Poll::Pending => self.poll_timeout(cx),
            }
        })
        .await
    }

    /// Yields to other tasks if the piece filled its buffer, because more data is likely to follow. Releases the buffer
    /// meanwhile: tasks then share few buffers, which stay in the processor's cache.
    ///
    /// If the piece was not copied, the next read uses a long buffer. This does not apply to TLS: TLS buffers all
    /// encrypted bytes, so a long buffer would cost more memory.
    #[inline]
    pub(crate) async fn give_way_after(self, piece: Piece, is_sealed: bool, buffer: &mut Buffer) {
        if piece.bytes >= BUFFER_BYTES {
            buffer.release_if_empty(&self.worker.buffers);
            tokio::task::yield_now().await;
            if piece.in_place && !is_sealed {
                buffer.lengthen(&self.worker.buffers);
            }
        }
    }

    /// Closes the writing side. Over TLS it sends `close_notify` first.
    pub(crate) async fn shut_down<W: AsyncWrite + Unpin>(
        self,
        to: &mut W,
        ticks: u32,
    ) -> Result<(), IoFault> {
        self.timer.arm(&self.worker.wheel, ticks);
        poll_fn(|cx| match Pin::new(&mut *to).poll_shutdown(cx) {
            Poll::Ready(ended) => Poll::Ready(ended.map_err(IoFault::System)),
            Poll::Pending => self.poll_timeout(cx),
        })
        .await
    }

    /// Opens a connection to an upstream.
    pub(crate) async fn connect(self, address: &UpstreamAddress, ticks: u32) -> Result<Socket, IoFault> {
        self.timer.arm(&self.worker.wheel, ticks);
        let mut connecting = pin!(Socket::connect(address));
        poll_fn(|cx| match connecting.as_mut().poll(cx) {
            Poll::Ready(outcome) => Poll::Ready(outcome.map_err(IoFault::System)),
            Poll::Pending => self.poll_timeout(cx),
        })
        .await
    }

    /// Closes gracefully: shuts down the writing side and discards received bytes for a while. Otherwise a reset could
    /// destroy the last response before the client has read it.
    pub(crate) async fn linger<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
        self,
        reader: &mut R,
        writer: &mut W,
        buffer: &mut Buffer,
    ) {
        // Ends after 2 s without bytes, or after 10 s in all. The number of received bytes is not limited, because a
        // client may read the response only after it has sent a long body.
        const QUIET_TICKS: u32 = 20;
        const ALL_TICKS: u32 = 100;
        if self.shut_down(writer, QUIET_TICKS).await.is_err() {
            return;
        }
        let wheel = &self.worker.wheel;
        let latest = wheel.now() + ALL_TICKS;
        while wheel.now() < latest {
            buffer.consume(buffer.data().len());
            match self.read(reader, buffer, QUIET_TICKS.min(latest - wheel.now())).await {
                Ok(bytes) if bytes > 0 => {}
                _ => return,
            }
        }
    }

    #[inline]
    pub(crate) fn poll_timeout<T>(self, cx: &Context<'_>) -> Poll<Result<T, IoFault>> {
        if self.timer.poll_over(cx) { Poll::Ready(Err(IoFault::Timeout)) } else { Poll::Pending }
    }
}
