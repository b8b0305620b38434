//! A plain-text socket with direct system calls.
//!
//! In a process with several threads, the C library makes each `recv` and `send` a cancellation point, with one atomic
//! operation before the call and one after it. No thread cancels a worker. With four calls per request, these
//! operations took 2 % of a worker's time. As with tokio's own socket halves, tokio decides when the socket may be
//! ready.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

/// One half of a socket. One task reads and writes both halves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainHalf<'s>(&'s TcpStream);

impl<'s> PlainHalf<'s> {
    /// Both halves of a socket.
    pub(crate) fn both(stream: &'s TcpStream) -> (PlainHalf<'s>, PlainHalf<'s>) {
        (PlainHalf(stream), PlainHalf(stream))
    }

    /// Makes the system call if the poll has reported readiness. `None` if the call would block. A transfer of less
    /// than `wanted` bytes also clears the readiness, so the next call waits until the poll reports it again.
    #[inline]
    fn attempt(
        self,
        interest: Interest,
        wanted: usize,
        transfer: impl FnOnce() -> Result<usize, Errno>,
    ) -> Option<io::Result<usize>> {
        let mut outcome = None;
        let _ = self.0.try_io(interest, || {
            let transferred = transfer();
            let is_over = match transferred {
                Ok(bytes) => 0 < bytes && bytes < wanted,
                Err(error) => error == Errno::AGAIN,
            };
            outcome = match transferred {
                Err(Errno::AGAIN) => None,
                transferred => Some(transferred.map_err(io::Error::from)),
            };
            // `WouldBlock` makes tokio clear the readiness.
            if is_over { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
        });
        outcome
    }
}

impl AsyncRead for PlainHalf<'_> {
    #[inline]
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            let room = buf.initialize_unfilled();
            let wanted = room.len();
            let receive = || rustix::net::recv(self.0, room, RecvFlags::empty()).map(|(bytes, _)| bytes);
            if let Some(received) = self.attempt(Interest::READABLE, wanted, receive) {
                return Poll::Ready(received.map(|bytes| buf.advance(bytes)));
            }
        }
    }
}

impl AsyncWrite for PlainHalf<'_> {
    #[inline]
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            let send = || rustix::net::send(self.0, bytes, SendFlags::NOSIGNAL);
            if let Some(sent) = self.attempt(Interest::WRITABLE, bytes.len(), send) {
                return Poll::Ready(sent);
            }
        }
    }

    /// Does nothing, because each write goes straight to the kernel.
    #[inline]
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(rustix::net::shutdown(self.0, Shutdown::Write).map_err(io::Error::from))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use weir_io::{WorkerOptions, spawn_worker};

    use super::*;

    /// More than socket buffers hold, so that some transfers are partial.
    const BYTES: usize = 8 << 20;

    #[test]
    fn bytes_arrive_complete_and_in_order() {
        let main = || async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let sender = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let receiver = listener.accept().await.unwrap().0;
            let sending = tokio::task::spawn_local(async move {
                let (mut reader, mut writer) = PlainHalf::both(&sender);
                let bytes: Vec<u8> = (0..BYTES).map(|n| (n % 251) as u8).collect();
                writer.write_all(&bytes).await.unwrap();
                writer.shutdown().await.unwrap();
                let mut answer = String::new();
                reader.read_to_string(&mut answer).await.unwrap();
                answer
            });
            let (mut reader, mut writer) = PlainHalf::both(&receiver);
            let (mut room, mut count) = (vec![0; 1 << 20], 0);
            for size in [1, 7, 1 << 10, 1 << 20].into_iter().cycle() {
                let bytes = reader.read(&mut room[..size]).await.unwrap();
                if bytes == 0 {
                    break;
                }
                assert!(room[..bytes].iter().enumerate().all(|(n, &byte)| byte == ((count + n) % 251) as u8));
                count += bytes;
            }
            writer.write_all(b"all").await.unwrap();
            writer.shutdown().await.unwrap();
            (count, sending.await.unwrap())
        };
        let options = WorkerOptions { name: "test".to_owned(), ..WorkerOptions::default() };
        let outcome = spawn_worker(options, main).unwrap().join().unwrap();
        assert_eq!(outcome, (BYTES, "all".to_owned()));
    }

    #[test]
    fn errors_are_passed_on_unchanged() {
        let main = || async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let peer = listener.accept().await.unwrap().0;
            rustix::net::sockopt::set_socket_linger(&peer, Some(std::time::Duration::ZERO)).unwrap();
            drop(peer);
            let (mut reader, mut writer) = PlainHalf::both(&stream);
            let read = reader.read(&mut [0]).await.unwrap_err().kind();
            (read, writer.write(b"x").await.unwrap_err().kind())
        };
        let options = WorkerOptions { name: "test".to_owned(), ..WorkerOptions::default() };
        let outcome = spawn_worker(options, main).unwrap().join().unwrap();
        assert_eq!(outcome, (io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe));
    }
}
