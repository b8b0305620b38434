//! What the charts of the page draw: figures and curves as JSON, and a fixed colour per gateway.

use std::collections::BTreeMap;

use serde::Serialize;
use weir_analysis::sizing::InstanceType;
use weir_analysis::{Figure, Row, Summary};
use weir_results::DIRECT;

use crate::cells::cell_name;
use crate::heat::{Packed, packed};
use crate::html::Drawn;
use crate::pictures::Picture;
use crate::plot::Plot;
use crate::series::series_id;
use crate::timelines::CellTimeline;

/// Colours of the palette in the order in which gateways and parts take them that have none by their name.
const FREE_COLORS: [&str; 11] =
    ["amber", "violet", "brown", "teal", "red", "olive", "rose", "vermilion", "green", "blue", "pink"];

/// The data island of the page.
#[derive(Serialize)]
pub(crate) struct Charts<'a> {
    gateways: Vec<Colored<'a>>,
    points: Vec<PointChart<'a>>,
    plots: &'a [Plot],
    timelines: Vec<CellChart<'a>>,
    /// What instances are sized from.
    sizing: Vec<InstanceType>,
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
    /// The files of its pictures, by the series that they show.
    pictures: BTreeMap<&'static str, &'a str>,
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
    sustained_from_s: Option<f64>,
    end_s: f64,
    t_s: Vec<f64>,
    rate_per_s: Vec<Option<f64>>,
    p99_ns: &'a [Option<u64>],
    /// When routes changed.
    changes_t_s: Vec<f64>,
    sampled_t_s: Vec<f64>,
    data_cores: Vec<Option<f64>>,
    data_memory_bytes: &'a [Option<u64>],
    heat: Packed,
}

/// Collects what the charts draw.
pub(crate) fn charts<'a>(summary: &'a Summary, drawn: &Drawn<'a>, sizing: Vec<InstanceType>) -> Charts<'a> {
    let points = summary.points.iter().enumerate().map(|(index, point)| PointChart {
        id: point_id(index),
        title: point.words(),
        open: point.rate_per_s.is_some(),
        pictures: pictures(index, drawn.pictures),
        rows: point.rows.iter().map(row).collect(),
    });
    Charts {
        gateways: colors(summary),
        points: points.collect(),
        plots: drawn.plots,
        timelines: drawn.timelines.iter().map(cell_chart).collect(),
        sizing,
    }
}

/// The id of a load point in the page.
pub(crate) fn point_id(index: usize) -> String {
    format!("point-{index}")
}

/// A colour per gateway: the same in every report for the gateways that weir knows, else by order.
pub(crate) fn colors(summary: &Summary) -> Vec<Colored<'_>> {
    let names: Vec<&str> = summary.gateways.iter().map(|gateway| gateway.name.as_str()).collect();
    let fixed = |name: &str| match name {
        "weir" => Some("blue"),
        "nginx" => Some("green"),
        "haproxy" => Some("vermilion"),
        "envoy" => Some("pink"),
        DIRECT => Some("grey"),
        _ => None,
    };
    let taken = distinct(&names, fixed);
    names.into_iter().zip(taken).map(|(name, color)| Colored { name, color }).collect()
}

/// A colour for each name: its own, or else one that no other has, while there are some.
pub(crate) fn distinct(names: &[&str], own: impl Fn(&str) -> Option<&'static str>) -> Vec<&'static str> {
    let owned: Vec<&str> = names.iter().filter_map(|name| own(name)).collect();
    let mut free = FREE_COLORS.iter().filter(|color| !owned.contains(*color)).cycle();
    names.iter().map(|name| own(name).or_else(|| free.next().copied()).unwrap_or("amber")).collect()
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

/// The colour of a gateway.
pub(crate) fn color_of(summary: &Summary, gateway: &str) -> &'static str {
    colors(summary)
        .into_iter()
        .find(|colored| colored.name == gateway)
        .map_or("grey", |colored| colored.color)
}

fn pictures(point: usize, pictures: &[Picture]) -> BTreeMap<&'static str, &str> {
    let path = |name| {
        let id = series_id(point, name);
        pictures.iter().find(|picture| picture.id == id).map(|picture| (name, picture.path.as_str()))
    };
    ["rate_per_s", "p99_ns", "data_cores", "data_memory_bytes", "heat"].into_iter().filter_map(path).collect()
}

fn cell_chart<'a>(of: &'a CellTimeline<'a>) -> CellChart<'a> {
    let timeline = &of.timeline;
    CellChart {
        point: point_id(of.point),
        gateway: &of.cell.key.gateway,
        repeat: of.cell.key.repeat,
        name: cell_name(&of.cell.key),
        counts: of.counts(),
        sustained_from_s: timeline.sustained_from_s,
        end_s: rounded(timeline.end_s),
        t_s: timeline.t_s.iter().copied().map(rounded).collect(),
        rate_per_s: all_rounded(&timeline.rate_per_s),
        p99_ns: &timeline.p99_ns,
        changes_t_s: of.measurement.route_changes.iter().map(|change| rounded(change.t_s)).collect(),
        sampled_t_s: timeline.sampled_t_s.iter().copied().map(rounded).collect(),
        data_cores: all_rounded(&timeline.data_cores),
        data_memory_bytes: &timeline.data_memory_bytes,
        heat: packed(&timeline.heat),
    }
}

fn all_rounded(values: &[Option<f64>]) -> Vec<Option<f64>> {
    values.iter().map(|value| value.map(rounded)).collect()
}

/// To five significant digits: what no chart shows makes no page larger.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10_f64.powi(4 - value.abs().log10().floor() as i32);
    let rounded = (value * scale).round() / scale;
    if rounded.is_finite() { rounded } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_a_colour_take_those_that_nobody_has() {
        let own = |name: &str| match name {
            "a" => Some("violet"),
            "b" => Some("amber"),
            _ => None,
        };
        assert_eq!(distinct(&["a", "x", "b", "y"], own), ["violet", "brown", "amber", "teal"]);
        let many: Vec<String> = (0..FREE_COLORS.len()).map(|n| n.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let mut colors = distinct(&many, own);
        colors.sort_unstable();
        colors.dedup();
        assert_eq!(colors.len(), FREE_COLORS.len());
        assert!(colors.iter().all(|color| crate::svg::color_names().any(|known| known == *color)));
    }

    #[test]
    fn five_digits_are_kept() {
        let check = |value: f64, expected: f64| assert_eq!(rounded(value), expected);
        check(26_123.456_789, 26_123.0);
        check(0.497_123_456, 0.497_12);
        check(12.000_000_000_01, 12.0);
        check(-123_456.7, -123_460.0);
        check(0.0, 0.0);
        check(1e-320, 1e-320);
    }
}
