//! Path parameters (RFC 3986, 3.3): the part of a segment after `;`.
//!
//! Servlet containers remove path parameters before they resolve dot segments and look up a path: they read
//! `/x/..;/admin` and `/admin;x` as `/admin`. Most other servers treat `;` like any other character. `%3B` counts as
//! `;`, because a proxy in between can decode it.

use super::PathProblem;

/// Whether a segment of `path` has parameters. Escapes in `path` must have upper-case digits.
pub(super) fn has_parameters(path: &str) -> bool {
    path.contains(';') || path.contains("%3B")
}

/// Rejects parameters after `.` or `..`, and at the start of a segment that is not the last one. Servers that remove
/// parameters read such a segment as a dot segment or as empty; others do not.
pub(super) fn check_parameters(path: &str) -> Result<(), PathProblem> {
    let mut rest = path;
    loop {
        let end = slash(rest).map_or(rest.len(), |(at, _)| at);
        let (piece, is_last) = (&rest[..end], end == rest.len());
        let name = name_of(piece);
        let is_hidden = matches!(name, "." | "..") || name.is_empty() && !is_last;
        if is_hidden && name.len() < piece.len() {
            return Err(PathProblem::HiddenByParameter);
        }
        let Some((at, width)) = slash(rest) else { return Ok(()) };
        rest = &rest[at + width..];
    }
}

/// The path without parameters.
pub(super) fn without_parameters(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for segment in path.split('/').skip(1) {
        out.push('/');
        out.push_str(name_of(segment));
    }
    out
}

/// Converts the length of a match in the path without parameters to its length in `path`, both in bytes. The result
/// includes parameters inside the match and directly after it.
pub(super) fn in_text(path: &str, matched: usize) -> usize {
    let (mut bare, mut at) = (0, 0);
    for segment in path.split('/').skip(1) {
        let bytes = 1 + name_of(segment).len();
        if bare + bytes > matched {
            break;
        }
        bare += bytes;
        at += 1 + segment.len();
    }
    // A match always ends at the end of a segment.
    at
}

/// A segment without its parameters.
fn name_of(segment: &str) -> &str {
    let plain = segment.find(';').unwrap_or(segment.len());
    let escaped = segment.find("%3B").unwrap_or(segment.len());
    &segment[..plain.min(escaped)]
}

/// Position and length of the next segment separator, including separators that only some servers recognize.
fn slash(path: &str) -> Option<(usize, usize)> {
    let bytes = path.as_bytes();
    (0..bytes.len()).find_map(|at| match &bytes[at..] {
        [b'/' | b'\\', ..] => Some((at, 1)),
        [b'%', b'2', b'F', ..] | [b'%', b'5', b'C', ..] => Some((at, 3)),
        _ => None,
    })
}
