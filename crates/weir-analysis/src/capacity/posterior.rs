//! The posterior distribution of the capacity after all trials. The capacity is the border between rates that meet the
//! objective and rates that miss it.
//!
//! At rates near the border, the odds that a request exceeds the latency limit or fails grow as a power of the rate:
//! `ln odds = ln odds(allowed) + slope * (ln rate - ln capacity)`. Here, `allowed` is the share of such requests that
//! the objective allows. The ratio of the mean latency to its limit grows in the same way. Capacity, slope and the
//! spread of trials are unknown. Each combination on a grid is weighted by the likelihood of the trials, and slope and
//! spread are summed out. This is the grid method of adaptive psychometric testing (Kontsevich and Tyler, *Bayesian
//! adaptive estimation of psychometric slope and threshold*, 1999). The prior is uniform over capacity and spread.
//! Observed slopes range from 5 to 50, so the prior of the slope is log-normal around 12.
//!
//! **Spread.** Requests in a queue are late together: each time the queue grows too long, a cluster of requests is
//! late. The number of late requests is modelled as a Poisson number of clusters of exponential size (D. Aldous,
//! *Probability Approximations via the Poisson Clumping Heuristic*, 1989). The mean size of a cluster is unknown. The
//! number of late requests is often zero and sometimes dozens. The logarithm of a mean latency is modelled with a
//! Student's t distribution.
//!
//! **Far beyond the border**, the power law does not hold: whatever the slope, an overloaded system sends almost no
//! response in time. Such a trial only shows that its rate is above the border.
//!
//! **Outliers.** With a small probability, a trial does not depend on the rate, for example because of a pause of the
//! host. Trials that the model finds almost impossible are treated as outliers and hardly move the border (a mixture in
//! the sense of Huber's contaminated distributions). So no single trial moves the result by much.

use statrs::function::gamma::ln_gamma;

use super::bounds::Seen;

/// Half the width of the grid, as the logarithm of a ratio of rates. The highest rate is about 1.7 times the centre,
/// and the centre 1.7 times the lowest rate.
const REACH: f64 = 0.53;
/// Distance between the logarithms of adjacent rates on the grid; the rates differ by about 1.25 %.
const STEP: f64 = 0.0125;
/// Possible slopes (exponents of the rate in the power law), from almost flat to a step.
const SLOPES: [f64; 12] = [1.2, 2.0, 3.3, 5.5, 9.0, 15.0, 25.0, 42.0, 70.0, 120.0, 200.0, 330.0];
/// Centre of the prior of the slope.
const SLOPE_USUAL: f64 = 12.0;
/// Standard deviation of the logarithm of the slope in the prior.
const SLOPE_SPREAD: f64 = 1.1;
/// Possible mean sizes of clusters of late requests; 1 means independent requests.
const CLUSTERS: [f64; 7] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
/// Possible scales of the t distribution that models the logarithm of a mean.
const DEVIATIONS: [f64; 7] = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64];
/// The logarithm of a mean is modelled by a t distribution with this many degrees of freedom.
const DEGREES: f64 = 4.0;
/// Probability that a trial is an outlier.
const GARBAGE: f64 = 0.05;
/// Probability that an outlier has no late requests.
const GARBAGE_CLEAN: f64 = 0.1;
/// Width of the range in which an outlier's mean lies, as a logarithm. The density is uniform in this range.
const GARBAGE_RANGE: f64 = 10.0;
/// Threshold for the log odds ratio of the observed share to the allowed share. Above the threshold, the trial only
/// shows that its rate is too high.
const PASSED_LOGIT: f64 = 2.5;
/// Threshold for the absolute log ratio of the measured mean latency to its limit. Above the threshold, the trial only
/// shows on which side of the border its rate is.
const PASSED_MEAN: f64 = 1.0;
/// Width of the transition at the threshold in [`beyond_log`]. The unit is the log odds of a share, or the logarithm of
/// a mean latency.
const PASSED_BY: f64 = 0.4;
/// Log odds are tabulated from minus this value to this value.
const LOGIT_MOST: f64 = 16.0;
/// Distance between tabulated log odds; values between them are interpolated linearly.
const LOGIT_STEP: f64 = 0.1;
/// Width of the zone at each end of the grid, as share of the grid. A median in such a zone is not trusted, because the
/// border may lie outside the grid.
const EDGE: f64 = 0.1;

