//! Gets the upstream connection for an exchange.

use std::rc::Rc;

use weir_config::UpstreamAddress;

use crate::backend_state::{Kind, Permit};
use crate::balance::LbContext;
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

/// Interval, in ticks, at which a waiting request checks whether there are enough idle connections for all waiting
/// requests.
const GIVE_WAY_TICKS: u32 = 2;

/// An upstream connection for one exchange.
#[derive(Debug)]
pub(crate) struct Checkout {
    pub(crate) upstream: Box<Upstream>,
    pub(crate) endpoint: AtEndpoint,
    /// Counts the request at the endpoint, with `Balance::LeastRequests` only.
    _in_flight: Option<InFlight>,
    /// The time limit for the response headers, in ticks.
    pub(crate) response_ticks: u32,
    /// Whether the connection was used before. If so, the upstream may have closed it.
    pub(crate) reused: bool,
    /// Whether this backend has a queue for requests that wait for a connection.
    has_queue: bool,
}

/// A connection, its endpoint, the guard that counts the request at the endpoint, and whether the connection was used
/// before.
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

    /// Keeps the connection for other exchanges, or hands it to a queued request. Closes it if unread bytes are left.
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

/// The result of a search in the pool of a backend.
pub(crate) enum Found<'s> {
    Kept(Checkout),
    /// No usable connection is kept, so one must be opened.
    Wanted(Wanted<'s>),
}

/// The chosen endpoint, to which a connection must be opened.
pub(crate) struct Wanted<'s> {
    pool: &'s BackendPool,
    endpoint: Rc<EndpointPool>,
    in_flight: Option<InFlight>,
    fresh: bool,
}

/// Chooses an endpoint, and takes a kept connection to it if there is one. With `fresh`, kept connections are not used.
#[inline]
pub(crate) fn find<'s>(
    io: Io<'_>,
    snapshot: &'s Snapshot,
    context: &mut LbContext,
    fresh: bool,
) -> Result<Found<'s>, Cause> {
    let worker = io.worker;
    let pool = snapshot.pool(context.backend, &worker.shared.backends, worker.index);
    let pool = pool.ok_or(Cause::NoEndpoint)?;
    let (endpoint, in_flight) = pool.choose(context, worker.now_ns.get()).ok_or(Cause::NoEndpoint)?;
    let endpoint = Rc::clone(endpoint);
    if !fresh && let Some(upstream) = take_kept(worker, &endpoint) {
        context.pending = None;
        return Ok(Found::Kept(Checkout::new(pool, snapshot, (upstream, endpoint, in_flight, true))));
    }
    Ok(Found::Wanted(Wanted { pool, endpoint, in_flight, fresh }))
}

/// Chooses an endpoint and takes a kept connection to it, or opens one. With `fresh`, kept connections are not used.
pub(crate) async fn checkout(
    io: Io<'_>,
    snapshot: &Snapshot,
    context: &mut LbContext,
    fresh: bool,
) -> Result<Checkout, Cause> {
    match find(io, snapshot, context, fresh)? {
        Found::Kept(checkout) => Ok(checkout),
        Found::Wanted(wanted) => wanted.connect(io, snapshot, context).await,
    }
}

impl Wanted<'_> {
    /// Opens a connection, or uses one that becomes free in the meantime.
    pub(crate) async fn connect(
        self,
        io: Io<'_>,
        snapshot: &Snapshot,
        context: &mut LbContext,
    ) -> Result<Checkout, Cause> {
        let Wanted { pool, endpoint, in_flight, fresh } = self;
        let connected = connect(io, snapshot, pool, (endpoint, in_flight), (context, fresh)).await;
        context.pending = None;
        Ok(Checkout::new(pool, snapshot, connected?))
    }
}

/// Counts the request towards the backend's request limit, if there is one. If the limit is reached, returns `Err` with
/// the backend's pool, in which the request can wait.
#[inline]
pub(crate) fn in_flight<'s>(
    plan: &Plan,
    snapshot: &'s Snapshot,
    io: Io<'_>,
) -> Result<Option<Permit>, &'s BackendPool> {
    let entry = &snapshot.table.backends()[plan.backend];
    if !entry.counts_requests {
        return Ok(None);
    }
    let Some(pool) = snapshot.pool(plan.backend, &io.worker.shared.backends, io.worker.index) else {
        return Ok(None);
    };
    pool.request_permit().map(Some).ok_or(&**pool)
}

/// Waits until the request no longer exceeds the request limit. Fails at once if the backend has no queue.
#[cold]
pub(crate) async fn wait_in_flight(
    io: Io<'_>,
    snapshot: &Snapshot,
    pool: &BackendPool,
    limits: &RouteLimits,
    context: &mut LbContext,
) -> Result<Permit, Cause> {
    if !pool.has_queue() {
        return Err(pool.refuse(Cause::RequestLimit));
    }
    context.pending = Some(pool.pending_permit()?);
    pool.state.count_wait();
    limits.begin_pause(io);
    let waiting = Waiting::join(&pool.state, Kind::Request);
    let granted = waiting.granted(io, pending_ticks(snapshot, pool)).await;
    granted.map(Grant::into_permit).ok_or_else(|| {
        context.pending = None;
        limits.fail(io, pool.refuse(Cause::PendingTimeout), false)
    })
}

