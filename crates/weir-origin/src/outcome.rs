//! Outcomes of requests: good responses and injected faults.

mod pattern;

pub(crate) use pattern::Outcomes;

/// What a request gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Good,
    /// Status 500.
    Error,
    /// The connection is reset; over HTTP/2 the stream.
    Reset,
    /// The head and half of the body.
    Half,
    /// A good answer whose body trickles.
    Slow,
    /// Never answered.
    Silent,
    /// Over HTTP/2 its stream is refused; over HTTP/1.1, which knows no such thing, it is a good one.
    Refused,
}
