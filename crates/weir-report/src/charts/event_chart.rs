//! Charts of errors and latency per second, with one panel per gateway. Vertical lines mark faults of upstream
//! servers or services, and changes of the gateway's configuration.

use weir_analysis::{Axes, Summary, at_axes};
use weir_results::{Cell, Changed, FaultAction, LoadSecond, Measurement, quantile_ns};

use crate::charts::change_marks::marks;
use crate::charts::sweep::slug;
use crate::charts::timelines::measurements;
use crate::model::plot::{Line, Marks, Panel, Plot, Spot, reach};
use crate::model::scale::{Scale, Unit};

/// The section that shows the charts of loads with faults.
const OF_FAULTS: &str = "failover";
/// The section that shows the charts of loads with changes.
const OF_CHANGES: &str = "changes";

const NOTE: &str = "Vertical lines: a change, or a fault of a server, service or pod (kill, stall, reset, return, \
                    eviction, rollout). Latency covers the responses of each second.";

/// The colour of the vertical lines for each kind of fault.
const ACTIONS: [(FaultAction, &str); 6] = [
    (FaultAction::Kill, "vermilion"),
    (FaultAction::Stall, "amber"),
    (FaultAction::Reset, "violet"),
    (FaultAction::Return, "green"),
    (FaultAction::Evict, "amber"),
    (FaultAction::Rollout, "violet"),
];

/// The colour of the vertical lines for each kind of change.
const KINDS: [(Changed, &str); 3] =
    [(Changed::Routes, "violet"), (Changed::Endpoints, "amber"), (Changed::Certificates, "green")];

/// A gateway at a load point with faults or changes.
struct Course<'a> {
    gateway: &'a str,
    axes: &'a Axes,
    load: &'a str,
}

/// A metric that is drawn per second.
struct Series {
    name: &'static str,
    color: &'static str,
    of: fn(&LoadSecond) -> Option<f64>,
}

/// A chart with two metrics.
struct Chart {
    slug: &'static str,
    title: &'static str,
    unit: Unit,
    series: [Series; 2],
}

const CHARTS: [Chart; 2] = [
    Chart {
        slug: "wrong",
        title: "Errors",
        unit: Unit::PerSecond,
        series: [
            Series { name: "unexpected status", color: "blue", of: |of| per_second(of, of.unexpected) },
            Series { name: "no response", color: "brown", of: |of| per_second(of, of.lost) },
        ],
    },
    Chart {
        slug: "latency",
        title: "Latency per second",
        unit: Unit::Nanoseconds,
        series: [
            Series { name: "p50", color: "blue", of: |of| latency(of, 0.5) },
            Series { name: "p99", color: "brown", of: |of| latency(of, 0.99) },
        ],
    },
];

/// Draws charts for each load with faults. If the run has no headroom results, also draws charts for each load with
/// changes. All charts show the first repeat.
pub(crate) fn plots(summary: &Summary, cells: &[Cell]) -> Vec<Plot> {
    let mut plots = of_courses(OF_FAULTS, &courses(summary, cells, |of| !of.faults.is_empty()), cells);
    // The headroom charts already show changes over time.
    if summary.headroom.is_empty() {
        let changed = courses(summary, cells, |of| !of.route_changes.is_empty());
        plots.extend(of_courses(OF_CHANGES, &changed, cells));
    }
    plots
}

/// The gateways and load points whose first measured repeat matches `has_events`.
fn courses<'a>(
    summary: &'a Summary,
    cells: &[Cell],
    has_events: fn(&Measurement) -> bool,
) -> Vec<Course<'a>> {
    let rows = summary.points.iter().flat_map(|point| point.rows.iter().map(move |row| (point, row)));
    let all = rows.map(|(point, row)| Course { gateway: &row.gateway, axes: &point.axes, load: &point.load });
    all.filter(|course| first(course, cells).is_some_and(has_events)).collect()
}

fn of_courses(section: &'static str, courses: &[Course<'_>], cells: &[Cell]) -> Vec<Plot> {
    let of_load = |courses: &[Course<'_>]| -> Vec<Plot> {
        let found = courses.iter().filter_map(|course| Some((course.gateway, first(course, cells)?)));
        let found: Vec<(&str, &Measurement)> = found.collect();
        let setting = at_axes(courses[0].load, courses[0].axes);
        CHARTS.iter().filter_map(|chart| plot(section, chart, &setting, &found)).collect()
    };
    let same = |one: &Course<'_>, next: &Course<'_>| one.axes == next.axes && one.load == next.load;
    courses.chunk_by(same).flat_map(of_load).collect()
}

