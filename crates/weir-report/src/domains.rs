//! What each limit carries of each load, what handshakes cost, how gateways start and what their configuration holds
//! (report R5).

use weir_analysis::{
    CarriedLoad, CarriedRow, Figure, Point, Row, StartRow, Starts, Summary, axes_words, quantity, reason_name,
};
use weir_results::ArrivalModel;

use crate::model::{Chip, Column, Entry, KEEP, Section, Table, Tone};
use crate::tables::{cost, counts, figure, latency_entry, microseconds};

/// Columns of a load, and how long a narrow terminal keeps them.
const LOAD_COLUMNS: [(&str, u8); 14] = [
    ("Gateway", KEEP),
    ("CPU limit", KEEP),
    ("CPU", 6),
    ("Memory", 7),
    ("Receive", 4),
    ("Transmit", 4),
    ("RPS", KEEP),
    ("Requests per day", 2),
    ("CPU per request", KEEP),
    ("Handshakes per CPU second", 8),
    ("Resumed", 3),
    ("p50", 5),
    ("p99", 5),
    ("Valid repeats", KEEP),
];

/// Columns of starts.
const START_COLUMNS: [(&str, u8); 8] = [
    ("Gateway", KEEP),
    ("CPU limit", KEEP),
    ("First 200", KEEP),
    ("CPU time until first 200", KEEP),
    ("Memory before load", KEEP),
    ("Memory of configuration", KEEP),
    ("Configuration files", 5),
    ("Valid repeats", 7),
];

/// The section; `None` where no start was measured.
pub(crate) fn section(summary: &Summary) -> Option<Section> {
    let domains = summary.domains.as_ref()?;
    let loads = domains.loads.iter().map(|load| of_load(summary, load));
    let tables = loads.chain(domains.starts.iter().map(of_starts)).collect();
    let bytes = match domains.loads.iter().any(|load| load.of_interfaces) {
        true => "all bytes at its network interface, those to and from the upstream included",
        false => {
            "bytes that clients sent and received, inside TLS (with `network: namespaces`, bytes at its \
            network interface)"
        }
    };
    Some(Section {
        id: "limits-and-starts".into(),
        title: "Throughput per CPU limit, and startup".into(),
        intro: format!(
            "All loads at all CPU limits of the data plane. Receive and transmit are those of the gateway: \
            {bytes}. Requests per day is this throughput for 86,400 s. Handshakes per CPU second come from \
            loads that close each connection after a number of requests, and include the work for these \
            requests. Quote latency only from open loads. First 200 is the time from the launch of the first \
            process to the first 200 response for the last path of the last domain. weir polls for it, and \
            pauses for one fiftieth of the time since the launch. Memory is measured right after it. Memory \
            of configuration is that memory minus the memory of the same gateway with one domain, in the same \
            repeat."
        ),
        conclusions: domains.conclusions.clone(),
        tables,
    })
}

fn of_load(summary: &Summary, load: &CarriedLoad) -> Table {
    let at = |carried: &CarriedRow| {
        let point = &summary.points[carried.point];
        let row = point.rows.iter().find(|row| row.gateway == carried.gateway)?;
        Some((carried.gateway.clone(), entries(point, row, carried)))
    };
    Table {
        caption: caption(&load.load, &axes_words(&load.axes)),
        columns: columns(&LOAD_COLUMNS),
        rows: by_gateway(load.rows.iter().filter_map(at)),
    }
}

fn entries(point: &Point, row: &Row, carried: &CarriedRow) -> Vec<Entry> {
    let is_closed = point.model == ArrivalModel::Closed;
    let optional = |of: &Option<Figure>, format: fn(f64) -> String| {
        of.as_ref().map_or_else(|| Entry::text("–"), |of| figure(of, format))
    };
    vec![
        Entry::gateway(&row.gateway),
        limit(carried.limit_cpus),
        cost(row, &row.cpu_cores, quantity::cores),
        cost(row, &row.memory_bytes_mean, quantity::bytes),
        figure(&carried.received_bytes_per_s, megabytes),
        figure(&carried.sent_bytes_per_s, megabytes),
        figure(&row.throughput_per_s, quantity::rate),
        figure(&carried.requests_per_day, millions),
        cost(row, &row.cpu_us_per_request, microseconds),
        optional(&carried.handshakes_per_cpu_s, quantity::number),
        optional(&carried.resumed_share, quantity::percent),
        latency_entry(row, "p50"),
        latency_entry(row, "p99"),
        counts(row, &row.throughput_per_s, is_closed),
    ]
}

fn of_starts(starts: &Starts) -> Table {
    let row = |row: &StartRow| (row.gateway.clone(), start_entries(row));
    Table {
        caption: caption("Start and configuration", &axes_words(&starts.axes)),
        columns: columns(&START_COLUMNS),
        rows: by_gateway(starts.rows.iter().map(row)),
    }
}

fn start_entries(row: &StartRow) -> Vec<Entry> {
    let configuration = row.configuration_memory_bytes.as_ref();
    vec![
        Entry::gateway(&row.gateway),
        limit(row.limit_cpus),
        figure(&row.first_answer_ns, quantity::time_ns),
        figure(&row.cpu_s, |seconds| quantity::time_ns(seconds * 1e9)),
        figure(&row.memory_bytes, quantity::bytes),
        configuration.map_or_else(|| Entry::text("–"), |of| figure(of, quantity::bytes)),
        row.configuration_bytes
            .map_or_else(|| Entry::text("n/a"), |bytes| Entry::text(quantity::bytes(bytes as f64))),
        valid(&row.first_answer_ns),
    ]
}

/// How many repeats count, and why the others do not.
fn valid(of: &Figure) -> Entry {
    let chip = |(reason, _)| Chip { text: reason_name(reason).to_owned(), tone: Tone::Bad };
    Entry::chips(
        format!("{} of {}", of.valid, of.repeats.len()),
        of.reasons().into_iter().map(chip).collect(),
    )
}

/// Rows with one entry for each gateway in the first column.
fn by_gateway(rows: impl Iterator<Item = (String, Vec<Entry>)>) -> Vec<Vec<Entry>> {
    let rows: Vec<(String, Vec<Entry>)> = rows.collect();
    let groups = rows.chunk_by(|(one, _), (other, _)| one == other);
    let entries = |group: &[(String, Vec<Entry>)]| group.iter().map(|(_, entries)| entries.clone()).collect();
    Table::merged(groups.map(entries).collect(), &[0])
}

fn columns(of: &[(&str, u8)]) -> Vec<Column> {
    let column = |(title, keep): &(&str, u8)| match *title {
        "Gateway" | "Valid repeats" => Column::text(title, *keep),
        _ => Column::number(title, *keep),
    };
    of.iter().map(column).collect()
}

fn caption(what: &str, axes: &str) -> String {
    if axes.is_empty() { what.to_owned() } else { format!("{what}: {axes}") }
}

fn limit(cpus: Option<f64>) -> Entry {
    Entry::text(cpus.map_or_else(|| "none".to_owned(), |cpus| cpus.to_string()))
}

/// `353 million`.
fn millions(count: f64) -> String {
    format!("{} million", quantity::number(count / 1e6))
}

/// `13.3 MB/s`.
fn megabytes(bytes_per_s: f64) -> String {
    format!("{} MB/s", quantity::number(bytes_per_s / 1e6))
}
