//! Converts findings to sections and tables of the report model.

use std::iter;

use weir_analysis::findings::{Column as Of, Finding, Row, Table as Values, Unit, Value};
use weir_analysis::{Sample, Summary, quantity};

use crate::model::{Column, Entry, KEEP, Section, Table};
use crate::sections::tables::{errors_of, figure, valid_repeats, without_interval};

/// One section for each finding with `has_section`.
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

/// Converts a table. Consecutive rows form a group if they have equal values in the leading columns. Without leading
/// columns, they form a group if they have the same gateway, the same load, and equal values in the columns marked
/// `once`. The columns that define a group are shown once per group.
fn table(values: &Values) -> Table {
    let order = order(values.columns);
    let heading = |at: &At| match at {
        At::Gateway => Column::text("Gateway", KEEP),
        At::Value(place) => column(&values.columns[*place]),
    };
    let leading = order.iter().take_while(|at| **at != At::Gateway).count();
    let is_once = |at: &At| match at {
        At::Gateway => false,
        At::Value(place) => values.columns[*place].unit == Unit::Load || values.columns[*place].once,
    };
    let once = order.iter().enumerate().filter(|(_, at)| is_once(at)).map(|(place, _)| place);
    let merged: Vec<usize> =
        if leading == 0 { iter::once(0).chain(once).collect() } else { (0..leading).collect() };
    let is_same = |at: &At, row: &Row, next: &Row| match at {
        At::Gateway => row.gateway == next.gateway,
        At::Value(at) if values.columns[*at].unit == Unit::Load => {
            row.place_beside(values.columns) == next.place_beside(values.columns)
        }
        At::Value(at) => row.values[*at] == next.values[*at],
    };
    let is_one = |row: &Row, next: &Row| merged.iter().all(|at| is_same(&order[*at], row, next));
    let groups = values.rows.chunk_by(is_one);
    let groups = groups.map(|group| group.iter().map(|row| entries(values.columns, &order, row)).collect());
    Table {
        caption: values.caption.clone(),
        columns: order.iter().map(heading).collect(),
        rows: Table::merged(groups.collect(), &merged),
    }
}

/// What a column of the converted table shows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Gateway,
    /// The value with this index in each row.
    Value(usize),
}

/// The order of the columns: first the leading columns, then the gateway, then the others.
fn order(columns: &[Of]) -> Vec<At> {
    let of = |leads: bool| {
        let places = columns.iter().enumerate().filter(move |(_, column)| column.leads == leads);
        places.map(|(place, _)| At::Value(place))
    };
    of(true).chain([At::Gateway]).chain(of(false)).collect()
}

fn column(of: &Of) -> Column {
    match of.unit {
        Unit::Prose => Column::prose(of.title),
        Unit::Text | Unit::Load => Column::text(of.title, of.keep),
        _ => Column::number(of.title, of.keep),
    }
}

fn entries(columns: &[Of], order: &[At], row: &Row) -> Vec<Entry> {
    let at = |at: &At| match at {
        At::Gateway => Entry::gateway(&row.gateway),
        At::Value(place) if columns[*place].unit == Unit::Load => Entry::text(row.place_beside(columns)),
        At::Value(place) => entry(&columns[*place], &row.values[*place]),
    };
    order.iter().map(at).collect()
}

fn entry(column: &Of, value: &Value) -> Entry {
    let entry = match value {
        Value::Missing => Entry::text("–"),
        Value::Text { text } => Entry::text(text),
        Value::Number { words: Some(words), .. } => Entry::text(words),
        Value::Number { number, words: None } => {
            Entry::text(number.map_or_else(|| "n/a".to_owned(), |number| column.words(number)))
        }
        Value::Estimate { sample, interval, valid } => estimate(column, *sample, *interval, *valid),
        Value::Part { part, of } => errors_of(*part, *of),
        Value::Figure { figure: of } => {
            let entry = figure(of, |value| column.words(value));
            if of.beyond_timeout { Entry { text: column.beyond.to_owned(), ..entry } } else { entry }
        }
        Value::Extremes { least, greatest, valid } => extremes(column, *least, *greatest, *valid),
        Value::Valid { .. } => valid_repeats(value),
    };
    if column.bare { without_interval(entry) } else { entry }
}

fn extremes(column: &Of, least: f64, greatest: f64, valid: bool) -> Entry {
    let words = |value: f64| match column.unit {
        Unit::Share => quantity::percent_of_limit(value),
        _ => column.words(value),
    };
    let [low, high] = [least, greatest].map(words);
    let text = if low == high { high } else { quantity::between(&low, &high) };
    Entry { text, invalid: !valid, ..Entry::default() }
}

fn estimate(column: &Of, sample: Sample, interval: Option<[f64; 2]>, valid: bool) -> Entry {
    let words = |value: f64| column.words(value);
    let (text, under) = match sample {
        Sample::Value(value) => {
            let range = |[low, high]: [f64; 2]| quantity::range(&words(value), &words(low), &words(high));
            (words(value), interval.map(range))
        }
        Sample::BeyondTimeout => (column.beyond.to_owned(), None),
        Sample::Missing => ("n/a".to_owned(), None),
    };
    Entry { under, invalid: !valid, ..Entry::text(text) }
}
