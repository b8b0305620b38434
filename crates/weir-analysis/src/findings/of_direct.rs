//! Finding: throughput through each gateway as a share of the direct baseline, for each limit of the data plane and
//! each number of users.

use super::model::{Column, Finding, KEEP, Row, Table, Unit, Value};
use super::users::of_point;
use super::{Finder, Former, Measured};
use crate::experiments::{DataLimit, Experiment};
use crate::points::{self, Point};

pub(super) const FINDER: Finder = Finder { key: "of-direct", columns: &[&SHARES], find };

const INTRO: &str = "Throughput through each gateway as share of the same load sent directly to the upstream in the \
    same repeat. If the rig limits the direct load, the share is an upper bound (≤).";

static SHARES: [Column; 4] = [
    Column::of("limit", "Limit", Unit::Text, KEEP).leading(),
    Column::of("users", "Users", Unit::Count, KEEP).leading(),
    Column::of("direct_throughput", "Direct RPS", Unit::PerSecond, 8).leading(),
    Column::of("share", "Share of direct", Unit::Share, KEEP).higher().compared("of-direct.share", 0.10),
];

fn find(measured: &Measured<'_>, _: &mut Former) -> Option<Finding> {
    let mut finding = Finding::new(FINDER.key, "Throughput relative to the direct baseline", INTRO);
    for experiment in measured.experiments {
        let rows = rows(experiment, measured.points);
        if !rows.is_empty() {
            finding.sentences.extend(experiment.direct_conclusions.iter().cloned());
            let caption = experiment.caption("Share of direct", measured.experiments);
            finding.tables.push(Table { caption, columns: &SHARES, rows });
        }
    }
    (!finding.tables.is_empty()).then_some(finding)
}

/// One row per gateway, for each limit of the data plane and each number of users.
fn rows(experiment: &Experiment, points: &[Point]) -> Vec<Row> {
    let at_limit = |limit: &DataLimit| -> Vec<Row> {
        let of_point = |at: &usize| rows_of(limit, &points[*at]);
        limit.closed.iter().flat_map(of_point).collect()
    };
    experiment.limits.iter().flat_map(at_limit).collect()
}

fn rows_of(limit: &DataLimit, point: &Point) -> Vec<Row> {
    let direct = Value::optional(point.direct().map(|row| &row.throughput_per_s));
    let row = |row: &points::Row| {
        let share = Value::Figure { figure: row.ratio_to_direct.as_ref()?.known() };
        let users = Value::count(point.connections.into());
        let values = vec![Value::text(limit.all_words()), users, direct.clone(), share];
        Some(of_point(point, &row.gateway, values))
    };
    point.gateways().filter_map(row).collect()
}
