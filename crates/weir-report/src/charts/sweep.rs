//! Charts of metrics by the axes of a run. A chart draws one axis, and has a panel for each combination of values of
//! the other axes.

use std::collections::BTreeSet;

use weir_analysis::{Figure, Point, Row, Summary, bound_name, scaling};
use weir_results::{ArrivalModel, Cell, Run};

use crate::charts::added_chart;
use crate::charts::axes::{Axis, concerns, paths, rest};
use crate::charts::colors::color_of;
use crate::charts::event_chart;
use crate::charts::headroom_chart;
use crate::model::plot::{Line, Marks, Panel, Plot, Spot, reach};
use crate::model::scale::{Scale, Unit};

/// A metric that is drawn over the values of an axis.
struct Metric {
    name: &'static str,
    slug: &'static str,
    unit: Unit,
    /// Whether the direct baseline has this metric.
    of_direct: bool,
    of: fn(&Row) -> Option<&Figure>,
}

const THROUGHPUT: Metric = Metric {
    name: "Throughput",
    slug: "throughput",
    unit: Unit::PerSecond,
    of_direct: true,
    of: |row| Some(&row.throughput_per_s),
};
const P50: Metric = Metric {
    name: "p50 latency",
    slug: "p50",
    unit: Unit::Nanoseconds,
    of_direct: true,
    of: |row| row.latency("p50"),
};
const P99: Metric = Metric {
    name: "p99 latency",
    slug: "p99",
    unit: Unit::Nanoseconds,
    of_direct: true,
    of: |row| row.latency("p99"),
};
const CPU: Metric = Metric {
    name: "CPU time per request",
    slug: "cpu-per-request",
    unit: Unit::Microseconds,
    of_direct: false,
    of: |row| Some(&row.cpu_us_per_request),
};

