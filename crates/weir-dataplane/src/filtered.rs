//! Requests to routes with filters: decides who responds, writes the request for the upstream, and changes the
//! response.

use std::sync::Arc;

use weir_config::{Action, Filters, HeaderChanges, Match, NormalTarget, Rewrite};
use weir_http::{RequestHead, ResponseHead, append_field};

use crate::answer;
use crate::cause::Cause;
use crate::compress::{Coding, Encoded, encoded, negotiate};
use crate::forwarding::Marks;
use crate::request::{
    Incoming, Plan, Routed, append_end, append_host, append_marked, append_start, cause_of_token, is_let_in,
    is_too_long, offers_h2c, plan_for, refused,
};
use crate::respond::Refusal;
use crate::response;
use crate::snapshot::Snapshot;

/// A request with its matching route.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matched<'r> {
    pub(crate) head: &'r RequestHead<'r>,
    /// The normalized target, used for routing and sent upstream.
    pub(crate) target: &'r NormalTarget<'r>,
    pub(crate) found: Match<'r>,
    /// Whether the client uses TLS.
    pub(crate) is_secure: bool,
    /// Header fields that the gateway adds for upstreams.
    pub(crate) marks: Option<&'r Marks>,
}

/// Values from the filters that are still needed when the buffer no longer holds the request headers.
#[derive(Clone, Debug)]
pub(crate) struct Filtered {
    /// Position of the filters in the table.
    position: u32,
    /// CORS header fields for every response, each with its line end.
    pub(crate) cors: Vec<u8>,
    /// Position of the mirror backend, if the request is mirrored.
    pub(crate) copy_to: Option<usize>,
    /// The content coding that the client prefers, if the route has `compress`.
    pub(crate) coding: Option<Coding>,
}

/// Applies the filters at `position` to request headers. Returns a plan, a response of the route itself, or a
/// rejection. For a plan, appends the request headers for the upstream to `out`; for a response, appends the start of
/// the response headers.
pub(crate) fn plan_filtered(
    request: &Matched<'_>,
    position: u32,
    snapshot: &Snapshot,
    out: &mut Vec<u8>,
) -> Incoming {
    let Matched { head, found, .. } = *request;
    let filters: &Filters = &snapshot.table.filters()[position as usize];
    // A preflight request has no credentials, so it is answered before authentication.
    if let Some(answer) = answer::preflight(request, filters, out) {
        return Incoming::Answered(answer);
    }
    let mut cors = Vec::new();
    if let Some(policy) = &filters.cors {
        policy.response(answer::origin(head), |name, value| append_field(&mut cors, name, value));
    }
    let routed = Routed::from(&found);
    let refuse =
        |cause, cors| refused(head, Refusal { fields: cors, routed: Some(routed), ..Refusal::new(cause) });
    if let Some(tokens) = &found.target.tokens
        && !is_let_in(tokens, head)
    {
        return refuse(cause_of_token(head), cors);
    }
    let backend = match filters.action() {
        Action::Backend => Some((found.target.backend, routed)),
        Action::OneOf(weighted) => snapshot
            .shares(position, |shares| shares.next(weighted))
            .map(|index| (weighted[index].backend, Routed { series: weighted[index].series, ..routed })),
        Action::Respond(respond) => {
            return Incoming::Answered(answer::fixed(request, (filters, position), respond, &cors, out));
        }
        Action::Redirect(redirect) => {
            return match answer::elsewhere(request, filters, redirect, &cors, out) {
                Some(answer) => Incoming::Answered(answer),
                None => refuse(Cause::NoHost, cors),
            };
        }
    };
    match backend {
        None => refuse(Cause::NoBackend, cors),
        Some(_) if is_too_long(head, snapshot) => refuse(Cause::BodyTooLarge, cors),
        Some((backend, routed)) => {
            let upgrade = head.upgrade && !offers_h2c(head);
            append_request(request, filters, (backend, snapshot), upgrade, out);
            let copy_to = copy_to((filters, position), snapshot, upgrade);
            let coding = filters.compress.as_ref().and_then(|policy| negotiate(policy, head));
            let filtered = Some(Box::new(Filtered { position, cors, copy_to, coding }));
            Incoming::Request(Plan {
                filtered,
                ..plan_for(head, routed, (backend, snapshot), upgrade, (request.is_secure, request.marks))
            })
        }
    }
}

