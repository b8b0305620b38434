//! Problems of a run: the reasons for exit codes 1 and 4 of `weir run`.

use serde::{Serialize, Serializer};
use weir_results::words::counted;
use weir_results::{ArrivalModel, Reason};

use crate::capacity;
use crate::figures::figure::{Figure, HEADLINE_REPEATS};
use crate::points::axes::axes_words;
use crate::points::conclusions::{by_reason, join};
use crate::points::gateways::FailedCell;
use crate::points::objective::{Met, ObjectiveResult};
use crate::points::{Point, Row};
use crate::summary::Summary;
use crate::verdicts::reasons::{in_repeats, reason_name};

/// Overall result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Every objective is met, and every headline is valid.
    Good,
    /// An objective is missed, or a cell failed.
    Missed,
    /// No objective is missed and no cell failed, but an objective, a headline or a search is undecided, or cells did
    /// not run.
    Undecided,
}

impl Outcome {
    pub(crate) fn of(problems: &[Problem]) -> Self {
        let is_missed = |problem: &Problem| problem.kind != ProblemKind::Undecided;
        match problems {
            [] => Self::Good,
            all if all.iter().any(is_missed) => Self::Missed,
            _ => Self::Undecided,
        }
    }
}

/// Kind of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// A gateway misses an objective.
    Missed,
    /// A cell could not be measured.
    Failed,
    /// The run leaves one of its questions undecided.
    Undecided,
}

impl ProblemKind {
    /// The word printed before the problem.
    pub fn word(self) -> &'static str {
        match self {
            Self::Missed => "missed",
            Self::Failed => "failed",
            Self::Undecided => "undecided",
        }
    }
}

/// One problem of a run, for one gateway or for several with the same cause.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Problem {
    pub(crate) kind: ProblemKind,
    /// Short name of the cause, for example `host-noise` or `objective missed`.
    pub(crate) cause: String,
    /// The problem in words: load point, gateway and reason.
    pub(crate) words: String,
}

impl Problem {
    fn new(kind: ProblemKind, cause: &str, words: String) -> Self {
        Self { kind, cause: cause.to_owned(), words }
    }

    fn undecided(cause: &str, words: String) -> Self {
        Self::new(ProblemKind::Undecided, cause, words)
    }
}

/// Serializes each problem as its `words`.
pub(crate) fn in_words<S: Serializer>(problems: &[Problem], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(problems.iter().map(|problem| &problem.words))
}

/// Finds the problems of a run; empty if there are none.
pub(crate) fn find(summary: &Summary) -> Vec<Problem> {
    let mut problems: Vec<Problem> = summary.failed.iter().map(failed).collect();
    if !summary.not_run.is_empty() {
        let planned = counted(summary.cells_planned as u64, "cell");
        let words = format!("{} of {planned} did not run", summary.not_run.len());
        problems.push(Problem::undecided("cells that did not run", words));
    }
    let searched = summary.capacities.iter().any(|capacity| capacity.gateways().next().is_some());
    if !searched && summary.points.iter().all(|point| point.gateways().next().is_none()) {
        problems.push(Problem::undecided("nothing measured", "no gateway was measured".into()));
    }
    problems.extend(without_headlines(summary));
    for point in &summary.points {
        for row in point.gateways() {
            if !row.noisy.is_empty() {
                let words = format!("{}: {}: noisy: {}", point.words(), row.gateway, row.noisy.join(", "));
                problems.push(Problem::undecided("noisy", words));
            }
            problems.extend(objectives(summary, point, row));
        }
    }
    problems.extend(summary.finding_objectives.iter().filter_map(|of| {
        let place = if of.place.is_empty() { String::new() } else { format!("{}: ", of.place) };
        of_objective(&format!("{place}{}", of.gateway), &of.result)
    }));
    let of_searches = summary.capacities.iter().flat_map(capacity::problems);
    problems.extend(of_searches.map(|words| Problem::undecided("searches", words)));
    problems
}

/// Returns the missed objectives of a gateway at a load point, and the undecided ones. Undecided objectives are left
/// out if another problem already reports the cause, or if the load overloaded the gateway on purpose.
fn objectives(summary: &Summary, point: &Point, row: &Row) -> Vec<Problem> {
    let is_reported = headlines(point, row).is_some();
    let is_expected = is_reported || (summary.is_meant_to_break(point) && is_past_the_limit(row));
    let who = format!("{}: {}", point.words(), row.gateway);
    let results = row.objective.iter().filter(|result| !(is_expected && result.met == Met::Unknown));
    results.filter_map(|result| of_objective(&who, result)).collect()
}

