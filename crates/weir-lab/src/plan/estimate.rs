//! Time estimates: ranges, since host noise makes weir re-measure loads and extend warm-ups.

use std::iter::Sum;
use std::ops::{Add, Mul};
use std::time::Duration;

/// Maximum total time of a run's retries, as share of the run's planned time.
pub(crate) const RETRIES_SHARE_MAX: f64 = 0.5;

/// A range of time, from a quiet host to a noisy one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeEstimate {
    /// Time if no load is re-measured and no warm-up grows.
    pub min: Duration,
    /// Time if loads are re-measured for as long as a run allows, and every warm-up grows to its maximum.
    pub max: Duration,
}

impl TimeEstimate {
    /// A time that noise does not change.
    pub(crate) fn exactly(time: Duration) -> Self {
        Self { min: time, max: time }
    }

    /// Adds the time of retries: increases `max` by half of `min`, or by nothing if `retries` is 0. All retries of a
    /// run take at most half of the run's planned time.
    pub(crate) fn with_retries(self, retries: u32) -> Self {
        let share = f64::from(retries).min(RETRIES_SHARE_MAX);
        Self { min: self.min, max: self.max + self.min.mul_f64(share) }
    }

    pub(crate) fn stretched(self, factor: f64) -> Self {
        Self { min: self.min.mul_f64(factor), max: self.max.mul_f64(factor) }
    }
}

impl Add for TimeEstimate {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { min: self.min + other.min, max: self.max + other.max }
    }
}

impl Sum for TimeEstimate {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

impl Mul<u32> for TimeEstimate {
    type Output = Self;

    fn mul(self, count: u32) -> Self {
        Self { min: self.min * count, max: self.max * count }
    }
}
