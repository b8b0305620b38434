//! The difference between two samples of positive values, with its uncertainty. Both are computed on logarithms.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::{BLOCKS_FORECAST, CLAIM_REPEATS};
use crate::figures::figure::HEADLINE_REPEATS;
use crate::figures::looks::{self, Looks};

/// Probability that a comparison detects the smallest detectable effect (statistical power).
const POWER: f64 = 0.8;
/// Logarithms that are at most this far apart count as equal, because rounding explains the difference.
const SPREAD_MIN: f64 = 1e-12;

/// The difference of the mean logarithms of B and A: the logarithm of the ratio of their geometric means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Effect {
    pub(crate) log_ratio: f64,
    pub(crate) standard_error: f64,
    pub(crate) degrees_of_freedom: f64,
    /// How often the repeats were evaluated while they were measured.
    pub(crate) looks: Looks,
}

impl Effect {
    /// The effect of independent samples with unequal variances (Welch, Biometrika 34, 1947, with Satterthwaite's
    /// degrees of freedom). `None` if a sample has fewer than two values, or a value that is not above zero.
    pub(crate) fn unpaired(a: &[f64], b: &[f64]) -> Option<Self> {
        let (a, b) = (Logs::of(a)?, Logs::of(b)?);
        let (of_a, of_b) = (a.variance / a.n, b.variance / b.n);
        let square = of_a + of_b;
        let spread = of_a.powi(2) / (a.n - 1.0) + of_b.powi(2) / (b.n - 1.0);
        let degrees_of_freedom = if spread > 0.0 { square.powi(2) / spread } else { a.n + b.n - 2.0 };
        Some(Self {
            log_ratio: b.mean - a.mean,
            standard_error: square.sqrt(),
            degrees_of_freedom,
            looks: Looks::Once,
        })
    }

    /// The effect of pairs measured in the same block. The host affects both values of a pair, so its influence cancels
    /// out.
    pub(crate) fn paired(pairs: &[(f64, f64)]) -> Option<Self> {
        if pairs.iter().any(|(a, b)| !is_positive(*a) || !is_positive(*b)) {
            return None;
        }
        let ratios: Vec<f64> = pairs.iter().map(|(a, b)| b / a).collect();
        let logs = Logs::of(&ratios)?;
        let standard_error = (logs.variance / logs.n).sqrt();
        let degrees_of_freedom = logs.n - 1.0;
        Some(Self { log_ratio: logs.mean, standard_error, degrees_of_freedom, looks: Looks::Once })
    }

    /// Whether the values vary. If not, for example because of rounding, their uncertainty is unknown.
    pub(crate) fn has_spread(&self) -> bool {
        self.standard_error > SPREAD_MIN
    }

    /// Lower and upper bound of the ratio's confidence interval, clipped to the range of positive floats. `level` is
    /// the two-sided error, such as 0.05 for 95 % confidence.
    pub(crate) fn interval(&self, level: f64) -> [f64; 2] {
        self.log_interval(level).map(|end| end.exp().clamp(f64::MIN_POSITIVE, f64::MAX))
    }

    /// Both ends of the interval for the logarithm of the ratio at the two-sided error `level`.
    pub(crate) fn log_interval(&self, level: f64) -> [f64; 2] {
        let reach = self.reach(level);
        [self.log_ratio - reach, self.log_ratio + reach]
    }

    /// Half the width of [`Effect::log_interval`] at the two-sided error `level`.
    pub(crate) fn reach(&self, level: f64) -> f64 {
        let errors = match self.looks {
            Looks::Once => self.t().inverse_cdf(1.0 - level / 2.0),
            Looks::Any => looks::reach(self.degrees_of_freedom + 1.0, level),
        };
        errors * self.standard_error
    }

    /// The two-sided p-value of the hypothesis that the logarithm of the ratio is between `-margin` and `margin`. It is
    /// the lowest error level at which the whole interval lies beyond the margin.
    pub(crate) fn p_value_beyond(&self, margin: f64) -> f64 {
        let distance = (self.log_ratio.abs() - margin) / self.standard_error;
        match self.looks {
            Looks::Once => (2.0 * self.t().sf(distance)).min(1.0),
            Looks::Any => looks::p_value(self.degrees_of_freedom + 1.0, distance),
        }
    }

    /// Minimum detectable effect, as a share, with 80 % power for this noise and number of repeats (Bloom, Evaluation
    /// Review 19, 1995). The logarithm of 1 + effect is the sum of `margin`, half the width of the interval at `level`,
    /// and the allowance for chance. An infinite effect becomes the largest float.
    pub(crate) fn smallest(&self, margin: f64, level: f64) -> f64 {
        (margin + self.reach(level) + self.chance()).exp_m1().min(f64::MAX)
    }

