//! Connections to upstreams, kept alive between exchanges.
//!
//! A kept connection stays registered with the poll. If its upstream closes it, or sends what nobody asked for, the
//! poll marks it readable; that is looked at without a system call when the connection is taken, and once a second.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;
use weir_config::{Backend, BackendEntry, BackendTimeouts, Balance, Member, UpstreamAddress, UpstreamTls};

use crate::affinity::id_of;
use crate::backend_state::{BackendState, Bounds, Kind, Place};
use crate::backend_states::BackendStates;
use crate::balance::{Balancer, Wish};
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
    /// What the endpoints were made of.
    members: Vec<Member>,
    endpoints: Vec<Rc<EndpointPool>>,
    balancer: Balancer,
    /// How much of it may be in use at one time.
    pub(crate) bounds: Bounds,
    /// Its own time limits, where it has any.
    pub(crate) ticks: OwnTicks,
    /// Requests are counted by endpoint.
    is_by_requests: bool,
    /// What all workers know of the backend.
    pub(crate) state: Arc<BackendState>,
}

/// Time limits of one backend, in ticks of the wheel.
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
    /// What all workers know of it.
    pub(crate) state: Arc<EndpointState>,
    /// Its name in cookies: the same in every process.
    pub(crate) id: u64,
    pub(crate) counters: Arc<EndpointCounters>,
    idle: RefCell<Vec<Idle>>,
    /// No table has it any more: what is still at it keeps nothing here.
    is_closed: Cell<bool>,
}

/// A request at an endpoint, until it is dropped.
#[derive(Debug)]
pub(crate) struct AtEndpoint(Rc<EndpointPool>);

#[derive(Debug)]
struct Idle {
    upstream: Box<Upstream>,
    since: u32,
}

/// A connection to an upstream, with what was read from it and not used.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) link: Link,
    pub(crate) inbound: Buffer,
    life: Life,
    place: Place,
    counted: Counted,
}

/// A connection among those of its endpoint, until it is dropped.
#[derive(Debug)]
struct Counted(Arc<EndpointCounters>);

/// What is spoken over a connection to an upstream.
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
    /// A new connection to `endpoint`, with its place among the backend's.
    ///
    /// Boxed, since it goes from hand to hand with each exchange.
    pub(crate) fn new(link: Link, endpoint: &EndpointPool, place: Place, life: Life) -> Box<Upstream> {
        endpoint.counters.open.add(1);
        let counted = Counted(Arc::clone(&endpoint.counters));
        Box::new(Upstream { link, inbound: Buffer::default(), life, place, counted })
    }

    /// Its place among the backend's connections, for another one.
    pub(crate) fn into_place(self) -> Place {
        self.place
    }

    /// Gives it to the first request that waits for a connection to the backend, or its place alone where that is one of
    /// another worker, or it has served to its end. Where nobody waits it comes back.
    pub(crate) fn hand_over(mut self: Box<Self>, now: u32) -> Option<Box<Upstream>> {
        let state = Arc::clone(self.place.state());
        let queue = state.queue(Kind::Connection).filter(|queue| queue.is_anybody());
        let Some(queue) = queue else { return Some(self) };
        if self.life.spend(now) { queue.hand_over(self) } else { None }
    }

    /// Whether it can serve another request.
    fn is_good(&mut self, now: u32) -> bool {
        !self.life.is_over(now) && self.is_quiet()
    }

    /// Whether nothing has come since it was kept: neither bytes nor its end.
    fn is_quiet(&mut self) -> bool {
        // The kernel is asked only where the poll has told something. Other than `poll_read_ready` this never says
        // "nothing" only because a task has used up its share.
        let would_block = |e: std::io::Error| e.kind() == std::io::ErrorKind::WouldBlock;
        match &mut self.link {
            Link::Plain(stream) => stream.try_read(&mut [0]).is_err_and(would_block),
            Link::Unix(stream) => stream.try_read(&mut [0]).is_err_and(would_block),
            Link::Tls(stream) => secure_upstream::is_quiet(stream.get_mut()),
        }
    }
}

