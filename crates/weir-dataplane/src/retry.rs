//! Retries.
//!
//! If a kept connection turns out to be closed before the first byte of the response, the request is sent once more
//! over a new connection. Metrics count this as a retry, but it needs neither `retries` nor the retry budget. All other
//! failures are retried only as the route's `retries` allow, only while the gateway holds the complete request, and
//! never after a part of a final response was sent to the client.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use weir_config::{BackendLimits, Retries, RetryOn};

use crate::backend_state::{BackendState, Permit};
use crate::cause::Cause;
use crate::io::Io;
use crate::request::Plan;
use crate::snapshot::Snapshot;
use crate::wheel::NEVER;

/// At most this many bytes of a request, headers and body, are held for a retry.
const REPLAY_BYTES_MAX: usize = 64 << 10;

/// The longest pause before a retry, as a multiple of the route's `backoff`.
const BACKOFF_GROWTH_MAX: u32 = 10;

/// The attempts of one request.
pub(crate) struct Tries<'s> {
    /// Whether the send buffer held the complete request before the first attempt. The buffer then stays unchanged.
    is_whole: bool,
    /// Boxed, so that exchanges without retries do not get larger.
    policy: Option<Box<Policy<'s>>>,
}

/// The route's retry settings, and the state of one request.
struct Policy<'s> {
    retries: &'s Retries,
    limits: &'s BackendLimits,
    backend: Arc<BackendState>,
    /// Whether the request is safe to repeat.
    is_idempotent: bool,
    made: Cell<u32>,
    /// Counts the request among the backend's retries in flight, from its first retry to its end.
    permit: RefCell<Option<Permit>>,
    /// Statuses of interim responses that were passed on, each with the attempt that returned it first.
    interim: RefCell<Vec<(u16, u32)>>,
    /// The bytes of a request that is still arriving. `None` once they exceed the limit, or if the request was complete
    /// at the first attempt.
    replay: RefCell<Option<Vec<u8>>>,
}

impl<'s> Tries<'s> {
    /// Prepares the attempts of the request in `plan`. `begun` holds the first bytes for the upstream, or the whole
    /// request if `is_whole`.
    #[inline]
    pub(crate) fn begin(
        plan: &Plan,
        snapshot: &'s Snapshot,
        io: Io<'_>,
        (begun, is_whole): (&[u8], bool),
    ) -> Tries<'s> {
        let of_route = || plan.filtered.as_deref()?.filters(snapshot).route.retries.as_deref();
        let policy = of_route().and_then(|retries| {
            let pool = snapshot.pool(plan.backend, &io.worker.shared.backends, io.worker.index)?;
            Some(Box::new(Policy {
                retries,
                limits: &snapshot.table.backends()[plan.backend].backend.limits,
                backend: Arc::clone(&pool.state),
                is_idempotent: plan.idempotent,
                made: Cell::new(0),
                permit: RefCell::default(),
                interim: RefCell::default(),
                replay: RefCell::new((!is_whole && begun.len() <= REPLAY_BYTES_MAX).then(|| begun.to_vec())),
            }))
        });
        Tries { is_whole, policy }
    }

    /// Records further bytes of a request that was incomplete at its first attempt, so that a retry can resend them.
    #[inline]
    pub(crate) fn take(&self, more: &[u8]) {
        let Some(policy) = &self.policy else { return };
        let mut replay = policy.replay.borrow_mut();
        match replay.as_mut() {
            Some(held) if held.len() + more.len() <= REPLAY_BYTES_MAX => held.extend_from_slice(more),
            _ => *replay = None,
        }
    }

    /// Whether the request, as far as received, can be sent again.
    pub(crate) fn is_held(&self) -> bool {
        self.is_whole || self.policy.as_ref().is_some_and(|policy| policy.replay.borrow().is_some())
    }

    /// Puts the held request into `out`.
    pub(crate) fn restore(&self, out: &mut Vec<u8>) {
        if let Some(policy) = &self.policy
            && let Some(replay) = &*policy.replay.borrow()
        {
            out.clear();
            out.extend_from_slice(replay);
        }
    }

    /// Whether to retry after an attempt that failed with this cause before any part of its response was sent.
    pub(crate) fn go_on_after(&self, cause: Cause) -> bool {
        let on = match cause {
            Cause::ConnectFailed | Cause::ConnectTimeout | Cause::UpstreamHandshake => RetryOn::Connect,
            Cause::UpstreamClosed => RetryOn::Reset,
            Cause::ResponseTimeout | Cause::UpstreamWriteTimeout | Cause::BackendTimeout => RetryOn::Timeout,
            _ => return false,
        };
        self.go_on(on)
    }

    /// Whether to retry instead of passing on a response with this status.
    #[inline]
    pub(crate) fn go_on_instead_of(&self, status: u16) -> bool {
        self.policy.is_some() && self.go_on(RetryOn::Status(status))
    }

    /// Whether to pass on an interim response with this status. It is skipped if an earlier attempt has returned this
    /// status.
    pub(crate) fn passes_interim(&self, status: u16) -> bool {
        let Some(policy) = &self.policy else { return true };
        let (made, mut known) = (policy.made.get(), policy.interim.borrow_mut());
        match known.iter().find(|(other, _)| *other == status) {
            Some((_, by)) => *by == made,
            None => {
                known.push((status, made));
                true
            }
        }
    }

    fn go_on(&self, on: RetryOn) -> bool {
        let Some(policy) = &self.policy else { return false };
        let is_harmless = on == RetryOn::Connect || policy.is_idempotent || policy.retries.non_idempotent;
        let may = policy.retries.on.contains(&on)
            && policy.made.get() < policy.retries.attempts
            && is_harmless
            && self.is_held();
        if may && !policy.has_place() {
            policy.backend.count_retry_over_budget();
            return false;
        }
        if may {
            policy.made.set(policy.made.get() + 1);
            policy.backend.count_retry();
        }
        may
    }

    /// Waits before the next attempt, at most until the request's time limit.
    pub(crate) async fn pause(&self, io: Io<'_>) -> Result<(), Cause> {
        let Some(policy) = &self.policy else { return Ok(()) };
        io.timer.arm(&io.worker.wheel, NEVER / 2);
        let mut pause = pin!(tokio::time::sleep(policy.backoff()));
        let waited = poll_fn(|cx| match pause.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Ok(())),
            Poll::Pending => io.poll_timeout(cx),
        });
        waited.await.map_err(|_| Cause::RequestTimeout)
    }
}

impl Policy<'_> {
    /// Whether the backend's retry budget allows a retry of this request. A request keeps its permit after the first
    /// retry.
    fn has_place(&self) -> bool {
        let mut permit = self.permit.borrow_mut();
        if permit.is_none() {
            *permit = self.backend.retry(self.limits);
        }
        permit.is_some()
    }

    /// The pause before a retry. Its length is random, so that requests that failed together are not retried together.
    fn backoff(&self) -> Duration {
        let growth = 1u32.checked_shl(self.made.get().saturating_sub(1)).unwrap_or(u32::MAX);
        self.retries.backoff.0.saturating_mul(growth.min(BACKOFF_GROWTH_MAX)).mul_f64(fastrand::f64())
    }
}
