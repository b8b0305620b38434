//! Outcomes of requests: good responses and injected faults.

mod pattern;

pub(crate) use pattern::Outcomes;

/// The outcome of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Good,
    /// A response with status 500.
    Error,
    /// The connection is reset. Over HTTP/2, only the stream is reset.
    Reset,
    /// The response ends after the headers and half of the body.
    Half,
    /// A successful response whose body is sent slowly.
    Slow,
    /// The request never gets a response.
    Silent,
    /// The HTTP/2 stream is refused. HTTP/1.1 cannot do this, so its response is successful.
    Refused,
}
