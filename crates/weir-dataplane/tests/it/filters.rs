//! Routes that change header fields, host and path.

use crate::setup::{Origin, Proxy};

/// The response of the origin. It has a fixed `Date`, so that responses are always equal.
const OK: &str = "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nServer: s\r\nX-Up: 1\r\n\
                  Content-Length: 2\r\n\r\nok";
const GET: &str = "GET /api/x?q=1 HTTP/1.1\r\nHost: h:80\r\nX-Old: 1\r\nAccept: */*\r\nX-Old: 2\r\n\r\n";

/// A gateway in front of `origin`. Its only route has the path `/api` and the fields in `route`.
pub(crate) fn gateway(route: &str, origin: &Origin) -> Proxy {
    Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\nroutes: [{{ path: /api, {route} }}]\n\
         backends: {{ b: {{ endpoints: ['{}'] }} }}",
        origin.address
    ))
}

/// Checks the upstream request and the response for a route with these fields. Sends `request` twice, over kept
/// connections.
fn check(route: &str, request: &str, at_upstream: &str, at_client: &str) {
    let origin = Origin::answering(OK);
    let proxy = gateway(&format!("backend: b, {route}"), &origin);
    let mut client = proxy.connect();
    for _ in 0..2 {
        let answer = client.ask(request);
        assert_eq!((answer.head.as_str(), answer.body.as_str()), (at_client, "ok"), "{route}");
    }
    assert_eq!(origin.requests(), [at_upstream, at_upstream], "{route}");
    assert_eq!(origin.connections(), 1);
}

const PASSED: &str = "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nServer: s\r\nX-Up: 1\r\n\
                      Content-Length: 2\r\n\r\n";

#[test]
fn sets_adds_and_removes_request_headers() {
    check(
        "request_headers: { set: { x-old: new, X-Set: s }, add: { Accept: text/html }, remove: [User-Agent] }",
        GET,
        "GET /api/x?q=1 HTTP/1.1\r\nHost: h:80\r\nAccept: */*\r\nX-Set: s\r\nx-old: new\r\nAccept: text/html\r\n\r\n",
        PASSED,
    );
    check(
        "request_headers: { remove: [x-old, ACCEPT] }",
        GET,
        "GET /api/x?q=1 HTTP/1.1\r\nHost: h:80\r\n\r\n",
        PASSED,
    );
    // If the client names a field in `Connection`, the client's value of this field is not forwarded, but the value
    // that the route sets is.
    check(
        "request_headers: { set: { X-Own: ours } }",
        "GET /api HTTP/1.1\r\nHost: h\r\nConnection: X-Own\r\nX-Own: theirs\r\n\r\n",
        "GET /api HTTP/1.1\r\nHost: h\r\nX-Own: ours\r\n\r\n",
        PASSED,
    );
}

#[test]
fn sets_adds_and_removes_response_headers() {
    let passed = "GET /api/x?q=1 HTTP/1.1\r\nHost: h:80\r\nX-Old: 1\r\nAccept: */*\r\nX-Old: 2\r\n\r\n";
    check(
        "response_headers: { set: { x-up: '2' }, add: { Server: weir }, remove: [Nothing] }",
        GET,
        passed,
        "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nServer: s\r\nContent-Length: 2\r\n\
         x-up: 2\r\nServer: weir\r\n\r\n",
    );
    check(
        "response_headers: { set: { Date: today }, remove: [server, X-UP] }",
        GET,
        passed,
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nDate: today\r\n\r\n",
    );
}

#[test]
fn gateway_replaces_a_removed_date() {
    let origin = Origin::answering(OK);
    let proxy = gateway("backend: b, response_headers: { remove: [Date] }", &origin);
    let answer = proxy.ask(GET);
    assert_eq!(answer.head.matches("Date: ").count(), 1);
    assert!(answer.field("date").is_some_and(|date| !date.contains("1970")), "{}", answer.head);
}

