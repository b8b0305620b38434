//! A strict decoder for the chunked transfer coding (RFC 9112, 7.1).
//!
//! ```text
//!                 /-> extension -\
//! SizeStart -> Size ----------> SizeLf -+-> Data -> DataCr -> DataLf -> SizeStart
//!                                       \-> Trailers -> Done             (size 0)
//! ```

use crate::fields::{is_hop_by_hop, is_token_byte};
use crate::strict::{Step, Walker};
use crate::{BodyError, BodyStep};

/// Maximum digits of a chunk size, including leading zeros.
const SIZE_DIGITS_MAX: u8 = 16;
/// Maximum bytes of one chunk's extensions.
const EXTENSION_BYTES_MAX: usize = 256;
/// Maximum bytes of all chunk extensions in a body. Without this limit, a body could consist mostly of extensions.
const EXTENSIONS_BYTES_MAX: usize = 16 * 1024;
/// Maximum bytes of all trailers, including line ends.
const TRAILERS_BYTES_MAX: usize = 8 * 1024;
/// Maximum number of trailers.
const TRAILER_FIELDS_MAX: usize = 32;

#[derive(Debug)]
pub(crate) struct ChunkedDecoder {
    state: State,
    /// While a size line is read: the size so far. While data is read: the number of bytes that are left in the chunk.
    remaining: u64,
    extension_bytes: usize,
    extensions_bytes: usize,
    trailers: Trailers,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The next byte is the first digit of a chunk size.
    SizeStart,
    /// Inside a chunk size. The value is the number of digits so far.
    Size(u8),
    Extension(Extension),
    /// After the CR of the size line.
    SizeLf,
    Data,
    /// After a chunk's data, where CR must follow.
    DataCr,
    DataLf,
    Trailers,
    Done,
}

/// The position in chunk extensions, which have the form
/// `*( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] )`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extension {
    /// After white space, where only a semicolon may follow.
    BeforeSemicolon,
    NameStart,
    Name,
    AfterName,
    ValueStart,
    Value,
    Quoted,
    /// After a backslash in a quoted string.
    Escaped,
    AfterQuoted,
}

