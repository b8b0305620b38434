//! The tables of a comparison.

use weir_analysis::compare::{
    Comparison, Difference, FigureComparison, HostSpeed, PointComparison, RATIO_MAX, Verdict, interval_words,
    ratio_words, smallest_effect_words,
};
use weir_analysis::{Figure, quantity};

use crate::model::{Chip, Column, Entry, Fact, KEEP, Table, Tone};
use crate::sections::tables::figure;

/// The table of metrics with a verdict. Each gateway at a load point has a group of rows.
pub(super) fn judged(comparison: &Comparison) -> Table {
    let has_bias =
        comparison.points.iter().flat_map(|point| &point.figures).any(|figure| figure.bias.is_some());
    let has_speed = comparison.knows_host_speed();
    let mut columns = vec![
        Column::text("At", KEEP),
        Column::text("Metric", KEEP),
        Column::number(&comparison.a.label, 8),
        Column::number(&comparison.b.label, 8),
        Column::number("B / A", KEEP),
        Column::text("Verdict", KEEP),
        Column::number("Smallest effect", 7),
        Column::text("Valid repeats", 5),
    ];
    if has_bias {
        columns.push(Column::number("Direct B / A", 6));
    }
    if has_speed {
        columns.push(Column::number("Rig B / A", 6));
    }
    columns.push(Column::prose("Why undecided"));
    let row = |point: &PointComparison, of: &FigureComparison| {
        let mut row = named(point, of);
        row.push(ratio(of));
        row.push(verdict(of));
        row.push(Entry::text(of.smallest_effect.map_or("–".into(), smallest_effect_words)));
        row.push(Entry::text(format!(
            "{} of {}, {} of {}",
            of.a.valid,
            of.a.repeats.len(),
            of.b.valid,
            of.b.repeats.len()
        )));
        if has_bias {
            row.push(of.bias.map_or_else(
                || Entry::text("–"),
                |bias| {
                    Entry {
                        chips: bias
                            .excludes_one()
                            .then(|| Chip { text: "the rig differs".into(), tone: Tone::Bad })
                            .into_iter()
                            .collect(),
                        ..with_interval(bias.ratio, Some(bias.interval))
                    }
                },
            ));
        }
        if has_speed {
            row.push(of.host_speed.map_or_else(|| Entry::text("–"), rig));
        }
        row.push(if of.why.is_empty() {
            Entry::default()
        } else {
            Entry {
                of: Some(Fact::new(point.words(), of.measure.title())),
                ..Entry::text(format!("{}.", of.why))
            }
        });
        row
    };
    Table { caption: "Compared".into(), columns, rows: grouped(comparison, |of| of.verdict.is_some(), row) }
}

/// The table of metrics without a verdict.
pub(super) fn others(comparison: &Comparison) -> Table {
    let columns = vec![
        Column::text("At", KEEP),
        Column::text("Metric", KEEP),
        Column::number(&comparison.a.label, KEEP),
        Column::number(&comparison.b.label, KEEP),
        Column::number("B / A", KEEP),
    ];
    let row = |point: &PointComparison, of: &FigureComparison| {
        let mut row = named(point, of);
        row.push(ratio(of));
        row
    };
    let rows = grouped(comparison, |of| of.verdict.is_none(), row);
    Table { caption: "Other values, without a verdict".into(), columns, rows }
}

/// The table of fields whose values differ between A and B.
pub(super) fn differences(caption: &str, found: &[Difference]) -> Table {
    let said = |value: &Option<String>| Entry::text(value.clone().unwrap_or_else(|| "–".into()));
    let rows = found.iter().map(|of| vec![Entry::text(of.field.clone()), said(&of.a), said(&of.b)]);
    Table {
        caption: caption.to_owned(),
        columns: ["Field", "A", "B"].map(|title| Column::text(title, KEEP)).to_vec(),
        rows: rows.collect(),
    }
}

/// Formats a share as percent, without trailing zeros.
pub(super) fn share(share: f64) -> String {
    quantity::percent(share).replace(".00 %", " %").replace(".0 %", " %")
}

fn grouped(
    comparison: &Comparison,
    is_meant: fn(&FigureComparison) -> bool,
    row: impl Fn(&PointComparison, &FigureComparison) -> Vec<Entry>,
) -> Vec<Vec<Entry>> {
    let group = |point: &PointComparison| -> Vec<Vec<Entry>> {
        point.figures.iter().filter(|of| is_meant(of)).map(|of| row(point, of)).collect()
    };
    let groups = comparison.points.iter().map(group).filter(|group| !group.is_empty());
    Table::merged(groups.collect(), &[0])
}

/// The first entries of a row: load point, metric, value in A, value in B.
fn named(point: &PointComparison, of: &FigureComparison) -> Vec<Entry> {
    vec![Entry::text(point.words()), Entry::text(of.measure.title()), of_side(of, &of.a), of_side(of, &of.b)]
}

/// The value of one dataset. If its confidence interval is too wide to be useful, the entry says so instead.
fn of_side(of: &FigureComparison, side: &Figure) -> Entry {
    let mut entry = figure(side, |value| of.measure.words(value));
    if side.beyond_timeout {
        entry.text = of.measure.beyond_words().to_owned();
    }
    if tells_nothing(side) {
        entry.under = Some("any".into());
    }
    entry
}

/// Whether a confidence interval is too wide to be useful, for example because there are few repeats with much
/// noise.
pub(super) fn tells_nothing(of: &Figure) -> bool {
    of.mean.zip(of.interval).is_some_and(|(mean, [_, high])| high > mean * RATIO_MAX)
}

/// The CPU time that the rig (load generator and upstream) used per request: the value of B divided by the value of A.
fn rig(speed: HostSpeed) -> Entry {
    let other_work = Chip { text: "or different work".into(), tone: Tone::Plain };
    Entry {
        chips: speed.rig_differs().then_some(other_work).into_iter().collect(),
        ..with_interval(speed.rig, Some(speed.rig_interval))
    }
}

fn ratio(of: &FigureComparison) -> Entry {
    match of.ratio {
        Some(ratio) => with_interval(ratio, of.interval),
        None => Entry::text(of.ratio_words()),
    }
}

fn with_interval(ratio: f64, interval: Option<[f64; 2]>) -> Entry {
    Entry { text: ratio_words(ratio), under: interval.map(interval_words), ..Entry::default() }
}

fn verdict(of: &FigureComparison) -> Entry {
    let tone = match of.verdict {
        Some(Verdict::Better) => Tone::Good,
        Some(Verdict::Worse) => Tone::Bad,
        _ => Tone::Plain,
    };
    Entry::chips("", vec![Chip { text: of.verdict_words(), tone }])
}
