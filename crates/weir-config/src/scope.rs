//! Which routes are for the clients of which listener.
//!
//! Routes that name no listener are for all of them. Where no route names one, there is one scope, and a request pays a
//! look at a length for it.

use std::collections::BTreeSet;

use crate::model::{Listener, Route};
use crate::paths::FastMap;

/// The routes that requests are looked up among: those for every listener, and those for the one that they came by. It
/// belongs to the [`crate::Table`] that told it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scope(u32);

/// The hosts of one scope, each with the position of its paths.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    pub(crate) exact: FastMap<Box<str>, u32>,
    /// By the suffix with its dot.
    pub(crate) suffixes: FastMap<Box<str>, u32>,
    pub(crate) every: Option<u32>,
}

/// All scopes of a table.
#[derive(Debug, Default)]
pub(crate) struct Scopes {
    /// The listeners that routes name, in order, behind the scope of all others.
    names: Vec<Box<str>>,
    hosts: Vec<Hosts>,
    /// One for each of the listeners; empty where no route names any.
    of_listeners: Vec<Scope>,
}

impl Scopes {
    /// Those that these routes make for these listeners, as yet without hosts.
    pub(crate) fn of<'r>(routes: impl Iterator<Item = &'r Route>, listeners: &[Listener]) -> Scopes {
        let names: BTreeSet<&str> = routes.flat_map(|route| &route.listeners).map(String::as_str).collect();
        let names: Vec<Box<str>> = names.into_iter().map(Box::from).collect();
        let scope_of =
            |listener: &Listener| match names.binary_search_by(|name| (**name).cmp(&listener.label())) {
                Ok(position) => Scope(position as u32 + 1),
                Err(_) => Scope::default(),
            };
        let of_listeners =
            if names.is_empty() { Vec::new() } else { listeners.iter().map(scope_of).collect() };
        Scopes { names, hosts: Vec::new(), of_listeners }
    }

    /// All of them, in the order in which [`Scopes::push`] wants their hosts.
    pub(crate) fn all(&self) -> impl Iterator<Item = Scope> + use<> {
        (0..=self.names.len() as u32).map(Scope)
    }

    /// Gives the next scope its hosts.
    pub(crate) fn push(&mut self, hosts: Hosts) {
        self.hosts.push(hosts);
    }

    /// Whether requests of `scope` may have the route.
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

    /// That of the listener at this position; of all others where there is none.
    pub(crate) fn of_listener(&self, position: Option<usize>) -> Scope {
        position.and_then(|position| self.of_listeners.get(position).copied()).unwrap_or_default()
    }
}
