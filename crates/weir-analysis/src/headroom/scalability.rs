//! Gunther's Universal Scalability Law: `X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1))` (Gunther 2007,
//! "Guerrilla Capacity Planning"). With contention (sigma) throughput levels off; with coherence (kappa) it falls
//! again.

use serde::Serialize;

use super::Fitted;
use super::least_squares::{Solution, solve};
use crate::figures::interval::{CONFIDENCE, t_quantile};
use crate::figures::quantity::number;
use crate::points::axes::Axes;

/// Minimum number of points for a fit (`docs/method.md#headroom`).
pub const USL_POINTS_MIN: usize = 6;
/// A fit by cores needs a CPU limit of at least this many cores (`docs/method.md#headroom`).
pub const USL_CORES_MIN: f64 = 4.0;
/// Minimum R² of a fit.
const R_SQUARED_MIN: f64 = 0.9;
/// A peak is reported only up to this many times the highest measured number of connections or cores.
const PEAK_WITHIN: f64 = 4.0;

/// What `N` counts in the Universal Scalability Law.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Over {
    /// Connections of a closed load.
    Connections,
    /// Cores in the CPU limit of the data plane.
    Cores,
}

/// A gateway's throughput by number of connections or cores, and the law fitted to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scalability {
    /// The gateway's name.
    pub gateway: String,
    /// Values of the axes, the same for all `points`.
    pub axes: Axes,
    /// Name of the load, or names of several loads.
    pub load: String,
    /// What N counts in the Universal Scalability Law.
    pub over: Over,
    /// Valid points, ascending: number of connections or cores, and throughput per second.
    pub points: Vec<(f64, f64)>,
    /// The fitted law, or why there is none.
    pub usl: Fitted<Usl>,
}

/// The fitted law, with its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Usl {
    /// Throughput of a single connection or core, per second.
    pub lambda_per_s: Parameter,
    /// Contention: if it is above zero, throughput levels off.
    pub sigma: Parameter,
    /// Coherence: if it is above zero, throughput falls again.
    pub kappa: Parameter,
    /// R²: share of the variance of throughput that the law explains.
    pub r_squared: f64,
    /// Number of connections or cores at the peak, and the throughput at the peak, per second. `None` if coherence is
    /// not significant, or if the peak is far beyond the measured numbers.
    pub peak: Option<(f64, f64)>,
}

/// A parameter with its 95 % interval; no interval for a parameter that is held at zero.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Parameter {
    pub value: f64,
    pub interval: Option<[f64; 2]>,
}

impl Usl {
    /// Throughput with `n` connections or cores, per second.
    pub fn throughput_per_s(&self, n: f64) -> f64 {
        self.lambda_per_s.value * n / divisor(self.sigma.value, self.kappa.value, n)
    }
}

/// Fits the law to `points`: connections or cores, each with a throughput above zero.
pub fn usl(points: &[(f64, f64)], over: Over) -> Fitted<Usl> {
    let mut places: Vec<f64> = points.iter().map(|(n, _)| *n).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let greatest = places.last().copied().unwrap_or(0.0);
    if over == Over::Cores && greatest < USL_CORES_MIN {
        return Fitted::Refused(format!(
            "the law needs a limit of at least {} whole cores, but the highest valid limit is {}",
            USL_CORES_MIN,
            number(greatest)
        ));
    }
    if places.len() < USL_POINTS_MIN {
        let what = match over {
            Over::Connections => "connection counts with valid results",
            Over::Cores => "valid CPU limits in whole cores",
        };
        let are = if places.len() == 1 { "there is" } else { "there are" };
        return Fitted::Refused(format!("a fit needs {USL_POINTS_MIN} {what}, but {are} {}", places.len()));
    }
    // Neither sigma nor kappa may be negative. So each is fitted or held at zero, in all four combinations. The best
    // fit without a negative parameter is used.
    let found = [[true, true], [true, false], [false, true], [false, false]];
    let found = found.into_iter().filter_map(|free| fitted(points, free));
    let best = found.min_by(|(a, _), (b, _)| a.squares.total_cmp(&b.squares));
    let Some((best, free)) = best else {
        return Fitted::Refused("the law does not fit the points".into());
    };
    let law = law(points, &best, free);
    match law.r_squared >= R_SQUARED_MIN {
        true => Fitted::Fit(law),
        false => Fitted::Refused(format!(
            "the law explains only {} of the variance of throughput (R², at least {R_SQUARED_MIN} required)",
            number(law.r_squared)
        )),
    }
}

