//! The sum of all batches, and what each did to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::change::{Batch, Change, Key, Policy, Resource};
use crate::files::Content;
use crate::model::{Backend, Listener, Route, Settings};
use crate::path::PathRules;
use crate::pattern::Patterns;
use crate::problem::Problem;
use crate::sealed::Sealed;
use crate::table::{Conflict, Table};
use crate::validate;

mod listeners;

/// How many routes without a backend are told which name they may have meant.
const ADVISED_MAX: usize = 16;

/// All resources in force.
#[derive(Clone, Debug, Default)]
pub struct State {
    version: u64,
    pub(crate) settings: Settings,
    pub(crate) listeners: BTreeMap<String, Listener>,
    pub(crate) backends: BTreeMap<String, Arc<Backend>>,
    pub(crate) routes: BTreeMap<String, Arc<Route>>,
    pub(crate) files: BTreeMap<String, Content>,
    /// Those that the routes name.
    pub(crate) patterns: Patterns,
    /// What was made of the files.
    pub(crate) sealed: Sealed,
}

/// What became of a batch.
#[derive(Debug)]
pub struct Applied {
    /// The resources that were refused, each with its reason.
    pub refused: Vec<(Key, Problem)>,
    /// The new table, unless the batch was refused whole; then nothing has changed.
    pub table: Option<Arc<Table>>,
}

impl State {
    /// Takes a batch in, or what is good of it, and compiles the outcome.
    pub fn apply(&mut self, batch: Batch) -> Applied {
        let mut refused = BTreeMap::new();
        let mut next = self.clone();
        let touched: BTreeSet<Key> = batch.changes.iter().map(|c| c.key().clone()).collect();
        for change in batch.changes {
            next.take(change, &mut refused);
        }
        // Every turn puts at least one resource back to what it was, and what was before held together.
        loop {
            let found = match next.contradictions(self, &touched, &refused, batch.policy) {
                found if !found.is_empty() => found,
                _ => match next.seal(&self.sealed, &touched, &refused) {
                    found if !found.is_empty() => found,
                    _ => match Table::compile(self.version + 1, &next) {
                        Ok(table) => return self.conclude(batch.policy, next, table, refused),
                        Err(conflicts) => blame(conflicts, &touched, &refused),
                    },
                },
            };
            for (key, problem) in found {
                next.put_back(&key, self);
                refused.insert(key, problem);
            }
            if batch.policy == Policy::AllOrNothing || self.listeners.is_empty() && next.listeners.is_empty()
            {
                return Applied { refused: refused.into_iter().collect(), table: None };
            }
        }
    }

    fn conclude(
        &mut self,
        policy: Policy,
        next: State,
        table: Table,
        refused: BTreeMap<Key, Problem>,
    ) -> Applied {
        let refused: Vec<_> = refused.into_iter().collect();
        if policy == Policy::AllOrNothing && !refused.is_empty() {
            return Applied { refused, table: None };
        }
        *self = next;
        self.version = table.version;
        self.patterns.retain(self.routes.values().map(|route| &**route));
        Applied { refused, table: Some(Arc::new(table)) }
    }

    fn take(&mut self, change: Change, refused: &mut BTreeMap<Key, Problem>) {
        match change {
            Change::Put(key, resource) => match self.check(key.name(), &resource) {
                Ok(()) => self.put(&key, resource),
                Err(problem) => drop(refused.insert(key, problem)),
            },
            Change::Remove(key) => self.remove(&key),
        }
    }

    /// Whether a resource is right by itself; patterns are compiled for that, and kept.
    fn check(&mut self, name: &str, resource: &Resource) -> Result<(), Problem> {
        validate::check(name, resource)?;
        match resource {
            Resource::Route(route) => self.patterns.learn(name, route),
            _ => Ok(()),
        }
    }

