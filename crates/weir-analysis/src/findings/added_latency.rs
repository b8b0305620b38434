//! Added latency compared with direct cells, as a finding. The finding has its own section only if the run measures the
//! direct baseline twice in each block. In other runs, the tables of load points show the same values.

use weir_results::{ArrivalModel, Reason};

use super::model::{Column, Finding, KEEP, Row, Table, Unit, Value};
use super::{Finder, Former, Measured};
use crate::added::{AddedCurve, AddedLatency, AuthenticationCost, Claim, CostRow, RepeatRow, RigBias, Side};
use crate::figures::figure::{Figure, Sample};
use crate::figures::quantity::rate;
use crate::points::axes::axes_words;
use crate::points::{self, Point};
use crate::verdicts::reasons::{reason_name, reason_times};

pub(super) const FINDER: Finder =
    Finder { key: "added-latency", columns: &[&DIFFERENCES, &COSTS, &REPEATS], find };

/// Text in the gateway column for the row that compares the two direct cells.
pub const RIG: &str = "the rig (A/A)";

/// The quantiles in a table of differences.
const SHOWN: [&str; 5] = ["mean", "p50", "p90", "p99", "p999"];

static DIFFERENCES: [Column; 8] = [
    Column::of("offered", "Client QPS", Unit::PerSecond, KEEP).leading(),
    Column::of("mean", "Added mean", Unit::Nanoseconds, 4).lower().compared("added-latency.mean", 0.10),
    Column::of("p50", "Added p50", Unit::Nanoseconds, KEEP).lower().compared("added-latency.p50", 0.10),
    Column::of("p90", "Added p90", Unit::Nanoseconds, 5).lower(),
    Column::of("p99", "Added p99", Unit::Nanoseconds, KEEP).lower().compared("added-latency.p99", 0.25),
    Column::of("p999", "Added p99.9", Unit::Nanoseconds, 6).lower(),
    Column::of("significant", "Significant", Unit::Text, 7),
    Column::of("valid", "Valid repeats", Unit::Text, KEEP),
];

static COSTS: [Column; 6] = [
    Column::of("at", "Load", Unit::Text, KEEP).leading(),
    Column::of("authentication", "Authentication", Unit::Text, KEEP).leading(),
    Column::of("more_p50", "p50 increase", Unit::Nanoseconds, KEEP),
    Column::of("more_p90", "p90 increase", Unit::Nanoseconds, 5),
    Column::of("more_p99", "p99 increase", Unit::Nanoseconds, KEEP),
    Column::of("more_p999", "p99.9 increase", Unit::Nanoseconds, 6),
];

/// Columns of the table of all repeats.
static REPEATS: [Column; 14] = [
    Column::of("case", "Case", Unit::Text, KEEP),
    Column::of("repeat", "Repeat", Unit::Count, 4),
    Column::of("client_qps", "Client QPS", Unit::PerSecond, KEEP),
    Column::of("authentication", "Authentication", Unit::Text, KEEP),
    Column::of("latency_min", "min", Unit::Nanoseconds, 4),
    Column::of("latency_mean", "mean", Unit::Nanoseconds, 6),
    Column::of("latency_p50", "P50", Unit::Nanoseconds, KEEP),
    Column::of("latency_p90", "P90", Unit::Nanoseconds, 5),
    Column::of("latency_p95", "P95", Unit::Nanoseconds, 3),
    Column::of("latency_p99", "P99", Unit::Nanoseconds, KEEP),
    Column::of("latency_max", "max", Unit::Nanoseconds, 4),
    Column::of("gateway_throughput", "Gateway throughput", Unit::PerSecond, 7),
    Column::of("upstream_throughput", "Upstream throughput", Unit::PerSecond, 8),
    Column::of("verdict", "Verdict", Unit::Text, 6),
];

