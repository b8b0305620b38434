//! Responses, rendered in advance.

use std::rc::Rc;
use std::time::SystemTime;

use http::{HeaderMap, HeaderValue, header};
use weir_http::{Framing, Version, append_field, append_framing, append_status_line, reason_phrase};

const SERVER: &str = "weir-origin";

/// The body of a response with status 500.
pub(crate) const ERROR_BODY: &[u8] = b"error injected by weir origin\n";

/// How many bytes of a body are kept in memory. Longer bodies repeat these bytes.
const KEPT_BYTES: usize = 64 * 1024;

/// Bodies repeat this pattern. [`KEPT_BYTES`] is a multiple of its length, so the pattern continues where a long body
/// repeats the kept bytes.
const PATTERN: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-\n";

/// How a response declares whether its connection stays open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// No Connection field: HTTP/1.1 clients keep the connection open by default.
    Kept,
    /// `Connection: keep-alive`, for an HTTP/1.0 client that asked for it.
    KeptAsAsked,
    /// The connection closes after this response.
    Closed,
}

impl Persistence {
    pub(crate) fn of(version: Version, keep_alive: bool) -> Self {
        match (keep_alive, version) {
            (false, _) => Self::Closed,
            (true, Version::Http11) => Self::Kept,
            (true, Version::Http10) => Self::KeptAsAsked,
        }
    }
}

/// A response that is ready to write.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    bytes: Rc<[u8]>,
    head_bytes: usize,
    body_bytes: u64,
}

impl Answer {
    fn render(
        status: u16,
        persistence: Persistence,
        media_type: &str,
        date: &str,
        body: &[u8],
        body_bytes: u64,
    ) -> Self {
        let framing = Framing::Length(body_bytes);
        let mut bytes = head(status, persistence, Some(media_type.as_bytes()), date, framing);
        let head_bytes = bytes.len();
        bytes.extend_from_slice(body);
        Self { status, bytes: bytes.into(), head_bytes, body_bytes }
    }

    /// A response with this text. It is rendered at each call, not in advance.
    pub(crate) fn of_text(status: u16, persistence: Persistence, media_type: &str, text: &str) -> Self {
        let date = httpdate::fmt_http_date(SystemTime::now());
        Self::render(status, persistence, media_type, &date, text.as_bytes(), text.len() as u64)
    }

    /// The response to a malformed request. The connection closes after it.
    pub(crate) fn refusal(status: u16, cause: &str) -> Self {
        let text = format!("{}: {cause}\n", reason_phrase(status));
        Self::of_text(status, Persistence::Closed, "text/plain", &text)
    }

    /// Returns the bytes for the first write: the headers, and the part of the body that is kept in memory. With
    /// `head_only`, returns only the headers.
    #[inline]
    pub(crate) fn first(&self, head_only: bool) -> &[u8] {
        if head_only { &self.bytes[..self.head_bytes] } else { &self.bytes }
    }

    /// The length of the body in bytes; 0 with `head_only`.
    pub(crate) fn body_bytes(&self, head_only: bool) -> u64 {
        if head_only { 0 } else { self.body_bytes }
    }

    /// How many bytes of the body are left after [`first`](Self::first).
    #[inline]
    pub(crate) fn rest_bytes(&self, head_only: bool) -> u64 {
        if head_only { 0 } else { self.body_bytes - (self.bytes.len() - self.head_bytes) as u64 }
    }

    /// Returns the next piece of the body. `rest_bytes` is the number of body bytes that are still to be sent.
    pub(crate) fn piece(&self, rest_bytes: u64) -> &[u8] {
        let kept = &self.bytes[self.head_bytes..];
        // The pattern continues after the body bytes that were already sent.
        let sent = place(self.body_bytes - rest_bytes);
        let most = (kept.len() - sent) as u64;
        &kept[sent..sent + rest_bytes.min(most) as usize]
    }
}

/// Renders the status line and headers of a response.
pub(crate) fn head(
    status: u16,
    persistence: Persistence,
    media_type: Option<&[u8]>,
    date: &str,
    framing: Framing,
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(256);
    append_status_line(&mut bytes, status);
    append_field(&mut bytes, "Server", SERVER.as_bytes());
    append_field(&mut bytes, "Date", date.as_bytes());
    if let Some(media_type) = media_type {
        append_field(&mut bytes, "Content-Type", media_type);
    }
    append_framing(&mut bytes, framing);
    match persistence {
        Persistence::Kept => {}
        Persistence::KeptAsAsked => append_field(&mut bytes, "Connection", b"keep-alive"),
        Persistence::Closed => append_field(&mut bytes, "Connection", b"close"),
    }
    bytes.extend_from_slice(b"\r\n");
    bytes
}

