//! Path parameters (RFC 3986, 3.3): what follows `;` in a segment.
//!
//! Servlet containers cut them off before they resolve dot segments and look up what is asked for: `/x/..;/admin` and
//! `/admin;x` are `/admin` to them. To most other servers `;` is a character like others. `%3B` counts as `;`, because
//! a proxy in between may decode it.

use super::PathProblem;

/// Whether some segment has parameters. `path` has capital digits in its escapes.
pub(super) fn has_parameters(path: &str) -> bool {
    path.contains(';') || path.contains("%3B")
}

/// Refuses parameters that hide a segment from those who do not cut them off: behind `.` or `..`, and at the start of a
/// segment that is not the last one.
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

/// The path with each segment up to its first parameter.
pub(super) fn without_parameters(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for segment in path.split('/').skip(1) {
        out.push('/');
        out.push_str(name_of(segment));
    }
    out
}

/// How many bytes of `path` the first `matched` bytes of the same without parameters are, with the parameters behind
/// them.
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
    // A match ends with a segment.
    at
}

/// A segment up to its first parameter.
fn name_of(segment: &str) -> &str {
    let plain = segment.find(';').unwrap_or(segment.len());
    let escaped = segment.find("%3B").unwrap_or(segment.len());
    &segment[..plain.min(escaped)]
}

/// Where the next separator of segments stands and how many bytes it has, also one that only some readers take for one.
fn slash(path: &str) -> Option<(usize, usize)> {
    let bytes = path.as_bytes();
    (0..bytes.len()).find_map(|at| match &bytes[at..] {
        [b'/' | b'\\', ..] => Some((at, 1)),
        [b'%', b'2', b'F', ..] | [b'%', b'5', b'C', ..] => Some((at, 3)),
        _ => None,
    })
}