fn find(measured: &Measured<'_>, _: &mut Former) -> Option<Finding> {
    let intro = format!(
        "Latency through the gateway minus latency of the direct cell of the same repeat, per quantile. This is a \
        difference of quantiles, not a quantile of differences. The row \"{RIG}\" compares two identical direct cells \
        and shows the bias of the rig. A quantile is significant if its whole interval excludes zero and exceeds that \
        bias. In the table of all repeats, the throughput of gateway and upstream comes from their own request \
        counters: counted requests per sent request, times the response rate of the phase."
    );
    let mut finding = Finding::new(FINDER.key, "Added latency", intro);
    match measured.added {
        Some(added) => {
            finding.sentences.clone_from(&added.conclusions);
            finding.tables = by_rate(measured, added);
            finding.tables.extend([costs(&added.costs), repeats(&added.repeats)]);
        }
        None => {
            let open = measured.points.iter().filter(|point| point.model == ArrivalModel::Open);
            let table = |point| differences(format!("Added latency: {}", Point::words(point)), &[point]);
            finding.tables = open.map(table).collect();
            finding.has_section = false;
        }
    }
    finding.tables.retain(|table| !table.rows.is_empty());
    (!finding.tables.is_empty()).then_some(finding)
}

/// A table per kind of load, with a row for each gateway and for the rig at each rate.
fn by_rate(measured: &Measured<'_>, added: &AddedLatency) -> Vec<Table> {
    let table = |curve: &AddedCurve| {
        let of_curve = curve.points.iter().map(|place| &measured.points[*place]);
        let caption = match curve.title.as_str() {
            "" => "Added latency".to_owned(),
            title => format!("Added latency: {title}"),
        };
        differences(caption, &of_curve.filter(|point| point.bias.is_some()).collect::<Vec<_>>())
    };
    added.curves.iter().map(table).collect()
}

fn differences(caption: String, points: &[&Point]) -> Table {
    let of_point = |point: &&Point| {
        let with_values = point.gateways().filter(|row| !row.added_latency_ns.is_empty());
        let mut rows: Vec<Row> = with_values.map(|row| of_gateway(point, row)).collect();
        rows.extend(point.bias.as_ref().map(|bias| of_rig(point, bias)));
        rows
    };
    Table { caption, columns: &DIFFERENCES, rows: points.iter().flat_map(of_point).collect() }
}

fn of_gateway(point: &Point, row: &points::Row) -> Row {
    let claimed = |bias: &RigBias| {
        let is_claimed = |(name, of): &(String, Figure)| bias.claim(name, of) == Claim::Significant;
        titles(row.added_latency_ns.iter().filter(|of| is_claimed(of)).map(|(name, _)| name.as_str()))
    };
    let significant = point.bias.as_ref().map_or(Value::Missing, |bias| Value::text(claimed(bias)));
    let reasons = point.added_reasons(row);
    let valid = row.added_latency("p50").map(|of| valid(of, row.planned, &reasons, ""));
    values_of(point, &row.gateway, &row.added_latency_ns, [significant, valid.unwrap_or(Value::Missing)])
}

fn of_rig(point: &Point, bias: &RigBias) -> Row {
    let is_apart = |name: &&str| bias.least_ns(name).is_some_and(|least_ns| least_ns > 0.0);
    let apart = match titles(SHOWN.into_iter().filter(is_apart)).as_str() {
        "–" => Value::Missing,
        names => Value::text(format!("bias at {names}")),
    };
    let planned = point.direct().map_or(0, |direct| direct.planned);
    let of_twin = |of: &Figure| valid(of, planned.max(of.repeats.len()), &point.bias_reasons(), "twin: ");
    let valid = bias.difference("p50").map_or(Value::Missing, of_twin);
    // The difference between the two direct cells (the bias of the rig) is not a headline.
    let not_quoted = |(name, of): &(String, Figure)| (name.clone(), Figure { headline: false, ..of.clone() });
    let differences: Vec<(String, Figure)> = bias.difference_ns.iter().map(not_quoted).collect();
    values_of(point, RIG, &differences, [apart, valid])
}

