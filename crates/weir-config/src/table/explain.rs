//! Explains why routes do not match a request: the nearest routes, each with a reason.
//!
//! This code is not on the request path. It checks every route with the structures of the table.

use std::cmp::Reverse;
use std::fmt;

use crate::host::{HostPattern, LowerHost};
use crate::matching::conditions::{Unmet, Weight};
use crate::matching::entry::RouteEntry;
use crate::matching::paths::{Candidate, PathTable};
use crate::matching::{RequestView, Values};
use crate::model::OneOrMany;
use crate::table::Table;

/// Maximum number of hosts or paths that are listed.
const NAMED_MAX: usize = 3;

/// A route that does not match a request, or that matches it but has lower precedence than the chosen route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedOver {
    /// The route, as named by [`Table::label`].
    pub route: String,
    /// The reason, as a sentence without its period.
    pub reason: String,
}

/// Why a route is not chosen.
#[derive(Clone, Copy, Debug)]
enum Lack<'t> {
    Listener,
    Host,
    Path,
    Condition(Unmet<'t>),
    /// The route matches, but the chosen route is more specific in this way.
    Precedence(&'static str),
}

/// How specific a matching route is: by host, then by path, then by conditions. Host and path are ranked by kind, then
/// by length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rank {
    host: (u8, usize),
    path: (u8, usize),
    weight: Weight,
}

impl Table {
    /// The key of the route at this position, with its name, if any: ``routes[3] `checkout` ``.
    pub fn label(&self, route: usize) -> String {
        self.parts.routes[route].entry.label()
    }

    /// Explains why the other routes are not chosen for a request. Returns at most `most` of them, the nearest first,
    /// and the number of the remaining ones. Routes that match neither host nor path are left out.
    pub fn passed_over(&self, request: &RequestView<'_>, most: usize) -> (Vec<PassedOver>, usize) {
        let found = self.find(request).map(|found| found.route);
        let host = LowerHost::of(request.host);
        let host = host.as_ref().map_or("", LowerHost::as_str);
        let values = Values::of(request);
        let rank_found = found.and_then(|found| rank(&self.parts.routes[found].entry, host, &values));
        let others = self.routes().into_iter().filter(|entry| Some(entry.position as usize) != found);
        let mut near: Vec<(&RouteEntry, Lack<'_>)> = others
            .filter_map(|entry| {
                let lack = match self.parts.scopes.has(request.scope, &entry.route) {
                    true => lack(entry, host, &values, rank_found)?,
                    false => rank(entry, host, &values).map(|_| Lack::Listener)?,
                };
                Some((&**entry, lack))
            })
            .collect();
        near.sort_by_key(|(entry, lack)| Reverse((lack.nearness(), shared_bytes(entry, request.path))));
        let more = near.len().saturating_sub(most);
        near.truncate(most);
        let passed_over = near
            .into_iter()
            .map(|(entry, lack)| PassedOver { route: entry.label(), reason: reason(entry, lack, request) })
            .collect();
        (passed_over, more)
    }
}

impl Lack<'_> {
    /// How close the route was to being chosen; larger is closer. A route whose host and path match, but not a
    /// condition, is closest: if the request met the condition, the route could win.
    fn nearness(&self) -> u8 {
        match self {
            Lack::Listener | Lack::Host => 0,
            Lack::Path => 1,
            Lack::Precedence(_) => 2,
            Lack::Condition(Unmet::Method(_)) => 3,
            Lack::Condition(Unmet::Field(..)) => 4,
            Lack::Condition(Unmet::Parameter(..)) => 5,
        }
    }
}

/// Why the route is not chosen; `None` if neither host nor path matches. `found` is the rank of the chosen route.
fn lack<'t>(
    entry: &'t RouteEntry,
    host: &str,
    values: &Values<'_, '_>,
    found: Option<Rank>,
) -> Option<Lack<'t>> {
    let unmet = entry.conditions.as_ref().and_then(|conditions| conditions.unmet(values));
    match (host_rank(entry, host), path_rank(entry, values)) {
        (None, None) => None,
        (None, Some(_)) => Some(Lack::Host),
        (Some(_), None) => Some(Lack::Path),
        (Some(_), Some(_)) => unmet.map(Lack::Condition).or_else(|| {
            let own = rank(entry, host, values)?;
            Some(Lack::Precedence(own.behind(&found?)))
        }),
    }
}

fn rank(entry: &RouteEntry, host: &str, values: &Values<'_, '_>) -> Option<Rank> {
    let weight = entry.conditions.as_ref().map(|conditions| conditions.weight()).unwrap_or_default();
    Some(Rank { host: host_rank(entry, host)?, path: path_rank(entry, values)?, weight })
}

