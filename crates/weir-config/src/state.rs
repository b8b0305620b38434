//! The sum of all batches, and what each did to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::builder::{Builder, Conflict, Plan};
use crate::change::{Batch, Change, Key, Policy, Resource};
use crate::entry::{RouteEntry, key_order};
use crate::files::Content;
use crate::filters::BackendField;
use crate::model::{Backend, Listener, Route, Settings};
use crate::path::PathRules;
use crate::pattern::Patterns;
use crate::problem::Problem;
use crate::sealed::Sealed;
use crate::table::Table;
use crate::uses::{Tallies, Uses};
use crate::validate;

mod before;
mod listeners;

pub(crate) use before::{Before, ChangedRoute, Routes};

/// How many routes without a backend are told which name they may have meant.
const ADVISED_MAX: usize = 16;

/// All resources in force. A batch changes them where they are, and what it touched is put back where it is refused.
#[derive(Clone, Debug, Default)]
pub struct State {
    version: u64,
    pub(crate) settings: Settings,
    pub(crate) listeners: BTreeMap<String, Listener>,
    pub(crate) backends: BTreeMap<String, Arc<Backend>>,
    pub(crate) routes: Routes,
    pub(crate) files: BTreeMap<String, Content>,
    /// Those that the routes name.
    patterns: Patterns,
    /// What the routes name.
    pub(crate) uses: Uses,
    /// What the backends have.
    pub(crate) tallies: Tallies,
    /// What was made of the files.
    pub(crate) sealed: Sealed,
    /// What was made of all of it.
    pub(crate) builder: Builder,
    /// The listeners in order, as tables share them; `None` once they have changed.
    listed: Option<Arc<[Listener]>>,
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

/// What a batch is about, and what was so before it.
struct Trial {
    touched: BTreeSet<Key>,
    before: Before,
    had_listeners: bool,
}

impl State {
    /// Takes a batch in, or what is good of it, and compiles the outcome. What that takes depends on what the batch
    /// touches, and not on what else there is.
    pub fn apply(&mut self, batch: Batch) -> Applied {
        self.apply_beside(batch, BTreeSet::new())
    }

    /// The same for a source that could not make out some resources and tells of them itself. They are refused, and what
    /// only depends on them is not to blame.
    pub fn apply_beside(&mut self, batch: Batch, unread: BTreeSet<Key>) -> Applied {
        let mut refused: Refused = unread.into_iter().map(|key| (key, Vec::new())).collect();
        let mut trial = Trial {
            touched: batch.changes.iter().map(|c| c.key().clone()).collect(),
            before: Before::default(),
            had_listeners: !self.listeners.is_empty(),
        };
        let mut wrong_routes = Vec::new();
        for change in batch.changes {
            wrong_routes.extend(self.take(change, &mut trial.before, &mut refused));
        }
        match batch.policy {
            Policy::AllOrNothing => self.take_whole(trial, refused, &wrong_routes),
            Policy::EachAlone => self.take_good(trial, refused),
        }
    }

    /// All or nothing. What is wrong is looked for at every stage, so that it is told in one go; whether routes find
    /// their backends, also where they are wrong by themselves.
    fn take_whole(
        &mut self,
        mut trial: Trial,
        mut refused: Refused,
        wrong_routes: &[(String, Arc<Route>)],
    ) -> Applied {
        for key in refused.keys() {
            // What it was before is no part of what was meant.
            self.set(key, None, &mut trial.before);
        }
        let mut found = self.contradictions(&trial, &refused, Policy::AllOrNothing);
        for (name, route) in wrong_routes.iter().take(ADVISED_MAX) {
            if let Some((field, backend)) = self.missing_backend(route, &refused, Policy::AllOrNothing) {
                let names = self.backends.keys().map(String::as_str);
                let problem = validate::no_such_backend(format!("{name}.{field}"), backend, names);
                found.push((Key::Route(name.clone()), problem));
            }
        }
        let (sealed, faults) = self.seal(None, &trial.touched, &refused);
        found.extend(faults);
        let is_good = found.is_empty() && refused.is_empty();
        match self.builder.plan(self, &trial.before) {
            Ok(plan) if is_good => return self.conclude(trial.before, (sealed, plan), refused),
            Ok(_) => {}
            Err(conflicts) => found.extend(blame(conflicts, &trial.touched, &refused)),
        }
        for (key, problem) in found {
            refused.entry(key).or_default().push(problem);
        }
        self.put_all_back(trial.before);
        Applied { refused: told(refused), table: None }
    }

    /// What is good of a batch.
    fn take_good(&mut self, trial: Trial, mut refused: Refused) -> Applied {
        let mut tried: Option<Sealed> = None;
        // Every turn puts at least one resource back to what it was, and what was before held together.
        loop {
            let mut found = self.contradictions(&trial, &refused, Policy::EachAlone);
            if found.is_empty() {
                let (sealed, faults) = self.seal(tried.as_ref(), &trial.touched, &refused);
                found = faults;
                if found.is_empty() {
                    match self.builder.plan(self, &trial.before) {
                        Ok(plan) => return self.conclude(trial.before, (sealed, plan), refused),
                        Err(conflicts) => found = blame(conflicts, &trial.touched, &refused),
                    }
                }
                tried = Some(sealed);
            }
            for (key, problem) in found {
                self.put_back(&key, &trial.before);
                // One reason is enough for a resource to stay what it was.
                refused.entry(key).or_insert_with(|| vec![problem]);
            }
            if !trial.had_listeners && self.listeners.is_empty() {
                self.put_all_back(trial.before);
                return Applied { refused: told(refused), table: None };
            }
        }
    }

