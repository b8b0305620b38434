//! Tests which responses are compressed, for which clients, and how streamed bodies are flushed.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::mpsc::channel;

use weir_config::{Scope, State};
use weir_dataplane::explain;

use crate::setup::{Answer, Client, Origin, Proxy};

const TEXT: &str = "Content-Type: text/html; charset=utf-8\r\n";

/// A gateway with one route to `origin`. The route has these fields besides its path and backend.
fn gateway(route: &str, origin: &Origin) -> Proxy {
    Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\nroutes: [{{ path: /, backend: b, {route} }}]\n\
         backends: {{ b: {{ endpoints: ['{}'] }} }}",
        origin.address
    ))
}

/// An origin that sends this response to every request.
fn answering(status: &str, fields: &str, body: &str) -> Origin {
    let answer = format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len());
    Origin::answering(answer.leak())
}

fn get(accepted: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: h\r\nAccept-Encoding: {accepted}\r\n\r\n")
}

/// The data of the next chunk. `None` for the last chunk; the trailer section after it is not read.
fn chunk(client: &mut Client<TcpStream>) -> Option<Vec<u8>> {
    let line = line(client);
    let size = usize::from_str_radix(line.trim_end(), 16).unwrap();
    if size > 0 {
        let data = client.read_bytes(size);
        assert_eq!(client.read_bytes(2), b"\r\n");
        return Some(data);
    }
    None
}

fn line(client: &mut Client<TcpStream>) -> String {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        line.extend(client.read_bytes(1));
    }
    String::from_utf8(line).unwrap()
}

/// A whole chunked response: headers, encoded body, trailers.
fn answer(client: &mut Client<TcpStream>) -> (Answer, Vec<u8>, String) {
    let head = client.head();
    assert_eq!(head.field("transfer-encoding"), Some("chunked"), "{}", head.head);
    let mut body = Vec::new();
    while let Some(data) = chunk(client) {
        body.extend(data);
    }
    let mut trailers = String::new();
    while !trailers.ends_with("\r\n\r\n") && trailers != "\r\n" {
        trailers += &line(client);
    }
    (head, body, trailers)
}

fn decoded(coding: &str, body: &[u8]) -> String {
    let mut text = String::new();
    match coding {
        "gzip" => flate2::read::GzDecoder::new(body).read_to_string(&mut text),
        "br" => brotli::Decompressor::new(body, 4096).read_to_string(&mut text),
        other => panic!("{other}"),
    }
    .unwrap();
    text
}

/// A text of at least `bytes` bytes that compresses well, although its lines differ.
fn page(bytes: usize) -> String {
    let lines = (0..).map(|number: u64| format!("<p>{number} {:x}</p>\n", number.wrapping_mul(0x9E37_79B9)));
    let mut page = String::new();
    for line in lines {
        if page.len() >= bytes {
            break;
        }
        page += &line;
    }
    page
}

#[test]
fn compresses_with_the_coding_that_the_client_prefers() {
    let body = page(5000);
    let fields = format!("{TEXT}ETag: \"v1\"\r\nAccept-Ranges: bytes\r\nVary: Origin\r\nX-Own: 1\r\n");
    let origin = answering("200 OK", &fields, &body);
    let proxy = gateway("compress: {}", &origin);
    let mut client = proxy.connect();
    for (accepted, coding) in [("gzip, deflate, br", "br"), ("gzip", "gzip"), ("br;q=0.1, x-gzip", "gzip")] {
        client.send(&get(accepted));
        let (head, coded, trailers) = answer(&mut client);
        assert_eq!((head.status, trailers.as_str()), (200, "\r\n"));
        assert_eq!(head.field("content-encoding"), Some(coding), "{accepted}");
        assert_eq!(head.field("etag"), Some("W/\"v1\""), "the encoding changes, so the ETag is weak");
        assert!(
            head.head.contains("\r\nVary: Origin\r\n") && head.head.contains("\r\nVary: Accept-Encoding\r\n")
        );
        for gone in ["content-length", "accept-ranges"] {
            assert_eq!(head.field(gone), None);
        }
        assert_eq!(head.field("x-own"), Some("1"));
        assert!(coded.len() < body.len() / 2, "{} of {}", coded.len(), body.len());
        assert!(decoded(coding, &coded) == body);
    }
    assert_eq!(origin.connections(), 1, "connections stay open");
    assert!(
        origin.requests()[0].contains("Accept-Encoding: gzip, deflate, br\r\n"),
        "upstreams get the client's Accept-Encoding"
    );
    let plain = client.ask(&get("identity"));
    assert_eq!((plain.body, plain.whole), (body, true));
}

/// Checks `Content-Encoding`, `Vary` and `ETag` of the response to a client that accepts brotli and gzip, for a route
/// with these fields.
fn check(route: &str, (status, fields): (&str, &str), body: &str, expected: [Option<&str>; 3]) {
    let origin = answering(status, fields, body);
    let proxy = gateway(route, &origin);
    let mut client = proxy.connect();
    client.send(&get("br, gzip"));
    let head = client.head();
    let reported = ["content-encoding", "vary", "etag"].map(|name| head.field(name));
    assert_eq!(reported, expected, "{route} {status} {fields}");
    let is_compressed = expected[0].is_some_and(|coding| coding != "zstd");
    assert_eq!(head.field("transfer-encoding").is_some(), is_compressed, "{route} {status} {fields}");
}