impl EndpointPool {
    /// One without connections.
    pub(crate) fn new(state: Arc<EndpointState>) -> EndpointPool {
        let id = id_of(&state.address);
        let counters = state.counters();
        // Who goes by an older version may ask for one that is gone already.
        let is_closed = Cell::new(state.is_gone());
        EndpointPool { state, id, counters, idle: RefCell::default(), is_closed }
    }

    /// Where it is.
    pub(crate) fn address(&self) -> &UpstreamAddress {
        &self.state.address
    }

    /// A kept connection that is still good; the one used last, so that the others can age.
    pub(crate) fn take_idle(&self, now: u32) -> Option<Box<Upstream>> {
        let mut idle = self.idle.borrow_mut();
        while let Some(mut last) = idle.pop() {
            if last.upstream.is_good(now) {
                return Some(last.upstream);
            }
        }
        None
    }

    /// Keeps a connection whose exchange has ended cleanly, if there is room and it is not at its end.
    pub(crate) fn keep(&self, mut upstream: Box<Upstream>, now: u32, most: usize) {
        let mut idle = self.idle.borrow_mut();
        if upstream.life.spend(now) && idle.len() < most && !self.is_closed.get() {
            idle.push(Idle { upstream, since: now });
        }
    }

    /// Ends what is idle here, and keeps nothing from now on.
    fn close(&self) {
        self.is_closed.set(true);
        // Each of them serves who waits for its place.
        drop(self.idle.take());
    }

    fn sweep(&self, now: u32, idle_ticks: u32) {
        self.idle
            .borrow_mut()
            .retain_mut(|i| now.wrapping_sub(i.since) < idle_ticks && i.upstream.is_good(now));
    }
}

impl AtEndpoint {
    /// Counts one more request there.
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
    /// A pool for `backend`; `former` lends its endpoints' connections where these are made in the same way.
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

    /// Whether it is what a new one for `entry` would be.
    pub(crate) fn is_of(&self, (entry, bounds): (&BackendEntry, Bounds), states: &BackendStates) -> bool {
        let is_same = Arc::ptr_eq(&self.backend, &entry.backend) || *self.backend == *entry.backend;
        is_same
            && self.bounds.connections == bounds.connections
            && self.has_tls(entry.tls.as_ref())
            && (!entry.has_names || self.members == states.members(entry))
    }

    /// Whether its connections were made with this TLS, of the same files.
    fn has_tls(&self, tls: Option<&Arc<UpstreamTls>>) -> bool {
        self.tls.as_ref().map(Arc::as_ptr) == tls.map(Arc::as_ptr)
    }

    /// Ends the idle connections of its endpoints that the next one does not have.
    pub(crate) fn give_up(&self, next: Option<&BackendPool>) {
        let kept: HashSet<*const EndpointPool> =
            next.iter().flat_map(|next| &next.endpoints).map(Rc::as_ptr).collect();
        let has_ended = |endpoint: &&Rc<EndpointPool>| !kept.contains(&Rc::as_ptr(endpoint));
        self.endpoints.iter().filter(has_ended).for_each(|endpoint| endpoint.close());
    }

    pub(crate) fn endpoint_count(&self) -> usize {
        self.endpoints.len()
    }

    /// The endpoint for a request, with the request's place there where these are counted.
    #[inline]
    pub(crate) fn choose(&self, wish: &Wish, now_ns: u64) -> Option<(&Rc<EndpointPool>, Option<InFlight>)> {
        let (endpoint, is_panic) =
            self.balancer.choose(&self.endpoints, &self.backend.balance, wish, now_ns)?;
        if is_panic {
            self.state.count_panic();
        }
        Some((endpoint, self.enter(endpoint)))
    }

    /// The place of a request at an endpoint, where these are counted.
    #[inline]
    pub(crate) fn enter(&self, endpoint: &EndpointPool) -> Option<InFlight> {
        self.is_by_requests.then(|| endpoint.state.enter())
    }

    /// Takes in what a request came to at an endpoint; it may take it out.
    pub(crate) fn report(&self, endpoint: &EndpointPool, is_error: bool, now_ns: u64) {
        if let Some(ejection) = &self.backend.ejection {
            self.state.report(&endpoint.state, is_error, ejection, now_ns);
        }
    }

