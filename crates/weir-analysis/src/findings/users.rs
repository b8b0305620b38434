//! Finding: throughput by number of users, for each limit of the data plane.

use super::model::{Column, Finding, KEEP, Row, Table, Unit, Value};
use super::{Finder, Former, Measured};
use crate::experiments::{DataLimit, Experiment};
use crate::figures::quantity::percent;
use crate::points::{self, Point};

pub(super) const FINDER: Finder = Finder { key: "users", columns: &[&CLOSED, &OPEN], find };

static CLOSED: [Column; 9] = [
    Column::of("limit", "Limit", Unit::Text, KEEP).once(),
    Column::of("users", "Users", Unit::Count, KEEP),
    Column::of("throughput", "RPS", Unit::PerSecond, KEEP).higher(),
    Column::of("cpu_share_of_limit", "CPU % range", Unit::Share, KEEP),
    Column::of("cpu_per_request", "CPU per request", Unit::Microseconds, 3).lower(),
    Column::of("p99", "p99", Unit::Nanoseconds, 2),
    Column::of("of_direct", "Of direct", Unit::Share, 7).higher(),
    Column::of("valid", "Valid repeats", Unit::Text, 6),
    Column::of("analysis", "Analysis", Unit::Prose, KEEP).once(),
];

static OPEN: [Column; 5] = [
    Column::of("limit", "Limit", Unit::Text, KEEP).leading(),
    Column::of("rate", "Offered", Unit::PerSecond, KEEP).leading(),
    Column::of("open_p50", "p50", Unit::Nanoseconds, KEEP).lower(),
    Column::of("open_p99", "p99", Unit::Nanoseconds, KEEP).lower(),
    Column::of("valid", "Valid repeats", Unit::Text, 6),
];

fn find(measured: &Measured<'_>, _: &mut Former) -> Option<Finding> {
    let full_share = percent(measured.run.thresholds.full_load_share);
    let intro = format!(
        "Closed-loop connections (users) at each limit of the data plane. Full load is at least {full_share} of the \
        CPU limit; throughput there is the maximum for that limit. CPU % range is the minimum and maximum per second \
        of the sustained phases, as share of the limit."
    );
    let mut finding = Finding::new(FINDER.key, "Users at each limit", intro);
    for experiment in measured.experiments {
        finding.sentences.extend(experiment.users_conclusions.iter().cloned());
        finding.tables.extend(tables(experiment, measured));
    }
    (!finding.tables.is_empty()).then_some(finding)
}

/// If the data plane has only one limit, returns one table for all gateways. Otherwise, returns one table per gateway,
/// and one more table for the open loads, if there are any.
fn tables(experiment: &Experiment, measured: &Measured<'_>) -> Vec<Table> {
    let of = Users { experiment, points: measured.points };
    let caption = |what: &str| experiment.caption(what, measured.experiments);
    let gateways = experiment.gateways();
    if experiment.limits.len() < 2 {
        let rows = gateways.into_iter().flat_map(|gateway| of.closed(gateway)).collect();
        return vec![Table { caption: caption("Users"), columns: &CLOSED, rows }];
    }
    let of_gateway = |gateway: &&str| Table {
        caption: caption(&format!("Users at each limit of {gateway}")),
        columns: &CLOSED,
        rows: of.closed(gateway),
    };
    let mut tables: Vec<Table> = gateways.iter().map(of_gateway).collect();
    let rows = of.open(&gateways);
    if !rows.is_empty() {
        tables.push(Table { caption: caption("Latency of open loads at each limit"), columns: &OPEN, rows });
    }
    tables
}

struct Users<'a> {
    experiment: &'a Experiment,
    points: &'a [Point],
}

impl Users<'_> {
    /// One row for each limit of the data plane and each number of users.
    fn closed(&self, gateway: &str) -> Vec<Row> {
        let at_limit = |(place, limit): (usize, &DataLimit)| -> Vec<Row> {
            let analysis = self.experiment.saturation(gateway, place).map_or("", |of| of.analysis.as_str());
            let row = |at: &usize| {
                let point = &self.points[*at];
                let mut values = vec![Value::text(limit.all_words()), Value::count(point.connections.into())];
                values.extend(match point.row(gateway) {
                    Some(row) => carried(row),
                    None => [const { Value::Missing }; 6],
                });
                values.push(Value::text(analysis));
                of_point(point, gateway, values)
            };
            limit.closed.iter().map(row).collect()
        };
        self.experiment.limits.iter().enumerate().flat_map(at_limit).collect()
    }

    /// One row per gateway, for each limit of the data plane and each open load.
    fn open(&self, gateways: &[&str]) -> Vec<Row> {
        let places =
            self.experiment.limits.iter().flat_map(|limit| limit.open.iter().map(move |at| (limit, at)));
        let of_load = |(limit, at): (&DataLimit, &usize)| -> Vec<Row> {
            let point = &self.points[*at];
            let row = |gateway: &&str| {
                let row = point.row(gateway)?;
                let latency = |name: &str| Value::optional(row.latency(name));
                let valid = row.latency("p50").unwrap_or(&row.throughput_per_s);
                let values = vec![
                    Value::text(limit.all_words()),
                    point.rate_per_s.map_or(Value::Missing, Value::number),
                    latency("p50"),
                    latency("p99"),
                    Value::valid_of_row(row, valid, false),
                ];
                Some(of_point(point, gateway, values))
            };
            gateways.iter().filter_map(row).collect()
        };
        places.flat_map(of_load).collect()
    }
}

/// Results of a closed load: the values from the column `throughput` to the column `valid`.
fn carried(row: &points::Row) -> [Value; 6] {
    let range = row.cpu_share_range.map(|of| Value::Extremes {
        least: of.least,
        greatest: of.greatest,
        valid: of.counts,
    });
    [
        Value::figure(&row.throughput_per_s),
        range.unwrap_or(Value::Missing),
        Value::figure(&row.cpu_us_per_request),
        Value::optional(row.latency("p99")),
        row.ratio_to_direct.as_ref().map_or(Value::Missing, |of| Value::Figure { figure: of.known() }),
        Value::valid_of_row(row, &row.throughput_per_s, true),
    ]
}

/// A row of a finding about a gateway at a load point.
pub(super) fn of_point(point: &Point, gateway: &str, values: Vec<Value>) -> Row {
    Row { gateway: gateway.to_owned(), load: point.load.clone(), axes: point.axes.clone(), values }
}
