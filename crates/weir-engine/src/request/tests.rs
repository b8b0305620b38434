//! Whole requests: from the specification of a load to the bytes and header fields that are sent.

use weir_http::{FieldSlots, HeadLimits, parse_request};

use super::*;
use crate::pacing::schedule::hash;
use crate::spec::{Body, ChecksSpec, RequestFileSpec, RequestSpec, TlsSpec};

fn spec(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> RequestSpec {
    RequestSpec {
        method: method.into(),
        path: path.into(),
        headers: headers.iter().map(|&(name, value)| (name.into(), value.into())).collect(),
        body: Body::Text(body.into()),
        ..RequestSpec::default()
    }
}

/// A load with these requests, two domains, and valid values for all required fields.
fn load(requests: Vec<RequestSpec>) -> LoadSpec {
    LoadSpec {
        connect: "127.0.0.1:80".into(),
        requests,
        domains: vec!["a.example".into(), "b.example".into()],
        ..LoadSpec::default()
    }
}

fn source(load: &LoadSpec) -> RequestSource {
    load.validate().unwrap();
    RequestSource::new(load).unwrap()
}

fn place(index: u64, close: bool) -> Place {
    Place { index, domain: None, close }
}

fn http1(source: &RequestSource, request: u32, at: &Place) -> String {
    // The buffer must be cleared before it is used.
    let mut scratch = b"something".to_vec();
    str::from_utf8(source.http1(request, at, &mut scratch)).unwrap().to_owned()
}

/// Checks the first request of a load, rendered for the arrival with index 3. `expected` is its text on a connection
/// that stays open. `expected_closing` is its text as the last request of a connection.
#[track_caller]
fn check(load: &LoadSpec, expected: &str, expected_closing: &str) {
    let source = source(load);
    assert_eq!(http1(&source, 0, &place(3, false)), expected);
    assert_eq!(http1(&source, 0, &place(3, true)), expected_closing);
}

#[test]
fn requests_are_rendered_whole() {
    let host = ("Host", "a");
    check(
        &load(vec![spec("GET", "/x?y", &[host, ("X-One", "1")], "")]),
        "GET /x?y HTTP/1.1\r\nHost: a\r\nX-One: 1\r\n\r\n",
        "GET /x?y HTTP/1.1\r\nHost: a\r\nX-One: 1\r\nConnection: close\r\n\r\n",
    );
    check(
        &load(vec![spec("POST", "/", &[host], "hello")]),
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
    );
    check(
        &load(vec![spec("PUT", "/", &[], "")]),
        "PUT / HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
        "PUT / HTTP/1.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    );
    let own = "GET / HTTP/1.1\r\nHost: a\r\nconnection: x, Close\r\n\r\n";
    check(&load(vec![spec("GET", "/", &[host, ("connection", "x, Close")], "")]), own, own);
    let base64 = RequestSpec { body: Body::Base64("e3NlcX0=".into()), ..spec("POST", "/", &[], "") };
    check(
        &load(vec![base64]),
        "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n{seq}",
        "POST / HTTP/1.1\r\nContent-Length: 5\r\nConnection: close\r\n\r\n{seq}",
    );
}

#[test]
fn templates_are_filled_in() {
    check(
        &load(vec![spec(
            "POST",
            "/{7..7}/{seq}",
            &[("Host", "{domain}:80")],
            "{\"n\": {seq}, \"d\": \"{domain}\"}",
        )]),
        "POST /7/3 HTTP/1.1\r\nHost: b.example:80\r\nContent-Length: 26\r\n\r\n{\"n\": 3, \"d\": \"b.example\"}",
        "POST /7/3 HTTP/1.1\r\nHost: b.example:80\r\nContent-Length: 26\r\nConnection: close\r\n\r\n\
         {\"n\": 3, \"d\": \"b.example\"}",
    );
    let source = source(&load(vec![spec("GET", "/{domain}", &[("Host", "{domain}")], "")]));
    let on_a_connection = Place { index: 3, domain: Some(0), close: false };
    assert_eq!(http1(&source, 0, &on_a_connection), "GET /a.example HTTP/1.1\r\nHost: a.example\r\n\r\n");
}

#[test]
fn one_domain_and_one_token_leave_a_request_static() {
    let mut load = load(vec![spec("GET", "/", &[("Host", "{domain}")], "")]);
    load.domains.truncate(1);
    load.tokens = vec!["t0".into()];
    assert!(source(&load).is_static(0));
    let with_token = "GET / HTTP/1.1\r\nHost: a.example\r\nAuthorization: Bearer t0\r\n";
    check(&load, &format!("{with_token}\r\n"), &format!("{with_token}Connection: close\r\n\r\n"));
    load.tokens.push("t1".into());
    assert!(!source(&load).is_static(0));
    let with_token = "GET / HTTP/1.1\r\nHost: a.example\r\nAuthorization: Bearer t1\r\n";
    check(&load, &format!("{with_token}\r\n"), &format!("{with_token}Connection: close\r\n\r\n"));
}

#[test]
fn static_requests_are_borrowed_and_buffers_grow_only_once() {
    let load = load(vec![spec("GET", "/", &[], ""), spec("GET", "/{1..50}/{uuid}", &[], "{seq}")]);
    let source = source(&load);
    let mut scratch = Vec::new();
    for close in [false, true] {
        let bytes = source.http1(0, &place(1, close), &mut scratch).as_ptr();
        assert_eq!(source.http1(0, &place(2, close), &mut Vec::new()).as_ptr(), bytes);
    }
    assert_eq!(scratch.capacity(), 0, "static requests need no buffer");
    source.http1(1, &place(u64::MAX, true), &mut scratch);
    let (buffer, capacity) = (scratch.as_ptr(), scratch.capacity());
    for index in 0..1_000 {
        source.http1(1, &place(index, index % 2 == 0), &mut scratch);
    }
    assert_eq!((scratch.as_ptr(), scratch.capacity()), (buffer, capacity));
    assert_eq!(Arc::as_ptr(&source.shared), Arc::as_ptr(&source.clone().shared));
}

#[test]
fn large_lists_close_connections_too() {
    let body = "x".repeat(2 * 1024 * 1024);
    let source = source(&load(vec![spec("POST", "/", &[], &body)]));
    assert!(source.shared.closing.is_empty());
    let head = "POST / HTTP/1.1\r\nContent-Length: 2097152\r\n";
    assert_eq!(http1(&source, 0, &place(0, false)), format!("{head}\r\n{body}"));
    assert_eq!(http1(&source, 0, &place(0, true)), format!("{head}Connection: close\r\n\r\n{body}"));
}

#[test]
fn lines_of_files_are_picked_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("words.txt");
    let path = file.to_str().unwrap();
    let picks = |path: &str, position: &str| match position {
        "path" => spec("GET", &format!("/{{pick:{path}}}"), &[], ""),
        "header" => spec("GET", "/", &[("X", &format!("{{pick:{path}}}"))], ""),
        _ => spec("GET", "/", &[], &format!("{{pick:{path}}}")),
    };
    let check = |text: &str, position: &str, expected: &str| {
        std::fs::write(&file, text).unwrap();
        let error = RequestSource::new(&load(vec![picks(path, position)])).unwrap_err().to_string();
        assert_eq!(error, format!("{position}: `{{pick:{path}}}`: {expected}"));
    };
    for position in ["path", "header", "body"] {
        check("\n\n", position, "the file has no lines");
    }
    let in_path =
        "line 2 of the file contains a byte that must be percent-encoded (empty lines are not counted)";
    check("a\n\nb c\n", "path", in_path);
    check("a\nb\rc\n", "path", in_path);
    check(
        "a\nb\rc\n",
        "header",
        "line 2 of the file contains a control character (empty lines are not counted)",
    );

    std::fs::write(&file, "red fox\r\n\r\ncat\n").unwrap();
    let source = source(&load(vec![picks(path, "header")]));
    let seen: std::collections::BTreeSet<String> =
        (0..100).map(|index| http1(&source, 0, &place(index, false))).collect();
    let expected = ["GET / HTTP/1.1\r\nX: cat\r\n\r\n", "GET / HTTP/1.1\r\nX: red fox\r\n\r\n"];
    assert!(seen.iter().eq(&expected), "{seen:?}");

    let missing = RequestSource::new(&load(vec![picks("no/such.txt", "path")])).unwrap_err().to_string();
    assert!(missing.starts_with("path: `{pick:no/such.txt}`: cannot read the file: "), "{missing}");
}

#[test]
fn requests_of_a_file_equal_configured_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("urls.txt");
    let name = path.display();
    let base = spec("GET", "/", &[("Host", "a")], "");
    let of_file = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let file = RequestFileSpec {
            path: path.clone(),
            base: base.clone(),
            is_method_given: false,
            shuffle: false,
        };
        LoadSpec { request_file: Some(file), ..load(Vec::new()) }
    };
    let lines = "/a\n/b\n/a\n/{seq}\nhttp://b/a\nHEAD /a\n";
    let (read, given) = (
        source(&of_file(lines)),
        request_file::parse(
            "urls.txt",
            lines.as_bytes(),
            &request_file::Base { request: base.clone(), is_method_given: false, is_https: false },
        ),
    );
    let given = source(&load(given.unwrap()));
    assert_eq!((read.shared.entries.len(), given.shared.entries.len()), (5, 5));
    for index in 0..1_000 {
        let (one, other) = (read.choose(index), given.choose(index));
        assert_eq!(http1(&read, one, &place(index, false)), http1(&given, other, &place(index, false)));
        assert_eq!(
            (read.route_of(one), read.response_to(one)),
            (given.route_of(other), given.response_to(other))
        );
    }
    assert_eq!(read.routes(), given.routes());

    let check = |load: &LoadSpec, expected: String| {
        load.validate().unwrap();
        assert_eq!(RequestSource::new(load).unwrap_err().to_string(), expected);
    };
    check(
        &of_file("/a\n/a b\n"),
        format!("file: {name}:2:1: path: `/a b` contains a byte that must be percent-encoded"),
    );
    check(&of_file(""), format!("file: {name}: the file has no requests"));
    let no_domains = LoadSpec { domains: Vec::new(), ..of_file("/a\n/{domain}") };
    check(
        &no_domains,
        format!("file: {name}:2:1: domains: `{{domain}}` in `/{{domain}}` needs at least one domain"),
    );
}