    /// For pairs: the number of blocks needed to decide, with 80 % power, whether the ratio lies within or beyond the
    /// margin. Assumes that ratio and noise stay the same. `None` if more than [`BLOCKS_FORECAST`] are needed.
    pub(crate) fn blocks_to_decide(&self, margin: f64, level: f64) -> Option<usize> {
        let distance = self.log_ratio.abs() - margin;
        let fewest = if distance > 0.0 { CLAIM_REPEATS } else { HEADLINE_REPEATS };
        let decides = |blocks: &usize| {
            let (now, then) = (self.degrees_of_freedom + 1.0, *blocks as f64);
            let standard_error = self.standard_error * (now / then).sqrt();
            let then = Self { standard_error, degrees_of_freedom: then - 1.0, ..*self };
            then.reach(level) + then.chance() <= distance.abs()
        };
        (fewest..=BLOCKS_FORECAST).find(decides)
    }

    /// The allowance for chance in [`Effect::smallest`]. With probability [`POWER`], the measured effect is at most
    /// this much below the true effect. It is the quantile of t at [`POWER`], times the standard error.
    fn chance(&self) -> f64 {
        self.t().inverse_cdf(POWER) * self.standard_error
    }

    fn t(&self) -> StudentsT {
        StudentsT::new(0.0, 1.0, self.degrees_of_freedom).expect("at least one degree of freedom")
    }
}

/// An effect, computed in one or two ways (readings), for example with and without the correction for host speed. If
/// there are two readings, conclusions must hold for both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reading {
    /// The effect that reports show.
    pub(crate) first: Effect,
    /// The other possible effect, for example without the correction for host speed; `None` if only one effect is
    /// possible.
    pub(crate) second: Option<Effect>,
    /// Whether the ratio's lower end (first) and upper end (second) are unknown. An unknown end is unlimited.
    pub(crate) unknown: [bool; 2],
}

impl Reading {
    /// Returns this reading with `looks` set in both effects.
    pub(crate) fn with(self, looks: Looks) -> Self {
        let of = |effect: Effect| Effect { looks, ..effect };
        Self { first: of(self.first), second: self.second.map(of), ..self }
    }

    /// The interval of the ratio. It covers the intervals of `first` and `second`.
    pub(crate) fn interval(&self, level: f64) -> [f64; 2] {
        self.open(self.over(|effect| effect.interval(level)), [f64::MIN_POSITIVE, f64::MAX])
    }

    /// Like [`Reading::interval`], but for the logarithm of the ratio.
    pub(crate) fn log_interval(&self, level: f64) -> [f64; 2] {
        self.open(self.over(|effect| effect.log_interval(level)), [f64::NEG_INFINITY, f64::INFINITY])
    }

    /// The p-value of the effect, see [`Effect::p_value_beyond`]. If there are two readings, the higher one. 1 if the
    /// readings differ in direction, or if the end of the interval that is closer to zero is unknown.
    pub(crate) fn p_value_beyond(&self, margin: f64) -> f64 {
        let agree = self.second.is_none_or(|second| second.log_ratio * self.first.log_ratio > 0.0);
        let [low, high] = self.unknown;
        let is_known = if self.first.log_ratio > 0.0 { !low } else { !high };
        if agree && is_known { self.greatest(|effect| effect.p_value_beyond(margin)) } else { 1.0 }
    }

    /// The minimum detectable effect of `first` or `second`, whichever is larger; see [`Effect::smallest`].
    pub(crate) fn smallest(&self, margin: f64, level: f64) -> f64 {
        self.greatest(|effect| effect.smallest(margin, level))
    }

    /// Number of blocks needed to decide for both effects, see [`Effect::blocks_to_decide`]. `None` if that function
    /// returns `None`, if the effects lie on different sides of the margin, or if an end of the interval is unknown.
    pub(crate) fn blocks_to_decide(&self, margin: f64, level: f64) -> Option<usize> {
        let is_beyond = |effect: &Effect| effect.log_ratio.abs() > margin;
        let second = self.second.unwrap_or(self.first);
        let is_split = is_beyond(&self.first) != is_beyond(&second)
            || is_beyond(&second) && self.first.log_ratio * second.log_ratio < 0.0;
        if is_split || self.unknown.contains(&true) {
            return None;
        }
        let of = |effect: Effect| effect.blocks_to_decide(margin, level);
        Some(of(self.first)?.max(of(second)?))
    }

    /// Replaces unknown bounds of the interval: the lower bound with `lowest`, the upper bound with `highest`.
    fn open(&self, [low, high]: [f64; 2], [lowest, highest]: [f64; 2]) -> [f64; 2] {
        let [no_low, no_high] = self.unknown;
        [if no_low { lowest } else { low }, if no_high { highest } else { high }]
    }

