//! Decides whether a warm-up has settled, with MSER-5 (`docs/method.md#warm-up`).
//!
//! MSER truncates the start of a series so that the standard error of the mean of the rest is minimal (White, "An
//! Effective Truncation Heuristic for Bias Reduction in Simulation Output", Simulation 69:6, 1997):
//!
//! ```text
//! d* = argmin over d of  sum((y_i - mean(y_d..))^2 for i in d..) / (n - d)^2
//! ```
//!
//! over batches `y` of five observations. Here a batch is the median of its observations, not their mean as in the
//! original: otherwise a single pause of the host would outweigh every transient. If MSER would cut off half of the
//! series or more, the transient may not have ended.

/// Number of observations in a batch, as in MSER-5.
const BATCH: usize = 5;

/// Minimum number of batches for a decision.
const BATCHES_MIN: usize = 8;

/// If MSER cuts off the first half of a series, two medians are compared: of the last quarter of this half, and of the
/// second half. The series counts as unsettled only if they differ by more than this share of the median of the second
/// half. Noise alone sometimes causes such a cut, but with a smaller difference.
const TRANSIENT_SHARE: f64 = 0.05;

/// Whether the series settled within its first half. Returns true if there are too few observations to decide.
pub(crate) fn has_settled(observations: &[f64]) -> bool {
    let batches: Vec<f64> = observations.chunks_exact(BATCH).map(median).collect();
    if batches.len() < BATCHES_MIN {
        return true;
    }
    let half = batches.len() / 2;
    let cut =
        (0..=half).min_by(|&a, &b| squared_error(&batches[a..]).total_cmp(&squared_error(&batches[b..])));
    if cut != Some(half) {
        return true;
    }
    let (before, rest) = (median(&batches[half * 3 / 4..half]), median(&batches[half..]));
    (before - rest).abs() <= TRANSIENT_SHARE * rest
}

/// The square of the standard error of the mean, as MSER estimates it.
fn squared_error(batches: &[f64]) -> f64 {
    let center = mean(batches);
    batches.iter().map(|batch| (batch - center).powi(2)).sum::<f64>() / (batches.len() as f64).powi(2)
}

/// The median. For an even number of values, the lower of the two middle values.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted[(sorted.len() - 1) / 2]
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reproducible noise between -0.1 and 0.1.
    fn noise(i: usize) -> f64 {
        ((i * 7_919) % 201) as f64 / 1_000.0 - 0.1
    }

    /// 100 observations around 1. The first is higher by `height`, and the difference falls to zero within `length`
    /// observations.
    fn transient(height: f64, length: f64) -> Vec<f64> {
        (0..100).map(|i| 1.0 + height * (1.0 - i as f64 / length).max(0.0) + noise(i)).collect()
    }

    #[test]
    fn a_transient_shorter_than_half_settles() {
        assert!(has_settled(&transient(0.0, 1.0)));
        for length in [5.0, 20.0, 40.0] {
            assert!(has_settled(&transient(3.0, length)), "{length}");
        }
    }

    #[test]
    fn a_longer_transient_does_not_settle() {
        for length in [60.0, 90.0, 500.0] {
            assert!(!has_settled(&transient(3.0, length)), "{length}");
        }
        let grows: Vec<f64> = transient(3.0, 90.0).into_iter().rev().collect();
        assert!(!has_settled(&grows));
    }

    #[test]
    fn a_pause_is_not_a_transient() {
        for at in [10, 30, 60, 95] {
            let mut paused = transient(0.0, 1.0);
            paused[at] = 40.0;
            assert!(has_settled(&paused), "{at}");
        }
    }

    #[test]
    fn a_trend_within_five_percent_and_few_observations_settle() {
        let slow: Vec<f64> = (0..100).map(|i| 1.0 - 0.0008 * i as f64).collect();
        assert!(has_settled(&slow));
        assert!(has_settled(&transient(3.0, 90.0)[..39]));
        assert!(!has_settled(&transient(3.0, 90.0)[..40]));
    }
}
