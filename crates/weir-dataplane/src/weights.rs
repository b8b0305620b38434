//! Whose turn it is at a route: its backends by their weights, its copies by their share.

use weir_config::WeightedPosition;

/// What a worker remembers of one route between two requests.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// How far each backend is behind what it is due, in parts of the sum of all weights.
    due: Vec<i64>,
    copies: DueShare,
}

impl Shares {
    /// The position in the list of the one whose turn it is; `None` when all weights are 0. As many requests as the sum of
    /// the weights are shared out exactly, and those of one backend lie as far apart as they can: of 3 and 1 the order is
    /// a a b a.
    pub(crate) fn next(&mut self, weighted: &[WeightedPosition]) -> Option<usize> {
        self.turn(weighted.iter().map(|w| u64::from(w.weight)))
    }

    /// The same of anything with weights: the position whose turn it is.
    pub(crate) fn turn(&mut self, weights: impl ExactSizeIterator<Item = u64>) -> Option<usize> {
        self.due.resize(weights.len(), 0);
        let mut all = 0;
        let mut first: Option<usize> = None;
        for (index, weight) in weights.enumerate().filter(|(_, weight)| *weight > 0) {
            all += weight.cast_signed();
            self.due[index] += weight.cast_signed();
            if first.is_none_or(|first| self.due[index] > self.due[first]) {
                first = Some(index);
            }
        }
        let first = first?;
        self.due[first] -= all;
        Some(first)
    }

    /// Whether this request is copied, where a `share` of them is.
    pub(crate) fn is_copied(&mut self, share: f64) -> bool {
        self.copies.take(share)
    }
}

/// The part that is due of what a share is taken of.
#[derive(Debug, Default)]
pub(crate) struct DueShare(f64);

impl DueShare {
    /// Whether the next one is among the `share`.
    pub(crate) fn take(&mut self, share: f64) -> bool {
        /// What adding decimal shares loses: ten times 10 % are a whole.
        const ROUNDING: f64 = 1e-9;
        self.0 += share;
        let is_due = self.0 >= 1.0 - ROUNDING;
        if is_due {
            self.0 -= 1.0;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(weights: &[u32], requests: usize) -> String {
        let position = |(backend, &weight)| WeightedPosition { backend, weight, series: 0 };
        let weighted: Vec<_> = weights.iter().enumerate().map(position).collect();
        let mut shares = Shares::default();
        (0..requests)
            .map(|_| shares.next(&weighted).map_or('-', |index| char::from(b'a' + index as u8)))
            .collect()
    }

    #[test]
    fn backends_take_turns_by_their_weights() {
        assert_eq!(order(&[3, 1], 8), "aabaaaba");
        assert_eq!(order(&[5, 1, 1], 7), "aabacaa");
        assert_eq!(order(&[1, 1], 4), "abab");
        assert_eq!(order(&[0, 2, 0], 3), "bbb");
        assert_eq!(order(&[0, 0], 2), "--");
        assert_eq!(order(&[], 1), "-");
    }

    #[test]
    fn every_cycle_is_shared_out_exactly() {
        let weights = [1_000_000, 0, 7, 993];
        let all = order(&weights, 1_001_000);
        for (letter, weight) in "abcd".chars().zip(weights) {
            assert_eq!(all.matches(letter).count(), weight as usize, "{letter}");
        }
    }

    #[test]
    fn a_share_is_copied_exactly() {
        for (share, requests, copied) in
            [(0.1, 1000, 100), (0.25, 1000, 250), (1.0, 50, 50), (0.0, 50, 0), (0.001, 100_000, 100)]
        {
            let mut shares = Shares::default();
            let count = (0..requests).filter(|_| shares.is_copied(share)).count();
            assert_eq!(count, copied, "{share}");
        }
    }
}
