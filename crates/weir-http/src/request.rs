//! Request heads: the side of a server.

use httparse::Status;

use crate::fields::{EndToEnd, Field, FieldSlots, find_field};
use crate::framing::Facts;
use crate::strict::{Walker, ends_are_crlf, first_fault};
use crate::target::{Target, parse_authority};
use crate::{FIELDS_MAX, Framing, HeadError, HeadLimits, Version};

/// How many empty lines before a request are skipped; one more is an error.
pub const LEADING_EMPTY_LINES_MAX: usize = 2;

/// A request's head, borrowed from the buffer it was read into.
#[derive(Debug, Clone, Copy)]
pub struct RequestHead<'a> {
    /// The method, a token; case matters.
    pub method: &'a str,
    /// The target as it was sent.
    pub target: &'a str,
    /// The version.
    pub version: Version,
    /// All fields in their order.
    pub fields: &'a [Field<'a>],
    /// Bytes of the buffer that the head takes, with skipped empty lines before it.
    pub head_len: usize,
    /// How the body ends; never [`Framing::UntilClose`].
    pub framing: Framing,
    /// Whether the client wants to go on with the connection.
    pub keep_alive: bool,
    /// Whether the client offers another protocol (Connection: upgrade, and Upgrade).
    pub upgrade: bool,
    /// Whether the client waits for `100 Continue` before it sends the body.
    pub expect_continue: bool,
    /// The authority asked for, with its port where one was sent; empty for HTTP/1.0 without one.
    pub host: &'a str,
    /// What is asked for there: starts with `/`, or is `*` (OPTIONS), or is empty (CONNECT).
    pub path_and_query: &'a str,
    connection_names_fields: bool,
}

impl<'a> RequestHead<'a> {
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

/// Reads a request's head at the start of `buf`; `None` wants more bytes, and comes only while `buf` is
/// shorter than the limit.
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

/// Checks a well-formed head and draws the conclusions.
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

/// The authority asked for: the target's, which Host must repeat, else Host's.
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

/// The bytes of empty lines before the request; `None` if the buffer ends in or after them.
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

/// More bytes are wanted, if the limit lets them come.
fn more<T>(window: &[u8], limits: &HeadLimits, skipped: usize) -> Result<Option<T>, HeadError> {
    if window.len() < limits.head_bytes {
        return Ok(None);
    }
    let has_line = memchr::memchr(b'\n', &window[skipped..]).is_some();
    Err(if has_line { HeadError::TooLarge } else { HeadError::TargetTooLong })
}

/// The parser refuses what no byte so far explains: a version that may still become a well-formed one, which
/// is named once it is whole.
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
