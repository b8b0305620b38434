//! The tables of requests and of percentiles for a load point, with the columns of Locust's report.

use weir_analysis::{Point, Row, quantity};
use weir_results::ArrivalModel;

use crate::model::{Column, Entry, KEEP, Table};
use crate::sections::tables::{counts, figure, latency_entry, without_interval};

/// The columns of the percentile table, as in Locust. Each entry has the title, the name of the value, and the
/// importance of the column. The last entry is the maximum.
const PERCENTILES: [(&str, &str, u8); 11] = [
    ("50 %", "p50", KEEP),
    ("66 %", "p66", 1),
    ("75 %", "p75", 2),
    ("80 %", "p80", 1),
    ("90 %", "p90", 4),
    ("95 %", "p95", 3),
    ("98 %", "p98", 1),
    ("99 %", "p99", KEEP),
    ("99.9 %", "p999", 5),
    ("99.99 %", "p9999", 2),
    ("100 %", "max", 3),
];

/// The table of requests: counts, failures, response times and rates.
pub(crate) fn requests(point: &Point) -> Table {
    let columns = vec![
        Column::text("Gateway", KEEP),
        Column::number("Requests", KEEP),
        Column::number("Fails", KEEP),
        Column::number("Avg", 5),
        Column::number("Min", 3),
        Column::number("Max", 3),
        Column::number("Med", 5),
        Column::number("Req/s", KEEP),
        Column::number("Failures/s", 4),
        Column::text("Valid repeats", 6),
    ];
    let rows = point.rows.iter().map(|row| request_row(row, point.model == ArrivalModel::Closed)).collect();
    Table {
        caption: "Requests: counts from all repeats, response times from valid repeats".into(),
        columns,
        rows,
    }
}

/// The table of response times by percentile.
pub(crate) fn percentiles(point: &Point) -> Table {
    let mut columns = vec![Column::text("Gateway", KEEP)];
    columns.extend(PERCENTILES.map(|(title, _, keep)| Column::number(title, keep)));
    let rows = point
        .rows
        .iter()
        .map(|row| {
            let mut entries = vec![Entry::gateway(&row.gateway)];
            entries.extend(PERCENTILES.map(|(_, name, _)| latency_entry(row, name)));
            entries
        })
        .collect();
    Table { caption: "Response times by percentile".into(), columns, rows }
}

fn request_row(row: &Row, closed: bool) -> Vec<Entry> {
    let counted = &row.requests;
    let failures = match counted.fails_per_s {
        None => "n/a".to_owned(),
        Some(0.0) => "0/s".to_owned(),
        Some(per_s) => quantity::rate(per_s),
    };
    vec![
        Entry::gateway(&row.gateway),
        Entry::text(quantity::count(counted.requests)),
        Entry::text(quantity::count(counted.fails)),
        without_interval(latency_entry(row, "mean")),
        latency_entry(row, "min"),
        latency_entry(row, "max"),
        without_interval(latency_entry(row, "p50")),
        figure(&row.throughput_per_s, quantity::rate),
        Entry::text(failures),
        row.latency("p50").map_or_else(Entry::default, |of| counts(row, of, closed)),
    ]
}
