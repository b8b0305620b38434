//! Fits a curve of latency against throughput: `latency = base + work / (limit - rate)`.
//!
//! In an M/M/1 queue, the mean time follows this curve without `base`: `work` is 1, and `limit` is the service rate.
//! Quantiles of such a queue have the same form with a different `work`. Latencies differ by orders of magnitude, so
//! the fit minimizes the squared differences of their logarithms.

use serde::Serialize;

use super::Fitted;
use super::least_squares::solve;
use crate::figures::quantity::{percent, rate};

/// Minimum number of points for a fit of three parameters.
const POINTS_MIN: usize = 5;
/// Maximum [`Fit::deviation`] of an accepted fit, as a share.
const DEVIATION_MAX: f64 = 0.25;
/// Maximum ratio of the fitted limit to the highest rate. Above it, the data do not show the limit.
const LIMIT_MAX: f64 = 4.0;
/// Minimum rise of the curve from the lowest to the highest rate, as a factor.
const RISE_MIN: f64 = 1.2;
/// Starting values for the fitted limit, relative to the highest rate. With 0.1, the limit starts 10 % above this rate.
const STARTS: [f64; 6] = [0.003, 0.02, 0.1, 0.4, 1.5, 5.0];

/// A fitted curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// Latency at rates far below the limit, nanoseconds.
    pub base_ns: f64,
    /// Weight of the queueing term. Its unit is ns × requests/s.
    pub work: f64,
    /// The rate at which the curve becomes infinite, requests per second. It lies beyond the measured rates and is not
    /// a capacity.
    pub limit_per_s: f64,
    /// Typical deviation of points from the curve, as share. The sum of squared logarithmic residuals is divided by the
    /// number of points minus the three parameters. The root of the result is converted from a logarithm to a share.
    pub deviation: f64,
    /// Number of fitted points.
    pub points: usize,
    /// Lowest and highest fitted rate, requests per second. The fit does not hold outside this range.
    pub within_per_s: [f64; 2],
}

impl Fit {
    /// The latency at a rate, nanoseconds; `None` at the limit and beyond.
    pub fn latency_ns(&self, rate_per_s: f64) -> Option<f64> {
        (rate_per_s < self.limit_per_s).then(|| self.base_ns + self.work / (self.limit_per_s - rate_per_s))
    }
}

/// Fits the curve to `points`, rates per second with latencies in nanoseconds, both above zero.
pub fn fit(points: &[(f64, f64)]) -> Fitted<Fit> {
    let greatest = points.iter().map(|(rate, _)| *rate).fold(0.0, f64::max);
    let least = points.iter().map(|(rate, _)| *rate).fold(f64::INFINITY, f64::min);
    let lowest_ns = points.iter().map(|(_, ns)| *ns).fold(f64::INFINITY, f64::min);
    if points.len() < POINTS_MIN {
        let count = points.len();
        let are = if count == 1 { "there is" } else { "there are" };
        return Fitted::Refused(format!("a fit needs {POINTS_MIN} valid rates, but {are} {count}"));
    }
    if !(lowest_ns > 0.0 && least > 0.0 && greatest > least) {
        return Fitted::Refused("all rates are the same, or throughput is 0".into());
    }
    // Rates and latencies are scaled by the highest rate and the lowest latency, so all parameters have similar size.
    let scaled: Vec<(f64, f64)> =
        points.iter().map(|(rate, ns)| (rate / greatest, (ns / lowest_ns).ln())).collect();
    let found = STARTS.iter().filter_map(|beyond| {
        let start = [(0.8_f64).ln(), (0.2 * beyond).ln(), beyond.ln()];
        solve(&scaled, start, |at, (rate, log_ns)| model(at, rate).ln() - log_ns)
    });
    let Some(best) = found.min_by(|a, b| a.squares.total_cmp(&b.squares)) else {
        return Fitted::Refused("no curve of this form fits the points".into());
    };
    let [base, work, beyond] = best.parameters.map(bounded);
    let deviation = (best.squares / (points.len() - 3) as f64).sqrt().exp_m1();
    if deviation > DEVIATION_MAX {
        return Fitted::Refused(format!(
            "the points deviate from the fit by {} (limit {})",
            percent(deviation),
            percent(DEVIATION_MAX)
        ));
    }
    let rise = model(&best.parameters, 1.0) / model(&best.parameters, least / greatest);
    if 1.0 + beyond > LIMIT_MAX || rise < RISE_MIN {
        return Fitted::Refused(format!("latency shows no bend up to {}", rate(greatest)));
    }
    Fitted::Fit(Fit {
        base_ns: base * lowest_ns,
        work: work * lowest_ns * greatest,
        limit_per_s: (1.0 + beyond) * greatest,
        deviation,
        points: points.len(),
        within_per_s: [least, greatest],
    })
}

