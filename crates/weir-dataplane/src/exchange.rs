//! One exchange: sends a request to an upstream and relays the response.
//!
//! Most requests are already complete when the exchange begins. One write sends such a request, and then the gateway
//! waits for the response. If the body is still arriving, the gateway relays both directions at the same time. If the
//! response ends first, the rest of the body is not sent. A typical exchange needs two reads, two writes and no other
//! system call.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncWrite};
use weir_config::RouteTimeouts;
use weir_http::Framing;

use crate::balance::LbContext;
use crate::body::BodyPump;
use crate::buffer::Buffer;
use crate::cause::Cause;
use crate::connection::{After, Client};
use crate::io::{Io, IoFault};
use crate::listener::Listening;
use crate::mirror::Copying;
use crate::observed::Observed;
use crate::plain::PlainHalf;
use crate::pool::{BackendPool, EndpointPool, Link, Upstream};
use crate::request::Plan;
use crate::response::{Relayed, relay, send_rest};
use crate::retry::Tries;
use crate::route_limits::RouteLimits;
use crate::secure::SecureHalf;
use crate::send::{SendFault, cause_of, send};
use crate::snapshot::Snapshot;
use crate::trailers::PassedTrailers;
use crate::tunnel::tunnel;
use crate::upstream::{Checkout, Found, find, in_flight, wait_in_flight};
use crate::wheel::ticks;

/// The only final status below 200. After it, the connection no longer carries HTTP.
const SWITCHING_PROTOCOLS: u16 = 101;

/// State that both directions of an exchange share.
pub(crate) struct Exchange<'a> {
    pub(crate) io: Io<'a>,
    pub(crate) listening: &'a Listening,
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) plan: &'a Plan,
    pub(crate) observed: &'a Observed,
    /// The mirrored copy, if the request is still arriving.
    pub(crate) copying: Option<&'a Copying>,
    /// The retry state of the request.
    pub(crate) tries: &'a Tries<'a>,
    /// The request is sent completely.
    pub(crate) request_done: Cell<bool>,
    /// The upstream stopped accepting the request.
    pub(crate) request_broken: Cell<bool>,
    /// Timeout for the response headers.
    pub(crate) response_ticks: u32,
    /// Timeout between two reads of a body.
    pub(crate) body_ticks: u32,
    /// The ID of the endpoint in affinity cookies.
    pub(crate) endpoint_id: u64,
    /// The connection to the upstream uses TLS.
    pub(crate) seals_request: bool,
    /// The connection to the client uses TLS.
    pub(crate) seals_response: bool,
    /// Sent bytes of the request.
    pub(crate) sent: Cell<usize>,
    /// Bytes of the response were received.
    pub(crate) heard: Cell<bool>,
    /// Whether the final response to the client has begun or is about to begin.
    pub(crate) begun: Cell<bool>,
    /// The end of the response. It is sent after the upstream connection is free for other requests.
    pub(crate) rest: Cell<Vec<u8>>,
}

