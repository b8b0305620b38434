//! A table that shows the headline values of all gateways side by side.

use weir_analysis::{Point, Row, quantity};
use weir_results::{ArrivalModel, DIRECT};

use crate::model::{Column, Entry, KEEP, Table};
use crate::sections::tables::{cost, figure, latency_entry, microseconds, without_interval};

/// The headline values of each gateway at one combination of values of the axes: throughput and cost from a closed
/// loop, latency from an open loop.
pub(crate) fn glance(caption: String, points: &[&Point]) -> Table {
    let of_model = |model| points.iter().copied().filter(move |point: &&Point| point.model == model);
    // If there are several closed loops, the one with the most connections puts the highest load on the gateway.
    let closed = of_model(ArrivalModel::Closed).rev().max_by_key(|point| point.connections);
    let open = of_model(ArrivalModel::Open).next();
    let with = match closed {
        Some(point) if of_model(ArrivalModel::Closed).count() > 1 => format!(", {}", point.load),
        _ => String::new(),
    };
    let mut glance = Glance::of(points);
    if let Some(point) = closed.or(open) {
        glance.add(&format!("Mean RPS{with}"), KEEP, point, &|row| {
            figure(&row.throughput_per_s, quantity::rate)
        });
        glance.add("CPU % of limit", 8, point, &|row| {
            without_interval(cost(row, &row.cpu_share_of_limit, quantity::percent_of_limit))
        });
        glance.add("CPU per request", 5, point, &|row| cost(row, &row.cpu_us_per_request, microseconds));
        glance.add("Peak memory", 7, point, &|row| cost(row, &row.memory_bytes_peak, quantity::bytes));
    }
    if let Some(point) = open.or(closed) {
        let at = match point.rate_per_s {
            Some(per_s) => format!(" at {}", quantity::rate(per_s)),
            None => " at full load".to_owned(),
        };
        for (title, name, keep) in [("p50", "p50", 4), ("p99", "p99", KEEP), ("p99.9", "p999", 6)] {
            glance.add(&format!("{title}{at}"), keep, point, &|row| latency_entry(row, name));
        }
    }
    Table { caption, columns: glance.columns, rows: glance.rows }
}

/// A table with one row per gateway, to which columns are added one by one.
struct Glance<'a> {
    names: Vec<&'a str>,
    columns: Vec<Column>,
    rows: Vec<Vec<Entry>>,
}

impl<'a> Glance<'a> {
    fn of(points: &[&'a Point]) -> Self {
        let mut names: Vec<&str> = Vec::new();
        for row in points.iter().flat_map(|point| &point.rows) {
            if !names.contains(&row.gateway.as_str()) {
                names.push(&row.gateway);
            }
        }
        names.sort_by_key(|name| *name == DIRECT);
        let rows = names.iter().map(|name| vec![Entry::gateway(name)]).collect();
        Self { names, columns: vec![Column::text("Gateway", KEEP)], rows }
    }

    fn add(&mut self, title: &str, keep: u8, point: &Point, of: &dyn Fn(&Row) -> Entry) {
        self.columns.push(Column::number(title, keep));
        for (name, entries) in self.names.iter().zip(&mut self.rows) {
            let row = point.rows.iter().find(|row| row.gateway == *name);
            entries.push(row.map_or_else(|| Entry::text("–"), of));
        }
    }
}
