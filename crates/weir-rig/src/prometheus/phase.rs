//! Computes the growth of counters and the values of gauges in a phase from scrapes, without I/O.
//!
//! The rig's own sampler reads every 100 ms, so interpolation between two samples is exact enough. But scrapes are
//! seconds apart, and the time until the scrape after a phase is partly idle: interpolation would underestimate the end
//! of the phase. So counters are extrapolated from the first and the last scrape inside the phase to its borders, at
//! the rate between these two scrapes. The scrapes around the phase are hard bounds, because a counter never falls.
//!
//! ```text
//!   before    from  first              last   to       after
//!  ---x---------|-----x-------x----------x-----|---------x----
//!               <lead>                   <tail>
//! ```

use std::collections::BTreeMap;
use std::fmt;

/// Minimum number of scrapes in a phase. Three scrapes give two rates, whose difference shows how steady the load is.
pub(crate) const SCRAPES_MIN: usize = 3;

/// A scraped value. `at_s` is its time in seconds: initially by the clock of the scraped server; after conversion, by
/// this host's monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) at_s: f64,
    pub(crate) value: f64,
}

/// The values of one series, in order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Series {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) points: Vec<Point>,
}

/// The start and end of a phase, in seconds by the same clock as the scrapes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Phase {
    pub(crate) from_s: f64,
    pub(crate) to_s: f64,
}

/// Growth of counters in a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Growth {
    /// The estimated growth.
    pub(crate) amount: f64,
    /// Lower bound of the growth.
    pub(crate) min: f64,
    /// Upper bound of the growth.
    pub(crate) max: f64,
    /// Possible error of `amount`, because weir extrapolates at the borders of the phase. It is the extrapolated time
    /// multiplied by the difference between the fastest and the slowest rate inside the phase.
    pub(crate) uncertain: f64,
    /// Number of scrapes in the phase; for several series, the smallest number.
    pub(crate) scrapes: usize,
}

/// Why the growth of a counter is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// The phase has only this number of scrapes, less than [`SCRAPES_MIN`].
    TooFew(usize),
    /// The series has no scrape before the phase.
    Appeared,
    /// The series has no scrape after the phase.
    Ended,
    /// The value fell, because the counter was reset.
    BeganAnew,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFew(scrapes) => {
                let scrapes = weir_results::words::counted(*scrapes as u64, "scrape");
                write!(f, "the phase has {scrapes}, but weir needs at least {SCRAPES_MIN}")
            }
            Self::Appeared => f.write_str("the first scrape of the series is after the start of the phase"),
            Self::Ended => f.write_str("the series has no scrape after the phase"),
            Self::BeganAnew => f.write_str("the counter was reset during the phase"),
        }
    }
}

impl Series {
    /// Whether the series has a scrape at `at_s` or later.
    pub(crate) fn reaches(&self, at_s: f64) -> bool {
        self.points.last().is_some_and(|point| point.at_s >= at_s)
    }

    /// Estimates how much the counter grew in `phase`.
    pub(crate) fn grown(&self, phase: Phase) -> Result<Growth, Unknown> {
        let points = &self.points;
        let (first, end) = self.bounds(phase);
        let inside = &points[first..end];
        let [start, .., last] = inside else { return Err(Unknown::TooFew(inside.len())) };
        if inside.len() < SCRAPES_MIN {
            return Err(Unknown::TooFew(inside.len()));
        }
        let before = first.checked_sub(1).and_then(|at| points.get(at)).ok_or(Unknown::Appeared)?;
        let after = points.get(end).ok_or(Unknown::Ended)?;
        if points[first - 1..=end].windows(2).any(|pair| pair[1].value < pair[0].value) {
            return Err(Unknown::BeganAnew);
        }
        let rate = rate(start, last);
        let rates = || inside.windows(2).map(|pair| self::rate(&pair[0], &pair[1]));
        let spread = rates().fold(0.0, f64::max) - rates().fold(f64::INFINITY, f64::min);
        let (lead_s, tail_s) = (start.at_s - phase.from_s, phase.to_s - last.at_s);
        let from = (start.value - rate * lead_s).max(before.value);
        let to = (last.value + rate * tail_s).min(after.value);
        Ok(Growth {
            amount: to - from,
            min: last.value - start.value,
            max: after.value - before.value,
            uncertain: spread * (lead_s + tail_s),
            scrapes: inside.len(),
        })
    }

