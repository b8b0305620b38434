//! The sum of all batches, and what each did to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::change::{Batch, Change, Key, Policy, Resource};
use crate::files::Content;
use crate::filters::BackendField;
use crate::maglev::Maglevs;
use crate::model::{Backend, Listener, Route, Settings};
use crate::path::PathRules;
use crate::pattern::Patterns;
use crate::problem::Problem;
use crate::sealed::Sealed;
use crate::table::{Conflict, Table, key_order};
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
    /// Those of the backends that are balanced by hashes.
    pub(crate) maglevs: Maglevs,
    /// What was made of the files.
    pub(crate) sealed: Sealed,
}

/// What became of a batch.
#[derive(Debug)]
pub struct Applied {
    /// The resources that were refused, each with its reason, or with several.
    pub refused: Vec<(Key, Problem)>,
    /// The new table, unless the batch was refused whole; then nothing has changed.
    pub table: Option<Arc<Table>>,
}

/// What was refused of a batch so far, each with what is wrong with it; nothing stands where the source tells that.
pub(crate) type Refused = BTreeMap<Key, Vec<Problem>>;

impl State {
    /// Takes a batch in, or what is good of it, and compiles the outcome.
    pub fn apply(&mut self, batch: Batch) -> Applied {
        self.apply_beside(batch, BTreeSet::new())
    }

    /// The same for a source that could not make out some resources and tells of them itself. They are refused, and what
    /// only depends on them is not to blame.
    pub fn apply_beside(&mut self, batch: Batch, unread: BTreeSet<Key>) -> Applied {
        let mut refused: Refused = unread.into_iter().map(|key| (key, Vec::new())).collect();
        let mut next = self.clone();
        let touched: BTreeSet<Key> = batch.changes.iter().map(|c| c.key().clone()).collect();
        let mut wrong_routes = Vec::new();
        for change in batch.changes {
            wrong_routes.extend(next.take(change, &mut refused));
        }
        match batch.policy {
            Policy::AllOrNothing => self.take_whole(next, &touched, refused, &wrong_routes),
            Policy::EachAlone => self.take_good(next, &touched, refused),
        }
    }

    /// All or nothing. What is wrong is looked for at every stage, so that it is told in one go; whether routes find
    /// their backends, also where they are wrong by themselves.
    fn take_whole(
        &mut self,
        mut next: State,
        touched: &BTreeSet<Key>,
        mut refused: Refused,
        wrong_routes: &[(String, Arc<Route>)],
    ) -> Applied {
        for key in refused.keys() {
            // What it was before is no part of what was meant.
            next.remove(key);
        }
        let mut found = next.contradictions(self, touched, &refused, Policy::AllOrNothing);
        for (name, route) in wrong_routes.iter().take(ADVISED_MAX) {
            if let Some((field, backend)) = next.missing_backend(route, &refused, Policy::AllOrNothing) {
                let names = next.backends.keys().map(String::as_str);
                let problem = validate::no_such_backend(format!("{name}.{field}"), backend, names);
                found.push((Key::Route(name.clone()), problem));
            }
        }
        found.extend(next.seal(&self.sealed, touched, &refused));
        let is_good = found.is_empty() && refused.is_empty();
        if !is_good {
            // Only routes are still looked at, and listeners may lack what they are made of.
            next.listeners.clear();
        }
        match self.compiled(&mut next) {
            Ok(table) if is_good => return self.conclude(next, table, refused),
            Ok(_) => {}
            Err(conflicts) => found.extend(blame(conflicts, touched, &refused)),
        }
        for (key, problem) in found {
            refused.entry(key).or_default().push(problem);
        }
        Applied { refused: told(refused), table: None }
    }

    /// What is good of a batch.
    fn take_good(&mut self, mut next: State, touched: &BTreeSet<Key>, mut refused: Refused) -> Applied {
        // Every turn puts at least one resource back to what it was, and what was before held together.
        loop {
            let found = match next.contradictions(self, touched, &refused, Policy::EachAlone) {
                found if !found.is_empty() => found,
                _ => match next.seal(&self.sealed, touched, &refused) {
                    found if !found.is_empty() => found,
                    _ => match self.compiled(&mut next) {
                        Ok(table) => return self.conclude(next, table, refused),
                        Err(conflicts) => blame(conflicts, touched, &refused),
                    },
                },
            };
            for (key, problem) in found {
                next.put_back(&key, self);
                // One reason is enough for a resource to stay what it was.
                refused.entry(key).or_insert_with(|| vec![problem]);
            }
            if self.listeners.is_empty() && next.listeners.is_empty() {
                return Applied { refused: told(refused), table: None };
            }
        }
    }

