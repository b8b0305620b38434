//! Whether an objective was met, as far as valid figures can say.

use serde::Serialize;
use weir_results::{Objective, Reason};

use crate::conclusions::with_interval;
use crate::figure::{Figure, Repeated, Sample};
use crate::quantity::{percent, time_ns};
use crate::summary::Row;

/// Whether an objective was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Met {
    /// In every valid repeat.
    Met,
    /// Not in some repeat, by the gateway's own fault.
    Missed,
    /// No repeat can say.
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

/// Evaluates the objective for a row; latency only where `judges_latency`, since in a run with open loads
/// the closed ones are for throughput (METHOD 13).
pub(crate) fn evaluate(
    objective: Option<&Objective>,
    row: &Row,
    judges_latency: bool,
) -> Vec<ObjectiveResult> {
    let Some(objective) = objective.filter(|_| !row.is_direct()) else { return Vec::new() };
    let mut results = Vec::new();
    if judges_latency {
        for (name, limit_ns) in &objective.latency_ns {
            let Some(figure) = row.latency(name) else { continue };
            let limit = *limit_ns as f64;
            results.push(result(name, limit, figure, time_ns, overloaded_is_missed));
        }
    }
    if let Some(limit) = objective.errors {
        results.push(result("errors", limit, &row.error_share, percent, errors_are_judged));
    }
    results
}

fn result(
    name: &str,
    limit: f64,
    figure: &Figure,
    format: fn(f64) -> String,
    judged: fn(&Repeated, f64) -> Option<bool>,
) -> ObjectiveResult {
    let says: Vec<bool> = figure.repeats.iter().filter_map(|repeated| judged(repeated, limit)).collect();
    let met_in = says.iter().filter(|met| **met).count();
    let met = match says.len() {
        0 => Met::Unknown,
        all if met_in == all => Met::Met,
        _ => Met::Missed,
    };
    let outcome = match met {
        Met::Unknown => "unknown: no repeat is valid".to_owned(),
        Met::Met | Met::Missed => {
            let voided = figure.repeats.len() - says.len();
            let rest = if voided > 0 { format!(", {voided} cannot say") } else { String::new() };
            format!("met in {met_in} of {} repeats{rest}", says.len())
        }
    };
    ObjectiveResult {
        name: name.to_owned(),
        limit,
        value: figure.mean,
        interval: figure.interval,
        met,
        words: format!("{name} at most {}: {}{outcome}", format(limit), measured(figure, format)),
    }
}

/// The figure with its interval, in parentheses where it does not count; nothing where nothing was measured.
fn measured(figure: &Figure, format: fn(f64) -> String) -> String {
    match (figure.mean, figure.is_valid()) {
        _ if figure.beyond_timeout => "> timeout, ".to_owned(),
        (Some(_), true) => format!("{}, ", with_interval(figure, format)),
        (Some(_), false) => format!("({}), ", with_interval(figure, format)),
        (None, _) => String::new(),
    }
}

/// A valid figure is compared; a gateway that does not carry the load misses; the rest cannot say.
fn overloaded_is_missed(repeated: &Repeated, limit: f64) -> Option<bool> {
    let own = |reason: &Reason| matches!(reason, Reason::Overloaded | Reason::Throttled | Reason::Errors);
    if repeated.reasons.contains(&Reason::Overloaded) && repeated.reasons.iter().all(own) {
        return Some(false);
    }
    if !repeated.reasons.is_empty() {
        return None;
    }
    match repeated.sample {
        Sample::Value(value) => Some(value <= limit),
        Sample::BeyondTimeout => Some(false),
        Sample::Missing => None,
    }
}

/// Errors above the bound void the cell, and are the answer here.
fn errors_are_judged(repeated: &Repeated, limit: f64) -> Option<bool> {
    let own = |reason: &Reason| matches!(reason, Reason::Errors | Reason::Overloaded);
    if !repeated.reasons.iter().all(own) {
        return None;
    }
    repeated.value().map(|share| share <= limit)
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
            assert_eq!(overloaded_is_missed(&repeated(sample, reasons), 20.0), expected);
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

    #[test]
    fn errors_are_the_answer_to_an_objective_on_errors() {
        let check = |share, reasons: &[Reason], expected| {
            assert_eq!(errors_are_judged(&repeated(Sample::Value(share), reasons), 0.001), expected);
        };
        check(0.001, &[], Some(true));
        check(0.002, &[Reason::Errors], Some(false));
        check(0.002, &[Reason::Errors, Reason::UpstreamLimited], None);
    }
}
