//! Headroom as a finding: latency against throughput, fits, throughput by connections and by cores, and the cost of
//! routes.

use weir_results::ArrivalModel;

use super::model::{Column, Finding, KEEP, Row, Table, Unit, Value};
use super::{Finder, Former, Measured};
use crate::figures::figure::Figure;
use crate::figures::quantity::count;
use crate::headroom::{Curve, CurveSpot, Fit, Fitted, Parameter, RouteCost, Scalability};

pub(super) const FINDER: Finder =
    Finder { key: "headroom", columns: &[&RATES, &STEPS, &FITS, &LAWS, &ROUTES], find };

const INTRO: &str = "weir measures the same processes at rising rates, from far below their capacity to beyond it. A \
    curve is base + work / (limit - rate), fitted to valid points by least squares of logarithms. The knee comes from \
    the Kneedle algorithm. Neither the limit nor the knee is a capacity, and weir does not use them for sizing.";

static RATES: [Column; 8] = over(Column::of("offered", "Offered", Unit::PerSecond, KEEP));
static STEPS: [Column; 8] = over(Column::of("connections", "Connections", Unit::Count, KEEP));

/// Columns of a curve. `asked` is the first column: the rate or the number of connections of each row.
const fn over(asked: Column) -> [Column; 8] {
    [
        asked,
        Column::of("throughput", "Throughput", Unit::PerSecond, KEEP).bare(),
        Column::of("p50", "p50", Unit::Nanoseconds, KEEP),
        Column::of("p90", "p90", Unit::Nanoseconds, KEEP),
        Column::of("p99", "p99", Unit::Nanoseconds, KEEP),
        Column::of("cpu_share_of_limit", "CPU % of limit", Unit::Share, 6).bare(),
        Column::of("cpu", "CPU per request", Unit::Microseconds, 5).bare(),
        Column::of("valid", "Valid repeats", Unit::Text, 7),
    ]
}

static FITS: [Column; 9] = [
    Column::of("load", "Load", Unit::Load, KEEP),
    Column::of("latency", "Latency", Unit::Text, KEEP),
    Column::of("base", "Base", Unit::Nanoseconds, 6),
    Column::of("limit", "Limit", Unit::PerSecond, 7),
    Column::of("deviation", "Deviation", Unit::Share, KEEP),
    Column::of("points", "Points", Unit::Count, 5),
    Column::of("knee", "Knee", Unit::PerSecond, 8),
    Column::of("at_knee", "At the knee", Unit::Nanoseconds, 4),
    Column::of("why_no_fit", "Why no fit", Unit::Prose, KEEP),
];

static LAWS: [Column; 9] = [
    Column::of("load", "Load", Unit::Load, KEEP),
    Column::of("alone", "At N = 1", Unit::PerSecond, 5),
    Column::of("contention", "Contention σ", Unit::Coefficient, KEEP),
    Column::of("coherence", "Coherence κ", Unit::Coefficient, KEEP),
    Column::of("r_squared", "R²", Unit::Number, KEEP),
    Column::of("peak_at", "Peak at", Unit::Number, 6),
    Column::of("peak", "Peak", Unit::PerSecond, 4),
    Column::of("points", "Points", Unit::Count, 4),
    Column::of("why_no_fit", "Why no fit", Unit::Prose, KEEP),
];

static ROUTES: [Column; 6] = [
    Column::of("load", "Load", Unit::Load, 6),
    Column::of("routes", "Routes", Unit::Text, KEEP),
    Column::of("offered", "Offered", Unit::PerSecond, KEEP),
    Column::of("few_cpu", "CPU per request, few", Unit::Microseconds, 5),
    Column::of("many_cpu", "CPU per request, many", Unit::Microseconds, 5),
    Column::of("route_cost", "Many / few", Unit::Number, KEEP).lower().compared("headroom.route_cost", 0.10),
];

fn find(measured: &Measured<'_>, _: &mut Former) -> Option<Finding> {
    let headroom = measured.headroom;
    if headroom.is_empty() {
        return None;
    }
    let mut finding = Finding::new(FINDER.key, "Headroom", INTRO);
    finding.sentences.clone_from(&headroom.conclusions);
    let same = |one: &Curve, next: &Curve| one.axes == next.axes && one.load == next.load;
    finding.tables = headroom.curves.chunk_by(same).map(latency_over_throughput).collect();
    let rest = [fits(&headroom.curves), laws(&headroom.scalability), routes(&headroom.route_costs)];
    finding.tables.extend(rest.into_iter().filter(|table| !table.rows.is_empty()));
    Some(finding)
}

