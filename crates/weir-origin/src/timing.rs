//! Computes when responses are due: after a delay or a queue, with drift and stalls.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use weir_document::{DELAY_MAX, Drift, Stall};

use crate::OriginSpec;

mod draw;
mod queue;

use draw::Draws;
use queue::Queue;
pub use queue::QueueWaits;

/// When the responses of an origin are due. All workers use the same object. Requests are numbered in the order of
/// arrival.
#[derive(Debug)]
pub(crate) struct Timing {
    wait: Wait,
    drift: Option<Growth>,
    stall: Option<Stalls>,
}

/// What delays a response.
#[derive(Debug)]
enum Wait {
    Delay {
        draws: Draws,
        numbered: AtomicU64,
    },
    /// A queue. One lock protects the request number and the queue, so that requests enter the queue in the order of
    /// their numbers.
    Service(Mutex<Servers>),
}

#[derive(Debug)]
struct Servers {
    draws: Draws,
    numbered: u64,
    queue: Queue,
}

/// An additional delay that grows steadily from the start of the origin.
#[derive(Clone, Copy, Debug)]
struct Growth {
    start_ns: u64,
    by_ns: u64,
    every_ns: u64,
}

/// Periodic stalls, beginning at the start of the origin.
#[derive(Clone, Copy, Debug)]
struct Stalls {
    start_ns: u64,
    stopped_ns: u64,
    every_ns: u64,
}

impl Timing {
    /// The timing for a specification. Returns `None` if all responses are due immediately.
    pub(crate) fn of(spec: &OriginSpec, start_ns: u64) -> Option<Self> {
        let drift = spec.drift.map(|drift| Growth::new(drift, start_ns));
        let stall = spec.stall.map(|stall| Stalls::new(stall, start_ns));
        let wait = match spec.service {
            Some(service) => Wait::Service(Mutex::new(Servers {
                draws: Draws::new(service.time, spec.seed),
                numbered: 0,
                queue: Queue::new(service.servers),
            })),
            None if !spec.is_timed() => return None,
            None => Wait::Delay { draws: Draws::new(spec.delay, spec.seed), numbered: AtomicU64::new(0) },
        };
        Some(Self { wait, drift, stall })
    }

    /// Returns when the response to the next request is due. This is never before `arrived_ns`.
    pub(crate) fn due_ns(&self, arrived_ns: u64) -> u64 {
        let due_ns = match &self.wait {
            Wait::Delay { draws, numbered } => {
                arrived_ns.saturating_add(draws.ns(numbered.fetch_add(1, Ordering::Relaxed)))
            }
            Wait::Service(servers) => {
                // The queue is consistent after every call, so it can be used even if another thread has panicked.
                let mut servers = servers.lock().unwrap_or_else(PoisonError::into_inner);
                let service_ns = servers.draws.ns(servers.numbered);
                servers.numbered += 1;
                servers.queue.enter(arrived_ns, service_ns).end_ns
            }
        };
        let later_ns = self.drift.map_or(0, |drift| drift.ns(arrived_ns));
        let due_ns = due_ns.saturating_add(later_ns);
        self.stall.map_or(due_ns, |stall| stall.release_ns(due_ns))
    }

    /// Returns how long requests waited in the queue; `None` without a queue.
    pub(crate) fn waits(&self) -> Option<QueueWaits> {
        match &self.wait {
            Wait::Delay { .. } => None,
            Wait::Service(servers) => {
                Some(servers.lock().unwrap_or_else(PoisonError::into_inner).queue.waits())
            }
        }
    }
}

impl Growth {
    fn new(drift: Drift, start_ns: u64) -> Self {
        // The types limit both times to an hour, so they fit into `u64`.
        Self { start_ns, by_ns: drift.by.0.as_nanos() as u64, every_ns: drift.every.0.as_nanos() as u64 }
    }

    /// Returns the additional delay of a request that arrived at `arrived_ns`. It never exceeds the maximum of a
    /// delay.
    fn ns(&self, arrived_ns: u64) -> u64 {
        let since_ns = u128::from(arrived_ns.saturating_sub(self.start_ns));
        let grown_ns = since_ns * u128::from(self.by_ns) / u128::from(self.every_ns);
        grown_ns.min(DELAY_MAX.as_nanos()) as u64
    }
}

impl Stalls {
    fn new(stall: Stall, start_ns: u64) -> Self {
        // The types limit both times to an hour, so they fit into `u64`.
        Self {
            start_ns,
            stopped_ns: stall.stopped.0.as_nanos() as u64,
            every_ns: stall.every.0.as_nanos() as u64,
        }
    }

