//! Responses that a route creates without an upstream: redirects, fixed responses and CORS preflights.

use tokio::io::{AsyncRead, AsyncWrite};
use weir_config::{Filters, HeaderChanges, Preflight, Redirect, Respond, Scheme, host_and_port, rewritten};
use weir_http::{
    Framing, RequestHead, Version, append_content_length, append_field, append_status_line, fields_named,
};

use crate::body::BodyPump;
use crate::connection::{After, Client};
use crate::filtered::{Matched, append_changed};
use crate::request::Routed;
use crate::response::append_persistence;
use crate::snapshot::Snapshot;

/// Longest request body that the gateway reads and discards to keep the connection open.
const SKIPPED_BYTES_MAX: u64 = 64 << 10;

/// A response whose headers are still incomplete, because the remaining headers depend on the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) routed: Routed,
    status: u16,
    /// Index of the filters in the table. Their `respond` contains the response body. `None` if the response has no
    /// body.
    body_of: Option<u32>,
    /// Bytes of the request headers.
    head_len: usize,
    framing: Framing,
    /// Whether the client waits for `100 Continue` before it sends the body.
    is_held_back: bool,
    keep_alive: bool,
    version: Version,
}

/// The `Origin` of a request. `None` if the request has no such field, or several, which are ambiguous.
pub(crate) fn origin<'h>(head: &RequestHead<'h>) -> Option<&'h [u8]> {
    let mut origins = fields_named(head.fields, "origin");
    let (Some(origin), None) = (origins.next(), origins.next()) else { return None };
    Some(origin.value)
}

/// The response to a CORS preflight. `None` if the request is not a preflight or the route has no CORS policy.
pub(crate) fn preflight(request: &Matched<'_>, filters: &Filters, out: &mut Vec<u8>) -> Option<Answer> {
    let head = request.head;
    let policy = filters.cors.as_ref().filter(|_| head.method == "OPTIONS")?;
    let method = head.field("access-control-request-method")?;
    let asked =
        Preflight { origin: origin(head)?, method, headers: head.field("access-control-request-headers") };
    append_status_line(out, 204);
    policy.preflight(&asked, |name, value| append_field(out, name, value));
    Some(Answer::new(request, 204))
}

/// The response that the route's `respond` configures.
pub(crate) fn fixed(
    request: &Matched<'_>,
    (filters, position): (&Filters, u32),
    respond: &Respond,
    cors: &[u8],
    out: &mut Vec<u8>,
) -> Answer {
    append_status_line(out, respond.status);
    let changes = filters.route.response_headers.as_deref();
    for (name, value) in &respond.headers {
        append_kept(changes, name, value.as_bytes(), out);
    }
    let has_type = respond.headers.keys().any(|name| name.eq_ignore_ascii_case("content-type"));
    if !respond.body.is_empty() && !has_type {
        append_kept(changes, "Content-Type", b"text/plain; charset=utf-8", out);
    }
    if !matches!(respond.status, 204 | 304) {
        append_content_length(out, respond.body.len() as u64);
    }
    append_end_of_fields(changes, cors, out);
    let has_body = !respond.body.is_empty() && request.head.method != "HEAD";
    Answer { body_of: has_body.then_some(position), ..Answer::new(request, respond.status) }
}

/// A redirect; `None` if neither the route nor the request names a host.
pub(crate) fn elsewhere(
    request: &Matched<'_>,
    filters: &Filters,
    redirect: &Redirect,
    cors: &[u8],
    out: &mut Vec<u8>,
) -> Option<Answer> {
    let location = location(request, redirect)?;
    append_status_line(out, redirect.status);
    let changes = filters.route.response_headers.as_deref();
    append_kept(changes, "Location", &location, out);
    append_content_length(out, 0);
    append_end_of_fields(changes, cors, out);
    Some(Answer::new(request, redirect.status))
}