    /// The table of what comes next.
    fn compiled(&self, next: &mut State) -> Result<Table, Vec<Conflict>> {
        next.maglevs.learn(&next.backends);
        Table::compile(self.version + 1, next)
    }

    fn conclude(&mut self, next: State, table: Table, refused: Refused) -> Applied {
        *self = next;
        self.version = table.version;
        self.patterns.retain(self.routes.values().map(|route| &**route));
        Applied { refused: told(refused), table: Some(Arc::new(table)) }
    }

    /// Takes a change in, if it is right by itself. A route that is not is handed back.
    fn take(&mut self, change: Change, refused: &mut Refused) -> Option<(String, Arc<Route>)> {
        let (key, resource) = match change {
            Change::Put(key, resource) => (key, resource),
            Change::Remove(key) => {
                self.remove(&key);
                return None;
            }
        };
        let found = self.check(key.name(), &resource);
        if found.is_empty() {
            self.put(&key, resource);
            return None;
        }
        let name = key.name().to_owned();
        refused.entry(key).or_default().extend(found);
        match resource {
            Resource::Route(route) => Some((name, route)),
            _ => None,
        }
    }

    /// What is wrong with a resource by itself; patterns are compiled for that, and kept.
    fn check(&mut self, name: &str, resource: &Resource) -> Vec<Problem> {
        let mut found = validate::check(name, resource);
        if let Resource::Route(route) = resource {
            found.extend(self.patterns.learn(name, route).err());
        }
        found
    }

    fn put(&mut self, key: &Key, resource: Resource) {
        let name = key.name().to_owned();
        match resource {
            Resource::Settings(settings) => self.settings = *settings,
            Resource::Listener(listener) => drop(self.listeners.insert(name, listener)),
            Resource::Backend(backend) => match self.backends.get(&name) {
                Some(same) if *same == backend => {}
                _ => drop(self.backends.insert(name, backend)),
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
        refused: &Refused,
        policy: Policy,
    ) -> Vec<(Key, Problem)> {
        let mut found = self.unreachable_paths(before);
        for (name, route) in &self.routes {
            let Some((field, backend)) = self.missing_backend(route, refused, policy) else { continue };
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

    /// The first backend that `route` names and that is not there.
    fn missing_backend<'r>(
        &self,
        route: &'r Route,
        refused: &Refused,
        policy: Policy,
    ) -> Option<(BackendField, &'r str)> {
        let is_missing = |(_, backend): &(_, &str)| !self.backends.contains_key(*backend);
        // A batch that is refused whole is so for that backend already; its routes are not to blame.
        route.backend_names().find(is_missing).filter(|(_, backend)| {
            let is_refused = refused.contains_key(&Key::Backend((*backend).to_owned()));
            policy == Policy::EachAlone || !is_refused
        })
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
    fn contradictions_of_tickets(&self, touched: &BTreeSet<Key>, refused: &Refused) -> Vec<(Key, Problem)> {
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
        refused: &Refused,
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

/// Each problem with its key, in the order of the source.
fn told(refused: Refused) -> Vec<(Key, Problem)> {
    let each = |(key, problems): (Key, Vec<Problem>)| {
        problems.into_iter().map(move |problem| (key.clone(), problem))
    };
    let mut told: Vec<(Key, Problem)> = refused.into_iter().flat_map(each).collect();
    told.sort_by(|(a, _), (b, _)| match (a, b) {
        (Key::Route(a), Key::Route(b)) | (Key::Listener(a), Key::Listener(b)) => key_order(a, b),
        _ => a.cmp(b),
    });
    told
}

/// Of two routes that want the same, the one that the batch changed is at fault.
fn blame(conflicts: Vec<Conflict>, touched: &BTreeSet<Key>, refused: &Refused) -> Vec<(Key, Problem)> {
    let choose = |conflict: Conflict| {
        let key = Key::Route(conflict.key);
        let at_fault = touched.contains(&key) && !refused.contains_key(&key);
        (if at_fault { key } else { Key::Route(conflict.taken_by) }, conflict.problem)
    };
    conflicts.into_iter().map(choose).collect()
}

#[cfg(test)]
mod tests;
