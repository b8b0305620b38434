//! One connection: opening it, writing requests, reading bytes, opening it again.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;

use crate::books::Cause;
use crate::exchange::Exchange;

/// A connection attempt is given up after this.
pub(crate) const CONNECT_TIMEOUT_NS: u64 = 5_000_000_000;
/// Wait before the second repeated attempt; it doubles from attempt to attempt.
const BACKOFF_FIRST_NS: u64 = 10_000_000;
const BACKOFF_MAX_NS: u64 = 500_000_000;
/// A connection that was closed unused is a failed attempt, unless it lived as long as this.
const UNUSED_LIFE_NS: u64 = 1_000_000_000;

/// A connection and its place in the worker.
#[derive(Debug)]
pub(crate) struct Connection {
    link: Link,
    pub(crate) exchange: Exchange,
    /// The request that is being written, or was last.
    pub(crate) index: u64,
    /// How much of it was written.
    pub(crate) written: usize,
    /// Whether some of it is still to be written.
    pub(crate) is_writing: bool,
    /// Failed attempts in a row.
    attempts: u32,
    up_since_ns: u64,
    /// Whether a byte was written to it.
    was_used: bool,
    /// Why nothing more can be written, where reading has yet to tell how it ended.
    write_broke: Option<Cause>,
}

enum Link {
    Down { retry_ns: u64 },
    Connecting { attempt: Pin<Box<dyn Future<Output = io::Result<TcpStream>>>>, give_up_ns: u64 },
    Up(TcpStream),
}

/// What came of reading.
#[derive(Debug)]
pub(crate) enum Read {
    /// Nothing is there; the waker is called when something is.
    Nothing,
    /// So many bytes lie in the buffer.
    Bytes(usize),
    /// The peer has closed its side.
    Closed,
    /// The connection broke.
    Broken(Cause),
}

impl Connection {
    pub(crate) fn new() -> Self {
        Self {
            link: Link::Down { retry_ns: 0 },
            exchange: Exchange::new(),
            index: 0,
            written: 0,
            is_writing: false,
            attempts: 0,
            up_since_ns: 0,
            was_used: false,
            write_broke: None,
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        matches!(self.link, Link::Up(_))
    }

    pub(crate) fn is_connecting(&self) -> bool {
        matches!(self.link, Link::Connecting { .. })
    }

    /// Whether it is down and its wait is over.
    pub(crate) fn is_retry_due(&self, now_ns: u64) -> bool {
        matches!(self.link, Link::Down { retry_ns } if retry_ns <= now_ns)
    }

    /// Whether an attempt has lasted too long.
    pub(crate) fn is_given_up(&self, now_ns: u64) -> bool {
        matches!(self.link, Link::Connecting { give_up_ns, .. } if give_up_ns <= now_ns)
    }

    /// Starts an attempt; it goes on in [`Connection::poll_connect`]. Each attempt takes the next address.
    pub(crate) fn connect(&mut self, addresses: &[SocketAddr], now_ns: u64) {
        let address = addresses[self.attempts as usize % addresses.len()];
        let attempt = Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            // A request leaves in one write; waiting for more to send would only add to its latency.
            stream.set_nodelay(true)?;
            Ok(stream)
        });
        self.link = Link::Connecting { attempt, give_up_ns: now_ns + CONNECT_TIMEOUT_NS };
    }

    /// Goes on with an attempt; `None` while it lasts.
    pub(crate) fn poll_connect(&mut self, cx: &mut Context<'_>, now_ns: u64) -> Option<Result<(), Cause>> {
        let Link::Connecting { attempt, .. } = &mut self.link else { return None };
        match attempt.as_mut().poll(cx) {
            Poll::Pending => None,
            Poll::Ready(Ok(stream)) => {
                self.link = Link::Up(stream);
                self.up_since_ns = now_ns;
                self.was_used = false;
                self.is_writing = false;
                self.write_broke = None;
                Some(Ok(()))
            }
            Poll::Ready(Err(error)) => {
                self.attempt_failed(now_ns);
                Some(Err(connect_cause(&error)))
            }
        }
    }

    /// The attempt failed: the next comes at once the first time, then later and later.
    pub(crate) fn attempt_failed(&mut self, now_ns: u64) {
        self.link = Link::Down { retry_ns: now_ns + backoff_ns(self.attempts) };
        self.attempts = self.attempts.saturating_add(1);
    }

    /// Whether it was of no use: an attempt that failed after all, though the peer had accepted.
    pub(crate) fn is_useless(&self, now_ns: u64) -> bool {
        !self.was_used && now_ns.saturating_sub(self.up_since_ns) < UNUSED_LIFE_NS
    }

    /// Closes the connection; it may be opened again at once, unless it was of no use.
    pub(crate) fn close(&mut self, now_ns: u64) {
        self.is_writing = false;
        if self.is_useless(now_ns) {
            self.attempt_failed(now_ns);
        } else {
            self.attempts = 0;
            self.link = Link::Down { retry_ns: now_ns };
        }
    }

    /// The peer takes no more of the request; whether it has answered all the same is for reading to tell.
    pub(crate) fn stop_writing(&mut self, cause: Cause) {
        self.is_writing = false;
        self.write_broke = Some(cause);
    }

    /// The cause behind an end that reading reports as `cause`: the kernel tells of a reset only once, and
    /// whoever was writing has heard of it.
    pub(crate) fn cause_of_end(&self, cause: Cause) -> Cause {
        self.write_broke.unwrap_or(cause)
    }

    /// Reads into `buffer`; the waker is registered when nothing is left to read.
    #[inline]
    pub(crate) fn read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Read {
        let Link::Up(stream) = &mut self.link else { return Read::Nothing };
        let mut buffer = ReadBuf::new(buffer);
        match Pin::new(stream).poll_read(cx, &mut buffer) {
            Poll::Pending => Read::Nothing,
            Poll::Ready(Ok(())) => match buffer.filled().len() {
                0 => Read::Closed,
                bytes => Read::Bytes(bytes),
            },
            Poll::Ready(Err(error)) => Read::Broken(broken_cause(&error)),
        }
    }

    /// Writes what fits of `bytes`; `Ok(0)` when nothing fits, and the waker is called when something does.
    #[inline]
    pub(crate) fn write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Result<usize, Cause> {
        let Link::Up(stream) = &mut self.link else { return Ok(0) };
        loop {
            match stream.try_write(bytes) {
                Ok(written) => {
                    self.was_used = true;
                    return Ok(written);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    match stream.poll_write_ready(cx) {
                        Poll::Pending => return Ok(0),
                        Poll::Ready(Ok(())) => {}
                        Poll::Ready(Err(error)) => return Err(broken_cause(&error)),
                    }
                }
                Err(error) => return Err(broken_cause(&error)),
            }
        }
    }
}

