//! What can be wrong with a file of another program, and what to do about it.

use super::ForeignFile;

/// Characters of a file that an error quotes.
const QUOTED_MAX: usize = 80;

/// A file that cannot be compared. Every message names the file, and the line where there is one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForeignError {
    /// Nothing stands in it.
    #[error("{name}: the file is empty")]
    Empty {
        /// The file.
        name: String,
    },
    /// Of no known form.
    #[error("{name}: unknown file format; the file begins with `{columns}`")]
    Unknown {
        /// The file.
        name: String,
        /// Its first line.
        columns: String,
    },
    /// Given twice within one side.
    #[error("{}: each file counts as one repeat", the_same(.name, .other))]
    Twice {
        /// The file.
        name: String,
        /// The one that holds the same.
        other: String,
    },
    /// Columns are missing.
    #[error("{name}: columns missing from the file of {program}: {missing}")]
    Columns {
        /// The file.
        name: String,
        /// Whose it would be.
        program: &'static str,
        /// The columns.
        missing: String,
    },
    /// Something else stands where a figure is expected.
    #[error("{name}:{line}: {column} is `{value}`, which is not a {expected}")]
    Value {
        /// The file.
        name: String,
        /// The line, from 1.
        line: u64,
        /// The column.
        column: String,
        /// What stands there.
        value: String,
        /// What is expected.
        expected: &'static str,
    },
    /// Not the text that its beginning promises.
    #[error("{name}: {detail}")]
    Malformed {
        /// The file.
        name: String,
        /// What is wrong.
        detail: String,
    },
    /// There is nothing in it to compare.
    #[error("{name}: {detail}")]
    Nothing {
        /// The file.
        name: String,
        /// What is missing.
        detail: String,
        /// How to get it.
        remedy: &'static str,
    },
    /// Of another program than the others of its side.
    #[error(
        "{name} is a file of {program}, and {other} is a file of {of_other}: the files of one side must be repeats of one measurement"
    )]
    Mixed {
        /// The file.
        name: String,
        /// Whose it is.
        program: &'static str,
        /// Another file.
        other: String,
        /// Whose that is.
        of_other: &'static str,
    },
}

impl ForeignError {
    /// Of no known form; long lines are cut.
    pub(super) fn unknown(file: &ForeignFile, columns: &str) -> Self {
        Self::Unknown { name: file.name.clone(), columns: cut(columns) }
    }

    /// Given twice.
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

/// That a file is another one, by its name or by what stands in it.
fn the_same(name: &str, other: &str) -> String {
    if name == other {
        format!("{name} is given twice")
    } else {
        format!("{name} and {other} have the same content")
    }
}

/// The beginning of what stands in a file, for errors.
pub(super) fn cut(text: &str) -> String {
    match text.char_indices().nth(QUOTED_MAX) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text.to_owned(),
    }
}
