//! Latency by quantile, from the histograms of all repeats, which are added without loss.

use serde::Serialize;
use weir_results::{LoadRecord, quantile_ns};

/// One point of a curve of latency by quantile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CurvePoint {
    /// The quantile, 0 to 1.
    pub quantile: f64,
    /// The latency at this quantile, nanoseconds.
    pub latency_ns: u64,
}

/// Number of curve points per factor of ten in the share of slower requests (`1 - quantile`), such as from 10 % to 1 %.
const POINTS_PER_DECADE: u32 = 12;

/// The latency curve of all `records` together. It ends where the share of slower requests (`1 - quantile`) corresponds
/// to less than one request, or where the quantile falls on an unanswered request.
///
/// Quantiles are evenly spaced in `log(1 - quantile)`, so tails have the same resolution as the middle. Unreadable
/// records are skipped; without records, the curve is empty.
pub(crate) fn latency_curve<'a>(records: impl Iterator<Item = &'a LoadRecord>) -> Vec<CurvePoint> {
    let mut merged = weir_results::new_histogram();
    let mut unanswered = 0_u64;
    for record in records {
        let Ok(histogram) = record.latency.decode() else { continue };
        if merged.add(&histogram).is_ok() {
            unanswered = unanswered.saturating_add(record.result.requests.unanswered());
        }
    }
    curve(&merged, unanswered)
}

/// The latency curve of the requests in `histogram`, plus `unanswered` requests, which rank as the slowest.
pub fn curve(histogram: &hdrhistogram::Histogram<u64>, unanswered: u64) -> Vec<CurvePoint> {
    let total = histogram.len().saturating_add(unanswered);
    if histogram.is_empty() {
        return Vec::new();
    }
    let decades = (total as f64).log10().ceil() as u32;
    (0..=decades * POINTS_PER_DECADE)
        .map(|step| 1.0 - 10_f64.powf(-f64::from(step) / f64::from(POINTS_PER_DECADE)))
        .take_while(|quantile| (1.0 - quantile) * total as f64 >= 1.0 - 1e-9)
        .map_while(|quantile| {
            let latency_ns = quantile_ns(histogram, unanswered, quantile)?;
            Some(CurvePoint { quantile, latency_ns })
        })
        .collect()
}
