//! Heat maps as a picture: a panel per gateway, time to the right, latency upwards.

use std::fmt::Write as _;

use super::{Anchor, Svg};
use crate::heat::{HeatMap, LEAST_SHARE, scale, time};
use crate::scale::Scale;

const PANEL: (f64, f64) = (400.0, 180.0);
const COLUMNS: usize = 3;
const LEFT: f64 = 66.0;
const RIGHT: f64 = 16.0;
const ABOVE: f64 = 24.0;
const BELOW: f64 = 40.0;
const MARGIN: f64 = 10.0;
const HEAD: f64 = 58.0;
/// Depths of colour, each of its own path: so a map of thousands of fields stays small.
const DEPTHS: usize = 8;

/// Draws `maps` with shared scales; `None` without any.
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
            .draw(&mut svg, *map);
    }
    Some(svg)
}

/// Draws the map at `place` of `maps`, alone but with the scales that all share.
pub(crate) fn heat_map(maps: &[HeatMap<'_>], place: usize, (width, height): (f64, f64)) -> Option<Svg> {
    let (latency, clock) = (scale(maps)?, time(maps));
    let map = maps.get(place)?;
    let mut svg = Svg::new(width, height, map.gateway);
    let size = (width - LEFT - RIGHT, height - ABOVE - BELOW);
    Field { latency: &latency, clock: &clock, left: LEFT, top: ABOVE, size }.draw(&mut svg, *map);
    Some(svg)
}

/// Where a map lies, and its scales.
struct Field<'a> {
    latency: &'a Scale,
    clock: &'a Scale,
    left: f64,
    top: f64,
    size: (f64, f64),
}

impl Field<'_> {
    fn draw(&self, svg: &mut Svg, map: HeatMap<'_>) {
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
        let mut paths = vec![String::new(); DEPTHS];
        for (column, shares) in map.timeline.heat.shares.iter().enumerate() {
            let (from, to) = map.step(column);
            let (from, to) = (x(from), x(to));
            for (row, share) in shares.iter().enumerate().filter(|(_, share)| **share > 0.0) {
                let (low, high) = (y(map.timeline.heat.edge_ns(row)), y(map.timeline.heat.edge_ns(row + 1)));
                let path = &mut paths[depth(*share)];
                let _ = write!(path, "M{from:.1} {low:.1}H{to:.1}V{high:.1}H{from:.1}z");
            }
        }
        for (depth, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
            svg.field(path, opacity(depth));
        }
        if let Some(from_s) = map.timeline.sustained_from_s.filter(|from_s| *from_s > 0.0) {
            svg.line((x(from_s), top), (x(from_s), bottom), "s-soft thin dashed");
        }
        svg.line((left, bottom), (left + width, bottom), "s-soft thin");
    }
}

/// How deep a share is coloured, over its logarithm.
fn depth(share: f64) -> usize {
    let place = 1.0 - share.max(LEAST_SHARE).log10() / LEAST_SHARE.log10();
    ((place * DEPTHS as f64) as usize).min(DEPTHS - 1)
}

fn opacity(depth: usize) -> f64 {
    0.1 + 0.9 * (depth + 1) as f64 / DEPTHS as f64
}

/// What the depths mean.
fn key(svg: &mut Svg, (x, y): (f64, f64)) {
    svg.text((x, y), Anchor::Start, "soft", "0.01 %");
    for depth in 0..DEPTHS {
        let from = x + 44.0 + depth as f64 * 16.0;
        svg.field(&format!("M{from:.0} {:.0}h16v10h-16z", y - 5.0), opacity(depth));
    }
    let end = x + 50.0 + DEPTHS as f64 * 16.0;
    svg.text((end, y), Anchor::Start, "soft", "100 % of the responses of a step; dashed: end of the warm-up");
}

impl Svg {
    fn field(&mut self, path: &str, opacity: f64) {
        let _ = writeln!(self.body, "<path d=\"{path}\" class=\"f-blue\" fill-opacity=\"{opacity:.2}\"/>");
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
