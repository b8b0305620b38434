//! Two clock offsets: from this host's monotonic clock to its wall clock, and from there to Prometheus's clock.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::clock::mono_ns;

/// How far this host's wall clock was ahead of its monotonic clock when both were read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WallClock {
    /// Wall clock minus monotonic clock, seconds.
    ahead_s: f64,
}

impl WallClock {
    /// Reads both clocks now.
    pub fn now() -> Self {
        Self { ahead_s: unix_s() - mono_ns() as f64 / 1e9 }
    }

    /// Converts a time of the monotonic clock (nanoseconds) to seconds since the Unix epoch.
    pub(crate) fn unix_s(&self, mono_ns: u64) -> f64 {
        mono_ns as f64 / 1e9 + self.ahead_s
    }

    /// How far the wall clock has moved since `before`, because it was set or drifted; seconds.
    pub(crate) fn moved_s(&self, before: &Self) -> f64 {
        (self.ahead_s - before.ahead_s).abs()
    }
}

/// A reading of Prometheus's clock. It includes this host's wall clock just before the request and just after the
/// response.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ClockReading {
    pub(crate) before_s: f64,
    pub(crate) theirs_s: f64,
    pub(crate) after_s: f64,
}

/// How far Prometheus's clock is ahead of this host's wall clock, seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Offset {
    pub(crate) ahead_s: f64,
    /// The maximum error of `ahead_s`.
    pub(crate) uncertain_s: f64,
}

/// Prometheus returns its time in steps of this length, seconds.
const ROUNDED_S: f64 = 0.001;

impl ClockReading {
    /// Assumes that Prometheus read its clock in the middle of the round trip. The maximum error is therefore half the
    /// round trip.
    fn offset(&self) -> Offset {
        let half_s = (self.after_s - self.before_s).max(0.0) / 2.0;
        Offset { ahead_s: self.theirs_s - self.before_s - half_s, uncertain_s: half_s + ROUNDED_S }
    }
}

/// The offset from the reading with the shortest round trip; `None` without readings.
pub(crate) fn offset(readings: &[ClockReading]) -> Option<Offset> {
    readings.iter().map(ClockReading::offset).min_by(|a, b| a.uncertain_s.total_cmp(&b.uncertain_s))
}

/// The current time by this host's wall clock, seconds since the Unix epoch.
pub(crate) fn unix_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quickest_reading_gives_the_clock_offset() {
        let read_clock = |before_s, theirs_s, after_s| ClockReading { before_s, theirs_s, after_s };
        let offset = offset(&[
            read_clock(10.0, 13.5, 11.0),
            read_clock(20.0, 23.05, 20.1),
            read_clock(30.0, 33.2, 30.4),
        ])
        .unwrap();
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
