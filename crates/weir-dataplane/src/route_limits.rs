//! The time limits of a route, kept by the one deadline that a connection has.

use std::cell::Cell;

use weir_config::RouteTimeouts;

use crate::cause::Cause;
use crate::io::Io;
use crate::snapshot::Snapshot;
use crate::wheel::{NEVER, ticks};

/// The time that one request has, and each of its tries; most routes bound neither.
#[derive(Debug)]
pub(crate) struct RouteLimits {
    /// The tick at which the request's time is over.
    request_by: u32,
    try_ticks: Option<u32>,
    /// The tick at which the time of the try in progress is over.
    try_by: Cell<u32>,
    is_any: bool,
    /// How long nothing of a body may come, in either direction.
    pub(crate) body_ticks: u32,
}

impl RouteLimits {
    /// The limits of a request whose head has just come.
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

    /// From here on everything that the connection waits for ends with these limits.
    #[inline]
    pub(crate) fn begin_try(&self, io: Io<'_>) {
        if self.is_any {
            let now = io.worker.wheel.now();
            self.try_by.set(self.try_ticks.map_or(NEVER, |ticks| now + ticks));
            io.timer.bound(&io.worker.wheel, self.request_by.min(self.try_by.get()));
        }
    }

    /// From here on only the request's own limit bounds what is waited for.
    pub(crate) fn begin_pause(&self, io: Io<'_>) {
        if self.is_any {
            io.timer.bound(&io.worker.wheel, self.request_by);
        }
    }

    /// From here on they bound nothing.
    #[inline]
    pub(crate) fn lift(&self, io: Io<'_>) {
        if self.is_any {
            io.timer.bound(&io.worker.wheel, NEVER);
        }
    }

    /// Lifts the limits of a try that has failed, and gives the cause that is told: a timeout that they brought about is
    /// theirs. `begun` says whether some of the final response has left.
    pub(crate) fn fail(&self, io: Io<'_>, cause: Cause, begun: bool) -> Cause {
        self.lift(io);
        let now = io.worker.wheel.now();
        match cause {
            // A part of an interim response may have left, and no answer could follow that.
            Cause::ClientStalled if !begun => cause,
            _ if !cause.is_timeout() => cause,
            _ if io.worker.wheel.is_over() => Cause::Drained,
            _ if self.request_by <= now => Cause::RequestTimeout,
            _ if self.try_by.get() <= now => Cause::BackendTimeout,
            _ => cause,
        }
    }
}