fn values_of(point: &Point, gateway: &str, of: &[(String, Figure)], behind: [Value; 2]) -> Row {
    let offered = point.rate_per_s.map_or(Value::Missing, Value::number);
    let shown = SHOWN.into_iter().map(|name| named(of, name));
    let values = std::iter::once(offered).chain(shown).chain(behind).collect();
    Row { gateway: gateway.to_owned(), load: point.load.clone(), axes: point.axes.clone(), values }
}

fn named(of: &[(String, Figure)], name: &str) -> Value {
    Value::optional(of.iter().find(|(known, _)| known == name).map(|(_, figure)| figure))
}

/// Joins the display names of quantiles; returns `–` if there are none.
fn titles<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let title = |name| if name == "p999" { "p99.9" } else { name };
    let titles: Vec<&str> = names.map(title).collect();
    if titles.is_empty() { "–".into() } else { titles.join(", ") }
}

/// The number of valid repeats of a difference, and the reasons why cells are invalid. Reasons of direct cells start
/// with `direct: `. Reasons of other cells start with the text in `own`.
fn valid(of: &Figure, planned: usize, reasons: &[(Side, Reason, usize)], own: &str) -> Value {
    let words = |(side, reason, n): &(Side, Reason, usize)| {
        let whose = if *side == Side::Direct { "direct: " } else { own };
        (format!("{whose}{}", reason_times(*reason, *n, of.repeats.len())), false)
    };
    Value::valid_because(of, planned, reasons.iter().map(words).collect())
}

/// The table of the cost of each authentication method, including the direct baseline.
fn costs(costs: &[AuthenticationCost]) -> Table {
    let of_cost = |cost: &AuthenticationCost| {
        let rate = cost.rate_per_s.map(|per_s| format!(" at {}", rate(per_s))).unwrap_or_default();
        let axes = if cost.axes.is_empty() { String::new() } else { format!("; {}", axes_words(&cost.axes)) };
        let place = format!("{}{rate}{axes}", cost.load);
        let row = |row: &CostRow| {
            let mut values = vec![Value::text(&place), Value::text(&cost.authentication)];
            values.extend(["p50", "p90", "p99", "p999"].map(|name| named(&row.more_ns, name)));
            let mut axes = cost.axes.clone();
            axes.insert("authentication".into(), cost.authentication.clone().into());
            Row { gateway: row.gateway.clone(), load: cost.load.clone(), axes, values }
        };
        cost.rows.iter().map(row).collect::<Vec<Row>>()
    };
    Table {
        caption: "Cost of authentication: latency with it minus latency without it".into(),
        columns: &COSTS,
        rows: costs.iter().flat_map(of_cost).collect(),
    }
}

/// The table with a row for every repeat of every open load.
fn repeats(repeats: &[RepeatRow]) -> Table {
    let row = |of: &RepeatRow| {
        let repeat = of.repeat.saturating_add(1);
        let rate = |per_s: Option<f64>| per_s.map_or(Value::Missing, Value::number);
        let latency = |(_, sample): &(String, Sample)| Value::Estimate {
            sample: *sample,
            interval: None,
            valid: of.reasons.is_empty(),
        };
        let mut values = vec![
            Value::text(&of.load),
            Value::count(repeat.into()),
            rate(of.asked_per_s),
            Value::text(&of.authentication),
        ];
        values.extend(of.latency_ns.iter().map(latency));
        let reasons: Vec<&str> = of.reasons.iter().map(|reason| reason_name(*reason)).collect();
        let verdict = if reasons.is_empty() { "valid".to_owned() } else { reasons.join(", ") };
        values.extend([rate(of.gateway_per_s), rate(of.upstream_per_s), Value::text(verdict)]);
        let mut axes = of.axes.clone();
        axes.insert("repeat".into(), repeat.into());
        Row { gateway: of.gateway.clone(), load: of.load.clone(), axes, values }
    };
    Table { caption: "All repeats".into(), columns: &REPEATS, rows: repeats.iter().map(row).collect() }
}
