//! A metric of a gateway at one load point: its value in each repeat, whether each value is valid, and the mean.

use serde::Serialize;
use weir_results::Reason;

use crate::figures::interval::{CONFIDENCE, Method, Scale};
use crate::figures::looks::Looks;

/// Joint confidence of the lower and the upper bound of a value; each bound alone has 95 %.
const BOUNDS_CONFIDENCE: f64 = 0.9;

/// Number of valid repeats that a headline needs (`docs/method.md#repeats`).
pub const HEADLINE_REPEATS: usize = 3;

/// The value of a metric in one repeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind", content = "value")]
pub enum Sample {
    /// A measured value.
    Value(f64),
    /// The quantile lies among the unanswered requests, so it is above the timeout.
    BeyondTimeout,
    /// The value was not measured.
    #[default]
    Missing,
}

/// A metric in one repeat: the value, whether it is valid, and its bounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Repeated {
    /// Number of the repeat, from 0.
    pub repeat: u32,
    /// The value in this repeat.
    pub sample: Sample,
    /// Why the value is invalid; empty means *valid*.
    pub reasons: Vec<Reason>,
    /// Bounds of a value that interference, such as host noise, may have changed. Without bounds, the value is exact if
    /// it is valid, and unknown if it is invalid.
    pub range: Range,
}

/// Bounds of the value that would have been measured without interference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Range {
    /// Lower bound; `None` if unknown.
    pub low: Option<f64>,
    /// Upper bound; `None` if unknown.
    pub high: Option<f64>,
}

impl Range {
    /// Whether both bounds are unknown.
    pub fn is_empty(&self) -> bool {
        self.low.is_none() && self.high.is_none()
    }

    /// Applies `of` to this value and `other`, and returns the bounds of the result. `of` must grow with its first
    /// argument and fall with its second.
    pub(crate) fn crossed(self, other: Self, of: impl Fn(f64, f64) -> f64) -> Self {
        let side =
            |own: Option<f64>, other: Option<f64>| Some(of(own?, other?)).filter(|end| end.is_finite());
        Self { low: side(self.low, other.high), high: side(self.high, other.low) }
    }

    /// Maps both bounds with `of`, which must be an increasing function.
    pub(crate) fn map(self, of: impl Fn(f64) -> f64) -> Self {
        Self { low: self.low.map(&of), high: self.high.map(&of) }
    }
}

/// Why a value is noisy: its interval reaches further from the mean than the scenario allows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Noise {
    /// Distance from the mean to the farther end of the interval, as share of the mean; for added latency, as share of
    /// the total latency.
    pub reach: f64,
    /// The maximum of `reach` that the scenario allows.
    pub allowed: f64,
}

/// A metric of a gateway at a load point, computed from its repeats.
///
/// The mean covers the valid repeats. If none is valid, it covers all measured repeats, and [`Figure::is_valid`] is
/// false. Tables mark such a mean as invalid, and conclusions use only its bounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figure {
    /// Mean of the valid repeats, or of all if none is valid. `None` if nothing was measured, or if the value of one of
    /// these repeats is above the timeout.
    pub mean: Option<f64>,
    /// The 95 % t interval; `None` for fewer than two valid repeats.
    pub interval: Option<[f64; 2]>,
    /// Number of valid repeats.
    pub valid: usize,
    /// Whether the mean covers a repeat whose value is beyond the timeout.
    pub beyond_timeout: bool,
    /// Whether the value may be quoted: it is a headline metric of its load, has enough valid repeats, and is not
    /// noisy.
    pub headline: bool,
    /// Set if the value is not a headline only because its interval is too wide.
    pub noise: Option<Noise>,
    /// Bounds from all valid and bounded repeats, including the sampling error (95 %). Empty if enough repeats for a
    /// headline are valid, or if no repeat is bounded.
    pub bounds: Range,
    /// Every repeat, in order.
    pub repeats: Vec<Repeated>,
    /// How the interval was computed.
    #[serde(skip)]
    pub method: Method,
    /// Minimum possible value, at which the interval is clipped; `None` without one.
    #[serde(skip)]
    pub floor: Option<f64>,
}