/// Result of an attempt.
enum Tried {
    /// The exchange has ended.
    Ended(After),
    /// Send the request again over a new connection, not over a kept one.
    Renewed,
    /// Retry, preferably at another endpoint than this one.
    Failed(Rc<EndpointPool>),
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Client<'_, R, W> {
    /// Sends a planned request and relays its response. `out` contains the request headers for the upstream.
    #[inline]
    pub(crate) async fn exchange(
        &mut self,
        plan: &Plan,
        snapshot: &Rc<Snapshot>,
        out: &mut Vec<u8>,
    ) -> After {
        self.inbound.consume(plan.head_len);
        if snapshot.is_observed {
            self.observed.routed.set(Some(plan.routed));
        }
        let mut body =
            BodyPump::new(plan.framing, plan.framing == Framing::Chunked, snapshot.table.limits.body.0)
                .with_trailers(PassedTrailers::of_request(plan, snapshot));
        if let Err(fault) = self.observed.pass(&mut body, &mut self.inbound, out) {
            return self.fail(cause_of(fault), plan, false, snapshot).await;
        }
        self.inbound.release_if_empty(&self.io.worker.buffers);
        let is_whole = body.is_done();
        let limits = RouteLimits::of(timeouts(plan, snapshot), snapshot, self.io);
        let affinity = plan.affinity.with(self.peer.ip());
        let mut context = LbContext { affinity, client: self.addresses, ..LbContext::any(plan.backend) };
        let _in_flight = match in_flight(plan, snapshot, self.io) {
            Ok(permit) => permit,
            // Boxed to keep exchanges without a queue small.
            Err(pool) => {
                let mut waiting = Box::pin(wait_in_flight(self.io, snapshot, pool, &limits, &mut context));
                match self.side().unless_left(waiting.as_mut(), || is_whole).await {
                    Ok(permit) => Some(permit),
                    Err(cause) => return self.decline(cause, plan, is_whole, snapshot).await,
                }
            }
        };
        let copying = self.begin_copy(plan, snapshot, out, is_whole);
        let tries = Tries::begin(plan, snapshot, self.io, (out.as_slice(), is_whole));
        let mut fresh = false;
        loop {
            limits.begin_try(self.io);
            self.observed.begin_try();
            let checked_out = match find(self.io, snapshot, &mut context, fresh) {
                Ok(Found::Kept(checkout)) => Ok(checkout),
                // Boxed to keep exchanges over reused connections small.
                Ok(Found::Wanted(wanted)) => {
                    let mut connecting = Box::pin(wanted.connect(self.io, snapshot, &mut context));
                    self.side().unless_left(connecting.as_mut(), || body.is_done()).await
                }
                Err(cause) => Err(cause),
            };
            let checkout = match checked_out {
                Ok(checkout) => checkout,
                Err(cause) => {
                    let cause = limits.fail(self.io, cause, false);
                    match self.prepare_retry((&tries, &limits), cause, out, body.is_done()).await {
                        Ok(()) => {
                            context.begin_retry();
                            continue;
                        }
                        Err(cause) => return self.decline(cause, plan, body.is_done(), snapshot).await,
                    }
                }
            };
            if snapshot.is_logged {
                self.observed.upstream.replace(Some(checkout.endpoint.address().clone()));
            }
            let copying = copying.as_deref();
            let held = (copying, &tries, &limits);
            let x = Exchange::new(self, snapshot, plan, held, (body.is_done(), &checkout));
            match self.try_once(&x, checkout, &limits, out, &mut body).await {
                Tried::Ended(after) => return after,
                Tried::Renewed => fresh = true,
                Tried::Failed(endpoint) => {
                    context.failed.push(endpoint);
                    context.begin_retry();
                    fresh = false;
                }
            }
        }
    }

    /// Makes one attempt over this connection. Relays the response unless a retry follows.
    #[inline]
    async fn try_once(
        &mut self,
        x: &Exchange<'_>,
        mut checkout: Checkout,
        limits: &RouteLimits,
        out: &mut Vec<u8>,
        body: &mut BodyPump,
    ) -> Tried {
        let Upstream { link, inbound, .. } = &mut *checkout.upstream;
        let relayed = match link {
            Link::Plain(stream) => {
                let halves = PlainHalf::both(stream);
                match body.is_done() {
                    true => self.pass_whole(x, halves, inbound, out).await,
                    // Boxed to keep exchanges with complete requests small.
                    false => Box::pin(self.pass_streaming(x, halves, inbound, out, body)).await,
                }
            }
            // Boxed to keep exchanges over plain TCP small.
            Link::Unix(stream) => Box::pin(self.pass(x, stream.split(), inbound, out, body)).await,
            Link::Tls(stream) => {
                let half = SecureHalf(&**stream);
                Box::pin(self.pass(x, (half, half), inbound, out, body)).await
            }
        };
        x.report(&checkout, &relayed);
        match relayed {
            Ok(relayed) if relayed.upgraded => {
                limits.lift(x.io);
                // Return the buffer: tunnels can last long, and do not need the request.
                x.io.worker.buffers.put_output(std::mem::take(out));
                let of_route = timeouts(x.plan, x.snapshot).and_then(|timeouts| timeouts.upgraded);
                let most = of_route.map_or(x.snapshot.ticks.upgraded, |time| ticks(time.0));
                Tried::Ended(Box::pin(tunnel(self, most, checkout.upstream)).await)
            }
            Ok(relayed) if !relayed.set_aside => {
                Tried::Ended(self.conclude(x, relayed, checkout, limits).await)
            }
            // Boxed to keep successful exchanges small.
            other => Box::pin(self.retry_or_fail(x, other, checkout, limits, out)).await,
        }
    }

