//! The resources of a state. A batch changes them in place, and refused changes are undone.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_document::Problem;

use crate::change::{Change, Key, Refused, Resource};
use crate::check::check;
use crate::collections::Slots;
use crate::files::Content;
use crate::matching::entry::RouteEntry;
use crate::matching::pattern::Patterns;
use crate::model::{Backend, Listener, Route, Settings};

pub(crate) mod before;
pub(crate) mod consistency;
mod route_listeners;
pub(crate) mod uses;

use before::{Before, Routes};
use uses::{Tallies, Uses};

/// All resources of the configuration. A batch changes them in place; if it is refused, the resources that it touched
/// are restored.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resources {
    pub(crate) settings: Settings,
    pub(crate) listeners: BTreeMap<String, Listener>,
    pub(crate) backends: BTreeMap<String, Arc<Backend>>,
    pub(crate) routes: Routes,
    pub(crate) files: BTreeMap<String, Content>,
    /// The compiled regular expressions of routes.
    patterns: Patterns,
    /// The names that routes use.
    pub(crate) uses: Uses,
    /// For each optional feature, the number of backends that use it. The gateway prepares only features that are used.
    pub(crate) tallies: Tallies,
    /// Assigns each route its position in tables.
    route_slots: Slots,
}

impl Resources {
    /// Applies a change if its resource is valid on its own; otherwise adds the problems to `refused`. Returns an
    /// invalid route with its key, so that more checks can run on it.
    pub(crate) fn apply(
        &mut self,
        change: Change,
        before: &mut Before,
        refused: &mut Refused,
    ) -> Option<(String, Arc<Route>)> {
        let (key, resource) = match change {
            Change::Put(key, resource) => (key, resource),
            Change::Remove(key) => {
                self.set(&key, None, before);
                return None;
            }
        };
        let found = self.check(key.name(), &resource);
        if found.is_empty() {
            self.set(&key, Some(resource), before);
            return None;
        }
        let name = key.name().to_owned();
        refused.entry(key).or_default().extend(found);
        match resource {
            Resource::Route(route) => Some((name, route)),
            _ => None,
        }
    }

    /// Validates a resource on its own. For a route, also compiles its patterns and keeps them.
    fn check(&mut self, name: &str, resource: &Resource) -> Vec<Problem> {
        let mut found = check(name, resource);
        if let Resource::Route(route) = resource {
            found.extend(self.patterns.learn(name, route).err());
        }
        found
    }

    /// Sets or removes a resource, and records its former content in `before`.
    pub(crate) fn set(&mut self, key: &Key, resource: Option<Resource>, before: &mut Before) {
        match (resource, key) {
            (Some(Resource::Settings(settings)), _) => self.set_settings(*settings, before),
            (Some(Resource::Listener(listener)), _) => {
                self.set_listener(key.name(), Some(listener), before);
            }
            (Some(Resource::Backend(backend)), _) => self.set_backend(key.name(), Some(backend), before),
            (Some(Resource::Route(route)), _) => self.set_route(key.name(), Some(route), before),
            (Some(Resource::File(content)), _) => self.set_file(key.name(), Some(content), before),
            (None, Key::Settings) => self.set_settings(Settings::default(), before),
            (None, Key::Listener(name)) => self.set_listener(name, None, before),
            (None, Key::Backend(name)) => self.set_backend(name, None, before),
            (None, Key::Route(name)) => self.set_route(name, None, before),
            (None, Key::File(name)) => self.set_file(name, None, before),
        }
    }

    /// Sets or removes a listener, and records the former one in `before`.
    pub(crate) fn set_listener(&mut self, name: &str, listener: Option<Listener>, before: &mut Before) {
        let former = replace(&mut self.listeners, name, listener);
        before.listeners.entry(name.to_owned()).or_insert(former);
    }

    /// Sets or removes the content of a file, and records the former content in `before`.
    pub(crate) fn set_file(&mut self, name: &str, content: Option<Content>, before: &mut Before) {
        let former = replace(&mut self.files, name, content);
        before.files.entry(name.to_owned()).or_insert(former);
    }

    /// Replaces the settings, and records the former ones in `before`.
    pub(crate) fn set_settings(&mut self, settings: Settings, before: &mut Before) {
        let former = std::mem::replace(&mut self.settings, settings);
        before.settings.get_or_insert_with(|| Box::new(former));
    }

