//! Request lines and headers that violate the grammar.

use super::First::Refused;
use super::{Class, class};
use crate::malformed::draft::Draft;

pub(crate) const CLASSES: &[Class] = &[
    class("a line ends in LF", Refused, |d| {
        let mut bytes = d.get_with("X: y");
        let ends: Vec<usize> =
            bytes.windows(2).enumerate().filter(|(_, w)| *w == b"\r\n").map(|(at, _)| at).collect();
        // Removes the CR from the request line or from one of the first three headers. Every request here has at least
        // three headers.
        bytes.remove(ends[d.random.below(4)]);
        bytes
    }),
    class("the head ends in LF", Refused, |d| {
        let end = d.form(&["\n\n", "\r\n\n", "\n\r\n"]);
        let (id, smuggled) = (d.id_field(), d.smuggled());
        format!("GET /first HTTP/1.1\r\nHost: example.com\r\n{id}{end}{smuggled}").into_bytes()
    }),
    class("a bare CR in a value", Refused, |d| {
        let field = d.form(&["X: y\rz", "X: y\rTransfer-Encoding: chunked", "X: \ry", "X: y\r\rz", "X: y\r"]);
        d.get_with(field)
    }),
    class("lines end in CR", Refused, |d| {
        let text = String::from_utf8_lossy(&d.get_with("X: y")).replace("\r\n", "\r");
        text.into_bytes()
    }),
    class("NUL", Refused, |d| match d.variation % 4 {
        0 => d.get_with("X: \0"),
        1 => d.get_with("X\0: y"),
        2 => d.line("GET /first\0 HTTP/1.1"),
        _ => d.line("GET\0 /first HTTP/1.1"),
    }),
    class("control bytes in a name", Refused, |d| {
        let name = d.form(&["X\u{1}", "\u{b}X", "X\u{7f}", "Content-Length\u{c}", "Transfer-Encoding\u{8}"]);
        d.get_with(&format!("{name}: 0"))
    }),
    class("delimiters in a name", Refused, |d| {
        let name = d.form(&["X(", "X/Y", "X@", "X\"Y\"", "X[0]", "X=Y", "X,Y", "X{"]);
        d.get_with(&format!("{name}: y"))
    }),
    class("a name that is not ASCII", Refused, |d| {
        let name = d.form(&["X-\u{e9}", "\u{130}ost", "Content\u{2010}Length", "\u{feff}Host"]);
        d.get_with(&format!("{name}: 0"))
    }),
    class("control bytes in a value", Refused, |d| {
        let value = d.form(&["\u{1}", "y\u{b}z", "\u{7f}", "\u{1b}[0m", "\u{8}y"]);
        d.get_with(&format!("X: {value}"))
    }),
    class("a folded field", Refused, |d| {
        let field = d.form(&["X: y\r\n z", "X: y\r\n\tz", "X:\r\n y", "X: y\r\n "]);
        d.get_with(field)
    }),
    class("a space before the colon", Refused, |d| {
        let field = d.form(&["X : y", "X\t: y", "X  : y", "X y: z"]);
        d.get_with(field)
    }),
    class("white space before the first field", Refused, |d| {
        let space = d.form(&[" ", "\t", "  "]);
        d.line(&format!("GET /first HTTP/1.1\r\n{space}X: y"))
    }),
    class("a field without a colon", Refused, |d| {
        let field = d.form(&["X", "Transfer-Encoding chunked", "=", "GET /a HTTP/1.1"]);
        d.get_with(field)
    }),
    class("a field without a name", Refused, |d| {
        let field = d.form(&[": y", ":", ": chunked", "::"]);
        d.get_with(field)
    }),
    class("host missing", Refused, |d| {
        let smuggled = d.smuggled();
        let line =
            d.form(&["GET /first HTTP/1.1", "GET http://example.com/first HTTP/1.1", "OPTIONS * HTTP/1.1"]);
        d.request_without_host(line, &[], &smuggled)
    }),
    class("host repeated", Refused, |d| {
        let second = d.form(&["Host: example.com", "host: other", "HOST:", "Host: example.com:80"]);
        d.get_with(second)
    }),
    class("host invalid", Refused, |d| {
        let host = d.form(&[
            "",
            "a b",
            "example.com/",
            "u@example.com",
            "example.com:x",
            "example.com, b",
            "[::1",
            "a\\b",
        ]);
        let (host, smuggled) = (format!("Host: {host}"), d.smuggled());
        d.request_without_host("GET /first HTTP/1.1", &[&host], &smuggled)
    }),
    class("an absolute target for another host", Refused, |d| {
        let authority = d.form(&["other", "example.com:81", "example.com.", "u@example.com", ""]);
        d.line(&format!("GET http://{authority}/first HTTP/1.1"))
    }),
    class("a space in the target", Refused, |d| {
        let target = d.form(&["/a b", "/a HTTP/1.1 b", "/a  b", "/ /a"]);
        d.line(&format!("GET {target} HTTP/1.1"))
    }),
    class("a fragment in the target", Refused, |d| {
        let target = d.form(&["/first#", "/first#a", "#", "http://example.com/#a"]);
        d.line(&format!("GET {target} HTTP/1.1"))
    }),
    class("control or non-ASCII bytes in the target", Refused, |d| {
        let target = d.form(&["/\u{1}", "/a\tb", "/\u{e9}", "/\u{7f}", "/\u{b}", "/\u{200b}"]);
        d.line(&format!("GET {target} HTTP/1.1"))
    }),
    class("a form of target that does not match the method", Refused, |d| {
        let line = d.form(&[
            "GET *",
            "GET example.com:80",
            "GET first",
            "CONNECT /first",
            "GET ftp://example.com/",
            "GET \\",
        ]);
        d.line(&format!("{line} HTTP/1.1"))
    }),
    class("an unsupported version", Refused, |d| {
        let version = d.form(&["HTTP/1.2", "HTTP/2.0", "HTTP/0.9", "HTTP/3.0", "HTTP/9.9"]);
        d.line(&format!("GET /first {version}"))
    }),
    class("a version in lower case", Refused, |d| {
        let version = d.form(&["http/1.1", "Http/1.1", "HTTp/1.0"]);
        d.line(&format!("GET /first {version}"))
    }),
    class("a malformed version", Refused, |d| {
        let version =
            d.form(&["HTTP/1.10", "HTTP/11", "HTTP/1,1", "HTTP/1.", "HTTP/01.1", "HTTPS/1.1", "HTTP 1.1"]);
        d.line(&format!("GET /first {version}"))
    }),
    class("no version", Refused, |d| {
        let line = d.form(&["GET /first", "GET /first ", "/first"]);
        d.line(line)
    }),
    class("no method", Refused, |d| {
        let line = d.form(&[" /first HTTP/1.1", "/first HTTP/1.1", "  /first HTTP/1.1"]);
        d.line(line)
    }),
    class("a method that is not a token", Refused, |d| {
        let method = d.form(&["GE(T", "G\"ET\"", "GET,", "G\u{e9}T", "GET/", "GET:"]);
        d.line(&format!("{method} /first HTTP/1.1"))
    }),
    class("white space around the request line", Refused, |d| {
        let line = d.form(&[
            " GET /first HTTP/1.1",
            "\tGET /first HTTP/1.1",
            "GET /first HTTP/1.1 ",
            "\u{b}GET /first HTTP/1.1",
        ]);
        d.line(line)
    }),
    class("other white space in the request line", Refused, |d| {
        let line = d.form(&[
            "GET  /first HTTP/1.1",
            "GET /first  HTTP/1.1",
            "GET\t/first HTTP/1.1",
            "GET\r/first HTTP/1.1",
        ]);
        d.line(line)
    }),
    class("too many empty lines before", Refused, |d| {
        let lines = d.form(&["\r\n\r\n\r\n", "\n", "\r\n\n", "\r\r\n", "\r\n\r\n\r\n\r\n\r\n\r\n"]);
        d.line(&format!("{lines}GET /first HTTP/1.1"))
    }),
    class("a head too long", Refused, |d| {
        let bytes = [100_000, 300_000, 1_000_000][d.variation % 3];
        d.get_with(&format!("X: {}", "y".repeat(bytes)))
    }),
    class("a target too long", Refused, |d| {
        let bytes = [70_000, 300_000][d.variation % 2];
        d.line(&format!("GET /{} HTTP/1.1", "a".repeat(bytes)))
    }),
    class("too many fields", Refused, |d| {
        let count = [1_000, 5_000][d.variation % 2];
        d.get_with("X: y\r\n".repeat(count).trim_end())
    }),
    class("an unknown expectation", Refused, |d| {
        let value = d.form(&["200-ok", "100-continue, x", "", "100"]);
        d.get_with(&format!("Expect: {value}"))
    }),
    class("the HTTP/2 preface", Refused, |d| {
        let settings = d.form(&["", "\0\0\0\u{4}\0\0\0\0\0"]);
        format!("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{settings}{}", d.smuggled()).into_bytes()
    }),
    class("another protocol", Refused, |d| {
        let start = d.form(&[
            "\u{16}\u{3}\u{1}\0\u{5}\u{1}\0\0\u{1}\u{3}\u{3}",
            "EHLO example.com\r\n",
            "\u{5}\u{1}\0",
            "HTTP/1.1 200 OK\r\n\r\n",
        ]);
        format!("{start}{}", d.smuggled()).into_bytes()
    }),
    class("random bytes", Refused, random_bytes),
];

fn random_bytes(d: &mut Draft) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..200).map(|_| d.random.below(256) as u8).collect();
    // No request line begins with this byte.
    bytes[0] = 0x80;
    bytes.extend_from_slice(d.smuggled().as_bytes());
    bytes
}
