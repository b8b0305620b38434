//! Where an exchange gets its upstream connection from.

use std::rc::Rc;

use weir_config::UpstreamAddress;

use crate::backend_state::{Kind, Place};
use crate::balance::Wish;
use crate::cause::Cause;
use crate::endpoint_state::InFlight;
use crate::io::{Io, IoFault};
use crate::life::Life;
use crate::pool::{AtEndpoint, BackendPool, EndpointPool, Link, Upstream};
use crate::proxy_header::{Addresses, append_header};
use crate::request::Plan;
use crate::route_limits::RouteLimits;
use crate::secure_upstream::shake_hands;
use crate::snapshot::Snapshot;
use crate::waiting::{Grant, Waiting};
use crate::worker::{Command, Worker};

/// After how many ticks it is looked again whether there still are idle connections that could give way.
const GIVE_WAY_TICKS: u32 = 2;

/// An upstream connection for one exchange.
#[derive(Debug)]
pub(crate) struct Checkout {
    pub(crate) upstream: Box<Upstream>,
    pub(crate) endpoint: AtEndpoint,
    /// The request's place at the endpoint, where these are counted.
    _in_flight: Option<InFlight>,
    /// How long its response's head may take.
    pub(crate) response_ticks: u32,
    /// It has served before, so it may have been closed meanwhile.
    pub(crate) reused: bool,
    /// Others may wait for it.
    has_queue: bool,
}

/// A connection, whose it is, the request's place there, and whether it has served before.
type Connected = (Box<Upstream>, Rc<EndpointPool>, Option<InFlight>, bool);

impl Checkout {
    #[inline]
    fn new(
        pool: &BackendPool,
        snapshot: &Snapshot,
        (upstream, endpoint, in_flight, reused): Connected,
    ) -> Checkout {
        Checkout {
            upstream,
            endpoint: AtEndpoint::begin(endpoint),
            _in_flight: in_flight,
            response_ticks: pool.ticks.response.unwrap_or(snapshot.ticks.response),
            reused,
            has_queue: pool.has_queue(),
        }
    }

    /// Keeps the connection for other exchanges, if nothing is left of this one.
    pub(crate) fn keep(self, io: Io<'_>, snapshot: &Snapshot) {
        let Checkout { mut upstream, endpoint, has_queue, .. } = self;
        if upstream.inbound.is_empty() {
            upstream.inbound.release_if_empty(&io.worker.buffers);
            let now = io.worker.wheel.now();
            let upstream = if has_queue { upstream.hand_over(now) } else { Some(upstream) };
            if let Some(upstream) = upstream {
                let most = snapshot.table.limits.idle_upstream_connections as usize;
                endpoint.keep(upstream, now, most);
            }
        }
    }
}

/// What the pool of a backend has for a request.
pub(crate) enum Found<'s> {
    Kept(Checkout),
    /// Nothing yet.
    Wanted(Wanted<'s>),
}

/// The endpoint that a request gets, to which a connection is to be made.
pub(crate) struct Wanted<'s> {
    pool: &'s BackendPool,
    endpoint: Rc<EndpointPool>,
    in_flight: Option<InFlight>,
    fresh: bool,
}

/// A kept connection of the endpoint that the request gets, where there is one; `fresh` wants a new one.
#[inline]
pub(crate) fn find<'s>(
    io: Io<'_>,
    snapshot: &'s Snapshot,
    wish: &mut Wish,
    fresh: bool,
) -> Result<Found<'s>, Cause> {
    let worker = io.worker;
    let pool = snapshot.pool(wish.backend, &worker.shared.backends, worker.index).ok_or(Cause::NoEndpoint)?;
    let (endpoint, in_flight) = pool.choose(wish, worker.now_ns.get()).ok_or(Cause::NoEndpoint)?;
    let endpoint = Rc::clone(endpoint);
    if !fresh && let Some(upstream) = take_kept(worker, &endpoint) {
        wish.pending = None;
        return Ok(Found::Kept(Checkout::new(pool, snapshot, (upstream, endpoint, in_flight, true))));
    }
    Ok(Found::Wanted(Wanted { pool, endpoint, in_flight, fresh }))
}

/// A kept connection of the endpoint that the request gets, or a new one; `fresh` wants a new one.
pub(crate) async fn checkout(
    io: Io<'_>,
    snapshot: &Snapshot,
    wish: &mut Wish,
    fresh: bool,
) -> Result<Checkout, Cause> {
    match find(io, snapshot, wish, fresh)? {
        Found::Kept(checkout) => Ok(checkout),
        Found::Wanted(wanted) => wanted.connect(io, snapshot, wish).await,
    }
}