impl Figure {
    /// Computes a metric with positive values. Its interval is computed on logarithms.
    pub fn of(repeats: Vec<Repeated>) -> Self {
        Self::with(repeats, Method::default())
    }

    /// Computes a metric whose values are differences, which may be negative.
    pub(crate) fn of_difference(repeats: Vec<Repeated>) -> Self {
        Self::with(repeats, Method { scale: Scale::Linear, looks: Looks::Once })
    }

    /// Computes a metric from one positive, valid value per repeat. A value of `None` means not measured.
    pub fn of_valid(values: impl IntoIterator<Item = Option<f64>>) -> Self {
        Self::of_judged(values.into_iter().map(|value| (value, Vec::new())))
    }

    /// Computes a metric from one positive value per repeat. A value is invalid if it has reasons. `None` means not
    /// measured.
    pub fn of_judged(values: impl IntoIterator<Item = (Option<f64>, Vec<Reason>)>) -> Self {
        let repeated = |(repeat, (value, reasons)): (usize, (Option<f64>, Vec<Reason>))| Repeated {
            repeat: u32::try_from(repeat).unwrap_or(u32::MAX),
            sample: value.into(),
            reasons,
            range: Range::default(),
        };
        Self::of(values.into_iter().enumerate().map(repeated).collect())
    }

    fn with(repeats: Vec<Repeated>, method: Method) -> Self {
        let measured = |repeated: &&Repeated| repeated.sample != Sample::Missing;
        let valid: Vec<&Repeated> =
            repeats.iter().filter(measured).filter(|repeated| repeated.reasons.is_empty()).collect();
        let counted =
            if valid.is_empty() { repeats.iter().filter(measured).collect() } else { valid.clone() };
        let beyond_timeout = counted.iter().any(|repeated| repeated.sample == Sample::BeyondTimeout);
        let values: Vec<f64> = counted.iter().filter_map(|repeated| repeated.value()).collect();
        let moved = moved_ends(&valid, method);
        let valid = valid.len();
        let bounds = if valid < HEADLINE_REPEATS { bounds(&repeats, method) } else { Range::default() };
        let estimate = if beyond_timeout { None } else { method.estimate(&values, CONFIDENCE) };
        Self {
            mean: estimate.map(|estimate| estimate.mean),
            interval: estimate.and_then(|estimate| moved.or(estimate.interval)).filter(|_| valid > 0),
            valid,
            beyond_timeout,
            headline: false,
            noise: None,
            bounds,
            repeats,
            method,
            floor: None,
        }
    }

    /// Whether the metric was evaluated once, after the planned repeats, or any number of times while repeats were
    /// added.
    pub(crate) fn looks(&self) -> Looks {
        self.method.looks
    }

    /// Returns this metric with an interval that holds even if the metric is evaluated after every added repeat.
    pub(crate) fn at_any_look(&self) -> Self {
        let method = Method { looks: Looks::Any, ..self.method };
        let figure = Self::with(self.repeats.clone(), method);
        let figure = self.floor.map_or(figure.clone(), |least| figure.not_below(least));
        Self { headline: self.headline, noise: self.noise, ..figure }
    }

    /// Marks the value as a headline if the metric is a headline metric and enough repeats are valid.
    pub(crate) fn headline_if(mut self, is_headline_metric: bool) -> Self {
        self.headline = is_headline_metric && self.valid >= HEADLINE_REPEATS && self.mean.is_some();
        self
    }

    /// Returns this metric with its interval clipped at `least`, the minimum possible value.
    pub(crate) fn not_below(mut self, least: f64) -> Self {
        self.interval = self.interval.map(|ends| ends.map(|end| end.max(least)));
        self.floor = Some(least);
        self
    }

    /// Returns this metric with its upper bound limited to the greater of `most` and the largest measured value.
    pub(crate) fn bounded_by(mut self, most: f64) -> Self {
        let measured = self.repeats.iter().filter_map(Repeated::value).fold(most, f64::max);
        self.bounds.high = self.bounds.high.map(|high| high.min(measured));
        self
    }

