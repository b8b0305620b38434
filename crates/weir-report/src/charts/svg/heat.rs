//! Draws heat maps as an SVG picture. There is one panel per gateway, with time on the horizontal scale and latency
//! on the vertical one.

use std::fmt::Write as _;

use super::{Anchor, Svg};
use crate::charts::heat::{HeatMap, LEAST_SHARE, QUANTILES, moment, packed, scale, time};
use crate::model::scale::{Scale, Unit};

const PANEL: (f64, f64) = (400.0, 180.0);
const COLUMNS: usize = 3;
const LEFT: f64 = 66.0;
const RIGHT: f64 = 16.0;
const ABOVE: f64 = 24.0;
const BELOW: f64 = 40.0;
const MARGIN: f64 = 10.0;
const HEAD: f64 = 58.0;
/// Number of levels of colour. Each level is drawn as a single path, which keeps the file small for maps with
/// thousands of fields.
const DEPTHS: usize = 8;

/// Draws all `maps` with the same scales. Returns `None` if there were no responses.
pub(crate) fn heat_maps(title: &str, setting: &str, maps: &[HeatMap<'_>]) -> Option<Svg> {
    let latency = scale(maps)?;
    let clock = time(maps);
    let columns = maps.len().clamp(1, COLUMNS);
    let (width, height) = (MARGIN * 2.0 + PANEL.0 * columns as f64, ABOVE + PANEL.1 + BELOW);
    let mut svg = Svg::new(width, MARGIN * 2.0 + HEAD + height * maps.len().div_ceil(columns) as f64, title);
    svg.text((MARGIN, 19.0), Anchor::Start, "ink", title);
    svg.text((MARGIN, 37.0), Anchor::Start, "soft", setting);
    key(&mut svg, (MARGIN, 57.0));
    for (place, map) in maps.iter().enumerate() {
        let left = MARGIN + PANEL.0 * (place % columns) as f64 + LEFT;
        let top = MARGIN + HEAD + height * (place / columns) as f64 + ABOVE;
        svg.text((left, top - 12.0), Anchor::Start, "ink", map.gateway);
        Field { latency: &latency, clock: &clock, left, top, size: (PANEL.0 - LEFT - RIGHT, PANEL.1) }
            .draw(&mut svg, *map, "");
    }
    Some(svg)
}

/// Draws the map with index `place`, on the scales that all `maps` share. The drawing contains data for the page
/// script. With `has_titles`, each time step has a tooltip for readers without the script.
pub(crate) fn heat_map(
    maps: &[HeatMap<'_>],
    place: usize,
    (width, height): (f64, f64),
    has_titles: bool,
) -> Option<Svg> {
    let (latency, clock) = (scale(maps)?, time(maps));
    let map = maps.get(place)?;
    let mut svg = Svg::new(width, height, &format!("Latency per step, {}", map.gateway));
    const ABOVE: f64 = 10.0;
    const BELOW: f64 = 26.0;
    let size = (width - LEFT - RIGHT, height - ABOVE - BELOW);
    let data = packed(map).attributes();
    let field = Field { latency: &latency, clock: &clock, left: LEFT, top: ABOVE, size };
    field.draw(&mut svg, *map, &data);
    if has_titles {
        field.columns(&mut svg, *map);
    }
    Some(svg)
}

/// The area in which a map is drawn, and its scales.
struct Field<'a> {
    latency: &'a Scale,
    clock: &'a Scale,
    left: f64,
    top: f64,
    size: (f64, f64),
}

impl Field<'_> {
    /// Draws the map. `data` contains attributes for the SVG group that contains the coloured rows.
    fn draw(&self, svg: &mut Svg, map: HeatMap<'_>, data: &str) {
        let Self { latency, clock, left, top, size: (width, height) } = *self;
        let bottom = top + height;
        let (x, y) = (|s: f64| left + clock.place(s) * width, |ns: f64| bottom - latency.place(ns) * height);
        for tick in &latency.ticks {
            svg.line((left, y(tick.at)), (left + width, y(tick.at)), "s-line thin");
            svg.text((left - 8.0, y(tick.at)), Anchor::End, "soft", &tick.label);
        }
        for tick in &clock.ticks {
            svg.line((x(tick.at), bottom), (x(tick.at), bottom + 4.0), "s-soft thin");
            svg.text((x(tick.at), bottom + 14.0), Anchor::Middle, "soft", &tick.label);
        }
        // Within the group, one second is one unit wide, and one row of the map is one unit high.
        let heat = &map.timeline.heat;
        let (ground, next) = (y(heat.edge_ns(0)), y(heat.edge_ns(1)));
        let (row, second) = (ground - next, (x(clock.high) - left) / clock.high);
        let _ = writeln!(
            svg.body,
            "<g class=\"heat\" shape-rendering=\"crispEdges\" transform=\"translate({left} {:.2}) scale({second:.4} {:.4})\"{data}>",
            ground - row / 2.0,
            -row
        );
        for (depth, path) in fields(map).iter().enumerate().filter(|(_, path)| !path.is_empty()) {
            svg.field(path, "s-blue thin", "stroke", opacity(depth));
        }
        svg.body.push_str("</g>\n");
        if let Some(from_s) = map.timeline.sustained_from_s.filter(|from_s| *from_s > 0.0) {
            svg.line((x(from_s), top), (x(from_s), bottom), "s-soft thin dashed");
        }
        svg.line((left, bottom), (left + width, bottom), "s-soft thin");
    }

    /// Draws an invisible column for each time step. Its tooltip shows the quantiles of the step.
    fn columns(&self, svg: &mut Svg, map: HeatMap<'_>) {
        let place = |s: f64| self.left + self.clock.place(s) * self.size.0;
        for (column, quantiles) in map.quantiles().enumerate() {
            let (from, to) = map.step(column);
            let mut said = Unit::Seconds.words(from);
            for (name, ns) in QUANTILES.iter().zip(quantiles) {
                let _ = ns.map(|ns| write!(said, "\n{name}: {}", Unit::Nanoseconds.words(ns as f64)));
            }
            let (top, height) = (self.top, self.size.1);
            let column = format!("M{0:.1} {top:.0}H{1:.1}v{height:.0}H{0:.1}z", place(from), place(to));
            svg.path(&column, "hover", &said);
        }
    }
}

