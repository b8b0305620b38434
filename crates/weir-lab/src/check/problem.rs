//! Errors of scenarios, and how checks collect them.

use std::fmt::Display;

use weir_document::{Problem, nearest};

/// An error of a scenario. The place of the problem is the path of the invalid value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScenarioProblem {
    pub(crate) problem: Problem<Vec<String>>,
    /// Whether this host causes the error, although the scenario is valid.
    pub(crate) of_host: bool,
}

/// Every error of a scenario, in the order of the checks.
#[derive(Debug, Default)]
pub(crate) struct Problems(pub(super) Vec<ScenarioProblem>);

impl ScenarioProblem {
    /// The path of the invalid value.
    pub(crate) fn place(&self) -> &[String] {
        &self.problem.place
    }
}

impl From<Problem<Vec<String>>> for ScenarioProblem {
    fn from(problem: Problem<Vec<String>>) -> Self {
        Self { problem, of_host: false }
    }
}

impl Problems {
    pub(super) fn add(&mut self, path: &[&str], message: impl Into<String>, remedy: impl Into<String>) {
        self.0.push(problem(path, message, remedy).into());
    }

    /// Adds an error whose cause is this host, not the scenario.
    pub(super) fn add_of_host(
        &mut self,
        path: &[&str],
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.0.push(ScenarioProblem { problem: problem(path, message, remedy), of_host: true });
    }

    /// Adds the error that the number `value` is outside its range.
    pub(super) fn add_range(&mut self, path: &[&str], value: impl Display, remedy: impl Into<String>) {
        self.add(path, format!("`{value}` is out of range"), remedy);
    }

    /// Adds the error that a list contains `value` twice.
    pub(super) fn add_duplicate(&mut self, path: &[&str], value: impl Display) {
        self.add(path, format!("duplicate value `{value}`"), "remove one of the two");
    }
}

fn problem(path: &[&str], message: impl Into<String>, remedy: impl Into<String>) -> Problem<Vec<String>> {
    Problem::new(message, remedy).at(path.iter().map(|name| (*name).to_owned()).collect())
}

/// Suggests the closest of the `known` names. If none is close, lists all of them and the alternative `otherwise`.
pub(crate) fn suggestion_or<'a>(
    word: &str,
    known: impl Iterator<Item = &'a str> + Clone,
    kind: &str,
    otherwise: &str,
) -> String {
    match nearest(word, known.clone()) {
        Some(_) => suggestion(word, known, kind),
        None => format!("{}; {otherwise}", suggestion(word, known, kind)),
    }
}

/// Suggests the closest of the `known` names. If none is close, lists all of them.
pub(crate) fn suggestion<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone, kind: &str) -> String {
    match nearest(word, known.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known {kind}: {}", known.collect::<Vec<_>>().join(", ")),
    }
}
