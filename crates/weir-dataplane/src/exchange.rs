//! One exchange: the request to an upstream, its response back.
//!
//! A request that is whole when it is planned, as nearly all are, leaves in one write and the response is waited for.
//! One whose body is still coming is passed on while the response may come already; whoever ends first decides.
//! With two reads and two writes the common exchange is done, and nothing else asks the kernel.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use weir_config::RouteTimeouts;
use weir_http::Framing;

use crate::body::{BodyFault, BodyPump};
use crate::buffer::Buffer;
use crate::cause::Cause;
use crate::connection::{After, Client};
use crate::io::{Fault, Io};
use crate::listener::Listening;
use crate::mirror::Copying;
use crate::observed::Observed;
use crate::pool::{Link, Upstream};
use crate::request::Plan;
use crate::response::{Relayed, relay};
use crate::route_limits::RouteLimits;
use crate::secure::SecureHalf;
use crate::snapshot::Snapshot;
use crate::tunnel::tunnel;
use crate::upstream::{Checkout, checkout};

/// What both directions of an exchange know and tell each other.
pub(crate) struct Exchange<'a> {
    pub(crate) io: Io<'a>,
    pub(crate) listening: &'a Listening,
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) plan: &'a Plan,
    pub(crate) observed: &'a Observed,
    /// The copy of a request that is still coming.
    copying: Option<&'a Copying>,
    /// All of the request has left.
    pub(crate) request_done: Cell<bool>,
    /// The upstream would not take all of it.
    pub(crate) request_broken: Cell<bool>,
    /// Bytes of the request that left.
    pub(crate) sent: Cell<usize>,
    /// Some of the response has come.
    pub(crate) heard: Cell<bool>,
    /// Some of the final response has left for the client.
    pub(crate) begun: Cell<bool>,
}

/// Why the rest of a request can't be passed on.
enum SendFault {
    /// The client's doing: the exchange is over.
    Client(Cause),
    /// The upstream's doing: it may have answered all the same.
    Upstream,
    /// The upstream stopped reading.
    Stalled,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Client<'_, R, W> {
    /// Passes a planned request on, and its response back. `out` has the head for the upstream.
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
            BodyPump::new(plan.framing, plan.framing == Framing::Chunked, snapshot.table.limits.body.0);
        if let Err(fault) = body.pass(&mut self.inbound, out) {
            return self.fail(cause_of(fault), plan, false, snapshot).await;
        }
        self.inbound.release_if_empty(&self.io.worker.buffers);
        let is_whole = body.is_done();
        let copying = self.begin_copy(plan, snapshot, out, is_whole);
        let limits = RouteLimits::of(timeouts(plan, snapshot), self.io);
        let mut retried = false;
        loop {
            limits.begin_try(self.io);
            let mut checkout = match checkout(self.io, snapshot, plan.backend, retried).await {
                Ok(checkout) => checkout,
                Err(cause) => {
                    return self.fail(limits.fail(self.io, cause, false), plan, is_whole, snapshot).await;
                }
            };
            if snapshot.is_observed {
                self.observed.upstream.set(Some(checkout.endpoint.address));
            }
            let x = Exchange::new(self, snapshot, plan, copying.as_deref(), is_whole);
            let Upstream { link, inbound, .. } = &mut checkout.upstream;
            let relayed = match link {
                Link::Plain(stream) => {
                    let halves = stream.split();
                    match is_whole {
                        true => self.pass_whole(&x, halves, inbound, out).await,
                        false => self.pass_streaming(&x, halves, inbound, out, &mut body).await,
                    }
                }
                // Boxed, so that exchanges in plain text are no larger for it.
                Link::Tls(stream) => Box::pin(self.pass_sealed(&x, stream, inbound, out, &mut body)).await,
            };
            match relayed {
                Ok(relayed) => {
                    limits.lift(self.io);
                    if relayed.upgraded {
                        // A tunnel may be long, and needs the request no more.
                        self.io.worker.buffers.put_output(std::mem::take(out));
                    }
                    return self.conclude(&x, relayed, checkout).await;
                }
                Err(cause) if checkout.reused && !retried && x.may_be_sent_again(cause) => {
                    retried = true;
                    self.io.worker.upstreams.retries.add(1);
                }
                Err(cause) => {
                    return self.break_off(&x, limits.fail(self.io, cause, x.begun.get())).await;
                }
            }
        }
    }

    /// Begins the copy that the filters may want; that of a whole request has left then.
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

    async fn pass_sealed(
        &mut self,
        x: &Exchange<'_>,
        stream: &RefCell<TlsStream<TcpStream>>,
        inbound: &mut Buffer,
        out: &mut Vec<u8>,
        body: &mut BodyPump,
    ) -> Result<Relayed, Cause> {
        let halves = (SecureHalf(stream), SecureHalf(stream));
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
            Err(Fault::Timeout) => return Err(Cause::UpstreamWriteTimeout),
            // It may have answered before it closed.
            Err(Fault::System(_)) => x.request_broken.set(true),
        }
        relay(x, &mut reader, inbound, &mut self.writer).await
    }

    /// The request's body goes on while the response may come.
    async fn pass_streaming<F: AsyncRead + Unpin, T: AsyncWrite + Unpin>(
        &mut self,
        x: &Exchange<'_>,
        (mut from_upstream, mut to_upstream): (F, T),
        of_upstream: &mut Buffer,
        out: &mut Vec<u8>,
        body: &mut BodyPump,
    ) -> Result<Relayed, Cause> {
        let Client { reader, writer, inbound, .. } = self;
        let mut sending = pin!(send(x, reader, inbound, &mut to_upstream, out, body));
        let mut relaying = pin!(relay(x, &mut from_upstream, of_upstream, writer));
        let mut is_sending = true;
        poll_fn(|cx| {
            if is_sending && let Poll::Ready(sent) = sending.as_mut().poll(cx) {
                is_sending = false;
                match sent {
                    Ok(()) => x.request_done.set(true),
                    Err(SendFault::Client(cause)) => return Poll::Ready(Err(cause)),
                    Err(SendFault::Stalled) => return Poll::Ready(Err(Cause::UpstreamWriteTimeout)),
                    Err(SendFault::Upstream) => x.request_broken.set(true),
                }
                x.io.timer.arm(&x.io.worker.wheel, x.snapshot.ticks.response);
            }
            relaying.as_mut().poll(cx)
        })
        .await
    }

    async fn conclude(&mut self, x: &Exchange<'_>, relayed: Relayed, checkout: Checkout) -> After {
        if relayed.upgraded {
            tunnel(self, x.snapshot, checkout.upstream).await;
            return After::Close;
        }
        let request_passed = x.request_done.get() && !x.request_broken.get();
        if relayed.upstream_keep && request_passed {
            checkout.keep(x.io, x.snapshot);
        }
        match relayed.client_keep {
            true => After::Next,
            false if x.plan.keep_alive || !x.request_done.get() || !self.inbound.is_empty() => After::Linger,
            false => After::Close,
        }
    }

    /// The exchange failed: an answer of our own if none has begun, else the client must see that it broke.
    async fn break_off(&mut self, x: &Exchange<'_>, cause: Cause) -> After {
        if x.begun.get() || matches!(cause, Cause::ClientClosed | Cause::ClientStalled) {
            self.count_failure(cause);
            return After::Cut;
        }
        self.fail(cause, x.plan, x.request_done.get(), x.snapshot).await
    }
}

