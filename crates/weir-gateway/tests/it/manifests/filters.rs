//! Filters of rules: headers, mirroring, CORS.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use super::served::{Served, ask, backend, echo, origin, route, to};

/// A rule for paths below `path`, with these filters.
fn rule(path: &str, filters: &str) -> String {
    format!(
        "    - {{ matches: [{{ path: {{ value: {path} }} }}], filters: [{filters}], backendRefs: [{}] }}\n",
        to("a")
    )
}

/// Lines with one of these prefixes.
fn lines<'a>(text: &'a str, starts: &[&str]) -> Vec<&'a str> {
    text.lines().filter(|line| starts.iter().any(|start| line.starts_with(start))).collect()
}

#[test]
fn fields_are_removed_then_set_then_added() {
    let own = origin(|head, stream| {
        let fields = "X-Up: own\r\nx-gone: own\r\n";
        let answer = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n{head}", head.len());
        // The gateway may have disconnected.
        let _ = stream.write_all(answer.as_bytes());
    });
    let cases: [(&str, &[&str]); 5] = [
        ("add: [{ name: x-up, value: ours }]", &["X-Up: own", "x-gone: own", "x-up: ours"]),
        (
            "set: [{ name: x-up, value: ours }, { name: X-New, value: '1' }]",
            &["x-gone: own", "X-New: 1", "x-up: ours"],
        ),
        ("remove: [X-Gone]", &["X-Up: own"]),
        (
            "set: [{ name: X-Up, value: '1' }], add: [{ name: X-Up, value: '2' }], remove: [X-Up, X-Gone]",
            &["X-Up: 1", "X-Up: 2"],
        ),
        ("set: [{ name: X-Up, value: '1' }, { name: x-up, value: '2' }], remove: [x-gone]", &["X-Up: 1"]),
    ];
    let rules = cases.iter().enumerate().map(|(number, (changes, _))| {
        let request = format!("{{ type: RequestHeaderModifier, requestHeaderModifier: {{ {changes} }} }}");
        let response = format!("{{ type: ResponseHeaderModifier, responseHeaderModifier: {{ {changes} }} }}");
        rule(&format!("/request/{number}"), &request) + &rule(&format!("/response/{number}"), &response)
    });
    let spec = format!("  rules:\n{}", rules.collect::<String>());
    let (_served, address) = Served::at("127.7.9.1", &[backend("a", own), route("r", "", &spec)]);
    for (number, (changes, expected)) in cases.into_iter().enumerate() {
        let fields = "Host: h\r\nX-Up: own\r\nx-gone: own\r\n";
        let sides = |path: &str| {
            let answer = ask(address, &format!("GET {path}/{number}\r\n{fields}"));
            answer.split_once("\n\n").map(|(head, body)| (head.to_owned(), body.to_owned())).expect("both")
        };
        let starts = ["X-", "x-"];
        let (head, passed) = sides("/request");
        assert_eq!(lines(&passed, &starts), expected, "{changes}");
        assert_eq!(lines(&head, &starts), ["X-Up: own", "x-gone: own"], "{changes}");
        let (head, passed) = sides("/response");
        assert_eq!(lines(&head, &starts), expected, "{changes}");
        assert_eq!(lines(&passed, &starts), ["X-Up: own", "x-gone: own"], "{changes}");
    }
}

/// An origin that reports the requests that it receives.
fn recording() -> (SocketAddr, Receiver<String>) {
    let (sender, received) = channel();
    let address = origin(move |head, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        // The test may be over.
        let _ = sender.send(head.to_owned());
    });
    (address, received)
}

#[test]
fn requests_are_mirrored_by_percent_and_by_fraction() {
    const REQUESTS: usize = 8;
    for (share, copies) in [
        ("", 8),
        (", percent: 100", 8),
        (", percent: 50", 4),
        (", percent: 0", 0),
        (", fraction: { numerator: 1, denominator: 4 }", 2),
        (", fraction: { numerator: 25 }", 2),
    ] {
        let (mirror, received) = recording();
        let filter =
            format!("{{ type: RequestMirror, requestMirror: {{ backendRef: {}{share} }} }}", to("m"));
        let documents = [
            backend("a", echo("a")),
            backend("m", mirror),
            route("r", "", &format!("  rules:\n{}", rule("/", &filter))),
        ];
        let (served, address) = Served::at("127.7.9.2", &documents);
        for _ in 0..REQUESTS {
            let answer = ask(address, "GET /x\r\nHost: h\r\n");
            assert!(answer.ends_with("\n\na: GET /x HTTP/1.1\nHost: h\n\n"), "{answer}");
        }
        for _ in 0..copies {
            let copy = received.recv_timeout(Duration::from_secs(20)).expect("a copy");
            assert_eq!(copy, "GET /x HTTP/1.1\r\nHost: h\r\n\r\n", "{share}");
        }
        assert_eq!(served.gateway.stats().upstream.mirror.copies, copies, "{share}");
    }
}

