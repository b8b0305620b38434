//! Tests of load balancing without connections.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use weir_config::{HashKey, Member, Sticky, UpstreamAddress};
use weir_document::Time;

use super::*;
use crate::endpoint_state::{EjectedFor, EndpointState};

/// A backend with endpoints and a balancer.
struct Bench {
    backend: Backend,
    endpoints: Vec<Rc<EndpointPool>>,
    balancer: Balancer,
}

impl Bench {
    fn new(balance: Balance, weights: &[u32]) -> Bench {
        Bench::of(Backend { balance, ..Backend::default() }, weights, |_| 0)
    }

    fn of(backend: Backend, weights: &[u32], since_ns: impl Fn(u16) -> u64) -> Bench {
        let address = |number: u16| UpstreamAddress::from(SocketAddr::from(([10, 0, 0, 1], number)));
        let members = (1..).zip(weights).map(|(n, &weight)| Member { address: address(n), weight });
        let members: Vec<Member> = members.collect();
        let maglev = Arc::new(Maglev::new(&members));
        let balancer = Balancer::new(&backend, (&members, Some(maglev)), 0, None);
        let states = (1..).zip(weights).map(|(n, _)| EndpointState::new(address(n), since_ns(n), 0));
        let endpoints = states.map(|state| Rc::new(EndpointPool::new(Arc::new(state)))).collect();
        Bench { backend, endpoints, balancer }
    }

    fn choose(&self, context: &LbContext, now_ns: u64) -> Option<u16> {
        let chosen = self.balancer.choose(&self.endpoints, &self.backend.balance, context, now_ns);
        chosen.and_then(|(endpoint, _)| endpoint.state.address.port())
    }

    /// Chooses an endpoint `choices` times. Returns how often each port was chosen.
    fn counts(&self, choices: usize, now_ns: u64) -> BTreeMap<u16, usize> {
        let mut counts = BTreeMap::new();
        for _ in 0..choices {
            *counts.entry(self.choose(&LbContext::any(0), now_ns).unwrap()).or_default() += 1;
        }
        counts
    }
}

fn key(hash: u64) -> LbContext {
    LbContext { affinity: Affinity::Key(hash), ..LbContext::any(0) }
}

fn sticky(id: Option<u64>) -> LbContext {
    LbContext { affinity: Affinity::Endpoint { id, is_secure: false }, ..LbContext::any(0) }
}

#[test]
fn round_robin_follows_weights() {
    let turns = |weights: &[u32]| -> Vec<u16> {
        let bench = Bench::new(Balance::RoundRobin, weights);
        (0..6).filter_map(|_| bench.choose(&LbContext::any(0), 0)).collect()
    };
    assert_eq!(turns(&[1, 1, 1]), [1, 2, 3, 1, 2, 3]);
    assert_eq!(turns(&[2, 1]), [1, 2, 1, 1, 2, 1]);
    assert_eq!(turns(&[0, 5]), [2; 6]);
    assert_eq!(turns(&[0, 0]), [0; 0]);
    assert_eq!(turns(&[]), [0; 0]);
}

#[test]
fn failed_endpoint_is_chosen_last() {
    let key_of_two = (0..).find(|&hash| Bench::new(HASH, &[1; 3]).choose(&key(hash), 0) == Some(2)).unwrap();
    let policies = [Balance::RoundRobin, Balance::LeastRequests, Balance::Random, HASH];
    for (balance, weights) in policies.into_iter().flat_map(|b| [(b.clone(), [1; 3]), (b, [1, 9, 2])]) {
        let bench = Bench::new(balance.clone(), &weights);
        let mut context = key(key_of_two);
        for expected in [3, 2, 1, 0] {
            let chosen: Vec<u16> = (0..50).filter_map(|_| bench.choose(&context, 0)).collect();
            assert_eq!(chosen.len(), 50, "{balance:?}: every choice finds an endpoint");
            let failed = |port: &&u16| context.failed.iter().any(|f| f.state.address.port() == Some(**port));
            assert!(expected == 0 || !chosen.iter().any(|port| failed(&port)), "{balance:?} {expected}");
            if let Some(next) = bench.endpoints.iter().find(|e| e.state.address.port() == Some(chosen[0])) {
                context.failed.push(Rc::clone(next));
            }
        }
    }
}

const HASH: Balance = Balance::Hash(HashKey::ClientAddress);

#[test]
fn random_follows_weights() {
    for weights in [[1, 1, 1], [1, 2, 1], [1, 0, 3]] {
        let bench = Bench::new(Balance::Random, &weights);
        let counts = bench.counts(20_000, 0);
        let all: u32 = weights.iter().sum();
        for (port, weight) in (1..).zip(weights) {
            let due = 20_000.0 * f64::from(weight) / f64::from(all);
            let count = counts.get(&port).copied().unwrap_or_default() as f64;
            // Allows for ten standard deviations.
            assert!((count - due).abs() <= 10.0 * due.sqrt(), "{weights:?}: {port} {count} of {due}");
        }
    }
}

