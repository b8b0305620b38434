//! The table of all loads of all cells, each with its verdict and the reasons for it.

use weir_analysis::{axes_words, bound_name, bounds_words, quantity, reason_name, reasons_and_range, value};
use weir_results::{Cell, CellKey, CellOutcome, Measurement, Reason, is_baseline};

use crate::model::{Chip, Column, Entry, KEEP, Table, Tone};
use crate::pages::cell_page;
use crate::sections::tables::microseconds;
use crate::sections::trials::load_name;

/// The table of all loads of all cells, in the order in which the cells ran.
pub(crate) fn cells(cells: &[Cell]) -> Table {
    let has_axes = cells.iter().any(|cell| !cell.key.axes.is_empty());
    let mut columns = vec![
        Column::number("Cell", KEEP),
        Column::text("Gateway", KEEP),
        Column::number("Repeat", KEEP),
        Column::text("Load", KEEP),
        Column::number("Throughput", KEEP),
        Column::number("p50", KEEP),
        Column::number("p99", KEEP),
        Column::number("CPU per request", KEEP),
        Column::number("Errors", KEEP),
        Column::text("Limited by", KEEP),
        Column::text("Verdict", KEEP),
    ];
    if has_axes {
        columns.insert(2, Column::text("Axes", KEEP));
    }
    let mut ordered: Vec<&Cell> = cells.iter().collect();
    ordered.sort_by_key(|cell| cell.key.index);
    let rows = ordered.into_iter().flat_map(rows).map(|mut row| {
        if !has_axes {
            row.remove(2);
        }
        row
    });
    Table { caption: "All loads of all cells".into(), columns, rows: rows.collect() }
}

/// The name of a cell: gateway, values of the axes, and repeat.
pub(crate) fn cell_name(key: &CellKey) -> String {
    let axes = axes_words(&key.axes);
    let axes = if axes.is_empty() { axes } else { format!(", {axes}") };
    format!("{}{axes}, repeat {}", key.gateway, key.repeat.saturating_add(1))
}

fn rows(cell: &Cell) -> Vec<Vec<Entry>> {
    let named = |load: &str| {
        vec![
            Entry {
                link: Some(cell_page::path(&cell.key)),
                ..Entry::text(cell.key.index.saturating_add(1).to_string())
            },
            Entry::gateway(&cell.key.gateway),
            Entry::text(axes_words(&cell.key.axes)),
            Entry::text(cell.key.repeat.saturating_add(1).to_string()),
            Entry::text(load),
        ]
    };
    match &cell.outcome {
        CellOutcome::Failed { cause, message, .. } => {
            let mut row = named("–");
            row.extend(std::iter::repeat_with(|| Entry::text("–")).take(6));
            let chips = vec![Chip { text: format!("failed: {cause}"), tone: Tone::Bad }];
            row.push(Entry { chips, details: vec![message.clone()], ..Entry::default() });
            vec![row]
        }
        CellOutcome::Measured { measurements } => measurements
            .iter()
            .map(|measurement| {
                let mut row = named(&load_name(measurement));
                row.extend(figures(measurement, is_baseline(&cell.key.gateway)));
                row
            })
            .collect(),
    }
}

fn figures(measurement: &Measurement, direct: bool) -> Vec<Entry> {
    let result = &measurement.record.result;
    let judgement = &measurement.judgement;
    let entry = |text: String, name: &str, format: fn(f64) -> String| {
        let (reasons, range) = reasons_and_range(judgement, name);
        match reasons.is_empty() {
            true => Entry::text(text),
            false if range.is_empty() => Entry { text, invalid: true, ..Entry::default() },
            false => Entry::text(bounds_words(&range, format)),
        }
    };
    let quantile = |ns: Option<u64>| match ns {
        Some(ns) => quantity::time_ns(ns as f64),
        None if result.requests.scheduled > 0 => "> timeout".to_owned(),
        None => "n/a".to_owned(),
    };
    let cost = match measurement.cpu_us_per_request {
        Some(us) => entry(microseconds(us), value::CPU, microseconds),
        None => Entry::text("–"),
    };
    vec![
        entry(quantity::rate(result.rate_per_s), value::THROUGHPUT, quantity::rate),
        entry(quantile(result.latency_ns.p50), "p50", quantity::time_ns),
        entry(quantile(result.latency_ns.p99), "p99", quantity::time_ns),
        cost,
        Entry::text(result.requests.error_share().map_or("n/a".into(), quantity::percent)),
        Entry::text(bound_name(judgement.bound_by)),
        Entry { chips: chips(measurement, direct), details: judgement.evidence.clone(), ..Entry::default() },
    ]
}

/// The chip `valid`, or one chip for each reason why the measurement is invalid. Each chip says if only latency is
/// affected.
pub(crate) fn chips(measurement: &Measurement, direct: bool) -> Vec<Chip> {
    let verdicts = &measurement.judgement.verdicts;
    let reasons = verdicts.reasons();
    if reasons.is_empty() {
        return vec![Chip { text: "valid".into(), tone: Tone::Good }];
    }
    let chip = |reason: Reason| {
        let name = reason_name(reason);
        if !verdicts.throughput.contains(&reason) && !verdicts.cpu.contains(&reason) {
            Chip { text: format!("{name}: latency"), tone: Tone::Plain }
        } else {
            // The direct baseline is expected to be limited by the load generator or the upstream.
            let by_the_rig = matches!(reason, Reason::GeneratorLimited | Reason::UpstreamLimited);
            let tone = if direct && by_the_rig { Tone::Plain } else { Tone::Bad };
            Chip { text: name.to_owned(), tone }
        }
    };
    reasons.into_iter().map(chip).collect()
}
