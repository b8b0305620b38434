//! Compares metrics with repeats beyond the measured range: for example, the recovery time of a gateway that never
//! recovered, or a quantile that lies among unanswered requests. The value of such a repeat is unknown, but greater
//! than every measured value, so it ranks last.
//!
//! Two exact tests share the error level (weighted Bonferroni):
//! - Boschloo's test compares the numbers of repeats beyond the range, as two binomial samples (R. D. Boschloo,
//!   Statistica Neerlandica 24, 1970). It computes the actual error of Fisher's test.
//! - The rank-sum test compares the ranks of all repeats, with midranks, over all permutations (F. Wilcoxon, Biometrics
//!   Bulletin 1, 1945). To test whether B is greater than A, it first raises the values of A by the margin, and lowers
//!   the values of B by the resolution of the metric. To test whether A is greater, it swaps A and B.
//!
//! The weights (`COUNTS_PART`) are chosen so that either test can decide without the other if each side has six
//! repeats. Boschloo's test decides if five of the six repeats of one side, and none of the other side, lie beyond the
//! range. The rank-sum test decides if all six repeats of one side rank after all six of the other side. Both tests
//! assume independent samples. The blocks of one run make counts and ranks of both sides more alike, so for them the
//! tests are conservative.

use serde::Serialize;
use statrs::distribution::{Binomial, Discrete, DiscreteCDF, Hypergeometric};

use crate::figures::figure::{Figure, Sample};

/// Share of the error level that Boschloo's test gets. The rank-sum test gets the rest.
const COUNTS_PART: f64 = 0.7;
/// Boschloo's test tries probabilities from 0 to 1, in this number of steps. Each probability applies to the repeats of
/// both A and B. The p-value is the maximum error over all probabilities.
const PROBABILITIES: u32 = 400;
/// Relative tolerance within which p-values count as equal, because of rounding.
const SAME: f64 = 1e-9;

/// How many repeats of A and B lie beyond the measured range, for example because the gateway never recovered, and the
/// p-value of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Beyond {
    /// Words for a repeat beyond the measured range: `not recovered`.
    pub words: &'static str,
    /// Number of A's valid repeats, and how many of them lie beyond the measured range.
    pub a: Counted,
    /// Number of B's valid repeats, and how many of them lie beyond the measured range.
    pub b: Counted,
    /// The two-sided p-value of the hypothesis that B differs from A by at most the margin.
    pub p_value: f64,
}

impl Beyond {
    /// The counts of B, then the counts of A with A's label: `not recovered in 5 of 6 repeats (old: 0 of 6)`.
    pub fn sentence(&self, label_of_a: &str) -> String {
        let Self { words, a, b, .. } = self;
        format!("{words} in {} of {} repeats ({label_of_a}: {} of {})", b.beyond, b.of, a.beyond, a.of)
    }

    /// Both counts without labels: `not recovered in 5 of 6 repeats of B and in 0 of 6 repeats of A`.
    pub(super) fn words(&self) -> String {
        let Self { words, a, b, .. } = self;
        format!(
            "{words} in {} of {} repeats of B and in {} of {} repeats of A",
            b.beyond, b.of, a.beyond, a.of
        )
    }
}

/// For one side, A or B: the number of valid repeats, and how many of them are beyond the measured range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// Number of valid repeats beyond the measured range.
    pub beyond: usize,
    /// Number of all valid repeats.
    pub of: usize,
}

/// The largest difference between A and B that still counts as equal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowed {
    /// Allowed factor between values, at least 1.
    pub(super) factor: f64,
    /// Allowed absolute difference between values: the resolution of the metric, or 0 if it has none.
    pub(super) step: f64,
}

/// Result of the tests that compare A and B if some repeats lie beyond the measured range.
pub(super) struct Tested {
    pub(super) counts: Beyond,
    /// Whether B tends to have the greater values.
    pub(super) is_b_greater: bool,
    /// The lowest p-value that is possible if B's values are greater than A's: the p-value that would result if all of
    /// B's repeats lay beyond the measured range.
    pub(super) least: f64,
}

