//! The charts of the HTML page. Each one is an SVG picture with a legend and a table of its values, so the page is
//! complete without its script.

use std::collections::BTreeMap;

use serde::Serialize;
use weir_analysis::{Figure, Point, Row, Summary};
use weir_results::{ArrivalModel, DIRECT};

use crate::charts::colors::{color_of, point_id};
use crate::charts::data_table::DataTable;
use crate::charts::finding_charts::{self, BarChart};
use crate::charts::heat::HeatMap;
use crate::charts::pictures::Picture;
use crate::charts::series::{curve, of_point, repeat_title, series_id};
use crate::charts::svg::{Bar, bars_alone, heat_map, panel};
use crate::charts::timelines::CellTimeline;
use crate::formats::html::Drawn;
use crate::model::plot::{Line, Panel, Plot};
use crate::model::scale::Unit;

/// Width and height in pixels of a panel, if the chart has several.
const PANEL: (f64, f64) = (400.0, 230.0);
/// Width and height in pixels of a chart with one panel.
const WHOLE: (f64, f64) = (640.0, 290.0);
/// Width and height in pixels of a chart over time.
const TIME: (f64, f64) = (640.0, 240.0);
/// Width and height in pixels of a latency curve.
const CURVE: (f64, f64) = (880.0, 400.0);

/// A metric that the page shows as one bar chart per load point, with a bar for each gateway.
struct OfRow {
    /// The metric's name in chart IDs of the page.
    name: &'static str,
    title: &'static str,
    unit: Unit,
    of: fn(&Row) -> Option<&Figure>,
}

const THROUGHPUT: OfRow = OfRow {
    name: "throughput",
    title: "Throughput",
    unit: Unit::PerSecond,
    of: |row| Some(&row.throughput_per_s),
};
const CPU: OfRow = OfRow {
    name: "cpu-per-request",
    title: "CPU time per request",
    unit: Unit::Microseconds,
    of: |row| Some(&row.cpu_us_per_request),
};
const MEMORY: OfRow =
    OfRow { name: "memory", title: "Peak memory", unit: Unit::Bytes, of: |row| Some(&row.memory_bytes_peak) };
const P99: OfRow =
    OfRow { name: "p99", title: "p99 latency", unit: Unit::Nanoseconds, of: |row| row.latency("p99") };

/// All charts of the page.
#[derive(Default, Serialize)]
pub(crate) struct Figures {
    /// The charts of the axes, of faults and changes, of headroom, and of added latency. The key is the chart's ID.
    plots: BTreeMap<String, PageFigure>,
    /// The charts of each load point; the key is the ID of the load point.
    points: BTreeMap<String, Vec<PageFigure>>,
    /// The charts of each finding, by the finding's key.
    findings: BTreeMap<&'static str, Vec<PageFigure>>,
    /// The charts over time, for each load and each repeat. The page shows the first; readers can choose another.
    choices: Vec<Choice>,
}

/// One chart of the page.
#[derive(Serialize)]
struct PageFigure {
    /// The chart's ID. The chart's HTML element and CSV file are named after it.
    id: String,
    title: String,
    setting: String,
    /// The picture file of the chart, relative to the page; `None` without one.
    picture: Option<String>,
    legend: Vec<Entry>,
    panels: Vec<PanelSvg>,
    /// Whether the chart consists of heat maps. Their colours are explained in the caption.
    is_heat: bool,
    /// The table of values, as HTML.
    table: String,
}

/// An entry of a legend: the name of a line and its colour.
#[derive(Serialize)]
struct Entry {
    name: String,
    color: &'static str,
    dashed: bool,
}

#[derive(Serialize)]
struct PanelSvg {
    title: String,
    svg: String,
}

/// The charts over time of one load and one repeat.
#[derive(Serialize)]
struct Choice {
    point: String,
    load: String,
    /// Number of the repeat, from 1.
    repeat: u64,
    series: Vec<PageFigure>,
    heat: Option<PageFigure>,
}

/// Draws all charts of the page.
pub(crate) fn figures(summary: &Summary, drawn: &Drawn<'_>) -> Figures {
    let mut figures = Figures::default();
    let picture = |id: &str| picture(drawn.pictures, id);
    for plot in drawn.plots {
        let size = if plot.panels.len() > 1 { PANEL } else { WHOLE };
        figures.plots.insert(plot.id.clone(), of_plot(plot, size, picture(&plot.id), true));
    }
    for chart in finding_charts::charts(summary) {
        let (key, picture) = (chart.finding, picture(&chart.id));
        figures.findings.entry(key).or_default().push(of_bars(chart, picture));
    }
    for (at, point) in summary.points.iter().enumerate() {
        let curve = (point.model == ArrivalModel::Open).then(|| curve(summary, at)).flatten();
        let curve = curve.map(|plot| PageFigure {
            // The page shows the load above the chart.
            setting: String::new(),
            ..of_plot(&plot, CURVE, picture(&plot.id), true)
        });
        let all: &[OfRow] =
            if point.model == ArrivalModel::Open { &[P99, CPU] } else { &[THROUGHPUT, CPU, MEMORY] };
        let bars = all.iter().map(|of| bars(summary, at, of, picture("comparison")));
        figures.points.insert(point_id(at), curve.into_iter().chain(bars).collect());
        figures.choices.extend(choices(summary, at, point, drawn));
    }
    figures
}

fn picture(pictures: &[Picture], id: &str) -> Option<String> {
    pictures.iter().find(|picture| picture.id == id).map(|picture| picture.path.clone())
}

