//! One line of the access log.
//!
//! Client data is escaped, so that it can't end the line or a quoted value.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use rustls::ProtocolVersion;
use weir_config::{LogLine, LogPiece, LogStyle, LogValue, Table};
use weir_http::{Field, RefusedHead, RequestHead, Version, fields_named};

use crate::dropped_fields::is_dropped;
use crate::forwarding::Marks;
use crate::observed::Observed;

/// The formatted values of the request headers. The headers themselves are gone when the line is written.
#[derive(Debug, Default)]
pub(crate) struct HeadValues {
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl HeadValues {
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    /// Formats the values of `head` that `line` needs.
    pub(crate) fn fill(&mut self, line: &LogLine, head: &LoggedHead<'_>) {
        for piece in &line.pieces {
            if let LogPiece::Value(value) = piece
                && value.is_of_head()
            {
                append_of_head(&mut Values { out: &mut self.text, style: line.style }, value, head);
                self.ends.push(self.text.len());
            }
        }
    }

    /// The values in order; empty if no headers were received.
    fn values(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(move |(start, &end)| &self.text[start..end])
    }
}

/// The request headers for the log: all of them if they are valid, otherwise the readable parts.
#[derive(Default)]
pub(crate) struct LoggedHead<'h> {
    method: Option<&'h str>,
    target: Option<&'h [u8]>,
    version: Option<&'h str>,
    host: &'h [u8],
    /// Header fields as received, including those that the gateway drops.
    fields: &'h [Field<'h>],
    underscores_in_headers: bool,
}

impl<'h> LoggedHead<'h> {
    pub(crate) fn of(head: &RequestHead<'h>, underscores_in_headers: bool) -> LoggedHead<'h> {
        let version = match head.version {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
        };
        LoggedHead {
            method: Some(head.method),
            target: Some(head.path_and_query.as_bytes()),
            version: Some(version),
            host: head.host.as_bytes(),
            fields: head.fields,
            underscores_in_headers,
        }
    }

    pub(crate) fn of_refused(head: &RefusedHead<'h>, underscores_in_headers: bool) -> LoggedHead<'h> {
        let fields = head.fields.unwrap_or_default();
        let mut hosts = fields_named(fields, "host");
        let host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => host.value,
            _ => b"",
        };
        LoggedHead {
            method: head.method,
            target: head.target,
            version: head.version,
            host,
            fields,
            underscores_in_headers,
        }
    }

    /// Method, target and version, as far as known.
    fn request_line(&self) -> Option<Vec<u8>> {
        let parts = [self.method.map(str::as_bytes), self.target, self.version.map(str::as_bytes)];
        let line = parts.into_iter().flatten().collect::<Vec<_>>().join(&b' ');
        Some(line).filter(|line| !line.is_empty())
    }

    /// The value of the field called `name`; a `-` in `name` also matches `_`. Several lines with the same name are
    /// joined, and a field that the gateway drops has no value, as in nginx.
    fn field(&self, name: &str) -> Option<Cow<'h, [u8]>> {
        let lines = self.fields.iter().filter(|field| self.is_named(field.name, name));
        let mut values = lines.map(|field| field.value);
        let first = values.next()?;
        let separator: &[u8] = if name.eq_ignore_ascii_case("cookie") { b"; " } else { b", " };
        let mut joined = Cow::Borrowed(first);
        for value in values {
            joined.to_mut().extend_from_slice(separator);
            joined.to_mut().extend_from_slice(value);
        }
        Some(joined)
    }

    fn is_named(&self, field: &str, name: &str) -> bool {
        let is_same = |a: u8, b: u8| a.eq_ignore_ascii_case(&b) || a == b'_' && b == b'-';
        field.len() == name.len()
            && field.bytes().zip(name.bytes()).all(|(a, b)| is_same(a, b))
            && !is_dropped(field, self.underscores_in_headers)
    }
}

