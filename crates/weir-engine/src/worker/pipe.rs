//! An in-memory connection between the worker and the HTTP/2 library. The library uses it like a socket, and the worker
//! moves the bytes to and from the real socket.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::replies::Replies;

/// Maximum amount of pending output. Above it, the library cannot write.
const OUTPUT_BYTES_MAX: usize = 256 * 1024;
/// A buffer that still has unused bytes removes its used bytes (already read or written) only if there are at least
/// this many. Each removal moves the unused bytes. With this minimum, each byte is moved less than once on average.
const USED_BYTES_MAX: usize = 256 * 1024;

/// Both ends of an in-memory connection. The HTTP/2 library holds one clone, and the worker the other.
///
/// It wakes no task, because the worker polls the library after every change of the pipe.
#[derive(Clone, Debug, Default)]
pub(super) struct Pipe(Rc<RefCell<State>>);

#[derive(Debug, Default)]
struct State {
    /// Bytes from the peer. The HTTP/2 library has read the bytes before position `read`.
    input: Vec<u8>,
    read: usize,
    is_ended: bool,
    /// Bytes for the peer. The socket has accepted the bytes before position `written`.
    output: Vec<u8>,
    written: usize,
    replies: Replies,
}

impl Pipe {
    /// Adds bytes that were received from the peer.
    pub(super) fn feed(&self, bytes: &[u8]) {
        let state = &mut *self.0.borrow_mut();
        if state.read >= USED_BYTES_MAX {
            state.input.drain(..state.read);
            state.read = 0;
        }
        state.input.extend_from_slice(bytes);
    }

    /// Marks that the peer sends no more bytes.
    pub(super) fn end(&self) {
        self.0.borrow_mut().is_ended = true;
    }

    /// Passes pending output to `write` until `write` accepts no more. `write` returns how many bytes it accepted; this
    /// function returns the total. If `write` fails after it has accepted bytes, this function still returns the total.
    /// The next call returns the error.
    pub(super) fn drain<E>(&self, mut write: impl FnMut(&[u8]) -> Result<usize, E>) -> Result<usize, E> {
        let state = &mut *self.0.borrow_mut();
        let mut sum = 0;
        while state.written < state.output.len() {
            match write(&state.output[state.written..]) {
                Err(error) if sum == 0 => return Err(error),
                Err(_) | Ok(0) => break,
                Ok(taken) => {
                    state.written += taken;
                    sum += taken;
                }
            }
        }
        if state.written == state.output.len() {
            state.output.clear();
            state.written = 0;
        } else if state.written >= USED_BYTES_MAX {
            // While a peer reads slowly, the buffer never becomes empty, so written bytes are removed here.
            state.output.drain(..state.written);
            state.written = 0;
        }
        state.replies.sent(sum);
        Ok(sum)
    }

    /// Whether the library has input left that it cannot process until more output is written.
    pub(super) fn is_blocked(&self) -> bool {
        self.is_full() && !self.0.borrow().input.is_empty()
    }

    /// Whether too many replies are pending, which means that the peer does not read them.
    pub(super) fn is_flooded(&self) -> bool {
        self.0.borrow().replies.are_too_many()
    }

    /// Whether pending output is at its limit. Then the library may have more to write.
    pub(super) fn is_full(&self) -> bool {
        let state = self.0.borrow();
        state.output.len() - state.written >= OUTPUT_BYTES_MAX
    }
}

impl AsyncRead for Pipe {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.borrow_mut();
        let state = &mut *state;
        let rest = &state.input[state.read..];
        if rest.is_empty() {
            return if state.is_ended { Poll::Ready(Ok(())) } else { Poll::Pending };
        }
        let taken = rest.len().min(out.remaining());
        out.put_slice(&rest[..taken]);
        state.read += taken;
        if state.read == state.input.len() {
            state.input.clear();
            state.read = 0;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.is_full() {
            return Poll::Pending;
        }
        let state = &mut *self.0.borrow_mut();
        let mut taken = 0;
        for piece in pieces {
            state.replies.queued(piece);
            state.output.extend_from_slice(piece);
            taken += piece.len();
        }
        Poll::Ready(Ok(taken))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn fed_bytes_are_read_and_written_bytes_are_drained() {
        let mut cx = Context::from_waker(Waker::noop());
        let worker = Pipe::default();
        let mut protocol = worker.clone();
        let mut read = |bytes: &mut [u8]| {
            let mut out = ReadBuf::new(bytes);
            let polled = Pin::new(&mut protocol).poll_read(&mut cx, &mut out).map(Result::unwrap);
            polled.map(|()| out.filled().len())
        };
        assert!(read(&mut [0; 4]).is_pending());
        worker.feed(b"hello");
        assert_eq!([read(&mut [0; 4]), read(&mut [0; 4])], [Poll::Ready(4), Poll::Ready(1)]);
        worker.end();
        assert_eq!(read(&mut [0; 4]), Poll::Ready(0));

        let mut cx = Context::from_waker(Waker::noop());
        let mut protocol = worker.clone();
        let mut write = |bytes: &[u8]| Pin::new(&mut protocol).poll_write(&mut cx, bytes).map(Result::unwrap);
        assert_eq!(write(b"abcdef"), Poll::Ready(6));
        let mut room = 4;
        let mut sent = Vec::new();
        let mut take = |bytes: &[u8]| {
            let taken = bytes.len().min(room);
            room -= taken;
            sent.extend_from_slice(&bytes[..taken]);
            Ok::<_, ()>(taken)
        };
        assert_eq!(worker.drain(&mut take), Ok(4));
        assert_eq!(sent, b"abcd");
        assert_eq!(worker.drain(|bytes| Ok::<_, ()>(bytes.len())), Ok(2));
        assert_eq!(write(&vec![0; OUTPUT_BYTES_MAX]), Poll::Ready(OUTPUT_BYTES_MAX));
        assert!(write(b"x").is_pending() && worker.is_full());
        assert!(!worker.is_blocked(), "nothing waits to be read");
        worker.feed(b"x");
        assert!(worker.is_blocked());
    }

    #[test]
    fn used_bytes_are_freed_piece_by_piece() {
        let mut cx = Context::from_waker(Waker::noop());
        let worker = Pipe::default();
        let mut protocol = worker.clone();
        let piece = [0; 16 * 1024];
        for _ in 0..1_000 {
            // The peer accepts only half of the pending output each time, so the buffer never becomes empty.
            assert!(Pin::new(&mut protocol).poll_write(&mut cx, &piece).is_ready());
            let mut is_first = true;
            let mut half =
                |bytes: &[u8]| Ok::<_, ()>(if std::mem::take(&mut is_first) { bytes.len() / 2 } else { 0 });
            worker.drain(&mut half).unwrap();
            worker.feed(&piece);
            let mut room = [0; 15 * 1024];
            assert!(Pin::new(&mut protocol).poll_read(&mut cx, &mut ReadBuf::new(&mut room)).is_ready());
        }
        let state = worker.0.borrow();
        let unread = 1_000 * 1024;
        let most = (OUTPUT_BYTES_MAX + USED_BYTES_MAX + piece.len(), unread + USED_BYTES_MAX + piece.len());
        assert!(state.output.len() <= most.0 && state.input.len() <= most.1);
    }
}