    /// Sets or removes a backend, and records the former one in `before`. If the content is equal, the former backend
    /// stays.
    pub(crate) fn set_backend(&mut self, name: &str, backend: Option<Arc<Backend>>, before: &mut Before) {
        let former = before.backends.entry(name.to_owned());
        let former = former.or_insert_with(|| self.backends.get(name).cloned());
        let same = former.as_ref().filter(|former| backend.as_ref() == Some(*former));
        self.replace_backend(name, same.cloned().or(backend));
    }

    /// Sets or removes a route, and records the former route in `before`. The patterns of the route must already be
    /// compiled. If the content is equal, the former route stays.
    pub(crate) fn set_route(&mut self, name: &str, route: Option<Arc<Route>>, before: &mut Before) {
        let now = self.routes.get(name).cloned();
        let key: Arc<str> = now.as_ref().map_or_else(|| name.into(), |now| Arc::clone(&now.key));
        let former: &Option<_> = before.routes.entry(Arc::clone(&key)).or_insert_with(|| now.clone());
        let next = route.map(|route| match former {
            Some(same) if *same.route == *route => Arc::clone(same),
            _ => {
                // A changed route keeps its position.
                let known = former.as_ref().or(now.as_ref()).map(|entry| entry.position);
                let position = known.unwrap_or_else(|| self.route_slots.take());
                Arc::new(RouteEntry::of(&key, route, position, &self.patterns))
            }
        });
        let is_new = former.is_none();
        self.replace_route(&key, next, is_new);
    }

    /// Restores a resource to its content before the batch.
    pub(crate) fn put_back(&mut self, key: &Key, before: &Before) {
        match key {
            Key::Settings => {
                if let Some(former) = &before.settings {
                    self.settings = (**former).clone();
                }
            }
            Key::Listener(name) => {
                if let Some(former) = before.listeners.get(name) {
                    replace(&mut self.listeners, name, former.clone());
                }
            }
            Key::Backend(name) => {
                if let Some(former) = before.backends.get(name) {
                    self.replace_backend(name, former.clone());
                }
            }
            Key::Route(name) => {
                if let Some((key, former)) = before.routes.get_key_value(name.as_str()) {
                    self.replace_route(key, former.clone(), former.is_none());
                }
            }
            Key::File(name) => {
                if let Some(former) = before.files.get(name) {
                    replace(&mut self.files, name, former.clone());
                }
            }
        }
    }

    /// Restores all resources to their content before the batch.
    pub(crate) fn put_all_back(&mut self, before: Before) {
        if let Some(former) = before.settings {
            self.settings = *former;
        }
        for (name, former) in before.listeners {
            replace(&mut self.listeners, &name, former);
        }
        for (name, former) in before.files {
            replace(&mut self.files, &name, former);
        }
        for (name, former) in before.backends {
            self.replace_backend(&name, former);
        }
        for (key, former) in before.routes {
            let was_new = former.is_none();
            self.replace_route(&key, former, was_new);
        }
        self.patterns.forget_unused();
    }

    /// Ends a batch that takes effect: releases the positions of removed routes, and unused patterns.
    pub(crate) fn keep(&mut self, before: Before) {
        for former in before.routes.into_values().flatten() {
            if !self.routes.contains_key(&former.key) {
                self.route_slots.give_back(former.position);
            }
        }
        self.patterns.forget_unused();
    }

    fn replace_backend(&mut self, name: &str, next: Option<Arc<Backend>>) {
        if let Some(next) = &next {
            self.tallies.add(next);
        }
        if let Some(former) = replace(&mut self.backends, name, next) {
            self.tallies.remove(&former);
        }
    }

    /// Sets or removes a route. If the batch itself added the route that is now removed, the position of the route is
    /// released, because no table uses it.
    fn replace_route(&mut self, key: &Arc<str>, next: Option<Arc<RouteEntry>>, came_with_the_batch: bool) {
        let former = match &next {
            Some(next) => self.routes.insert(Arc::clone(key), Arc::clone(next)),
            None => self.routes.remove(key),
        };
        if let Some(former) = &former {
            self.uses.remove(key, &former.route);
            self.patterns.release(&former.route);
        }
        match (next, former) {
            (Some(next), _) => {
                self.uses.add(key, &next.route);
                self.patterns.hold(&next.route);
            }
            (None, Some(former)) if came_with_the_batch => {
                self.route_slots.give_back(former.position);
            }
            (None, _) => {}
        }
    }
}

/// Sets or removes an entry; returns the former one.
fn replace<V>(all: &mut BTreeMap<String, V>, name: &str, next: Option<V>) -> Option<V> {
    match next {
        Some(next) => all.insert(name.to_owned(), next),
        None => all.remove(name),
    }
}