/// Whether sigma and kappa are fitted; a parameter that is not fitted is held at zero.
type Free = [bool; 2];

/// Fits the law by least squares of logarithms, because errors are proportional to throughput. `None` if a fitted
/// parameter is negative.
fn fitted(points: &[(f64, f64)], free: Free) -> Option<(Solution<3>, Free)> {
    let first = points.iter().map(|(n, per_s)| per_s / n).fold(0.0, f64::max);
    let held = |at: &[f64; 3]| [at[1] * f64::from(u8::from(free[0])), at[2] * f64::from(u8::from(free[1]))];
    let residual = |at: &[f64; 3], (n, per_s): (f64, f64)| {
        let [sigma, kappa] = held(at);
        // Without a positive divisor, the residual is not finite, so the solver rejects these parameters.
        at[0] + n.ln() - divisor(sigma, kappa, n).ln() - per_s.ln()
    };
    let mut solution = solve(points, [first.ln(), 0.02, 1e-4], residual)?;
    let [sigma, kappa] = held(&solution.parameters);
    (solution.parameters[1], solution.parameters[2]) = (sigma, kappa);
    (sigma >= 0.0 && kappa >= 0.0).then_some((solution, free))
}

fn law(points: &[(f64, f64)], solution: &Solution<3>, free: Free) -> Usl {
    let [log_lambda, sigma, kappa] = solution.parameters;
    let freedom = points.len() - 1 - free.iter().filter(|free| **free).count();
    let variance = solution.squares / freedom as f64;
    let reach = |place: usize| {
        let of_parameter = solution.variances?[place];
        Some(t_quantile(CONFIDENCE, freedom) * (variance * of_parameter).sqrt())
    };
    let share = |value: f64, place: usize| Parameter {
        value,
        interval: reach(place)
            .filter(|_| free[place - 1])
            .map(|reach| [(value - reach).max(0.0), value + reach]),
    };
    let lambda_per_s = Parameter {
        value: log_lambda.exp(),
        interval: reach(0).map(|reach| [(log_lambda - reach).exp(), (log_lambda + reach).exp()]),
    };
    let mut law =
        Usl { lambda_per_s, sigma: share(sigma, 1), kappa: share(kappa, 2), r_squared: 0.0, peak: None };
    let mean = points.iter().map(|(_, per_s)| per_s).sum::<f64>() / points.len() as f64;
    let sum =
        |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|(n, per_s)| of(*n, *per_s).powi(2)).sum::<f64>();
    let all = sum(&|_, per_s| per_s - mean);
    let left = sum(&|n, per_s| per_s - law.throughput_per_s(n));
    law.r_squared = if all > 0.0 { 1.0 - left / all } else { 0.0 };
    let is_significant = law.kappa.interval.is_some_and(|[low, _]| low > 0.0);
    let at = ((1.0 - sigma) / kappa).sqrt();
    let greatest = points.iter().map(|(n, _)| *n).fold(0.0, f64::max);
    law.peak = (is_significant && at <= PEAK_WITHIN * greatest).then(|| (at, law.throughput_per_s(at)));
    law
}