    fn put(&mut self, key: &Key, resource: Resource) {
        let name = key.name().to_owned();
        match resource {
            Resource::Settings(settings) => self.settings = *settings,
            Resource::Listener(listener) => drop(self.listeners.insert(name, listener)),
            Resource::Backend(backend) => match self.backends.get(&name) {
                Some(same) if **same == backend => {}
                _ => drop(self.backends.insert(name, Arc::new(backend))),
            },
            Resource::Route(route) => drop(self.routes.insert(name, route)),
            Resource::File(content) => drop(self.files.insert(name, content)),
        }
    }

    fn remove(&mut self, key: &Key) {
        match key {
            Key::Settings => self.settings = Settings::default(),
            Key::Listener(name) => drop(self.listeners.remove(name)),
            Key::Backend(name) => drop(self.backends.remove(name)),
            Key::Route(name) => drop(self.routes.remove(name)),
            Key::File(name) => drop(self.files.remove(name)),
        }
    }

    /// Makes one resource what it is in `before`.
    fn put_back(&mut self, key: &Key, before: &State) {
        let name = key.name();
        match key {
            Key::Settings => self.settings = before.settings.clone(),
            Key::Listener(_) => put_back(&mut self.listeners, &before.listeners, name),
            Key::Backend(_) => put_back(&mut self.backends, &before.backends, name),
            Key::Route(_) => put_back(&mut self.routes, &before.routes, name),
            Key::File(_) => put_back(&mut self.files, &before.files, name),
        }
    }

    /// Resources that don't find what they name, or exclude each other; each a key that the batch touched.
    fn contradictions(
        &self,
        before: &State,
        touched: &BTreeSet<Key>,
        refused: &BTreeMap<Key, Problem>,
        policy: Policy,
    ) -> Vec<(Key, Problem)> {
        let mut found = self.unreachable_paths(before);
        for (name, route) in &self.routes {
            let is_missing = |(_, backend): &(_, &str)| !self.backends.contains_key(*backend);
            let Some((field, backend)) = route.backend_names().find(is_missing) else { continue };
            // The batch is refused already for that backend; its routes are not to blame.
            let is_refused = refused.contains_key(&Key::Backend(backend.to_owned()));
            if is_refused && policy == Policy::AllOrNothing {
                continue;
            }
            let changed = before.routes.get(name).is_none_or(|old| old != route);
            if changed {
                // To find the nearest of many names for each of many routes would take minutes.
                let advised = found.len() < ADVISED_MAX;
                let names = self.backends.keys().filter(|_| advised).map(String::as_str);
                let problem = validate::no_such_backend(format!("{name}.{field}"), backend, names);
                found.push((Key::Route(name.clone()), problem));
            } else {
                let message = format!("backend `{backend}` is still used by {name}");
                let problem = Problem::new("backends", message).help("take the route away first");
                found.push((Key::Backend(backend.to_owned()), problem));
            }
        }
        found.extend(self.contradictions_of_passthrough(before, refused, policy));
        found.extend(self.contradictions_of_tickets(touched, refused));
        found.extend(self.contradictions_of_route_listeners(before, refused, policy));
        let mut addresses = BTreeMap::new();
        for (name, listener) in &self.listeners {
            let Some(other) = addresses.insert(listener.address, name) else { continue };
            if listener.address.port() == 0 {
                continue;
            }
            let [here, there] = [name, other].map(|n| Key::Listener(n.clone()));
            let key = if touched.contains(&here) && !refused.contains_key(&here) { here } else { there };
            let message = format!("{} is the address of {other} already", listener.address);
            let problem = Problem::new(format!("{name}.address"), message);
            found.push((key, problem.help("give each listener an address of its own")));
        }
        // A batch that is refused for its listener has one.
        let is_refused = refused.keys().any(|key| matches!(key, Key::Listener(_)));
        let is_told = is_refused && policy == Policy::AllOrNothing;
        if self.listeners.is_empty() && !is_told && !refused.contains_key(&Key::Settings) {
            let problem = Problem::new("listeners", "there is none, so nobody could connect")
                .help("`listeners: [{ address: 127.0.0.1:8080 }]`");
            found.push((Key::Settings, problem));
        }
        found
    }

