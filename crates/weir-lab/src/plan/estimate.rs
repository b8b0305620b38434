//! Time estimates: ranges, since host noise makes weir re-measure loads and extend warm-ups.

use std::iter::Sum;
use std::ops::{Add, Mul};
use std::time::Duration;

/// A range of time, from a quiet host to a noisy one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeEstimate {
    /// If no load is re-measured and no warm-up grows.
    pub min: Duration,
    /// If every load is re-measured as often as `retries` allows, and every warm-up grows to its maximum.
    pub max: Duration,
}

impl TimeEstimate {
    /// A time that noise does not change.
    pub(crate) fn exactly(time: Duration) -> Self {
        Self { min: time, max: time }
    }

    /// The time of an attempt that may be repeated up to `retries` times.
    pub(crate) fn with_retries(self, retries: u32) -> Self {
        Self { min: self.min, max: self.max * retries.saturating_add(1) }
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
