//! Tables of faults of the upstream: what went wrong from each to the next, and for how long.

use weir_analysis::{FaultCourse, FaultStage, Summary, quantity};

use crate::headroom::about;
use crate::model::{Column, Entry, KEEP, Section, Table};
use crate::tables::figure;

/// The section; `None` for a run whose upstream had no faults.
pub(crate) fn section(summary: &Summary) -> Option<Section> {
    let faults = summary.faults.as_ref()?;
    let same = |one: &FaultCourse, next: &FaultCourse| one.axes == next.axes && one.load == next.load;
    Some(Section {
        id: "faults".into(),
        title: "Faults of the upstream".into(),
        intro: "Each row runs from one fault to the next, in whole seconds, beginning with the second of the \
            fault. Counts cover all repeats. An error counts in the second in which the generator notices it. \
            A timed-out request therefore counts one time-out after its start, which can be after the server \
            has returned. Times of faults are from the start of the sustained phase. Direct cells have no \
            faults, because the baseline cannot use another server."
            .into(),
        conclusions: faults.conclusions.clone(),
        tables: faults.courses.chunk_by(same).map(table).collect(),
    })
}

/// Stages in rows, grouped by gateway.
fn table(courses: &[FaultCourse]) -> Table {
    let columns = vec![
        Column::text("Gateway", KEEP),
        Column::text("From", KEEP),
        Column::number("At", 6),
        Column::number("Sent", 5),
        Column::number("Unexpected status", 7),
        Column::number("No response", 7),
        Column::number("Errors", KEEP),
        Column::number("Last error within", KEEP),
        Column::number("p50", 4),
        Column::number("p99", 8),
    ];
    let group = |course: &FaultCourse| -> Vec<Vec<Entry>> {
        course.stages.iter().map(|stage| row(course, stage)).collect()
    };
    Table {
        caption: format!("Between faults: {}", about(&courses[0].load, &courses[0].axes)),
        columns,
        rows: Table::merged(courses.iter().map(group).collect(), &[0]),
    }
}

fn row(course: &FaultCourse, stage: &FaultStage) -> Vec<Entry> {
    let share = |wrong: u64| match stage.sent {
        0 => "n/a".to_owned(),
        sent => quantity::percent(wrong as f64 / sent as f64),
    };
    let wrong_for = match stage.wrong_for_s {
        _ if stage.wrong() == 0 => "–".to_owned(),
        Some(s) => format!("{s:.1} s"),
        None => "until the end".to_owned(),
    };
    vec![
        Entry::gateway(&course.gateway),
        Entry::text(stage.words()),
        Entry::text(stage.fault.map_or_else(|| "–".to_owned(), |fault| format!("{:.1} s", fault.at_s))),
        Entry::text(quantity::count(stage.sent)),
        Entry::text(quantity::count(stage.unexpected)),
        Entry::text(quantity::count(stage.lost)),
        Entry::text(share(stage.wrong())),
        Entry::text(wrong_for),
        figure(&stage.p50_ns, quantity::time_ns),
        figure(&stage.p99_ns, quantity::time_ns),
    ]
}
