//! Records the actual delays of responses, in a histogram per worker.

use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use weir_results::{Histogram, new_histogram, quantile_ns};

/// Actual delays: the time from the end of the request until the first byte of the response is written.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GivenDelays {
    /// Number of delayed responses.
    pub count: u64,
    /// Mean, nanoseconds.
    pub mean_ns: u64,
    /// Minimum, nanoseconds.
    pub min_ns: u64,
    /// Maximum, nanoseconds.
    pub max_ns: u64,
    /// Median, nanoseconds. Quantiles have the histogram's precision of three digits.
    pub p50_ns: u64,
    /// 90th percentile, nanoseconds.
    pub p90_ns: u64,
    /// 99th percentile, nanoseconds.
    pub p99_ns: u64,
    /// All delays as a histogram, in HdrHistogram V2 encoding.
    pub histogram: Histogram,
}

/// The delays that one worker has recorded. Only this worker writes them; reading them blocks the worker briefly.
#[derive(Debug)]
pub(crate) struct Recorder(Mutex<Given>);

#[derive(Clone, Debug)]
struct Given {
    histogram: hdrhistogram::Histogram<u64>,
    /// The sum and the extremes are exact, unlike the histogram with its three digits.
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Given::new()))
    }

    pub(crate) fn record(&self, ns: u64) {
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        given.histogram.saturating_record(ns);
        given.sum_ns += u128::from(ns);
        given.min_ns = given.min_ns.min(ns);
        given.max_ns = given.max_ns.max(ns);
    }
}

impl GivenDelays {
    /// Merges the delays of all workers. Returns `None` if there were none.
    pub(crate) fn of<'r>(recorders: impl Iterator<Item = &'r Recorder>) -> Option<Self> {
        let mut all = Given::new();
        for recorder in recorders {
            let given = recorder.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.histogram.add(&given.histogram).expect("all histograms have the same bounds");
            all.sum_ns += given.sum_ns;
            all.min_ns = all.min_ns.min(given.min_ns);
            all.max_ns = all.max_ns.max(given.max_ns);
        }
        let count = all.histogram.len();
        // A quantile is the upper end of its bucket, which may exceed the maximum delay.
        let at = |quantile| Some(quantile_ns(&all.histogram, 0, quantile)?.clamp(all.min_ns, all.max_ns));
        Some(Self {
            count,
            mean_ns: u64::try_from(all.sum_ns.checked_div(u128::from(count))?).unwrap_or(u64::MAX),
            min_ns: all.min_ns,
            max_ns: all.max_ns,
            p50_ns: at(0.5)?,
            p90_ns: at(0.9)?,
            p99_ns: at(0.99)?,
            histogram: Histogram::encode(&all.histogram),
        })
    }
}

impl Given {
    fn new() -> Self {
        Self { histogram: new_histogram(), sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_of_all_workers_are_merged() {
        let recorders = [Recorder::new(), Recorder::new(), Recorder::new()];
        assert_eq!(GivenDelays::of(recorders.iter()), None);
        for ns in 1..=99 {
            recorders[ns as usize % 2].record(ns * 1_000);
        }
        recorders[2].record(2 * 3_600_000_000_000);
        let given = GivenDelays::of(recorders.iter()).unwrap();
        assert_eq!((given.count, given.min_ns, given.max_ns), (100, 1_000, 7_200_000_000_000));
        assert_eq!(given.mean_ns, (4_950_000 + 7_200_000_000_000) / 100);
        for (is_ns, ns) in [(given.p50_ns, 50_000), (given.p90_ns, 90_000), (given.p99_ns, 99_000)] {
            assert!(is_ns.abs_diff(ns) <= ns / 1_000, "{is_ns}, not {ns}");
        }
        let decoded = given.histogram.decode().unwrap();
        assert_eq!((decoded.len(), decoded.count_between(0, 50_050)), (100, 50));
    }

    #[test]
    fn no_quantile_exceeds_the_maximum_delay() {
        let recorder = Recorder::new();
        recorder.record(3_036_912);
        let given = GivenDelays::of([&recorder].into_iter()).unwrap();
        assert_eq!([given.p50_ns, given.p90_ns, given.p99_ns, given.max_ns], [3_036_912; 4]);
    }
}
