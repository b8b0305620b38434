//! Changes of single resources, each with a key. Every source sends its configuration in this form.

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
    /// A listener, such as `listeners[0]`.
    Listener(String),
    /// A backend, by the name that routes use.
    Backend(String),
    /// A route, such as `routes[3]`.
    Route(String),
    /// A file, by the name that the configuration uses.
    File(String),
}

/// The content of a resource.
#[derive(Clone, Debug, PartialEq)]
pub enum Resource {
    /// Settings of the whole gateway.
    Settings(Box<Settings>),
    /// An address that clients connect to.
    Listener(Listener),
    /// A service behind the gateway.
    Backend(Arc<Backend>),
    /// A route: which requests it matches, and what happens to them.
    Route(Arc<Route>),
    /// The content of a file.
    File(Content),
}

/// A change of one resource.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Creates a resource, or replaces its content. Key and content must be of the same kind.
    Put(Key, Resource),
    /// Removes a resource.
    Remove(Key),
}

/// What happens to a batch if some of its resources are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Refuses the whole batch. Configuration files use this policy.
    AllOrNothing,
    /// Refuses only the invalid resources. A refused resource keeps its former content, if it had any. Dynamic sources
    /// use this policy.
    EachAlone,
}

/// Changes that take effect together.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The version number that the source gave the batch, for messages.
    pub version: u64,
    /// What happens to the batch if some of its resources are invalid.
    pub policy: Policy,
    /// The changes, in order.
    pub changes: Vec<Change>,
}

/// The resources of a batch that are refused so far, each with its problems. The list of problems is empty if the
/// source itself reports why the resource is refused.
pub(crate) type Refused = BTreeMap<Key, Vec<Problem>>;

impl Key {
    /// The name of a file; `None` for other resources.
    pub(crate) fn file(&self) -> Option<&str> {
        match self {
            Key::File(name) => Some(name),
            _ => None,
        }
    }

    /// The name of the resource, without its kind.
    pub fn name(&self) -> &str {
        match self {
            Key::Settings => "settings",
            Key::Listener(name) | Key::Backend(name) | Key::Route(name) | Key::File(name) => name,
        }
    }
}

impl Change {
    /// The key of the resource that this change sets or removes.
    pub fn key(&self) -> &Key {
        match self {
            Change::Put(key, _) | Change::Remove(key) => key,
        }
    }
}

impl Configuration {
    /// Splits the configuration of a file into resources with their keys. The source adds the contents of
    /// [`Configuration::files`] itself.
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
