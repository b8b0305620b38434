//! Errors of files of other programs, and their remedies.

use super::ForeignFile;

/// Maximum number of characters that an error quotes from a file.
const QUOTED_MAX: usize = 80;

/// A file that cannot be compared. Every message names the file, and the line if possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForeignError {
    /// The file is empty.
    #[error("{name}: the file is empty")]
    Empty {
        /// The file.
        name: String,
    },
    /// The file has an unknown format.
    #[error("{name}: unknown file format; the file begins with `{columns}`")]
    Unknown {
        /// The file.
        name: String,
        /// Its first line.
        columns: String,
    },
    /// The file is given twice on one side.
    #[error("{}: each file counts as one repeat", the_same(.name, .other))]
    Twice {
        /// The file.
        name: String,
        /// The file with the same content.
        other: String,
    },
    /// Columns are missing.
    #[error("{name}: columns missing from the file of {program}: {missing}")]
    Columns {
        /// The file.
        name: String,
        /// The program of the detected format.
        program: &'static str,
        /// The missing columns.
        missing: String,
    },
    /// A value is invalid.
    #[error("{name}:{line}: {column} is `{value}`, which is not a {expected}")]
    Value {
        /// The file.
        name: String,
        /// The line, from 1.
        line: u64,
        /// The column.
        column: String,
        /// The value.
        value: String,
        /// The expected form.
        expected: &'static str,
    },
    /// The content does not match the detected format.
    #[error("{name}: {detail}")]
    Malformed {
        /// The file.
        name: String,
        /// The problem.
        detail: String,
    },
    /// The file has nothing to compare.
    #[error("{name}: {detail}")]
    Nothing {
        /// The file.
        name: String,
        /// What is missing.
        detail: String,
        /// How to get it.
        remedy: &'static str,
    },
    /// The file is of another program than the first one of its side.
    #[error(
        "{name} is a file of {program}, and {other} is a file of {of_other}: the files of one side must be repeats of one measurement"
    )]
    Mixed {
        /// The file.
        name: String,
        /// Its program.
        program: &'static str,
        /// Another file.
        other: String,
        /// The program of that file.
        of_other: &'static str,
    },
}

impl ForeignError {
    /// An unknown format; long lines are truncated.
    pub(super) fn unknown(file: &ForeignFile, columns: &str) -> Self {
        Self::Unknown { name: file.name.clone(), columns: cut(columns) }
    }

    /// A file that is given twice.
    pub(super) fn twice(one: &ForeignFile, other: &ForeignFile) -> Self {
        Self::Twice { name: one.name.clone(), other: other.name.clone() }
    }

    /// What to do about it.
    pub fn remedy(&self) -> String {
        match self {
            Self::Empty { .. } | Self::Unknown { .. } | Self::Columns { .. } => {
                "use the CSVs of the Gorouter rig (start-time,response-time; timestamp,percentage), FILE_stats.csv of Locust, \
                 the JSON summary of k6, or an export of weir (--format weir); see docs/compare.md"
                    .into()
            }
            Self::Twice { .. } => "give each file once, with one file per repeat".into(),
            Self::Value { .. } | Self::Malformed { .. } => "use the unmodified file of the program".into(),
            Self::Nothing { remedy, .. } => (*remedy).into(),
            Self::Mixed { .. } => "use files of one program on each side, separated by commas".into(),
        }
    }
}

/// Says that two files are the same, by name or by content.
fn the_same(name: &str, other: &str) -> String {
    if name == other {
        format!("{name} is given twice")
    } else {
        format!("{name} and {other} have the same content")
    }
}

/// The start of a text, for errors.
pub(super) fn cut(text: &str) -> String {
    match text.char_indices().nth(QUOTED_MAX) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text.to_owned(),
    }
}