#[test]
fn does_not_compress_excluded_responses() {
    let body = page(2000);
    let tagged = format!("{TEXT}ETag: \"a\"\r\n");
    let vary = Some("Accept-Encoding");
    let as_it_is = [None, None, Some("\"a\"")];
    let compressed = [Some("br"), vary, Some("W/\"a\"")];
    let of =
        |route: &str, status: &str, fields: &str, expected| check(route, (status, fields), &body, expected);
    let all = "compress: {}";
    of(all, "200 OK", &tagged, compressed);
    of(all, "404 Not Found", &tagged, compressed);
    of(all, "206 Partial Content", &tagged, as_it_is);
    of("compress: { types: [text/css] }", "200 OK", &tagged, as_it_is);
    of("compress: { min_size: 1MiB }", "200 OK", &tagged, as_it_is);
    of("compress: { min_size: 2000B }", "200 OK", &tagged, compressed);
    of("compress: { gzip: 9 }", "200 OK", &tagged, [Some("gzip"), vary, Some("W/\"a\"")]);
    of(all, "200 OK", "Content-Type: image/png\r\nETag: \"a\"\r\n", as_it_is);
    of(all, "200 OK", "ETag: \"a\"\r\n", as_it_is);
    let with = |field: &str| format!("{tagged}{field}\r\n");
    of(all, "200 OK", &with("Cache-Control: public, No-Transform"), as_it_is);
    of(all, "200 OK", &with("Content-Digest: sha-256=:x:"), as_it_is);
    of(all, "200 OK", &with("Content-Encoding: zstd"), [Some("zstd"), None, Some("\"a\"")]);
    of(all, "200 OK", &with("Cache-Control: no-cache"), compressed);
    of(all, "200 OK", &with("Vary: accept-encoding"), [Some("br"), Some("accept-encoding"), Some("W/\"a\"")]);
    of(all, "200 OK", &with("Vary: *"), [Some("br"), Some("*"), Some("W/\"a\"")]);
    let weak = tagged.replace("ETag: ", "ETag: W/");
    of(all, "200 OK", &weak, compressed);
    // Header changes of the route apply before compression.
    let headers = |changes: &str| format!("{all}, response_headers: {{ {changes} }}");
    of(&headers("remove: [etag]"), "200 OK", &tagged, [Some("br"), vary, None]);
    of(&headers("set: { Content-Type: image/png }"), "200 OK", &tagged, as_it_is);
    of(&headers("set: { Content-Type: text/plain }"), "200 OK", "ETag: \"a\"\r\n", compressed);
    of(&headers("add: { Cache-Control: no-transform }"), "200 OK", &tagged, as_it_is);
    check(all, ("304 Not Modified", "ETag: \"a\"\r\n"), "", [None, vary, Some("\"a\"")]);
    check(all, ("204 No Content", "ETag: \"a\"\r\n"), "", as_it_is);
    check(all, ("200 OK", &tagged), "", as_it_is);
}

#[test]
fn does_not_compress_for_other_clients_and_sets_vary() {
    let body = page(2000);
    let origin = answering("200 OK", &format!("{TEXT}ETag: \"a\"\r\n"), &body);
    let proxy = gateway("compress: {}", &origin);
    let mut client = proxy.connect();
    for accepted in ["identity", "deflate", "gzip;q=0, br;q=0", "identity;q=0"] {
        let answer = client.ask(&get(accepted));
        assert_eq!(
            (answer.body.as_str(), answer.field("content-encoding")),
            (body.as_str(), None),
            "{accepted}"
        );
        let reported = (answer.field("vary"), answer.field("etag"));
        assert_eq!(reported, (Some("Accept-Encoding"), Some("\"a\"")));
    }
    let old = proxy.ask("GET / HTTP/1.0\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n");
    assert_eq!((old.body.as_str(), old.field("vary")), (body.as_str(), Some("Accept-Encoding")));
    let length = body.len().to_string();
    assert_eq!(old.field("content-length"), Some(length.as_str()));
}

#[test]
fn head_response_has_the_uncompressed_headers() {
    let origin = Origin::start(|served| {
        while served.request().is_some() {
            served.send("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5000\r\n\r\n");
        }
    });
    let proxy = gateway("compress: {}", &origin);
    let mut client = proxy.connect();
    for _ in 0..2 {
        client.send(&get("gzip").replace("GET", "HEAD"));
        let head = client.head();
        let reported = ["content-length", "content-encoding", "vary"].map(|name| head.field(name));
        assert_eq!(reported, [Some("5000"), None, Some("Accept-Encoding")]);
    }
}

/// A streaming decoder. `take` adds `coded` to its input, and returns the further text that the client can decode.
trait Stream {
    fn take(&mut self, coded: &[u8]) -> String;
}

