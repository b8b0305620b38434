//! What gateways add to the latency of direct cells, as a finding: reports have it in tables of their own.

use weir_results::ArrivalModel;

use super::model::{Column, Finding, KEEP, Row, Table, Unit, Value};
use super::{Finder, Former, Measured};
use crate::points::{self, Point};

pub(super) const FINDER: Finder = Finder { key: "added-latency", columns: &[&COLUMNS], find };

static COLUMNS: [Column; 3] = [
    Column::of("mean", "Added mean", Unit::Nanoseconds, 6).lower().compared("added-latency.mean", 0.10),
    Column::of("p50", "Added p50", Unit::Nanoseconds, KEEP).lower().compared("added-latency.p50", 0.10),
    Column::of("p99", "Added p99", Unit::Nanoseconds, KEEP).lower().compared("added-latency.p99", 0.25),
];

fn find(measured: &Measured<'_>, _: &mut Former) -> Option<Finding> {
    let intro = "Difference of quantiles through the gateway and direct, in the same repeat, at open loads.";
    let mut finding = Finding { has_section: false, ..Finding::new(FINDER.key, "Added latency", intro) };
    let open = measured.points.iter().filter(|point| point.model == ArrivalModel::Open);
    finding.tables = open.map(table).filter(|table| !table.rows.is_empty()).collect();
    (!finding.tables.is_empty()).then_some(finding)
}

fn table(point: &Point) -> Table {
    let row = |row: &points::Row| {
        let values = COLUMNS.iter().map(|column| Value::optional(row.added_latency(column.key))).collect();
        let (gateway, load) = (row.gateway.clone(), point.load.clone());
        Row { gateway, load, axes: point.axes.clone(), values }
    };
    let added = point.gateways().filter(|row| !row.added_latency_ns.is_empty());
    Table {
        caption: format!("Added to direct latency: {}", point.words()),
        columns: &COLUMNS,
        rows: added.map(row).collect(),
    }
}
