//! Compares the first and the last third of a phase to detect drift (`docs/method.md#verdicts`).
//!
//! The value of a third covers all its requests: counts are added, histograms are merged, quantiles are never averaged.
//! The seconds of each third show how large a difference chance can make, by sectioning (Asmussen and Glynn,
//! *Stochastic Simulation*, 2007, III.5a). With n seconds in a third, its value x and the value x_i of second i, the
//! variance of x is estimated as
//!
//! ```text
//! v = ((x_1 - x)^2 + .. + (x_n - x)^2) / (n (n - 1))
//! ```
//!
//! The estimate includes everything that varies between seconds: random arrivals, queues, pauses caused by a quota.
//! Requests within a second need not be independent. The thirds differ if the difference of their values is above both
//! the allowed share and the bound of Student's t for two groups of n:
//!
//! ```text
//! |x_last - x_first| > drift_share * max(x_first, x_last)
//! |x_last - x_first| > t(2 (n - 1)) * sqrt(v_first + v_last)
//! ```

use std::slice;

use weir_results::{LoadRecord, LoadSecond, new_histogram, quantile_ns};

use crate::figures::interval::t_quantile;
use crate::figures::quantity::{percent, rate, time_ns};
use crate::verdicts::effects::{Effect, Factors, Ranks};

/// Minimum number of seconds in each third, so a phase under twelve seconds is not judged.
///
/// Thirds of three seconds cannot show a linear drift, because the drift also makes the seconds within a third differ.
/// A drift is detected only if the difference between the thirds is above the bound of Student's t at [`CONFIDENCE`].
/// For a linear drift without noise, the difference and the bound are, in standard errors:
///
/// - thirds of three seconds: difference 7.3, bound 8.6 (four degrees of freedom)
/// - thirds of four seconds: difference 8.8, bound 6.0
///
/// Sections shorter than a second would depend on each other, because CPU quotas are granted by tenths of a second.
const THIRD_MIN: usize = 4;

/// Minimum length of a section, seconds. A shorter last second of a phase is left out.
const WHOLE_S: f64 = 0.999;

/// Confidence that the first and the last third of a phase differ by more than chance. It is high because a large run
/// compares about a hundred pairs of thirds, and each false alarm costs a headline. If a metric varies little from
/// second to second, the allowed drift (`drift_share`) is the stricter limit.
const CONFIDENCE: f64 = 0.999;

/// The values that drifted during a phase; `None` for a value that did not.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Drift {
    throughput: Option<Drifted>,
    p50: Option<Drifted>,
}

/// A value that differs between the first and the last third of a phase.
#[derive(Clone, Debug, PartialEq)]
struct Drifted {
    first: f64,
    last: f64,
    words: String,
}

impl Drift {
    pub(crate) fn words(&self) -> String {
        let drifted = [&self.throughput, &self.p50].into_iter().flatten();
        let words: Vec<&str> = drifted.map(|drifted| drifted.words.as_str()).collect();
        format!("not stationary: from the first to the last third of the phase, {}", words.join("; "))
    }

    /// The effect on the values: a value that rose is a lower bound of the steady-state value, a value that fell an
    /// upper bound.
    pub(crate) fn effect(&self) -> Effect {
        let latency = match (&self.p50, &self.throughput) {
            (Some(p50), _) if p50.last > p50.first => Ranks::AT_LEAST,
            (Some(_), _) => Ranks::AT_MOST,
            (None, Some(throughput)) if throughput.last > throughput.first => Ranks::AT_MOST,
            (None, _) => Ranks::AT_LEAST,
        };
        let throughput = match &self.throughput {
            Some(throughput) if throughput.last > throughput.first => Factors::AT_LEAST,
            Some(_) => Factors::AT_MOST,
            None => Factors::EXACT,
        };
        Effect { throughput, latency, ..Effect::UNKNOWN }
    }
}

/// Finds the values that drifted during the phase; `None` if none did, or if the phase is too short to judge.
///
/// The median latency is checked only if `with_latency` is true.
pub(crate) fn drift(record: &LoadRecord, share_max: f64, with_latency: bool) -> Option<Drift> {
    let whole = |second: &&LoadSecond| second.sustained && second.length_s >= WHOLE_S;
    let seconds: Vec<&LoadSecond> = record.seconds.iter().filter(whole).collect();
    let n = seconds.len() / 3;
    if n < THIRD_MIN {
        return None;
    }
    let (first, last) = (&seconds[..n], &seconds[seconds.len() - n..]);
    let drifted = |name: &str, of: FigureOf, format: fn(f64) -> String| {
        let change = Change::between(first, last, of)?;
        let words = change.said(name, format, share_max)?;
        Some(Drifted { first: change.first, last: change.last, words })
    };
    let throughput = drifted("throughput", throughput, rate);
    let p50 = with_latency.then(|| drifted("p50", p50, time_ns)).flatten();
    (throughput.is_some() || p50.is_some()).then_some(Drift { throughput, p50 })
}

/// Computes one metric from several seconds of a load. Returns `None` if these seconds hold no data for it.
type FigureOf = fn(&[&LoadSecond]) -> Option<f64>;

fn throughput(seconds: &[&LoadSecond]) -> Option<f64> {
    let completed: f64 = seconds.iter().map(|second| second.completed as f64).sum();
    let length_s: f64 = seconds.iter().map(|second| second.length_s).sum();
    (length_s > 0.0).then(|| completed / length_s)
}

/// Median latency of answered and lost requests; lost ones rank as the slowest. `None` if a second was stored without
/// latencies.
fn p50(seconds: &[&LoadSecond]) -> Option<f64> {
    let mut merged = new_histogram();
    let mut lost = 0_u64;
    for second in seconds {
        merged.add(second.latency.decode().ok()?).ok()?;
        lost = lost.saturating_add(second.lost);
    }
    quantile_ns(&merged, lost.min(u64::MAX - merged.len()), 0.5).map(|ns| ns as f64)
}

/// A value in the first and the last third of the phase, and the largest difference that chance explains.
struct Change {
    first: f64,
    last: f64,
    by_chance: f64,
}

impl Change {
    /// Compares the first third of the phase with the last third. Both have the same number of seconds.
    fn between(first: &[&LoadSecond], last: &[&LoadSecond], of: FigureOf) -> Option<Self> {
        let ((first, first_variance), (last, last_variance), n) =
            (sectioned(first, of)?, sectioned(last, of)?, first.len());
        let by_chance = t_quantile(CONFIDENCE, 2 * (n - 1)) * (first_variance + last_variance).sqrt();
        Some(Self { first, last, by_chance })
    }

    fn said(&self, name: &str, format: fn(f64) -> String, share_max: f64) -> Option<String> {
        let (apart, larger) = ((self.last - self.first).abs(), self.first.max(self.last));
        (apart > larger * share_max && apart > self.by_chance).then(|| {
            format!(
                "{name} went from {} to {}, a difference of {} (limit {}; chance explains up to {})",
                format(self.first),
                format(self.last),
                percent(apart / larger),
                percent(share_max),
                percent(self.by_chance / larger)
            )
        })
    }
}

/// The value of all seconds together, and its variance, estimated from the values of the single seconds.
fn sectioned(seconds: &[&LoadSecond], of: FigureOf) -> Option<(f64, f64)> {
    let together = of(seconds)?;
    let squares: Option<f64> =
        seconds.iter().map(|second| Some((of(slice::from_ref(second))? - together).powi(2))).sum();
    let n = seconds.len() as f64;
    Some((together, squares? / (n * (n - 1.0))))
}
