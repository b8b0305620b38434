//! What gateways add at each rate, what authentication costs, and every repeat as a row.

use weir_analysis::{
    AddedCurve, AddedLatency, AuthenticationCost, Claim, Figure, Point, RepeatRow, RigBias, Row, Sample,
    Side, Summary, axes_words, quantity, reason_name, reason_times,
};
use weir_results::{Reason, is_baseline};

use crate::charts::colors::color_of;
use crate::model::plot::{Line, Marks, Panel, Plot, Spot, reach};
use crate::model::scale::{Scale, Unit};
use crate::model::{Chip, Column, Entry, KEEP, Section, Table, Tone};
use crate::sections::tables::{figure, latency_title};

/// Quantiles of the tables, in their order, and how long a narrow terminal keeps them.
const QUANTILES: [(&str, u8); 4] = [("p50", KEEP), ("p90", 5), ("p99", KEEP), ("p999", 6)];

/// Quantiles that are drawn.
const DRAWN: [&str; 2] = ["p50", "p99"];

/// What the row between the two direct cells is called.
const RIG: &str = "the rig (A/A)";

/// Columns of a repeat's row: those of the report that it is after.
const REPEAT_COLUMNS: [(&str, u8); 12] = [
    ("Case", KEEP),
    ("Client QPS", KEEP),
    ("Authentication", KEEP),
    ("min", 4),
    ("mean", 6),
    ("P50", KEEP),
    ("P90", 5),
    ("P95", 3),
    ("P99", KEEP),
    ("max", 4),
    ("Gateway throughput", 7),
    ("Upstream throughput", 8),
];

/// The section; `None` where no direct cell has a twin.
pub(crate) fn section(summary: &Summary) -> Option<Section> {
    let added = summary.added.as_ref()?;
    let mut tables: Vec<Table> =
        added.curves.iter().filter_map(|curve| differences(summary, curve)).collect();
    tables.extend(costs(&added.costs));
    tables.push(repeats(added));
    Some(Section {
        id: "added-latency".into(),
        title: "Added latency".into(),
        intro: format!(
            "Latency through the gateway minus latency of the direct cell of the same repeat, per quantile. \
            This is a difference of quantiles, not a quantile of differences. The row \"{RIG}\" compares two \
            identical direct cells and shows the bias of the rig. A quantile is significant if its whole \
            interval lies beyond zero and beyond that bias. In the table of all repeats, the throughput of \
            gateway and upstream is their own request count per request sent, times the response rate of the \
            phase."
        ),
        conclusions: added.conclusions.clone(),
        tables,
    })
}

/// Added latency at each rate: a row for each gateway, and one for the rig.
fn differences(summary: &Summary, curve: &AddedCurve) -> Option<Table> {
    let mut columns = vec![Column::number("Client QPS", KEEP), Column::text("Gateway", KEEP)];
    columns.extend(
        QUANTILES.map(|(name, keep)| Column::number(&format!("Added {}", latency_title(name)), keep)),
    );
    columns.push(Column::text("Significant", 7));
    columns.push(Column::text("Valid repeats", KEEP));
    let points = curve.points.iter().map(|place| &summary.points[*place]);
    let groups: Vec<Vec<Vec<Entry>>> = points
        .filter_map(|point| {
            let bias = point.bias.as_ref()?;
            let mut group: Vec<Vec<Entry>> =
                point.gateways().map(|row| gateway_row(point, row, bias)).collect();
            group.push(rig_row(point, bias));
            Some(group)
        })
        .collect();
    let caption = match curve.title.as_str() {
        "" => "Added latency".to_owned(),
        title => format!("Added latency: {title}"),
    };
    (!groups.is_empty()).then(|| Table { caption, columns, rows: Table::merged(groups, &[0]) })
}

fn gateway_row(point: &Point, row: &Row, bias: &RigBias) -> Vec<Entry> {
    let mut entries = vec![asked(point.rate_per_s), Entry::gateway(&row.gateway)];
    entries.extend(QUANTILES.map(|(name, _)| difference(&row.added_latency_ns, name)));
    let is_shown = |name: &str| QUANTILES.iter().any(|(shown, _)| *shown == name);
    let told: Vec<&str> = row
        .added_latency_ns
        .iter()
        .filter(|(name, of)| is_shown(name) && bias.claim(name, of) == Claim::Told)
        .map(|(name, _)| latency_title(name))
        .collect();
    entries.push(Entry::text(if told.is_empty() { "–".to_owned() } else { told.join(", ") }));
    let median = row.added_latency("p50");
    entries.push(
        median.map_or_else(Entry::default, |of| counts(of, row.planned, &point.added_reasons(row), "")),
    );
    entries
}

