//! A small blocking HTTP client for readiness checks and counters: one GET per connection, with limits on time and
//! size.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::{Namespace, namespace};

mod credentials;

pub use credentials::Credentials;

/// Maximum size of a response, bytes. The metrics of a large Envoy are a few MiB.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// A complete response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// Sends a GET with `credentials` to `address`, from `namespace` or from the host's network. `timeout` limits the whole
/// exchange.
///
/// # Errors
/// I/O errors of the connection; `InvalidData` if the response is not HTTP or too large.
pub(crate) fn get_with(
    credentials: &Credentials,
    namespace: Option<&Namespace>,
    address: SocketAddr,
    host: &str,
    path: &str,
    timeout: Duration,
) -> io::Result<Answer> {
    let sent = Sent { method: "GET", content_type: "", body: "" };
    send(credentials, namespace, address, Asked { host, path }, sent, timeout)
}

/// As [`get_with`], with any method and body.
pub(crate) fn send(
    credentials: &Credentials,
    namespace: Option<&Namespace>,
    address: SocketAddr,
    Asked { host, path }: Asked<'_>,
    Sent { method, content_type, body }: Sent<'_>,
    timeout: Duration,
) -> io::Result<Answer> {
    let deadline = Instant::now() + timeout;
    let socket = namespace::connect(namespace, address, timeout)?;
    socket.set_write_timeout(Some(timeout))?;
    socket.set_read_timeout(Some(timeout))?;
    let mut stream = credentials.speak(socket, host)?;
    let token = credentials.field();
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{token}Connection: close\r\n");
    if !body.is_empty() {
        let length = body.len();
        head.push_str(&format!("Content-Type: {content_type}\r\nContent-Length: {length}\r\n"));
    }
    let request = format!("{head}\r\n{body}");
    stream.write_all(request.as_bytes())?;
    let mut bytes = Vec::new();
    let mut chunk = [0; 16 << 10];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.socket().set_read_timeout(Some(left))?;
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => bytes.extend_from_slice(&chunk[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Err(error) => return Err(error),
        }
        if bytes.len() > ANSWER_BYTES_MAX {
            return Err(invalid("the response is too large"));
        }
    }
    parse(&bytes)
}

/// The host and path of a request.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The value of the Host header, and the TLS server name.
    pub host: &'a str,
    /// The path with its query.
    pub path: &'a str,
}

/// The method and body of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent<'a> {
    pub(crate) method: &'a str,
    /// The media type of the body.
    pub(crate) content_type: &'a str,
    pub(crate) body: &'a str,
}

/// Sends a GET with `credentials`, and returns the status of the response. `timeout` limits the whole exchange.
///
/// # Errors
/// A message if the connection fails, or the response is not HTTP.
pub fn status_of(
    credentials: &Credentials,
    namespace: Option<&Namespace>,
    address: SocketAddr,
    asked: Asked<'_>,
    timeout: Duration,
) -> Result<u16, String> {
    let answer = get_with(credentials, namespace, address, asked.host, asked.path, timeout);
    answer.map(|answer| answer.status).map_err(|error| error.to_string())
}

/// Performs a TLS handshake with `address` for the server name `host`, and returns the server's certificate in DER
/// form. Sends no request. `timeout` limits each read and write.
///
/// # Errors
/// A message if the connection or the handshake fails.
pub fn certificate_of(
    credentials: &Credentials,
    namespace: Option<&Namespace>,
    address: SocketAddr,
    host: &str,
    timeout: Duration,
) -> Result<Vec<u8>, String> {
    let shown = || {
        let socket = namespace::connect(namespace, address, timeout)?;
        socket.set_write_timeout(Some(timeout))?;
        socket.set_read_timeout(Some(timeout))?;
        credentials.speak(socket, host)?.certificate()
    };
    shown().map_err(|error: io::Error| error.to_string())
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

fn parse(bytes: &[u8]) -> io::Result<Answer> {
    let end = bytes
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .ok_or_else(|| invalid("the response is not HTTP, or is incomplete"))?;
    let head = String::from_utf8_lossy(&bytes[..end]);
    let mut lines = head.split("\r\n");
    let status = lines
        .next()
        .filter(|line| line.starts_with("HTTP/1."))
        .and_then(|line| line.split(' ').nth(1))
        .and_then(|status| status.parse().ok())
        .ok_or_else(|| invalid("the response is not HTTP"))?;
    let chunked = lines.filter_map(|line| line.split_once(':')).any(|(name, value)| {
        name.eq_ignore_ascii_case("transfer-encoding") && value.trim().eq_ignore_ascii_case("chunked")
    });
    let body = &bytes[end + 4..];
    let body = if chunked { unchunk(body)? } else { body.to_vec() };
    Ok(Answer { status, body: String::from_utf8_lossy(&body).into_owned() })
}

fn unchunk(mut rest: &[u8]) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = rest
            .windows(2)
            .position(|window| window == b"\r\n")
            .ok_or_else(|| invalid("incomplete chunk"))?;
        let digits = String::from_utf8_lossy(&rest[..line]);
        let size = usize::from_str_radix(digits.split(';').next().unwrap_or_default().trim(), 16)
            .map_err(|_| invalid("a chunk of the response has no size"))?;
        rest = &rest[line + 2..];
        if size == 0 {
            return Ok(body);
        }
        let data = rest.get(..size).ok_or_else(|| invalid("incomplete chunk"))?;
        body.extend_from_slice(data);
        rest = rest.get(size + 2..).ok_or_else(|| invalid("incomplete chunk"))?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &str, expected: Option<(u16, &str)>) {
        let answer = parse(bytes.as_bytes()).ok();
        let expected = expected.map(|(status, body)| Answer { status, body: body.into() });
        assert_eq!(answer, expected, "{bytes:?}");
    }

    #[test]
    fn incomplete_responses_are_rejected() {
        check("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", Some((200, "ok")));
        check("HTTP/1.1 503\r\n\r\n", Some((503, "")));
        let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        check(&format!("{chunked}3\r\nabc\r\n1;x=y\r\nd\r\n0\r\n\r\n"), Some((200, "abcd")));
        check(&format!("{chunked}3\r\nab"), None);
        check(&format!("{chunked}ffffffffffffffff\r\nab"), None);
        check(&format!("{chunked}zz\r\n"), None);
        check("SSH-2.0-OpenSSH\r\n\r\n", None);
        check("HTTP/1.1 200 OK\r\n", None);
        check("", None);
    }
}
