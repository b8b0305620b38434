//! Results of objectives (`docs/method.md#objectives`). Most values are judged by their interval or bounds, errors by
//! the counts of every repeat.

use serde::Serialize;
use weir_results::{Objective, Reason};

use crate::figures::errors::ErrorShare;
use crate::figures::figure::{Figure, HEADLINE_REPEATS, Range, Repeated, Sample, counted_reasons};
use crate::figures::quantity::{counted, percent, time_ns};
use crate::points::Row;
use crate::points::conclusions::with_interval;
use crate::verdicts::reasons::in_repeats;

/// Whether a limit of an objective was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Met {
    /// The whole confidence interval of the value is within the limit. For a bounded value: the whole range between its
    /// bounds.
    Met,
    /// The whole interval lies beyond the limit.
    Missed,
    /// The limit lies within the interval, or the value is invalid.
    Unknown,
}

/// The result of one limit of an objective, at one load point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ObjectiveResult {
    /// Name of the limited value: a latency such as `p99`, `errors`, or a metric of a finding.
    pub name: String,
    /// The limit: nanoseconds for a latency, a share for errors, else in the unit of the metric.
    pub limit: f64,
    /// The mean of the repeats; `None` if there is no mean, for example because the value of a repeat is above the
    /// timeout.
    pub value: Option<f64>,
    /// 95 % interval of `value`.
    pub interval: Option<[f64; 2]>,
    /// Whether the limit was met.
    pub met: Met,
    /// The limit, the value and the result in words: `p99 at most 20.0 ms: 1.24 ms [1.20 .. 1.29], met`.
    pub words: String,
}

impl ObjectiveResult {
    /// The limit in words, without value and result: `p99 at most 20.0 ms`.
    pub fn bound(&self) -> &str {
        self.words.split(':').next().unwrap_or_default()
    }
}

/// Evaluates the objective for a row. Latency is judged only if `judges_latency` is true: in a run with open loads,
/// closed loads measure throughput (`docs/scenarios.md#objectives`).
///
/// If the objective limits latencies but not errors, `errors_default` limits errors: above this share, a load is
/// invalid. Too many errors leave every latency undecided, and the result for errors shows why. The result for this
/// default limit is reported only if errors exceed it and no latency misses its limit.
pub(crate) fn evaluate(
    objective: Option<&Objective>,
    row: &Row,
    judges_latency: bool,
    errors_default: Option<f64>,
) -> Vec<ObjectiveResult> {
    let Some(objective) = objective.filter(|_| !row.is_direct()) else { return Vec::new() };
    let mut results = Vec::new();
    if judges_latency {
        for (name, limit_ns) in &objective.latency_ns {
            results.extend(row.latency(name).map(|figure| latency(name, *limit_ns as f64, figure)));
        }
    }
    let is_missed = |result: &ObjectiveResult| result.met == Met::Missed;
    if let Some(limit) = objective.errors {
        results.push(errors(limit, &row.errors));
    } else if !objective.latency_ns.is_empty() && !results.iter().any(is_missed) {
        let by_default = errors_default.map(|limit| errors(limit, &row.errors));
        results.extend(by_default.filter(is_missed));
    }
    results
}

fn latency(name: &str, limit: f64, figure: &Figure) -> ObjectiveResult {
    let bound = Bound::at_most(name, limit, time_ns);
    match figure.repeats.iter().any(is_overloaded) {
        true => bound.worded(figure, Met::Missed, "missed: the gateway was overloaded"),
        false => bound.judge(figure),
    }
}

/// Why a value does not decide an objective.
fn why_undecided(figure: &Figure) -> String {
    match in_repeats(&figure.reasons(), figure.repeats.len()) {
        why if why.is_empty() => "not measured".to_owned(),
        why => why,
    }
}

fn errors(limit: f64, shares: &[ErrorShare]) -> ObjectiveResult {
    let repeated = |share: &ErrorShare| Repeated {
        repeat: share.repeat,
        sample: share.bounds.map(|[_, at_most]| at_most).into(),
        reasons: Vec::new(),
        ..Repeated::default()
    };
    let figure = Figure::of_difference(shares.iter().map(repeated).collect());
    let says: Vec<Option<bool>> = shares.iter().map(|share| share.is_within(limit)).collect();
    let reasons = counted_reasons(shares.iter().flat_map(|share| &share.reasons));
    let undecided = match in_repeats(&reasons, shares.len()) {
        why if why.is_empty() => "no requests were counted".to_owned(),
        why => format!("timed-out and dropped requests may not be the gateway's fault: {why}"),
    };
    Bound::at_most("errors", limit, percent).counted(&figure, &says, &undecided)
}

