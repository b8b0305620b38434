//! Draws a picture of the headline values for READMEs and Markdown: bars with their confidence intervals.

use weir_analysis::{Figure, Point, Row, Summary, quantity};
use weir_results::ArrivalModel;

use super::{Anchor, Svg, width_of};
use crate::charts::colors::color_of;
use crate::model::plot::value_words;
use crate::model::scale::Unit;

const PANEL_WIDTH: f64 = 300.0;
const PANELS_MAX: usize = 4;
const VALUE_WIDTH: f64 = 84.0;
const VALUE_WIDTH_MAX: f64 = 160.0;
const ROW_HEIGHT: f64 = 26.0;
const TITLE_HEIGHT: f64 = 34.0;
const AXES_HEIGHT: f64 = 24.0;
const MARGIN: f64 = 18.0;
/// Maximum width of a name, in pixels. A longer name would leave no room for the bar.
const NAME_WIDTH_MAX: f64 = 110.0;

/// A metric of one load point, drawn as bars.
struct Panel<'a> {
    title: String,
    bars: Vec<Bar<'a>>,
    unit: Unit,
}

/// A bar: the value of a gateway or of a dataset.
pub(crate) struct Bar<'a> {
    pub(crate) name: &'a str,
    pub(crate) color: &'static str,
    pub(crate) figure: &'a Figure,
}

/// Draws panels of bars side by side, each with a title and a unit. Screen readers read `label`.
pub(crate) fn bars(label: &str, panels: Vec<(String, Unit, Vec<Bar<'_>>)>) -> Svg {
    let panels: Vec<Panel<'_>> =
        panels.into_iter().map(|(title, unit, bars)| Panel { title, bars, unit }).collect();
    let width = MARGIN * 2.0 + panels.len() as f64 * PANEL_WIDTH;
    let mut svg = Svg::new(width, MARGIN * 2.0 + row_height("", &panels), label);
    for (column, panel) in panels.iter().enumerate() {
        draw_panel(&mut svg, panel, (MARGIN + column as f64 * PANEL_WIDTH, MARGIN));
    }
    svg
}

/// Draws one panel without its title, which the page shows. Screen readers read `label`.
pub(crate) fn bars_alone(label: &str, unit: Unit, bars: Vec<Bar<'_>>) -> Svg {
    // Height of the omitted title.
    const LEFT_OUT: f64 = TITLE_HEIGHT - 8.0;
    let panels = [Panel { title: String::new(), bars, unit }];
    let mut svg = Svg::new(PANEL_WIDTH + MARGIN, row_height("", &panels) - LEFT_OUT, label);
    draw_panel(&mut svg, &panels[0], (0.0, -LEFT_OUT));
    svg
}

/// Draws one row of panels for each combination of values of the axes. Returns `None` without measurements.
pub(crate) fn comparison(summary: &Summary) -> Option<String> {
    let rows = rows(summary);
    let columns = rows.iter().map(|(_, panels)| panels.len()).max()?;
    let height: f64 = rows.iter().map(|(axes, panels)| row_height(axes, panels)).sum();
    let width = MARGIN * 2.0 + columns as f64 * PANEL_WIDTH;
    let mut svg = Svg::new(width, MARGIN * 2.0 + height, "Headlines of all gateways");
    let mut top = MARGIN;
    for (axes, panels) in &rows {
        let mut from = top;
        if !axes.is_empty() {
            svg.text((MARGIN, from + 8.0), Anchor::Start, "ink", axes);
            from += AXES_HEIGHT;
        }
        for (column, panel) in panels.iter().enumerate() {
            draw_panel(&mut svg, panel, (MARGIN + column as f64 * PANEL_WIDTH, from));
        }
        top += row_height(axes, panels);
    }
    Some(svg.file())
}

/// The panels for each combination of values of the axes: throughput, CPU and memory of the closed loop, and
/// latency of the open loop.
fn rows(summary: &Summary) -> Vec<(String, Vec<Panel<'_>>)> {
    let mut rows: Vec<(String, Vec<Panel<'_>>)> = Vec::new();
    for point in &summary.points {
        let axes = point.axes_words();
        let panels = panels(summary, point);
        match rows.iter_mut().find(|(known, _)| *known == axes) {
            Some((_, row)) => row.extend(panels),
            None => rows.push((axes, panels)),
        }
    }
    for (_, panels) in &mut rows {
        panels.retain(|panel| !panel.bars.is_empty());
        panels.truncate(PANELS_MAX);
    }
    rows.retain(|(_, panels)| !panels.is_empty());
    rows
}

fn panels<'a>(summary: &Summary, point: &'a Point) -> Vec<Panel<'a>> {
    let panel = |title: String, unit, of: fn(&Row) -> Option<&Figure>| {
        let bars = point.rows.iter().filter_map(|row| {
            Some(Bar { name: &row.gateway, color: color_of(summary, &row.gateway), figure: of(row)? })
        });
        let bars = bars.filter(|bar| bar.figure.mean.is_some() || bar.figure.beyond_timeout).collect();
        Panel { title, bars, unit }
    };
    match point.model {
        ArrivalModel::Closed => vec![
            panel("Throughput".into(), Unit::PerSecond, |row| Some(&row.throughput_per_s)),
            panel("CPU time per request".into(), Unit::Microseconds, |row| Some(&row.cpu_us_per_request)),
            panel("Peak memory".into(), Unit::Bytes, |row| Some(&row.memory_bytes_peak)),
        ],
        ArrivalModel::Open => {
            let at =
                point.rate_per_s.map(|per_s| format!(" at {}", quantity::rate(per_s))).unwrap_or_default();
            vec![panel(format!("p99 latency{at}"), Unit::Nanoseconds, |row| row.latency("p99"))]
        }
    }
}