/// Load points along one horizontal scale. The scale shows the values of an axis for one load, or the sizes of several
/// loads.
struct Sweep<'a> {
    /// The title of the horizontal scale. `slug` names the scale in file names.
    title: String,
    slug: String,
    unit: Unit,
    values: Vec<(f64, String)>,
    setting: String,
    panels: Vec<(String, Vec<(f64, &'a Point)>)>,
}

/// Draws the charts of faults and changes, of headroom, of the axes, and of added latency.
pub(crate) fn plots(run: &Run, summary: &Summary, cells: &[Cell]) -> Vec<Plot> {
    let mut plots = event_chart::plots(summary, cells);
    plots.extend(headroom_chart::plots(summary, cells));
    let mut known: Vec<&str> = Vec::new();
    for load in summary.points.iter().map(|point| point.load.as_str()) {
        if known.contains(&load) {
            continue;
        }
        known.push(load);
        let points: Vec<&Point> = summary.points.iter().filter(|point| point.load == load).collect();
        // The headroom charts already show all rates of a curve together.
        if points.iter().any(|point| summary.headroom.has_point(point)) {
            continue;
        }
        plots.extend(of_load(run, summary, load, &points));
    }
    for model in [ArrivalModel::Closed, ArrivalModel::Open] {
        let points: Vec<&Point> = summary.points.iter().filter(|point| point.model == model).collect();
        let sweep = over_loads(run, model, &points);
        plots.extend(sweep.iter().flat_map(|sweep| {
            [THROUGHPUT, P50, P99, CPU]
                .iter()
                .filter_map(|metric| plot(summary, sweep, metric))
                .collect::<Vec<_>>()
        }));
    }
    plots.extend(added_chart::plots(summary));
    name_apart(&mut plots);
    plots
}

/// Makes the IDs of charts unique. IDs of different loads may be equal, because characters that are unsafe in file
/// names are removed from the load names.
fn name_apart(plots: &mut [Plot]) {
    for place in 1..plots.len() {
        let (before, plot) = plots.split_at_mut(place);
        if before.iter().any(|other| other.id == plot[0].id) {
            plot[0].id += &format!("-{}", place + 1);
        }
    }
}

/// The charts of one load:
/// - metrics over the axis that changes fastest;
/// - throughput and efficiency over the CPU limit;
/// - CPU time over the size of the load.
fn of_load(run: &Run, summary: &Summary, load: &str, points: &[&Point]) -> Vec<Plot> {
    let axes: Vec<Axis> = paths(run, points)
        .iter()
        .filter(|path| concerns(path, load))
        .filter_map(|path| Axis::of(run, points, path))
        .collect();
    let Some(fastest) = axes.first() else { return Vec::new() };
    let sweep = Sweep::over(fastest, load, points);
    let mut plots: Vec<Plot> =
        [THROUGHPUT, P50, P99, CPU].iter().filter_map(|metric| plot(summary, &sweep, metric)).collect();
    if let Some(cpus) = axes.iter().find(|axis| axis.is_cpu_limit())
        && points.iter().all(|point| point.model == ArrivalModel::Closed)
    {
        plots.extend(scaling_plots(summary, &Sweep::over(cpus, load, points)));
    }
    if let Some(size) = axes.iter().skip(1).find(|axis| axis.is_load_size()) {
        plots.extend(plot(summary, &Sweep::over(size, load, points), &CPU));
    }
    plots
}

impl<'a> Sweep<'a> {
    fn over(axis: &Axis, load: &str, points: &[&'a Point]) -> Self {
        let drawn = |path: &str| path == axis.path || axis.determines(path, points);
        let placed =
            points.iter().filter_map(|point| Some((rest(point, drawn, points), axis.place(point)?, *point)));
        let constant = points.iter().all(|point| (point.connections, point.rate_per_s) == size(points[0]));
        Self {
            title: axis.path.clone(),
            slug: slug(&format!("{} {load}", axis.path)),
            unit: axis.unit,
            values: axis.values(),
            setting: match points.first() {
                Some(point) if constant => format!("{load} ({})", load_words(point)),
                _ => load.to_owned(),
            },
            panels: panels(placed),
        }
    }
}

/// Arranges the loads of one model by their size. Returns `None` unless there are several loads that differ only in
/// size.
fn over_loads<'a>(run: &Run, model: ArrivalModel, points: &[&'a Point]) -> Option<Sweep<'a>> {
    let loads: BTreeSet<&str> = points.iter().map(|point| point.load.as_str()).collect();
    let kinds: BTreeSet<String> = loads.iter().map(|load| without_size(run, load)).collect();
    if kinds.len() > 1 {
        return None;
    }
    let place = |point: &Point| match model {
        ArrivalModel::Closed => Some(f64::from(point.connections)),
        ArrivalModel::Open => point.rate_per_s,
    };
    let placed =
        points.iter().filter_map(|point| Some((rest(point, |_| false, points), place(point)?, *point)));
    let panels = panels(placed);
    // If two loads have the same size, they differ in another field, which this scale cannot show. Then there is no
    // chart.
    let apart = |of: &[(f64, &Point)]| of.windows(2).all(|pair| pair[0].0 < pair[1].0);
    if loads.len() < 2 || !panels.iter().all(|(_, points)| points.len() > 1 && apart(points)) {
        return None;
    }
    let mut values: Vec<f64> =
        panels.iter().flat_map(|(_, points)| points.iter().map(|(at, _)| *at)).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let (title, unit, words) = match model {
        ArrivalModel::Closed => ("connections", Unit::Plain, "closed loads"),
        ArrivalModel::Open => ("offered rate", Unit::PerSecond, "open loads"),
    };
    let label = |at: f64| weir_analysis::quantity::count(at.round() as u64);
    Some(Sweep {
        title: title.into(),
        slug: slug(words),
        unit,
        values: values.into_iter().map(|at| (at, label(at))).collect(),
        setting: words.into(),
        panels,
    })
}

/// A load as the scenario defines it, without its size and its duration. If this text is equal for two loads, they
/// differ at most in size and duration.
fn without_size(run: &Run, load: &str) -> String {
    let mut written = run.scenario["loads"][load].clone();
    if let Some(fields) = written.as_object_mut() {
        fields.retain(|field, _| !["connections", "rate", "duration"].contains(&field.as_str()));
    }
    written.to_string()
}

