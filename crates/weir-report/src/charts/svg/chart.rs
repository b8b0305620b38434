//! Draws a chart of lines, dots or bars as an SVG picture.

use std::fmt::Write as _;

use super::symbol::symbol;
use super::{Anchor, Svg, width_of};
use crate::model::plot::{Line, Marks, Panel, Plot, Spot, Step};

/// Sizes of a chart, in pixels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Width of a panel, including the labels of its vertical scale.
    pub(crate) panel_width: f64,
    /// Height of the area with the values, without the labels of the horizontal scale.
    pub(crate) plot_height: f64,
    /// Number of panels side by side.
    pub(crate) columns: usize,
    /// Whether the title and the setting are drawn. A page shows them outside of the picture.
    pub(crate) titled: bool,
}

const LEFT: f64 = 66.0;
const RIGHT: f64 = 16.0;
const ABOVE: f64 = 26.0;
const BELOW: f64 = 42.0;
const MARGIN: f64 = 10.0;
const LINE_HEIGHT: f64 = 18.0;
const DOT: f64 = 3.2;
/// Maximum number of symbols on one line. The symbols distinguish the line from other lines.
const SYMBOLS_ON_LINE: usize = 6;

impl Layout {
    /// The layout of a picture file, with up to three panels side by side.
    pub(crate) fn file(panels: usize) -> Self {
        let columns = panels.clamp(1, 3);
        let panel_width = if columns == 1 { 560.0 } else { 400.0 };
        let plot_height = if columns == 1 { 260.0 } else { 200.0 };
        Self { panel_width, plot_height, columns, titled: true }
    }

    /// The layout for a page that shows two charts side by side.
    pub(crate) fn inline() -> Self {
        let columns = 1;
        Self { panel_width: 440.0, plot_height: 150.0, columns, titled: false }
    }
}

/// The area of a panel in which values are drawn.
struct Field<'a> {
    plot: &'a Plot,
    /// Whether the legend of the page can hide each line.
    is_toggled: bool,
    /// Whether each position on the horizontal scale has a tooltip.
    has_titles: bool,
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

/// Draws a chart with title, legend and all panels.
pub(crate) fn chart(plot: &Plot, layout: Layout) -> Svg {
    let columns = layout.columns.clamp(1, plot.panels.len().max(1));
    let width = MARGIN * 2.0 + layout.panel_width * columns as f64;
    let legend = legend_rows(plot, width - MARGIN * 2.0);
    let titles = if layout.titled { 2 } else { 0 };
    let head = LINE_HEIGHT * (titles + legend.len()) as f64;
    let panel_height = ABOVE + layout.plot_height + BELOW;
    let rows = plot.panels.len().div_ceil(columns);
    let mut svg = Svg::new(width, MARGIN * 2.0 + head + panel_height * rows as f64, &plot.title);
    let mut top = MARGIN + LINE_HEIGHT / 2.0;
    if layout.titled {
        svg.text((MARGIN, top), Anchor::Start, "ink", &plot.title);
        svg.text((MARGIN, top + LINE_HEIGHT), Anchor::Start, "soft", &plot.setting);
        top += LINE_HEIGHT * 2.0;
    }
    for row in &legend {
        for (x, line) in row {
            let class = if line.dashed { " dashed" } else { "" };
            svg.line((*x, top), (*x + 16.0, top), &format!("s-{}{class}", line.color));
            if let Some(place) = plot.symbol_of(line) {
                svg.path(&symbol(place, (*x + 8.0, top)), &format!("f-bg s-{} symbol", line.color), "");
            }
            svg.text((*x + 22.0, top), Anchor::Start, "soft", &line.name);
        }
        top += LINE_HEIGHT;
    }
    for (place, panel) in plot.panels.iter().enumerate() {
        let field = Field {
            plot,
            is_toggled: false,
            has_titles: true,
            left: MARGIN + layout.panel_width * (place % columns) as f64 + LEFT,
            top: MARGIN + head + panel_height * (place / columns) as f64 + ABOVE,
            width: layout.panel_width - LEFT - RIGHT,
            height: layout.plot_height,
        };
        field.draw(&mut svg, panel);
    }
    svg
}