/// Draws each panel of a chart. All panels have the same scales.
fn of_plot(plot: &Plot, size: (f64, f64), picture: Option<String>, has_titles: bool) -> PageFigure {
    let draw =
        |of: &Panel| PanelSvg { title: of.title.clone(), svg: panel(plot, of, size, has_titles).inline() };
    let entry = |line: &&Line| Entry { name: line.name.clone(), color: line.color, dashed: line.dashed };
    PageFigure {
        id: plot.id.clone(),
        title: plot.title.clone(),
        setting: plot.setting.clone(),
        picture,
        legend: plot.legend().iter().map(entry).collect(),
        panels: plot.panels.iter().map(draw).collect(),
        is_heat: false,
        table: DataTable::of_plot(plot).html(),
    }
}

fn bars(summary: &Summary, at: usize, of: &OfRow, picture: Option<String>) -> PageFigure {
    let bars = summary.points[at].rows.iter().filter_map(|row| {
        let figure = (of.of)(row)?;
        Some(Bar { name: &row.gateway, color: color_of(summary, &row.gateway), figure })
    });
    let chart = BarChart {
        finding: "",
        id: format!("{}-{}-bars", point_id(at), of.name),
        title: of.title.to_owned(),
        setting: String::new(),
        unit: of.unit,
        bars: bars.filter(|bar| bar.figure.mean.is_some() || bar.figure.beyond_timeout).collect(),
    };
    of_bars(chart, picture)
}

fn of_bars(chart: BarChart<'_>, picture: Option<String>) -> PageFigure {
    let BarChart { id, title, setting, unit, bars, .. } = chart;
    let table = DataTable::of_bars(&title, unit, &bars).html();
    let svg = if bars.is_empty() { "Not measured.".into() } else { bars_alone(&title, unit, bars).inline() };
    let (legend, panels) = (Vec::new(), vec![PanelSvg { title: String::new(), svg }]);
    PageFigure { id, title, setting, picture, legend, panels, is_heat: false, table }
}

/// The charts over time of every repeat of a load point, with the same scales for all repeats.
fn choices(summary: &Summary, at: usize, point: &Point, drawn: &Drawn<'_>) -> Vec<Choice> {
    let mut here: Vec<&CellTimeline<'_>> = drawn.timelines.iter().filter(|of| of.point == at).collect();
    let place = |gateway: &str| summary.gateways.iter().position(|known| known.name == gateway);
    here.sort_by_key(|of| (of.cell.key.repeat, place(&of.cell.key.gateway)));
    let plots = of_point(summary, at, drawn.timelines);
    let choice = |cells: &[&CellTimeline<'_>]| {
        let repeat = u64::from(cells[0].cell.key.repeat) + 1;
        // Without its script, the page shows only the charts of the first load point and its first repeat. Only these
        // charts need tooltips.
        let is_shown = std::ptr::eq(cells[0], here[0]) && drawn.timelines.iter().all(|of| of.point >= at);
        let series = plots.iter().filter_map(|plot| {
            let file = picture(drawn.pictures, &plot.id);
            let mut panels = plot.panels.clone();
            panels.retain(|panel| panel.title == repeat_title(cells[0]));
            let (id, setting) = (format!("{}-repeat-{repeat}", plot.id), String::new());
            let mut plot = Plot { id, setting, panels, ..plot.clone() };
            let panel = plot.panels.first_mut()?;
            panel.title.clear();
            for line in panel.lines.iter_mut().filter(|line| line.marked) {
                line.name += if line.dashed { ": invalid" } else { "" };
                line.dashed |= line.name == DIRECT;
            }
            Some(of_plot(&plot, TIME, file, is_shown))
        });
        let series: Vec<PageFigure> = series.collect();
        let heat = heat(cells, format!("{}-repeat-{repeat}", series_id(at, "heat")), is_shown);
        let heat = heat.map(|heat| PageFigure {
            picture: picture(drawn.pictures, &series_id(at, "heat"))
                .filter(|_| repeat == first_repeat(&here)),
            ..heat
        });
        Choice { point: point_id(at), load: point.words(), repeat, series, heat }
    };
    here.chunk_by(|one, next| one.cell.key.repeat == next.cell.key.repeat).map(choice).collect()
}

/// The number of the first repeat, whose heat maps are drawn as picture files.
fn first_repeat(cells: &[&CellTimeline<'_>]) -> u64 {
    cells.iter().map(|of| u64::from(of.cell.key.repeat) + 1).min().unwrap_or(1)
}

/// One heat map per gateway; `None` if there were no responses.
fn heat(cells: &[&CellTimeline<'_>], id: String, has_titles: bool) -> Option<PageFigure> {
    let maps = cells.iter().map(|of| HeatMap { gateway: &of.cell.key.gateway, timeline: &of.timeline });
    let maps: Vec<HeatMap<'_>> = maps.filter(|map| map.timeline.heat.rows > 0).collect();
    let panel = |place: usize| {
        Some(PanelSvg {
            title: maps[place].gateway.to_owned(),
            svg: heat_map(&maps, place, PANEL, has_titles)?.inline(),
        })
    };
    let panels: Vec<PanelSvg> = (0..maps.len()).filter_map(panel).collect();
    (!panels.is_empty()).then(|| PageFigure {
        id,
        title: "Latency per step: share of responses".into(),
        setting: String::new(),
        picture: None,
        legend: Vec::new(),
        panels,
        is_heat: true,
        table: DataTable::of_heat(&maps).html(),
    })
}
