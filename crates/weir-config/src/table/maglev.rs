//! Consistent hashing with a Maglev table (Eisenbud et al., "Maglev: A Fast and Reliable Software Network Load
//! Balancer", NSDI 2016, 3.4).
//!
//! Compared with a hash ring, a lookup reads only one slot, and keys are spread more evenly: on average, an endpoint
//! has at least 100 slots, except in the largest table. When an endpoint is removed, its keys are spread over the
//! others, and few other keys move. The table depends only on the addresses and weights of the endpoints, so all
//! gateways of a fleet choose the same endpoint for a key.

use twox_hash::XxHash64;

use crate::model::Backend;
use crate::model::Balance;
use crate::model::Member;

/// Sizes of tables, in slots. They are prime, so that every step size reaches all slots.
const SIZES: [usize; 6] = [1_021, 4_099, 16_411, 65_537, 262_147, 1_048_583];

/// Minimum average number of slots per endpoint, except in the largest table.
const SLOTS_EACH: usize = 100;

/// Maps hashes of keys to endpoints.
#[derive(Debug)]
pub struct Maglev {
    /// The position of the endpoint for each slot; empty if all weights are 0.
    slots: Box<[u32]>,
}

/// The hash of a key. It is the same in every process and version, so all gateways of a fleet agree.
pub fn stable_hash(key: &[u8]) -> u64 {
    XxHash64::oneshot(0, key)
}

/// The order in which an endpoint claims slots.
struct Walk {
    position: u32,
    weight: u64,
    slot: usize,
    step: usize,
    /// The endpoint claims its next slot when `turn * weight` reaches this value.
    due: u64,
}

impl Maglev {
    /// The table for a backend with `balance: hash` and without host names; `None` for other backends.
    pub(crate) fn of(backend: &Backend) -> Option<Maglev> {
        is_known(backend).then(|| Maglev::new(&backend.members(|_| Vec::new())))
    }

    /// Makes the table for these endpoints.
    pub fn new(members: &[Member]) -> Maglev {
        let mut walks = walks(members);
        if walks.is_empty() {
            return Maglev { slots: Box::default() };
        }
        const FREE: u32 = u32::MAX;
        let size = size_for(walks.len());
        let mut slots = vec![FREE; size].into_boxed_slice();
        let weight_max = walks.iter().map(|walk| walk.weight).max().unwrap_or_default();
        let mut free = size;
        for turn in 1.. {
            for walk in &mut walks {
                if turn * walk.weight < walk.due {
                    continue;
                }
                walk.due += weight_max;
                while slots[walk.slot] != FREE {
                    walk.slot = (walk.slot + walk.step) % size;
                }
                slots[walk.slot] = walk.position;
                free -= 1;
                if free == 0 {
                    return Maglev { slots };
                }
            }
        }
        unreachable!("an endpoint with the maximum weight takes a slot in each turn")
    }

    /// The position of the endpoint for the key with this hash; `None` if all weights are 0.
    pub fn find(&self, hash: u64) -> Option<usize> {
        let slots = self.slots.len() as u64;
        let slot = hash.checked_rem(slots)?;
        Some(self.slots[slot as usize] as usize)
    }
}

/// Whether a backend has `balance: hash` and no host names among its endpoints.
fn is_known(backend: &Backend) -> bool {
    matches!(backend.balance, Balance::Hash(_)) && backend.names().next().is_none()
}

fn size_for(endpoints: usize) -> usize {
    let [.., largest] = SIZES;
    SIZES.into_iter().find(|&size| size >= endpoints * SLOTS_EACH).unwrap_or(largest)
}

/// The [`Walk`] of each endpoint whose weight is not 0. The walks are sorted by address, so that a key's endpoint does
/// not depend on the order in the configuration.
fn walks(members: &[Member]) -> Vec<Walk> {
    let mut weighted: Vec<(usize, &Member)> =
        members.iter().enumerate().filter(|(_, member)| member.weight > 0).collect();
    weighted.sort_by(|(_, a), (_, b)| a.address.cmp(&b.address));
    let size = size_for(weighted.len());
    let walk = |(position, member): (usize, &Member)| {
        let name = member.address.to_string();
        let [start, step] = [1, 2].map(|seed| XxHash64::oneshot(seed, name.as_bytes()) as usize);
        Walk {
            position: position as u32,
            weight: u64::from(member.weight),
            slot: start % size,
            step: step % (size - 1) + 1,
            due: 0,
        }
    };
    weighted.into_iter().map(walk).collect()
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::model::UpstreamAddress;

    fn endpoint(number: u16, weight: u32) -> Member {
        Member { address: SocketAddr::from(([10, 0, 0, 1], number)).into(), weight }
    }

    fn owners(endpoints: &[Member], keys: u64) -> Vec<UpstreamAddress> {
        let table = Maglev::new(endpoints);
        let owner =
            |key: u64| endpoints[table.find(stable_hash(&key.to_le_bytes())).unwrap()].address.clone();
        (0..keys).map(owner).collect()
    }

    #[test]
    fn slots_are_proportional_to_weights() {
        let check = |weights: &[u32]| {
            let endpoints: Vec<_> = (1..).zip(weights).map(|(n, &weight)| endpoint(n, weight)).collect();
            let table = Maglev::new(&endpoints);
            let all: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
            for (position, &weight) in weights.iter().enumerate() {
                let has = table.slots.iter().filter(|&&slot| slot as usize == position).count();
                let due = table.slots.len() as f64 * f64::from(weight) / all as f64;
                assert!((has as f64 - due).abs() <= 2.0, "{weights:?}: {position} has {has} of {due} slots");
            }
        };
        check(&[1]);
        check(&[1; 7]);
        check(&[1; 200]);
        check(&[3, 1]);
        check(&[5, 0, 2, 1]);
    }

    #[test]
    fn removing_an_endpoint_moves_few_other_keys() {
        const KEYS: u64 = 20_000;
        let all: Vec<_> = (1..=10).map(|n| endpoint(n, 1)).collect();
        let gone = all[3].address.clone();
        let fewer: Vec<_> = all.iter().filter(|&endpoint| endpoint.address != gone).cloned().collect();
        let (before, after) = (owners(&all, KEYS), owners(&fewer, KEYS));
        assert!(!after.contains(&gone));
        let moved = before.iter().zip(&after).filter(|(was, is)| **was != gone && was != is).count();
        assert!(moved < KEYS as usize / 10, "{moved} of {KEYS} keys moved");
    }

    #[test]
    fn ignores_the_order_of_endpoints() {
        let mut endpoints: Vec<_> = (1..=5).map(|n| endpoint(n, u32::from(n))).collect();
        let before = owners(&endpoints, 5_000);
        endpoints.reverse();
        assert_eq!(owners(&endpoints, 5_000), before);
    }

    #[test]
    fn finds_no_endpoint_without_weights() {
        assert_eq!(Maglev::new(&[]).find(7), None);
        assert_eq!(Maglev::new(&[endpoint(1, 0)]).find(7), None);
    }

    #[test]
    fn sizes_are_prime_and_sufficient() {
        let is_prime = |n: usize| (2..).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d));
        assert!(SIZES.into_iter().all(is_prime));
        assert_eq!([1, 10, 11, 2_000, 1_000_000].map(size_for), [1_021, 1_021, 4_099, 262_147, 1_048_583]);
    }
}