/// Draws one panel for the page. The page adds the title, and a legend with buttons. With `has_titles`, the panel
/// contains its own tooltips. Otherwise, the page script shows tooltips with values from the table.
pub(crate) fn panel(plot: &Plot, panel: &Panel, (width, height): (f64, f64), has_titles: bool) -> Svg {
    const ABOVE: f64 = 10.0;
    let separator = if panel.title.is_empty() { "" } else { ", " };
    let mut svg = Svg::new(width, height, &format!("{}{separator}{}", plot.title, panel.title));
    let (width, height) = (width - LEFT - RIGHT, height - ABOVE - BELOW);
    let field = Field { plot, is_toggled: true, has_titles, left: LEFT, top: ABOVE, width, height };
    field.draw(&mut svg, panel);
    svg
}

/// Divides the legend into rows that are at most `room` wide. Returns each entry with its horizontal position.
fn legend_rows(plot: &Plot, room: f64) -> Vec<Vec<(f64, &Line)>> {
    let entries = plot.legend();
    // A chart with a single line needs no legend: its title is enough.
    if entries.len() < 2 {
        return Vec::new();
    }
    let mut rows: Vec<Vec<(f64, &Line)>> = vec![Vec::new()];
    let mut x = 0.0;
    for line in entries {
        let wide = 40.0 + width_of(&line.name);
        if x > 0.0 && x + wide > room {
            rows.push(Vec::new());
            x = 0.0;
        }
        rows.last_mut().expect("there is one").push((MARGIN + x, line));
        x += wide;
    }
    rows
}

