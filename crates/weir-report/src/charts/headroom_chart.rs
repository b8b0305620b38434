//! Charts of headroom, which is how far a load is from saturation. They show latency by throughput with the fitted
//! curve and its knee, throughput by connections, and values over time for all loads of a cell.

use weir_analysis::headroom::{CURVE_LATENCIES, Course, Curve, CurveSpot, Over, Scalability, course};
use weir_analysis::{Axes, Summary, axes_words};
use weir_results::Cell;

use crate::charts::change_marks::marks;
use crate::charts::colors::color_of;
use crate::charts::sweep::slug;
use crate::model::plot::{Line, Marks, Panel, Plot, Spot, reach};
use crate::model::scale::{Scale, Unit};
use crate::sections::tables::latency_title;

/// How the IDs of headroom charts begin.
const PREFIX: &str = "headroom-";

const NOTE: &str = "Dashed: the fitted curve, over the range of valid points. Vertical lines: the knee of p99, route \
                    changes, and registrations of all routes.";

/// Number of line segments of a drawn fitted curve.
const CURVE_STEPS: u32 = 60;

/// An item with its label and its colour in a chart.
#[derive(Clone, Debug)]
pub(crate) struct Labelled<'a, T> {
    pub(crate) label: String,
    /// Name of a colour of the palette.
    pub(crate) color: &'static str,
    pub(crate) value: &'a T,
}

