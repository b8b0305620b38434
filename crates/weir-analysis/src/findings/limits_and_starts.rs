//! Throughput of gateways at each CPU limit, and the cost of their start and configuration. Only runs that measure
//! starts have this finding.

mod carried;
mod starts;

use serde::Serialize;
use weir_results::{ArrivalModel, Cell, Role, Run};

use super::model::{Column, Finding, KEEP, Row, Table, Unit, Value};
use super::{Finder, Former, Measured};
use crate::figures::quantity::bytes;
use crate::points::Point;
use crate::points::axes::{Axes, axes_words, of_number};
use crate::points::conclusions::with_interval;

pub use carried::{CarriedLoad, CarriedRow};
pub use starts::{StartRow, Starts};

/// The axis of the data plane's CPU limit.
const LIMIT: &str = "limits.data.cpus";

/// Loads at each CPU limit of the data plane, and starts of the gateways.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ManyDomains {
    /// One entry for each load and each combination of values of the axes other than the CPU limit.
    pub loads: Vec<CarriedLoad>,
    /// Starts of gateways, one entry for each combination of values of the axes other than the CPU limit.
    pub starts: Vec<Starts>,
    /// Conclusions, one sentence each.
    pub conclusions: Vec<String>,
}

/// Computes the tables of loads at each CPU limit, and of gateway starts; see [`ManyDomains`].
pub(super) const FINDER: Finder = Finder { key: "limits-and-starts", columns: &[&LOAD, &START], find };

static LOAD: [Column; 13] = [
    Column::of("cpu_limit", "CPU limit", Unit::Cores, KEEP),
    Column::of("cpu", "CPU", Unit::Cores, 6),
    Column::of("memory", "Memory", Unit::Bytes, 7).lower().compared("limits-and-starts.memory", 0.10),
    Column::of("received", "Receive", Unit::BytesPerSecond, 4),
    Column::of("sent", "Transmit", Unit::BytesPerSecond, 4),
    Column::of("throughput", "RPS", Unit::PerSecond, KEEP).higher(),
    Column::of("requests_per_day", "Requests per day", Unit::PerDay, 2).higher(),
    Column::of("cpu_per_request", "CPU per request", Unit::Microseconds, KEEP).lower(),
    Column::of("handshakes_per_cpu_s", "Handshakes per CPU second", Unit::Number, 8)
        .higher()
        .compared("limits-and-starts.handshakes_per_cpu_s", 0.05)
        .cpu_time(),
    Column::of("resumed", "Resumed", Unit::Share, 3),
    Column::of("p50", "p50", Unit::Nanoseconds, 5).lower(),
    Column::of("p99", "p99", Unit::Nanoseconds, 5).lower(),
    Column::of("valid", "Valid repeats", Unit::Text, KEEP),
];

static START: [Column; 7] = [
    Column::of("cpu_limit", "CPU limit", Unit::Cores, KEEP),
    Column::of("first_200", "First 200", Unit::Nanoseconds, KEEP)
        .lower()
        .judged("limits-and-starts.first_200", 0.10),
    Column::of("start_cpu", "CPU time until first 200", Unit::Seconds, KEEP)
        .lower()
        .compared("limits-and-starts.start_cpu", 0.10)
        .cpu_time(),
    Column::of("start_memory", "Memory before load", Unit::Bytes, KEEP)
        .lower()
        .judged("limits-and-starts.start_memory", 0.10),
    Column::of("configuration_memory", "Memory of configuration", Unit::Bytes, KEEP)
        .lower()
        .compared("limits-and-starts.configuration_memory", 0.10),
    Column::of("configuration_bytes", "Configuration files", Unit::Bytes, 5),
    Column::of("valid", "Valid repeats", Unit::Text, 7),
];

/// Whether the scenario requests measurements of starts, or a cell contains such a measurement. Otherwise the run does
/// not have this finding. In a cluster, weir does not measure starts even if the scenario requests them. The finding
/// then contains only the tables of loads.
pub(super) fn has_starts(run: &Run, cells: &[Cell]) -> bool {
    run.scenario["cold_start"] == true || cells.iter().any(|cell| cell.cold_start.is_some())
}

fn find(measured: &Measured<'_>, former: &mut Former) -> Option<Finding> {
    let Measured { run, cells, groups, points, .. } = *measured;
    if !has_starts(run, cells) {
        return None;
    }
    let starts = starts::find(run, cells);
    let conclusions: Vec<String> = starts.iter().flat_map(conclude).collect();
    let domains = ManyDomains { loads: carried::find(run, groups, points), starts, conclusions };
    if domains.loads.is_empty() && domains.starts.is_empty() {
        return None;
    }
    let title = match domains.starts.is_empty() {
        true => "Throughput per CPU limit",
        false => "Throughput per CPU limit, and startup",
    };
    let mut finding = Finding::new(FINDER.key, title, intro(&domains));
    finding.sentences.clone_from(&domains.conclusions);
    let loads = domains.loads.iter().map(|load| of_load(points, load));
    finding.tables = loads.chain(domains.starts.iter().map(of_starts)).collect();
    former.domains = Some(domains);
    Some(finding)
}

