//! Charts over time and latency curves, for load points and for single cells. A latency curve shows latency by
//! quantile.

use weir_analysis::{Heat, Point, Summary, Timeline};
use weir_results::{Changed, Histogram, Part, Role};

use crate::charts::change_marks::marks;
use crate::charts::colors::{color_of, distinct, point_id};
use crate::charts::timelines::CellTimeline;
use crate::model::plot::{Line, Marks, Panel, Plot, Spot, reach};
use crate::model::scale::{Scale, Tick, Unit};

/// A metric that is drawn over time.
struct Series {
    /// The name of the metric in IDs of the page.
    name: &'static str,
    title: &'static str,
    unit: Unit,
    /// The start of each step, in seconds.
    starts_s: fn(&Timeline) -> &[f64],
    values: fn(&Timeline) -> Vec<Option<f64>>,
}

const SERIES: [Series; 4] = [
    Series {
        name: "rate_per_s",
        title: "Throughput, responses per second",
        unit: Unit::PerSecond,
        starts_s: |timeline| &timeline.t_s,
        values: |timeline| timeline.rate_per_s.clone(),
    },
    Series {
        name: "p99_ns",
        title: "p99 latency per step",
        unit: Unit::Nanoseconds,
        starts_s: |timeline| &timeline.t_s,
        values: |timeline| times(&timeline.p99_ns),
    },
    Series {
        name: "data_cores",
        title: "CPU, cores used by the data plane",
        unit: Unit::Cores,
        starts_s: |timeline| &timeline.sampled_t_s,
        values: |timeline| timeline.data_cores.clone(),
    },
    Series {
        name: "data_memory_bytes",
        title: "Memory of the data plane",
        unit: Unit::Bytes,
        starts_s: |timeline| &timeline.sampled_t_s,
        values: |timeline| times(&timeline.data_memory_bytes),
    },
];

/// The quantiles that have tick marks on the scale of a latency curve.
const QUANTILES: [(f64, &str); 7] = [
    (0.0, "p0"),
    (0.5, "p50"),
    (0.9, "p90"),
    (0.99, "p99"),
    (0.999, "p99.9"),
    (0.9999, "p99.99"),
    (0.99999, "p99.999"),
];

/// The ID of a chart over time of a load point, which is also its file name without extension.
pub(crate) fn series_id(point: usize, series: &str) -> String {
    format!("{}-{}", point_id(point), series.replace('_', "-"))
}

/// The ID of the latency curves of a load point, which is also their file name without extension.
fn curve_id(point: usize) -> String {
    format!("{}-latency-by-quantile", point_id(point))
}

/// All time-series charts of a load point. Each has a panel per repeat and a line per gateway.
pub(crate) fn of_point(summary: &Summary, at: usize, timelines: &[CellTimeline<'_>]) -> Vec<Plot> {
    let mut here: Vec<&CellTimeline<'_>> = timelines.iter().filter(|of| of.point == at).collect();
    let place = |of: &CellTimeline<'_>| {
        summary.gateways.iter().position(|gateway| gateway.name == of.cell.key.gateway)
    };
    here.sort_by_key(|of| (of.cell.key.repeat, place(of)));
    let plot = |series: &Series| {
        let panels =
            here.chunk_by(|one, next| one.cell.key.repeat == next.cell.key.repeat).map(|cells| Panel {
                title: repeat_title(cells[0]),
                lines: cells
                    .iter()
                    .map(|of| {
                        let timeline = &of.timeline;
                        let at_s = middles_s((series.starts_s)(timeline), timeline);
                        let name = &of.cell.key.gateway;
                        line(name, color_of(summary, name), !of.counts(), &at_s, (series.values)(timeline))
                    })
                    .filter(|line| line.spots.iter().any(|spot| spot.y.is_some()))
                    .collect(),
            });
        let panels: Vec<Panel> = panels.filter(|panel| !panel.lines.is_empty()).collect();
        let timelines = here.iter().map(|of| &of.timeline);
        let mut plot = over_time(
            series_id(at, series.name),
            series.title,
            summary.points[at].words(),
            series.unit,
            timelines,
            panels,
        )?;
        for panel in &mut plot.panels {
            let drawn = here.iter().filter(|of| repeat_title(of) == panel.title);
            let colored = drawn.map(|of| (*of, color_of(summary, &of.cell.key.gateway)));
            panel.lines.extend(colored.filter_map(|(of, color)| changes(of, color, &plot.y)));
        }
        Some(plot)
    };
    SERIES.iter().filter_map(plot).collect()
}

