//! The trials of capacity searches: a search looks for the highest rate at which a gateway meets an objective.

use weir_analysis::quantity;
use weir_results::{Cell, Measurement, TrialSays};

use crate::charts::timelines::measurements;
use crate::model::{Chip, Column, Entry, KEEP, Table, Tone};

/// The result of a trial in words, and its tone.
pub(crate) fn says_words(says: TrialSays) -> (&'static str, Tone) {
    match says {
        TrialSays::Met => ("met", Tone::Good),
        TrialSays::Missed => ("missed", Tone::Plain),
        TrialSays::CannotTell => ("undecided", Tone::Plain),
        TrialSays::Invalid => ("invalid", Tone::Bad),
    }
}

/// The name of a load in lists of measurements. For a search, it includes the trial: `capacity, trial 3`.
pub(crate) fn load_name(measurement: &Measurement) -> String {
    match &measurement.trial {
        Some(trial) => format!("{}, trial {}", measurement.load, trial.number),
        None => measurement.load.clone(),
    }
}

/// The trials of a cell: one table per search.
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
        Column::text("Measured", KEEP),
        Column::text("Objective", KEEP),
    ];
    Table { caption: format!("Trials of the search {load}"), columns, rows: Vec::new() }
}
