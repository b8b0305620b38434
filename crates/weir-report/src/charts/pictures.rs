//! The picture files of a report: each chart of the page as an SVG file.

use weir_analysis::Summary;
use weir_results::ArrivalModel;

use crate::charts::finding_charts;
use crate::charts::heat::HeatMap;
use crate::charts::series::{curve, of_point, series_id};
use crate::charts::svg::{Layout, bars, chart, comparison, heat_maps};
use crate::charts::timelines::CellTimeline;
use crate::model::plot::Plot;

/// The folder of the pictures in the report folder. Only the picture of the headline values is in the report folder
/// itself.
pub(crate) const FOLDER: &str = "charts";

/// One picture file.
pub(crate) struct Picture {
    pub(crate) id: String,
    /// Path of the file, relative to the report folder.
    pub(crate) path: String,
    pub(crate) title: String,
    pub(crate) shows: Shows,
    pub(crate) svg: String,
}

/// What a picture shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shows {
    /// The headline values of all load points.
    Headlines,
    /// Metrics by the axes of the run.
    Axes,
    /// Charts of the load point with this index in the summary.
    Point(usize),
}

/// Draws all pictures of the run `name`: headline values, the charts in `plots`, and charts of findings. For each load
/// point, draws latency curves, charts over time and heat maps.
pub(crate) fn pictures(
    name: &str,
    summary: &Summary,
    plots: &[Plot],
    timelines: &[CellTimeline<'_>],
) -> Vec<Picture> {
    let drawn = |plot: &Plot, shows| {
        picture(
            plot.id.clone(),
            plot.title.clone(),
            shows,
            chart(plot, Layout::file(plot.panels.len())).file(),
        )
    };
    let headlines = comparison(summary).map(|svg| Picture {
        id: "comparison".into(),
        path: "comparison.svg".into(),
        title: format!("{name} compared"),
        shows: Shows::Headlines,
        svg,
    });
    let mut pictures: Vec<Picture> = headlines.into_iter().collect();
    pictures.extend(plots.iter().map(|plot| drawn(plot, Shows::Axes)));
    pictures.extend(finding_charts::charts(summary).into_iter().map(|chart| {
        let title = format!("{}: {}", chart.title, chart.setting);
        let svg = bars(&title, vec![(title.clone(), chart.unit, chart.bars)]).file();
        picture(chart.id, title, Shows::Axes, svg)
    }));
    for (at, point) in summary.points.iter().enumerate() {
        let curve = (point.model == ArrivalModel::Open).then(|| curve(summary, at)).flatten();
        let series = of_point(summary, at, timelines);
        pictures.extend(curve.iter().chain(&series).map(|plot| drawn(plot, Shows::Point(at))));
        pictures.extend(heat(summary, at, timelines));
    }
    pictures
}

/// Draws the heat maps of the first repeat of a load point.
fn heat(summary: &Summary, at: usize, timelines: &[CellTimeline<'_>]) -> Option<Picture> {
    let here = || timelines.iter().filter(|of| of.point == at);
    let repeat = here().map(|of| of.cell.key.repeat).min()?;
    let mut maps: Vec<HeatMap<'_>> = here()
        .filter(|of| of.cell.key.repeat == repeat)
        .map(|of| HeatMap { gateway: &of.cell.key.gateway, timeline: &of.timeline })
        .collect();
    maps.sort_by_key(|map| summary.gateways.iter().position(|gateway| gateway.name == map.gateway));
    let title = format!("Latency per step, repeat {}", u64::from(repeat) + 1);
    let svg = heat_maps(&title, &summary.points[at].words(), &maps)?.file();
    Some(picture(series_id(at, "heat"), title, Shows::Point(at), svg))
}

fn picture(id: String, title: String, shows: Shows, svg: String) -> Picture {
    Picture { path: format!("{FOLDER}/{id}.svg"), id, title, shows, svg }
}
