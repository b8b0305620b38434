//! Quantiles that rest on too few seconds (`docs/method.md#tails`).
//!
//! Requests that are slow together, in a pause or behind one slow response, are one event. Therefore the check counts
//! seconds with requests beyond a quantile, not the requests.

use weir_results::LoadSecond;

use crate::figures::figure::{Figure, Sample};
use crate::figures::latencies::quantile;
use crate::points::measured::Repeats;
use crate::verdicts::reasons::Metric;

/// Minimum number of seconds with requests slower than a quantile, in all repeats together. The standard deviation of a
/// count is its square root. So with five events, the share of requests beyond the quantile has a relative error of
/// about one half.
pub(crate) const SECONDS_MIN: usize = 5;

/// A quantile that is not a headline, because too few seconds contain requests slower than the quantile.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ShortTail {
    /// Name of the quantile: `p999`.
    pub name: String,
    /// Number of seconds that contain requests slower than this quantile, in all valid repeats.
    pub seconds: usize,
    /// Total number of seconds in the valid repeats.
    pub of: usize,
}

/// Removes the headline mark from each quantile above p50 if fewer than [`SECONDS_MIN`] seconds contain requests slower
/// than this quantile. Returns the quantiles that lost the mark. Loads that were stored without latencies per second
/// are not judged.
pub(crate) fn judge(latencies: &mut [(String, Figure)], repeats: &Repeats<'_>) -> Vec<ShortTail> {
    let (counted, _) = repeats.counted(Metric::Latency);
    let seconds: Vec<(u32, _)> = counted
        .iter()
        .flat_map(|repeat| {
            let number = repeat.cell.key.repeat;
            let sustained = |second: &&LoadSecond| second.sustained;
            let seconds = repeat.measurement.record.seconds.iter().filter(sustained);
            seconds.filter_map(move |second| Some((number, second.latency.decode().ok()?)))
        })
        .collect();
    if seconds.iter().all(|(_, latency)| latency.is_empty()) {
        return Vec::new();
    }
    let is_tail = |name: &str| quantile(name).is_some_and(|quantile| quantile > 0.5 && quantile < 1.0);
    let mut short = Vec::new();
    for (name, figure) in latencies.iter_mut().filter(|(name, figure)| is_tail(name) && figure.headline) {
        let values: Vec<(u32, f64)> = figure
            .repeats
            .iter()
            .filter_map(|repeated| match repeated.sample {
                Sample::Value(value) => Some((repeated.repeat, value)),
                Sample::BeyondTimeout | Sample::Missing => None,
            })
            .collect();
        let is_beyond = |(number, latency): &&(u32, hdrhistogram::Histogram<u64>)| {
            let value = values.iter().find(|(repeat, _)| repeat == number);
            value.is_some_and(|(_, value)| !latency.is_empty() && latency.max() as f64 >= *value)
        };
        let with = seconds.iter().filter(is_beyond).count();
        if with < SECONDS_MIN {
            figure.headline = false;
            short.push(ShortTail { name: name.clone(), seconds: with, of: seconds.len() });
        }
    }
    short
}
