//! How long something takes: a range, since host noise makes weir re-measure loads and warm up for longer.

use std::iter::Sum;
use std::ops::{Add, Mul};
use std::time::Duration;

/// A range of time, from a quiet host to a noisy one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Takes {
    /// If no load is re-measured and no warm-up grows.
    pub least: Duration,
    /// If every load is re-measured as often as `retries` allows, and every warm-up grows to its maximum.
    pub most: Duration,
}

impl Takes {
    /// A time that noise does not change.
    pub(crate) fn exactly(time: Duration) -> Self {
        Self { least: time, most: time }
    }

    /// The time of an attempt that may be repeated up to `retries` times.
    pub(crate) fn with_retries(self, retries: u32) -> Self {
        Self { least: self.least, most: self.most * retries.saturating_add(1) }
    }

    pub(crate) fn stretched(self, factor: f64) -> Self {
        Self { least: self.least.mul_f64(factor), most: self.most.mul_f64(factor) }
    }
}

impl Add for Takes {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { least: self.least + other.least, most: self.most + other.most }
    }
}

impl Sum for Takes {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

impl Mul<u32> for Takes {
    type Output = Self;

    fn mul(self, count: u32) -> Self {
        Self { least: self.least * count, most: self.most * count }
    }
}
