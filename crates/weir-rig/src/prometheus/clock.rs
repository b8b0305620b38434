//! Where Prometheus's clock stands against this host's, and this host's wall clock against its monotonic one.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::clock::mono_ns;

/// This host's wall clock against its monotonic one, at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WallClock {
    /// Seconds since the Unix epoch at which the monotonic clock was zero.
    ahead_s: f64,
}

impl WallClock {
    /// As it is now.
    pub fn now() -> Self {
        Self { ahead_s: unix_s() - mono_ns() as f64 / 1e9 }
    }

    /// Seconds since the Unix epoch at a moment of the monotonic clock.
    pub(crate) fn unix_s(&self, mono_ns: u64) -> f64 {
        mono_ns as f64 / 1e9 + self.ahead_s
    }

    /// How far the wall clock was set, or drifted, since `before`, seconds.
    pub(crate) fn moved_s(&self, before: &Self) -> f64 {
        (self.ahead_s - before.ahead_s).abs()
    }
}

/// A look at the other clock: this host's wall clock before the question and after the answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Look {
    pub(crate) before_s: f64,
    pub(crate) theirs_s: f64,
    pub(crate) after_s: f64,
}

/// How far Prometheus's clock is ahead of this host's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Offset {
    pub(crate) ahead_s: f64,
    /// It is off by no more than this.
    pub(crate) uncertain_s: f64,
}

/// What its clock shows is rounded to this.
const ROUNDED_S: f64 = 0.001;

impl Look {
    /// What the look says: the clock was read somewhere between question and answer.
    fn offset(&self) -> Offset {
        let half_s = (self.after_s - self.before_s).max(0.0) / 2.0;
        Offset { ahead_s: self.theirs_s - self.before_s - half_s, uncertain_s: half_s + ROUNDED_S }
    }
}

/// What the look that took least says; `None` without one.
pub(crate) fn offset(looks: &[Look]) -> Option<Offset> {
    looks.iter().map(Look::offset).min_by(|a, b| a.uncertain_s.total_cmp(&b.uncertain_s))
}

/// Seconds since the Unix epoch.
pub(crate) fn unix_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quickest_look_says_where_the_other_clock_stands() {
        let look = |before_s, theirs_s, after_s| Look { before_s, theirs_s, after_s };
        let offset =
            offset(&[look(10.0, 13.5, 11.0), look(20.0, 23.05, 20.1), look(30.0, 33.2, 30.4)]).unwrap();
        assert!(
            (offset.ahead_s - 3.0).abs() < 1e-9 && (offset.uncertain_s - 0.051).abs() < 1e-9,
            "{offset:?}"
        );
        assert_eq!(super::offset(&[]), None);
    }

    #[test]
    fn the_wall_clock_follows_the_monotonic_one() {
        let (before, mono, unix) = (WallClock::now(), mono_ns(), unix_s());
        assert!((before.unix_s(mono) - unix).abs() < 60.0);
        assert_eq!(WallClock { ahead_s: 5.0 }.moved_s(&WallClock { ahead_s: 7.5 }), 2.5);
    }
}
