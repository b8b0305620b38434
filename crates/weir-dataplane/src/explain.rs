//! What the gateway does with a request, told without one running: by the very look-up and the very writing of heads
//! that requests go through.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use weir_config::{NormalTarget, PassedOver, Scope, Table};
use weir_http::{FieldSlots, RequestHead, parse_request};

use crate::backend_states::BackendStates;
use crate::cause::Cause;
use crate::compress::offered;
use crate::dropped_fields;
use crate::forwarding::{Arrival, Names};
use crate::observed::Observed;
use crate::request::{Incoming, Plan, plan, view};
use crate::respond::Refusal;
use crate::snapshot::Snapshot;

/// How many routes that a request does not get are told.
const PASSED_OVER_MAX: usize = 5;

/// Where clients of whom nothing else is known are said to come from, an address for documents (RFC 5737).
const CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 0);

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Its path in normal form, as routes match it; `None` where it is not routed.
    pub path: Option<String>,
    /// Its path as it was sent, where that is another.
    pub requested: Option<String>,
    /// The route that it gets, by its key and name.
    pub route: Option<String>,
    /// Names of the fields that the gateway drops before anything reads them.
    pub dropped: Vec<String>,
    /// What is done with it.
    pub outcome: Outcome,
    /// Why others do not get it, the nearest first.
    pub passed_over: Vec<PassedOver>,
    /// How many other routes share its host or its path beside these.
    pub passed_over_more: usize,
}

/// What is done with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is sent on.
    Sent {
        /// The backend's name.
        backend: String,
        /// The head as the upstream gets it, up to and with its empty line.
        head: String,
        /// What becomes of the answer's body, where the route compresses.
        compression: Option<String>,
    },
    /// Its route answers by itself.
    ByRoute {
        /// The status.
        status: u16,
        /// The head as far as the request decides it: without Date, Connection and the empty line.
        head: String,
    },
    /// The gateway refuses it.
    Answered {
        /// Why, which decides the status too.
        cause: Cause,
        /// The same in a sentence.
        text: String,
        /// Where the client is sent.
        location: Option<String>,
    },
}

/// What the gateway does by `table` with the request whose head stands in `request`, from a client that speaks TLS or
/// not, to a listener of this `scope`; `None` where it is not whole. Of several backends with weights it is the first in
/// turn. The client is at 192.0.2.1, and names of requests and traces are made anew each time.
pub fn explain(table: &Arc<Table>, request: &[u8], scope: Scope, is_secure: bool) -> Option<Explanation> {
    let snapshot = Snapshot::new(Arc::clone(table), None, &BackendStates::default(), 0);
    let (names, observed) = (Names::default(), Observed::default());
    let arrival = Arrival {
        scope,
        peer: CLIENT,
        listener: None,
        is_secure,
        names: &names,
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

/// What becomes of the answer's body, where the route compresses.
fn compression(plan: &Plan, snapshot: &Snapshot) -> Option<String> {
    let filtered = plan.filtered.as_deref()?;
    let policy = filtered.filters(snapshot).compress.as_ref()?;
    let Some(coding) = filtered.coding else {
        let offered: Vec<String> = offered(policy).map(|coding| format!("`{}`", coding.name())).collect();
        return Some(format!("not compressed: the request does not accept {}", offered.join(" or ")));
    };
    let (types, min) = (policy.types().collect::<Vec<_>>().join(", "), policy.min_bytes);
    Some(format!(
        "compressed with `{}` if its type is {types} and it has at least {min} bytes",
        coding.name()
    ))
}

type Routed = (Option<String>, Option<String>, Option<String>, (Vec<PassedOver>, usize));

/// The path, the same as it was sent where that is another, the route and the other routes of a request that is looked up.
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
