//! The compiled table that requests are routed by: immutable, shared by all workers.
//!
//! A request's host is looked up by hash, exact first, then by its suffixes from the longest; each host has its paths.
//! Hosts with the same routes share one path table, so a thousand domains of one site cost a thousand map entries.
//! Where a more specific host has no route for the request, less specific hosts are asked. Routes for some listeners
//! alone make a scope with hosts of its own for each of them (`scope.rs`).

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::access_log::{AccessLog, LogLine, Metrics};
use crate::conditions::Conditions;
use crate::filters::{Filters, Rewrite};
use crate::forwarding::Forwarding;
use crate::host::{HostPattern, LowerHost};
use crate::listener_id::ListenerId;
use crate::maglev::Maglev;
use crate::model::{Backend, Drain, Limits, Listener, OneOrMany, Route, Timeouts};
use crate::path::PathRules;
use crate::paths::{Candidate, Clash, FastMap, Found, PathTable};
use crate::pattern::{Pattern, Patterns};
use crate::problem::Problem;
use crate::resolver::Resolver;
use crate::scope::{Hosts, Scope, Scopes};
use crate::series::{Series, SeriesList};
use crate::shown::ShownCertificate;
use crate::state::State;
use crate::tokens::TokenSet;
use crate::transport::Transport;
use crate::upstream_tls::UpstreamTls;
use crate::view::RequestView;

/// One version of the whole configuration, compiled.
#[derive(Debug)]
pub struct Table {
    /// Grows with every change.
    pub version: u64,
    /// What is done to the paths of requests.
    pub paths: PathRules,
    /// Bounds on what is held.
    pub limits: Limits,
    /// Bounds on what is waited for.
    pub timeouts: Timeouts,
    /// How it ends.
    pub drain: Drain,
    /// Worker threads; `None` is one for each CPU.
    pub workers: Option<u32>,
    /// A line for each request, and what it is made of.
    pub access_log: Option<(AccessLog, LogLine)>,
    /// What is counted beside what is counted always.
    pub metrics: Metrics,
    /// What is added to requests for upstreams, if anything.
    pub forwarding: Option<Forwarding>,
    /// Where clients connect.
    pub listeners: Vec<Listener>,
    /// Who is asked for the addresses of names.
    pub resolver: Resolver,
    /// Some backend is told the addresses of each client.
    pub tells_addresses: bool,
    /// One for each of the listeners.
    transports: Vec<Transport>,
    /// Those that listeners show, in the order of the listeners.
    pub certificates: Vec<ShownCertificate>,
    backends: Vec<BackendEntry>,
    /// One for each of the routes.
    targets: Vec<Target>,
    /// By the routes' keys, for those that have any.
    filters: Vec<Filters>,
    series: Box<[Series]>,
    pub(crate) routes: Vec<RouteEntry>,
    pub(crate) scopes: Scopes,
    path_tables: Vec<PathTable>,
}

/// A backend under its name.
#[derive(Clone, Debug, Default)]
pub struct BackendEntry {
    /// The name that routes use.
    pub name: String,
    /// The backend; the same allocation in every version that did not change it.
    pub backend: Arc<Backend>,
    /// TLS with its endpoints; the same allocation in every version that changed nothing of it.
    pub tls: Option<Arc<UpstreamTls>>,
    /// Its requests in flight are counted, as something depends on their number.
    pub counts_requests: bool,
    /// What a request carries decides which endpoint gets it.
    pub has_affinity: bool,
    /// Some of its endpoints are known by names alone.
    pub has_names: bool,
    /// What its requests come to may take endpoints out.
    pub has_ejection: bool,
    /// Which endpoint has a key, where the backend is balanced by hashes and has no names.
    pub maglev: Option<Arc<Maglev>>,
}

/// What a route does with a request.
#[derive(Debug)]
pub struct Target {
    /// Position among [`Table::backends`]; beyond them where the filters say what answers.
    pub backend: usize,
    /// Replaces what matched.
    pub rewrite: Option<Box<str>>,
    /// A request must carry one of these bearer tokens.
    pub tokens: Option<Arc<TokenSet>>,
    /// Position among [`Table::filters`]; most routes have none.
    pub filters: Option<u32>,
    /// Position among [`Table::series`]. Where several backends share the requests, that is for those that none of them
    /// gets, and the backends' own follow in their order.
    pub series: u32,
}

