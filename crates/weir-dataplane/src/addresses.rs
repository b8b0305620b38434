//! Counts the connections of each client address in the whole process, if `limits.connections_per_address` is set.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cause::Cause;
use crate::worker::Shared;

/// Shards with one lock each, so that workers rarely contend when they accept at the same time.
const SHARDS: usize = 16;

/// Low bits of an IPv6 address that the limit ignores: one subscriber usually gets a /64.
const SUBSCRIBER_BITS: u32 = 64;

/// Connection counts by client address, shared by all workers.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    hasher: RandomState,
    shards: [Mutex<HashMap<IpAddr, u32>>; SHARDS],
}

/// One counted connection of an address. Drop decreases the count.
#[derive(Debug)]
pub(crate) struct AddressSeat {
    shared: Arc<Shared>,
    network: IpAddr,
}

impl AddressSeat {
    /// Counts a connection from `from`. `None` if there is no limit, that is, if `most` is `None`.
    ///
    /// # Errors
    /// If the address already has `most` connections.
    pub(crate) fn take_any(
        shared: &Arc<Shared>,
        from: SocketAddr,
        most: Option<u32>,
    ) -> Result<Option<AddressSeat>, Cause> {
        match most {
            Some(most) => AddressSeat::take(shared, from.ip(), most).map(Some).ok_or(Cause::AddressLimit),
            None => Ok(None),
        }
    }

    /// Counts a connection if the address has fewer than `most`.
    fn take(shared: &Arc<Shared>, address: IpAddr, most: u32) -> Option<AddressSeat> {
        let network = network_of(address);
        let mut counts = shared.addresses.shard(network);
        let count = counts.entry(network).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        drop(counts);
        Some(AddressSeat { shared: Arc::clone(shared), network })
    }
}

impl Drop for AddressSeat {
    fn drop(&mut self) {
        let mut counts = self.shared.addresses.shard(self.network);
        if let Some(count) = counts.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.network);
            }
        }
    }
}

impl Addresses {
    fn shard(&self, network: IpAddr) -> MutexGuard<'_, HashMap<IpAddr, u32>> {
        let shard = self.hasher.hash_one(network) as usize % SHARDS;
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The unit whose connections are counted: an IPv4 address, also in its IPv6-mapped form, or an IPv6 /64 network.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() >> SUBSCRIBER_BITS << SUBSCRIBER_BITS;
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_addresses_by_subscriber() {
        for (address, network) in [
            ("10.0.0.1", "10.0.0.1"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("2001:db8:1:2::", "2001:db8:1:2::"),
            ("::1", "::"),
        ] {
            assert_eq!(network_of(address.parse().unwrap()), network.parse::<IpAddr>().unwrap());
        }
    }
}
