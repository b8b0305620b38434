//! What is known of all backends, by their names, for as long as anybody has a use for it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_config::{BackendEntry, Member, Table};
use weir_io::mono_ns;

use crate::backend_state::BackendState;
use crate::names::Names;
use crate::series::{NAMES_MAX, OTHER};
use crate::stats::BackendStats;

/// How long a backend is known that has gone with nothing left, where an exchange in progress still goes by a table that
/// has it and might turn to it.
const GONE_NS: u64 = 60_000_000_000;

/// What is known of the backends, by their names.
#[derive(Debug, Default)]
pub(crate) struct BackendStates {
    known: Mutex<Known>,
    /// The addresses of names.
    pub(crate) names: Names,
}

#[derive(Debug, Default)]
struct Known {
    states: HashMap<String, Of>,
    /// How many of them are told by their names.
    named: usize,
    /// What was counted of those that are forgotten and were not.
    rest: BackendStats,
    /// What was counted of those that are forgotten and were told by their names.
    forgotten: BackendStats,
}

#[derive(Debug)]
struct Of {
    state: Arc<BackendState>,
    /// It is told by its name, to its end: a series that came to be another would count backwards.
    is_named: bool,
    /// Since when no table has it.
    gone_since_ns: Option<u64>,
}

/// What is told of a backend.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BackendReport {
    /// Open connections.
    pub(crate) open: u64,
    pub(crate) counters: BackendStats,
}

impl BackendStates {
    /// The one of the backend with this name. It takes a lock: not for each request.
    pub(crate) fn of(&self, name: &str) -> Arc<BackendState> {
        let mut known = self.known();
        if let Some(of) = known.states.get(name) {
            return Arc::clone(&of.state);
        }
        let is_named = known.named < NAMES_MAX;
        known.named += usize::from(is_named);
        let state = Arc::<BackendState>::default();
        let of = Of { state: Arc::clone(&state), is_named, gone_since_ns: None };
        known.states.insert(name.to_owned(), of);
        state
    }

    /// The one of the backend with this name, if anything was asked of it.
    pub(crate) fn known_of(&self, name: &str) -> Option<Arc<BackendState>> {
        self.known().states.get(name).map(|of| Arc::clone(&of.state))
    }

    /// The endpoints of a backend whose addresses are known now.
    pub(crate) fn members(&self, entry: &BackendEntry) -> Vec<Member> {
        entry.backend.members(|host| self.names.addresses(host))
    }

    /// What is told of each backend that is known, by its name; of those beyond the first ones together.
    pub(crate) fn reports(&self) -> BTreeMap<String, BackendReport> {
        let known = self.known();
        let mut reports: BTreeMap<String, BackendReport> = BTreeMap::new();
        if known.rest != BackendStats::default() {
            reports.entry(OTHER.to_owned()).or_default().counters = known.rest;
        }
        for (name, of) in &known.states {
            let name = if of.is_named { name } else { OTHER };
            reports.entry(name.to_owned()).or_default().add(of.state.account());
        }
        reports
    }

    /// What was counted of all backends that there ever were.
    pub(crate) fn totals(&self) -> BackendStats {
        let known = self.known();
        let mut totals = known.forgotten;
        totals.add(known.rest);
        known.states.values().for_each(|of| totals.add(of.state.stats().counters_alone()));
        totals
    }

    /// Those that `table` has no more and that have something left, by their names.
    pub(crate) fn leaving(&self, table: &Table) -> Vec<(String, Arc<BackendState>)> {
        let known = self.known();
        let is_leaving =
            |(name, of): &(&String, &Of)| table.backend_named(name).is_none() && of.state.is_in_use();
        known
            .states
            .iter()
            .filter(is_leaving)
            .map(|(name, of)| (name.clone(), Arc::clone(&of.state)))
            .collect()
    }

    /// Goes by the backends that `table` has: endpoints of others are gone, and others that have nothing left are
    /// forgotten.
    pub(crate) fn follow(&self, table: &Table) {
        self.follow_at(table, mono_ns());
    }

