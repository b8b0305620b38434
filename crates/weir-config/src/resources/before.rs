//! Resources as they were before a batch.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::files::Content;
use crate::matching::entry::RouteEntry;
use crate::model::{Backend, Listener, Settings};

/// The routes of a state, by key.
pub(crate) type Routes = BTreeMap<Arc<str>, Arc<RouteEntry>>;

/// The resources that a batch changed, with their previous content; `None` if a resource did not exist.
#[derive(Debug, Default)]
pub(crate) struct Before {
    pub(crate) settings: Option<Box<Settings>>,
    pub(crate) listeners: BTreeMap<String, Option<Listener>>,
    pub(crate) backends: BTreeMap<String, Option<Arc<Backend>>>,
    pub(crate) routes: BTreeMap<Arc<str>, Option<Arc<RouteEntry>>>,
    pub(crate) files: BTreeMap<String, Option<Content>>,
}

/// A route that a batch changed. `former` is `None` if the batch added the route; `now` is `None` if the batch removed
/// it.
#[derive(Debug)]
pub(crate) struct ChangedRoute {
    pub(crate) former: Option<Arc<RouteEntry>>,
    pub(crate) now: Option<Arc<RouteEntry>>,
}

impl Before {
    /// The routes that changed, in the order of their keys.
    pub(crate) fn changed_routes(&self, now: &Routes) -> Vec<ChangedRoute> {
        let both = self.routes.iter().map(|(key, former)| (former, now.get(key)));
        let changed = both.filter(|(former, now)| !is_one(former.as_ref(), *now));
        changed.map(|(former, now)| ChangedRoute { former: former.clone(), now: now.cloned() }).collect()
    }

    /// Whether the batch added or changed this route.
    pub(crate) fn is_changed(&self, now: &Arc<RouteEntry>) -> bool {
        self.routes.get(&now.key).is_some_and(|former| !is_one(former.as_ref(), Some(now)))
    }

    /// Whether the batch added or changed this listener.
    pub(crate) fn is_changed_listener(&self, key: &str, now: &Listener) -> bool {
        self.listeners.get(key).is_some_and(|former| former.as_ref() != Some(now))
    }
}

fn is_one(former: Option<&Arc<RouteEntry>>, now: Option<&Arc<RouteEntry>>) -> bool {
    former.map(Arc::as_ptr) == now.map(Arc::as_ptr)
}
