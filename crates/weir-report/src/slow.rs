//! Tables of slow clients: what became of them, and what they cost the load beside them and the gateway's memory.

use weir_analysis::{Alone, Figure, SlowCost, Summary, quantity};
use weir_results::SlowCounts;

use crate::headroom::about;
use crate::model::{Column, Entry, KEEP, Section, Table};
use crate::tables::{errors_of, figure};

/// The section; `None` for a run without slow clients.
pub(crate) fn section(summary: &Summary) -> Option<Section> {
    if summary.slow.is_empty() {
        return None;
    }
    Some(Section {
        id: "slow-clients".into(),
        title: "Slow clients".into(),
        intro: "Slow clients send request headers or bodies, or read responses, in small pieces while weir \
            measures a load. The table compares this load with the same load without slow clients, against \
            the same processes: errors, p99, and peak memory of the data plane. Memory per client is the \
            difference of the peaks, divided by the number of slow clients. Direct cells have no slow clients."
            .into(),
        conclusions: summary.slow.iter().map(|cost| cost.conclusion.clone()).collect(),
        tables: vec![costs(&summary.slow), clients(&summary.slow)],
    })
}

fn costs(all: &[SlowCost]) -> Table {
    let columns = vec![
        Column::text("Gateway", KEEP),
        Column::text("Load", 5),
        Column::number("Slow clients", KEEP),
        Column::number("Errors", KEEP),
        Column::number("Errors, alone", 4),
        Column::number("p99", KEEP),
        Column::number("p99, alone", 7),
        Column::number("Memory", 6),
        Column::number("Memory, alone", 6),
        Column::number("Memory per client", KEEP),
    ];
    let row = |cost: &SlowCost| {
        let alone = cost.alone.as_ref();
        let figure_of = |of: fn(&Alone) -> &Figure, format: fn(f64) -> String| {
            alone.map_or_else(|| Entry::text("–"), |alone| figure(of(alone), format))
        };
        vec![
            Entry::gateway(&cost.gateway),
            Entry::text(about(&cost.load, &cost.axes)),
            Entry::text(quantity::count(u64::from(cost.total().connections))),
            errors_of(cost.beside.errors, cost.beside.sent),
            alone.map_or_else(
                || Entry::text("–"),
                |alone| errors_of(alone.carried.errors, alone.carried.sent),
            ),
            figure(&cost.beside.p99_ns, quantity::time_ns),
            figure_of(|alone| &alone.carried.p99_ns, quantity::time_ns),
            figure(&cost.beside.memory_bytes_peak, quantity::bytes),
            figure_of(|alone| &alone.carried.memory_bytes_peak, quantity::bytes),
            figure_of(|alone| &alone.memory_bytes_per_client, quantity::bytes),
        ]
    };
    let caption = "Cost of slow clients".to_owned();
    Table { caption, columns, rows: all.iter().map(row).collect() }
}

fn clients(all: &[SlowCost]) -> Table {
    let columns = vec![
        Column::text("Gateway", KEEP),
        Column::text("Load", 5),
        Column::text("Slow", KEEP),
        Column::number("Concurrent", KEEP),
        Column::number("Connections", 6),
        Column::number("Answered", KEEP),
        Column::number("Unexpected status", 7),
        Column::number("Disconnected", 7),
        Column::number("Refused", 7),
        Column::number("Open at the end", 5),
    ];
    let group = |cost: &SlowCost| -> Vec<Vec<Entry>> {
        let kinds = [
            ("heads", cost.clients.heads),
            ("bodies", cost.clients.bodies),
            ("responses", cost.clients.responses),
        ];
        let row = |(name, counts): (&str, SlowCounts)| {
            let numbers = [
                u64::from(counts.connections),
                counts.opened,
                counts.answered,
                counts.unexpected,
                counts.broken,
                counts.refused,
                counts.open_at_end,
            ];
            let first = [
                Entry::gateway(&cost.gateway),
                Entry::text(about(&cost.load, &cost.axes)),
                Entry::text(name),
            ];
            first.into_iter().chain(numbers.map(|number| Entry::text(quantity::count(number)))).collect()
        };
        kinds.into_iter().filter(|(_, counts)| counts.connections > 0).map(row).collect()
    };
    Table {
        caption: "Outcomes of slow clients, all repeats".into(),
        columns,
        rows: Table::merged(all.iter().map(group).collect(), &[0, 1]),
    }
}
