//! Decodes message bodies: finds the payload and the end of the body, wherever the input is split.

use std::ops::Range;

use crate::chunked::ChunkedDecoder;
use crate::{BodyError, Framing};

/// The result of one decoding step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyStep {
    /// Number of input bytes that the step used. Pass the bytes after them to the next step.
    pub consumed: usize,
    /// Range of the payload in the input, possibly empty.
    pub data: Range<usize>,
    /// Whether the body has ended. The bytes that were not consumed then belong to the next message.
    pub done: bool,
}

/// Decodes one body. Call [`step`](Self::step) until all input is consumed or the body is done. Each step on non-empty
/// input consumes at least one byte or reports the end.
#[derive(Debug)]
pub struct BodyDecoder {
    state: State,
}

#[derive(Debug)]
enum State {
    /// Number of bytes that are left.
    Length(u64),
    Chunked(ChunkedDecoder),
    UntilClose,
}

impl BodyDecoder {
    /// Creates a decoder for a body with this framing.
    #[inline]
    pub fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::None => State::Length(0),
            Framing::Length(body_bytes) => State::Length(body_bytes),
            Framing::Chunked => State::Chunked(ChunkedDecoder::new()),
            Framing::UntilClose => State::UntilClose,
        };
        BodyDecoder { state }
    }

    /// Decodes the next input. After an error, it is unknown where the next message begins, so the connection
    /// cannot be reused.
    #[inline]
    pub fn step(&mut self, input: &[u8]) -> Result<BodyStep, BodyError> {
        match &mut self.state {
            State::Length(remaining) => {
                let taken = usize::try_from(*remaining).map_or(input.len(), |most| most.min(input.len()));
                *remaining -= taken as u64;
                Ok(BodyStep { consumed: taken, data: 0..taken, done: *remaining == 0 })
            }
            State::Chunked(chunked) => chunked.step(input),
            State::UntilClose => Ok(BodyStep { consumed: input.len(), data: 0..input.len(), done: false }),
        }
    }

    /// Whether the next `bytes` bytes are all payload and do not complete the body.
    #[inline]
    pub fn outlasts(&self, bytes: usize) -> bool {
        match &self.state {
            State::Length(remaining) => *remaining > bytes as u64,
            State::Chunked(_) => false,
            State::UntilClose => true,
        }
    }

    /// Whether the end of the body was found. A body that lasts until the connection closes never reaches it.
    #[inline]
    pub fn is_done(&self) -> bool {
        match &self.state {
            State::Length(remaining) => *remaining == 0,
            State::Chunked(chunked) => chunked.is_done(),
            State::UntilClose => false,
        }
    }

    /// Call this when the connection has closed. Returns an error if the body is incomplete.
    pub fn finish(&self) -> Result<(), BodyError> {
        match &self.state {
            State::UntilClose => Ok(()),
            _ if self.is_done() => Ok(()),
            _ => Err(BodyError::Truncated),
        }
    }

    /// The trailer fields after the last chunk: complete, validated lines with their line ends. Empty before the
    /// body is done.
    pub fn trailers(&self) -> &[u8] {
        match &self.state {
            State::Chunked(chunked) if chunked.is_done() => chunked.trailers(),
            _ => b"",
        }
    }
}