    /// Mean, maximum and minimum of the scrapes in `phase`; `None` without a scrape.
    pub(crate) fn gauge(&self, phase: Phase) -> Option<GaugeValues> {
        let (first, end) = self.bounds(phase);
        let values = || self.points[first..end].iter().map(|point| point.value);
        let count = end - first;
        (count > 0).then(|| GaugeValues {
            mean: values().sum::<f64>() / count as f64,
            max: values().fold(f64::NEG_INFINITY, f64::max),
            min: values().fold(f64::INFINITY, f64::min),
        })
    }

    /// The counter at `at_s`, interpolated between the scrapes before and after, for charts. `None` if one of them is
    /// missing, or if the counter was reset between them.
    pub(crate) fn at(&self, at_s: f64) -> Option<f64> {
        let split = self.points.partition_point(|point| point.at_s <= at_s);
        let (before, after) = (self.points.get(split.checked_sub(1)?)?, self.points.get(split)?);
        // No interpolation across a reset.
        (after.value >= before.value).then(|| before.value + rate(before, after) * (at_s - before.at_s))
    }

    /// The median time between two scrapes, seconds; `None` with fewer than two.
    pub(crate) fn interval_s(&self) -> Option<f64> {
        let mut gaps: Vec<f64> = self.points.windows(2).map(|pair| pair[1].at_s - pair[0].at_s).collect();
        gaps.sort_by(f64::total_cmp);
        gaps.get(gaps.len() / 2).copied()
    }

    /// The range of the scrapes in `phase`: the index of the first scrape, and the index after the last scrape.
    fn bounds(&self, phase: Phase) -> (usize, usize) {
        let first = self.points.partition_point(|point| point.at_s < phase.from_s);
        let end = self.points.partition_point(|point| point.at_s <= phase.to_s);
        (first, end.max(first))
    }
}

/// Values of a gauge in a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct GaugeValues {
    pub(crate) mean: f64,
    pub(crate) max: f64,
    pub(crate) min: f64,
}

/// Adds up the growth of all `series`, except series that ended before the phase; `None` if no series remains.
///
/// # Errors
/// The first series whose growth is unknown, and the reason.
pub(crate) fn total_grown(series: &[Series], phase: Phase) -> Result<Option<Growth>, (&Series, Unknown)> {
    let mut sum: Option<Growth> = None;
    for series in series.iter().filter(|series| series.reaches(phase.from_s)) {
        let grown = series.grown(phase).map_err(|unknown| (series, unknown))?;
        sum = Some(match sum {
            None => grown,
            Some(sum) => Growth {
                amount: sum.amount + grown.amount,
                min: sum.min + grown.min,
                max: sum.max + grown.max,
                uncertain: sum.uncertain + grown.uncertain,
                scrapes: sum.scrapes.min(grown.scrapes),
            },
        });
    }
    Ok(sum)
}

/// Adds up the values of all `series`, except series that ended before the phase. `None` if no series remains, or if a
/// series has no scrape in the phase. The maximum is an upper bound, because the maxima of the series need not
/// coincide.
pub(crate) fn total_gauge(series: &[Series], phase: Phase) -> Option<GaugeValues> {
    let alive = series.iter().filter(|series| series.reaches(phase.from_s));
    let each: Vec<GaugeValues> = alive.map(|series| series.gauge(phase)).collect::<Option<_>>()?;
    let sum = |of: fn(&GaugeValues) -> f64| each.iter().map(of).sum();
    (!each.is_empty()).then(|| GaugeValues {
        mean: sum(|gauge| gauge.mean),
        max: sum(|gauge| gauge.max),
        min: sum(|gauge| gauge.min),
    })
}

