//! From the bytes of a request to where it goes and what is sent there.

use weir_config::{Match, NormalTarget, RequestView, Target, TokenSet, Unroutable, rewritten};
use weir_http::{
    Field, FieldSlots, Framing, HeadError, RequestHead, ResponseTo, Version, append_field, append_framing,
    list_contains, parse_request,
};

use crate::cause::Cause;
use crate::respond::Refusal;
use crate::snapshot::Snapshot;

/// What stands at the start of a client's bytes.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// A head, not yet whole.
    Partial,
    /// A request to pass on; its head for the upstream was appended.
    Request(Plan),
    /// A request that ends here. As many bytes are its head; none when the framing is lost.
    Refused(Refusal, usize),
}

/// What is to be known of a request once its head is gone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// The position of the backend in the table.
    pub(crate) backend: usize,
    /// Bytes of the request's head.
    pub(crate) head_len: usize,
    pub(crate) framing: Framing,
    pub(crate) response_to: ResponseTo,
    pub(crate) version: Version,
    pub(crate) keep_alive: bool,
    pub(crate) upgrade: bool,
    /// Sending it twice is as good as once (RFC 9110, 9.2.2).
    pub(crate) idempotent: bool,
}

/// Reads a request, routes it, and appends the head for the upstream to `out`.
#[inline]
pub(crate) fn plan(bytes: &[u8], snapshot: &Snapshot, out: &mut Vec<u8>) -> Incoming {
    let mut slots = FieldSlots::new();
    let head = match parse_request(bytes, &snapshot.head_limits, &mut slots) {
        Ok(Some(head)) => head,
        Ok(None) => return Incoming::Partial,
        Err(error) => return malformed(error),
    };
    let table = &*snapshot.table;
    let target = match NormalTarget::of(head.path_and_query, &table.paths) {
        Ok(target) => target,
        Err(unroutable) => return refused(&head, unrouted(&head, unroutable)),
    };
    let cause = match table.find(&view(&head, &target)) {
        None => Cause::NoRoute,
        Some(Match { target: Target { tokens: Some(tokens), .. }, .. }) if !is_let_in(tokens, &head) => {
            if bearer_token(&head).is_some() {
                Cause::UnknownToken
            } else {
                Cause::NoToken
            }
        }
        _ if matches!(head.framing, Framing::Length(l) if l > table.limits.body.0) => Cause::BodyTooLarge,
        Some(found) => {
            let upgrade = head.upgrade && !offers_h2c(&head);
            append_start(head.method, target.as_str(), &found, out);
            match head.host {
                "" => append_default_host(snapshot, found.target.backend, out),
                host => append_field(out, "Host", host.as_bytes()),
            }
            append_fields(&head, upgrade, out);
            return Incoming::Request(Plan {
                backend: found.target.backend,
                head_len: head.head_len,
                framing: head.framing,
                response_to: response_to(&head),
                version: head.version,
                keep_alive: head.keep_alive,
                upgrade,
                idempotent: is_idempotent(head.method),
            });
        }
    };
    refused(&head, Refusal::new(cause))
}

/// What routes look at.
#[inline]
pub(crate) fn view<'r>(head: &RequestHead<'r>, target: &'r NormalTarget<'_>) -> RequestView<'r> {
    let RequestHead { method, host, fields, .. } = *head;
    RequestView { method, host, path: target.path(), query: target.query(), fields }
}

/// The end of a request that goes nowhere.
fn refused(head: &RequestHead<'_>, refusal: Refusal) -> Incoming {
    // What follows as its body would have to be read only to be thrown away.
    let has_body = !matches!(head.framing, Framing::None | Framing::Length(0));
    let close = has_body || !head.keep_alive || head.version == Version::Http10 || head.method == "CONNECT";
    let head_only = head.method == "HEAD";
    Incoming::Refused(Refusal { head_only, close, ..refusal }, head.head_len)
}

/// What a request is answered whose target has no route by itself.
#[cold]
fn unrouted(head: &RequestHead<'_>, unroutable: Unroutable) -> Refusal {
    match unroutable {
        // Its target is an authority.
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

fn append_start(method: &str, target: &str, found: &Match<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(method.as_bytes());
    out.push(b' ');
    match &found.target.rewrite {
        // `*` (OPTIONS) is no path that could be rewritten.
        Some(rewrite) if target.starts_with('/') => rewritten(out, rewrite, target, found.matched),
        _ => out.extend_from_slice(target.as_bytes()),
    }
    out.extend_from_slice(b" HTTP/1.1\r\n");
}

/// HTTP/1.0 may leave the host open, and servers of HTTP/1.1 refuse an empty one.
#[cold]
fn append_default_host(snapshot: &Snapshot, backend: usize, out: &mut Vec<u8>) {
    let backend = snapshot.table.backends().get(backend);
    // Without an endpoint nothing is sent.
    if let Some(endpoint) = backend.and_then(|b| b.backend.endpoints.first()) {
        append_field(out, "Host", endpoint.to_string().as_bytes());
    }
}

/// The rest of the head. Hop-by-hop fields stay here; `X-Forwarded-*`, `Forwarded` and `Via` are passed as they came.
fn append_fields(head: &RequestHead<'_>, upgrade: bool, out: &mut Vec<u8>) {
    for field in head.end_to_end() {
        let is_host = field.name.len() == 4 && field.name.eq_ignore_ascii_case("host");
        // HTTP/1.0 knows no expectations, and would not understand the interim answer.
        let is_moot = head.version == Version::Http10 && field.name.eq_ignore_ascii_case("expect");
        if !is_host && !is_moot {
            append_field(out, field.name, field.value);
        }
    }
    if head.framing == Framing::Chunked {
        append_framing(out, Framing::Chunked);
    }
    if upgrade {
        append_field(out, "Connection", b"Upgrade");
        for field in head.fields.iter().filter(|f| f.name.eq_ignore_ascii_case("upgrade")) {
            append_field(out, field.name, field.value);
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Whether HTTP/2 is among the protocols offered. A tunnel of it would carry requests past the routes, and RFC 9113 has
/// done away with this upgrade; so it is not passed on.
fn offers_h2c(head: &RequestHead<'_>) -> bool {
    let is_upgrade = |f: &&Field<'_>| f.name.eq_ignore_ascii_case("upgrade");
    head.fields.iter().filter(is_upgrade).any(|f| list_contains(f.value, "h2c"))
}

fn is_let_in(tokens: &TokenSet, head: &RequestHead<'_>) -> bool {
    bearer_token(head).is_some_and(|token| tokens.has(token))
}

/// The bearer token that a request carries (RFC 6750, 2.1). Two `Authorization` fields are none: which of them counts is
/// for each reader to guess.
fn bearer_token<'h>(head: &RequestHead<'h>) -> Option<&'h [u8]> {
    const SCHEME: &[u8] = b"bearer ";
    let is_credential = |f: &&Field<'_>| f.name.eq_ignore_ascii_case("authorization");
    let mut credentials = head.fields.iter().filter(is_credential);
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
