//! Malformed chunked bodies, and garbage after bodies.

use super::First::{RefusedInBody, Served, ServedThenRefused};
use super::{Class, class};

pub(crate) const WELL_FORMED: &[Class] = &[
    class("well-formed, no body", Served, |d| {
        let line = d.form(&["GET /first HTTP/1.1", "DELETE /first?a=b HTTP/1.1", "OPTIONS /first HTTP/1.1"]);
        d.request(line, &[], "")
    }),
    class("well-formed, with a length", Served, |d| {
        let body = d.form(&["hello", "", "\r\n\r\n", "GET /body HTTP/1.1\r\nHost: example.com\r\n\r\n"]);
        let length = format!("Content-Length:\t{} ", body.len());
        d.post(&[&length], body)
    }),
    class("well-formed, chunked", Served, |d| {
        let body = d.form(&[
            "5\r\nhello\r\n0\r\n\r\n",
            "0\r\n\r\n",
            "0a;x=\"y\"\r\n0123456789\r\n00\r\nX-Sum: 1\r\n\r\n",
            "5\r\n0\r\n\r\n\r\n1 ;x\r\n\n\r\n0\r\n\r\n",
        ]);
        d.post(&["transfer-encoding:CHUNKED"], body)
    }),
    class("well-formed, after empty lines", Served, |d| {
        let lines = d.form(&["\r\n", "\r\n\r\n"]);
        d.request(&format!("{lines}GET /first HTTP/1.1"), &[], "")
    }),
];

pub(crate) const CLASSES: &[Class] = &[
    class("chunk size not hexadecimal", RefusedInBody, |d| {
        let size = d.form(&["0x5", "+5", "-5", " 5", "5h", "", "5,5", "\t5", "5\0", "g"]);
        d.chunked_then_smuggled(&format!("{size}\r\nhello\r\n0\r\n\r\n"))
    }),
    class("chunk size beyond 64 bits", RefusedInBody, |d| {
        let size =
            d.form(&["10000000000000005", "ffffffffffffffff5", "8000000000000000", "ffffffffffffffff"]);
        d.chunked_then_smuggled(&format!("{size}\r\nhello\r\n0\r\n\r\n"))
    }),
    class("chunk size with endless zeros", RefusedInBody, |d| {
        let zeros = "0".repeat([17, 100, 5000][d.variation % 3]);
        d.chunked_then_smuggled(&format!("{zeros}5\r\nhello\r\n0\r\n\r\n"))
    }),
    class("chunk without its line end", RefusedInBody, |d| {
        let body = d.form(&[
            "5\r\nhello0\r\n\r\n",
            "5\r\nhelloXX0\r\n\r\n",
            "5\r\nhello \r\n0\r\n\r\n",
            "4\r\nhello\r\n0\r\n\r\n",
        ]);
        d.chunked_then_smuggled(body)
    }),
    class("chunk lines end in LF", RefusedInBody, |d| {
        let body = d.form(&[
            "5\nhello\r\n0\r\n\r\n",
            "5\r\nhello\n0\r\n\r\n",
            "5\r\nhello\r\n0\n\r\n",
            "0\r\n\n",
            "0\n\n",
        ]);
        d.chunked_then_smuggled(body)
    }),
    class("chunk lines end in CR", RefusedInBody, |d| {
        let body = d.form(&[
            "5\rhello\r\n0\r\n\r\n",
            "5\r\nhello\r0\r\n\r\n",
            "0\r\r\n",
            "5\r\r\nhello\r\n0\r\n\r\n",
        ]);
        d.chunked_then_smuggled(body)
    }),
    class("chunk extension with LF", RefusedInBody, |d| {
        let body = d.form(&[
            "5;a\nhello\r\n0\r\n\r\n",
            "0;\n\r\n\r\n",
            "5;a=\"\n\"\r\nhello\r\n0\r\n\r\n",
            "2;\nxx\r\n0\r\n\r\n",
        ]);
        d.chunked_then_smuggled(body)
    }),
    class("chunk extension malformed", RefusedInBody, |d| {
        let extension = d.form(&[";", ";;a", ";a=", ";a=\"b", ";a=\u{1}", " ", ";a\rb", ";\0", ";=b"]);
        d.chunked_then_smuggled(&format!("5{extension}\r\nhello\r\n0\r\n\r\n"))
    }),
    class("chunk extension too long", RefusedInBody, |d| {
        let name = "a".repeat([1_000, 20_000, 300_000][d.variation % 3]);
        d.chunked_then_smuggled(&format!("5;{name}\r\nhello\r\n0\r\n\r\n"))
    }),
    class("trailers that change the framing", RefusedInBody, |d| {
        let field =
            d.form(&["Content-Length: 50", "Transfer-Encoding: chunked", "Host: other", "connection: close"]);
        d.chunked_then_smuggled(&format!("5\r\nhello\r\n0\r\n{field}\r\n\r\n"))
    }),
    class("trailers malformed", RefusedInBody, |d| {
        let field =
            d.form(&["A : b", " A: b", "A", ": b", "A: b\r\n c", "A: \0", "A\u{1}: b", "GET / HTTP/1.1"]);
        d.chunked_then_smuggled(&format!("0\r\n{field}\r\n\r\n"))
    }),
    class("trailers end in LF", RefusedInBody, |d| {
        let trailers = d.form(&["A: b\n\r\n", "A: b\r\n\n", "A: b\n\n", "\n"]);
        d.chunked_then_smuggled(&format!("0\r\n{trailers}"))
    }),
    class("trailers too long", RefusedInBody, |d| {
        let trailers = match d.variation % 2 {
            0 => "A: b\r\n".repeat(5_000),
            _ => format!("A: {}\r\n", "b".repeat(300_000)),
        };
        d.chunked_then_smuggled(&format!("0\r\n{trailers}\r\n"))
    }),
    class("garbage after a body", ServedThenRefused, |d| {
        let garbage = d.form(&["\0", "?\r\n", " ", "hello\r\n", "\n", ":\r\n"]);
        let rest = format!("hello{garbage}{}", d.smuggled());
        d.post(&["Content-Length: 5"], &rest)
    }),
    class("garbage after a chunked body", ServedThenRefused, |d| {
        let garbage = d.form(&["0\r\n\r\n", "\0", "\t", "5\r\nhello\r\n", "\n\n"]);
        let rest = format!("0\r\n\r\n{garbage}{}", d.smuggled());
        d.post(&["Transfer-Encoding: chunked"], &rest)
    }),
    class("a body that was not announced", ServedThenRefused, |d| {
        let body = d.form(&["hello\r\n", "{\"a\": 1}\r\n", "a=b&c=d\r\n", "<a/>\r\n"]);
        let rest = format!("{body}{}", d.smuggled());
        d.post(&[], &rest)
    }),
];
