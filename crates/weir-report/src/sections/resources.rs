//! The resources that each part of the rig used at a load point, including the load generator and the upstream.

use weir_analysis::{PartUse, Point, Row, quantity};

use crate::model::{Column, Entry, KEEP, Table};
use crate::sections::tables::role_name;

/// The table of CPU, memory, network, block devices and processes.
pub(crate) fn resources(point: &Point) -> Table {
    let columns = vec![
        Column::text("With", KEEP),
        Column::text("Part", KEEP),
        Column::number("CPU cores", KEEP),
        Column::number("User", 3),
        Column::number("System", 3),
        Column::number("CPU % of limit", KEEP),
        Column::number("Throttled", 4),
        Column::number("Memory", KEEP),
        Column::number("Limit", 5),
        Column::number("Memory %", 6),
        Column::number("Peak", 6),
        Column::number("Network in", 2),
        Column::number("Network out", 2),
        Column::number("Block in", 1),
        Column::number("Block out", 1),
        Column::number("PIDs", 2),
    ];
    Table {
        caption: "Resources of all parts of the rig, means over valid repeats".into(),
        columns,
        rows: rows(point, resource_entries),
    }
}

/// The table of threads, open files, context switches and packets.
pub(crate) fn kernel_counts(point: &Point) -> Table {
    let columns = vec![
        Column::text("With", KEEP),
        Column::text("Part", KEEP),
        Column::number("Threads", KEEP),
        Column::number("Open files", KEEP),
        Column::number("Sockets", KEEP),
        Column::number("Voluntary switches", KEEP),
        Column::number("Involuntary switches", KEEP),
        Column::number("Packets in", KEEP),
        Column::number("Packets out", KEEP),
        Column::number("TCP retransmits", KEEP),
    ];
    Table {
        caption: "Threads, files, context switches and packets of all parts".into(),
        columns,
        rows: rows(point, kernel_entries),
    }
}

/// One row per part of the rig, grouped by the gateway that was measured.
fn rows(point: &Point, entries: fn(&PartUse) -> Vec<Entry>) -> Vec<Vec<Entry>> {
    let part = |row: &Row, part: &PartUse| {
        let name = format!("{} ({})", part.name, role_name(part.role));
        let mut all = vec![Entry::gateway(&row.gateway), Entry::text(name)];
        all.extend(entries(part));
        all
    };
    let groups = point.rows.iter().map(|row| row.parts.iter().map(|used| part(row, used)).collect());
    Table::merged(groups.collect(), &[0])
}

fn resource_entries(part: &PartUse) -> Vec<Entry> {
    let none = || Entry::text(if part.limits_known { "no limit" } else { "n/a" });
    let of_cpus = |entry: Entry| if part.limit_cpus.is_some() { entry } else { none() };
    let of_memory = |entry: Entry| if part.limit_memory_bytes.is_some() { entry } else { none() };
    vec![
        or_na(part, part.cpu_cores, quantity::cores),
        or_na(part, part.cpu_cores_user, quantity::cores),
        or_na(part, part.cpu_cores_system, quantity::cores),
        of_cpus(or_na(part, part.cpu_share_of_limit, quantity::percent_of_limit)),
        of_cpus(or_na(part, part.throttled_share, quantity::percent)),
        or_na(part, part.memory_bytes_mean, quantity::bytes),
        of_memory(or_na(part, part.limit_memory_bytes.map(|bytes| bytes as f64), quantity::bytes)),
        of_memory(or_na(part, part.memory_share_of_limit, quantity::percent_of_limit)),
        or_na(part, part.memory_bytes_peak, quantity::bytes),
        or_na(part, part.network_received_bytes_per_s, bytes_per_s),
        or_na(part, part.network_sent_bytes_per_s, bytes_per_s),
        or_na(part, part.block_read_bytes_per_s, bytes_per_s),
        or_na(part, part.block_written_bytes_per_s, bytes_per_s),
        count(part, part.pids_max),
    ]
}

fn kernel_entries(part: &PartUse) -> Vec<Entry> {
    vec![
        count(part, part.threads_max),
        count(part, part.open_files_max),
        count(part, part.sockets_max),
        or_na(part, part.switches_voluntary_per_s, quantity::rate),
        or_na(part, part.switches_involuntary_per_s, quantity::rate),
        or_na(part, part.network_received_packets_per_s, quantity::rate),
        or_na(part, part.network_sent_packets_per_s, quantity::rate),
        or_na(part, part.retransmitted_segments_per_s, quantity::rate),
    ]
}

fn or_na(part: &PartUse, value: Option<f64>, format: fn(f64) -> String) -> Entry {
    known(part, value.map(format))
}

fn count(part: &PartUse, value: Option<u64>) -> Entry {
    known(part, value.map(quantity::count))
}

fn known(part: &PartUse, text: Option<String>) -> Entry {
    match text {
        Some(text) => Entry { invalid: !part.counts, ..Entry::text(text) },
        None => Entry::text("n/a"),
    }
}

fn bytes_per_s(value: f64) -> String {
    format!("{}/s", quantity::bytes(value))
}