impl Stream for flate2::write::GzDecoder<Vec<u8>> {
    fn take(&mut self, coded: &[u8]) -> String {
        self.write_all(coded).unwrap();
        self.flush().unwrap();
        String::from_utf8(std::mem::take(self.get_mut())).unwrap()
    }
}

impl Stream for brotli::DecompressorWriter<Vec<u8>> {
    fn take(&mut self, coded: &[u8]) -> String {
        self.write_all(coded).unwrap();
        self.flush().unwrap();
        String::from_utf8(std::mem::take(self.get_mut())).unwrap()
    }
}

/// Checks that the client can read each event before the upstream sends the next one.
fn check_stream(coding: &str, stream: &mut dyn Stream) {
    const EVENTS: usize = 5;
    let (release, released) = channel::<()>();
    let released = Mutex::new(released);
    let origin = Origin::start(move |served| {
        served.request().unwrap();
        served
            .send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
        for _ in 0..EVENTS {
            released.lock().unwrap().recv().unwrap();
            served.send("9\r\ndata: a\n\n\r\n");
        }
        released.lock().unwrap().recv().unwrap();
        served.send("0\r\nContent-Digest: md5=:stale:\r\nX-Count: 5\r\n\r\n");
        served.stall();
    });
    let proxy = Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\nroutes: [{{ path: /, backend: b, compress: {{}} }}]\n\
         backends: {{ b: {{ endpoints: ['{}'] }} }}\ntrailers: {{ response: [X-Count, Content-Digest] }}\n",
        origin.address
    ));
    let mut client = proxy.connect();
    client.send(&get(coding));
    assert_eq!(client.head().field("content-encoding"), Some(coding));
    for _ in 0..EVENTS {
        release.send(()).unwrap();
        let mut event = String::new();
        while event.is_empty() {
            event = stream.take(&chunk(&mut client).unwrap());
        }
        assert_eq!(event, "data: a\n\n");
    }
    release.send(()).unwrap();
    while let Some(coded) = chunk(&mut client) {
        assert_eq!(stream.take(&coded), "");
    }
    assert_eq!(line(&mut client), "X-Count: 5\r\n");
}

#[test]
fn flushes_each_event() {
    check_stream("gzip", &mut flate2::write::GzDecoder::new(Vec::new()));
    check_stream("br", &mut brotli::DecompressorWriter::new(Vec::new(), 4096));
}

/// Bodies of every framing, over many reads.
#[test]
fn compresses_long_bodies() {
    let body = page(1 << 20);
    let head = format!("HTTP/1.1 200 OK\r\n{TEXT}");
    let chunks: String = body.as_bytes().chunks(70_000).fold(String::new(), |all, data| {
        let data = std::str::from_utf8(data).unwrap();
        format!("{all}{:x}\r\n{data}\r\n", data.len())
    });
    let framed = [
        format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()),
        format!("{head}Transfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n"),
        format!("{head}\r\n{body}"),
    ];
    for (number, response) in framed.into_iter().enumerate() {
        let origin = Origin::start(move |served| {
            served.request().unwrap();
            served.send(&response);
        });
        let proxy = gateway("compress: { gzip: 1, brotli: 1 }", &origin);
        for coding in ["gzip", "br"] {
            let mut client = proxy.connect();
            client.send(&get(coding));
            let (_, coded, _) = answer(&mut client);
            assert!(decoded(coding, &coded) == body, "{coding} of framing {number}");
        }
    }
}

#[test]
fn truncated_response_does_not_look_complete() {
    let part = page(40_000);
    let response = format!("HTTP/1.1 200 OK\r\n{TEXT}Content-Length: {}\r\n\r\n{part}", part.len() + 1);
    let origin = Origin::start(move |served| {
        served.request().unwrap();
        served.send(&response);
    });
    for coding in ["gzip", "br"] {
        let proxy = gateway("compress: {}", &origin);
        let mut client = proxy.connect();
        client.send(&get(coding));
        let mut bytes = Vec::new();
        let was_reset = client.stream.read_to_end(&mut bytes).is_err();
        assert!(was_reset || !bytes.ends_with(b"0\r\n\r\n"), "{coding}");
        proxy.wait_for("the error", |stats| stats.errors["upstream_truncated"] == 1);
    }
}

#[test]
fn explain_shows_compression() {
    let table = crate::setup::compile(
        &mut State::default(),
        "listeners: [{ address: 127.0.0.1:0 }]
routes: [{ path: /, backend: b, compress: { types: [text/*, image/svg+xml] } }]
backends: { b: { endpoints: ['127.0.0.1:9'] } }",
    );
    let check = |request: &str, expected: &str| {
        let explanation = explain(&table, request.as_bytes(), Scope::default(), false).unwrap().to_string();
        assert!(explanation.ends_with(expected), "{explanation}");
    };
    check(
        &get("gzip"),
        "\nresponse  compressed with `gzip` if it has at least 1024 bytes and one of these types: text/*, image/svg+xml\n",
    );
    check(&get("deflate"), "\nresponse  not compressed: the request does not accept `br` or `gzip`\n");
}
