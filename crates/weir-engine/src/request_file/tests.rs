//! Valid and invalid request files, with the positions of errors.

use weir_document::{Named, Size};

use super::*;
use crate::pacing::schedule::hash;
use crate::spec::{Body, ChecksSpec};

pub(super) fn base() -> Base {
    let request = RequestSpec {
        headers: vec![("Host".into(), "target".into()), ("X-Base".into(), "1".into())],
        ..RequestSpec::default()
    };
    Base { request, is_method_given: false, is_https: false }
}

/// Shows a request on one line: method, path, header fields, body and the other fields.
pub(super) fn shown(request: &RequestSpec) -> String {
    let mut shown = format!("{} {}", request.method, request.path);
    for (name, value) in &request.headers {
        shown += &format!(" | {name}: {value}");
    }
    match &request.body {
        Body::Text(text) if text.is_empty() => {}
        Body::Text(text) => shown += &format!(" | body {text}"),
        Body::Base64(text) => shown += &format!(" | base64 {text}"),
    }
    if let Some(name) = &request.name {
        shown += &format!(" | name {name}");
    }
    if request.weight != 1.0 {
        shown += &format!(" | weight {}", request.weight);
    }
    shown
}

#[track_caller]
pub(super) fn check(source_name: &str, text: &str, expected: &[&str]) {
    let requests = parse(source_name, text.as_bytes(), &base()).unwrap();
    let all: Vec<String> = requests.iter().map(shown).collect();
    assert_eq!(all, expected);
}

#[track_caller]
fn check_error(source_name: &str, text: &[u8], expected: &str, remedy: &str) {
    let error = parse(source_name, text, &base()).unwrap_err();
    assert_eq!((error.to_string().as_str(), error.remedy.as_str()), (expected, remedy));
}

#[test]
fn lists_of_urls_and_paths() {
    let text = "\u{feff}# a comment\n/a?b=c#part\n\n  http://Other:81/x \r\nPOST /p\nPURGE\thttp://[::1]\nHTTP://a?q\n\
                /get/{1..50}/{pick:my words/#1?.txt}\n  OPTIONS *\nhttp://{domain}/z\n";
    check(
        "urls.txt",
        text,
        &[
            "GET /a?b=c | Host: target | X-Base: 1",
            "GET /x | Host: Other:81 | X-Base: 1",
            "POST /p | Host: target | X-Base: 1",
            "PURGE / | Host: [::1] | X-Base: 1",
            "GET /?q | Host: a | X-Base: 1",
            "GET /get/{1..50}/{pick:my words/#1?.txt} | Host: target | X-Base: 1",
            "OPTIONS * | Host: target | X-Base: 1",
            "GET /z | Host: {domain} | X-Base: 1",
        ],
    );
}

#[test]
fn repeated_requests_are_merged_by_weight() {
    check(
        "urls",
        "/a\n/b\n/a\nPOST /a\n/a\nhttp://target/b\n",
        &[
            "GET /a | Host: target | X-Base: 1 | weight 3",
            "GET /b | Host: target | X-Base: 1 | weight 2",
            "POST /a | Host: target | X-Base: 1",
        ],
    );
    let lines = "{\"path\":\"/a\",\"weight\":0.5}\n{\"path\":\"/a\",\"body\":\"x\"}\n{\"path\":\"/a\",\"weight\":2}\n";
    check(
        "a.jsonl",
        lines,
        &["GET /a | Host: target | X-Base: 1 | weight 2.5", "POST /a | Host: target | X-Base: 1 | body x"],
    );
    let given = Base { is_method_given: true, ..base() };
    let asked = parse("a.jsonl", b"{\"path\":\"/a\",\"body\":\"x\"}", &given).unwrap();
    assert_eq!(asked[0].method, "GET", "a body does not change a configured method");
}