impl ChunkedDecoder {
    #[inline]
    pub(crate) fn new() -> Self {
        ChunkedDecoder {
            state: State::SizeStart,
            remaining: 0,
            extension_bytes: 0,
            extensions_bytes: 0,
            trailers: Trailers {
                walker: Walker::trailers(TRAILER_FIELDS_MAX),
                bytes: Vec::new(),
                line_start: 0,
            },
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// The trailer lines, without the final empty line.
    pub(crate) fn trailers(&self) -> &[u8] {
        &self.trailers.bytes
    }

    /// Decodes the framing before the next chunk data. Returns the part of this data that `input` contains.
    pub(crate) fn step(&mut self, input: &[u8]) -> Result<BodyStep, BodyError> {
        let mut at = 0;
        while at < input.len() && self.state != State::Done {
            if self.state == State::Data {
                let rest = input.len() - at;
                let taken = usize::try_from(self.remaining).map_or(rest, |most| most.min(rest));
                self.remaining -= taken as u64;
                if self.remaining == 0 {
                    self.state = State::DataCr;
                }
                return Ok(BodyStep { consumed: at + taken, data: at..at + taken, done: false });
            }
            self.framing_byte(input[at])?;
            at += 1;
        }
        Ok(BodyStep { consumed: at, data: at..at, done: self.state == State::Done })
    }

    #[inline]
    fn framing_byte(&mut self, byte: u8) -> Result<(), BodyError> {
        match (self.state, byte) {
            (State::SizeStart | State::Size(_), _) => self.size_byte(byte)?,
            (State::Extension(extension), _) => self.extension_byte(extension, byte)?,
            (State::SizeLf, b'\n') if self.remaining == 0 => self.state = State::Trailers,
            (State::SizeLf, b'\n') => self.state = State::Data,
            (State::SizeLf, _) => return Err(BodyError::BareCr),
            (State::DataCr, b'\r') => self.state = State::DataLf,
            (State::DataLf, b'\n') => {
                self.state = State::SizeStart;
                self.extension_bytes = 0;
            }
            (State::DataCr, b'\n') => return Err(BodyError::BareLf),
            (State::DataLf, _) => return Err(BodyError::BareCr),
            (State::DataCr, _) => return Err(BodyError::ChunkEnd),
            (State::Trailers, _) => {
                if self.trailers.push(byte)? {
                    self.state = State::Done;
                }
            }
            (State::Data | State::Done, _) => {}
        }
        Ok(())
    }

    #[inline]
    fn size_byte(&mut self, byte: u8) -> Result<(), BodyError> {
        let digits = if let State::Size(digits) = self.state { digits } else { 0 };
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            b'\n' => return Err(BodyError::BareLf),
            _ if digits == 0 => return Err(BodyError::ChunkSize),
            b'\r' => {
                self.state = State::SizeLf;
                return Ok(());
            }
            b';' => return self.enter(Extension::NameStart),
            b' ' | b'\t' => return self.enter(Extension::BeforeSemicolon),
            _ => return Err(BodyError::ChunkSize),
        };
        if digits == SIZE_DIGITS_MAX || self.remaining > i64::MAX as u64 >> 4 {
            return Err(BodyError::ChunkSizeOverflow);
        }
        self.remaining = self.remaining << 4 | u64::from(digit);
        self.state = State::Size(digits + 1);
        Ok(())
    }

    /// Counts one byte of chunk extensions toward the limits, and moves to the state `extension`.
    fn enter(&mut self, extension: Extension) -> Result<(), BodyError> {
        self.extension_bytes += 1;
        self.extensions_bytes += 1;
        if self.extension_bytes > EXTENSION_BYTES_MAX || self.extensions_bytes > EXTENSIONS_BYTES_MAX {
            return Err(BodyError::ChunkExtensionTooLong);
        }
        self.state = State::Extension(extension);
        Ok(())
    }

    fn extension_byte(&mut self, extension: Extension, byte: u8) -> Result<(), BodyError> {
        use Extension::*;
        let is_token = is_token_byte(byte);
        let next = match (extension, byte) {
            (_, b'\n') => return Err(BodyError::BareLf),
            (Name | AfterName | Value | AfterQuoted, b';') | (BeforeSemicolon, b';') => NameStart,
            (Name | Value | AfterQuoted, b'\r') => {
                self.state = State::SizeLf;
                return Ok(());
            }
            (Quoted, b'"') => AfterQuoted,
            (Quoted, b'\\') => Escaped,
            (Quoted | Escaped, b'\t' | b' '..=b'~' | 0x80..) => Quoted,
            (BeforeSemicolon | NameStart | AfterName | ValueStart, b' ' | b'\t') => extension,
            (Value | AfterQuoted, b' ' | b'\t') => BeforeSemicolon,
            (Name, b' ' | b'\t') => AfterName,
            (Name | AfterName, b'=') => ValueStart,
            (NameStart | Name, _) if is_token => Name,
            (ValueStart, b'"') => Quoted,
            (ValueStart | Value, _) if is_token => Value,
            _ => return Err(BodyError::ChunkExtension),
        };
        self.enter(next)
    }
}

/// The validated trailers, as received.
#[derive(Debug)]
struct Trailers {
    walker: Walker,
    bytes: Vec<u8>,
    line_start: usize,
}

impl Trailers {
    /// Processes the next byte. Returns true if it ends the final empty line.
    fn push(&mut self, byte: u8) -> Result<bool, BodyError> {
        let step = self.walker.push(byte).map_err(BodyError::Trailer)?;
        match step {
            Step::Done => {
                // The CR of the final empty line was stored like the beginning of a field, so it is removed.
                self.bytes.truncate(self.line_start);
                return Ok(true);
            }
            Step::NameEnd if is_forbidden_trailer(&self.bytes[self.line_start..]) => {
                return Err(BodyError::TrailerForbidden);
            }
            Step::NameEnd | Step::More => {}
        }
        if self.bytes.len() == TRAILERS_BYTES_MAX {
            return Err(BodyError::TrailersTooLarge);
        }
        self.bytes.push(byte);
        if byte == b'\n' {
            self.line_start = self.bytes.len();
        }
        Ok(false)
    }
}

/// Whether this header field is forbidden as a trailer. Recipients need such fields before the body, for framing,
/// routing, authorization or the connection (RFC 9110, 6.5.1).
fn is_forbidden_trailer(name: &[u8]) -> bool {
    let Ok(name) = std::str::from_utf8(name) else { return true };
    const FORBIDDEN: [&str; 10] = [
        "authorization",
        "content-encoding",
        "content-length",
        "content-range",
        "content-type",
        "expect",
        "host",
        "proxy-authorization",
        "set-cookie",
        "trailer",
    ];
    is_hop_by_hop(name) || FORBIDDEN.iter().any(|forbidden| name.eq_ignore_ascii_case(forbidden))
}
