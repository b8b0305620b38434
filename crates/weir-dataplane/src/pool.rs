//! Connections to upstreams, kept alive between exchanges.
//!
//! A kept connection stays registered with the poll. If its upstream closes it or sends unexpected data, the poll marks
//! it readable. The pool checks this mark without a system call: once a second, and when a request takes the
//! connection.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;
use weir_config::{Backend, BackendEntry, BackendTimeouts, Balance, Member, UpstreamAddress, UpstreamTls};

use crate::affinity::id_of;
use crate::backend_state::{BackendState, Bounds, Kind, Permit};
use crate::backend_states::BackendStates;
use crate::balance::{Balancer, LbContext};
use crate::buffer::Buffer;
use crate::cause::Cause;
use crate::counters::EndpointCounters;
use crate::endpoint_state::{EndpointState, InFlight};
use crate::life::Life;
use crate::secure_upstream;
use crate::upstream_socket::Socket;
use crate::wheel::ticks;

/// One worker's connections to one backend.
#[derive(Debug)]
pub(crate) struct BackendPool {
    pub(crate) backend: Arc<Backend>,
    pub(crate) tls: Option<Arc<UpstreamTls>>,
    /// The backend's resolved endpoints, from which `endpoints` was made.
    members: Vec<Member>,
    endpoints: Vec<Rc<EndpointPool>>,
    balancer: Balancer,
    /// The backend's limits on connections and requests.
    pub(crate) bounds: Bounds,
    /// Time limits from the backend's configuration. They override the gateway's limits.
    pub(crate) ticks: OwnTicks,
    /// Whether requests in flight are counted per endpoint, for `Balance::LeastRequests`.
    is_by_requests: bool,
    /// The state that all workers share.
    pub(crate) state: Arc<BackendState>,
}

/// Time limits of one backend, in ticks of the wheel. `None` means that the gateway's limit applies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnTicks {
    pub(crate) connect: Option<u32>,
    pub(crate) response: Option<u32>,
    pub(crate) pending: Option<u32>,
    idle: Option<u32>,
}

/// One worker's connections to one endpoint.
#[derive(Debug)]
pub(crate) struct EndpointPool {
    /// The endpoint's state that all workers share.
    pub(crate) state: Arc<EndpointState>,
    /// The endpoint's id in affinity cookies, equal in all processes.
    pub(crate) id: u64,
    pub(crate) counters: Arc<EndpointCounters>,
    idle: RefCell<Vec<Idle>>,
    /// Whether the endpoint was removed from all tables. Then no connection to it is kept.
    is_closed: Cell<bool>,
}

/// Counts a request as in flight at an endpoint, until this is dropped.
#[derive(Debug)]
pub(crate) struct AtEndpoint(Rc<EndpointPool>);

#[derive(Debug)]
struct Idle {
    upstream: Box<Upstream>,
    since: u32,
}

/// A connection to an upstream, with bytes that were read and not yet used.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) link: Link,
    pub(crate) inbound: Buffer,
    life: Life,
    permit: Permit,
    counted: Counted,
}

/// A guard: while it exists, one connection to the endpoint counts as open.
#[derive(Debug)]
struct Counted(Arc<EndpointCounters>);

/// The stream to an upstream.
#[derive(Debug)]
pub(crate) enum Link {
    Plain(TcpStream),
    Unix(UnixStream),
    Tls(Box<RefCell<TlsStream<Socket>>>),
}

impl From<Socket> for Link {
    fn from(socket: Socket) -> Link {
        match socket {
            Socket::Tcp(stream) => Link::Plain(stream),
            Socket::Unix(stream) => Link::Unix(stream),
        }
    }
}

impl Upstream {
    /// A new connection to `endpoint`. `permit` counts it towards the backend's connection limit.
    ///
    /// Boxed, because each exchange moves it several times.
    pub(crate) fn new(link: Link, endpoint: &EndpointPool, permit: Permit, life: Life) -> Box<Upstream> {
        endpoint.counters.open.add(1);
        let counted = Counted(Arc::clone(&endpoint.counters));
        Box::new(Upstream { link, inbound: Buffer::default(), life, permit, counted })
    }

    /// Closes the connection and returns its permit, for another connection to the backend.
    pub(crate) fn into_permit(self) -> Permit {
        self.permit
    }

