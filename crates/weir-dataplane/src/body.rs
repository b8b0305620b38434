//! Body relay: decodes one framing and encodes another.

use weir_http::{BodyDecoder, BodyError, CHUNK_END, Framing, append_chunk_header, append_last_chunk};

use crate::buffer::Buffer;
use crate::trailers::PassedTrailers;

/// One body in progress. Chunk extensions are dropped. Allowed trailers pass if the output is chunked.
#[derive(Debug)]
pub(crate) struct BodyPump {
    decoder: BodyDecoder,
    to_chunks: bool,
    /// Remaining payload bytes up to the size limit.
    allowed: u64,
    done: bool,
    /// The trailers that pass; `None` drops all.
    passed_trailers: Option<Box<PassedTrailers>>,
}

/// Why a body is rejected.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BodyFault {
    /// The body exceeds the size limit.
    TooLarge,
    /// The framing is malformed.
    Malformed(BodyError),
}

impl BodyPump {
    /// Relays a body with this framing, as chunks if `to_chunks`. At most `allowed` payload bytes pass.
    #[inline]
    pub(crate) fn new(framing: Framing, to_chunks: bool, allowed: u64) -> BodyPump {
        let decoder = BodyDecoder::new(framing);
        let done = decoder.is_done();
        BodyPump { decoder, to_chunks, allowed, done, passed_trailers: None }
    }

    /// Sets which trailers are forwarded.
    #[inline]
    pub(crate) fn with_trailers(self, passed_trailers: Option<Box<PassedTrailers>>) -> BodyPump {
        BodyPump { passed_trailers, ..self }
    }

    /// Whether the end of the body was reached.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// Consumes the part of the body in `inbound` and appends it to `out`.
    #[inline]
    pub(crate) fn pass(&mut self, inbound: &mut Buffer, out: &mut Vec<u8>) -> Result<(), BodyFault> {
        while !self.done && !inbound.is_empty() {
            let step = self.decoder.step(inbound.data()).map_err(BodyFault::Malformed)?;
            let data = &inbound.data()[step.data];
            self.allowed = self.allowed.checked_sub(data.len() as u64).ok_or(BodyFault::TooLarge)?;
            if self.to_chunks && !data.is_empty() {
                append_chunk_header(out, data.len());
                out.extend_from_slice(data);
                out.extend_from_slice(CHUNK_END);
            } else {
                out.extend_from_slice(data);
            }
            inbound.consume(step.consumed);
            if step.done {
                self.end(out);
            }
        }
        Ok(())
    }

    /// Consumes `inbound` if its bytes pass unchanged and do not include the end of the body. The caller can then send
    /// them without a copy. Otherwise returns false, and the caller uses [`BodyPump::pass`].
    #[inline]
    pub(crate) fn pass_in_place(&mut self, inbound: &mut Buffer) -> Result<bool, BodyFault> {
        let bytes = inbound.data().len();
        if bytes == 0 || self.to_chunks || !self.decoder.outlasts(bytes) {
            return Ok(false);
        }
        self.decoder.step(inbound.data()).map_err(BodyFault::Malformed)?;
        self.allowed = self.allowed.checked_sub(bytes as u64).ok_or(BodyFault::TooLarge)?;
        inbound.consume(bytes);
        Ok(true)
    }

    /// Ends the body because the sender has closed the connection. Fails unless the framing lets the body end there.
    pub(crate) fn close(&mut self, out: &mut Vec<u8>) -> Result<(), BodyError> {
        self.decoder.finish()?;
        self.end(out);
        Ok(())
    }