/// A request to log.
pub(crate) struct LoggedRequest<'t> {
    pub(crate) observed: &'t Observed,
    pub(crate) table: &'t Table,
    pub(crate) listener: &'t str,
    pub(crate) peer: SocketAddr,
    pub(crate) is_secure: bool,
    /// Duration in nanoseconds, from complete request headers to the end of the response.
    pub(crate) ns: u64,
}

/// The time of day. Its text is formatted once a second.
#[derive(Debug, Default)]
pub(crate) struct LogClock {
    now: Duration,
    second: u64,
    iso: String,
    local: String,
}

impl LogClock {
    /// Reads the clock.
    pub(crate) fn refresh(&mut self) {
        self.set(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
    }

    fn set(&mut self, now: Duration) {
        self.now = now;
        if self.second != now.as_secs() || self.iso.is_empty() {
            self.second = now.as_secs();
            let second = Timestamp::from_second(self.second.cast_signed()).unwrap_or_default();
            self.iso = second.strftime("%Y-%m-%dT%H:%M:%S").to_string();
            self.local = second.strftime("%d/%b/%Y:%H:%M:%S +0000").to_string();
        }
    }
}

/// Appends the line of a request, without a line end.
pub(crate) fn append_line(out: &mut Vec<u8>, line: &LogLine, request: &LoggedRequest<'_>, clock: &LogClock) {
    let head = request.observed.head.borrow();
    let mut of_head = head.values();
    for piece in &line.pieces {
        match piece {
            LogPiece::Text(text) => out.extend_from_slice(text.as_bytes()),
            LogPiece::Value(value) if value.is_of_head() => match of_head.next() {
                Some(value) => out.extend_from_slice(value),
                None => Values { out, style: line.style }.nothing(),
            },
            LogPiece::Value(value) => {
                append_value(&mut Values { out, style: line.style }, value, request, clock);
            }
        }
    }
}

fn append_of_head(values: &mut Values<'_>, value: &LogValue, head: &LoggedHead<'_>) {
    match value {
        LogValue::Method => values.optional(head.method),
        LogValue::Target => values.optional_bytes(head.target),
        LogValue::Protocol => values.optional(head.version),
        LogValue::Host => values.optional_bytes(Some(head.host).filter(|host| !host.is_empty())),
        LogValue::Request => values.optional_bytes(head.request_line().as_deref()),
        LogValue::Field(name) => values.optional_bytes(head.field(name).as_deref()),
        _ => values.nothing(),
    }
}

fn append_value(values: &mut Values<'_>, value: &LogValue, request: &LoggedRequest<'_>, clock: &LogClock) {
    let LoggedRequest { observed, table, listener, peer, is_secure, ns } = *request;
    let routed = observed.routed.get();
    let series = routed.and_then(|routed| table.series().get(routed.series as usize));
    let marks = observed.marks.borrow();
    let not_empty = |name: &&str| !name.is_empty();
    match value {
        LogValue::Time => values.text(&format!("{}.{:03}Z", clock.iso, clock.now.subsec_millis())),
        LogValue::TimeLocal => values.text(&clock.local),
        LogValue::Seconds => {
            values.number(Some(format_args!("{}.{:03}", clock.second, clock.now.subsec_millis())));
        }
        LogValue::Listener => values.text(listener),
        LogValue::RemoteAddress => {
            let client = forwarded_client(observed, marks.as_deref());
            values.text(&client.unwrap_or(peer.ip().to_canonical()).to_string());
        }
        LogValue::RemoteAddressSource => {
            let is_forwarded = forwarded_client(observed, marks.as_deref()).is_some();
            values.text(if is_forwarded { "forwarded" } else { "peer" });
        }
        LogValue::PeerAddress => values.text(&peer.to_string()),
        LogValue::Scheme => values.text(if is_secure { "https" } else { "http" }),
        LogValue::Status => values.number(Some(observed.status.get()).filter(|&status| status > 0)),
        LogValue::Cause => values.optional(observed.cause.get().map(|cause| cause.name())),
        LogValue::BytesSent => values.number(Some(observed.bytes_sent.get())),
        LogValue::Duration => values.number(Some(Seconds(ns))),
        LogValue::Route => values.optional(routed.map(|routed| table.key(routed.route as usize))),
        LogValue::Group => values.optional(series.map(|series| &*series.group).filter(not_empty)),
        LogValue::Backend => values.optional(series.map(|series| &*series.backend).filter(not_empty)),
        LogValue::Upstream => {
            let upstream = observed.upstream.borrow();
            values.optional(upstream.as_ref().map(ToString::to_string).as_deref());
        }
        LogValue::UpstreamSeconds => values.number(observed.upstream_ns().map(Seconds)),
        LogValue::RequestLength => values.number(Some(observed.bytes_received.get())),
        LogValue::SslProtocol => values.optional(observed.tls.map(name_of)),
        LogValue::UpstreamStatus => values.number(Some(observed.upstream_status.get()).filter(|&s| s > 0)),
        LogValue::UpstreamTries => values.number(Some(observed.tries.get()).filter(|&tries| tries > 0)),
        LogValue::RequestId => values.optional(marks.as_ref().and_then(|marks| marks.request_id.as_deref())),
        LogValue::TraceId => values.optional(marks.as_ref().and_then(|marks| marks.trace_id())),
        // `append_line` takes these values from the request headers.
        LogValue::Request
        | LogValue::Method
        | LogValue::Target
        | LogValue::Host
        | LogValue::Protocol
        | LogValue::Field(_) => values.nothing(),
    }
}

/// The client's address, if a trusted proxy has reported one.
fn forwarded_client(observed: &Observed, marks: Option<&Marks>) -> Option<IpAddr> {
    marks.map_or(observed.refused_client.get(), |marks| marks.is_forwarded.then_some(marks.client))
}

/// The name of a TLS version that listeners support.
fn name_of(version: ProtocolVersion) -> &'static str {
    if version == ProtocolVersion::TLSv1_2 { "TLSv1.2" } else { "TLSv1.3" }
}