/// Draws each row of the map as horizontal strokes that are one row high. A stroke covers adjacent time steps with the
/// same level of colour. Returns one SVG path per level.
fn fields(map: HeatMap<'_>) -> Vec<String> {
    let mut paths = vec![String::new(); DEPTHS];
    let heat = &map.timeline.heat;
    let depth_at = |column: usize, row: usize| {
        heat.shares.get(column)?.get(row).filter(|share| **share > 0.0).map(|share| depth(*share))
    };
    for row in 0..heat.rows {
        let mut column = 0;
        while column < heat.shares.len() {
            let from = column;
            let depth = depth_at(column, row);
            while column < heat.shares.len() && depth_at(column, row) == depth {
                column += 1;
            }
            if let Some(depth) = depth {
                let (from, to) = (moment(map.step(from).0), moment(map.step(column - 1).1));
                let _ = write!(paths[depth], "M{from} {row}H{to}");
            }
        }
    }
    paths
}

/// The level of colour for a share of responses, by the logarithm of the share.
fn depth(share: f64) -> usize {
    let place = 1.0 - share.max(LEAST_SHARE).log10() / LEAST_SHARE.log10();
    ((place * DEPTHS as f64) as usize).min(DEPTHS - 1)
}

fn opacity(depth: usize) -> f64 {
    0.1 + 0.9 * (depth + 1) as f64 / DEPTHS as f64
}

/// Draws the legend of the colour levels.
fn key(svg: &mut Svg, (x, y): (f64, f64)) {
    svg.text((x, y), Anchor::Start, "soft", "0.01 %");
    for depth in 0..DEPTHS {
        let from = x + 44.0 + depth as f64 * 16.0;
        svg.field(&format!("M{from:.0} {:.0}h16v10h-16z", y - 5.0), "f-blue", "fill", opacity(depth));
    }
    let end = x + 50.0 + DEPTHS as f64 * 16.0;
    svg.text((end, y), Anchor::Start, "soft", "100 % of the responses of a step; dashed: end of the warm-up");
}

impl Svg {
    fn field(&mut self, path: &str, class: &str, what: &str, opacity: f64) {
        let _ = writeln!(self.body, "<path d=\"{path}\" class=\"{class}\" {what}-opacity=\"{opacity:.2}\"/>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_go_with_the_logarithm_of_the_share() {
        let depths = [1.0, 0.5, 0.1, 0.01, 0.001, 0.0001, 1e-9].map(depth);
        assert_eq!(depths, [7, 7, 6, 4, 2, 0, 0]);
    }
}
