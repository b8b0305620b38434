//! Reads the valid parts of a rejected request, for the log.

use httparse::Status;

use crate::HeadLimits;
use crate::fields::{FIELDS_MAX, Field, FieldSlots, is_token_byte};
use crate::strict::ends_are_crlf;

/// Maximum length of a reported method. A longer method is left out.
const METHOD_BYTES_MAX: usize = 64;
/// Maximum length of a reported target. A longer target is truncated.
const TARGET_BYTES_MAX: usize = 2048;

/// The valid parts of a rejected request. They must not be used for routing.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct RefusedHead<'a> {
    /// The method, if a space follows it; otherwise `None`.
    pub method: Option<&'a str>,
    /// The target as the client sent it, if the request line is complete. Truncated after 2,048 bytes. It may contain
    /// any byte except LF.
    pub target: Option<&'a [u8]>,
    /// The version, such as `HTTP/1.1`, if the request line is complete.
    pub version: Option<&'a str>,
    /// All header fields, if the headers are complete and well-formed.
    pub fields: Option<&'a [Field<'a>]>,
}

/// Reads the start of `buf`, which [`parse_request`](crate::parse_request) has rejected or found incomplete.
#[cold]
pub fn read_refused<'a, 'b: 'a>(
    buf: &'b [u8],
    limits: &HeadLimits,
    slots: &'a mut FieldSlots<'b>,
) -> RefusedHead<'a> {
    let mut bytes = &buf[..buf.len().min(limits.head_bytes)];
    while let [b'\n', rest @ ..] | [b'\r', b'\n', rest @ ..] = bytes {
        bytes = rest;
    }
    let mut head = RefusedHead { fields: all_fields(bytes, limits, slots), ..RefusedHead::default() };
    let start = bytes.iter().take(METHOD_BYTES_MAX + 1);
    let Some(end) = start.copied().position(|byte| byte == b' ') else { return head };
    let (method, rest) = bytes.split_at(end);
    if method.is_empty() || !method.iter().copied().all(is_token_byte) {
        return head;
    }
    head.method = std::str::from_utf8(method).ok();
    let Some(end) = memchr::memchr(b'\n', rest) else { return head };
    let line = &rest[1..end];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let (target, version) = match line.len().checked_sub(9).map(|at| line.split_at(at)) {
        Some((target, [b' ', version @ ..])) if version.starts_with(b"HTTP/") => (target, Some(version)),
        _ => (line, None),
    };
    head.version = version.and_then(|version| std::str::from_utf8(version).ok());
    head.target = Some(&target[..target.len().min(TARGET_BYTES_MAX)]).filter(|target| !target.is_empty());
    head
}

fn all_fields<'a, 'b: 'a>(
    bytes: &'b [u8],
    limits: &HeadLimits,
    slots: &'a mut FieldSlots<'b>,
) -> Option<&'a [Field<'a>]> {
    let mut request = httparse::Request::new(&mut []);
    let slots = &mut slots.0[..limits.fields.min(FIELDS_MAX)];
    let Ok(Status::Complete(len)) = request.parse_with_uninit_headers(bytes, slots) else { return None };
    let fields: &'a [Field<'b>] = request.headers;
    ends_are_crlf(&bytes[..len], fields).then_some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the method, the target, the version and the number of header fields. `expected` has `-` for each missing
    /// part.
    #[track_caller]
    fn check(head: &[u8], expected: &str, fields: Option<usize>) {
        let mut slots = FieldSlots::new();
        let read = read_refused(head, &HeadLimits::default(), &mut slots);
        let target = read.target.map(|target| target.escape_ascii().to_string());
        let text = [read.method, target.as_deref(), read.version].map(|part| part.unwrap_or("-")).join(" ");
        assert_eq!((text.as_str(), read.fields.map(<[_]>::len)), (expected, fields));
    }

    #[test]
    fn valid_parts_of_rejected_requests_are_read() {
        check(b"", "- - -", None);
        check(b"\r\n", "- - -", None);
        check(b"GET", "- - -", None);
        check(b"GET ", "GET - -", None);
        check(b"GET /a HTTP/1.1", "GET - -", None);
        check(b"\r\n\nGET /a HTTP/1.1\r\nHo", "GET /a HTTP/1.1", None);
        check(b"GET /a HTTP/1.1\r\nA: b\r\n\r\n", "GET /a HTTP/1.1", Some(1));
        check(b"GET /a HTTP/1.1\nA: b\n\n", "GET /a HTTP/1.1", None);
        check(b"GET /a HTTP/1.1\r\nA b\r\n\r\n", "GET /a HTTP/1.1", None);
        check(b"GET /a b HTTP/2.0\r\n", "GET /a b HTTP/2.0", None);
        check(b"GET /a\r\n", "GET /a -", None);
        check(b"GET \r\n", "GET - -", None);
        check(b"GET /\x1b\r\xff HTTP/1.1\r\n", "GET /\\x1b\\r\\xff HTTP/1.1", None);
        check(b"\x16\x03\x01 a\r\n", "- - -", None);
        check(format!("{} / HTTP/1.1\r\n", "A".repeat(65)).as_bytes(), "- - -", None);
        let long = format!("GET /{} HTTP/1.1\r\n", "a".repeat(5000));
        check(long.as_bytes(), &format!("GET /{} HTTP/1.1", "a".repeat(2047)), None);
    }
}