impl Tested {
    /// Tests A against B; `None` if no valid repeat lies beyond the measured range. Values below `floor` count as
    /// equal.
    pub(super) fn of(
        words: &'static str,
        [a, b]: [&Figure; 2],
        floor: Option<f64>,
        allowed: Allowed,
    ) -> Option<Self> {
        let [a, b] = [a, b].map(|figure| Ranked::of(figure, floor));
        let [of_a, of_b] = [a.counted(), b.counted()];
        if of_a.beyond + of_b.beyond == 0 {
            return None;
        }
        let (p_value, is_b_greater) = a.test(&b, allowed);
        let counts = Beyond { words, a: of_a, b: of_b, p_value };
        Some(Self { counts, is_b_greater, least: a.least(of_b.of) })
    }
}

/// The values of the valid repeats of A or B; infinite if beyond the measured range.
struct Ranked(Vec<f64>);

impl Ranked {
    fn of(figure: &Figure, floor: Option<f64>) -> Self {
        let counted = figure.repeats.iter().filter(|repeated| repeated.reasons.is_empty());
        let value = |sample: &Sample| match sample {
            Sample::Value(value) => Some(floor.map_or(*value, |floor| value.max(floor))),
            Sample::BeyondTimeout => Some(f64::INFINITY),
            Sample::Missing => None,
        };
        Self(counted.filter_map(|repeated| value(&repeated.sample)).collect())
    }

    fn counted(&self) -> Counted {
        Counted { beyond: self.0.iter().filter(|value| value.is_infinite()).count(), of: self.0.len() }
    }

    /// The two-sided p-value, and whether `other` tends to have greater values than `self`.
    fn test(&self, other: &Self, allowed: Allowed) -> (f64, bool) {
        let (greater, less) = (self.is_exceeded_by(other, allowed), other.is_exceeded_by(self, allowed));
        ((2.0 * greater.min(less)).min(1.0), greater <= less)
    }

    /// The lowest possible two-sided p-value if the other side has `others` repeats and greater values than `self`. It
    /// results if all those repeats lie beyond the measured range.
    fn least(&self, others: usize) -> f64 {
        let worst = Self(vec![f64::INFINITY; others]);
        self.test(&worst, Allowed { factor: 1.0, step: 0.0 }).0
    }

    /// The one-sided p-value of the hypothesis that `other` exceeds `self` by at most the allowed difference.
    fn is_exceeded_by(&self, other: &Self, allowed: Allowed) -> f64 {
        let own: Vec<f64> = self.0.iter().map(|value| value * allowed.factor).collect();
        let others: Vec<f64> = other.0.iter().map(|value| value - allowed.step).collect();
        let counts = more_beyond(self.counted(), other.counted()) / COUNTS_PART;
        counts.min(higher_ranks(&own, &others) / (1.0 - COUNTS_PART)).min(1.0)
    }
}

/// Boschloo's p-value for the question whether repeats of `b` are more likely to lie beyond the measured range than
/// repeats of `a`.
///
/// Assume that all repeats lie beyond the range with the same probability. The error is the probability of a result
/// whose Fisher p-value is at most the observed one. Boschloo's p-value is the maximum error over all assumed
/// probabilities.
fn more_beyond(a: Counted, b: Counted) -> f64 {
    let seen = fisher(a, b) * (1.0 + SAME);
    let tables: Vec<(u64, u64)> = (0..=a.of)
        .flat_map(|of_a| (0..=b.of).map(move |of_b| (of_a, of_b)))
        .filter(|(of_a, of_b)| fisher(Counted { beyond: *of_a, ..a }, Counted { beyond: *of_b, ..b }) <= seen)
        .map(|(of_a, of_b)| (of_a as u64, of_b as u64))
        .collect();
    let error = |at: u32| -> f64 {
        let probability = f64::from(at) / f64::from(PROBABILITIES);
        let counts = |of: usize| Binomial::new(probability, of as u64).expect("a probability");
        let (of_a, of_b) = (counts(a.of), counts(b.of));
        tables.iter().map(|(in_a, in_b)| of_a.pmf(*in_a) * of_b.pmf(*in_b)).sum()
    };
    (0..=PROBABILITIES).map(error).fold(0.0, f64::max)
}

/// Fisher's one-sided p-value. The hypothesis: repeats of `b` are at most as likely to lie beyond the range as repeats
/// of `a`.
fn fisher(a: Counted, b: Counted) -> f64 {
    if b.beyond == 0 {
        return 1.0;
    }
    let (all, beyond) = ((a.of + b.of) as u64, (a.beyond + b.beyond) as u64);
    let of_b =
        Hypergeometric::new(all, beyond, b.of as u64).expect("the counts of B are at most the total counts");
    of_b.sf(b.beyond as u64 - 1)
}

