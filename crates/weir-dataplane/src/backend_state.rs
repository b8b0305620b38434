//! State of a backend that all workers share: its usage, limits and endpoints. Counts cover the whole process. For a
//! moment, each worker may exceed a limit by one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_config::{BackendEntry, BackendLimits, Ejection, Maglev, Member, Table, UpstreamAddress};
use weir_io::mono_ns;

use crate::backend_states::BackendReport;
use crate::endpoint_state::{EjectedFor, EndpointReport, EndpointState};
use crate::program_log::seldom;
use crate::stats::BackendStats;
use crate::waiting::Queue;

/// Minimum of the retry budget: this many retries may be in flight even if there are few requests.
const RETRIES_LEAST: u32 = 3;

/// State of one backend. Aligned to separate cache lines, because every worker writes it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct BackendState {
    /// Open connections.
    open: AtomicU32,
    /// Pending requests, which wait for a permit or for a new connection. Counted only if the backend has a queue.
    pending: AtomicU32,
    /// In-flight requests. Counted only if the table requires it.
    requests: AtomicU32,
    /// In-flight retries.
    retries: AtomicU32,
    /// Requests that wait because the connection limit is reached.
    for_connections: Queue,
    /// Requests that wait because the request limit is reached.
    for_requests: Queue,
    endpoints: Mutex<Endpoints>,
    /// The last Maglev table of a backend with DNS names, and the members from which it was built.
    maglev: Mutex<Option<(Vec<Member>, Arc<Maglev>)>>,
    checks: AtomicU64,
    check_failures: AtomicU64,
    ejections: AtomicU64,
    ejections_by_share: AtomicU64,
    panics: AtomicU64,
    overflows: AtomicU64,
    waits: AtomicU64,
    connects: AtomicU64,
    connects_further: AtomicU64,
    connect_failures: AtomicU64,
    retried: AtomicU64,
    retries_over_budget: AtomicU64,
}

/// The known endpoints.
#[derive(Debug, Default)]
struct Endpoints {
    known: HashMap<UpstreamAddress, Arc<EndpointState>>,
    /// The newest version of the table that any worker has reported. Exchanges in progress may use older versions.
    version: u64,
}

/// The limits of a backend in one version of the table.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bounds {
    pub(crate) version: u64,
    pub(crate) connections: u32,
    pub(crate) requests: u32,
}

/// The limit toward which a [`Permit`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Connection,
    Pending,
    Request,
    Retry,
}

/// A permit that counts one connection or request toward a limit. Dropping the permit frees it for the first request in
/// the queue.
#[derive(Debug)]
pub(crate) struct Permit {
    state: Arc<BackendState>,
    kind: Kind,
}

impl Bounds {
    /// The limits of a backend in this table.
    pub(crate) fn of(table: &Table, entry: &BackendEntry) -> Bounds {
        let limits = &entry.backend.limits;
        Bounds {
            version: table.version,
            connections: limits.connections.unwrap_or(table.limits.upstream_connections),
            requests: limits.requests.unwrap_or(u32::MAX),
        }
    }
}

impl BackendState {
    /// Open connections.
    pub(crate) fn open(&self) -> u32 {
        self.open.load(Ordering::Relaxed)
    }

    /// Idle connections of all workers. Takes locks.
    #[cold]
    pub(crate) fn idle(&self) -> u64 {
        self.endpoints().known.values().map(|endpoint| endpoint.idle()).sum()
    }

    /// The number of requests that wait for a connection.
    pub(crate) fn waiting_for_connections(&self) -> u64 {
        self.for_connections.length()
    }

