//! Parses a request, routes it, and writes the request headers for its upstream.

use weir_config::{Match, NormalTarget, RequestView, Scope, Target, TokenSet, Unroutable, rewritten};
use weir_http::{
    FieldSlots, Framing, HeadError, RequestHead, ResponseTo, Version, append_field, append_framing,
    fields_named, list_contains, parse_request,
};

use crate::affinity::Affinity;
use crate::answer::Answer;
use crate::cause::Cause;
use crate::dropped_fields;
use crate::filtered::{Filtered, Matched, plan_filtered};
use crate::forwarding::{Arrival, Marks};
use crate::respond::Refusal;
use crate::snapshot::Snapshot;

/// `Retry-After` of a request rejected because of overload, in seconds.
const RETRY_AFTER_S: &[u8] = b"1";

/// The result of planning a request from the bytes that a client has sent.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// The request headers are incomplete.
    Partial,
    /// A request to forward. The request headers for the upstream were appended to the output.
    Request(Plan),
    /// A request to which the route itself responds, without an upstream. The start of the response headers was
    /// appended to the output.
    Answered(Answer),
    /// A rejected request, with the length of its headers. The length is 0 if the framing is unknown.
    Refused(Refusal, usize),
}

/// The route that matches a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Routed {
    /// The position of the route in the table.
    pub(crate) route: u32,
    /// The position of the series that counts the request.
    pub(crate) series: u32,
}

impl From<&Match<'_>> for Routed {
    #[inline]
    fn from(found: &Match<'_>) -> Routed {
        Routed { route: found.route as u32, series: found.target.series }
    }
}

/// The values of a request that are still needed when the buffer no longer holds its headers.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) routed: Routed,
    /// The position of the backend in the table.
    pub(crate) backend: usize,
    /// Bytes of the request headers.
    pub(crate) head_len: usize,
    pub(crate) framing: Framing,
    pub(crate) response_to: ResponseTo,
    pub(crate) version: Version,
    pub(crate) keep_alive: bool,
    pub(crate) upgrade: bool,
    /// Whether sending the request twice has the same effect as once (RFC 9110, 9.2.2).
    pub(crate) idempotent: bool,
    /// The property of the request that selects its endpoint.
    pub(crate) affinity: Affinity,
    /// The settings of the route's filters; most routes have none.
    pub(crate) filtered: Option<Box<Filtered>>,
}

/// Parses a request, finds its route among those of the client's listener, and appends the request headers for the
/// upstream to `out`.
#[inline]
pub(crate) fn plan(bytes: &[u8], snapshot: &Snapshot, arrival: &Arrival<'_>, out: &mut Vec<u8>) -> Incoming {
    let mut slots = FieldSlots::new();
    let kept;
    let mut head = match parse_request(bytes, &snapshot.head_limits, &mut slots) {
        Ok(Some(head)) => head,
        Ok(None) => return Incoming::Partial,
        Err(error) => return malformed(error),
    };
    if let Some(fields) = dropped_fields::kept(head.fields, &snapshot.table) {
        if let Some(listener) = arrival.listener {
            dropped_fields::report(head.fields, fields.len(), listener, arrival.peer, &snapshot.table);
        }
        kept = fields;
        head.fields = &kept;
    }
    match &snapshot.table.forwarding {
        None => plan_head(&head, snapshot, (arrival, None), out),
        Some(forwarding) => {
            let marks = Marks::of(forwarding, &head, arrival);
            let incoming = plan_head(&head, snapshot, (arrival, Some(&marks)), out);
            if snapshot.is_logged {
                arrival.observed.marks.replace(Some(Box::new(marks)));
            }
            incoming
        }
    }
}

