//! Charts of the page as pictures, which stand in it until its script draws them: a page is whole as soon as it is loaded,
//! and without the script.

use std::collections::BTreeMap;

use serde::Serialize;
use weir_analysis::{Figure, Point, Row, Summary};
use weir_results::ArrivalModel;

use crate::charts::{color_of, point_id};
use crate::heat::HeatMap;
use crate::html::Drawn;
use crate::plot::{Line, Panel, Plot};
use crate::scale::Unit;
use crate::series::{curve, of_point};
use crate::svg::{Bar, Layout, bars_alone, chart, heat_map};
use crate::timelines::CellTimeline;

/// Sizes that the script gives its charts on a desk, pixels.
const PANEL: (f64, f64) = (400.0, 230.0);
const WHOLE: (f64, f64) = (640.0, 290.0);
const TIME: (f64, f64) = (640.0, 240.0);
const CURVE: (f64, f64) = (880.0, 340.0);

/// A figure of a row that is drawn as a bar, by its field in the page's data.
type OfRow = (&'static str, Unit, fn(&Row) -> Option<&Figure>);

const OF_CLOSED: [OfRow; 3] = [
    ("throughput_per_s", Unit::PerSecond, |row| Some(&row.throughput_per_s)),
    ("cpu_us_per_request", Unit::Microseconds, |row| Some(&row.cpu_us_per_request)),
    ("memory_bytes_peak", Unit::Bytes, |row| Some(&row.memory_bytes_peak)),
];
const OF_OPEN: [OfRow; 2] = [
    ("p99_ns", Unit::Nanoseconds, |row| row.latency("p99")),
    ("cpu_us_per_request", Unit::Microseconds, |row| Some(&row.cpu_us_per_request)),
];

/// The pictures.
#[derive(Default, Serialize)]
pub(crate) struct Stills {
    /// By what names a chart in the page.
    svg: BTreeMap<String, String>,
    /// The names of the lines of charts, likewise.
    legends: BTreeMap<String, Vec<Entry>>,
    /// Heat maps of the load and the repeat that the page shows first.
    heats: Vec<HeatStill>,
}

/// A line's name with its colour.
#[derive(Serialize)]
struct Entry {
    name: String,
    color: &'static str,
    dashed: bool,
}

#[derive(Serialize)]
struct HeatStill {
    gateway: String,
    svg: String,
}

/// Draws every chart that the page shows when it is opened.
pub(crate) fn stills(summary: &Summary, drawn: &Drawn<'_>) -> Stills {
    let mut stills = Stills::default();
    for plot in drawn.plots {
        stills.panels(plot);
    }
    for (at, point) in summary.points.iter().enumerate() {
        stills.bars(summary, at, point);
        let curve = (point.model == ArrivalModel::Open).then(|| curve(summary, at)).flatten();
        if let Some(curve) = curve {
            let name = format!("{}-curve", point_id(at));
            stills.lines(name, &curve, CURVE);
        }
    }
    stills.time(summary, drawn.timelines);
    stills
}

impl Stills {
    /// Each panel of a chart with the scales of all.
    fn panels(&mut self, plot: &Plot) {
        let (width, height) = if plot.panels.len() > 1 { PANEL } else { WHOLE };
        for (place, panel) in plot.panels.iter().enumerate() {
            let panels = vec![Panel { title: String::new(), ..panel.clone() }];
            let alone = Plot { panels, ..plot.clone() };
            let svg = chart(&alone, Layout::still(width, height)).inline();
            self.svg.insert(format!("{}-{place}", plot.id), svg);
        }
        self.legends.insert(plot.id.clone(), entries(plot));
    }

    fn bars(&mut self, summary: &Summary, at: usize, point: &Point) {
        let figures: &[OfRow] = if point.model == ArrivalModel::Open { &OF_OPEN } else { &OF_CLOSED };
        for (name, unit, of) in figures {
            let bars = point.rows.iter().filter_map(|row| {
                Some(Bar { name: &row.gateway, color: color_of(summary, &row.gateway), figure: of(row)? })
            });
            let bars: Vec<Bar<'_>> =
                bars.filter(|bar| bar.figure.mean.is_some() || bar.figure.beyond_timeout).collect();
            let svg =
                if bars.is_empty() { "Not measured.".into() } else { bars_alone(name, *unit, bars).inline() };
            self.svg.insert(format!("{}-{name}", point_id(at)), svg);
        }
    }

    /// A chart of one panel under the name `name`.
    fn lines(&mut self, name: String, plot: &Plot, (width, height): (f64, f64)) {
        self.svg.insert(name.clone(), chart(plot, Layout::still(width, height)).inline());
        self.legends.insert(name, entries(plot));
    }

    /// The series and heat maps of the first load's first repeat.
    fn time(&mut self, summary: &Summary, timelines: &[CellTimeline<'_>]) {
        let here = || timelines.iter().filter(|of| of.point == 0);
        let Some(repeat) = here().map(|of| of.cell.key.repeat).min().filter(|_| !summary.points.is_empty())
        else {
            return;
        };
        let first = || here().filter(|of| of.cell.key.repeat == repeat);
        let shown = format!("repeat {}", u64::from(repeat) + 1);
        for mut plot in of_point(summary, 0, timelines) {
            plot.panels.retain(|panel| panel.title == shown);
            plot.panels.iter_mut().for_each(|panel| panel.title.clear());
            if !plot.panels.is_empty() {
                let name = plot.id.clone();
                self.lines(name, &plot, TIME);
            }
        }
        let mut maps: Vec<HeatMap<'_>> =
            first().map(|of| HeatMap { gateway: &of.cell.key.gateway, timeline: &of.timeline }).collect();
        maps.retain(|map| map.timeline.heat.rows > 0);
        maps.sort_by_key(|map| summary.gateways.iter().position(|gateway| gateway.name == map.gateway));
        let drawn = (0..maps.len()).filter_map(|place| {
            let svg = heat_map(&maps, place, PANEL)?.inline();
            Some(HeatStill { gateway: maps[place].gateway.to_owned(), svg })
        });
        self.heats = drawn.collect();
    }
}

fn entries(plot: &Plot) -> Vec<Entry> {
    let named = |line: &&Line| Entry { name: line.name.clone(), color: line.color, dashed: line.dashed };
    plot.legend().iter().map(named).collect()
}
