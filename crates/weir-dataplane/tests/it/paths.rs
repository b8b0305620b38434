//! Path normalization: the paths that routes and upstreams see.

use crate::setup::{Answer, Origin, Proxy};

/// Rules that forward paths as sent.
const AS_SENT: &str = "merge_slashes: false, escaped_slashes: keep, path_parameters: keep";

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A gateway with these path rules. The upstream path, or the error, shows the matched route.
fn proxy(rules: &str, origin: &Origin) -> Proxy {
    Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\npaths: {{ {rules} }}\n\
         routes:\n  - {{ path: /, backend: b }}\n  - {{ path: /api, backend: b, rewrite: /v2 }}\n\
         \x20 - {{ exact: /secret, backend: none }}\n\
         backends: {{ b: {{ endpoints: ['{}'] }}, none: {{ endpoints: [] }} }}",
        origin.address
    ))
}

fn ask(proxy: &Proxy, target: &str) -> Answer {
    proxy.connect().ask(&format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"))
}

/// Checks the upstream request for a client request with `target`.
fn check_sent(rules: &str, target: &str, expected: &str) {
    let origin = Origin::answering(OK);
    assert_eq!(ask(&proxy(rules, &origin), target).body, "ok", "{target}");
    assert_eq!(origin.requests(), [format!("GET {expected} HTTP/1.1\r\nHost: h\r\n\r\n")]);
}

/// Checks a response of the gateway. The upstream must get no request.
fn check_answered(rules: &str, target: &str, expected: (u16, &str), text: &str) -> Answer {
    let origin = Origin::answering(OK);
    let proxy = proxy(rules, &origin);
    let answer = ask(&proxy, target);
    assert_eq!(answer.error(), expected, "{target}");
    assert_eq!(answer.body, format!("{} {}: {text}\n", expected.0, expected.1));
    assert_eq!(proxy.errors(expected.1), 1);
    assert!(origin.requests().is_empty());
    answer
}

#[test]
fn forwards_the_normalized_path() {
    check_sent("", "/a/./b/../c?x=/../%2e", "/a/c?x=/../%2e");
    check_sent(AS_SENT, "/x/../api/%61//b%2fc;d", "/v2/a//b%2Fc;d");
    check_sent("", "/%61pi/x", "/v2/x");
    check_sent("", "/apix/..%2e", "/apix/...");
}

#[test]
fn disguised_path_does_not_bypass_a_route() {
    for target in [
        "/secret",
        "/a/../secret",
        "/%73ecret",
        "/./secret",
        "/x/%2e%2E/secret?y",
        "//secret",
        "/.//secret",
        "/secret;x",
        "/secret%3bx=1",
        "//a;b/..///secret;?x",
    ] {
        check_answered("", target, (503, "no_endpoint"), "backend has no usable endpoint");
    }
    let hidden = "path contains a dot segment next to an encoded slash or a backslash";
    for target in ["/a%2f../secret", "/a\\..\\secret", "/a/..%5csecret"] {
        check_answered(AS_SENT, target, (400, "bad_path"), hidden);
    }
    for target in ["/%2fsecret", "/%5Csecret", "/\\secret", "/a%2f../secret", "/a/..%5csecret"] {
        let slash = "path contains an encoded slash or a backslash; send `/`";
        check_answered("", target, (400, "bad_path"), slash);
    }
    for target in ["/x/..;/secret", "/;/secret", "/x/..;a=b/secret", "/.;/secret", "/x/%2e%2e%3b/secret"] {
        let parameter = "path contains a path parameter (`;`) in a dot segment or an empty segment";
        check_answered("", target, (400, "bad_path"), parameter);
    }
    check_answered("", "/secret%00", (400, "bad_path"), "path contains an encoded NUL (%00)");
    let escape = "path contains a percent sign without two hexadecimal digits";
    check_answered("", "/%%73ecret", (400, "bad_path"), escape);
}

#[test]
fn merges_slashes_unless_turned_off() {
    check_sent("merge_slashes: false", "//api//x", "//api//x");
    check_sent("", "//api//x?a=//", "/v2/x?a=//");
    check_answered("", "///secret", (503, "no_endpoint"), "backend has no usable endpoint");
}

#[test]
fn handles_path_parameters_by_rule() {
    check_sent("", "/a;b/c;d=1?e", "/a;b/c;d=1?e");
    check_sent("", "/api;v=1/x;y", "/v2/x;y");
    check_sent("", "/api;v=1", "/v2");
    check_sent("", "/;jsessionid=1", "/;jsessionid=1");
    check_sent("path_parameters: strip", "/api;v=1/x;y?z;", "/v2/x?z;");
    check_sent("path_parameters: keep", "/api;v=1/x;y", "/api;v=1/x;y");
    check_sent("path_parameters: keep", "/x/..;/secret", "/x/..;/secret");
    let text = "path contains a path parameter (`;`)";
    check_answered("path_parameters: reject", "/a;b", (400, "bad_path"), text);
    check_answered("path_parameters: reject", "/a%3Bb", (400, "bad_path"), text);
    check_sent("path_parameters: reject", "/a?b;c", "/a?b;c");
}

#[test]
fn redirect_of_a_prefix_keeps_the_rest_and_its_parameters() {
    let origin = Origin::answering(OK);
    let proxy = Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\n\
         routes:\n  - {{ path: /old, redirect: {{ prefix: /new }} }}\n  - {{ path: /all, redirect: {{ path: /new }} }}\n\
         \x20 - {{ path: /, backend: b }}\nbackends: {{ b: {{ endpoints: ['{}'] }} }}",
        origin.address
    ));
    for (target, location) in [
        ("/old;a/x;b?c", "http://h/new/x;b?c"),
        ("/old;a", "http://h/new"),
        ("/all;a/x;b?c", "http://h/new?c"),
    ] {
        assert_eq!(ask(&proxy, target).field("location"), Some(location), "{target}");
    }
}

#[test]
fn handles_escaped_slashes_by_rule() {
    check_sent("escaped_slashes: keep", "/api%2fx", "/api%2Fx");
    let text = "path contains an encoded slash or a backslash; send `/`";
    check_answered("escaped_slashes: reject", "/api%2fx", (400, "bad_path"), text);
    check_answered("escaped_slashes: reject", "/api%5Cx", (400, "bad_path"), text);
    let rules = "escaped_slashes: redirect";
    let text = weir_dataplane::Cause::EscapedSlashes.text();
    for (target, location) in [("/api%2fx?q=%2F", "/api/x?q=%2F"), ("/%2F%5c..%2fsecret", "/secret")] {
        let answer = check_answered(rules, target, (307, "escaped_slashes"), text);
        assert_eq!(answer.field("location"), Some(location));
    }
    let answer = check_answered(
        "escaped_slashes: redirect, merge_slashes: false",
        "/%2fh.test/",
        (307, "escaped_slashes"),
        text,
    );
    assert_eq!(answer.field("location"), Some("/.//h.test/"), "the location names no other host");
}

#[test]
fn connection_stays_open_after_a_rejected_path() {
    let origin = Origin::answering(OK);
    let proxy = proxy("escaped_slashes: redirect", &origin);
    let mut client = proxy.connect();
    for (target, status) in [("/%zz", 400), ("/a%2Fb", 307), ("/a/b", 200)] {
        assert_eq!(client.ask(&format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n")).status, status);
    }
    assert_eq!(origin.requests().len(), 1);
}
