//! Requests that are sent again.
//!
//! A kept connection that turns out closed before a byte of the response costs nothing: the request goes over a fresh
//! one, once. Whatever else fails is sent again only as the route wants it, while all of the request is still held, and
//! never once some of a final response has left for the client.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use weir_config::{BackendLimits, Retries, RetryOn};

use crate::backend_state::{BackendState, Place};
use crate::cause::Cause;
use crate::io::Io;
use crate::request::Plan;
use crate::snapshot::Snapshot;
use crate::wheel::NEVER;

/// Bytes of a request, head and body, that are held so that it can be sent again.
const REPLAY_BYTES_MAX: usize = 64 << 10;

/// The longest pause before a retry, in those before the first.
const BACKOFF_GROWTH_MAX: u32 = 10;

/// The tries of one request.
pub(crate) struct Tries<'s> {
    /// All of the request stands in the buffer that is sent, which stays as it is.
    is_whole: bool,
    /// Boxed, so that exchanges of routes without a policy are no larger for it.
    policy: Option<Box<Policy<'s>>>,
}

/// What the route wants, and what is left of it.
struct Policy<'s> {
    retries: &'s Retries,
    limits: &'s BackendLimits,
    backend: Arc<BackendState>,
    /// Nothing is lost by acting twice.
    is_idempotent: bool,
    made: Cell<u32>,
    /// Among the backend's retries in flight, from the first retry to the end of the request.
    place: RefCell<Option<Place>>,
    /// Statuses of interim responses that were passed on, with the try that brought each first.
    interim: RefCell<Vec<(u16, u32)>>,
    /// What has passed of a request that is still coming; `None` once it is too long.
    replay: RefCell<Option<Vec<u8>>>,
}

impl<'s> Tries<'s> {
    /// Those of a planned request of which `begun` is there to be sent, whole or not.
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
                place: RefCell::default(),
                interim: RefCell::default(),
                replay: RefCell::new((!is_whole && begun.len() <= REPLAY_BYTES_MAX).then(|| begun.to_vec())),
            }))
        });
        Tries { is_whole, policy }
    }

    /// Takes what has come of a request that was not whole, as it is sent.
    #[inline]
    pub(crate) fn take(&self, more: &[u8]) {
        let Some(policy) = &self.policy else { return };
        let mut replay = policy.replay.borrow_mut();
        match replay.as_mut() {
            Some(held) if held.len() + more.len() <= REPLAY_BYTES_MAX => held.extend_from_slice(more),
            _ => *replay = None,
        }
    }

    /// Whether all that has come of the request can be sent again.
    pub(crate) fn is_held(&self) -> bool {
        self.is_whole || self.policy.as_ref().is_some_and(|policy| policy.replay.borrow().is_some())
    }

    /// Puts what is to be sent again into `out`.
    pub(crate) fn restore(&self, out: &mut Vec<u8>) {
        if let Some(policy) = &self.policy
            && let Some(replay) = &*policy.replay.borrow()
        {
            out.clear();
            out.extend_from_slice(replay);
        }
    }

    /// Whether there is another try after one that failed of this, before some of its response had left.
    pub(crate) fn go_on_after(&self, cause: Cause) -> bool {
        let on = match cause {
            Cause::ConnectFailed | Cause::ConnectTimeout | Cause::UpstreamHandshake => RetryOn::Connect,
            Cause::UpstreamClosed => RetryOn::Reset,
            Cause::ResponseTimeout | Cause::UpstreamWriteTimeout | Cause::BackendTimeout => RetryOn::Timeout,
            _ => return false,
        };
        self.go_on(on)
    }

    /// Whether there is another try in place of a response with this status.
    #[inline]
    pub(crate) fn go_on_instead_of(&self, status: u16) -> bool {
        self.policy.is_some() && self.go_on(RetryOn::Status(status))
    }

    /// Whether an interim response with this status is passed on: not one that an earlier try has brought already.
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

    /// Waits before the next try, for as long as the deadline's bound allows.
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
    /// Whether the backend's budget has a place for this request among its retries; it keeps the one that it has.
    fn has_place(&self) -> bool {
        let mut place = self.place.borrow_mut();
        if place.is_none() {
            *place = self.backend.retry(self.limits);
        }
        place.is_some()
    }

    /// A part of the pause that is left to chance, so that requests that failed together do not come back together.
    fn backoff(&self) -> Duration {
        let growth = 1u32.checked_shl(self.made.get().saturating_sub(1)).unwrap_or(u32::MAX);
        self.retries.backoff.0.saturating_mul(growth.min(BACKOFF_GROWTH_MAX)).mul_f64(fastrand::f64())
    }
}