/// Latency by quantile. The horizontal scale is the logarithm of the share of responses above the quantile, so that
/// the tail has as much room as the middle.
pub(crate) fn curve(summary: &Summary, at: usize) -> Option<Plot> {
    let point: &Point = &summary.points[at];
    let lines: Vec<Line> = point
        .rows
        .iter()
        .filter(|row| !row.latency_curve.is_empty())
        .map(|row| {
            let counts = row.latency("p50").is_some_and(|p50| p50.is_valid() || p50.is_bounded());
            let spot = |at: &weir_analysis::CurvePoint| Spot {
                counts,
                ..Spot::at(place_of(at.quantile), Some(at.latency_ns as f64))
            };
            Line {
                name: row.gateway.clone() + if counts { "" } else { ": invalid" },
                color: color_of(summary, &row.gateway),
                dashed: !counts || row.is_direct(),
                marked: true,
                spots: row.latency_curve.iter().map(spot).collect(),
            }
        })
        .collect();
    let mut plot = by_quantile(curve_id(at), point.words(), lines)?;
    let high = plot.y.high;
    for line in plot.panels.iter_mut().flat_map(|panel| &mut panel.lines) {
        if line.spots.iter().all(|spot| !spot.counts && spot.y.is_some_and(|y| y > high)) {
            line.name += ", beyond the scale";
        }
    }
    Some(plot)
}

/// The position of a quantile on the horizontal scale of a latency curve.
pub(crate) fn place_of(quantile: f64) -> f64 {
    -(1.0 - quantile).log10()
}

/// A chart of latency curves (see [`place_of`] for its horizontal scale); `None` without lines.
pub(crate) fn by_quantile(id: String, setting: String, lines: Vec<Line>) -> Option<Plot> {
    let end = lines.iter().flat_map(|line| line.spots.last()).map(|spot| spot.x).reduce(f64::max)?;
    let panels = vec![Panel { title: String::new(), lines }];
    let ticks = QUANTILES
        .iter()
        .map(|(quantile, label)| Tick { at: place_of(*quantile), label: (*label).to_owned() });
    let x = Scale {
        title: "quantile".into(),
        unit: Unit::Quantile,
        log: false,
        low: 0.0,
        high: end,
        ticks: ticks.collect(),
    };
    Some(Plot {
        section: "",
        note: "",
        id,
        title: "Latency by quantile".into(),
        setting,
        x: x.within(),
        y: Scale::of_figures("latency", Unit::Nanoseconds, reach(&panels).into_iter()),
        marks: Marks::Lines,
        shade_to: None,
        panels,
    })
}

/// The charts of one load in one cell: throughput, latency quantiles, and CPU and memory of every part.
pub(crate) fn of_cell(of: &CellTimeline<'_>, gateway_color: &'static str) -> Vec<Plot> {
    let timeline = &of.timeline;
    let plot = |title: &str, unit, lines: Vec<Line>| {
        let lines: Vec<Line> =
            lines.into_iter().filter(|line| line.spots.iter().any(|spot| spot.y.is_some())).collect();
        let panels = if lines.is_empty() { Vec::new() } else { vec![Panel { title: String::new(), lines }] };
        let plot = over_time(String::new(), title, String::new(), unit, std::iter::once(timeline), panels);
        plot.map(|mut plot| {
            plot.panels[0].lines.extend(changes(of, "ink", &plot.y));
            plot
        })
    };
    let [steps_s, samples_s] =
        [&timeline.t_s, &timeline.sampled_t_s].map(|starts_s| middles_s(starts_s, timeline));
    let rate = vec![line("throughput", gateway_color, false, &steps_s, timeline.rate_per_s.clone())];
    let latency = [
        ("p50", "blue", &timeline.p50_ns),
        ("p90", "amber", &timeline.p90_ns),
        ("p99", "vermilion", &timeline.p99_ns),
        ("max", "grey", &timeline.max_ns),
    ];
    let latency = latency.map(|(name, color, values)| line(name, color, false, &steps_s, times(values)));
    let colors = part_colors(&of.cell.parts, gateway_color);
    let parts = |values: fn(&weir_analysis::PartTimeline) -> Vec<Option<f64>>| {
        let colored = timeline.parts.iter().zip(&colors);
        colored
            .map(|(part, color)| line(&part.name, color, false, &samples_s, values(part)))
            .collect::<Vec<Line>>()
    };
    let mut plots: Vec<Plot> = [
        plot("Throughput", Unit::PerSecond, rate),
        plot("Latency per step", Unit::Nanoseconds, latency.to_vec()),
        plot("CPU, cores used", Unit::Cores, parts(|part| part.cores.clone())),
        plot("Memory", Unit::Bytes, parts(|part| times(&part.memory_bytes))),
    ]
    .into_iter()
    .flatten()
    .collect();
    plots.extend(histogram(&of.measurement.record.latency, gateway_color));
    plots
}