/// Groups load points by panel, in the order of the horizontal scale.
fn panels<'a>(
    placed: impl Iterator<Item = (String, f64, &'a Point)>,
) -> Vec<(String, Vec<(f64, &'a Point)>)> {
    let mut panels: Vec<(String, Vec<(f64, &'a Point)>)> = Vec::new();
    for (title, at, point) in placed {
        match panels.iter_mut().find(|(known, _)| *known == title) {
            Some((_, points)) => points.push((at, point)),
            None => panels.push((title, vec![(at, point)])),
        }
    }
    panels.iter_mut().for_each(|(_, points)| points.sort_by(|(a, _), (b, _)| a.total_cmp(b)));
    panels
}

fn plot(summary: &Summary, sweep: &Sweep<'_>, metric: &Metric) -> Option<Plot> {
    let line = |gateway: &str, points: &[(f64, &Point)]| {
        let spots = points.iter().filter_map(|(at, point)| {
            let row = row_of(point, gateway).filter(|row| metric.of_direct || !row.is_direct())?;
            spot(*at, row, (metric.of)(row)?, metric.unit, &sweep.said(*at))
        });
        Line { spots: spots.collect(), ..line_of(summary, gateway) }
    };
    let lines = |points: &[(f64, &Point)]| -> Vec<Line> {
        let lines = summary.gateways.iter().map(|gateway| line(&gateway.name, points));
        lines.filter(|line| !line.spots.is_empty()).collect()
    };
    let plot = sweep.plot(metric.name, metric.slug, metric.unit, lines)?;
    // If no latency of the closed loops is valid, only the tables show the latencies.
    let closed = sweep
        .panels
        .iter()
        .flat_map(|(_, points)| points)
        .all(|(_, point)| point.model == ArrivalModel::Closed);
    let counts = plot
        .panels
        .iter()
        .flat_map(|panel| &panel.lines)
        .flat_map(|line| &line.spots)
        .any(|spot| spot.counts);
    (counts || !closed || metric.unit != Unit::Nanoseconds).then_some(plot)
}

/// Plots throughput by number of cores next to ideal linear scaling, and throughput per core relative to the lowest
/// limit.
fn scaling_plots(summary: &Summary, sweep: &Sweep<'_>) -> Vec<Plot> {
    let gateways = || summary.gateways.iter().map(|gateway| gateway.name.as_str());
    let rows = |gateway: &str, points: &[(f64, &Point)]| -> Vec<(f64, Row)> {
        let rows = points.iter().filter_map(|(at, point)| Some((*at, row_of(point, gateway)?.clone())));
        rows.filter(|(_, row)| !row.is_direct()).collect()
    };
    let throughput = |points: &[(f64, &Point)]| -> Vec<Line> {
        let of_gateway = |gateway: &str| {
            let rows = rows(gateway, points);
            let spots = rows.iter().filter_map(|(at, row)| {
                spot(*at, row, &row.throughput_per_s, Unit::PerSecond, &sweep.said(*at))
            });
            let measured = Line { spots: spots.collect(), ..line_of(summary, gateway) };
            // An invalid value cannot be the reference for ideal scaling.
            let first = measured.spots.first().filter(|first| first.counts);
            let base = first.and_then(|first| Some((first.x, first.y?)));
            let ideal = base.map(|(cpus, per_s)| Line {
                name: format!("{gateway}, linear scaling"),
                dashed: true,
                marked: false,
                spots: rows
                    .iter()
                    .map(|(at, _)| Spot {
                        words: format!(
                            "{gateway}, linear scaling at {}: {}",
                            sweep.said(*at),
                            Unit::PerSecond.words(per_s * at / cpus)
                        ),
                        ..Spot::at(*at, Some(per_s * at / cpus))
                    })
                    .collect(),
                ..line_of(summary, gateway)
            });
            [Some(measured), ideal]
                .into_iter()
                .flatten()
                .filter(|line| !line.spots.is_empty())
                .collect::<Vec<_>>()
        };
        gateways().flat_map(of_gateway).collect()
    };
    let efficiency = |points: &[(f64, &Point)]| -> Vec<Line> {
        let of_gateway = |gateway: &str| {
            let rows = rows(gateway, points);
            let borrowed: Vec<(f64, &Row)> = rows.iter().map(|(at, row)| (*at, row)).collect();
            let spots = scaling(&borrowed).into_iter().filter_map(|scaled| {
                let (_, row) = rows.iter().find(|(at, _)| *at == scaled.cpus)?;
                spot(scaled.cpus, row, &scaled.efficiency, Unit::Share, &sweep.said(scaled.cpus))
            });
            Line { spots: spots.collect(), ..line_of(summary, gateway) }
        };
        gateways().map(of_gateway).filter(|line| !line.spots.is_empty()).collect()
    };
    let title = "Efficiency: throughput per core (lowest limit = 100 %)";
    [
        sweep.plot("Scaling: throughput", "scaling", Unit::PerSecond, throughput),
        sweep.plot(title, "efficiency", Unit::Share, efficiency),
    ]
    .into_iter()
    .flatten()
    .collect()
}

impl Sweep<'_> {
    /// A chart with the given lines in each panel. Returns `None` if fewer than two positions have a value.
    fn plot(
        &self,
        name: &str,
        slug: &str,
        unit: Unit,
        lines: impl Fn(&[(f64, &Point)]) -> Vec<Line>,
    ) -> Option<Plot> {
        let panels: Vec<Panel> = self
            .panels
            .iter()
            .map(|(title, points)| Panel { title: title.clone(), lines: lines(points) })
            .filter(|panel| !panel.lines.is_empty())
            .collect();
        let mut places: Vec<f64> = panels
            .iter()
            .flat_map(|panel| &panel.lines)
            .flat_map(|line| line.spots.iter().map(|spot| spot.x))
            .collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        if places.len() < 2 {
            return None;
        }
        Some(Plot {
            section: "",
            note: "",
            id: format!("{slug}-over-{}", self.slug),
            title: format!("{name} by {}", self.title),
            setting: self.setting.clone(),
            x: Scale::of_values(&self.title, self.unit, &self.values),
            y: Scale::of_figures(name, unit, reach(&panels).into_iter()),
            marks: Marks::Dots,
            shade_to: None,
            panels,
        })
    }

    /// Describes a position on the scale, like `limits.data.cpus = 0.5`.
    fn said(&self, at: f64) -> String {
        let label =
            self.values.iter().find(|(place, _)| *place == at).map_or("", |(_, label)| label.as_str());
        format!("{} = {label}", self.title)
    }
}

fn row_of<'a>(point: &'a Point, gateway: &str) -> Option<&'a Row> {
    point.rows.iter().find(|row| row.gateway == gateway)
}

