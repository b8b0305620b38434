//! State of an endpoint that all workers share.
//!
//! ```text
//!            checks fail (health.rs)         consecutive errors or error rate (BackendState::report)
//! failing <--------------------------> in <--------------------------> ejected
//!            checks pass again               ejection time is over
//! ```
//! An endpoint may be both failing and ejected. It gets requests if it is neither.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use weir_config::{Ejection, ErrorShare, UpstreamAddress};

use crate::counters::{Counter, EndpointCounters};
use crate::crew::unused;
use crate::error_window::ErrorWindow;

/// Longest ejection, as a multiple of the configured ejection time.
const EJECTIONS_MAX: u32 = 10;

/// State of one endpoint. Aligned to separate cache lines, because every worker may write it. Times are in ns of the
/// monotonic clock.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct EndpointState {
    pub(crate) address: UpstreamAddress,
    /// In-flight requests. Counted only if load balancing uses them.
    requests: AtomicU32,
    /// Consecutive errors.
    errors: AtomicU32,
    /// Recent outcomes, for ejection by error rate.
    window: Mutex<ErrorWindow>,
    /// Whether health checks failed.
    is_failing: AtomicBool,
    /// Time of the last change of `is_failing`.
    checked_since_ns: AtomicU64,
    checks_passed: AtomicU64,
    checks_failed: AtomicU64,
    /// Error of the last failed check.
    check_failure: Mutex<Option<Arc<str>>>,
    /// An [`EjectedFor`], as a number.
    ejected_for: AtomicU8,
    ejected_at_ns: AtomicU64,
    ejected_until_ns: AtomicU64,
    /// Number of ejections since the last long period of health. It sets the length of the next ejection.
    ejections: AtomicU32,
    /// Total of ejections.
    ejections_in_all: AtomicU64,
    /// When the endpoint began to get requests, for slow start; 0 for the first endpoints of a backend.
    since_ns: AtomicU64,
    /// Time of creation.
    known_since_ns: u64,
    /// When the endpoint was removed from the backend; 0 if it is not removed. Its requests may still be in flight.
    gone_since_ns: AtomicU64,
    /// One set of counters per worker.
    counters: Mutex<Vec<Arc<EndpointCounters>>>,
}

/// State and counters of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndpointReport {
    pub(crate) address: UpstreamAddress,
    pub(crate) standing: Standing,
    /// When `standing` began.
    pub(crate) since_ns: u64,
    /// End of the ejection; `None` if the endpoint is not ejected.
    pub(crate) until_ns: Option<u64>,
    pub(crate) requests_in_flight: u64,
    pub(crate) connections: u64,
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) ejections: u64,
    pub(crate) checks_passed: u64,
    pub(crate) checks_failed: u64,
    /// Error of the last failed check.
    pub(crate) check_failure: Option<Arc<str>>,
}

/// Whether an endpoint gets requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    In,
    /// Unhealthy or ejected, with reasons.
    Out(Vec<&'static str>),
    /// Removed from the backend; connections and requests in progress continue.
    Draining,
}

/// Why an endpoint is ejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EjectedFor {
    /// Consecutive errors.
    Row = 0,
    /// Error rate.
    Share = 1,
}

/// An in-flight request of an endpoint, counted until dropped.
#[derive(Debug)]
pub(crate) struct InFlight(Arc<EndpointState>);

impl EndpointState {
    /// An endpoint that is created at `now_ns` and gets requests from `since_ns` on.
    pub(crate) fn new(address: UpstreamAddress, since_ns: u64, now_ns: u64) -> EndpointState {
        EndpointState {
            address,
            requests: AtomicU32::default(),
            errors: AtomicU32::default(),
            window: Mutex::default(),
            is_failing: AtomicBool::default(),
            checked_since_ns: AtomicU64::default(),
            checks_passed: AtomicU64::default(),
            checks_failed: AtomicU64::default(),
            check_failure: Mutex::default(),
            ejected_for: AtomicU8::default(),
            ejected_at_ns: AtomicU64::default(),
            ejected_until_ns: AtomicU64::default(),
            ejections: AtomicU32::default(),
            ejections_in_all: AtomicU64::default(),
            since_ns: AtomicU64::new(since_ns),
            known_since_ns: now_ns,
            gone_since_ns: AtomicU64::default(),
            counters: Mutex::default(),
        }
    }

