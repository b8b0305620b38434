//! Maps with names as keys. New versions are cheap, because each shares all unchanged shards with the previous one.
//!
//! The hash of a name selects its shard. A change copies only the shards that it touches; a lookup follows one more
//! pointer than in a plain map.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::collections::FastMap;

/// Average number of entries per shard after a map is resharded.
const ENTRIES: usize = 128;
/// If the average number of entries per shard exceeds this, the map is resharded. It is much larger than [`ENTRIES`],
/// so that maps are seldom resharded.
const ENTRIES_MAX: usize = 4 * ENTRIES;

/// A map with names as keys.
#[derive(Clone, Debug)]
pub(crate) struct Sharded<V> {
    /// The number of shards is a power of two; 0 before the first insert.
    shards: Vec<Arc<Shard<V>>>,
    spread: RandomState,
    len: usize,
}

type Shard<V> = FastMap<Arc<str>, V>;

impl<V> Sharded<V> {
    #[inline]
    pub(crate) fn get(&self, name: &str) -> Option<&V> {
        self.shards.get(self.shard_of(name))?.get(name)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn shard_of(&self, name: &str) -> usize {
        match self.shards.len() {
            0 | 1 => 0,
            count => (self.spread.hash_one(name) >> 32) as usize & (count - 1),
        }
    }
}

impl<V: Clone> Sharded<V> {
    /// Reserves space for `more` names, so that inserting them does not reshard the map.
    pub(crate) fn reserve(&mut self, more: usize) {
        let len = self.len + more;
        if len > self.shards.len() * ENTRIES_MAX {
            self.spread_over(len.div_ceil(ENTRIES).next_power_of_two());
        }
    }

    pub(crate) fn insert(&mut self, name: &str, value: V) {
        if let Some(there) = self.get_mut(name) {
            *there = value;
            return;
        }
        self.reserve(1);
        let at = self.shard_of(name);
        Arc::make_mut(&mut self.shards[at]).insert(name.into(), value);
        self.len += 1;
    }

    /// A mutable reference to the value of a name. Copies the shard of the value if other versions share it.
    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut V> {
        self.get(name)?;
        let at = self.shard_of(name);
        Arc::make_mut(&mut self.shards[at]).get_mut(name)
    }

    pub(crate) fn remove(&mut self, name: &str) {
        if self.get(name).is_some() {
            let at = self.shard_of(name);
            Arc::make_mut(&mut self.shards[at]).remove(name);
            self.len -= 1;
        }
    }

    fn spread_over(&mut self, count: usize) {
        let anew = (0..count).map(|_| Arc::default()).collect();
        let former = std::mem::replace(&mut self.shards, anew);
        for (name, value) in former.into_iter().flat_map(Arc::unwrap_or_clone) {
            let at = self.shard_of(&name);
            Arc::make_mut(&mut self.shards[at]).insert(name, value);
        }
    }
}

impl<V> Default for Sharded<V> {
    fn default() -> Sharded<V> {
        Sharded { shards: Vec::new(), spread: RandomState::default(), len: 0 }
    }
}

#[cfg(test)]
impl<V> Sharded<V> {
    /// Returns the number of shards that are not shared with `other`, and the number of all shards.
    pub(crate) fn differing_from(&self, other: &Sharded<V>) -> (usize, usize) {
        let is_other = |at: &usize| !other.shards.get(*at).is_some_and(|o| Arc::ptr_eq(o, &self.shards[*at]));
        ((0..self.shards.len()).filter(is_other).count(), self.shards.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_copies_only_its_shard() {
        let mut map = Sharded::default();
        map.reserve(10_000);
        (0..10_000).for_each(|n| map.insert(&format!("name {n}"), n));
        let before = map.clone();
        map.insert("name 77", 1);
        map.insert("name 77", 2);
        assert_eq!(map.differing_from(&before), (1, 128));
        map.remove("nobody");
        assert_eq!(map.differing_from(&before), (1, 128));
        map.remove("name 4321");
        assert_eq!((before.get("name 77"), map.get("name 77")), (Some(&77), Some(&2)));
        assert_eq!((before.get("name 4321"), map.get("name 4321")), (Some(&4321), None));
        assert_eq!((before.len, map.len), (10_000, 9_999));
    }

    #[test]
    fn keeps_names_while_the_number_of_shards_grows() {
        let mut map = Sharded::default();
        assert!(map.is_empty() && map.get("0").is_none());
        for n in 0..5_000 {
            map.insert(&n.to_string(), n);
        }
        assert!((0..5_000).all(|n| map.get(&n.to_string()) == Some(&n)));
        assert!(map.shards.len() > 1 && map.len <= map.shards.len() * ENTRIES_MAX);
        (0..5_000).for_each(|n| map.remove(&n.to_string()));
        assert!(map.is_empty());
    }
}