impl Field<'_> {
    fn x(&self, value: f64) -> f64 {
        self.left + self.plot.x.place(value) * self.width
    }

    fn y(&self, value: f64) -> f64 {
        self.top + (1.0 - self.plot.y.place(value)) * self.height
    }

    fn draw(&self, svg: &mut Svg, panel: &Panel) {
        if !self.is_toggled {
            svg.text((self.left, self.top - 14.0), Anchor::Start, "ink", &panel.title);
        }
        if let Some(end) = self.plot.shade_to {
            svg.rectangle((self.left, self.top), (self.x(end) - self.left, self.height), "f-plain-bg", "");
        }
        self.scales(svg);
        match self.plot.marks {
            Marks::Dots => self.each(svg, panel, Self::dots),
            Marks::Lines => {
                self.each(svg, panel, |field, svg, line| field.line(svg, line, |_| true));
                self.each(svg, panel, Self::symbols);
                self.pointed_at(svg, panel);
            }
            Marks::Bars => self.each(svg, panel, Self::bars),
        }
    }

    /// Draws each line of the panel, in its own group if the page can hide lines.
    fn each(&self, svg: &mut Svg, panel: &Panel, draw: impl Fn(&Self, &mut Svg, &Line)) {
        for line in &panel.lines {
            match self.plot.series_of(line).filter(|_| self.is_toggled) {
                Some(place) => svg.series(place, |svg| draw(self, svg, line)),
                None => draw(self, svg, line),
            }
        }
    }

    fn scales(&self, svg: &mut Svg) {
        let bottom = self.top + self.height;
        for tick in &self.plot.y.ticks {
            let y = self.y(tick.at);
            svg.line((self.left, y), (self.left + self.width, y), "s-line thin");
            svg.text((self.left - 8.0, y), Anchor::End, "soft", &tick.label);
        }
        svg.line((self.left, bottom), (self.left + self.width, bottom), "s-soft thin");
        let mut free = f64::NEG_INFINITY;
        for tick in &self.plot.x.ticks {
            let (x, half) = (self.x(tick.at), width_of(&tick.label) / 2.0);
            svg.line((x, bottom), (x, bottom + 4.0), "s-soft thin");
            if x - half >= free {
                svg.text((x, bottom + 14.0), Anchor::Middle, "soft", &tick.label);
                free = x + half + 6.0;
            }
        }
        let middle = self.left + self.width / 2.0;
        svg.text((middle, bottom + 31.0), Anchor::Middle, "soft", &self.plot.x.title);
    }

    /// Draws the values of a line as dots with confidence intervals. A line connects the valid and bounded values.
    fn dots(&self, svg: &mut Svg, line: &Line) {
        self.line(svg, line, Spot::is_known);
        for spot in line.spots.iter().filter(|_| line.marked) {
            let x = self.x(spot.x);
            if let Some([low, high]) = spot.interval.filter(|_| spot.y.is_some_and(|y| y <= self.plot.y.high))
            {
                let (low, high) = (self.y(low), self.y(high));
                let caps = format!(
                    "M{x:.1} {low:.1}V{high:.1}M{:.1} {low:.1}h6M{:.1} {high:.1}h6",
                    x - 3.0,
                    x - 3.0
                );
                svg.path(&caps, &format!("s-{} thin", line.color), "");
            }
            match spot.y {
                Some(y) if y <= self.plot.y.high && spot.counts => {
                    svg.circle((x, self.y(y)), DOT, &format!("f-{}", line.color), &spot.words);
                }
                Some(y) if y <= self.plot.y.high => {
                    svg.circle((x, self.y(y)), DOT, &format!("ring s-{}", line.color), &spot.words);
                }
                // A value beyond the scale is drawn as an arrow at the upper edge.
                beyond if beyond.is_some() || spot.beyond_timeout => {
                    let arrow = format!("M{:.1} {:.1}l4 -7l4 7z", x - 4.0, self.top + 9.0);
                    svg.path(&arrow, &format!("s-{}", line.color), &spot.words);
                }
                _ => {}
            }
        }
    }

    fn line(&self, svg: &mut Svg, line: &Line, leads_through: fn(&Spot) -> bool) {
        let mut steps = String::new();
        let mut joined = false;
        for spot in &line.spots {
            let Some(y) = spot.y.filter(|_| leads_through(spot) && self.is_within(spot)) else {
                // A missing value interrupts a line over time. It does not interrupt a line between dots.
                joined &= self.plot.marks == Marks::Dots;
                continue;
            };
            let _ = write!(steps, "{}{:.1} {:.1}", if joined { 'L' } else { 'M' }, self.x(spot.x), self.y(y));
            joined = true;
        }
        let class = if line.dashed { " dashed" } else { "" };
        if !steps.is_empty() {
            svg.path(&steps, &format!("s-{}{class}", line.color), "");
        }
    }

    /// False for invalid values above the scale. Lines skip these values, because a line along the edge would look like
    /// a constant value.
    fn is_within(&self, spot: &Spot) -> bool {
        spot.counts || spot.y.is_none_or(|y| y <= self.plot.y.high)
    }

    /// Draws symbols along a line. Symbols of different lines are at different positions.
    fn symbols(&self, svg: &mut Svg, line: &Line) {
        let Some(place) = self.plot.symbol_of(line) else { return };
        let drawn = line.spots.iter().filter(|spot| self.is_within(spot));
        let spots: Vec<(f64, f64)> = drawn.filter_map(|spot| Some((spot.x, spot.y?))).collect();
        let stride = spots.len().div_ceil(SYMBOLS_ON_LINE).max(1);
        let places = spots.iter().skip(place % stride).step_by(stride);
        let shapes: String = places.map(|(x, y)| symbol(place, (self.x(*x), self.y(*y)))).collect();
        svg.path(&shapes, &format!("f-bg s-{} symbol", line.color), "");
    }

    /// Draws an invisible column around each position, up to the middle between neighbours. Its tooltip shows the values
    /// of all lines.
    fn pointed_at(&self, svg: &mut Svg, panel: &Panel) {
        let steps = panel.steps();
        for (index, step) in steps.iter().enumerate() {
            let of = |(line, spot): (&Line, &Option<&Spot>)| {
                Some(format!("\n{}: {}", line.name, self.plot.y.unit.words((*spot)?.y?)))
            };
            let said: String = panel.marked().zip(&step.spots).filter_map(of).collect();
            let halfway = |other: &Step<'_>| self.x(step.at).midpoint(self.x(other.at));
            let x = index.checked_sub(1).map_or(self.left, |before| halfway(&steps[before]));
            let end = steps.get(index + 1).map_or(self.left + self.width, halfway);
            let head = self.plot.x.unit.words(step.at);
            let said = if self.has_titles { head + &said } else { String::new() };
            let column = format!("M{x:.1} {:.0}H{end:.1}v{:.0}H{x:.1}z", self.top, self.height);
            svg.path(&column, "hover", &said);
        }
    }

    /// Draws bars. Each bar extends to the position of the next value.
    fn bars(&self, svg: &mut Svg, line: &Line) {
        let bottom = self.top + self.height;
        for (spot, next) in line.spots.iter().zip(line.spots.iter().skip(1)) {
            let Some(y) = spot.y else { continue };
            let (x, y, end) = (self.x(spot.x), self.y(y), self.x(next.x));
            svg.rectangle(
                (x, y),
                ((end - x - 0.6).max(0.4), bottom - y),
                &format!("f-{}", line.color),
                &spot.words,
            );
        }
    }
}
