//! Load balancing: selects the endpoint for a request.
//!
//! Each worker has its own state. Workers share only the health and the in-flight requests of endpoints. A choice
//! iterates over all endpoints only in three cases: weights differ, some endpoints are out (unhealthy or ejected), or a
//! cookie names the endpoint.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use weir_config::{Backend, Balance, Maglev, Member, stable_hash};

use crate::affinity::Affinity;
use crate::backend_state::Permit;
use crate::pool::EndpointPool;
use crate::proxy_header::Addresses;
use crate::weights::Shares;

/// An endpoint begins a slow start with this share of its weight, in thousandths.
const SLOW_START_LEAST: u64 = 100;

/// Maximum number of random draws. If every draw hits an unsuitable endpoint, the choice iterates over all endpoints.
const DRAWS: usize = 4;

/// How often a key is rehashed while its endpoint is unhealthy or ejected. After that, the next available endpoint gets
/// the key. Rehashing spreads the keys of one endpoint over all other endpoints.
const REHASHES: u64 = 16;

/// State of a request for load balancing and connection attempts.
#[derive(Debug)]
pub(crate) struct LbContext {
    /// The position of the backend in the table.
    pub(crate) backend: usize,
    pub(crate) affinity: Affinity,
    /// The client's addresses for the PROXY protocol header to the backend. `None` if they are unknown, and for
    /// mirrored copies.
    pub(crate) client: Option<Addresses>,
    /// Endpoints that failed for this request. They are chosen last.
    pub(crate) failed: Vec<Rc<EndpointPool>>,
    /// Connection attempts so far.
    pub(crate) connects: usize,
    /// Maximum number of connection attempts.
    pub(crate) connects_max: usize,
    /// Counts the request as pending until it has a connection.
    pub(crate) pending: Option<Permit>,
}

/// Maximum number of connection attempts before a request fails or is retried. Another attempt is safe for every
/// request, because nothing was sent yet.
const CONNECTS_MAX: usize = 3;

/// The load balancer of one backend in one worker.
#[derive(Debug)]
pub(crate) struct Balancer {
    /// Whether the choice is round robin without weights, health and slow start.
    is_plain: bool,
    /// Whether all weights are equal and constant.
    is_even: bool,
    weights: Vec<u32>,
    slow_start_ns: u64,
    maglev: Option<Arc<Maglev>>,
    /// Whether health checks or ejection are configured.
    has_health: bool,
    next: Cell<usize>,
    turns: RefCell<Shares>,
}

/// Which endpoints the load balancer can choose.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Among {
    /// Endpoints that are healthy, not ejected, and did not fail for this request.
    Fresh,
    /// Endpoints that are healthy and not ejected.
    In,
    All,
}

impl LbContext {
    /// Load-balancing state of a new request, which any endpoint of the backend at position `backend` can serve.
    pub(crate) fn any(backend: usize) -> LbContext {
        LbContext {
            backend,
            affinity: Affinity::None,
            client: None,
            failed: Vec::new(),
            connects: 0,
            connects_max: CONNECTS_MAX,
            pending: None,
        }
    }

    /// Remaining connection attempts, at least one.
    pub(crate) fn connects_left(&self) -> usize {
        self.connects_max.saturating_sub(self.connects).max(1)
    }

    /// Begins a retry. A retry gets only one connection attempt. With more, a request could make several attempts per
    /// allowed retry.
    pub(crate) fn begin_retry(&mut self) {
        self.connects_max = self.connects + 1;
    }
}

impl Balancer {
    /// A balancer for this backend. Round robin begins at `first`, or continues at the position of `former`.
    pub(crate) fn new(
        backend: &Backend,
        (members, maglev): (&[Member], Option<Arc<Maglev>>),
        first: usize,
        former: Option<&Balancer>,
    ) -> Balancer {
        let weights: Vec<u32> = members.iter().map(|member| member.weight).collect();
        let has_health = backend.health.is_some() || backend.ejection.is_some();
        let slow_start_ns = backend.slow_start.map_or(0, |time| time.0.as_nanos() as u64);
        let is_even = slow_start_ns == 0 && weights.iter().all(|weight| *weight == weights[0] && *weight > 0);
        Balancer {
            is_plain: is_even && !has_health && backend.balance == Balance::RoundRobin,
            is_even,
            weights,
            slow_start_ns,
            maglev,
            has_health,
            next: Cell::new(former.map_or(first, |former| former.next.get())),
            turns: RefCell::default(),
        }
    }

    /// The endpoint for a request, if any. The flag is true in panic mode: all endpoints are unhealthy or ejected, so
    /// the choice ignores their state.
    #[inline]
    pub(crate) fn choose<'e>(
        &self,
        endpoints: &'e [Rc<EndpointPool>],
        balance: &Balance,
        context: &LbContext,
        now_ns: u64,
    ) -> Option<(&'e Rc<EndpointPool>, bool)> {
        if self.is_plain && context.failed.is_empty() {
            return Some((endpoints.get(self.turn(endpoints.len()))?, false));
        }
        let choice = Choice { balancer: self, endpoints, context, now_ns, among: Among::Fresh };
        let find = |among| Some((&endpoints[Choice { among, ..choice }.by(balance)?], among == Among::All));
        find(Among::Fresh)
            .or_else(|| find(Among::In))
            .or_else(|| if self.has_health { find(Among::All) } else { None })
    }

    /// The next position in round robin.
    #[inline]
    fn turn(&self, endpoints: usize) -> usize {
        let turn = self.next.get();
        let turn = if turn < endpoints { turn } else { 0 };
        self.next.set(turn + 1);
        turn
    }
}

