//! The findings of a run as one table, with one row per value.

use std::collections::BTreeSet;

use weir_analysis::findings::{Better, Column, Finding, Row, Table as Values, Unit, Value as Found};
use weir_analysis::{Sample, Summary};

use crate::table::{ColumnDescription, Kind, Table, Value};

/// Columns before those of the axes: name, type and meaning.
const BEFORE: [(&str, Kind, &str); 3] = [
    ("finding", Kind::Text, "The kind of finding, such as capacity or failover."),
    ("gateway", Kind::Text, "Name of the gateway."),
    ("load", Kind::Text, "Name of the load; missing if the finding is about several loads."),
];

/// Name, type and meaning of the axis columns. One entry describes all of them.
const AXES: (&str, Kind, &str) = (
    "axis.PATH",
    Kind::Text,
    "What the row describes: the value of an axis, or of another key such as the fault, the kind of client or the \
     repeat. One column per axis or key.",
);

/// Columns that follow the axis columns: name, type and meaning.
const BEHIND: [(&str, Kind, &str); 9] = [
    ("value_of", Kind::Text, "Name of the value, such as `time` of the finding `recovery`."),
    (
        "unit",
        Kind::Text,
        "Unit of the value: `ns`, `s`, `bytes`, `share` and others; missing without a unit.",
    ),
    ("better", Kind::Text, "`lower` or `higher`; missing if neither is better."),
    ("value", Kind::Float, "The value; missing if only bounds or a text are known."),
    (
        "low",
        Kind::Float,
        "Lower bound of the 95 % confidence interval. If `text` is `bounds`: lower bound of a value that is not valid. If \
         `text` is `least and greatest`: minimum of the repeats.",
    ),
    ("high", Kind::Float, "Upper bound or maximum, under the same conditions as `low`."),
    ("repeats_valid", Kind::Integer, "Repeats with a valid value."),
    ("repeats", Kind::Integer, "All repeats."),
    ("text", Kind::Text, "A value in words, or the meaning of `low` and `high`."),
];

/// Makes the table. It has no rows if the run has no findings.
pub(crate) fn table(summary: &Summary) -> Table {
    let rows = || {
        let tables = summary.findings.iter().flat_map(|of| of.tables.iter().map(move |table| (of, table)));
        tables.flat_map(|(of, table)| (0..table.rows.len()).map(move |place| (of, table, place)))
    };
    let axes: BTreeSet<&String> =
        rows().flat_map(|(_, table, place)| table.rows[place].axes.keys()).collect();
    let named = |(name, kind, _): &(&str, Kind, &str)| ((*name).to_owned(), *kind);
    let of_axes = axes.iter().map(|path| (format!("axis.{path}"), Kind::Text));
    let columns = BEFORE.iter().map(named).chain(of_axes).chain(BEHIND.iter().map(named));
    let values = rows().flat_map(|(finding, table, place)| {
        let row = &table.rows[place];
        let values = table.columns.iter().zip(&row.values).enumerate();
        let values = values.filter(move |(at, _)| !is_shown_above(table, place, *at)).map(|(_, of)| of);
        let values = values.filter_map(|(column, value)| behind(column, value));
        let axes = &axes;
        values.map(move |behind| {
            let mut all = before(finding, row);
            all.extend(axes.iter().map(|path| axis(row, path)));
            all.extend(behind);
            all
        })
    });
    let rows = values.collect();
    Table { columns: columns.collect(), rows }
}

/// Describes the columns for the reference.
pub(crate) fn descriptions() -> Vec<ColumnDescription> {
    let all = BEFORE.into_iter().chain([AXES]).chain(BEHIND);
    all.map(|(name, kind, meaning)| ColumnDescription {
        name: name.to_owned(),
        kind: kind.name(),
        meaning: meaning.to_owned(),
    })
    .collect()
}

/// For a column that shows repeated values only once: whether the value is the same as in the row above.
fn is_shown_above(table: &Values, place: usize, at: usize) -> bool {
    let (row, above) = (&table.rows[place], place.checked_sub(1).map(|above| &table.rows[above]));
    let is_same = |above: &Row| above.gateway == row.gateway && above.values[at] == row.values[at];
    table.columns[at].unit == Unit::Prose && table.columns[at].once && above.is_some_and(is_same)
}

fn before(finding: &Finding, row: &Row) -> Vec<Value> {
    let load = (!row.load.is_empty()).then(|| row.load.clone());
    vec![Value::Text(finding.key.to_owned()), Value::Text(row.gateway.clone()), Value::from(load)]
}

fn axis(row: &Row, path: &String) -> Value {
    Value::from(
        row.axes.get(path).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)),
    )
}

/// The contents of the [`BEHIND`] columns for one value of a finding; `None` if this value is missing.
fn behind(column: &Column, value: &Found) -> Option<Vec<Value>> {
    let (mut ends, mut repeats, mut text) = ([None; 2], None, None);
    let mut number = value.as_number();
    match value {
        Found::Missing => return None,
        Found::Text { text: of } => text = Some(of.clone()),
        Found::Number { words, .. } => text = words.clone(),
        Found::Estimate { sample, interval: of, valid } => {
            (ends, repeats) = (both(*of), Some((usize::from(*valid), 1)));
            text = (*sample == Sample::BeyondTimeout).then(|| column.beyond.to_owned());
        }
        Found::Part { part, of } => text = Some(format!("{part} of {of}")),
        Found::Valid { valid, planned, .. } => repeats = Some((*valid, *planned)),
        Found::Extremes { least, greatest, .. } => {
            ends = [Some(*least), Some(*greatest)];
            text = Some("least and greatest".to_owned());
        }
        Found::Figure { figure } => {
            ends = both(figure.interval);
            repeats = Some((figure.valid, figure.repeats.len()));
            if figure.is_bounded() {
                (ends, number) = ([figure.bounds.low, figure.bounds.high], None);
                text = Some("bounds".to_owned());
            } else if figure.beyond_timeout {
                text = Some(column.beyond.to_owned());
            }
        }
    }
    let better = column.better.map(|better| match better {
        Better::Lower => "lower".to_owned(),
        Better::Higher => "higher".to_owned(),
    });
    let suffix = column.unit.suffix();
    Some(vec![
        Value::Text(column.key.to_owned()),
        Value::from((!suffix.is_empty()).then(|| suffix.to_owned())),
        Value::from(better),
        Value::from(number),
        Value::from(ends[0]),
        Value::from(ends[1]),
        Value::from(repeats.map(|(valid, _)| valid as u64)),
        Value::from(repeats.map(|(_, all)| all as u64)),
        Value::from(text),
    ])
}

fn both(interval: Option<[f64; 2]>) -> [Option<f64>; 2] {
    interval.map_or([None; 2], |ends| ends.map(Some))
}