/// The posterior distribution of the border (the capacity) after the trials so far.
#[derive(Clone, Debug)]
pub(crate) struct Posterior {
    /// Logarithms of the rates of the grid.
    rates: Vec<f64>,
    /// For each bound, the log weights of all combinations of rate, slope and spread. The rate varies slowest, the
    /// spread fastest.
    weights: Vec<Vec<f64>>,
    /// For each rate, the probability that the border is at most this rate.
    below: Vec<f64>,
    /// Number of trials within the grid.
    trials: u32,
}

impl Posterior {
    /// The prior, with the grid centred at `centre_per_s`.
    pub(crate) fn about(centre_per_s: f64, bounds: usize) -> Self {
        let steps = (REACH / STEP).ceil() as i32;
        let rates: Vec<f64> =
            (-steps..=steps).map(|step| centre_per_s.ln() + f64::from(step) * STEP).collect();
        let combinations = rates.len() * SLOPES.len() * CLUSTERS.len();
        let before = SLOPES.map(|slope| -0.5 * ((slope / SLOPE_USUAL).ln() / SLOPE_SPREAD).powi(2));
        let of_rate = before.iter().flat_map(|log| [*log; CLUSTERS.len()]);
        let weights = vec![of_rate.cycle().take(combinations).collect::<Vec<f64>>(); bounds];
        let mut posterior = Self { rates, weights, below: Vec::new(), trials: 0 };
        posterior.below = posterior.together();
        posterior
    }

    /// Number of trials within the grid.
    pub(crate) fn trials(&self) -> u32 {
        self.trials
    }

    /// Adds a trial at `rate_per_s` with the results `seen`, one per bound. Trials outside the grid are ignored,
    /// because the model may not hold there.
    pub(crate) fn add(&mut self, rate_per_s: f64, seen: &[Seen]) {
        let rate = rate_per_s.ln();
        let (first, last) = (self.rates[0], self.rates[self.rates.len() - 1]);
        if !(first..=last).contains(&rate) {
            return;
        }
        self.trials += 1;
        for (weights, seen) in self.weights.iter_mut().zip(seen) {
            let mut weights = weights.iter_mut();
            let likelihood = Likelihood::of(seen);
            for capacity in &self.rates {
                for slope in SLOPES {
                    // `logs` must be the first iterator. `zip` advances its first iterator first, so it takes no weight
                    // after the last element of `logs`.
                    let logs = likelihood.logs(slope * (rate - capacity));
                    for (log, weight) in logs.into_iter().zip(weights.by_ref()) {
                        *weight += log;
                    }
                }
            }
        }
        self.below = self.together();
    }

    /// Quantile of the capacity at `share` (0 to 1), requests per second.
    pub(crate) fn quantile_per_s(&self, share: f64) -> f64 {
        self.read(&self.below, share).exp()
    }

    /// Index of the bound that limits the capacity: the one whose border has the lowest median.
    pub(crate) fn limiting(&self) -> usize {
        let median = |bound: &usize| self.read(&self.cumulated(*bound), 0.5);
        (0..self.weights.len()).min_by(|a, b| median(a).total_cmp(&median(b))).unwrap_or(0)
    }

    /// Whether the border (the capacity) may lie outside the grid of rates.
    pub(crate) fn is_at_an_edge(&self) -> bool {
        let share = (self.quantile_per_s(0.5).ln() - self.rates[0]) / (2.0 * REACH);
        !(EDGE..=1.0 - EDGE).contains(&share)
    }

    /// For each rate of the grid, the probability that the capacity is at most this rate. The capacity is the lowest of
    /// the borders of all bounds. So the capacity exceeds a rate only if all borders exceed it.
    fn together(&self) -> Vec<f64> {
        let mut above = vec![1.0; self.rates.len()];
        for bound in 0..self.weights.len() {
            for (above, below) in above.iter_mut().zip(self.cumulated(bound)) {
                *above *= 1.0 - below;
            }
        }
        above.into_iter().map(|above| 1.0 - above).collect()
    }

