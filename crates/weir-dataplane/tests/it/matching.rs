//! Route matching through a socket: every kind of condition.

use crate::setup::{Origin, Proxy};

/// A gateway with these routes. The backends respond with their names.
struct Routed {
    proxy: Proxy,
    origins: [Origin; 2],
}

impl Routed {
    fn by(routes: &str) -> Routed {
        let origins = [
            Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"),
            Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nb"),
        ];
        let proxy = Proxy::with(&format!(
            "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\nroutes: [{routes}]\n\
             backends: {{ a: {{ endpoints: ['{}'] }}, b: {{ endpoints: ['{}'] }} }}",
            origins[0].address, origins[1].address
        ));
        Routed { proxy, origins }
    }

    /// Sends a request with this method and URL and these header lines. Checks the backend that responds, or the error.
    fn check(&self, start: &str, fields: &str, expected: &str) {
        let host = start.split_once("://").and_then(|(_, rest)| rest.split('/').next()).unwrap_or("h");
        let answer = self.proxy.connect().ask(&format!("{start} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n"));
        let found = answer.field("x-weir-error").unwrap_or(&answer.body);
        assert_eq!(found, expected, "{start} {fields:?}");
    }
}

/// Checks that each of `routes` takes precedence over the routes after it. All of them match the request. Removes the
/// routes one by one from the start; the first remaining route must respond. The configuration lists the routes in
/// reverse order, so that their order cannot decide. If `in_order` is set, it keeps their order, and only this order
/// decides.
fn check_order(routes: &[&str], start: &str, fields: &str, in_order: bool) {
    for gone in 0..routes.len() {
        let answering =
            |(number, route): (usize, &&str)| format!("{{ {route}, respond: {{ body: 'r{number}' }} }}");
        let mut left: Vec<String> = routes.iter().enumerate().skip(gone).map(answering).collect();
        if !in_order {
            left.reverse();
        }
        Routed::by(&left.join(", ")).check(start, fields, &format!("r{gone}"));
    }
}

#[test]
fn exact_host_wins_over_longer_wildcard_over_every_host() {
    let routes = ["hosts: [a.b.c.h], path: /", "hosts: ['*.b.c.h'], path: /", "hosts: ['*.c.h'], path: /"];
    let wider = ["hosts: ['*.h'], path: /", "path: /"];
    check_order(&[&routes[..], &wider].concat(), "GET http://a.b.c.h/x", "", false);
    check_order(&["hosts: [h], path: /", "exact: /x"], "GET /x", "", false);
}

#[test]
fn exact_path_wins_over_longest_prefix_over_longest_pattern() {
    let named = ["exact: /x/y/z", "path: /x/y/z", "path: /x/y", "path: /x"];
    let others = ["regex: '/(x|xx)/[a-z]+/.*'", "regex: '/x/[a-z]+/z'", "path: /"];
    check_order(&[&named[..], &others].concat(), "GET /x/y/z", "", false);
    let demanding = "path: /, methods: [GET], headers: { x: '1' }, query: { p: '1' }";
    check_order(&["path: /x", demanding], "GET /x?p=1", "x: 1\r\n", false);
}

#[test]
fn method_wins_over_most_headers_over_most_query_parameters() {
    let conditions = [
        "methods: [GET]",
        "headers: { x: '1', y: '1' }",
        "headers: { x: '1' }, query: { p: '1' }",
        "headers: { x: '1' }",
        "query: { p: '1', q: '1' }",
        "query: { p: '1' }",
        "name: rest",
    ];
    for path in ["exact: /x", "path: /x", "regex: '/x+'", "path: /"] {
        let routes = conditions.map(|condition| format!("{path}, {condition}"));
        let routes = routes.each_ref().map(String::as_str);
        check_order(&routes, "GET /x?p=1&q=1", "x: 1\r\ny: 1\r\n", false);
    }
}

#[test]
fn first_route_wins_a_tie() {
    let fields = "z: 1\r\ny: 1\r\nx: 1\r\n";
    for (first, second) in [
        ("path: /, headers: { x: '1' }", "path: /, headers: { z: { present: true } }"),
        ("path: /, headers: { z: { present: true } }", "path: /, headers: { x: '1' }"),
        ("path: /, query: { q: '1' }", "path: /, query: { p: { regex: '.*' } }"),
        ("regex: '/[xb]'", "regex: '/[xa]'"),
        ("path: /, methods: [PUT, GET], query: { p: '1' }", "path: /, methods: [GET], query: { q: '1' }"),
    ] {
        check_order(&[first, second], "GET /x?p=1&q=1", fields, true);
    }
}

