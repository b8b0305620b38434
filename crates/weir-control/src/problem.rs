//! What is wrong with a configuration that comes from a file, with its line.

use std::{fmt, io};

use serde::Serialize;
use weir_config::{Problem, SYSTEM_AUTHORITIES};
use weir_document::DocumentError;

/// How many problems are told at once: the others may go with these.
pub(crate) const PROBLEMS_MAX: usize = 32;

/// How many of a large file, where to find each one's line takes a long look.
const PROBLEMS_OF_LARGE_MAX: usize = 10;

/// From how many bytes on a file is large.
const LARGE_BYTES: usize = 1 << 20;

/// Why a file did not come into force.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The environment's fault.
    #[error("{path}: cannot read: {error}")]
    Unreadable {
        /// The file.
        path: String,
        /// What the system says.
        error: io::Error,
    },
    /// There is no file in the directory that could be a configuration's.
    #[error("{path}: the directory has no .yaml, .yml or .json file")]
    NoFiles {
        /// The directory.
        path: String,
    },
    /// The file's fault: it is no document of the right form.
    #[error("{0}")]
    Document(DocumentError),
    /// The file's fault: what it says is not of the right form, or does not hold together.
    #[error("{}", .0.first().map_or_else(String::new, ToString::to_string))]
    Problems(Vec<PlacedProblem>),
}

/// Whether a problem keeps a configuration from coming into force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It does.
    Error,
    /// It is most likely not meant, and does not.
    Warning,
}

/// A problem with its line in the file: `gateway.yaml:3:5: routes[0].backend: no backend is named `apy``.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlacedProblem {
    /// Whether it keeps the configuration from coming into force.
    pub severity: Severity,
    /// The file's name as it was given.
    pub file: String,
    /// The line, from 1, where it is known.
    pub line: Option<u64>,
    /// The column in characters, from 1, where it is known.
    pub column: Option<u64>,
    /// The field, where it is not only known by its line: `routes[0].backend`.
    pub field: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What would be right, where that can be told.
    pub remedy: Option<String>,
}

impl SourceError {
    /// Every problem with its place.
    pub fn problems(&self) -> Vec<PlacedProblem> {
        match self {
            SourceError::Unreadable { path, error } => {
                let message = format!("cannot read: {error}");
                vec![PlacedProblem::of_file(path, message, Some(remedy_of(error)))]
            }
            SourceError::NoFiles { path } => {
                let message = "the directory has no .yaml, .yml or .json file".to_owned();
                vec![PlacedProblem::of_file(path, message, Some("add one, or name another directory"))]
            }
            SourceError::Document(error) => vec![error.clone().into()],
            SourceError::Problems(problems) => problems.clone(),
        }
    }

    /// Every problem as a line, each followed by its remedy.
    pub fn lines(&self) -> Vec<String> {
        self.problems().iter().flat_map(PlacedProblem::lines).collect()
    }
}

impl PlacedProblem {
    /// One of the whole file.
    pub(crate) fn of_file(file: &str, message: String, remedy: Option<&str>) -> PlacedProblem {
        PlacedProblem {
            severity: Severity::Error,
            file: file.to_owned(),
            line: None,
            column: None,
            field: None,
            message,
            remedy: remedy.map(str::to_owned),
        }
    }

    /// The problem as a line, and its remedy as another.
    pub fn lines(&self) -> impl Iterator<Item = String> + use<> {
        with_remedy(self.to_string(), self.remedy.as_deref())
    }
}

impl fmt::Display for PlacedProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file)?;
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(f, "{line}:{column}:")?;
        }
        if self.severity == Severity::Warning {
            f.write_str(" warning:")?;
        }
        if let Some(field) = &self.field {
            write!(f, " {field}:")?;
        }
        write!(f, " {}", self.message)
    }
}

impl From<DocumentError> for PlacedProblem {
    fn from(error: DocumentError) -> PlacedProblem {
        let known = |number: u64| (error.line > 0).then_some(number);
        PlacedProblem {
            severity: Severity::Error,
            line: known(error.line),
            column: known(error.column),
            file: error.source_name,
            field: None,
            message: error.message,
            remedy: Some(error.remedy),
        }
    }
}

/// What to do about a file that the system does not hand over.
fn remedy_of(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::InvalidData => "save it in UTF-8",
        _ => "check that the file exists and is readable",
    }
}

/// A message and, below it, what would be right.
pub(crate) fn with_remedy(message: String, remedy: Option<&str>) -> impl Iterator<Item = String> + use<> {
    let help = remedy.filter(|r| !r.is_empty()).map(|r| format!("  help: {r}"));
    [Some(message), help].into_iter().flatten()
}

/// How many problems of a file with this text are told at once.
pub(crate) fn problems_max(text: &str) -> usize {
    if text.len() < LARGE_BYTES { PROBLEMS_MAX } else { PROBLEMS_OF_LARGE_MAX }
}

pub(crate) fn unreadable(place: String, file: &str, error: &io::Error) -> Problem {
    let problem = Problem::new(place, format!("cannot read `{file}`: {error}"));
    match file {
        SYSTEM_AUTHORITIES => problem.help("set `ca` to the CA certificates of the endpoints"),
        _ => problem
            .help("check that the file exists and is readable; its path is relative to the directory of the configuration"),
    }
}
