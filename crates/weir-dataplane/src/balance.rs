//! Which endpoint of a backend gets a request.
//!
//! What every worker needs for it is its own, but for what endpoints are in and how many requests they have. A choice
//! goes over all endpoints only where their weights differ or some are out.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use weir_config::{Backend, Balance, Maglev, Member, stable_hash};

use crate::affinity::Affinity;
use crate::backend_state::Place;
use crate::pool::EndpointPool;
use crate::proxy_header::Addresses;
use crate::weights::Shares;

/// The least part of its weight that an endpoint has at the beginning of a slow start, in 1/1000.
const SLOW_START_LEAST: u64 = 100;

/// How often a draw that met one that is out is repeated, before all are looked through.
const DRAWS: usize = 4;

/// How often a key whose endpoint is out is hashed anew, before the next that is in gets it. So its keys are spread.
const REHASHES: u64 = 16;

/// What a request brings along for the choice.
#[derive(Debug)]
pub(crate) struct Wish {
    /// The position of the backend in the table.
    pub(crate) backend: usize,
    pub(crate) affinity: Affinity,
    /// For whom it is, where that is known and the backend may be told.
    pub(crate) client: Option<Addresses>,
    /// Endpoints that have failed it; they come last.
    pub(crate) failed: Vec<Rc<EndpointPool>>,
    /// Connections that were tried for it.
    pub(crate) connects: usize,
    /// How many may be.
    pub(crate) connects_max: usize,
    /// Its place among those that wait, until it has a connection.
    pub(crate) pending: Option<Place>,
}

/// How many endpoints are tried for the first try of a request when connections fail. Nothing was sent, so any request
/// may try.
const CONNECTS_MAX: usize = 3;

/// How one worker chooses.
#[derive(Debug)]
pub(crate) struct Balancer {
    /// Each in turn, and nothing else to be looked at.
    is_plain: bool,
    /// All weights are the same, and stay so.
    is_even: bool,
    weights: Vec<u32>,
    slow_start_ns: u64,
    maglev: Option<Arc<Maglev>>,
    /// Endpoints may be out.
    has_health: bool,
    next: Cell<usize>,
    turns: RefCell<Shares>,
}

/// Which endpoints a choice is among.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Among {
    /// Those that are in and have not failed the request.
    Fresh,
    /// Those that are in.
    In,
    All,
}

impl Wish {
    /// The wish of a request that goes to any endpoint of the backend at this position.
    pub(crate) fn any(backend: usize) -> Wish {
        Wish {
            backend,
            affinity: Affinity::None,
            client: None,
            failed: Vec::new(),
            connects: 0,
            connects_max: CONNECTS_MAX,
            pending: None,
        }
    }

    /// How many connections may be tried from here on, one at least.
    pub(crate) fn connects_left(&self) -> usize {
        self.connects_max.saturating_sub(self.connects).max(1)
    }

    /// Begins another try, which is given one connection: were it given more, tries and endpoints would multiply.
    pub(crate) fn try_again(&mut self) {
        self.connects_max = self.connects + 1;
    }
}

impl Balancer {
    /// For this backend; a worker begins with `first`, or where `former` was.
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

    /// The endpoint for a request, if there is any; and whether it is one that is out, as all are.
    #[inline]
    pub(crate) fn choose<'e>(
        &self,
        endpoints: &'e [Rc<EndpointPool>],
        balance: &Balance,
        wish: &Wish,
        now_ns: u64,
    ) -> Option<(&'e Rc<EndpointPool>, bool)> {
        if self.is_plain && wish.failed.is_empty() {
            return Some((endpoints.get(self.turn(endpoints.len()))?, false));
        }
        let choice = Choice { balancer: self, endpoints, wish, now_ns, among: Among::Fresh };
        let find = |among| Some((&endpoints[Choice { among, ..choice }.by(balance)?], among == Among::All));
        find(Among::Fresh)
            .or_else(|| find(Among::In))
            .or_else(|| if self.has_health { find(Among::All) } else { None })
    }

    /// The position whose turn it is.
    #[inline]
    fn turn(&self, endpoints: usize) -> usize {
        let turn = self.next.get();
        let turn = if turn < endpoints { turn } else { 0 };
        self.next.set(turn + 1);
        turn
    }
}

/// One choice.
#[derive(Clone, Copy)]
struct Choice<'c> {
    balancer: &'c Balancer,
    endpoints: &'c [Rc<EndpointPool>],
    wish: &'c Wish,
    now_ns: u64,
    among: Among,
}

impl Choice<'_> {
    fn by(&self, balance: &Balance) -> Option<usize> {
        match (balance, self.wish.affinity) {
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

    /// Whether an endpoint is among those to choose from, whatever its weight.
    fn is_among(&self, position: usize) -> bool {
        let endpoint = &self.endpoints[position];
        let has_failed = || self.wish.failed.iter().any(|failed| Rc::ptr_eq(failed, endpoint));
        let is_out = || self.balancer.has_health && endpoint.state.is_out(self.now_ns);
        match self.among {
            Among::Fresh => !has_failed() && !is_out(),
            Among::In => !is_out(),
            Among::All => true,
        }
    }

    /// What an endpoint may get of the requests; 0 where it is not to be chosen.
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

    /// Of two that are drawn by their weights, the one with fewer requests for its weight; at rest the first.
    fn least_busy(&self) -> Option<usize> {
        let first = self.draw(None)?;
        let Some(second) = self.draw(Some(first)) else { return Some(first) };
        let load = |position: usize, by: usize| {
            u64::from(self.endpoints[position].state.requests()).saturating_mul(self.weight(by))
        };
        Some(if load(second, first) < load(first, second) { second } else { first })
    }

    /// One other than `except`, by chance and weight.
    fn draw(&self, except: Option<usize>) -> Option<usize> {
        let count = self.endpoints.len();
        if self.balancer.is_even && count > 0 {
            // What is repeated until it fits is as even as a look through all.
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

    /// The endpoint of a client that has been there before. Without a weight it gets no other clients, but keeps these.
    fn with_id(&self, id: u64) -> Option<usize> {
        let position = self.endpoints.iter().position(|endpoint| endpoint.id == id)?;
        self.is_among(position).then_some(position)
    }
}

#[cfg(test)]
mod tests;