    /// For each rate of the grid, the probability that the border of `bound` is at most this rate. Sums over all slopes
    /// and spreads.
    fn cumulated(&self, bound: usize) -> Vec<f64> {
        let weights = &self.weights[bound];
        let greatest = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let each = weights.chunks(SLOPES.len() * CLUSTERS.len());
        let mut sum = 0.0;
        let sums: Vec<f64> = each
            .map(|combinations| {
                sum += combinations.iter().map(|weight| (weight - greatest).exp()).sum::<f64>();
                sum
            })
            .collect();
        sums.into_iter().map(|below| below / sum).collect()
    }

    /// The log rate at which `cumulated` reaches `share`, interpolated between grid points.
    fn read(&self, cumulated: &[f64], share: f64) -> f64 {
        let at = cumulated.partition_point(|below| *below < share).min(self.rates.len() - 1);
        let before = if at == 0 { 0.0 } else { cumulated[at - 1] };
        let within = ((share - before) / (cumulated[at] - before).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        // Each grid point covers the step around it.
        self.rates[at] + (within - 0.5) * STEP
    }
}

/// The likelihood of a trial's result, for all combinations.
enum Likelihood {
    /// For a limit on a share of requests. Each row of `table` belongs to one value of the log odds, and contains the
    /// log likelihood for each spread.
    Share { allowed_logit: f64, table: Vec<[f64; CLUSTERS.len()]> },
    /// For a limit on the mean latency. `log_ratio` is `ln(measured mean / limit)`.
    Mean { log_ratio: f64 },
}

impl Likelihood {
    fn of(seen: &Seen) -> Self {
        match *seen {
            Seen::Share { over, of, allowed } => {
                let count = Count::new(over.min(of), of);
                let allowed_logit = (allowed / (1.0 - allowed)).ln();
                let passed = allowed_logit + PASSED_LOGIT;
                let is_beyond = over as f64 > of as f64 / (1.0 + (-passed).exp());
                let steps = (2.0 * LOGIT_MOST / LOGIT_STEP) as u32;
                let log = |step: u32| {
                    let logit = f64::from(step) * LOGIT_STEP - LOGIT_MOST;
                    if is_beyond { [beyond_log(logit - passed); CLUSTERS.len()] } else { count.logs(logit) }
                };
                Self::Share { allowed_logit, table: (0..=steps).map(log).collect() }
            }
            Seen::Mean { ratio, .. } => Self::Mean { log_ratio: ratio.max(f64::MIN_POSITIVE).ln() },
        }
    }

    /// Log likelihood of the trial for each spread. `beyond` is `slope * (ln rate - ln capacity)`.
    fn logs(&self, beyond: f64) -> [f64; CLUSTERS.len()] {
        match self {
            Self::Share { allowed_logit, table } => {
                let place =
                    ((allowed_logit + beyond + LOGIT_MOST) / LOGIT_STEP).clamp(0.0, (table.len() - 1) as f64);
                let (before, part) = (place.floor() as usize, place.fract());
                let (low, high) = (&table[before], &table[(before + 1).min(table.len() - 1)]);
                std::array::from_fn(|at| low[at] + (high[at] - low[at]) * part)
            }
            Self::Mean { log_ratio } if *log_ratio > PASSED_MEAN => {
                [beyond_log(beyond - PASSED_MEAN); CLUSTERS.len()]
            }
            Self::Mean { log_ratio } if *log_ratio < -PASSED_MEAN => {
                [beyond_log(-PASSED_MEAN - beyond); CLUSTERS.len()]
            }
            Self::Mean { log_ratio } => DEVIATIONS.map(|deviation| {
                // For a log-normal distribution, the logarithm of the mean (`beyond`) is the mean of the logarithms
                // plus `deviation² / 2`.
                let middle = beyond - deviation * deviation / 2.0;
                let t = (log_ratio - middle) / deviation;
                let density =
                    T_DENSITY.ln() - deviation.ln() - (DEGREES + 1.0) / 2.0 * (t * t / DEGREES).ln_1p();
                sum_of_logs((1.0 - GARBAGE).ln() + density, (GARBAGE / GARBAGE_RANGE).ln())
            }),
        }
    }
}

/// Log likelihood of a trial that only shows on which side of the border its rate is. `by` is the distance from the
/// threshold that the trial passed to the value that the model expects; negative if the expected value is not beyond
/// the threshold. Both are log odds of a share, or logarithms of the mean divided by its limit.
fn beyond_log(by: f64) -> f64 {
    ((1.0 - GARBAGE) / (1.0 + (-by / PASSED_BY).exp()) + GARBAGE).ln()
}

/// Numbers of requests over and within a bound.
struct Count {
    over: f64,
    within: f64,
    /// The logarithm of the binomial coefficient.
    ways: f64,
    garbage: f64,
}

impl Count {
    fn new(over: u64, of: u64) -> Self {
        let (over, of) = (over as f64, of as f64);
        let within = of - over;
        let ways = ln_gamma(of + 1.0) - ln_gamma(over + 1.0) - ln_gamma(within + 1.0);
        let garbage = if over == 0.0 { GARBAGE_CLEAN } else { (1.0 - GARBAGE_CLEAN) / of };
        Self { over, within, ways, garbage: (GARBAGE * garbage).ln() }
    }