    /// Removes the headline mark if an end of the confidence interval is further from the mean than `allowed` times
    /// `base`. Returns the distance from the mean to the farther end, as share of `base`; `None` if the mark was not
    /// removed.
    pub(crate) fn judge_noise(&mut self, base: f64, allowed: f64) -> Option<f64> {
        let (mean, [low, high]) = (self.mean?, self.interval?);
        let distance = (high - mean).max(mean - low);
        if !self.headline || distance <= allowed * base.abs() {
            return None;
        }
        let reach = distance / base.abs();
        self.headline = false;
        self.noise = Some(Noise { reach, allowed });
        Some(reach)
    }

    /// Returns this metric divided by `divisor`, which must be positive.
    pub(crate) fn over(&self, divisor: f64) -> Self {
        let mut over = self.clone();
        over.mean = over.mean.map(|mean| mean / divisor);
        over.interval = over.interval.map(|ends| ends.map(|end| end / divisor));
        over.bounds = over.bounds.map(|end| end / divisor);
        for repeated in &mut over.repeats {
            repeated.range = repeated.range.map(|end| end / divisor);
            if let Sample::Value(value) = &mut repeated.sample {
                *value /= divisor;
            }
        }
        over
    }

    /// Returns this metric as an upper bound of the true value. Every repeat gets the reasons `because`.
    pub(crate) fn as_upper_bound(&self, because: &[Reason]) -> Self {
        let bound = |repeated: &Repeated| {
            let range = Range { low: None, high: repeated.known().high };
            let mut reasons = [&repeated.reasons, because].concat();
            reasons.sort();
            reasons.dedup();
            Repeated { range, reasons, ..*repeated }
        };
        Self::with(self.repeats.iter().map(bound).collect(), self.method)
    }

    /// Combines this metric with `other` repeat by repeat. `of` must grow with the first value and fall with the
    /// second. The result of a repeat is invalid if either value is.
    pub(crate) fn paired(&self, other: &Self, of: impl Fn(f64, f64) -> f64) -> Vec<Repeated> {
        let pair = |repeated: &Repeated| {
            let same = other.repeats.iter().find(|other| other.repeat == repeated.repeat)?;
            let value = repeated.value().zip(same.value()).map(|(own, other)| of(own, other));
            let mut reasons: Vec<Reason> = repeated.reasons.iter().chain(&same.reasons).copied().collect();
            reasons.sort();
            reasons.dedup();
            let sample = Sample::from(value.filter(|value| value.is_finite()));
            let is_exact = repeated.is_exact() && same.is_exact();
            let range = match is_exact {
                true => Range::default(),
                false => repeated.known().crossed(same.known(), &of),
            };
            Some(Repeated { repeat: repeated.repeat, sample, reasons, range })
        };
        self.repeats.iter().filter_map(pair).collect()
    }

    /// The minimum of the repeats that the mean covers.
    pub fn least(&self) -> Sample {
        self.extreme(f64::min)
    }

    /// The maximum of the repeats that the mean covers; [`Sample::BeyondTimeout`] if the value of one of these repeats
    /// is above the timeout.
    pub fn greatest(&self) -> Sample {
        if self.beyond_timeout { Sample::BeyondTimeout } else { self.extreme(f64::max) }
    }

    fn extreme(&self, of: fn(f64, f64) -> f64) -> Sample {
        let counted = self.repeats.iter().filter(|repeated| self.valid == 0 || repeated.reasons.is_empty());
        match counted.filter_map(Repeated::value).reduce(of) {
            Some(value) => Sample::Value(value),
            None if self.beyond_timeout => Sample::BeyondTimeout,
            None => Sample::Missing,
        }
    }

    /// Whether at least one bound is known.
    pub fn is_bounded(&self) -> bool {
        !self.bounds.is_empty()
    }

    /// The ends of the value's range in a chart: the bounds if at least one is known, else the interval. If only one
    /// bound is known, the mean replaces the other.
    pub fn ends(&self) -> Option<[f64; 2]> {
        match (self.is_bounded(), self.mean) {
            (true, mean) => Some([self.bounds.low.or(mean)?, self.bounds.high.or(mean)?]),
            (false, _) => self.interval,
        }
    }

    /// Whether the value is valid: at least one repeat is valid, and the interval is not wider than the scenario
    /// allows.
    pub fn is_valid(&self) -> bool {
        self.valid > 0 && self.noise.is_none()
    }

