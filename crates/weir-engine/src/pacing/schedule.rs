//! Due times of arrivals: a pure function of (seed, index), the same for any number of workers.
//!
//! First, arrivals get random or even gaps with a mean of 1, on a time scale without a unit. Then the inverse of the
//! load's integrated rate converts this scale to real time. So a ramp or a burst changes only the conversion. On the
//! scale without a unit, the arrivals stay the same Poisson process.

use crate::spec::{ShardSpec, Spacing};

mod profile;
#[cfg(test)]
mod shards;
#[cfg(test)]
mod spacing;

use profile::Piece;
pub use profile::{NEVER_NS, Profile};

/// Separates the seeds of shards (the parts of a load that several machines drive) from each other and from the
/// load's own seed.
const SHARD: u64 = 0x8f1b_bcdc_ca62_c1d6;

/// An open-loop schedule: arrival `index` is due at a fixed offset from the start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Schedule {
    profile: Profile,
    gaps: Gaps,
}

impl Schedule {
    /// A schedule with the rate of `profile`, or with a constant mean rate.
    pub fn new(seed: u64, profile: impl Into<Profile>, spacing: Spacing) -> Self {
        let profile = profile.into();
        debug_assert!(profile.constant().is_none_or(|rate_per_s| rate_per_s > 0.0 && rate_per_s.is_finite()));
        // Hashes the seed, so that schedules with related seeds are independent.
        Self { profile, gaps: Gaps { seed: hash(seed, 0), spacing, shard: ShardSpec::WHOLE } }
    }

    /// Returns the schedule of one of several machines that share the load. Each machine numbers its arrivals from 0.
    ///
    /// `of` is the number of machines. With Poisson arrivals, each machine has an independent stream, with a mean gap
    /// `of` times that of the whole schedule. With even spacing, machine `index` sends every `of`-th arrival of the
    /// whole schedule, beginning with arrival `index`.
    pub fn of_shard(self, shard: ShardSpec) -> Self {
        Self { gaps: Gaps { seed: seed_of_shard(self.gaps.seed, shard), shard, ..self.gaps }, ..self }
    }

    /// The arrivals of worker `worker` of `workers`: those whose index modulo `workers` is `worker`.
    pub fn arrivals(&self, worker: u64, workers: u64) -> Arrivals {
        let bent = match self.profile.constant() {
            Some(_) => None,
            None => Some(Box::new(Bent { profile: self.profile, piece: self.profile.first(), due_ns: 0 })),
        };
        let gaps = self.gaps;
        let rate_per_s = self.profile.constant().unwrap_or_default();
        let mut arrivals = Arrivals { gaps, rate_per_s, bent, index: 0, mass: gaps.first(), step: 1 };
        arrivals.skip(worker);
        arrivals.step = workers;
        arrivals
    }

    /// Finds the end of a phase that starts at `from_ns` and contains exactly `count` arrivals. Returns the index
    /// of the first arrival after the phase, and its due time.
    pub fn end_of(&self, from_ns: u64, count: u64) -> (u64, u64) {
        let mut arrivals = self.arrivals(0, 1);
        while arrivals.due_ns() < from_ns {
            arrivals.advance();
        }
        arrivals.skip(count);
        (arrivals.index(), arrivals.due_ns())
    }
}

/// An iterator over a worker's share of a schedule.
///
/// Adds up every gap of the whole schedule, including the gaps before arrivals of other workers. This costs about
/// 10 ns per arrival, and all workers compute exactly the same times.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrivals {
    gaps: Gaps,
    /// Arrivals per second if the rate is constant, otherwise 0.
    rate_per_s: f64,
    /// For a changing rate: the rate over time and the current position in it. The box keeps this type small for
    /// constant rates.
    bent: Option<Box<Bent>>,
    index: u64,
    /// The sum of the gaps up to this arrival; the mean gap of the load is 1.
    mass: f64,
    step: u64,
}

/// The gaps between the arrivals of a schedule, in units of the mean gap of the whole load on all machines.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Gaps {
    seed: u64,
    spacing: Spacing,
    shard: ShardSpec,
}

/// A position in a schedule whose rate changes.
#[derive(Clone, Debug, PartialEq)]
struct Bent {
    profile: Profile,
    piece: Piece,
    due_ns: u64,
}