/// The table of latency by throughput. All `curves` have the same load and the same values of the axes.
fn latency_over_throughput(curves: &[Curve]) -> Table {
    let is_open = curves.iter().all(|curve| curve.model == ArrivalModel::Open);
    let rows: Vec<Row> =
        curves.iter().flat_map(|curve| curve.spots.iter().map(move |at| spot(curve, at))).collect();
    let place = rows.first().map(Row::place).unwrap_or_default();
    let columns = if is_open { &RATES } else { &STEPS };
    Table { caption: format!("Latency by throughput: {place}"), columns, rows }
}

fn spot(curve: &Curve, spot: &CurveSpot) -> Row {
    let of_data = |of: &Figure| match curve.is_direct() || of.repeats.is_empty() {
        true => Value::Missing,
        false => Value::figure(of),
    };
    let asked = spot.asked_per_s.map_or_else(|| Value::count(spot.connections.into()), Value::number);
    let latency = |name: &str| Value::optional(spot.latency(name));
    // `true`: invalid repeats are expected, because a curve is deliberately measured beyond what the gateway can carry.
    let valid = Value::valid(spot.latency("p50").unwrap_or(&spot.throughput_per_s), true);
    let values = vec![
        asked,
        Value::figure(&spot.throughput_per_s),
        latency("p50"),
        latency("p90"),
        latency("p99"),
        of_data(&spot.cpu_share_of_limit),
        of_data(&spot.cpu_us_per_request),
        valid,
    ];
    Row { gateway: curve.gateway.clone(), load: curve.load.clone(), axes: curve.axes.clone(), values }
}

fn fits(curves: &[Curve]) -> Table {
    let of_gateways = curves.iter().filter(|curve| !curve.is_direct());
    let rows =
        of_gateways.flat_map(|curve| curve.fits.iter().map(move |(name, fit)| fitted(curve, name, fit)));
    Table { caption: "Fitted curves and knees".into(), columns: &FITS, rows: rows.collect() }
}

fn fitted(curve: &Curve, latency: &str, fitted: &Fitted<Fit>) -> Row {
    let knee = curve.knee.filter(|_| latency == "p99");
    let mut values = vec![Value::Missing, Value::text(latency)];
    values.extend(match fitted {
        Fitted::Fit(fit) => [
            Value::number(fit.base_ns),
            Value::number(fit.limit_per_s),
            Value::number(fit.deviation),
            Value::count(fit.points as u64),
        ],
        Fitted::Refused(_) => [const { Value::Missing }; 4],
    });
    values.push(knee.map_or(Value::Missing, |knee| Value::number(knee.throughput_per_s)));
    values.push(knee.map_or(Value::Missing, |knee| Value::number(knee.p99_ns)));
    values.push(Value::text(fitted.refused().unwrap_or_default()));
    Row { gateway: curve.gateway.clone(), load: curve.load.clone(), axes: curve.axes.clone(), values }
}

fn laws(found: &[Scalability]) -> Table {
    let rows = found.iter().map(|one| {
        let mut values = vec![Value::Missing];
        values.extend(match &one.usl {
            Fitted::Fit(usl) => {
                let peak = |of: fn((f64, f64)) -> f64| {
                    usl.peak.map_or(Value::Missing, |peak| Value::number(of(peak)))
                };
                [
                    parameter(&usl.lambda_per_s),
                    parameter(&usl.sigma),
                    parameter(&usl.kappa),
                    Value::number(usl.r_squared),
                    peak(|(at, _)| at),
                    peak(|(_, per_s)| per_s),
                ]
            }
            Fitted::Refused(_) => [const { Value::Missing }; 6],
        });
        values.push(Value::count(one.points.len() as u64));
        values.push(Value::text(one.usl.refused().unwrap_or_default()));
        Row { gateway: one.gateway.clone(), load: one.load.clone(), axes: one.axes.clone(), values }
    });
    Table { caption: "Universal Scalability Law".into(), columns: &LAWS, rows: rows.collect() }
}

fn parameter(of: &Parameter) -> Value {
    Value::estimate(of.value, of.interval)
}

fn routes(costs: &[RouteCost]) -> Table {
    let rows = costs.iter().map(|cost| {
        let path = cost.path.strip_prefix("topology.").unwrap_or(&cost.path);
        let routes = format!("{} vs. {} {path}", count(cost.many), count(cost.few));
        let mut axes = cost.axes.clone();
        axes.insert(cost.path.clone(), cost.many.into());
        let values = vec![
            Value::Missing,
            Value::text(routes),
            Value::number(cost.rate_per_s),
            Value::figure(&cost.few_cpu_us),
            Value::figure(&cost.many_cpu_us),
            Value::figure(&cost.ratio),
        ];
        Row { gateway: cost.gateway.clone(), load: cost.load.clone(), axes, values }
    });
    Table { caption: "Cost of routes".into(), columns: &ROUTES, rows: rows.collect() }
}
