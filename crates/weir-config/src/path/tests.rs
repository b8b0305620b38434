//! Normal forms of single paths. `tests/it` compares normalization with a second, simple implementation (`oracle.rs`).

use super::*;

const AS_SENT: PathRules = PathRules::AS_SENT;
const MERGING: PathRules = PathRules { merge_slashes: true, ..AS_SENT };
const REJECTING: PathRules = PathRules { escaped_slashes: EscapedSlashes::Reject, ..AS_SENT };
const REDIRECTING: PathRules = PathRules { escaped_slashes: EscapedSlashes::Redirect, ..AS_SENT };

const fn parameters(path_parameters: PathParameters) -> PathRules {
    PathRules { path_parameters, ..AS_SENT }
}

fn check_with(rules: PathRules, target: &str, expected: Result<&str, Unroutable>) {
    let normal = NormalTarget::of(target, &rules);
    assert_eq!(normal.as_ref().map(NormalTarget::as_str), expected.as_ref().copied(), "{target}");
    if let Ok(normal) = normal {
        // A path in normal form is borrowed, and normalization does not change it.
        assert_eq!(matches!(normal.text, Cow::Borrowed(_)), normal.as_str() == target, "{target}");
        assert_eq!(NormalTarget::of(normal.as_str(), &rules).as_ref(), Ok(&normal), "{target}");
    }
}

fn check(target: &str, expected: &str) {
    check_with(AS_SENT, target, Ok(expected));
}

fn check_refused(target: &str, problem: PathProblem) {
    check_with(AS_SENT, target, Err(Unroutable::Refused(problem)));
}

#[test]
fn keeps_paths_in_normal_form() {
    for normal in [
        "/",
        "//",
        "/a//b/",
        "/...",
        "/.well-known/x",
        "/a.b/..c/d..",
        "/a%20b",
        "/a%2Fb%5Cc",
        "/a%252Fb",
        "/a?b=/../%2e%zz",
        "/?",
        "/\\a",
        "*",
        "/a%C3%A4!$&'()*+,;=:@",
    ] {
        check(normal, normal);
    }
}

#[test]
fn resolves_dot_segments_plain_and_escaped() {
    check("/.", "/");
    check("/..", "/");
    check("/../../a", "/a");
    check("/a/../b", "/b");
    check("/a/./b", "/a/b");
    check("/a/b/..", "/a/");
    check("/a/.", "/a/");
    check("/%2e%2E/b?q=..", "/b?q=..");
    check("/a/.%2e/%2e", "/");
    check("/a//../b", "/a/b");
    check("/..//x", "//x");
}

#[test]
fn normalizes_escapes() {
    check("/%61%7E%2d", "/a~-");
    check("/%c3%a4%2f%5c", "/%C3%A4%2F%5C");
    check("/%2561", "/%2561");
    check("/a%2fb", "/a%2Fb");
}

#[test]
fn rejects_ambiguous_paths() {
    for hidden in [
        "/a%2f..%2fb",
        "/a/..%2Fb",
        "/a\\..\\b",
        "/a%5c..",
        "/..%5Cb",
        "/.%2F",
        "/a%2F%2e",
        "/x%2f../y",
        "/\\.",
    ] {
        check_refused(hidden, PathProblem::HiddenDotSegment);
    }
    for bad in ["/%", "/%2", "/%zz", "/%%32e", "/%2%65", "/%-1", "/%+f"] {
        check_refused(bad, PathProblem::BadEscape);
    }
    check_refused("/a%00", PathProblem::Nul);
    for relative in ["", "a", "?a", "*x", "%2Fa"] {
        check_refused(relative, PathProblem::NotAbsolute);
    }
}

#[test]
fn merges_slashes_if_configured() {
    let check = |target: &str, expected: &str| check_with(MERGING, target, Ok(expected));
    check("//", "/");
    check("/a///b//?c=//", "/a/b/?c=//");
    check("/a//../b", "/b");
    check("/a/.//./b//.", "/a/b/");
    check("/a%2F%2Fb", "/a%2F%2Fb");
}

#[test]
fn rejects_or_redirects_escaped_slashes_if_configured() {
    let refused = |problem| Err(Unroutable::Refused(problem));
    check_with(REJECTING, "/a%2fb", refused(PathProblem::EscapedSlash));
    check_with(REJECTING, "/a%5Cb", refused(PathProblem::EscapedSlash));
    check_with(REJECTING, "/a%252Fb?%2F", Ok("/a%252Fb?%2F"));
    let led = |target: &str, location: &str| {
        check_with(REDIRECTING, target, Err(Unroutable::Redirect(location.to_owned())));
        // The redirect leads to a path in normal form, so it does not loop.
        let target = location.strip_prefix("/.").unwrap_or(location);
        assert_eq!(NormalTarget::of(target, &REDIRECTING).unwrap().as_str(), target);
    };
    led("/a%2fb?c=%2F", "/a/b?c=%2F");
    led("/a/..%5cb", "/b");
    led("/%2Fexample.org/x", "/.//example.org/x");
    led("/\\example.org%2F", "/.//example.org/");
    led("/a%2f\\..", "/a/");
    check_with(REJECTING, "/a\\b", refused(PathProblem::EscapedSlash));
    check_with(REDIRECTING, "/a/../b", Ok("/b"));
}

