//! Whether the size of a gateway's control plane matters: compares each size with the largest at the same load.

mod answers;
mod places;

use weir_results::{ArrivalModel, Cell, CellOutcome, is_baseline};

use self::answers::{Answer, Compared, conclude};
use self::places::{Place, Size, Sized, has_control, is_known, places, split};
use super::model::{Column, Finding, KEEP, Row, Table, Unit, Value};
use super::users::of_point;
use super::{Finder, Former, Measured};
use crate::compare::{
    FigureComparison, Measure, RATIO_MAX, Series, SeriesPair, compare_series, smallest_effect_words,
};
use crate::points;
use crate::points::axes::with_axes;
use crate::points::conclusions::join;

pub(super) const FINDER: Finder =
    Finder { key: "control-size", columns: &[&THROUGHPUT, &LATENCY, &CPU], find };

const INTRO: &str = "\
weir compares each size of the control plane with the largest one, block by block, at the same load and the same other \
axes. Ratios are of throughput in closed loads, of p50 in open loads, and of CPU time of the data plane per request. \
Their 99 % intervals hold for all ratios together, as in `weir compare`. Same: the whole interval lies within the \
margin, with at least three valid repeats. Matters: the whole interval lies beyond the margin, with at least six. \
Undecided: neither. Detectable is the smallest difference that the same repeats detect with 80 % power. Repeats \
to decide assumes the same noise.";

const LOAD: Column = Column::of("load", "Load", Unit::Load, KEEP);
/// The size of the control plane. This column covers the axes `limits.control` and `limits.control.*`.
const SIZE: Column = Column::of("limits.control", "Control plane", Unit::Text, KEEP);
const CORES: Column = Column::of("control_cores", "CPU of control plane", Unit::Cores, 6);
const SHARE: Column = Column::of("control_share_of_limit", "Of its limit", Unit::Share, 7).bare();
const RATIO: Column = Column::of("ratio", "Ratio to largest", Unit::Number, KEEP);
const VERDICT: Column = Column::of("verdict", "Verdict", Unit::Text, KEEP);
const DETECTABLE: Column = Column::of("detectable", "Detectable", Unit::Share, 5);
const REPEATS: Column = Column::of("repeats_to_decide", "Repeats to decide", Unit::Count, 4);
const VALID: Column = Column::of("valid", "Valid repeats", Unit::Text, 8);

static THROUGHPUT: [Column; 10] = [
    LOAD,
    SIZE,
    CORES,
    SHARE,
    Column::of("throughput", "Throughput", Unit::PerSecond, KEEP).higher(),
    RATIO,
    VERDICT,
    DETECTABLE,
    REPEATS,
    VALID,
];

static LATENCY: [Column; 10] = [
    LOAD,
    SIZE,
    CORES,
    SHARE,
    Column::of("p50", "p50", Unit::Nanoseconds, KEEP).lower(),
    RATIO,
    VERDICT,
    DETECTABLE,
    REPEATS,
    VALID,
];

static CPU: [Column; 8] = [
    LOAD,
    SIZE,
    Column::of("cpu_per_request", "CPU per request", Unit::Microseconds, KEEP).lower(),
    RATIO,
    VERDICT,
    DETECTABLE,
    REPEATS,
    VALID,
];

