//! Builds a table from the previous one: rebuilds the parts that a batch affects, and shares all others.
//!
//! ```text
//! plan:  hosts with changed routes --> their paths, or conflicts      changes nothing
//! build: backends --> routes --> hosts, each at its position          cannot fail
//! ```
//!
//! A route keeps its position until it is removed. So if only a route's action changes, no paths change. If the
//! requests that a route matches change, only the paths of the route's hosts change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_document::Problem;

use super::maglev::Maglev;
use super::parts::{BackendEntry, CompiledRoute, Parts, Target};
use super::series::SeriesList;
use crate::collections::{FastMap, Pages, Slots};
use crate::credentials::Credentials;
use crate::filters::Filters;
use crate::host::HostPattern;
use crate::matching::Scope;
use crate::matching::entry::{RouteEntry, source_order};
use crate::matching::hosts::Scopes;
use crate::matching::paths::{Candidate, Clash, PathTable};
use crate::model::Backend;
use crate::resources::Resources;
use crate::resources::before::{Before, ChangedRoute};
use crate::resources::uses::retried;

/// Maximum number of hosts that are compared in the search for a host with the same routes.
const TWINS_MAX: usize = 16;

/// The parts of the active table, and the unused positions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Builder {
    pub(crate) parts: Parts,
    pub(crate) series: SeriesList,
    backend_slots: Slots,
    filter_slots: Slots,
}

/// What the next table is built from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Update<'s> {
    pub(crate) resources: &'s Resources,
    pub(crate) before: &'s Before,
    /// The credentials of the active table. `credentials` belongs to the next table.
    pub(crate) former: &'s Credentials,
    pub(crate) credentials: &'s Credentials,
}

/// The changes from the active table to the next one.
#[derive(Debug)]
pub(crate) struct Plan {
    routes: Vec<ChangedRoute>,
    /// The new scopes; `None` if routes name the same listeners as before.
    renamed: Option<Scopes>,
    hosts: Vec<HostPaths>,
}

/// A host pattern in one scope. `None` as pattern stands for every host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ScopedHost {
    scope: Scope,
    pattern: Option<HostPattern>,
}

/// A host with its new paths; `None` if no route names the host any more.
#[derive(Debug)]
struct HostPaths {
    host: ScopedHost,
    paths: Option<Arc<PathTable>>,
}

/// Two routes that match the same requests.
#[derive(Debug)]
pub(crate) struct Conflict {
    /// The key of the later route.
    pub(crate) key: Arc<str>,
    /// The key of the earlier route.
    pub(crate) taken_by: Arc<str>,
    pub(crate) problem: Problem,
}

/// Positions of the routes that one host loses (`gone`) and gets (`come`).
#[derive(Debug, Default)]
struct Difference {
    gone: Vec<u32>,
    /// Contains the position of a route twice if the route names the host twice.
    come: Vec<u32>,
}

type Differences = BTreeMap<ScopedHost, Difference>;

/// The routes of the next table, by position. A position that is not in `changed` has the route of the previous table.
struct Entries<'b> {
    changed: FastMap<u32, &'b RouteEntry>,
    former: &'b Pages<CompiledRoute>,
}

impl Entries<'_> {
    fn at(&self, position: u32) -> &RouteEntry {
        match self.changed.get(&position) {
            Some(entry) => entry,
            None => &self.former[position as usize].entry,
        }
    }
}

impl Builder {
    /// Compiles the paths of each host with changed routes. The error is a list of conflicts between routes. Changes
    /// nothing.
    pub(crate) fn plan(&self, resources: &Resources, before: &Before) -> Result<Plan, Vec<Conflict>> {
        let renamed = self.parts.scopes.renamed(resources.uses.listeners.names());
        let scopes = renamed.as_ref().unwrap_or(&self.parts.scopes);
        let routes = before.changed_routes(&resources.routes);
        let now = routes.iter().filter_map(|route| route.now.as_ref());
        let entries = Entries {
            changed: now.map(|entry| (entry.position, &**entry)).collect(),
            former: &self.parts.routes,
        };
        let differences = differences(scopes, &routes);
        let mut making = Making { entries, groups: FastMap::default(), conflicts: Vec::new() };
        let mut hosts = Vec::with_capacity(differences.len());
        for (host, difference) in &differences {
            let paths = making.paths_of(scopes, host, difference, &differences);
            hosts.push(HostPaths { host: host.clone(), paths });
        }
        let conflicts = making.conflicts;
        if conflicts.is_empty() { Ok(Plan { routes, renamed, hosts }) } else { Err(conflicts) }
    }

