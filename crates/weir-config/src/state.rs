//! The active configuration, and how batches change it.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_document::Problem;

use crate::change::{Batch, Key, Policy, Refused};
use crate::check::unknown_backend;
use crate::credentials::Credentials;
use crate::matching::entry::key_order;
use crate::model::{Listener, Route};
use crate::resources::Resources;
use crate::resources::before::Before;
use crate::resources::consistency::{SUGGESTIONS_MAX, Trial};
use crate::table::Table;
use crate::table::builder::{Builder, Conflict, Plan, Update};

/// The active configuration. A batch changes it in place; if the batch is refused, the resources that it touched are
/// restored.
#[derive(Clone, Debug, Default)]
pub struct State {
    version: u64,
    pub(crate) resources: Resources,
    pub(crate) credentials: Credentials,
    builder: Builder,
    /// The listeners in order, as a list that tables share. `None` if a listener changed since the last table was made.
    listed: Option<Arc<[Listener]>>,
}

/// The outcome of a batch: see [`State::apply`].
#[derive(Debug)]
pub struct Applied {
    /// The resources that were refused, each with at least one problem.
    pub refused: Vec<(Key, Problem)>,
    /// The new table, or `None` if the whole batch was refused and nothing has changed.
    pub table: Option<Arc<Table>>,
}

/// A batch that is being applied.
struct Pending {
    touched: BTreeSet<Key>,
    before: Before,
    had_listeners: bool,
}

/// The parts of the next configuration version, except its resources.
struct Next {
    credentials: Credentials,
    plan: Plan,
}

impl State {
    /// Applies a batch, or its valid part, and compiles a table. The cost depends on what the batch touches, not on the
    /// size of the configuration.
    pub fn apply(&mut self, batch: Batch) -> Applied {
        self.apply_with_unread(batch, BTreeSet::new())
    }

    /// Applies a batch. `unread` contains the resources that the source could not read. They are refused, but no
    /// problem is returned for them, because the source reports it. A problem of another resource is omitted if an
    /// unread resource is its only cause.
    pub fn apply_with_unread(&mut self, batch: Batch, unread: BTreeSet<Key>) -> Applied {
        let mut refused: Refused = unread.into_iter().map(|key| (key, Vec::new())).collect();
        let mut pending = Pending {
            touched: batch.changes.iter().map(|c| c.key().clone()).collect(),
            before: Before::default(),
            had_listeners: !self.resources.listeners.is_empty(),
        };
        let mut invalid_routes = Vec::new();
        for change in batch.changes {
            invalid_routes.extend(self.resources.apply(change, &mut pending.before, &mut refused));
        }
        match batch.policy {
            Policy::AllOrNothing => self.apply_whole(pending, refused, &invalid_routes),
            Policy::EachAlone => self.apply_valid(pending, refused),
        }
    }

    /// Applies a batch as a whole or not at all. Runs all checks, so that all problems are reported at once, including
    /// unknown backends of invalid routes.
    fn apply_whole(
        &mut self,
        mut pending: Pending,
        mut refused: Refused,
        invalid_routes: &[(String, Arc<Route>)],
    ) -> Applied {
        for key in refused.keys() {
            // Refused resources count as removed, so that no check uses their former content.
            self.resources.set(key, None, &mut pending.before);
        }
        let trial = pending.trial(&refused, Policy::AllOrNothing);
        let mut found = self.resources.contradictions(trial);
        for (name, route) in invalid_routes.iter().take(SUGGESTIONS_MAX) {
            if let Some((field, backend)) = self.resources.missing_backend(route, trial) {
                let names = self.resources.backends.keys().map(String::as_str);
                let problem = unknown_backend(format!("{name}.{field}"), backend, names);
                found.push((Key::Route(name.clone()), problem));
            }
        }
        let (credentials, unusable) = self.credentials.next(&self.resources, None, trial);
        found.extend(unusable);
        let is_valid = found.is_empty() && refused.is_empty();
        match self.builder.plan(&self.resources, &pending.before) {
            Ok(plan) if is_valid => return self.commit(pending.before, Next { credentials, plan }, refused),
            Ok(_) => {}
            Err(conflicts) => found.extend(trial.blame(conflicts)),
        }
        for (key, problem) in found {
            refused.entry(key).or_default().push(problem);
        }
        self.resources.put_all_back(pending.before);
        Applied { refused: in_source_order(refused), table: None }
    }