#[inline]
fn plan_head(
    head: &RequestHead<'_>,
    snapshot: &Snapshot,
    (arrival, marks): (&Arrival<'_>, Option<&Marks>),
    out: &mut Vec<u8>,
) -> Incoming {
    let Arrival { scope, is_secure, is_shed, .. } = *arrival;
    if is_shed {
        return shed(head);
    }
    let table = &*snapshot.table;
    let target = match NormalTarget::of(head.path_and_query, &table.paths) {
        Ok(target) => target,
        Err(unroutable) => return refused(head, unrouted(head, unroutable)),
    };
    let (cause, routed) = match table.find(&view(head, &target, scope)) {
        None => (Cause::NoRoute, None),
        Some(found @ Match { target: Target { filters: Some(position), .. }, .. }) => {
            let request = Matched { head, target: &target, found, is_secure, marks };
            return plan_filtered(&request, *position, snapshot, out);
        }
        Some(found @ Match { target: Target { tokens: Some(tokens), .. }, .. })
            if !is_let_in(tokens, head) =>
        {
            (cause_of_token(head), Some(Routed::from(&found)))
        }
        Some(found) if is_too_long(head, snapshot) => (Cause::BodyTooLarge, Some(Routed::from(&found))),
        Some(found) => {
            let backend = found.target.backend;
            let upgrade = head.upgrade && !offers_h2c(head);
            let rewrite = (found.target.rewrite.as_deref(), target.sent_bytes(found.matched));
            append_start(head.method, target.as_str(), rewrite, out);
            append_host(head, snapshot, backend, out);
            append_marked(head, marks, |_| true, out);
            append_end(head, upgrade, out);
            let plan = plan_for(head, Routed::from(&found), (backend, snapshot), upgrade, (is_secure, marks));
            return Incoming::Request(plan);
        }
    };
    refused(head, Refusal { routed, ..Refusal::new(cause) })
}

/// The plan of a request for the backend at this position, without filters.
#[inline]
pub(crate) fn plan_for(
    head: &RequestHead<'_>,
    routed: Routed,
    (backend, snapshot): (usize, &Snapshot),
    upgrade: bool,
    (is_secure, marks): (bool, Option<&Marks>),
) -> Plan {
    let affinity = Affinity::of(&snapshot.table.backends()[backend], head, is_secure);
    Plan {
        routed,
        backend,
        head_len: head.head_len,
        framing: head.framing,
        response_to: response_to(head),
        version: head.version,
        keep_alive: head.keep_alive,
        upgrade,
        idempotent: is_idempotent(head.method),
        affinity: marks.map_or(affinity, |marks| affinity.with(marks.client)),
        filtered: None,
    }
}

/// The parts of a request that routes match.
#[inline]
pub(crate) fn view<'r>(
    head: &RequestHead<'r>,
    target: &'r NormalTarget<'_>,
    scope: Scope,
) -> RequestView<'r> {
    let RequestHead { method, host, fields, .. } = *head;
    RequestView { method, host, path: target.path(), query: target.query(), fields, scope }
}

/// A rejection of a request with valid headers.
pub(crate) fn refused(head: &RequestHead<'_>, refusal: Refusal) -> Incoming {
    // Close the connection if the request has a body, so that the gateway need not read and discard the body.
    let has_body = !matches!(head.framing, Framing::None | Framing::Length(0));
    let close = has_body || !head.keep_alive || head.version == Version::Http10 || head.method == "CONNECT";
    let head_only = head.method == "HEAD";
    Incoming::Refused(Refusal { head_only, close, ..refusal }, head.head_len)
}

/// A rejection because of overload. It closes the connection, so that a balancer can choose another gateway.
#[cold]
fn shed(head: &RequestHead<'_>) -> Incoming {
    let mut fields = Vec::new();
    append_field(&mut fields, "Retry-After", RETRY_AFTER_S);
    let head_only = head.method == "HEAD";
    Incoming::Refused(Refusal { fields, head_only, ..Refusal::new(Cause::Overloaded) }, head.head_len)
}

/// The response to a request whose target can't be routed.
#[cold]
fn unrouted(head: &RequestHead<'_>, unroutable: Unroutable) -> Refusal {
    match unroutable {
        // The target of CONNECT is an authority, so it never has a path.
        _ if head.method == "CONNECT" => Refusal::new(Cause::ConnectUnsupported),
        Unroutable::Refused(problem) => {
            Refusal { detail: Some(problem.to_string()), ..Refusal::new(Cause::BadPath) }
        }
        Unroutable::Redirect(target) => {
            Refusal { location: Some(target), ..Refusal::new(Cause::EscapedSlashes) }
        }
    }
}

#[cold]
fn malformed(error: HeadError) -> Incoming {
    let refusal = Refusal { detail: Some(error.to_string()), ..Refusal::new(Cause::of_head(error)) };
    Incoming::Refused(refusal, 0)
}

/// Appends the request line. `rewrite` replaces the first `matched` bytes of the path.
pub(crate) fn append_start(
    method: &str,
    target: &str,
    (rewrite, matched): (Option<&str>, usize),
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(method.as_bytes());
    out.push(b' ');
    match rewrite {
        // `*` (OPTIONS) is not a path, so it is not rewritten.
        Some(rewrite) if target.starts_with('/') => rewritten(out, rewrite, target, matched),
        _ => out.extend_from_slice(target.as_bytes()),
    }
    out.extend_from_slice(b" HTTP/1.1\r\n");
}

