//! The capacity at an objective, as a finding.

use weir_results::DIRECT;

use super::model::{Column, Finding, KEEP, Row, Table, Unit, Value};
use super::{Finder, Former, Measured};
use crate::capacity::{Capacity, CapacityRow, Searched, stopped_words};
use crate::figures::figure::Sample;

pub(super) const FINDER: Finder = Finder { key: "capacity", columns: &[&OVER_REPEATS, &SEARCHES], find };

const INTRO: &str = "The highest rate that meets the objective. weir searches for it with many short open loads and \
    evaluates them together, so no single trial decides. Each repeat has new processes and its own search.";

static OVER_REPEATS: [Column; 6] = [
    Column::of("rate", "Capacity", Unit::PerSecond, KEEP)
        .higher()
        .judged("capacity.rate", 0.10)
        .absent("no capacity found"),
    Column::of("at_least", "At least", Unit::PerSecond, KEEP).higher(),
    Column::of("limited_by", "First limit missed", Unit::Text, 6),
    Column::of("trials", "Trials", Unit::Count, 8),
    Column::of("stopped", "Stop reason", Unit::Text, 7),
    Column::of("valid", "Valid repeats", Unit::Text, KEEP),
];

static SEARCHES: [Column; 7] = [
    Column::of("repeat", "Repeat", Unit::Count, KEEP),
    Column::of("found", "Capacity", Unit::PerSecond, KEEP),
    Column::of("carried", "At least", Unit::PerSecond, KEEP),
    Column::of("below", "Below", Unit::PerSecond, 6),
    Column::of("trials", "Trials", Unit::Count, KEEP),
    Column::of("invalid_trials", "Invalid", Unit::Count, 5),
    Column::of("stopped", "Stop reason", Unit::Text, 7),
];

fn find(measured: &Measured<'_>, _: &mut Former) -> Option<Finding> {
    let capacities = measured.capacities;
    let mut finding = Finding::new(FINDER.key, "Capacity", INTRO);
    finding.sentences = capacities.iter().flat_map(|capacity| capacity.conclusions.clone()).collect();
    finding.tables = capacities.iter().flat_map(|of| [over_repeats(of), searches(of)]).collect();
    (!capacities.is_empty()).then_some(finding)
}

fn over_repeats(capacity: &Capacity) -> Table {
    let row = |row: &CapacityRow| {
        let values = vec![
            Value::figure(&row.per_s),
            row.at_least_per_s().map_or(Value::Missing, Value::number),
            limited_by(row),
            Value::count(row.trials()),
            Value::text(stopped(row)),
            // The rig may limit the direct baseline, so invalid repeats of the baseline are expected.
            Value::valid_of(&row.per_s, row.planned, row.gateway == DIRECT),
        ];
        of_gateway(capacity, row, values)
    };
    Table {
        caption: format!("Capacity: {}", capacity.words()),
        columns: &OVER_REPEATS,
        rows: capacity.rows.iter().map(row).collect(),
    }
}

fn of_gateway(capacity: &Capacity, row: &CapacityRow, values: Vec<Value>) -> Row {
    let (gateway, load) = (row.gateway.clone(), capacity.load.clone());
    Row { gateway, load, axes: capacity.axes.clone(), values }
}

/// The limits of the objective that fail first when the rate rises: one per search, without duplicates.
fn limited_by(row: &CapacityRow) -> Value {
    let mut names: Vec<&str> = Vec::new();
    for name in row.searches.iter().filter_map(|searched| searched.found.limited_by.as_deref()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() { Value::Missing } else { Value::text(names.join(", ")) }
}

fn stopped(row: &CapacityRow) -> String {
    let all = row.searches.len();
    let each = row.stopped().into_iter().map(|(stopped, n)| match n == all {
        true => stopped_words(stopped).to_owned(),
        false => format!("{} {n}×", stopped_words(stopped)),
    });
    each.collect::<Vec<_>>().join(", ")
}

/// The table with the search of each repeat. Each interval comes from the trials of one search.
fn searches(capacity: &Capacity) -> Table {
    let one = |row: &CapacityRow, searched: &Searched| {
        let (found, repeat) = (&searched.found, searched.repeat.saturating_add(1));
        let estimate = |value: Option<f64>, interval| match value {
            Some(value) => {
                Value::Estimate { sample: Sample::Value(value), interval, valid: searched.reasons.is_empty() }
            }
            None => Value::Missing,
        };
        // `at_least_per_s` and `below_per_s` are shown only if the search found no capacity.
        let known = |border: Option<f64>| estimate(border.filter(|_| found.capacity_per_s.is_none()), None);
        let values = vec![
            Value::count(repeat.into()),
            estimate(found.capacity_per_s, found.interval_per_s),
            known(found.at_least_per_s),
            known(found.below_per_s),
            Value::count(found.trials.into()),
            Value::count(found.invalid.into()),
            Value::text(stopped_words(found.stopped)),
        ];
        let mut row = of_gateway(capacity, row, values);
        row.axes.insert("repeat".into(), repeat.into());
        row
    };
    let rows = capacity.rows.iter().flat_map(|row| row.searches.iter().map(move |search| one(row, search)));
    Table {
        caption: format!("All searches, with intervals from their own trials: {}", capacity.words()),
        columns: &SEARCHES,
        rows: rows.collect(),
    }
}