/// The load's measurement for this gateway, from the first repeat that has one.
fn first<'a>(course: &Course<'_>, cells: &'a [Cell]) -> Option<&'a Measurement> {
    let of_course = |cell: &&Cell| cell.key.gateway == course.gateway && cell.key.axes == *course.axes;
    let mut found: Vec<(&Cell, &Measurement)> = cells
        .iter()
        .filter(of_course)
        .filter_map(|cell| Some((cell, measurements(cell).iter().find(|of| of.load == course.load)?)))
        .collect();
    found.sort_by_key(|(cell, _)| cell.key.repeat);
    found.first().map(|(_, measurement)| *measurement)
}

/// The vertical lines of a panel, at faults and changes.
fn events(measurement: &Measurement, y: &Scale) -> Vec<Line> {
    let line =
        |name: &str, color: &'static str, at: Vec<f64>| (!at.is_empty()).then(|| marks(name, color, &at, y));
    let faults = ACTIONS.iter().filter_map(|(action, color)| {
        let done = measurement.faults.iter().filter(|fault| fault.action == *action);
        line(action.done(), color, done.map(|fault| fault.t_s).collect())
    });
    let changes = KINDS.iter().filter_map(|(what, color)| {
        let made = measurement.route_changes.iter().filter(|change| change.what == *what);
        line(&format!("{what} change"), color, made.map(|change| change.t_s).collect())
    });
    faults.chain(changes).collect()
}

fn plot(section: &'static str, chart: &Chart, setting: &str, found: &[(&str, &Measurement)]) -> Option<Plot> {
    let panel = |(gateway, measurement): &(&str, &Measurement)| Panel {
        title: (*gateway).to_owned(),
        lines: chart.series.iter().map(|series| line(series, seconds(measurement))).collect(),
    };
    let mut panels: Vec<Panel> = found.iter().map(panel).collect();
    let ends = found.iter().filter_map(|(_, of)| seconds(of).last());
    let end = ends.map(|last| last.t_s + last.length_s).reduce(f64::max)?;
    let y = Scale::of_figures(chart.title, chart.unit, reach(&panels).into_iter());
    for (panel, (_, measurement)) in panels.iter_mut().zip(found) {
        panel.lines.extend(events(measurement, &y));
    }
    let sustained = found.iter().filter_map(|(_, of)| seconds(of).iter().find(|second| second.sustained));
    Some(Plot {
        id: format!("{section}-{}-{}", chart.slug, slug(setting)),
        section,
        note: NOTE,
        title: chart.title.to_owned(),
        setting: format!("{setting}, repeat 1"),
        x: Scale { high: end, ..Scale::from_zero("time", Unit::Seconds, end) }.within(),
        y,
        marks: Marks::Lines,
        shade_to: sustained.map(|second| second.t_s).reduce(f64::max).filter(|warmup| *warmup > 0.0),
        panels,
    })
}

/// The seconds of the warm-up and the sustained phase. The drain is left out, because nothing is sent then.
fn seconds(measurement: &Measurement) -> &[LoadSecond] {
    let seconds = &measurement.record.seconds;
    let end = seconds.iter().rposition(|second| second.sustained).map_or(seconds.len(), |last| last + 1);
    &seconds[..end]
}

fn line(series: &Series, seconds: &[LoadSecond]) -> Line {
    // The value of a second is drawn at the middle of the second. So the effect of an event is drawn after the
    // event.
    let middle = |second: &LoadSecond| second.t_s + second.length_s / 2.0;
    let spots = seconds.iter().map(|second| Spot::at(middle(second), (series.of)(second)));
    Line {
        name: series.name.to_owned(),
        color: series.color,
        dashed: false,
        marked: true,
        spots: spots.collect(),
    }
}

fn per_second(second: &LoadSecond, count: u64) -> Option<f64> {
    (second.length_s > 0.0).then(|| count as f64 / second.length_s)
}

/// A latency quantile of the requests in `second`. Lost requests count as slower than all responses. If the quantile
/// falls on a lost request, it is not drawn.
fn latency(second: &LoadSecond, share: f64) -> Option<f64> {
    let histogram = second.latency.decode().ok()?;
    quantile_ns(&histogram, second.lost, share).map(|ns| ns as f64)
}