    /// Counts a request that found a limit reached; the cause that says which.
    #[cold]
    pub(crate) fn refuse(&self, cause: Cause) -> Cause {
        self.state.count_overflow();
        cause
    }

    /// Whether requests wait for places where there are none.
    pub(crate) fn has_queue(&self) -> bool {
        self.backend.limits.pending > 0
    }

    /// A place for a request. Those who wait for one go first.
    #[inline]
    pub(crate) fn request_place(&self) -> Option<Place> {
        if self.has_queue() && self.state.is_waited_for(Kind::Request) {
            return None;
        }
        self.state.request(self.bounds.requests)
    }

    /// A place for a request among those that wait.
    pub(crate) fn pending_place(&self) -> Result<Place, Cause> {
        let place = self.state.pending(self.backend.limits.pending);
        place.ok_or_else(|| self.refuse(Cause::PendingLimit))
    }

    /// A place for a new connection. At the limit, an idle connection of this worker to any endpoint gives up its own.
    /// Those who wait in a queue go first.
    pub(crate) fn place(&self) -> Option<Place> {
        if self.has_queue() && self.state.is_waited_for(Kind::Connection) {
            return None;
        }
        loop {
            if let Some(place) = self.state.connection(self.bounds.connections) {
                return Some(place);
            }
            self.pop_idle()?;
        }
    }

    /// Ends idle connections, as many as requests of the process wait for: each of these has a place then.
    pub(crate) fn give_way(&self) {
        while self.state.is_waited_for(Kind::Connection) && self.pop_idle().is_some() {}
    }

    /// Ends an idle connection; whether there was one.
    pub(crate) fn end_idle(&self) -> bool {
        self.pop_idle().is_some()
    }

    fn pop_idle(&self) -> Option<Idle> {
        self.endpoints.iter().find_map(|endpoint| endpoint.idle.borrow_mut().pop())
    }

    /// A connection that became free while a request for `wanted` waited, with its endpoint; or its place alone, where the
    /// connection is none for this request.
    pub(crate) fn take_freed(
        &self,
        mut upstream: Box<Upstream>,
        wanted: &Rc<EndpointPool>,
        wish: &Wish,
        (now, now_ns): (u32, u64),
    ) -> Result<(Box<Upstream>, Rc<EndpointPool>), Place> {
        // Counters are those of one pool: a connection that was made with other TLS has others.
        let is_of = |endpoint: &&Rc<EndpointPool>| Arc::ptr_eq(&endpoint.counters, &upstream.counted.0);
        let found = self.endpoints.iter().zip(&self.members).find(|(endpoint, _)| is_of(endpoint));
        let is_right = found.is_some_and(|(endpoint, member)| {
            let is_as_good = wish.affinity.is_open()
                && member.weight > 0
                && !endpoint.state.is_out(now_ns)
                && !wish.failed.iter().any(|failed| Rc::ptr_eq(failed, endpoint));
            Rc::ptr_eq(endpoint, wanted) || is_as_good
        });
        match found {
            Some((endpoint, _)) if is_right && upstream.is_good(now) => Ok((upstream, Rc::clone(endpoint))),
            _ => Err(upstream.into_place()),
        }
    }

    /// Drops kept connections that have ended or aged.
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
        let chosen = (0..7).filter_map(|_| former.choose(&Wish::any(0), 0));
        let ports: Vec<u16> = chosen.filter_map(|(endpoint, _)| endpoint.address().port()).collect();
        assert_eq!(ports, [2, 3, 1, 2, 3, 1, 2]);
        let next = pool(&[3], &states, 0, Some(&former));
        assert!(Rc::ptr_eq(&former.endpoints[2], next.choose(&Wish::any(0), 0).unwrap().0));
    }

    #[test]
    fn a_backend_without_endpoints_has_no_next_one() {
        assert!(pool(&[], &BackendStates::default(), 0, None).choose(&Wish::any(0), 0).is_none());
    }
}