    /// Gives the connection to the first request that waits for a connection to this backend. If no request waits,
    /// returns the connection. Closes the connection if that request is on another worker, or if the connection has
    /// reached its limits. The first waiting request then gets the permit to open a new connection.
    pub(crate) fn hand_over(mut self: Box<Self>, now: u32) -> Option<Box<Upstream>> {
        let state = Arc::clone(self.permit.state());
        let queue = state.queue(Kind::Connection).filter(|queue| queue.is_anybody());
        let Some(queue) = queue else { return Some(self) };
        if self.life.spend(now) { queue.hand_over(self) } else { None }
    }

    /// Whether the connection can serve another request.
    fn is_good(&mut self, now: u32) -> bool {
        !self.life.is_over(now) && self.is_quiet()
    }

    /// Whether nothing was received since the connection was kept: neither data nor the end of the stream.
    fn is_quiet(&mut self) -> bool {
        // `try_read` makes a system call only if the poll has reported an event. `poll_read_ready` would not do: it
        // also returns `Pending` if the task has used up its tokio budget.
        let would_block = |e: std::io::Error| e.kind() == std::io::ErrorKind::WouldBlock;
        match &mut self.link {
            Link::Plain(stream) => stream.try_read(&mut [0]).is_err_and(would_block),
            Link::Unix(stream) => stream.try_read(&mut [0]).is_err_and(would_block),
            Link::Tls(stream) => secure_upstream::is_quiet(stream.get_mut()),
        }
    }
}

impl EndpointPool {
    /// A pool without connections.
    pub(crate) fn new(state: Arc<EndpointState>) -> EndpointPool {
        let id = id_of(&state.address);
        let counters = state.counters();
        // A request that uses an older table may still choose an endpoint that was removed.
        let is_closed = Cell::new(state.is_gone());
        EndpointPool { state, id, counters, idle: RefCell::default(), is_closed }
    }

    /// The endpoint's address.
    pub(crate) fn address(&self) -> &UpstreamAddress {
        &self.state.address
    }

    /// Takes an idle connection that is still usable. The most recently used one goes first, so that the others can
    /// age.
    pub(crate) fn take_idle(&self, now: u32) -> Option<Box<Upstream>> {
        let mut idle = self.idle.borrow_mut();
        while let Some(mut last) = idle.pop() {
            if last.upstream.is_good(now) {
                return Some(last.upstream);
            }
        }
        None
    }

    /// Keeps a connection whose exchange ended cleanly, if fewer than `most` are kept and it may serve another request.
    pub(crate) fn keep(&self, mut upstream: Box<Upstream>, now: u32, most: usize) {
        let mut idle = self.idle.borrow_mut();
        if upstream.life.spend(now) && idle.len() < most && !self.is_closed.get() {
            idle.push(Idle { upstream, since: now });
        }
    }

    /// Closes idle connections, and keeps none from now on.
    fn close(&self) {
        self.is_closed.set(true);
        // Each closed connection frees its permit for a waiting request.
        drop(self.idle.take());
    }

    fn sweep(&self, now: u32, idle_ticks: u32) {
        self.idle
            .borrow_mut()
            .retain_mut(|i| now.wrapping_sub(i.since) < idle_ticks && i.upstream.is_good(now));
    }
}

impl AtEndpoint {
    /// Counts a request as in flight.
    pub(crate) fn begin(endpoint: Rc<EndpointPool>) -> AtEndpoint {
        endpoint.counters.requests.add(1);
        AtEndpoint(endpoint)
    }
}

impl Deref for AtEndpoint {
    type Target = Rc<EndpointPool>;

    fn deref(&self) -> &Rc<EndpointPool> {
        &self.0
    }
}

impl Drop for AtEndpoint {
    fn drop(&mut self) {
        self.0.counters.ended.add(1);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.open.subtract(1);
    }
}

