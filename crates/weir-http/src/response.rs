//! Response heads: the side of a client.

use httparse::Status;

use crate::fields::{EndToEnd, Field, FieldSlots, find_field};
use crate::framing::Facts;
use crate::strict::{Walker, ends_are_crlf, first_fault};
use crate::{FIELDS_MAX, Framing, HeadError, HeadLimits, Version};

/// The kind of request that a response answers, as far as it decides about the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseTo {
    /// HEAD: the response never has a body.
    Head,
    /// CONNECT: a 2xx makes a tunnel of the connection.
    Connect,
    /// Any other method.
    Other,
}

/// A response's head, borrowed from the buffer it was read into.
#[derive(Debug, Clone, Copy)]
pub struct ResponseHead<'a> {
    /// The status code, 100 to 999. Codes beyond 599 are in use, and are server errors to whoever does not know them
    /// (RFC 9110, section 15).
    pub status: u16,
    /// The reason phrase; empty where none was sent, or one that is not ASCII.
    pub reason: &'a str,
    /// The version.
    pub version: Version,
    /// All fields in their order.
    pub fields: &'a [Field<'a>],
    /// Bytes of the buffer that the head takes.
    pub head_len: usize,
    /// How the body ends.
    pub framing: Framing,
    /// Whether the connection can be used again after the body; never with [`Framing::UntilClose`].
    pub keep_alive: bool,
    /// An interim response (1xx but 101): the real one follows on the same connection.
    pub interim: bool,
    /// The connection speaks no HTTP after this head: 101, or a 2xx to CONNECT.
    pub upgrade: bool,
    connection_names_fields: bool,
}

impl<'a> ResponseHead<'a> {
    /// The value of the first field with this name, ignoring case.
    pub fn field(&self, name: &str) -> Option<&'a [u8]> {
        find_field(self.fields, name)
    }

    /// The fields that a proxy passes on. Transfer-Encoding is not among them, Content-Length is.
    #[inline]
    pub fn end_to_end(&self) -> EndToEnd<'a> {
        EndToEnd::new(self.fields, self.connection_names_fields)
    }
}

/// Reads a response's head at the start of `buf`; `None` wants more bytes, and comes only while `buf` is
/// shorter than the limit.
pub fn parse_response<'a, 'b: 'a>(
    buf: &'b [u8],
    request_was: ResponseTo,
    limits: &HeadLimits,
    slots: &'a mut FieldSlots<'b>,
) -> Result<Option<ResponseHead<'a>>, HeadError> {
    let window = &buf[..buf.len().min(limits.head_bytes)];
    let fields_max = limits.fields.min(FIELDS_MAX);
    if let Some(b'\r' | b'\n') = window.first() {
        return Err(HeadError::EmptyLines);
    }
    let mut response = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        window,
        &mut slots.0[..fields_max],
    );
    let Ok(Status::Complete(len)) = parsed else {
        return match parsed {
            Err(error) => match first_fault(Walker::response(fields_max), window) {
                Some(fault) => Err(fault),
                None => unexplained(error, window, limits),
            },
            Ok(_) => more(window, limits),
        };
    };
    let fields: &'a [Field<'b>] = response.headers;
    if !ends_are_crlf(&window[..len], fields) {
        return Err(first_fault(Walker::response(fields_max), window).unwrap_or(HeadError::BareLf));
    }
    let version = if response.version == Some(0) { Version::Http10 } else { Version::Http11 };
    let Some(status @ 100..1000) = response.code else { return Err(HeadError::Status) };
    let facts = Facts::of(fields, version, false)?;
    let framing = framing_of(status, request_was, &facts);
    Ok(Some(ResponseHead {
        status,
        reason: response.reason.unwrap_or(""),
        version,
        fields,
        head_len: len,
        framing,
        keep_alive: framing != Framing::UntilClose && facts.persists(version),
        interim: status < 200 && status != 101,
        upgrade: status == 101 || (request_was == ResponseTo::Connect && status / 100 == 2),
        connection_names_fields: facts.connection_names_fields(),
    }))
}

/// RFC 9112, 6.3, for responses.
#[inline]
fn framing_of(status: u16, request_was: ResponseTo, facts: &Facts<'_>) -> Framing {
    let is_tunnel = request_was == ResponseTo::Connect && status / 100 == 2;
    if status < 200 || status == 204 || status == 304 || request_was == ResponseTo::Head || is_tunnel {
        return Framing::None;
    }
    match facts.content_length {
        _ if facts.chunked => Framing::Chunked,
        Some(body_bytes) => Framing::Length(body_bytes),
        None => Framing::UntilClose,
    }
}

/// More bytes are wanted, if the limit lets them come.
fn more<T>(window: &[u8], limits: &HeadLimits) -> Result<Option<T>, HeadError> {
    if window.len() < limits.head_bytes { Ok(None) } else { Err(HeadError::TooLarge) }
}

/// The parser refuses what no byte so far explains: a version that may still become a well-formed one, which
/// is named once it is whole.
#[cold]
fn unexplained<T>(
    error: httparse::Error,
    window: &[u8],
    limits: &HeadLimits,
) -> Result<Option<T>, HeadError> {
    match error {
        httparse::Error::Version => more(window, limits),
        httparse::Error::HeaderName => Err(HeadError::NameByte),
        httparse::Error::HeaderValue => Err(HeadError::ValueByte),
        httparse::Error::TooManyHeaders => Err(HeadError::TooManyFields),
        httparse::Error::Token | httparse::Error::NewLine | httparse::Error::Status => Err(HeadError::Status),
    }
}
