//! Numbers of requests and failures in all repeats of a row, as Locust's request table defines them.

use serde::Serialize;
use weir_results::{LoadResult, Requests};

/// Requests of the sustained phases of all measured repeats together.
///
/// Counts include invalid repeats: otherwise, a repeat that is invalid because of errors would hide these errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RequestCounts {
    /// Number of measured repeats.
    pub repeats: usize,
    /// Number of finished requests: completed, failed, timed out or dropped.
    pub requests: u64,
    /// Number of failed requests: a status of 400 or more, a failed check, or no complete response.
    pub fails: u64,
    /// Failures per second: `fails` divided by the total duration of the phases. `None` if this duration is zero.
    pub fails_per_s: Option<f64>,
}

impl RequestCounts {
    /// Adds up the requests of `results`.
    pub(crate) fn of<'a>(results: impl Iterator<Item = &'a LoadResult>) -> Self {
        let (mut counts, mut duration_s) = (Self::default(), 0.0);
        for result in results {
            let Requests { completed, unexpected, failed, timed_out, dropped, .. } = result.requests;
            let lost = failed.saturating_add(timed_out).saturating_add(dropped);
            counts.repeats += 1;
            counts.requests = counts.requests.saturating_add(completed).saturating_add(lost);
            counts.fails = counts.fails.saturating_add(unexpected).saturating_add(lost);
            duration_s += result.duration_s;
        }
        counts.fails_per_s = (duration_s > 0.0).then(|| counts.fails as f64 / duration_s);
        counts
    }
}
