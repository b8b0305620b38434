//! CPU pinning, for parts that no cgroup limits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// How many parts are pinned to each CPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pins(Arc<Mutex<BTreeMap<usize, usize>>>);

/// The CPUs to which one part is pinned. Dropping it frees them for other parts.
#[derive(Debug)]
pub(crate) struct Pinned {
    cpus: Vec<usize>,
    pins: Pins,
}

impl Pins {
    /// Pins a part to `count` of the `usable` CPUs. It takes the CPUs with the fewest parts, because parts on the same
    /// CPU slow each other down. `None` if there are not enough CPUs.
    pub(crate) fn take(&self, usable: &[usize], count: usize) -> Option<Pinned> {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut by_load = usable.to_vec();
        by_load.sort_by_key(|cpu| parts.get(cpu).copied().unwrap_or(0));
        let mut cpus = by_load.get(..count)?.to_vec();
        cpus.sort_unstable();
        for cpu in &cpus {
            *parts.entry(*cpu).or_default() += 1;
        }
        Some(Pinned { cpus, pins: self.clone() })
    }
}

impl Pinned {
    pub(crate) fn cpus(&self) -> &[usize] {
        &self.cpus
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let mut parts = self.pins.0.lock().unwrap_or_else(PoisonError::into_inner);
        for cpu in &self.cpus {
            parts.entry(*cpu).and_modify(|count| *count -= 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_gets_its_own_cpus_while_some_are_free() {
        let pins = Pins::default();
        let usable = [0, 2, 3, 5];
        let first = pins.take(&usable, 2).unwrap();
        let second = pins.take(&usable, 1).unwrap();
        assert_eq!((first.cpus(), second.cpus()), ([0, 2].as_slice(), [3].as_slice()));
        // This part gets two CPUs: the last free one, and the first CPU that only one part uses.
        let third = pins.take(&usable, 2).unwrap();
        assert_eq!(third.cpus(), [0, 5]);
        drop(first);
        assert_eq!(pins.take(&usable, 1).unwrap().cpus(), [2]);
        assert_eq!(pins.take(&usable, 4).unwrap().cpus(), usable);
        assert!(pins.take(&usable, 5).is_none());
        drop((second, third));
        assert_eq!(pins.take(&usable, 1).unwrap().cpus(), [0]);
    }
}
