//! Valid and invalid recorded sessions.

use super::tests::{base, check, shown};
use super::*;
use crate::spec::Body;

/// A recorded session with two entries. `request` is the request of the second entry, which begins in line 4.
fn har(request: &str) -> String {
    let first = "{\"request\": {\"method\": \"GET\", \"url\": \"http://a/first\"}}";
    format!(
        "{{\"log\": {{\"version\": \"1.2\", \"creator\": {{}}, \"entries\": [\n{first},\n{{\"time\": 1,\n\"request\": {request}}}]}}}}\n"
    )
}

/// A session of GET requests, each given as URL, status and content type of the response.
fn session(entries: &[(&str, u16, &str)]) -> String {
    let entry = |(url, status, mime_type): &(&str, u16, &str)| {
        serde_json::json!({
            "request": { "method": "GET", "url": url },
            "response": { "status": status, "content": { "mimeType": mime_type } },
        })
    };
    let entries: Vec<_> = entries.iter().map(entry).collect();
    serde_json::json!({ "log": { "entries": entries } }).to_string()
}

/// Returns the paths of the requests that are sent, in order, and a text about the entries that were left out.
fn sent(text: &str, base: &Base) -> (Vec<String>, String) {
    let mut paths = Vec::new();
    let left_out = parse_each("s.har", text.as_bytes(), base, 100, &mut |request| {
        paths.push(request.path);
        Ok(())
    });
    (paths, left_out.unwrap().unwrap().to_string())
}

#[test]
fn recorded_sessions_become_requests() {
    let first = "GET /first | Host: target | X-Base: 1";
    let request = "{\"method\": \"POST\", \"url\": \"https://A:443/x?v={\\\"a\\\":\u{e9}}#part\", \"httpVersion\": \"h2\", \
                   \"headers\": [{\"name\": \":authority\", \"value\": \"a\"}, {\"name\": \"Host\", \"value\": \"z\"}, \
                   {\"name\": \"content-length\", \"value\": \"9\"}, {\"name\": \"Connection\", \"value\": \"close\"}, \
                   {\"name\": \"cookie\", \"value\": \"a=1\"}, {\"name\": \"cookie\", \"value\": \"b=2\"}], \
                   \"postData\": {\"mimeType\": \"text/plain\", \"text\": \"hello\"}}";
    let second = "POST /x?v=%7B\"a\":%C3%A9%7D | Host: target | X-Base: 1 | cookie: a=1; b=2 | body hello";
    check("s.har", &har(request), &[first, second]);
    check("session.json", &har(request), &[first, second]);
    let body = |post_data: &str| {
        let request = format!("{{\"method\": \"PUT\", \"url\": \"http://a/\", \"postData\": {post_data}}}");
        parse("s.har", har(&request).as_bytes(), &base()).unwrap()[1].body.clone()
    };
    assert_eq!(body("null"), Body::Text(String::new()));
    assert_eq!(body("{\"mimeType\": \"\"}"), Body::Text(String::new()));
    assert_eq!(body("{\"text\": \"AP8=\", \"encoding\": \"base64\"}"), Body::Base64("AP8=".into()));
    assert_eq!(
        body("{\"text\": \"{seq}\"}"),
        Body::Base64("e3NlcX0=".into()),
        "placeholders in recorded text are not expanded"
    );
    let cookies = "{\"method\": \"GET\", \"url\": \"http://a/\", \"cookies\": [{\"name\": \"a\", \"value\": \"1\"}, \
                   {\"name\": \"b\", \"value\": \"2\"}]}";
    check("s.har", &har(cookies), &[first, "GET / | Host: target | X-Base: 1 | Cookie: a=1; b=2"]);
    for other in ["data:text/plain,x", "blob:http://a/1", "wss://a/x", "chrome-extension://abc/x.js"] {
        check("s.har", &har(&format!("{{\"method\": \"GET\", \"url\": \"{other}\"}}")), &[first]);
    }
}

