//! The response to the client.

use crate::filters::gateway;
use crate::setup::{Answer, Origin, Proxy};

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const OLD_GET: &str = "GET / HTTP/1.0\r\n\r\n";

fn answer_to(request: &str, response: &'static str) -> Answer {
    Proxy::to(Origin::answering(response).address, "").ask(request)
}

/// The gateway's response if the upstream sends `response` and then closes the connection.
fn closing_answer_to(request: &str, response: &'static str) -> Answer {
    let origin = Origin::start(move |served| {
        served.request();
        served.send(response);
    });
    Proxy::to(origin.address, "").ask(request)
}

#[test]
fn forwards_end_to_end_headers_and_drops_hop_by_hop_ones() {
    let answer = answer_to(
        GET,
        "HTTP/1.1 201 Made\r\nConnection: X-Own\r\nX-Own: 1\r\nKeep-Alive: timeout=5\r\nX-Two: 2\r\n\
         Date: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Length: 2\r\n\r\nok",
    );
    let expected =
        "HTTP/1.1 201 Made\r\nX-Two: 2\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Length: 2\r\n\r\n";
    assert_eq!((answer.head.as_str(), answer.body.as_str()), (expected, "ok"));
}

#[test]
fn drops_x_weir_error_of_the_upstream() {
    let response = "HTTP/1.1 103 Early Hints\r\nx-weir-error: no_route\r\nLink: <a>\r\n\r\n\
                    HTTP/1.1 503 Busy\r\nX-Weir-Error: no_route\r\nX-WEIR-ERROR: two\r\nX-Weir-Errors: 3\r\n\
                    Content-Length: 2\r\n\r\nno";
    for route in
        ["backend: b", "backend: b, response_headers: { add: { X-Own: 1 } }, compress: { types: [a/b] }"]
    {
        let origin = Origin::answering(response);
        let proxy = gateway(route, &origin);
        let mut client = proxy.connect();
        client.send("GET /api HTTP/1.1\r\nHost: h\r\n\r\n");
        let answers = [client.response(), client.response()];
        assert_eq!(
            answers.each_ref().map(|answer| answer.error()),
            [(103, "none"), (503, "none")],
            "{route}"
        );
        assert_eq!((answers[0].field("link"), answers[1].field("x-weir-errors")), (Some("<a>"), Some("3")));
        assert_eq!(proxy.ask("GET /none HTTP/1.1\r\nHost: h\r\n\r\n").error(), (404, "no_route"));
    }
}

/// The outer gateway forwards status and body, and adds no error of its own.
#[test]
fn error_of_an_inner_gateway_is_forwarded_in_the_body() {
    let inner =
        Proxy::to(Origin::answering("HTTP/1.1 204 No Content\r\n\r\n").address, "limits: { body: 1B }");
    let outer = Proxy::to(inner.gateway.addresses()[0], "");
    let answer = outer.ask("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab");
    assert_eq!(answer.error(), (413, "none"));
    assert_eq!(answer.body, "413 body_too_large: request body too large\n");
    assert_eq!((inner.errors("body_too_large"), outer.errors("body_too_large")), (1, 0));
}

#[test]
fn adds_a_date_to_a_response_without_one() {
    let answer = answer_to(GET, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    assert!(answer.field("date").is_some_and(|d| d.ends_with(" GMT")));
}

#[test]
fn drops_trailers_and_chunk_extensions() {
    let chunked =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\n1\r\nc\r\n0\r\nX-T: 1\r\n\r\n";
    let answer = answer_to(GET, chunked);
    assert_eq!((answer.body.as_str(), answer.whole), ("abc", true));
    let old = answer_to(OLD_GET, chunked);
    assert_eq!((old.body.as_str(), old.whole, old.field("transfer-encoding")), ("abc", true, None));
    assert_eq!(old.field("connection"), Some("close"));
}

#[test]
fn converts_a_body_until_close_to_chunks() {
    let until_close = "HTTP/1.0 200 OK\r\nX: y\r\n\r\nabc";
    let answer = closing_answer_to(GET, until_close);
    assert_eq!(answer.field("transfer-encoding"), Some("chunked"));
    assert_eq!((answer.body.as_str(), answer.whole), ("abc", true));
    let old = closing_answer_to(OLD_GET, until_close);
    assert_eq!((old.body.as_str(), old.whole), ("abc", true));
}

#[test]
fn bodyless_responses_have_no_body() {
    let origin = Origin::start(|served| {
        while let Some(request) = served.request() {
            served.send(match request.split(' ').next() {
                Some("HEAD") => "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n",
                Some("GET") => "HTTP/1.1 304 Not Modified\r\nContent-Length: 100\r\n\r\n",
                _ => "HTTP/1.1 204 No Content\r\n\r\n",
            });
        }
    });
    let proxy = Proxy::to(origin.address, "");
    let mut client = proxy.connect();
    client.send("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
    let head = client.head();
    assert_eq!((head.status, head.field("content-length")), (200, Some("100")));
    assert_eq!(client.ask(GET).status, 304);
    assert_eq!(client.ask("DELETE / HTTP/1.1\r\nHost: h\r\n\r\n").status, 204);
    assert_eq!(client.ask(GET).status, 304);
    assert_eq!(origin.connections(), 1);
}

#[test]
fn forwards_interim_responses() {
    let interim =
        "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let proxy = Proxy::to(Origin::answering(interim).address, "");
    let mut client = proxy.connect();
    let hints = client.ask(GET);
    assert_eq!(hints.head, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
    assert_eq!(client.response().body, "ok");
    assert_eq!(proxy.ask(OLD_GET).body, "ok", "HTTP/1.0 has no interim responses");
    let stats = proxy.gateway.stats();
    assert_eq!((stats.by_status.informational, stats.responses), (1, 2));
}

#[test]
fn forwards_100_continue_of_the_upstream() {
    let origin = Origin::start(|served| {
        let head = served.read_until("\r\n\r\n").unwrap();
        assert!(head.contains("Expect: 100-continue"));
        served.send("HTTP/1.1 100 Continue\r\n\r\n");
        let body = served.read_exact(3).unwrap();
        served.send(&format!("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{body}"));
    });
    let proxy = Proxy::to(origin.address, "");
    let mut client = proxy.connect();
    let go_on = client.ask("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(go_on.status, 100);
    assert_eq!(client.ask("abc").body, "abc");
}

#[test]
fn closes_the_connection_if_the_client_requests_it() {
    let proxy = Proxy::to(Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").address, "");
    for (request, connection) in [
        ("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", Some("close")),
        (OLD_GET, Some("close")),
        ("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", Some("keep-alive")),
        (GET, None),
    ] {
        let mut client = proxy.connect();
        let answer = client.ask(request);
        assert_eq!((answer.body.as_str(), answer.field("connection")), ("ok", connection));
        match connection {
            Some("close") => assert!(client.is_closed()),
            _ => assert_eq!(client.ask(GET).body, "ok"),
        }
    }
}

#[test]
fn reads_a_response_byte_by_byte() {
    let origin = Origin::start(|served| {
        served.request();
        served.stream.set_nodelay(true).unwrap();
        for byte in "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n".split("") {
            served.send(byte);
        }
    });
    let answer = Proxy::to(origin.address, "").ask(GET);
    assert_eq!((answer.body.as_str(), answer.whole), ("ab", true));
}