#[test]
fn errors_of_lists_have_lines() {
    let check =
        |text: &str, expected: &str, remedy: &str| check_error("u.txt", text.as_bytes(), expected, remedy);
    check("", "u.txt: the file has no requests", "write one URL or path per line");
    check("# all\n\n", "u.txt: the file has no requests", "write one URL or path per line");
    check(
        "/a\n\n  example.com/x\n",
        "u.txt:3:3: `example.com/x` is neither a URL nor a path",
        "use the form `http://host/path` or `/path`",
    );
    check(
        "http://a/\nhttps://a/\n",
        "u.txt:2:1: the URL uses https, but the target uses http",
        "use the same scheme for the requests and the target",
    );
    check("ftp://a/", "u.txt:1:1: unsupported URL scheme `ftp`", "use a URL that starts with http://");
    check("http:///x", "u.txt:1:1: `` is not a valid host", "use the form `http://host/path`");
    check("http://a\"b/x", "u.txt:1:1: `a\"b` is not a valid host", "use the form `http://host/path`");
    check(
        "http://me:secret@a/x",
        "u.txt:1:1: the URL contains a user or a password",
        "use an `Authorization` header instead",
    );
    check(
        "/a\n/a b\n",
        "u.txt:2:1: path: `/a b` contains a byte that must be percent-encoded",
        "percent-encode it",
    );
    check("/{sec}", "u.txt:1:1: path: unknown placeholder `{sec}`", "did you mean `{seq}`?");
    check(
        "CONNECT /",
        "u.txt:1:1: method: CONNECT opens a tunnel, which weir cannot measure",
        "use another method",
    );
    check(
        "[{\"path\": \"/\"}]",
        "u.txt:1:1: `[{\"path\": \"/\"}]` is neither a URL nor a path",
        "use the form `http://host/path` or `/path`",
    );
    check_error("u.txt", b"/a\n/\xff\n", "u.txt:2:1: the line is not UTF-8 text", "save the file as UTF-8");
    let https = Base { is_https: true, ..base() };
    assert_eq!(parse("u", b"https://a/", &https).unwrap()[0].path, "/");
    assert!(parse("u", b"http://a/", &https).is_err());
}

#[test]
fn too_many_requests_are_rejected_with_the_position() {
    let error = |text: &str| parse_each("u", text.as_bytes(), &base(), 2, &mut |_| Ok(())).err();
    assert_eq!(error("/a\n\n/a\n"), None);
    assert_eq!(error("/a\n\n/a\n/b\n").unwrap().to_string(), "u:4:1: the file has more than 2 requests");
}

#[test]
fn json_lines() {
    let text = "{\"path\": \"/a\"}\n\n{\"method\": \"PUT\", \"url\": \"http://b/x\", \"headers\": {\"X-Base\": \"2\", \
                \"Accept\": \"{seq}\"}, \"body\": \"{\\\"n\\\": {seq}}\", \"name\": \"put\", \"weight\": 2.5}\n";
    let expected = [
        "GET /a | Host: target | X-Base: 1",
        "PUT /x | Host: b | X-Base: 2 | Accept: {seq} | body {\"n\": {seq}} | name put | weight 2.5",
    ];
    check("requests", text, &expected);
    check("requests.jsonl", text, &expected);
    let text = "{\"path\":\"/\",\"checks\":{\"status\":[200,\"3xx\"],\"headers\":{\"A\":\"b\"},\"body_bytes\":5}}\n\
                {\"path\":\"/\",\"checks\":{\"status\":204}}\n{\"path\":\"/\",\"checks\":{\"body_contains\":\"x\"}}";
    let checks: Vec<ChecksSpec> = parse("c.jsonl", text.as_bytes(), &base())
        .unwrap()
        .into_iter()
        .map(|request| request.checks)
        .collect();
    let expected = [
        ChecksSpec {
            status: vec!["200".parse().unwrap(), "3xx".parse().unwrap()],
            headers: Named(vec![("A".into(), "b".into())]),
            length: Some(Size(5)),
            body: None,
        },
        ChecksSpec { status: vec!["204".parse().unwrap()], ..ChecksSpec::default() },
        ChecksSpec { body: Some("x".into()), ..ChecksSpec::default() },
    ];
    assert_eq!(checks, expected);
}