/// Nanoseconds, printed as seconds with six decimals.
struct Seconds(u64);

impl Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000_000, self.0 % 1_000_000_000 / 1_000)
    }
}

/// Appends values in the style of the log.
struct Values<'o> {
    out: &'o mut Vec<u8>,
    style: LogStyle,
}

impl Values<'_> {
    fn nothing(&mut self) {
        self.out.extend_from_slice(match self.style {
            LogStyle::Json => b"null",
            LogStyle::Plain => b"-",
        });
    }

    fn optional(&mut self, text: Option<&str>) {
        match text {
            Some(text) => self.text(text),
            None => self.nothing(),
        }
    }

    fn optional_bytes(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bytes(bytes),
            None => self.nothing(),
        }
    }

    fn number(&mut self, number: Option<impl Display>) {
        match number {
            // Writing to a vector can't fail.
            Some(number) => drop(write!(self.out, "{number}")),
            None => self.nothing(),
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        match self.style {
            LogStyle::Json => self.text(&String::from_utf8_lossy(bytes)),
            LogStyle::Plain => append_escaped(self.out, bytes),
        }
    }

    fn text(&mut self, text: &str) {
        match self.style {
            // Writing a text to a vector can't fail.
            LogStyle::Json => drop(serde_json::to_writer(&mut *self.out, text)),
            LogStyle::Plain => append_escaped(self.out, text.as_bytes()),
        }
    }
}