impl Wanted<'_> {
    /// A new connection, or one that is free meanwhile.
    pub(crate) async fn connect(
        self,
        io: Io<'_>,
        snapshot: &Snapshot,
        wish: &mut Wish,
    ) -> Result<Checkout, Cause> {
        let Wanted { pool, endpoint, in_flight, fresh } = self;
        let connected = connect(io, snapshot, pool, (endpoint, in_flight), (wish, fresh)).await;
        wish.pending = None;
        Ok(Checkout::new(pool, snapshot, connected?))
    }
}

/// The request's place among those of its backend, where these are counted; the pool, where it has none left.
#[inline]
pub(crate) fn in_flight<'s>(
    plan: &Plan,
    snapshot: &'s Snapshot,
    io: Io<'_>,
) -> Result<Option<Place>, &'s BackendPool> {
    let entry = &snapshot.table.backends()[plan.backend];
    if !entry.counts_requests {
        return Ok(None);
    }
    let Some(pool) = snapshot.pool(plan.backend, &io.worker.shared.backends, io.worker.index) else {
        return Ok(None);
    };
    pool.request_place().map(Some).ok_or(&**pool)
}

/// Such a place once one is free, for a request that found none, where the backend has requests wait.
#[cold]
pub(crate) async fn wait_in_flight(
    io: Io<'_>,
    snapshot: &Snapshot,
    pool: &BackendPool,
    limits: &RouteLimits,
    wish: &mut Wish,
) -> Result<Place, Cause> {
    if !pool.has_queue() {
        return Err(pool.refuse(Cause::RequestLimit));
    }
    wish.pending = Some(pool.pending_place()?);
    pool.state.count_wait();
    limits.begin_pause(io);
    let waiting = Waiting::join(&pool.state, Kind::Request);
    let granted = waiting.granted(io, pending_ticks(snapshot, pool)).await;
    granted.map(Grant::into_place).ok_or_else(|| {
        wish.pending = None;
        limits.fail(io, pool.refuse(Cause::PendingTimeout), false)
    })
}

/// A place for a connection once one is free, or a connection with it, where the backend has requests wait; else the
/// place of a connection that is idle at another worker, if there is one.
#[cold]
async fn wait_for_connection(
    io: Io<'_>,
    snapshot: &Snapshot,
    pool: &BackendPool,
    backend: usize,
) -> Result<Grant, Cause> {
    let (state, ticks) = (&pool.state, pending_ticks(snapshot, pool));
    let name = &snapshot.table.backends()[backend].name;
    if !pool.has_queue() {
        return wait_for_idle(io, pool, name, ticks).await;
    }
    state.count_wait();
    let waiting = Waiting::join(state, Kind::Connection);
    pool.give_way();
    if state.idle() > 0 {
        ask_to_give_way(io, name);
    }
    waiting.granted(io, ticks).await.ok_or_else(|| pool.refuse(Cause::PendingTimeout))
}

/// The place of a connection that is idle at another worker, as long as there is one for each who waits.
async fn wait_for_idle(io: Io<'_>, pool: &BackendPool, backend: &str, ticks: u32) -> Result<Grant, Cause> {
    let (state, wheel) = (&pool.state, &io.worker.wheel);
    if state.idle() <= state.waiting_for_connections() {
        return Err(pool.refuse(Cause::UpstreamLimit));
    }
    state.count_wait();
    let until = wheel.now() + ticks;
    let waiting = Waiting::join(state, Kind::Connection);
    let cause = loop {
        ask_to_give_way(io, backend);
        if let Some(grant) = waiting.granted_within(io, GIVE_WAY_TICKS).await {
            return Ok(grant);
        }
        // Their worker may have had use for them first.
        if state.idle() < state.waiting_for_connections() {
            break Cause::UpstreamLimit;
        }
        if wheel.now() >= until || io.timer.is_past_bound(wheel) {
            break Cause::PendingTimeout;
        }
    };
    waiting.leave().ok_or_else(|| pool.refuse(cause))
}

/// Has the workers end idle connections to the backend, as many as requests wait for.
fn ask_to_give_way(io: Io<'_>, backend: &str) {
    io.worker.shared.peers.ask(|| Command::GiveWay { backend: backend.to_owned() });
}

