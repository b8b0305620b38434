//! A route with its compiled conditions.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::filters::Rewrite;
use crate::matching::conditions::Conditions;
use crate::matching::paths::{Candidate, PathTable};
use crate::matching::pattern::{Pattern, Patterns};
use crate::model::{OneOrMany, Route};

/// A route with its key and its compiled conditions. Versions of the configuration share it until the route changes.
#[derive(Debug)]
pub(crate) struct RouteEntry {
    pub(crate) key: Arc<str>,
    pub(crate) route: Arc<Route>,
    /// Position in tables, which the route keeps until it is removed. Path tables contain this position instead of the
    /// route.
    pub(crate) position: u32,
    pub(crate) conditions: Option<Arc<Conditions>>,
    pub(crate) pattern: Option<Arc<Pattern>>,
}

impl RouteEntry {
    /// Makes the entry of a valid route, whose patterns are compiled.
    pub(crate) fn of(key: &Arc<str>, route: Arc<Route>, position: u32, patterns: &Patterns) -> RouteEntry {
        RouteEntry {
            key: Arc::clone(key),
            position,
            conditions: Conditions::of(&route, patterns),
            pattern: route.regex.as_deref().map(|text| patterns.find(text)),
            route,
        }
    }

    /// Adds `candidate` for each path of the route.
    pub(crate) fn add_to(&self, paths: &mut PathTable, candidate: &Candidate) {
        if let Some(prefix) = &self.route.path {
            paths.add_prefix(prefix, candidate.clone());
        }
        for path in self.route.exact.iter().flat_map(OneOrMany::as_slice) {
            paths.add_exact(path, candidate.clone());
        }
        if let Some(pattern) = &self.pattern {
            paths.add_pattern(Arc::clone(pattern), candidate.clone());
        }
    }

    /// The key with the name, if any: ``routes[3] `checkout` ``.
    pub(crate) fn label(&self) -> String {
        self.route.name.as_ref().map_or_else(|| self.key.to_string(), |name| format!("{} `{name}`", self.key))
    }
}

impl Route {
    /// The text that replaces the matched part of the path; `None` without such a rewrite.
    pub(crate) fn prefix_rewrite(&self) -> Option<Arc<str>> {
        self.rewrite.as_ref().and_then(Rewrite::prefix).map(Into::into)
    }

    /// Whether this route matches the same requests as `other`, with the same precedence.
    pub(crate) fn matches_as(&self, other: &Route) -> bool {
        let Route { listeners, hosts, path, exact, regex, methods, headers, query, precedence, .. } = self;
        *hosts == other.hosts
            && *path == other.path
            && *exact == other.exact
            && *regex == other.regex
            && *methods == other.methods
            && *headers == other.headers
            && *query == other.query
            && *listeners == other.listeners
            && *precedence == other.precedence
    }
}

/// Compares two routes by their order in the source. Routes without a precedence come first.
pub(crate) fn source_order(a: &RouteEntry, b: &RouteEntry) -> Ordering {
    let by_precedence = a.route.precedence.cmp(&b.route.precedence);
    by_precedence.then_with(|| key_order(&a.key, &b.key))
}

/// Compares two keys by their order in the source: keys of a file by position, others by text.
pub(crate) fn key_order(a: &str, b: &str) -> Ordering {
    let position = |key: &str| -> Option<(usize, u64)> {
        let (list, index) = key.strip_suffix(']')?.rsplit_once('[')?;
        Some((list.len(), index.parse().ok()?))
    };
    let place = |key: &str| position(key).unwrap_or((key.len(), 0));
    let ((a_len, a_index), (b_len, b_index)) = (place(a), place(b));
    (&a[..a_len], a_index, a).cmp(&(&b[..b_len], b_index, b))
}
