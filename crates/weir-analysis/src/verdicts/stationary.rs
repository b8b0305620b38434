//! Whether a load stayed the same: the first third of its phase against the last (`docs/method.md#verdicts`).
//!
//! A third's figure is that of all its requests together: counts are added, histograms are merged, quantiles are never
//! averaged. What chance alone makes of a difference is told by the seconds that the thirds consist of, by sectioning
//! (Asmussen and Glynn, *Stochastic Simulation*, 2007, III.5a): with n seconds in a third, x its figure and x_i that of
//! its second i, the variance of x is estimated as
//!
//! ```text
//! v = ((x_1 - x)^2 + .. + (x_n - x)^2) / (n (n - 1))
//! ```
//!
//! so that everything counts that spreads the figures of seconds: chance arrivals, queues, a quota's pauses. Requests
//! within a second may depend on each other as they like. The thirds are apart where their difference is above both
//! the share that is allowed and what Student's t gives two groups of n:
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

/// Seconds in each third at least, so that a phase under twelve is not judged. A straight drift spreads the seconds of
/// a third too: without any noise, the difference of thirds of three is 7.3 times its standard error, where chance
/// alone gives up to 8.6 ([`CONFIDENCE`], four degrees of freedom); of four 8.8 times, where it gives 6.0. Sections
/// shorter than a second would depend on each other by the tenths of a second in which quotas are given.
const THIRD_MIN: usize = 4;

/// A section is as long as this, seconds: the last one of a phase may be cut short, and is left out then.
const WHOLE_S: f64 = 0.999;

/// Confidence that a difference is not chance. A run of many cells compares a hundred thirds or so, and each false
/// alarm costs a headline; where the figures of seconds lie close together, the allowed share is what decides.
const CONFIDENCE: f64 = 0.999;

/// What drifted over the phase.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Drift {
    throughput: Option<Drifted>,
    p50: Option<Drifted>,
}

/// A value in the first and the last third.
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
        format!("not stationary from the first to the last third of the phase: {}", words.join("; "))
    }

    /// The steady value lies beyond what was measured, in the direction of the drift.
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

/// What drifted over the phase; `None` if nothing did, or if the phase is too short to tell.
///
/// The median is left aside unless `with_latency`.
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

/// A figure of some seconds together; `None` where they have none.
type FigureOf = fn(&[&LoadSecond]) -> Option<f64>;

fn throughput(seconds: &[&LoadSecond]) -> Option<f64> {
    let completed: f64 = seconds.iter().map(|second| second.completed as f64).sum();
    let length_s: f64 = seconds.iter().map(|second| second.length_s).sum();
    (length_s > 0.0).then(|| completed / length_s)
}

/// Over what was answered and, ranking last, what was given up. Seconds that are kept by their counts alone have none.
fn p50(seconds: &[&LoadSecond]) -> Option<f64> {
    let mut merged = new_histogram();
    let mut lost = 0_u64;
    for second in seconds {
        merged.add(second.latency.decode().ok()?).ok()?;
        lost = lost.saturating_add(second.lost);
    }
    quantile_ns(&merged, lost.min(u64::MAX - merged.len()), 0.5).map(|ns| ns as f64)
}

/// A figure in both thirds, and the difference that chance makes at most.
struct Change {
    first: f64,
    last: f64,
    by_chance: f64,
}

impl Change {
    /// Between two groups of equally many seconds.
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
                "{name} went from {} to {}, {} apart (at most {}; up to {} by chance)",
                format(self.first),
                format(self.last),
                percent(apart / larger),
                percent(share_max),
                percent(self.by_chance / larger)
            )
        })
    }
}

/// The figure of all seconds together, and its variance as the single seconds tell it.
fn sectioned(seconds: &[&LoadSecond], of: FigureOf) -> Option<(f64, f64)> {
    let together = of(seconds)?;
    let squares: Option<f64> =
        seconds.iter().map(|second| Some((of(slice::from_ref(second))? - together).powi(2))).sum();
    let n = seconds.len() as f64;
    Some((together, squares? / (n * (n - 1.0))))
}