fn rig_row(point: &Point, bias: &RigBias) -> Vec<Entry> {
    let mut entries = vec![asked(point.rate_per_s), Entry::text(RIG)];
    entries.extend(
        QUANTILES.map(|(name, _)| Entry { headline: false, ..difference(&bias.difference_ns, name) }),
    );
    let apart: Vec<&str> = QUANTILES
        .into_iter()
        .filter(|(name, _)| bias.least_ns(name).is_some_and(|least_ns| least_ns > 0.0))
        .map(|(name, _)| latency_title(name))
        .collect();
    let chips = match apart.is_empty() {
        true => Vec::new(),
        false => vec![Chip { text: format!("bias at {}", apart.join(", ")), tone: Tone::Plain }],
    };
    entries.push(Entry::chips("", chips));
    let planned = point.direct().map_or(0, |direct| direct.planned);
    entries.push(bias.difference("p50").map_or_else(Entry::default, |of| {
        counts(of, planned.max(of.repeats.len()), &point.bias_reasons(), "twin: ")
    }));
    entries
}

/// How many repeats of a difference count, and whose cells do not: the direct one's say so, others begin with `own`.
fn counts(of: &Figure, planned: usize, reasons: &[(Side, Reason, usize)], own: &str) -> Entry {
    let measured = of.repeats.len();
    let chip = |(side, reason, n): &(Side, Reason, usize)| {
        let whose = if *side == Side::Direct { "direct: " } else { own };
        Chip { text: format!("{whose}{}", reason_times(*reason, *n, measured)), tone: Tone::Bad }
    };
    let mut chips: Vec<Chip> = reasons.iter().map(chip).collect();
    if measured < planned {
        chips.push(Chip { text: format!("{} missing", planned - measured), tone: Tone::Bad });
    }
    Entry::chips(format!("{} of {planned}", of.valid), chips)
}

/// What each way of authentication costs, with the direct baseline beside it.
fn costs(costs: &[AuthenticationCost]) -> Option<Table> {
    let mut columns =
        vec![Column::text("Load", KEEP), Column::text("Authentication", KEEP), Column::text("Gateway", KEEP)];
    columns
        .extend(QUANTILES.map(|(name, keep)| Column::number(&format!("{} more", latency_title(name)), keep)));
    let groups: Vec<Vec<Vec<Entry>>> = costs
        .iter()
        .map(|cost| {
            let at =
                cost.rate_per_s.map(|per_s| format!(" at {}", quantity::rate(per_s))).unwrap_or_default();
            let axes =
                if cost.axes.is_empty() { String::new() } else { format!("; {}", axes_words(&cost.axes)) };
            let row = |row: &weir_analysis::CostRow| {
                let mut entries = vec![
                    Entry::text(format!("{}{at}{axes}", cost.load)),
                    Entry::text(cost.authentication.clone()),
                    Entry::gateway(&row.gateway),
                ];
                entries.extend(QUANTILES.map(|(name, _)| difference(&row.more_ns, name)));
                entries
            };
            cost.rows.iter().map(row).collect()
        })
        .collect();
    (!groups.is_empty()).then(|| Table {
        caption: "Cost of authentication: latency with it minus latency without".into(),
        columns,
        rows: Table::merged(groups, &[0, 1]),
    })
}

/// Every repeat of every open load.
fn repeats(added: &AddedLatency) -> Table {
    let columns = REPEAT_COLUMNS.map(|(title, keep)| match title {
        "Case" | "Authentication" => Column::text(title, keep),
        _ => Column::number(title, keep),
    });
    let rows = added.repeats.iter().map(repeat_row).collect();
    Table { caption: "All repeats".into(), columns: columns.to_vec(), rows }
}

fn repeat_row(row: &RepeatRow) -> Vec<Entry> {
    let chip = |reason| Chip { text: reason_name(reason).to_owned(), tone: Tone::Bad };
    let throughput = |per_s: Option<f64>| Entry::text(per_s.map_or_else(|| "–".to_owned(), quantity::rate));
    let mut entries = vec![
        Entry {
            gateway: Some(row.gateway.clone()).filter(|name| !is_baseline(name)),
            ..Entry::chips(case(row), row.reasons.iter().copied().map(chip).collect())
        },
        asked(row.asked_per_s),
        Entry::text(row.authentication.clone()),
    ];
    entries.extend(row.latency_ns.iter().map(|(_, sample)| {
        let text = match sample {
            Sample::Value(ns) => quantity::time_ns(*ns),
            Sample::BeyondTimeout => "> timeout".to_owned(),
            Sample::Missing => "n/a".to_owned(),
        };
        Entry { text, void: !row.reasons.is_empty(), ..Entry::default() }
    }));
    entries.push(throughput(row.gateway_per_s));
    entries.push(throughput(row.upstream_per_s));
    entries
}

/// `weir, get-low, repeat 1`.
fn case(row: &RepeatRow) -> String {
    format!("{}, {}, repeat {}", row.gateway, row.load, row.repeat.saturating_add(1))
}

