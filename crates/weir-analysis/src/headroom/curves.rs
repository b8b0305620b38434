//! Curves of latency against throughput, from load points at several rates or from the steps of one load.

use serde::Serialize;
use serde_json::Value;
use weir_results::{ArrivalModel, DIRECT, DIRECT_TWIN, Run, StepRecord};

use super::scalability::{Over, Scalability, USL_CORES_MIN, USL_POINTS_MIN, usl};
use super::{Fit, Fitted, fit, knee};
use crate::experiments::Experiment;
use crate::figures::figure::{Figure, Range, Repeated, Sample};
use crate::figures::latencies::latency_ns;
use crate::points::axes::Axes;
use crate::points::grouping::Group;
use crate::points::measured::{Repeat, Repeats};
use crate::points::{Point, Row};
use crate::verdicts::reasons::Metric;

/// Names of the latencies of a curve, ascending.
pub const CURVE_LATENCIES: [&str; 3] = ["p50", "p90", "p99"];

/// Minimum number of points of a curve.
const SPOTS_MIN: usize = 3;

/// The knee is located on the curve of this latency, because tails rise first.
const KNEE_OF: &str = "p99";

/// A gateway's latency against throughput, with one value of each axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curve {
    /// The gateway's name, or [`DIRECT`].
    pub gateway: String,
    /// Values of the axes, the same for all points of the curve.
    pub axes: Axes,
    /// Name of the load with several rates, or with steps.
    pub load: String,
    /// Arrival model of the load.
    pub model: ArrivalModel,
    /// Points by ascending rate or connections.
    pub spots: Vec<CurveSpot>,
    /// The fit through the valid points, for each of [`CURVE_LATENCIES`].
    pub fits: Vec<(String, Fitted<Fit>)>,
    /// The knee of p99, by Kneedle. It is drawn, but not used for sizing.
    pub knee: Option<Knee>,
}

/// A point of a curve: one rate, or one step of a load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CurveSpot {
    /// Offered rate; `None` in closed loop.
    pub asked_per_s: Option<f64>,
    /// Number of connections of the load generator.
    pub connections: u32,
    /// Complete responses per second.
    pub throughput_per_s: Figure,
    /// Latency in nanoseconds by name, in the order of [`CURVE_LATENCIES`].
    pub latency_ns: Vec<(String, Figure)>,
    /// Cores used by the data plane divided by its CPU limit; not measured for a step.
    pub cpu_share_of_limit: Figure,
    /// CPU time of the data plane per completed request, microseconds. It is not measured for steps of a load.
    pub cpu_us_per_request: Figure,
}

/// The knee of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Knee {
    /// Throughput at the knee, requests per second.
    pub throughput_per_s: f64,
    /// p99 at the knee, nanoseconds.
    pub p99_ns: f64,
}

impl CurveSpot {
    /// The latency with this name.
    pub fn latency(&self, name: &str) -> Option<&Figure> {
        self.latency_ns.iter().find(|(known, _)| known == name).map(|(_, figure)| figure)
    }
}

impl Curve {
    /// The fit of the latency with this name, or why there is none.
    pub fn fitted(&self, name: &str) -> Option<&Fitted<Fit>> {
        self.fits.iter().find(|(known, _)| known == name).map(|(_, fitted)| fitted)
    }

    /// Whether this is the curve of the direct baseline.
    pub fn is_direct(&self) -> bool {
        self.gateway == DIRECT
    }

    fn of(gateway: &str, axes: &Axes, load: &str, model: ArrivalModel, spots: Vec<CurveSpot>) -> Self {
        let counting = |name: &str| -> Vec<(f64, f64)> {
            let counts = |spot: &CurveSpot| {
                let latency = spot.latency(name).filter(|latency| latency.is_valid())?;
                let throughput = &spot.throughput_per_s;
                throughput.mean.filter(|_| throughput.is_valid()).zip(latency.mean)
            };
            spots.iter().filter_map(counts).collect()
        };
        let bend = counting(KNEE_OF);
        Self {
            gateway: gateway.to_owned(),
            axes: axes.clone(),
            load: load.to_owned(),
            model,
            fits: CURVE_LATENCIES.iter().map(|name| ((*name).to_owned(), fit(&counting(name)))).collect(),
            knee: knee(&bend).map(|place| Knee { throughput_per_s: bend[place].0, p99_ns: bend[place].1 }),
            spots,
        }
    }
}