    /// Returns when a response that is due at `due_ns` is sent: at that time, or at the end of the stall that
    /// includes it.
    fn release_ns(&self, due_ns: u64) -> u64 {
        let into_ns = due_ns.saturating_sub(self.start_ns) % self.every_ns;
        due_ns.saturating_add(self.stopped_ns.saturating_sub(into_ns))
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;
    use crate::ServiceSpec;

    fn spec() -> OriginSpec {
        OriginSpec::at(([127, 0, 0, 1], 0).into())
    }

    /// Checks the due times of the responses to requests that arrive at these times.
    #[track_caller]
    fn check(spec: &OriginSpec, start_ns: u64, arrivals_ns: &[u64], expected_ns: &[u64]) {
        let timing = Timing::of(spec, start_ns).unwrap();
        let due_ns: Vec<u64> = arrivals_ns.iter().map(|arrived_ns| timing.due_ns(*arrived_ns)).collect();
        assert_eq!(due_ns, expected_ns);
    }

    #[test]
    fn a_plain_origin_has_no_timing() {
        assert!(Timing::of(&spec(), 0).is_none());
        assert!(Timing::of(&OriginSpec { delay: "const:0s".parse().unwrap(), ..spec() }, 0).is_none());
    }

    #[test]
    fn a_response_due_in_a_stall_is_sent_at_its_end() {
        let stalled = OriginSpec { stall: Some("200ns/1us".parse().unwrap()), ..spec() };
        check(
            &stalled,
            5_000,
            &[5_000, 5_199, 5_200, 5_201, 5_999, 6_000, 6_100, 6_200, 9_000_005_150],
            &[5_200, 5_200, 5_200, 5_201, 5_999, 6_200, 6_200, 6_200, 9_000_005_200],
        );
        let delayed = OriginSpec { delay: "const:900ns".parse().unwrap(), ..stalled };
        check(&delayed, 0, &[200, 299, 300, 1_200], &[1_200, 1_200, 1_200, 2_200]);
    }

    #[test]
    fn a_drift_is_added_to_delay_and_service_up_to_an_hour() {
        let drift = Some("2ns/10ns".parse().unwrap());
        let drifting = OriginSpec { drift, ..spec() };
        check(&drifting, 1_000, &[0, 1_000, 1_004, 1_005, 1_100], &[0, 1_000, 1_004, 1_006, 1_120]);
        let delayed = OriginSpec { delay: "const:10ns".parse().unwrap(), ..drifting.clone() };
        check(&delayed, 0, &[0, 50], &[10, 70]);
        let service = ServiceSpec { time: "const:10ns".parse().unwrap(), servers: NonZeroUsize::MIN };
        check(&OriginSpec { service: Some(service), ..drifting.clone() }, 0, &[50, 50], &[70, 80]);
        // A response that is due during a stall is sent at the end of the stall.
        let stalled = OriginSpec { stall: Some("200ns/1us".parse().unwrap()), ..drifting.clone() };
        check(&stalled, 0, &[900], &[1_200]);
        const HOUR_NS: u64 = 3_600_000_000_000;
        check(&drifting, 0, &[5 * HOUR_NS, 100 * HOUR_NS], &[6 * HOUR_NS, 101 * HOUR_NS]);
    }

    #[test]
    fn service_queues_and_delay_does_not() {
        let delayed = OriginSpec { delay: "const:10ns".parse().unwrap(), ..spec() };
        check(&delayed, 0, &[5, 5, 6], &[15, 15, 16]);
        let service = ServiceSpec { time: "const:10ns".parse().unwrap(), servers: NonZeroUsize::MIN };
        let served = OriginSpec { service: Some(service), ..spec() };
        check(&served, 0, &[5, 5, 6, 100], &[15, 25, 35, 110]);
        let timing = Timing::of(&served, 0).unwrap();
        timing.due_ns(5);
        timing.due_ns(5);
        assert_eq!(timing.waits(), Some(QueueWaits { entered: 2, wait_mean_ns: 5, wait_max_ns: 10 }));
        assert!(Timing::of(&delayed, 0).unwrap().waits().is_none());
    }

    #[test]
    fn the_same_seed_gives_the_same_times() {
        let with_seed = |seed| OriginSpec { delay: "exp:1ms".parse().unwrap(), seed, ..spec() };
        let of = |seed| {
            let timing = Timing::of(&with_seed(seed), 0).unwrap();
            (0..100).map(|_| timing.due_ns(0)).collect::<Vec<u64>>()
        };
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
    }
}
