//! Reports to the caller while a load runs.

use serde::{Deserialize, Serialize};
use weir_results::LoadSecond;

use crate::pacing::schedule::Profile;
use crate::record::Closed;
use crate::spec::LoadSpec;
use crate::timeline::{Span, Timeline};

/// Receives the progress of a load.
pub trait Progress {
    /// Called when a second of the load has ended, on the coordinator's thread and never on the thread of a worker.
    ///
    /// A worker that ends early may report its part of a second late. That part is passed in another call with the same
    /// `t_s`. So the counts and histograms of all calls add up to the counts and histograms of the record.
    fn second(&self, second: &LiveSecond);
}

/// Ignores all reports.
impl Progress for () {
    fn second(&self, _: &LiveSecond) {}
}

/// A second of a load, reported while the load runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LiveSecond {
    /// Counts and latencies in this second.
    pub second: LoadSecond,
    /// The lost requests that were sent and timed out.
    pub timed_out: u64,
    /// The lost requests that were not sent within the time-out.
    pub dropped: u64,
    /// Mean arrival rate of the schedule in this second, in requests per second; `None` in a closed loop and after the
    /// end of the schedule.
    pub offered_per_s: Option<f64>,
    /// Number of connections that the load uses in the middle of this second.
    pub connections: u32,
}

impl LiveSecond {
    /// Number of lost requests that neither timed out nor were dropped: the connection broke, or the response was
    /// malformed.
    pub fn failed(&self) -> u64 {
        self.second.lost.saturating_sub(self.timed_out + self.dropped)
    }
}

/// The configured arrival rate and number of connections over time.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    profile: Option<Profile>,
    connections_from: u32,
    connections_to: u32,
}

impl Asked {
    /// The configuration of a load without steps.
    pub(crate) fn of(spec: &LoadSpec) -> Self {
        Self {
            profile: Profile::of(spec),
            connections_from: spec.connections_from.unwrap_or(spec.connections),
            connections_to: spec.connections,
        }
    }

    /// Builds the progress report for an interval. If a worker reports late, `closed` is only that worker's part of the
    /// interval.
    pub(crate) fn live(&self, closed: &Closed, timeline: &Timeline) -> LiveSecond {
        let Span { start_ns, end_ns, .. } = closed.span;
        let since_start_ns = |at_ns: u64| at_ns.min(timeline.end_ns).saturating_sub(timeline.start_ns);
        let middle_ns = start_ns + (end_ns - start_ns) / 2;
        let phase_ns = timeline.end_ns.saturating_sub(timeline.sustain_ns).max(1);
        let share = middle_ns.saturating_sub(timeline.sustain_ns) as f64 / phase_ns as f64;
        LiveSecond {
            second: closed.second.clone(),
            timed_out: closed.timed_out,
            dropped: closed.dropped,
            offered_per_s: self.rate_per_s(since_start_ns(start_ns), since_start_ns(end_ns)),
            connections: self.connections(share),
        }
    }

    /// Mean arrival rate of the schedule between two times, given in nanoseconds since the start of the load.
    /// `None` in a closed loop, or if the interval is empty.
    pub(crate) fn rate_per_s(&self, from_ns: u64, to_ns: u64) -> Option<f64> {
        let profile = self.profile.as_ref().filter(|_| from_ns < to_ns)?;
        Some(
            (profile.arrivals_until(to_ns) - profile.arrivals_until(from_ns)) * 1e9
                / (to_ns - from_ns) as f64,
        )
    }

    /// Number of connections that the load uses after this share (0 to 1) of the sustained phase.
    pub(crate) fn connections(&self, share: f64) -> u32 {
        let (from, to) = (f64::from(self.connections_from), f64::from(self.connections_to));
        (from + (to - from) * share.clamp(0.0, 1.0)).round() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn the_rate_of_a_second_is_the_mean_over_ramps_and_bursts() {
        let check = |profile: Profile, from_ns: u64, to_ns: u64, expected: Option<f64>| {
            let asked = Asked { profile: Some(profile), connections_from: 1, connections_to: 1 };
            let rate = asked.rate_per_s(from_ns, to_ns);
            assert_eq!(rate.map(|rate| (rate * 1e6).round() / 1e6), expected);
        };
        check(Profile::from(500.0), S, 2 * S, Some(500.0));
        check(Profile::from(500.0), S, S, None);
        let ramp = Profile::from(100.0).ramp(300.0, S, 2 * S);
        check(ramp, 0, S, Some(100.0));
        check(ramp, S, 2 * S, Some(150.0));
        check(ramp, 2 * S, 3 * S, Some(250.0));
        check(ramp, S / 2, 2 * S, Some(400.0 / 3.0).map(|rate| (rate * 1e6_f64).round() / 1e6));
        check(ramp, 3 * S, 4 * S, Some(300.0));
        let closed = Asked { profile: None, connections_from: 1, connections_to: 1 };
        assert_eq!(closed.rate_per_s(0, S), None);
    }

    #[test]
    fn connections_follow_their_ramp() {
        let asked = Asked { profile: None, connections_from: 10, connections_to: 110 };
        assert_eq!([-1.0, 0.0, 0.25, 1.0, 2.0].map(|share| asked.connections(share)), [10, 10, 35, 110, 110]);
    }
}