#[test]
fn a_session_recorded_over_https_is_sent_to_the_target_in_order() {
    let text = session(&[
        ("http://shop.example/", 301, "text/html"),
        ("https://shop.example/", 200, "text/html; charset=utf-8"),
        ("https://cdn.example/a.js", 200, "text/javascript"),
        ("https://shop.example/b", 200, "application/json"),
        ("https://cdn.example/c.css", 200, "text/css"),
        ("https://ads.example/", 200, "text/html"),
        ("https://shop.example:8443/other", 200, "application/json"),
        ("data:text/plain,x", 200, "text/plain"),
        ("https://shop.example/live", 101, ""),
        ("https://shop.example/b", 200, "application/json"),
        ("https://shop.example", 200, "text/html"),
    ]);
    let (paths, left_out) = sent(&text, &base());
    assert_eq!(paths, ["/", "/", "/b", "/b", "/"]);
    assert_eq!(
        left_out,
        "left out 6 of 11 entries: other hosts (cdn.example 2, ads.example 1, shop.example:8443 1), not HTTP (2)"
    );
    let https = Base { is_https: true, ..base() };
    assert_eq!(sent(&text, &https).0, paths, "to a target of https too");
}

#[test]
fn the_recorded_host_is_the_target_or_the_host_of_the_first_page() {
    let to = |host: &str| Base {
        request: RequestSpec { headers: vec![("Host".into(), host.into())], ..RequestSpec::default() },
        ..base()
    };
    let text = session(&[
        ("https://metrics.example/ping", 204, ""),
        ("https://login.example/", 302, "text/html"),
        ("https://shop.example/page", 200, "TEXT/HTML"),
        ("https://login.example/token", 200, "application/json"),
    ]);
    assert_eq!(sent(&text, &to("127.0.0.1:8080")).0, ["/page"]);
    assert_eq!(sent(&text, &to("Login.example:80")).0, ["/", "/token"], "the target's own");
    assert_eq!(sent(&text, &to("{domain}")).0, ["/page"]);
    let calls =
        session(&[("https://a/1", 200, "application/json"), ("https://b/2", 200, "application/json")]);
    assert_eq!(sent(&calls, &base()).0, ["/1"], "without a page, the host of the first entry");
}

#[test]
fn origin_and_referer_are_mapped_to_the_target() {
    let request = "{\"method\": \"GET\", \"url\": \"https://a/\", \"headers\": [\
                   {\"name\": \"origin\", \"value\": \"https://a\"}, {\"name\": \"Referer\", \"value\": \"https://a/p?q\"}, \
                   {\"name\": \"X-From\", \"value\": \"https://a\"}]}";
    let requests = parse("s.har", har(request).as_bytes(), &base()).unwrap();
    assert_eq!(
        shown(&requests[1]),
        "GET / | Host: target | X-Base: 1 | origin: http://target | Referer: http://target/p?q | X-From: https://a"
    );
    let other = request.replace("https://a/p?q", "https://search.example/");
    let requests = parse("s.har", har(&other).as_bytes(), &base()).unwrap();
    assert!(shown(&requests[1]).contains("Referer: https://search.example/"), "another host stays");
}

#[test]
fn errors_of_recorded_sessions_have_lines() {
    let check = |request: &str, expected: &str| {
        let error = parse("s.har", har(request).as_bytes(), &base()).unwrap_err();
        assert_eq!(error.to_string(), format!("s.har:4:{expected}"));
    };
    check("{\"method\": \"G T\", \"url\": \"http://a/\"}", "12: method: `G T` is not a method");
    check(
        "{\"method\": \"GET\", \"url\": \"http://a/\", \"headers\": [{\"name\": \"a\", \"value\": \"{uuid}\"}]}",
        "12: the recorded value of `a` contains a placeholder",
    );
    check(
        "{\"method\": \"GET\", \"url\": \"http://a/\", \"cookies\": [{\"name\": \"a\", \"value\": \"{seq}\"}]}",
        "12: a recorded cookie contains a placeholder",
    );
    check(
        "{\"method\": \"PUT\", \"url\": \"http://a/\", \"postData\": {\"params\": [{}]}}",
        "12: `postData` has parameters but no text",
    );
    check(
        "{\"method\": \"PUT\", \"url\": \"http://a/\", \"postData\": {\"text\": \"\", \"encoding\": \"gzip\"}}",
        "12: unknown encoding `gzip` in `postData`",
    );
    check(
        "{\"method\": \"PUT\", \"url\": \"http://a/\", \"postData\": {\"text\": \"?\", \"encoding\": \"base64\"}}",
        "12: body: the body is not base64: Invalid symbol 63, offset 0.",
    );
    for wrong in [
        "{\"log\": {}}",
        "{\"log\": {\"entries\": [{}]}}",
        "{\"log\": ",
        "{\"log\": {\"entries\": []}}",
        "{\"log\": {\"entries\": [{\"request\": {\"method\": \"GET\", \"url\": \"data:,x\"}}]}}",
        "/a",
    ] {
        assert!(parse("s.har", wrong.as_bytes(), &base()).is_err(), "{wrong}");
    }
}
