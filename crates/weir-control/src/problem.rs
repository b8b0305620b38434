//! Problems of a configuration file, with their lines.

use std::{fmt, io};

use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};
use weir_config::SYSTEM_AUTHORITIES;
use weir_document::{Position, Problem};

/// Maximum number of problems per report. Fixing these often fixes the rest.
pub(crate) const PROBLEMS_MAX: usize = 32;

/// Maximum number of problems per report for a large file, in which finding the line of a problem takes long.
const PROBLEMS_OF_LARGE_MAX: usize = 10;

/// Minimum size of a large file, bytes.
const LARGE_BYTES: usize = 1 << 20;

/// Why a file did not take effect.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file cannot be read, for example because it is missing.
    #[error("{path}: cannot read: {error}")]
    Unreadable {
        /// The file.
        path: String,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The directory contains no configuration file.
    #[error("{path}: the directory has no .yaml, .yml or .json file")]
    NoFiles {
        /// The directory.
        path: String,
    },
    /// The file cannot be parsed.
    #[error("{0}")]
    Document(Problem<Position>),
    /// Values in the file are invalid or inconsistent.
    #[error("{}", .0.first().map_or_else(String::new, ToString::to_string))]
    Problems(Vec<PlacedProblem>),
}

/// Whether a problem prevents a configuration from taking effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The configuration does not take effect.
    Error,
    /// The configuration takes effect, but probably contains a mistake.
    Warning,
}

/// A problem with its line in the file: `gateway.yaml:3:5: routes[0].backend: unknown backend `apy``.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedProblem {
    /// Whether the problem prevents the configuration from taking effect.
    pub severity: Severity,
    /// The problem.
    pub problem: Problem<Place>,
}

/// Where a problem is: a file, and if known the line and the field in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The path of the file, as the user gave it.
    pub file: String,
    /// Line and column, if known. Both start at 1; the column counts characters.
    pub line_and_column: Option<(u64, u64)>,
    /// The field, such as `routes[0].backend`. In a manifest, kind and name of the resource come first. `None` if only
    /// the line is known.
    pub field: Option<String>,
}

impl SourceError {
    /// All problems, each with its file and line.
    pub fn problems(&self) -> Vec<PlacedProblem> {
        match self {
            SourceError::Unreadable { path, error } => {
                let message = format!("cannot read: {error}");
                vec![Problem::new(message, remedy_of(error)).at(Place::of_file(path)).into()]
            }
            SourceError::NoFiles { path } => {
                let message = "the directory has no .yaml, .yml or .json file";
                let problem = Problem::new(message, "add a file, or name another directory");
                vec![problem.at(Place::of_file(path)).into()]
            }
            SourceError::Document(error) => vec![error.clone().into()],
            SourceError::Problems(problems) => problems.clone(),
        }
    }

    /// All problems as lines, each followed by a line with its remedy.
    pub fn lines(&self) -> Vec<String> {
        self.problems().iter().flat_map(PlacedProblem::lines).collect()
    }
}

impl PlacedProblem {
    /// The problem as a line, followed by a line with its remedy if there is one.
    pub fn lines(&self) -> impl Iterator<Item = String> + use<> {
        with_remedy(self.to_string(), &self.problem.remedy)
    }
}

impl Serialize for PlacedProblem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Problem { place, message, remedy } = &self.problem;
        let (line, column) = place.line_and_column.unzip();
        let mut fields = serializer.serialize_struct("PlacedProblem", 7)?;
        fields.serialize_field("severity", &self.severity)?;
        fields.serialize_field("file", &place.file)?;
        fields.serialize_field("line", &line)?;
        fields.serialize_field("column", &column)?;
        fields.serialize_field("field", &place.field)?;
        fields.serialize_field("message", message)?;
        fields.serialize_field("remedy", &Some(remedy).filter(|remedy| !remedy.is_empty()))?;
        fields.end()
    }
}

impl Place {
    /// The place of a problem that concerns the whole file.
    pub(crate) fn of_file(file: &str) -> Place {
        Place { file: file.to_owned(), line_and_column: None, field: None }
    }

    /// File, line and column as text: `gateway.yaml:3:5`; only the file if the line is unknown.
    pub(crate) fn position(&self) -> String {
        match self.line_and_column {
            Some((line, column)) => format!("{}:{line}:{column}", self.file),
            None => self.file.clone(),
        }
    }
}

impl fmt::Display for PlacedProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { place, message, .. } = &self.problem;
        write!(f, "{}:", place.position())?;
        if self.severity == Severity::Warning {
            f.write_str(" warning:")?;
        }
        if let Some(field) = &place.field {
            write!(f, " {field}:")?;
        }
        write!(f, " {message}")
    }
}

impl From<Problem<Place>> for PlacedProblem {
    fn from(problem: Problem<Place>) -> PlacedProblem {
        PlacedProblem { severity: Severity::Error, problem }
    }
}

impl From<Problem<Position>> for PlacedProblem {
    fn from(error: Problem<Position>) -> PlacedProblem {
        let Position { source_name, line, column } = &error.place;
        let line_and_column = (*line > 0).then_some((*line, *column));
        let place = Place { line_and_column, ..Place::of_file(source_name) };
        error.at(place).into()
    }
}

/// The remedy for a file that the operating system cannot read.
fn remedy_of(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::InvalidData => "save the file in UTF-8",
        _ => "check that the file exists and is readable",
    }
}

/// The line `message`, and a second line with `remedy` unless `remedy` is empty.
pub(crate) fn with_remedy(message: String, remedy: &str) -> impl Iterator<Item = String> + use<> {
    let help = Some(remedy).filter(|remedy| !remedy.is_empty()).map(|remedy| format!("  help: {remedy}"));
    [Some(message), help].into_iter().flatten()
}

/// Maximum number of problems to report for a file with the content `text`.
pub(crate) fn problems_max(text: &str) -> usize {
    if text.len() < LARGE_BYTES { PROBLEMS_MAX } else { PROBLEMS_OF_LARGE_MAX }
}

pub(crate) fn unreadable(place: String, file: &str, error: &io::Error) -> Problem {
    let problem = Problem::of(place, format!("cannot read `{file}`: {error}"));
    match file {
        SYSTEM_AUTHORITIES => problem.help("set `ca` to a file with the CA certificates of the endpoints"),
        _ => problem
            .help("check that the file exists and is readable; its path is relative to the directory of the configuration"),
    }
}
