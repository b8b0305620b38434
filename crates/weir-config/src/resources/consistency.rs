//! Checks whether resources are consistent: every name refers to a resource, and no two listeners conflict.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_document::Problem;

use super::Resources;
use super::before::Before;
use crate::change::{Key, Policy, Refused};
use crate::check::unknown_backend;
use crate::matching::entry::RouteEntry;
use crate::model::{BackendField, Route};
use crate::path::{PathRules, check_normal};

/// Maximum number of routes with an unknown backend for which the error contains a suggestion. For many such routes and
/// many backends, all suggestions would take minutes.
pub(crate) const SUGGESTIONS_MAX: usize = 16;

/// A batch that is being checked.
#[derive(Clone, Copy)]
pub(crate) struct Trial<'b> {
    pub(crate) touched: &'b BTreeSet<Key>,
    pub(crate) before: &'b Before,
    pub(crate) policy: Policy,
    /// The resources of the batch that are refused so far.
    pub(crate) refused: &'b Refused,
}

impl Resources {
    /// Finds dangling references and resources that exclude each other. Each problem has the key of a resource that the
    /// batch touched.
    pub(crate) fn contradictions(&self, trial: Trial<'_>) -> Vec<(Key, Problem)> {
        let mut found = self.unreachable_paths(trial.before);
        self.contradictions_of_backends(trial, &mut found);
        found.extend(self.contradictions_of_passthrough(trial));
        found.extend(self.contradictions_of_tickets(trial));
        found.extend(self.contradictions_of_route_listeners(trial));
        let mut addresses = BTreeMap::new();
        for (name, listener) in &self.listeners {
            let Some(other) = addresses.insert(listener.address, name) else { continue };
            if listener.address.port() == 0 {
                continue;
            }
            let [here, there] = [name, other].map(|n| Key::Listener(n.clone()));
            let key = if trial.is_suspect(&here) { here } else { there };
            let message = format!("{} is already the address of {other}", listener.address);
            let problem = Problem::of(format!("{name}.address"), message);
            found.push((key, problem.help("give each listener its own address")));
        }
        // If a listener of the batch was refused, its error is the cause. Then `no listener is configured` is not
        // reported.

        if self.listeners.is_empty()
            && !trial.refuses_a_listener()
            && !trial.refused.contains_key(&Key::Settings)
        {
            let problem = Problem::of("listeners", "no listener is configured")
                .help("add one: `listeners: [{ address: 127.0.0.1:8080 }]`");
            found.push((Key::Settings, problem));
        }
        found
    }

    /// Finds unknown backends of routes, and removed backends that routes still use.
    fn contradictions_of_backends(&self, trial: Trial<'_>, found: &mut Vec<(Key, Problem)>) {
        let is_wanted = |name: &String| !self.backends.contains_key(name) && self.uses.backends.has(name);
        for entry in self.suspects(trial.before, trial.before.backends.keys().any(is_wanted)) {
            let name = &*entry.key;
            let missing = self.missing_backend(&entry.route, trial);
            let Some((field, backend)) = missing else { continue };
            if trial.before.is_changed(entry) {
                let is_suggested = found.len() < SUGGESTIONS_MAX;
                let names = self.backends.keys().filter(|_| is_suggested).map(String::as_str);
                let problem = unknown_backend(format!("{name}.{field}"), backend, names);
                found.push((Key::Route(name.to_owned()), problem));
            } else {
                let message = format!("backend `{backend}` is still used by {name}");
                let problem = Problem::of("backends", message).help("remove the route first");
                found.push((Key::Backend(backend.to_owned()), problem));
            }
        }
    }

