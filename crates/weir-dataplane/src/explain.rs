//! Explains how the gateway handles a request, without a running gateway. It uses the same routing and header code as
//! real requests.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use weir_config::{NormalTarget, PassedOver, Scope, Table};
use weir_http::{FieldSlots, RequestHead, parse_request};

use crate::backend_states::BackendStates;
use crate::cause::Cause;
use crate::compress::offered;
use crate::dropped_fields;
use crate::forwarding::{Arrival, IdSource};
use crate::observed::Observed;
use crate::request::{Incoming, Plan, plan, view};
use crate::respond::Refusal;
use crate::snapshot::Snapshot;

/// Maximum number of routes that an explanation lists as not matching.
const PASSED_OVER_MAX: usize = 5;

/// Client address in explanations, reserved for documentation (RFC 5737).
const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 0);

/// How the gateway handles a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The normalized path, as routes match it; `None` if the request is rejected before routing.
    pub path: Option<String>,
    /// The path as the client sent it, if it differs from `path`.
    pub requested: Option<String>,
    /// Key and name of the matching route.
    pub route: Option<String>,
    /// Names of header fields that the gateway drops before routing.
    pub dropped: Vec<String>,
    /// What the gateway does with the request.
    pub outcome: Outcome,
    /// Routes that do not match, with reasons; routes closest to a match first. At most five.
    pub passed_over: Vec<PassedOver>,
    /// The number of routes that are not chosen although their host or path matches, without those in `passed_over`.
    pub passed_over_more: usize,
}

/// What the gateway does with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Sent to a backend.
    Sent {
        /// The backend's name.
        backend: String,
        /// The request headers for the upstream, including the empty line at the end.
        head: String,
        /// Which coding compresses the response body, or why none does. `None` if the route has no `compress`.
        compression: Option<String>,
    },
    /// The route itself responds.
    ByRoute {
        /// The status of the response.
        status: u16,
        /// The response headers without Date, Connection and the empty line.
        head: String,
    },
    /// Rejected by the gateway.
    Answered {
        /// The cause, which determines the status.
        cause: Cause,
        /// The cause as a sentence.
        text: String,
        /// Target of a redirect.
        location: Option<String>,
    },
}

/// Explains how a listener of this `scope` handles the request headers in `request`, with the configuration in `table`.
/// Returns `None` if the headers are incomplete. If the route has weighted backends, shows the backend that a new
/// worker selects for its first request. The client address is 192.0.2.1. Each call generates new request and trace
/// IDs.
pub fn explain(table: &Arc<Table>, request: &[u8], scope: Scope, is_secure: bool) -> Option<Explanation> {
    let snapshot = Snapshot::new(Arc::clone(table), None, &BackendStates::default(), 0);
    let (ids, observed) = (IdSource::default(), Observed::default());
    let arrival = Arrival {
        scope,
        peer: CLIENT,
        listener: None,
        is_secure,
        ids: &ids,
        observed: &observed,
        is_shed: false,
    };
    let mut head = Vec::new();
    let outcome: Outcome = match plan(request, &snapshot, &arrival, &mut head) {
        Incoming::Partial => return None,
        Incoming::Refused(refusal, _) => refusal.into(),
        Incoming::Answered(answer) => {
            Outcome::ByRoute { status: answer.status(), head: String::from_utf8_lossy(&head).into_owned() }
        }
        Incoming::Request(plan) => {
            let entry = &table.backends()[plan.backend];
            match plan.affinity.may_find_one_of(&entry.backend) {
                false => Refusal::new(Cause::NoEndpoint).into(),
                true => Outcome::Sent {
                    backend: entry.name.clone(),
                    head: String::from_utf8_lossy(&head).into_owned(),
                    compression: compression(&plan, &snapshot),
                },
            }
        }
    };
    let mut slots = FieldSlots::new();
    let kept;
    let mut dropped = Vec::new();
    let routed = match parse_request(request, &snapshot.head_limits, &mut slots) {
        Ok(Some(mut head)) => {
            let is_dropped = |name: &str| dropped_fields::is_dropped(name, table.underscores_in_headers);
            let names = head.fields.iter().map(|field| field.name).filter(|name| is_dropped(name));
            dropped.extend(names.map(str::to_owned));
            kept = dropped_fields::kept(head.fields, table);
            head.fields = kept.as_deref().unwrap_or(head.fields);
            routed(table, &head, scope)
        }
        _ => None,
    };
    let (path, requested, route, (passed_over, passed_over_more)) = routed.unwrap_or_default();
    Some(Explanation { path, requested, route, dropped, outcome, passed_over, passed_over_more })
}

