//! Tables that compare the gateways at a load point.

use weir_analysis::findings::Value;
use weir_analysis::{
    Figure, HEADLINE_REPEATS, Met, ObjectiveResult, Point, RatioToDirect, Row, Sample, Summary, bound_name,
    bounds_words, quantity,
};
use weir_results::{ArrivalModel, BoundBy, Role};

use crate::model::{Chip, Column, Entry, KEEP, Table, Tone};

/// The tables of a load point. The first table contains the values to quote: throughput for a closed loop, latency for
/// an open loop.
pub(crate) fn comparison(point: &Point) -> Vec<Table> {
    match point.model {
        ArrivalModel::Closed => {
            vec![capacity(point), latency(point, "Latency at full load (do not quote)")]
        }
        ArrivalModel::Open => vec![latency(point, "Latency"), capacity(point)],
    }
}

/// The table that shows whether each gateway met the objective. Rows of load points come first, then rows of findings.
/// `None` if the run has no objective.
pub(crate) fn objective(summary: &Summary) -> Option<Table> {
    let of_points = summary.points.iter().flat_map(|point| {
        let of_row = move |row: &'_ Row| {
            let result = |result| objective_row(&row.gateway, point.words(), result);
            row.objective.iter().map(result).collect::<Vec<_>>()
        };
        point.gateways().flat_map(of_row)
    });
    let of_findings = summary.finding_objectives.iter();
    let of_findings = of_findings.map(|of| objective_row(&of.gateway, of.place.clone(), &of.result));
    let rows: Vec<Vec<Entry>> = of_points.chain(of_findings).collect();
    let columns = ["Gateway", "Load", "Objective", "Result"].map(|title| Column::text(title, KEEP)).to_vec();
    (!rows.is_empty()).then(|| Table { caption: "Objective".into(), columns, rows })
}

fn objective_row(gateway: &str, place: String, result: &ObjectiveResult) -> Vec<Entry> {
    let (text, tone) = match result.met {
        Met::Met => ("met", Tone::Good),
        Met::Missed => ("missed", Tone::Bad),
        Met::Unknown => ("undecided", Tone::Plain),
    };
    vec![
        Entry::gateway(gateway),
        Entry::text(place),
        Entry::text(result.words.clone()),
        Entry::chips("", vec![Chip { text: text.into(), tone }]),
    ]
}

/// The name of a role in reports.
pub(crate) fn role_name(role: Role) -> &'static str {
    match role {
        Role::Data => "data plane",
        Role::Control => "control plane",
        Role::Origin => "origin",
        Role::Generator => "generator",
        Role::Service => "service",
    }
}

/// The name of a quantile in reports: `p999` becomes `p99.9`.
pub(crate) fn latency_title(name: &str) -> &str {
    match name {
        "p999" => "p99.9",
        "p9999" => "p99.99",
        "mean" => "Mean",
        "max" => "Max",
        other => other,
    }
}

/// Formats microseconds of CPU time.
pub(crate) fn microseconds(us: f64) -> String {
    quantity::time_ns(us * 1e3)
}

fn capacity(point: &Point) -> Table {
    let closed = point.model == ArrivalModel::Closed;
    let mut columns = vec![
        Column::text("Gateway", KEEP),
        Column::number("Throughput", KEEP),
        Column::number("CPU per request", KEEP),
        Column::number("CPU cores", 5),
        Column::number("Of limit", 6),
        Column::number("Mean memory", 4),
        Column::number("Peak memory", 7),
        Column::number("Errors", 3),
        Column::text("Limited by", 8),
        Column::text("Valid repeats", KEEP),
    ];
    if closed {
        columns.insert(2, Column::number("Of direct", 6));
    }
    let rows = point.rows.iter().map(|row| capacity_row(row, closed)).collect();
    let caption = if closed { "Throughput and cost" } else { "Cost at this rate" };
    Table { caption: caption.into(), columns, rows }
}

fn capacity_row(row: &Row, closed: bool) -> Vec<Entry> {
    let mut entries = vec![
        Entry::gateway(&row.gateway),
        figure(&row.throughput_per_s, quantity::rate),
        cost(row, &row.cpu_us_per_request, microseconds),
        without_interval(cost(row, &row.cpu_cores, quantity::cores)),
        without_interval(cost(row, &row.cpu_share_of_limit, quantity::percent_of_limit)),
        without_interval(cost(row, &row.memory_bytes_mean, quantity::bytes)),
        without_interval(cost(row, &row.memory_bytes_peak, quantity::bytes)),
        without_interval(figure(&row.error_share, quantity::percent)),
        bounds(row),
        counts(row, &row.throughput_per_s, closed),
    ];
    if closed {
        entries.insert(2, without_interval(of_direct(row)));
    }
    entries
}

/// Throughput divided by the throughput of the direct baseline. The result is an upper bound if the rig limited the
/// direct baseline.
fn of_direct(row: &Row) -> Entry {
    let known = row.ratio_to_direct.as_ref().map(RatioToDirect::known);
    known.map_or_else(|| Entry::text("–"), |known| figure(&known, quantity::percent))
}

