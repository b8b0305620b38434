//! HDR histograms as values of the schema: three significant digits, from 100 ns to 1 hour
//! (`docs/method.md#histograms`).

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::TimesNs;

/// Resolution of a latency histogram at its lower end, nanoseconds.
pub const HISTOGRAM_LOW_NS: u64 = 100;
/// Maximum value of a latency histogram, nanoseconds (one hour).
pub const HISTOGRAM_HIGH_NS: u64 = 3_600_000_000_000;
/// Number of significant decimal digits of a histogram.
pub const HISTOGRAM_DIGITS: u8 = 3;

/// An encoded histogram cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub enum HistogramError {
    /// The text is not base64.
    #[error("the histogram is not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    /// The bytes are not HdrHistogram's V2 encoding.
    #[error("the histogram is not in HdrHistogram's V2 encoding: {0}")]
    Encoding(String),
}

/// A histogram in HdrHistogram's V2 encoding (not compressed), as base64: any HdrHistogram library reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Histogram(String);

/// An empty histogram with weir's bounds and precision.
pub fn new_histogram() -> hdrhistogram::Histogram<u64> {
    hdrhistogram::Histogram::new_with_bounds(HISTOGRAM_LOW_NS, HISTOGRAM_HIGH_NS, HISTOGRAM_DIGITS)
        .expect("constant bounds are valid")
}

impl Histogram {
    /// Encodes `histogram`.
    pub fn encode(histogram: &hdrhistogram::Histogram<u64>) -> Self {
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(histogram, &mut bytes).expect("writing to memory cannot fail");
        Self(STANDARD.encode(bytes))
    }

    /// The bytes of the V2 encoding, without base64.
    ///
    /// # Errors
    /// When the text is not base64.
    pub fn to_v2(&self) -> Result<Vec<u8>, HistogramError> {
        Ok(STANDARD.decode(&self.0)?)
    }

    /// Creates a histogram from its V2 encoding.
    ///
    /// # Errors
    /// When the bytes are not HdrHistogram's V2 encoding.
    pub fn from_v2(bytes: &[u8]) -> Result<Self, HistogramError> {
        let histogram = Self(STANDARD.encode(bytes));
        histogram.decode()?;
        Ok(histogram)
    }

    /// Adds the counts of `other`. Both histograms must have the same lowest value and number of digits, so that no
    /// precision is lost.
    ///
    /// # Errors
    /// When one of the two cannot be decoded, or the values of `other` are out of range.
    pub fn add(&mut self, other: &Self) -> Result<(), HistogramError> {
        let mut sum = self.decode()?;
        // Histograms of routes have no fixed range; they grow with their values.
        sum.auto(true);
        sum.add(other.decode()?).map_err(|error| HistogramError::Encoding(format!("{error:?}")))?;
        *self = Self::encode(&sum);
        Ok(())
    }

    /// Decodes the histogram.
    ///
    /// # Errors
    /// When the text is not base64 or not HdrHistogram's V2 encoding.
    pub fn decode(&self) -> Result<hdrhistogram::Histogram<u64>, HistogramError> {
        let bytes = STANDARD.decode(&self.0)?;
        Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|error| HistogramError::Encoding(format!("{error:?}")))
    }
}

/// The value at `quantile` (0 to 1) of all requests: the recorded ones, and `unanswered` requests, which rank last.
///
/// Nearest rank, rounded up. `None` if the rank falls among the unanswered requests, or nothing was recorded.
pub fn quantile_ns(histogram: &hdrhistogram::Histogram<u64>, unanswered: u64, quantile: f64) -> Option<u64> {
    let recorded = histogram.len();
    let total = recorded.saturating_add(unanswered);
    // Because 0.9 * 10 may round up in binary, the subtraction ensures that the quantile 0.9 of 10 values has rank 9.
    let rank = (((quantile * total as f64) - 1e-9).ceil() as u64).max(1);
    if recorded == 0 || rank > recorded {
        return None;
    }
    // The library computes the rank as quantile times count, rounded up. Subtracting half a rank ensures that a
    // rounding error does not give the next rank.
    let inner = (rank as f64 - 0.5) / recorded as f64;
    Some(histogram.value_at_quantile(inner).min(histogram.max()))
}