    /// Brings what is good into force. Nothing of it fails.
    fn conclude(&mut self, before: Before, (sealed, plan): (Sealed, Plan), refused: Refused) -> Applied {
        self.version += 1;
        if !before.listeners.is_empty() {
            self.listed = None;
        }
        let former = std::mem::replace(&mut self.sealed, sealed);
        let mut builder = std::mem::take(&mut self.builder);
        builder.lay(self, &before, &former, plan);
        self.builder = builder;
        self.keep(before);
        let listeners = self.listeners.values();
        let listed = self.listed.get_or_insert_with(|| listeners.cloned().collect());
        let listed = Arc::clone(listed);
        let table = Table::of(self.version, self, listed);
        Applied { refused: told(refused), table: Some(Arc::new(table)) }
    }

    /// Takes a change in, if it is right by itself. A route that is not is handed back.
    fn take(
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

    /// What is wrong with a resource by itself; patterns are compiled for that, and kept.
    fn check(&mut self, name: &str, resource: &Resource) -> Vec<Problem> {
        let mut found = validate::check(name, resource);
        if let Resource::Route(route) = resource {
            found.extend(self.patterns.learn(name, route).err());
        }
        found
    }

    /// Makes a resource what is said here; without anything it is gone.
    fn set(&mut self, key: &Key, resource: Option<Resource>, before: &mut Before) {
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

    /// Resources that don't find what they name, or exclude each other; each a key that the batch touched.
    fn contradictions(&self, trial: &Trial, refused: &Refused, policy: Policy) -> Vec<(Key, Problem)> {
        let Trial { touched, before, .. } = trial;
        let mut found = self.unreachable_paths(before);
        self.contradictions_of_backends(before, (refused, policy), &mut found);
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
            let message = format!("{} is already the address of {other}", listener.address);
            let problem = Problem::new(format!("{name}.address"), message);
            found.push((key, problem.help("give each listener its own address")));
        }
        // A batch that is refused for its listener has one.
        let is_refused = refused.keys().any(|key| matches!(key, Key::Listener(_)));
        let is_told = is_refused && policy == Policy::AllOrNothing;
        if self.listeners.is_empty() && !is_told && !refused.contains_key(&Key::Settings) {
            let problem = Problem::new("listeners", "no listener is configured")
                .help("add one: `listeners: [{ address: 127.0.0.1:8080 }]`");
            found.push((Key::Settings, problem));
        }
        found
    }

    /// Routes without their backends, and backends that are gone and still used.
    fn contradictions_of_backends(
        &self,
        before: &Before,
        (refused, policy): (&Refused, Policy),
        found: &mut Vec<(Key, Problem)>,
    ) {
        let is_wanted = |name: &String| !self.backends.contains_key(name) && self.uses.backends.has(name);
        for entry in self.suspects(before, before.backends.keys().any(is_wanted)) {
            let name = &*entry.key;
            let missing = self.missing_backend(&entry.route, refused, policy);
            let Some((field, backend)) = missing else { continue };
            if before.is_changed(entry) {
                // To find the nearest of many names for each of many routes would take minutes.
                let advised = found.len() < ADVISED_MAX;
                let names = self.backends.keys().filter(|_| advised).map(String::as_str);
                let problem = validate::no_such_backend(format!("{name}.{field}"), backend, names);
                found.push((Key::Route(name.to_owned()), problem));
            } else {
                let message = format!("backend `{backend}` is still used by {name}");
                let problem = Problem::new("backends", message).help("remove the route first");
                found.push((Key::Backend(backend.to_owned()), problem));
            }
        }
    }

    /// The routes that the batch touched, or all of them where something else that it touched may contradict those that
    /// it didn't.
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
    fn unreachable_paths(&self, before: &Before) -> Vec<(Key, Problem)> {
        let rules = &self.settings.paths;
        // That they are right by these rules each is known already.
        if *rules == PathRules::AS_SENT {
            return Vec::new();
        }
        let problem_of = |name: &str, route: &Route| {
            let check = |(field, path)| validate::check_normal(&format_args!("{name}.{field}"), path, rules);
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
            let message =
                format!("{other} has the same name, `{name}`; with `tickets.file`, names must be unique");
            let problem = Problem::new(format!("{key}.name"), message);
            found.push((at_fault, problem.help("give each listener with `tickets.file` its own name")));
        }
        found
    }

    /// Backends of TLS that is passed on: they must be there, and speak no TLS of their own.
    fn contradictions_of_passthrough(
        &self,
        before: &Before,
        refused: &Refused,
        policy: Policy,
    ) -> Vec<(Key, Problem)> {
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
                    // The batch is refused already for that backend.
                    None if refused.contains_key(&of_backend) && policy == Policy::AllOrNothing => continue,
                    Some(_) => {
                        let message = format!(
                            "backend `{wanted}` has `tls`, but passthrough traffic is already encrypted"
                        );
                        Problem::new(place, message).help("use a backend without `tls`")
                    }
                    None if is_changed => {
                        let names = self.backends.keys().map(String::as_str);
                        validate::no_such_backend(place, wanted, names)
                    }
                    None => {
                        let message = format!("backend `{wanted}` is still used by {name}");
                        Problem::new("backends", message).help("remove it from `passthrough` first")
                    }
                };
                found.push((if is_changed { Key::Listener(name.clone()) } else { of_backend }, problem));
            }
        }
        found
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
        let key = Key::Route(conflict.key.to_string());
        let at_fault = touched.contains(&key) && !refused.contains_key(&key);
        (if at_fault { key } else { Key::Route(conflict.taken_by.to_string()) }, conflict.problem)
    };
    conflicts.into_iter().map(choose).collect()
}

#[cfg(test)]
mod tests;
