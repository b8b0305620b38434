//! Detects clients that disconnect while a request waits: for a request limit, for a connection, for more of a
//! response.
//!
//! ```text
//! watched -> sends more requests: the bytes are kept, up to a limit; a disconnect after more bytes is not detected
//!    +-----> resets, or closes its side: it has disconnected
//!    +-----> closes its side on a listener with `half_close`: nothing more can be detected
//! ```
//! No system call happens until the poll reports an event.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

use crate::buffer::Buffer;
use crate::cause::Cause;
use crate::io::Io;
use crate::listener::Listening;

/// While a request is served, at most this many bytes of the client's next requests are read. If the client sends more,
/// its disconnect is not detected.
const AHEAD_BYTES_MAX: usize = 4 << 10;

/// The reading side of a client whose request has been read completely.
pub(crate) struct ClientSide<'a, R> {
    pub(crate) io: Io<'a>,
    pub(crate) listening: &'a Listening,
    pub(crate) reader: &'a mut R,
    /// The buffer for bytes of the client's next requests.
    pub(crate) inbound: &'a mut Buffer,
    /// Whether the client has closed its sending side. It still gets a response.
    pub(crate) is_half_closed: &'a mut bool,
}

impl<R: AsyncRead + Unpin> ClientSide<'_, R> {
    /// Waits for `future` and returns its result. Fails if the client disconnects while `is_watched` returns true.
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

    /// Ready once the client has disconnected. Stops reading ahead once [`AHEAD_BYTES_MAX`] bytes are held.
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

/// Whether the client closed its sending side without a reset. Over TLS, a missing `close_notify` is accepted.
fn is_in_order(ended: &io::Result<()>) -> bool {
    match ended {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::UnexpectedEof,
    }
}