    /// Returns counters for the caller. No other caller gets the same counters until this caller drops them.
    pub(crate) fn counters(&self) -> Arc<EndpointCounters> {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        unused(&mut counters, EndpointCounters::default)
    }

    /// Sets whether the endpoint is removed from the backend.
    pub(crate) fn set_gone(&self, is_gone: bool, now_ns: u64) {
        if is_gone {
            // Keep the earliest time.
            let order = Ordering::Relaxed;
            let _ = self.gone_since_ns.compare_exchange(0, now_ns, order, order);
        } else {
            self.gone_since_ns.store(0, Ordering::Relaxed);
        }
    }

    /// Whether the endpoint is removed from the backend.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone_since_ns.load(Ordering::Relaxed) > 0
    }

    /// Counts a health check; `failure` is its error, `None` if it passed.
    pub(crate) fn count_check(&self, failure: Option<&str>) {
        let Some(failure) = failure else {
            self.checks_passed.fetch_add(1, Ordering::Relaxed);
            return;
        };
        *self.check_failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure.into());
        self.checks_failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Idle connections.
    pub(crate) fn idle(&self) -> u64 {
        let counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        counters.iter().map(|worker| worker.idle()).sum()
    }

    /// State and counters of the endpoint at `now_ns`.
    pub(crate) fn report(&self, now_ns: u64) -> EndpointReport {
        let counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = |of: fn(&EndpointCounters) -> &Counter| {
            counters.iter().map(|worker| of(worker).value()).sum::<u64>()
        };
        // Read `ended` first. Otherwise, requests that start and end between the two reads would make the in-flight
        // count too small.
        let ended = sum(|worker| &worker.ended);
        let requests = sum(|worker| &worker.requests);
        let (standing, since_ns) = self.standing(now_ns);
        let until_ns = self.ejected_until_ns.load(Ordering::Relaxed);
        EndpointReport {
            address: self.address.clone(),
            standing,
            since_ns,
            until_ns: (until_ns > now_ns).then_some(until_ns),
            requests_in_flight: requests.saturating_sub(ended),
            connections: sum(|worker| &worker.open),
            requests,
            errors: sum(|worker| &worker.errors),
            ejections: self.ejections_in_all.load(Ordering::Relaxed),
            checks_passed: self.checks_passed.load(Ordering::Relaxed),
            checks_failed: self.checks_failed.load(Ordering::Relaxed),
            check_failure: self.check_failure.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Whether the endpoint gets requests, and since when.
    fn standing(&self, now_ns: u64) -> (Standing, u64) {
        let of = |time: &AtomicU64| time.load(Ordering::Relaxed);
        let (gone_ns, checked_ns, ejected_ns, until_ns) = (
            of(&self.gone_since_ns),
            of(&self.checked_since_ns),
            of(&self.ejected_at_ns),
            of(&self.ejected_until_ns),
        );
        if gone_ns > 0 {
            return (Standing::Draining, gone_ns);
        }
        let by_checks = self.is_failing().then_some(("health_check", checked_ns));
        let by_requests = (until_ns > now_ns).then(|| {
            let is_for_share = self.ejected_for.load(Ordering::Relaxed) == EjectedFor::Share as u8;
            (if is_for_share { "error_share" } else { "errors_in_a_row" }, ejected_ns)
        });
        let reasons: Vec<_> = by_checks.into_iter().chain(by_requests).collect();
        match reasons.iter().map(|(_, since_ns)| *since_ns).min() {
            None => (Standing::In, self.known_since_ns.max(checked_ns).max(until_ns)),
            Some(since_ns) => (Standing::Out(reasons.into_iter().map(|(why, _)| why).collect()), since_ns),
        }
    }

    /// In-flight requests.
    pub(crate) fn requests(&self) -> u32 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Counts an in-flight request until the returned value is dropped.
    pub(crate) fn enter(self: &Arc<Self>) -> InFlight {
        self.requests.fetch_add(1, Ordering::Relaxed);
        InFlight(Arc::clone(self))
    }

    /// How long ago the endpoint began to get requests, in nanoseconds. `u64::MAX` for the first endpoints of a
    /// backend, which have no slow start.
    pub(crate) fn age_ns(&self, now_ns: u64) -> u64 {
        match self.since_ns.load(Ordering::Relaxed) {
            0 => u64::MAX,
            since_ns => now_ns.saturating_sub(since_ns),
        }
    }

    /// Whether the endpoint is unhealthy or ejected.
    pub(crate) fn is_out(&self, now_ns: u64) -> bool {
        self.is_failing.load(Ordering::Relaxed) || self.ejected_until_ns.load(Ordering::Relaxed) > now_ns
    }

    /// Whether health checks failed.
    pub(crate) fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed)
    }

    /// Records the result of health checks.
    pub(crate) fn set_failing(&self, is_failing: bool, now_ns: u64) {
        let was_failing = self.is_failing.swap(is_failing, Ordering::Relaxed);
        if was_failing != is_failing {
            self.checked_since_ns.store(now_ns, Ordering::Relaxed);
        }
        if was_failing && !is_failing {
            self.forget_outcomes();
            self.since_ns.store(now_ns, Ordering::Relaxed);
        }
    }

    /// Records the outcome of a request. Returns a reason if the endpoint should be ejected.
    pub(crate) fn note(&self, is_error: bool, ejection: &Ejection, now_ns: u64) -> Option<EjectedFor> {
        let in_a_row = self.count_in_a_row(is_error);
        let has_share = ejection.share.as_ref().is_some_and(|share| self.has_share(is_error, share, now_ns));
        if is_error && ejection.errors > 0 && in_a_row >= ejection.errors {
            return Some(EjectedFor::Row);
        }
        has_share.then_some(EjectedFor::Share)
    }

    /// Records an outcome. Returns true if the outcome is an error and the error rate has reached the limit. Takes a
    /// lock.
    fn has_share(&self, is_error: bool, share: &ErrorShare, now_ns: u64) -> bool {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        window.note(is_error, share.window.0.as_nanos() as u64, now_ns);
        is_error && window.outcomes().has_share(share.errors.0, share.requests)
    }

    fn forget_outcomes(&self) {
        self.errors.store(0, Ordering::Relaxed);
        *self.window.lock().unwrap_or_else(PoisonError::into_inner) = ErrorWindow::default();
    }

    /// Records an outcome and returns the number of consecutive errors.
    fn count_in_a_row(&self, is_error: bool) -> u32 {
        if is_error {
            return self.errors.fetch_add(1, Ordering::Relaxed) + 1;
        }
        // Avoid the write if the count is already 0.
        if self.errors.load(Ordering::Relaxed) > 0 {
            self.errors.store(0, Ordering::Relaxed);
        }
        0
    }

    /// Ejects the endpoint, each time for longer. Calls must not overlap.
    pub(crate) fn eject(&self, why: EjectedFor, now_ns: u64, base_ns: u64) {
        let longest_ns = base_ns.saturating_mul(u64::from(EJECTIONS_MAX));
        let good_ns = now_ns.saturating_sub(self.ejected_until_ns.load(Ordering::Relaxed));
        let before = if good_ns > longest_ns { 0 } else { self.ejections.load(Ordering::Relaxed) };
        let ejections = (before + 1).min(EJECTIONS_MAX);
        let until_ns = now_ns.saturating_add(base_ns.saturating_mul(u64::from(ejections)));
        self.ejections.store(ejections, Ordering::Relaxed);
        self.ejections_in_all.fetch_add(1, Ordering::Relaxed);
        self.forget_outcomes();
        self.ejected_for.store(why as u8, Ordering::Relaxed);
        self.ejected_at_ns.store(now_ns, Ordering::Relaxed);
        self.since_ns.store(until_ns, Ordering::Relaxed);
        self.ejected_until_ns.store(until_ns, Ordering::Relaxed);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use weir_document::{Share, Time};

    use super::*;

    fn endpoint() -> EndpointState {
        EndpointState::new(SocketAddr::from(([127, 0, 0, 1], 1)).into(), 0, 3)
    }

    /// Ejects at `now_ns` and returns the end of the ejection.
    fn ejected_until(endpoint: &EndpointState, now_ns: u64) -> u64 {
        endpoint.eject(EjectedFor::Row, now_ns, 100);
        assert!(endpoint.is_out(now_ns));
        (now_ns..).find(|&later_ns| !endpoint.is_out(later_ns)).unwrap()
    }

    #[test]
    fn ejections_grow_until_a_long_period_of_health() {
        let endpoint = endpoint();
        let mut now_ns = 10_000;
        for times in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10] {
            let until_ns = ejected_until(&endpoint, now_ns);
            assert_eq!(until_ns - now_ns, times * 100);
            assert_eq!(endpoint.age_ns(until_ns + 7), 7, "slow start begins after the ejection");
            now_ns = until_ns + 1_000;
        }
        assert_eq!(ejected_until(&endpoint, now_ns + 1) - (now_ns + 1), 100);
    }

    #[test]
    fn success_resets_consecutive_errors() {
        let endpoint = endpoint();
        let outcomes = [true, true, false, false, true].map(|is_error| endpoint.count_in_a_row(is_error));
        assert_eq!(outcomes, [1, 2, 0, 0, 1]);
        endpoint.set_failing(true, 5);
        assert!(endpoint.is_out(5) && endpoint.is_failing());
        endpoint.set_failing(false, 9);
        assert!(!endpoint.is_out(9));
        assert_eq!((endpoint.age_ns(9), endpoint.count_in_a_row(true)), (0, 1), "both restart");
    }

    /// Records this many outcomes, one every 10 ms. Every fourth is an error. Returns the result of the last one.
    fn each_fourth_fails(endpoint: &EndpointState, share: f64, outcomes: u64) -> Option<EjectedFor> {
        let share = ErrorShare { errors: Share(share), window: Time(Duration::from_secs(1)), requests: 40 };
        let ejection = Ejection { errors: 2, share: Some(share), ..Ejection::default() };
        let note = |turn: u64| endpoint.note(turn % 4 == 3, &ejection, turn * 10_000_000);
        (0..outcomes).map(note).last().flatten()
    }

    #[test]
    fn error_rate_ejects_without_consecutive_errors() {
        let check = |share: f64, outcomes: u64, expected: Option<EjectedFor>| {
            assert_eq!(each_fourth_fails(&endpoint(), share, outcomes), expected, "{share} {outcomes}");
        };
        check(0.25, 36, None);
        check(0.25, 40, Some(EjectedFor::Share));
        check(0.25, 41, None);
        check(0.25, 1_000, Some(EjectedFor::Share));
        check(0.26, 1_000, None);
    }

    #[test]
    fn ejection_resets_the_error_window() {
        let endpoint = endpoint();
        assert_eq!(each_fourth_fails(&endpoint, 0.25, 40), Some(EjectedFor::Share));
        endpoint.eject(EjectedFor::Share, 0, 1);
        assert_eq!(each_fourth_fails(&endpoint, 0.25, 36), None);
        assert_eq!(each_fourth_fails(&endpoint, 0.25, 40), Some(EjectedFor::Share), "76 in one window");
    }

    #[test]
    fn reported_state_follows_checks_and_requests() {
        let endpoint = endpoint();
        let check = |now_ns: u64, standing: Standing, since_ns: u64, until_ns: Option<u64>| {
            let report = endpoint.report(now_ns);
            assert_eq!((report.standing, report.since_ns, report.until_ns), (standing, since_ns, until_ns));
        };
        check(5, Standing::In, 3, None);
        endpoint.eject(EjectedFor::Share, 10, 100);
        check(10, Standing::Out(vec!["error_share"]), 10, Some(110));
        endpoint.set_failing(true, 20);
        endpoint.set_failing(true, 21);
        check(30, Standing::Out(vec!["health_check", "error_share"]), 10, Some(110));
        check(110, Standing::Out(vec!["health_check"]), 20, None);
        endpoint.set_failing(false, 200);
        check(200, Standing::In, 200, None);
        endpoint.eject(EjectedFor::Row, 300, 100);
        check(499, Standing::Out(vec!["errors_in_a_row"]), 300, Some(500));
        check(500, Standing::In, 500, None);
        endpoint.set_gone(true, 600);
        endpoint.set_gone(true, 700);
        check(800, Standing::Draining, 600, None);
        endpoint.set_gone(false, 900);
        check(900, Standing::In, 500, None);
        [None, Some("refused"), Some("timed out")]
            .into_iter()
            .for_each(|failure| endpoint.count_check(failure));
        let report = endpoint.report(900);
        assert_eq!((report.checks_passed, report.checks_failed, report.ejections), (1, 2, 2));
    }

    #[test]
    fn sums_the_counters_of_workers() {
        let endpoint = endpoint();
        let (first, second) = (endpoint.counters(), endpoint.counters());
        first.requests.add(3);
        first.ended.add(1);
        second.requests.add(1);
        second.errors.add(1);
        second.open.add(2);
        let report = endpoint.report(5);
        assert_eq!((report.requests, report.requests_in_flight), (4, 3));
        assert_eq!((report.errors, report.connections), (1, 2));
    }
}
