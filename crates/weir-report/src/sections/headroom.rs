//! Tables of headroom: latency over throughput, what fits, connections, routes.

use weir_analysis::headroom::{
    CURVE_LATENCIES, Curve, CurveSpot, Fit, Fitted, Headroom, Parameter, RouteCost, Scalability,
};
use weir_analysis::{Figure, Summary, at_axes, axes_words, quantity, reason_name};

use crate::model::{Chip, Column, Entry, KEEP, Section, Table, Tone};
use crate::sections::tables::{figure, latency_title, microseconds, without_interval};

/// The section; `None` for a run that asks nothing of headroom.
pub(crate) fn section(summary: &Summary) -> Option<Section> {
    let headroom = &summary.headroom;
    if headroom.is_empty() {
        return None;
    }
    let mut tables: Vec<Table> = curves(headroom);
    let rest = [fits(&headroom.curves), laws(&headroom.scalability), routes(&headroom.route_costs)];
    tables.extend(rest.into_iter().flatten());
    Some(Section {
        id: "headroom".into(),
        title: "Headroom".into(),
        intro: "The same processes at rising rates, from far below their capacity to beyond it. A curve is \
            base + work / (limit - rate), fitted by least squares of logarithms to valid points only. The \
            knee comes from the Kneedle algorithm. Neither the limit nor the knee is a capacity, and weir \
            does not use them for sizing."
            .into(),
        conclusions: headroom.conclusions.clone(),
        tables,
    })
}

/// A table for each load at each point of the axes: rates in rows, grouped by gateway.
fn curves(headroom: &Headroom) -> Vec<Table> {
    let same = |one: &Curve, next: &Curve| one.axes == next.axes && one.load == next.load;
    let table = |curves: &[Curve]| {
        let asked = if curves[0].spots.iter().any(|spot| spot.asked_per_s.is_some()) {
            "Offered"
        } else {
            "Connections"
        };
        let mut columns = vec![
            Column::text("Gateway", KEEP),
            Column::number(asked, KEEP),
            Column::number("Throughput", KEEP),
        ];
        columns.extend(CURVE_LATENCIES.map(|name| Column::number(latency_title(name), KEEP)));
        columns.extend([
            Column::number("CPU % of limit", 6),
            Column::number("CPU per request", 5),
            Column::text("Valid repeats", 7),
        ]);
        let groups = curves
            .iter()
            .map(|curve| curve.spots.iter().map(|spot| row(curve, spot)).collect::<Vec<Vec<Entry>>>());
        let caption = format!("Latency over throughput: {}", at_axes(&curves[0].load, &curves[0].axes));
        Table { caption, columns, rows: Table::merged(groups.collect(), &[0]) }
    };
    headroom.curves.chunk_by(same).map(table).collect()
}

fn row(curve: &Curve, spot: &CurveSpot) -> Vec<Entry> {
    let asked = match spot.asked_per_s {
        Some(per_s) => quantity::rate(per_s),
        None => spot.connections.to_string(),
    };
    let of_data = |of: &Figure, format: fn(f64) -> String| match curve.is_direct() || of.repeats.is_empty() {
        true => Entry::text("–"),
        false => figure(of, format),
    };
    let latency =
        |name: &str| spot.latency(name).map_or_else(|| Entry::text("–"), |of| figure(of, quantity::time_ns));
    let mut entries = vec![
        Entry::gateway(&curve.gateway),
        Entry::text(asked),
        without_interval(figure(&spot.throughput_per_s, quantity::rate)),
    ];
    entries.extend(CURVE_LATENCIES.map(latency));
    entries.extend([
        without_interval(of_data(&spot.cpu_share_of_limit, quantity::percent_of_limit)),
        without_interval(of_data(&spot.cpu_us_per_request, microseconds)),
        valid(spot.latency("p50").unwrap_or(&spot.throughput_per_s)),
    ]);
    entries
}

/// How many repeats count, and why the others do not: beyond the limit that is as it should be.
fn valid(of: &Figure) -> Entry {
    let chip = |(reason, n): (weir_results::Reason, usize)| Chip {
        text: if n == of.repeats.len() {
            reason_name(reason).to_owned()
        } else {
            format!("{} {n}×", reason_name(reason))
        },
        tone: Tone::Plain,
    };
    let chips = of.reasons().into_iter().map(chip).collect();
    Entry::chips(format!("{} of {}", of.valid, of.repeats.len()), chips)
}

