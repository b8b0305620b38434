//! Request paths: their normal form, and rewrites.
//!
//! If gateway and upstream read a path differently, a client can bypass a route. So the gateway normalizes each path
//! (RFC 3986, 6.2.2) before it matches and forwards it: it decodes unreserved characters, writes other escapes with
//! upper-case digits, and resolves dot segments. It rejects ambiguous paths.
//!
//! Servers differ in three more points: repeated slashes, encoded slashes and backslashes, and path parameters. Each
//! has a rule in [`PathRules`], whose default is safe for all servers.
//!
//! The table shows how servers with default settings read paths that reach them unchanged. A dash: the server does not
//! read the path as `/admin`.
//!
//! | path | nginx | Tomcat | Spring Security | gunicorn (WSGI) | Node.js, Express |
//! |---|---|---|---|---|---|
//! | `//admin` | `/admin` | `/admin` | 400 | `//admin`; Flask redirects to `/admin` | –; `new URL`: host `admin` |
//! | `/x/../admin`, `/x/%2e%2e/admin` | `/admin` | `/admin` | 400 | – | –; `new URL`: `/admin` |
//! | `/%61dmin` | `/admin` | `/admin` | `/admin` | `/admin` | – |
//! | `/%2fadmin` | `/admin` | 400 | 400 | `//admin` | – |
//! | `/\admin`, `/%5cadmin` | – | 400 | 400 | – | –; `new URL`: a plain backslash is a slash |
//! | `/admin;x` | – | `/admin` | 400 | – | – |
//! | `/x/..;/admin`, `/;/admin` | – | `/admin` | 400 | – | – |
//! | `/admin%3Bx`, `/%252fadmin` | – | – | 400 | – | – |
//! | `/%c0%afadmin` (overlong UTF-8) | – | – | – | – | – |
//! | `/admin%00` | 400 | 400 | 400 | – | – |
//! | `/admin/` | by `location` | `/admin/` | `/admin` before version 6 | – | `/admin` |
//! | `/ADMIN` | – | – | – | – | `/admin` |
//!
//! Path parameters are legitimate: servlet containers put sessions into them (`/cart;jsessionid=..`), APIs use them as
//! matrix parameters. So the default neither rejects nor drops them: routes match the path without parameters, which is
//! the path that a servlet container looks up, and the upstream gets every parameter. Parameters of a dot segment, or
//! of an empty segment within the path, are rejected: they have no use, and upstreams read them differently. An empty
//! last segment stays allowed: sessions produce it (`/shop/;jsessionid=1`). If an upstream treats `;` as an ordinary
//! character, `/a;x` is a separate path for it. A route for `/a` still matches `/a;x`, whether the route forwards or
//! rejects.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod parameters;
mod written;

use parameters::{check_parameters, has_parameters, in_text, without_parameters};
pub(crate) use written::{check_normal, check_path_of};

/// How the gateway normalizes paths, for all listeners and routes. The gateway always resolves dot segments and
/// decodes percent-encoded unreserved characters. NUL (`%00`) and incomplete escapes get 400 (`bad_path`). White space
/// and other control characters are forwarded percent-encoded. The query never changes. A route whose path cannot match
/// any request under these settings is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PathRules {
    /// Merges several slashes in a row into one before dot segments are resolved, as nginx, Tomcat and others do. If
    /// false, they stay.
    pub merge_slashes: bool,
    /// What happens to requests with `%2F`, `%5C` or a backslash in the path.
    pub escaped_slashes: EscapedSlashes,
    /// What happens to path parameters, the part of a segment after `;` or `%3B`.
    pub path_parameters: PathParameters,
}

impl PathRules {
    /// Rules under which paths stay as the client sent them, as far as possible.
    pub const AS_SENT: PathRules = PathRules {
        merge_slashes: false,
        escaped_slashes: EscapedSlashes::Keep,
        path_parameters: PathParameters::Keep,
    };
}

impl Default for PathRules {
    fn default() -> PathRules {
        PathRules {
            merge_slashes: true,
            escaped_slashes: EscapedSlashes::default(),
            path_parameters: PathParameters::default(),
        }
    }
}

