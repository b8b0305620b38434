//! Checks of responses, which run while a response arrives.

use std::fmt;

use weir_document::Size;

use super::search::TextSearch;
use crate::spec::{ChecksSpec, StatusPattern};

/// Maximum length of an expected text in the message of a failed check, in characters.
const SHOWN_MAX: usize = 60;

/// The checks of a request's responses, prepared for fast use.
#[derive(Clone, Debug)]
pub(crate) struct Checks {
    status: Vec<StatusPattern>,
    status_failed: String,
    fields: Vec<FieldCheck>,
    body_bytes: Option<(u64, String)>,
    body_contains: Option<(TextSearch, String)>,
}

/// The state of the checks while one response arrives. It stores no bytes of the response.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CheckState {
    /// Bit n is set once the nth required header field was found with an expected value.
    fields_seen: u64,
    /// Progress of the search for the expected text in the body: how many bytes of the text match so far.
    matched: usize,
}

/// The first check that failed. The message contains the expected value and never the received one. So the number
/// of different messages is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CheckFailed<'a>(&'a str);

#[derive(Clone, Debug)]
struct FieldCheck {
    name: String,
    contains: Option<memchr::memmem::Finder<'static>>,
    failed: String,
}

/// Whether a status is unexpected if the request has no status check.
#[inline]
pub(crate) fn default_is_unexpected(status: u16) -> bool {
    status >= 400
}

impl Checks {
    /// Prepares valid checks. Returns `None` if there is nothing to check.
    pub(crate) fn new(spec: &ChecksSpec) -> Option<Self> {
        if *spec == ChecksSpec::default() {
            return None;
        }
        let status_failed = match spec.status.as_slice() {
            [] => "status is 400 or more".into(),
            [.., _] => format!("status is not {}", shown(&joined(&spec.status))),
        };
        let fields = spec.headers.iter().map(|(name, text)| FieldCheck {
            name: name.to_owned(),
            contains: (!text.is_empty()).then(|| memchr::memmem::Finder::new(text).into_owned()),
            failed: match text.as_str() {
                "" => format!("missing header {}", shown(name)),
                _ => format!("no header {} contains `{}`", shown(name), shown(text)),
            },
        });
        let body_contains = spec.body.as_deref().filter(|text| !text.is_empty());
        Some(Self {
            status: spec.status.clone(),
            status_failed,
            fields: fields.collect(),
            body_bytes: spec.length.map(|Size(bytes)| (bytes, format!("body length is not {bytes} bytes"))),
            body_contains: body_contains
                .map(|text| (TextSearch::new(text), format!("body does not contain `{}`", shown(text)))),
        })
    }

    /// Whether the response's header fields must be passed to [`CheckState::field`].
    #[inline]
    pub(crate) fn wants_fields(&self) -> bool {
        !self.fields.is_empty()
    }

    /// Whether the bytes of the response body must be passed to [`CheckState::body`]. Otherwise its length is
    /// enough.
    #[inline]
    pub(crate) fn wants_body(&self) -> bool {
        self.body_contains.is_some()
    }
}

impl CheckState {
    /// Compares a header field of the response with the expected ones.
    pub(crate) fn field(&mut self, checks: &Checks, name: &[u8], value: &[u8]) {
        for (bit, check) in checks.fields.iter().enumerate() {
            let is_there = name.eq_ignore_ascii_case(check.name.as_bytes())
                && check.contains.as_ref().is_none_or(|text| text.find(value).is_some());
            self.fields_seen |= u64::from(is_there) << bit;
        }
    }

    /// Searches for the expected text in the next bytes of the response body. `bytes` must not include chunk framing.
    pub(crate) fn body(&mut self, checks: &Checks, bytes: &[u8]) {
        if let Some((search, _)) = &checks.body_contains {
            self.matched = search.feed(self.matched, bytes);
        }
    }

    /// Returns whether a complete response passed the checks, and resets the state for the next response.
    ///
    /// # Errors
    /// The first check that failed.
    pub(crate) fn finish<'a>(
        &mut self,
        checks: &'a Checks,
        status: u16,
        body_bytes: u64,
    ) -> Result<(), CheckFailed<'a>> {
        let Self { fields_seen, matched } = std::mem::take(self);
        let is_right = match checks.status.as_slice() {
            [] => !default_is_unexpected(status),
            patterns => patterns.iter().any(|pattern| pattern.fits(status)),
        };
        if !is_right {
            return Err(CheckFailed(&checks.status_failed));
        }
        // One bit per field seen: the number of trailing ones is the index of the first missing field.
        if let Some(check) = checks.fields.get(fields_seen.trailing_ones() as usize) {
            return Err(CheckFailed(&check.failed));
        }
        match (&checks.body_bytes, &checks.body_contains) {
            (Some((expected, failed)), _) if *expected != body_bytes => Err(CheckFailed(failed)),
            (_, Some((search, failed))) if !search.is_found(matched) => Err(CheckFailed(failed)),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for CheckFailed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "check: {}", self.0)
    }
}

