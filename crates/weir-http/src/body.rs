//! Bodies: finds payload and end in bytes as they come, however they are cut.

use std::ops::Range;

use crate::chunked::ChunkedDecoder;
use crate::{BodyError, Framing};

/// What one step found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyStep {
    /// Bytes of the input that are used up; the next step wants what follows them.
    pub consumed: usize,
    /// Where in the input payload lies; may be empty.
    pub data: Range<usize>,
    /// The body has ended; what was not consumed belongs to the next message.
    pub done: bool,
}

/// Decodes one body. Step through the input until all is consumed or the body is done:
/// each step on input that is not empty consumes something or is done.
#[derive(Debug)]
pub struct BodyDecoder {
    state: State,
}

#[derive(Debug)]
enum State {
    /// As many bytes are still to come.
    Length(u64),
    Chunked(ChunkedDecoder),
    UntilClose,
}

impl BodyDecoder {
    /// A decoder for a body framed like this.
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

    /// Reads on in the body. After an error, the connection has lost its framing.
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

    /// Whether so many bytes more are payload alone, with more of the body behind them.
    #[inline]
    pub fn outlasts(&self, bytes: usize) -> bool {
        match &self.state {
            State::Length(remaining) => *remaining > bytes as u64,
            State::Chunked(_) => false,
            State::UntilClose => true,
        }
    }

    /// Whether the body has ended by its own framing.
    #[inline]
    pub fn is_done(&self) -> bool {
        match &self.state {
            State::Length(remaining) => *remaining == 0,
            State::Chunked(chunked) => chunked.is_done(),
            State::UntilClose => false,
        }
    }

    /// The connection has closed: an error unless that is, or comes after, the body's end.
    pub fn finish(&self) -> Result<(), BodyError> {
        match &self.state {
            State::UntilClose => Ok(()),
            _ if self.is_done() => Ok(()),
            _ => Err(BodyError::Truncated),
        }
    }

    /// The trailers after the last chunk, once the body is done: whole validated field lines with their ends.
    pub fn trailers(&self) -> &[u8] {
        match &self.state {
            State::Chunked(chunked) if chunked.is_done() => chunked.trailers(),
            _ => b"",
        }
    }
}
