//! Rate of new connections, in loads that close each connection after a number of requests.

use serde::Serialize;

use weir_results::{ArrivalModel, DIRECT, Run, TlsResult};

use super::limits_and_starts::has_starts;
use super::model::{Column, Finding, KEEP, Row, Table, Unit, Value};
use super::{Finder, Former, Measured};
use crate::figures::figure::{Figure, Sample};
use crate::figures::quantity::{count, rate, time_ns};
use crate::points::axes::{Axes, at_axes, with_axes};
use crate::points::conclusions::ranked;
use crate::points::grouping::Group;
use crate::points::measured::{Repeat, Repeats};
use crate::points::{self, Point};
use crate::verdicts::reasons::Metric;

/// A load that closes each connection after a number of requests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NewConnections {
    /// Name of the load.
    pub load: String,
    /// Values of the axes.
    pub axes: Axes,
    /// Number of requests after which the load closes a connection.
    pub per_connection: u64,
    /// Gateways in the scenario's order, the direct baseline last.
    pub rows: Vec<NewConnectionsRow>,
    /// Sentences about the gateways.
    pub conclusions: Vec<String>,
}

/// The values of one gateway in a load that closes its connections.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NewConnectionsRow {
    /// Name of the gateway or of the direct baseline.
    pub gateway: String,
    /// New connections per second: throughput divided by requests per connection.
    pub per_s: Figure,
    /// CPU time of the data plane per connection, including its requests, microseconds.
    pub cpu_us: Figure,
    /// `cpu_us` minus the CPU time of the same number of requests over persistent connections, in the same repeat.
    /// `None` if the run has no load with persistent connections.
    pub connection_cpu_us: Option<Figure>,
    /// p50 of the handshake time, nanoseconds; `None` without TLS.
    pub handshake_p50_ns: Option<Figure>,
    /// p99 of the handshake time, nanoseconds; `None` without TLS.
    pub handshake_p99_ns: Option<Figure>,
    /// Share of handshakes that resumed a TLS session; `None` without TLS.
    pub resumed_share: Option<Figure>,
    /// Number of failed or refused connection attempts and of failed handshakes, in all repeats together.
    pub failed: u64,
}

/// Finds loads that open new connections; see [`NewConnections`].
pub(super) const FINDER: Finder = Finder { key: "new-connections", columns: &[&COLUMNS], find };

const INTRO: &str = "\
Results of loads that close each connection after a number of requests. The closed load shows the maximum rate of new \
connections; its handshakes queue in a saturated gateway. The open load shows the handshake time below saturation. CPU \
time includes the requests. Handshake times start when the TCP connection is established, and exclude connections \
opened before the load starts. Failed handshakes and failed connections are counted together.";

static COLUMNS: [Column; 8] = [
    Column::of("per_second", "New connections", Unit::PerSecond, KEEP)
        .higher()
        .compared("new-connections.per_second", 0.10),
    Column::of("cpu", "CPU per connection", Unit::Microseconds, KEEP)
        .lower()
        .compared("new-connections.cpu", 0.05)
        .cpu_time(),
    Column::of("cpu_without_requests", "Without requests", Unit::Microseconds, 6)
        .lower()
        .compared("new-connections.cpu_without_requests", 0.10)
        .cpu_time(),
    Column::of("handshake_p50", "Handshake p50", Unit::Nanoseconds, 6)
        .lower()
        .compared("new-connections.handshake_p50", 0.10),
    Column::of("handshake_p99", "Handshake p99", Unit::Nanoseconds, 8)
        .lower()
        .compared("new-connections.handshake_p99", 0.25),
    Column::of("resumed", "Resumed", Unit::Share, 5),
    Column::of("failed", "Failed", Unit::Count, 7).lower(),
    Column::of("valid", "Valid repeats", Unit::Text, 7),
];

fn find(measured: &Measured<'_>, former: &mut Former) -> Option<Finding> {
    let loads = loads(measured.run, measured.groups, measured.points);
    let mut finding = Finding::new(FINDER.key, "New connections", INTRO);
    finding.sentences = loads.iter().flat_map(|load| load.conclusions.clone()).collect();
    finding.tables = loads.iter().map(table).collect();
    // If the run measures starts, the finding `limits-and-starts` already shows these values.
    let found = (!loads.is_empty() && !has_starts(measured.run, measured.cells)).then_some(finding);
    former.new_connections = loads;
    found
}

fn table(load: &NewConnections) -> Table {
    let requests = match load.per_connection {
        1 => "one request each".to_owned(),
        more => format!("{} requests each", count(more)),
    };
    let row = |row: &NewConnectionsRow| {
        let of_gateway = |value: Value| if row.gateway == DIRECT { Value::Missing } else { value };
        let values = vec![
            Value::figure(&row.per_s),
            of_gateway(Value::figure(&row.cpu_us)),
            of_gateway(Value::optional(row.connection_cpu_us.as_ref())),
            Value::optional(row.handshake_p50_ns.as_ref()),
            Value::optional(row.handshake_p99_ns.as_ref()),
            Value::optional(row.resumed_share.as_ref()),
            Value::count(row.failed),
            Value::valid(&row.per_s, true),
        ];
        Row { gateway: row.gateway.clone(), load: load.load.clone(), axes: load.axes.clone(), values }
    };
    Table {
        caption: format!("{}, {requests}", at_axes(&load.load, &load.axes)),
        columns: &COLUMNS,
        rows: load.rows.iter().map(row).collect(),
    }
}