    /// Returns the states of the endpoints with these addresses, in the same order. Creates missing states, and removes
    /// states that no worker uses. `version` is the version of the table that contains the addresses. Takes a lock.
    pub(crate) fn known_endpoints(
        &self,
        addresses: impl Iterator<Item = UpstreamAddress>,
        version: u64,
    ) -> Vec<Arc<EndpointState>> {
        let now_ns = mono_ns();
        let mut endpoints = self.endpoints();
        // No slow start for the first endpoints: no other endpoint could take their load.
        let since_ns = if endpoints.known.is_empty() { 0 } else { now_ns };
        // A worker with an older table must not change the set of removed endpoints.
        let is_newest = endpoints.reach(version);
        if is_newest {
            endpoints.known.values().for_each(|state| state.set_gone(true, now_ns));
        }
        let of = |address: UpstreamAddress| {
            let known = endpoints.known.entry(address.clone());
            let state = known.or_insert_with(|| {
                let state = EndpointState::new(address, since_ns, now_ns);
                state.set_gone(true, now_ns);
                Arc::new(state)
            });
            if is_newest {
                state.set_gone(false, now_ns);
            }
            Arc::clone(state)
        };
        let wanted = addresses.map(of).collect();
        endpoints.known.retain(|_, state| Arc::strong_count(state) > 1);
        wanted
    }

    /// Applies these limits to the queues, unless a newer table has already set its limits.
    pub(crate) fn bound(self: &Arc<Self>, bounds: Bounds) {
        if self.endpoints().reach(bounds.version) {
            self.for_connections.bound(bounds.connections);
            self.for_requests.bound(bounds.requests);
        }
        self.serve(Kind::Connection);
        self.serve(Kind::Request);
    }

    /// A report on each endpoint of the backend, and on each removed endpoint that still has requests or connections.
    pub(crate) fn endpoint_reports(&self) -> Vec<EndpointReport> {
        let now_ns = mono_ns();
        let endpoints = self.endpoints();
        let reports = endpoints.known.values().map(|endpoint| (endpoint.is_gone(), endpoint.report(now_ns)));
        let is_there = |(is_gone, report): &(bool, EndpointReport)| {
            !is_gone || report.requests_in_flight + report.connections > 0
        };
        reports.filter(is_there).map(|(_, report)| report).collect()
    }

    /// The Maglev table of these endpoints. The first caller creates it for all workers. Takes a lock.
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

    /// Counts a health check.
    pub(crate) fn count_check(&self, is_well: bool) {
        self.checks.fetch_add(1, Ordering::Relaxed);
        self.check_failures.fetch_add(u64::from(!is_well), Ordering::Relaxed);
    }