/// The title of the panel that shows a repeat.
pub(crate) fn repeat_title(of: &CellTimeline<'_>) -> String {
    format!("repeat {}", of.cell.key.repeat.saturating_add(1))
}

/// Vertical lines at the changes of the gateway's configuration; `None` without changes.
fn changes(of: &CellTimeline<'_>, color: &'static str, y: &Scale) -> Option<Line> {
    let at: Vec<f64> = of.measurement.route_changes.iter().map(|change| change.t_s).collect();
    let is_of_routes = of.measurement.route_changes.iter().all(|change| change.what == Changed::Routes);
    let what = if is_of_routes { "routes change" } else { "changes" };
    let name = format!("{}, {what}", of.cell.key.gateway);
    (!at.is_empty()).then(|| marks(&name, color, &at, y))
}

fn over_time<'a>(
    id: String,
    title: &str,
    setting: String,
    unit: Unit,
    timelines: impl Iterator<Item = &'a Timeline> + Clone,
    panels: Vec<Panel>,
) -> Option<Plot> {
    if panels.is_empty() {
        return None;
    }
    let end = timelines.clone().map(|timeline| timeline.end_s).fold(0.0, f64::max);
    let warmup = timelines.filter_map(|timeline| timeline.sustained_from_s).fold(0.0, f64::max);
    let x = Scale { high: if end > 0.0 { end } else { 1.0 }, ..Scale::from_zero("time", Unit::Seconds, end) };
    Some(Plot {
        section: "",
        note: "",
        id,
        title: title.to_owned(),
        setting,
        x: x.within(),
        y: Scale::of_figures(title, unit, reach(&panels).into_iter()),
        marks: Marks::Lines,
        shade_to: Some(warmup).filter(|warmup| *warmup > 0.0),
        panels,
    })
}

/// The latency distribution of the sustained phase: the share of responses in each range of latency. Both scales
/// are logarithmic.
fn histogram(latency: &Histogram, color: &'static str) -> Option<Plot> {
    const LEAST: f64 = 1e-5;
    let histogram = latency.decode().ok().filter(|histogram| !histogram.is_empty())?;
    let heat = Heat::of(&histogram);
    let shares = heat.shares.first()?;
    let spot = |(row, share): (usize, &f64)| {
        let (low, high) = (heat.edge_ns(row), heat.edge_ns(row + 1));
        let range = format!("{} .. {}", Unit::Nanoseconds.words(low), Unit::Nanoseconds.words(high));
        let words = format!(
            "{range}: {} of {} responses",
            Unit::Share.words(*share),
            weir_analysis::quantity::count(histogram.len())
        );
        Spot { words, ..Spot::at(low, Some(*share).filter(|share| *share > 0.0)) }
    };
    let mut spots: Vec<Spot> = shares.iter().enumerate().map(spot).collect();
    // The last bar ends here.
    spots.push(Spot::at(heat.edge_ns(heat.rows), None));
    let ticks =
        [(1e-5, "0.001 %"), (1e-4, "0.01 %"), (1e-3, "0.1 %"), (1e-2, "1 %"), (1e-1, "10 %"), (1.0, "100 %")];
    let y = Scale {
        title: "share".into(),
        unit: Unit::Share,
        log: true,
        low: LEAST,
        high: 1.0,
        ticks: ticks.map(|(at, label)| Tick { at, label: label.into() }).to_vec(),
    };
    let (low, high) = (heat.edge_ns(0), heat.edge_ns(heat.rows));
    let x = Scale { low, high, ..Scale::logarithmic("latency", Unit::Nanoseconds, low, high) };
    Some(Plot {
        section: "",
        note: "",
        id: String::new(),
        title: "Latency of all responses of the sustained phase".into(),
        setting: String::new(),
        x: x.within(),
        y,
        marks: Marks::Bars,
        shade_to: None,
        panels: vec![Panel {
            title: String::new(),
            lines: vec![Line {
                name: "share of responses".into(),
                color,
                dashed: false,
                marked: true,
                spots,
            }],
        }],
    })
}

