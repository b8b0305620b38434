//! Reads the responses of one HTTP/1.1 connection, one at a time, from bytes as they arrive. It does no I/O and
//! reads no clock.
//!
//! ```text
//!          head incomplete                 more body
//!            +------+                      +------+
//!            v      |                      v      |
//!   begin -> Head --+-- final head ----> Body ----+--> done
//!            ^      |                      |
//!            +------+ interim head (1xx)   +-- closed by the peer, framed until close --> done
//! ```

use std::fmt;

use weir_http::{
    BodyDecoder, BodyError, FieldSlots, Framing, HeadError, HeadLimits, ResponseTo, parse_response,
};

use crate::recording::books::Cause;
use crate::request::{CheckFailed, CheckState, Checks, default_is_unexpected};

/// Maximum number of bytes of a malformed response that an error message shows.
const BEGINNING_BYTES_MAX: usize = 40;

/// Reads the responses of one connection.
#[derive(Debug)]
pub(crate) struct Exchange {
    response_to: ResponseTo,
    limits: HeadLimits,
    /// Bytes of a response head that is not complete yet.
    partial: Vec<u8>,
    /// The response body that is being read; `None` while response headers are being read.
    body: Option<Body>,
    /// State of the checks of the current response.
    check: CheckState,
    body_bytes: u64,
}

/// A complete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Whether the connection can carry another request.
    pub(crate) reusable: bool,
}

/// Whether a response is as expected, by its status and the checks of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judged<'a> {
    Expected,
    /// The status is unexpected, or a check failed. Contains the failed check; `None` if the request has no checks.
    Unexpected(Option<CheckFailed<'a>>),
}

/// The result of [`Exchange::feed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fed {
    /// All bytes were used, and the response is incomplete.
    More,
    /// The response is complete, and ends after this number of the given bytes.
    Whole(Answer, usize),
}

/// The error for bytes that are not a well-formed response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable {
    pub(crate) cause: Cause,
    /// The parse error and the beginning of the bytes, for users.
    pub(crate) said: String,
}

#[derive(Debug)]
struct Body {
    decoder: BodyDecoder,
    answer: Answer,
}

impl Exchange {
    pub(crate) fn new() -> Self {
        Self {
            response_to: ResponseTo::Other,
            limits: HeadLimits::default(),
            partial: Vec::new(),
            body: None,
            check: CheckState::default(),
            body_bytes: 0,
        }
    }

    /// Prepares for the response to a request. `response_to` is the kind of request that was sent.
    #[inline]
    pub(crate) fn begin(&mut self, response_to: ResponseTo) {
        self.response_to = response_to;
        self.partial.clear();
        self.body = None;
        self.check = CheckState::default();
        self.body_bytes = 0;
    }

