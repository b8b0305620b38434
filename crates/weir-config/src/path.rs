//! Paths: their normal form, which routes and upstreams see alike, and how a rewrite changes them.
//!
//! A path that the gateway and the upstream understand differently walks around the routes. So each is brought to one
//! form first (RFC 3986, 6.2.2), which is matched and sent on: unreserved characters are plain, other escapes have
//! capital digits, dot segments are resolved. What has no form that every upstream understands alike is refused.
//! `%2F` and `%5C` stay as they are: whether they separate segments is for each upstream to say, so a dot segment
//! beside one of them (or beside a plain backslash) is refused.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is done to paths beyond their normal form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PathRules {
    /// Several slashes in a row become one.
    pub merge_slashes: bool,
    /// What becomes of requests with `%2F` or `%5C`.
    pub escaped_slashes: EscapedSlashes,
}

/// What becomes of requests with `%2F` or `%5C` in their path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EscapedSlashes {
    /// They are matched and passed on as they are.
    #[default]
    Keep,
    /// They are answered 400.
    Reject,
    /// They are sent to the path with plain slashes, by a 307.
    Redirect,
}

/// Why a path is not routed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathProblem {
    /// It does not begin with a slash.
    #[error("path does not start with a slash")]
    NotAbsolute,
    /// A percent sign without two hexadecimal digits behind it.
    #[error("path contains a percent sign without two hexadecimal digits")]
    BadEscape,
    /// `%00`
    #[error("path contains an encoded NUL (%00)")]
    Nul,
    /// A `.` or `..` that only some readers take for a segment.
    #[error("path contains a dot segment next to an encoded slash or a backslash")]
    HiddenDotSegment,
    /// `%2F` or `%5C`, which [`EscapedSlashes::Reject`] refuses.
    #[error("path contains an escaped slash or backslash")]
    EscapedSlash,
}

/// What a target that has no route of its own is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unroutable {
    /// The request is refused.
    Refused(PathProblem),
    /// The client is sent to this target, by [`EscapedSlashes::Redirect`].
    Redirect(String),
}

impl From<PathProblem> for Unroutable {
    fn from(problem: PathProblem) -> Unroutable {
        Unroutable::Refused(problem)
    }
}

/// A request's target whose path is in normal form. The query is as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NormalTarget<'t> {
    text: Cow<'t, str>,
    path_bytes: usize,
}

impl<'t> NormalTarget<'t> {
    /// Brings the path of `target` (in origin form, or `*`) to its normal form. One that has it already, as nearly all
    /// have, is looked through once and borrowed.
    ///
    /// # Errors
    /// When the path can't be routed by these rules.
    #[inline]
    pub fn of(target: &'t str, rules: &PathRules) -> Result<NormalTarget<'t>, Unroutable> {
        let (path_bytes, is_plain) = survey(target.as_bytes());
        match is_plain {
            true => Ok(NormalTarget { text: Cow::Borrowed(target), path_bytes }),
            false => NormalTarget::of_unusual(target, path_bytes, rules),
        }
    }

    /// Path and query.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The path alone.
    pub fn path(&self) -> &str {
        &self.text[..self.path_bytes]
    }

    /// The query without its question mark; `None` where there is none.
    pub fn query(&self) -> Option<&str> {
        self.text.get(self.path_bytes + 1..)
    }

    #[cold]
    fn of_unusual(
        target: &'t str,
        path_bytes: usize,
        rules: &PathRules,
    ) -> Result<NormalTarget<'t>, Unroutable> {
        let (path, query) = target.split_at(path_bytes);
        // OPTIONS asks for the server as a whole.
        if target == "*" {
            return Ok(NormalTarget { text: Cow::Borrowed(target), path_bytes });
        }
        if !path.starts_with('/') {
            return Err(PathProblem::NotAbsolute.into());
        }
        let plain = with_plain_characters(path)?;
        let is_escaped = plain.contains("%2F") || plain.contains("%5C");
        match rules.escaped_slashes {
            EscapedSlashes::Reject if is_escaped => return Err(PathProblem::EscapedSlash.into()),
            EscapedSlashes::Redirect if is_escaped => {
                let open = plain.replace("%2F", "/").replace("%5C", "/");
                let path = settled(Cow::Owned(open), rules)?;
                return Err(Unroutable::Redirect(location(&path, query)));
            }
            _ => {}
        }
        Ok(match settled(plain, rules)? {
            Cow::Borrowed(_) => NormalTarget { text: Cow::Borrowed(target), path_bytes },
            Cow::Owned(path) => NormalTarget { path_bytes: path.len(), text: Cow::Owned(path + query) },
        })
    }
}

