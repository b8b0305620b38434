//! Whether an objective was met: latency as far as valid figures can say, errors by the counts of every repeat.

use serde::Serialize;
use weir_results::{Objective, Reason};

use crate::figures::errors::ErrorShare;
use crate::figures::figure::{Figure, Repeated, Sample, counted_reasons};
use crate::figures::quantity::{counted, percent, time_ns};
use crate::points::Row;
use crate::points::conclusions::with_interval;
use crate::verdicts::reasons::in_repeats;

/// Whether an objective was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Met {
    /// In every repeat that decides it.
    Met,
    /// Not in some repeat, by the gateway's own fault.
    Missed,
    /// Undecided in every repeat.
    Unknown,
}

/// One bound of an objective, at one load point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ObjectiveResult {
    /// `p99`, `mean`, .. or `errors`.
    pub name: String,
    /// The bound: nanoseconds, or a share.
    pub limit: f64,
    /// The figure over the repeats; `None` where there is none, as beyond the time-out.
    pub value: Option<f64>,
    /// Its 95 % interval.
    pub interval: Option<[f64; 2]>,
    /// Whether it was met.
    pub met: Met,
    /// The bound, the figure and the repeats in words: `p99 at most 20.0 ms: 1.24 ms [1.20 .. 1.29], met in 3 of 3
    /// repeats`.
    pub words: String,
}

impl ObjectiveResult {
    /// The bound alone: `p99 at most 20.0 ms`.
    pub fn bound(&self) -> &str {
        self.words.split(':').next().unwrap_or_default()
    }
}

/// Evaluates the objective for a row; latency only where `judges_latency`, since in a run with open loads the closed ones
/// are for throughput (`docs/scenarios.md#objectives`).
///
/// An objective without a bound on errors gets `errors_default`, the share that voids a load's figures. The result shows
/// only where it is missed and no latency is: errors would leave every latency undecided, and nothing missed.
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
    let says = figure.repeats.iter().map(|repeated| overloaded_is_missed(&bound, repeated)).collect();
    bound.result(figure, says, &why_undecided(figure))
}

/// Why no repeat of a figure decides an objective.
pub(crate) fn why_undecided(figure: &Figure) -> String {
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
    };
    let figure = Figure::of_difference(shares.iter().map(repeated).collect());
    let says = shares.iter().map(|share| share.is_within(limit)).collect();
    let reasons = counted_reasons(shares.iter().flat_map(|share| &share.reasons));
    let undecided = match in_repeats(&reasons, shares.len()) {
        why if why.is_empty() => "no requests were counted".to_owned(),
        why => format!("requests without a response may not be the gateway's fault: {why}"),
    };
    Bound::at_most("errors", limit, percent).result(&figure, says, &undecided)
}

/// One limit of an objective.
pub(crate) struct Bound<'a> {
    /// `p99`, `errors`, `recovery.time`.
    pub(crate) name: &'a str,
    pub(crate) limit: f64,
    /// Whether it is a minimum.
    pub(crate) is_least: bool,
    /// A value with its unit.
    pub(crate) format: Box<dyn Fn(f64) -> String + 'a>,
    /// What is shown for a value beyond what was measured.
    pub(crate) beyond: &'a str,
}

impl<'a> Bound<'a> {
    fn at_most(name: &'a str, limit: f64, format: fn(f64) -> String) -> Self {
        Self { name, limit, is_least: false, format: Box::new(format), beyond: "> timeout" }
    }

    /// Whether a value keeps it.
    fn is_met_by(&self, value: f64) -> bool {
        if self.is_least { value >= self.limit } else { value <= self.limit }
    }

    /// What a repeat says; `None` if it is not valid, or nothing was measured.
    pub(crate) fn says(&self, repeated: &Repeated) -> Option<bool> {
        match repeated.sample {
            _ if !repeated.reasons.is_empty() => None,
            Sample::Value(value) => Some(self.is_met_by(value)),
            // Beyond what was measured is more than any maximum.
            Sample::BeyondTimeout => (!self.is_least).then_some(false),
            Sample::Missing => None,
        }
    }

    /// The result from what each repeat says; `undecided` is why none of them decides it.
    pub(crate) fn result(
        &self,
        figure: &Figure,
        says: Vec<Option<bool>>,
        undecided: &str,
    ) -> ObjectiveResult {
        let decided: Vec<bool> = says.iter().copied().flatten().collect();
        let met_in = decided.iter().filter(|met| **met).count();
        let met = match decided.len() {
            0 => Met::Unknown,
            all if met_in == all => Met::Met,
            _ => Met::Missed,
        };
        let outcome = match met {
            Met::Unknown => format!("undecided: {undecided}"),
            Met::Met | Met::Missed => {
                let rest = match says.len() - decided.len() {
                    0 => String::new(),
                    open => format!(", {open} undecided"),
                };
                format!("met in {met_in} of {}{rest}", counted(decided.len() as u64, "repeat"))
            }
        };
        let measured = self.measured(figure);
        ObjectiveResult { interval: figure.interval, ..self.told(figure.mean, met, &measured, &outcome) }
    }

    /// The result of a value without repeats of its own, such as a count over all of them.
    pub(crate) fn exactly(&self, value: f64) -> ObjectiveResult {
        let (met, outcome) = if self.is_met_by(value) { (Met::Met, "met") } else { (Met::Missed, "missed") };
        self.told(Some(value), met, &format!("{}, ", (self.format)(value)), outcome)
    }

    fn told(&self, value: Option<f64>, met: Met, measured: &str, outcome: &str) -> ObjectiveResult {
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

    /// The figure with its interval, in parentheses where it does not count; nothing where nothing was measured.
    fn measured(&self, figure: &Figure) -> String {
        match (figure.mean, figure.is_valid()) {
            _ if figure.beyond_timeout => format!("{}, ", self.beyond),
            (Some(_), true) => format!("{}, ", with_interval(figure, &self.format)),
            (Some(_), false) => format!("({}), ", with_interval(figure, &self.format)),
            (None, _) => String::new(),
        }
    }
}

/// A valid figure is compared; a gateway that does not carry the load misses; the rest is undecided.
fn overloaded_is_missed(bound: &Bound<'_>, repeated: &Repeated) -> Option<bool> {
    let own = |reason: &Reason| matches!(reason, Reason::Overloaded | Reason::Throttled | Reason::Errors);
    if repeated.reasons.contains(&Reason::Overloaded) && repeated.reasons.iter().all(own) {
        return Some(false);
    }
    bound.says(repeated)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeated(sample: Sample, reasons: &[Reason]) -> Repeated {
        Repeated { repeat: 0, sample, reasons: reasons.to_vec() }
    }

    #[test]
    fn an_objective_is_met_up_to_its_bound_and_missed_under_overload() {
        let check = |sample, reasons: &[Reason], expected| {
            let bound = Bound::at_most("p99", 20.0, time_ns);
            assert_eq!(overloaded_is_missed(&bound, &repeated(sample, reasons)), expected);
        };
        check(Sample::Value(20.0), &[], Some(true));
        check(Sample::Value(20.1), &[], Some(false));
        check(Sample::BeyondTimeout, &[], Some(false));
        check(Sample::Value(1.0), &[Reason::Overloaded], Some(false));
        check(Sample::Value(1.0), &[Reason::Overloaded, Reason::Throttled], Some(false));
        check(Sample::Value(1.0), &[Reason::Overloaded, Reason::HostDisturbed], None);
        check(Sample::Value(1.0), &[Reason::Throttled], None);
        check(Sample::Missing, &[], None);
    }
}