impl Arrivals {
    /// The index of the arrival in the schedule of this machine.
    #[inline]
    pub fn index(&self) -> u64 {
        self.index
    }

    /// The due time in nanoseconds from the start of the schedule; [`NEVER_NS`] for an arrival after the rate fell
    /// to zero.
    #[inline]
    pub fn due_ns(&self) -> u64 {
        match &self.bent {
            // The division comes last, so that the result is exact if `mass` is a whole number.
            None => ((self.mass * 1e9 / self.rate_per_s) as u64).min(NEVER_NS),
            Some(bent) => bent.due_ns,
        }
    }

    /// Moves to the worker's next arrival.
    #[inline]
    pub fn advance(&mut self) {
        self.skip(self.step);
    }

    #[inline]
    fn skip(&mut self, indices: u64) {
        match self.gaps.spacing {
            Spacing::Even => {
                self.index += indices;
                self.mass = self.gaps.even(self.index);
            }
            Spacing::Poisson => {
                for _ in 0..indices {
                    self.index += 1;
                    self.mass += self.gaps.poisson(self.index);
                }
            }
        }
        if let Some(bent) = &mut self.bent {
            bent.go_to(self.mass);
        }
    }
}

impl Bent {
    // A separate function that is not inlined, so that schedules with a constant rate stay fast.
    #[inline(never)]
    fn go_to(&mut self, mass: f64) {
        self.due_ns = self.profile.due_ns(&mut self.piece, mass);
    }
}

impl Gaps {
    /// The gap before the first arrival, in units of the mean gap of the whole load.
    fn first(&self) -> f64 {
        match self.spacing {
            Spacing::Even => self.even(0),
            Spacing::Poisson => self.poisson(0),
        }
    }

    /// The sum of all gaps up to this machine's arrival `index`, if arrivals are evenly spaced.
    fn even(&self, index: u64) -> f64 {
        self.shard.number(index) as f64
    }

    /// The exponential gap before Poisson arrival `index`.
    fn poisson(&self, index: u64) -> f64 {
        exponential(self.seed, index) * f64::from(self.shard.of)
    }
}

/// The seed for the random numbers of one machine. If one machine drives the whole load, it uses the load's seed.
pub(crate) fn seed_of_shard(seed: u64, shard: ShardSpec) -> u64 {
    if shard.is_whole() { seed } else { hash(seed ^ SHARD, shard.index.into()) }
}

/// An exponentially distributed number with mean 1 that depends only on its arguments.
pub(crate) fn exponential(seed: u64, index: u64) -> f64 {
    // `uniform` has 53 random bits and is at least 2^-53. So its logarithm is finite, and the returned number is at
    // most 37.
    let uniform = ((hash(seed, index) >> 11) + 1) as f64 / (1u64 << 53) as f64;
    -uniform.ln()
}