    /// The distinct reasons why repeats are invalid, each with its number of repeats. If the value is too noisy,
    /// `Reason::Noisy` is added with the number of all repeats.
    pub fn reasons(&self) -> Vec<(Reason, usize)> {
        let mut counted = counted_reasons(self.repeats.iter().flat_map(|repeated| &repeated.reasons));
        counted.extend(self.noise.map(|_| (Reason::Noisy, self.repeats.len())));
        counted.sort();
        counted
    }

    /// Whether the intervals of two metrics overlap; `None` if one has no interval.
    pub fn overlaps(&self, other: &Self) -> Option<bool> {
        let ([low, high], [other_low, other_high]) = (self.interval?, other.interval?);
        Some(low <= other_high && other_low <= high)
    }
}

/// The interval of valid repeats, if interference may have changed some of them within the tolerance. One interval is
/// computed from their lower bounds, and one from their upper bounds. The result reaches from the lower end of the
/// first to the upper end of the second. `None` if no valid repeat has bounds.
fn moved_ends(valid: &[&Repeated], method: Method) -> Option<[f64; 2]> {
    if valid.iter().all(|repeated| repeated.range.is_empty()) {
        return None;
    }
    let interval = |of: fn(Range) -> Option<f64>| {
        let ends: Option<Vec<f64>> = valid.iter().map(|repeated| of(repeated.known())).collect();
        method.estimate(&ends?, CONFIDENCE)?.interval
    };
    Some([interval(|range| range.low)?[0], interval(|range| range.high)?[1]])
}

/// Combines the bounds of the repeats into one lower and one upper bound. An exact value counts as both of its bounds.
/// Empty if no repeat is bounded.
fn bounds(repeats: &[Repeated], method: Method) -> Range {
    if !repeats.iter().any(Repeated::is_bounded) {
        return Range::default();
    }
    let side = |of: fn(Range) -> Option<f64>, end: fn([f64; 2]) -> f64| {
        let values: Vec<f64> = repeats.iter().filter_map(|repeated| of(repeated.known())).collect();
        let ends = [f64::min, f64::max].map(|extreme| values.iter().copied().reduce(extreme));
        // One or two repeats do not show the sampling error, so their minimum or maximum is used.
        match values.len() {
            0..HEADLINE_REPEATS => Some(end([ends[0]?, ends[1]?])),
            _ => method.estimate(&values, BOUNDS_CONFIDENCE)?.interval.map(end),
        }
    };
    Range { low: side(|range| range.low, |[low, _]| low), high: side(|range| range.high, |[_, high]| high) }
}

/// Counts how often each reason occurs; sorted by reason.
pub(crate) fn counted_reasons<'a>(reasons: impl Iterator<Item = &'a Reason>) -> Vec<(Reason, usize)> {
    let mut counted: Vec<(Reason, usize)> = Vec::new();
    for reason in reasons {
        match counted.iter_mut().find(|(known, _)| known == reason) {
            Some((_, n)) => *n += 1,
            None => counted.push((*reason, 1)),
        }
    }
    counted.sort();
    counted
}

impl Repeated {
    /// Whether the value is invalid, but at least one of its bounds is known.
    pub fn is_bounded(&self) -> bool {
        !self.reasons.is_empty() && !self.range.is_empty()
    }

    /// Whether the value is valid and exact: interference cannot have changed it at all.
    fn is_exact(&self) -> bool {
        self.reasons.is_empty() && self.range.is_empty()
    }

    /// The range in which the value lies: the value itself if it is exact, else its bounds.
    pub fn known(&self) -> Range {
        match self.is_exact() {
            true => Range { low: self.value(), high: self.value() },
            false => self.range,
        }
    }

    /// The value; `None` if not measured or beyond the timeout.
    pub fn value(&self) -> Option<f64> {
        match self.sample {
            Sample::Value(value) => Some(value),
            Sample::BeyondTimeout | Sample::Missing => None,
        }
    }
}