#[test]
fn a_recorded_session_keeps_its_order_unless_shuffled() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.har");
    let entry = |host: &str, path: &str| serde_json::json!({ "request": { "method": "GET", "url": format!("https://{host}{path}") } });
    let entries = [entry("a", "/1"), entry("b", "/x"), entry("a", "/2"), entry("a", "/1"), entry("a", "/3")];
    std::fs::write(&path, serde_json::json!({ "log": { "entries": entries } }).to_string()).unwrap();
    let of_file = |shuffle| {
        let base = spec("GET", "/", &[("Host", "t")], "");
        let file = RequestFileSpec { path: path.clone(), base, is_method_given: false, shuffle };
        source(&LoadSpec { request_file: Some(file), ..load(Vec::new()) })
    };
    let paths = |source: &RequestSource, picks: std::ops::Range<u64>| -> Vec<String> {
        let path = |pick| http1(source, source.choose(pick), &place(pick, false));
        picks.map(|pick| path(pick).split(' ').nth(1).unwrap().to_owned()).collect()
    };
    let ordered = of_file(false);
    assert!(ordered.is_recorded());
    assert_eq!(paths(&ordered, 0..9), ["/1", "/2", "/1", "/3", "/1", "/2", "/1", "/3", "/1"]);
    assert_eq!(ordered.shared.entries.len(), 3, "the same request is kept once");
    assert_eq!(ordered.left_out().unwrap().to_string(), "left out 1 of 5 entries: other hosts (b 1)");
    let shuffled = of_file(true);
    assert!(!shuffled.is_recorded());
    let drawn = paths(&shuffled, 0..1_000);
    assert_ne!(drawn[..9], paths(&ordered, 0..9));
    // Two of the four recorded requests have the path `/1`, so 500 of the 1,000 draws are expected to have it. The
    // tolerance is four standard deviations of a binomial count.
    let first = drawn.iter().filter(|path| *path == "/1").count();
    assert!(first.abs_diff(500) <= 64, "{first}");
}

