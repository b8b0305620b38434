//! Where an exchange gets its upstream connection from.

use std::net::SocketAddr;
use std::rc::Rc;

use crate::cause::Cause;
use crate::io::{Fault, Io};
use crate::pool::{BackendPool, EndpointPool, Link, Upstream};
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

/// The next endpoint's kept connection or a new one; `fresh` wants a new one.
#[inline]
pub(crate) async fn checkout(
    io: Io<'_>,
    snapshot: &Snapshot,
    backend: usize,
    fresh: bool,
) -> Result<Checkout, Cause> {
    let worker = io.worker;
    let pool =
        snapshot.pool(backend, &worker.shared.open_by_backend, worker.index).ok_or(Cause::NoEndpoint)?;
    let endpoint = pool.next_endpoint().ok_or(Cause::NoEndpoint)?;
    if !fresh && let Some(kept) = take_kept(worker, endpoint) {
        return Ok(kept);
    }
    connect(io, snapshot, pool, Rc::clone(endpoint), fresh).await
}

#[inline]
fn take_kept(worker: &Worker, endpoint: &Rc<EndpointPool>) -> Option<Checkout> {
    let upstream = endpoint.take_idle()?;
    worker.upstreams.reused.add(1);
    Some(Checkout { upstream, endpoint: Rc::clone(endpoint), reused: true })
}

async fn connect(
    io: Io<'_>,
    snapshot: &Snapshot,
    pool: &BackendPool,
    mut endpoint: Rc<EndpointPool>,
    fresh: bool,
) -> Result<Checkout, Cause> {
    let worker = io.worker;
    for others in (0..pool.endpoint_count().min(CONNECTS_MAX)).rev() {
        let most = snapshot.table.limits.upstream_connections;
        let permit = pool.permit(most).ok_or(Cause::UpstreamLimit)?;
        worker.upstreams.connects.add(1);
        let cause = match link(io, pool, endpoint.address, snapshot.ticks.connect).await {
            Ok(link) => {
                return Ok(Checkout { upstream: Upstream::new(link, permit), endpoint, reused: false });
            }
            Err(cause) => cause,
        };
        worker.upstreams.connect_failures.add(1);
        if others == 0 {
            return Err(cause);
        }
        endpoint = Rc::clone(pool.next_endpoint().ok_or(Cause::NoEndpoint)?);
        // Else each turn of a dead endpoint would open one more connection to its neighbour.
        if !fresh && let Some(kept) = take_kept(worker, &endpoint) {
            return Ok(kept);
        }
    }
    Err(Cause::NoEndpoint)
}

/// A new connection to an endpoint, and TLS over it where the backend asks for that.
async fn link(io: Io<'_>, pool: &BackendPool, endpoint: SocketAddr, ticks: u32) -> Result<Link, Cause> {
    let stream = io.connect(endpoint, ticks).await.map_err(|fault| cause_of(&fault))?;
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
