//! What all workers know together of a backend: how much of it is in use. Counts are of the whole process, and may be
//! over their bounds by one for each worker for a moment.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use weir_config::{BackendEntry, BackendLimits, Ejection, Maglev, Member};
use weir_io::mono_ns;

use crate::endpoint_state::EndpointState;
use crate::names::Names;
use crate::stats::BackendStats;

/// Retries that may be in flight however few requests are.
const RETRIES_LEAST: u32 = 3;

/// What is known of the backends, by their names.
#[derive(Debug, Default)]
pub(crate) struct BackendStates {
    states: Mutex<HashMap<String, Arc<BackendState>>>,
    /// The addresses of names.
    pub(crate) names: Names,
}

/// What is known of one backend. It stands on cache lines of its own, as every worker writes it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct BackendState {
    /// Open connections.
    open: AtomicU32,
    /// Requests that wait for a connection that is being made.
    pending: AtomicU32,
    /// Requests in flight, where the table says that they are counted.
    requests: AtomicU32,
    /// Of these, those that are on their way again.
    retries: AtomicU32,
    endpoints: Mutex<HashMap<SocketAddr, Arc<EndpointState>>>,
    /// Which endpoint has a key, as far as that depends on what names stand for.
    maglev: Mutex<Option<(Vec<Member>, Arc<Maglev>)>>,
    checks: AtomicU64,
    check_failures: AtomicU64,
    ejections: AtomicU64,
    panics: AtomicU64,
    overflows: AtomicU64,
}

/// One of the counted, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    state: Arc<BackendState>,
    count: fn(&BackendState) -> &AtomicU32,
}

impl BackendStates {
    /// The one of the backend with this name. It takes a lock: not for each request.
    pub(crate) fn of(&self, name: &str) -> Arc<BackendState> {
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = states.get(name) {
            return Arc::clone(state);
        }
        Arc::clone(states.entry(name.to_owned()).or_default())
    }

    /// The endpoints of a backend whose addresses are known now.
    pub(crate) fn members(&self, entry: &BackendEntry) -> Vec<Member> {
        entry.backend.members(|host| self.names.addresses(host))
    }

    /// What `of` says of each backend that was ever asked for something.
    pub(crate) fn each<T>(&self, of: impl Fn(&BackendState) -> T) -> BTreeMap<String, T> {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.iter().map(|(name, state)| (name.clone(), of(state))).collect()
    }
}

impl BackendState {
    /// Open connections.
    pub(crate) fn open(&self) -> u32 {
        self.open.load(Ordering::Relaxed)
    }

    /// What is known of these endpoints, in their order. Those that nobody knows any more are forgotten. It takes a lock.
    pub(crate) fn endpoints(&self, addresses: impl Iterator<Item = SocketAddr>) -> Vec<Arc<EndpointState>> {
        let mut known = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that the backend begins with have nobody who could do their part meanwhile.
        let since_ns = if known.is_empty() { 0 } else { mono_ns() };
        let mut of = |address| {
            let state = known.entry(address);
            Arc::clone(state.or_insert_with(|| Arc::new(EndpointState::new(address, since_ns))))
        };
        let endpoints = addresses.map(&mut of).collect();
        known.retain(|_, state| Arc::strong_count(state) > 1);
        endpoints
    }