/// Draws latency by throughput, with several datasets in the same chart. There is a panel for each of p50, p90 and
/// p99. Measured values have their confidence intervals, and fitted curves are dashed. Returns `None` without
/// values.
pub(crate) fn headroom_chart(id: &str, setting: &str, datasets: &[Labelled<'_, Curve>]) -> Option<Plot> {
    let panel = |name: &&str| Panel {
        title: latency_title(name).to_owned(),
        lines: datasets.iter().flat_map(|dataset| [measured(dataset, name), fitted(dataset, name)]).collect(),
    };
    let mut panels: Vec<Panel> = CURVE_LATENCIES.iter().map(panel).collect();
    for panel in &mut panels {
        panel.lines.retain(|line| !line.spots.is_empty());
    }
    let places = || panels.iter().flat_map(|panel| &panel.lines).flat_map(|line| &line.spots);
    let greatest = places().map(|spot| spot.x).reduce(f64::max)?;
    let y = Scale::of_figures("latency", Unit::Nanoseconds, reach(&panels).into_iter());
    // The knee is added after the scale is computed, because it must not affect the scale.
    for (panel, name) in panels.iter_mut().zip(CURVE_LATENCIES) {
        if name == "p99" {
            panel.lines.extend(datasets.iter().filter_map(|dataset| knee(dataset, &y)));
        }
    }
    Some(Plot {
        section: "headroom",
        note: NOTE,
        id: id.to_owned(),
        title: "Headroom: latency by throughput".into(),
        setting: setting.to_owned(),
        x: Scale::from_zero("throughput", Unit::PerSecond, greatest).within(),
        y,
        marks: Marks::Dots,
        shade_to: None,
        panels,
    })
}

fn measured(dataset: &Labelled<'_, Curve>, name: &str) -> Line {
    let spot = |spot: &CurveSpot| {
        let asked = match spot.asked_per_s {
            Some(per_s) => format!("{} offered", Unit::PerSecond.words(per_s)),
            None => weir_analysis::quantity::counted(spot.connections.into(), "connection"),
        };
        let carried = spot.throughput_per_s.mean?;
        let place = format!(
            "{} at {asked}, throughput {}: {}",
            dataset.label,
            Unit::PerSecond.words(carried),
            latency_title(name)
        );
        Spot::of(carried, spot.latency(name)?, Unit::Nanoseconds, &place)
    };
    Line {
        name: dataset.label.clone(),
        color: dataset.color,
        dashed: dataset.value.is_direct(),
        marked: true,
        spots: dataset.value.spots.iter().filter_map(spot).collect(),
    }
}

/// The fitted curve of a dataset, drawn only between its lowest and highest valid point.
fn fitted(dataset: &Labelled<'_, Curve>, name: &str) -> Line {
    let mut spots = Vec::new();
    if let Some(fit) = dataset.value.fitted(name).and_then(|fitted| fitted.fit()) {
        let [from, to] = fit.within_per_s;
        for step in 0..=CURVE_STEPS {
            let at = from + (to - from) * f64::from(step) / f64::from(CURVE_STEPS);
            spots.push(Spot::at(at, fit.latency_ns(at)));
        }
    }
    let name = format!("{}, fitted", dataset.label);
    Line { name, color: dataset.color, dashed: true, marked: false, spots }
}

/// A vertical line at the knee of the p99 curve.
fn knee(dataset: &Labelled<'_, Curve>, y: &Scale) -> Option<Line> {
    let knee = dataset.value.knee?;
    Some(marks(&format!("{}, knee", dataset.label), dataset.color, &[knee.throughput_per_s], y))
}

/// Selects a metric of a cell over time. Returns its times and values.
type Of = fn(&Course) -> (&[f64], &[Option<f64>]);

/// Draws all headroom charts of a run.
pub(crate) fn plots(summary: &Summary, cells: &[Cell]) -> Vec<Plot> {
    let curves = &summary.headroom.curves;
    let mut plots: Vec<Plot> = Vec::new();
    for same in curves.chunk_by(|one, next| one.axes == next.axes && one.load == next.load) {
        let datasets: Vec<Labelled<'_, Curve>> = same
            .iter()
            .map(|curve| Labelled {
                label: curve.gateway.clone(),
                color: color_of(summary, &curve.gateway),
                value: curve,
            })
            .collect();
        let setting = setting(&same[0].load, &same[0].axes);
        let id = format!("{PREFIX}{}", slug(&setting));
        plots.extend(headroom_chart(&id, &setting, &datasets));
    }
    for same in summary
        .headroom
        .scalability
        .chunk_by(|one, next| one.axes == next.axes && one.load == next.load && one.over == next.over)
    {
        plots.extend(scalability_chart(summary, same));
    }
    if !curves.is_empty() {
        plots.extend(over_time(summary, cells));
    }
    plots
}

fn setting(load: &str, axes: &Axes) -> String {
    let axes = axes_words(axes);
    if axes.is_empty() { load.to_owned() } else { format!("{load}; {axes}") }
}

/// Throughput by connections or by cores, with the fitted curve of the Universal Scalability Law.
fn scalability_chart(summary: &Summary, found: &[Scalability]) -> Option<Plot> {
    let first = found.first()?;
    let (over, unit) = match first.over {
        Over::Connections => ("connections", Unit::Plain),
        Over::Cores => ("cores", Unit::Cores),
    };
    let lines = found.iter().flat_map(|one| {
        let color = color_of(summary, &one.gateway);
        let spot = |(n, per_s): &(f64, f64)| Spot {
            words: format!("{} at {} {over}: {}", one.gateway, unit.words(*n), Unit::PerSecond.words(*per_s)),
            ..Spot::at(*n, Some(*per_s))
        };
        let law = one.usl.fit().map(|usl| {
            let greatest = one.points.last().map_or(1.0, |(n, _)| *n);
            let place = |step| 1.0 + (greatest - 1.0) * f64::from(step) / f64::from(CURVE_STEPS);
            (0..=CURVE_STEPS).map(place).map(|n| Spot::at(n, Some(usl.throughput_per_s(n)))).collect()
        });
        let measured = one.points.iter().map(spot).collect();
        [
            Line { name: one.gateway.clone(), color, dashed: false, marked: true, spots: measured },
            Line {
                name: format!("{}, law", one.gateway),
                color,
                dashed: true,
                marked: false,
                spots: law.unwrap_or_default(),
            },
        ]
    });
    let lines: Vec<Line> = lines.filter(|line| !line.spots.is_empty()).collect();
    let panels = vec![Panel { title: String::new(), lines }];
    let greatest = found.iter().filter_map(|one| one.points.last()).map(|(n, _)| *n).reduce(f64::max)?;
    let setting = setting(&first.load, &first.axes);
    Some(Plot {
        section: "headroom",
        note: NOTE,
        id: format!("{PREFIX}over-{over}-{}", slug(&setting)),
        title: format!("Throughput by {over}, and the Universal Scalability Law"),
        setting,
        x: Scale::from_zero(over, unit, greatest).within(),
        y: Scale::of_figures("throughput", Unit::PerSecond, reach(&panels).into_iter()),
        marks: Marks::Dots,
        shade_to: None,
        panels,
    })
}

/// Draws CPU, throughput and p99 latency over time, for all loads of each cell in the first repeat. There is a panel
/// for each combination of values of the axes, and a line for each gateway.
fn over_time(summary: &Summary, cells: &[Cell]) -> Vec<Plot> {
    let mut points: Vec<&Axes> = Vec::new();
    for curve in &summary.headroom.curves {
        if !points.contains(&&curve.axes) {
            points.push(&curve.axes);
        }
    }
    let place = |cell: &Cell| summary.gateways.iter().position(|gateway| gateway.name == cell.key.gateway);
    let courses_at = |axes: &Axes| {
        let mut here: Vec<&Cell> =
            cells.iter().filter(|cell| cell.key.axes == *axes && cell.key.repeat == 0).collect();
        // A second direct baseline (`twin: true`) is left out, because it is not in `summary.gateways`.
        here.retain(|cell| place(cell).is_some());
        here.sort_by_key(|cell| place(cell));
        let courses = here.into_iter().filter_map(|cell| Some((cell.key.gateway.as_str(), course(cell)?)));
        courses.collect::<Vec<_>>()
    };
    let all: Vec<(String, Vec<(&str, Course)>)> =
        points.iter().map(|axes| (axes_words(axes), courses_at(axes))).collect();
    let series: [(&str, &str, Unit, Of); 3] = [
        ("cpu", "CPU, cores used by the data plane, averaged over 5 s", Unit::Cores, |course| {
            (&course.cpu_t_s, &course.cpu_cores)
        }),
        ("throughput", "Throughput per second", Unit::PerSecond, |course| (&course.t_s, &course.rate_per_s)),
        ("p99", "p99 latency per second", Unit::Nanoseconds, |course| (&course.t_s, &course.p99_ns)),
    ];
    let plot = |(name, title, unit, of): (&str, &str, Unit, Of)| {
        let line = |(gateway, course): &(&str, Course)| {
            let (clock, values) = of(course);
            let spots = clock.iter().zip(values).map(|(at, value)| Spot::at(*at, *value));
            Line {
                name: (*gateway).to_owned(),
                color: color_of(summary, gateway),
                dashed: *gateway == weir_results::DIRECT,
                marked: true,
                spots: spots.collect(),
            }
        };
        let panels = all.iter().map(|(title, courses)| Panel {
            title: title.clone(),
            lines: courses
                .iter()
                .map(line)
                .filter(|line| line.spots.iter().any(|spot| spot.y.is_some()))
                .collect(),
        });
        let mut panels: Vec<Panel> = panels.collect();
        let end = all.iter().flat_map(|(_, courses)| courses).map(|(_, course)| course.end_s);
        let end = end.reduce(f64::max).filter(|end| *end > 0.0)?;
        if panels.iter().all(|panel| panel.lines.is_empty()) {
            return None;
        }
        let y = Scale::of_figures(title, unit, reach(&panels).into_iter());
        for (panel, (_, courses)) in panels.iter_mut().zip(&all) {
            for (gateway, course) in courses {
                let all =
                    [("routes change", &course.changes_t_s), ("registrations", &course.registrations_t_s)];
                for (what, t_s) in all.into_iter().filter(|(_, t_s)| !t_s.is_empty()) {
                    let name = format!("{gateway}, {what}");
                    panel.lines.push(marks(&name, color_of(summary, gateway), t_s, &y));
                }
            }
        }
        Some(Plot {
            section: "headroom",
            note: NOTE,
            id: format!("{PREFIX}over-time-{name}"),
            title: title.to_owned(),
            setting: "all loads of a cell in sequence, repeat 1".into(),
            x: Scale { high: end, ..Scale::from_zero("time", Unit::Seconds, end) }.within(),
            y,
            marks: Marks::Lines,
            shade_to: None,
            panels,
        })
    };
    series.into_iter().filter_map(plot).collect()
}

#[cfg(test)]
mod tests {
    use weir_analysis::Figure;
    use weir_analysis::headroom::{Fit, Fitted, Knee};
    use weir_results::ArrivalModel;

    use super::*;

    fn figure(mean: f64) -> Figure {
        Figure { mean: Some(mean), interval: Some([mean * 0.9, mean * 1.1]), valid: 3, ..Figure::default() }
    }

    fn curve(latency_ns: f64) -> Curve {
        let spot = |per_s: f64| CurveSpot {
            asked_per_s: Some(per_s),
            connections: 8,
            throughput_per_s: figure(per_s),
            latency_ns: CURVE_LATENCIES.map(|name| (name.to_owned(), figure(latency_ns * per_s))).to_vec(),
            cpu_share_of_limit: Figure::default(),
            cpu_us_per_request: Figure::default(),
        };
        let fit = Fit {
            base_ns: latency_ns,
            work: 1e6,
            limit_per_s: 500.0,
            deviation: 0.1,
            points: 5,
            within_per_s: [100.0, 400.0],
        };
        let fits = [
            ("p50".to_owned(), Fitted::Fit(fit)),
            ("p90".to_owned(), Fitted::Refused("no bend".to_owned())),
            ("p99".to_owned(), Fitted::Fit(fit)),
        ];
        Curve {
            gateway: "nginx".into(),
            axes: Axes::new(),
            load: "curve".into(),
            model: ArrivalModel::Open,
            spots: [100.0, 200.0, 400.0].map(spot).to_vec(),
            fits: fits.to_vec(),
            knee: Some(Knee { throughput_per_s: 200.0, p99_ns: latency_ns }),
        }
    }

    #[test]
    fn two_datasets_lie_over_each_other_under_their_labels() {
        let (old, new) = (curve(1_000.0), curve(2_000.0));
        let datasets = [("1.20", "blue", &old), ("1.22", "amber", &new)]
            .map(|(label, color, value)| Labelled { label: label.into(), color, value });
        let plot = headroom_chart("headroom-x", "curve", &datasets).unwrap();
        let names =
            |panel: usize| plot.panels[panel].lines.iter().map(|line| line.name.as_str()).collect::<Vec<_>>();
        assert_eq!(plot.panels.iter().map(|panel| panel.title.as_str()).collect::<Vec<_>>(), CURVE_LATENCIES);
        assert_eq!(names(0), ["1.20", "1.20, fitted", "1.22", "1.22, fitted"]);
        assert_eq!(names(1), ["1.20", "1.22"], "a refused fit is not drawn");
        assert_eq!(names(2)[4..], ["1.20, knee", "1.22, knee"]);
        let fitted = &plot.panels[0].lines[1].spots;
        assert_eq!(
            (fitted[0].x, fitted.last().unwrap().x),
            (100.0, 400.0),
            "the fitted line covers only the range of valid points"
        );
        let spot = &plot.panels[0].lines[0].spots[1];
        let [low, high] = spot.interval.unwrap();
        assert!(spot.x == 200.0 && (low - 180_000.0).abs() < 1e-3 && (high - 220_000.0).abs() < 1e-3);
        assert!(
            spot.words.starts_with("1.20 at 200/s offered, throughput 200/s: p50: 200 µs"),
            "{}",
            spot.words
        );
        assert!(headroom_chart("headroom-x", "curve", &[]).is_none());
    }
}