/// The header fields of an HTTP/2 response. `body_bytes` is `None` if the length is unknown.
pub(crate) fn fields(media_type: Option<HeaderValue>, date: &str, body_bytes: Option<u64>) -> HeaderMap {
    let mut fields = HeaderMap::with_capacity(4);
    fields.insert(header::SERVER, HeaderValue::from_static(SERVER));
    fields.insert(header::DATE, HeaderValue::from_str(date).expect("a date is plain text"));
    if let Some(media_type) = media_type {
        fields.insert(header::CONTENT_TYPE, media_type);
    }
    if let Some(body_bytes) = body_bytes {
        fields.insert(header::CONTENT_LENGTH, body_bytes.into());
    }
    fields
}

/// The body of successful responses. If the body is long, only the part that is kept in memory.
pub(crate) fn kept_body(body_bytes: u64) -> Vec<u8> {
    let kept = usize::try_from(body_bytes).unwrap_or(KEPT_BYTES).min(KEPT_BYTES);
    PATTERN.iter().copied().cycle().take(kept).collect()
}

/// Returns where a body continues after `sent_bytes`, as an offset in [`kept_body`]. The offset is small, so that one
/// write can send as much as possible.
pub(crate) fn place(sent_bytes: u64) -> usize {
    (sent_bytes % PATTERN.len() as u64) as usize
}

/// All responses to counted requests (to paths outside of `/__weir/`), rendered with the date of the current second.
#[derive(Debug)]
pub(crate) struct Answers {
    good: [Answer; 3],
    error: [Answer; 3],
    /// The HTTP/2 header fields of a successful response and of a response with status 500.
    fields: [HeaderMap; 2],
    pub(crate) date: String,
}

impl Answers {
    pub(crate) fn render(body_bytes: u64, now: SystemTime) -> Self {
        let date = httpdate::fmt_http_date(now);
        let (body, error) = (kept_body(body_bytes), ERROR_BODY);
        let persistences = [Persistence::Kept, Persistence::KeptAsAsked, Persistence::Closed];
        Self {
            good: persistences.map(|kind| Answer::render(200, kind, "text/plain", &date, &body, body_bytes)),
            error: persistences
                .map(|kind| Answer::render(500, kind, "text/plain", &date, error, error.len() as u64)),
            fields: [body_bytes, error.len() as u64]
                .map(|bytes| fields(Some(HeaderValue::from_static("text/plain")), &date, Some(bytes))),
            date,
        }
    }

    pub(crate) fn fields(&self, is_error: bool) -> &HeaderMap {
        &self.fields[usize::from(is_error)]
    }

    #[inline]
    pub(crate) fn pick(&self, is_error: bool, persistence: Persistence) -> &Answer {
        let answers = if is_error { &self.error } else { &self.good };
        match persistence {
            Persistence::Kept => &answers[0],
            Persistence::KeptAsAsked => &answers[1],
            Persistence::Closed => &answers[2],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(answer: &Answer) -> Vec<u8> {
        let mut bytes = answer.first(false).to_vec();
        let mut rest = answer.rest_bytes(false);
        while rest > 0 {
            let piece = answer.piece(rest);
            bytes.extend_from_slice(piece);
            rest -= piece.len() as u64;
        }
        bytes
    }

    #[test]
    fn a_small_response_is_one_piece() {
        let answers = Answers::render(64, SystemTime::UNIX_EPOCH);
        let answer = answers.pick(false, Persistence::Kept);
        let text = std::str::from_utf8(answer.first(false)).unwrap();
        assert_eq!(
            text,
            format!(
                "HTTP/1.1 200 OK\r\nServer: weir-origin\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n\
                 Content-Type: text/plain\r\nContent-Length: 64\r\n\r\n{}",
                std::str::from_utf8(PATTERN).unwrap()
            )
        );
        assert_eq!(answer.rest_bytes(false), 0);
        assert!(answer.first(true).ends_with(b"\r\n\r\n"));
    }

    #[test]
    fn long_bodies_continue_their_pattern() {
        for body_bytes in [0, 1, 63, 65_536, 65_537, 200_001, 1_000_000] {
            let answers = Answers::render(body_bytes, SystemTime::UNIX_EPOCH);
            let answer = answers.pick(false, Persistence::Closed);
            let body = &whole(answer)[answer.head_bytes..];
            assert_eq!(body.len() as u64, body_bytes);
            assert!(body.iter().zip(PATTERN.iter().cycle()).all(|(is, wanted)| is == wanted), "{body_bytes}");
        }
    }

    #[test]
    fn connection_field_is_sent_only_if_needed() {
        let answers = Answers::render(0, SystemTime::UNIX_EPOCH);
        let head = |kind| String::from_utf8(answers.pick(true, kind).first(true).to_vec()).unwrap();
        assert!(!head(Persistence::Kept).contains("Connection"));
        assert!(head(Persistence::KeptAsAsked).contains("\r\nConnection: keep-alive\r\n"));
        assert!(head(Persistence::Closed).contains("\r\nConnection: close\r\n"));
        assert!(head(Persistence::Kept).starts_with("HTTP/1.1 500 "));
    }
}