fn joined(status: &[StatusPattern]) -> String {
    status.iter().map(StatusPattern::to_string).collect::<Vec<_>>().join(" or ")
}

/// Shortens a text and escapes control characters, so that it fits on one line of a message.
fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use weir_document::Named;

    use super::*;

    fn spec(status: &[&str], headers: &[(&str, &str)], bytes: Option<u64>, text: Option<&str>) -> ChecksSpec {
        ChecksSpec {
            status: status.iter().map(|text| text.parse().unwrap()).collect(),
            headers: Named(headers.iter().map(|&(name, text)| (name.into(), text.into())).collect()),
            length: bytes.map(Size),
            body: text.map(str::to_owned),
        }
    }

    /// Checks a response with two header fields and this body twice: first with the body in one piece, then byte by
    /// byte.
    #[track_caller]
    fn check(spec: &ChecksSpec, status: u16, body: &str, expected: Result<(), &str>) {
        let checks = Checks::new(spec).unwrap();
        let mut state = CheckState::default();
        for piece_bytes in [body.len().max(1), 1] {
            if checks.wants_fields() {
                state.field(&checks, b"content-type", b"text/html; charset=utf-8");
                state.field(&checks, b"X-Two", b"2");
            }
            if checks.wants_body() {
                body.as_bytes().chunks(piece_bytes).for_each(|piece| state.body(&checks, piece));
            }
            let judged =
                state.finish(&checks, status, body.len() as u64).map_err(|failed| failed.to_string());
            assert_eq!(judged, expected.map_err(str::to_owned));
        }
    }

    #[test]
    fn statuses() {
        check(&spec(&["200"], &[], None, None), 200, "", Ok(()));
        check(&spec(&["200"], &[], None, None), 201, "", Err("check: status is not 200"));
        check(&spec(&["2xx", "404"], &[], None, None), 204, "", Ok(()));
        check(&spec(&["2xx", "404"], &[], None, None), 404, "", Ok(()));
        check(&spec(&["2xx", "404"], &[], None, None), 302, "", Err("check: status is not 2xx or 404"));
        check(&spec(&["5xx"], &[], None, None), 999, "", Ok(()));
        check(&spec(&["599"], &[], None, None), 999, "", Err("check: status is not 599"));
        let of_body = spec(&[], &[], Some(0), None);
        check(&of_body, 399, "", Ok(()));
        check(&of_body, 400, "", Err("check: status is 400 or more"));
        assert!(!default_is_unexpected(399) && default_is_unexpected(400));
        for text in ["204", "5XX", "599", "999", "1xx"] {
            assert_eq!(text.parse::<StatusPattern>().unwrap().to_string(), text);
        }
        for text in ["2x", "099", "1000", "0xx", "6xx", "20x", "2000", ""] {
            assert!(text.parse::<StatusPattern>().is_err(), "{text}");
        }
    }

    #[test]
    fn fields_and_bodies() {
        check(&spec(&[], &[("Content-Type", "html"), ("x-two", "")], None, None), 200, "", Ok(()));
        let wrong = spec(&[], &[("x-two", "2"), ("Content-Type", "json")], None, None);
        check(&wrong, 200, "", Err("check: no header Content-Type contains `json`"));
        check(&spec(&[], &[("X-Three", "")], None, None), 200, "", Err("check: missing header X-Three"));
        check(&spec(&[], &[], Some(5), None), 200, "hello", Ok(()));
        check(&spec(&[], &[], Some(64), None), 200, "hello", Err("check: body length is not 64 bytes"));
        check(&spec(&[], &[], None, Some("ell")), 200, "hello", Ok(()));
        check(&spec(&[], &[], None, Some("a\nb")), 200, "hello", Err("check: body does not contain `a\\nb`"));
        check(&spec(&["500"], &[], None, Some("oo")), 500, "boom", Ok(()));
    }

    #[test]
    fn the_state_is_reset_after_each_response() {
        let checks = Checks::new(&spec(&[], &[("a", "")], None, Some("xy"))).unwrap();
        let mut state = CheckState::default();
        state.field(&checks, b"a", b"");
        state.body(&checks, b"xy");
        assert_eq!(state.finish(&checks, 200, 2), Ok(()));
        state.body(&checks, b"x");
        assert!(state.finish(&checks, 200, 1).is_err());
        state.field(&checks, b"A", b"");
        state.body(&checks, b"y");
        assert!(state.finish(&checks, 200, 1).is_err());
    }

    #[test]
    fn empty_checks_are_none_and_reports_are_short() {
        assert!(Checks::new(&ChecksSpec::default()).is_none());
        let long = "x".repeat(10_000);
        let checks = Checks::new(&spec(&[], &[], None, Some(&long))).unwrap();
        let text = CheckState::default().finish(&checks, 200, 0).unwrap_err().to_string();
        assert_eq!(text, format!("check: body does not contain `{}...`", "x".repeat(SHOWN_MAX)));
    }
}