/// Where the path of a target ends, and whether there is nothing in it that could stand in the way of its normal form.
#[inline]
fn survey(target: &[u8]) -> (usize, bool) {
    let mut is_plain = target.first() == Some(&b'/');
    let mut before = 0;
    for (at, &byte) in target.iter().enumerate() {
        if byte == b'?' {
            return (at, is_plain);
        }
        let is_behind_slash = before == b'/' && matches!(byte, b'.' | b'/');
        is_plain &= !(is_behind_slash || matches!(byte, b'%' | b'\\'));
        before = byte;
    }
    (target.len(), is_plain)
}

/// The path with its unreserved characters (RFC 3986, 2.3) plain, and capital digits in what stays escaped.
fn with_plain_characters(path: &str) -> Result<Cow<'_, str>, PathProblem> {
    let mut out = String::new();
    let (mut at, mut copied) = (0, 0);
    while let Some(found) = path[at..].find('%') {
        let start = at + found;
        let byte = unescaped(&path.as_bytes()[start..]).ok_or(PathProblem::BadEscape)?;
        at = start + 3;
        let is_unreserved = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let has_small_digits = path[start..at].bytes().any(|b| b.is_ascii_lowercase());
        if byte == 0 {
            return Err(PathProblem::Nul);
        }
        if is_unreserved || has_small_digits {
            out.push_str(&path[copied..start]);
            match is_unreserved {
                true => out.push(char::from(byte)),
                false => out.push_str(&path[start..at].to_ascii_uppercase()),
            }
            copied = at;
        }
    }
    if copied == 0 {
        return Ok(Cow::Borrowed(path));
    }
    out.push_str(&path[copied..]);
    Ok(Cow::Owned(out))
}

/// The byte that stands escaped at the start of `bytes`.
pub(crate) fn unescaped(bytes: &[u8]) -> Option<u8> {
    let digit = |b: u8| char::from(b).to_digit(16).map(|d| d as u8);
    match bytes {
        [b'%', high, low, ..] => Some(digit(*high)? * 16 + digit(*low)?),
        _ => None,
    }
}

/// The path without dot segments (RFC 3986, 5.2.4), and without empty ones where slashes are merged. Borrowed stays
/// what has none.
fn settled<'p>(path: Cow<'p, str>, rules: &PathRules) -> Result<Cow<'p, str>, PathProblem> {
    if hides_dot_segment(path.as_bytes()) {
        return Err(PathProblem::HiddenDotSegment);
    }
    let is_dots = |segment: &str| matches!(segment, "." | "..");
    let has_empty = rules.merge_slashes && path.contains("//");
    if !has_empty && !path.split('/').any(is_dots) {
        return Ok(path);
    }
    let mut out = String::with_capacity(path.len());
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "" if rules.merge_slashes && !is_last => {}
            "." | ".." => {
                if segment == ".." {
                    out.truncate(out.rfind('/').unwrap_or(0));
                }
                // What a dot segment at the end leaves is a folder.
                if is_last {
                    out.push('/');
                }
            }
            _ => {
                out.push('/');
                out.push_str(segment);
            }
        }
    }
    Ok(Cow::Owned(out))
}

/// Whether `.` or `..` stands beside what is a slash for some readers only: `%2F`, `%5C`, a backslash.
fn hides_dot_segment(path: &[u8]) -> bool {
    let (mut at, mut start) = (0, 0);
    let mut is_behind_hidden = false;
    loop {
        let (width, is_hidden) = match &path[at..] {
            [] => (0, false),
            [b'/', ..] => (1, false),
            [b'\\', ..] => (1, true),
            [b'%', b'2', b'F', ..] | [b'%', b'5', b'C', ..] => (3, true),
            _ => {
                at += 1;
                continue;
            }
        };
        if matches!(&path[start..at], b"." | b"..") && (is_hidden || is_behind_hidden) {
            return true;
        }
        if width == 0 {
            return false;
        }
        at += width;
        start = at;
        is_behind_hidden = is_hidden;
    }
}

/// The value of `Location` that leads to this path and query. Two slashes at its start would name another host, and a
/// backslash is a slash for browsers; a dot segment in front keeps them here.
fn location(path: &str, query: &str) -> String {
    let names_a_host = matches!(path.as_bytes(), [b'/', b'/' | b'\\', ..]);
    let front = if names_a_host { "/." } else { "" };
    format!("{front}{path}{query}")
}

/// Appends to `out` what becomes of `path_and_query` when `rewrite` replaces its first `matched` bytes.
pub fn rewritten(out: &mut Vec<u8>, rewrite: &str, path_and_query: &str, matched: usize) {
    let rest = path_and_query.get(matched..).unwrap_or_default();
    let head = if rest.starts_with('/') { rewrite.strip_suffix('/').unwrap_or(rewrite) } else { rewrite };
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(rest.as_bytes());
}

#[cfg(test)]
mod tests;
