//! The compiled table that requests are routed by: immutable, shared by all workers.
//!
//! A request's host is looked up by hash, exact first, then by its suffixes from the longest; each host has its paths.
//! Hosts with the same routes share one path table, so a thousand domains of one site cost a thousand map entries.
//! Where a more specific host has no route for the path, less specific hosts are asked.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::host::{HostPattern, LowerHost};
use crate::model::{Backend, Limits, Listener, Route, Timeouts};
use crate::path::PathRules;
use crate::paths::{FastMap, PathTable};
use crate::problem::Problem;
use crate::state::State;
use crate::tokens::TokenSet;
use crate::transport::Transport;

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
    /// Worker threads; `None` is one for each CPU.
    pub workers: Option<u32>,
    /// Where clients connect.
    pub listeners: Vec<Listener>,
    /// One for each of the listeners.
    transports: Vec<Transport>,
    backends: Vec<BackendEntry>,
    targets: Vec<Target>,
    exact_hosts: FastMap<Box<str>, u32>,
    suffixes: FastMap<Box<str>, u32>,
    every_host: Option<u32>,
    path_tables: Vec<PathTable>,
}

/// A backend under its name.
#[derive(Clone, Debug)]
pub struct BackendEntry {
    /// The name that routes use.
    pub name: String,
    /// The backend; the same allocation in every version that did not change it.
    pub backend: Arc<Backend>,
}

/// What a route does with a request.
#[derive(Debug)]
pub struct Target {
    /// Position among [`Table::backends`].
    pub backend: usize,
    /// Replaces what matched.
    pub rewrite: Option<Box<str>>,
    /// A request must carry one of these bearer tokens.
    pub tokens: Option<Arc<TokenSet>>,
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
}