fn divisor(sigma: f64, kappa: f64, n: f64) -> f64 {
    1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONNECTIONS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 24.0, 32.0, 60.0];

    fn points(lambda: f64, sigma: f64, kappa: f64) -> Vec<(f64, f64)> {
        CONNECTIONS.iter().map(|n| (*n, lambda * n / divisor(sigma, kappa, *n))).collect()
    }

    fn fits(points: &[(f64, f64)]) -> Usl {
        match usl(points, Over::Connections) {
            Fitted::Fit(usl) => usl,
            Fitted::Refused(why) => panic!("{why}"),
        }
    }

    fn refused(points: &[(f64, f64)], over: Over) -> String {
        match usl(points, over) {
            Fitted::Refused(why) => why,
            Fitted::Fit(usl) => panic!("{usl:?}"),
        }
    }

    #[track_caller]
    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-6 * expected.abs().max(1e-3), "{value} is not {expected}");
    }

    #[test]
    fn the_parameters_of_a_law_are_found_to_the_digit() {
        let found = fits(&points(995.6, 0.026_71, 0.000_769));
        near(found.lambda_per_s.value, 995.6);
        near(found.sigma.value, 0.026_71);
        near(found.kappa.value, 0.000_769);
        near(found.r_squared, 1.0);
        let (at, per_s) = found.peak.unwrap();
        near(at, ((1.0 - 0.026_71_f64) / 0.000_769).sqrt());
        near(per_s, found.throughput_per_s(at));
    }

    #[test]
    fn the_error_comes_with_the_parameters_and_covers_the_truth() {
        let noisy: Vec<(f64, f64)> = points(1_000.0, 0.05, 0.002)
            .into_iter()
            .zip([1.02, 0.99, 0.98, 1.01, 1.02, 0.98, 1.0, 1.0])
            .map(|((n, per_s), noise)| (n, per_s * noise))
            .collect();
        let found = fits(&noisy);
        assert!(found.r_squared > 0.99, "{found:?}");
        for (parameter, truth) in [(found.lambda_per_s, 1_000.0), (found.sigma, 0.05), (found.kappa, 0.002)] {
            let [low, high] = parameter.interval.unwrap();
            assert!(low <= truth && truth <= high && low < high, "{parameter:?} does not cover {truth}");
        }
    }

    #[test]
    fn negative_parameters_are_held_at_zero() {
        let linear = fits(&points(1_000.0, 0.0, 0.0));
        near(linear.lambda_per_s.value, 1_000.0);
        assert!(
            linear.sigma.value < 1e-9 && linear.kappa.value < 1e-9 && linear.peak.is_none(),
            "{linear:?}"
        );
        // If throughput per connection grows, the best fit would have a negative contention (`sigma`), so `sigma` is
        // held at zero.
        let growing: Vec<(f64, f64)> = CONNECTIONS.iter().map(|n| (*n, 1_000.0 * n.powf(1.05))).collect();
        let found = fits(&growing);
        assert_eq!((found.sigma.value, found.kappa.value), (0.0, 0.0));
        assert_eq!((found.sigma.interval, found.kappa.interval), (None, None));
        let levels = fits(&points(1_000.0, 0.2, 0.0));
        near(levels.sigma.value, 0.2);
        assert_eq!(levels.peak, None, "nothing falls again");
    }

    #[test]
    fn too_few_points_few_cores_and_chaos_are_refused_with_the_reason() {
        let all = points(1_000.0, 0.05, 0.001);
        assert_eq!(
            refused(&all[..5], Over::Connections),
            "a fit needs 6 connection counts with valid results, but there are 5"
        );
        let twice: Vec<(f64, f64)> = all[..5].iter().chain(&all[..5]).copied().collect();
        assert!(refused(&twice, Over::Connections).ends_with("but there are 5"));
        assert_eq!(
            refused(&[(1.0, 10.0), (2.0, 19.0)], Over::Cores),
            "the law needs a limit of at least 4 whole cores, but the highest valid limit is 2.00"
        );
        let four: Vec<(f64, f64)> = (1..=4).map(|n| (f64::from(n), 10.0 * f64::from(n))).collect();
        let few = "a fit needs 6 valid CPU limits in whole cores, but there are 4";
        assert_eq!(refused(&four, Over::Cores), few);
        let chaos: Vec<(f64, f64)> = CONNECTIONS
            .iter()
            .enumerate()
            .map(|(place, n)| (*n, if place % 2 == 0 { 9_000.0 } else { 100.0 }))
            .collect();
        assert!(refused(&chaos, Over::Connections).contains("of the variance"), "the law does not fit");
    }
}
