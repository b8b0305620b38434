//! What is wrong with a configuration, where, and what to do.

use std::fmt;

/// One thing that is wrong. Its cause is always the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The field: `routes[3].backend`.
    pub place: String,
    /// What is wrong with it.
    pub message: String,
    /// What would be right, where that can be told.
    pub remedy: Option<String>,
}

impl Problem {
    /// A problem at `place` without a remedy.
    pub fn new(place: impl Into<String>, message: impl Into<String>) -> Problem {
        Problem { place: place.into(), message: message.into(), remedy: None }
    }

    /// The problem of an empty name of a file.
    pub(crate) fn no_file(place: impl Into<String>) -> Problem {
        Problem::new(place, "the file name is empty")
            .help("write a file name, relative to the directory of the configuration")
    }

    /// The same with a remedy.
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
