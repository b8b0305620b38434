//! Intervals over repeats: t intervals of the logarithms, or of the values themselves for differences
//! (`docs/method.md#repeats`).

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::figures::looks::{self, Looks};

/// Confidence of intervals over repeats.
pub const CONFIDENCE: f64 = 0.95;

/// A mean over repeats with its t interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The geometric mean. For differences, or if a value is zero, the arithmetic mean.
    pub mean: f64,
    /// Both ends of the interval; `None` for fewer than two repeats.
    pub interval: Option<[f64; 2]>,
    /// Number of values, one per repeat.
    pub n: usize,
}

/// The geometric mean of positive `values`, with the t interval of their logarithms, clipped to the range of floats.
///
/// Zero has no logarithm: if a value is zero, the result is the arithmetic mean without an interval. `None` without
/// values, or if a value is negative or not finite.
pub fn of_figures(values: &[f64]) -> Option<Estimate> {
    Method::default().estimate(values, CONFIDENCE)
}

/// How an interval is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Method {
    /// Scale on which values are symmetric about their mean.
    pub scale: Scale,
    /// Whether the values were evaluated once, or repeatedly while repeats were added.
    pub looks: Looks,
}

/// Scale on which values are symmetric about their mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// Logarithms, for positive values.
    #[default]
    Logarithm,
    /// The values as they are, without logarithms; for differences.
    Linear,
}

impl Method {
    /// The mean of `values` with its interval at `confidence`, 0 to 1.
    pub(crate) fn estimate(self, values: &[f64], confidence: f64) -> Option<Estimate> {
        match self.scale {
            Scale::Logarithm => self.of_figures(values, confidence),
            Scale::Linear => self.of_differences(values, confidence),
        }
    }

    fn of_figures(self, values: &[f64], confidence: f64) -> Option<Estimate> {
        if values.is_empty() || values.iter().any(|value| !value.is_finite() || *value < 0.0) {
            return None;
        }
        if values.contains(&0.0) || values.len() == 1 {
            return Some(Estimate { mean: arithmetic_mean(values), interval: None, n: values.len() });
        }
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        let on_logs = self.of_differences(&logs, confidence)?;
        let interval = on_logs.interval.map(|ends| ends.map(|end| end.exp().min(f64::MAX)));
        Some(Estimate { mean: on_logs.mean.exp(), interval, n: values.len() })
    }

    fn of_differences(self, values: &[f64], confidence: f64) -> Option<Estimate> {
        if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let n = values.len();
        let mean = arithmetic_mean(values);
        let factor = match self.looks {
            _ if n < 2 => f64::INFINITY,
            Looks::Once => t_quantile(confidence, n - 1),
            Looks::Any => looks::reach(n as f64, 1.0 - confidence),
        };
        let interval = factor.is_finite().then(|| {
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            let reach = factor * (squares / (n - 1) as f64 / n as f64).sqrt();
            [mean - reach, mean + reach]
        });
        Some(Estimate { mean, interval, n })
    }
}

/// The arithmetic mean of `values` with its t interval; `None` without values, or if one is not finite.
pub fn of_differences(values: &[f64]) -> Option<Estimate> {
    Method { scale: Scale::Linear, looks: Looks::Once }.estimate(values, CONFIDENCE)
}

fn arithmetic_mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The two-sided quantile of Student's t at `confidence`.
pub(crate) fn t_quantile(confidence: f64, degrees_of_freedom: usize) -> f64 {
    StudentsT::new(0.0, 1.0, degrees_of_freedom as f64)
        .expect("at least one degree of freedom")
        .inverse_cdf(0.5 + confidence / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-4 * expected.abs().max(1.0), "{value} is not {expected}");
    }

    #[test]
    fn t_quantiles_are_those_of_the_tables() {
        for (degrees, expected) in
            [(1, 12.7062), (2, 4.302_65), (3, 3.182_45), (5, 2.570_58), (10, 2.228_14), (100, 1.983_97)]
        {
            near(t_quantile(CONFIDENCE, degrees), expected);
        }
    }

    #[test]
    fn differences_get_the_interval_of_their_mean() {
        // Mean 2, standard deviation 1, standard error 1 / sqrt 3.
        let estimate = of_differences(&[1.0, 2.0, 3.0]).unwrap();
        near(estimate.mean, 2.0);
        let [low, high] = estimate.interval.unwrap();
        near(low, 2.0 - 2.484_13);
        near(high, 2.0 + 2.484_13);
    }

    #[test]
    fn figures_get_the_interval_of_their_logarithms() {
        let estimate = of_figures(&[1.0, std::f64::consts::E, std::f64::consts::E.powi(2)]).unwrap();
        near(estimate.mean, std::f64::consts::E);
        let [low, high] = estimate.interval.unwrap();
        near(low, (1.0 - 2.484_13_f64).exp());
        near(high, (1.0 + 2.484_13_f64).exp());
    }

    #[test]
    fn intervals_are_clipped_to_the_range_of_floats() {
        let interval = of_figures(&[1e-100, 1e100]).unwrap().interval;
        assert_eq!(interval, Some([0.0, f64::MAX]));
    }

    #[test]
    fn too_few_or_odd_values_have_no_interval() {
        assert_eq!(of_figures(&[]), None);
        assert_eq!(of_figures(&[5.0]), Some(Estimate { mean: 5.0, interval: None, n: 1 }));
        assert_eq!(of_figures(&[0.0, 4.0]), Some(Estimate { mean: 2.0, interval: None, n: 2 }));
        assert_eq!(of_figures(&[f64::NAN]), None);
        assert_eq!(of_figures(&[-1.0]), None);
        assert_eq!(of_differences(&[-1.0, -1.0]).unwrap().interval, Some([-1.0, -1.0]));
        assert_eq!(of_differences(&[f64::INFINITY]), None);
    }
}