impl BackendPool {
    /// A pool for the backend in `entry`. It takes over the connections of `former` to the same endpoints if TLS and
    /// PROXY protocol are unchanged.
    pub(crate) fn new(
        (entry, bounds): (&BackendEntry, Bounds),
        states: &BackendStates,
        first: usize,
        former: Option<&BackendPool>,
    ) -> BackendPool {
        let BackendEntry { name, backend, tls, maglev, .. } = entry.clone();
        let (state, members) = (states.of(&name), states.members(entry));
        let is_hashed = matches!(backend.balance, Balance::Hash(_));
        let maglev = maglev.or_else(|| is_hashed.then(|| state.maglev(&members)));
        let is_made_alike = |former: &&BackendPool| {
            former.has_tls(tls.as_ref()) && former.backend.proxy_protocol == backend.proxy_protocol
        };
        let lender = former.filter(is_made_alike);
        let lent: HashMap<*const EndpointState, &Rc<EndpointPool>> = lender
            .iter()
            .flat_map(|former| &former.endpoints)
            .map(|endpoint| (Arc::as_ptr(&endpoint.state), endpoint))
            .collect();
        let endpoint = |known: Arc<EndpointState>| match lent.get(&Arc::as_ptr(&known)) {
            Some(same) => Rc::clone(same),
            None => Rc::new(EndpointPool::new(known)),
        };
        let addresses = members.iter().map(|member| member.address.clone());
        let endpoints = state.known_endpoints(addresses, bounds.version).into_iter().map(endpoint).collect();
        state.bound(bounds);
        let balancer =
            Balancer::new(&backend, (&members, maglev), first, former.map(|former| &former.balancer));
        let is_by_requests = backend.balance == Balance::LeastRequests;
        let BackendTimeouts { connect, response, idle, pending } = backend.timeouts;
        let ticks = OwnTicks {
            connect: connect.map(|time| ticks(time.0)),
            response: response.map(|time| ticks(time.0)),
            pending: pending.map(|time| ticks(time.0)),
            idle: idle.map(|time| ticks(time.0)),
        };
        BackendPool { backend, tls, members, endpoints, balancer, bounds, ticks, is_by_requests, state }
    }

    /// Whether this pool also fits `entry`, so that no new pool is needed.
    pub(crate) fn is_of(&self, (entry, bounds): (&BackendEntry, Bounds), states: &BackendStates) -> bool {
        let is_same = Arc::ptr_eq(&self.backend, &entry.backend) || *self.backend == *entry.backend;
        is_same
            && self.bounds.connections == bounds.connections
            && self.has_tls(entry.tls.as_ref())
            && (!entry.has_names || self.members == states.members(entry))
    }

    /// Whether the pool's connections use exactly this TLS configuration object, or no TLS if `tls` is `None`.
    fn has_tls(&self, tls: Option<&Arc<UpstreamTls>>) -> bool {
        self.tls.as_ref().map(Arc::as_ptr) == tls.map(Arc::as_ptr)
    }

    /// Closes the idle connections to endpoints that `next` does not contain.
    pub(crate) fn give_up(&self, next: Option<&BackendPool>) {
        let kept: HashSet<*const EndpointPool> =
            next.iter().flat_map(|next| &next.endpoints).map(Rc::as_ptr).collect();
        let has_ended = |endpoint: &&Rc<EndpointPool>| !kept.contains(&Rc::as_ptr(endpoint));
        self.endpoints.iter().filter(has_ended).for_each(|endpoint| endpoint.close());
    }

    pub(crate) fn endpoint_count(&self) -> usize {
        self.endpoints.len()
    }

    /// Chooses the endpoint for a request. With `Balance::LeastRequests`, it also counts the request as in flight.
    #[inline]
    pub(crate) fn choose(
        &self,
        context: &LbContext,
        now_ns: u64,
    ) -> Option<(&Rc<EndpointPool>, Option<InFlight>)> {
        let (endpoint, is_panic) =
            self.balancer.choose(&self.endpoints, &self.backend.balance, context, now_ns)?;
        if is_panic {
            self.state.count_panic();
        }
        Some((endpoint, self.enter(endpoint)))
    }

    /// Counts a request as in flight at an endpoint, with `Balance::LeastRequests` only.
    #[inline]
    pub(crate) fn enter(&self, endpoint: &EndpointPool) -> Option<InFlight> {
        self.is_by_requests.then(|| endpoint.state.enter())
    }

    /// Records the result of a request at an endpoint. An error may eject the endpoint.
    pub(crate) fn report(&self, endpoint: &EndpointPool, is_error: bool, now_ns: u64) {
        if let Some(ejection) = &self.backend.ejection {
            self.state.report(&endpoint.state, is_error, ejection, now_ns);
        }
    }

    /// Counts a request that reached a limit. Returns `cause`, which names the limit.
    #[cold]
    pub(crate) fn refuse(&self, cause: Cause) -> Cause {
        self.state.count_overflow();
        cause
    }

    /// Whether requests beyond a limit may wait in a queue.
    pub(crate) fn has_queue(&self) -> bool {
        self.backend.limits.pending > 0
    }

    /// Counts a request towards the request limit. Queued requests go first.
    #[inline]
    pub(crate) fn request_permit(&self) -> Option<Permit> {
        if self.has_queue() && self.state.is_waited_for(Kind::Request) {
            return None;
        }
        self.state.request(self.bounds.requests)
    }