#[test]
fn errors_of_json_lines_have_lines() {
    let check = |line: &str, expected: &str, remedy: &str| {
        let text = format!("{{\"path\": \"/a\"}}\n{line}\n");
        check_error("r.jsonl", text.as_bytes(), &format!("r.jsonl:2:{expected}"), remedy);
    };
    check("{\"pth\": \"/\"}", "2: unknown field `pth`", "did you mean `path`?");
    check(
        "{\"path\": \"/\", \"checks\": {\"stats\": 200}}",
        "26: unknown field `stats`",
        "did you mean `status`?",
    );
    check("{}", "1: missing field `path`", "add `path` or `url`");
    check(
        "{\"path\": \"/\", \"url\": \"http://a/\"}",
        "1: `path` and `url` cannot be combined",
        "remove one of the two",
    );
    check(
        "{\"path\": \"http://a/\"}",
        "1: path: `http://a/` does not start with a slash",
        "start the path with a slash, or write a full URL in `url`",
    );
    check("{\"path\": \"/\", \"weight\": 0}", "1: weight: `0` is out of range", "use a number above 0");
    check(
        "{\"path\": \"/\", \"checks\": {\"status\": \"ok\"}}",
        "1: check: `ok` is not a status code",
        "use a code like 200, or a class like 2xx",
    );
    check(
        "{\"path\": \"/\", \"headers\": {\"a b\": \"\"}}",
        "1: header: invalid header name `a b`",
        "use a name like X-Version",
    );
    for wrong in [
        "{\"path\": ",
        "[]",
        "{\"path\": 1}",
        "{\"path\": \"/\", \"headers\": [\"a\"]}",
        "/a",
        "{\"path\": \"/\"} x",
    ] {
        let text = format!("{{\"path\": \"/a\"}}\n{wrong}\n");
        let error = parse("r.jsonl", text.as_bytes(), &base()).unwrap_err();
        assert_eq!((error.place.source_name.as_str(), error.place.line), ("r.jsonl", 2), "{wrong}: {error}");
    }
}

#[test]
fn unreadable_files_are_named() {
    let error = read(Path::new("no/such.txt"), &base()).unwrap_err();
    assert!(error.to_string().starts_with("no/such.txt: cannot read the file: "), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("urls.txt");
    std::fs::write(&file, "/a\n").unwrap();
    assert_eq!(read(&file, &base()).unwrap().len(), 1);
}

#[test]
fn no_input_makes_a_parser_panic() {
    let pieces = [
        "{",
        "}",
        "\"",
        ":",
        ",",
        "[",
        "]",
        "\n",
        " ",
        "/",
        "?",
        "#",
        "{seq}",
        "{1..",
        "{pick:a}",
        "http://",
        "https://",
        "a",
        "\u{e9}",
        "\"path\"",
        "\"/\"",
        "\"url\"",
        "\"log\"",
        "\"entries\"",
        "\"request\"",
        "\"method\"",
        "GET",
        "\\",
        "\0",
        "{\"log\":{\"entries\":[{\"request\":{\"method\":\"GET\",\"url\":\"http://a/\"}}]}}",
        "{\"path\":\"/{seq}\"}",
    ];
    let mut good = 0;
    for case in 0..30_000u64 {
        let count = hash(case, 0) % 12;
        let mut text: Vec<u8> =
            (1..=count).flat_map(|at| pieces[hash(case, at) as usize % pieces.len()].bytes()).collect();
        if hash(case, 100).is_multiple_of(10) {
            text.push(0xff);
        }
        let name = ["a", "a.har", "a.jsonl"][hash(case, 101) as usize % 3];
        match parse(name, &text, &base()) {
            Ok(requests) => good += usize::from(!requests.is_empty()),
            Err(error) => assert!(!error.message.is_empty() && !error.remedy.is_empty()),
        }
    }
    assert!(good > 100, "only {good} of the texts contain requests");
}