fn rate(from: &Point, to: &Point) -> f64 {
    let time_s = to.at_s - from.at_s;
    if time_s > 0.0 { (to.value - from.value) / time_s } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scrapes of `value` at each of `times`.
    fn series(times: impl IntoIterator<Item = f64>, value: impl Fn(f64) -> f64) -> Series {
        let points = times.into_iter().map(|at_s| Point { at_s, value: value(at_s) }).collect();
        Series { points, ..Series::default() }
    }

    /// A counter of CPU time: idle until 90 s, half a core from 90 s to 160 s, then idle again.
    fn half_a_core(at_s: f64) -> f64 {
        1_000.0 + 0.5 * (at_s.clamp(90.0, 160.0) - 90.0)
    }

    fn every(interval_s: f64, first_s: f64) -> impl Iterator<Item = f64> {
        (0..).map(move |step| first_s + f64::from(step) * interval_s).take_while(|at_s| *at_s < 200.0)
    }

    const PHASE: Phase = Phase { from_s: 100.0, to_s: 160.0 };

    #[test]
    fn idle_time_around_a_phase_does_not_lower_the_estimate() {
        for interval_s in [0.2, 1.0, 5.0, 15.0] {
            for tenth in 0..10 {
                let first_s = 40.0 + interval_s * f64::from(tenth) / 10.0;
                let grown = series(every(interval_s, first_s), half_a_core).grown(PHASE).unwrap();
                assert!((grown.amount - 30.0).abs() < 1e-9, "{interval_s} s from {first_s}: {grown:?}");
                assert!(grown.min <= 30.0 && grown.max >= 30.0 - 1e-9 && grown.uncertain < 1e-9, "{grown:?}");
            }
        }
    }

    #[test]
    fn a_changing_rate_adds_uncertainty_at_the_borders() {
        // CPU time: one core is busy in the first half of the phase, a tenth of a core in the second half.
        let value = |at_s: f64| (at_s.clamp(100.0, 130.0) - 100.0) + 0.1 * (at_s.clamp(130.0, 160.0) - 130.0);
        let grown = series(every(5.0, 42.5), value).grown(PHASE).unwrap();
        assert!((grown.amount - 33.0).abs() <= grown.uncertain, "{grown:?}");
        assert!(grown.uncertain > 0.0 && grown.min <= 33.0 && grown.max >= 33.0, "{grown:?}");
    }

    #[test]
    fn estimates_stay_within_the_scrapes_around_the_phase() {
        // The counter grows by 10 between two scrapes inside the phase. Extrapolating the mean rate to the borders of
        // the phase would give 12, but even the scrapes before and after the phase differ only by 10.
        let value = |at_s: f64| if at_s < 120.0 { 0.0 } else { 10.0 };
        let grown = series(every(10.0, 45.0), value).grown(PHASE).unwrap();
        assert_eq!((grown.amount, grown.min, grown.max), (10.0, 10.0, 10.0));
    }

    fn check(times: &[f64], value: impl Fn(f64) -> f64, expected: Unknown) {
        assert_eq!(series(times.iter().copied(), value).grown(PHASE), Err(expected), "{times:?}");
    }

    #[test]
    fn growth_without_enough_scrapes_is_unknown() {
        check(&[], half_a_core, Unknown::TooFew(0));
        check(&[90.0, 120.0, 150.0, 180.0], half_a_core, Unknown::TooFew(2));
        check(&[110.0, 120.0, 130.0, 170.0], half_a_core, Unknown::Appeared);
        check(&[90.0, 110.0, 120.0, 130.0], half_a_core, Unknown::Ended);
        let restarted = |at_s: f64| if at_s < 125.0 { half_a_core(at_s) } else { at_s - 125.0 };
        check(&[90.0, 110.0, 120.0, 130.0, 170.0], restarted, Unknown::BeganAnew);
        assert!(Unknown::TooFew(1).to_string().contains("1 scrape,"));
    }

    #[test]
    fn series_that_ended_before_the_phase_are_not_summed() {
        let live = series(every(5.0, 41.0), half_a_core);
        let other = series(every(5.0, 43.0), half_a_core);
        let gone = series([50.0, 60.0, 70.0], half_a_core);
        let sum = total_grown(&[live.clone(), gone.clone(), other], PHASE).unwrap().unwrap();
        assert!((sum.amount - 60.0).abs() < 1e-9 && sum.scrapes == 12, "{sum:?}");
        assert_eq!(total_grown(&[gone], PHASE), Ok(None));
        let short = series([90.0, 120.0, 170.0], half_a_core);
        let pair = [live, short];
        let (which, why) = total_grown(&pair, PHASE).unwrap_err();
        assert_eq!((which, why), (&pair[1], Unknown::TooFew(1)));
    }

    #[test]
    fn gauges_have_mean_and_maximum() {
        let memory = series([95.0, 110.0, 120.0, 130.0, 165.0], |at_s| at_s * 10.0);
        let gauge = total_gauge(&[memory.clone(), memory.clone()], PHASE).unwrap();
        assert_eq!((gauge.mean, gauge.max, gauge.min), (2_400.0, 2_600.0, 2_200.0));
        assert_eq!(total_gauge(&[memory, series([90.0, 170.0], |_| 1.0)], PHASE), None);
        assert_eq!(total_gauge(&[], PHASE), None);
    }

    #[test]
    fn values_between_scrapes_are_interpolated() {
        let counter = series([10.0, 20.0, 30.0], |at_s| if at_s < 25.0 { at_s } else { 0.0 });
        assert_eq!((counter.at(15.0), counter.at(10.0)), (Some(15.0), Some(10.0)));
        assert_eq!((counter.at(5.0), counter.at(25.0), counter.at(31.0)), (None, None, None));
        assert_eq!(counter.interval_s(), Some(10.0));
    }
}