/// What happens to requests with `%2F`, `%5C` or a backslash in the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EscapedSlashes {
    /// Match and forward escaped slashes and backslashes unchanged; they do not separate segments. If a dot segment is
    /// next to one of them, the request gets 400.
    Keep,
    /// Reject the request with 400 (`bad_path`).
    #[default]
    Reject,
    /// Redirect the client (307, `escaped_slashes`) to the path with plain slashes.
    Redirect,
}

/// What happens to path parameters, the part of a segment after `;` or `%3B`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PathParameters {
    /// Treat `;` like any other character: routes match it, and upstreams get it.
    Keep,
    /// Routes match the path without parameters, upstreams get the path with them. Requests with parameters at a dot
    /// segment (`/x/..;/a`) or at an empty segment within the path (`/;/a`) get 400 (`bad_path`). A `rewrite` replaces
    /// the matched prefix together with the parameters in it.
    #[default]
    Ignore,
    /// As `ignore`, but upstreams get the path without parameters.
    Strip,
    /// The request gets 400 (`bad_path`).
    Reject,
}

/// Why a path cannot be routed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathProblem {
    /// The path does not start with a slash.
    #[error("path does not start with a slash")]
    NotAbsolute,
    /// The path contains a percent sign without two hexadecimal digits.
    #[error("path contains a percent sign without two hexadecimal digits")]
    BadEscape,
    /// The path contains `%00`.
    #[error("path contains an encoded NUL (%00)")]
    Nul,
    /// A `.` or `..` is next to an encoded slash or a backslash, so only some servers read it as a dot segment.
    #[error("path contains a dot segment next to an encoded slash or a backslash")]
    HiddenDotSegment,
    /// The path contains `%2F`, `%5C` or a backslash, and [`EscapedSlashes::Reject`] applies.
    #[error("path contains an encoded slash or a backslash; send `/`")]
    EscapedSlash,
    /// The path contains `;` or `%3B`, and [`PathParameters::Reject`] applies.
    #[error("path contains a path parameter (`;`)")]
    Parameter,
    /// Some servers remove path parameters, and would read a segment as a dot segment or as empty.
    #[error("path contains a path parameter (`;`) in a dot segment or an empty segment")]
    HiddenByParameter,
}

/// What the client gets for a target that is not routed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unroutable {
    /// The request is rejected with 400.
    Refused(PathProblem),
    /// The client is redirected to this target, because of [`EscapedSlashes::Redirect`].
    Redirect(String),
}

impl From<PathProblem> for Unroutable {
    fn from(problem: PathProblem) -> Unroutable {
        Unroutable::Refused(problem)
    }
}

/// A request target with its path in normal form. The query is unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NormalTarget<'t> {
    text: Cow<'t, str>,
    path_bytes: usize,
    /// The path without parameters. Routes match it; if it is `None`, they match the path that the upstream gets.
    bare: Option<String>,
}

