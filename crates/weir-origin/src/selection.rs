//! Which requests become errors: a fixed pattern that meets its share exactly in the long run.

/// Counts requests, and picks the one at which `count x share` passes a whole number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selection {
    share: f64,
    seen: u64,
    picked: u64,
}

impl Selection {
    pub(crate) fn new(share: f64) -> Self {
        Self { share, seen: 0, picked: 0 }
    }

    /// Whether the next request is picked.
    #[inline]
    pub(crate) fn next_is_picked(&mut self) -> bool {
        if self.share == 0.0 {
            return false;
        }
        self.seen += 1;
        // The product is rounded, but never by enough to lose a pick: the next count makes up for it.
        let due = (self.seen as f64 * self.share) as u64;
        let picked = due > self.picked;
        self.picked += u64::from(picked);
        picked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn picks(share: f64, of: u64) -> u64 {
        let mut selection = Selection::new(share);
        (0..of).filter(|_| selection.next_is_picked()).count() as u64
    }

    #[test]
    fn the_share_is_met_exactly_in_the_long_run() {
        assert_eq!(picks(0.0, 1_000_000), 0);
        assert_eq!(picks(1.0, 1_000), 1_000);
        assert_eq!(picks(0.001, 1_000_000), 1_000);
        assert_eq!(picks(0.25, 7), 1);
        assert_eq!(picks(1.0 / 3.0, 300_000), 100_000);
        assert_eq!(picks(0.999, 100_000), 99_900);
    }

    #[test]
    fn picks_are_spread_evenly() {
        let mut selection = Selection::new(0.1);
        let at: Vec<usize> = (1..=40).filter(|_| selection.next_is_picked()).collect();
        assert_eq!(at, [10, 20, 30, 40]);
    }
}
