//! What all workers know together of an endpoint.
//!
//! ```text
//!            checks fail (health.rs)               errors in a row (BackendState::report)
//! failing <--------------------------> in <--------------------------> ejected
//!            checks are good again                 its time is over
//! ```
//! It may be both failing and ejected, and takes requests when it is neither.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The longest time for which an endpoint is ejected, in those of the first time.
const EJECTIONS_MAX: u32 = 10;

/// What is known of one endpoint. It stands on cache lines of its own, as every worker may write it. Times are those of
/// the monotonic clock.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct EndpointState {
    pub(crate) address: SocketAddr,
    /// Requests in flight, where the backend is balanced by them.
    requests: AtomicU32,
    /// Errors in a row.
    errors: AtomicU32,
    /// Checks have taken it out.
    is_failing: AtomicBool,
    ejected_until_ns: AtomicU64,
    /// How often it was ejected without a long good time between.
    ejections: AtomicU32,
    /// Since when it takes requests; 0 for one that was there from the beginning.
    since_ns: AtomicU64,
}

/// A request in flight at an endpoint, until it is dropped.
#[derive(Debug)]
pub(crate) struct InFlight(Arc<EndpointState>);

impl EndpointState {
    /// One that takes requests since then.
    pub(crate) fn new(address: SocketAddr, since_ns: u64) -> EndpointState {
        EndpointState {
            address,
            requests: AtomicU32::default(),
            errors: AtomicU32::default(),
            is_failing: AtomicBool::default(),
            ejected_until_ns: AtomicU64::default(),
            ejections: AtomicU32::default(),
            since_ns: AtomicU64::new(since_ns),
        }
    }

    /// Requests in flight.
    pub(crate) fn requests(&self) -> u32 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Counts one more until the outcome is dropped.
    pub(crate) fn enter(self: &Arc<Self>) -> InFlight {
        self.requests.fetch_add(1, Ordering::Relaxed);
        InFlight(Arc::clone(self))
    }

    /// For how long it has taken requests; for ever where it was there from the beginning, however young the clock is.
    pub(crate) fn age_ns(&self, now_ns: u64) -> u64 {
        match self.since_ns.load(Ordering::Relaxed) {
            0 => u64::MAX,
            since_ns => now_ns.saturating_sub(since_ns),
        }
    }

    /// Whether it is to get no requests.
    pub(crate) fn is_out(&self, now_ns: u64) -> bool {
        self.is_failing.load(Ordering::Relaxed) || self.ejected_until_ns.load(Ordering::Relaxed) > now_ns
    }

    /// Whether checks have taken it out.
    pub(crate) fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed)
    }

    /// Takes what checks have found in.
    pub(crate) fn set_failing(&self, is_failing: bool, now_ns: u64) {
        let was_failing = self.is_failing.swap(is_failing, Ordering::Relaxed);
        if was_failing && !is_failing {
            self.errors.store(0, Ordering::Relaxed);
            self.since_ns.store(now_ns, Ordering::Relaxed);
        }
    }

    /// Takes what a request has come to in; how many errors in a row that makes.
    pub(crate) fn note(&self, is_error: bool) -> u32 {
        if is_error {
            return self.errors.fetch_add(1, Ordering::Relaxed) + 1;
        }
        // Where all goes well, as nearly always, nobody writes.
        if self.errors.load(Ordering::Relaxed) > 0 {
            self.errors.store(0, Ordering::Relaxed);
        }
        0
    }

    /// Takes it out for a while, each time for longer. Only one at a time may do so.
    pub(crate) fn eject(&self, now_ns: u64, base_ns: u64) {
        let longest_ns = base_ns.saturating_mul(u64::from(EJECTIONS_MAX));
        let good_ns = now_ns.saturating_sub(self.ejected_until_ns.load(Ordering::Relaxed));
        let before = if good_ns > longest_ns { 0 } else { self.ejections.load(Ordering::Relaxed) };
        let ejections = (before + 1).min(EJECTIONS_MAX);
        let until_ns = now_ns.saturating_add(base_ns.saturating_mul(u64::from(ejections)));
        self.ejections.store(ejections, Ordering::Relaxed);
        self.errors.store(0, Ordering::Relaxed);
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
    use super::*;

    fn endpoint() -> EndpointState {
        EndpointState::new(SocketAddr::from(([127, 0, 0, 1], 1)), 0)
    }

    /// The end of a time that begins at `now_ns`.
    fn ejected_until(endpoint: &EndpointState, now_ns: u64) -> u64 {
        endpoint.eject(now_ns, 100);
        assert!(endpoint.is_out(now_ns));
        (now_ns..).find(|&later_ns| !endpoint.is_out(later_ns)).unwrap()
    }

    #[test]
    fn an_ejection_grows_until_all_was_well_for_long() {
        let endpoint = endpoint();
        let mut now_ns = 10_000;
        for times in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10] {
            let until_ns = ejected_until(&endpoint, now_ns);
            assert_eq!(until_ns - now_ns, times * 100);
            assert_eq!(endpoint.age_ns(until_ns + 7), 7, "from there on it begins slowly");
            now_ns = until_ns + 1_000;
        }
        assert_eq!(ejected_until(&endpoint, now_ns + 1) - (now_ns + 1), 100);
    }

    #[test]
    fn a_good_outcome_ends_the_row_of_errors() {
        let endpoint = endpoint();
        let outcomes = [true, true, false, false, true].map(|is_error| endpoint.note(is_error));
        assert_eq!(outcomes, [1, 2, 0, 0, 1]);
        endpoint.set_failing(true, 5);
        assert!(endpoint.is_out(5) && endpoint.is_failing());
        endpoint.set_failing(false, 9);
        assert!(!endpoint.is_out(9));
        assert_eq!((endpoint.age_ns(9), endpoint.note(true)), (0, 1), "it begins anew");
    }
}