/// The position of the mirror backend, if this request is mirrored. Upgrade requests are not mirrored, because a copy
/// cannot take part in a tunnel.
fn copy_to((filters, position): (&Filters, u32), snapshot: &Snapshot, upgrade: bool) -> Option<usize> {
    let copies = filters.copies.filter(|_| !upgrade)?;
    snapshot.shares(position, |shares| shares.is_copied(copies.share)).then_some(copies.backend)
}

/// Appends the request headers for the upstream.
fn append_request(
    request: &Matched<'_>,
    filters: &Filters,
    (backend, snapshot): (usize, &Snapshot),
    upgrade: bool,
    out: &mut Vec<u8>,
) {
    let Matched { head, target, found, marks, .. } = *request;
    let rewrite = filters.route.rewrite.as_ref();
    let path = match rewrite.and_then(Rewrite::path) {
        Some(path) => (Some(path), target.sent_path().len()),
        None => (found.target.rewrite.as_deref(), target.sent_bytes(found.matched)),
    };
    append_start(head.method, target.as_str(), path, out);
    match rewrite.and_then(Rewrite::host) {
        Some(host) => append_field(out, "Host", host.as_bytes()),
        None => append_host(head, snapshot, backend, out),
    }
    match filters.route.request_headers.as_deref() {
        None => append_marked(head, marks, |_| true, out),
        Some(changes) => {
            append_marked(head, marks, |name| changes.keeps(name), out);
            append_changed(changes, out);
        }
    }
    append_end(head, upgrade, out);
}

/// Appends the fields that the configuration sets or adds.
pub(crate) fn append_changed(changes: &HeaderChanges, out: &mut Vec<u8>) {
    for (name, value) in changes.fields() {
        append_field(out, name, value.as_bytes());
    }
}

impl Filtered {
    /// Appends the end-to-end fields of an upstream response for the client. Returns whether they include a Date.
    pub(crate) fn append_response_fields(
        &self,
        head: &ResponseHead<'_>,
        encoded: Encoded,
        snapshot: &Snapshot,
        out: &mut Vec<u8>,
    ) -> bool {
        let filters = self.filters(snapshot);
        let changes = filters.route.response_headers.as_deref();
        // Browsers reject duplicate CORS fields, so the fields of the policy replace the fields of the upstream.
        let is_of_policy = |name: &str| filters.cors.is_some() && is_of_cors(name);
        let keeps =
            |name: &str| changes.is_none_or(|c| c.keeps(name)) && !is_of_policy(name) && encoded.keeps(name);
        let mut is_dated = response::append_fields(head, keeps, out);
        if let Some(changes) = changes {
            append_changed(changes, out);
            is_dated |= changes.fields().any(|(name, _)| name.eq_ignore_ascii_case("date"));
        }
        out.extend_from_slice(&self.cors);
        encoded.append_fields(filters, head, out);
        is_dated
    }

    /// How the gateway encodes the final response with these headers.
    pub(crate) fn encoded(&self, head: &ResponseHead<'_>, snapshot: &Snapshot) -> Encoded {
        let filters = self.filters(snapshot);
        let policy = filters.compress.as_ref();
        policy.map_or(Encoded::AsItIs, |policy| encoded(policy, filters, head, self.coding))
    }

    /// The filters as a shared pointer, for a caller that outlives the snapshot.
    pub(crate) fn shared_filters(&self, snapshot: &Snapshot) -> Arc<Filters> {
        Arc::clone(&snapshot.table.filters()[self.position as usize])
    }

    pub(crate) fn filters<'s>(&self, snapshot: &'s Snapshot) -> &'s Filters {
        &snapshot.table.filters()[self.position as usize]
    }
}

fn is_of_cors(name: &str) -> bool {
    const PREFIX: &str = "access-control-";
    name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}
