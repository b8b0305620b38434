//! A picture of the headlines for READMEs and Markdown: bars with their intervals.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use weir_analysis::{Figure, Point, Row, Summary, quantity};
use weir_results::ArrivalModel;

use crate::charts::colors;
use crate::tables::microseconds;

const PANEL_WIDTH: i32 = 300;
const LABEL_WIDTH: i32 = 76;
const VALUE_WIDTH: i32 = 78;
const ROW_HEIGHT: i32 = 26;
const TITLE_HEIGHT: i32 = 34;
const MARGIN: i32 = 18;
const INK: RGBColor = RGBColor(22, 25, 29);
const SOFT: RGBColor = RGBColor(89, 96, 105);

/// A metric of a load point, drawn as bars.
struct Panel<'a> {
    title: String,
    bars: Vec<(&'a Row, &'a Figure)>,
    format: fn(f64) -> String,
}

/// Draws a row of panels per point of the axes; `None` where nothing was measured.
pub(crate) fn picture(summary: &Summary) -> Option<String> {
    let rows = rows(summary);
    let (columns, heights): (usize, Vec<i32>) = (
        rows.iter().map(|(_, panels)| panels.len()).max()?,
        rows.iter().map(|(axes, panels)| row_height(axes, panels)).collect(),
    );
    let width = MARGIN * 2 + columns as i32 * PANEL_WIDTH;
    let height = MARGIN * 2 + heights.iter().sum::<i32>();
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (width as u32, height as u32)).into_drawing_area();
        root.fill(&WHITE).ok()?;
        let mut top = MARGIN;
        for ((axes, panels), height) in rows.iter().zip(heights) {
            let mut from = top;
            if !axes.is_empty() {
                text(&root, axes, (MARGIN, from + 8), 14, &INK, HPos::Left)?;
                from += 24;
            }
            for (column, panel) in panels.iter().enumerate() {
                draw_panel(&root, summary, panel, (MARGIN + column as i32 * PANEL_WIDTH, from))?;
            }
            top += height;
        }
        root.present().ok()?;
    }
    Some(svg)
}

/// Panels by point of the axes: throughput, CPU and memory of its closed load, latency of its open one.
fn rows(summary: &Summary) -> Vec<(String, Vec<Panel<'_>>)> {
    let mut rows: Vec<(String, Vec<Panel<'_>>)> = Vec::new();
    for point in &summary.points {
        let axes = point.axes_words();
        let panels = panels(point);
        match rows.iter_mut().find(|(known, _)| *known == axes) {
            Some((_, row)) => row.extend(panels),
            None => rows.push((axes, panels)),
        }
    }
    for (_, panels) in &mut rows {
        panels.retain(|panel| !panel.bars.is_empty());
        panels.truncate(4);
    }
    rows.retain(|(_, panels)| !panels.is_empty());
    rows
}

fn panels(point: &Point) -> Vec<Panel<'_>> {
    let panel = |title: String, format, of: fn(&Row) -> Option<&Figure>| {
        let bars = point.rows.iter().filter_map(|row| Some((row, of(row)?)));
        let bars = bars.filter(|(_, figure)| figure.mean.is_some() || figure.beyond_timeout).collect();
        Panel { title, bars, format }
    };
    match point.model {
        ArrivalModel::Closed => vec![
            panel("Throughput".into(), quantity::rate, |row| Some(&row.throughput_per_s)),
            panel("CPU time per request".into(), microseconds, |row| Some(&row.cpu_us_per_request)),
            panel("Peak memory".into(), quantity::bytes, |row| Some(&row.memory_bytes_peak)),
        ],
        ArrivalModel::Open => {
            let at =
                point.rate_per_s.map(|per_s| format!(" at {}", quantity::rate(per_s))).unwrap_or_default();
            vec![panel(format!("p99 latency{at}"), quantity::time_ns, |row| row.latency("p99"))]
        }
    }
}

fn row_height(axes: &str, panels: &[Panel<'_>]) -> i32 {
    let most = panels.iter().map(|panel| panel.bars.len()).max().unwrap_or(0) as i32;
    let heading = if axes.is_empty() { 0 } else { 24 };
    heading + TITLE_HEIGHT + most * ROW_HEIGHT + 12
}

type Root<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw_panel(root: &Root<'_>, summary: &Summary, panel: &Panel<'_>, (left, top): (i32, i32)) -> Option<()> {
    text(root, &panel.title, (left, top + 10), 14, &INK, HPos::Left)?;
    let high = |figure: &Figure| figure.interval.map_or(figure.mean.unwrap_or(0.0), |[_, high]| high);
    let greatest = panel.bars.iter().map(|(_, figure)| high(figure)).fold(f64::MIN_POSITIVE, f64::max);
    let zero = left + LABEL_WIDTH;
    let room = f64::from(PANEL_WIDTH - LABEL_WIDTH - VALUE_WIDTH - 16);
    let place = |value: f64| zero + (value / greatest * room) as i32;
    for (index, (row, figure)) in panel.bars.iter().enumerate() {
        let middle = top + TITLE_HEIGHT + index as i32 * ROW_HEIGHT + ROW_HEIGHT / 2 - 4;
        text(root, &row.gateway, (zero - 8, middle), 13, &INK, HPos::Right)?;
        let color = color(summary, &row.gateway);
        let end = place(figure.mean.unwrap_or(0.0));
        let bar = [(zero, middle - 7), (end, middle + 7)];
        let style = if figure.is_valid() { color.filled() } else { color.stroke_width(1) };
        root.draw(&Rectangle::new(bar, style)).ok()?;
        if let Some([low, high]) = figure.interval {
            whisker(root, place(low), place(high), middle)?;
        }
        let words = if figure.beyond_timeout {
            "> timeout".to_owned()
        } else {
            (panel.format)(figure.mean.unwrap_or(0.0))
        };
        let (words, ink) = if figure.is_valid() { (words, &INK) } else { (format!("({words})"), &SOFT) };
        text(root, &words, (place(high(figure)).max(end) + 8, middle), 13, ink, HPos::Left)?;
    }
    Some(())
}

fn whisker(root: &Root<'_>, low: i32, high: i32, middle: i32) -> Option<()> {
    let line = |from, to| root.draw(&PathElement::new([from, to], INK.stroke_width(1))).ok();
    line((low, middle), (high, middle))?;
    line((low, middle - 3), (low, middle + 3))?;
    line((high, middle - 3), (high, middle + 3))
}

fn text(root: &Root<'_>, words: &str, at: (i32, i32), size: i32, ink: &RGBColor, side: HPos) -> Option<()> {
    let style = ("sans-serif", size).into_font().color(ink).pos(Pos::new(side, VPos::Center));
    root.draw(&Text::new(words.to_owned(), at, style)).ok()
}

/// The page's palette on white.
fn color(summary: &Summary, gateway: &str) -> RGBColor {
    let name =
        colors(summary).into_iter().find(|colored| colored.name == gateway).map(|colored| colored.color);
    match name {
        Some("blue") => RGBColor(0, 114, 178),
        Some("green") => RGBColor(0, 158, 115),
        Some("vermilion") => RGBColor(213, 94, 0),
        Some("pink") => RGBColor(184, 85, 143),
        Some("amber") => RGBColor(201, 138, 0),
        Some("violet") => RGBColor(106, 81, 163),
        Some("brown") => RGBColor(140, 109, 49),
        Some("teal") => RGBColor(43, 140, 158),
        _ => RGBColor(123, 130, 139),
    }
}
