//! Keyed changes: the form in which every source sends configuration.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_document::Problem;

use crate::files::Content;
use crate::model::{Backend, Configuration, Listener, Route, Settings};

/// Identifies a resource. Listeners and routes of a file are identified by their positions, as in `routes[3]`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// Settings of the whole gateway.
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
    /// Settings of the whole gateway.
    Settings(Box<Settings>),
    /// An address that clients connect to.
    Listener(Listener),
    /// A service.
    Backend(Arc<Backend>),
    /// A route.
    Route(Arc<Route>),
    /// The content of a file.
    File(Content),
}

/// One change of a resource.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Sets the content of a resource, whether it exists or not. Key and content must be of the same kind.
    Put(Key, Resource),
    /// Removes a resource.
    Remove(Key),
}

/// How an invalid resource affects its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The whole batch is refused. For files.
    AllOrNothing,
    /// Only the resource is refused, and keeps its former content if it had one. For dynamic sources.
    EachAlone,
}

/// Changes that take effect together.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The source's own version, for messages.
    pub version: u64,
    /// How an invalid resource affects the others.
    pub policy: Policy,
    /// The changes, in order.
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
    /// The resource that it changes.
    pub fn key(&self) -> &Key {
        match self {
            Change::Put(key, _) | Change::Remove(key) => key,
        }
    }
}

impl Configuration {
    /// The resources of a file with their keys, without the contents of [`Configuration::files`].
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
