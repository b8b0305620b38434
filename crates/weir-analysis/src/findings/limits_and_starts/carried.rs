//! Bytes, requests per day and handshakes of each load, at every CPU limit of the data plane.

use serde::Serialize;
use weir_results::{Run, TlsResult, is_baseline};

use super::{by_limit, limit_cpus, without_limit};
use crate::figures::figure::{Figure, Sample};
use crate::findings::new_connections::per_connection;
use crate::points::Point;
use crate::points::axes::Axes;
use crate::points::grouping::Group;
use crate::points::measured::{Repeat, Repeats};
use crate::verdicts::reasons::Metric;

const DAY_S: f64 = 86_400.0;

/// The results of one load at each CPU limit of the data plane.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CarriedLoad {
    /// Name of the load.
    pub load: String,
    /// Values of all axes except the CPU limit.
    pub axes: Axes,
    /// Whether bytes are counted at the gateways' network interfaces, including traffic with the upstream. Otherwise
    /// clients count the bytes that they send and receive inside TLS.
    pub of_interfaces: bool,
    /// Gateways in the scenario's order, each with ascending CPU limits.
    pub rows: Vec<CarriedRow>,
}

/// Additional values of a gateway at one CPU limit. They are not in the gateway's row of the load point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CarriedRow {
    /// The gateway's name.
    pub gateway: String,
    /// Index of the load point in the summary's `points`.
    pub point: usize,
    /// CPU limit of the data plane, cores; `None` without a limit.
    pub limit_cpus: Option<f64>,
    /// Bytes that the gateway received per second.
    pub received_bytes_per_s: Figure,
    /// Bytes that the gateway sent per second.
    pub sent_bytes_per_s: Figure,
    /// Complete responses per day at the measured throughput.
    pub requests_per_day: Figure,
    /// Handshakes divided by the data plane's CPU time in seconds; this CPU time includes the work for requests. Only
    /// for loads with TLS that close each connection after a number of requests.
    pub handshakes_per_cpu_s: Option<Figure>,
    /// Share of handshakes that resumed a TLS session; `None` without TLS.
    pub resumed_share: Option<Figure>,
}

/// All loads with their limits, in the order of the load points.
pub(super) fn find(run: &Run, groups: &[Group<'_>], points: &[Point]) -> Vec<CarriedLoad> {
    let mut loads: Vec<CarriedLoad> = Vec::new();
    // Groups and points have the same order.
    for (place, group) in groups.iter().enumerate() {
        let axes = without_limit(group.axes);
        let known = loads.iter().position(|known| known.load == group.load && known.axes == axes);
        let at = known.unwrap_or_else(|| {
            let (load, of_interfaces, rows) = (group.load.to_owned(), true, Vec::new());
            loads.push(CarriedLoad { load, axes, of_interfaces, rows });
            loads.len() - 1
        });
        for (gateway, repeats) in &group.rows {
            if !is_baseline(gateway) {
                loads[at].of_interfaces &= repeats.iter().all(|repeat| crossed(repeat, true).is_some());
                loads[at].rows.extend(row(run, group, &points[place], place, gateway, repeats));
            }
        }
    }
    for load in &mut loads {
        order(&mut load.rows);
        if !load.of_interfaces {
            continue;
        }
        for row in &mut load.rows {
            let repeats = groups[row.point].repeats(&row.gateway);
            let of = |received| repeats.map(|repeats| bytes(repeats, &|repeat| crossed(repeat, received)));
            row.received_bytes_per_s = of(true).unwrap_or_default();
            row.sent_bytes_per_s = of(false).unwrap_or_default();
        }
    }
    loads
}

/// Sorts rows by gateway in order of first appearance, then by ascending limit.
fn order(rows: &mut [CarriedRow]) {
    let names: Vec<String> = rows.iter().map(|row| row.gateway.clone()).collect();
    let first = |gateway: &String| names.iter().position(|name| name == gateway);
    rows.sort_by(|a, b| {
        first(&a.gateway).cmp(&first(&b.gateway)).then_with(|| by_limit(a.limit_cpus, b.limit_cpus))
    });
}

fn row(
    run: &Run,
    group: &Group<'_>,
    point: &Point,
    place: usize,
    gateway: &str,
    repeats: &Repeats<'_>,
) -> Option<CarriedRow> {
    let row = point.rows.iter().find(|row| row.gateway == gateway)?;
    let is_secure = repeats.iter().any(|repeat| tls(repeat).is_some());
    let per_connection = per_connection(run, group).filter(|_| is_secure);
    // The gateway receives the bytes that clients send, and sends the bytes that clients receive.
    Some(CarriedRow {
        gateway: gateway.to_owned(),
        point: place,
        limit_cpus: repeats.iter().next().and_then(|repeat| limit_cpus(repeat.cell)),
        received_bytes_per_s: bytes(repeats, &|repeat| Some(repeat.measurement.record.result.bytes.sent)),
        sent_bytes_per_s: bytes(repeats, &|repeat| Some(repeat.measurement.record.result.bytes.received)),
        requests_per_day: row.throughput_per_s.over(1.0 / DAY_S),
        handshakes_per_cpu_s: per_connection.map(|requests| {
            let of = |us: f64| 1e6 / (us * requests as f64);
            Figure::of(repeats.repeated(Metric::Cpu, &|repeat| {
                repeat.measurement.cpu_us_per_request.filter(|us| *us > 0.0).map(of).into()
            }))
            .headline_if(row.cpu_us_per_request.headline)
        }),
        resumed_share: is_secure.then(|| {
            let share = |tls: &TlsResult| tls.resumed as f64 / tls.handshakes as f64;
            Figure::of_difference(repeats.repeated(Metric::Throughput, &|repeat| {
                tls(repeat).filter(|tls| tls.handshakes > 0).map(share).into()
            }))
        }),
    })
}

fn tls<'a>(repeat: &Repeat<'a>) -> Option<&'a TlsResult> {
    repeat.measurement.record.result.tls.as_ref()
}

/// Bytes per second of the sustained phase; `of` counts the bytes of a repeat.
fn bytes(repeats: &Repeats<'_>, of: &dyn Fn(&Repeat<'_>) -> Option<u64>) -> Figure {
    let per_s = |repeat: &Repeat<'_>| {
        let duration_s = repeat.measurement.record.result.duration_s;
        Some(of(repeat)? as f64 / duration_s).filter(|_| duration_s > 0.0)
    };
    Figure::of(repeats.repeated(Metric::Throughput, &|repeat| Sample::from(per_s(repeat))))
}

/// Bytes received or sent at the gateway's network interfaces; `None` if the gateway has no network of its own.
fn crossed(repeat: &Repeat<'_>, received: bool) -> Option<u64> {
    let network = repeat.data()?.network?;
    Some(if received { network.received_bytes } else { network.sent_bytes })
}
