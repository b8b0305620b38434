//! Bodies on their way: taken out of one framing and put into another.

use weir_http::{BodyDecoder, BodyError, CHUNK_END, Framing, append_chunk_header, append_last_chunk};

use crate::buffer::Buffer;
use crate::trailers::PassedTrailers;

/// One body in progress. Chunk extensions end here; trailers that are allowed pass where the next framing is chunked too.
#[derive(Debug)]
pub(crate) struct BodyPump {
    decoder: BodyDecoder,
    to_chunks: bool,
    /// Payload bytes that may still come.
    allowed: u64,
    done: bool,
    /// Which trailers pass; none without it.
    passed_trailers: Option<Box<PassedTrailers>>,
}

/// Why a body can't go on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BodyFault {
    /// It is larger than allowed.
    TooLarge,
    /// Its framing is broken.
    Malformed(BodyError),
}

impl BodyPump {
    /// For a body framed so, to be passed on in chunks or as it is.
    #[inline]
    pub(crate) fn new(framing: Framing, to_chunks: bool, allowed: u64) -> BodyPump {
        let decoder = BodyDecoder::new(framing);
        let done = decoder.is_done();
        BodyPump { decoder, to_chunks, allowed, done, passed_trailers: None }
    }

    /// The same body, of whose trailers these pass.
    #[inline]
    pub(crate) fn with_trailers(self, passed_trailers: Option<Box<PassedTrailers>>) -> BodyPump {
        BodyPump { passed_trailers, ..self }
    }

    /// Whether its end was passed on.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// Appends to `out` what `inbound` has of the body.
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

    /// Consumes what `inbound` has if it goes on as it is and is not the end, so that it can be sent from where it lies;
    /// else it is for [`BodyPump::pass`]. Whether it was consumed.
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

    /// The sender has closed: an error unless that is the body's end.
    pub(crate) fn close(&mut self, out: &mut Vec<u8>) -> Result<(), BodyError> {
        self.decoder.finish()?;
        self.end(out);
        Ok(())
    }

    /// The trailers that pass of a body that is done, each with its line's end.
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
    fn bodies_change_their_framing() {
        check(Framing::Length(3), false, "abc", "abc");
        check(Framing::Chunked, true, "1;x=y\r\na\r\n0\r\nX-T: 1\r\n\r\n", "1\r\na\r\n0\r\n\r\n");
        check(Framing::Chunked, false, "2\r\nab\r\n0\r\n\r\n", "ab");
        check(Framing::UntilClose, true, "ab", "1\r\na\r\n1\r\nb\r\n0\r\n\r\n");
        check(Framing::UntilClose, false, "ab", "ab");
    }

    /// Reads these bytes and passes them in place, as many as may be.
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
    fn what_goes_on_as_it_is_stays_where_it_lies_but_for_the_end() {
        let (mut buffer, mut out) = (Buffer::default(), Vec::new());
        let mut pump = BodyPump::new(Framing::Length(6), false, 6);
        assert_eq!(pass_in_place(&mut pump, &mut buffer, b"abc").unwrap(), 3);
        assert!(buffer.is_empty() && !pump.is_done());
        assert_eq!(buffer.consumed(3), b"abc");
        assert_eq!(buffer.consumed(1), b"c");
        // The end, with what comes behind it, is for the other way.
        assert_eq!(pass_in_place(&mut pump, &mut buffer, b"defGET").unwrap(), 0);
        pump.pass(&mut buffer, &mut out).unwrap();
        assert!(pump.is_done());
        assert_eq!((out.as_slice(), buffer.data()), (&b"def"[..], &b"GET"[..]));
    }

    #[test]
    fn only_framing_that_stays_is_passed_in_place() {
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
    fn what_is_too_large_is_refused() {
        let mut buffer = Buffer::default();
        let mut pump = BodyPump::new(Framing::Chunked, true, 3);
        assert_eq!(pass_in_place(&mut pump, &mut buffer, b"4\r\nabcd\r\n").unwrap(), 0);
        assert!(matches!(pump.pass(&mut buffer, &mut Vec::new()), Err(BodyFault::TooLarge)));
        let mut pump = BodyPump::new(Framing::UntilClose, false, 3);
        let refused = pass_in_place(&mut pump, &mut Buffer::default(), b"abcd");
        assert!(matches!(refused, Err(BodyFault::TooLarge)));
    }
}
