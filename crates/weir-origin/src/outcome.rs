//! Outcomes of requests: good responses and injected faults.

mod pattern;

pub(crate) use pattern::Outcomes;

/// The outcome of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Good,
    /// Status 500.
    Error,
    /// The connection is reset, or the stream over HTTP/2.
    Reset,
    /// Only the headers and half of the body are sent.
    Half,
    /// A good response whose body is sent slowly.
    Slow,
    /// The request is never answered.
    Silent,
    /// The HTTP/2 stream is refused. HTTP/1.1 cannot do this, so it sends a good response.
    Refused,
}