/// Which coding compresses the response body, or why none does. `None` if the route has no `compress`.
fn compression(plan: &Plan, snapshot: &Snapshot) -> Option<String> {
    let filtered = plan.filtered.as_deref()?;
    let policy = filtered.filters(snapshot).compress.as_ref()?;
    let Some(coding) = filtered.coding else {
        let offered: Vec<String> = offered(policy).map(|coding| format!("`{}`", coding.name())).collect();
        return Some(format!("not compressed: the request does not accept {}", offered.join(" or ")));
    };
    let (types, min) = (policy.types().collect::<Vec<_>>().join(", "), policy.min_bytes);
    Some(format!(
        "compressed with `{}` if it has at least {min} bytes and one of these types: {types}",
        coding.name()
    ))
}

type Routed = (Option<String>, Option<String>, Option<String>, (Vec<PassedOver>, usize));

/// The normalized path, the path as sent if it differs, the route, and the routes that do not match.
fn routed(table: &Table, head: &RequestHead<'_>, scope: Scope) -> Option<Routed> {
    let target = NormalTarget::of(head.path_and_query, &table.paths).ok()?;
    let view = view(head, &target, scope);
    let route = table.find(&view).map(|found| table.label(found.route));
    let requested = head.path_and_query.split('?').next().filter(|path| *path != target.path());
    let requested = requested.map(str::to_owned);
    Some((Some(target.path().to_owned()), requested, route, table.passed_over(&view, PASSED_OVER_MAX)))
}

impl From<Refusal> for Outcome {
    fn from(refusal: Refusal) -> Outcome {
        let Refusal { cause, detail, location, .. } = refusal;
        Outcome::Answered { cause, text: detail.unwrap_or_else(|| cause.text().to_owned()), location }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.path, &self.requested) {
            (Some(path), Some(requested)) => writeln!(f, "path      {path} (requested as {requested})")?,
            (Some(path), None) => writeln!(f, "path      {path}")?,
            (None, _) => {}
        }
        writeln!(f, "route     {}", self.route.as_deref().unwrap_or("none"))?;
        for name in &self.dropped {
            writeln!(f, "dropped   {name}: {}", dropped_fields::reason(name))?;
        }
        match &self.outcome {
            Outcome::Sent { backend, head, compression } => {
                writeln!(f, "sent      to backend `{backend}`:")?;
                for line in head.lines().filter(|line| !line.is_empty()) {
                    writeln!(f, "          {line}")?;
                }
                if let Some(compression) = compression {
                    writeln!(f, "response  {compression}")?;
                }
            }
            Outcome::ByRoute { head, .. } => {
                writeln!(f, "response  from the route:")?;
                for line in head.lines() {
                    writeln!(f, "          {line}")?;
                }
            }
            Outcome::Answered { cause, text, location } => {
                writeln!(f, "response  {} {}: {text}", cause.status(), cause.name())?;
                if let Some(location) = location {
                    writeln!(f, "          Location: {location}")?;
                }
            }
        }
        for PassedOver { route, reason } in &self.passed_over {
            writeln!(f, "skipped   {route}: {reason}")?;
        }
        match self.passed_over_more {
            0 => {}
            1 => writeln!(f, "          … and 1 more route")?,
            more => writeln!(f, "          … and {more} more routes")?,
        }
        Ok(())
    }
}
