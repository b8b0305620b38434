//! CSV: a row per load of each cell; columns are the JSON paths joined by underscores.

use serde_json::Value;
use weir_results::{Cell, CellOutcome};

/// Paths that are left out: histograms and series, which are not figures.
const LEFT_OUT: [&str; 6] = [
    "record_latency",
    "record_service_time",
    "record_lateness",
    "record_seconds",
    "series",
    "outcome_log_tail",
];

/// The cells as CSV with a header.
pub(crate) fn csv(cells: &[Cell]) -> String {
    let mut ordered: Vec<&Cell> = cells.iter().collect();
    ordered.sort_by_key(|cell| cell.key.index);
    let rows: Vec<Row> = ordered.into_iter().flat_map(rows).collect();
    let columns = columns(&rows);
    let mut text = columns.iter().map(|column| quoted(column)).collect::<Vec<_>>().join(",");
    text.push('\n');
    for row in &rows {
        let value = |column: &String| {
            let found = row.iter().find(|(path, _)| path == column);
            quoted(found.map_or("", |(_, value)| value.as_str()))
        };
        text.push_str(&columns.iter().map(value).collect::<Vec<_>>().join(","));
        text.push('\n');
    }
    text
}

/// Paths and values, in the order of the schema.
type Row = Vec<(String, String)>;

fn rows(cell: &Cell) -> Vec<Row> {
    let mut of_cell = Row::new();
    flatten("key", &json(&cell.key), &mut of_cell);
    flatten("started_unix_ms", &json(&cell.started_unix_ms), &mut of_cell);
    flatten("ended_unix_ms", &json(&cell.ended_unix_ms), &mut of_cell);
    match &cell.outcome {
        CellOutcome::Failed { .. } => {
            flatten("outcome", &json(&cell.outcome), &mut of_cell);
            vec![of_cell]
        }
        CellOutcome::Measured { measurements } => {
            of_cell.push(("outcome_kind".into(), "measured".into()));
            let of_load = |measurement| {
                let mut row = of_cell.clone();
                flatten("", &json(measurement), &mut row);
                row
            };
            measurements.iter().map(of_load).collect()
        }
    }
}

fn json(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

fn flatten(path: &str, value: &Value, row: &mut Row) {
    if LEFT_OUT.contains(&path) {
        return;
    }
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}_{name}") };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| flatten(&below(name), value, row)),
        other => row.push((path.to_owned(), scalar(other))),
    }
}

/// A value as text; lists are joined by semicolons, null is empty.
fn scalar(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(scalar).collect::<Vec<_>>().join(";"),
        other => other.to_string(),
    }
}

/// Every column of every row: one that a row adds stands behind the column that it follows there.
fn columns(rows: &[Row]) -> Vec<String> {
    let mut columns: Vec<String> = Vec::new();
    for row in rows {
        let mut place = 0;
        for (path, _) in row {
            match columns.iter().position(|known| known == path) {
                Some(known) => place = known + 1,
                None => {
                    columns.insert(place, path.clone());
                    place += 1;
                }
            }
        }
    }
    // A null where other rows have an object is told by that object's empty columns.
    let is_parent = |path: &str| columns.iter().any(|other| other.starts_with(&format!("{path}_")));
    let is_empty = |path: &str| rows.iter().flatten().all(|(known, value)| known != path || value.is_empty());
    columns.iter().filter(|path| !(is_parent(path) && is_empty(path))).cloned().collect()
}

fn quoted(value: &str) -> String {
    if value.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", value.replace('"', "\"\""))
    } else {
        value.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_where_they_must_be() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("say \"so\""), "\"say \"\"so\"\"\"");
    }

    #[test]
    fn columns_keep_the_order_of_the_schema_whichever_row_comes_first() {
        let row =
            |paths: &[(&str, &str)]| paths.iter().map(|(p, v)| ((*p).to_owned(), (*v).to_owned())).collect();
        let rows: Vec<Row> = vec![
            row(&[("a", "1"), ("late", ""), ("z", "1")]),
            row(&[("a", "1"), ("late_p50", "5"), ("late_p99", "6"), ("z", "1")]),
        ];
        assert_eq!(columns(&rows), ["a", "late_p50", "late_p99", "z"]);
    }
}