/// How long a request waits for a place.
fn pending_ticks(snapshot: &Snapshot, pool: &BackendPool) -> u32 {
    pool.ticks.pending.or(pool.ticks.connect).unwrap_or(snapshot.ticks.connect)
}

#[inline]
fn take_kept(worker: &Worker, endpoint: &EndpointPool) -> Option<Box<Upstream>> {
    let upstream = endpoint.take_idle(worker.wheel.now())?;
    worker.upstreams.reused.add(1);
    Some(upstream)
}

/// A new connection, or a kept one of another endpoint after a failed try.
async fn connect(
    io: Io<'_>,
    snapshot: &Snapshot,
    pool: &BackendPool,
    (mut endpoint, mut in_flight): (Rc<EndpointPool>, Option<InFlight>),
    (wish, fresh): (&mut Wish, bool),
) -> Result<Connected, Cause> {
    let worker = io.worker;
    if pool.has_queue() && wish.pending.is_none() {
        wish.pending = Some(pool.pending_place()?);
    }
    let ticks = pool.ticks.connect.unwrap_or(snapshot.ticks.connect);
    for others in (0..pool.endpoint_count().min(wish.connects_left())).rev() {
        let place = match pool.place() {
            Some(place) => place,
            // Boxed, so that exchanges that find a place are no larger for it.
            None => match Box::pin(wait_for_connection(io, snapshot, pool, wish.backend)).await? {
                Grant::Connection(freed) if !fresh => {
                    let now = (worker.wheel.now(), worker.now_ns.get());
                    match pool.take_freed(freed, &endpoint, wish, now) {
                        Ok((upstream, freed)) => {
                            worker.upstreams.reused.add(1);
                            let in_flight =
                                if Rc::ptr_eq(&freed, &endpoint) { in_flight } else { pool.enter(&freed) };
                            return Ok((upstream, freed, in_flight, true));
                        }
                        Err(place) => place,
                    }
                }
                granted => granted.into_place(),
            },
        };
        pool.state.count_connect(wish.connects > 0);
        wish.connects += 1;
        let cause = match link(io, pool, endpoint.address(), (wish.client, ticks)).await {
            Ok(link) => {
                // What is made for one client must not speak for another.
                let life = match pool.backend.proxy_protocol {
                    Some(_) => Life::ONE,
                    None => Life::begin(&pool.backend.keepalive, worker.wheel.now()),
                };
                let upstream = Upstream::new(link, &endpoint, place, life);
                return Ok((upstream, endpoint, in_flight, false));
            }
            Err(cause) if worker.wheel.is_over() => return Err(cause),
            Err(cause) => cause,
        };
        pool.state.count_connect_failure();
        if !matches!(cause, Cause::OutOfSockets) {
            endpoint.counters.errors.add(1);
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
    endpoint: &UpstreamAddress,
    (client, ticks): (Option<Addresses>, u32),
) -> Result<Link, Cause> {
    let mut connected = io.connect(endpoint, ticks).await;
    // The descriptor of a connection that may never be used again is better than none. Without a pause between, no other
    // task of this worker takes it.
    if matches!(&connected, Err(fault) if lacks_descriptor(fault)) && io.worker.snapshot().end_idle() {
        connected = io.connect(endpoint, ticks).await;
    }
    let mut socket = connected.map_err(|fault| cause_of(&fault))?;
    if let Some(version) = pool.backend.proxy_protocol {
        let mut header = Vec::new();
        append_header(version, client, &mut header);
        let written = io.write_all(&mut socket, &header, &mut 0, ticks).await;
        written.map_err(|fault| cause_of(&fault))?;
    }
    match &pool.tls {
        None => Ok(Link::from(socket)),
        // Boxed, so that exchanges in plain text are no larger for it.
        Some(tls) => Box::pin(shake_hands(io, tls, endpoint, socket, ticks)).await,
    }
}

fn lacks_descriptor(fault: &IoFault) -> bool {
    matches!(fault, IoFault::System(e) if matches!(e.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)))
}

fn cause_of(fault: &IoFault) -> Cause {
    match fault {
        IoFault::Timeout => Cause::ConnectTimeout,
        IoFault::System(error) => match error.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM | libc::EADDRNOTAVAIL) => {
                Cause::OutOfSockets
            }
            Some(libc::ETIMEDOUT) => Cause::ConnectTimeout,
            _ => Cause::ConnectFailed,
        },
    }
}
