//! Clients that leave while something else is waited for: a place at a backend, a connection, more of a response.
//!
//! ```text
//! watched -> sends ahead: kept for later, up to a bound behind which nothing is seen
//!    +-----> was reset, or has ended its side: it has left
//!    +-----> has ended its side where listeners serve such clients: nothing more is to be seen
//! ```
//! Nothing is asked of the kernel before the poll has told that something came.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

use crate::buffer::Buffer;
use crate::cause::Cause;
use crate::io::Io;
use crate::listener::Listening;

/// Bytes of further requests that are taken while one is served. Who sends more ahead than this is not seen to leave.
const AHEAD_BYTES_MAX: usize = 4 << 10;

/// What is read of a client all of whose request has come.
pub(crate) struct ClientSide<'a, R> {
    pub(crate) io: Io<'a>,
    pub(crate) listening: &'a Listening,
    pub(crate) reader: &'a mut R,
    /// What it sends ahead comes here.
    pub(crate) inbound: &'a mut Buffer,
    /// It has ended its side, and is served all the same.
    pub(crate) is_half_closed: &'a mut bool,
}

impl<R: AsyncRead + Unpin> ClientSide<'_, R> {
    /// What `future` comes to, unless the client leaves in a wait that `is_watched`.
    #[inline]
    pub(crate) async fn unless_left<T>(
        &mut self,
        mut future: Pin<&mut impl Future<Output = Result<T, Cause>>>,
        is_watched: impl Fn() -> bool,
    ) -> Result<T, Cause> {
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Pending if is_watched() => self.poll_left(cx).map(Err),
            outcome => outcome,
        })
        .await
    }

    /// Whether the client has left. What it sends ahead is kept, as much as is read at one time.
    fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<Cause> {
        let stock = &self.io.worker.buffers;
        while !*self.is_half_closed && self.inbound.data().len() < AHEAD_BYTES_MAX {
            let mut room = ReadBuf::new(self.inbound.room(stock));
            match Pin::new(&mut *self.reader).poll_read(cx, &mut room) {
                Poll::Ready(Ok(())) if !room.filled().is_empty() => {
                    let bytes = room.filled().len();
                    self.inbound.filled(bytes);
                }
                Poll::Ready(ended) if is_in_order(&ended) && self.may_be_half_closed() => {
                    *self.is_half_closed = true;
                }
                Poll::Ready(_) => return Poll::Ready(Cause::ClientClosed),
                Poll::Pending => break,
            }
        }
        self.inbound.release_if_empty(stock);
        Poll::Pending
    }

    #[cold]
    fn may_be_half_closed(&self) -> bool {
        self.listening.half_close(&self.io.worker.snapshot().table)
    }
}

/// Whether a client that sends no more has ended its side; over TLS it may have done so without a goodbye.
fn is_in_order(ended: &io::Result<()>) -> bool {
    match ended {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::UnexpectedEof,
    }
}