impl Table {
    /// Where a request for `authority` (a host with or without port) and `path` (without query) goes.
    pub fn find(&self, authority: &str, path: &str) -> Option<Match<'_>> {
        let host = LowerHost::of(authority);
        let host = host.as_ref().map_or("", LowerHost::as_str);
        let in_paths = |index: u32| self.path_tables[index as usize].find(path);
        let found = self
            .exact_hosts
            .get(host)
            .and_then(|&index| in_paths(index))
            .or_else(|| self.find_by_suffix(host, path))
            .or_else(|| self.every_host.and_then(in_paths));
        found.map(|(target, matched)| Match { target: &self.targets[target as usize], matched })
    }

    /// All backends, in the order that [`Target::backend`] counts.
    pub fn backends(&self) -> &[BackendEntry] {
        &self.backends
    }

    /// How clients of the listener at `address` are spoken with; `None` where there is no such listener.
    pub fn transport(&self, address: SocketAddr) -> Option<&Transport> {
        let position = self.listeners.iter().position(|listener| listener.address == address)?;
        self.transports.get(position)
    }

    fn find_by_suffix(&self, host: &str, path: &str) -> Option<(u32, usize)> {
        if self.suffixes.is_empty() {
            return None;
        }
        // A pattern wants at least one label before its suffix, so a dot in front begins none.
        let dots = host.bytes().enumerate().skip(1).filter(|&(_, b)| b == b'.').map(|(at, _)| at);
        for dot in dots {
            if let Some(&index) = self.suffixes.get(&host[dot..])
                && let Some(found) = self.path_tables[index as usize].find(path)
            {
                return Some(found);
            }
        }
        None
    }

    /// Compiles a state whose resources were each checked; what is left to find are routes that contradict each other,
    /// each told with its key.
    pub(crate) fn compile(version: u64, state: &State) -> Result<Table, Vec<Conflict>> {
        let backends: Vec<BackendEntry> = state
            .backends
            .iter()
            .map(|(name, backend)| BackendEntry { name: name.clone(), backend: Arc::clone(backend) })
            .collect();
        let routes: Vec<(&String, &Arc<Route>)> = state.routes.iter().collect();
        let targets = routes
            .iter()
            .map(|(_, route)| Target {
                // Validation has made sure that the backend is there.
                backend: backends.binary_search_by(|b| b.name.cmp(&route.backend)).unwrap_or(usize::MAX),
                rewrite: route.rewrite.as_deref().map(Into::into),
                tokens: route.tokens.as_ref().map(|file| state.sealed.tokens(file)),
            })
            .collect();
        let mut table = Table {
            version,
            paths: state.settings.paths,
            limits: state.settings.limits.clone(),
            timeouts: state.settings.timeouts.clone(),
            workers: state.settings.workers,
            listeners: state.listeners.values().cloned().collect(),
            transports: state.listeners.iter().map(|(name, l)| state.sealed.transport(name, l)).collect(),
            backends,
            targets,
            exact_hosts: FastMap::default(),
            suffixes: FastMap::default(),
            every_host: None,
            path_tables: Vec::new(),
        };
        let conflicts = table.add_hosts(&routes);
        if conflicts.is_empty() { Ok(table) } else { Err(conflicts) }
    }

    /// Groups hosts by the routes they have, and gives each group its paths.
    fn add_hosts(&mut self, routes: &[(&String, &Arc<Route>)]) -> Vec<Conflict> {
        let mut by_host: BTreeMap<Option<HostPattern>, Vec<u32>> = BTreeMap::new();
        for (index, (_, route)) in routes.iter().enumerate() {
            if route.hosts.is_empty() {
                by_host.entry(None).or_default().push(index as u32);
            }
            for pattern in route.hosts.iter().filter_map(|h| HostPattern::parse(h).ok()) {
                by_host.entry(Some(pattern)).or_default().push(index as u32);
            }
        }
        let mut conflicts = Vec::new();
        let mut groups: FastMap<Vec<u32>, u32> = FastMap::default();
        for (pattern, members) in by_host {
            let index = match groups.get(&members) {
                Some(&index) => index,
                None => {
                    let index = self.path_tables.len() as u32;
                    self.path_tables.push(path_table(&members, routes, pattern.as_ref(), &mut conflicts));
                    groups.insert(members, index);
                    index
                }
            };
            match pattern {
                None => self.every_host = Some(index),
                Some(HostPattern::Exact(name)) => drop(self.exact_hosts.insert(name.into(), index)),
                Some(HostPattern::Suffix(suffix)) => drop(self.suffixes.insert(suffix.into(), index)),
            }
        }
        conflicts
    }
}

fn path_table(
    members: &[u32],
    routes: &[(&String, &Arc<Route>)],
    host: Option<&HostPattern>,
    conflicts: &mut Vec<Conflict>,
) -> PathTable {
    let mut paths = PathTable::default();
    for &member in members {
        let (key, route) = routes[member as usize];
        let mut note = |added: Result<(), u32>, field: &str, path: &str| {
            if let Err(other) = added {
                let is_own = other == member;
                let other = routes[other as usize].0;
                let host = host.map_or("every host".to_owned(), |h| format!("`{h}`"));
                let (message, remedy) = if is_own {
                    let message = format!("{host} with {field} `{path}` stands twice in this route");
                    (message, "keep one of the two; hosts ignore case, and prefixes a closing slash")
                } else {
                    let message = format!("{host} with {field} `{path}` is taken by {other} already");
                    (message, "give each host and path to one route")
                };
                let problem = Problem::new(format!("{key}.{field}"), message).help(remedy);
                conflicts.push(Conflict { key: key.clone(), taken_by: other.clone(), problem });
            }
        };
        if let Some(prefix) = &route.path {
            note(paths.add_prefix(prefix, member), "path", prefix);
        }
        for path in route.exact.iter().flat_map(|e| e.as_slice()) {
            note(paths.add_exact(path, member), "exact", path);
        }
    }
    paths
}

#[cfg(test)]
mod tests;