    /// Decides whether a complete response is as expected, by its status and the checks of its request.
    #[inline]
    pub(crate) fn judge<'a>(&mut self, status: u16, checks: Option<&'a Checks>) -> Judged<'a> {
        match checks {
            None if default_is_unexpected(status) => Judged::Unexpected(None),
            None => Judged::Expected,
            Some(checks) => match self.check.finish(checks, status, self.body_bytes) {
                Ok(()) => Judged::Expected,
                Err(failed) => Judged::Unexpected(Some(failed)),
            },
        }
    }

    /// Parses the next bytes from the connection. There must be at least one byte.
    #[inline]
    pub(crate) fn feed(&mut self, input: &[u8], checks: Option<&Checks>) -> Result<Fed, Unreadable> {
        if self.body.is_some() {
            return self.feed_body(input, 0, checks);
        }
        if self.partial.is_empty() {
            return self.feed_head(input, 0, checks);
        }
        // Bytes that were kept from earlier calls are parsed together with the new bytes. The result counts only
        // new bytes.
        let mut whole = std::mem::take(&mut self.partial);
        let kept = whole.len();
        whole.extend_from_slice(input);
        let fed = self.feed_head(&whole, kept, checks);
        if self.partial.is_empty() {
            // Keeps the allocation for the next response.
            whole.clear();
            self.partial = whole;
        }
        fed
    }

    /// Reports that the peer closed the connection. This completes a response whose body ends with the connection. In
    /// all other cases, the request failed.
    pub(crate) fn close(&mut self) -> Result<Answer, Cause> {
        match &self.body {
            Some(body) if body.decoder.finish().is_ok() => Ok(body.answer),
            _ => Err(Cause::Closed),
        }
    }

    /// Parses response heads at the start of `bytes`: interim ones (1xx) and the final one. The first `kept` bytes
    /// are from earlier calls.
    #[inline]
    fn feed_head(&mut self, bytes: &[u8], kept: usize, checks: Option<&Checks>) -> Result<Fed, Unreadable> {
        let mut at = 0;
        loop {
            let mut slots = FieldSlots::new();
            let rest = &bytes[at..];
            let Some(head) = parse_response(rest, self.response_to, &self.limits, &mut slots)
                .map_err(|error| Unreadable::head(&error, rest))?
            else {
                self.partial.extend_from_slice(rest);
                return Ok(Fed::More);
            };
            at += head.head_len;
            if head.interim {
                if at == bytes.len() {
                    return Ok(Fed::More);
                }
                continue;
            }
            if let Some(checks) = checks.filter(|checks| checks.wants_fields()) {
                head.fields
                    .iter()
                    .for_each(|field| self.check.field(checks, field.name.as_bytes(), field.value));
            }
            let answer = Answer { status: head.status, reusable: head.keep_alive && !head.upgrade };
            // The common case needs no state: the whole body has arrived together with the response headers.
            if let Framing::Length(body_bytes) = head.framing
                && let Some(end) = usize::try_from(body_bytes).ok().and_then(|length| at.checked_add(length))
                && end <= bytes.len()
            {
                if let Some(checks) = checks {
                    self.look_at_body(checks, &bytes[at..end]);
                }
                return Ok(Fed::Whole(answer, end - kept));
            }
            if head.framing == Framing::None {
                return Ok(Fed::Whole(answer, at - kept));
            }
            self.body = Some(Body { decoder: BodyDecoder::new(head.framing), answer });
            return if at == bytes.len() {
                Ok(Fed::More)
            } else {
                self.feed_body(&bytes[at..], at - kept, checks)
            };
        }
    }

    /// Continues with the body. `input` is the rest of the caller's bytes, after `before` bytes that are already used.
    fn feed_body(&mut self, input: &[u8], before: usize, checks: Option<&Checks>) -> Result<Fed, Unreadable> {
        let mut at = 0;
        while at < input.len() {
            let Some(body) = &mut self.body else { return Ok(Fed::More) };
            let step =
                body.decoder.step(&input[at..]).map_err(|error| Unreadable::body(&error, &input[at..]))?;
            let answer = body.answer;
            if let Some(checks) = checks {
                self.look_at_body(checks, &input[at..][step.data]);
            }
            at += step.consumed;
            if step.done {
                self.body = None;
                return Ok(Fed::Whole(answer, before + at));
            }
        }
        Ok(Fed::More)
    }

    fn look_at_body(&mut self, checks: &Checks, bytes: &[u8]) {
        self.body_bytes += bytes.len() as u64;
        if checks.wants_body() {
            self.check.body(checks, bytes);
        }
    }
}

impl Unreadable {
    #[cold]
    fn head(error: &HeadError, bytes: &[u8]) -> Self {
        let cause = match error {
            HeadError::TooLarge | HeadError::TooManyFields => Cause::TooLarge,
            _ => Cause::Parse,
        };
        let said = match Other::of(bytes) {
            Some(Other::Tls) => {
                "HTTP/1.1: the server uses TLS on this port; write https:// in the URL".into()
            }
            Some(Other::Http2) => {
                "HTTP/1.1: the server uses HTTP/2 on this port; add --http2 (in a scenario, \
                `protocol: http2`)"
                    .into()
            }
            None => format!("HTTP/1.1: {error}, in a response that begins with {}", Beginning(bytes)),
        };
        Self { cause, said }
    }

    #[cold]
    fn body(error: &BodyError, bytes: &[u8]) -> Self {
        Self { cause: Cause::Parse, said: format!("HTTP/1.1: {error}: {}", Beginning(bytes)) }
    }

