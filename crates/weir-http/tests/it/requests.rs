//! Requests, well-formed and malformed.

use weir_http::{FieldSlots, Framing, HeadLimits, Version, parse_request};

use crate::property::{self, Side};

/// Checks how a request is read, wherever the input is split. `expected` is a description of the request, or the
/// kind of error.
fn check(input: &str, expected: Result<&str, &str>) {
    property::check(Side::Requests, input.as_bytes(), 3);
    assert_eq!(
        describe(input.as_bytes(), &HeadLimits::default()).as_deref().map_err(|kind| *kind),
        expected,
        "{input:?}"
    );
}

fn describe(input: &[u8], limits: &HeadLimits) -> Result<String, &'static str> {
    let mut slots = FieldSlots::new();
    let head = match parse_request(input, limits, &mut slots) {
        Ok(Some(head)) => head,
        Ok(None) => return Ok("more".to_owned()),
        Err(error) => return Err(error.kind()),
    };
    let framing = match head.framing {
        Framing::None => "none".to_owned(),
        Framing::Length(body_bytes) => body_bytes.to_string(),
        Framing::Chunked => "chunked".to_owned(),
        Framing::UntilClose => unreachable!("no request ends with the connection"),
    };
    let mut text = format!("{} {} at {} body {framing}", head.method, head.path_and_query, head.host);
    for (word, is_so) in [
        (" 1.0", head.version == Version::Http10),
        (" close", !head.keep_alive),
        (" upgrade", head.upgrade),
        (" expect", head.expect_continue),
    ] {
        text.push_str(if is_so { word } else { "" });
    }
    Ok(text)
}

/// A request to `/` on host `a` with these additional header lines.
fn with(lines: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n")
}

#[test]
fn well_formed_requests_are_accepted() {
    for (input, expected) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / at a body none"),
        ("GET / HTTP/1.1\r\nHost:a\r\n\r\n", "GET / at a body none"),
        ("GET / HTTP/1.1\r\nHOST: \t a:80 \t\r\n\r\n", "GET / at a:80 body none"),
        ("get / HTTP/1.1\r\nHost: a\r\n\r\n", "get / at a body none"),
        ("M-SEARCH /?a=%20|{} HTTP/1.1\r\nHost: a\r\n\r\n", "M-SEARCH /?a=%20|{} at a body none"),
        ("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / at a body none"),
        ("GET / HTTP/1.0\r\n\r\n", "GET / at  body none 1.0 close"),
        ("GET / HTTP/1.0\r\nHost: a\r\nConnection: Keep-Alive\r\n\r\n", "GET / at a body none 1.0"),
        ("GET http://a/b?c HTTP/1.1\r\nHost: A\r\n\r\n", "GET /b?c at A body none"),
        ("GET http://a HTTP/1.0\r\n\r\n", "GET / at a body none 1.0 close"),
        ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS * at a body none"),
        ("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", "CONNECT  at a:1 body none"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX-\u{7e}: \u{e9}\r\n\r\n", "GET / at a body none"),
        ("GET / HTTP/1.1\r\nHost: a\r\nX:\r\n\r\n", "GET / at a body none"),
    ] {
        check(input, Ok(expected));
    }
}

#[test]
fn well_formed_fields_are_accepted() {
    for (lines, expected) in [
        ("Content-Length: 5", "body 5"),
        ("Content-Length: 0", "body 0"),
        ("Content-Length: 0005", "body 5"),
        ("Content-Length: 9223372036854775807", "body 9223372036854775807"),
        ("Transfer-Encoding: chunked", "body chunked"),
        ("TRANSFER-ENCODING: CHUNKED", "body chunked"),
        ("Connection: close", "body none close"),
        ("Connection: x, ,Close", "body none close"),
        ("Connection: x\r\nConnection: close, keep-alive", "body none close"),
        ("Connection: upgrade\r\nUpgrade: h2c", "body none upgrade"),
        ("Upgrade: h2c", "body none"),
        ("Connection: upgrade", "body none"),
        ("Expect: 100-Continue\r\nContent-Length: 1", "body 1 expect"),
        ("Expect: 100-continue\r\nTransfer-Encoding: chunked", "body chunked expect"),
        ("Expect: 100-continue", "body none"),
    ] {
        check(&with(lines), Ok(&format!("POST / at a {expected}")));
    }
    let http10 = "POST / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n";
    check(http10, Ok("POST / at  body 1 1.0 close"));
}