/// The one-sided p-value of the hypothesis that `b` does not rank higher than `a` (rank-sum test). Considers every way
/// to choose as many values as `b` has from the values of `a` and `b` together. The p-value is the share of these
/// choices whose rank sum is at least the rank sum of `b`.
fn higher_ranks(a: &[f64], b: &[f64]) -> f64 {
    let mut all: Vec<f64> = a.iter().chain(b).copied().collect();
    all.sort_by(f64::total_cmp);
    // Twice the midrank is a whole number.
    let twice = |value: f64| {
        let below = all.iter().filter(|other| **other < value).count();
        below + all.iter().filter(|other| **other <= value).count() + 1
    };
    let seen: usize = b.iter().map(|value| twice(*value)).sum();
    let total: usize = all.iter().map(|value| twice(*value)).sum();
    // Number of subsets by size and rank sum.
    let mut ways = vec![vec![0.0_f64; total + 1]; b.len() + 1];
    ways[0][0] = 1.0;
    for rank in all.iter().map(|value| twice(*value)) {
        for chosen in (1..=b.len()).rev() {
            for sum in rank..=total {
                ways[chosen][sum] += ways[chosen - 1][sum - rank];
            }
        }
    }
    let chosen = &ways[b.len()];
    chosen[seen..].iter().sum::<f64>() / chosen.iter().sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-6, "{value} is not {expected}");
    }

    fn of(beyond: usize, of: usize) -> Counted {
        Counted { beyond, of }
    }

    #[test]
    fn counts_are_compared_by_the_published_tests() {
        near(fisher(of(0, 6), of(5, 6)), 6.0 / 792.0);
        near(fisher(of(0, 6), of(6, 6)), 1.0 / 924.0);
        near(fisher(of(3, 6), of(0, 6)), 1.0);
        // Each pair is the number of repeats beyond the range in A and in B. Three pairs are at least as extreme as (0,
        // 5): (0, 5), (1, 6) and (0, 6). Their total probability is highest if each repeat lies beyond the range with
        // probability 1/2.
        near(more_beyond(of(0, 6), of(5, 6)), 13.0 / 4_096.0);
        near(more_beyond(of(0, 6), of(6, 6)), 1.0 / 4_096.0);
        near(more_beyond(of(2, 6), of(0, 6)), 1.0);
    }

    #[test]
    fn ranks_are_compared_over_all_permutations() {
        near(higher_ranks(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), 1.0 / 20.0);
        near(higher_ranks(&[1.0, 2.0, 4.0], &[3.0, 5.0, 6.0]), 2.0 / 20.0);
        near(higher_ranks(&[4.0, 5.0, 6.0], &[1.0, 2.0, 3.0]), 1.0);
        // All values are tied, so all subsets have the same rank sum.
        near(higher_ranks(&[f64::INFINITY; 3], &[f64::INFINITY; 3]), 1.0);
        near(higher_ranks(&[1.0; 6], &[f64::INFINITY; 6]), 1.0 / 924.0);
    }

    #[test]
    fn six_repeats_of_each_decide_with_either_test() {
        let allowed = Allowed { factor: 1.25, step: 1.0 };
        let quick = Ranked(vec![2.0; 6]);
        let (p, is_greater) = quick.test(&Ranked([vec![2.0], vec![f64::INFINITY; 5]].concat()), allowed);
        assert!(p < 0.01 && is_greater, "{p}");
        let late = Ranked([vec![9.0; 5], vec![f64::INFINITY]].concat());
        let (p, is_greater) = late.test(&quick, allowed);
        assert!(p < 0.01 && !is_greater, "{p}");
        // 2.0 and 3.4 still count as equal, because 2.0 * `factor` + `step` is 3.5.
        let hardly = Ranked([vec![3.4; 5], vec![f64::INFINITY]].concat());
        assert!(quick.test(&hardly, allowed).0 > 0.1);
        assert!(quick.least(6) < 0.01 && Ranked(vec![2.0; 3]).least(3) > 0.01);
        near(Ranked(vec![f64::INFINITY; 6]).least(6), 1.0);
    }
}
