//! Chooses a request for each arrival: a pure function of (seed, index), which takes the same time for any number
//! of requests.

use crate::pacing::schedule::hash;

/// A salt for the seed. It makes the choice of requests independent of the gaps between arrivals, which use the same
/// seed.
const CHOICE: u64 = 0x5851_f42d_4c95_7f2d;

/// A choice among requests: at random by their weights, or in a fixed order.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    seed: u64,
    count: u32,
    /// The alias table for different weights; empty if all weights are equal.
    columns: Vec<Column>,
    /// The requests in their order; empty if they are chosen at random.
    order: Vec<u32>,
}

/// A column of an alias table (Vose 1991). Each request has its own column, and part of the column can belong to one
/// other request. All columns are equally likely.
#[derive(Clone, Copy, Debug)]
struct Column {
    /// Probability that this column selects its own request, in units of 2^-32. Otherwise, the column selects the
    /// request `other`.
    own: u32,
    other: u32,
}

impl Choice {
    /// A random choice by weights, which must be above 0 and finite.
    pub(crate) fn new(seed: u64, weights: &[f64]) -> Self {
        debug_assert!(
            !weights.is_empty() && weights.iter().all(|weight| *weight > 0.0 && weight.is_finite())
        );
        let is_even = weights.iter().all(|weight| *weight == weights[0]);
        let columns = if is_even { Vec::new() } else { columns(weights) };
        Self { seed: seed ^ CHOICE, count: weights.len() as u32, columns, order: Vec::new() }
    }

    /// A fixed order of requests, which starts again after the last one.
    pub(crate) fn in_order(order: Vec<u32>) -> Self {
        debug_assert!(!order.is_empty());
        Self { seed: 0, count: order.len() as u32, columns: Vec::new(), order }
    }

    /// Returns the request of the arrival `index`.
    #[inline]
    pub(crate) fn of(&self, index: u64) -> u32 {
        if self.count == 1 {
            return 0;
        }
        if !self.order.is_empty() {
            return self.order[(index % u64::from(self.count)) as usize];
        }
        // The high half of the product selects the column, with negligible bias. The low half decides between the
        // two requests of the column.
        let product = u128::from(hash(self.seed, index)) * u128::from(self.count);
        let (column, within) = ((product >> 64) as u32, (product as u64 >> 32) as u32);
        match self.columns.get(column as usize) {
            Some(&Column { own, other }) if within >= own => other,
            _ => column,
        }
    }
}

fn columns(weights: &[f64]) -> Vec<Column> {
    // The weights are divided by their maximum first, so that a sum of finite weights is never infinite.
    let greatest = weights.iter().copied().fold(0.0, f64::max);
    let mean = weights.iter().map(|weight| weight / greatest).sum::<f64>() / weights.len() as f64;
    let mut shares: Vec<f64> = weights.iter().map(|weight| weight / greatest / mean).collect();
    let (mut small, mut large): (Vec<u32>, Vec<u32>) =
        (0..weights.len() as u32).partition(|&request| shares[request as usize] < 1.0);
    // Initially, each column contains only its own request. Columns that are left after the loop stay that way, because
    // their share is 1 apart from rounding.
    let mut columns: Vec<Column> =
        (0..weights.len() as u32).map(|request| Column { own: u32::MAX, other: request }).collect();
    while let (Some(&little), Some(&much)) = (small.last(), large.last()) {
        small.pop();
        let share = shares[little as usize];
        columns[little as usize] = Column { own: (share * (1u64 << 32) as f64) as u32, other: much };
        shares[much as usize] -= 1.0 - share;
        if shares[much as usize] < 1.0 {
            large.pop();
            small.push(much);
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chooses a million requests. The count of each must match its weight within four standard deviations. The seed is
    /// fixed, so the result is reproducible.
    #[track_caller]
    fn check(weights: &[f64]) {
        let choice = Choice::new(11, weights);
        let draws = 1_000_000;
        let mut counts = vec![0u32; weights.len()];
        for index in 0..draws {
            counts[choice.of(index) as usize] += 1;
        }
        let total: f64 = weights.iter().sum();
        for (&count, &weight) in counts.iter().zip(weights) {
            let share = weight / total;
            let expected = share * draws as f64;
            let sigma = (expected * (1.0 - share)).sqrt();
            let off = (f64::from(count) - expected).abs();
            assert!(off <= 4.0 * sigma, "{count} of weight {weight}, {expected} expected, sigma {sigma}");
        }
    }

    #[test]
    fn requests_are_chosen_in_proportion_to_weights() {
        check(&[1.0]);
        check(&[1.0; 8]);
        check(&[70.0, 20.0, 10.0]);
        check(&[1.0, 999.0]);
        check(&[0.001, 0.002, 0.5, 0.3, 0.001]);
        check(&[1e300, 1e300, 1e308]);
        check(&(1..=100).map(f64::from).collect::<Vec<_>>());
    }

    #[test]
    fn a_tiny_weight_is_almost_never_chosen() {
        let choice = Choice::new(1, &[1e-300, 1.0]);
        assert!((0..100_000).all(|index| choice.of(index) == 1));
    }

    #[test]
    fn choices_depend_only_on_seed_and_index() {
        let of = |seed| {
            let choice = Choice::new(seed, &[1.0, 2.0, 3.0]);
            (0..64).map(|index| choice.of(index)).collect::<Vec<_>>()
        };
        assert_eq!(of(5), of(5));
        assert_ne!(of(5), of(6));
        let choice = Choice::new(5, &[1.0, 2.0, 3.0]);
        let backwards: Vec<u32> = (0..64).rev().map(|index| choice.of(index)).rev().collect();
        assert_eq!(of(5), backwards);
    }
}