/// The rank of the host pattern that matches `host`, by kind (every host, wildcard, exact) and length; `None` if none
/// matches.
fn host_rank(entry: &RouteEntry, host: &str) -> Option<(u8, usize)> {
    if entry.route.hosts.is_empty() {
        return Some((0, 0));
    }
    let patterns = entry.route.hosts.iter().filter_map(|text| HostPattern::parse(text).ok());
    let matching = patterns.filter(|pattern| pattern.matches(host));
    matching
        .map(|pattern| match pattern {
            HostPattern::Exact(name) => (2, name.len()),
            HostPattern::Suffix(suffix) => (1, suffix.len()),
        })
        .max()
}

/// The rank of the matching path: first its kind (lowest to highest: the prefix `/`, pattern, prefix, exact path), then
/// its length. `None` if no path matches. Uses the path lookup of the table.
fn path_rank(entry: &RouteEntry, values: &Values<'_, '_>) -> Option<(u8, usize)> {
    let mut paths = PathTable::default();
    entry.add_to(&mut paths, &Candidate { target: 0, conditions: None });
    let matched = paths.find(values)?.matched;
    Some(match &entry.pattern {
        Some(pattern) => (1, pattern.text().len()),
        None if entry.route.exact.is_some() => (3, matched),
        None if matched > 0 => (2, matched),
        None => (0, 0),
    })
}

/// Length in bytes of the longest prefix that `path` shares with a path of the route.
fn shared_bytes(entry: &RouteEntry, path: &str) -> usize {
    let pattern = entry.pattern.iter().map(|pattern| pattern.leading_segments());
    let named = entry.route.paths().map(|(_, path)| path).chain(pattern);
    let shared = |other: &str| path.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    named.map(shared).max().unwrap_or_default()
}

fn reason(entry: &RouteEntry, lack: Lack<'_>, request: &RequestView<'_>) -> String {
    let route = &entry.route;
    match lack {
        Lack::Listener => format!("matches only {}", list("listener", &route.listeners)),
        Lack::Host => format!("matches only {}", list("host", &route.hosts)),
        Lack::Path => match (&route.path, &route.exact, &route.regex) {
            (Some(prefix), ..) => format!("matches only paths below `{prefix}`"),
            (_, Some(exact), _) => format!("matches only {}", list("path", OneOrMany::as_slice(exact))),
            (.., regex) => {
                format!("matches only paths of the pattern `{}`", regex.as_deref().unwrap_or_default())
            }
        },
        Lack::Condition(Unmet::Method(methods)) => format!("matches only {}", list("method", methods)),
        Lack::Condition(Unmet::Field(name, wanted)) => {
            unmet_value("header", name, request.field(name).as_deref(), wanted)
        }
        Lack::Condition(Unmet::Parameter(name, wanted)) => {
            unmet_value("query parameter", name, request.parameter(name).as_deref(), wanted)
        }
        Lack::Precedence(why) => format!("matches, but {why}"),
    }
}

fn unmet_value(kind: &str, name: &str, value: Option<&[u8]>, wanted: &dyn fmt::Display) -> String {
    match value {
        None => format!("the request has no {kind} `{name}`; required: {wanted}"),
        Some(value) => {
            format!(
                "{kind} `{name}` is `{}`; required: {wanted}",
                String::from_utf8_lossy(value).escape_debug()
            )
        }
    }
}

/// A list for a message: ``the hosts `a`, `b`, `c` and 4 more``.
fn list<T: fmt::Display>(what: &str, names: &[T]) -> String {
    let first: Vec<String> = names.iter().take(NAMED_MAX).map(|name| format!("`{name}`")).collect();
    let plural = if names.len() == 1 { "" } else { "s" };
    match names.len().saturating_sub(NAMED_MAX) {
        0 => format!("the {what}{plural} {}", first.join(", ")),
        more => format!("the {what}s {} and {more} more", first.join(", ")),
    }
}

impl Rank {
    /// Why the chosen route, whose rank is `found`, wins over this one.
    fn behind(&self, found: &Rank) -> &'static str {
        let Reverse((methods, fields, parameters)) = self.weight;
        let Reverse((found_methods, found_fields, found_parameters)) = found.weight;
        if self.host != found.host {
            "the chosen route has a more specific host"
        } else if self.path != found.path {
            "the chosen route has a more specific path"
        } else if methods != found_methods {
            "the chosen route also requires a method"
        } else if fields != found_fields {
            "the chosen route requires more headers"
        } else if parameters != found_parameters {
            "the chosen route requires more query parameters"
        } else {
            "the chosen route comes first in the configuration"
        }
    }
}

#[cfg(test)]
mod tests;