fn asked(per_s: Option<f64>) -> Entry {
    Entry::text(per_s.map_or_else(|| "–".to_owned(), quantity::rate))
}

fn difference(of: &[(String, Figure)], name: &str) -> Entry {
    let found = of.iter().find(|(known, _)| known == name);
    found.map_or_else(|| Entry::text("–"), |(_, of)| figure(of, quantity::time_ns))
}

/// Added latency over the rate, a panel for each kind of load and each value of the axes.
pub(crate) fn plots(summary: &Summary) -> Vec<Plot> {
    let Some(added) = &summary.added else { return Vec::new() };
    DRAWN.into_iter().filter_map(|name| plot(summary, added, name)).collect()
}

fn plot(summary: &Summary, added: &AddedLatency, name: &str) -> Option<Plot> {
    let panels: Vec<Panel> = added
        .curves
        .iter()
        .filter(|curve| curve.points.len() > 1)
        .map(|curve| Panel { title: curve.title.clone(), lines: lines(summary, curve, name) })
        .filter(|panel| !panel.lines.is_empty())
        .collect();
    let mut rates: Vec<f64> = panels
        .iter()
        .flat_map(|panel| panel.lines.iter().flat_map(|line| line.spots.iter().map(|spot| spot.x)))
        .collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    if rates.len() < 2 {
        return None;
    }
    let values: Vec<(f64, String)> =
        rates.into_iter().map(|rate| (rate, quantity::count(rate.round() as u64))).collect();
    let title = format!("Added latency, {}", latency_title(name));
    Some(Plot {
        section: "",
        note: "",
        id: format!("added-{name}-over-asked-rate"),
        title: format!("{title} over offered rate"),
        setting: "through the gateway minus direct, in the same repeat".into(),
        x: Scale::of_values("offered rate", Unit::PerSecond, &values),
        y: Scale::of_differences(&title, Unit::Nanoseconds, reach(&panels).into_iter()),
        marks: Marks::Dots,
        shade_to: None,
        panels,
    })
}

/// A line for each gateway, and a dashed one for the rig.
fn lines(summary: &Summary, curve: &AddedCurve, name: &str) -> Vec<Line> {
    let points = || curve.points.iter().map(|place| &summary.points[*place]);
    let line = |gateway: &str, color, dashed, of: &dyn Fn(&Point) -> Option<Figure>| Line {
        name: gateway.to_owned(),
        color,
        dashed,
        marked: true,
        spots: points()
            .filter_map(|point| {
                let rate = point.rate_per_s?;
                let place = format!("{gateway} at {}", quantity::rate(rate));
                Spot::of(rate, &of(point)?, Unit::Nanoseconds, &place)
            })
            .collect(),
    };
    let of_gateway = |gateway: &weir_analysis::Gateway| {
        line(&gateway.name, color_of(summary, &gateway.name), false, &|point| {
            let row = point.gateways().find(|row| row.gateway == gateway.name)?;
            row.added_latency(name).cloned()
        })
    };
    let rig = line(RIG, "grey", true, &|point| point.bias.as_ref()?.difference(name).cloned());
    let lines = summary.gateways.iter().map(of_gateway).chain([rig]);
    lines.filter(|line| !line.spots.is_empty()).collect()
}

/// The rows of every repeat as CSV, with what was measured in full.
pub(crate) fn csv(added: &AddedLatency) -> String {
    let mut head: Vec<String> = ["case", "gateway", "load", "repeat", "axes", "client_qps", "authentication"]
        .map(str::to_owned)
        .to_vec();
    let names = added.repeats.first().map_or(&[][..], |row| &row.latency_ns[..]);
    head.extend(names.iter().map(|(name, _)| format!("latency_ns_{name}")));
    head.extend(["gateway_per_s", "upstream_per_s", "verdict_latency"].map(str::to_owned));
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let row = |row: &RepeatRow| {
        let mut fields = vec![
            case(row),
            row.gateway.clone(),
            row.load.clone(),
            row.repeat.to_string(),
            axes_words(&row.axes),
            number(row.asked_per_s),
            row.authentication.clone(),
        ];
        fields.extend(row.latency_ns.iter().map(|(_, sample)| match sample {
            Sample::Value(ns) => ns.to_string(),
            Sample::BeyondTimeout | Sample::Missing => String::new(),
        }));
        let reasons: Vec<&str> = row.reasons.iter().map(|reason| reason_name(*reason)).collect();
        let verdict = if reasons.is_empty() { "valid".to_owned() } else { reasons.join(";") };
        fields.extend([number(row.gateway_per_s), number(row.upstream_per_s), verdict]);
        fields
    };
    let lines = std::iter::once(head).chain(added.repeats.iter().map(row));
    lines.map(weir_export::csv_line).collect()
}
