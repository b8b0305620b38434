//! Tables of other programs: a header, and lines with fields that are read by column name.

use csv::{ReaderBuilder, StringRecord};

use super::error::cut;
use super::{ForeignError, ForeignFile};

/// The columns and lines of a file, as text.
pub(super) struct Rows {
    pub(super) columns: Vec<String>,
    pub(super) lines: Vec<Line>,
}

/// A line after the header.
pub(super) struct Line {
    /// The number of the line in the file, from 1.
    pub(super) number: u64,
    pub(super) fields: StringRecord,
}

impl Rows {
    pub(super) fn of(file: &ForeignFile, text: &str) -> Result<Self, ForeignError> {
        let mut reader = ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
        let malformed = |error: csv::Error| ForeignError::Malformed {
            name: file.name.clone(),
            detail: format!("the file is not CSV: {error}"),
        };
        let mut rows = Self { columns: Vec::new(), lines: Vec::new() };
        for record in reader.records() {
            let fields = record.map_err(malformed)?;
            if rows.columns.is_empty() {
                rows.columns = fields.iter().map(|name| name.trim().to_owned()).collect();
            } else {
                let number = fields.position().map_or(0, csv::Position::line);
                rows.lines.push(Line { number, fields });
            }
        }
        Ok(rows)
    }

    /// Whether the table has a column with this name.
    pub(super) fn has(&self, column: &str) -> bool {
        self.columns.iter().any(|known| known == column)
    }

    /// Positions of all columns with this name.
    pub(super) fn places(&self, column: &str) -> Vec<usize> {
        let all = self.columns.iter().enumerate();
        all.filter(|(_, known)| *known == column).map(|(place, _)| place).collect()
    }

    /// The field of a line in a column; empty if the line is too short or the column does not exist.
    pub(super) fn field<'a>(&self, line: &'a Line, column: &str) -> &'a str {
        let place = self.columns.iter().position(|known| known == column);
        place.and_then(|place| line.fields.get(place)).unwrap_or_default().trim()
    }
}

impl Line {
    /// Whether the line repeats the header, as in files that were concatenated.
    pub(super) fn is_header(&self, columns: &[String]) -> bool {
        self.fields.len() == columns.len()
            && self.fields.iter().zip(columns).all(|(field, name)| field.trim() == name)
    }

    /// The error for an invalid `value` in `column` of this line. `expected` describes the valid values, such as a
    /// time.
    pub(super) fn wrong(
        &self,
        file: &ForeignFile,
        column: &str,
        value: &str,
        expected: &'static str,
    ) -> ForeignError {
        ForeignError::Value {
            name: file.name.clone(),
            line: self.number,
            column: column.to_owned(),
            value: cut(value),
            expected,
        }
    }

    /// Parses `value` as a finite number of at least 0.
    pub(super) fn number(
        &self,
        file: &ForeignFile,
        column: &str,
        value: &str,
        expected: &'static str,
    ) -> Result<f64, ForeignError> {
        let number = value.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        number.ok_or_else(|| self.wrong(file, column, value, expected))
    }
}