/// One choice of an endpoint.
#[derive(Clone, Copy)]
struct Choice<'c> {
    balancer: &'c Balancer,
    endpoints: &'c [Rc<EndpointPool>],
    context: &'c LbContext,
    now_ns: u64,
    among: Among,
}

impl Choice<'_> {
    fn by(&self, balance: &Balance) -> Option<usize> {
        match (balance, self.context.affinity) {
            (Balance::RoundRobin, _) => self.in_turn(),
            (Balance::LeastRequests, _) => self.least_busy(),
            (Balance::Hash(_), Affinity::Key(hash)) => self.by_hash(hash),
            (Balance::Random | Balance::Hash(_), _) => self.draw(None),
            (Balance::Sticky(_), Affinity::Endpoint { id: Some(id), .. }) => {
                self.with_id(id).or_else(|| self.in_turn())
            }
            (Balance::Sticky(_), _) => self.in_turn(),
        }
    }

    /// Whether an endpoint is a candidate, regardless of its weight.
    fn is_among(&self, position: usize) -> bool {
        let endpoint = &self.endpoints[position];
        let has_failed = || self.context.failed.iter().any(|failed| Rc::ptr_eq(failed, endpoint));
        let is_out = || self.balancer.has_health && endpoint.state.is_out(self.now_ns);
        match self.among {
            Among::Fresh => !has_failed() && !is_out(),
            Among::In => !is_out(),
            Among::All => true,
        }
    }

    /// The current weight of an endpoint; 0 if it is not a candidate.
    fn weight(&self, position: usize) -> u64 {
        if !self.is_among(position) {
            return 0;
        }
        let endpoint = &self.endpoints[position];
        let Balancer { weights, slow_start_ns, .. } = self.balancer;
        let weight = u64::from(weights[position]);
        match slow_start_ns {
            0 => weight,
            whole => {
                let age_ns = endpoint.state.age_ns(self.now_ns).min(*whole);
                let grown = (u128::from(age_ns) * 1000 / u128::from(*whole)) as u64;
                weight * grown.max(SLOW_START_LEAST)
            }
        }
    }

    fn is_in(&self, position: usize) -> bool {
        self.weight(position) > 0
    }

    fn in_turn(&self) -> Option<usize> {
        let count = self.endpoints.len();
        if self.balancer.is_even {
            let mut turns = (0..count).map(|_| self.balancer.turn(count));
            return turns.find(|&position| self.is_in(position));
        }
        self.balancer.turns.borrow_mut().turn((0..count).map(|position| self.weight(position)))
    }

    /// Draws two endpoints by weight and returns the one with fewer requests per weight; the first if they are equal.
    fn least_busy(&self) -> Option<usize> {
        let first = self.draw(None)?;
        let Some(second) = self.draw(Some(first)) else { return Some(first) };
        let load = |position: usize, by: usize| {
            u64::from(self.endpoints[position].state.requests()).saturating_mul(self.weight(by))
        };
        Some(if load(second, first) < load(first, second) { second } else { first })
    }

    /// A random endpoint by weight, other than `except`.
    fn draw(&self, except: Option<usize>) -> Option<usize> {
        let count = self.endpoints.len();
        if self.balancer.is_even && count > 0 {
            // Rejection sampling draws uniformly from the candidates.
            let mut draws = (0..DRAWS).map(|_| fastrand::usize(..count));
            if let found @ Some(_) = draws.find(|&at| Some(at) != except && self.is_in(at)) {
                return found;
            }
        }
        let weights = || (0..count).filter(|&at| Some(at) != except).map(|at| (at, self.weight(at)));
        let all: u64 = weights().map(|(_, weight)| weight).sum();
        let mut left = if all > 0 { fastrand::u64(..all) } else { return None };
        for (position, weight) in weights() {
            if left < weight {
                return Some(position);
            }
            left -= weight;
        }
        None
    }

    fn by_hash(&self, hash: u64) -> Option<usize> {
        let maglev = self.balancer.maglev.as_ref()?;
        let first = maglev.find(hash)?;
        let again = (1..=REHASHES).filter_map(|turn| maglev.find(stable_hash(&(hash ^ turn).to_le_bytes())));
        let behind = (1..self.endpoints.len()).map(|step| (first + step) % self.endpoints.len());
        std::iter::once(first).chain(again).chain(behind).find(|&position| self.is_in(position))
    }

    /// The endpoint whose ID is in the client's cookie, whatever its weight. An endpoint with weight 0 gets no new
    /// clients, but keeps the clients with its cookie.
    fn with_id(&self, id: u64) -> Option<usize> {
        let position = self.endpoints.iter().position(|endpoint| endpoint.id == id)?;
        self.is_among(position).then_some(position)
    }
}

#[cfg(test)]
mod tests;