fn find(measured: &Measured<'_>, _: &mut Former) -> Option<Finding> {
    let sizes = measured.cells.iter().filter(|cell| !is_baseline(&cell.key.gateway));
    let mut sizes: Vec<String> = sizes.map(|cell| Size::of(&cell.key.axes, None).words).collect();
    sizes.sort();
    sizes.dedup();
    let mut places = places(measured);
    if sizes.len() < 2 || places.is_empty() {
        return None;
    }
    compare_all(measured, &mut places);
    let mut finding = Finding::new(FINDER.key, "Size of the control plane", INTRO);
    let same = |a: &Place<'_>, b: &Place<'_>| a.gateway == b.gateway && a.others == b.others;
    finding.sentences.extend(places.chunk_by(same).map(sentence));
    finding.sentences.extend(failed(measured, &places));
    finding.sentences.extend(without_control(measured));
    let (open, closed): (Vec<&Place<'_>>, Vec<&Place<'_>>) = places.iter().partition(|place| place.is_open());
    let all: Vec<&Place<'_>> = places.iter().collect();
    let by_size = |what: &str| format!("{what} by size of the control plane");
    let table = |what: &str, columns: &'static [Column], of: &[&Place<'_>], values: Values| Table {
        caption: by_size(what),
        columns,
        rows: of.iter().flat_map(|place| rows(place, values)).collect(),
    };
    let tables = [
        table("Throughput", &THROUGHPUT, &closed, main_values),
        table("p50 latency", &LATENCY, &open, main_values),
        table("CPU time of the data plane per request", &CPU, &all, cpu_values),
    ];
    finding.tables = tables.into_iter().filter(|table| !table.rows.is_empty()).collect();
    Some(finding)
}

/// Compares each size with the largest, not all pairs: the question is how small a control plane may be. Fewer
/// comparisons also give narrower joint intervals.
fn compare_all(measured: &Measured<'_>, places: &mut [Place<'_>]) {
    let has_open = measured.points.iter().any(|point| point.model == ArrivalModel::Open);
    let mut pairs: Vec<SeriesPair> = Vec::new();
    for place in places.iter() {
        let series = |of: &Sized<'_>| Series::of(of.point, of.row, has_open);
        let Some((largest, smaller)) = place.sizes.split_last() else { continue };
        pairs.extend(smaller.iter().map(|smaller| SeriesPair {
            a: series(largest),
            b: series(smaller),
            measures: place.measures().to_vec(),
        }));
    }
    let mut compared = compare_series(measured.run, &pairs).into_iter();
    for place in places {
        let measures = place.measures();
        let smaller = place.sizes.len().saturating_sub(1);
        for sized in &mut place.sizes[..smaller] {
            let figures = compared.next().unwrap_or_default();
            sized.compared =
                figures.into_iter().filter(|figure| measures.contains(&figure.measure)).collect();
        }
    }
}

/// Computes the values of a row for the columns after load and size.
type Values = fn(&Place<'_>, &Sized<'_>) -> Vec<Value>;

/// One row for each size of the control plane.
fn rows(place: &Place<'_>, values: Values) -> Vec<Row> {
    let row = |sized: &Sized<'_>| {
        let mut all = vec![Value::Missing, Value::text(sized.size.words.clone())];
        all.extend(values(place, sized));
        of_point(sized.point, place.gateway, all)
    };
    place.sizes.iter().map(row).collect()
}

fn main_values(place: &Place<'_>, sized: &Sized<'_>) -> Vec<Value> {
    let row = sized.row;
    let figure = match place.is_open() {
        true => row.latency("p50"),
        false => Some(&row.throughput_per_s),
    };
    let mut values = vec![Value::figure(&sized.control_cores), Value::figure(&sized.control_share)];
    values.push(Value::optional(figure));
    values.extend(verdict_values(sized.figure(place.measures()[0])));
    let valid = figure.unwrap_or(&row.throughput_per_s);
    values.push(Value::valid_of_row(row, valid, !place.is_open()));
    values
}

fn cpu_values(place: &Place<'_>, sized: &Sized<'_>) -> Vec<Value> {
    let row = sized.row;
    let mut values = vec![Value::figure(&row.cpu_us_per_request)];
    values.extend(verdict_values(sized.figure(Measure::CpuPerRequest)));
    values.push(Value::valid_of_row(row, &row.cpu_us_per_request, !place.is_open()));
    values
}

/// Ratio to the largest size, verdict, detectable difference, and number of repeats that a decision needs. All four are
/// missing for the largest size.
fn verdict_values(figure: Option<&FigureComparison>) -> [Value; 4] {
    let Some(figure) = figure else { return [const { Value::Missing }; 4] };
    let answer = Answer::of(figure);
    let is_open = matches!(answer, Answer::Undecided(_));
    let repeats = figure.blocks_to_decide().filter(|_| is_open);
    [
        ratio(figure),
        Value::text(answer.words(figure)),
        figure.smallest_effect.map_or(Value::Missing, |share| Value::Number {
            number: Some(share),
            words: Some(smallest_effect_words(share)),
        }),
        repeats.map_or(Value::Missing, |repeats| Value::count(repeats as u64)),
    ]
}

