//! How many new connections a second gateways take, of loads whose connections end after so many requests.

use serde::Serialize;
use serde_json::Value;
use weir_results::{Run, TlsResult};

use crate::figure::{Figure, Sample};
use crate::grouping::Group;
use crate::measured::{Repeat, Repeats};
use crate::reasons::Metric;
use crate::summary::{Axes, Point, Row};

/// A load whose connections end after so many requests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NewConnections {
    /// The load.
    pub load: String,
    /// Values of the axes.
    pub axes: Axes,
    /// Requests after which a connection ends.
    pub per_connection: u64,
    /// Gateways in the scenario's order, direct last.
    pub rows: Vec<NewConnectionsRow>,
}

/// A gateway that takes new connections.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NewConnectionsRow {
    /// The gateway's name, or that of the direct baseline.
    pub gateway: String,
    /// New connections per second: throughput over requests per connection.
    pub per_s: Figure,
    /// CPU time of the data plane for each of them, its requests included, microseconds.
    pub cpu_us: Figure,
    /// p50 of handshakes, nanoseconds; only over TLS.
    pub handshake_p50_ns: Option<Figure>,
    /// p99 of the same.
    pub handshake_p99_ns: Option<Figure>,
    /// Share of the handshakes that resumed a session; only over TLS.
    pub resumed_share: Option<Figure>,
    /// Attempts to connect that failed or were refused, and handshakes that failed, over all repeats.
    pub failed: u64,
}

/// The loads in the order of the points; none where connections are kept.
pub(crate) fn find(run: &Run, groups: &[Group<'_>], points: &[Point]) -> Vec<NewConnections> {
    // Groups and points stand in the same order.
    let pairs = groups.iter().zip(points);
    let of = |(group, point): (&Group<'_>, &Point)| {
        let per_connection = per_connection(run, group)?;
        let row = |row: &Row| Some(new_row(group.repeats(&row.gateway)?, row, per_connection));
        Some(NewConnections {
            load: group.load.to_owned(),
            axes: group.axes.clone(),
            per_connection,
            rows: point.rows.iter().filter_map(row).collect(),
        })
    };
    pairs.filter_map(of).collect()
}

/// After how many requests connections end; `None` where they are kept.
pub(crate) fn per_connection(run: &Run, group: &Group<'_>) -> Option<u64> {
    let axis = group.axes.get(&format!("loads.{}.per_connection", group.load));
    let written = run.scenario.get("loads").and_then(|loads| loads.get(group.load)?.get("per_connection"));
    axis.or(written).and_then(Value::as_u64)
}

fn new_row(repeats: &Repeats<'_>, row: &Row, per_connection: u64) -> NewConnectionsRow {
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
    NewConnectionsRow {
        gateway: row.gateway.clone(),
        per_s: row.throughput_per_s.over(each),
        cpu_us: Figure::of(cpu_us).headline_if(row.cpu_us_per_request.headline),
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