    /// Routes whose paths no request has under the rules for paths; each the route's fault, or that of the rules where
    /// the route stood before.
    fn unreachable_paths(&self, before: &State) -> Vec<(Key, Problem)> {
        let rules = &self.settings.paths;
        // That they are right by the default rules each is known already.
        if *rules == PathRules::default() {
            return Vec::new();
        }
        let problem_of = |name: &str, route: &Route| {
            let check = |(field, path)| validate::check_normal(&format_args!("{name}.{field}"), path, rules);
            route.paths().map(check).find_map(Result::err)
        };
        let routes = self.routes.iter();
        routes
            .filter_map(|(name, route)| {
                let problem = problem_of(name, route)?;
                let changed = before.routes.get(name).is_none_or(|old| old != route);
                Some((if changed { Key::Route(name.clone()) } else { Key::Settings }, problem))
            })
            .collect()
    }

    /// Listeners that share keys of tickets with a fleet, and are told apart by their names there.
    fn contradictions_of_tickets(
        &self,
        touched: &BTreeSet<Key>,
        refused: &BTreeMap<Key, Problem>,
    ) -> Vec<(Key, Problem)> {
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
            let at_fault = if touched.contains(&here) && !refused.contains_key(&here) { here } else { there };
            let message = format!("`{name}` is the name of {other} too, and tickets are told apart by it");
            let problem = Problem::new(format!("{key}.name"), message);
            found.push((at_fault, problem.help("give each listener with `tickets.file` a name of its own")));
        }
        found
    }

    /// Backends of TLS that is passed on: they must be there, and speak no TLS of their own.
    fn contradictions_of_passthrough(
        &self,
        before: &State,
        refused: &BTreeMap<Key, Problem>,
        policy: Policy,
    ) -> Vec<(Key, Problem)> {
        let mut found = Vec::new();
        for (name, listener) in &self.listeners {
            let is_changed = before.listeners.get(name) != Some(listener);
            for (index, entry) in listener.passthrough.iter().enumerate() {
                let place = format!("{name}.passthrough[{index}].backend");
                let of_backend = Key::Backend(entry.backend.clone());
                let problem = match self.backends.get(&entry.backend) {
                    Some(backend) if backend.tls.is_none() => continue,
                    // The batch is refused already for that backend.
                    None if refused.contains_key(&of_backend) && policy == Policy::AllOrNothing => continue,
                    Some(_) => {
                        let message = format!(
                            "backend `{}` has `tls`, and what is passed on is sealed already",
                            entry.backend
                        );
                        Problem::new(place, message).help("name a backend without `tls`")
                    }
                    None if is_changed => {
                        let names = self.backends.keys().map(String::as_str);
                        validate::no_such_backend(place, &entry.backend, names)
                    }
                    None => {
                        let message = format!("backend `{}` is still used by {name}", entry.backend);
                        Problem::new("backends", message).help("take it out of `passthrough` first")
                    }
                };
                found.push((if is_changed { Key::Listener(name.clone()) } else { of_backend }, problem));
            }
        }
        found
    }
}

fn put_back<V: Clone>(now: &mut BTreeMap<String, V>, before: &BTreeMap<String, V>, name: &str) {
    match before.get(name) {
        Some(old) => drop(now.insert(name.to_owned(), old.clone())),
        None => drop(now.remove(name)),
    }
}

/// Of two routes that want the same, the one that the batch changed is at fault.
fn blame(
    conflicts: Vec<Conflict>,
    touched: &BTreeSet<Key>,
    refused: &BTreeMap<Key, Problem>,
) -> Vec<(Key, Problem)> {
    let choose = |conflict: Conflict| {
        let key = Key::Route(conflict.key);
        let at_fault = touched.contains(&key) && !refused.contains_key(&key);
        (if at_fault { key } else { Key::Route(conflict.taken_by) }, conflict.problem)
    };
    conflicts.into_iter().map(choose).collect()
}

#[cfg(test)]
mod tests;
