//! Which names routes use, and how often. The counts are updated with each change, so that missing and unused names can
//! be found without a scan of all routes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::{Backend, Route};

/// The names that all routes together use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uses {
    pub(crate) backends: Counts,
    /// Backends used by routes with retries.
    pub(crate) retried: Counts,
    pub(crate) listeners: Counts,
    /// The keys of the routes that name a token file, by file name.
    pub(crate) tokens: BTreeMap<String, BTreeSet<Arc<str>>>,
}

/// For each optional feature, the number of backends that use it. The gateway prepares only features that are used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tallies {
    /// Backends to which the gateway sends a PROXY protocol header.
    pub(crate) proxy_protocol: usize,
    /// Backends with active health checks.
    pub(crate) health_checked: usize,
    /// Backends with host names among their endpoints.
    pub(crate) named: usize,
}

/// Names, each with its number of uses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts(BTreeMap<Box<str>, u32>);

impl Uses {
    /// Counts the names that a route uses.
    pub(crate) fn add(&mut self, key: &Arc<str>, route: &Route) {
        route.backend_names().for_each(|(_, name)| self.backends.add(name));
        retried(route).for_each(|name| self.retried.add(name));
        route.listeners.iter().for_each(|name| self.listeners.add(name));
        if let Some(file) = &route.tokens {
            self.tokens.entry(file.clone()).or_default().insert(Arc::clone(key));
        }
    }

    /// Undoes [`Uses::add`] for a route.
    pub(crate) fn remove(&mut self, key: &str, route: &Route) {
        route.backend_names().for_each(|(_, name)| self.backends.remove(name));
        retried(route).for_each(|name| self.retried.remove(name));
        route.listeners.iter().for_each(|name| self.listeners.remove(name));
        if let Some(file) = &route.tokens
            && let Some(routes) = self.tokens.get_mut(file)
        {
            routes.remove(key);
            if routes.is_empty() {
                self.tokens.remove(file);
            }
        }
    }
}

/// The backends that `route` names, if it has retries; else none.
pub(crate) fn retried(route: &Route) -> impl Iterator<Item = &str> {
    let retries = route.retries.iter();
    retries.flat_map(move |_| route.backend_names().map(|(_, name)| name))
}

impl Tallies {
    /// Counts the features of a backend.
    pub(crate) fn add(&mut self, backend: &Backend) {
        let Tallies { proxy_protocol, health_checked, named } = Tallies::of(backend);
        self.proxy_protocol += proxy_protocol;
        self.health_checked += health_checked;
        self.named += named;
    }

    /// Removes the features of a backend from the counts.
    pub(crate) fn remove(&mut self, backend: &Backend) {
        let Tallies { proxy_protocol, health_checked, named } = Tallies::of(backend);
        self.proxy_protocol -= proxy_protocol;
        self.health_checked -= health_checked;
        self.named -= named;
    }

    fn of(backend: &Backend) -> Tallies {
        Tallies {
            proxy_protocol: usize::from(backend.proxy_protocol.is_some()),
            health_checked: usize::from(backend.health.is_some()),
            named: usize::from(backend.names().next().is_some()),
        }
    }
}

impl Counts {
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// All names, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|name| &**name)
    }

    fn add(&mut self, name: &str) {
        match self.0.get_mut(name) {
            Some(count) => *count += 1,
            None => drop(self.0.insert(name.into(), 1)),
        }
    }

    fn remove(&mut self, name: &str) {
        let Some(count) = self.0.get_mut(name) else { return };
        *count -= 1;
        if *count == 0 {
            self.0.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removing_the_last_route_removes_its_uses() {
        let route = |backend: &str, tokens: Option<&str>| Route {
            backend: Some(backend.to_owned()),
            listeners: vec!["l".to_owned(), "l".to_owned()],
            retries: tokens.map(|_| Box::default()),
            tokens: tokens.map(str::to_owned),
            ..Route::default()
        };
        let mut uses = Uses::default();
        let keys: [Arc<str>; 2] = ["a".into(), "b".into()];
        let routes = [route("x", None), route("x", Some("f"))];
        keys.iter().zip(&routes).for_each(|(key, route)| uses.add(key, route));
        assert!(uses.backends.has("x") && uses.retried.has("x") && uses.tokens["f"].contains("b"));
        uses.remove("b", &routes[1]);
        assert!(uses.backends.has("x") && !uses.retried.has("x") && uses.tokens.is_empty());
        assert_eq!(uses.listeners.names().collect::<Vec<_>>(), ["l"]);
        uses.remove("a", &routes[0]);
        assert!(!uses.backends.has("x") && !uses.listeners.has("l"));
    }
}
