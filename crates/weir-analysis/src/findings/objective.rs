//! Objectives of findings (`docs/scenarios.md#objectives`). A limit names a metric, and is judged in each row that has
//! a value of this metric.

use std::collections::BTreeMap;

use serde::Serialize;
use weir_results::{DIRECT, Objective};

use super::model::{Better, Column, Finding, Row, Value};
use super::{column_named, metric};
use crate::figures::figure::Figure;
use crate::points::gateways::Gateway;
use crate::points::objective::{Bound, ObjectiveResult};

/// The result of an objective for one value of a finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FindingObjective {
    /// The gateway's name.
    pub gateway: String,
    /// The row of the finding in words: `tail; fault = 1: replica 1 killed`. Empty if the run has no value of the
    /// limited metric.
    pub place: String,
    /// The result: limit, value, and whether the limit was met.
    pub result: ObjectiveResult,
}

/// Judges every limited value of `findings`. A gateway without a value for one of its limits gets an undecided result.
pub(crate) fn evaluate(
    objective: &Objective,
    findings: &[Finding],
    gateways: &[Gateway],
) -> Vec<FindingObjective> {
    let mut results: Vec<FindingObjective> = Vec::new();
    let is_judged = |row: &&Row| row.gateway != DIRECT && is_one(gateways, &row.gateway);
    for finding in findings {
        for table in &finding.tables {
            for row in table.rows.iter().filter(is_judged) {
                let limits = objective.findings_of(&row.gateway, &row.axes, &row.load);
                results.extend(judge_row(finding.key, table.columns, row, limits));
            }
        }
    }
    for gateway in gateways.iter().filter(|gateway| gateway.name != DIRECT) {
        for (name, limit) in all_limits(objective, &gateway.name) {
            let has_result = |of: &FindingObjective| of.gateway == gateway.name && of.result.name == *name;
            if let Some(column) = column_named(name).filter(|_| !results.iter().any(has_result)) {
                let bound = bound(name, column, *limit);
                let result = bound.undecided(&Figure::default(), "the run has no value of this metric");
                let gateway = gateway.name.clone();
                results.push(FindingObjective { gateway, place: String::new(), result });
            }
        }
    }
    results
}

fn is_one(gateways: &[Gateway], name: &str) -> bool {
    gateways.iter().any(|gateway| gateway.name == name)
}

/// The limits that apply to `gateway` in at least one load, one limit per metric.
fn all_limits<'a>(objective: &'a Objective, gateway: &str) -> BTreeMap<&'a String, &'a f64> {
    let own = objective.own.iter().filter(|own| own.gateway == gateway).flat_map(|own| &own.findings);
    own.chain(&objective.findings).collect()
}

fn judge_row<'a>(
    finding: &'a str,
    columns: &'a [Column],
    row: &'a Row,
    limits: &'a BTreeMap<String, f64>,
) -> impl Iterator<Item = FindingObjective> + 'a {
    let judged = columns.iter().zip(&row.values).filter(|(column, _)| column.better.is_some());
    judged.filter_map(move |(column, value)| {
        let name = metric(finding, column);
        let limit = limits.get(&name)?;
        let result = judge(&bound(&name, column, *limit), value)?;
        Some(FindingObjective { gateway: row.gateway.clone(), place: row.place(), result })
    })
}

fn bound<'a>(name: &'a str, column: &'a Column, limit: f64) -> Bound<'a> {
    let is_least = column.better == Some(Better::Higher);
    Bound { name, limit, is_least, format: Box::new(|value| column.words(value)), beyond: column.beyond }
}

/// Judges a value by its limit; `None` if the column does not apply to the row, or holds text or several numbers.
fn judge(bound: &Bound<'_>, value: &Value) -> Option<ObjectiveResult> {
    match value {
        Value::Missing | Value::Text { .. } | Value::Extremes { .. } | Value::Valid { .. } => None,
        Value::Number { number: None, words } => {
            let why = words.as_deref().unwrap_or("not measured");
            Some(bound.undecided(&Figure::default(), why))
        }
        Value::Number { .. } | Value::Estimate { .. } | Value::Part { .. } => {
            value.as_number().map(|number| bound.exactly(number))
        }
        Value::Figure { figure } => Some(bound.judge(figure)),
    }
}