    /// Handles an attempt that failed, or an attempt whose response was discarded for a retry.
    async fn retry_or_fail(
        &mut self,
        x: &Exchange<'_>,
        relayed: Result<Relayed, Cause>,
        checkout: Checkout,
        limits: &RouteLimits,
        out: &mut Vec<u8>,
    ) -> Tried {
        if let Err(cause) = relayed
            && checkout.reused
            && x.may_resend(cause)
        {
            if let Some(pool) = x.pool() {
                pool.state.count_retry();
            }
            x.tries.restore(out);
            return Tried::Renewed;
        }
        // Release the connection before the pause.
        let endpoint = Rc::clone(&checkout.endpoint);
        match relayed {
            Ok(relayed) if relayed.upstream_keep && x.is_passed() => checkout.keep(x.io, x.snapshot),
            _ => drop(checkout),
        }
        let next = match relayed.map_err(|cause| limits.fail(x.io, cause, x.begun.get())) {
            Ok(_) => self.wait_for_retry((x.tries, limits), out, x.request_done.get()).await,
            Err(cause) if x.begun.get() => Err(cause),
            Err(cause) => self.prepare_retry((x.tries, limits), cause, out, x.request_done.get()).await,
        };
        match next {
            Ok(()) => Tried::Failed(endpoint),
            Err(cause) => Tried::Ended(self.end_failed(x, cause).await),
        }
    }