    /// Carries out a plan: rebuilds changed backends, routes and hosts.
    pub(crate) fn build(&mut self, update: &Update<'_>, plan: Plan) {
        self.build_backends(update, &plan.routes);
        for ChangedRoute { former, now } in &plan.routes {
            self.build_route(former.as_ref(), now.as_ref(), update.credentials);
        }
        self.build_tokens(update);
        if let Some(scopes) = plan.renamed {
            self.parts.scopes = scopes;
        }
        self.reserve(&plan.hosts);
        for HostPaths { host, paths } in plan.hosts {
            self.parts.scopes.hosts_mut(host.scope).set(host.pattern.as_ref(), paths);
        }
    }

    /// Reserves space for new hosts, so that inserting them one by one does not reshard the maps.
    fn reserve(&mut self, hosts: &[HostPaths]) {
        for of_scope in hosts.chunk_by(|a, b| a.host.scope == b.host.scope) {
            let scope = self.parts.scopes.hosts_mut(of_scope[0].host.scope);
            let is_new = |host: &HostPattern| scope.get(Some(host)).is_none();
            let new = of_scope.iter().filter_map(|of| of.host.pattern.as_ref()).filter(|host| is_new(host));
            let (exact, suffixes): (Vec<_>, Vec<_>) =
                new.partition(|host| matches!(host, HostPattern::Exact(_)));
            scope.exact.reserve(exact.len());
            scope.suffixes.reserve(suffixes.len());
        }
    }

    fn build_backends(&mut self, update: &Update<'_>, routes: &[ChangedRoute]) {
        let Update { resources, before, former, credentials } = *update;
        let new = before.backends.keys().filter(|name| self.parts.by_name.get(name).is_none()).count();
        self.parts.by_name.reserve(new);
        let mut changed: BTreeSet<&str> = before.backends.keys().map(String::as_str).collect();
        for ChangedRoute { former, now } in routes {
            changed.extend([former, now].into_iter().flatten().flat_map(|entry| retried(&entry.route)));
        }
        changed.extend(credentials.upstreams_changed_since(former));
        for name in changed {
            let position = self.parts.by_name.get(name).copied();
            match (resources.backends.get(name), position) {
                (Some(backend), position) => self.build_backend(name, backend, position, update),
                (None, Some(position)) => {
                    self.parts.backends.clear(position);
                    self.parts.by_name.remove(name);
                    self.backend_slots.give_back(position);
                }
                (None, None) => {}
            }
        }
    }

    fn build_backend(
        &mut self,
        name: &str,
        backend: &Arc<Backend>,
        position: Option<u32>,
        update: &Update<'_>,
    ) {
        let former = position.and_then(|position| self.parts.backends.get(position as usize));
        let former = former.filter(|former| Arc::ptr_eq(&former.backend, backend));
        let maglev = match former {
            Some(former) => former.maglev.clone(),
            None => Maglev::of(backend).map(Arc::new),
        };
        let entry = BackendEntry {
            name: name.to_owned(),
            backend: Arc::clone(backend),
            tls: update.credentials.upstream(name),
            counts_requests: backend.limits.requests.is_some() || update.resources.uses.retried.has(name),
            has_affinity: backend.balance.has_affinity(),
            has_names: backend.names().next().is_some(),
            has_ejection: backend.ejection.is_some(),
            maglev,
        };
        let is_same = |former: &BackendEntry| {
            former.counts_requests == entry.counts_requests
                && former.tls.as_ref().map(Arc::as_ptr) == entry.tls.as_ref().map(Arc::as_ptr)
        };
        if former.is_some_and(is_same) {
            return;
        }
        let position = position.unwrap_or_else(|| {
            let position = self.backend_slots.take();
            self.parts.by_name.insert(name, position);
            position
        });
        self.parts.backends.put(position, entry);
    }

    /// Rebuilds unchanged routes whose token file changed.
    fn build_tokens(&mut self, update: &Update<'_>) {
        let Update { resources, before, former, credentials } = *update;
        for file in credentials.tokens_changed_since(former) {
            for key in resources.uses.tokens.get(file).into_iter().flatten() {
                if let Some(entry) = resources.routes.get(key).filter(|entry| !before.is_changed(entry)) {
                    self.build_route(Some(entry), Some(entry), credentials);
                }
            }
        }
    }