impl From<Option<f64>> for Sample {
    fn from(value: Option<f64>) -> Self {
        value.map_or(Self::Missing, Self::Value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeats(samples: &[(Sample, &[Reason])]) -> Vec<Repeated> {
        let repeated = |(index, (sample, reasons)): (usize, &(Sample, &[Reason]))| Repeated {
            repeat: index as u32,
            sample: *sample,
            reasons: reasons.to_vec(),
            range: Range::default(),
        };
        samples.iter().enumerate().map(repeated).collect()
    }

    const DISTURBED: &[Reason] = &[Reason::HostNoise];

    #[test]
    fn invalid_repeats_stay_out_of_the_mean() {
        let figure = Figure::of(repeats(&[
            (Sample::Value(4.0), &[]),
            (Sample::Value(1_000.0), DISTURBED),
            (Sample::Value(9.0), &[]),
        ]));
        assert_eq!(figure.valid, 2);
        assert!((figure.mean.unwrap() - 6.0).abs() < 1e-9);
        assert_eq!(figure.reasons(), [(Reason::HostNoise, 1)]);
        assert!(!figure.headline_if(true).headline, "two valid repeats are no headline");
    }

    #[test]
    fn without_a_valid_repeat_the_mean_is_shown_and_not_valid() {
        let figure = Figure::of(repeats(&[(Sample::Value(5.0), DISTURBED), (Sample::Value(5.0), DISTURBED)]));
        assert!(!figure.is_valid());
        assert!(figure.mean.is_some());
        assert_eq!(figure.interval, None);
        assert!(!figure.headline_if(true).headline);
    }

    #[test]
    fn a_repeat_beyond_the_time_out_leaves_no_mean() {
        let figure = Figure::of(repeats(&[(Sample::Value(5.0), &[]), (Sample::BeyondTimeout, &[])]));
        assert_eq!((figure.mean, figure.beyond_timeout, figure.valid), (None, true, 2));
        let elsewhere = Figure::of(repeats(&[(Sample::Value(5.0), &[]), (Sample::BeyondTimeout, DISTURBED)]));
        assert!(!elsewhere.beyond_timeout && elsewhere.mean.is_some());
    }

    #[test]
    fn an_upper_bound_knows_nothing_of_lower_values() {
        let samples = [4.0, 4.1, 4.2].map(|value| (Sample::Value(value), &[] as &[Reason]));
        let bound = Figure::of(repeats(&samples)).as_upper_bound(&[Reason::UpstreamLimited]);
        assert!(bound.is_bounded() && !bound.is_valid());
        assert_eq!(bound.bounds.low, None);
        assert_eq!(bound.reasons(), [(Reason::UpstreamLimited, 3)]);
        assert!(bound.bounds.high.is_some_and(|high| (4.2..4.4).contains(&high)), "{:?}", bound.bounds);
    }

    #[test]
    fn a_bound_stays_below_what_a_limit_allows_unless_more_was_measured() {
        let figure = |value: f64| {
            let range = Range { low: Some(0.5 * value), high: Some(2.0 * value) };
            let reasons = DISTURBED.to_vec();
            let repeated = Repeated { repeat: 0, sample: Sample::Value(value), reasons, range };
            Figure::of(vec![repeated]).bounded_by(1.0).bounds
        };
        assert_eq!(figure(0.9), Range { low: Some(0.45), high: Some(1.0) });
        assert_eq!(figure(1.02), Range { low: Some(0.51), high: Some(1.02) });
        assert_eq!(figure(0.4), Range { low: Some(0.2), high: Some(0.8) });
    }

    #[test]
    fn missing_is_not_zero() {
        let figure = Figure::of(repeats(&[(Sample::Missing, &[]), (Sample::Value(5.0), &[])]));
        assert_eq!(figure.valid, 1);
        assert!((figure.mean.unwrap() - 5.0).abs() < 1e-9);
    }

    #[test]
    fn intervals_that_touch_overlap() {
        let with = |interval| Figure { interval, ..Figure::default() };
        assert_eq!(with(Some([1.0, 2.0])).overlaps(&with(Some([2.0, 3.0]))), Some(true));
        assert_eq!(with(Some([1.0, 2.0])).overlaps(&with(Some([2.1, 3.0]))), Some(false));
        assert_eq!(with(None).overlaps(&with(Some([2.1, 3.0]))), None);
    }
}
