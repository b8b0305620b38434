//! Tables of figures: gateways compared at a load point.

use weir_analysis::{Figure, PartUse, Point, Row, bound_name, quantity, reason_name};
use weir_results::{ArrivalModel, BoundBy, Reason, Role};

use crate::model::{Chip, Column, Entry, KEEP, Table, Tone};

/// The tables of a load point: first what the load is for, then the rest.
pub(crate) fn comparison(point: &Point) -> Vec<Table> {
    match point.model {
        ArrivalModel::Closed => {
            vec![capacity(point), latency(point, "Latency at full load, not for quoting")]
        }
        ArrivalModel::Open => vec![latency(point, "Latency"), capacity(point)],
    }
}

/// A gateway's headlines over the loads of one point of the axes, side by side.
pub(crate) fn glance(caption: String, points: &[&Point]) -> Table {
    let closed = points.iter().find(|point| point.model == ArrivalModel::Closed);
    let open = points.iter().find(|point| point.model == ArrivalModel::Open);
    let mut columns = vec![Column::text("Gateway", KEEP)];
    let mut names: Vec<&str> = Vec::new();
    for row in points.iter().flat_map(|point| &point.rows) {
        if !names.contains(&row.gateway.as_str()) {
            names.push(&row.gateway);
        }
    }
    names.sort_by_key(|name| *name == weir_results::DIRECT);
    let mut rows: Vec<Vec<Entry>> = names.iter().map(|name| vec![Entry::gateway(name)]).collect();
    let mut add = |title: &str, point: &Point, of: &dyn Fn(&Row) -> Entry| {
        columns.push(Column::number(title, KEEP));
        for (name, entries) in names.iter().zip(&mut rows) {
            let row = point.rows.iter().find(|row| row.gateway == *name);
            entries.push(row.map_or_else(|| Entry::text("–"), of));
        }
    };
    if let Some(point) = closed {
        add("Throughput", point, &|row| figure(&row.throughput_per_s, quantity::rate));
        add("CPU per request", point, &|row| cost(row, &row.cpu_us_per_request, microseconds));
        add("Peak memory", point, &|row| cost(row, &row.memory_bytes_peak, quantity::bytes));
    }
    if let Some(point) = open {
        let at = point.rate_per_s.map(|per_s| format!(" at {}", quantity::rate(per_s))).unwrap_or_default();
        add(&format!("p50{at}"), point, &|row| latency_entry(row, "p50"));
        add(&format!("p99{at}"), point, &|row| latency_entry(row, "p99"));
        add(&format!("p99.9{at}"), point, &|row| latency_entry(row, "p999"));
        if closed.is_none() {
            add("CPU per request", point, &|row| cost(row, &row.cpu_us_per_request, microseconds));
            add("Peak memory", point, &|row| cost(row, &row.memory_bytes_peak, quantity::bytes));
        }
    }
    Table { caption, columns, rows }
}

/// What each part of the rig used at a load point, generators included.
pub(crate) fn parts(point: &Point) -> Table {
    let columns = vec![
        Column::text("With", KEEP),
        Column::text("Part", KEEP),
        Column::number("CPU user", KEEP),
        Column::number("CPU system", KEEP),
        Column::number("Of its limit", KEEP),
        Column::number("Throttled", 3),
        Column::number("Memory", 4),
        Column::number("Peak", 4),
        Column::number("Limit", 3),
        Column::number("Threads", 2),
        Column::number("PIDs", 1),
        Column::number("Open files", 1),
        Column::number("Network", 0),
    ];
    let rows = point.rows.iter().flat_map(|row| row.parts.iter().map(|part| part_row(row, part))).collect();
    Table { caption: "Every part of the rig, mean over the repeats".into(), columns, rows }
}

/// The objective, by load point and gateway; `None` where the run has none.
pub(crate) fn objective(points: &[Point]) -> Option<Table> {
    let rows: Vec<Vec<Entry>> = points
        .iter()
        .flat_map(|point| point.gateways().map(move |row| (point, row)))
        .flat_map(|(point, row)| row.objective.iter().map(move |result| (point, row, result)))
        .map(|(point, row, result)| {
            let (text, tone) = match result.met {
                weir_analysis::Met::Met => ("met", Tone::Good),
                weir_analysis::Met::Missed => ("missed", Tone::Bad),
                weir_analysis::Met::Unknown => ("unknown", Tone::Plain),
            };
            vec![
                Entry::gateway(&row.gateway),
                Entry::text(point.words()),
                Entry::text(result.words.clone()),
                Entry::chips("", vec![Chip { text: text.into(), tone }]),
            ]
        })
        .collect();
    let columns = ["Gateway", "Load", "Objective", "Result"].map(|title| Column::text(title, KEEP)).to_vec();
    (!rows.is_empty()).then(|| Table { caption: "Objective".into(), columns, rows })
}

/// A role's name.
pub(crate) fn role_name(role: Role) -> &'static str {
    match role {
        Role::Data => "data plane",
        Role::Control => "control plane",
        Role::Origin => "origin",
        Role::Generator => "generator",
    }
}

/// A quantile's name for people: `p999` is p99.9.
pub(crate) fn latency_title(name: &str) -> &str {
    match name {
        "p999" => "p99.9",
        "p9999" => "p99.99",
        "mean" => "Mean",
        "max" => "Max",
        other => other,
    }
}