    /// Prepares a retry after an attempt that failed before its response began. If no retry is allowed, returns the
    /// cause to report.
    async fn prepare_retry(
        &mut self,
        (tries, limits): (&Tries<'_>, &RouteLimits),
        cause: Cause,
        out: &mut Vec<u8>,
        is_whole: bool,
    ) -> Result<(), Cause> {
        match tries.go_on_after(cause) {
            true => self.wait_for_retry((tries, limits), out, is_whole).await,
            false => Err(cause),
        }
    }

    /// Restores the request in `out` and waits until the retry is due.
    async fn wait_for_retry(
        &mut self,
        (tries, limits): (&Tries<'_>, &RouteLimits),
        out: &mut Vec<u8>,
        is_whole: bool,
    ) -> Result<(), Cause> {
        tries.restore(out);
        limits.begin_pause(self.io);
        let pause = pin!(tries.pause(self.io));
        let waited = self.side().unless_left(pause, || is_whole).await;
        waited.map_err(|cause| limits.fail(self.io, cause, false))
    }

    /// Begins a mirrored copy if the filters require one. Returns it only if the request is still arriving.
    #[inline]
    fn begin_copy(
        &self,
        plan: &Plan,
        snapshot: &Rc<Snapshot>,
        begun: &[u8],
        is_whole: bool,
    ) -> Option<Box<Copying>> {
        let backend = plan.filtered.as_deref()?.copy_to?;
        let copying = Copying::begin(backend, plan, self.io.worker, snapshot, self.listening.id)?;
        copying.take(begun, is_whole);
        (!is_whole).then_some(copying)
    }

    async fn pass<F: AsyncRead + Unpin, T: AsyncWrite + Unpin>(
        &mut self,
        x: &Exchange<'_>,
        halves: (F, T),
        inbound: &mut Buffer,
        out: &mut Vec<u8>,
        body: &mut BodyPump,
    ) -> Result<Relayed, Cause> {
        match body.is_done() {
            true => self.pass_whole(x, halves, inbound, out).await,
            false => self.pass_streaming(x, halves, inbound, out, body).await,
        }
    }

    async fn pass_whole<F: AsyncRead + Unpin, T: AsyncWrite + Unpin>(
        &mut self,
        x: &Exchange<'_>,
        (mut reader, mut writer): (F, T),
        inbound: &mut Buffer,
        out: &[u8],
    ) -> Result<Relayed, Cause> {
        let mut sent = 0;
        let written = x.io.write_all(&mut writer, out, &mut sent, x.snapshot.ticks.write).await;
        x.sent.set(sent);
        match written {
            Ok(()) => {}
            Err(IoFault::Timeout) => return Err(Cause::UpstreamWriteTimeout),
            // The upstream may have responded before it closed the connection.
            Err(IoFault::System(_)) => x.request_broken.set(true),
        }
        let (mut side, writer) = self.split();
        let relaying = pin!(relay(x, &mut reader, inbound, writer));
        side.unless_left(relaying, || x.awaits_for_long()).await
    }

    /// Sends the rest of the request body and relays the response at the same time.
    async fn pass_streaming<F: AsyncRead + Unpin, T: AsyncWrite + Unpin>(
        &mut self,
        x: &Exchange<'_>,
        (mut from_upstream, mut to_upstream): (F, T),
        of_upstream: &mut Buffer,
        out: &mut Vec<u8>,
        body: &mut BodyPump,
    ) -> Result<Relayed, Cause> {
        let (mut side, writer) = self.split();
        let mut relaying = pin!(relay(x, &mut from_upstream, of_upstream, writer));
        let sent_or_relayed = {
            let mut sending = pin!(send(x, side.reader, side.inbound, &mut to_upstream, out, body));
            poll_fn(|cx| match sending.as_mut().poll(cx) {
                Poll::Ready(sent) => Poll::Ready(Err(sent)),
                Poll::Pending => relaying.as_mut().poll(cx).map(Ok),
            })
            .await
        };
        match sent_or_relayed {
            Ok(relayed) => return relayed,
            Err(Ok(())) => x.request_done.set(true),
            Err(Err(SendFault::Client(cause))) => return Err(cause),
            Err(Err(SendFault::Stalled)) => return Err(Cause::UpstreamWriteTimeout),
            Err(Err(SendFault::Upstream)) => x.request_broken.set(true),
        }
        x.io.timer.arm_response(&x.io.worker.wheel, x.response_ticks);
        // If the upstream stopped accepting the body, bytes from the client still belong to the body, not to the next
        // request. So client disconnects are not detected in this case.
        side.unless_left(relaying, || x.request_done.get() && x.awaits_for_long()).await
    }

    /// Releases the upstream connection, then sends the rest of the response. The order matters: as soon as a client
    /// has read the response, the connection must be free.
    async fn conclude(
        &mut self,
        x: &Exchange<'_>,
        relayed: Relayed,
        checkout: Checkout,
        limits: &RouteLimits,
    ) -> After {
        match relayed.upstream_keep && x.is_passed() {
            true => checkout.keep(x.io, x.snapshot),
            false => drop(checkout),
        }
        if let Err(cause) = send_rest(x, &mut self.writer).await {
            let cause = limits.fail(x.io, cause, true);
            return self.end_failed(x, cause).await;
        }
        limits.lift(x.io);
        match relayed.client_keep {
            true => After::Next,
            false if x.plan.keep_alive || !x.request_done.get() || !self.inbound.is_empty() => After::Linger,
            false => After::Close,
        }
    }

    /// Ends a failed exchange: sends an error response, or resets the connection if a response has begun.
    async fn end_failed(&mut self, x: &Exchange<'_>, cause: Cause) -> After {
        if x.begun.get() {
            self.count_failure(cause);
            return After::Cut;
        }
        self.decline(cause, x.plan, x.request_done.get(), x.snapshot).await
    }

    /// Sends an error response, unless the client has disconnected.
    async fn decline(&mut self, cause: Cause, plan: &Plan, request_done: bool, snapshot: &Snapshot) -> After {
        if matches!(cause, Cause::ClientClosed | Cause::ClientStalled) {
            self.count_failure(cause);
            return After::Cut;
        }
        self.fail(cause, plan, request_done, snapshot).await
    }
}

impl<'a> Exchange<'a> {
    #[inline]
    fn new<R, W>(
        client: &Client<'a, R, W>,
        snapshot: &'a Snapshot,
        plan: &'a Plan,
        (copying, tries, limits): (Option<&'a Copying>, &'a Tries<'a>, &RouteLimits),
        (is_whole, checkout): (bool, &Checkout),
    ) -> Exchange<'a> {
        let of_route = timeouts(plan, snapshot).and_then(|timeouts| timeouts.response);
        Exchange {
            io: client.io,
            listening: client.listening,
            snapshot,
            plan,
            observed: client.observed,
            copying,
            tries,
            request_done: Cell::new(is_whole),
            request_broken: Cell::new(false),
            response_ticks: of_route.map_or(checkout.response_ticks, |time| ticks(time.0)),
            body_ticks: limits.body_ticks,
            endpoint_id: checkout.endpoint.id,
            seals_request: matches!(checkout.upstream.link, Link::Tls(_)),
            seals_response: client.is_secure,
            sent: Cell::new(0),
            heard: Cell::new(false),
            begun: Cell::new(false),
            rest: Cell::default(),
        }
    }

    /// Whether the request is still being sent. The response timeout begins after that.
    pub(crate) fn is_sending(&self) -> bool {
        !self.request_done.get() && !self.request_broken.get()
    }

    /// Counts the final response before its headers are sent to the client.
    #[inline]
    pub(crate) fn count_response(&self, status: u16) {
        self.listening.counters.response(status);
        if status == SWITCHING_PROTOCOLS {
            self.listening.counters.upgraded.add(1);
        }
        let place = (self.io.worker, self.listening, &*self.snapshot.table);
        self.snapshot.series.with(self.plan.routed.series, place, |counters| counters.response(status));
        self.observed.status.set(status);
        if self.snapshot.is_logged {
            self.observed.answered(status);
        }
    }

    /// Records the outcome of an attempt for the endpoint.
    #[inline]
    fn report(&self, checkout: &Checkout, relayed: &Result<Relayed, Cause>) {
        let is_error = match relayed {
            Ok(relayed) => {
                self.observed.upstream_status.set(relayed.status);
                matches!(relayed.status, 502..=504)
            }
            // An endpoint may close idle connections at any time; that is not an error.
            Err(Cause::UpstreamClosed) if checkout.reused && !self.heard.get() => return,
            // The drain timeout of the gateway is not an error of the endpoint.
            Err(_) if self.io.worker.wheel.is_over() => return,
            Err(cause) if cause.is_upstreams() => true,
            Err(_) => return,
        };
        if is_error {
            checkout.endpoint.counters.errors.add(1);
        }
        if self.snapshot.table.backends()[self.plan.backend].has_ejection {
            self.report_to_backend(checkout, is_error);
        }
    }

    /// Records the outcome in the backend, which may eject the endpoint.
    fn report_to_backend(&self, checkout: &Checkout, is_error: bool) {
        if let Some(pool) = self.pool() {
            pool.report(&checkout.endpoint, is_error, self.io.worker.now_ns.get());
        }
    }

    fn pool(&self) -> Option<&Rc<BackendPool>> {
        let Io { worker, .. } = self.io;
        self.snapshot.pool(self.plan.backend, &worker.shared.backends, worker.index)
    }

    /// Whether the wait for the response is so long that detecting client disconnects is worth its cost.
    #[inline]
    fn awaits_for_long(&self) -> bool {
        self.io.timer.awaits_response_for_long(&self.io.worker.wheel)
    }

    /// Whether the upstream accepted the complete request.
    pub(crate) fn is_passed(&self) -> bool {
        self.request_done.get() && !self.request_broken.get()
    }

    /// Whether to resend a request after the upstream closed a kept connection. Allowed if no byte was sent, or if the
    /// request is idempotent and still buffered.
    fn may_resend(&self, cause: Cause) -> bool {
        // While the request is being sent, the number of sent bytes is unknown.
        let is_unsent = !self.is_sending() && self.sent.get() == 0;
        let harmless = is_unsent || (self.plan.idempotent && self.tries.is_held());
        cause == Cause::UpstreamClosed && !self.heard.get() && harmless
    }
}

/// The timeouts of the route, if any.
#[inline]
fn timeouts<'s>(plan: &Plan, snapshot: &'s Snapshot) -> Option<&'s RouteTimeouts> {
    plan.filtered.as_deref()?.filters(snapshot).route.timeouts.as_deref()
}