    fn build_route(
        &mut self,
        former: Option<&Arc<RouteEntry>>,
        now: Option<&Arc<RouteEntry>>,
        credentials: &Credentials,
    ) {
        let former_target = former.and_then(|former| self.parts.routes.get(former.position as usize));
        let filters = former_target.and_then(|former| former.target.filters);
        match now {
            Some(entry) => {
                let target = self.target(entry, filters, credentials);
                let compiled = CompiledRoute { target, entry: Arc::clone(entry) };
                self.parts.routes.put(entry.position, compiled);
            }
            None => {
                former.into_iter().for_each(|former| self.parts.routes.clear(former.position));
                self.put_filters(filters, None);
            }
        }
        // Releases the former series only after `target` has taken the new ones. So a series that the route keeps also
        // keeps its position.
        former.into_iter().for_each(|former| self.series.give_back(&former.route));
    }

    /// Compiles the [`Target`] of a route. `filters` is the position at which the previous filters of the route are
    /// stored, if any. The new filters are stored at the same position.
    fn target(&mut self, entry: &RouteEntry, filters: Option<u32>, credentials: &Credentials) -> Target {
        let route = &entry.route;
        let series = self.series.take(route);
        // Validation ensures that the backends exist.
        let position = |name: &str| self.parts.by_name.get(name).map_or(usize::MAX, |&at| at as usize);
        let backend = route.backend.as_deref().map_or(usize::MAX, position);
        let of_route = Filters::of(&entry.key, route, position, &series[1..]);
        Target {
            backend,
            rewrite: route.prefix_rewrite(),
            tokens: route.tokens.as_ref().map(|file| credentials.tokens(file)),
            filters: self.put_filters(filters, of_route),
            series: series[0],
        }
    }

    /// Sets or removes the filters of a route. Returns their position; `None` without filters.
    fn put_filters(&mut self, position: Option<u32>, filters: Option<Filters>) -> Option<u32> {
        match (filters, position) {
            (Some(filters), position) => {
                let position = position.unwrap_or_else(|| self.filter_slots.take());
                self.parts.filters.put(position, Arc::new(filters));
                Some(position)
            }
            (None, Some(position)) => {
                self.parts.filters.clear(position);
                self.filter_slots.give_back(position);
                None
            }
            (None, None) => None,
        }
    }
}

/// For each host, the routes that it loses and gains.
fn differences(scopes: &Scopes, routes: &[ChangedRoute]) -> Differences {
    let mut differences = Differences::new();
    for ChangedRoute { former, now } in routes {
        if let (Some(former), Some(now)) = (former, now)
            && former.route.matches_as(&now.route)
        {
            continue;
        }
        let gone = former.iter().map(|entry| (entry, false));
        for (entry, has_come) in gone.chain(now.iter().map(|entry| (entry, true))) {
            let hosts = hosts_of(entry);
            for scope in scopes.all().filter(|scope| scopes.has(*scope, &entry.route)) {
                for host in &hosts {
                    let Difference { gone, come } =
                        differences.entry(ScopedHost { scope, pattern: host.clone() }).or_default();
                    let positions = if has_come { come } else { gone };
                    positions.push(entry.position);
                }
            }
        }
    }
    differences
}

/// The host patterns of a route; `None` stands for every host.
fn hosts_of(entry: &Arc<RouteEntry>) -> Vec<Option<HostPattern>> {
    if entry.route.hosts.is_empty() {
        return vec![None];
    }
    entry.route.hosts.iter().filter_map(|host| HostPattern::parse(host).ok()).map(Some).collect()
}

impl Difference {
    /// The positions of the host's routes after the change, sorted. `members` are their positions before the change.
    fn applied_to(&self, members: &[u32]) -> Vec<u32> {
        let mut gone = self.gone.clone();
        gone.sort_unstable();
        let stays = |member: &u32| gone.binary_search(member).is_err();
        let stay = members.iter().copied().filter(stays);
        let mut members: Vec<u32> = stay.chain(self.come.iter().copied()).collect();
        members.sort_unstable();
        members
    }
}

