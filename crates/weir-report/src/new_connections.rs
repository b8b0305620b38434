//! Tables of new connections: how many a second, what each costs, how long handshakes take.

use weir_analysis::{Figure, NewConnections, NewConnectionsRow, Summary, quantity, reason_name};
use weir_results::DIRECT;

use crate::headroom::about;
use crate::model::{Chip, Column, Entry, KEEP, Section, Table, Tone};
use crate::tables::{figure, microseconds};

/// The section; `None` where connections are kept, or where what limits carry has it already.
pub(crate) fn section(summary: &Summary) -> Option<Section> {
    if summary.new_connections.is_empty() || summary.domains.is_some() {
        return None;
    }
    Some(Section {
        id: "new-connections".into(),
        title: "New connections".into(),
        intro: "Results of loads that close each connection after a number of requests. The closed load shows \
            the maximum rate of new connections; its handshakes wait in a saturated gateway. The open load \
            shows how long a handshake takes below saturation. CPU time includes the requests. Handshake \
            times start when the TCP connection is established, and exclude the connections opened before the \
            load starts. Failed handshakes and failed connects are counted together."
            .into(),
        conclusions: summary.new_connections.iter().flat_map(|load| load.conclusions.clone()).collect(),
        tables: summary.new_connections.iter().map(table).collect(),
    })
}

fn table(load: &NewConnections) -> Table {
    let columns = vec![
        Column::text("Gateway", KEEP),
        Column::number("New connections", KEEP),
        Column::number("CPU per connection", KEEP),
        Column::number("Without requests", 6),
        Column::number("Handshake p50", 6),
        Column::number("Handshake p99", 8),
        Column::number("Resumed", 5),
        Column::number("Failed", 7),
        Column::text("Valid repeats", 7),
    ];
    let requests = match load.per_connection {
        1 => "one request each".to_owned(),
        more => format!("{} requests each", quantity::count(more)),
    };
    Table {
        caption: format!("{}, {requests}", about(&load.load, &load.axes)),
        columns,
        rows: load.rows.iter().map(row).collect(),
    }
}

fn row(row: &NewConnectionsRow) -> Vec<Entry> {
    let optional = |of: &Option<Figure>, format: fn(f64) -> String| {
        of.as_ref().map_or_else(|| Entry::text("–"), |of| figure(of, format))
    };
    let is_direct = row.gateway == DIRECT;
    let cpu = if is_direct { Entry::text("–") } else { figure(&row.cpu_us, microseconds) };
    let alone = if is_direct { Entry::text("–") } else { optional(&row.connection_cpu_us, microseconds) };
    let chip = |(reason, _)| Chip { text: reason_name(reason).to_owned(), tone: Tone::Plain };
    let reasons = row.per_s.reasons().into_iter().map(chip).collect();
    vec![
        Entry::gateway(&row.gateway),
        figure(&row.per_s, quantity::rate),
        cpu,
        alone,
        optional(&row.handshake_p50_ns, quantity::time_ns),
        optional(&row.handshake_p99_ns, quantity::time_ns),
        optional(&row.resumed_share, quantity::percent),
        Entry::text(quantity::count(row.failed)),
        Entry::chips(format!("{} of {}", row.per_s.valid, row.per_s.repeats.len()), reasons),
    ]
}