fn latency(point: &Point, caption: &str) -> Table {
    const QUANTILES: [(&str, u8); 8] = [
        ("mean", 4),
        ("p50", KEEP),
        ("p90", 6),
        ("p95", 2),
        ("p99", KEEP),
        ("p999", 7),
        ("p9999", 3),
        ("max", 3),
    ];
    let open = point.model == ArrivalModel::Open;
    let added = open && point.gateways().any(|row| !row.added_latency_ns.is_empty());
    let mut columns = vec![Column::text("Gateway", KEEP)];
    columns.extend(QUANTILES.map(|(name, keep)| Column::number(latency_title(name), keep)));
    if added {
        columns.push(Column::number("Added p50", 7));
        columns.push(Column::number("Added p99", 7));
    }
    columns.push(Column::text("Limited by", 8));
    columns.push(Column::text("Valid repeats", KEEP));
    let rows = point
        .rows
        .iter()
        .map(|row| {
            let mut entries = vec![Entry::gateway(&row.gateway)];
            entries.extend(QUANTILES.map(|(name, _)| latency_entry(row, name)));
            if added {
                entries.push(added_entry(row, "p50"));
                entries.push(added_entry(row, "p99"));
            }
            entries.push(bounds(row));
            entries.push(row.latency("p50").map_or_else(Entry::default, |figure| counts(row, figure, !open)));
            entries
        })
        .collect();
    Table { caption: caption.into(), columns, rows }
}

/// A latency with its confidence interval. Minimum and maximum have no interval.
pub(crate) fn latency_entry(row: &Row, name: &str) -> Entry {
    row.latency(name).map_or_else(
        || Entry::text("–"),
        |of| match name {
            "min" => extreme(of, Figure::least),
            "max" => extreme(of, Figure::greatest),
            _ => figure(of, quantity::time_ns),
        },
    )
}

fn added_entry(row: &Row, name: &str) -> Entry {
    let added = row.added_latency(name);
    added.map_or_else(|| Entry::text("–"), |of| figure(of, quantity::time_ns))
}

/// A value of the gateway's data plane. The direct baseline has none.
pub(crate) fn cost(row: &Row, of: &Figure, format: fn(f64) -> String) -> Entry {
    if row.is_direct() { Entry::text("–") } else { figure(of, format) }
}

/// The number of failed requests and of all sent requests, like `3 of 10,000`.
pub(crate) fn errors_of(errors: u64, sent: u64) -> Entry {
    Entry::text(format!("{} of {}", quantity::count(errors), quantity::count(sent)))
}

/// A value with its confidence interval or its bounds. An invalid value is marked as such.
pub(crate) fn figure(figure: &Figure, format: impl Fn(f64) -> String) -> Entry {
    if figure.is_bounded() {
        return Entry::text(bounds_words(&figure.bounds, format));
    }
    if figure.beyond_timeout {
        let (invalid, few) = (!figure.is_valid(), is_of_few(figure));
        return Entry { text: "> timeout".into(), invalid, few, ..Entry::default() };
    }
    let Some(mean) = figure.mean else { return Entry::text("n/a") };
    Entry {
        text: format(mean),
        headline: figure.headline,
        under: figure.interval.map(|[low, high]| quantity::range(&format(mean), &format(low), &format(high))),
        invalid: !figure.is_valid(),
        few: is_of_few(figure),
        ..Entry::default()
    }
}

/// Whether fewer repeats are valid than a headline needs.
fn is_of_few(figure: &Figure) -> bool {
    figure.valid < HEADLINE_REPEATS
}

/// Removes the confidence interval from an entry, if another table shows it.
pub(crate) fn without_interval(mut entry: Entry) -> Entry {
    entry.under = None;
    entry
}

/// The minimum or the maximum of the valid repeats, or of all repeats if none is valid.
fn extreme(figure: &Figure, of: fn(&Figure) -> Sample) -> Entry {
    if figure.is_bounded() {
        return Entry::text(bounds_words(&figure.bounds, quantity::time_ns));
    }
    let text = match of(figure) {
        Sample::Value(ns) => quantity::time_ns(ns),
        Sample::BeyondTimeout => "> timeout".to_owned(),
        Sample::Missing => return Entry::text("n/a"),
    };
    Entry { text, invalid: !figure.is_valid(), few: is_of_few(figure), ..Entry::default() }
}

fn bounds(row: &Row) -> Entry {
    let bounds: Vec<(BoundBy, usize)> = row.bounds();
    let words = match bounds.as_slice() {
        [] => "n/a".to_owned(),
        [(bound, _)] => bound_name(*bound).to_owned(),
        several => several
            .iter()
            .map(|(bound, n)| format!("{} {n}", bound_name(*bound)))
            .collect::<Vec<_>>()
            .join(", "),
    };
    Entry::text(words)
}

/// How many repeats of a value are valid, and why the others are not.
pub(crate) fn counts(row: &Row, figure: &Figure, closed: bool) -> Entry {
    valid_repeats(&Value::valid_of_row(row, figure, closed))
}

/// Shows a [`Value::Valid`]: how many repeats are valid, and why the others are not. Reasons that are expected are
/// not coloured.
pub(crate) fn valid_repeats(value: &Value) -> Entry {
    let Value::Valid { valid, planned, reasons } = value else { return Entry::default() };
    let chip = |(text, is_expected): &(String, bool)| Chip {
        text: text.clone(),
        tone: if *is_expected { Tone::Plain } else { Tone::Bad },
    };
    Entry::chips(format!("{valid} of {planned}"), reasons.iter().map(chip).collect())
}