    /// Counts a request that is sent to an unhealthy or ejected endpoint, because no other endpoint is left.
    pub(crate) fn count_panic(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    /// Records the outcome of a request at an endpoint, which may eject the endpoint.
    pub(crate) fn report(&self, endpoint: &EndpointState, is_error: bool, ejection: &Ejection, now_ns: u64) {
        // Late results of an endpoint that is already unhealthy or ejected add no information.
        if endpoint.is_out(now_ns) {
            return;
        }
        let Some(why) = endpoint.note(is_error, ejection, now_ns) else { return };
        // The lock prevents two simultaneous ejections that together exceed the maximum.
        let endpoints = self.endpoints();
        let there = || endpoints.known.values().filter(|endpoint| !endpoint.is_gone());
        let out = there().filter(|endpoint| endpoint.is_out(now_ns)).count();
        let most = share_of(there().count() as f64, ejection.most.0) as usize;
        if out < most && !endpoint.is_out(now_ns) {
            endpoint.eject(why, now_ns, ejection.time.0.as_nanos() as u64);
            self.ejections.fetch_add(1, Ordering::Relaxed);
            self.ejections_by_share.fetch_add(u64::from(why == EjectedFor::Share), Ordering::Relaxed);
            let (address, errors) = (&endpoint.address, ejection.errors);
            match why {
                EjectedFor::Row => {
                    seldom!(
                        log::Level::Warn,
                        "endpoint {address} ejected (`ejection`); errors in a row: {errors}"
                    );
                }
                EjectedFor::Share => {
                    seldom!(
                        log::Level::Warn,
                        "endpoint {address} ejected (`ejection.share`): its error rate is above the limit"
                    );
                }
            }
        }
    }

    /// Counts a connection attempt; `is_further` if it is not the first one for the request.
    pub(crate) fn count_connect(&self, is_further: bool) {
        self.connects.fetch_add(1, Ordering::Relaxed);
        if is_further {
            self.connects_further.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a failed connection attempt.
    pub(crate) fn count_connect_failure(&self) {
        self.connect_failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a retry.
    pub(crate) fn count_retry(&self) {
        self.retried.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that is not retried because the retry budget is exhausted.
    pub(crate) fn count_retry_over_budget(&self) {
        self.retries_over_budget.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that is rejected because of a limit.
    pub(crate) fn count_overflow(&self) {
        self.overflows.fetch_add(1, Ordering::Relaxed);
    }

    /// The open connections and the counters of the backend.
    pub(crate) fn account(&self) -> BackendReport {
        BackendReport { open: u64::from(self.open()), counters: self.stats() }
    }

    /// Whether the backend has open connections or unfinished requests.
    pub(crate) fn is_in_use(&self) -> bool {
        let BackendReport { open, counters } = self.account();
        open + counters.pending + counters.requests_in_flight > 0
    }

    /// The counters of the backend.
    pub(crate) fn stats(&self) -> BackendStats {
        let now_ns = mono_ns();
        let endpoints = self.endpoints();
        let there = || endpoints.known.values().filter(|endpoint| !endpoint.is_gone());
        let in_flight = endpoints.known.values().map(|endpoint| endpoint.report(now_ns).requests_in_flight);
        BackendStats {
            endpoints: there().count() as u64,
            endpoints_out: there().filter(|endpoint| endpoint.is_out(now_ns)).count() as u64,
            requests_in_flight: in_flight.sum(),
            checks: self.checks.load(Ordering::Relaxed),
            check_failures: self.check_failures.load(Ordering::Relaxed),
            ejections: self.ejections.load(Ordering::Relaxed),
            ejections_by_share: self.ejections_by_share.load(Ordering::Relaxed),
            panics: self.panics.load(Ordering::Relaxed),
            overflows: self.overflows.load(Ordering::Relaxed),
            pending: u64::from(self.pending.load(Ordering::Relaxed)),
            waits: self.waits.load(Ordering::Relaxed),
            connects: self.connects.load(Ordering::Relaxed),
            connects_further: self.connects_further.load(Ordering::Relaxed),
            connect_failures: self.connect_failures.load(Ordering::Relaxed),
            retries: self.retried.load(Ordering::Relaxed),
            retries_over_budget: self.retries_over_budget.load(Ordering::Relaxed),
        }
    }

    /// A permit for a connection, if there are fewer than `most`.
    pub(crate) fn connection(self: &Arc<Self>, most: u32) -> Option<Permit> {
        self.permit(Kind::Connection, most)
    }

    /// A permit for a pending request, if there are fewer than `most`.
    pub(crate) fn pending(self: &Arc<Self>, most: u32) -> Option<Permit> {
        self.permit(Kind::Pending, most)
    }

    /// A permit for a request, if fewer than `most` request permits are in use.
    pub(crate) fn request(self: &Arc<Self>, most: u32) -> Option<Permit> {
        self.permit(Kind::Request, most)
    }

    /// A permit for a retry, if the retry budget allows one.
    pub(crate) fn retry(self: &Arc<Self>, limits: &BackendLimits) -> Option<Permit> {
        let requests = f64::from(self.requests.load(Ordering::Relaxed));
        // The cast saturates.
        let share = share_of(requests, limits.retries.0) as u32;
        self.permit(Kind::Retry, share.max(RETRIES_LEAST))
    }

    /// Counts a request that has to queue.
    pub(crate) fn count_wait(&self) {
        self.waits.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether a request waits for a permit of this kind.
    #[inline]
    pub(crate) fn is_waited_for(&self, kind: Kind) -> bool {
        self.queue(kind).is_some_and(Queue::is_anybody)
    }

    /// The queue for permits of this kind, if the kind has one.
    #[inline]
    pub(crate) fn queue(&self, kind: Kind) -> Option<&Queue> {
        match kind {
            Kind::Connection => Some(&self.for_connections),
            Kind::Request => Some(&self.for_requests),
            Kind::Pending | Kind::Retry => None,
        }
    }

    /// Grants free permits of this kind to queued requests.
    pub(crate) fn serve(self: &Arc<Self>, kind: Kind) {
        if let Some(queue) = self.queue(kind) {
            queue.serve(|most| self.permit_below(kind, most));
        }
    }

    fn endpoints(&self) -> MutexGuard<'_, Endpoints> {
        self.endpoints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn permit(self: &Arc<Self>, kind: Kind, most: u32) -> Option<Permit> {
        let taken = self.count(kind).fetch_add(1, Ordering::SeqCst);
        let permit = Permit { state: Arc::clone(self), kind };
        (taken < most).then_some(permit)
    }

    /// Like [`BackendState::permit`], but the count never exceeds the limit, not even for a moment. `permit` may create
    /// a permit beyond the limit and drop it. Dropping a permit can lock the queue, but the caller already holds that
    /// lock.
    fn permit_below(self: &Arc<Self>, kind: Kind, most: u32) -> Option<Permit> {
        let one_more = |count: u32| (count < most).then_some(count + 1);
        self.count(kind).fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more).ok()?;
        Some(Permit { state: Arc::clone(self), kind })
    }

    #[inline]
    fn count(&self, kind: Kind) -> &AtomicU32 {
        match kind {
            Kind::Connection => &self.open,
            Kind::Pending => &self.pending,
            Kind::Request => &self.requests,
            Kind::Retry => &self.retries,
        }
    }
}

impl Endpoints {
    /// Records a version that a worker uses. Returns whether it is the newest.
    fn reach(&mut self, version: u64) -> bool {
        self.version = self.version.max(version);
        self.version == version
    }
}

impl Permit {
    /// The backend of this permit.
    pub(crate) fn state(&self) -> &Arc<BackendState> {
        &self.state
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.state.count(self.kind).fetch_sub(1, Ordering::SeqCst);
        if self.state.is_waited_for(self.kind) {
            self.state.serve(self.kind);
        }
    }
}

/// Multiplies `number` by `share`. Adds a small offset, because callers truncate the result: 29 % of 100 must not
/// become 28.
fn share_of(number: f64, share: f64) -> f64 {
    number * share + 1e-9
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use weir_config::ErrorShare;
    use weir_document::{Share, Time};

    use super::*;
    use crate::backend_states::BackendStates;

    #[test]
    fn permits_are_limited_and_return_on_drop() {
        let state = BackendStates::default().of("b");
        let held = state.connection(1).unwrap();
        assert!(state.connection(1).is_none());
        assert_eq!(state.open(), 1, "a refused permit is not counted");
        drop(held);
        assert!(state.connection(1).is_some());
        assert_eq!(state.open(), 0);
    }

    #[test]
    fn endpoints_are_known_while_any_worker_uses_them() {
        let address = |port: u16| UpstreamAddress::from(SocketAddr::from(([127, 0, 0, 1], port)));
        let state = BackendStates::default().of("b");
        let first = state.known_endpoints([1, 2].map(address).into_iter(), 0);
        // Shortly after boot, the monotonic clock is still near zero.
        assert!(
            first.iter().all(|endpoint| endpoint.age_ns(7) == u64::MAX),
            "the first endpoints have no slow start"
        );
        let second = state.known_endpoints([2, 3].map(address).into_iter(), 0);
        assert!(Arc::ptr_eq(&first[1], &second[0]));
        assert!(second[1].age_ns(u64::MAX) < u64::MAX, "a new endpoint");
        drop(first);
        state.known_endpoints(std::iter::empty(), 0);
        assert_eq!(state.endpoints().known.len(), 2);
    }

    #[test]
    fn removed_endpoints_do_not_count_toward_the_ejection_limit() {
        let addresses =
            |ports: [u16; 4]| ports.map(|port| SocketAddr::from(([127, 0, 0, 1], port)).into()).into_iter();
        let state = BackendStates::default().of("b");
        let all = state.known_endpoints(addresses([1, 2, 3, 4]), 0);
        let ejection = Ejection { errors: 1, ..Ejection::default() };
        state.report(&all[0], true, &ejection, u64::MAX / 2);
        assert_eq!((state.stats().endpoints, state.stats().endpoints_out), (4, 1));
        let fewer = state.known_endpoints(addresses([2, 3, 3, 2]), 0);
        assert_eq!((state.stats().endpoints, state.stats().endpoints_out), (2, 0));
        let ports: Vec<_> = state.endpoint_reports().iter().map(|report| report.address.port()).collect();
        assert!(
            ports.len() == 2 && ports.contains(&Some(2)) && ports.contains(&Some(3)),
            "a removed endpoint without connections is not reported"
        );
        all[0].counters().open.add(1);
        assert_eq!(state.endpoint_reports().len(), 3);
        state.report(&fewer[0], true, &ejection, u64::MAX / 2);
        state.report(&fewer[1], true, &ejection, u64::MAX / 2);
        assert_eq!(state.stats().endpoints_out, 1, "at most half of two endpoints");
    }

    #[test]
    fn consecutive_errors_eject_up_to_the_limit() {
        let state = BackendStates::default().of("b");
        let addresses = (1..=5).map(|port| SocketAddr::from(([127, 0, 0, 1], port)).into());
        let endpoints = state.known_endpoints(addresses, 0);
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
        assert_eq!(out, [true, true, false, false, false], "at most half of five endpoints");
        assert_eq!(state.stats().ejections, 2);
        endpoints[0].eject(EjectedFor::Row, 0, 0);
        state.report(&endpoints[4], true, &ejection, 100);
        assert!(endpoints[4].is_out(100), "errors count even if the limit prevented an ejection");
    }

    #[test]
    fn ejection_limit_is_a_share_of_the_endpoints() {
        let state = BackendStates::default().of("b");
        let addresses = (1..=100).map(|port| SocketAddr::from(([127, 0, 0, 1], port)).into());
        let ejection = Ejection { errors: 1, most: Share(0.29), ..Ejection::default() };
        let endpoints = state.known_endpoints(addresses, 0);
        endpoints.iter().for_each(|endpoint| state.report(endpoint, true, &ejection, 100));
        assert_eq!(endpoints.iter().filter(|endpoint| endpoint.is_out(100)).count(), 29);
    }

    #[test]
    fn error_rate_ejects_up_to_the_limit() {
        let state = BackendStates::default().of("b");
        let addresses = (1..=4).map(|port| SocketAddr::from(([127, 0, 0, 1], port)).into());
        let endpoints = state.known_endpoints(addresses, 0);
        let share = ErrorShare { errors: Share(0.5), window: Time(Duration::from_secs(10)), requests: 4 };
        let ejection = Ejection { errors: 0, share: Some(share), ..Ejection::default() };
        for second in 0..5 {
            for endpoint in &endpoints {
                state.report(endpoint, second % 2 == 1, &ejection, second * 1_000_000_000);
            }
        }
        let out = |now_ns: u64| endpoints.iter().map(|endpoint| endpoint.is_out(now_ns)).collect::<Vec<_>>();
        assert_eq!(out(4_000_000_000), [true, true, false, false], "at most half of four endpoints");
        let stats = state.stats();
        assert_eq!((stats.ejections, stats.ejections_by_share), (2, 2));
        // After the ejection, only new results count.
        (0..3).for_each(|_| state.report(&endpoints[0], true, &ejection, 40_000_000_000));
        assert_eq!(out(40_000_000_000), [false; 4]);
        state.report(&endpoints[0], true, &ejection, 40_000_000_000);
        assert_eq!(out(40_000_000_000), [true, false, false, false]);
    }

    #[test]
    fn retry_budget_is_a_share_of_in_flight_requests() {
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