fn fits(curves: &[Curve]) -> Option<Table> {
    let mut columns = vec![Column::text("Gateway", KEEP), Column::text("Load", KEEP)];
    columns.extend([
        Column::text("Latency", KEEP),
        Column::number("Base", 6),
        Column::number("Limit", 7),
        Column::number("Deviation", KEEP),
        Column::number("Points", 5),
        Column::number("Knee", 8),
        Column::prose("Why no fit"),
    ]);
    let group = |curve: &Curve| -> Vec<Vec<Entry>> {
        let knee = curve.knee.map_or_else(
            || Entry::text("–"),
            |knee| Entry {
                under: Some(quantity::time_ns(knee.p99_ns)),
                ..Entry::text(quantity::rate(knee.throughput_per_s))
            },
        );
        let row = |(name, fitted): &(String, Fitted<Fit>)| {
            let mut entries = vec![
                Entry::gateway(&curve.gateway),
                Entry::text(at_axes(&curve.load, &curve.axes)),
                Entry::text(latency_title(name)),
            ];
            let knee = if name == "p99" { knee.clone() } else { Entry::text("–") };
            match fitted {
                Fitted::Fit(fit) => entries.extend([
                    Entry::text(quantity::time_ns(fit.base_ns)),
                    Entry::text(quantity::rate(fit.limit_per_s)),
                    Entry::text(quantity::percent(fit.deviation)),
                    Entry::text(fit.points.to_string()),
                    knee,
                    Entry::default(),
                ]),
                Fitted::Refused(why) => {
                    entries.extend(["–"; 4].map(Entry::text));
                    entries.extend([knee, Entry::text(why.clone())]);
                }
            }
            entries
        };
        curve.fits.iter().map(row).collect()
    };
    let groups: Vec<Vec<Vec<Entry>>> = curves.iter().filter(|curve| !curve.is_direct()).map(group).collect();
    (!groups.is_empty()).then(|| Table {
        caption: "Fitted curves and knees".into(),
        columns,
        rows: Table::merged(groups, &[0, 1]),
    })
}

fn laws(found: &[Scalability]) -> Option<Table> {
    let columns = vec![
        Column::text("Gateway", KEEP),
        Column::text("Load", KEEP),
        Column::number("At N = 1", 5),
        Column::number("Contention σ", KEEP),
        Column::number("Coherence κ", KEEP),
        Column::number("R²", KEEP),
        Column::number("Peak at", 6),
        Column::number("Points", 4),
        Column::prose("Why no fit"),
    ];
    let parameter = |of: &Parameter, format: fn(f64) -> String| Entry {
        under: of.interval.map(|[low, high]| format!("{} .. {}", format(low), format(high))),
        ..Entry::text(format(of.value))
    };
    let row = |one: &Scalability| {
        let mut entries = vec![Entry::gateway(&one.gateway), Entry::text(at_axes(&one.load, &one.axes))];
        let points = Entry::text(one.points.len().to_string());
        match &one.usl {
            Fitted::Fit(usl) => entries.extend([
                parameter(&usl.lambda_per_s, quantity::rate),
                parameter(&usl.sigma, coefficient),
                parameter(&usl.kappa, coefficient),
                Entry::text(format!("{:.3}", usl.r_squared)),
                usl.peak.map_or_else(
                    || Entry::text("–"),
                    |(at, per_s)| Entry {
                        under: Some(quantity::rate(per_s)),
                        ..Entry::text(quantity::number(at))
                    },
                ),
                points,
                Entry::default(),
            ]),
            Fitted::Refused(why) => {
                entries.extend(["–"; 5].map(Entry::text));
                entries.extend([points, Entry::text(why.clone())]);
            }
        }
        entries
    };
    (!found.is_empty()).then(|| Table {
        caption: "Universal Scalability Law".into(),
        columns,
        rows: found.iter().map(row).collect(),
    })
}

/// A coefficient to three digits, however small.
fn coefficient(value: f64) -> String {
    if value == 0.0 { "0".into() } else { format!("{value:.2e}") }
}

fn routes(costs: &[RouteCost]) -> Option<Table> {
    let columns = vec![
        Column::text("Gateway", KEEP),
        Column::text("Axis", 6),
        Column::number("Routes", KEEP),
        Column::number("Rate", KEEP),
        Column::number("CPU per request, few", 5),
        Column::number("CPU per request, many", 5),
        Column::number("Many / few", KEEP),
    ];
    let row = |cost: &RouteCost| {
        let axes = axes_words(&cost.axes);
        let axis = if axes.is_empty() { cost.path.clone() } else { format!("{}; {axes}", cost.path) };
        vec![
            Entry::gateway(&cost.gateway),
            Entry::text(axis),
            Entry::text(format!("{} vs. {}", quantity::count(cost.many), quantity::count(cost.few))),
            Entry::text(quantity::rate(cost.rate_per_s)),
            figure(&cost.few_cpu_us, microseconds),
            figure(&cost.many_cpu_us, microseconds),
            figure(&cost.ratio, quantity::number),
        ]
    };
    (!costs.is_empty()).then(|| Table {
        caption: "Cost of routes".into(),
        columns,
        rows: costs.iter().map(row).collect(),
    })
}
