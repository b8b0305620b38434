//! The time limits of a route, enforced by the single deadline of a connection.

use std::cell::Cell;

use weir_config::RouteTimeouts;

use crate::cause::Cause;
use crate::io::Io;
use crate::snapshot::Snapshot;
use crate::wheel::{NEVER, ticks};

/// The time limits of one request and of each attempt. Most routes set neither.
#[derive(Debug)]
pub(crate) struct RouteLimits {
    /// The tick at which the request times out.
    request_by: u32,
    try_ticks: Option<u32>,
    /// The tick at which the current attempt times out.
    try_by: Cell<u32>,
    is_any: bool,
    /// The idle timeout of bodies in both directions, in ticks.
    pub(crate) body_ticks: u32,
}

impl RouteLimits {
    /// The limits of a request whose headers are complete.
    #[inline]
    pub(crate) fn of(timeouts: Option<&RouteTimeouts>, snapshot: &Snapshot, io: Io<'_>) -> RouteLimits {
        let now = io.worker.wheel.now();
        let request = timeouts.and_then(|timeouts| timeouts.request);
        let backend = timeouts.and_then(|timeouts| timeouts.backend);
        let body = timeouts.and_then(|timeouts| timeouts.body);
        RouteLimits {
            request_by: request.map_or(NEVER, |time| now + ticks(time.0)),
            try_ticks: backend.map(|time| ticks(time.0)),
            try_by: Cell::new(NEVER),
            is_any: timeouts.is_some(),
            body_ticks: body.map_or(snapshot.ticks.body, |time| ticks(time.0)),
        }
    }

    /// Starts an attempt: from now on, the time limits of the request and of the attempt bound the connection's
    /// deadline.
    #[inline]
    pub(crate) fn begin_try(&self, io: Io<'_>) {
        if self.is_any {
            let now = io.worker.wheel.now();
            self.try_by.set(self.try_ticks.map_or(NEVER, |ticks| now + ticks));
            io.timer.bound(&io.worker.wheel, self.request_by.min(self.try_by.get()));
        }
    }

    /// Starts a wait outside of attempts, in which only the time limit of the request applies.
    pub(crate) fn begin_pause(&self, io: Io<'_>) {
        if self.is_any {
            io.timer.bound(&io.worker.wheel, self.request_by);
        }
    }

    /// Removes the route's time limits from the connection's deadline.
    #[inline]
    pub(crate) fn lift(&self, io: Io<'_>) {
        if self.is_any {
            io.timer.bound(&io.worker.wheel, NEVER);
        }
    }

    /// Removes the limits after a failed attempt, and returns the cause to report. If `cause` is a timeout, and a time
    /// limit of the route has expired, the reported cause names this limit. `begun` is true if a part of the final
    /// response was sent.
    pub(crate) fn fail(&self, io: Io<'_>, cause: Cause, begun: bool) -> Cause {
        self.lift(io);
        let now = io.worker.wheel.now();
        match cause {
            // A part of an interim response may have been sent, so no other response can follow.
            Cause::ClientStalled if !begun => cause,
            _ if !cause.is_timeout() => cause,
            _ if io.worker.wheel.is_over() => Cause::Drained,
            _ if self.request_by <= now => Cause::RequestTimeout,
            _ if self.try_by.get() <= now => Cause::BackendTimeout,
            _ => cause,
        }
    }
}