    fn over(&self, of: impl Fn(&Effect) -> [f64; 2]) -> [f64; 2] {
        let [low, high] = of(&self.first);
        let [other_low, other_high] = self.second.as_ref().map_or([low, high], of);
        [low.min(other_low), high.max(other_high)]
    }

    fn greatest(&self, of: impl Fn(&Effect) -> f64) -> f64 {
        let first = of(&self.first);
        self.second.as_ref().map_or(first, |second| of(second).max(first))
    }
}

impl From<Effect> for Reading {
    fn from(first: Effect) -> Self {
        Self { first, second: None, unknown: [false; 2] }
    }
}

/// Whether all values of a sample are equal.
pub(crate) fn is_alike(values: &[f64]) -> bool {
    Logs::of(values).is_some_and(|logs| logs.variance.sqrt() <= SPREAD_MIN)
}

/// Mean and variance of the logarithms of a sample.
struct Logs {
    n: f64,
    mean: f64,
    variance: f64,
}

impl Logs {
    fn of(values: &[f64]) -> Option<Self> {
        if values.len() < 2 || !values.iter().copied().all(is_positive) {
            return None;
        }
        let n = values.len() as f64;
        let logs = || values.iter().map(|value| value.ln());
        let mean = logs().sum::<f64>() / n;
        let variance = logs().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0);
        Some(Self { n, mean, variance })
    }
}