impl<'t> NormalTarget<'t> {
    /// Normalizes the path of `target`, which is in origin form or `*`. Most paths are in normal form already; they are
    /// scanned once and borrowed.
    ///
    /// # Errors
    /// If the path cannot be routed by these rules.
    #[inline]
    pub fn of(target: &'t str, rules: &PathRules) -> Result<NormalTarget<'t>, Unroutable> {
        let (path_bytes, is_plain) = survey(target.as_bytes());
        match is_plain {
            true => Ok(NormalTarget::borrowed(target, path_bytes)),
            false => NormalTarget::of_unusual(target, path_bytes, rules),
        }
    }

    #[inline]
    fn borrowed(target: &'t str, path_bytes: usize) -> NormalTarget<'t> {
        NormalTarget { text: Cow::Borrowed(target), path_bytes, bare: None }
    }

    /// The normal path with the query, for the upstream.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The path that routes match.
    pub fn path(&self) -> &str {
        self.bare.as_deref().unwrap_or_else(|| self.sent_path())
    }

    /// The path for the upstream, with the parameters that routes ignore.
    pub fn sent_path(&self) -> &str {
        &self.text[..self.path_bytes]
    }

    /// Converts a number of leading bytes of [`path`](Self::path) to the number of bytes that they have in
    /// [`as_str`](Self::as_str). The result includes parameters inside these bytes and directly after them.
    #[inline]
    pub fn sent_bytes(&self, matched: usize) -> usize {
        match self.bare {
            None => matched,
            Some(_) => in_text(self.sent_path(), matched),
        }
    }

    /// The query without its question mark, if any.
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
        // `OPTIONS *` addresses the server as a whole, not a path.
        if target == "*" {
            return Ok(NormalTarget::borrowed(target, path_bytes));
        }
        if !path.starts_with('/') {
            return Err(PathProblem::NotAbsolute.into());
        }
        let plain = with_plain_characters(path)?;
        let is_escaped = plain.contains("%2F") || plain.contains("%5C") || plain.contains('\\');
        match rules.escaped_slashes {
            EscapedSlashes::Reject if is_escaped => return Err(PathProblem::EscapedSlash.into()),
            EscapedSlashes::Redirect if is_escaped => {
                let open = plain.replace("%2F", "/").replace("%5C", "/").replace('\\', "/");
                let path = settled(Cow::Owned(open), rules)?;
                return Err(Unroutable::Redirect(location(&path, query)));
            }
            _ => {}
        }
        let path = settled(plain, rules)?;
        let bare = bare_path(&path, rules.path_parameters)?;
        let (path, bare) = match bare {
            Some(bare) if rules.path_parameters == PathParameters::Strip => (Cow::Owned(bare), None),
            bare => (path, bare),
        };
        Ok(match path {
            Cow::Borrowed(_) => NormalTarget { bare, ..NormalTarget::borrowed(target, path_bytes) },
            Cow::Owned(path) => NormalTarget { path_bytes: path.len(), text: Cow::Owned(path + query), bare },
        })
    }
}

/// The path without parameters. `None` if the rule is [`PathParameters::Keep`] or the path has no parameters.
fn bare_path(path: &str, rule: PathParameters) -> Result<Option<String>, PathProblem> {
    if rule == PathParameters::Keep || !has_parameters(path) {
        return Ok(None);
    }
    if rule == PathParameters::Reject {
        return Err(PathProblem::Parameter);
    }
    check_parameters(path)?;
    Ok(Some(without_parameters(path)))
}

/// Returns the length of the path in bytes, and whether it is certainly in normal form.
#[inline]
fn survey(target: &[u8]) -> (usize, bool) {
    let mut is_plain = target.first() == Some(&b'/');
    let mut before = 0;
    for (at, &byte) in target.iter().enumerate() {
        if byte == b'?' {
            return (at, is_plain);
        }
        let is_behind_slash = before == b'/' && matches!(byte, b'.' | b'/');
        is_plain &= !(is_behind_slash || matches!(byte, b'%' | b'\\' | b';'));
        before = byte;
    }
    (target.len(), is_plain)
}

/// Decodes unreserved characters (RFC 3986, 2.3), and writes other escapes with upper-case digits. Borrowed if nothing
/// changes.
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

/// Decodes the escape at the start of `bytes`, such as `%2F`; `None` if there is none.
pub(crate) fn unescaped(bytes: &[u8]) -> Option<u8> {
    let digit = |b: u8| char::from(b).to_digit(16).map(|d| d as u8);
    match bytes {
        [b'%', high, low, ..] => Some(digit(*high)? * 16 + digit(*low)?),
        _ => None,
    }
}

/// Resolves dot segments (RFC 3986, 5.2.4), and removes empty segments if slashes are merged. Borrowed if nothing
/// changes.
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
                // A dot segment at the end leaves a trailing slash.
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

/// Whether `.` or `..` is next to a separator that only some servers recognize: `%2F`, `%5C` or a backslash.
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

/// The `Location` header for this path and query. If the path starts with two slashes, a client would read the text
/// after them as a host, and browsers read a backslash as a slash. A leading dot segment (`/.`) prevents that.
fn location(path: &str, query: &str) -> String {
    let names_a_host = matches!(path.as_bytes(), [b'/', b'/' | b'\\', ..]);
    let front = if names_a_host { "/." } else { "" };
    format!("{front}{path}{query}")
}

/// Appends `path_and_query` to `out`, with `rewrite` in place of the path's first `matched` bytes.
pub fn rewritten(out: &mut Vec<u8>, rewrite: &str, path_and_query: &str, matched: usize) {
    let rest = path_and_query.get(matched..).unwrap_or_default();
    let head = if rest.starts_with('/') { rewrite.strip_suffix('/').unwrap_or(rewrite) } else { rewrite };
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(rest.as_bytes());
}

#[cfg(test)]
mod tests;