    /// The allowed trailers of a complete body, each with its line end.
    pub(crate) fn trailers(&self) -> Vec<u8> {
        let passed = self.passed_trailers.as_ref();
        passed.map_or_else(Vec::new, |passed| passed.passing(self.decoder.trailers()))
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if self.to_chunks && !self.done {
            append_last_chunk(out, &self.trailers());
        }
        self.done = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Buffers;

    fn check(framing: Framing, to_chunks: bool, input: &str, expected: &str) {
        let (stock, mut buffer, mut out) = (Buffers::default(), Buffer::default(), Vec::new());
        let mut pump = BodyPump::new(framing, to_chunks, 100);
        for byte in input.bytes() {
            buffer.room(&stock)[0] = byte;
            buffer.filled(1);
            pump.pass(&mut buffer, &mut out).unwrap();
        }
        if framing == Framing::UntilClose {
            pump.close(&mut out).unwrap();
        }
        assert!(pump.is_done());
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn converts_framing() {
        check(Framing::Length(3), false, "abc", "abc");
        check(Framing::Chunked, true, "1;x=y\r\na\r\n0\r\nX-T: 1\r\n\r\n", "1\r\na\r\n0\r\n\r\n");
        check(Framing::Chunked, false, "2\r\nab\r\n0\r\n\r\n", "ab");
        check(Framing::UntilClose, true, "ab", "1\r\na\r\n1\r\nb\r\n0\r\n\r\n");
        check(Framing::UntilClose, false, "ab", "ab");
    }

    /// Puts `bytes` into the buffer, calls `BodyPump::pass_in_place`, and returns the number of bytes that passed.
    fn pass_in_place(pump: &mut BodyPump, buffer: &mut Buffer, bytes: &[u8]) -> Result<usize, BodyFault> {
        buffer.room(&Buffers::default())[..bytes.len()].copy_from_slice(bytes);
        buffer.filled(bytes.len());
        let before = buffer.data().len();
        let in_place = pump.pass_in_place(buffer)?;
        let passed = before - buffer.data().len();
        assert_eq!(in_place, passed > 0);
        Ok(passed)
    }

    #[test]
    fn unchanged_bytes_pass_in_place_except_the_end() {
        let (mut buffer, mut out) = (Buffer::default(), Vec::new());
        let mut pump = BodyPump::new(Framing::Length(6), false, 6);
        assert_eq!(pass_in_place(&mut pump, &mut buffer, b"abc").unwrap(), 3);
        assert!(buffer.is_empty() && !pump.is_done());
        assert_eq!(buffer.consumed(3), b"abc");
        assert_eq!(buffer.consumed(1), b"c");
        // `pass_in_place` leaves the end of the body and the bytes after it to `pass`.
        assert_eq!(pass_in_place(&mut pump, &mut buffer, b"defGET").unwrap(), 0);
        pump.pass(&mut buffer, &mut out).unwrap();
        assert!(pump.is_done());
        assert_eq!((out.as_slice(), buffer.data()), (&b"def"[..], &b"GET"[..]));
    }

    #[test]
    fn only_unchanged_framing_passes_in_place() {
        let passed = |framing, to_chunks| {
            let mut pump = BodyPump::new(framing, to_chunks, 100);
            pass_in_place(&mut pump, &mut Buffer::default(), b"5\r\nab").unwrap()
        };
        assert_eq!(passed(Framing::UntilClose, false), 5);
        assert_eq!(passed(Framing::UntilClose, true), 0);
        assert_eq!(passed(Framing::Chunked, true), 0);
        assert_eq!(passed(Framing::Chunked, false), 0);
        assert_eq!(passed(Framing::Length(5), false), 0);
        assert_eq!(passed(Framing::Length(6), false), 5);
    }

    #[test]
    fn rejects_bodies_that_are_too_large() {
        let mut buffer = Buffer::default();
        let mut pump = BodyPump::new(Framing::Chunked, true, 3);
        assert_eq!(pass_in_place(&mut pump, &mut buffer, b"4\r\nabcd\r\n").unwrap(), 0);
        assert!(matches!(pump.pass(&mut buffer, &mut Vec::new()), Err(BodyFault::TooLarge)));
        let mut pump = BodyPump::new(Framing::UntilClose, false, 3);
        let refused = pass_in_place(&mut pump, &mut Buffer::default(), b"abcd");
        assert!(matches!(refused, Err(BodyFault::TooLarge)));
    }
}