#[test]
fn a_mix_has_routes_checks_and_kinds_of_responses() {
    let checks = ChecksSpec { status: vec!["2xx".parse().unwrap()], ..ChecksSpec::default() };
    let requests = vec![
        spec("GET", "/a/1", &[], ""),
        RequestSpec { checks: checks.clone(), ..spec("GET", "/a/2", &[], "") },
        RequestSpec { name: Some("mine".into()), checks, ..spec("HEAD", "/", &[], "") },
    ];
    let source = source(&load(requests));
    assert_eq!(source.routes(), ["GET /a/:id", "mine"]);
    assert_eq!([0, 1, 2].map(|request| source.route_of(request)), [0, 0, 1]);
    assert_eq!([0, 2].map(|request| source.response_to(request)), [ResponseTo::Other, ResponseTo::Head]);
    assert!(source.checks(0).is_none());
    let judged = CheckState::default().finish(source.checks(1).unwrap(), 302, 0);
    let failed: CheckFailed<'_> = judged.unwrap_err();
    assert_eq!(failed.to_string(), "check: status is not 2xx");
    assert_eq!(source.shared.checks.len(), 1, "the same checks are kept once");
    use super::route::{OTHER, ROUTES_MAX};
    assert!(default_is_unexpected(404) && source.routes().len() < ROUTES_MAX && OTHER != "mine");
}

