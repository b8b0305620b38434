//! Routes with responses of the gateway: redirects and fixed responses.

use crate::filters::gateway;
use crate::setup::{Answer, Origin, Proxy};

/// The response headers without `Date`, which must be present exactly once.
fn undated(answer: &Answer) -> String {
    let is_date = |line: &&str| line.starts_with("Date: ");
    assert_eq!(answer.head.split("\r\n").filter(is_date).count(), 1, "{}", answer.head);
    answer.head.split("\r\n").filter(|line| !is_date(line)).collect::<Vec<_>>().join("\r\n")
}

/// A gateway with one route, which has these fields and needs no upstream.
fn alone(route: &str) -> (Proxy, Origin) {
    let origin = Origin::answering("HTTP/1.1 500 Unexpected Request\r\nContent-Length: 0\r\n\r\n");
    (gateway(route, &origin), origin)
}

/// Checks the redirect target of `request` for a route with this redirect.
fn check_location(redirect: &str, request: &str, expected: &str) {
    let (proxy, origin) = alone(&format!("redirect: {redirect}"));
    let mut client = proxy.connect();
    for _ in 0..2 {
        let answer = client.ask(request);
        let head = format!("HTTP/1.1 302 Found\r\nLocation: {expected}\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(undated(&answer), head, "{redirect}");
    }
    assert_eq!(origin.connections(), 0);
    let stats = proxy.gateway.stats();
    assert_eq!((stats.requests, stats.responses, stats.by_status.redirection), (2, 2, 2));
    assert_eq!(stats.errors.values().sum::<u64>(), 0);
}

#[test]
fn redirect_keeps_url_parts_that_it_does_not_set() {
    let get = "GET /api/x?q=1 HTTP/1.1\r\nHost: a.test:8080\r\n\r\n";
    check_location("{ host: b.test }", get, "http://b.test:8080/api/x?q=1");
    check_location("{ scheme: https }", get, "https://a.test/api/x?q=1");
    check_location("{ scheme: http }", get, "http://a.test/api/x?q=1");
    check_location("{ scheme: https, port: 8443 }", get, "https://a.test:8443/api/x?q=1");
    check_location("{ scheme: https, port: 443 }", get, "https://a.test/api/x?q=1");
    check_location("{ port: 443 }", get, "http://a.test:443/api/x?q=1");
    check_location("{ port: 80 }", get, "http://a.test/api/x?q=1");
    check_location("{ path: /new }", get, "http://a.test:8080/new?q=1");
    check_location("{ prefix: /new }", get, "http://a.test:8080/new/x?q=1");
    check_location("{ prefix: / }", get, "http://a.test:8080/x?q=1");
    let bare = "GET /api HTTP/1.1\r\nHost: a.test\r\n\r\n";
    check_location("{ prefix: / }", bare, "http://a.test/");
    check_location("{ host: b.test }", bare, "http://b.test/api");
    check_location("{ path: / }", "GET /api HTTP/1.1\r\nHost: [::1]:81\r\n\r\n", "http://[::1]:81/");
    check_location(
        "{ host: b.test }",
        "GET http://a.test:82/api?q HTTP/1.1\r\nHost: a.test:82\r\n\r\n",
        "http://b.test:82/api?q",
    );
}

#[test]
fn redirect_has_the_configured_status() {
    for (status, reason) in [
        (301, "Moved Permanently"),
        (303, "See Other"),
        (307, "Temporary Redirect"),
        (308, "Permanent Redirect"),
    ] {
        let (proxy, _) = alone(&format!(
            "redirect: {{ scheme: https, status: {status} }}, response_headers: {{ set: {{ A: b }} }}"
        ));
        let answer = proxy.ask("GET /api HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(
            undated(&answer),
            format!(
                "HTTP/1.1 {status} {reason}\r\nLocation: https://a/api\r\nContent-Length: 0\r\nA: b\r\n\r\n"
            )
        );
    }
}

#[test]
fn redirects_http_1_0_clients_without_host_only_to_a_configured_host() {
    let (proxy, _) = alone("redirect: { path: //evil.test }");
    let mut client = proxy.connect();
    assert_eq!(client.ask("GET /api HTTP/1.0\r\n\r\n").error(), (400, "no_host"));
    let (proxy, _) = alone("redirect: { host: b.test }");
    let mut client = proxy.connect();
    let keep = "GET /api HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    let answer = client.ask(keep);
    assert_eq!(
        undated(&answer),
        "HTTP/1.1 302 Found\r\nLocation: http://b.test/api\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n"
    );
    assert_eq!(client.ask("GET /api HTTP/1.0\r\n\r\n").field("connection"), Some("close"));
    assert!(client.is_closed());
}

#[test]
fn redirects_options_asterisk_to_the_root() {
    let origin = Origin::answering("");
    let proxy = Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\n\
         routes: [{{ path: /, redirect: {{ scheme: https }} }}]\nbackends: {{ b: {{ endpoints: ['{}'] }} }}",
        origin.address
    ));
    let answer = proxy.ask("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(answer.field("location"), Some("https://a/"));
}