/// One limit of an objective.
pub(crate) struct Bound<'a> {
    /// Name of the limited value: `p99`, `errors`, `recovery.time`.
    pub(crate) name: &'a str,
    pub(crate) limit: f64,
    /// Whether the limit is a minimum; `false` if it is a maximum.
    pub(crate) is_least: bool,
    /// Formats the limit or a measured value with its unit.
    pub(crate) format: Box<dyn Fn(f64) -> String + 'a>,
    /// Text for a value beyond the measured range.
    pub(crate) beyond: &'a str,
}

impl<'a> Bound<'a> {
    fn at_most(name: &'a str, limit: f64, format: fn(f64) -> String) -> Self {
        Self { name, limit, is_least: false, format: Box::new(format), beyond: "> timeout" }
    }

    /// Whether a value is within the limit.
    fn is_met_by(&self, value: f64) -> bool {
        if self.is_least { value >= self.limit } else { value <= self.limit }
    }

    /// The result of a value: met if its whole interval is within the limit, missed if no part of it is.
    pub(crate) fn judge(&self, figure: &Figure) -> ObjectiveResult {
        let range = known(figure);
        let [near, far] = if self.is_least { [range.high, range.low] } else { [range.low, range.high] };
        if far.is_some_and(|far| self.is_met_by(far)) {
            return self.worded(figure, Met::Met, "met");
        }
        if near.is_some_and(|near| !self.is_met_by(near)) {
            return self.worded(figure, Met::Missed, "missed");
        }
        match range.is_empty() {
            true => self.undecided(figure, &why_undecided(figure)),
            false if figure.is_bounded() => self.undecided(figure, "the bounds include the limit"),
            false if figure.valid >= HEADLINE_REPEATS && figure.interval.is_some() => {
                self.undecided(figure, "the interval includes the limit")
            }
            false => self.undecided(figure, &self.met_in_some(figure)),
        }
    }

    /// States in how many valid repeats the limit is met: `met in 2 of 3 valid repeats`.
    fn met_in_some(&self, figure: &Figure) -> String {
        let valid = figure.repeats.iter().filter(|repeated| repeated.reasons.is_empty());
        let met = valid.filter_map(Repeated::value).filter(|value| self.is_met_by(*value)).count();
        format!("met in {met} of {}", counted(figure.valid as u64, "valid repeat"))
    }

    /// The result for a value that cannot show whether the limit is met; `why` gives the cause.
    pub(crate) fn undecided(&self, figure: &Figure, why: &str) -> ObjectiveResult {
        self.worded(figure, Met::Unknown, &format!("undecided: {why}"))
    }

    fn worded(&self, figure: &Figure, met: Met, outcome: &str) -> ObjectiveResult {
        let measured = self.measured(figure);
        ObjectiveResult { interval: figure.interval, ..self.result(figure.mean, met, &measured, outcome) }
    }

    /// The result if each repeat is judged by itself. `says` has an entry for each repeat: whether the repeat meets the
    /// limit, or `None` if it is undecided. The limit is missed if a repeat misses it, and met if all decided repeats
    /// meet it. If all repeats are undecided, the result is undecided for the reason `undecided`.
    fn counted(&self, figure: &Figure, says: &[Option<bool>], undecided: &str) -> ObjectiveResult {
        let decided: Vec<bool> = says.iter().copied().flatten().collect();
        let met_in = decided.iter().filter(|met| **met).count();
        let met = match decided.len() {
            0 => return self.undecided(figure, undecided),
            all if met_in == all => Met::Met,
            _ => Met::Missed,
        };
        let rest = match says.len() - decided.len() {
            0 => String::new(),
            open => format!(", {open} undecided"),
        };
        let outcome = format!("met in {met_in} of {}{rest}", counted(decided.len() as u64, "repeat"));
        self.worded(figure, met, &outcome)
    }

    /// The result for an exact value without repeats, such as a count in all repeats together.
    pub(crate) fn exactly(&self, value: f64) -> ObjectiveResult {
        let (met, outcome) = if self.is_met_by(value) { (Met::Met, "met") } else { (Met::Missed, "missed") };
        self.result(Some(value), met, &format!("{}, ", (self.format)(value)), outcome)
    }

    fn result(&self, value: Option<f64>, met: Met, measured: &str, outcome: &str) -> ObjectiveResult {
        let direction = if self.is_least { "at least" } else { "at most" };
        let limit = (self.format)(self.limit);
        ObjectiveResult {
            name: self.name.to_owned(),
            limit: self.limit,
            value,
            interval: None,
            met,
            words: format!("{} {direction} {limit}: {measured}{outcome}", self.name),
        }
    }

