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

/// How often what a client sends first is looked at before it is whole. Real ones send it in one or two pieces; one that
/// sends single bytes would have it read anew for each of them.
const LOOKS_MAX: usize = 64;

/// What came of looking at what a client sends first.
#[derive(Debug)]
pub(crate) enum Look<T> {
    /// Something was made of it.
    Made(T),
    /// It closed before.
    Ended,
    /// It was not whole after so many looks.
    Endless,
}

/// A piece of a body that was passed on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Piece {
    pub(crate) bytes: usize,
    /// It goes from where it was read to.
    pub(crate) in_place: bool,
}

/// Why an operation did not succeed.
#[derive(Debug)]
pub(crate) enum IoFault {
    /// Its time is over.
    Timeout,
    /// The system says so; a write of nothing counts as a closed connection.
    System(io::Error),
}

/// The means of one connection's task. Every operation sets the deadline anew, so it bounds the time without progress.
/// What is read from and written to is known when this is compiled: plain sockets pay nothing for TLS.
#[derive(Clone, Copy)]
pub(crate) struct Io<'a> {
    pub(crate) worker: &'a Worker,
    pub(crate) timer: &'a Timer,
}

impl Io<'_> {
    /// Reads what is there; 0 is the end. The buffer holds no memory while it waits empty.
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

    /// The same under the deadline that is set already.
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

    /// Looks at what has come, at so many bytes of it at most, and leaves it there; `None` at the end of the stream.
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

    /// Looks at what comes, at most so many bytes, until `of` makes something of it or the time for a head is over. All of
    /// it stays in the socket.
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
                // What was looked at is still there: without this the socket would be ready for ever.
                Some(None) => {
                    let _ =
                        from.try_io(Interest::READABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
                }
            }
        }
        Ok(Look::Endless)
    }

    /// Writes all of `bytes`. On a fault, `written` says how many left before it.
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
            // What TLS has sealed and the socket did not take waits in its own buffer; a plain socket has none.
            match Pin::new(&mut *to).poll_flush(cx) {
                Poll::Ready(flushed) => Poll::Ready(flushed.map_err(IoFault::System)),
                Poll::Pending => self.poll_timeout(cx),
            }
        })
        .await
    }

    /// After a piece of a body that filled a buffer there is likely more. Others have their turn before it, and what is
    /// read then is longer where that takes no more memory: behind no copy, and over no TLS, which holds all that it has
    /// sealed. The buffer is left meanwhile, so that all use the few that are in the processor's cache.
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

    /// Ends the writing side; over TLS with its goodbye.
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

    /// A new connection to an upstream.
    pub(crate) async fn connect(self, address: &UpstreamAddress, ticks: u32) -> Result<Socket, IoFault> {
        self.timer.arm(&self.worker.wheel, ticks);
        let mut connecting = pin!(Socket::connect(address));
        poll_fn(|cx| match connecting.as_mut().poll(cx) {
            Poll::Ready(outcome) => Poll::Ready(outcome.map_err(IoFault::System)),
            Poll::Pending => self.poll_timeout(cx),
        })
        .await
    }

    /// Says goodbye: no more is written, and what still comes is thrown away for a while, so that the last answer is
    /// not lost to a reset.
    pub(crate) async fn linger<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
        self,
        reader: &mut R,
        writer: &mut W,
        buffer: &mut Buffer,
    ) {
        // A client that is at a long body may read the answer only behind it, so bytes are not counted.
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
