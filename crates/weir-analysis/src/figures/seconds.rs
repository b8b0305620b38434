//! Aggregates several seconds of a load: counts and histograms are added, quantiles are never averaged.

use weir_results::{LoadSecond, Measurement, new_histogram, quantile_ns};

use crate::figures::figure::Sample;

/// Some of the seconds of a load, in order.
#[derive(Default)]
pub(crate) struct Seconds<'a>(pub(crate) Vec<&'a LoadSecond>);

/// The seconds of the sustained phase and of the drain after it. During the drain nothing new is sent, but the last
/// requests complete or are lost.
pub(crate) fn of_phase(measurement: &Measurement) -> Seconds<'_> {
    Seconds(measurement.record.seconds.iter().skip_while(|second| !second.sustained).collect())
}

/// How long an effect on a load, such as errors, lasts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Lasts<'a> {
    /// No second is affected.
    Never,
    /// The effect lasts until the end of this second.
    Until(&'a LoadSecond),
    /// The effect lasts until the last second.
    ToTheEnd,
}

/// How long a gateway may still be busy after the end of one of the `moments`, seconds. Seconds that start within this
/// time count as near the moment.
const NEAR_AFTER_S: f64 = 1.0;

impl<'a> Seconds<'a> {
    /// Returns the seconds near any of the `moments`, and all other seconds. A moment has a start and a length, in
    /// seconds.
    pub(crate) fn split_near(self, moments: &[(f64, f64)]) -> (Self, Self) {
        let is_near = |second: &&LoadSecond| {
            moments.iter().any(|(t_s, took_s)| {
                *t_s < second.t_s + second.length_s && second.t_s < t_s + took_s + NEAR_AFTER_S
            })
        };
        let (near, rest) = self.0.into_iter().partition(is_near);
        (Self(near), Self(rest))
    }
}

impl Seconds<'_> {
    /// Returns how long an effect lasts. A second is affected if it has errors, or if `is_disturbed` returns true for
    /// it. `is_disturbed` is called only for seconds of the sustained phase.
    ///
    /// Requests that end in the drain were sent before the end of the phase, so errors in the drain mean that the
    /// effect lasts until the end. Latencies in the drain are ignored, because the drain contains more slow responses.
    pub(crate) fn disturbed(&self, is_disturbed: impl Fn(&LoadSecond) -> bool) -> Lasts<'_> {
        let has_errors = |second: &LoadSecond| second.unexpected + second.lost > 0;
        let (phase, drain): (Vec<&LoadSecond>, Vec<&LoadSecond>) =
            self.0.iter().partition(|second| second.sustained);
        let last = phase.iter().rposition(|second| has_errors(second) || is_disturbed(second));
        match last {
            _ if drain.iter().any(|second| has_errors(second)) => Lasts::ToTheEnd,
            Some(at) if at + 1 == phase.len() => Lasts::ToTheEnd,
            Some(at) => Lasts::Until(phase[at]),
            None => Lasts::Never,
        }
    }

    pub(crate) fn length_s(&self) -> f64 {
        self.0.iter().map(|second| second.length_s).sum()
    }

    pub(crate) fn sent(&self) -> u64 {
        self.0.iter().map(|second| second.sent).sum()
    }

    /// Number of requests that completed, failed, timed out or were dropped. It can exceed [`Self::sent`], because
    /// dropped requests were never sent: while a gateway does not respond, many due requests are dropped.
    pub(crate) fn ended(&self) -> u64 {
        self.0.iter().map(|second| second.completed).sum::<u64>() + self.lost()
    }

    /// Complete responses with a status of 400 or more, or with a failed check.
    pub(crate) fn unexpected(&self) -> u64 {
        self.0.iter().map(|second| second.unexpected).sum()
    }

    /// Requests without a complete response: failed, timed out, dropped.
    pub(crate) fn lost(&self) -> u64 {
        self.0.iter().map(|second| second.lost).sum()
    }

    /// Unexpected and lost requests.
    pub(crate) fn wrong(&self) -> u64 {
        self.unexpected() + self.lost()
    }

    /// Complete responses per second; `None` if [`Self::length_s`] is 0.
    pub(crate) fn rate_per_s(&self) -> Option<f64> {
        let length_s = self.length_s();
        let completed: u64 = self.0.iter().map(|second| second.completed).sum();
        (length_s > 0.0).then(|| completed as f64 / length_s)
    }

    /// The latency at the quantile `share`, nanoseconds. Lost requests rank as the slowest.
    pub(crate) fn latency_ns(&self, share: f64) -> Sample {
        let mut merged = new_histogram();
        for second in &self.0 {
            let Ok(histogram) = second.latency.decode() else { continue };
            let _ = merged.add(&histogram);
        }
        match quantile_ns(&merged, self.lost(), share) {
            Some(ns) => Sample::Value(ns as f64),
            None if merged.is_empty() => Sample::Missing,
            None => Sample::BeyondTimeout,
        }
    }
}