fn location(request: &Matched<'_>, redirect: &Redirect) -> Option<Vec<u8>> {
    let own_scheme = if request.is_secure { Scheme::Https } else { Scheme::Http };
    let scheme = redirect.scheme.unwrap_or(own_scheme);
    let (own_host, own_port) = host_and_port(request.head.host);
    let host = redirect.host.as_deref().or(Some(own_host).filter(|host| !host.is_empty()))?;
    let port = redirect.port.or(own_port.filter(|_| redirect.scheme.is_none()));
    let mut location = format!("{}://{host}", scheme.name()).into_bytes();
    if let Some(port) = port.filter(|&port| port != scheme.port()) {
        location.extend_from_slice(format!(":{port}").as_bytes());
    }
    // `OPTIONS *` refers to the whole host.
    let (path, target) = match request.target.as_str() {
        "*" => ("/", "/"),
        target => (request.target.sent_path(), target),
    };
    match (&redirect.path, &redirect.prefix) {
        (Some(whole), _) => {
            rewritten(&mut location, whole, target, path.len());
        }
        (None, Some(prefix)) => {
            rewritten(&mut location, prefix, target, request.target.sent_bytes(request.found.matched));
        }
        (None, None) => location.extend_from_slice(target.as_bytes()),
    }
    Some(location)
}

fn append_kept(changes: Option<&HeaderChanges>, name: &str, value: &[u8], out: &mut Vec<u8>) {
    if changes.is_none_or(|changes| changes.keeps(name)) {
        append_field(out, name, value);
    }
}

fn append_end_of_fields(changes: Option<&HeaderChanges>, cors: &[u8], out: &mut Vec<u8>) {
    if let Some(changes) = changes {
        append_changed(changes, out);
    }
    out.extend_from_slice(cors);
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    /// A response without a body.
    fn new(request: &Matched<'_>, status: u16) -> Answer {
        let head = request.head;
        Answer {
            routed: Routed::from(&request.found),
            status,
            body_of: None,
            head_len: head.head_len,
            framing: head.framing,
            is_held_back: head.expect_continue,
            keep_alive: head.keep_alive,
            version: head.version,
        }
    }
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Client<'_, R, W> {
    /// Completes the response headers in `out` and sends the response.
    pub(crate) async fn answer(&mut self, answer: &Answer, snapshot: &Snapshot, out: &mut Vec<u8>) -> After {
        self.inbound.consume(answer.head_len);
        let is_read = self.skip_body(answer, snapshot).await;
        let keep = is_read && answer.keep_alive && !self.is_draining();
        append_field(out, "Date", self.io.worker.date.text().as_bytes());
        append_persistence(keep, answer.version == Version::Http10, out);
        out.extend_from_slice(b"\r\n");
        let filters = answer.body_of.and_then(|position| snapshot.table.filters().get(position as usize));
        if let Some(respond) = filters.and_then(|filters| filters.route.respond.as_ref()) {
            out.extend_from_slice(respond.body.as_bytes());
        }
        self.count_response(Some(answer.routed), answer.status, snapshot);
        let mut bytes = 0;
        let sent = self.io.write_all(&mut self.writer, out, &mut bytes, snapshot.ticks.write).await;
        self.observed.sent(bytes);
        match sent {
            Err(_) => After::Close,
            Ok(()) if keep => After::Next,
            Ok(()) if answer.keep_alive || !is_read || !self.inbound.is_empty() => After::Linger,
            Ok(()) => After::Close,
        }
    }

    /// Discards the request body if it is short. Returns whether the connection can serve another request.
    async fn skip_body(&mut self, answer: &Answer, snapshot: &Snapshot) -> bool {
        let mut body = BodyPump::new(answer.framing, false, SKIPPED_BYTES_MAX);
        let is_short = !matches!(answer.framing, Framing::Length(bytes) if bytes > SKIPPED_BYTES_MAX);
        let mut skipped = Vec::new();
        while !body.is_done() {
            if self.observed.pass(&mut body, &mut self.inbound, &mut skipped).is_err() {
                return false;
            }
            skipped.clear();
            if body.is_done() {
                break;
            }
            if answer.is_held_back || !is_short {
                return false;
            }
            let read = self.io.read(&mut self.reader, &mut self.inbound, snapshot.ticks.body).await;
            if !matches!(read, Ok(bytes) if bytes > 0) {
                return false;
            }
        }
        self.inbound.release_if_empty(&self.io.worker.buffers);
        true
    }
}
