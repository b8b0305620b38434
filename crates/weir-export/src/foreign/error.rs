//! Errors in result files of other programs, and their remedies.

use super::ForeignFile;

/// Maximum number of characters that an error quotes from a file.
const QUOTED_MAX: usize = 80;

/// A file of another program cannot be compared. Every message contains the file name, and the line if possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForeignError {
    /// The file is empty.
    #[error("{name}: the file is empty")]
    Empty {
        /// Name of the file, as the user gave it.
        name: String,
    },
    /// The file has an unknown format.
    #[error("{name}: unknown file format; the file begins with `{columns}`")]
    Unknown {
        /// Name of the file, as the user gave it.
        name: String,
        /// The first line of the file.
        columns: String,
    },
    /// The same file is given twice on one side of the comparison.
    #[error("{}: each file counts as one repeat", the_same(.name, .other))]
    Twice {
        /// Name of the file, as the user gave it.
        name: String,
        /// Name of the other file, which has the same content.
        other: String,
    },
    /// The file lacks columns.
    #[error("{name}: columns missing from the file of {program}: {missing}")]
    Columns {
        /// Name of the file, as the user gave it.
        name: String,
        /// The program of the detected format.
        program: &'static str,
        /// Names of the missing columns.
        missing: String,
    },
    /// A value in the file is invalid.
    #[error("{name}:{line}: {column} is `{value}`, which is not a {expected}")]
    Value {
        /// Name of the file, as the user gave it.
        name: String,
        /// Number of the line, from 1.
        line: u64,
        /// Name of the column.
        column: String,
        /// The invalid value.
        value: String,
        /// What the value should be.
        expected: &'static str,
    },
    /// The content does not match the detected format.
    #[error("{name}: {detail}")]
    Malformed {
        /// Name of the file, as the user gave it.
        name: String,
        /// What does not match the format.
        detail: String,
    },
    /// The file contains nothing that can be compared.
    #[error("{name}: {detail}")]
    Nothing {
        /// Name of the file, as the user gave it.
        name: String,
        /// What is missing.
        detail: String,
        /// How to produce a file that can be compared.
        remedy: &'static str,
    },
    /// The file is from another program than the first file on its side of the comparison.
    #[error(
        "{name} is a file of {program}, but {other} is a file of {of_other}: all files on one side of the comparison \
        must be repeats of the same measurement"
    )]
    Mixed {
        /// Name of the file, as the user gave it.
        name: String,
        /// The program that wrote this file.
        program: &'static str,
        /// The name of the first file.
        other: String,
        /// The program of the first file.
        of_other: &'static str,
    },
}

impl ForeignError {
    /// The error about an unknown format. It quotes the first line, truncated if long.
    pub(super) fn unknown(file: &ForeignFile, columns: &str) -> Self {
        Self::Unknown { name: file.name.clone(), columns: cut(columns) }
    }

    /// The error about a file that is given twice.
    pub(super) fn twice(one: &ForeignFile, other: &ForeignFile) -> Self {
        Self::Twice { name: one.name.clone(), other: other.name.clone() }
    }

    /// How the user can fix the problem.
    pub fn remedy(&self) -> String {
        match self {
            Self::Empty { .. } | Self::Unknown { .. } | Self::Columns { .. } => {
                "use the CSVs of the Gorouter rig (start-time,response-time; timestamp,percentage), FILE_stats.csv of Locust, \
                 the JSON summary of k6, or an export of weir (--format weir); see docs/compare.md"
                    .into()
            }
            Self::Twice { .. } => "give each file once, with one file per repeat".into(),
            Self::Value { .. } | Self::Malformed { .. } => "use the file exactly as its program wrote it".into(),
            Self::Nothing { remedy, .. } => (*remedy).into(),
            Self::Mixed { .. } => "on each side, list files of one program, separated by commas".into(),
        }
    }
}

/// Returns the message that two files have the same name or the same content.
fn the_same(name: &str, other: &str) -> String {
    if name == other {
        format!("{name} is given twice")
    } else {
        format!("{name} and {other} have the same content")
    }
}

/// Shortens a text, to quote its start in an error.
pub(super) fn cut(text: &str) -> String {
    match text.char_indices().nth(QUOTED_MAX) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text.to_owned(),
    }
}