/// The latency that the model gives at `rate`, where 1 is the highest rate. `parameters` holds the logarithms of
/// `base`, `work` and `beyond`, so that these are never negative.
fn model(parameters: &[f64; 3], rate: f64) -> f64 {
    let [base, work, beyond] = parameters.map(bounded);
    base + work / (1.0 + beyond - rate)
}

/// The exponential, clamped against overflow.
fn bounded(logarithm: f64) -> f64 {
    logarithm.clamp(-30.0, 30.0).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: [f64; 10] = [50.0, 150.0, 250.0, 350.0, 450.0, 550.0, 650.0, 750.0, 850.0, 950.0];

    fn points(latency_ns: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        RATES.iter().map(|rate| (*rate, latency_ns(*rate))).collect()
    }

    fn fitted(points: &[(f64, f64)]) -> Fit {
        match fit(points) {
            Fitted::Fit(fit) => fit,
            Fitted::Refused(why) => panic!("{why}"),
        }
    }

    #[track_caller]
    fn near(value: f64, expected: f64) {
        assert!((value / expected - 1.0).abs() < 1e-5, "{value} is not {expected}");
    }

    #[test]
    fn a_curve_of_the_form_is_found_to_the_digit() {
        let found = fitted(&points(|rate| 200_000.0 + 3e8 / (1_000.0 - rate)));
        near(found.base_ns, 200_000.0);
        near(found.work, 3e8);
        near(found.limit_per_s, 1_000.0);
        assert!(found.deviation < 1e-6, "{found:?}");
        assert_eq!((found.points, found.within_per_s), (10, [50.0, 950.0]));
        near(found.latency_ns(900.0).unwrap(), 3_200_000.0);
        assert_eq!(found.latency_ns(1_000.1), None);
    }

    #[test]
    fn the_median_of_a_queue_with_one_server_has_that_form_without_a_base() {
        // The median time in an M/M/1 queue is ln 2 / (mu - lambda), here in nanoseconds.
        let found = fitted(&points(|rate| 2_f64.ln() * 1e9 / (1_000.0 - rate)));
        near(found.limit_per_s, 1_000.0);
        near(found.work, 2_f64.ln() * 1e9);
        assert!(found.base_ns < 1.0, "{found:?}");
    }

    #[test]
    fn noise_is_reported_as_deviation() {
        let noisy: Vec<(f64, f64)> = points(|rate| 200_000.0 + 3e8 / (1_000.0 - rate))
            .into_iter()
            .enumerate()
            .map(|(place, (rate, ns))| (rate, ns * if place % 2 == 0 { 1.05 } else { 1.0 / 1.05 }))
            .collect();
        let found = fitted(&noisy);
        assert!((0.03..0.08).contains(&found.deviation), "{found:?}");
        assert!((found.limit_per_s / 1_000.0 - 1.0).abs() < 0.05, "{found:?}");
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_reason() {
        let refused = |points: &[(f64, f64)]| match fit(points) {
            Fitted::Refused(why) => why,
            Fitted::Fit(fit) => panic!("{fit:?}"),
        };
        let curve = points(|rate| 200_000.0 + 3e8 / (1_000.0 - rate));
        assert_eq!(refused(&curve[..4]), "a fit needs 5 valid rates, but there are 4");
        assert_eq!(refused(&[]), "a fit needs 5 valid rates, but there are 0");
        assert_eq!(refused(&points(|_| 200_000.0)), "latency shows no bend up to 950/s");
        let falling = points(|rate| 1e9 / rate.powi(2));
        assert!(refused(&falling).contains("(limit 25.0 %)"));
        let wild = points(|rate| if ((rate / 100.0) as u32).is_multiple_of(2) { 1e6 } else { 9e6 });
        assert!(refused(&wild).contains("deviate from the fit"));
        assert!(refused(&[(5.0, 1.0); 6]).contains("are the same"));
    }
}