#[test]
fn a_backend_may_mirror_to_itself() {
    let (own, received) = recording();
    let filter = format!("{{ type: RequestMirror, requestMirror: {{ backendRef: {} }} }}", to("a"));
    let spec = format!("  rules:\n{}", rule("/", &filter));
    let (_served, address) = Served::at("127.7.9.3", &[backend("a", own), route("r", "", &spec)]);
    assert!(ask(address, "GET /x\r\nHost: h\r\n").starts_with("HTTP/1.1 200 "));
    for _ in 0..2 {
        assert!(received.recv_timeout(Duration::from_secs(20)).is_ok());
    }
}

#[test]
fn cors_follows_gateway_api() {
    const APP: &str = "Origin: https://app.test\r\n";
    const ASKS: &str = "Access-Control-Request-Method: PUT\r\nAccess-Control-Request-Headers: x-a\r\n";
    let named = "allowOrigins: ['https://app.test'], allowCredentials: true, allowMethods: [PUT, DELETE],
                 allowHeaders: [X-A, X-B], exposeHeaders: [X-C]";
    let every = "allowOrigins: ['*'], allowCredentials: true, allowMethods: ['*'], allowHeaders: ['*'],
                 exposeHeaders: ['*', X-C], maxAge: 60";
    let plain = "allowOrigins: ['*'], allowMethods: ['*'], exposeHeaders: ['*']";
    let own = "Access-Control-Allow-Origin: https://app.test";
    let with_credentials = "Access-Control-Allow-Credentials: true";
    let (by_origin, five) = ("Vary: Origin", "Access-Control-Max-Age: 5");
    // Each case: the configuration, the `Origin` header, and the expected headers of the preflight response and of the
    // GET response.
    let cases: [(&str, &str, &[&str], &[&str]); 8] = [
        (
            named,
            APP,
            &[
                own,
                with_credentials,
                "Access-Control-Allow-Methods: PUT, DELETE",
                "Access-Control-Allow-Headers: X-A, X-B",
                five,
                by_origin,
            ],
            &[own, with_credentials, "Access-Control-Expose-Headers: X-C", by_origin],
        ),
        (named, "Origin: https://other.test\r\n", &[by_origin], &[by_origin]),
        (
            every,
            APP,
            &[
                own,
                with_credentials,
                "Access-Control-Allow-Methods: PUT",
                "Access-Control-Allow-Headers: x-a",
                "Access-Control-Max-Age: 60",
                by_origin,
                "Vary: Access-Control-Request-Method",
                "Vary: Access-Control-Request-Headers",
            ],
            &[own, with_credentials, "Access-Control-Expose-Headers: X-C", by_origin],
        ),
        (
            plain,
            APP,
            &["Access-Control-Allow-Origin: *", "Access-Control-Allow-Methods: *", five],
            &["Access-Control-Allow-Origin: *", "Access-Control-Expose-Headers: *"],
        ),
        ("allowOrigins: ['https://*']", APP, &[own, five, by_origin], &[own, by_origin]),
        ("allowOrigins: ['http://*', 'https://*:8443']", APP, &[by_origin], &[by_origin]),
        (
            "allowOrigins: ['https://*:8443']",
            "Origin: https://app.test:8443\r\n",
            &["Access-Control-Allow-Origin: https://app.test:8443", five, by_origin],
            &["Access-Control-Allow-Origin: https://app.test:8443", by_origin],
        ),
        ("", APP, &[by_origin], &[by_origin]),
    ];
    let rules = cases.iter().enumerate().map(|(number, (cors, ..))| {
        rule(&format!("/{number}"), &format!("{{ type: CORS, cors: {{ {cors} }} }}"))
    });
    let spec = format!("  rules:\n{}", rules.collect::<String>());
    let (_served, address) = Served::at("127.7.9.4", &[backend("a", echo("a")), route("r", "", &spec)]);
    for (number, (cors, origin, preflight, response)) in cases.into_iter().enumerate() {
        let check = |request: &str, status: &str, expected: &[&str]| {
            let answer = ask(address, request);
            let head = answer.split("\n\n").next().unwrap_or_default();
            assert!(head.starts_with(status), "{cors}: {answer}");
            assert_eq!(lines(head, &["Access-Control-", "Vary"]), expected, "{cors}: {request}");
        };
        check(&format!("OPTIONS /{number}\r\nHost: h\r\n{origin}{ASKS}"), "HTTP/1.1 204 ", preflight);
        check(&format!("GET /{number}\r\nHost: h\r\n{origin}"), "HTTP/1.1 200 ", response);
    }
}