fn row_height(axes: &str, panels: &[Panel<'_>]) -> f64 {
    let most = panels.iter().map(|panel| panel.bars.len()).max().unwrap_or(0) as f64;
    let heading = if axes.is_empty() { 0.0 } else { AXES_HEIGHT };
    heading + TITLE_HEIGHT + most * ROW_HEIGHT + 12.0
}

fn draw_panel(svg: &mut Svg, panel: &Panel<'_>, (left, top): (f64, f64)) {
    svg.text((left, top + 10.0), Anchor::Start, "ink", &panel.title);
    let high = |figure: &Figure| figure.ends().map_or(figure.mean.unwrap_or(0.0), |[_, high]| high);
    let greatest = panel.bars.iter().map(|bar| high(bar.figure)).fold(f64::MIN_POSITIVE, f64::max);
    let names = panel.bars.iter().map(|bar| width_of(bar.name)).fold(50.0, f64::max);
    let zero = left + names.min(NAME_WIDTH_MAX) + 14.0;
    // Bounds need more text than a single value.
    let words = panel.bars.iter().map(|bar| width_of(&shown(bar.figure, panel.unit)) + 10.0);
    let room = left + PANEL_WIDTH - words.fold(VALUE_WIDTH, f64::max).min(VALUE_WIDTH_MAX) - zero;
    let place = |value: f64| zero + (value / greatest).clamp(0.0, 1.0) * room;
    for (index, Bar { name, color, figure }) in panel.bars.iter().enumerate() {
        let middle = top + TITLE_HEIGHT + index as f64 * ROW_HEIGHT + ROW_HEIGHT / 2.0 - 4.0;
        svg.text((zero - 8.0, middle), Anchor::End, "ink", &shortened(name));
        let said = format!("{name}: {}", value_words(figure, panel.unit));
        let value = shown(figure, panel.unit);
        let end = place(figure.mean.unwrap_or(0.0));
        let class = if figure.is_valid() && !figure.is_bounded() {
            format!("f-{color}")
        } else {
            format!("ring s-{color}")
        };
        svg.rectangle((zero, middle - 7.0), (end - zero, 14.0), &class, &said);
        if let Some([low, high]) = figure.ends() {
            let (low, high) = (place(low), place(high));
            let caps = format!(
                "M{low:.1} {middle:.1}H{high:.1}M{low:.1} {:.1}v6M{high:.1} {:.1}v6",
                middle - 3.0,
                middle - 3.0
            );
            svg.path(&caps, "s-ink thin", "");
        }
        let is_known = figure.is_valid() || figure.is_bounded();
        let (words, ink) = if is_known { (value, "ink") } else { (format!("({value})"), "soft") };
        svg.text((place(high(figure)).max(end) + 8.0, middle), Anchor::Start, ink, &words);
    }
}

/// The text beside a bar. A bounded value is shown with its bounds; any other value as its mean, without the interval.
fn shown(figure: &Figure, unit: Unit) -> String {
    match figure.is_bounded() {
        true => value_words(figure, unit),
        false => figure.mean.map_or_else(|| "> timeout".into(), |mean| unit.words(mean)),
    }
}

/// Shortens a name to the available width.
fn shortened(name: &str) -> String {
    if width_of(name) <= NAME_WIDTH_MAX {
        return name.to_owned();
    }
    let room = (NAME_WIDTH_MAX / width_of("x")) as usize;
    name.chars().take(room.saturating_sub(1)).chain(['…']).collect()
}
