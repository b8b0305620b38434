//! Parses the status line and the headers of a response, for clients.

use httparse::Status;

use crate::fields::{EndToEnd, Field, FieldSlots, find_field};
use crate::framing::Facts;
use crate::strict::{Walker, ends_are_crlf, first_fault};
use crate::{FIELDS_MAX, Framing, HeadError, HeadLimits, Version};

/// The kind of request to which a response belongs. It decides whether the response can have a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseTo {
    /// HEAD, whose responses never have a body.
    Head,
    /// CONNECT, for which a 2xx response turns the connection into a tunnel.
    Connect,
    /// Any other method.
    Other,
}

/// A parsed status line with its headers. It borrows from the buffer that contains them.
#[derive(Debug, Clone, Copy)]
pub struct ResponseHead<'a> {
    /// The status code, 100 to 999. Some servers send codes above 599. Recipients treat them as server errors (RFC
    /// 9110, section 15).
    pub status: u16,
    /// The reason phrase. Empty if none was sent or if it is not ASCII.
    pub reason: &'a str,
    /// The protocol version.
    pub version: Version,
    /// All header fields, in the order in which they were received.
    pub fields: &'a [Field<'a>],
    /// Number of bytes that the status line and the headers take in the buffer.
    pub head_len: usize,
    /// How the end of the body is found.
    pub framing: Framing,
    /// Whether the connection can be reused after the body. Never true with [`Framing::UntilClose`].
    pub keep_alive: bool,
    /// Whether this is an interim response (1xx, except 101). The final response then follows on the same
    /// connection.
    pub interim: bool,
    /// Whether the connection carries another protocol after these headers: the status is 101, or 2xx for CONNECT.
    pub upgrade: bool,
    connection_names_fields: bool,
}

impl<'a> ResponseHead<'a> {
    /// Returns the value of the first header field with this name, ignoring case.
    pub fn field(&self, name: &str) -> Option<&'a [u8]> {
        find_field(self.fields, name)
    }

    /// Returns the header fields that a proxy forwards. Content-Length is one of them; Transfer-Encoding is not.
    #[inline]
    pub fn end_to_end(&self) -> EndToEnd<'a> {
        EndToEnd::new(self.fields, self.connection_names_fields)
    }
}

/// Parses the status line and headers at the start of `buf`.
///
/// Returns `None` if more bytes are needed, which happens only while `buf` is shorter than the limit.
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

/// How the end of a response body is found (RFC 9112, 6.3).
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

/// Returns `None` to ask for more bytes, or an error if the limit is already reached.
fn more<T>(window: &[u8], limits: &HeadLimits) -> Result<Option<T>, HeadError> {
    if window.len() < limits.head_bytes { Ok(None) } else { Err(HeadError::TooLarge) }
}

/// Converts an error of `httparse` for headers in which the strict reader (`Walker`) found no faulty byte. Asks for
/// more bytes after a version error, because `httparse` may report it before the version is complete.
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