    /// The table of these endpoints; the first worker that asks makes it for all. It takes a lock.
    pub(crate) fn maglev(&self, members: &[Member]) -> Arc<Maglev> {
        let mut known = self.maglev.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some((same, table)) if same == members => Arc::clone(table),
            _ => {
                let table = Arc::new(Maglev::new(members));
                *known = Some((members.to_vec(), Arc::clone(&table)));
                table
            }
        }
    }

    /// Counts a check of an endpoint.
    pub(crate) fn count_check(&self, is_well: bool) {
        self.checks.fetch_add(1, Ordering::Relaxed);
        self.check_failures.fetch_add(u64::from(!is_well), Ordering::Relaxed);
    }

    /// Counts a request that goes to an endpoint that is out.
    pub(crate) fn count_panic(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes what a request came to at an endpoint in, which may eject it.
    pub(crate) fn report(&self, endpoint: &EndpointState, is_error: bool, ejection: &Ejection, now_ns: u64) {
        // What comes behind its end says nothing new.
        if endpoint.is_out(now_ns) || endpoint.note(is_error) < ejection.errors.max(1) {
            return;
        }
        // Two that go at one time must not go together over what may be out.
        let endpoints = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        let out = endpoints.values().filter(|endpoint| endpoint.is_out(now_ns)).count();
        let most = (endpoints.len() as f64 * ejection.most.0) as usize;
        if out < most && !endpoint.is_out(now_ns) {
            endpoint.eject(now_ns, ejection.time.0.as_nanos() as u64);
            self.ejections.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a request that finds no place.
    pub(crate) fn count_overflow(&self) {
        self.overflows.fetch_add(1, Ordering::Relaxed);
    }

    /// What is told of it.
    pub(crate) fn stats(&self) -> BackendStats {
        let now_ns = mono_ns();
        let endpoints = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        BackendStats {
            endpoints_out: endpoints.values().filter(|endpoint| endpoint.is_out(now_ns)).count() as u64,
            checks: self.checks.load(Ordering::Relaxed),
            check_failures: self.check_failures.load(Ordering::Relaxed),
            ejections: self.ejections.load(Ordering::Relaxed),
            panics: self.panics.load(Ordering::Relaxed),
            overflows: self.overflows.load(Ordering::Relaxed),
        }
    }

    /// A place for a connection, if there are fewer than `most`.
    pub(crate) fn connection(self: &Arc<Self>, most: u32) -> Option<Place> {
        self.place(|state| &state.open, most)
    }

    /// A place for a request that waits for a connection, if there are fewer than `most`.
    pub(crate) fn pending(self: &Arc<Self>, most: u32) -> Option<Place> {
        self.place(|state| &state.pending, most)
    }

    /// A place for a request, if there are fewer than `most`.
    pub(crate) fn request(self: &Arc<Self>, most: u32) -> Option<Place> {
        self.place(|state| &state.requests, most)
    }

    /// A place for a retry, if the budget has one.
    pub(crate) fn retry(self: &Arc<Self>, limits: &BackendLimits) -> Option<Place> {
        let requests = f64::from(self.requests.load(Ordering::Relaxed));
        // A cast of a float ends at the bounds of the integer.
        let share = (requests * limits.retries.0) as u32;
        self.place(|state| &state.retries, share.max(RETRIES_LEAST))
    }

    fn place(self: &Arc<Self>, count: fn(&BackendState) -> &AtomicU32, most: u32) -> Option<Place> {
        let taken = count(self).fetch_add(1, Ordering::Relaxed);
        let place = Place { state: Arc::clone(self), count };
        (taken < most).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        (self.count)(&self.state).fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use weir_document::Share;

    use super::*;

    #[test]
    fn places_are_bounded_and_come_back() {
        let state = BackendStates::default().of("b");
        let held = state.connection(1).unwrap();
        assert!(state.connection(1).is_none());
        assert_eq!(state.open(), 1, "what was refused is not counted");
        drop(held);
        assert!(state.connection(1).is_some());
        assert_eq!(state.open(), 0);
    }

    #[test]
    fn endpoints_are_known_as_long_as_somebody_has_them() {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let state = BackendStates::default().of("b");
        let first = state.endpoints([1, 2].map(address).into_iter());
        // A host that has just started has a clock of a few seconds.
        assert!(
            first.iter().all(|endpoint| endpoint.age_ns(7) == u64::MAX),
            "they were there from the beginning"
        );
        let second = state.endpoints([2, 3].map(address).into_iter());
        assert!(Arc::ptr_eq(&first[1], &second[0]));
        assert!(second[1].age_ns(u64::MAX) < u64::MAX, "it is new");
        drop(first);
        state.endpoints(std::iter::empty());
        assert_eq!(state.endpoints.lock().unwrap().len(), 2);
    }

    #[test]
    fn errors_in_a_row_eject_as_many_as_may_be_out() {
        let state = BackendStates::default().of("b");
        let addresses = (1..=5).map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let endpoints = state.endpoints(addresses);
        let ejection = Ejection { errors: 3, ..Ejection::default() };
        let fail = |endpoint: &EndpointState| {
            (0..3).for_each(|_| state.report(endpoint, true, &ejection, 100));
            endpoint.is_out(100)
        };
        state.report(&endpoints[0], true, &ejection, 100);
        state.report(&endpoints[0], true, &ejection, 100);
        state.report(&endpoints[0], false, &ejection, 100);
        assert!(!endpoints[0].is_out(100));
        let out: Vec<bool> = endpoints.iter().map(|endpoint| fail(endpoint)).collect();
        assert_eq!(out, [true, true, false, false, false], "half of five are two");
        assert_eq!(state.stats().ejections, 2);
        endpoints[0].eject(0, 0);
        state.report(&endpoints[4], true, &ejection, 100);
        assert!(endpoints[4].is_out(100), "its errors were not forgotten");
    }

    #[test]
    fn retries_have_a_share_of_the_requests_in_flight() {
        let check = |requests: u32, share: f64, expected: usize| {
            let state = BackendStates::default().of("b");
            let in_flight: Vec<_> = (0..requests).map_while(|_| state.request(u32::MAX)).collect();
            let limits = BackendLimits { retries: Share(share), ..BackendLimits::default() };
            let retries: Vec<_> = std::iter::repeat_with(|| state.retry(&limits)).map_while(|r| r).collect();
            assert_eq!((in_flight.len(), retries.len()), (requests as usize, expected));
        };
        check(1, 0.2, 3);
        check(15, 0.2, 3);
        check(30, 0.2, 6);
        check(39, 0.2, 7);
        check(10, 1.0, 10);
        check(1000, 0.0, 3);
    }
}