/// A route under its key, with what is compiled of its own.
#[derive(Debug)]
pub(crate) struct RouteEntry {
    pub(crate) key: Box<str>,
    pub(crate) route: Arc<Route>,
    pub(crate) conditions: Option<Arc<Conditions>>,
    pub(crate) pattern: Option<Arc<Pattern>>,
}

/// Two routes that want the same requests.
#[derive(Debug)]
pub(crate) struct Conflict {
    /// The key of the later one.
    pub(crate) key: String,
    /// The key of the one that has them already.
    pub(crate) taken_by: String,
    pub(crate) problem: Problem,
}

/// A route found.
#[derive(Clone, Copy, Debug)]
pub struct Match<'t> {
    /// What to do.
    pub target: &'t Target,
    /// How many bytes of the path matched, for the rewrite.
    pub matched: usize,
    /// The position among the routes, by which the table knows its key.
    pub route: usize,
}

impl Table {
    /// Where a request goes.
    pub fn find(&self, request: &RequestView<'_>) -> Option<Match<'_>> {
        let host = LowerHost::of(request.host);
        let host = host.as_ref().map_or("", LowerHost::as_str);
        let in_paths = |index: u32| self.path_tables[index as usize].find(request);
        let hosts = self.scopes.hosts(request.scope);
        let found = hosts
            .exact
            .get(host)
            .and_then(|&index| in_paths(index))
            .or_else(|| self.find_by_suffix(&hosts.suffixes, host, request))
            .or_else(|| hosts.every.and_then(in_paths));
        found.map(|Found { target, matched }| {
            let route = target as usize;
            Match { target: &self.targets[route], matched, route }
        })
    }

    /// All backends, in the order that [`Target::backend`] counts.
    pub fn backends(&self) -> &[BackendEntry] {
        &self.backends
    }

    /// What routes do beside passing requests on, ordered by [`Filters::key`], in the order that [`Target::filters`]
    /// counts.
    pub fn filters(&self) -> &[Filters] {
        &self.filters
    }

    /// Which requests are counted together, in the order that [`Target::series`] counts.
    pub fn series(&self) -> &[Series] {
        &self.series
    }

    /// The key of the route at this position, as in `routes[3]`.
    pub fn key(&self, route: usize) -> &str {
        &self.routes[route].key
    }

    /// The position of the backend that routes call `name`.
    pub fn backend_named(&self, name: &str) -> Option<usize> {
        self.backends.binary_search_by(|backend| backend.name.as_str().cmp(name)).ok()
    }

    /// How clients of this listener are spoken with; `None` where there is no such listener.
    pub fn transport(&self, listener: impl Into<ListenerId>) -> Option<&Transport> {
        self.transports.get(self.position_of(listener.into())?)
    }

    /// The routes that clients of this listener may have; those for every listener where there is no such one.
    #[inline]
    pub fn scope(&self, listener: impl Into<ListenerId>) -> Scope {
        match self.scopes.is_one() {
            true => Scope::default(),
            false => self.scopes.of_listener(self.position_of(listener.into())),
        }
    }

    /// Whether clients of this listener begin with a header of the PROXY protocol; `None` where there is no such
    /// listener.
    pub fn wants_proxy_header(&self, listener: impl Into<ListenerId>) -> Option<bool> {
        Some(self.listeners[self.position_of(listener.into())?].proxy_protocol)
    }

    fn find_by_suffix(
        &self,
        suffixes: &FastMap<Box<str>, u32>,
        host: &str,
        request: &RequestView<'_>,
    ) -> Option<Found> {
        if suffixes.is_empty() {
            return None;
        }
        // A pattern wants at least one label before its suffix, so a dot in front begins none.
        let dots = host.bytes().enumerate().skip(1).filter(|&(_, b)| b == b'.').map(|(at, _)| at);
        for dot in dots {
            if let Some(&index) = suffixes.get(&host[dot..])
                && let Some(found) = self.path_tables[index as usize].find(request)
            {
                return Some(found);
            }
        }
        None
    }

    /// Compiles a state whose resources were each checked; what is left to find are routes that contradict each other,
    /// each told with its key.
    pub(crate) fn compile(version: u64, state: &State) -> Result<Table, Vec<Conflict>> {
        let retrying = state.routes.values().filter(|route| route.retries.is_some());
        let retried: BTreeSet<&str> =
            retrying.flat_map(|route| route.backend_names().map(|(_, name)| name)).collect();
        let backends: Vec<BackendEntry> = state
            .backends
            .iter()
            .map(|(name, backend)| BackendEntry {
                name: name.clone(),
                backend: Arc::clone(backend),
                tls: state.sealed.upstream(name),
                counts_requests: backend.limits.requests.is_some() || retried.contains(name.as_str()),
                has_affinity: backend.balance.has_affinity(),
                has_names: backend.names().next().is_some(),
                has_ejection: backend.ejection.is_some(),
                maglev: state.maglevs.find(name),
            })
            .collect();
        // Validation has made sure that the backends are there.
        let position = |name: &str| {
            backends.binary_search_by(|b: &BackendEntry| b.name.as_str().cmp(name)).unwrap_or(usize::MAX)
        };
        let mut filters = Vec::new();
        let mut series = SeriesList::default();
        let targets = state
            .routes
            .iter()
            .map(|(key, route)| Target {
                backend: route.backend.as_deref().map_or(usize::MAX, position),
                rewrite: route.rewrite.as_ref().and_then(Rewrite::prefix).map(Into::into),
                tokens: route.tokens.as_ref().map(|file| state.sealed.tokens(file)),
                filters: Filters::of(key, route, position).map(|of_route| {
                    filters.push(of_route);
                    filters.len() as u32 - 1
                }),
                series: series.of_route(route),
            })
            .collect();
        let listeners: Vec<Listener> = state.listeners.values().cloned().collect();
        let mut table = Table {
            version,
            paths: state.settings.paths,
            limits: state.settings.limits.clone(),
            timeouts: state.settings.timeouts.clone(),
            drain: state.settings.drain.clone(),
            workers: state.settings.workers,
            access_log: state.settings.access_log.as_ref().and_then(AccessLog::with_line),
            metrics: state.settings.metrics.clone(),
            forwarding: Some(state.settings.forwarding.clone()).filter(Forwarding::is_any),
            scopes: Scopes::of(state.routes.values().map(|route| &**route), &listeners),
            listeners,
            resolver: (*state.settings.resolver).clone(),
            tells_addresses: state.backends.values().any(|backend| backend.proxy_protocol.is_some()),
            transports: state.listeners.iter().map(|(name, l)| state.sealed.transport(name, l)).collect(),
            certificates: state
                .listeners
                .iter()
                .flat_map(|(name, l)| state.sealed.certificates(name, l))
                .collect(),
            backends,
            targets,
            filters,
            series: series.into_boxed_slice(),
            routes: state
                .routes
                .iter()
                .map(|(key, route)| RouteEntry::of(key, route, &state.patterns))
                .collect(),
            path_tables: Vec::new(),
        };
        let conflicts = table.add_hosts();
        if conflicts.is_empty() { Ok(table) } else { Err(conflicts) }
    }

    /// Gives each scope its hosts.
    fn add_hosts(&mut self) -> Vec<Conflict> {
        let mut conflicts = Vec::new();
        let mut groups = FastMap::default();
        for scope in self.scopes.all() {
            let hosts = self.hosts_of(scope, &mut groups, &mut conflicts);
            self.scopes.push(hosts);
        }
        conflicts
    }

    /// Groups hosts by the routes they have, and gives each group its paths.
    fn hosts_of(
        &mut self,
        scope: Scope,
        groups: &mut FastMap<Vec<u32>, u32>,
        conflicts: &mut Vec<Conflict>,
    ) -> Hosts {
        let mut by_host: BTreeMap<Option<HostPattern>, Vec<u32>> = BTreeMap::new();
        for (index, RouteEntry { route, .. }) in self.routes.iter().enumerate() {
            if !self.scopes.has(scope, route) {
                continue;
            }
            if route.hosts.is_empty() {
                by_host.entry(None).or_default().push(index as u32);
            }
            for pattern in route.hosts.iter().filter_map(|h| HostPattern::parse(h).ok()) {
                by_host.entry(Some(pattern)).or_default().push(index as u32);
            }
        }
        let mut hosts = Hosts::default();
        for (pattern, members) in by_host {
            let index = match groups.get(&members) {
                Some(&index) => index,
                None => {
                    let index = self.path_tables.len() as u32;
                    self.path_tables.push(path_table(&members, &self.routes, pattern.as_ref(), conflicts));
                    groups.insert(members, index);
                    index
                }
            };
            match pattern {
                None => hosts.every = Some(index),
                Some(HostPattern::Exact(name)) => drop(hosts.exact.insert(name.into(), index)),
                Some(HostPattern::Suffix(suffix)) => drop(hosts.suffixes.insert(suffix.into(), index)),
            }
        }
        hosts
    }
}

impl RouteEntry {
    fn of(key: &str, route: &Arc<Route>, patterns: &Patterns) -> RouteEntry {
        RouteEntry {
            key: key.into(),
            route: Arc::clone(route),
            conditions: Conditions::of(route, patterns),
            pattern: route.regex.as_deref().map(|text| patterns.find(text)),
        }
    }