/// Computes all curves of a run.
pub(super) fn curves(run: &Run, groups: &[Group<'_>], points: &[Point]) -> Vec<Curve> {
    let mut families: Vec<(&Axes, String, Vec<&Point>)> = Vec::new();
    let open = points.iter().filter(|point| point.model == ArrivalModel::Open && point.rate_per_s.is_some());
    for point in open {
        let Some(family) = family(run, &point.load) else { continue };
        match families.iter_mut().find(|(axes, known, _)| **axes == point.axes && *known == family) {
            Some((.., members)) => members.push(point),
            None => families.push((&point.axes, family, vec![point])),
        }
    }
    let mut curves = Vec::new();
    for (axes, load, mut members) in families {
        members.sort_by(|a, b| a.rate_per_s.unwrap_or(0.0).total_cmp(&b.rate_per_s.unwrap_or(0.0)));
        for gateway in gateways(&members) {
            let of_gateway = |point: &&Point| {
                let row = point.rows.iter().find(|row| row.gateway == gateway)?;
                Some(spot(point, row))
            };
            let spots: Vec<CurveSpot> = members.iter().filter_map(of_gateway).collect();
            if spots.len() >= SPOTS_MIN {
                curves.push(Curve::of(gateway, axes, &load, ArrivalModel::Open, spots));
            }
        }
    }
    curves.extend(groups.iter().flat_map(climbs));
    curves
}

/// The scenario's load with several rates to which `load` belongs: `curve` for `curve-500`. `None` for a load with a
/// single rate.
pub(super) fn family(run: &Run, load: &str) -> Option<String> {
    let loads = run.scenario.get("loads").and_then(Value::as_object)?;
    let is_one_of = |name: &str| {
        let rate = load.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
        rate.is_some_and(|rate| rate.replace('_', ".").parse::<f64>().is_ok())
    };
    let rated = loads.iter().filter(|(_, load)| load.get("rates").is_some_and(|rates| !rates.is_null()));
    rated.map(|(name, _)| name).find(|name| is_one_of(name)).cloned()
}

/// Names of the gateways in the order of the rows, the direct baseline last.
fn gateways<'a>(points: &[&'a Point]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for row in points.iter().flat_map(|point| &point.rows) {
        if !names.contains(&row.gateway.as_str()) {
            names.push(&row.gateway);
        }
    }
    names.sort_by_key(|name| *name == DIRECT);
    names
}

fn spot(point: &Point, row: &Row) -> CurveSpot {
    let latency = |name: &&str| Some(((*name).to_owned(), row.latency(name)?.clone()));
    CurveSpot {
        asked_per_s: point.rate_per_s,
        connections: point.connections,
        throughput_per_s: row.throughput_per_s.clone(),
        latency_ns: CURVE_LATENCIES.iter().filter_map(latency).collect(),
        cpu_share_of_limit: row.cpu_share_of_limit.clone(),
        cpu_us_per_request: row.cpu_us_per_request.clone(),
    }
}

/// The curves of a closed load with steps, one per gateway; empty for other loads.
fn climbs(group: &Group<'_>) -> Vec<Curve> {
    let steps = |repeats: &Repeats<'_>| {
        repeats.iter().map(|repeat| repeat.measurement.record.steps.len()).min().unwrap_or(0)
    };
    if group.model != ArrivalModel::Closed {
        return Vec::new();
    }
    let of = |(gateway, repeats): &(&str, Repeats<'_>)| {
        let spots: Vec<CurveSpot> = (0..steps(repeats)).map(|place| step(repeats, place)).collect();
        (spots.len() >= SPOTS_MIN)
            .then(|| Curve::of(gateway, group.axes, group.load, ArrivalModel::Closed, spots))
    };
    let own = group.rows.iter().filter(|(gateway, _)| *gateway != DIRECT_TWIN);
    own.filter_map(of).collect()
}

