//! Sections of findings: their tables as the model of reports has them.

use weir_analysis::Summary;
use weir_analysis::findings::{Column as Of, Finding, Row, Table as Values, Unit, Value};

use crate::model::{Column, Entry, KEEP, Section, Table};
use crate::sections::tables::{errors_of, figure, valid_repeats};

/// A section for each finding.
pub(crate) fn sections(summary: &Summary) -> impl Iterator<Item = Section> {
    summary.findings.iter().filter(|finding| finding.has_section).map(section)
}

fn section(finding: &Finding) -> Section {
    Section {
        id: finding.key.to_owned(),
        title: finding.title.to_owned(),
        intro: finding.intro.clone(),
        conclusions: finding.sentences.clone(),
        tables: finding.tables.iter().map(table).collect(),
    }
}

/// Rows grouped by gateway, which stands once, and so does its load.
fn table(values: &Values) -> Table {
    let mut columns = vec![Column::text("Gateway", KEEP)];
    columns.extend(values.columns.iter().map(column));
    let loads = values.columns.iter().enumerate().filter(|(_, column)| column.unit == Unit::Load);
    let merged: Vec<usize> = std::iter::once(0).chain(loads.map(|(place, _)| place + 1)).collect();
    let place = |row: &Row| row.place_beside(values.columns);
    let is_one = |row: &Row, next: &Row| {
        row.gateway == next.gateway && (merged.len() == 1 || place(row) == place(next))
    };
    let groups = values.rows.chunk_by(is_one);
    let groups = groups.map(|group| group.iter().map(|row| entries(values.columns, row)).collect());
    Table { caption: values.caption.clone(), columns, rows: Table::merged(groups.collect(), &merged) }
}

fn column(of: &Of) -> Column {
    match of.unit {
        Unit::Text | Unit::Load => Column::text(of.title, of.keep),
        _ => Column::number(of.title, of.keep),
    }
}

fn entries(columns: &[Of], row: &Row) -> Vec<Entry> {
    let of_column = |(column, value): (&Of, &Value)| match column.unit {
        Unit::Load => Entry::text(row.place_beside(columns)),
        _ => entry(column, value),
    };
    let values = columns.iter().zip(&row.values).map(of_column);
    std::iter::once(Entry::gateway(&row.gateway)).chain(values).collect()
}

fn entry(column: &Of, value: &Value) -> Entry {
    match value {
        Value::Missing => Entry::text("–"),
        Value::Text { text } => Entry::text(text),
        Value::Number { words: Some(words), .. } => Entry::text(words),
        Value::Number { number, words: None } => {
            Entry::text(number.map_or_else(|| "n/a".to_owned(), |number| column.words(number)))
        }
        Value::Part { part, of } => errors_of(*part, *of),
        Value::Figure { figure: of } => {
            let entry = figure(of, |value| column.words(value));
            if of.beyond_timeout { Entry { text: column.beyond.to_owned(), ..entry } } else { entry }
        }
        Value::Valid { .. } => valid_repeats(value),
    }
}