/// A request whose method, path, header fields and body depend on the seed.
fn shapes(seed: u64) -> RequestSpec {
    let pick = |salt: u64, of: &[&str]| of[hash(seed, salt) as usize % of.len()].to_owned();
    let header = |salt| {
        let name = pick(salt, &["X-One", "accept", "Cookie"]);
        (
            name,
            pick(
                salt + 50,
                &["1", "{seq}", " padded\t", "a{uuid}b", "", "\u{e9}{1..9}", "{\"a\":{}}", "{domain}"],
            ),
        )
    };
    let mut headers = vec![("Host".to_owned(), pick(1, &["a", "{domain}", "{domain}:8080", "[::1]:80"]))];
    headers.extend((0..hash(seed, 2) % 4).map(|n| header(10 + n)));
    let body =
        pick(3, &["", "text", "{seq}", "{\"id\": \"{uuid}\", \"n\": {1..1000000}}", "{domain}{domain}"]);
    RequestSpec {
        method: pick(4, &["GET", "POST", "PUT", "DELETE", "PURGE"]),
        path: pick(5, &["/", "/a?b=c", "/{1..50}", "/{seq}/{uuid}?d={domain}", "/{0..18446744073709551615}"]),
        headers,
        body: if hash(seed, 6).is_multiple_of(5) {
            Body::Base64("AP8NCg==".into())
        } else {
            Body::Text(body)
        },
        ..RequestSpec::default()
    }
}

#[test]
fn rendered_requests_parse_to_their_specification() {
    for seed in 0..2_000 {
        let request = shapes(seed);
        let load = LoadSpec { seed, tokens: vec!["t0".into(), "t1".into()], ..load(vec![request.clone()]) };
        let source = source(&load);
        let at = place(hash(seed, 7), seed % 2 == 0);
        let mut scratch = Vec::new();
        let bytes = source.http1(0, &at, &mut scratch).to_vec();
        let mut slots = FieldSlots::new();
        let head = parse_request(&bytes, &HeadLimits::default(), &mut slots).unwrap().unwrap();
        assert_eq!((head.method, head.keep_alive), (request.method.as_str(), !at.close), "{request:?}");
        let names: Vec<&str> = head.fields.iter().map(|field| field.name).collect();
        let given: Vec<&str> = request.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert!(names.starts_with(&given) && names[given.len()] == "Authorization", "{names:?}");
        let body = &bytes[head.head_len..];
        let length =
            head.field("content-length").map(|text| str::from_utf8(text).unwrap().parse::<usize>().unwrap());
        assert_eq!(length.unwrap_or(0), body.len());
        for text in
            [head.target.as_bytes(), body].into_iter().chain(head.fields.iter().map(|field| field.value))
        {
            let text = String::from_utf8_lossy(text);
            assert!(
                !text.contains("{seq}") && !text.contains("{uuid}") && !text.contains("{domain}"),
                "{text}"
            );
        }
        check_http2(&source, &at, &load, &bytes);
    }
}