    /// Adds each of its paths.
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
}

fn path_table(
    members: &[u32],
    routes: &[RouteEntry],
    host: Option<&HostPattern>,
    conflicts: &mut Vec<Conflict>,
) -> PathTable {
    let mut paths = PathTable::default();
    for &member in members {
        let entry = &routes[member as usize];
        let candidate = Candidate { target: member, conditions: entry.conditions.clone() };
        entry.add_to(&mut paths, &candidate);
    }
    let order = |a: u32, b: u32| source_order(&routes[a as usize], &routes[b as usize]);
    let clashes = paths.settle(&order).into_iter();
    // Where both have their precedence, one of them is meant to go first.
    let has_place = |target: u32| routes[target as usize].route.precedence.is_some();
    let told = clashes.filter(|clash| !has_place(clash.target) || !has_place(clash.taken_by));
    conflicts.extend(told.map(|clash| conflict(clash, routes, host)));
    paths
}

/// Which of two routes stands first: those without a precedence by their source, before those that have one.
pub(crate) fn source_order(a: &RouteEntry, b: &RouteEntry) -> Ordering {
    let by_precedence = a.route.precedence.cmp(&b.route.precedence);
    by_precedence.then_with(|| key_order(&a.key, &b.key))
}

/// Which of two routes stands first in its source: those of a file by their position, others by their keys.
pub(crate) fn key_order(a: &str, b: &str) -> Ordering {
    let position = |key: &str| -> Option<(usize, u64)> {
        let (list, index) = key.strip_suffix(']')?.rsplit_once('[')?;
        Some((list.len(), index.parse().ok()?))
    };
    let place = |key: &str| position(key).unwrap_or((key.len(), 0));
    let ((a_len, a_index), (b_len, b_index)) = (place(a), place(b));
    (&a[..a_len], a_index, a).cmp(&(&b[..b_len], b_index, b))
}

fn conflict(clash: Clash, routes: &[RouteEntry], host: Option<&HostPattern>) -> Conflict {
    let [entry, other] = [clash.target, clash.taken_by].map(|target| &routes[target as usize]);
    let (field, path) = match (&clash.exact, &entry.route.path, &entry.route.regex) {
        (Some(path), ..) => ("exact", &**path),
        (None, Some(prefix), _) => ("path", prefix.as_str()),
        (None, None, regex) => ("regex", regex.as_deref().unwrap_or_default()),
    };
    let host = host.map_or("every host".to_owned(), |h| format!("`{h}`"));
    let (message, remedy) = if clash.target == clash.taken_by {
        let message = format!("{host} with {field} `{path}` stands twice in this route");
        (message, "keep one of the two; hosts ignore case, and prefixes a closing slash")
    } else {
        let message = format!("{host} with {field} `{path}` is taken by {} already", other.key);
        (
            message,
            "give each host and path to one route, or tell them apart by `methods`, `headers` or `query`",
        )
    };
    let problem = Problem::new(format!("{}.{field}", entry.key), message).help(remedy);
    Conflict { key: entry.key.to_string(), taken_by: other.key.to_string(), problem }
}

#[cfg(test)]
mod tests;
