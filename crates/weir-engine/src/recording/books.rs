//! Counts of requests. Every scheduled request is counted under exactly one result.

use std::io::{self, ErrorKind};

use weir_results::{Errors, Requests};

/// The phase that a request belongs to, by its intended start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Warmup,
    Sustained,
}

/// Why a request or a connection attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The connection attempt failed for a reason other than a refusal.
    Connect,
    /// The connection attempt was refused.
    Refused,
    /// The peer reset the connection.
    Reset,
    /// The peer closed the connection before the response was complete.
    Closed,
    /// The response was malformed or ambiguous.
    Parse,
    /// The response head was larger than the limit of this client.
    TooLarge,
    /// A TLS handshake or record failed.
    Tls,
    /// The peer does not support HTTP/2, or violated the protocol.
    Http2,
    /// The peer refused the HTTP/2 stream.
    RefusedStream,
    /// The peer reset the HTTP/2 stream.
    StreamReset,
    /// The peer sent GOAWAY before it processed the request.
    GoAway,
}

impl Cause {
    /// Returns why a connection broke, from the error of a read or a write.
    pub(crate) fn of_broken(error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::BrokenPipe | ErrorKind::UnexpectedEof => Cause::Closed,
            _ => Cause::Reset,
        }
    }
}

/// The counts of one phase.
#[derive(Clone, Debug, Default)]
pub(crate) struct Books {
    pub(crate) requests: Requests,
    pub(crate) errors: Errors,
    /// Number of requests that were sent but got no complete response, so that it is unknown whether the peer processed
    /// them.
    pub(crate) uncertain: u64,
    /// Completed responses by status code.
    status: StatusCounts,
}

/// Counts by status code, from 0 to 999.
#[derive(Clone, Debug)]
struct StatusCounts(Box<[u64; 1000]>);

impl Default for StatusCounts {
    fn default() -> Self {
        Self(Box::new([0; 1000]))
    }
}

impl Books {
    /// Counts the status of a complete response. Status codes have three digits.
    #[inline]
    pub(crate) fn complete(&mut self, status: u16) {
        self.status.0[usize::from(status)] += 1;
    }

    /// Adds the counts of another worker to these.
    pub(crate) fn add(&mut self, other: &Books) {
        self.requests.add(&other.requests);
        self.errors.add(&other.errors);
        self.uncertain += other.uncertain;
        self.status.0.iter_mut().zip(other.status.0.iter()).for_each(|(sum, count)| *sum += count);
    }

    /// Returns the status codes that occurred, each with its count.
    pub(crate) fn by_status(&self) -> impl Iterator<Item = (u16, u64)> {
        (0..).zip(self.status.0.iter().copied()).filter(|&(_, count)| count > 0)
    }
}

/// Counts one failure under its cause.
pub(crate) fn count(errors: &mut Errors, cause: Cause) {
    *match cause {
        Cause::Connect => &mut errors.connect,
        Cause::Refused => &mut errors.refused,
        Cause::Reset => &mut errors.reset,
        Cause::Closed => &mut errors.closed,
        Cause::Parse => &mut errors.parse,
        Cause::TooLarge => &mut errors.too_large,
        Cause::Tls => &mut errors.tls,
        Cause::Http2 => &mut errors.http2,
        Cause::RefusedStream => &mut errors.refused_stream,
        Cause::StreamReset => &mut errors.stream_reset,
        Cause::GoAway => &mut errors.goaway,
    } += 1;
}