#[test]
fn does_not_change_interim_responses_and_upgrades() {
    const UPGRADED: &str =
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let origin = Origin::start(|served| {
        while let Some(head) = served.request() {
            if head.contains("websocket") {
                served.send(UPGRADED);
                let words = served.read_exact(2).unwrap();
                served.send(&words);
                return served.stall();
            }
            served.send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
            served.send(OK);
        }
    });
    let proxy = gateway(
        "backend: b, response_headers: { set: { X-Set: s }, remove: [Link] }, timeouts: { request: 10s }",
        &origin,
    );
    let mut client = proxy.connect();
    assert_eq!(client.ask(GET).head, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
    assert_eq!(client.response().field("x-set"), Some("s"));
    let mut client = proxy.connect();
    client.send("GET /api HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(client.head().head, UPGRADED);
    client.send("hi");
    assert_eq!(client.read_exact(2), "hi");
}

#[test]
fn rewrite_changes_host_and_path_and_keeps_the_query() {
    let fields = "X-Old: 1\r\nAccept: */*\r\nX-Old: 2\r\n\r\n";
    let check = |rewrite: &str, start: &str| {
        check(&format!("rewrite: {rewrite}"), GET, &format!("{start}\r\n{fields}"), PASSED);
    };
    check("/v2", "GET /v2/x?q=1 HTTP/1.1\r\nHost: h:80");
    check("{ prefix: / }", "GET /x?q=1 HTTP/1.1\r\nHost: h:80");
    check("{ path: /whole }", "GET /whole?q=1 HTTP/1.1\r\nHost: h:80");
    check("{ host: up.test }", "GET /api/x?q=1 HTTP/1.1\r\nHost: up.test");
    check("{ host: '[::1]:8080', prefix: /v2/ }", "GET /v2/x?q=1 HTTP/1.1\r\nHost: [::1]:8080");
    check("{ host: 'up.test:81', path: / }", "GET /?q=1 HTTP/1.1\r\nHost: up.test:81");
}

#[test]
fn changes_headers_for_http_1_0_clients() {
    let origin = Origin::answering(OK);
    let proxy = gateway(
        "backend: b, rewrite: { host: up.test }, request_headers: { set: { A: a } },
         response_headers: { set: { B: b } }",
        &origin,
    );
    let mut client = proxy.connect();
    let answer = client.ask("GET /api HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!((answer.field("b"), answer.field("connection")), (Some("b"), Some("keep-alive")));
    let answer = client.ask("GET /api HTTP/1.0\r\n\r\n");
    assert_eq!((answer.body.as_str(), answer.field("connection")), ("ok", Some("close")));
    assert!(client.is_closed());
    let expected = "GET /api HTTP/1.1\r\nHost: up.test\r\nA: a\r\n\r\n";
    assert_eq!(origin.requests(), [expected, expected]);
}

#[test]
fn streams_bodies_while_changing_headers() {
    let origin = Origin::start(|served| {
        let head = served.read_until("\r\n\r\n").unwrap();
        assert!(
            head.ends_with("Expect: 100-continue\r\nA: a\r\nTransfer-Encoding: chunked\r\n\r\n"),
            "{head}"
        );
        served.send("HTTP/1.1 100 Continue\r\n\r\n");
        assert_eq!(served.read_until("0\r\n\r\n").unwrap(), "2\r\nab\r\n1\r\nc\r\n0\r\n\r\n");
        served.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nd\r\n0\r\nX-T: 1\r\n\r\n");
        served.stall();
    });
    let changes = "backend: b, request_headers: { set: { A: a } }, response_headers: { set: { B: b } }";
    let proxy = gateway(changes, &origin);
    let mut client = proxy.connect();
    let chunked = "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n";
    let go_on = client.ask(&format!("POST /api HTTP/1.1\r\nHost: h\r\n{chunked}\r\n"));
    assert_eq!((go_on.status, go_on.field("b")), (100, None));
    client.send("2\r\nab\r\n");
    let answer = client.ask("1\r\nc\r\n0\r\n\r\n");
    assert_eq!((answer.body.as_str(), answer.field("b"), answer.whole), ("d", Some("b"), true));
}

#[test]
fn changes_head_responses_but_not_errors() {
    let origin = Origin::start(|served| {
        while served.request().is_some() {
            served.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n");
        }
    });
    let proxy = Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\nlimits: {{ body: 4B }}\n\
         routes: [{{ path: /, backend: b, response_headers: {{ set: {{ B: b }} }} }}, \
                  {{ path: /none, backend: e, response_headers: {{ set: {{ B: b }} }} }}]\n\
         backends: {{ b: {{ endpoints: ['{}'] }}, e: {{ endpoints: [] }} }}",
        origin.address
    ));
    let mut client = proxy.connect();
    for _ in 0..2 {
        client.send("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
        let head = client.head();
        assert_eq!((head.field("content-length"), head.field("b")), (Some("100"), Some("b")));
    }
    let refused = client.ask("GET /none HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!((refused.error(), refused.field("b")), ((503, "no_endpoint"), None));
    let long = client.ask("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(long.error(), (413, "body_too_large"));
    assert!(client.is_closed());
}
