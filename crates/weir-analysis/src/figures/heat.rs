//! Distribution of a load's latencies in each step: the columns of a heat map.

use std::collections::BTreeMap;

use serde::Serialize;

/// Maximum number of buckets in a column.
pub const HEAT_ROWS_MAX: usize = 40;

/// Possible numbers of buckets per factor of ten, finest first. Each number divides the one before it.
const PER_DECADE: [i32; 3] = [12, 6, 3];

/// Shares of responses per step and bucket. Buckets have the same width on a logarithmic scale of latency.
///
/// Bucket `i`, counted from 0, reaches from `10^((first + i) / per_decade)` nanoseconds to
/// `10^((first + i + 1) / per_decade)`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Heat {
    /// Buckets per factor of ten: 12, or fewer if 12 would need more than [`HEAT_ROWS_MAX`] buckets.
    pub per_decade: i32,
    /// Position of the lowest bucket: its lower end is `10^(first / per_decade)` nanoseconds.
    pub first: i32,
    /// Number of buckets in each step.
    pub rows: usize,
    /// One list per step: the share of its responses in each bucket, 0 to 1, lowest bucket first. The list of a step
    /// without responses is empty.
    pub shares: Vec<Vec<f64>>,
}

impl Heat {
    /// The heat map of a whole distribution, as a single step.
    pub fn of(histogram: &hdrhistogram::Histogram<u64>) -> Self {
        let mut shares = Shares::default();
        shares.add(histogram);
        shares.heat()
    }

    /// Lower end of bucket `row` (and upper end of the one before), nanoseconds.
    pub fn edge_ns(&self, row: usize) -> f64 {
        10_f64.powf(f64::from(self.first + row as i32) / f64::from(self.per_decade.max(1)))
    }
}

/// Numbers of responses per step, in the finest buckets.
#[derive(Default)]
pub(crate) struct Shares {
    steps: Vec<BTreeMap<i32, u64>>,
}

impl Shares {
    /// Adds a step with the latencies of `histogram`.
    pub(crate) fn add(&mut self, histogram: &hdrhistogram::Histogram<u64>) {
        let mut counts: BTreeMap<i32, u64> = BTreeMap::new();
        for step in histogram.iter_recorded() {
            let at = (step.value_iterated_to().max(1) as f64).log10() * f64::from(PER_DECADE[0]);
            *counts.entry(at.floor() as i32).or_default() += step.count_at_value();
        }
        self.steps.push(counts);
    }

    /// Builds the heat map, with buckets as fine as [`HEAT_ROWS_MAX`] allows.
    pub(crate) fn heat(&self) -> Heat {
        let places = || self.steps.iter().flat_map(|counts| counts.keys().copied());
        let (Some(low), Some(high)) = (places().min(), places().max()) else {
            return Heat { shares: vec![Vec::new(); self.steps.len()], ..Heat::default() };
        };
        let rows = |coarser: i32| (high.div_euclid(coarser) - low.div_euclid(coarser) + 1) as usize;
        let factors = PER_DECADE.map(|per_decade| PER_DECADE[0] / per_decade);
        let coarser = factors.into_iter().find(|factor| rows(*factor) <= HEAT_ROWS_MAX).unwrap_or(factors[2]);
        let (first, rows) = (low.div_euclid(coarser), rows(coarser));
        let column = |counts: &BTreeMap<i32, u64>| {
            let total: u64 = counts.values().sum();
            let mut shares = vec![0.0; if total == 0 { 0 } else { rows }];
            for (place, count) in counts {
                shares[(place.div_euclid(coarser) - first) as usize] += *count as f64 / total as f64;
            }
            shares
        };
        Heat {
            per_decade: PER_DECADE[0] / coarser,
            first,
            rows,
            shares: self.steps.iter().map(column).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_results::{HISTOGRAM_HIGH_NS, HISTOGRAM_LOW_NS, new_histogram};

    use super::*;

    fn heat(steps: &[&[u64]]) -> Heat {
        let mut shares = Shares::default();
        for times_ns in steps {
            let mut histogram = new_histogram();
            times_ns.iter().for_each(|ns| histogram.record(*ns).unwrap());
            shares.add(&histogram);
        }
        shares.heat()
    }

    #[test]
    fn shares_are_of_the_step() {
        let heat = heat(&[&[1_050, 1_050, 1_050, 5_000], &[], &[5_000]]);
        assert_eq!(heat.per_decade, 12);
        assert!((heat.edge_ns(0) - 1_000.0).abs() < 1e-6, "{}", heat.edge_ns(0));
        let row = |ns: f64| (0..heat.rows).find(|row| heat.edge_ns(row + 1) > ns).unwrap();
        assert!((heat.shares[0][row(1_050.0)] - 0.75).abs() < 1e-12);
        assert!((heat.shares[0][row(5_000.0)] - 0.25).abs() < 1e-12);
        assert!(heat.shares[1].is_empty());
        assert!((heat.shares[2].iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn whatever_the_range_the_rows_are_bounded() {
        for (least, greatest) in
            [(1_000, 1_000), (1_000, 900_000), (1_000, 3_000_000), (1_000, 4_000_000_000)]
        {
            let heat = heat(&[&[least], &[greatest]]);
            assert!((1..=HEAT_ROWS_MAX).contains(&heat.rows), "{} rows", heat.rows);
            assert!(heat.edge_ns(0) <= least as f64 * 1.001);
            assert!(heat.edge_ns(heat.rows) >= greatest as f64);
        }
        let heat = heat(&[&[HISTOGRAM_LOW_NS, HISTOGRAM_HIGH_NS]]);
        assert!(heat.rows <= HEAT_ROWS_MAX && heat.shares[0][heat.rows - 1] > 0.0, "{} rows", heat.rows);
    }
}