#[test]
fn falls_back_to_a_less_specific_host() {
    let routed = Routed::by(
        "{ hosts: [a.b.h], path: /only, respond: { body: exact } },
         { hosts: [a.b.h], path: /put, methods: [PUT], respond: { body: exact put } },
         { hosts: ['*.b.h'], regex: '/w[0-9]', respond: { body: wildcard } },
         { hosts: ['*.h'], exact: /far, respond: { body: far } },
         { path: /, headers: { x: '1' }, respond: { body: every } }",
    );
    for (start, fields, expected) in [
        ("GET http://a.b.h/only/x", "x: 1\r\n", "exact"),
        ("PUT http://a.b.h/put", "x: 1\r\n", "exact put"),
        ("GET http://a.b.h/put", "x: 1\r\n", "every"),
        ("GET http://a.b.h/w1", "x: 1\r\n", "wildcard"),
        ("GET http://a.b.h/w", "x: 1\r\n", "every"),
        ("GET http://a.b.h/far", "x: 1\r\n", "far"),
        ("GET http://a.b.h/far/x", "x: 1\r\n", "every"),
        ("GET http://c.b.h/only", "x: 1\r\n", "every"),
        ("GET http://b.h/w1", "x: 1\r\n", "every"),
        ("GET http://b.h/far", "", "far"),
        ("GET http://a.b.h/w", "", "no_route"),
        ("GET http://h/far", "", "no_route"),
    ] {
        routed.check(start, fields, expected);
    }
}

#[test]
fn matches_by_method() {
    let routed =
        Routed::by("{ path: /, methods: [POST, PUT], backend: a }, { path: /x, methods: [GET], backend: b }");
    routed.check("POST /", "Content-Length: 0\r\n", "a");
    routed.check("PUT /x", "Content-Length: 0\r\n", "a");
    routed.check("GET /x", "", "b");
    routed.check("GET /", "", "no_route");
    routed.check("put /", "", "no_route");
}

#[test]
fn matches_by_header_fields() {
    let routed = Routed::by(
        "{ path: /, headers: { X-Version: '2' }, backend: a },
         { path: /, headers: { x-tenant: { regex: 'blue-[0-9]+' }, cookie: { present: true } }, backend: b },
         { path: /, headers: { accept: { exact: 'text/html, */*' } }, backend: b }",
    );
    routed.check("GET /", "x-version: 2\r\n", "a");
    routed.check("GET /", "x-version: 20\r\n", "no_route");
    routed.check("GET /", "X-Tenant: blue-42\r\nCookie: c=d\r\n", "b");
    routed.check("GET /", "X-Tenant: blue-42\r\n", "no_route");
    routed.check("GET /", "X-Tenant: xblue-42\r\nCookie: c=d\r\n", "no_route");
    routed.check("GET /", "X-Tenant: blue-42\r\nCookie: c=d\r\nX-Version: 2\r\n", "b");
    routed.check("GET /", "Accept: text/html\r\nAccept: */*\r\n", "b");
    routed.check("GET /", "Accept: */*\r\n", "no_route");
}

#[test]
fn matches_by_query() {
    let routed = Routed::by(
        "{ path: /, query: { page size: '10' }, backend: a },
         { path: /, query: { q: { regex: '.+' } }, backend: b },
         { path: /, query: { debug: { present: true } }, backend: a }",
    );
    routed.check("GET /?page+size=%310", "", "a");
    routed.check("GET /?page%20size=10&q=x", "", "a");
    routed.check("GET /?q=&q=x", "", "no_route");
    routed.check("GET /?q=x", "", "b");
    routed.check("GET /?debug", "", "a");
    routed.check("GET /", "", "no_route");
}

#[test]
fn matches_a_pattern_against_the_normalized_path() {
    let routed = Routed::by(
        "{ regex: '/users/[0-9]+(/.*)?', backend: a, rewrite: /user },
         { regex: '(?i)/static/.*', methods: [GET, HEAD], backend: b }",
    );
    routed.check("GET /users/42?x", "", "a");
    routed.check("GET /x/../users/%34%32/y", "", "a");
    routed.check("GET /users/x", "", "no_route");
    routed.check("GET /Static/logo", "", "b");
    routed.check("POST /static/logo", "", "no_route");
    routed.check("OPTIONS *", "", "no_route");
    let sent = routed.origins[0].requests();
    assert_eq!(sent[0], "GET /user?x HTTP/1.1\r\nHost: h\r\n\r\n", "the rewrite replaces the whole path");
}

#[test]
fn evaluates_conditions_for_each_request_of_a_connection() {
    let routed = Routed::by("{ path: /, headers: { x: '1' }, backend: a }, { path: /, backend: b }");
    let mut client = routed.proxy.connect();
    for turn in 0..10 {
        let (field, expected) = if turn % 2 == 0 { ("x: 1\r\n", "a") } else { ("", "b") };
        assert_eq!(client.ask(&format!("GET / HTTP/1.1\r\nHost: h\r\n{field}\r\n")).body, expected);
    }
}
