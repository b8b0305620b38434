//! Tables of searches for the capacity at an objective: over repeats, and each search with its trials.

use weir_analysis::capacity::{Capacity, CapacityRow, Searched, border_words, stopped_words};
use weir_analysis::{Summary, quantity, reason_times};
use weir_results::{Cell, DIRECT, Measurement, TrialSays};

use crate::charts::timelines::measurements;
use crate::model::{Chip, Column, Entry, KEEP, Section, Table, Tone};
use crate::sections::tables::figure;

/// A section for each search, at each point of the axes.
pub(crate) fn sections(summary: &Summary) -> Vec<Section> {
    let section = |(place, capacity): (usize, &Capacity)| Section {
        id: format!("capacity-{place}"),
        title: format!("Capacity: {}", capacity.words()),
        intro: "The highest rate that meets the objective. weir searches for it with many short open loads \
            and weighs them together, so that no single trial decides. Each repeat has fresh processes and \
            its own search."
            .into(),
        conclusions: capacity.conclusions.clone(),
        tables: vec![over_repeats(capacity), each(capacity)],
    };
    summary.capacities.iter().enumerate().map(section).collect()
}

/// The words for what a trial says.
pub(crate) fn says_words(says: TrialSays) -> (&'static str, Tone) {
    match says {
        TrialSays::Met => ("met", Tone::Good),
        TrialSays::Missed => ("missed", Tone::Plain),
        TrialSays::CannotTell => ("undecided", Tone::Plain),
        TrialSays::Void => ("invalid", Tone::Bad),
    }
}

/// A load's name in lists of measurements: `capacity, trial 3`.
pub(crate) fn load_name(measurement: &Measurement) -> String {
    match &measurement.trial {
        Some(trial) => format!("{}, trial {}", measurement.load, trial.number),
        None => measurement.load.clone(),
    }
}

/// The trials of a cell's searches, a table for each; empty where it has none.
pub(crate) fn trials(cell: &Cell) -> Vec<Table> {
    let mut tables: Vec<(&str, Table)> = Vec::new();
    for measurement in measurements(cell) {
        let Some(trial) = &measurement.trial else { continue };
        let at = tables.iter().position(|(load, _)| *load == measurement.load).unwrap_or_else(|| {
            tables.push((&measurement.load, empty(&measurement.load)));
            tables.len() - 1
        });
        let (says, tone) = says_words(trial.says);
        tables[at].1.rows.push(vec![
            Entry::text(trial.number.to_string()),
            Entry::text(measurement.rate_per_s.map_or("n/a".into(), quantity::rate)),
            Entry::text(trial.why.clone()),
            Entry::chips("", vec![Chip { text: says.into(), tone }]),
        ]);
    }
    tables.into_iter().map(|(_, table)| table).collect()
}

fn empty(load: &str) -> Table {
    let columns = vec![
        Column::number("Trial", KEEP),
        Column::number("Rate", KEEP),
        Column::text("Gave", KEEP),
        Column::text("The objective", KEEP),
    ];
    Table { caption: format!("Trials of the search {load}"), columns, rows: Vec::new() }
}

fn over_repeats(capacity: &Capacity) -> Table {
    let columns = vec![
        Column::text("Gateway", KEEP),
        Column::number("Capacity", KEEP),
        Column::text("First bound missed", 6),
        Column::number("Trials", 8),
        Column::text("Stop reason", 7),
        Column::text("Valid repeats", KEEP),
    ];
    let rows = capacity.rows.iter().map(|row| {
        vec![
            Entry::gateway(&row.gateway),
            capacity_entry(row),
            Entry::text(limited_by(row)),
            Entry::text(row.trials().to_string()),
            Entry::text(stopped(row)),
            counts(row),
        ]
    });
    Table { caption: "Capacity over repeats".into(), columns, rows: rows.collect() }
}

/// The mean over repeats with its interval; a rate that was carried where nothing higher could be tried.
fn capacity_entry(row: &CapacityRow) -> Entry {
    match row.at_least_per_s().filter(|_| row.per_s.valid == 0) {
        Some(least) => Entry { void: true, ..Entry::text(format!("at least {}", quantity::rate(least))) },
        None => figure(&row.per_s, quantity::rate),
    }
}

fn limited_by(row: &CapacityRow) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in row.searches.iter().filter_map(|searched| searched.found.limited_by.as_deref()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() { "–".into() } else { names.join(", ") }
}

fn stopped(row: &CapacityRow) -> String {
    let all = row.searches.len();
    let each = row.stopped().into_iter().map(|(stopped, n)| match n == all {
        true => stopped_words(stopped).to_owned(),
        false => format!("{} {n}×", stopped_words(stopped)),
    });
    each.collect::<Vec<_>>().join(", ")
}

fn counts(row: &CapacityRow) -> Entry {
    let measured = row.searches.len();
    let mut chips: Vec<Chip> = row
        .per_s
        .reasons()
        .into_iter()
        .map(|(reason, n)| {
            let text = reason_times(reason, n, measured);
            // A direct baseline that the rig limits is no news.
            Chip { text, tone: if row.gateway == DIRECT { Tone::Plain } else { Tone::Bad } }
        })
        .collect();
    if measured < row.planned {
        chips.push(Chip { text: format!("{} missing", row.planned - measured), tone: Tone::Bad });
    }
    Entry::chips(format!("{} of {}", row.per_s.valid, row.planned), chips)
}

/// The search of each repeat, with the interval that its own trials leave.
fn each(capacity: &Capacity) -> Table {
    let columns = vec![
        Column::text("Gateway", KEEP),
        Column::number("Repeat", KEEP),
        Column::number("Capacity", KEEP),
        Column::number("Trials", KEEP),
        Column::number("Invalid", 5),
        Column::text("Stop reason", 7),
    ];
    let groups = capacity.rows.iter().map(|row| {
        let one = |searched: &Searched| {
            let found = &searched.found;
            vec![
                Entry::gateway(&row.gateway),
                Entry::text(searched.repeat.saturating_add(1).to_string()),
                own_answer(searched),
                Entry::text(found.trials.to_string()),
                Entry::text(found.void.to_string()),
                Entry::text(stopped_words(found.stopped)),
            ]
        };
        row.searches.iter().map(one).collect()
    });
    let rows = Table::merged(groups.collect(), &[0]);
    Table { caption: "All searches, with the intervals of their own trials".into(), columns, rows }
}

fn own_answer(searched: &Searched) -> Entry {
    let found = &searched.found;
    let void = !searched.reasons.is_empty();
    let rate = quantity::rate;
    let Some(per_s) = found.capacity_per_s else {
        return Entry { void, ..Entry::text(border_words(found).unwrap_or_else(|| "n/a".into())) };
    };
    let under =
        found.interval_per_s.map(|[low, high]| quantity::range(&rate(per_s), &rate(low), &rate(high)));
    Entry { under, void, ..Entry::text(rate(per_s)) }
}