fn line_of(summary: &Summary, gateway: &str) -> Line {
    Line {
        name: gateway.to_owned(),
        color: color_of(summary, gateway),
        dashed: gateway == weir_results::DIRECT,
        marked: true,
        spots: Vec::new(),
    }
}

fn spot(at: f64, row: &Row, figure: &Figure, unit: Unit, place: &str) -> Option<Spot> {
    let mut spot = Spot::of(at, figure, unit, &format!("{} at {place}", row.gateway))?;
    let bounds: Vec<&str> = row.bounds().into_iter().map(|(bound, _)| bound_name(bound)).collect();
    if !bounds.is_empty() {
        spot.words += &format!("; limited by {}", bounds.join(", "));
    }
    Some(spot)
}

fn size(point: &Point) -> (u32, Option<f64>) {
    (point.connections, point.rate_per_s)
}

/// Describes the load of a point, without the values of the axes.
fn load_words(point: &Point) -> String {
    let setting = point.setting();
    setting.strip_suffix(&format!("; {}", point.axes_words())).map_or(setting.clone(), str::to_owned)
}

/// Converts a text to a form that is safe as a part of file names.
pub(crate) fn slug(words: &str) -> String {
    const LONGEST: usize = 60;
    let mut out = String::new();
    for character in words.chars().take(LONGEST) {
        if character.is_ascii_alphanumeric() {
            out.push(character.to_ascii_lowercase());
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
    }
    out.trim_end_matches('-').to_owned()
}