/// The loads that open new connections, in the order of the load points.
fn loads(run: &Run, groups: &[Group<'_>], points: &[Point]) -> Vec<NewConnections> {
    // Groups and points have the same order.
    let pairs = groups.iter().zip(points);
    let of = |(group, point): (&Group<'_>, &Point)| {
        let per_connection = per_connection(run, group)?;
        let is_kept = |(other, _): &(&Group<'_>, &Point)| {
            let is_same = other.axes == group.axes && other.model == group.model;
            is_same && self::per_connection(run, other).is_none()
        };
        let kept = groups.iter().zip(points).find(is_kept).map(|(_, point)| point);
        let row = |row: &points::Row| {
            let kept = kept.and_then(|kept| kept.rows.iter().find(|other| other.gateway == row.gateway));
            Some(new_row(group.repeats(&row.gateway)?, row, kept, per_connection))
        };
        let rows: Vec<NewConnectionsRow> = point.rows.iter().filter_map(row).collect();
        Some(NewConnections {
            load: group.load.to_owned(),
            axes: group.axes.clone(),
            per_connection,
            conclusions: conclude(point, &rows),
            rows,
        })
    };
    pairs.filter_map(of).collect()
}

/// Ranks gateways by new connections in closed loads, by handshake p99 in open loads, and by CPU time per connection.
fn conclude(point: &Point, rows: &[NewConnectionsRow]) -> Vec<String> {
    let ranked_by = |of: fn(&NewConnectionsRow) -> Option<&Figure>, verb, most, format| {
        let gateways = rows.iter().filter(|row| row.gateway != DIRECT);
        let figures = gateways.filter_map(|row| Some((row.gateway.as_str(), of(row)?)));
        ranked(figures.filter(|(_, figure)| figure.headline).collect(), verb, most, format)
    };
    let least_cpu = ranked_by(
        |row| Some(&row.cpu_us),
        "used the least CPU time per new connection",
        false,
        |us| time_ns(us * 1e3),
    );
    let first = match point.model {
        ArrivalModel::Closed => {
            ranked_by(|row| Some(&row.per_s), "accepted the most new connections", true, rate)
        }
        ArrivalModel::Open => {
            ranked_by(|row| row.handshake_p99_ns.as_ref(), "had the lowest handshake p99", false, time_ns)
        }
    };
    let of_load = |said: String| format!("{}: {said}", with_axes(&point.load, &point.axes));
    [first, least_cpu].into_iter().flatten().map(of_load).collect()
}

/// Requests per connection; `None` for persistent connections.
pub(crate) fn per_connection(run: &Run, group: &Group<'_>) -> Option<u64> {
    let axis = group.axes.get(&format!("loads.{}.per_connection", group.load));
    let written = run.scenario.get("loads").and_then(|loads| loads.get(group.load)?.get("per_connection"));
    axis.or(written).and_then(serde_json::Value::as_u64)
}

fn new_row(
    repeats: &Repeats<'_>,
    row: &points::Row,
    kept: Option<&points::Row>,
    per_connection: u64,
) -> NewConnectionsRow {
    let each = per_connection.max(1) as f64;
    let is_secure = repeats.iter().any(|repeat| tls(repeat).is_some());
    let of_tls = |metric: Metric, of: fn(&TlsResult) -> Option<f64>| {
        repeats.repeated(metric, &|repeat| Sample::from(tls(repeat).and_then(of)))
    };
    let handshake =
        |of: fn(&TlsResult) -> Option<f64>| is_secure.then(|| Figure::of(of_tls(Metric::Latency, of)));
    let failed = |repeat: &Repeat<'_>| {
        let errors = &repeat.measurement.record.result.errors;
        errors.connect + errors.refused + tls(repeat).map_or(errors.tls, |tls| tls.failed)
    };
    let cpu_us = repeats.repeated(Metric::Cpu, &|repeat| {
        Sample::from(repeat.measurement.cpu_us_per_request.map(|us| us * each))
    });
    let cpu_us = Figure::of(cpu_us).headline_if(row.cpu_us_per_request.headline);
    let alone = |kept: &points::Row| {
        let less = cpu_us.paired(&kept.cpu_us_per_request, |whole, request| whole - request * each);
        Figure::of_difference(less)
    };
    NewConnectionsRow {
        gateway: row.gateway.clone(),
        per_s: row.throughput_per_s.over(each),
        connection_cpu_us: kept.map(alone),
        cpu_us,
        handshake_p50_ns: handshake(|tls| tls.handshake_ns.p50.map(|ns| ns as f64)),
        handshake_p99_ns: handshake(|tls| tls.handshake_ns.p99.map(|ns| ns as f64)),
        resumed_share: is_secure.then(|| {
            Figure::of_difference(of_tls(Metric::Throughput, |tls| {
                (tls.handshakes > 0).then(|| tls.resumed as f64 / tls.handshakes as f64)
            }))
        }),
        failed: repeats.iter().map(failed).sum(),
    }
}

fn tls<'a>(repeat: &Repeat<'a>) -> Option<&'a TlsResult> {
    repeat.measurement.record.result.tls.as_ref()
}
