//! Intervals of values that were evaluated more than once (`docs/method.md#looks`).
//!
//! A t interval holds for a number of repeats that was fixed beforehand. If repeats are added until the result is
//! precise enough, the result is evaluated several times, and one of these evaluations ("looks") may succeed by chance.
//! The intervals here hold at all looks together, for any stopping rule: they are a sequential t confidence sequence.
//! With n values, their t statistic t and c² = [`PRECISION`], the Bayes factor
//!
//! ```text
//! B = sqrt(c² / (n + c²)) ((1 + x) / (1 + x c² / (n + c²)))^(n/2),   x = t² / (n - 1)
//! ```
//!
//! is a test martingale for a normal effect of variance 1 / c², in units of the standard deviation, with the right Haar
//! prior on the scale. By Ville's inequality, it ever exceeds 1 / a with probability at most a. So the interval
//! contains all means with B below 1 / a (Lai, *Annals of Statistics* 4, 1976; Wang and Ramdas, arXiv:2310.03722).

/// c² in the formula at the top of this file. The value 0.1 is nearly the best for five repeats, at error levels of 5 %
/// and 1 %. For a hundred repeats, the best value would make intervals 10 to 15 % narrower.
const PRECISION: f64 = 0.1;

/// How often a value was evaluated while its repeats were measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Looks {
    /// The value was evaluated once, after the planned repeats.
    #[default]
    Once,
    /// The value was evaluated any number of times while repeats were added.
    Any,
}

/// Half the width of the confidence interval for a mean of `n` values, in standard errors; infinite if `n` is too
/// small. `level` is the two-sided error level of the interval.
pub(crate) fn reach(n: f64, level: f64) -> f64 {
    let shrink = PRECISION / (n + PRECISION);
    let bound = (shrink.sqrt() * level).powf(-2.0 / n);
    if bound * shrink >= 1.0 {
        return f64::INFINITY;
    }
    let x = (bound - 1.0) / (1.0 - bound * shrink);
    (x * (n - 1.0)).sqrt()
}

/// The p-value of a hypothetical mean that is `distance` standard errors away from the mean of `n` values: the lowest
/// error level at which the confidence interval excludes the hypothetical mean.
pub(crate) fn p_value(n: f64, distance: f64) -> f64 {
    if distance <= 0.0 {
        return 1.0;
    }
    let shrink = PRECISION / (n + PRECISION);
    let x = distance.powi(2) / (n - 1.0);
    let log_factor = 0.5 * shrink.ln() + 0.5 * n * ((1.0 + x) / (1.0 + x * shrink)).ln();
    (-log_factor).exp().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::interval::t_quantile;

    #[test]
    fn the_interval_ends_where_the_factor_reaches_the_level() {
        for n in [5.0, 10.0, 30.0, 1_000.0] {
            for level in [0.05, 0.01] {
                let reach = reach(n, level);
                assert!((p_value(n, reach) / level - 1.0).abs() < 1e-9, "{n} {level}");
                assert!(reach > t_quantile(1.0 - level, n as usize - 1), "wider than for one look");
            }
        }
        assert_eq!(reach(2.0, 0.01), f64::INFINITY);
        assert_eq!(p_value(10.0, 0.0), 1.0);
        assert!((3.5..4.5).contains(&reach(10.0, 0.05)), "{}", reach(10.0, 0.05));
    }

    /// Normally distributed numbers (Box-Muller transform) from a linear congruential generator.
    struct Normal(u64);

    impl Normal {
        fn uniform(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((self.0 >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
        }

        fn next(&mut self) -> f64 {
            (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
        }
    }

    #[test]
    fn at_most_one_percent_of_sequences_differ_when_evaluated_after_every_repeat() {
        let (sequences, repeats, level) = (1_000, 60, 0.01);
        let mut normal = Normal(7);
        let [mut at_once, mut at_any] = [0, 0];
        for _ in 0..sequences {
            let (mut sum, mut squares) = (0.0, 0.0);
            let [mut once, mut any] = [false, false];
            for n in 1..=repeats {
                let value = normal.next();
                sum += value;
                squares += value * value;
                if n < 2 {
                    continue;
                }
                let count = f64::from(n);
                let variance = (squares - sum * sum / count) / (count - 1.0);
                let distance = (sum / count).abs() / (variance / count).sqrt();
                once |= distance > t_quantile(1.0 - level, n as usize - 1);
                any |= p_value(count, distance) < level;
            }
            at_once += u32::from(once);
            at_any += u32::from(any);
        }
        assert!(at_any <= 10, "{at_any} of {sequences}");
        assert!(at_once > 50, "t intervals, evaluated after every repeat: {at_once} of {sequences}");
    }
}
