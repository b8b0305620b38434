//! The capacity at an objective, as a finding: reports have a section of their own with each search.

use super::model::{Column, Finding, KEEP, Row, Table, Unit, Value};
use super::{Finder, Former, Measured};
use crate::capacity::{Capacity, CapacityRow};

pub(super) const FINDER: Finder = Finder { key: "capacity", columns: &[&COLUMNS], find };

static COLUMNS: [Column; 3] = [
    Column::of("rate", "Capacity", Unit::PerSecond, KEEP)
        .higher()
        .judged("capacity.rate", 0.10)
        .absent("no capacity found"),
    Column::of("at_least", "At least", Unit::PerSecond, KEEP).higher(),
    Column::of("trials", "Trials", Unit::Count, 8),
];

fn find(measured: &Measured<'_>, _: &mut Former) -> Option<Finding> {
    let capacities = measured.capacities;
    let intro = "The highest rate that meets the objective, over repeats with a search each.";
    let mut finding = Finding { has_section: false, ..Finding::new(FINDER.key, "Capacity", intro) };
    finding.sentences = capacities.iter().flat_map(|capacity| capacity.conclusions.clone()).collect();
    finding.tables = capacities.iter().map(table).collect();
    (!capacities.is_empty()).then_some(finding)
}

fn table(capacity: &Capacity) -> Table {
    let row = |row: &CapacityRow| {
        let at_least = row.at_least_per_s().map_or(Value::Missing, Value::number);
        let values = vec![Value::figure(&row.per_s), at_least, Value::count(row.trials())];
        let (gateway, load) = (row.gateway.clone(), capacity.load.clone());
        Row { gateway, load, axes: capacity.axes.clone(), values }
    };
    Table {
        caption: format!("Capacity: {}", capacity.words()),
        columns: &COLUMNS,
        rows: capacity.rows.iter().map(row).collect(),
    }
}
