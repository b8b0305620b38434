//! CORS: requests that pages of other origins send.

use crate::filters::gateway;
use crate::setup::{Answer, Origin, Proxy};

/// The response of an upstream that sends its own CORS headers.
const OK: &str = "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nAccess-Control-Allow-Origin: null\r\n\
                  access-control-expose-headers: X-Up\r\nContent-Length: 2\r\n\r\nok";

const APP: &str = "Origin: https://app.example.org\r\n";

/// The CORS header lines of a response, in order.
fn reported(answer: &Answer) -> Vec<&str> {
    let is_told = |line: &&str| line.starts_with("Access-Control-") || line.starts_with("Vary");
    assert!(!answer.head.contains("access-control-"), "upstream headers are dropped: {}", answer.head);
    answer.head.split("\r\n").filter(is_told).collect()
}

/// Checks the response to a preflight with these fields. The upstream must not get the preflight.
fn check_preflight(cors: &str, fields: &str, expected: &[&str]) {
    let origin = Origin::answering(OK);
    let proxy = gateway(&format!("backend: b, cors: {{ {cors} }}"), &origin);
    let mut client = proxy.connect();
    for _ in 0..2 {
        let answer = client.ask(&format!("OPTIONS /api/x HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
        assert_eq!((answer.status, answer.field("content-length")), (204, None));
        assert_eq!(reported(&answer), expected, "{cors} {fields:?}");
    }
    assert_eq!(origin.connections(), 0);
    let stats = proxy.gateway.stats();
    assert_eq!((stats.by_status.success, stats.errors.values().sum::<u64>()), (2, 0));
}

/// Checks the CORS headers of the response to a request with these fields.
fn check_answer(cors: &str, fields: &str, expected: &[&str]) {
    let origin = Origin::answering(OK);
    let proxy = gateway(&format!("backend: b, cors: {{ {cors} }}"), &origin);
    let answer = proxy.ask(&format!("GET /api/x HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
    assert_eq!((answer.status, answer.body.as_str()), (200, "ok"));
    assert_eq!(reported(&answer), expected, "{cors} {fields:?}");
    assert_eq!(origin.requests(), [format!("GET /api/x HTTP/1.1\r\nHost: h\r\n{fields}\r\n")]);
}

const NAMED: &str = "origins: ['https://app.example.org', 'https://*.example.net'], methods: [PUT, DELETE],
                     headers: [X-One, X-Two], expose: [X-Three], max_age: 10m";

#[test]
fn gateway_responds_to_preflights() {
    let asks = "Access-Control-Request-Method: PUT\r\nAccess-Control-Request-Headers: x-one\r\n";
    let leave = [
        "Access-Control-Allow-Methods: PUT, DELETE",
        "Access-Control-Allow-Headers: X-One, X-Two",
        "Access-Control-Max-Age: 600",
        "Vary: Origin",
    ];
    for origin in ["https://app.example.org", "https://a.b.example.net"] {
        let allow = format!("Access-Control-Allow-Origin: {origin}");
        let expected: Vec<&str> = std::iter::once(allow.as_str()).chain(leave).collect();
        check_preflight(NAMED, &format!("Origin: {origin}\r\n{asks}"), &expected);
    }
    for stranger in ["https://evil.test", "http://app.example.org", "https://example.net", "null"] {
        check_preflight(NAMED, &format!("Origin: {stranger}\r\n{asks}"), &["Vary: Origin"]);
    }
    check_preflight(
        "origins: ['*'], methods: ['*'], headers: ['*', Authorization]",
        &format!("{APP}{asks}"),
        &[
            "Access-Control-Allow-Origin: *",
            "Access-Control-Allow-Methods: *",
            "Access-Control-Allow-Headers: *, Authorization",
        ],
    );
    check_preflight("origins: ['*']", &format!("{APP}{asks}"), &["Access-Control-Allow-Origin: *"]);
}

#[test]
fn with_credentials_lists_names_instead_of_wildcards() {
    check_preflight(
        "origins: ['https://app.example.org'], methods: ['*'], headers: ['*'], credentials: true",
        &format!("{APP}Access-Control-Request-Method: PATCH\r\nAccess-Control-Request-Headers: x-a,x-b\r\n"),
        &[
            "Access-Control-Allow-Origin: https://app.example.org",
            "Access-Control-Allow-Credentials: true",
            "Access-Control-Allow-Methods: PATCH",
            "Access-Control-Allow-Headers: x-a,x-b",
            "Vary: Origin",
            "Vary: Access-Control-Request-Method",
            "Vary: Access-Control-Request-Headers",
        ],
    );
}

#[test]
fn responses_allow_only_configured_origins() {
    let named = [
        "Access-Control-Allow-Origin: https://app.example.org",
        "Access-Control-Expose-Headers: X-Three",
        "Vary: Origin",
    ];
    check_answer(NAMED, APP, &named);
    check_answer(NAMED, "", &["Vary: Origin"]);
    check_answer(NAMED, "Origin: https://evil.test\r\n", &["Vary: Origin"]);
    check_answer(NAMED, &format!("{APP}{APP}"), &["Vary: Origin"]);
    let every = ["Access-Control-Allow-Origin: *", "Access-Control-Expose-Headers: *"];
    check_answer("origins: ['*'], expose: ['*']", APP, &every);
    check_answer("origins: ['*'], expose: ['*']", "", &[]);
    check_answer(
        "origins: ['https://app.example.org'], credentials: true",
        APP,
        &[
            "Access-Control-Allow-Origin: https://app.example.org",
            "Access-Control-Allow-Credentials: true",
            "Vary: Origin",
        ],
    );
}

#[test]
fn forwards_options_that_are_no_preflight() {
    let origin = Origin::answering(OK);
    let proxy = gateway(&format!("backend: b, cors: {{ {NAMED} }}"), &origin);
    for fields in [APP, "Access-Control-Request-Method: PUT\r\n", ""] {
        let answer = proxy.ask(&format!("OPTIONS /api HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
        assert_eq!(answer.body, "ok", "{fields:?}");
    }
    let preflight = format!("{APP}Access-Control-Request-Method: PUT\r\n");
    let answer = proxy.ask(&format!("GET /api HTTP/1.1\r\nHost: h\r\n{preflight}\r\n"));
    assert_eq!(answer.body, "ok");
    assert_eq!(origin.requests().len(), 4);
}

#[test]
fn adds_cors_headers_to_its_own_responses() {
    let text = "listeners: [{ address: 127.0.0.1:0 }]\nworkers: 1\nbackends: { e: { endpoints: [] } }\n\
                routes: [\
                  { path: /none, backend: e, cors: { origins: ['https://app.example.org'] } }, \
                  { path: /shut, backend: e, tokens: t.lst, cors: { origins: ['https://app.example.org'] } }, \
                  { path: /away, redirect: { host: b }, cors: { origins: ['https://app.example.org'] } }, \
                  { path: /here, respond: { body: hi }, cors: { origins: ['https://app.example.org'] } }]\n";
    let proxy = Proxy::with_files(text, &[("t.lst", "one\n")]);
    for (path, status) in [("/none", 503), ("/shut", 401), ("/away", 302), ("/here", 200)] {
        let answer = proxy.ask(&format!("GET {path} HTTP/1.1\r\nHost: h\r\n{APP}\r\n"));
        assert_eq!(answer.status, status);
        let expected = ["Access-Control-Allow-Origin: https://app.example.org", "Vary: Origin"];
        assert_eq!(reported(&answer), expected, "{path}");
    }
    let preflight = format!("{APP}Access-Control-Request-Method: GET\r\n");
    let answer = proxy.ask(&format!("OPTIONS /shut HTTP/1.1\r\nHost: h\r\n{preflight}\r\n"));
    assert_eq!(answer.status, 204, "a preflight needs no token");
}

#[test]
fn responds_to_preflights_with_http_1_0_or_a_body() {
    let origin = Origin::answering(OK);
    let proxy = gateway("backend: b, cors: { origins: ['*'] }", &origin);
    let fields = format!("{APP}Access-Control-Request-Method: PUT\r\n");
    let mut client = proxy.connect();
    let answer = client.ask(&format!("OPTIONS /api HTTP/1.0\r\n{fields}\r\n"));
    assert_eq!((answer.status, answer.field("connection")), (204, Some("close")));
    assert!(client.is_ended());
    let mut client = proxy.connect();
    let with_body = format!("OPTIONS /api HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n{fields}\r\nhi");
    assert_eq!(client.ask(&with_body).status, 204);
    assert_eq!(client.ask(&with_body).status, 204);
}