/// The ratio with its confidence interval. Returns text if only the interval is known, or if an end of the interval is
/// not between 1 / [`RATIO_MAX`] and [`RATIO_MAX`].
fn ratio(figure: &FigureComparison) -> Value {
    let is_printed = |end: &f64| (1.0 / RATIO_MAX..RATIO_MAX).contains(end);
    match (figure.ratio, figure.interval) {
        (Some(ratio), None) => Value::estimate(ratio, None),
        (Some(ratio), Some([low, high])) if is_printed(&low) && is_printed(&high) => {
            Value::estimate(ratio, Some([low, high]))
        }
        (_, Some(_)) => Value::text(figure.ratio_words()),
        (None, None) => Value::Number { number: None, words: None },
    }
}

/// The conclusion for one gateway at one value of each axis except the control plane's size.
fn sentence(places: &[Place<'_>]) -> String {
    let subject = with_axes(places[0].gateway, &places[0].others);
    let mut compared: Vec<Compared<'_>> = Vec::new();
    for place in places {
        let Some((largest, smaller)) = place.sizes.split_last() else { continue };
        for (sized, figure) in
            smaller.iter().flat_map(|of| of.compared.iter().map(move |figure| (of, figure)))
        {
            compared.push(Compared {
                load: place.load,
                size: &sized.size.words,
                largest: &largest.size.words,
                figure,
                answer: Answer::of(figure),
            });
        }
    }
    // Main metrics come before CPU time.
    compared.sort_by_key(|of| of.figure.measure == Measure::CpuPerRequest);
    let is_one = places.iter().all(|place| place.sizes.len() < 2);
    match (compared.as_slice(), is_one) {
        ([], true) => {
            let only = places[0].sizes.last().map_or("", |sized| sized.size.words.as_str());
            format!(
                "No conclusion about {subject}: only one size of its control plane was measured ({only})."
            )
        }
        ([], false) => format!("No conclusion about {subject}: no metric was measured at two sizes."),
        (compared, _) => conclude(&subject, compared),
    }
}

/// Sentences about sizes at which all cells of a gateway failed.
fn failed(measured: &Measured<'_>, places: &[Place<'_>]) -> Vec<String> {
    let mut sentences: Vec<String> = Vec::new();
    let is_measured = |cell: &Cell| {
        let mut points = measured.points.iter().filter(|point| point.axes == cell.key.axes);
        points.any(|point| point.row(&cell.key.gateway).is_some())
    };
    for cell in measured.cells.iter().filter(|cell| matches!(cell.outcome, CellOutcome::Failed { .. })) {
        let gateway = &cell.key.gateway;
        if is_measured(cell) || !places.iter().any(|place| place.gateway == gateway) {
            continue;
        }
        let (_, others) = split(&cell.key.axes);
        let (subject, size) = (with_axes(gateway, &others), Size::of(&cell.key.axes, None).words);
        let sentence = format!("No conclusion about {subject} with {size}: all its cells failed.");
        if !sentences.contains(&sentence) {
            sentences.push(sentence);
        }
    }
    sentences
}

/// Names the gateways without a control plane; `None` if all have one.
fn without_control(measured: &Measured<'_>) -> Option<String> {
    let mut names: Vec<String> = Vec::new();
    let rows = || measured.points.iter().flat_map(points::Point::gateways);
    let is_without = |name: &str| {
        let mut own = rows().filter(|row| row.gateway == name);
        own.all(|row| is_known(row) && !has_control(row))
    };
    for row in rows() {
        if !names.contains(&row.gateway) && is_without(&row.gateway) {
            names.push(row.gateway.clone());
        }
    }
    let has = if names.len() == 1 { "has" } else { "have" };
    (!names.is_empty()).then(|| format!("{} {has} no control plane.", join(&names)))
}