#[test]
fn least_requests_prefers_the_less_busy_endpoint() {
    let bench = Bench::new(Balance::LeastRequests, &[1, 1]);
    let busy = bench.endpoints[0].state.enter();
    assert_eq!(bench.counts(50, 0), BTreeMap::from([(2, 50)]));
    drop(busy);
    assert_eq!(bench.counts(2_000, 0).len(), 2, "idle endpoints share requests");
    let bench = Bench::new(Balance::LeastRequests, &[1, 3]);
    let _busy = [0, 1, 1].map(|position: usize| bench.endpoints[position].state.enter());
    assert_eq!(
        bench.counts(50, 0),
        BTreeMap::from([(2, 50)]),
        "2 requests at weight 3 are less than 1 request at weight 1"
    );
}

#[test]
fn key_keeps_its_endpoint_and_moves_evenly_after_a_failure() {
    let bench = Bench::new(HASH, &[1; 5]);
    let mut spread: BTreeMap<u16, usize> = BTreeMap::new();
    for hash in (0..2_000).map(|n: u64| stable_hash(&n.to_le_bytes())) {
        let mut context = key(hash);
        let first = bench.choose(&context, 0).unwrap();
        assert_eq!(bench.choose(&context, 0), Some(first));
        if first == 1 {
            context.failed.push(Rc::clone(&bench.endpoints[0]));
            *spread.entry(bench.choose(&context, 0).unwrap()).or_default() += 1;
        }
    }
    assert_eq!(spread.keys().copied().collect::<Vec<_>>(), [2, 3, 4, 5], "{spread:?}");
}

#[test]
fn cookie_selects_the_endpoint() {
    let bench = Bench::new(Balance::Sticky(Sticky { cookie: "a".to_owned(), max_age: None }), &[1; 3]);
    let id = bench.endpoints[1].id;
    assert!((0..4).all(|_| bench.choose(&sticky(Some(id)), 0) == Some(2)));
    let others: Vec<_> = (0..3).map(|_| bench.choose(&sticky(Some(id ^ 1)), 0)).collect();
    assert_eq!(others, [Some(1), Some(2), Some(3)], "an unknown ID is ignored");
}

#[test]
fn endpoint_with_weight_0_keeps_its_clients() {
    let balance = || Balance::Sticky(Sticky { cookie: "a".to_owned(), max_age: None });
    let health = Some(Box::default());
    let bench = Bench::of(Backend { balance: balance(), health, ..Backend::default() }, &[1, 0, 1], |_| 0);
    let mut own = sticky(Some(bench.endpoints[1].id));
    assert!((0..4).all(|_| bench.choose(&own, 0) == Some(2)));
    let others: Vec<_> = (0..4).map(|_| bench.choose(&sticky(None), 0)).collect();
    assert_eq!(others, [Some(1), Some(3), Some(1), Some(3)], "it gets no new clients");
    own.failed.push(Rc::clone(&bench.endpoints[1]));
    assert_ne!(bench.choose(&own, 0), Some(2), "no retry at the endpoint that failed");
    own.failed.clear();
    bench.endpoints[1].state.set_failing(true, 5);
    assert_ne!(bench.choose(&own, 5), Some(2), "not chosen while out");
}

#[test]
fn endpoint_that_is_out_gets_no_requests_unless_all_are_out() {
    let health = || Backend { health: Some(Box::default()), ..Backend::default() };
    for balance in [Balance::RoundRobin, Balance::LeastRequests, Balance::Random, HASH] {
        let bench = Bench::of(Backend { balance: balance.clone(), ..health() }, &[1; 3], |_| 0);
        let choose = |hash| bench.balancer.choose(&bench.endpoints, &balance, &key(hash), 5).unwrap();
        bench.endpoints[1].state.set_failing(true, 5);
        bench.endpoints[2].state.eject(EjectedFor::Row, 5, 10);
        for hash in 0..50 {
            let (endpoint, is_panic) = choose(hash);
            assert_eq!((endpoint.state.address.port(), is_panic), (Some(1), false), "{balance:?}");
        }
        bench.endpoints[0].state.set_failing(true, 5);
        let chosen: Vec<_> = (0..200).map(choose).collect();
        assert!(chosen.iter().all(|(_, is_panic)| *is_panic), "{balance:?}");
        let ports: std::collections::BTreeSet<u16> =
            chosen.iter().filter_map(|(endpoint, _)| endpoint.state.address.port()).collect();
        assert_eq!(ports.len(), 3, "{balance:?}: if all are out, all are candidates");
    }
}

#[test]
fn new_endpoint_begins_with_a_slow_start() {
    const SECOND: u64 = 1_000_000_000;
    let slow = || Backend { slow_start: Some(Time(Duration::from_secs(10))), ..Backend::default() };
    let second_since = |since: u64| Bench::of(slow(), &[1, 1], move |n| if n == 2 { since } else { 0 });
    let count_of_second = |age_s: u64| {
        let bench = second_since(100 * SECOND);
        bench.counts(1_100, (100 + age_s) * SECOND).get(&2).copied().unwrap_or_default()
    };
    // How many of 1,100 requests the second endpoint gets at the age of 0, 1, 5, 10 and 99 s. Its weight at these ages
    // is 10 %, 10 %, 50 %, 100 % and 100 % of the first endpoint's weight.
    assert_eq!([0, 1, 5, 10, 99].map(count_of_second), [100, 100, 367, 550, 550]);
}
