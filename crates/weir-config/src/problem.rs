//! Problems of a configuration: where, what, and how to fix it.

use std::fmt;

/// A problem. Its cause is always the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The field: `routes[3].backend`.
    pub place: String,
    /// What is wrong.
    pub message: String,
    /// How to fix it, if known.
    pub remedy: Option<String>,
}

impl Problem {
    /// A problem at `place` without a remedy.
    pub fn new(place: impl Into<String>, message: impl Into<String>) -> Problem {
        Problem { place: place.into(), message: message.into(), remedy: None }
    }

    /// The problem of an empty file name.
    pub(crate) fn no_file(place: impl Into<String>) -> Problem {
        Problem::new(place, "the file name is empty")
            .help("write a file name, relative to the directory of the configuration")
    }

    /// Adds a remedy.
    #[must_use]
    pub fn help(mut self, remedy: impl Into<String>) -> Problem {
        self.remedy = Some(remedy.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

impl std::error::Error for Problem {}

/// The problems found by independent checks.
pub(crate) fn failed<const N: usize>(checked: [Result<(), Problem>; N]) -> Vec<Problem> {
    checked.into_iter().filter_map(Result::err).collect()
}
