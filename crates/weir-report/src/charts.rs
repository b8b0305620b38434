//! What the charts of the page draw: figures and curves as JSON, and a fixed colour per gateway.

use serde::Serialize;
use weir_analysis::{Figure, Point, Row, Summary, Timeline, timeline};
use weir_results::{Cell, CellOutcome, DIRECT};

use crate::cells::cell_name;

/// Colours of the palette that are not fixed to a name, in the order in which gateways take them.
const FREE_COLORS: [&str; 4] = ["amber", "violet", "brown", "teal"];

/// The data island of the page.
#[derive(Serialize)]
pub(crate) struct Charts<'a> {
    gateways: Vec<Colored<'a>>,
    points: Vec<PointChart<'a>>,
    timelines: Vec<CellChart<'a>>,
}

/// A gateway with its colour's name.
#[derive(Serialize)]
pub(crate) struct Colored<'a> {
    pub(crate) name: &'a str,
    pub(crate) color: &'static str,
}

#[derive(Serialize)]
struct PointChart<'a> {
    id: String,
    title: String,
    open: bool,
    rows: Vec<RowChart<'a>>,
}

#[derive(Serialize)]
struct RowChart<'a> {
    gateway: &'a str,
    throughput_per_s: Dot,
    cpu_us_per_request: Dot,
    memory_bytes_peak: Dot,
    p50_ns: Dot,
    p99_ns: Dot,
    curve: Vec<[f64; 2]>,
    curve_counts: bool,
}

/// A figure with its interval, and whether it counts.
#[derive(Serialize)]
struct Dot {
    mean: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    counts: bool,
    beyond_timeout: bool,
}

#[derive(Serialize)]
struct CellChart<'a> {
    /// The load point that it belongs to.
    point: String,
    gateway: &'a str,
    repeat: u32,
    name: String,
    counts: bool,
    #[serde(flatten)]
    timeline: Timeline,
}

/// Collects what the charts draw.
pub(crate) fn charts<'a>(summary: &'a Summary, cells: &'a [Cell]) -> Charts<'a> {
    let points = summary.points.iter().enumerate().map(|(index, point)| PointChart {
        id: point_id(index),
        title: point.words(),
        open: point.rate_per_s.is_some(),
        rows: point.rows.iter().map(row).collect(),
    });
    Charts { gateways: colors(summary), points: points.collect(), timelines: timelines(summary, cells) }
}

/// The id of a load point in the page.
pub(crate) fn point_id(index: usize) -> String {
    format!("point-{index}")
}

/// A colour per gateway: the same in every report for the gateways that weir knows, else by order.
pub(crate) fn colors(summary: &Summary) -> Vec<Colored<'_>> {
    let mut free = FREE_COLORS.iter().cycle();
    let color = |name: &str| match name {
        "weir" => "blue",
        "nginx" => "green",
        "haproxy" => "vermilion",
        "envoy" => "pink",
        DIRECT => "grey",
        _ => "",
    };
    summary
        .gateways
        .iter()
        .map(|gateway| {
            let fixed = color(&gateway.name);
            let color = if fixed.is_empty() { free.next().copied().unwrap_or("amber") } else { fixed };
            Colored { name: &gateway.name, color }
        })
        .collect()
}

fn row(row: &Row) -> RowChart<'_> {
    let latency = |name: &str| row.latency(name).map_or_else(|| dot(&Figure::default()), dot);
    RowChart {
        gateway: &row.gateway,
        throughput_per_s: dot(&row.throughput_per_s),
        cpu_us_per_request: dot(&row.cpu_us_per_request),
        memory_bytes_peak: dot(&row.memory_bytes_peak),
        p50_ns: latency("p50"),
        p99_ns: latency("p99"),
        curve: row.latency_curve.iter().map(|point| [point.quantile, point.latency_ns as f64]).collect(),
        curve_counts: row.latency("p50").is_some_and(Figure::is_valid),
    }
}

fn dot(figure: &Figure) -> Dot {
    Dot {
        mean: figure.mean,
        low: figure.interval.map(|[low, _]| low),
        high: figure.interval.map(|[_, high]| high),
        counts: figure.is_valid(),
        beyond_timeout: figure.beyond_timeout,
    }
}

fn timelines<'a>(summary: &Summary, cells: &'a [Cell]) -> Vec<CellChart<'a>> {
    let place = |cell: &Cell, load: &str| {
        let same = |point: &Point| point.axes == cell.key.axes && point.load == load;
        summary.points.iter().position(same)
    };
    let mut charts = Vec::new();
    for cell in cells {
        let CellOutcome::Measured { measurements } = &cell.outcome else { continue };
        for measurement in measurements {
            let Some(point) = place(cell, &measurement.load) else { continue };
            charts.push(CellChart {
                point: point_id(point),
                gateway: &cell.key.gateway,
                repeat: cell.key.repeat,
                name: cell_name(&cell.key),
                counts: measurement.judgement.verdicts.throughput.is_empty(),
                timeline: timeline(cell, measurement),
            });
        }
    }
    charts
}