    /// Log likelihood for each spread at these log odds.
    fn logs(&self, logit: f64) -> [f64; CLUSTERS.len()] {
        let share = 1.0 / (1.0 + (-logit).exp());
        let rest = 1.0 / (1.0 + logit.exp());
        CLUSTERS.map(|cluster| {
            let log = match cluster {
                1.0 => self.ways + self.over * share.ln() + self.within * rest.ln(),
                cluster => in_clusters(self.over, (self.over + self.within) * share, cluster),
            };
            sum_of_logs((1.0 - GARBAGE).ln() + log, self.garbage)
        })
    }
}

/// Returns the log density at `sum` of the number of late requests, which has the mean `mean`. Late requests come in
/// clusters: the number of clusters is Poisson-distributed, and the size of a cluster is exponentially distributed with
/// the mean `cluster`. If `sum` is zero, returns the log probability that there is no cluster.
fn in_clusters(sum: f64, mean: f64, cluster: f64) -> f64 {
    let clusters = mean / cluster;
    if sum == 0.0 {
        return -clusters;
    }
    let size = sum / cluster;
    -clusters - size + 0.5 * (clusters / size).ln() - cluster.ln()
        + ln_bessel_i1(2.0 * (clusters * size).sqrt())
}

/// The logarithm of the modified Bessel function of the first kind and order one (Abramowitz and Stegun, *Handbook of
/// Mathematical Functions*, 9.8.3 and 9.8.4: to seven digits).
fn ln_bessel_i1(x: f64) -> f64 {
    let polynomial = |t: f64, factors: &[f64]| factors.iter().rev().fold(0.0, |sum, factor| sum * t + factor);
    if x < 3.75 {
        const SMALL: [f64; 7] =
            [0.5, 0.878_905_94, 0.514_988_69, 0.150_849_34, 0.026_587_33, 0.003_015_32, 0.000_324_11];
        return x.ln() + polynomial((x / 3.75).powi(2), &SMALL).ln();
    }
    const LARGE: [f64; 9] = [
        0.398_942_28,
        -0.039_880_24,
        -0.003_620_18,
        0.001_638_01,
        -0.010_315_55,
        0.022_829_67,
        -0.028_953_12,
        0.017_876_54,
        -0.004_200_59,
    ];
    x - 0.5 * x.ln() + polynomial(3.75 / x, &LARGE).ln()
}

/// Student's t density at zero for four degrees of freedom.
const T_DENSITY: f64 = 0.375;

/// Computes `ln(e^a + e^b)` without overflow.
fn sum_of_logs(a: f64, b: f64) -> f64 {
    a.max(b) + (-(a - b).abs()).exp().ln_1p()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_are_a_distribution_with_their_mean_and_spread() {
        for (mean, cluster) in [(15.0, 8.0), (40.0, 4.0), (10.0, 16.0)] {
            // For sums above zero, `in_clusters` is a density, so its moments are computed as integrals, by the
            // midpoint rule.
            let (step, mut whole, mut first, mut second) =
                (0.01, in_clusters(0.0, mean, cluster).exp(), 0.0, 0.0);
            for place in 0..100_000 {
                let sum = (f64::from(place) + 0.5) * step;
                let weight = in_clusters(sum, mean, cluster).exp() * step;
                whole += weight;
                first += weight * sum;
                second += weight * sum * sum;
            }
            near(whole, 1.0, 1e-4);
            near(first, mean, 1e-4);
            near(second - first * first, 2.0 * cluster * mean, 1e-3);
        }
    }

    /// The expected result of a trial of 2,000 requests, if the capacity is 1,000/s.
    fn expected(rate_per_s: f64) -> Seen {
        let odds = 0.01 / 0.99 * (rate_per_s / 1_000.0).powf(13.0);
        Seen::Share { over: (2_000.0 * odds / (1.0 + odds)).round() as u64, of: 2_000, allowed: 0.01 }
    }

    fn after(trials: &[(f64, Seen)], bounds: usize) -> Posterior {
        let mut posterior = Posterior::about(1_200.0, bounds);
        for (rate_per_s, seen) in trials {
            posterior.add(*rate_per_s, &vec![*seen; bounds]);
        }
        posterior
    }

    fn about_the_border() -> Vec<(f64, Seen)> {
        [900.0, 950.0, 1_000.0, 1_050.0, 1_100.0, 970.0, 1_030.0].map(|rate| (rate, expected(rate))).to_vec()
    }

    #[track_caller]
    fn near(value: f64, expected: f64, share: f64) {
        assert!((value / expected - 1.0).abs() <= share, "{value} is not {expected}");
    }

    #[test]
    fn trials_that_agree_find_the_border_and_narrow_the_interval() {
        let few = after(&about_the_border()[..3], 1);
        let all = after(&about_the_border(), 1);
        let width = |p: &Posterior| p.quantile_per_s(0.975) / p.quantile_per_s(0.025);
        near(all.quantile_per_s(0.5), 1_000.0, 0.01);
        assert!(width(&all) < width(&few) && width(&all) < 1.1, "{} {}", width(&few), width(&all));
        assert!(!all.is_at_an_edge());
        assert_eq!((all.trials(), all.limiting()), (7, 0));
    }

    #[test]
    fn no_single_trial_moves_the_border_by_much() {
        let good = after(&about_the_border(), 1).quantile_per_s(0.5);
        for place in 0..7 {
            for over in [0, 400, 2_000] {
                let mut trials = about_the_border();
                trials[place].1 = Seen::Share { over, of: 2_000, allowed: 0.01 };
                near(after(&trials, 1).quantile_per_s(0.5), good, 0.04);
            }
        }
    }

    #[test]
    fn trials_that_disagree_widen_the_interval() {
        let mut apart = about_the_border();
        for (place, (_, seen)) in apart.iter_mut().enumerate() {
            let Seen::Share { over, .. } = seen else { unreachable!() };
            *over = if place % 2 == 0 { *over * 2 } else { *over / 3 };
        }
        let width = |trials: &[(f64, Seen)]| {
            let posterior = after(trials, 1);
            posterior.quantile_per_s(0.975) / posterior.quantile_per_s(0.025)
        };
        assert!(width(&apart) > width(&about_the_border()) * 1.02);
    }

    #[test]
    fn a_border_outside_the_grid_is_detected_at_its_edge() {
        let fine = |rate: f64| (rate, Seen::Share { over: 0, of: 2_000, allowed: 0.01 });
        assert!(after(&[fine(1_300.0), fine(1_700.0), fine(2_300.0)], 1).is_at_an_edge());
        assert_eq!(after(&[fine(5_000.0)], 1).trials(), 0);
    }

    #[test]
    fn the_lowest_border_of_all_bounds_counts() {
        let mut posterior = Posterior::about(1_200.0, 2);
        let never = Seen::Share { over: 0, of: 2_000, allowed: 0.001 };
        for (rate, seen) in about_the_border() {
            posterior.add(rate, &[never, seen]);
        }
        assert_eq!(posterior.limiting(), 1);
        near(posterior.quantile_per_s(0.5), 1_000.0, 0.02);
    }

    #[test]
    fn a_mean_has_its_border_where_it_reaches_its_bound() {
        let mean = |rate: f64| (rate, Seen::Mean { ratio: (rate / 1_000.0).powi(5), standard_error: 0.02 });
        let posterior = after(&[900.0, 950.0, 1_000.0, 1_050.0, 1_100.0].map(mean), 1);
        near(posterior.quantile_per_s(0.5), 1_000.0, 0.005);
    }
}
