//! The byte stream of an HTTP/2 connection. Reads first return the bytes that were read to detect the protocol. Writes
//! record in `Pressure` whether the socket is full.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::idle::Activity;
use crate::stream::Stream;
use crate::worker::Worker;

/// Whether the socket is full, so that some written bytes are still buffered.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    is_full: Cell<bool>,
}

impl Pressure {
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.get()
    }
}

pub(crate) struct Wire {
    stream: Stream,
    /// The bytes that were read to detect the protocol. The first `given` of them were returned already.
    first: Vec<u8>,
    given: usize,
    worker: Rc<Worker>,
    activity: Rc<Activity>,
    pressure: Rc<Pressure>,
}

impl Wire {
    pub(crate) fn new(
        stream: Stream,
        first: Vec<u8>,
        worker: Rc<Worker>,
        activity: Rc<Activity>,
        pressure: Rc<Pressure>,
    ) -> Self {
        Self { stream, first, given: 0, worker, activity, pressure }
    }

    fn note<T>(&self, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        self.pressure.is_full.set(written.is_pending());
        if written.is_ready() {
            self.activity.touch(&self.worker.connections);
        }
        written
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let wire = self.get_mut();
        if wire.given < wire.first.len() {
            let piece = &wire.first[wire.given..];
            let piece = &piece[..piece.len().min(buf.remaining())];
            buf.put_slice(piece);
            wire.given += piece.len();
            if wire.given == wire.first.len() {
                (wire.first, wire.given) = (Vec::new(), 0);
            }
            return Poll::Ready(Ok(()));
        }
        let read = Pin::new(&mut wire.stream).poll_read(cx, buf);
        if read.is_ready() {
            wire.activity.touch(&wire.worker.connections);
        }
        read
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let wire = self.get_mut();
        let written = Pin::new(&mut wire.stream).poll_write(cx, buf);
        wire.note(written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wire = self.get_mut();
        let written = Pin::new(&mut wire.stream).poll_write_vectored(cx, bufs);
        wire.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let wire = self.get_mut();
        let flushed = Pin::new(&mut wire.stream).poll_flush(cx);
        wire.note(flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