impl<'a> Exchange<'a> {
    #[inline]
    fn new<R, W>(
        client: &Client<'a, R, W>,
        snapshot: &'a Snapshot,
        plan: &'a Plan,
        copying: Option<&'a Copying>,
        is_whole: bool,
    ) -> Exchange<'a> {
        Exchange {
            io: client.io,
            listening: client.listening,
            snapshot,
            plan,
            observed: client.observed,
            copying,
            request_done: Cell::new(is_whole),
            request_broken: Cell::new(false),
            sent: Cell::new(0),
            heard: Cell::new(false),
            begun: Cell::new(false),
        }
    }

    /// Whether the request is still on its way. Then its own time limits hold, and the response's begin behind it.
    pub(crate) fn is_sending(&self) -> bool {
        !self.request_done.get() && !self.request_broken.get()
    }

    /// Counts the final response, whose head is about to leave for the client.
    #[inline]
    pub(crate) fn count_response(&self, status: u16) {
        self.listening.counters.response(status);
        let place = (self.io.worker, self.listening, &*self.snapshot.table);
        self.snapshot.series.with(self.plan.routed.series, place, |counters| counters.response(status));
        if self.snapshot.is_observed {
            self.observed.answered(status);
        }
    }

    /// Whether a request that met a connection closed meanwhile may go over a new one: when the upstream can't have
    /// acted on it, or acting twice is as good as once.
    fn may_be_sent_again(&self, cause: Cause) -> bool {
        let bodyless = matches!(self.plan.framing, Framing::None | Framing::Length(0));
        let harmless = self.sent.get() == 0 || (self.plan.idempotent && bodyless);
        cause == Cause::UpstreamClosed && self.request_done.get() && !self.heard.get() && harmless
    }
}

/// Passes the head in `out` on, then the body as it comes.
async fn send<R: AsyncRead + Unpin, T: AsyncWrite + Unpin>(
    x: &Exchange<'_>,
    from: &mut R,
    inbound: &mut Buffer,
    to: &mut T,
    out: &mut Vec<u8>,
    body: &mut BodyPump,
) -> Result<(), SendFault> {
    let ticks = &x.snapshot.ticks;
    loop {
        let mut sent = 0;
        let written = x.io.write_all(to, out, &mut sent, ticks.write).await;
        x.sent.set(x.sent.get() + sent);
        match written {
            Ok(()) if body.is_done() => return Ok(()),
            Ok(()) => out.clear(),
            Err(Fault::Timeout) => return Err(SendFault::Stalled),
            Err(Fault::System(_)) => return Err(SendFault::Upstream),
        }
        if x.io.timer.is_past_bound(&x.io.worker.wheel) {
            return Err(SendFault::Client(Cause::BodyTimeout));
        }
        while out.is_empty() && !body.is_done() {
            match x.io.read(from, inbound, ticks.body).await {
                Ok(0) | Err(Fault::System(_)) => return Err(SendFault::Client(Cause::ClientClosed)),
                Ok(_) => {
                    body.pass(inbound, out).map_err(|f| SendFault::Client(cause_of(f)))?;
                    if let Some(copying) = x.copying {
                        copying.take(out, body.is_done());
                    }
                }
                Err(Fault::Timeout) => return Err(SendFault::Client(Cause::BodyTimeout)),
            }
        }
    }
}

fn cause_of(fault: BodyFault) -> Cause {
    match fault {
        BodyFault::TooLarge => Cause::BodyTooLarge,
        BodyFault::Malformed(error) => Cause::of_body(error),
    }
}

/// The time limits of the route, where it has any.
#[inline]
fn timeouts<'s>(plan: &Plan, snapshot: &'s Snapshot) -> Option<&'s RouteTimeouts> {
    plan.filtered.as_deref()?.filters(snapshot).route.timeouts.as_deref()
}