/// Minimum number of requests for a quantile: 6 for p50, 30 for p90, 300 for p99, 3,000 for p99.9.
///
/// The probability that n independent requests all lie below the quantile q is q^n, or about exp(-n (1 - q)). It is at
/// most 5 % if n is at least 3 / (1 - q) (the rule of three). Then the slowest request is an upper bound of the
/// quantile with a confidence of 95 %. With fewer requests, weir would print the slowest request, not a quantile.
pub fn quantile_needs(quantile: f64) -> u64 {
    // Rounded, because 1 - 0.99 is not exactly 0.01 in binary.
    (3.0 / (1.0 - quantile)).round() as u64
}

impl TimesNs {
    /// The quantiles by field name, in ascending order.
    pub fn quantiles(&self) -> [(&'static str, f64, Option<u64>); 10] {
        [
            ("p50", 0.5, self.p50),
            ("p66", 0.66, self.p66),
            ("p75", 0.75, self.p75),
            ("p80", 0.8, self.p80),
            ("p90", 0.9, self.p90),
            ("p95", 0.95, self.p95),
            ("p98", 0.98, self.p98),
            ("p99", 0.99, self.p99),
            ("p999", 0.999, self.p999),
            ("p9999", 0.9999, self.p9999),
        ]
    }

    /// Summarizes the values in `histogram`. `unanswered` is the number of requests that `histogram` does not contain;
    /// they rank above all its values.
    pub fn of(histogram: &hdrhistogram::Histogram<u64>, unanswered: u64) -> Self {
        let some = !histogram.is_empty();
        let at = |quantile| quantile_ns(histogram, unanswered, quantile);
        Self {
            min: some.then(|| histogram.min()),
            mean: some.then(|| histogram.mean()),
            stddev: some.then(|| histogram.stdev()),
            p50: at(0.5),
            p66: at(0.66),
            p75: at(0.75),
            p80: at(0.8),
            p90: at(0.9),
            p95: at(0.95),
            p98: at(0.98),
            p99: at(0.99),
            p999: at(0.999),
            p9999: at(0.9999),
            max: (some && unanswered == 0).then(|| histogram.max()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ten() -> hdrhistogram::Histogram<u64> {
        let mut histogram = new_histogram();
        for value in 1..=10 {
            histogram.record(value * 1_000).unwrap();
        }
        histogram
    }

    #[test]
    fn quantiles_use_the_nearest_rank_rounded_up() {
        let histogram = ten();
        let near = |quantile, unanswered, expected: Option<u64>| {
            let value = quantile_ns(&histogram, unanswered, quantile);
            assert_eq!(value.map(|v| (v as f64 / 1_000.0).round() as u64), expected, "q {quantile}");
        };
        near(0.5, 0, Some(5));
        near(0.51, 0, Some(6));
        near(0.9, 0, Some(9));
        near(0.9999, 0, Some(10));
        near(0.5, 10, Some(10));
        near(0.51, 10, None);
        near(0.0, 0, Some(1));
    }

    #[test]
    fn the_maximum_is_unknown_if_requests_got_no_response() {
        let histogram = ten();
        assert!(TimesNs::of(&histogram, 0).max.is_some());
        assert_eq!(TimesNs::of(&histogram, 1).max, None);
        assert_eq!(TimesNs::of(&new_histogram(), 3), TimesNs::default());
    }

    #[test]
    fn a_quantile_needs_enough_requests_for_the_slowest_to_exceed_it() {
        let needs = [0.5, 0.9, 0.95, 0.99, 0.999].map(quantile_needs);
        assert_eq!(needs, [6, 30, 60, 300, 3_000]);
        for (_, quantile, _) in TimesNs::default().quantiles() {
            assert!(quantile.powi(quantile_needs(quantile) as i32) < 0.05, "{quantile}");
        }
    }

    #[test]
    fn histograms_survive_encoding() {
        let histogram = ten();
        assert_eq!(Histogram::encode(&histogram).decode().unwrap(), histogram);
        assert!(Histogram("no".into()).decode().is_err());
    }
}