/// Microseconds of CPU time, with their unit.
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
        Column::text("Bound by", 8),
        Column::text("Valid repeats", KEEP),
    ];
    if closed {
        columns.insert(2, Column::number("Of direct", 6));
    }
    let rows = point.rows.iter().map(|row| capacity_row(row, closed)).collect();
    let caption = if closed { "Throughput and what it costs" } else { "What it costs at this rate" };
    Table { caption: caption.into(), columns, rows }
}

fn capacity_row(row: &Row, closed: bool) -> Vec<Entry> {
    let mut entries = vec![
        Entry::gateway(&row.gateway),
        figure(&row.throughput_per_s, quantity::rate),
        cost(row, &row.cpu_us_per_request, microseconds),
        without_interval(cost(row, &row.cpu_cores, quantity::cores)),
        without_interval(cost(row, &row.cpu_share_of_limit, quantity::percent)),
        without_interval(cost(row, &row.memory_bytes_mean, quantity::bytes)),
        without_interval(cost(row, &row.memory_bytes_peak, quantity::bytes)),
        without_interval(figure(&row.error_share, quantity::percent)),
        bounds(row),
        counts(row, &row.throughput_per_s, closed),
    ];
    if closed {
        let ratio = row.ratio_to_direct.as_ref().map(|to_direct| {
            let mut entry = figure(&to_direct.ratio, quantity::percent);
            if to_direct.at_most && to_direct.ratio.mean.is_some() {
                entry.text = format!("≤ {}", entry.text);
            }
            without_interval(entry)
        });
        entries.insert(2, ratio.unwrap_or_else(|| Entry::text("–")));
    }
    entries
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
    columns.push(Column::text("Bound by", 8));
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

fn latency_entry(row: &Row, name: &str) -> Entry {
    row.latency(name).map_or_else(|| Entry::text("–"), |of| figure(of, quantity::time_ns))
}

fn added_entry(row: &Row, name: &str) -> Entry {
    let added = row.added_latency_ns.iter().find(|(known, _)| known == name);
    added.map_or_else(|| Entry::text("–"), |(_, of)| figure(of, quantity::time_ns))
}

/// A figure of the data plane, which the direct baseline does not have.
fn cost(row: &Row, of: &Figure, format: fn(f64) -> String) -> Entry {
    if row.is_direct() { Entry::text("–") } else { figure(of, format) }
}

fn figure(figure: &Figure, format: fn(f64) -> String) -> Entry {
    if figure.beyond_timeout {
        return Entry { text: "> timeout".into(), void: !figure.is_valid(), ..Entry::default() };
    }
    let Some(mean) = figure.mean else { return Entry::text("n/a") };
    Entry {
        text: format(mean),
        headline: figure.headline,
        under: figure.interval.map(|[low, high]| quantity::range(&format(mean), &format(low), &format(high))),
        void: !figure.is_valid(),
        ..Entry::default()
    }
}

fn without_interval(mut entry: Entry) -> Entry {
    entry.under = None;
    entry
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

/// How many repeats count for a figure, and why the others do not.
///
/// A quota that throttles a closed loop, and a direct baseline that the rig limits, are no news.
fn counts(row: &Row, figure: &Figure, closed: bool) -> Entry {
    let measured = figure.repeats.len();
    let mut chips: Vec<Chip> = figure
        .reasons()
        .into_iter()
        .map(|(reason, n)| {
            let name = reason_name(reason);
            let text = if n == measured { name.to_owned() } else { format!("{name} {n}×") };
            let by_the_rig = matches!(reason, Reason::GeneratorLimited | Reason::UpstreamLimited);
            let expected = (row.is_direct() && by_the_rig) || (closed && reason == Reason::Throttled);
            Chip { text, tone: if expected { Tone::Plain } else { Tone::Bad } }
        })
        .collect();
    if measured < row.planned {
        chips.push(Chip { text: format!("{} missing", row.planned - measured), tone: Tone::Bad });
    }
    Entry::chips(format!("{} of {}", figure.valid, row.planned), chips)
}

fn part_row(row: &Row, part: &PartUse) -> Vec<Entry> {
    let or_na =
        |value: Option<f64>, format: fn(f64) -> String| Entry::text(value.map_or("n/a".into(), format));
    let count = |value: Option<u64>| Entry::text(value.map_or("n/a".into(), quantity::count));
    let unlimited = |limited: bool, entry: Entry| if limited { entry } else { Entry::text("no limit") };
    vec![
        Entry::gateway(&row.gateway),
        Entry::text(format!("{} ({})", part.name, role_name(part.role))),
        or_na(part.cpu_cores_user, quantity::cores),
        or_na(part.cpu_cores_system, quantity::cores),
        unlimited(part.limit_cpus.is_some(), or_na(part.cpu_share_of_limit, quantity::percent)),
        unlimited(part.limit_cpus.is_some(), or_na(part.throttled_share, quantity::percent)),
        or_na(part.memory_bytes_mean, quantity::bytes),
        or_na(part.memory_bytes_peak, quantity::bytes),
        unlimited(
            part.limit_memory_bytes.is_some(),
            or_na(part.limit_memory_bytes.map(|bytes| bytes as f64), quantity::bytes),
        ),
        count(part.threads_max),
        count(part.pids_max),
        count(part.open_files_max),
        Entry::text("n/a"),
    ]
}