/// Escapes client data as nginx does, so that it cannot end a quoted string or a line.
fn append_escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    if bytes.is_empty() {
        return out.push(b'-');
    }
    for &byte in bytes {
        match byte {
            b'"' | b'\\' | 0..=0x1f | 0x7f.. => {
                let [high, low] = [byte >> 4, byte & 0xf].map(|digit| DIGITS[usize::from(digit)]);
                out.extend_from_slice(&[b'\\', b'x', high, low]);
            }
            _ => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_http::{FieldSlots, HeadLimits, parse_request};

    use super::*;

    fn of_head(pieces: Vec<LogPiece>, style: LogStyle, request: &[u8]) -> Vec<String> {
        let mut slots = FieldSlots::new();
        let head = parse_request(request, &HeadLimits::default(), &mut slots).unwrap().unwrap();
        let mut values = HeadValues::default();
        values.fill(&LogLine { pieces, style }, &LoggedHead::of(&head, false));
        values.values().map(|value| String::from_utf8(value.to_vec()).unwrap()).collect()
    }

    #[test]
    fn values_of_the_head_are_escaped() {
        let request = b"GET /a\"b HTTP/1.1\r\nHost: h\r\nX-A: q\"\\\xff\t\r\nX-B:\r\n\r\n";
        let field = |name: &str| LogPiece::Value(LogValue::Field(name.to_owned()));
        let pieces = || {
            let text = LogPiece::Text("|".to_owned());
            vec![field("x-a"), text, field("x-b"), field("x-c"), LogPiece::Value(LogValue::Host)]
        };
        assert_eq!(of_head(pieces(), LogStyle::Plain, request), ["q\\x22\\x5C\\xFF", "-", "-", "h"]);
        assert_eq!(
            of_head(pieces(), LogStyle::Json, request),
            ["\"q\\\"\\\\\u{fffd}\"", "\"\"", "null", "\"h\""]
        );
    }

    #[test]
    fn a_field_sent_in_several_lines_is_logged_whole() {
        let request =
            b"GET / HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nCookie: a=1\r\nx-a: 2, 3\r\nX-A:\r\nCookie: b=2\r\n\r\n";
        let field = |name: &str| LogPiece::Value(LogValue::Field(name.to_owned()));
        let pieces = vec![field("x-a"), field("cookie")];
        assert_eq!(of_head(pieces, LogStyle::Plain, request), ["1, 2, 3, ", "a=1; b=2"]);
    }

    #[test]
    fn a_dropped_field_is_not_logged() {
        let request = b"GET / HTTP/1.1\r\nHost: h\r\nX_A: 1\r\nX-A: 2\r\nProxy: evil\r\n\r\n";
        let mut slots = FieldSlots::new();
        let head = parse_request(request, &HeadLimits::default(), &mut slots).unwrap().unwrap();
        for (underscores, expected) in [(false, "2"), (true, "1, 2")] {
            let head = LoggedHead::of(&head, underscores);
            assert_eq!(head.field("x-a").as_deref(), Some(expected.as_bytes()));
            assert_eq!(head.field("proxy"), None);
        }
    }

    /// Whatever byte a client sends, a line stays one line, and JSON stays valid.
    #[test]
    fn no_byte_ends_a_line() {
        for byte in 0..=u8::MAX {
            for style in [LogStyle::Plain, LogStyle::Json] {
                let mut out = Vec::new();
                Values { out: &mut out, style }.bytes(&[b'a', byte, b'b']);
                let text = String::from_utf8(out).unwrap();
                assert!(text.chars().all(|c| c >= ' '), "{byte}: {text:?}");
                match style {
                    LogStyle::Plain => assert!(text.is_ascii() && !text.contains('"'), "{byte}: {text}"),
                    LogStyle::Json => drop(serde_json::from_str::<String>(&text).unwrap()),
                }
            }
        }
    }

    #[test]
    fn the_time_is_that_of_the_clock() {
        let mut clock = LogClock::default();
        clock.set(Duration::from_millis(951_782_400_123));
        assert_eq!(clock.iso, "2000-02-29T00:00:00");
        assert_eq!(clock.local, "29/Feb/2000:00:00:00 +0000");
        clock.set(Duration::from_millis(951_782_401_123));
        assert_eq!(clock.iso, "2000-02-29T00:00:01");
    }

    #[test]
    fn seconds_have_six_digits() {
        assert_eq!(Seconds(1_002_003_999).to_string(), "1.002003");
    }
}
