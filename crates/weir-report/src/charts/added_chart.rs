//! Charts of the latency that a gateway adds, by the offered rate.

use weir_analysis::findings::RIG;
use weir_analysis::{AddedCurve, AddedLatency, Figure, Gateway, Point, Summary, quantity};

use crate::charts::colors::color_of;
use crate::model::plot::{Line, Marks, Panel, Plot, Spot, reach};
use crate::model::scale::{Scale, Unit};
use crate::sections::tables::latency_title;

/// The quantiles that are drawn, each in its own chart.
const DRAWN: [&str; 2] = ["p50", "p99"];

/// Added latency by offered rate. There is a panel for each kind of load and each combination of values of the
/// axes.
pub(crate) fn plots(summary: &Summary) -> Vec<Plot> {
    let Some(added) = &summary.added else { return Vec::new() };
    DRAWN.into_iter().filter_map(|name| plot(summary, added, name)).collect()
}

fn plot(summary: &Summary, added: &AddedLatency, name: &str) -> Option<Plot> {
    let panels: Vec<Panel> = added
        .curves
        .iter()
        .filter(|curve| curve.points.len() > 1)
        .map(|curve| Panel { title: curve.title.clone(), lines: lines(summary, curve, name) })
        .filter(|panel| !panel.lines.is_empty())
        .collect();
    let mut rates: Vec<f64> = panels
        .iter()
        .flat_map(|panel| panel.lines.iter().flat_map(|line| line.spots.iter().map(|spot| spot.x)))
        .collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    if rates.len() < 2 {
        return None;
    }
    let values: Vec<(f64, String)> =
        rates.into_iter().map(|rate| (rate, quantity::count(rate.round() as u64))).collect();
    let title = format!("Added latency, {}", latency_title(name));
    Some(Plot {
        section: "added-latency",
        note: "",
        id: format!("added-{name}-over-asked-rate"),
        title: format!("{title} by offered rate"),
        setting: "gateway minus direct, in the same repeat".into(),
        x: Scale::of_values("offered rate", Unit::PerSecond, &values),
        y: Scale::of_differences(&title, Unit::Nanoseconds, reach(&panels).into_iter()),
        marks: Marks::Dots,
        shade_to: None,
        panels,
    })
}

/// One line per gateway, and a dashed line for the rig itself (a second direct baseline).
fn lines(summary: &Summary, curve: &AddedCurve, name: &str) -> Vec<Line> {
    let points = || curve.points.iter().map(|place| &summary.points[*place]);
    let line = |gateway: &str, color, dashed, of: &dyn Fn(&Point) -> Option<Figure>| Line {
        name: gateway.to_owned(),
        color,
        dashed,
        marked: true,
        spots: points()
            .filter_map(|point| {
                let rate = point.rate_per_s?;
                let place = format!("{gateway} at {}", quantity::rate(rate));
                Spot::of(rate, &of(point)?, Unit::Nanoseconds, &place)
            })
            .collect(),
    };
    let of_gateway = |gateway: &Gateway| {
        line(&gateway.name, color_of(summary, &gateway.name), false, &|point| {
            let row = point.gateways().find(|row| row.gateway == gateway.name)?;
            row.added_latency(name).cloned()
        })
    };
    let rig = line(RIG, "grey", true, &|point| point.bias.as_ref()?.difference(name).cloned());
    let lines = summary.gateways.iter().map(of_gateway).chain([rig]);
    lines.filter(|line| !line.spots.is_empty()).collect()
}