/// Checks that the request has the same content over HTTP/2 as over HTTP/1.1 (`http1`).
fn check_http2(source: &RequestSource, at: &Place, load: &LoadSpec, http1: &[u8]) {
    let mut slots = FieldSlots::new();
    let head = parse_request(http1, &HeadLimits::default(), &mut slots).unwrap().unwrap();
    let mut request = Http2Request::new();
    source.http2(0, at, &mut request);
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let fields: Vec<_> = request.fields().map(|(name, value)| (text(name), text(value))).collect();
    let scheme = if load.tls.is_some() { "https" } else { "http" };
    let expected: Vec<_> =
        [(":method", head.method), (":scheme", scheme), (":authority", head.host), (":path", head.target)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into_iter()
            .chain(
                head.end_to_end()
                    .filter(|field| !field.name.eq_ignore_ascii_case("host"))
                    .map(|field| (field.name.to_lowercase(), text(field.value))),
            )
            .collect();
    assert_eq!(fields, expected);
    assert_eq!(request.body(), &http1[head.head_len..]);
    assert_eq!(request.key(), source.is_static(0).then_some(0));
}

#[test]
fn http2_omits_connection_specific_fields() {
    let tls = TlsSpec { sni: Some("a".into()), ..TlsSpec::default() };
    let headers = [
        ("Keep-Alive", "5"),
        ("TE", "trailers"),
        ("Connection", "x-own, Keep-Alive"),
        ("X-Own", "1"),
        ("Upgrade", "h2c"),
        ("HTTP2-Settings", "AAMAAABk"),
        ("X-Empty", " "),
    ];
    let load = LoadSpec {
        tls: Some(tls),
        ..load(vec![spec("POST", "*", &headers, ""), spec("GET", "/{seq}", &[], "b")])
    };
    let source = RequestSource::new(&load).unwrap();
    let mut request = Http2Request::new();
    let mut fields = |number, index| {
        source.http2(number, &place(index, true), &mut request);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let fields: Vec<_> =
            request.fields().map(|(name, value)| format!("{}={}", text(name), text(value))).collect();
        (fields.join(" "), text(request.body()), request.key())
    };
    let first = ":method=POST :scheme=https :path=* te=trailers x-empty= content-length=0";
    let second =
        |index| (format!(":method=GET :scheme=https :path=/{index} content-length=1"), "b".to_owned(), None);
    assert_eq!(fields(0, 1), (first.to_owned(), String::new(), Some(0)));
    assert_eq!(fields(0, 2), (first.to_owned(), String::new(), Some(0)));
    assert_eq!(fields(1, 3), second(3));
    assert_eq!(fields(1, 4), second(4));
    assert_eq!(fields(0, 5), (first.to_owned(), String::new(), Some(0)));
}

#[test]
fn requests_that_http2_cannot_carry_are_rejected_before_the_load() {
    let check = |path: &str, host: &str| {
        let headers = if host.is_empty() { vec![] } else { vec![("Host".to_owned(), host.to_owned())] };
        let request = RequestSpec { path: path.into(), headers, ..RequestSpec::default() };
        let load = LoadSpec { requests: vec![request], ..LoadSpec::default() };
        RequestSource::new(&load).unwrap().check_http2().map_err(|error| error.to_string())
    };
    assert_eq!(check("/a?b=c", "a.example:81"), Ok(()));
    assert_eq!(check("/a<b", "a").unwrap_err(), "path: `/a<b` is not a valid path in HTTP/2");
    assert!(check("/", "").unwrap_err().contains("requires a Host header"));
    assert!(check("/", "a b").unwrap_err().contains("not a valid host"));
}