fn backoff_ns(attempts: u32) -> u64 {
    match attempts {
        0 => 0,
        _ => (BACKOFF_FIRST_NS << (attempts - 1).min(16)).min(BACKOFF_MAX_NS),
    }
}

fn connect_cause(error: &io::Error) -> Cause {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Cause::Refused,
        io::ErrorKind::ConnectionReset => Cause::Reset,
        _ => Cause::Connect,
    }
}

fn broken_cause(error: &io::Error) -> Cause {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => Cause::Closed,
        _ => Cause::Reset,
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Down { retry_ns } => write!(f, "Down until {retry_ns}"),
            Self::Connecting { give_up_ns, .. } => write!(f, "Connecting until {give_up_ns}"),
            Self::Up(stream) => write!(f, "Up({stream:?})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_wait_longer_and_longer_but_never_long() {
        let waits: Vec<u64> = (0..9).map(|attempts| backoff_ns(attempts) / 1_000_000).collect();
        assert_eq!(waits, [0, 10, 20, 40, 80, 160, 320, 500, 500]);
        assert_eq!(backoff_ns(u32::MAX), BACKOFF_MAX_NS);
    }

    #[test]
    fn a_connection_closed_unused_counts_as_a_failed_attempt() {
        let mut connection = Connection::new();
        connection.close(5);
        assert!(connection.is_retry_due(5));
        connection.close(5);
        assert!(!connection.is_retry_due(5) && connection.is_retry_due(5 + BACKOFF_FIRST_NS));
        connection.was_used = true;
        connection.close(7);
        assert!(connection.is_retry_due(7));
    }

    /// A connection whose peer has reset it, after `written` bytes reached it.
    async fn reset_by_its_peer(written: usize) -> Connection {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut connection = Connection::new();
        connection.connect(&[listener.local_addr().unwrap()], 0);
        std::future::poll_fn(|cx| connection.poll_connect(cx, 0).map_or(Poll::Pending, Poll::Ready))
            .await
            .unwrap();
        let (peer, _) = listener.accept().await.unwrap();
        let request = vec![b'x'; written];
        if written > 0 {
            let write = |cx: &mut Context<'_>| match connection.write(cx, &request) {
                Ok(0) => Poll::Pending,
                written => Poll::Ready(written),
            };
            assert_eq!(std::future::poll_fn(write).await, Ok(written));
        }
        socket2::SockRef::from(&peer).set_linger(Some(std::time::Duration::ZERO)).unwrap();
        drop(peer);
        let Link::Up(stream) = &connection.link else { panic!("it is up") };
        stream.ready(tokio::io::Interest::ERROR).await.unwrap();
        connection
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap().block_on(future)
    }

    #[test]
    fn a_connection_that_never_took_a_byte_is_no_use_even_when_a_write_was_tried() {
        block_on(async {
            let mut connection = reset_by_its_peer(0).await;
            let mut cx = Context::from_waker(std::task::Waker::noop());
            assert_eq!(connection.write(&mut cx, b"GET"), Err(Cause::Reset));
            assert!(connection.is_useless(5));
            connection.attempts = 1;
            connection.close(5);
            assert!(!connection.is_retry_due(5), "a flood of attempts would follow");
        });
    }

    #[test]
    fn a_reset_that_the_writer_heard_of_is_no_orderly_end() {
        block_on(async {
            let mut connection = reset_by_its_peer(3).await;
            let mut cx = Context::from_waker(std::task::Waker::noop());
            let cause = connection.write(&mut cx, b"more").unwrap_err();
            connection.stop_writing(cause);
            let Read::Closed = connection.read(&mut cx, &mut [0; 8]) else {
                panic!("the kernel tells it once")
            };
            assert_eq!(connection.cause_of_end(Cause::Closed), Cause::Reset);
        });
    }
}
