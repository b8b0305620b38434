//! Routes that never match, because others match first.
//!
//! A route has one entry per host and path. It never matches if other routes take precedence for all of its entries.
//! Another route takes precedence for an entry in two cases: it has the same host and path and is tried first, or its
//! prefix covers the entry's regular expression (prefixes always win). In both cases, the other route requires no
//! additional conditions.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_document::Problem;

use crate::collections::FastMap;
use crate::host::HostPattern;
use crate::matching::Scope;
use crate::matching::conditions::{Conditions, Weight, covers};
use crate::matching::entry::{RouteEntry, source_order};
use crate::matching::hosts::Scopes;
use crate::model::OneOrMany;
use crate::table::Table;

/// All routes, in the order of their keys.
type Routes<'t> = &'t [&'t Arc<RouteEntry>];

/// The path of an entry, by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place<'t> {
    Exact(&'t str),
    /// A prefix, without a trailing slash.
    Prefix(&'t str),
    Pattern(&'t str),
}

/// Why an entry of a route never matches.
#[derive(Clone, Copy, Debug)]
enum Cause<'t> {
    /// The pattern matches no path, because paths start with `/`.
    NoPath,
    /// The route at this position has the same host and path, is tried first, and needs no further conditions.
    Asked(usize),
    /// The route at this position matches all paths below this prefix.
    Below(usize, &'t str),
}

/// Finds the routes of `table` that never match.
pub(super) fn routes(table: &Table) -> Vec<Problem> {
    let routes = table.routes();
    let routes = routes.as_slice();
    let mut causes: Vec<Option<Cause<'_>>> = vec![None; routes.len()];
    let mut is_reached = vec![false; routes.len()];
    let scopes = &table.parts.scopes;
    for members in scopes.all().flat_map(|scope| by_host(routes, scopes, scope).into_values()) {
        let places = by_place(routes, &members);
        for (place, candidates) in &places {
            for (rank, &route) in candidates.iter().enumerate() {
                match cause(routes, &places, *place, &candidates[..rank], route) {
                    Some(cause) => causes[route] = Some(cause),
                    None => is_reached[route] = true,
                }
            }
        }
    }
    let unreached = causes.into_iter().zip(is_reached).enumerate();
    unreached
        .filter(|(_, (_, is_reached))| !is_reached)
        .filter_map(|(route, (cause, _))| Some(problem(routes, route, cause?)))
        .collect()
}

/// The positions of the routes in one scope, grouped by host.
fn by_host(routes: Routes<'_>, scopes: &Scopes, scope: Scope) -> BTreeMap<Option<HostPattern>, Vec<usize>> {
    let mut by_host: BTreeMap<Option<HostPattern>, Vec<usize>> = BTreeMap::new();
    for (position, route) in routes.iter().map(|entry| &entry.route).enumerate() {
        if !scopes.has(scope, route) {
            continue;
        }
        if route.hosts.is_empty() {
            by_host.entry(None).or_default().push(position);
        }
        for host in route.hosts.iter().filter_map(|host| HostPattern::parse(host).ok()) {
            by_host.entry(Some(host)).or_default().push(position);
        }
    }
    by_host
}

/// The routes of one host, grouped by path, in the order in which they are tried.
fn by_place<'t>(routes: Routes<'t>, members: &[usize]) -> FastMap<Place<'t>, Vec<usize>> {
    let mut places: FastMap<Place<'_>, Vec<usize>> = FastMap::default();
    for &member in members {
        for place in places_of(routes[member]) {
            places.entry(place).or_default().push(member);
        }
    }
    for candidates in places.values_mut() {
        candidates.sort_by(|&a, &b| {
            let [a, b] = [a, b].map(|position| routes[position]);
            weight(a).cmp(&weight(b)).then_with(|| source_order(a, b))
        });
    }
    places
}

fn places_of(entry: &RouteEntry) -> impl Iterator<Item = Place<'_>> {
    let route = &entry.route;
    let prefix = route.path.iter().map(|path| Place::Prefix(path.strip_suffix('/').unwrap_or(path)));
    let exact = route.exact.iter().flat_map(OneOrMany::as_slice).map(|path| Place::Exact(path));
    prefix.chain(exact).chain(route.regex.iter().map(|regex| Place::Pattern(regex)))
}

/// Why no request for the path `place` ever matches `route`; `None` if a request can match. The routes in `earlier`
/// have the same path and are tried first.
fn cause<'t>(
    routes: Routes<'t>,
    places: &FastMap<Place<'t>, Vec<usize>>,
    place: Place<'t>,
    earlier: &[usize],
    route: usize,
) -> Option<Cause<'t>> {
    let own = conditions(routes, route);
    let matches_all = |other: &&usize| covers(conditions(routes, **other), own);
    if let Some(&other) = earlier.iter().find(matches_all) {
        return Some(Cause::Asked(other));
    }
    let pattern = routes[route].pattern.as_ref().filter(|_| matches!(place, Place::Pattern(_)))?;
    if !pattern.may_match_a_path() {
        return Some(Cause::NoPath);
    }
    folders(pattern.leading_segments()).find_map(|folder| {
        let other = places.get(&Place::Prefix(folder))?.iter().find(matches_all)?;
        Some(Cause::Below(*other, folder))
    })
}

fn conditions(routes: Routes<'_>, route: usize) -> Option<&Conditions> {
    routes[route].conditions.as_deref()
}

fn weight(entry: &RouteEntry) -> Weight {
    entry.conditions.as_ref().map(|conditions| conditions.weight()).unwrap_or_default()
}

/// The path and all paths above it: `/a/b`, then `/a`.
fn folders(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| path.rfind('/').map(|slash| &path[..slash]))
        .filter(|folder| !folder.is_empty())
}

fn problem(routes: Routes<'_>, route: usize, cause: Cause<'_>) -> Problem {
    let entry = routes[route];
    match cause {
        Cause::NoPath => {
            Problem::of(format!("{}.regex", entry.key), "the regex matches no path: paths start with `/`")
                .help("start the expression with `/`; it must match the whole path")
        }
        Cause::Asked(other) => {
            let message = format!(
                "this route never matches: {} matches all of its requests first",
                routes[other].label()
            );
            Problem::of(&*entry.key, message).help("make this route more specific, or remove the route")
        }
        Cause::Below(other, folder) => {
            let message = format!(
                "this route never matches: {} matches all paths below `{folder}`, and a prefix wins over a regular expression",
                routes[other].label()
            );
            Problem::of(format!("{}.regex", entry.key), message).help(
                "write the prefix of the other route as a regular expression, change it so that it does not \
                cover this expression, or remove this route",
            )
        }
    }
}