    /// The value with its interval or bounds, in parentheses if invalid; empty if not measured.
    fn measured(&self, figure: &Figure) -> String {
        match (figure.mean, figure.is_valid()) {
            _ if figure.is_bounded() => format!("{}, ", with_interval(figure, &self.format)),
            _ if figure.beyond_timeout => format!("{}, ", self.beyond),
            (Some(_), true) => format!("{}, ", with_interval(figure, &self.format)),
            (Some(_), false) => format!("({}), ", with_interval(figure, &self.format)),
            (None, _) => String::new(),
        }
    }
}

/// Returns the range in which a value lies, from the first of these that applies:
/// - the bounds of a bounded value
/// - the confidence interval, with at least three valid repeats (with fewer, it is too wide to decide anything)
/// - the range of the valid repeats, without an upper limit if a repeat is beyond the timeout
fn known(figure: &Figure) -> Range {
    if figure.is_bounded() {
        return figure.bounds;
    }
    if figure.valid == 0 {
        return Range::default();
    }
    let side = |sample: Sample| match sample {
        Sample::Value(value) => Some(value),
        Sample::BeyondTimeout => Some(f64::INFINITY),
        Sample::Missing => None,
    };
    match figure.interval {
        Some([low, high]) if figure.valid >= HEADLINE_REPEATS => Range { low: Some(low), high: Some(high) },
        _ => Range { low: side(figure.least()), high: side(figure.greatest()) },
    }
}

/// Whether the gateway was overloaded, and no other part of the rig can have caused that.
fn is_overloaded(repeated: &Repeated) -> bool {
    let own = |reason: &Reason| matches!(reason, Reason::Overloaded | Reason::Throttled | Reason::Errors);
    repeated.reasons.contains(&Reason::Overloaded) && repeated.reasons.iter().all(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeated(sample: Sample, reasons: &[Reason]) -> Repeated {
        Repeated { sample, reasons: reasons.to_vec(), ..Repeated::default() }
    }

    const MS: f64 = 1e6;

    fn met(repeats: Vec<Repeated>) -> Met {
        latency("p99", 20.0 * MS, &Figure::of(repeats)).met
    }

    #[test]
    fn one_repeat_is_met_up_to_the_limit_and_missed_under_overload() {
        let check = |sample, reasons: &[Reason], expected| {
            assert_eq!(met(vec![repeated(sample, reasons)]), expected);
        };
        check(Sample::Value(20.0 * MS), &[], Met::Met);
        check(Sample::Value(20.1 * MS), &[], Met::Missed);
        check(Sample::BeyondTimeout, &[], Met::Missed);
        check(Sample::Value(MS), &[Reason::Overloaded], Met::Missed);
        check(Sample::Value(MS), &[Reason::Overloaded, Reason::Throttled], Met::Missed);
        check(Sample::Value(MS), &[Reason::Overloaded, Reason::HostNoise], Met::Unknown);
        check(Sample::Value(MS), &[Reason::Throttled], Met::Unknown);
        check(Sample::Missing, &[], Met::Unknown);
    }

    #[test]
    fn the_whole_interval_decides() {
        let of = |values: [f64; 3]| met(values.map(|value| repeated(Sample::Value(value * MS), &[])).into());
        assert_eq!(of([1.0, 1.1, 1.2]), Met::Met);
        assert_eq!(of([30.0, 31.0, 33.0]), Met::Missed);
        assert_eq!(of([10.0, 30.0, 12.0]), Met::Unknown, "a mean below the limit is not enough");
    }

    #[test]
    fn a_bound_decides_on_its_strong_side() {
        let of = |low: Option<f64>, high: Option<f64>| {
            let range = Range { low: low.map(|low| low * MS), high: high.map(|high| high * MS) };
            let one = Repeated { range, ..repeated(Sample::Value(10.0 * MS), &[Reason::HostNoise]) };
            met(vec![one.clone(), one.clone(), one])
        };
        assert_eq!(of(None, Some(12.0)), Met::Met);
        assert_eq!(of(None, Some(22.0)), Met::Unknown);
        assert_eq!(of(Some(21.0), None), Met::Missed);
        assert_eq!(of(Some(19.0), None), Met::Unknown);
        assert_eq!(of(Some(1.0), Some(12.0)), Met::Met);
        assert_eq!(of(None, None), Met::Unknown);
    }
}