/// Appends the client's `Host`.
#[inline]
pub(crate) fn append_host(head: &RequestHead<'_>, snapshot: &Snapshot, backend: usize, out: &mut Vec<u8>) {
    match head.host {
        "" => append_default_host(snapshot, backend, out),
        host => append_field(out, "Host", host.as_bytes()),
    }
}

/// Appends the backend's first endpoint as `Host`. HTTP/1.0 allows a request without `Host`, but the request to the
/// upstream is HTTP/1.1, which requires it.
#[cold]
fn append_default_host(snapshot: &Snapshot, backend: usize, out: &mut Vec<u8>) {
    let backend = snapshot.table.backends().get(backend);
    // Without an endpoint, no request is sent.
    if let Some(endpoint) = backend.and_then(|b| b.backend.endpoints.first()) {
        append_field(out, "Host", endpoint.address.host().as_bytes());
    }
}

/// Appends the end-to-end fields that `keeps` selects. `X-Forwarded-*`, `Forwarded` and `Via` are not changed.
#[inline]
fn append_fields(head: &RequestHead<'_>, keeps: impl Fn(&str) -> bool, out: &mut Vec<u8>) {
    for field in head.end_to_end() {
        let is_host = field.name.len() == 4 && field.name.eq_ignore_ascii_case("host");
        // HTTP/1.0 does not define `Expect`, and its clients can't parse the interim response.
        let is_unsupported = head.version == Version::Http10 && field.name.eq_ignore_ascii_case("expect");
        if !is_host && !is_unsupported && keeps(field.name) {
            append_field(out, field.name, field.value);
        }
    }
}

/// Appends the end-to-end fields that `keeps` selects, and then the fields that `marks` adds, if there are any.
#[inline]
pub(crate) fn append_marked(
    head: &RequestHead<'_>,
    marks: Option<&Marks>,
    keeps: impl Fn(&str) -> bool,
    out: &mut Vec<u8>,
) {
    match marks {
        None => append_fields(head, keeps, out),
        Some(marks) => {
            append_fields(head, |name| keeps(name) && !marks.replaces(name), out);
            marks.append(keeps, out);
        }
    }
}

/// Appends the fields for the upstream connection, and the empty line after the headers.
#[inline]
pub(crate) fn append_end(head: &RequestHead<'_>, upgrade: bool, out: &mut Vec<u8>) {
    if head.framing == Framing::Chunked {
        append_framing(out, Framing::Chunked);
    }
    if upgrade {
        append_field(out, "Connection", b"Upgrade");
        for field in fields_named(head.fields, "upgrade") {
            append_field(out, field.name, field.value);
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Whether the body is known to be longer than allowed.
#[inline]
pub(crate) fn is_too_long(head: &RequestHead<'_>, snapshot: &Snapshot) -> bool {
    matches!(head.framing, Framing::Length(bytes) if bytes > snapshot.table.limits.body.0)
}

/// Whether the client offers an upgrade to cleartext HTTP/2. Requests in such a tunnel would bypass the routes, and
/// RFC 9113 has removed this upgrade, so it is not forwarded.
pub(crate) fn offers_h2c(head: &RequestHead<'_>) -> bool {
    fields_named(head.fields, "upgrade").any(|f| list_contains(f.value, "h2c"))
}

/// Whether the request carries one of the tokens.
pub(crate) fn is_let_in(tokens: &TokenSet, head: &RequestHead<'_>) -> bool {
    bearer_token(head).is_some_and(|token| tokens.has(token))
}

/// Why a request without a valid token is rejected.
pub(crate) fn cause_of_token(head: &RequestHead<'_>) -> Cause {
    if bearer_token(head).is_some() { Cause::UnknownToken } else { Cause::NoToken }
}

/// The bearer token of a request (RFC 6750, 2.1). Two `Authorization` fields are ambiguous, so they also result in
/// `None`.
fn bearer_token<'h>(head: &RequestHead<'h>) -> Option<&'h [u8]> {
    const SCHEME: &[u8] = b"bearer ";
    let mut credentials = fields_named(head.fields, "authorization");
    let (Some(credential), None) = (credentials.next(), credentials.next()) else { return None };
    let (scheme, token) = credential.value.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| token.trim_ascii())
}

fn response_to(head: &RequestHead<'_>) -> ResponseTo {
    if head.method == "HEAD" { ResponseTo::Head } else { ResponseTo::Other }
}

fn is_idempotent(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE")
}
