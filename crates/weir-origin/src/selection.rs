//! Which requests become errors: a fixed pattern that meets its share exactly, over all workers together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers requests, and picks those at which `number x share` passes a whole number.
///
/// Clones number on together: the share is that of the origin, and not of each of its workers.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    share: f64,
    /// Touched only where there is a share, so that an origin without errors shares nothing.
    seen: Arc<AtomicU64>,
}

impl Selection {
    pub(crate) fn new(share: f64) -> Self {
        Self { share, seen: Arc::default() }
    }

    /// Whether the next request is picked.
    #[inline]
    pub(crate) fn next_is_picked(&self) -> bool {
        if self.share == 0.0 {
            return false;
        }
        let before = self.seen.fetch_add(1, Ordering::Relaxed);
        // A rounded product still grows with its number, so no pick is lost: the sum depends on the last alone.
        let due = |number: u64| (number as f64 * self.share) as u64;
        due(before + 1) > due(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn picks(share: f64, of: u64) -> u64 {
        let selection = Selection::new(share);
        (0..of).filter(|_| selection.next_is_picked()).count() as u64
    }

    #[test]
    fn the_share_is_met_exactly() {
        assert_eq!(picks(0.0, 1_000_000), 0);
        assert_eq!(picks(1.0, 1_000), 1_000);
        assert_eq!(picks(0.001, 1_000_000), 1_000);
        assert_eq!(picks(0.25, 7), 1);
        assert_eq!(picks(1.0 / 3.0, 300_000), 100_000);
        assert_eq!(picks(0.999, 100_000), 99_900);
    }

    #[test]
    fn workers_meet_it_together() {
        let workers: Vec<Selection> = vec![Selection::new(0.01); 3];
        // Each for itself would pick none.
        let picked = (0..200).filter(|request| workers[request % 3].next_is_picked()).count();
        assert_eq!(picked, 2);
    }

    #[test]
    fn picks_are_spread_evenly() {
        let selection = Selection::new(0.1);
        let at: Vec<usize> = (1..=40).filter(|_| selection.next_is_picked()).collect();
        assert_eq!(at, [10, 20, 30, 40]);
    }
}
