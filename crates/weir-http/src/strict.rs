//! The strict reader: checks headers byte by byte and reports the first fault.
//!
//! `httparse` parses the headers. It is fast, but it reports few causes and accepts bare LF. The fast path therefore
//! also checks the line ends ([`ends_are_crlf`]). This walker reads only rejected headers and trailers. Each error
//! belongs to one byte, so the cause does not depend on how the input is split.
//!
//! ```text
//! Method -> Target -> Version ----\                      /-> Name -> ValueStart -> Value
//! StatusVersion -> Status -> Reason -> LineLf -> FieldStart <- LineLf <- CR <------/
//!                                                     \-> EndLf -> done
//! ```

use crate::HeadError;
use crate::fields::{Field, is_token_byte};

/// The part of the headers that the walker reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In the method, after this many of its bytes.
    Method(usize),
    /// In the request target, after this many of its bytes.
    Target(usize),
    /// Inside the version, of which `seen` bytes were read. In a response, a space follows the version; in a request,
    /// CR follows it.
    Version {
        seen: usize,
        major: u8,
        minor: u8,
        response: bool,
    },
    /// Inside the status code. The value is the number of digits so far.
    Status(usize),
    Reason,
    /// After a CR that ends a line.
    LineLf,
    FieldStart,
    Name,
    Value,
    /// After the CR of the final empty line.
    EndLf,
}

/// The result of processing one byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    More,
    /// This byte is the colon after a field name.
    NameEnd,
    /// This byte ends the headers.
    Done,
}

#[derive(Debug, Clone)]
pub(crate) struct Walker {
    state: State,
    names: usize,
    fields_max: usize,
}

impl Walker {
    pub(crate) fn request(fields_max: usize) -> Self {
        Walker { state: State::Method(0), names: 0, fields_max }
    }

    pub(crate) fn response(fields_max: usize) -> Self {
        let state = State::Version { seen: 0, major: 0, minor: 0, response: true };
        Walker { state, names: 0, fields_max }
    }

    pub(crate) fn trailers(fields_max: usize) -> Self {
        Walker { state: State::FieldStart, names: 0, fields_max }
    }

    /// Processes the next byte.
    pub(crate) fn push(&mut self, byte: u8) -> Result<Step, HeadError> {
        match (self.state, byte) {
            (State::LineLf, b'\n') => self.state = State::FieldStart,
            (State::EndLf, b'\n') => return Ok(Step::Done),
            (State::LineLf | State::EndLf, _) => return Err(HeadError::BareCr),
            (_, b'\n') => return Err(HeadError::BareLf),
            (_, 0) => return Err(HeadError::Nul),
            (State::Method(seen), _) => self.method(seen, byte)?,
            (State::Target(seen), _) => self.target(seen, byte)?,
            (State::Version { .. }, _) => self.version(byte)?,
            (State::Status(seen), _) => self.status(seen, byte)?,
            (State::Reason, b'\r') | (State::Value, b'\r') => self.state = State::LineLf,
            (State::Reason, _) if !is_text_byte(byte) => return Err(HeadError::Reason),
            (State::Value, _) if !is_text_byte(byte) => return Err(HeadError::ValueByte),
            (State::Reason | State::Value, _) => {}
            (State::FieldStart, _) => self.field_start(byte)?,
            (State::Name, b':') => return self.name_end(),
            (State::Name, b' ' | b'\t') => return Err(HeadError::SpaceBeforeColon),
            (State::Name, b'\r') => return Err(HeadError::NameByte),
            (State::Name, _) if !is_token_byte(byte) => return Err(HeadError::NameByte),
            (State::Name, _) => {}
        }
        Ok(Step::More)
    }

    fn method(&mut self, seen: usize, byte: u8) -> Result<(), HeadError> {
        self.state = match byte {
            b' ' if seen > 0 => State::Target(0),
            _ if is_token_byte(byte) => State::Method(seen + 1),
            _ => return Err(HeadError::Method),
        };
        Ok(())
    }

    fn target(&mut self, seen: usize, byte: u8) -> Result<(), HeadError> {
        self.state = match byte {
            b' ' if seen > 0 => State::Version { seen: 0, major: 0, minor: 0, response: false },
            b' ' | b'\r' => return Err(HeadError::Target),
            b'#' => return Err(HeadError::TargetFragment),
            b'!'..=b'~' => State::Target(seen + 1),
            _ => return Err(HeadError::TargetByte),
        };
        Ok(())
    }

    fn version(&mut self, byte: u8) -> Result<(), HeadError> {
        let State::Version { seen, mut major, mut minor, response } = self.state else { return Ok(()) };
        match (seen, byte) {
            (0..5, _) if byte == b"HTTP/"[seen] => {}
            (5, b'0'..=b'9') => major = byte,
            (6, b'.') => {}
            (7, b'0'..=b'9') => minor = byte,
            (8, b' ') if response => {
                self.state = State::Status(0);
                return Ok(());
            }
            (8, b'\r') if !response => {
                self.state = State::LineLf;
                return Ok(());
            }
            _ => return Err(HeadError::Version),
        }
        if seen == 7 && !(major == b'1' && matches!(minor, b'0' | b'1')) {
            return Err(HeadError::VersionUnsupported);
        }
        self.state = State::Version { seen: seen + 1, major, minor, response };
        Ok(())
    }

    fn status(&mut self, seen: usize, byte: u8) -> Result<(), HeadError> {
        self.state = match (seen, byte) {
            (0, b'1'..=b'9') | (1..3, b'0'..=b'9') => State::Status(seen + 1),
            (3, b' ') => State::Reason,
            (3, b'\r') => State::LineLf,
            _ => return Err(HeadError::Status),
        };
        Ok(())
    }

    fn field_start(&mut self, byte: u8) -> Result<(), HeadError> {
        self.state = match byte {
            b'\r' => State::EndLf,
            b' ' | b'\t' if self.names == 0 => return Err(HeadError::SpaceBeforeField),
            b' ' | b'\t' => return Err(HeadError::Folding),
            b':' => return Err(HeadError::NameEmpty),
            _ if is_token_byte(byte) => State::Name,
            _ => return Err(HeadError::NameByte),
        };
        Ok(())
    }

    fn name_end(&mut self) -> Result<Step, HeadError> {
        self.names += 1;
        if self.names > self.fields_max {
            return Err(HeadError::TooManyFields);
        }
        self.state = State::Value;
        Ok(Step::NameEnd)
    }
}

/// Returns the first fault in rejected headers. Returns `None` if no byte so far is faulty.
#[cold]
pub(crate) fn first_fault(mut walker: Walker, head: &[u8]) -> Option<HeadError> {
    for &byte in head {
        match walker.push(byte) {
            Ok(Step::Done) => return None,
            Ok(_) => {}
            Err(fault) => return Some(fault),
        }
    }
    None
}

/// Whether every line of parsed headers ends in CR LF. The parser accepts only one other line end: LF without CR. So it
/// is enough to check for the CR before each field name and at the end of the headers.
#[inline]
pub(crate) fn ends_are_crlf(head: &[u8], fields: &[Field<'_>]) -> bool {
    head.ends_with(b"\r\n\r\n")
        && fields.iter().all(|field| {
            let at = (field.name.as_ptr() as usize).wrapping_sub(head.as_ptr() as usize);
            at >= 2 && head.get(at - 2) == Some(&b'\r')
        })
}

/// Whether a field value or a reason phrase may contain this byte.
fn is_text_byte(byte: u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'~' | 0x80..)
}