#[test]
fn malformed_request_lines_are_rejected() {
    for (line, expected) in [
        ("GET  / HTTP/1.1", "target"),
        ("GET /  HTTP/1.1", "version"),
        ("GET / HTTP/1.1 ", "version"),
        ("GET /", "target"),
        ("GET", "method"),
        (" GET / HTTP/1.1", "method"),
        ("\tGET / HTTP/1.1", "method"),
        ("G@T / HTTP/1.1", "method"),
        ("GET /a b HTTP/1.1", "version"),
        ("GET\t/ HTTP/1.1", "method"),
        ("GET /\t HTTP/1.1", "target_byte"),
        ("GET /\u{7f} HTTP/1.1", "target_byte"),
        ("GET /\u{e9} HTTP/1.1", "target_byte"),
        ("GET /\u{0} HTTP/1.1", "nul"),
        ("GET /#a HTTP/1.1", "target_fragment"),
        ("GET * HTTP/1.1", "target_form"),
        ("GET a:80 HTTP/1.1", "target_form"),
        ("GET a/b HTTP/1.1", "target"),
        ("CONNECT / HTTP/1.1", "target_form"),
        ("CONNECT a HTTP/1.1", "target"),
        ("GET ftp://a/ HTTP/1.1", "target"),
        ("GET http://b/ HTTP/1.1", "host_mismatch"),
        ("GET http://a:80/ HTTP/1.1", "host_mismatch"),
        ("GET http://u@a/ HTTP/1.1", "target"),
        ("GET / http/1.1", "version"),
        ("GET / HTTP/1.2", "version_unsupported"),
        ("GET / HTTP/2.0", "version_unsupported"),
        ("GET / HTTP/0.9", "version_unsupported"),
        ("GET / HTTP/1.10", "version"),
        ("GET / HTTP/11", "version"),
        ("GET / HTTP/1,1", "version"),
        ("GET / XTTP/1.1", "version"),
        ("GET /\r HTTP/1.1", "target"),
        ("GET / HTTP/1.1\r", "bare_cr"),
        ("\r\n\r\n\r\nGET / HTTP/1.1", "empty_lines"),
        ("\nGET / HTTP/1.1", "bare_lf"),
        ("\rGET / HTTP/1.1", "bare_cr"),
    ] {
        check(&format!("{line}\r\nHost: a\r\n\r\n"), Err(expected));
    }
    check("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Err("version_unsupported"));
}

#[test]
fn malformed_fields_are_rejected() {
    for (lines, expected) in [
        ("X : y", "space_before_colon"),
        ("X\t: y", "space_before_colon"),
        ("X y: z", "space_before_colon"),
        (": y", "name_empty"),
        ("X", "name_byte"),
        ("X\u{1}: y", "name_byte"),
        ("X\u{e9}: y", "name_byte"),
        ("X(: y", "name_byte"),
        ("X: y\r\n z", "folding"),
        ("X: y\r\n\tz", "folding"),
        ("X: \u{0}", "nul"),
        ("X\u{0}: y", "nul"),
        ("X: \u{1}", "value_byte"),
        ("X: \u{7f}", "value_byte"),
        ("X: a\rb", "bare_cr"),
        ("X: a\nY: b", "bare_lf"),
        ("X: a\n\r\nGET / HTTP/1.1", "bare_lf"),
        ("Host: a", "host_repeated"),
        ("Content-Length: ", "length_invalid"),
        ("Content-Length: +5", "length_invalid"),
        ("Content-Length: -5", "length_invalid"),
        ("Content-Length: 5 5", "length_invalid"),
        ("Content-Length: 0x5", "length_invalid"),
        ("Content-Length: 5.0", "length_invalid"),
        ("Content-Length: 5,", "length_invalid"),
        ("Content-Length: 5;", "length_invalid"),
        ("Content-Length: 5, 5", "length_repeated"),
        ("Content-Length: 5\r\nContent-Length: 5", "length_repeated"),
        ("Content-Length: 5\r\ncontent-length: 6", "length_repeated"),
        ("Content-Length: 9223372036854775808", "length_overflow"),
        ("Content-Length: 99999999999999999999999", "length_overflow"),
        ("Content-Length: 5\r\nTransfer-Encoding: chunked", "length_and_coding"),
        ("Transfer-Encoding: chunked\r\nContent-Length: 0", "length_and_coding"),
        ("Transfer-Encoding: gzip", "coding_unknown"),
        ("Transfer-Encoding: identity", "coding_unknown"),
        ("Transfer-Encoding: xchunked", "coding_unknown"),
        ("Transfer-Encoding: gzip, chunked", "coding_unknown"),
        ("Transfer-Encoding: chunked, gzip", "chunked_not_last"),
        ("Transfer-Encoding: chunked, chunked", "coding_repeated"),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "coding_repeated"),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", "coding_repeated"),
        ("Transfer-Encoding: ", "coding_invalid"),
        ("Transfer-Encoding: ,chunked", "coding_invalid"),
        ("Transfer-Encoding: \"chunked\"", "coding_invalid"),
        ("Transfer-Encoding: chunked;q=1", "coding_invalid"),
        ("Transfer-Encoding: chun ked", "coding_invalid"),
        ("Transfer-Encoding: \u{b}chunked", "value_byte"),
        ("Transfer-Encoding : chunked", "space_before_colon"),
        ("Transfer-Encoding\u{0}: chunked", "nul"),
        ("Connection: \"close\"", "connection_invalid"),
        ("Connection: content-length", "connection_names_framing"),
        ("Connection: close, Host", "connection_names_framing"),
        ("Connection: a,b,c,d,e,f,g,h\r\nConnection: i,j,k,l,m,n,o,p,q", "connection_too_long"),
        ("Expect: 200-ok", "expectation"),
    ] {
        check(&with(lines), Err(expected));
    }
    let commas = |count: usize| with(&format!("Connection: close{}", ",".repeat(count)));
    check(&commas(127), Ok("POST / at a body none close"));
    check(&commas(128), Err("connection_too_long"));
    check(&with("Connection: ,a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,te,close,"), Ok("POST / at a body none close"));
    check("GET / HTTP/1.1\r\n Host: a\r\n\r\n", Err("space_before_field"));
    check("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", Err("coding_in_http10"));
}

