//! Keyed changes: how every source speaks of configuration.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::files::Content;
use crate::model::{Backend, Configuration, Listener, Route, Settings};
use crate::problem::Problem;

/// Which resource. A file knows its listeners and routes by their positions, as in `routes[3]`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// What holds for the whole gateway.
    Settings,
    /// A listener.
    Listener(String),
    /// A backend by the name that routes use.
    Backend(String),
    /// A route.
    Route(String),
    /// A file by the name that listeners and routes use.
    File(String),
}

/// The content of a resource.
#[derive(Clone, Debug, PartialEq)]
pub enum Resource {
    /// What holds for the whole gateway.
    Settings(Box<Settings>),
    /// An address that clients connect to.
    Listener(Listener),
    /// A service.
    Backend(Arc<Backend>),
    /// A route.
    Route(Arc<Route>),
    /// What a file holds.
    File(Content),
}

/// One thing that changes.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The resource is now this, new or not. The key and the content are of one kind.
    Put(Key, Resource),
    /// The resource is gone.
    Remove(Key),
}

/// What a bad resource does to its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The whole batch is refused: a file.
    AllOrNothing,
    /// It alone is refused, and keeps its former content where it had one: a dynamic source.
    EachAlone,
}

/// Changes that come into force together.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The source's own version, for messages.
    pub version: u64,
    /// What a bad resource does to the others.
    pub policy: Policy,
    /// In order.
    pub changes: Vec<Change>,
}

/// What of a batch is refused so far, with the problems. The list is empty if the source reports them itself.
pub(crate) type Refused = BTreeMap<Key, Vec<Problem>>;

impl Key {
    /// The name of a file.
    pub(crate) fn file(&self) -> Option<&str> {
        match self {
            Key::File(name) => Some(name),
            _ => None,
        }
    }

    /// The name within its kind.
    pub fn name(&self) -> &str {
        match self {
            Key::Settings => "settings",
            Key::Listener(name) | Key::Backend(name) | Key::Route(name) | Key::File(name) => name,
        }
    }
}

impl Change {
    /// Which resource it is about.
    pub fn key(&self) -> &Key {
        match self {
            Change::Put(key, _) | Change::Remove(key) => key,
        }
    }
}

impl Configuration {
    /// The resources of a file, each under its key; the contents of [`Configuration::files`] are not among them.
    pub fn into_resources(self) -> Vec<(Key, Resource)> {
        let settings = Settings {
            workers: self.workers,
            paths: self.paths,
            resolver: Box::new(self.resolver),
            limits: self.limits,
            overload: self.overload,
            timeouts: self.timeouts,
            drain: self.drain,
            access_log: self.access_log,
            log: self.log,
            metrics: self.metrics,
            forwarding: self.forwarding,
            underscores_in_headers: self.underscores_in_headers,
            trailers: self.trailers,
        };
        let mut resources = vec![(Key::Settings, Resource::Settings(Box::new(settings)))];
        for (index, listener) in self.listeners.into_iter().enumerate() {
            resources.push((Key::Listener(format!("listeners[{index}]")), Resource::Listener(listener)));
        }
        for (name, backend) in self.backends {
            resources.push((Key::Backend(name), Resource::Backend(Arc::new(backend))));
        }
        for (index, route) in self.routes.into_iter().enumerate() {
            resources.push((Key::Route(format!("routes[{index}]")), Resource::Route(Arc::new(route))));
        }
        resources
    }
}