/// Compiles the paths of hosts.
struct Making<'b> {
    entries: Entries<'b>,
    /// Maps the positions of a host's routes to their compiled paths. Hosts with the same routes share one entry.
    groups: FastMap<Vec<u32>, Arc<PathTable>>,
    conflicts: Vec<Conflict>,
}

impl Making<'_> {
    /// Compiles the paths of a host; `None` if no route names it any more.
    fn paths_of(
        &mut self,
        scopes: &Scopes,
        host: &ScopedHost,
        difference: &Difference,
        all: &Differences,
    ) -> Option<Arc<PathTable>> {
        let former = scopes
            .hosts(host.scope)
            .get(host.pattern.as_ref())
            .map(|paths| paths.members())
            .unwrap_or_default();
        let members = difference.applied_to(former);
        if members.is_empty() {
            return None;
        }
        if let Some(same) = self.groups.get(&members) {
            return Some(Arc::clone(same));
        }
        // A new or changed route of this host rebuilds all hosts with this route, so no unchanged host has the same
        // routes. If there is no such route, search for an unchanged host with the same routes.
        let twin =
            if difference.come.is_empty() { self.twin(scopes, host.scope, &members, all) } else { None };
        let paths = twin.unwrap_or_else(|| Arc::new(self.path_table(&members, host.pattern.as_ref())));
        self.groups.insert(members, Arc::clone(&paths));
        Some(paths)
    }

    /// Finds an unchanged host with the routes `members`, and returns its paths. Checks only the first [`TWINS_MAX`]
    /// hosts of the first route; `None` if none of them matches.
    fn twin(
        &self,
        scopes: &Scopes,
        scope: Scope,
        members: &[u32],
        all: &Differences,
    ) -> Option<Arc<PathTable>> {
        let first = self.entries.at(*members.first()?);
        let hosts = first.route.hosts.iter().take(TWINS_MAX).filter_map(|host| HostPattern::parse(host).ok());
        let untouched = hosts
            .map(|host| ScopedHost { scope, pattern: Some(host) })
            .filter(|host| !all.contains_key(host));
        let mut paths = untouched.filter_map(|host| scopes.hosts(scope).get(host.pattern.as_ref()));
        paths.find(|paths| paths.members() == members).cloned()
    }

    fn path_table(&mut self, members: &[u32], host: Option<&HostPattern>) -> PathTable {
        let mut paths = PathTable::of(members);
        for &member in members {
            let entry = self.entries.at(member);
            let candidate = Candidate { target: member, conditions: entry.conditions.clone() };
            entry.add_to(&mut paths, &candidate);
        }
        let order = |a: u32, b: u32| source_order(self.entries.at(a), self.entries.at(b));
        let clashes = paths.settle(&order).into_iter();
        // If both routes have a precedence, their order is intended, so it is not a conflict.
        let has_place = |target: u32| self.entries.at(target).route.precedence.is_some();
        let reported = clashes.filter(|clash| !has_place(clash.target) || !has_place(clash.taken_by));
        let reported: Vec<Conflict> = reported.map(|clash| conflict(&clash, &self.entries, host)).collect();
        self.conflicts.extend(reported);
        paths
    }
}

fn conflict(clash: &Clash, entries: &Entries<'_>, host: Option<&HostPattern>) -> Conflict {
    let [entry, other] = [clash.target, clash.taken_by].map(|target| entries.at(target));
    let (field, path) = match (&clash.exact, &entry.route.path, &entry.route.regex) {
        (Some(path), ..) => ("exact", &**path),
        (None, Some(prefix), _) => ("path", prefix.as_str()),
        (None, None, regex) => ("regex", regex.as_deref().unwrap_or_default()),
    };
    let host = host.map_or("every host".to_owned(), |h| format!("`{h}`"));
    let (message, remedy) = if clash.target == clash.taken_by {
        let message = format!("duplicate {field} `{path}` for {host} in this route");
        (message, "remove one of them; hosts ignore case, and prefixes ignore a trailing slash")
    } else {
        let message = format!("{} already matches {field} `{path}` for {host}", other.key);
        (message, "remove one of the routes, or make them differ in `methods`, `headers` or `query`")
    };
    let problem = Problem::of(format!("{}.{field}", entry.key), message).help(remedy);
    Conflict { key: Arc::clone(&entry.key), taken_by: Arc::clone(&other.key), problem }
}

#[cfg(test)]
mod tests;
