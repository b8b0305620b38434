//! Where an exchange gets its upstream connection from.

use std::net::SocketAddr;
use std::rc::Rc;

use crate::backend_state::Place;
use crate::balance::Wish;
use crate::cause::Cause;
use crate::endpoint_state::InFlight;
use crate::io::{Fault, Io};
use crate::life::Life;
use crate::pool::{BackendPool, EndpointPool, Link, Upstream};
use crate::proxy_header::{Addresses, append_header};
use crate::request::Plan;
use crate::secure_upstream::shake_hands;
use crate::snapshot::Snapshot;
use crate::worker::Worker;

/// How many endpoints are tried for one request when connections fail. Nothing was sent, so any request may try.
const CONNECTS_MAX: usize = 3;

/// An upstream connection for one exchange.
#[derive(Debug)]
pub(crate) struct Checkout {
    pub(crate) upstream: Upstream,
    pub(crate) endpoint: Rc<EndpointPool>,
    /// The request's place at the endpoint, where these are counted.
    _in_flight: Option<InFlight>,
    /// How long its response's head may take.
    pub(crate) response_ticks: u32,
    /// It has served before, so it may have been closed meanwhile.
    pub(crate) reused: bool,
}

impl Checkout {
    /// Keeps the connection for other exchanges, if nothing is left of this one.
    pub(crate) fn keep(self, io: Io<'_>, snapshot: &Snapshot) {
        let Checkout { mut upstream, endpoint, .. } = self;
        if upstream.inbound.is_empty() {
            upstream.inbound.release_if_empty(&io.worker.buffers);
            let most = snapshot.table.limits.idle_upstream_connections as usize;
            endpoint.keep(upstream, io.worker.wheel.now(), most);
        }
    }
}

/// A kept connection of the endpoint that the request gets, or a new one; `fresh` wants a new one.
#[inline]
pub(crate) async fn checkout(
    io: Io<'_>,
    snapshot: &Snapshot,
    wish: &mut Wish,
    fresh: bool,
) -> Result<Checkout, Cause> {
    let worker = io.worker;
    let pool = snapshot.pool(wish.backend, &worker.shared.backends, worker.index).ok_or(Cause::NoEndpoint)?;
    let response_ticks = pool.ticks.response.unwrap_or(snapshot.ticks.response);
    let (endpoint, in_flight) = pool.choose(wish, worker.now_ns.get()).ok_or(Cause::NoEndpoint)?;
    if !fresh && let Some(upstream) = take_kept(worker, endpoint) {
        let endpoint = Rc::clone(endpoint);
        return Ok(Checkout { upstream, endpoint, _in_flight: in_flight, response_ticks, reused: true });
    }
    let (upstream, endpoint, in_flight, reused) =
        connect(io, snapshot, pool, (Rc::clone(endpoint), in_flight), (wish, fresh)).await?;
    Ok(Checkout { upstream, endpoint, _in_flight: in_flight, response_ticks, reused })
}

/// The request's place among those of its backend, where these are counted.
#[inline]
pub(crate) fn in_flight(plan: &Plan, snapshot: &Snapshot, io: Io<'_>) -> Result<Option<Place>, Cause> {
    let entry = &snapshot.table.backends()[plan.backend];
    if !entry.counts_requests {
        return Ok(None);
    }
    let Some(pool) = snapshot.pool(plan.backend, &io.worker.shared.backends, io.worker.index) else {
        return Ok(None);
    };
    let most = entry.backend.limits.requests.unwrap_or(u32::MAX);
    let place = pool.state.request(most).ok_or_else(|| pool.refuse(Cause::RequestLimit))?;
    Ok(Some(place))
}

#[inline]
fn take_kept(worker: &Worker, endpoint: &EndpointPool) -> Option<Upstream> {
    let upstream = endpoint.take_idle(worker.wheel.now())?;
    worker.upstreams.reused.add(1);
    Some(upstream)
}

/// A new connection, or a kept one of another endpoint after a failed try; which it is, and whose.
async fn connect(
    io: Io<'_>,
    snapshot: &Snapshot,
    pool: &BackendPool,
    (mut endpoint, mut in_flight): (Rc<EndpointPool>, Option<InFlight>),
    (wish, fresh): (&mut Wish, bool),
) -> Result<(Upstream, Rc<EndpointPool>, Option<InFlight>, bool), Cause> {
    let worker = io.worker;
    let limits = &pool.backend.limits;
    let _pending = match limits.pending {
        Some(most) => Some(pool.state.pending(most).ok_or_else(|| pool.refuse(Cause::PendingLimit))?),
        None => None,
    };
    let ticks = pool.ticks.connect.unwrap_or(snapshot.ticks.connect);
    for others in (0..pool.endpoint_count().min(CONNECTS_MAX)).rev() {
        let most = limits.connections.unwrap_or(snapshot.table.limits.upstream_connections);
        let place = pool.place(most).ok_or_else(|| pool.refuse(Cause::UpstreamLimit))?;
        worker.upstreams.connects.add(1);
        let cause = match link(io, pool, endpoint.address(), (wish.client, ticks)).await {
            Ok(link) => {
                // What is made for one client must not speak for another.
                let life = match pool.backend.proxy_protocol {
                    Some(_) => Life::ONE,
                    None => Life::begin(&pool.backend.keepalive, worker.wheel.now()),
                };
                let upstream = Upstream::new(link, place, life);
                return Ok((upstream, endpoint, in_flight, false));
            }
            Err(cause) => cause,
        };
        worker.upstreams.connect_failures.add(1);
        if !matches!(cause, Cause::OutOfSockets) {
            pool.report(&endpoint, true, worker.now_ns.get());
        }
        wish.failed.push(endpoint);
        if others == 0 {
            return Err(cause);
        }
        let (next, place) = pool.choose(wish, worker.now_ns.get()).ok_or(Cause::NoEndpoint)?;
        (endpoint, in_flight) = (Rc::clone(next), place);
        // Else each turn of a dead endpoint would open one more connection to its neighbour.
        if !fresh && let Some(upstream) = take_kept(worker, &endpoint) {
            return Ok((upstream, endpoint, in_flight, true));
        }
    }
    Err(Cause::NoEndpoint)
}

/// A new connection to an endpoint, and TLS over it where the backend asks for that.
async fn link(
    io: Io<'_>,
    pool: &BackendPool,
    endpoint: SocketAddr,
    (client, ticks): (Option<Addresses>, u32),
) -> Result<Link, Cause> {
    let mut stream = io.connect(endpoint, ticks).await.map_err(|fault| cause_of(&fault))?;
    if let Some(version) = pool.backend.proxy_protocol {
        let mut header = Vec::new();
        append_header(version, client, &mut header);
        let written = io.write_all(&mut stream, &header, &mut 0, ticks).await;
        written.map_err(|fault| cause_of(&fault))?;
    }
    match &pool.tls {
        None => Ok(Link::Plain(stream)),
        // Boxed, so that exchanges in plain text are no larger for it.
        Some(tls) => Box::pin(shake_hands(io, tls, endpoint, stream, ticks)).await,
    }
}

fn cause_of(fault: &Fault) -> Cause {
    match fault {
        Fault::Timeout => Cause::ConnectTimeout,
        Fault::System(error) => match error.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM | libc::EADDRNOTAVAIL) => {
                Cause::OutOfSockets
            }
            Some(libc::ETIMEDOUT) => Cause::ConnectTimeout,
            _ => Cause::ConnectFailed,
        },
    }
}
