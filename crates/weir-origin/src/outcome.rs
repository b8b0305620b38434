//! Outcomes of requests: good responses and injected faults.

mod pattern;

pub(crate) use pattern::Outcomes;

/// The outcome of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Good,
    /// Status 500.
    Error,
    /// The connection is reset; over HTTP/2 the stream.
    Reset,
    /// The head and half of the body are sent.
    Half,
    /// A good response whose body is sent slowly.
    Slow,
    /// Never answered.
    Silent,
    /// HTTP/2: the stream is refused. HTTP/1.1 has no such outcome, so the response is good.
    Refused,
}