/// Turns a missed or undecided objective into a problem; `None` if the objective is met.
fn of_objective(who: &str, result: &ObjectiveResult) -> Option<Problem> {
    let words = &result.words;
    match result.met {
        Met::Met => None,
        Met::Missed => {
            let words = format!("{who} misses the objective: {words}");
            Some(Problem::new(ProblemKind::Missed, "objective missed", words))
        }
        Met::Unknown => Some(Problem::undecided("objective undecided", format!("{who}: {words}"))),
    }
}

fn failed(failed: &FailedCell) -> Problem {
    let axes = axes_words(&failed.key.axes);
    let at = if axes.is_empty() { String::new() } else { format!(" ({axes})") };
    let repeat = failed.key.repeat.saturating_add(1);
    let words = format!("{}{at}, repeat {repeat}: {}: {}", failed.key.gateway, failed.cause, failed.message);
    Problem::new(ProblemKind::Failed, "failed cells", words)
}

/// Finds gateways whose main headlines have too few valid repeats. Gateways and load points with the same reason
/// share one problem.
fn without_headlines(summary: &Summary) -> Vec<Problem> {
    let mut short: Vec<((String, String), String)> = Vec::new();
    for point in &summary.points {
        let rows =
            point.gateways().filter(|row| !(summary.is_meant_to_break(point) && is_past_the_limit(row)));
        let rows = rows.filter_map(|row| Some((headlines(point, row)?, row.gateway.clone())));
        for ((cause, why), names) in by_reason(rows.collect()) {
            short.push(((cause, format!("{}: {why}", join(&names))), point.words()));
        }
    }
    let problem = |((cause, why), points): ((String, String), Vec<String>)| Problem {
        kind: ProblemKind::Undecided,
        cause,
        words: format!("{}: {why}", some_of(&points)),
    };
    by_reason(short).into_iter().map(problem).collect()
}

/// Joins names of load points. Lists at most three; if there are more, lists two and counts the others.
fn some_of(points: &[String]) -> String {
    match points {
        [first, second, _, _, ..] => format!("{first}, {second} and {} more load points", points.len() - 2),
        few => join(few),
    }
}

/// Checks the main headlines of a load: throughput in a closed loop, latency in an open loop, CPU time per request in
/// both. If one of these values has too few valid repeats, returns the cause and a message.
fn headlines(point: &Point, row: &Row) -> Option<(String, String)> {
    let main = match point.model {
        ArrivalModel::Closed => ("throughput", Some(&row.throughput_per_s)),
        ArrivalModel::Open => ("latency", row.latency("p50")),
    };
    let short: Vec<(&str, (String, String))> = [main, ("CPU per request", Some(&row.cpu_us_per_request))]
        .into_iter()
        .filter_map(|(name, figure)| Some((name, why_invalid(figure?)?)))
        .collect();
    let (_, (cause, why)) = short.first()?;
    let names: Vec<&str> = short.iter().map(|(name, _)| *name).collect();
    let have = if names.len() == 1 { "has" } else { "have" };
    Some((cause.clone(), format!("{} {have} no headline: {why}", names.join(" and "))))
}

/// Whether a rate that is too high explains all reasons that made values of this row invalid.
fn is_past_the_limit(row: &Row) -> bool {
    let too_high = [Reason::Overloaded, Reason::Throttled, Reason::Errors, Reason::GeneratorLimited];
    row.reasons().iter().all(|(reason, _)| too_high.contains(reason))
}

/// Returns why too few repeats are valid: the names of the reasons, and a text with the number of repeats for each
/// reason. `None` if enough repeats are valid, or if the value is bounded.
fn why_invalid(figure: &Figure) -> Option<(String, String)> {
    let measured = figure.repeats.len();
    let valid = figure.repeats.iter().filter(|repeated| repeated.reasons.is_empty()).count();
    (valid < measured.min(HEADLINE_REPEATS) && !figure.is_bounded()).then(|| {
        let reasons = figure.reasons();
        let names: Vec<&str> = reasons.iter().map(|(reason, _)| reason_name(*reason)).collect();
        (names.join(", "), in_repeats(&reasons, measured))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_load_points_are_named_and_many_are_counted() {
        let points: Vec<String> = ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec();
        assert_eq!(some_of(&points[..1]), "a");
        assert_eq!(some_of(&points[..3]), "a, b and c");
        assert_eq!(some_of(&points[..4]), "a, b and 2 more load points");
        assert_eq!(some_of(&points), "a, b and 3 more load points");
    }
}