fn intro(domains: &ManyDomains) -> String {
    let bytes = match domains.loads.iter().any(|load| load.of_interfaces) {
        true => "all bytes at its network interface, including those to and from the upstream",
        false => {
            "bytes sent and received by clients, inside TLS (with `network: namespaces`, bytes at its network \
            interface)"
        }
    };
    let starts = match domains.starts.is_empty() {
        true => "",
        false => {
            " First 200 is the time from the launch of the first process to the first 200 response for the last path \
            of the last domain. weir polls for this response at intervals of one fiftieth of the time since the \
            launch, and measures the memory right after it. Memory of configuration is this memory minus the memory \
            of the same gateway with one domain, in the same repeat."
        }
    };
    format!(
        "All loads at all CPU limits of the data plane. Receive and transmit are from the gateway's view: {bytes}. \
        Requests per day is this throughput for 86,400 s. Handshakes per CPU second come from loads that close \
        each connection after a number of requests, and include the work for these requests. Quote latency only \
        from open loads.{starts}"
    )
}

fn of_load(points: &[Point], load: &CarriedLoad) -> Table {
    let row = |carried: &CarriedRow| {
        let point = &points[carried.point];
        let of = point.rows.iter().find(|row| row.gateway == carried.gateway)?;
        let is_closed = point.model == ArrivalModel::Closed;
        let latency = |name: &str| Value::optional(of.latency(name));
        let values = vec![
            limit(carried.limit_cpus),
            Value::figure(&of.cpu_cores),
            Value::figure(&of.memory_bytes_mean),
            Value::figure(&carried.received_bytes_per_s),
            Value::figure(&carried.sent_bytes_per_s),
            Value::figure(&of.throughput_per_s),
            Value::figure(&carried.requests_per_day),
            Value::figure(&of.cpu_us_per_request),
            Value::optional(carried.handshakes_per_cpu_s.as_ref()),
            Value::optional(carried.resumed_share.as_ref()),
            latency("p50"),
            latency("p99"),
            Value::valid_of_row(of, &of.throughput_per_s, is_closed),
        ];
        let (gateway, load) = (of.gateway.clone(), load.load.clone());
        Some(Row { gateway, load, axes: point.axes.clone(), values })
    };
    Table {
        caption: caption(&load.load, &load.axes),
        columns: &LOAD,
        rows: load.rows.iter().filter_map(row).collect(),
    }
}

fn of_starts(starts: &Starts) -> Table {
    let row = |row: &StartRow| {
        let bytes = row.configuration_bytes.map(|bytes| bytes as f64);
        let words = bytes.is_none().then(|| "n/a".to_owned());
        let mut axes = starts.axes.clone();
        axes.extend(row.limit_cpus.map(|cpus| (LIMIT.to_owned(), of_number(cpus))));
        let values = vec![
            limit(row.limit_cpus),
            Value::figure(&row.first_answer_ns),
            Value::figure(&row.cpu_s),
            Value::figure(&row.memory_bytes),
            Value::optional(row.configuration_memory_bytes.as_ref()),
            Value::Number { number: bytes, words },
            Value::valid(&row.first_answer_ns, false),
        ];
        Row { gateway: row.gateway.clone(), load: String::new(), axes, values }
    };
    Table {
        caption: caption("Start and configuration", &starts.axes),
        columns: &START,
        rows: starts.rows.iter().map(row).collect(),
    }
}

fn caption(what: &str, axes: &Axes) -> String {
    let axes = axes_words(axes);
    if axes.is_empty() { what.to_owned() } else { format!("{what}: {axes}") }
}

fn limit(cpus: Option<f64>) -> Value {
    let words = cpus.map_or_else(|| "none".to_owned(), |cpus| cpus.to_string());
    Value::Number { number: cpus, words: Some(words) }
}

/// States how much memory more domains need, for each gateway at its highest CPU limit.
fn conclude(starts: &Starts) -> Vec<String> {
    let is_last = |(place, row): &(usize, &StartRow)| {
        starts.rows.get(place + 1).is_none_or(|next| next.gateway != row.gateway)
    };
    let said = |(_, row): (usize, &StartRow)| {
        let more = row.configuration_memory_bytes.as_ref().filter(|more| more.headline)?;
        Some(format!(
            "{} uses {} more memory with {} than with one domain, before any load.",
            row.gateway,
            with_interval(more, bytes),
            axes_words(&starts.axes)
        ))
    };
    starts.rows.iter().enumerate().filter(is_last).filter_map(said).collect()
}

/// The CPU limit of a cell's data plane, cores: from the axis, else from the parts. `None` without a limit.
fn limit_cpus(cell: &Cell) -> Option<f64> {
    let axis = cell.key.axes.get(LIMIT).and_then(serde_json::Value::as_f64);
    let data = cell.parts.iter().filter(|part| part.role == Role::Data);
    axis.or_else(|| data.map(|part| part.limit_cpus).sum::<Option<f64>>().filter(|cpus| *cpus > 0.0))
}

/// Orders limits ascending, with `None` (no limit) last.
fn by_limit(a: Option<f64>, b: Option<f64>) -> std::cmp::Ordering {
    a.unwrap_or(f64::INFINITY).total_cmp(&b.unwrap_or(f64::INFINITY))
}

fn without_limit(axes: &Axes) -> Axes {
    axes.iter()
        .filter(|(path, _)| *path != LIMIT)
        .map(|(path, value)| (path.clone(), value.clone()))
        .collect()
}
