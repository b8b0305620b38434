//! CSV with a header, with commas between fields, and with `\n` after each line. Fields are quoted only if necessary;
//! missing values are empty.

use crate::table::{Table, Value};

/// Renders the table as CSV.
pub(crate) fn draw(table: &Table) -> String {
    let mut text = line(table.columns.iter().map(|(name, _)| name.clone()));
    for row in &table.rows {
        text.push_str(&line(row.iter().map(shown)));
    }
    text
}

/// Renders a line of CSV, with its line break.
pub(crate) fn line(fields: impl Iterator<Item = String>) -> String {
    let mut line = fields.map(quoted).collect::<Vec<_>>().join(",");
    line.push('\n');
    line
}

fn shown(value: &Value) -> String {
    match value {
        Value::Missing => String::new(),
        Value::Integer(value) => value.to_string(),
        // Floats always have a point or an exponent, so that readers recognize a column of whole numbers as floats.
        Value::Float(value) => format!("{value:?}"),
        Value::Text(text) => text.clone(),
    }
}

fn quoted(value: String) -> String {
    match value.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", value.replace('"', "\"\"")),
        false => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_if_necessary() {
        let check = |value: &str, expected| assert_eq!(quoted(value.into()), expected);
        check("plain", "plain");
        check("a,b", "\"a,b\"");
        check("say \"so\"", "\"say \"\"so\"\"\"");
        check("two\nlines", "\"two\nlines\"");
    }

    #[test]
    fn values_that_are_not_finite_are_missing() {
        let check = |value: Value, expected| assert_eq!(shown(&value), expected);
        check(None::<u64>.into(), "");
        check(Some(f64::NAN).into(), "");
        check(Some(0_u64).into(), "0");
        check(Some(2.0).into(), "2.0");
        check(Some(1e290).into(), "1e290");
        check(Some(0.1 + 0.2).into(), "0.30000000000000004");
    }
}