/// The curve point of the step with index `place`, computed from all repeats. It is valid if the whole load is valid.
fn step(repeats: &Repeats<'_>, place: usize) -> CurveSpot {
    let figure = |metric: Metric, of: &dyn Fn(&StepRecord) -> Option<f64>| {
        let repeated = repeats.iter().map(|repeat| Repeated {
            repeat: repeat.cell.key.repeat,
            sample: Sample::from(repeat.measurement.record.steps.get(place).and_then(of)),
            reasons: repeat.reasons(metric).to_vec(),
            ..Repeated::default()
        });
        Figure::of(repeated.collect())
    };
    let latency = |name: &&str| {
        let of = |repeat: &Repeat<'_>| {
            let step = repeat.measurement.record.steps.get(place);
            let sample = step.and_then(|step| latency_ns(&step.result.latency_ns, name)).into();
            Repeated { range: Range::default(), ..repeat.judged(name, sample) }
        };
        ((*name).to_owned(), Figure::of(repeats.iter().map(of).collect()))
    };
    let first = repeats.iter().find_map(|repeat| repeat.measurement.record.steps.get(place));
    CurveSpot {
        asked_per_s: first.and_then(|step| step.rate_per_s),
        connections: first.map_or(0, |step| step.connections),
        throughput_per_s: figure(Metric::Throughput, &|step| Some(step.result.rate_per_s)),
        latency_ns: CURVE_LATENCIES.iter().map(latency).collect(),
        cpu_share_of_limit: Figure::default(),
        cpu_us_per_request: Figure::default(),
    }
}

/// Fits the Universal Scalability Law to throughput as a function of connections, and as a function of cores.
/// Throughput by connections comes from loads with at least [`SPOTS_MIN`] steps, and from at least [`USL_POINTS_MIN`]
/// closed loads that differ in their number of connections. Throughput by cores needs a CPU limit of at least
/// [`USL_CORES_MIN`] whole cores. Without these, there is no entry. If the valid points do not allow a fit, the entry
/// holds the reason instead.
pub(super) fn scalability(
    groups: &[Group<'_>],
    points: &[Point],
    experiments: &[Experiment],
) -> Vec<Scalability> {
    let mut found = Vec::new();
    for curve in groups.iter().flat_map(climbs).filter(|curve| !curve.is_direct()) {
        let asked = curve.spots.iter().map(|spot| (f64::from(spot.connections), &spot.throughput_per_s));
        found.push(law(&curve.gateway, &curve.axes, curve.load.clone(), Over::Connections, asked.collect()));
    }
    for experiment in experiments {
        found.extend(over_connections(experiment, points));
        found.extend(over_cores(experiment));
    }
    found
}

fn over_connections(experiment: &Experiment, points: &[Point]) -> Vec<Scalability> {
    let mut found = Vec::new();
    for limit in experiment.limits.iter().filter(|limit| limit.closed.len() >= USL_POINTS_MIN) {
        let closed: Vec<&Point> = limit.closed.iter().map(|place| &points[*place]).collect();
        let load = experiment.loads.join(", ");
        for gateway in gateways(&closed).into_iter().filter(|gateway| *gateway != DIRECT) {
            let asked = closed.iter().filter_map(|point| {
                let row = point.rows.iter().find(|row| row.gateway == gateway)?;
                Some((f64::from(point.connections), &row.throughput_per_s))
            });
            // Axes that set the number of connections differ between the points, so they are left out.
            let mut axes = closed[0].axes.clone();
            axes.retain(|path, value| closed.iter().all(|point| point.axes.get(path) == Some(value)));
            found.push(law(gateway, &axes, load.clone(), Over::Connections, asked.collect()));
        }
    }
    found
}

fn over_cores(experiment: &Experiment) -> Vec<Scalability> {
    let whole = |cpus: &f64| cpus.fract() == 0.0;
    let cores = |limit: usize| experiment.limits[limit].cpus.filter(whole);
    let greatest = (0..experiment.limits.len()).filter_map(cores).fold(0.0, f64::max);
    if greatest < USL_CORES_MIN {
        return Vec::new();
    }
    let mut names: Vec<&str> = Vec::new();
    for saturation in &experiment.saturations {
        if !names.contains(&saturation.gateway.as_str()) {
            names.push(&saturation.gateway);
        }
    }
    let of = |gateway: &&str| {
        let full = experiment.saturations.iter().filter(|saturation| saturation.gateway == **gateway);
        let asked = full.filter_map(|saturation| {
            Some((cores(saturation.limit)?, &saturation.maximum.as_ref()?.throughput_per_s))
        });
        law(gateway, &experiment.axes, experiment.loads.join(", "), Over::Cores, asked.collect())
    };
    names.iter().map(of).collect()
}

fn law(gateway: &str, axes: &Axes, load: String, over: Over, asked: Vec<(f64, &Figure)>) -> Scalability {
    let counts = |(n, figure): (f64, &Figure)| {
        Some((n, figure.mean.filter(|per_s| figure.is_valid() && *per_s > 0.0)?))
    };
    let mut points: Vec<(f64, f64)> = asked.into_iter().filter_map(counts).collect();
    points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let usl = usl(&points, over);
    Scalability { gateway: gateway.to_owned(), axes: axes.clone(), load, over, points, usl }
}
