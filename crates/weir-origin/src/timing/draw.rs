//! Random times. Each is a pure function of the seed and the number of the request.

use std::f64::consts::TAU;

use weir_document::{DELAY_MAX, Delay};

/// Makes the origin's random times independent of a load generator with the same seed. If both used the same random
/// numbers, long service times would always follow long gaps, and queues would be shorter than in theory.
const STREAM: u64 = 0x7374_7265_6121_0001;

/// Maximum of a random time, in nanoseconds.
const DRAWN_MAX_NS: f64 = DELAY_MAX.as_nanos() as f64;

/// Random times from one distribution, one time per request number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draws {
    delay: Delay,
    /// Two seeds, because the normal distribution needs two random numbers per value.
    seeds: [u64; 2],
}

impl Draws {
    pub(crate) fn new(delay: Delay, seed: u64) -> Self {
        // The seed is hashed, so that related seeds give independent random numbers.
        let seed = seed ^ STREAM;
        Self { delay, seeds: [hash(seed, 0), hash(seed, 1)] }
    }

    /// Returns the time for request `number`, in nanoseconds.
    pub(crate) fn ns(&self, number: u64) -> u64 {
        let uniform = |stream: usize| {
            // 53 random bits make a number above 0 and up to 1, so its logarithm is finite.
            ((hash(self.seeds[stream], number) >> 11) + 1) as f64 / (1_u64 << 53) as f64
        };
        let ns = match self.delay {
            Delay::None => 0.0,
            Delay::Const(time) => return time.0.as_nanos() as u64,
            Delay::Uniform { least, most } => {
                let (least_ns, most_ns) = (least.0.as_nanos() as f64, most.0.as_nanos() as f64);
                least_ns + uniform(0) * (most_ns - least_ns)
            }
            Delay::Exp(mean) => -uniform(0).ln() * mean.0.as_nanos() as f64,
            Delay::Lognormal { median, sigma } => {
                let normal = (-2.0 * uniform(0).ln()).sqrt() * (TAU * uniform(1)).cos();
                median.0.as_nanos() as f64 * (sigma * normal).exp()
            }
            Delay::Bimodal { first, second, second_share } => {
                let time = if uniform(0) <= second_share.0 { second } else { first };
                return time.0.as_nanos() as u64;
            }
        };
        ns.min(DRAWN_MAX_NS).round() as u64
    }
}

/// A random number that depends only on its arguments (splitmix64).
fn hash(seed: u64, index: u64) -> u64 {
    let mut z = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u64 = 100_000;

    fn drawn(delay: &str, seed: u64) -> Vec<u64> {
        let draws = Draws::new(delay.parse().unwrap(), seed);
        (0..DRAWS).map(|number| draws.ns(number)).collect()
    }

    /// Counts the random times below each quantile of the theoretical distribution. The counts must be as expected,
    /// within four standard errors.
    #[track_caller]
    fn check(delay: &str, expected_ns: &[(f64, f64)]) {
        for seed in [1, 2, 77] {
            let drawn = drawn(delay, seed);
            for (quantile, ns) in expected_ns {
                let below = drawn.iter().filter(|is_ns| (**is_ns as f64) < *ns).count() as f64 / DRAWS as f64;
                let error = (quantile * (1.0 - quantile) / DRAWS as f64).sqrt();
                assert!(
                    (below - quantile).abs() <= 4.0 * error,
                    "{delay} seed {seed}: {below}, not {quantile}"
                );
            }
        }
    }

    #[test]
    fn quantiles_match_theory() {
        check("const:5ms", &[(0.0, 5e6), (1.0, 5e6 + 1.0)]);
        check("uniform:1ms..9ms", &[(0.0, 1e6), (0.1, 1.8e6), (0.5, 5e6), (0.9, 8.2e6), (1.0, 9e6 + 1.0)]);
        let exp = |quantile: f64| (quantile, -(1.0 - quantile).ln() * 5e6);
        check("exp:5ms", &[exp(0.01), exp(0.1), exp(0.5), exp(0.9), exp(0.99), exp(0.999)]);
        // Quantiles of the standard normal distribution.
        let normal = [(0.1, -1.281_552), (0.5, 0.0), (0.9, 1.281_552), (0.99, 2.326_348), (0.999, 3.090_232)];
        check(
            "lognormal:5ms,0.5",
            &normal.map(|(quantile, z): (f64, f64)| (quantile, 5e6 * (0.5 * z).exp())),
        );
        check("bimodal:1ms,20ms,10%", &[(0.0, 1e6), (0.9, 1e6 + 1.0), (0.9, 2e7), (1.0, 2e7 + 1.0)]);
    }

    #[test]
    fn the_mean_matches_theory() {
        for (delay, mean_ns) in [
            ("exp:5ms", 5e6),
            ("lognormal:5ms,0.5", 5e6 * (0.125_f64).exp()),
            ("bimodal:1ms,20ms,10%", 2.9e6),
        ] {
            let is_ns = drawn(delay, 1).iter().sum::<u64>() as f64 / DRAWS as f64;
            assert!((is_ns / mean_ns - 1.0).abs() < 0.012, "{delay}: {is_ns}, not {mean_ns}");
        }
    }

    #[test]
    fn a_draw_depends_only_on_seed_and_number() {
        for delay in ["uniform:1ms..9ms", "exp:5ms", "lognormal:5ms,0.5", "bimodal:1ms,20ms,50%"] {
            let draws = Draws::new(delay.parse().unwrap(), 1);
            let backwards: Vec<u64> = (0..DRAWS).rev().map(|number| draws.ns(number)).collect();
            assert!(backwards.iter().rev().eq(&drawn(delay, 1)), "{delay}");
            assert_ne!(drawn(delay, 1), drawn(delay, 2), "{delay}");
        }
    }

    #[test]
    fn no_draw_exceeds_an_hour() {
        for delay in ["exp:1h", "lognormal:1h,10"] {
            assert_eq!(drawn(delay, 1).into_iter().max(), Some(3_600_000_000_000), "{delay}");
        }
    }
}
