//! Errors of scenarios, and how checks collect them.

use std::fmt::Display;

use weir_document::nearest;

/// An error of a scenario, without its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScenarioError {
    pub(crate) message: String,
    pub(crate) remedy: String,
}

impl ScenarioError {
    pub(crate) fn new(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { message: message.into(), remedy: remedy.into() }
    }
}

/// An error of a scenario, with the path of the value at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) path: Vec<String>,
    pub(crate) error: ScenarioError,
    /// Whether this host lacks something; the scenario itself is right.
    pub(crate) of_host: bool,
}

/// Every error of a scenario, in the order of the checks.
#[derive(Debug, Default)]
pub(crate) struct Problems(pub(super) Vec<Problem>);

impl Problems {
    pub(super) fn add(&mut self, path: &[&str], message: impl Into<String>, remedy: impl Into<String>) {
        self.0.push(problem(path, message, remedy));
    }

    /// An error whose cause is this host.
    pub(super) fn add_of_host(
        &mut self,
        path: &[&str],
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.0.push(Problem { of_host: true, ..problem(path, message, remedy) });
    }

    /// A number outside its range.
    pub(super) fn add_range(&mut self, path: &[&str], value: impl Display, remedy: impl Into<String>) {
        self.add(path, format!("`{value}` is out of range"), remedy);
    }

    /// The same name or value, given twice in a list.
    pub(super) fn add_duplicate(&mut self, path: &[&str], value: impl Display) {
        self.add(path, format!("duplicate value `{value}`"), "remove one of the two");
    }
}

pub(super) fn problem(path: &[&str], message: impl Into<String>, remedy: impl Into<String>) -> Problem {
    let path = path.iter().map(|name| (*name).to_owned()).collect();
    Problem { path, error: ScenarioError::new(message, remedy), of_host: false }
}

/// The nearest of the `known` names as a question, else all of them.
pub(crate) fn suggestion<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone, kind: &str) -> String {
    match nearest(word, known.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known {kind}: {}", known.collect::<Vec<_>>().join(", ")),
    }
}
