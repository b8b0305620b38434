//! Draws a comparison as one page without scripts: tables, and charts that show both datasets.

use minijinja::{Environment, Value, context};
use serde::Serialize;
use weir_analysis::compare::{Comparison, PointComparison};
use weir_analysis::{CurvePoint, Figure};

use super::tables::tells_nothing;
use crate::charts::series::{by_quantile, place_of};
use crate::charts::svg::{Bar, Layout, bars, chart};
use crate::formats::html;
use crate::model::plot::{Line, Spot};
use crate::model::scale::Unit;

const TEMPLATE: &str = include_str!("../../../assets/compare.html");
/// The colours of the datasets A and B.
const COLORS: [&str; 2] = ["blue", "vermilion"];
/// Maximum number of bar chart panels side by side.
const PANELS_MAX: usize = 4;

/// The charts of one gateway at one load point.
#[derive(Serialize)]
struct PointPage {
    title: String,
    bars: String,
    has_intervals: bool,
    curve: Option<String>,
}

/// Draws the page of a comparison.
pub(crate) fn draw(comparison: &Comparison) -> Result<String, minijinja::Error> {
    let mut environment = Environment::new();
    html::prepare(&mut environment, "compare.html", TEMPLATE)?;
    let labels = [comparison.a.label.as_str(), comparison.b.label.as_str()];
    let points: Vec<PointPage> = comparison.points.iter().map(|point| point_page(point, labels)).collect();
    environment.get_template("compare.html")?.render(context! {
        report => Value::from_serialize(super::report(comparison)),
        points => Value::from_serialize(points),
        colors => Value::from_serialize(std::collections::BTreeMap::<&str, &str>::new()),
        style => Value::from_safe_string(html::style()),
    })
}

fn point_page(point: &PointComparison, labels: [&str; 2]) -> PointPage {
    let judged = point.figures.iter().filter(|of| of.verdict.is_some()).take(PANELS_MAX);
    let drawn: Vec<_> = judged.map(|of| (of, [drawable(&of.a), drawable(&of.b)])).collect();
    let panels = drawn.iter().map(|(of, [a, b])| {
        let unit = Unit::from(of.measure.unit());
        let bar = |at: usize, figure| Bar { name: labels[at], color: COLORS[at], figure };
        let verdict = of.verdict_words();
        (format!("{}: {verdict}", of.measure.title()), unit, vec![bar(0, a), bar(1, b)])
    });
    let panels: Vec<_> = panels.collect();
    let has_intervals = drawn.iter().any(|(_, both)| both.iter().any(|figure| figure.interval.is_some()));
    let bars = if panels.is_empty() { String::new() } else { bars("Values of A and B", panels).inline() };
    let line = |at: usize| line(labels[at], COLORS[at], &point.curves[at]);
    let lines: Vec<Line> = (0..2).map(line).filter(|line| !line.spots.is_empty()).collect();
    let curve = by_quantile(String::new(), String::new(), lines);
    PointPage {
        title: point.words(),
        bars,
        has_intervals,
        curve: curve.map(|plot| chart(&plot, Layout { panel_width: 900.0, ..Layout::inline() }).inline()),
    }
}

/// Removes a confidence interval that is too wide to be useful: next to it, the bar would be too small to see.
fn drawable(of: &Figure) -> Figure {
    let interval = of.interval.filter(|_| !tells_nothing(of));
    Figure { interval, ..of.clone() }
}

fn line(name: &str, color: &'static str, curve: &[CurvePoint]) -> Line {
    let spot = |at: &CurvePoint| Spot::at(place_of(at.quantile), Some(at.latency_ns as f64));
    Line {
        name: name.to_owned(),
        color,
        dashed: false,
        marked: true,
        spots: curve.iter().map(spot).collect(),
    }
}
