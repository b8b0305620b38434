//! Paths: which are routed at all, and how a rewrite changes them.
//!
//! Dot segments are **refused**, not resolved: a client that means well has resolved them already, and a path that the
//! gateway and the upstream resolve differently walks around the routes. Refused as well are their disguises: dots
//! and separators as `%2e`, `%2f`, `%5c` or a backslash. Everything else is matched as it came, byte by byte.

/// Why a path is not routed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathProblem {
    /// It does not begin with a slash.
    NotAbsolute,
    /// It has a `.` or `..` segment, plain or in disguise.
    DotSegment,
}

/// Whether `path` (without its query) may be routed.
pub fn check_path(path: &str) -> Result<(), PathProblem> {
    let bytes = path.as_bytes();
    if bytes.first() != Some(&b'/') {
        return Err(PathProblem::NotAbsolute);
    }
    // Nearly every path ends here: a dot segment needs a dot or a percent sign right behind a separator.
    let mut suspicious = false;
    let mut before = 0;
    for &byte in bytes {
        suspicious |= byte == b'%' || byte == b'\\' || (byte == b'.' && before == b'/');
        before = byte;
    }
    if suspicious && has_dot_segment(bytes) { Err(PathProblem::DotSegment) } else { Ok(()) }
}

fn has_dot_segment(bytes: &[u8]) -> bool {
    let mut at = 0;
    let mut dots = 0;
    let mut others = false;
    while at < bytes.len() {
        let (byte, width) = decoded(&bytes[at..]);
        match byte {
            b'/' | b'\\' => {
                if !others && (dots == 1 || dots == 2) {
                    return true;
                }
                dots = 0;
                others = false;
            }
            b'.' => dots += 1,
            _ => others = true,
        }
        at += width;
    }
    !others && (dots == 1 || dots == 2)
}

/// The first byte of `bytes` with its percent encoding undone, and how many bytes it took. `bytes` is not empty.
fn decoded(bytes: &[u8]) -> (u8, usize) {
    let hex = |b: u8| (b as char).to_digit(16).map(|d| d as u8);
    if let [b'%', high, low, ..] = bytes
        && let (Some(high), Some(low)) = (hex(*high), hex(*low))
    {
        return (high * 16 + low, 3);
    }
    (bytes[0], 1)
}

/// Appends to `out` what becomes of `path_and_query` when `rewrite` replaces its first `matched` bytes.
pub fn rewritten(out: &mut Vec<u8>, rewrite: &str, path_and_query: &str, matched: usize) {
    let rest = path_and_query.get(matched..).unwrap_or_default();
    let head = if rest.starts_with('/') { rewrite.strip_suffix('/').unwrap_or(rewrite) } else { rewrite };
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(rest.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_segments_are_refused_in_every_disguise() {
        for wrong in [
            "/.",
            "/..",
            "/a/../b",
            "/a/./b",
            "/a/..",
            "/%2e%2e/b",
            "/a/.%2E",
            "/a%2f..%2fb",
            "/a\\..\\b",
            "/a/%2e/b",
            "/a%5c..",
            "/a/..%5Cb",
        ] {
            assert_eq!(check_path(wrong), Err(PathProblem::DotSegment), "{wrong}");
        }
        for right in
            ["/", "/a", "/...", "/a/.b", "/a.b/..c", "/a/b..", "//", "/%zz", "/a%20b", "/%", "/a%2fb"]
        {
            assert_eq!(check_path(right), Ok(()), "{right}");
        }
        assert_eq!(check_path("*"), Err(PathProblem::NotAbsolute));
        assert_eq!(check_path(""), Err(PathProblem::NotAbsolute));
    }

    #[test]
    fn a_rewrite_replaces_what_matched_and_keeps_the_rest() {
        let check = |rewrite: &str, path: &str, matched: usize, expected: &str| {
            let mut out = Vec::new();
            rewritten(&mut out, rewrite, path, matched);
            assert_eq!(String::from_utf8_lossy(&out), expected, "{rewrite} {path} {matched}");
        };
        check("/", "/api/x?q=1", 4, "/x?q=1");
        check("/", "/api", 4, "/");
        check("/", "/api?q", 4, "/?q");
        check("/v2", "/api/x", 4, "/v2/x");
        check("/v2/", "/api/x", 4, "/v2/x");
        check("/v2", "/api/", 4, "/v2/");
        check("/v2", "/x", 0, "/v2/x");
        check("/", "/get/1?a=b", 6, "/?a=b");
    }
}
