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
    for Row { values: row, .. } in &rows {
        let value = |column: &String| {
            let found = row.iter().find(|(path, _)| path == column);
            quoted(found.map_or("", |(_, value)| value.as_str()))
        };
        text.push_str(&columns.iter().map(value).collect::<Vec<_>>().join(","));
        text.push('\n');
    }
    text
}

/// Paths and values, in the order of the schema, and the paths at which it has objects.
#[derive(Clone, Debug, Default)]
struct Row {
    values: Vec<(String, String)>,
    objects: Vec<String>,
}

fn rows(cell: &Cell) -> Vec<Row> {
    let mut of_cell = Row::default();
    flatten("key", &json(&cell.key), &mut of_cell);
    flatten("started_unix_ms", &json(&cell.started_unix_ms), &mut of_cell);
    flatten("ended_unix_ms", &json(&cell.ended_unix_ms), &mut of_cell);
    match &cell.outcome {
        CellOutcome::Failed { .. } => {
            flatten("outcome", &json(&cell.outcome), &mut of_cell);
            vec![of_cell]
        }
        CellOutcome::Measured { measurements } => {
            of_cell.values.push(("outcome_kind".into(), "measured".into()));
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
        Value::Object(fields) => {
            row.objects.push(path.to_owned());
            fields.iter().for_each(|(name, value)| flatten(&below(name), value, row));
        }
        other => row.values.push((path.to_owned(), scalar(other))),
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
        for (path, _) in &row.values {
            match columns.iter().position(|known| known == path) {
                Some(known) => place = known + 1,
                None => {
                    columns.insert(place, path.clone());
                    place += 1;
                }
            }
        }
    }
    // A null where another row has an object is told by that object's columns, which are empty there.
    columns.retain(|path| !rows.iter().any(|row| row.objects.contains(path)));
    columns
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
        let flat = |value: Value| {
            let mut row = Row::default();
            flatten("", &value, &mut row);
            row
        };
        let closed = flat(serde_json::json!({ "a": 1, "late": null, "late_n": null, "z": 1 }));
        let open =
            flat(serde_json::json!({ "a": 1, "late": { "p50": 5, "p99": 6 }, "late_n": null, "z": 1 }));
        assert_eq!(columns(&[closed.clone(), open]), ["a", "late_p50", "late_p99", "late_n", "z"]);
        assert_eq!(columns(&[closed]), ["a", "late", "late_n", "z"]);
    }
}
