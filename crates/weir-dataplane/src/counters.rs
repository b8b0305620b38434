//! Counters with one writing worker and any number of readers.
//!
//! With one writer, an increment is a load and a store without a lock prefix. Each set of counters is aligned to
//! separate cache lines, so that workers and scrapes do not invalidate each other's lines.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::cause::Cause;

/// A counter with one writer.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds `amount`. Only the owning worker may call this.
    #[inline]
    pub(crate) fn add(&self, amount: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    /// Subtracts `amount`. Only the owning worker may call this.
    #[inline]
    pub(crate) fn subtract(&self, amount: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_sub(amount), Ordering::Relaxed);
    }

    /// Replaces the value. Only the owning worker may call this.
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters of one worker for one listener.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct ListenerCounters {
    /// The listener's name.
    pub(crate) name: Box<str>,
    /// Requests with complete or rejected headers.
    pub(crate) requests: Counter,
    /// Responses by status class, from 1xx to 5xx.
    pub(crate) by_class: [Counter; 5],
    /// Failures, by [`Cause::index`].
    pub(crate) by_cause: [Counter; Cause::ALL.len()],
    pub(crate) accepted: Counter,
    pub(crate) open: Counter,
    /// Accepted connections that were handed to another worker, which then counts them.
    pub(crate) handed: Counter,
    /// Connections upgraded to another protocol.
    pub(crate) upgraded: Counter,
    /// Completed TLS handshakes.
    pub(crate) handshakes: Counter,
    /// Completed TLS handshakes that resumed a session.
    pub(crate) handshakes_resumed: Counter,
    /// Failed TLS handshakes.
    pub(crate) handshakes_failed: Counter,
    /// Handshake steps that were delayed to a later iteration of the worker's event loop.
    pub(crate) handshakes_delayed: Counter,
    /// Handshakes whose signature was computed on another thread.
    pub(crate) handshakes_offloaded: Counter,
    /// Connections with TLS passthrough.
    pub(crate) passed_on: Counter,
    /// Request header fields that were dropped because of their names.
    pub(crate) fields_dropped: Counter,
}

impl ListenerCounters {
    /// Counters for the listener `name`.
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

/// Counters of one worker for one endpoint.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct EndpointCounters {
    /// Request attempts that got a connection.
    pub(crate) requests: Counter,
    /// Ended request attempts.
    pub(crate) ended: Counter,
    /// Errors as ejection counts them, including failed connection attempts.
    pub(crate) errors: Counter,
    /// Open connections.
    pub(crate) open: Counter,
}

impl EndpointCounters {
    /// Idle connections. Threads other than the owner may briefly read one too many or too few.
    pub(crate) fn idle(&self) -> u64 {
        let ended = self.ended.value();
        let in_use = self.requests.value().saturating_sub(ended);
        self.open.value().saturating_sub(in_use)
    }
}

/// Counters of one worker, mostly for upstreams.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct UpstreamCounters {
    /// Completed TLS handshakes.
    pub(crate) handshakes: Counter,
    /// Completed TLS handshakes that resumed a session.
    pub(crate) handshakes_resumed: Counter,
    /// Exchanges that reused a kept connection.
    pub(crate) reused: Counter,
    /// Mirrored requests.
    pub(crate) copies: Counter,
    /// Mirrored requests without a complete response.
    pub(crate) copy_failures: Counter,
    /// Requests not mirrored because too many mirrored requests were in flight.
    pub(crate) copies_crowded: Counter,
    /// Requests not mirrored because they were too long.
    pub(crate) copies_too_long: Counter,
    /// Access log lines dropped because the queue was full.
    pub(crate) log_lines_dropped: Counter,
    /// How often the worker paused accepting clients because no file descriptor was free.
    pub(crate) accept_pauses: Counter,
    /// Requests shed because of memory use.
    pub(crate) shed_by_memory: Counter,
    /// Requests shed because of the worker's lag.
    pub(crate) shed_by_lag: Counter,
    /// Delay of the worker's last clock tick in nanoseconds.
    pub(crate) lag_ns: Counter,
    /// Connections still open at the drain timeout.
    pub(crate) cut_by_drain: Counter,
    /// Version of the table that the worker uses.
    pub(crate) table_version: Counter,
}
