//! Responses, well-formed and malformed.

use weir_http::{FieldSlots, Framing, HeadLimits, ResponseTo, parse_response};

use crate::property::{self, Side};

/// Checks how a response is read, wherever the input is split. `expected` is a description of the response, or the
/// kind of error.
fn check(input: &str, request_was: ResponseTo, expected: Result<&str, &str>) {
    property::check(Side::Responses(request_was), input.as_bytes(), 3);
    let mut slots = FieldSlots::new();
    let described = match parse_response(input.as_bytes(), request_was, &HeadLimits::default(), &mut slots) {
        Err(error) => Err(error.kind()),
        Ok(None) => Ok("more".to_owned()),
        Ok(Some(head)) => {
            let framing = match head.framing {
                Framing::None => "none".to_owned(),
                Framing::Length(body_bytes) => body_bytes.to_string(),
                Framing::Chunked => "chunked".to_owned(),
                Framing::UntilClose => "until close".to_owned(),
            };
            let mut text = format!("{} '{}' body {framing}", head.status, head.reason);
            for (word, is_so) in
                [(" close", !head.keep_alive), (" interim", head.interim), (" upgrade", head.upgrade)]
            {
                text.push_str(if is_so { word } else { "" });
            }
            Ok(text)
        }
    };
    assert_eq!(described.as_deref().map_err(|kind| *kind), expected, "{input:?}");
}

#[test]
fn status_method_and_fields_decide_the_framing() {
    use ResponseTo::{Connect, Head, Other};
    for (start, lines, request_was, expected) in [
        ("HTTP/1.1 200 OK", "Content-Length: 5", Other, "200 'OK' body 5"),
        ("HTTP/1.1 200 OK", "Content-Length: 5", Head, "200 'OK' body none"),
        ("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", Head, "200 'OK' body none"),
        ("HTTP/1.1 200 OK", "Transfer-Encoding: chunked", Other, "200 'OK' body chunked"),
        ("HTTP/1.1 200 OK", "X: y", Other, "200 'OK' body until close close"),
        ("HTTP/1.1 200 OK", "Connection: keep-alive", Other, "200 'OK' body until close close"),
        ("HTTP/1.1 200 OK", "Content-Length: 0\r\nConnection: close", Other, "200 'OK' body 0 close"),
        ("HTTP/1.0 200 OK", "Content-Length: 0", Other, "200 'OK' body 0 close"),
        ("HTTP/1.0 200 OK", "Content-Length: 0\r\nConnection: keep-alive", Other, "200 'OK' body 0"),
        ("HTTP/1.1 204 No Content", "X: y", Other, "204 'No Content' body none"),
        ("HTTP/1.1 204 No Content", "Content-Length: 5", Other, "204 'No Content' body none"),
        ("HTTP/1.1 304 Not Modified", "Content-Length: 5", Other, "304 'Not Modified' body none"),
        ("HTTP/1.1 100 Continue", "X: y", Other, "100 'Continue' body none interim"),
        ("HTTP/1.1 103 Early Hints", "Link: </a>", Other, "103 'Early Hints' body none interim"),
        (
            "HTTP/1.1 101 Switching Protocols",
            "Upgrade: x",
            Other,
            "101 'Switching Protocols' body none upgrade",
        ),
        ("HTTP/1.1 200 OK", "Content-Length: 5", Connect, "200 'OK' body none upgrade"),
        ("HTTP/1.1 407 No", "Content-Length: 5", Connect, "407 'No' body 5"),
        ("HTTP/1.1 200 ", "Content-Length: 0", Other, "200 '' body 0"),
        ("HTTP/1.1 200", "Content-Length: 0", Other, "200 '' body 0"),
        ("HTTP/1.1 599 It's \t all", "Content-Length: 0", Other, "599 'It's \t all' body 0"),
        ("HTTP/1.1 999 Request denied", "Content-Length: 0", Other, "999 'Request denied' body 0"),
        ("HTTP/1.1 200 \u{e9}", "Content-Length: 0", Other, "200 '' body 0"),
    ] {
        check(&format!("{start}\r\n{lines}\r\n\r\n"), request_was, Ok(expected));
    }
}

#[test]
fn malformed_responses_are_rejected() {
    for (input, expected) in [
        ("\r\nHTTP/1.1 200 OK\r\n\r\n", "empty_lines"),
        ("HTTP/1.1 99 OK\r\n\r\n", "status"),
        ("HTTP/1.1 099 OK\r\n\r\n", "status"),
        ("HTTP/1.1 2000 OK\r\n\r\n", "status"),
        ("HTTP/1.1  200 OK\r\n\r\n", "status"),
        ("HTTP/1.1 20x OK\r\n\r\n", "status"),
        ("HTTP/1.1\r\n\r\n", "version"),
        ("HTTP/2 200\r\n\r\n", "version"),
        ("HTTP/2.0 200\r\n\r\n", "version_unsupported"),
        ("ICY 200 OK\r\n\r\n", "version"),
        ("http/1.1 200 OK\r\n\r\n", "version"),
        ("HTTP/1.1 200 OK\nX: y\r\n\r\n", "bare_lf"),
        ("HTTP/1.1 200\nX: y\r\n\r\n", "bare_lf"),
        ("HTTP/1.1 200 OK\r\nX: y\n\r\n", "bare_lf"),
        ("HTTP/1.1 200 OK\r\nX: y\r\n\n", "bare_lf"),
        ("HTTP/1.1 200 O\rK\r\n\r\n", "bare_cr"),
        ("HTTP/1.1 200 O\u{1}K\r\n\r\n", "reason"),
        ("HTTP/1.1 200 O\u{0}K\r\n\r\n", "nul"),
        ("HTTP/1.1 200 OK\r\nX : y\r\n\r\n", "space_before_colon"),
        ("HTTP/1.1 200 OK\r\nX: y\r\n z\r\n\r\n", "folding"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", "length_repeated"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\n", "length_repeated"),
        ("HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n", "length_invalid"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "length_and_coding"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "coding_unknown"),
        ("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "coding_in_http10"),
        (
            "HTTP/1.1 200 OK\r\nConnection: Content-Length\r\nContent-Length: 1\r\n\r\n",
            "connection_names_framing",
        ),
    ] {
        check(input, ResponseTo::Other, Err(expected));
    }
}

#[test]
fn large_headers_are_rejected() {
    let limits = HeadLimits { head_bytes: 64, ..HeadLimits::default() };
    let input = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(64));
    let parse = |len: usize| {
        parse_response(&input.as_bytes()[..len], ResponseTo::Other, &limits, &mut FieldSlots::new())
            .map(|head| head.is_some())
    };
    assert_eq!(parse(63), Ok(false));
    assert_eq!(parse(64).map_err(|error| error.kind()), Err("too_large"));
}