fn is_positive(value: f64) -> bool {
    value > 0.0 && value.is_finite()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-4 * expected.abs().max(1.0), "{value} is not {expected}");
    }

    fn exponentials(logs: &[f64]) -> Vec<f64> {
        logs.iter().map(|log| log.exp()).collect()
    }

    #[test]
    fn samples_with_unequal_variances_are_compared_by_welchs_test() {
        // By hand: means 2 and 6; variances 1 and 26/3; squares of the standard errors 1/3 and 26/12.
        let (a, b) = (exponentials(&[1.0, 2.0, 3.0]), exponentials(&[3.0, 5.0, 6.0, 10.0]));
        let effect = Effect::unpaired(&a, &b).unwrap();
        near(effect.log_ratio, 4.0);
        let (of_a, of_b) = (1.0 / 3.0, (9.0 + 1.0 + 0.0 + 16.0) / 3.0 / 4.0);
        near(effect.standard_error, f64::sqrt(of_a + of_b));
        near(effect.degrees_of_freedom, (of_a + of_b).powi(2) / (of_a.powi(2) / 2.0 + of_b.powi(2) / 3.0));
    }

    #[test]
    fn common_factors_of_pairs_cancel_out() {
        let pairs: Vec<(f64, f64)> = [1.0, 50.0, 3.0]
            .into_iter()
            .zip([0.1, 0.2, 0.3])
            .map(|(host, log)| (host, host * f64::exp(log)))
            .collect();
        let effect = Effect::paired(&pairs).unwrap();
        near(effect.log_ratio, 0.2);
        near(effect.standard_error, 0.1 / f64::sqrt(3.0));
        near(effect.degrees_of_freedom, 2.0);
    }

    #[test]
    fn the_p_value_is_the_level_at_which_the_interval_ends_at_the_margin() {
        let effect =
            Effect { log_ratio: -0.3, standard_error: 0.05, degrees_of_freedom: 11.5, looks: Looks::Once };
        let margin = 0.1;
        let [_, high] = effect.interval(effect.p_value_beyond(margin));
        near(high, f64::exp(-margin));
        near(Effect { log_ratio: 0.05, ..effect }.p_value_beyond(margin), 1.0);
    }

    #[test]
    fn claims_hold_for_both_readings() {
        let first =
            Effect { log_ratio: 0.3, standard_error: 0.02, degrees_of_freedom: 8.0, looks: Looks::Once };
        let second =
            Effect { log_ratio: 0.2, standard_error: 0.01, degrees_of_freedom: 9.0, looks: Looks::Once };
        let both = Reading { first, second: Some(second), unknown: [false; 2] };
        assert_eq!(both.log_interval(0.01), [second.log_interval(0.01)[0], first.log_interval(0.01)[1]]);
        let level = both.p_value_beyond(0.1);
        near(level, second.p_value_beyond(0.1).max(first.p_value_beyond(0.1)));
        near(both.log_interval(level)[0], 0.1);
        assert!(both.smallest(0.1, 0.01) >= first.smallest(0.1, 0.01).max(second.smallest(0.1, 0.01)));
        let apart = Reading { second: Some(Effect { log_ratio: -0.2, ..second }), ..both };
        near(apart.p_value_beyond(0.1), 1.0);
        assert_eq!(Reading::from(first).interval(0.01), first.interval(0.01));
    }

    #[test]
    fn extreme_quantiles_match_the_tables() {
        let effect = |degrees_of_freedom| Effect {
            log_ratio: 0.0,
            standard_error: 1.0,
            degrees_of_freedom,
            looks: Looks::Once,
        };
        near(effect(10.0).reach(0.01), 3.169_27);
        near(effect(5.0).reach(0.001), 6.868_83);
        near(effect(18.0).reach(0.002), 3.610_48);
        // The expected logarithm is a sum of three: the margin of 5 %, 3.169 standard errors (t quantile for the
        // level), and 0.879 standard errors (t quantile for the power).
        let noisy = Effect { standard_error: 0.01, ..effect(10.0) };
        near(noisy.smallest(1.05_f64.ln(), 0.01), 1.05 * f64::exp(0.031_692_7 + 0.008_790_6) - 1.0);
    }

    #[test]
    fn the_forecast_is_the_first_number_of_blocks_whose_interval_ends_before_the_margin() {
        let margin = 1.1_f64.ln();
        let noisy = |log_ratio: f64, standard_error| Effect {
            log_ratio,
            standard_error,
            degrees_of_freedom: 5.0,
            looks: Looks::Once,
        };
        let check = |log_ratio, expected| {
            let effect = noisy(log_ratio, 1.0 / 30.0);
            assert_eq!(effect.blocks_to_decide(margin, 0.01), expected, "{log_ratio}");
        };
        // Computed by hand. The standard deviation of a block is sqrt(6) / 30 = 0.0816. `n` blocks suffice if (t at 99
        // % + t at 80 %) * 0.0816 / sqrt(n) is at most the distance between `log_ratio` and the margin:
        // - 14 blocks: (3.012 + 0.870) * 0.0816 / sqrt(14) = 0.0847. The distance is 0.9 * margin = 0.0858.
        // - 17 blocks: (2.921 + 0.865) * 0.0816 / sqrt(17) = 0.0750. The distance is 0.8 * margin = 0.0762.
        check(0.1 * margin, Some(14));
        check(-0.2 * margin, Some(17));
        check(1.9 * margin, Some(14));
        check(margin, None);
        // Even without noise, a decision needs the minimum number of blocks.
        assert_eq!(noisy(0.0, 1e-9).blocks_to_decide(margin, 0.01), Some(HEADLINE_REPEATS));
        assert_eq!(noisy(1.0, 1e-9).blocks_to_decide(margin, 0.01), Some(CLAIM_REPEATS));
    }

    #[test]
    fn more_blocks_do_not_decide_an_open_bound() {
        let effect = |log_ratio| Effect {
            log_ratio,
            standard_error: 0.01,
            degrees_of_freedom: 5.0,
            looks: Looks::Once,
        };
        let read =
            |first, second, unknown| Reading { first: effect(first), second: Some(effect(second)), unknown };
        assert!(read(0.0, 0.02, [false; 2]).blocks_to_decide(0.1, 0.01).is_some());
        assert!(read(0.3, 0.4, [false; 2]).blocks_to_decide(0.1, 0.01).is_some());
        assert_eq!(read(0.0, 0.4, [false; 2]).blocks_to_decide(0.1, 0.01), None);
        assert_eq!(read(-0.3, 0.3, [false; 2]).blocks_to_decide(0.1, 0.01), None);
        assert_eq!(read(0.0, 0.02, [true, false]).blocks_to_decide(0.1, 0.01), None);
    }

    #[test]
    fn too_few_or_invalid_values_have_no_effect() {
        assert_eq!(Effect::unpaired(&[1.0], &[1.0, 2.0]), None);
        assert_eq!(Effect::unpaired(&[1.0, 0.0], &[1.0, 2.0]), None);
        assert_eq!(Effect::paired(&[(1.0, 2.0)]), None);
        assert_eq!(Effect::paired(&[(1.0, 2.0), (0.0, 2.0)]), None);
        assert!(!Effect::unpaired(&[2.0, 2.0], &[3.0, 3.0]).unwrap().has_spread());
        assert!(is_alike(&[2.0, 2.0, 2.0]) && !is_alike(&[2.0, 2.0, 2.01]) && !is_alike(&[2.0]));
    }

    #[test]
    fn intervals_are_clipped_to_the_range_of_floats() {
        let effect =
            Effect { log_ratio: 0.0, standard_error: 3.0, degrees_of_freedom: 1.0, looks: Looks::Once };
        assert_eq!(effect.interval(0.0005), [f64::MIN_POSITIVE, f64::MAX]);
        assert_eq!(effect.smallest(0.1, 0.0005), f64::MAX);
    }
}
