//! The hosts of routes, separately for each scope.
//!
//! A scope is a set of listeners with the same routes. If no route names a listener, there is only one scope, and
//! finding it takes one comparison per request.

use std::sync::Arc;

use super::scope::Scope;
use crate::collections::Sharded;
use crate::host::HostPattern;
use crate::matching::paths::PathTable;
use crate::model::{Listener, Route};

/// The hosts of one scope with their paths. Versions share unchanged parts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts {
    pub(crate) exact: Sharded<Arc<PathTable>>,
    /// Wildcard hosts by suffix, such as `.example.com`.
    pub(crate) suffixes: Sharded<Arc<PathTable>>,
    pub(crate) every: Option<Arc<PathTable>>,
}

/// All scopes of a table.
#[derive(Clone, Debug)]
pub(crate) struct Scopes {
    /// The names of listeners that routes use, sorted. The first name has scope 1; scope 0 is for all other listeners.
    names: Vec<Box<str>>,
    /// The hosts of each scope, by scope number.
    hosts: Vec<Hosts>,
    /// The scope of each listener; empty if no route names a listener.
    of_listeners: Vec<Scope>,
}

impl Hosts {
    /// The paths of `host`; `None` as host stands for every host.
    pub(crate) fn get(&self, host: Option<&HostPattern>) -> Option<&Arc<PathTable>> {
        match host {
            None => self.every.as_ref(),
            Some(HostPattern::Exact(name)) => self.exact.get(name),
            Some(HostPattern::Suffix(suffix)) => self.suffixes.get(suffix),
        }
    }

    /// Sets or removes the paths of a host; `None` as host stands for every host.
    pub(crate) fn set(&mut self, host: Option<&HostPattern>, paths: Option<Arc<PathTable>>) {
        let (names, name) = match host {
            None => return self.every = paths,
            Some(HostPattern::Exact(name)) => (&mut self.exact, name),
            Some(HostPattern::Suffix(suffix)) => (&mut self.suffixes, suffix),
        };
        match paths {
            Some(paths) => names.insert(name, paths),
            None => names.remove(name),
        }
    }
}

impl Scopes {
    /// Returns the scopes for routes that name the listeners `names`; `None` if `self` already has exactly these names.
    /// The scope of a new name starts with the hosts of scope 0.
    pub(crate) fn renamed<'n>(&self, names: impl Iterator<Item = &'n str>) -> Option<Scopes> {
        let names: Vec<Box<str>> = names.map(Box::from).collect();
        if names == self.names {
            return None;
        }
        let hosts_of = |name| match self.names.binary_search(name) {
            Ok(position) => self.hosts[position + 1].clone(),
            Err(_) => self.hosts[0].clone(),
        };
        let hosts = std::iter::once(self.hosts[0].clone()).chain(names.iter().map(hosts_of)).collect();
        Some(Scopes { names, hosts, of_listeners: Vec::new() })
    }

    /// Determines the scope of each of these listeners.
    pub(crate) fn assign(&mut self, listeners: &[Listener]) {
        let scope_of =
            |listener: &Listener| match self.names.binary_search_by(|name| (**name).cmp(&listener.label())) {
                Ok(position) => Scope(position as u32 + 1),
                Err(_) => Scope::default(),
            };
        self.of_listeners =
            if self.names.is_empty() { Vec::new() } else { listeners.iter().map(scope_of).collect() };
    }

    /// All scopes.
    pub(crate) fn all(&self) -> impl Iterator<Item = Scope> + use<> {
        (0..=self.names.len() as u32).map(Scope)
    }

    pub(crate) fn hosts_mut(&mut self, scope: Scope) -> &mut Hosts {
        &mut self.hosts[scope.0 as usize]
    }

    /// The name of the listener of a scope; `None` for scope 0.
    pub(crate) fn name(&self, scope: Scope) -> Option<&str> {
        self.names.get((scope.0 as usize).checked_sub(1)?).map(|name| &**name)
    }

    /// Whether requests of `scope` can match `route`.
    pub(crate) fn has(&self, scope: Scope, route: &Route) -> bool {
        let name = || self.names.get((scope.0 as usize).checked_sub(1)?);
        route.listeners.is_empty() || name().is_some_and(|name| route.listeners.iter().any(|l| **l == **name))
    }

    #[inline]
    pub(crate) fn hosts(&self, scope: Scope) -> &Hosts {
        match self.hosts.get(scope.0 as usize) {
            Some(hosts) => hosts,
            None => &self.hosts[0],
        }
    }

    /// Whether all listeners have the same routes.
    #[inline]
    pub(crate) fn is_one(&self) -> bool {
        self.of_listeners.is_empty()
    }

    /// The scope of the listener at this position; scope 0 for `None`.
    pub(crate) fn of_listener(&self, position: Option<usize>) -> Scope {
        position.and_then(|position| self.of_listeners.get(position).copied()).unwrap_or_default()
    }
}

impl Default for Scopes {
    fn default() -> Scopes {
        Scopes { names: Vec::new(), hosts: vec![Hosts::default()], of_listeners: Vec::new() }
    }
}
