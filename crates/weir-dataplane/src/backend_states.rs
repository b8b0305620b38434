//! The states of all backends by name. A state stays as long as a table, a connection or a request uses it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_config::{BackendEntry, Member, Table};
use weir_io::mono_ns;

use crate::backend_state::BackendState;
use crate::names::Names;
use crate::series::{NAMES_MAX, OTHER};
use crate::stats::BackendStats;

/// A removed backend without connections and requests keeps its state for at most this long. An exchange in progress
/// with an older table may still use the backend.
const GONE_NS: u64 = 60_000_000_000;

/// The states of all backends by name.
#[derive(Debug, Default)]
pub(crate) struct BackendStates {
    known: Mutex<Known>,
    /// Resolved DNS names of endpoints.
    pub(crate) names: Names,
}

#[derive(Debug, Default)]
struct Known {
    states: HashMap<String, Of>,
    /// The number of backends in `states` with a separate metric series.
    named: usize,
    /// Counters of removed backends that had no separate metric series.
    rest: BackendStats,
    /// Sum of the counters of removed backends that had their own metric series.
    forgotten: BackendStats,
}

#[derive(Debug)]
struct Of {
    state: Arc<BackendState>,
    /// Whether the backend has its own metric series. This never changes, because the counters of a series must never
    /// decrease.
    is_named: bool,
    /// When the backend was first missing from the active table. `None` while the table contains it.
    gone_since_ns: Option<u64>,
}

/// Counters of a backend.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BackendReport {
    /// Open connections.
    pub(crate) open: u64,
    pub(crate) counters: BackendStats,
}

impl BackendStates {
    /// The state of the backend with this name, created if missing. Takes a lock: do not call it per request.
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

    /// The state of the backend with this name, if it exists.
    pub(crate) fn known_of(&self, name: &str) -> Option<Arc<BackendState>> {
        self.known().states.get(name).map(|of| Arc::clone(&of.state))
    }

    /// The endpoints of a backend with their addresses, without DNS names that are not resolved yet.
    pub(crate) fn members(&self, entry: &BackendEntry) -> Vec<Member> {
        entry.backend.members(|host| self.names.addresses(host))
    }

    /// Reports by backend name. Backends beyond the first [`NAMES_MAX`] share the name [`OTHER`].
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

    /// Sums of the counters of all backends, including removed backends.
    pub(crate) fn totals(&self) -> BackendStats {
        let known = self.known();
        let mut totals = known.forgotten;
        totals.add(known.rest);
        known.states.values().for_each(|of| totals.add(of.state.stats().without_gauges()));
        totals
    }

    /// Backends that `table` does not contain but that still have connections or requests.
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

    /// Handles backends that `table` does not contain: marks their endpoints as gone, and removes states that are no
    /// longer used.
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
            // Workers with an older table hold a reference to each backend that they used.
            let is_held = Arc::strong_count(&of.state) > 1;
            let stays = is_held && (of.state.is_in_use() || now_ns.saturating_sub(since_ns) < GONE_NS);
            if !stays {
                *named -= usize::from(of.is_named);
                let counted = if of.is_named { &mut *forgotten } else { &mut *rest };
                counted.add(of.state.stats().without_gauges());
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

    fn names(states: &BackendStates) -> Vec<String> {
        states.reports().into_keys().collect()
    }

    #[test]
    fn removes_a_backend_after_its_last_connection() {
        let states = BackendStates::default();
        let (a, b) = (states.of("a"), states.of("b"));
        let place = a.connection(1).unwrap();
        a.count_panic();
        drop(a);
        states.follow(&table(&["b"]));
        assert_eq!(names(&states), ["a", "b"], "`a` still has a connection");
        assert_eq!(states.leaving(&table(&["b"])).len(), 1);
        drop(place);
        assert!(states.leaving(&table(&["b"])).is_empty());
        drop(b);
        states.follow(&table(&["b"]));
        assert_eq!(names(&states), ["b"], "an unused backend stays if the table contains it");
        assert_eq!(states.totals().panics, 1, "totals never decrease");
    }

    #[test]
    fn unused_backend_of_an_older_table_stays_for_a_limited_time() {
        let states = BackendStates::default();
        let held = states.of("a");
        states.follow_at(&table(&[]), 7);
        states.follow_at(&table(&[]), 6 + GONE_NS);
        assert!(Arc::ptr_eq(&states.of("a"), &held));
        states.follow_at(&table(&["a"]), 8 + GONE_NS);
        states.follow_at(&table(&[]), 9 + GONE_NS);
        states.follow_at(&table(&[]), 8 + 2 * GONE_NS);
        assert_eq!(names(&states), ["a"], "each removal from the table restarts the time limit");
        states.follow_at(&table(&[]), 9 + 2 * GONE_NS);
        assert!(names(&states).is_empty());
    }

    #[test]
    fn backends_beyond_the_name_limit_share_a_series_that_never_decreases() {
        let states = BackendStates::default();
        let first: Vec<_> = (0..NAMES_MAX).map(|number| states.of(&format!("b{number}"))).collect();
        for name in ["late", "later"] {
            states.of(name).count_panic();
        }
        assert_eq!(names(&states).len(), NAMES_MAX + 1);
        assert_eq!(states.reports()[OTHER].counters.panics, 2);
        states.follow(&table(&["late"]));
        assert_eq!(states.reports()[OTHER].counters.panics, 2, "the counter never decreases");
        drop(first);
        states.follow(&table(&["late"]));
        states.of("new").count_panic();
        assert_eq!(names(&states), ["new", OTHER], "a removed backend frees a name");
        assert_eq!(states.reports()[OTHER].counters.panics, 2);
    }
}