    /// The routes to check. With `all`, every route is checked, because another change can make any route invalid.
    /// Otherwise only the routes that the batch touched are checked.
    fn suspects<'s>(
        &'s self,
        before: &'s Before,
        all: bool,
    ) -> Box<dyn Iterator<Item = &'s Arc<RouteEntry>> + 's> {
        match all {
            true => Box::new(self.routes.values()),
            false => Box::new(before.routes.keys().filter_map(move |key| self.routes.get(key))),
        }
    }

    /// The first unknown backend that `route` names, with its field.
    pub(crate) fn missing_backend<'r>(
        &self,
        route: &'r Route,
        trial: Trial<'_>,
    ) -> Option<(BackendField, &'r str)> {
        let is_missing = |(_, backend): &(_, &str)| !self.backends.contains_key(*backend);
        // If the whole batch fails because a backend is refused, the routes that name this backend are not reported.
        route.backend_names().find(is_missing).filter(|(_, backend)| {
            let is_refused = trial.refused.contains_key(&Key::Backend((*backend).to_owned()));
            trial.policy == Policy::EachAlone || !is_refused
        })
    }

    /// Finds routes whose path matches no request, because the gateway normalizes request paths. The problem belongs to
    /// the route if the route changed, otherwise to the settings, whose path rules changed.
    fn unreachable_paths(&self, before: &Before) -> Vec<(Key, Problem)> {
        let rules = &self.settings.paths;
        // Each route was already checked with the rules `AS_SENT`.
        if *rules == PathRules::AS_SENT {
            return Vec::new();
        }
        let problem_of = |name: &str, route: &Route| {
            let check = |(field, path)| check_normal(&format_args!("{name}.{field}"), path, rules);
            route.paths().map(check).find_map(Result::err)
        };
        let has_other_rules = before.settings.as_ref().is_some_and(|former| former.paths != *rules);
        self.suspects(before, has_other_rules)
            .filter_map(|entry| {
                let problem = problem_of(&entry.key, &entry.route)?;
                let is_changed = before.is_changed(entry);
                Some((if is_changed { Key::Route(entry.key.to_string()) } else { Key::Settings }, problem))
            })
            .collect()
    }

    /// Finds listeners with the same name and `tickets.file`. Their ticket keys are derived from the name, so it must
    /// be unique.
    fn contradictions_of_tickets(&self, trial: Trial<'_>) -> Vec<(Key, Problem)> {
        let mut found = Vec::new();
        let mut names = BTreeMap::new();
        for (key, listener) in &self.listeners {
            let keys = listener.tls.as_ref().and_then(|tls| tls.tickets.keys());
            let Some(name) = listener.name.as_ref().filter(|_| keys.is_some_and(|keys| keys.file.is_some()))
            else {
                continue;
            };
            let Some(other) = names.insert(name, key) else { continue };
            let [here, there] = [key, other].map(|key| Key::Listener(key.clone()));
            let at_fault = if trial.is_suspect(&here) { here } else { there };
            let message =
                format!("{other} has the same name, `{name}`; with `tickets.file`, names must be unique");
            let problem = Problem::of(format!("{key}.name"), message);
            found.push((at_fault, problem.help("give each listener with `tickets.file` its own name")));
        }
        found
    }

    /// Finds passthrough backends that are unknown or have `tls`.
    fn contradictions_of_passthrough(&self, trial: Trial<'_>) -> Vec<(Key, Problem)> {
        let Trial { before, refused, policy, .. } = trial;
        let mut found = Vec::new();
        if before.listeners.is_empty() && before.backends.is_empty() {
            return found;
        }
        for (name, listener) in &self.listeners {
            let is_changed = before.is_changed_listener(name, listener);
            for (index, entry) in listener.passthrough.iter().enumerate() {
                let Some(wanted) = &entry.backend else { continue };
                let place = format!("{name}.passthrough[{index}].backend");
                let of_backend = Key::Backend(wanted.clone());
                let problem = match self.backends.get(wanted) {
                    Some(backend) if backend.tls.is_none() => continue,
                    // The backend is refused, so its own problem is already reported.
                    None if refused.contains_key(&of_backend) && policy == Policy::AllOrNothing => continue,
                    Some(_) => {
                        let message = format!(
                            "backend `{wanted}` has `tls`, but passthrough traffic is already encrypted"
                        );
                        Problem::of(place, message).help("use a backend without `tls`")
                    }
                    None if is_changed => {
                        let names = self.backends.keys().map(String::as_str);
                        unknown_backend(place, wanted, names)
                    }
                    None => {
                        let message = format!("backend `{wanted}` is still used by {name}");
                        Problem::of("backends", message).help("remove the backend from `passthrough` first")
                    }
                };
                found.push((if is_changed { Key::Listener(name.clone()) } else { of_backend }, problem));
            }
        }
        found
    }
}

impl Trial<'_> {
    /// Whether the batch touched the resource, and the resource is not refused yet.
    pub(crate) fn is_suspect(&self, key: &Key) -> bool {
        self.touched.contains(key) && !self.refused.contains_key(key)
    }

    /// Whether the whole batch fails because a listener was refused.
    pub(super) fn refuses_a_listener(&self) -> bool {
        self.policy == Policy::AllOrNothing && self.refused.keys().any(|key| matches!(key, Key::Listener(_)))
    }
}