    /// Applies the valid part of a batch. Restores invalid resources to their state before the batch, until all
    /// resources are consistent.
    fn apply_valid(&mut self, pending: Pending, mut refused: Refused) -> Applied {
        let mut tried: Option<Credentials> = None;
        // Each pass restores at least one resource, so the loop ends. At worst, all resources are restored to their
        // state before the batch, which was consistent.
        loop {
            let trial = pending.trial(&refused, Policy::EachAlone);
            let mut found = self.resources.contradictions(trial);
            if found.is_empty() {
                let (credentials, unusable) = self.credentials.next(&self.resources, tried.as_ref(), trial);
                found = unusable;
                if found.is_empty() {
                    match self.builder.plan(&self.resources, &pending.before) {
                        Ok(plan) => return self.commit(pending.before, Next { credentials, plan }, refused),
                        Err(conflicts) => found = trial.blame(conflicts),
                    }
                }
                tried = Some(credentials);
            }
            for (key, problem) in found {
                self.resources.put_back(&key, &pending.before);
                // One problem per resource is enough to refuse it.
                refused.entry(key).or_insert_with(|| vec![problem]);
            }
            if !pending.had_listeners && self.resources.listeners.is_empty() {
                self.resources.put_all_back(pending.before);
                return Applied { refused: in_source_order(refused), table: None };
            }
        }
    }

    /// Makes the checked resources active. This cannot fail.
    fn commit(&mut self, before: Before, next: Next, refused: Refused) -> Applied {
        let Next { credentials, plan } = next;
        self.version += 1;
        if !before.listeners.is_empty() {
            self.listed = None;
        }
        let former = std::mem::replace(&mut self.credentials, credentials);
        let update = Update {
            resources: &self.resources,
            before: &before,
            former: &former,
            credentials: &self.credentials,
        };
        self.builder.build(&update, plan);
        self.resources.keep(before);
        let listeners = self.resources.listeners.values();
        let listed = Arc::clone(self.listed.get_or_insert_with(|| listeners.cloned().collect()));
        let table = Table::of(self.version, &self.resources, &self.credentials, &self.builder, listed);
        Applied { refused: in_source_order(refused), table: Some(Arc::new(table)) }
    }
}

impl Pending {
    fn trial<'b>(&'b self, refused: &'b Refused, policy: Policy) -> Trial<'b> {
        Trial { touched: &self.touched, before: &self.before, policy, refused }
    }
}

impl Trial<'_> {
    /// For each conflict between two routes, selects the route to refuse. It is always one that the batch touched.
    fn blame(&self, conflicts: Vec<Conflict>) -> Vec<(Key, Problem)> {
        let choose = |conflict: Conflict| {
            let key = Key::Route(conflict.key.to_string());
            let taken_by = || Key::Route(conflict.taken_by.to_string());
            (if self.is_suspect(&key) { key } else { taken_by() }, conflict.problem)
        };
        conflicts.into_iter().map(choose).collect()
    }
}

/// Lists all problems in the order of the source. Each problem is paired with the key of its resource.
fn in_source_order(refused: Refused) -> Vec<(Key, Problem)> {
    let each = |(key, problems): (Key, Vec<Problem>)| {
        problems.into_iter().map(move |problem| (key.clone(), problem))
    };
    let mut problems: Vec<(Key, Problem)> = refused.into_iter().flat_map(each).collect();
    problems.sort_by(|(a, _), (b, _)| match (a, b) {
        (Key::Route(a), Key::Route(b)) | (Key::Listener(a), Key::Listener(b)) => key_order(a, b),
        _ => a.cmp(b),
    });
    problems
}

#[cfg(test)]
mod tests;
