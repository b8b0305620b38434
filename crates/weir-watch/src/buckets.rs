//! Exponential buckets for latencies. In Prometheus they are a native histogram, in OpenTelemetry an exponential
//! histogram.
//!
//! Each bucket is 0.27 % wider than the one before; the exact factor is 2^(1 / 2^[`SCHEMA`]). weir's own HDR histograms
//! have buckets with a width of 0.05 % to 0.1 %, but at least 64 ns. weir adds each HDR bucket to the exponential
//! bucket that contains its middle. So the error of a quantile is at most the width of one exponential bucket plus half
//! the width of an HDR bucket. This is 0.33 %; where HDR buckets are 64 ns wide, it is 0.28 % plus 32 ns.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

/// Sets the width of the buckets: 8 is the finest resolution that Prometheus supports.
pub(crate) const SCHEMA: i32 = 8;

const NS_PER_S: f64 = 1e9;

/// Counts of latencies, since the start of a load.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Buckets {
    pub(crate) count: u64,
    /// Sum of all latencies, in seconds.
    pub(crate) sum_s: f64,
    /// Counts by the index of the bucket in Prometheus: bucket `i` contains values above base^(i - 1) and up to
    /// base^i seconds.
    pub(crate) counts: BTreeMap<i32, u64>,
}

/// A range of adjacent buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// For the first span, the index of its first bucket. For the others, the distance from the end of the span
    /// before.
    pub(crate) offset: i32,
    pub(crate) length: u32,
}

impl Buckets {
    /// Adds latencies in nanoseconds.
    pub(crate) fn add(&mut self, latencies: &Histogram<u64>) {
        for value in latencies.iter_recorded() {
            let count = value.count_since_last_iteration();
            let middle_s = latencies.median_equivalent(value.value_iterated_to()).max(1) as f64 / NS_PER_S;
            *self.counts.entry(index(middle_s)).or_default() += count;
            self.count += count;
            self.sum_s += middle_s * count as f64;
        }
    }

    /// Returns the ranges of adjacent buckets that are not empty.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        let mut end = 0;
        for index in self.counts.keys() {
            match spans.last_mut() {
                Some(span) if *index == end => span.length += 1,
                _ => spans.push(Span { offset: index - end, length: 1 }),
            }
            end = index + 1;
        }
        spans
    }

    /// Returns the first count, and then the difference between each count and the one before.
    pub(crate) fn deltas(&self) -> Vec<i64> {
        let mut before = 0;
        let delta = |count: &u64| {
            let count = *count as i64;
            count - std::mem::replace(&mut before, count)
        };
        self.counts.values().map(delta).collect()
    }

    /// Returns the index of the first bucket that is not empty, and the counts from there to the last one, including
    /// empty buckets between them. Returns 0 and an empty list if all buckets are empty.
    pub(crate) fn dense(&self) -> (i32, Vec<u64>) {
        let (Some((first, _)), Some((last, _))) =
            (self.counts.first_key_value(), self.counts.last_key_value())
        else {
            return (0, Vec::new());
        };
        (*first, (*first..=*last).map(|index| self.counts.get(&index).copied().unwrap_or(0)).collect())
    }
}

/// Returns the index of the bucket for a value above zero.
fn index(value: f64) -> i32 {
    (value.log2() * f64::from(1 << SCHEMA)).ceil() as i32
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The upper bound of a bucket.
    pub(crate) fn upper(index: i32) -> f64 {
        (f64::from(index) / f64::from(1 << SCHEMA)).exp2()
    }

    fn hdr(values: impl IntoIterator<Item = u64>) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(100, 3_600_000_000_000, 3).unwrap();
        values.into_iter().for_each(|value| histogram.record(value).unwrap());
        histogram
    }

    #[test]
    fn a_value_is_in_the_bucket_that_spans_it() {
        for value in [1e-9, 0.99, 1.0, 1.001, 0.0123, 3_600.0] {
            let index = index(value);
            assert!(upper(index - 1) < value && value <= upper(index), "{value} in {index}");
        }
    }

    #[test]
    fn the_error_of_a_quantile_is_at_most_a_third_of_a_percent() {
        let latencies = hdr((0..20_000u64).map(|step| 1_000 + step * step * 37));
        let mut buckets = Buckets::default();
        buckets.add(&latencies);
        assert_eq!(buckets.count, latencies.len());
        let exact_s = latencies.mean() * latencies.len() as f64 / NS_PER_S;
        assert!((buckets.sum_s / exact_s - 1.0).abs() < 0.001, "{} {exact_s}", buckets.sum_s);
        // Half the width of an HDR bucket at short latencies.
        let half_s = 32e-9;
        for quantile in [0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let exact_s = latencies.value_at_quantile(quantile) as f64 / NS_PER_S;
            let rank = (quantile * buckets.count as f64).ceil() as u64;
            let mut below = 0;
            let found = buckets.counts.iter().find(|(_, count)| {
                below += **count;
                below >= rank
            });
            let (index, _) = found.unwrap();
            for bound in [upper(index - 1), upper(*index)] {
                let most = 0.0033f64.max(0.0028 + half_s / exact_s);
                assert!((bound / exact_s - 1.0).abs() < most, "{quantile}: {bound} {exact_s}");
            }
        }
    }

    #[test]
    fn spans_and_deltas_encode_the_counts() {
        let check = |counts: &[(i32, u64)], spans: &[(i32, u32)], deltas: &[i64]| {
            let counts = counts.iter().copied().collect();
            let buckets = Buckets { counts, ..Buckets::default() };
            let found: Vec<_> = buckets.spans().iter().map(|span| (span.offset, span.length)).collect();
            assert_eq!((&found[..], &buckets.deltas()[..]), (spans, deltas));
        };
        check(&[], &[], &[]);
        check(&[(-3, 5)], &[(-3, 1)], &[5]);
        check(&[(-3, 5), (-2, 2), (1, 9), (2, 9)], &[(-3, 2), (2, 2)], &[5, -3, 7, 0]);
    }

    #[test]
    fn dense_counts_fill_the_gaps() {
        let buckets = Buckets { counts: [(-1, 4), (2, 6)].into(), ..Buckets::default() };
        assert_eq!(buckets.dense(), (-1, vec![4, 0, 0, 6]));
        assert_eq!(Buckets::default().dense(), (0, vec![]));
    }
}