#[test]
fn malformed_hosts_are_rejected() {
    check("GET / HTTP/1.1\r\n\r\n", Err("host_missing"));
    check("GET http://a/ HTTP/1.1\r\n\r\n", Err("host_missing"));
    check("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", Err("host_repeated"));
    for host in [
        "", "a b", "a/b", "a@b", "a:x", "a:99999", "a:80:80", "a\u{e9}", "[::1", "a?b", "a#b", "%zz", "%61",
        "a..", ".a",
    ] {
        check(&format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), Err("host_invalid"));
    }
}

#[test]
fn the_first_of_several_faults_is_reported() {
    let faults = [
        ("GET /#a HTTP/1.1", "target_fragment"),
        ("GET /\u{e9} HTTP/1.1", "target_byte"),
        ("GET / HTTP/2.0", "version_unsupported"),
        ("GET / HTTP/1.1\r\nX: y\nHost: a", "bare_lf"),
        ("GET / HTTP/1.1\r\nX: y\r\n z", "folding"),
    ];
    for (first, expected) in faults {
        for later in ["X : y", "X: \u{0}", "X: y\n", "(: y"] {
            check(&format!("{first}\r\n{later}\r\n\r\n"), Err(expected));
        }
    }
}

#[test]
fn bare_lf_is_rejected_on_every_line() {
    let whole = "POST /a HTTP/1.1\r\nHost: a\r\nX: \r\nContent-Length: 0\r\n\r\n";
    for (at, _) in whole.match_indices("\r\n") {
        let mut bytes = whole.to_owned();
        bytes.remove(at);
        let followed = format!("{bytes}GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        check(&followed, Err("bare_lf"));
    }
}

#[test]
fn size_limits_are_enforced() {
    let limits = HeadLimits { head_bytes: 100, target_bytes: 20, fields: 3 };
    let check = |input: &str, expected: Result<&str, &str>| {
        assert_eq!(
            describe(input.as_bytes(), &limits).as_deref().map_err(|kind| *kind),
            expected,
            "{input:?}"
        );
    };
    let whole = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let padded = |bytes: usize| {
        format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(bytes - whole.len() - 5))
    };
    assert_eq!(padded(100).len(), 100);
    check(&padded(100), Ok("GET / at a body none"));
    check(&padded(101), Err("too_large"));
    check(&padded(101)[..99], Ok("more"));
    check(&padded(101)[..100], Err("too_large"));
    check(
        &format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(19)),
        Ok("GET /aaaaaaaaaaaaaaaaaaa at a body none"),
    );
    check(&format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(20)), Err("target_too_long"));
    check(&format!("GET /{}", "a".repeat(200)), Err("target_too_long"));
    check("GET / HTTP/1.1\r\nHost: a\r\nA: b\r\nC: d\r\n\r\n", Ok("GET / at a body none"));
    check("GET / HTTP/1.1\r\nHost: a\r\nA: b\r\nC: d\r\nE: f\r\n\r\n", Err("too_many_fields"));
    let most = HeadLimits { fields: usize::MAX, ..HeadLimits::default() };
    let fields = "A: b\r\n".repeat(weir_http::FIELDS_MAX - 1);
    assert!(describe(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes(), &most).is_ok());
    let one_more = format!("GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n{fields}\r\n");
    assert_eq!(describe(one_more.as_bytes(), &most), Err("too_many_fields"));
}

#[test]
fn errors_map_to_a_status() {
    for (input, status) in [
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("PRI * HTTP/2.0\r\n\r\n", 505),
        ("GET / HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n", 417),
        ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
    ] {
        let error =
            parse_request(input.as_bytes(), &HeadLimits::default(), &mut FieldSlots::new()).unwrap_err();
        assert_eq!(error.status(), status, "{error}");
    }
}