#[test]
fn sends_fixed_responses_as_configured() {
    let check = |respond: &str, head: &str, body: &str| {
        let (proxy, origin) = alone(&format!("respond: {respond}"));
        let mut client = proxy.connect();
        for _ in 0..2 {
            let answer = client.ask("GET /api/any HTTP/1.1\r\nHost: h\r\n\r\n");
            assert_eq!((undated(&answer).as_str(), answer.body.as_str()), (head, body), "{respond}");
        }
        client.send("HEAD /api HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(undated(&client.head()), head, "HEAD, {respond}");
        assert_eq!(client.ask("GET /api HTTP/1.1\r\nHost: h\r\n\r\n").body, body, "HEAD has no body");
        assert_eq!(origin.connections(), 0);
    };
    check("{}", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "");
    check(
        "{ status: 503, body: later }",
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 5\r\n\r\n",
        "later",
    );
    check(
        "{ body: '{}', headers: { X-B: '2', content-type: application/json, X-A: '1' } }",
        "HTTP/1.1 200 OK\r\nX-A: 1\r\nX-B: 2\r\ncontent-type: application/json\r\nContent-Length: 2\r\n\r\n",
        "{}",
    );
    check("{ status: 204 }", "HTTP/1.1 204 No Content\r\n\r\n", "");
    check("{ status: 205 }", "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n", "");
    check(
        "{ status: 304, headers: { ETag: '\"a\"' } }",
        "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n",
        "",
    );
    check(
        "{ body: ä }",
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 2\r\n\r\n",
        "ä",
    );
}

/// Sends a POST with this framing and the first parts of its body. If the connection stays open, sends another request.
fn check_body(head: &str, parts: &[&str], goes_on: bool) {
    let (proxy, _) = alone("respond: { body: ok }");
    let mut client = proxy.connect();
    client.send(&format!("POST /api HTTP/1.1\r\nHost: h\r\n{head}\r\n"));
    for part in parts {
        client.send(part);
    }
    let answer = client.response();
    assert_eq!(answer.body, "ok", "{head:?}");
    assert_eq!(answer.field("connection"), (!goes_on).then_some("close"), "{head:?} {parts:?}");
    if goes_on {
        assert_eq!(client.ask("GET /api HTTP/1.1\r\nHost: h\r\n\r\n").body, "ok");
    } else {
        assert!(client.is_ended(), "{head:?}");
    }
    let served = if goes_on { 2 } else { 1 };
    assert_eq!(proxy.gateway.stats().by_status.success, served, "the body must not be parsed as a request");
}

#[test]
fn short_body_is_read_and_the_connection_stays_open() {
    check_body("Content-Length: 5\r\n", &["hello"], true);
    check_body("Content-Length: 5\r\n", &["he", "llo"], true);
    check_body("Content-Length: 5\r\nExpect: 100-continue\r\n", &[], false);
    check_body("Transfer-Encoding: chunked\r\n", &["2\r\nab\r\n", "0\r\nX-T: 1\r\n\r\n"], true);
    check_body("Transfer-Encoding: chunked\r\n", &["zz\r\n"], false);
    check_body("Content-Length: 65537\r\n", &["GET /api HTTP/1.1\r\nHost: h\r\n\r\n"], false);
}

#[test]
fn reads_a_body_in_the_same_packet_despite_expect() {
    let (proxy, _) = alone("respond: { body: ok }");
    let mut client = proxy.connect();
    let answer = client.ask(
        "POST /api HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\nhi\
         GET /api HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    );
    assert_eq!((answer.body.as_str(), answer.field("connection")), ("ok", None));
    let last = client.response();
    assert_eq!((last.body.as_str(), last.field("connection")), ("ok", Some("close")));
    assert!(client.is_ended());
}

#[test]
fn fixed_responses_require_the_token_of_the_route() {
    let proxy = Proxy::with_files(
        "listeners: [{ address: 127.0.0.1:0 }]\nworkers: 1\n\
         routes: [{ path: /r, redirect: { scheme: https }, tokens: t.lst }, { path: /a, respond: {}, tokens: t.lst }]",
        &[("t.lst", "one\n")],
    );
    for path in ["/r", "/a"] {
        let get = |fields: &str| proxy.ask(&format!("GET {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
        assert_eq!(get("").error(), (401, "no_token"));
        assert_eq!(get("Authorization: Bearer two\r\n").error(), (401, "unknown_token"));
        assert_eq!(get("Authorization: Bearer one\r\n").error().1, "none");
    }
}

#[test]
fn response_during_drain_closes_the_connection() {
    let (proxy, _) = alone("respond: { body: ok }");
    let mut client = proxy.connect();
    proxy.gateway.drain();
    // The worker starts to drain a moment later.
    let mut answers = (0..10_000).map(|_| client.ask("GET /api HTTP/1.1\r\nHost: h\r\n\r\n"));
    let last = answers.find(|answer| answer.field("connection").is_some()).unwrap();
    assert_eq!((last.body.as_str(), last.field("connection")), ("ok", Some("close")));
    assert!(client.is_ended());
}