    /// The error for bytes that arrive while no request is waiting for a response.
    #[cold]
    pub(crate) fn unasked(bytes: &[u8]) -> Self {
        let said = format!("HTTP/1.1: unsolicited response bytes: {}", Beginning(bytes));
        Self { cause: Cause::Parse, said }
    }
}

/// Another protocol that the server seems to use instead of HTTP/1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Other {
    Tls,
    Http2,
}

impl Other {
    /// Detects the protocol by the first bytes from the server. TLS begins with an alert or handshake record (RFC
    /// 8446, section 5.1). HTTP/2 begins with a SETTINGS frame, whose length is a multiple of six bytes (RFC 9113,
    /// section 6.5).
    fn of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x15 | 0x16, 3, ..] => Some(Self::Tls),
            [0, high, low, 4, _, 0, 0, 0, 0, ..] if u16::from_be_bytes([*high, *low]) % 6 == 0 => {
                Some(Self::Http2)
            }
            _ => None,
        }
    }
}

/// Displays the first line of the bytes, in quotes and truncated to [`BEGINNING_BYTES_MAX`] bytes.
struct Beginning<'a>(&'a [u8]);

impl fmt::Display for Beginning<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.0.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let shown = &line[..line.len().min(BEGINNING_BYTES_MAX)];
        write!(f, "\"{}\"{}", shown.escape_ascii(), if shown.len() < line.len() { ".." } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: Answer = Answer { status: 200, reusable: true };

    /// Feeds `input` in one piece, and then cut in two at every byte. Each result must be as expected.
    fn check(to: ResponseTo, input: &str, expected: Result<(Answer, usize), Cause>) {
        for cut in 0..=input.len() {
            let mut exchange = Exchange::new();
            exchange.begin(to);
            let mut taken = 0;
            let mut came = Ok(None);
            for piece in [&input[..cut], &input[cut..]] {
                if piece.is_empty() || came != Ok(None) {
                    continue;
                }
                came = match exchange.feed(piece.as_bytes(), None) {
                    Ok(Fed::More) => {
                        taken += piece.len();
                        Ok(None)
                    }
                    Ok(Fed::Whole(answer, used)) => Ok(Some((answer, taken + used))),
                    Err(unreadable) => Err(unreadable.cause),
                };
            }
            let came = came.and_then(|whole| match whole {
                Some(whole) => Ok(whole),
                None => exchange.close().map(|answer| (answer, taken)),
            });
            assert_eq!(came, expected, "{input:?} cut at {cut}");
        }
    }

    #[test]
    fn responses_parse_in_any_segmentation() {
        let plain = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        check(ResponseTo::Other, plain, Ok((OK, plain.len())));
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        check(ResponseTo::Head, head, Ok((OK, head.len())));
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nx: y\r\n\r\n";
        check(ResponseTo::Other, chunked, Ok((OK, chunked.len())));
        let empty = "HTTP/1.1 204 No Content\r\n\r\n";
        check(ResponseTo::Other, empty, Ok((Answer { status: 204, reusable: true }, empty.len())));
        let zero = "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        check(ResponseTo::Other, zero, Ok((Answer { status: 404, reusable: false }, zero.len())));
    }

    #[test]
    fn interim_responses_are_skipped() {
        let text = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n\
                    HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
        check(ResponseTo::Other, text, Ok((OK, text.len())));
    }

    #[test]
    fn a_body_until_close_ends_with_the_connection() {
        let text = "HTTP/1.0 200 OK\r\n\r\nany length";
        check(ResponseTo::Other, text, Ok((Answer { status: 200, reusable: false }, text.len())));
    }

    #[test]
    fn partial_malformed_and_oversized_responses_fail_with_causes() {
        check(ResponseTo::Other, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", Err(Cause::Closed));
        check(ResponseTo::Other, "HTTP/1.1 200 OK\r\nContent-Le", Err(Cause::Closed));
        check(ResponseTo::Other, "SSH-2.0-OpenSSH_9.2\r\n", Err(Cause::Parse));
        check(
            ResponseTo::Other,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            Err(Cause::Parse),
        );
        let mut exchange = Exchange::new();
        exchange.begin(ResponseTo::Other);
        let flood = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(70_000));
        assert_eq!(exchange.feed(flood.as_bytes(), None).unwrap_err().cause, Cause::TooLarge);
    }

    #[test]
    fn malformed_responses_are_reported_with_their_first_bytes() {
        let said = |pieces: &[&[u8]]| {
            let mut exchange = Exchange::new();
            exchange.begin(ResponseTo::Other);
            pieces.iter().find_map(|piece| exchange.feed(piece, None).err()).unwrap().said
        };
        let ssh = "HTTP/1.1: malformed HTTP version, in a response that begins with \"SSH-2.0-OpenSSH\"";
        assert_eq!(said(&[b"SSH-2.0-OpenSSH\r\n\r\n"]), ssh);
        let odd = "HTTP/1.1: malformed status code, in a response that begins with \"HTTP/1.1 099 Odd\"";
        assert_eq!(said(&[b"HTTP/1.1 0", b"99 Odd\r\n\r\n"]), odd, "also in two pieces");
        let long = [b"HTTP/1.1 200 ".as_slice(), &[b'x'; 80], b"\r\nno field\r\n\r\n"].concat();
        let cut = format!("begins with \"HTTP/1.1 200 {}\"..", "x".repeat(BEGINNING_BYTES_MAX - 13));
        assert!(said(&[&long]).ends_with(&cut), "{}", said(&[&long]));
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n";
        assert_eq!(said(&[chunked]), "HTTP/1.1: malformed chunk size: \"zz\"");
    }

    #[test]
    fn other_protocols_are_detected_by_the_first_message() {
        let said = |bytes| Unreadable::head(&HeadError::Nul, bytes).said;
        assert!(said(b"\x15\x03\x03\0\x02\x02\x46").contains("uses TLS"));
        assert!(said(b"\0\0\x12\x04\0\0\0\0\0\0\x03").contains("uses HTTP/2 on this port"));
        assert!(said(b"\0\0\x11\x04\0\0\0\0\0\0\x03").contains("begins with \"\\x00\\x00\\x11"));
        assert!(said(b"").ends_with("begins with \"\""));
    }

    #[test]
    fn connections_are_not_reused_after_an_upgrade() {
        let text = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";
        check(ResponseTo::Other, text, Ok((Answer { status: 101, reusable: false }, text.len())));
    }

    #[test]
    fn checks_see_fields_and_body_in_any_segmentation() {
        let check = |body_contains: &str, text: &str| {
            let spec = crate::spec::ChecksSpec {
                headers: weir_document::Named(vec![("x-kind".into(), "b".into())]),
                length: Some(weir_document::Size(11)),
                body: Some(body_contains.into()),
                ..crate::spec::ChecksSpec::default()
            };
            let checks = Checks::new(&spec);
            let mut seen = std::collections::BTreeSet::new();
            for cut in 1..text.len() {
                let mut exchange = Exchange::new();
                exchange.begin(ResponseTo::Other);
                for piece in [&text[..cut], &text[cut..]] {
                    exchange.feed(piece.as_bytes(), checks.as_ref()).unwrap();
                }
                seen.insert(match exchange.judge(200, checks.as_ref()) {
                    Judged::Expected => String::new(),
                    Judged::Unexpected(failed) => failed.unwrap().to_string(),
                });
            }
            Vec::from_iter(seen)
        };
        let plain = "HTTP/1.1 200 OK\r\nX-Kind: abc\r\nContent-Length: 11\r\n\r\nhello world";
        let chunked = "HTTP/1.1 200 OK\r\nX-Kind: b\r\nTransfer-Encoding: chunked\r\n\r\n\
                       6\r\nhello \r\n5\r\nworld\r\n0\r\n\r\n";
        for text in [plain, chunked] {
            assert_eq!(check("lo wo", text), [""]);
            assert_eq!(check("low", text), ["check: body does not contain `low`"]);
        }
        assert_eq!(check("o", &plain.replace("abc", "cde")), ["check: no header x-kind contains `b`"]);
    }

    #[test]
    fn bytes_after_a_response_are_not_used() {
        let mut exchange = Exchange::new();
        exchange.begin(ResponseTo::Other);
        let fed = exchange.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP", None).unwrap();
        assert_eq!(fed, Fed::Whole(OK, 40));
    }
}
