//! Counters: one set per worker, written by it alone, summed on demand.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// Every status that an origin answers with.
const STATUSES: [u16; 9] = [200, 400, 404, 414, 417, 431, 500, 501, 505];

/// What an origin has done since it started. Requests to `/__weir/` are in none of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Whole, well-formed request heads.
    pub requests: u64,
    /// Whole responses handed to the kernel, with those to malformed requests.
    pub responses: u64,
    /// Bytes of responses, heads and bodies, handed to the kernel.
    pub bytes_sent: u64,
    /// Responses by status; together they are `responses`.
    pub by_status: BTreeMap<u16, u64>,
    /// The delays that were really given; only where one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delays: Option<GivenDelays>,
}

/// From the whole request to the write of its answer, as it really was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GivenDelays {
    /// How many answers waited.
    pub count: u64,
    /// Their mean, nanoseconds.
    pub mean_ns: u64,
    /// The shortest, nanoseconds.
    pub min_ns: u64,
    /// The longest, nanoseconds.
    pub max_ns: u64,
}

/// One worker's counters, apart from those of others in the CPUs' caches.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    requests: AtomicU64,
    bytes_sent: AtomicU64,
    by_status: [AtomicU64; STATUSES.len()],
    delays: AtomicU64,
    delay_sum_ns: AtomicU64,
    /// The shortest delay's complement, so that 0 stands for none as in all the others.
    delay_min_ns_not: AtomicU64,
    delay_max_ns: AtomicU64,
}

impl Counters {
    #[inline]
    pub(crate) fn request(&self) {
        add(&self.requests, 1);
    }

    /// A response whose last bytes are about to be written: what a client has seen has been counted.
    #[inline]
    pub(crate) fn response(&self, status: u16) {
        add(&self.by_status[slot(status)], 1);
    }

    /// Those bytes could not be written after all.
    pub(crate) fn response_failed(&self, status: u16) {
        add(&self.by_status[slot(status)], 1_u64.wrapping_neg());
    }

    /// Bytes that are about to be written.
    #[inline]
    pub(crate) fn sent(&self, bytes: usize) {
        add(&self.bytes_sent, bytes as u64);
    }

    /// They could not be.
    pub(crate) fn not_sent(&self, bytes: usize) {
        add(&self.bytes_sent, (bytes as u64).wrapping_neg());
    }

    pub(crate) fn delayed(&self, ns: u64) {
        add(&self.delays, 1);
        add(&self.delay_sum_ns, ns);
        self.delay_min_ns_not.fetch_max(!ns, Ordering::Relaxed);
        self.delay_max_ns.fetch_max(ns, Ordering::Relaxed);
    }
}

impl Stats {
    pub(crate) fn of(workers: &[Arc<Counters>]) -> Self {
        let sum = |pick: fn(&Counters) -> &AtomicU64| -> u64 {
            workers.iter().map(|counters| pick(counters).load(Ordering::Relaxed)).sum()
        };
        let largest = |pick: fn(&Counters) -> &AtomicU64| -> u64 {
            workers.iter().map(|counters| pick(counters).load(Ordering::Relaxed)).max().unwrap_or(0)
        };
        let by_status: BTreeMap<u16, u64> = STATUSES
            .iter()
            .enumerate()
            .map(|(slot, status)| {
                (*status, workers.iter().map(|worker| worker.by_status[slot].load(Ordering::Relaxed)).sum())
            })
            .filter(|(_, count)| *count > 0)
            .collect();
        let count = sum(|counters| &counters.delays);
        let delays = (count > 0).then(|| GivenDelays {
            count,
            mean_ns: sum(|counters| &counters.delay_sum_ns) / count,
            min_ns: !largest(|counters| &counters.delay_min_ns_not),
            max_ns: largest(|counters| &counters.delay_max_ns),
        });
        Self {
            requests: sum(|counters| &counters.requests),
            responses: by_status.values().sum(),
            bytes_sent: sum(|counters| &counters.bytes_sent),
            by_status,
            delays,
        }
    }
}

/// Only the worker itself writes, so a plain addition will do, and no locked instruction is needed.
#[inline]
fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

#[inline]
fn slot(status: u16) -> usize {
    let found = STATUSES.iter().position(|known| *known == status);
    debug_assert!(found.is_some(), "status {status} has no counter");
    found.unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_summed() {
        let workers: Vec<Arc<Counters>> = (0..3).map(|_| Arc::default()).collect();
        for (index, worker) in workers.iter().enumerate() {
            for _ in 0..=index {
                worker.request();
                worker.response(200);
                worker.sent(100);
                worker.delayed(10 * (index as u64 + 1));
            }
        }
        workers[0].response(500);
        workers[1].response(500);
        workers[1].response_failed(500);
        let stats = Stats::of(&workers);
        assert_eq!((stats.requests, stats.responses, stats.bytes_sent), (6, 7, 600));
        assert_eq!(stats.by_status, BTreeMap::from([(200, 6), (500, 1)]));
        let delays = GivenDelays { count: 6, mean_ns: 140 / 6, min_ns: 10, max_ns: 30 };
        assert_eq!(stats.delays, Some(delays));
    }

    #[test]
    fn without_delays_the_json_has_four_fields() {
        let json = serde_json::to_string(&Stats::of(&[])).unwrap();
        assert_eq!(json, r#"{"requests":0,"responses":0,"bytes_sent":0,"by_status":{}}"#);
    }
}
