//! The run as a table with typed columns. Values can be missing.

use std::collections::BTreeSet;

use weir_results::{Cell, Run};

use crate::ExportError;
use crate::columns::{Column, columns};
use crate::entry::{Entry, entries};

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Whole numbers from 0; in Parquet, an unsigned INT64.
    Integer,
    /// Floating-point numbers; in Parquet, a DOUBLE.
    Float,
    /// Text in UTF-8.
    Text,
}

impl Kind {
    /// The name of the type in the reference.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Integer => "integer",
            Self::Float => "float",
            Self::Text => "text",
        }
    }
}

/// Describes a column for the reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDescription {
    /// Name of the column; `axis.PATH` stands for the columns of the axes.
    pub name: String,
    /// Name of the type of the column's values.
    pub kind: &'static str,
    /// Meaning of the column's values, in complete sentences.
    pub meaning: String,
}

/// A value in the table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Missing,
    Integer(u64),
    Float(f64),
    Text(String),
}

impl From<Option<u64>> for Value {
    fn from(value: Option<u64>) -> Self {
        value.map_or(Self::Missing, Self::Integer)
    }
}

impl From<Option<f64>> for Value {
    fn from(value: Option<f64>) -> Self {
        value.filter(|value| value.is_finite()).map_or(Self::Missing, Self::Float)
    }
}

impl From<Option<String>> for Value {
    fn from(value: Option<String>) -> Self {
        value.map_or(Self::Missing, Self::Text)
    }
}

/// A table: columns with name and type, and rows with one value per column.
pub(crate) struct Table {
    pub(crate) columns: Vec<(String, Kind)>,
    pub(crate) rows: Vec<Vec<Value>>,
}

/// Makes the table of a run; its rows are in the order of the plan.
pub(crate) fn table(run: &Run, cells: &[Cell]) -> Result<Table, ExportError> {
    let mut columns = columns();
    let behind = behind_repeat(&columns);
    columns.splice(behind..behind, axes(run));
    let row = |entry: &Entry<'_>| columns.iter().map(|column| (column.value)(entry)).collect();
    let rows = entries(run, cells)?.iter().map(row).collect();
    Ok(Table { columns: columns.into_iter().map(|column| (column.name, column.kind)).collect(), rows })
}

/// Describes the columns of every table. One description stands for the columns of all axes.
pub(crate) fn descriptions() -> Vec<ColumnDescription> {
    let columns = columns();
    let behind = behind_repeat(&columns);
    let describe = |column: Column| ColumnDescription {
        name: column.name,
        kind: column.kind.name(),
        meaning: column.meaning,
    };
    let mut descriptions: Vec<ColumnDescription> = columns.into_iter().map(describe).collect();
    descriptions.insert(behind, axis());
    descriptions
}

/// Describes the columns of all axes in a single entry.
fn axis() -> ColumnDescription {
    ColumnDescription {
        name: "axis.PATH".to_owned(),
        kind: "float or text",
        meaning: "Value of an axis; one column per axis, named by its path in the scenario \
                  (`axis.limits.data.cpus`). The column is text if any value of the axis is not a number."
            .to_owned(),
    }
}

fn behind_repeat(columns: &[Column]) -> usize {
    columns.iter().position(|column| column.name == "repeat").map_or(0, |place| place + 1)
}

/// One column per axis. It contains numbers if every value of the axis is a number, else text.
fn axes(run: &Run) -> Vec<Column> {
    let paths: BTreeSet<&String> = run.plan.iter().flat_map(|key| key.axes.keys()).collect();
    let column = |path: &String| {
        let name = format!("axis.{path}");
        let path = path.clone();
        let all_numbers =
            run.plan.iter().filter_map(|key| key.axes.get(&path)).all(serde_json::Value::is_number);
        if all_numbers {
            Column::float(name, "", move |entry| entry.cell.key.axes.get(&path)?.as_f64())
        } else {
            Column::text(name, "", move |entry| {
                let value = entry.cell.key.axes.get(&path)?;
                Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            })
        }
    };
    paths.into_iter().map(column).collect()
}
