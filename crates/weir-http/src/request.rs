//! Parses the request line and the headers of a request, for servers.

use httparse::Status;

use crate::fields::{EndToEnd, Field, FieldSlots, find_field};
use crate::framing::Facts;
use crate::strict::{Walker, ends_are_crlf, first_fault};
use crate::target::{Target, parse_authority};
use crate::{FIELDS_MAX, Framing, HeadError, HeadLimits, Version};

/// Maximum number of empty lines that are skipped before a request. With one more, the request is rejected.
pub const LEADING_EMPTY_LINES_MAX: usize = 2;

/// A parsed request line with its headers. It borrows from the buffer that contains them.
#[derive(Debug, Clone, Copy)]
pub struct RequestHead<'a> {
    /// The method, a case-sensitive token.
    pub method: &'a str,
    /// The target as the client sent it.
    pub target: &'a str,
    /// The protocol version.
    pub version: Version,
    /// All header fields, in the order in which they were received.
    pub fields: &'a [Field<'a>],
    /// Number of bytes that the request line and the headers take in the buffer, including skipped empty lines.
    pub head_len: usize,
    /// How the end of the body is found. This is never [`Framing::UntilClose`].
    pub framing: Framing,
    /// Whether the client asks to keep the connection open.
    pub keep_alive: bool,
    /// Whether the client offers an upgrade (`Connection: upgrade` with an Upgrade field).
    pub upgrade: bool,
    /// Whether the client waits for `100 Continue` before it sends the body.
    pub expect_continue: bool,
    /// The requested host, with its port if the client sent one. Empty if an HTTP/1.0 request names none.
    pub host: &'a str,
    /// The path and query. Starts with `/`, or is `*` (OPTIONS), or is empty (CONNECT).
    pub path_and_query: &'a str,
    connection_names_fields: bool,
}

impl<'a> RequestHead<'a> {
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

/// Parses the request line and headers at the start of `buf`.
///
/// Returns `None` if more bytes are needed, which happens only while `buf` is shorter than the limit.
pub fn parse_request<'a, 'b: 'a>(
    buf: &'b [u8],
    limits: &HeadLimits,
    slots: &'a mut FieldSlots<'b>,
) -> Result<Option<RequestHead<'a>>, HeadError> {
    let window = &buf[..buf.len().min(limits.head_bytes)];
    let fields_max = limits.fields.min(FIELDS_MAX);
    let Some(skipped) = skip_empty_lines(window)? else { return more(window, limits, 0) };
    let bytes = &window[skipped..];
    let mut request = httparse::Request::new(&mut []);
    let parsed = request.parse_with_uninit_headers(bytes, &mut slots.0[..fields_max]);
    let Ok(Status::Complete(len)) = parsed else {
        return match parsed {
            Err(error) => match first_fault(Walker::request(fields_max), bytes) {
                Some(fault) => Err(fault),
                None => unexplained(error, window, limits, skipped),
            },
            Ok(_) => more(window, limits, skipped),
        };
    };
    let fields: &'a [Field<'b>] = request.headers;
    if !ends_are_crlf(&bytes[..len], fields) {
        return Err(first_fault(Walker::request(fields_max), bytes).unwrap_or(HeadError::BareLf));
    }
    let version = if request.version == Some(0) { Version::Http10 } else { Version::Http11 };
    let (Some(method), Some(target)) = (request.method, request.path) else { return Err(HeadError::Method) };
    understand(method, target, version, fields, limits)
        .map(|head| Some(RequestHead { head_len: skipped + len, ..head }))
}

/// Validates well-formed headers, and derives the framing, the host and the connection options.
#[inline]
fn understand<'a>(
    method: &'a str,
    target: &'a str,
    version: Version,
    fields: &'a [Field<'a>],
    limits: &HeadLimits,
) -> Result<RequestHead<'a>, HeadError> {
    if target.len() > limits.target_bytes {
        return Err(HeadError::TargetTooLong);
    }
    let form = Target::parse(method, target)?;
    let facts = Facts::of(fields, version, true)?;
    let framing = match facts.content_length {
        _ if facts.chunked => Framing::Chunked,
        Some(body_bytes) => Framing::Length(body_bytes),
        None => Framing::None,
    };
    let has_body = !matches!(framing, Framing::None | Framing::Length(0));
    Ok(RequestHead {
        method,
        target,
        version,
        fields,
        head_len: 0,
        framing,
        keep_alive: facts.persists(version),
        upgrade: facts.asks_for_upgrade(version),
        expect_continue: facts.expect_continue && has_body && version == Version::Http11,
        host: effective_host(&facts, &form, version)?,
        path_and_query: form.path_and_query,
        connection_names_fields: facts.connection_names_fields(),
    })
}

/// Returns the host from the Host field. If an HTTP/1.0 request has no Host, returns the host from the target. If both
/// are present, they must match.
#[inline]
fn effective_host<'a>(facts: &Facts<'a>, form: &Target<'a>, version: Version) -> Result<&'a str, HeadError> {
    let Some(host) = facts.host else {
        return match version {
            Version::Http11 => Err(HeadError::HostMissing),
            Version::Http10 => Ok(form.authority.unwrap_or("")),
        };
    };
    let host = parse_authority(host).ok_or(HeadError::HostInvalid)?;
    match form.authority {
        Some(authority) if !authority.eq_ignore_ascii_case(host) => Err(HeadError::HostMismatch),
        _ => Ok(host),
    }
}

/// Returns the number of bytes of empty lines before the request. Returns `None` if there is nothing else in the
/// buffer yet.
#[inline]
fn skip_empty_lines(buf: &[u8]) -> Result<Option<usize>, HeadError> {
    let mut skipped = 0;
    loop {
        match buf[skipped..] {
            [] | [b'\r'] => return Ok(None),
            [b'\n', ..] => return Err(HeadError::BareLf),
            [b'\r', b'\n', ..] if skipped == 2 * LEADING_EMPTY_LINES_MAX => {
                return Err(HeadError::EmptyLines);
            }
            [b'\r', b'\n', ..] => skipped += 2,
            [b'\r', ..] => return Err(HeadError::BareCr),
            _ => return Ok(Some(skipped)),
        }
    }
}

/// Returns `None` to ask for more bytes, or an error if the limit is already reached.
fn more<T>(window: &[u8], limits: &HeadLimits, skipped: usize) -> Result<Option<T>, HeadError> {
    if window.len() < limits.head_bytes {
        return Ok(None);
    }
    let has_line = memchr::memchr(b'\n', &window[skipped..]).is_some();
    Err(if has_line { HeadError::TooLarge } else { HeadError::TargetTooLong })
}

/// Converts an error of `httparse` if the strict reader (`Walker`) found no faulty byte in the headers. Asks for more
/// bytes after a version error, because the version may still be incomplete.
#[cold]
fn unexplained<T>(
    error: httparse::Error,
    window: &[u8],
    limits: &HeadLimits,
    skipped: usize,
) -> Result<Option<T>, HeadError> {
    match error {
        httparse::Error::Version => more(window, limits, skipped),
        httparse::Error::HeaderName => Err(HeadError::NameByte),
        httparse::Error::HeaderValue => Err(HeadError::ValueByte),
        httparse::Error::TooManyHeaders => Err(HeadError::TooManyFields),
        httparse::Error::Token => Err(HeadError::Target),
        httparse::Error::NewLine | httparse::Error::Status => Err(HeadError::BareCr),
    }
}
