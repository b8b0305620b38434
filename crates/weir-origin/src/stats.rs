//! The counters of an origin. Each worker has its own set, which only this worker writes. The statistics are the
//! sums of all sets.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use crate::timing::{QueueWaits, Timing};

mod delays;

pub use delays::GivenDelays;
use delays::Recorder;

/// Every status that an origin can send.
const STATUSES: [u16; 9] = [200, 400, 404, 414, 417, 431, 500, 501, 505];

/// What an origin has done since it started. Requests to `/__weir/` are not counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Stats {
    /// Requests with complete and well-formed headers, counted at the end of the headers.
    pub requests: u64,
    /// Complete responses passed to the kernel, including those to malformed requests.
    pub responses: u64,
    /// Bytes of response headers and bodies passed to the kernel. For HTTP/2, only the bodies are counted.
    pub bytes_sent: u64,
    /// Responses by status. Their sum is `responses`.
    pub by_status: BTreeMap<u16, u64>,
    /// The actual delays of responses. Missing if no response was delayed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delays: Option<GivenDelays>,
    /// How long requests waited for a free server. Missing if the specification has no service time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueWaits>,
    /// The injected faults. Missing if there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faults: Option<Faults>,
    /// TLS handshakes. Missing if there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Handshakes>,
}

/// Counts of injected faults. Responses with status 500 are counted in [`Stats::by_status`] instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Faults {
    /// Connections or streams that were reset instead of getting a response.
    pub resets: u64,
    /// Responses that ended after half of the body.
    pub half: u64,
    /// Responses that were sent slowly. They are also counted as responses.
    pub slow: u64,
    /// HTTP/2 streams that were refused.
    pub refused: u64,
    /// Connections that got a GOAWAY.
    pub goaways: u64,
    /// Requests that never got a response.
    pub silent: u64,
}

/// Counts of TLS handshakes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Handshakes {
    /// Completed handshakes.
    pub done: u64,
    /// Completed handshakes that resumed a session.
    pub resumed: u64,
    /// Failed handshakes: closed early, rejected by either side, or not TLS.
    pub failed: u64,
}

/// Events that are counted and have no other data.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Reset,
    Half,
    Slow,
    Refused,
    GoAway,
    Silent,
    Handshake,
    Resumed,
    HandshakeFailed,
}

const EVENTS: usize = 9;

/// One worker's counters, on their own cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    requests: AtomicU64,
    bytes_sent: AtomicU64,
    by_status: [AtomicU64; STATUSES.len()],
    events: [AtomicU64; EVENTS],
    /// Empty until the first response is delayed.
    delays: OnceLock<Recorder>,
}

impl Counters {
    #[inline]
    pub(crate) fn request(&self) {
        add(&self.requests, 1);
    }

    /// Counts a response just before its last bytes are written. So everything that a client has received is
    /// already counted.
    #[inline]
    pub(crate) fn response(&self, status: u16) {
        add(&self.by_status[slot(status)], 1);
    }

    /// Reverts the count of a response whose last bytes could not be written.
    pub(crate) fn response_failed(&self, status: u16) {
        add(&self.by_status[slot(status)], 1_u64.wrapping_neg());
    }

    /// Counts bytes just before they are written.
    #[inline]
    pub(crate) fn sent(&self, bytes: usize) {
        add(&self.bytes_sent, bytes as u64);
    }

    /// Reverts [`Self::sent`] for bytes that could not be written.
    pub(crate) fn not_sent(&self, bytes: usize) {
        add(&self.bytes_sent, (bytes as u64).wrapping_neg());
    }

    pub(crate) fn event(&self, event: Event) {
        add(&self.events[event as usize], 1);
    }

    /// Records the delay of a response just before its first byte is written.
    pub(crate) fn delayed(&self, ns: u64) {
        self.delays.get_or_init(Recorder::new).record(ns);
    }
}

impl Stats {
    pub(crate) fn of(workers: &[Counters], timing: Option<&Timing>) -> Self {
        let sum = |pick: fn(&Counters) -> &AtomicU64| -> u64 {
            workers.iter().map(|counters| pick(counters).load(Ordering::Relaxed)).sum()
        };
        let event = |event: Event| -> u64 {
            workers.iter().map(|worker| worker.events[event as usize].load(Ordering::Relaxed)).sum()
        };
        let by_status: BTreeMap<u16, u64> = STATUSES
            .iter()
            .enumerate()
            .map(|(slot, status)| {
                (*status, workers.iter().map(|worker| worker.by_status[slot].load(Ordering::Relaxed)).sum())
            })
            .filter(|(_, count)| *count > 0)
            .collect();
        let faults = Faults {
            resets: event(Event::Reset),
            half: event(Event::Half),
            slow: event(Event::Slow),
            refused: event(Event::Refused),
            goaways: event(Event::GoAway),
            silent: event(Event::Silent),
        };
        let tls = Handshakes {
            done: event(Event::Handshake),
            resumed: event(Event::Resumed),
            failed: event(Event::HandshakeFailed),
        };
        Self {
            requests: sum(|counters| &counters.requests),
            responses: by_status.values().sum(),
            bytes_sent: sum(|counters| &counters.bytes_sent),
            by_status,
            delays: GivenDelays::of(workers.iter().filter_map(|counters| counters.delays.get())),
            queue: timing.and_then(Timing::waits),
            faults: (faults != Faults::default()).then_some(faults),
            tls: (tls != Handshakes::default()).then_some(tls),
        }
    }
}

/// Adds to a counter. Only one worker writes it, so no atomic addition is needed.
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
    fn counters_of_all_workers_are_summed() {
        let workers: Vec<Counters> = (0..3).map(|_| Counters::default()).collect();
        for (index, worker) in workers.iter().enumerate() {
            for _ in 0..=index {
                worker.request();
                worker.response(200);
                worker.sent(100);
                worker.delayed(10 * (index as u64 + 1));
                worker.event(Event::Slow);
            }
        }
        workers[0].response(500);
        workers[1].response(500);
        workers[1].response_failed(500);
        workers[2].event(Event::HandshakeFailed);
        let stats = Stats::of(&workers, None);
        assert_eq!((stats.requests, stats.responses, stats.bytes_sent), (6, 7, 600));
        assert_eq!(stats.by_status, BTreeMap::from([(200, 6), (500, 1)]));
        assert_eq!(stats.faults, Some(Faults { slow: 6, ..Faults::default() }));
        assert_eq!(stats.tls, Some(Handshakes { failed: 1, ..Handshakes::default() }));
        let delays = stats.delays.unwrap();
        assert_eq!((delays.count, delays.mean_ns, delays.min_ns, delays.max_ns), (6, 140 / 6, 10, 30));
    }

    #[test]
    fn json_of_a_plain_origin_has_four_fields() {
        let json = serde_json::to_string(&Stats::of(&[], None)).unwrap();
        assert_eq!(json, r#"{"requests":0,"responses":0,"bytes_sent":0,"by_status":{}}"#);
    }
}