#[test]
fn normalizes_or_rejects_other_spellings_by_default() {
    let check = |target: &str, expected: Result<(&str, &str), PathProblem>| {
        let normal = NormalTarget::of(target, &PathRules::default());
        let reported = normal.as_ref().map(|normal| (normal.path(), normal.as_str())).map_err(Clone::clone);
        assert_eq!(reported, expected.map_err(Unroutable::Refused), "{target}");
    };
    for same in ["//admin", "/.//admin", "/x//../admin", "/%61dmin", "/%2e/admin", "/a/%2E%2e//admin"] {
        check(same, Ok(("/admin", "/admin")));
    }
    for slash in ["/%2fadmin", "/x%2F..%2fadmin", "/\\admin", "/%5Cadmin", "/x/..\\admin"] {
        check(slash, Err(PathProblem::EscapedSlash));
    }
    for hidden in [
        "/;/admin",
        "/x/..;/admin",
        "/x/..;a=b/admin",
        "/.;/admin",
        "/;a/b",
        "/x/..%3b/admin",
        "/%3B/a",
        "/..;",
    ] {
        check(hidden, Err(PathProblem::HiddenByParameter));
    }
    check("/admin;x", Ok(("/admin", "/admin;x")));
    check("/admin%3bx", Ok(("/admin", "/admin%3Bx")));
    check("/admin;x=1;y/users;z?q;", Ok(("/admin/users", "/admin;x=1;y/users;z?q;")));
    check("//a;b//./c;d/", Ok(("/a/c/", "/a;b/c;d/")));
    // Session IDs in URLs look like this.
    check("/;jsessionid=1", Ok(("/", "/;jsessionid=1")));
    check("/app/;jsessionid=1", Ok(("/app/", "/app/;jsessionid=1")));
    check("/x/..;/../admin", Ok(("/x/admin", "/x/admin")));
    // Double encoding stays: some clients encode a slash in a name on purpose.
    check("/a%252fb%253b", Ok(("/a%252fb%253b", "/a%252fb%253b")));
    check("/admin%20", Ok(("/admin%20", "/admin%20")));
}

#[test]
fn handles_path_parameters_by_rule() {
    let check = |rule: PathParameters, target: &str, matched: &str, sent: &str| {
        let rules = parameters(rule);
        let normal = NormalTarget::of(target, &rules).unwrap();
        assert_eq!((normal.path(), normal.as_str()), (matched, sent), "{target}");
        assert_eq!(NormalTarget::of(normal.as_str(), &rules).unwrap().path(), matched, "{target}");
    };
    check(PathParameters::Keep, "/x/..;/;a/b;c", "/x/..;/;a/b;c", "/x/..;/;a/b;c");
    check(PathParameters::Ignore, "/a;b//c;d?e", "/a//c", "/a;b//c;d?e");
    check(PathParameters::Strip, "/a;b//c%3bd?e;f", "/a//c", "/a//c?e;f");
    check(PathParameters::Strip, "/a/b?c;d", "/a/b", "/a/b?c;d");
    let refused = |rule, target, problem| {
        check_with(parameters(rule), target, Err(Unroutable::Refused(problem)));
    };
    refused(PathParameters::Strip, "/a/..;/b", PathProblem::HiddenByParameter);
    refused(PathParameters::Ignore, "/a%2F..;x", PathProblem::HiddenByParameter);
    refused(PathParameters::Ignore, "/a\\.;x\\b", PathProblem::HiddenByParameter);
    for target in ["/a;b", "/a%3B", "/;"] {
        refused(PathParameters::Reject, target, PathProblem::Parameter);
    }
    check_with(parameters(PathParameters::Reject), "/a?b;c", Ok("/a?b;c"));
}

#[test]
fn finds_the_matched_part_among_parameters() {
    let check = |target: &str, matched: usize, expected: usize| {
        let normal = NormalTarget::of(target, &parameters(PathParameters::Ignore)).unwrap();
        assert_eq!(normal.sent_bytes(matched), expected, "{target} {matched}");
    };
    check("/api/x", 4, 4);
    check("/api;v=1/x;y", 0, 0);
    check("/api;v=1/x;y", 4, 8);
    check("/api;v=1/x;y", 6, 12);
    check("/api/;y", 4, 4);
    check("/api/;y", 5, 7);
    check("/;y", 1, 3);
}

#[test]
fn splits_a_target_into_path_and_query() {
    let check = |target: &str, path: &str, query: Option<&str>| {
        let normal = NormalTarget::of(target, &AS_SENT).unwrap();
        assert_eq!((normal.path(), normal.query()), (path, query), "{target}");
    };
    check("/a", "/a", None);
    check("/a?", "/a", Some(""));
    check("/%61/..?b?c", "/", Some("b?c"));
    check("*", "*", None);
}

#[test]
fn rewrite_replaces_the_matched_part() {
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