/// A random number that depends only on its arguments (splitmix64).
pub fn hash(seed: u64, index: u64) -> u64 {
    let mut z = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(schedule: &Schedule, worker: u64, workers: u64, count: usize) -> Vec<(u64, u64)> {
        let mut arrivals = schedule.arrivals(worker, workers);
        let mut all = Vec::new();
        for _ in 0..count {
            all.push((arrivals.index(), arrivals.due_ns()));
            arrivals.advance();
        }
        all
    }

    #[test]
    fn workers_share_one_schedule_exactly() {
        for spacing in [Spacing::Poisson, Spacing::Even] {
            let schedule = Schedule::new(7, 12_345.6, spacing);
            let alone = due(&schedule, 0, 1, 3_000);
            for workers in [2, 3, 7] {
                for worker in 0..workers {
                    for (index, due_ns) in due(&schedule, worker, workers, 400) {
                        assert_eq!(index % workers, worker);
                        assert_eq!((index, due_ns), alone[index as usize]);
                    }
                }
            }
        }
    }

    #[test]
    fn even_spacing_is_exact() {
        let schedule = Schedule::new(1, 8_000.0, Spacing::Even);
        for (index, due_ns) in due(&schedule, 0, 1, 100_000) {
            assert_eq!(due_ns, index * 125_000);
        }
        let thirds = Schedule::new(1, 3.0, Spacing::Even);
        assert_eq!(due(&thirds, 0, 1, 4), [(0, 0), (1, 333_333_333), (2, 666_666_666), (3, 1_000_000_000)]);
        for rate in 1..2_000 {
            let of_a_second = Schedule::new(1, rate as f64, Spacing::Even).arrivals(rate, 1);
            assert_eq!((of_a_second.index(), of_a_second.due_ns()), (rate, 1_000_000_000));
        }
    }

    #[test]
    fn poisson_gaps_are_exponential_and_independent() {
        let schedule = Schedule::new(42, 1_000.0, Spacing::Poisson);
        let all = due(&schedule, 0, 1, 200_001);
        let gaps: Vec<f64> = all.windows(2).map(|pair| (pair[1].1 - pair[0].1) as f64 / 1e6).collect();
        let n = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / n;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n;
        let next = gaps.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>() / n;
        // The tolerance is five standard errors of each estimate. The seed is fixed, so the test cannot fail by chance.
        assert!((mean - 1.0).abs() < 5.0 / n.sqrt(), "mean {mean}");
        assert!((variance - 1.0).abs() < 5.0 * (8.0 / n).sqrt(), "variance {variance}");
        assert!((next / variance).abs() < 5.0 / n.sqrt(), "correlation {next}");
        for (bound, share) in [(0.1, 0.0952), (1.0, 0.6321), (3.0, 0.9502)] {
            let below = gaps.iter().filter(|&&gap| gap < bound).count() as f64 / n;
            assert!((below - share).abs() < 0.006, "{below} of the gaps are below {bound}");
        }
    }

    #[test]
    fn counts_of_a_poisson_schedule_vary_like_poisson_counts() {
        let schedule = Schedule::new(3, 1e6, Spacing::Poisson);
        let mut windows = vec![0u32; 10_000];
        let mut arrivals = schedule.arrivals(0, 1);
        while let Some(window) = windows.get_mut((arrivals.due_ns() / 10_000) as usize) {
            *window += 1;
            arrivals.advance();
        }
        let n = windows.len() as f64;
        let mean = windows.iter().map(|&count| f64::from(count)).sum::<f64>() / n;
        let variance = windows.iter().map(|&count| (f64::from(count) - mean).powi(2)).sum::<f64>() / n;
        assert!((mean - 10.0).abs() < 5.0 * (10.0 / n).sqrt(), "mean {mean}");
        assert!((variance / mean - 1.0).abs() < 5.0 * (2.0 / n).sqrt(), "dispersion {}", variance / mean);
    }

    #[test]
    fn seeds_give_different_schedules_and_the_same_seed_the_same() {
        let of = |seed| due(&Schedule::new(seed, 100.0, Spacing::Poisson), 0, 1, 50);
        assert_eq!(of(5), of(5));
        assert_ne!(of(5), of(6));
    }

    /// A seed gives the same arrivals in every version, so that an old run can be repeated.
    #[test]
    fn a_seed_gives_the_same_schedule_in_every_version() {
        let check = |profile: Profile, spacing, expected: [u64; 5]| {
            let all = due(&Schedule::new(42, profile, spacing), 0, 1, 5);
            assert_eq!(all.into_iter().map(|(_, due_ns)| due_ns).collect::<Vec<_>>(), expected);
        };
        let bent = Profile::from(500.0).ramp(4_000.0, 1_000_000, 20_000_000);
        let (poisson, even) = (Spacing::Poisson, Spacing::Even);
        check(1_000.0.into(), poisson, [1_069_174, 1_114_436, 1_835_264, 4_532_999, 4_923_207]);
        check(bent, poisson, [1_972_754, 2_039_701, 2_982_632, 5_508_635, 5_805_377]);
        check(bent, even, [0, 1_868_115, 3_173_376, 4_203_772, 5_082_833]);
    }

    #[test]
    fn a_phase_by_count_has_exactly_that_many_arrivals() {
        for spacing in [Spacing::Poisson, Spacing::Even] {
            let schedule = Schedule::new(9, 5_000.0, spacing);
            let (end_index, end_ns) = schedule.end_of(500_000_000, 1_000);
            let all = due(&schedule, 0, 1, end_index as usize + 1);
            let held = all.iter().filter(|&&(index, ns)| ns >= 500_000_000 && index < end_index).count();
            assert_eq!(held, 1_000);
            assert_eq!(all.last(), Some(&(end_index, end_ns)));
        }
    }
}
