//! Counters that only their worker writes, and anybody sums.
//!
//! An increment is a load and a store without a lock prefix: there is one writer. Each set stands on cache lines of
//! its own, so that workers and scrapes don't pull lines from each other.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::cause::Cause;

/// One number with one writer.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Only the owning worker may call this.
    #[inline]
    pub(crate) fn add(&self, amount: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    /// Only the owning worker may call this.
    #[inline]
    pub(crate) fn subtract(&self, amount: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_sub(amount), Ordering::Relaxed);
    }

    /// Only the owning worker may call this.
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What one worker counts at one listener.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct ListenerCounters {
    /// The listener's name.
    pub(crate) name: Box<str>,
    /// Requests whose head was read to its end, or refused.
    pub(crate) requests: Counter,
    /// Responses by the first digit of their status, from 1 (interim ones) to 5.
    pub(crate) by_class: [Counter; 5],
    /// By [`Cause::index`].
    pub(crate) by_cause: [Counter; Cause::ALL.len()],
    pub(crate) accepted: Counter,
    pub(crate) open: Counter,
    /// Accepted, and handed to another worker, which counts them as its own.
    pub(crate) handed: Counter,
    /// Connections that left HTTP for another protocol.
    pub(crate) upgraded: Counter,
    /// TLS handshakes that were finished.
    pub(crate) handshakes: Counter,
    /// Of these, those that resumed a session.
    pub(crate) handshakes_resumed: Counter,
    /// TLS handshakes that were not finished.
    pub(crate) handshakes_failed: Counter,
    /// Steps of handshakes that had to wait for a later turn.
    pub(crate) handshakes_delayed: Counter,
    /// Handshakes whose signature was made off the worker.
    pub(crate) handshakes_offloaded: Counter,
    /// Connections whose TLS was passed on.
    pub(crate) passed_on: Counter,
    /// Request fields that were dropped for their names.
    pub(crate) fields_dropped: Counter,
}

impl ListenerCounters {
    /// The counters of the listener called `name`.
    pub(crate) fn of(name: &str) -> ListenerCounters {
        ListenerCounters {
            name: name.into(),
            requests: Counter::default(),
            by_class: Default::default(),
            by_cause: std::array::from_fn(|_| Counter::default()),
            accepted: Counter::default(),
            open: Counter::default(),
            handed: Counter::default(),
            upgraded: Counter::default(),
            handshakes: Counter::default(),
            handshakes_resumed: Counter::default(),
            handshakes_failed: Counter::default(),
            handshakes_delayed: Counter::default(),
            handshakes_offloaded: Counter::default(),
            passed_on: Counter::default(),
            fields_dropped: Counter::default(),
        }
    }

    #[inline]
    pub(crate) fn response(&self, status: u16) {
        let class = usize::from(status / 100).clamp(1, 5);
        self.by_class[class - 1].add(1);
    }

    pub(crate) fn failure(&self, cause: Cause) {
        self.by_cause[cause.index()].add(1);
    }
}

/// What one worker counts of one endpoint.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct EndpointCounters {
    /// Requests that had a connection to it, each try of them.
    pub(crate) requests: Counter,
    /// Of these, those that are over.
    pub(crate) ended: Counter,
    /// What an ejection would count as errors, connections that were not made too.
    pub(crate) errors: Counter,
    /// Connections now.
    pub(crate) open: Counter,
}

impl EndpointCounters {
    /// Connections that no request has. Who is not the owner may find one too many or too few, for a moment.
    pub(crate) fn idle(&self) -> u64 {
        let ended = self.ended.value();
        let in_use = self.requests.value().saturating_sub(ended);
        self.open.value().saturating_sub(in_use)
    }
}

/// What one worker counts towards the upstreams.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct UpstreamCounters {
    /// TLS handshakes that were finished.
    pub(crate) handshakes: Counter,
    /// Of these, those that resumed a session.
    pub(crate) handshakes_resumed: Counter,
    /// Exchanges that found a kept connection.
    pub(crate) reused: Counter,
    /// Copies of requests begun for mirrors.
    pub(crate) copies: Counter,
    /// Of these, those that were not answered whole.
    pub(crate) copy_failures: Counter,
    /// Requests not copied for want of a place among the copies in flight.
    pub(crate) copies_crowded: Counter,
    /// Requests not copied for their length.
    pub(crate) copies_too_long: Counter,
    /// Lines of the access log that found no room in the queue.
    pub(crate) log_lines_dropped: Counter,
    /// Accepting paused for want of file descriptors.
    pub(crate) accept_pauses: Counter,
    /// Requests turned away for want of memory.
    pub(crate) shed_by_memory: Counter,
    /// Requests turned away as the worker was late.
    pub(crate) shed_by_lag: Counter,
    /// How late the worker's clock turned last.
    pub(crate) lag_ns: Counter,
    /// Connections that were open when the time to drain was over.
    pub(crate) cut_by_drain: Counter,
    /// The version of the table that the worker goes by.
    pub(crate) table_version: Counter,
}