/// Waits because the backend's connection limit is reached. With a queue, returns a permit or a connection once one
/// becomes free. Without a queue, waits only if other workers have idle connections to close.
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

/// Waits until another worker closes an idle connection and so frees its permit. Fails if there are too few idle
/// connections for this request and the requests that already wait.
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
        // The other workers may have used their idle connections in the meantime.
        if state.idle() < state.waiting_for_connections() {
            break Cause::UpstreamLimit;
        }
        if wheel.now() >= until || io.timer.is_past_bound(wheel) {
            break Cause::PendingTimeout;
        }
    };
    waiting.leave().ok_or_else(|| pool.refuse(cause))
}

/// Asks all workers to close idle connections to the backend: one connection per waiting request.
fn ask_to_give_way(io: Io<'_>, backend: &str) {
    io.worker.shared.peers.ask(|| Command::GiveWay { backend: backend.to_owned() });
}

/// How long a request may wait for a permit, in ticks.
fn pending_ticks(snapshot: &Snapshot, pool: &BackendPool) -> u32 {
    pool.ticks.pending.or(pool.ticks.connect).unwrap_or(snapshot.ticks.connect)
}

#[inline]
fn take_kept(worker: &Worker, endpoint: &EndpointPool) -> Option<Box<Upstream>> {
    let upstream = endpoint.take_idle(worker.wheel.now())?;
    worker.upstreams.reused.add(1);
    Some(upstream)
}

/// Opens a connection. If an endpoint fails, tries the next one, and uses a kept connection to that endpoint if there
/// is one.
async fn connect(
    io: Io<'_>,
    snapshot: &Snapshot,
    pool: &BackendPool,
    (mut endpoint, mut in_flight): (Rc<EndpointPool>, Option<InFlight>),
    (context, fresh): (&mut LbContext, bool),
) -> Result<Connected, Cause> {
    let worker = io.worker;
    if pool.has_queue() && context.pending.is_none() {
        context.pending = Some(pool.pending_permit()?);
    }
    let ticks = pool.ticks.connect.unwrap_or(snapshot.ticks.connect);
    for others in (0..pool.endpoint_count().min(context.connects_left())).rev() {
        let permit = match pool.permit() {
            Some(permit) => permit,
            // Boxed, so that exchanges without a wait do not get larger.
            None => match Box::pin(wait_for_connection(io, snapshot, pool, context.backend)).await? {
                Grant::Connection(freed) if !fresh => {
                    let now = (worker.wheel.now(), worker.now_ns.get());
                    match pool.take_freed(freed, &endpoint, context, now) {
                        Ok((upstream, freed)) => {
                            worker.upstreams.reused.add(1);
                            let in_flight =
                                if Rc::ptr_eq(&freed, &endpoint) { in_flight } else { pool.enter(&freed) };
                            return Ok((upstream, freed, in_flight, true));
                        }
                        Err(permit) => permit,
                    }
                }
                granted => granted.into_permit(),
            },
        };
        pool.state.count_connect(context.connects > 0);
        context.connects += 1;
        let cause = match link(io, pool, endpoint.address(), (context.client, ticks)).await {
            Ok(link) => {
                // The PROXY protocol header names one client, so other clients must not use this connection.
                let life = match pool.backend.proxy_protocol {
                    Some(_) => Life::ONE,
                    None => Life::begin(&pool.backend.keepalive, worker.wheel.now()),
                };
                let upstream = Upstream::new(link, &endpoint, permit, life);
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
        context.failed.push(endpoint);
        if others == 0 {
            return Err(cause);
        }
        let (next, entered) = pool.choose(context, worker.now_ns.get()).ok_or(Cause::NoEndpoint)?;
        (endpoint, in_flight) = (Rc::clone(next), entered);
        // Without this, each failed connect to a dead endpoint would open one more connection to the next endpoint.
        if !fresh && let Some(upstream) = take_kept(worker, &endpoint) {
            return Ok((upstream, endpoint, in_flight, true));
        }
    }
    Err(Cause::NoEndpoint)
}

/// Connects to an endpoint, with TLS if the backend requires it.
async fn link(
    io: Io<'_>,
    pool: &BackendPool,
    endpoint: &UpstreamAddress,
    (client, ticks): (Option<Addresses>, u32),
) -> Result<Link, Cause> {
    let mut connected = io.connect(endpoint, ticks).await;
    // If no descriptor is free, close an idle upstream connection. The second connect opens its socket before any other
    // task of this worker runs.
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
        // Boxed, so that plain-text exchanges do not get larger.
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
