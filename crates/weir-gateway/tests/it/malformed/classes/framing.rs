//! Headers that contradict each other about the body length, or are ambiguous.

use super::First::Refused;
use super::{Class, class};

pub(crate) const CLASSES: &[Class] = &[
    class("content-length and chunked, the length longer", Refused, |d| {
        let rest = format!("0\r\n\r\n{}", d.smuggled());
        let length = format!("Content-Length: {}", rest.len());
        d.post(&[&length, "Transfer-Encoding: chunked"], &rest)
    }),
    class("content-length and chunked, the length shorter", Refused, |d| {
        let smuggled = d.smuggled();
        let rest = format!("{:x}\r\n{smuggled}\r\n0\r\n\r\n", smuggled.len());
        let size_line = rest.find('\n').map_or(0, |at| at + 1);
        let length = format!("Content-Length: {size_line}");
        d.post(&["Transfer-Encoding: chunked", &length], &rest)
    }),
    class("transfer-encoding twice", Refused, |d| {
        let second = d.form(&["chunked", "identity", "x", "", "gzip", "Chunked"]);
        let second = format!("Transfer-Encoding: {second}");
        let rest = format!("0\r\n\r\n{}", d.smuggled());
        d.post(&["Transfer-Encoding: chunked", &second], &rest)
    }),
    class("transfer-encoding as a list", Refused, |d| {
        let list = d.form(&[
            "chunked, chunked",
            "identity, chunked",
            "chunked, identity",
            "gzip, chunked",
            ",chunked",
        ]);
        let field = format!("Transfer-Encoding: {list}");
        let rest = format!("0\r\n\r\n{}", d.smuggled());
        d.post(&[&field], &rest)
    }),
    class("transfer-encoding unknown", Refused, |d| {
        let coding = d.form(&["xchunked", "chunkedx", "x-chunked", "identity", "gzip", "chunke"]);
        let field = format!("Transfer-Encoding: {coding}");
        let rest = format!("0\r\n\r\n{}", d.smuggled());
        d.post(&[&field], &rest)
    }),
    class("transfer-encoding with control bytes", Refused, |d| {
        let coding = d.form(&[
            "\u{b}chunked",
            "chunked\u{b}",
            "\u{c}chunked",
            "\u{1}chunked",
            "chunked\u{7f}",
            "\0chunked",
        ]);
        let field = format!("Transfer-Encoding:{coding}");
        let rest = format!("0\r\n\r\n{}", d.smuggled());
        d.post(&[&field, "Content-Length: 5"], &rest)
    }),
    class("transfer-encoding with tabs inside", Refused, |d| {
        let coding = d.form(&["chun\tked", "chunked\tx", "x\tchunked", "chunked chunked"]);
        let field = format!("Transfer-Encoding: {coding}");
        let rest = format!("0\r\n\r\n{}", d.smuggled());
        d.post(&[&field], &rest)
    }),
    class("transfer-encoding quoted or with parameters", Refused, |d| {
        let coding = d.form(&["\"chunked\"", "chunked;q=1", "chunked;", "'chunked'", "chunked=1"]);
        let field = format!("Transfer-Encoding: {coding}");
        let rest = format!("0\r\n\r\n{}", d.smuggled());
        d.post(&[&field], &rest)
    }),
    class("transfer-encoding empty", Refused, |d| {
        let field = d.form(&["Transfer-Encoding:", "Transfer-Encoding: \t ", "transfer-encoding: ,"]);
        d.post_then_smuggled(&[field])
    }),
    class("transfer-encoding, a space before the colon", Refused, |d| {
        let field = d.form(&[
            "Transfer-Encoding : chunked",
            "Transfer-Encoding\t: chunked",
            "Transfer-Encoding  : chunked",
        ]);
        let rest = format!("0\r\n\r\n{}", d.smuggled());
        let length = format!("Content-Length: {}", rest.len());
        d.post(&[field, &length], &rest)
    }),
    class("transfer-encoding folded", Refused, |d| {
        let field = d.form(&[
            "Transfer-Encoding:\r\n chunked",
            "Transfer-Encoding:\r\n\tchunked",
            "X: y\r\n Transfer-Encoding: chunked",
        ]);
        let rest = format!("0\r\n\r\n{}", d.smuggled());
        d.post(&[field], &rest)
    }),
    class("transfer-encoding in HTTP/1.0", Refused, |d| {
        let connection = d.form(&["Connection: keep-alive", "Connection: close", "X: y"]);
        let rest = format!("0\r\n\r\n{}", d.smuggled());
        d.request("POST /first HTTP/1.0", &["Transfer-Encoding: chunked", connection], &rest)
    }),
    class("content-length twice, different", Refused, |d| {
        let smuggled = d.smuggled();
        let (first, second) = (format!("Content-Length: {}", smuggled.len()), d.form(&["0", "1", "5", ""]));
        let second = format!("content-length: {second}");
        d.post(&[&first, &second], &smuggled)
    }),
    class("content-length twice, the same", Refused, |d| {
        let length = d.form(&["0", "00", "000"]);
        let (first, second) = (format!("Content-Length: {length}"), format!("CONTENT-LENGTH: {length}"));
        d.post_then_smuggled(&[&first, &second])
    }),
    class("content-length as a list", Refused, |d| {
        let list = d.form(&["0, 0", "0,0", "0, 5", "5, 0", "0,", ",0"]);
        let field = format!("Content-Length: {list}");
        d.post_then_smuggled(&[&field])
    }),
    class("content-length with a sign", Refused, |d| {
        let length = d.form(&["-1", "+0", "-0", "+5", "-9223372036854775808"]);
        let field = format!("Content-Length: {length}");
        d.post_then_smuggled(&[&field])
    }),
    class("content-length not a number", Refused, |d| {
        let length = d.form(&["", "0x0", "0 0", "0.0", "zero", "0;0", "\"0\"", "\u{664}"]);
        let field = format!("Content-Length: {length}");
        d.post_then_smuggled(&[&field])
    }),
    class("content-length beyond 64 bits", Refused, |d| {
        let length = d.form(&[
            "18446744073709551616",
            "9223372036854775808",
            "18446744073709551620",
            "99999999999999999999999999",
        ]);
        let field = format!("Content-Length: {length}");
        d.post_then_smuggled(&[&field])
    }),
    class("content-length, a space before the colon", Refused, |d| {
        let field = d.form(&["Content-Length : 0", "Content-Length\t: 5", "Content Length: 0"]);
        d.post_then_smuggled(&[field])
    }),
    class("connection names the framing", Refused, |d| {
        let option = d.form(&["Content-Length", "close, content-length", "Host", "keep-alive, HOST"]);
        let smuggled = d.smuggled();
        let (connection, length) =
            (format!("Connection: {option}"), format!("Content-Length: {}", smuggled.len()));
        d.post(&[&connection, &length], &smuggled)
    }),
];
