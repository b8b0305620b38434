//! Appends lines, header fields and chunk framing to a buffer that the caller reuses.
//!
//! Names and values are appended unchanged. They come from a parsed message or from validated configuration. Debug
//! builds assert that they contain no line end.

use crate::Framing;

/// The line end after a chunk's data.
pub const CHUNK_END: &[u8] = b"\r\n";
/// The last chunk, without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";
/// The whole `100 Continue` response, after which the client sends the request body.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Appends `METHOD target HTTP/1.1` and a line end.
pub fn append_request_line(out: &mut Vec<u8>, method: &str, target: &str) {
    debug_assert!(is_line_safe(method.as_bytes()) && is_line_safe(target.as_bytes()));
    out.reserve(method.len() + target.len() + 12);
    out.extend_from_slice(method.as_bytes());
    out.push(b' ');
    out.extend_from_slice(target.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\n");
}

/// Appends an HTTP/1.1 status line with the standard reason phrase.
pub fn append_status_line(out: &mut Vec<u8>, status: u16) {
    if status == 200 {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
    } else {
        append_status_line_with_reason(out, status, reason_phrase(status));
    }
}

/// Appends an HTTP/1.1 status line with the reason phrase of a parsed response.
pub fn append_status_line_with_reason(out: &mut Vec<u8>, status: u16, reason: &str) {
    debug_assert!(is_line_safe(reason.as_bytes()) && (100..1000).contains(&status));
    let digits =
        [b'0' + (status / 100 % 10) as u8, b'0' + (status / 10 % 10) as u8, b'0' + (status % 10) as u8];
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(&digits);
    out.push(b' ');
    out.extend_from_slice(reason.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Appends a header field and a line end.
#[inline]
pub fn append_field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    debug_assert!(is_line_safe(name.as_bytes()) && is_line_safe(value));
    out.reserve(name.len() + value.len() + 4);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends a Content-Length field.
pub fn append_content_length(out: &mut Vec<u8>, body_bytes: u64) {
    out.extend_from_slice(b"Content-Length: ");
    out.extend_from_slice(itoa::Buffer::new().format(body_bytes).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Appends the header field that announces this framing. Appends nothing if there is no body, or if the body lasts
/// until the connection closes.
pub fn append_framing(out: &mut Vec<u8>, framing: Framing) {
    match framing {
        Framing::None | Framing::UntilClose => {}
        Framing::Length(body_bytes) => append_content_length(out, body_bytes),
        Framing::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
    }
}

/// Appends the size line of a chunk. The caller then appends the data and [`CHUNK_END`]. The caller must skip empty
/// chunks, because a chunk of size 0 ends the body.
pub fn append_chunk_header(out: &mut Vec<u8>, data_bytes: usize) {
    debug_assert!(data_bytes > 0, "an empty chunk would end the body");
    let mut digits = [0u8; 18];
    let mut at = digits.len() - 2;
    digits[at..].copy_from_slice(b"\r\n");
    let mut rest = data_bytes;
    while rest > 0 {
        at -= 1;
        digits[at] = b"0123456789abcdef"[rest & 15];
        rest >>= 4;
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends the last chunk with trailers from [`crate::BodyDecoder::trailers`], which may be empty.
pub fn append_last_chunk(out: &mut Vec<u8>, trailers: &[u8]) {
    out.extend_from_slice(b"0\r\n");
    out.extend_from_slice(trailers);
    out.extend_from_slice(b"\r\n");
}

/// Returns the standard reason phrase of a status, or an empty string if it has none.
pub fn reason_phrase(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        102 => "Processing",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        207 => "Multi-Status",
        208 => "Already Reported",
        226 => "IM Used",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        305 => "Use Proxy",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400..=499 => client_error_reason(status),
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        506 => "Variant Also Negotiates",
        507 => "Insufficient Storage",
        508 => "Loop Detected",
        511 => "Network Authentication Required",
        _ => "",
    }
}

fn client_error_reason(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        423 => "Locked",
        424 => "Failed Dependency",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        _ => "",
    }
}

fn is_line_safe(bytes: &[u8]) -> bool {
    memchr::memchr3(b'\r', b'\n', 0, bytes).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_headers_are_hexadecimal() {
        for data_bytes in [1usize, 9, 10, 15, 16, 255, 256, 4096, 65535, usize::MAX] {
            let mut out = Vec::new();
            append_chunk_header(&mut out, data_bytes);
            assert_eq!(String::from_utf8(out).unwrap(), format!("{data_bytes:x}\r\n"));
        }
    }

    #[test]
    fn status_lines_contain_the_reason_phrase() {
        let mut out = Vec::new();
        append_status_line(&mut out, 200);
        append_status_line(&mut out, 404);
        append_status_line(&mut out, 599);
        let expected = "HTTP/1.1 200 OK\r\nHTTP/1.1 404 Not Found\r\nHTTP/1.1 599 \r\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