    fn follow_at(&self, table: &Table, now_ns: u64) {
        let mut known = self.known();
        let Known { states, named, rest, forgotten } = &mut *known;
        states.retain(|name, of| {
            if table.backend_named(name).is_some() {
                of.gone_since_ns = None;
                return true;
            }
            let since_ns = *of.gone_since_ns.get_or_insert_with(|| {
                of.state.known_endpoints(std::iter::empty(), table.version);
                now_ns
            });
            // Whoever goes by a former table has its own hold on what it has used.
            let is_held = Arc::strong_count(&of.state) > 1;
            let stays = is_held && (of.state.is_in_use() || now_ns.saturating_sub(since_ns) < GONE_NS);
            if !stays {
                *named -= usize::from(of.is_named);
                let counted = if of.is_named { &mut *forgotten } else { &mut *rest };
                counted.add(of.state.stats().counters_alone());
            }
            stays
        });
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BackendReport {
    fn add(&mut self, other: BackendReport) {
        self.open += other.open;
        self.counters.add(other.counters);
    }
}

#[cfg(test)]
mod tests {
    use weir_config::{Backend, Batch, Change, Key, Listener, Policy, Resource, State};

    use super::*;

    /// A table with backends of these names.
    fn table(names: &[&str]) -> Arc<Table> {
        let listener = Listener::plain(([127, 0, 0, 1], 1).into());
        let backend = |name: &&str| {
            let endpoint = std::net::SocketAddr::from(([127, 0, 0, 1], 1)).into();
            let backend = Backend { endpoints: vec![endpoint], ..Backend::default() };
            Change::Put(Key::Backend((*name).to_owned()), Resource::Backend(Arc::new(backend)))
        };
        let mut changes = vec![Change::Put(Key::Listener("l".to_owned()), Resource::Listener(listener))];
        changes.extend(names.iter().map(backend));
        State::default().apply(Batch { version: 1, policy: Policy::AllOrNothing, changes }).table.unwrap()
    }

    fn told(states: &BackendStates) -> Vec<String> {
        states.reports().into_keys().collect()
    }

    #[test]
    fn one_that_no_table_has_is_forgotten_once_nothing_is_left() {
        let states = BackendStates::default();
        let (a, b) = (states.of("a"), states.of("b"));
        let place = a.connection(1).unwrap();
        a.count_panic();
        drop(a);
        states.follow(&table(&["b"]));
        assert_eq!(told(&states), ["a", "b"], "it has a connection");
        assert_eq!(states.leaving(&table(&["b"])).len(), 1);
        drop(place);
        assert!(states.leaving(&table(&["b"])).is_empty());
        drop(b);
        states.follow(&table(&["b"]));
        assert_eq!(told(&states), ["b"], "what the table has stays, whoever uses it");
        assert_eq!(states.totals().panics, 1, "totals never count backwards");
    }

    #[test]
    fn who_goes_by_a_former_table_keeps_what_has_nothing_left_for_a_while_only() {
        let states = BackendStates::default();
        let held = states.of("a");
        states.follow_at(&table(&[]), 7);
        states.follow_at(&table(&[]), 6 + GONE_NS);
        assert!(Arc::ptr_eq(&states.of("a"), &held));
        states.follow_at(&table(&["a"]), 8 + GONE_NS);
        states.follow_at(&table(&[]), 9 + GONE_NS);
        states.follow_at(&table(&[]), 8 + 2 * GONE_NS);
        assert_eq!(told(&states), ["a"], "it was back meanwhile");
        states.follow_at(&table(&[]), 9 + 2 * GONE_NS);
        assert!(told(&states).is_empty());
    }

    #[test]
    fn backends_beyond_the_first_are_told_together_and_count_on_when_they_are_gone() {
        let states = BackendStates::default();
        let first: Vec<_> = (0..NAMES_MAX).map(|number| states.of(&format!("b{number}"))).collect();
        for name in ["late", "later"] {
            states.of(name).count_panic();
        }
        assert_eq!(told(&states).len(), NAMES_MAX + 1);
        assert_eq!(states.reports()[OTHER].counters.panics, 2);
        states.follow(&table(&["late"]));
        assert_eq!(states.reports()[OTHER].counters.panics, 2, "it never counts backwards");
        drop(first);
        states.follow(&table(&["late"]));
        states.of("new").count_panic();
        assert_eq!(told(&states), ["new", OTHER], "there is room for a name again");
        assert_eq!(states.reports()[OTHER].counters.panics, 2);
    }
}