    /// Counts a request towards the limit of pending requests.
    pub(crate) fn pending_permit(&self) -> Result<Permit, Cause> {
        let permit = self.state.pending(self.backend.limits.pending);
        permit.ok_or_else(|| self.refuse(Cause::PendingLimit))
    }

    /// Returns a permit for a new connection. `None` if other requests are already queued for a permit: they go first.
    /// At the limit, closes idle connections of this worker to any endpoint until a permit is free.
    pub(crate) fn permit(&self) -> Option<Permit> {
        if self.has_queue() && self.state.is_waited_for(Kind::Connection) {
            return None;
        }
        loop {
            if let Some(permit) = self.state.connection(self.bounds.connections) {
                return Some(permit);
            }
            self.pop_idle()?;
        }
    }

    /// Closes idle connections of this worker while requests of any worker wait for a connection permit. Each closed
    /// connection frees a permit for one request.
    pub(crate) fn give_way(&self) {
        while self.state.is_waited_for(Kind::Connection) && self.pop_idle().is_some() {}
    }

    /// Closes an idle connection. Returns whether there was one.
    pub(crate) fn end_idle(&self) -> bool {
        self.pop_idle().is_some()
    }

    fn pop_idle(&self) -> Option<Idle> {
        self.endpoints.iter().find_map(|endpoint| endpoint.idle.borrow_mut().pop())
    }

    /// Checks a connection that became free while a request for `wanted` waited. If the request can use the connection,
    /// returns it with its endpoint. Otherwise returns only the permit of the connection.
    pub(crate) fn take_freed(
        &self,
        mut upstream: Box<Upstream>,
        wanted: &Rc<EndpointPool>,
        context: &LbContext,
        (now, now_ns): (u32, u64),
    ) -> Result<(Box<Upstream>, Rc<EndpointPool>), Permit> {
        // Each endpoint pool has its own counters, so the counters show which pool opened the connection.
        let is_of = |endpoint: &&Rc<EndpointPool>| Arc::ptr_eq(&endpoint.counters, &upstream.counted.0);
        let found = self.endpoints.iter().zip(&self.members).find(|(endpoint, _)| is_of(endpoint));
        let is_right = found.is_some_and(|(endpoint, member)| {
            let is_as_good = context.affinity.is_open()
                && member.weight > 0
                && !endpoint.state.is_out(now_ns)
                && !context.failed.iter().any(|failed| Rc::ptr_eq(failed, endpoint));
            Rc::ptr_eq(endpoint, wanted) || is_as_good
        });
        match found {
            Some((endpoint, _)) if is_right && upstream.is_good(now) => Ok((upstream, Rc::clone(endpoint))),
            _ => Err(upstream.into_permit()),
        }
    }

    /// Drops kept connections that are closed, too old or idle too long.
    pub(crate) fn sweep(&self, now: u32, idle_ticks: u32) {
        let idle_ticks = self.ticks.idle.unwrap_or(idle_ticks);
        for endpoint in &self.endpoints {
            endpoint.sweep(now, idle_ticks);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    /// A pool for endpoints at these ports.
    fn pool(
        ports: &[u16],
        states: &BackendStates,
        first: usize,
        former: Option<&BackendPool>,
    ) -> BackendPool {
        let endpoint = |&port: &u16| SocketAddr::from(([127, 0, 0, 1], port)).into();
        let endpoints = ports.iter().map(endpoint).collect();
        let backend = Arc::new(Backend { endpoints, ..Backend::default() });
        let entry = BackendEntry { backend, ..BackendEntry::default() };
        BackendPool::new((&entry, Bounds::default()), states, first, former)
    }

    #[test]
    fn endpoints_take_turns() {
        let states = BackendStates::default();
        let former = pool(&[1, 2, 3], &states, 1, None);
        let chosen = (0..7).filter_map(|_| former.choose(&LbContext::any(0), 0));
        let ports: Vec<u16> = chosen.filter_map(|(endpoint, _)| endpoint.address().port()).collect();
        assert_eq!(ports, [2, 3, 1, 2, 3, 1, 2]);
        let next = pool(&[3], &states, 0, Some(&former));
        assert!(Rc::ptr_eq(&former.endpoints[2], next.choose(&LbContext::any(0), 0).unwrap().0));
    }

    #[test]
    fn a_backend_without_endpoints_has_no_next_one() {
        assert!(pool(&[], &BackendStates::default(), 0, None).choose(&LbContext::any(0), 0).is_none());
    }
}
