//! Distributes a route's requests over its backends by weight, and selects requests to mirror.

use weir_config::WeightedPosition;

/// A worker's state of one route: which backend is due next, and whether to mirror the next request.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// For each backend, its weighted share of the requests so far, minus the requests that it got. The result is
    /// multiplied by the sum of all weights, so that it is an integer.
    due: Vec<i64>,
    copies: DueShare,
}

impl Shares {
    /// The position of the next backend in the list; `None` if all weights are 0. A cycle has as many requests as the
    /// sum of the weights, and each cycle follows the weights exactly. Requests to one backend are spread as far apart
    /// as possible: weights 3 and 1 give the order a a b a.
    pub(crate) fn next(&mut self, weighted: &[WeightedPosition]) -> Option<usize> {
        self.turn(weighted.iter().map(|w| u64::from(w.weight)))
    }

    /// Like [`Shares::next`], for any items with weights.
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

    /// Whether to mirror this request, if the fraction `share` of all requests is mirrored.
    pub(crate) fn is_copied(&mut self, share: f64) -> bool {
        self.copies.take(share)
    }
}

/// Selects a given fraction of items at even intervals: adds up the fraction per item, and selects an item when the sum
/// reaches 1.
#[derive(Debug, Default)]
pub(crate) struct DueShare(f64);

impl DueShare {
    /// Whether to select the next item, so that the fraction `share` of all items is selected.
    pub(crate) fn take(&mut self, share: f64) -> bool {
        /// Tolerance for rounding errors: ten times a share of 0.1 must reach 1.
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
    fn requests_are_distributed_by_weight() {
        assert_eq!(order(&[3, 1], 8), "aabaaaba");
        assert_eq!(order(&[5, 1, 1], 7), "aabacaa");
        assert_eq!(order(&[1, 1], 4), "abab");
        assert_eq!(order(&[0, 2, 0], 3), "bbb");
        assert_eq!(order(&[0, 0], 2), "--");
        assert_eq!(order(&[], 1), "-");
    }

    #[test]
    fn every_cycle_follows_the_weights_exactly() {
        let weights = [1_000_000, 0, 7, 993];
        let all = order(&weights, 1_001_000);
        for (letter, weight) in "abcd".chars().zip(weights) {
            assert_eq!(all.matches(letter).count(), weight as usize, "{letter}");
        }
    }

    #[test]
    fn the_copied_fraction_is_exact() {
        for (share, requests, copied) in
            [(0.1, 1000, 100), (0.25, 1000, 250), (1.0, 50, 50), (0.0, 50, 0), (0.001, 100_000, 100)]
        {
            let mut shares = Shares::default();
            let count = (0..requests).filter(|_| shares.is_copied(share)).count();
            assert_eq!(count, copied, "{share}");
        }
    }
}
