//! What resources were before a batch touched them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::change::Key;
use crate::entry::RouteEntry;
use crate::files::Content;
use crate::model::{Backend, Listener, Route, Settings};
use crate::state::State;

/// The routes of a state.
pub(crate) type Routes = BTreeMap<Arc<str>, Arc<RouteEntry>>;

/// The resources that a batch touched, as they were; `None` where there was none. All others are what they were.
#[derive(Debug, Default)]
pub(crate) struct Before {
    pub(crate) settings: Option<Box<Settings>>,
    pub(crate) listeners: BTreeMap<String, Option<Listener>>,
    pub(crate) backends: BTreeMap<String, Option<Arc<Backend>>>,
    pub(crate) routes: BTreeMap<Arc<str>, Option<Arc<RouteEntry>>>,
    pub(crate) files: BTreeMap<String, Option<Content>>,
}

/// A route that is not what it was.
#[derive(Debug)]
pub(crate) struct ChangedRoute {
    pub(crate) former: Option<Arc<RouteEntry>>,
    pub(crate) now: Option<Arc<RouteEntry>>,
}

impl Before {
    /// The routes that are not what they were, in the order of their keys.
    pub(crate) fn changed_routes(&self, now: &Routes) -> Vec<ChangedRoute> {
        let both = self.routes.iter().map(|(key, former)| (former, now.get(key)));
        let changed = both.filter(|(former, now)| !is_one(former.as_ref(), *now));
        changed.map(|(former, now)| ChangedRoute { former: former.clone(), now: now.cloned() }).collect()
    }

    /// Whether a route that is there is new, or not what it was.
    pub(crate) fn is_changed(&self, now: &Arc<RouteEntry>) -> bool {
        self.routes.get(&now.key).is_some_and(|former| !is_one(former.as_ref(), Some(now)))
    }

    /// Whether a listener that is there is new, or not what it was.
    pub(crate) fn is_changed_listener(&self, key: &str, now: &Listener) -> bool {
        self.listeners.get(key).is_some_and(|former| former.as_ref() != Some(now))
    }
}

fn is_one(former: Option<&Arc<RouteEntry>>, now: Option<&Arc<RouteEntry>>) -> bool {
    former.map(Arc::as_ptr) == now.map(Arc::as_ptr)
}

/// Changes, and how they are undone.
impl State {
    /// Makes a listener what is said here.
    pub(super) fn set_listener(&mut self, name: &str, listener: Option<Listener>, before: &mut Before) {
        let former = replace(&mut self.listeners, name, listener);
        before.listeners.entry(name.to_owned()).or_insert(former);
    }

    /// Makes a file what is said here.
    pub(super) fn set_file(&mut self, name: &str, content: Option<Content>, before: &mut Before) {
        let former = replace(&mut self.files, name, content);
        before.files.entry(name.to_owned()).or_insert(former);
    }

    /// Makes the settings what is said here.
    pub(super) fn set_settings(&mut self, settings: Settings, before: &mut Before) {
        let former = std::mem::replace(&mut self.settings, settings);
        before.settings.get_or_insert_with(|| Box::new(former));
    }

    /// Makes a backend what is said here; one that says the same stays the one that it is.
    pub(super) fn set_backend(&mut self, name: &str, backend: Option<Arc<Backend>>, before: &mut Before) {
        let former = before.backends.entry(name.to_owned());
        let former = former.or_insert_with(|| self.backends.get(name).cloned());
        let same = former.as_ref().filter(|former| backend.as_ref() == Some(*former));
        self.replace_backend(name, same.cloned().or(backend));
    }

    /// Makes a route what is said here; one that says the same stays the one that it is. Its patterns are known.
    pub(super) fn set_route(&mut self, name: &str, route: Option<Arc<Route>>, before: &mut Before) {
        let now = self.routes.get(name).cloned();
        let key: Arc<str> = now.as_ref().map_or_else(|| name.into(), |now| Arc::clone(&now.key));
        let former: &Option<_> = before.routes.entry(Arc::clone(&key)).or_insert_with(|| now.clone());
        let next = route.map(|route| match former {
            Some(same) if *same.route == *route => Arc::clone(same),
            _ => {
                // It keeps the position that it had.
                let known = former.as_ref().or(now.as_ref()).map(|entry| entry.position);
                let position = known.unwrap_or_else(|| self.builder.route_slots.take());
                Arc::new(RouteEntry::of(&key, route, position, &self.patterns))
            }
        });
        let is_new = former.is_none();
        self.replace_route(&key, next, is_new);
    }

    /// Makes a resource what it was before.
    pub(super) fn put_back(&mut self, key: &Key, before: &Before) {
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

    /// Makes all resources what they were before.
    pub(super) fn put_all_back(&mut self, before: Before) {
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

    /// Takes note that what is there now stays: nothing will be put back.
    pub(super) fn keep(&mut self, before: Before) {
        for former in before.routes.into_values().flatten() {
            if !self.routes.contains_key(&former.key) {
                self.builder.route_slots.give_back(former.position);
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

    /// Puts a route into the place of the one that is there, or takes that out. The position of one that came with the
    /// batch is free then, as no table knows it.
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
                self.builder.route_slots.give_back(former.position);
            }
            (None, _) => {}
        }
    }
}

/// What was there before.
fn replace<V>(all: &mut BTreeMap<String, V>, name: &str, next: Option<V>) -> Option<V> {
    match next {
        Some(next) => all.insert(name.to_owned(), next),
        None => all.remove(name),
    }
}