/// The middle of each step of a timeline, in seconds. A value of a step, such as throughput, is drawn there. The last
/// step ends with the load.
fn middles_s(starts_s: &[f64], timeline: &Timeline) -> Vec<f64> {
    let ends_s = starts_s.iter().skip(1).chain([&timeline.end_s]);
    starts_s.iter().zip(ends_s).map(|(start, end)| start.midpoint(end.max(*start))).collect()
}

fn line(name: &str, color: &'static str, dashed: bool, at_s: &[f64], values: Vec<Option<f64>>) -> Line {
    let spots = at_s.iter().zip(values).map(|(at, value)| Spot::at(*at, value)).collect();
    Line { name: name.to_owned(), color, dashed, marked: true, spots }
}

fn times(values: &[Option<u64>]) -> Vec<Option<f64>> {
    values.iter().map(|value| value.map(|value| value as f64)).collect()
}

/// A colour for each part of a cell. The first data plane has the colour of the gateway, and every other part has a
/// colour of its own.
fn part_colors(parts: &[Part], gateway_color: &'static str) -> Vec<&'static str> {
    let first = |role: Role| parts.iter().find(|part| part.role == role).map(|part| part.name.as_str());
    let wanted = [
        (Role::Data, gateway_color),
        (Role::Control, "teal"),
        (Role::Origin, "brown"),
        (Role::Generator, "violet"),
        (Role::Service, "olive"),
    ];
    let mut own: Vec<(&str, &'static str)> = Vec::new();
    for (role, color) in wanted {
        if let Some(name) = first(role).filter(|_| own.iter().all(|(_, taken)| *taken != color)) {
            own.push((name, color));
        }
    }
    let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
    distinct(&names, |name| own.iter().find(|(known, _)| *known == name).map(|(_, color)| *color))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, role: Role) -> Part {
        Part {
            name: name.into(),
            role,
            version: String::new(),
            binary: String::new(),
            binary_sha256: String::new(),
            config_sha256: None,
            command: Vec::new(),
            limit_cpus: None,
            limit_memory_bytes: None,
            limits_applied: true,
            limited_by: "none".into(),
            image: None,
        }
    }

    #[test]
    fn values_are_in_the_middle_of_their_steps() {
        let check = |starts_s: &[f64], end_s: f64, expected: &[f64]| {
            let timeline = Timeline { end_s, ..Timeline::default() };
            assert_eq!(middles_s(starts_s, &timeline), expected);
        };
        check(&[0.0, 0.5, 1.5], 2.5, &[0.25, 1.0, 2.0]);
        check(&[0.0, 5.0, 10.0], 11.0, &[2.5, 7.5, 10.5]);
        // Samples without seconds of a load.
        check(&[0.0, 1.0], 0.0, &[0.5, 1.0]);
        check(&[], 0.0, &[]);
    }

    #[test]
    fn two_parts_of_a_cell_shared_a_colour() {
        let rig = [("origin-1", Role::Origin), ("origin-2", Role::Origin), ("origin-3", Role::Origin)];
        let rest = [("generator", Role::Generator), ("slow", Role::Generator), ("control", Role::Control)];
        for gateway_color in crate::charts::svg::color_names() {
            let all = [("gateway", Role::Data), ("second", Role::Data)].into_iter().chain(rig).chain(rest);
            let parts: Vec<Part> = all.map(|(name, role)| part(name, role)).collect();
            let colors = part_colors(&parts, gateway_color);
            assert_eq!(colors[0], gateway_color);
            let mut apart = colors.clone();
            apart.sort_unstable();
            apart.dedup();
            assert_eq!(apart.len(), parts.len(), "{colors:?}");
        }
    }
}
