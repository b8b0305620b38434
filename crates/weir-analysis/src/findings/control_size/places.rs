//! Groups the values of each gateway at each load by the size of the control plane.

use std::cmp::Ordering;

use serde_json::Value;
use weir_results::{ArrivalModel, Role, Usage};

use crate::compare::{FigureComparison, Measure};
use crate::experiments::cores;
use crate::figures::figure::Figure;
use crate::figures::quantity::bytes;
use crate::findings::Measured;
use crate::points::axes::Axes;
use crate::points::grouping::Group;
use crate::points::measured::{Repeat, Repeats, role_usage};
use crate::points::{Point, Row};
use crate::verdicts::reasons::Metric;

/// The axis that sets all limits of the control plane. The axis for a single limit appends a field, such as
/// `limits.control.cpus`.
const SIZE: &str = "limits.control";

const CLOSED: [Measure; 2] = [Measure::Throughput, Measure::CpuPerRequest];
const OPEN: [Measure; 2] = [Measure::Latency("p50"), Measure::CpuPerRequest];

/// A gateway at a load, with all sizes of its control plane.
pub(super) struct Place<'a> {
    pub(super) gateway: &'a str,
    pub(super) load: &'a str,
    /// Values of the axes other than the size.
    pub(super) others: Axes,
    model: ArrivalModel,
    /// The measured sizes, smallest first.
    pub(super) sizes: Vec<Sized<'a>>,
}

/// Measured values of a gateway at one size of its control plane.
pub(super) struct Sized<'a> {
    pub(super) size: Size,
    pub(super) point: &'a Point,
    pub(super) row: &'a Row,
    /// Cores used by the control plane.
    pub(super) control_cores: Figure,
    /// Cores used by the control plane divided by its CPU limit.
    pub(super) control_share: Figure,
    /// Each metric in [`Place::measures`], compared with its value at the largest size; empty for the largest size.
    pub(super) compared: Vec<FigureComparison>,
}

/// The limits of a control plane.
pub(super) struct Size {
    /// Both limits in words, as the axes write them: `0.5 cores, 128MiB`.
    pub(super) words: String,
    /// CPU limit, cores; infinite without a limit.
    cpus: f64,
    memory_bytes: u64,
}

/// Returns one [`Place`] per gateway with a control plane, load, and combination of the other axes. Places are sorted
/// by gateway, then by the other axes, both in the order in which they first appear in the points.
pub(super) fn places<'a>(measured: &Measured<'a>) -> Vec<Place<'a>> {
    let mut places: Vec<Place<'a>> = Vec::new();
    for (point, group) in measured.points.iter().zip(measured.groups) {
        for row in point.gateways().filter(|row| has_control(row)) {
            let (_, others) = split(&point.axes);
            let sized = Sized::of(point, group, row);
            let (gateway, load, model) = (row.gateway.as_str(), point.load.as_str(), point.model);
            let is_same =
                |place: &Place<'_>| (place.gateway, place.load) == (gateway, load) && place.others == others;
            match places.iter_mut().find(|place| is_same(place)) {
                Some(place) => place.sizes.push(sized),
                None => places.push(Place { gateway, load, others, model, sizes: vec![sized] }),
            }
        }
    }
    for place in &mut places {
        place.sizes.sort_by(|a, b| a.size.order(&b.size));
    }
    let keys: Vec<(&str, Axes)> = places.iter().map(|place| (place.gateway, place.others.clone())).collect();
    let first = |place: &Place<'_>| {
        let gateway = keys.iter().position(|(gateway, _)| *gateway == place.gateway);
        let is_same = |(gateway, others): &(&str, Axes)| *gateway == place.gateway && *others == place.others;
        (gateway, keys.iter().position(is_same))
    };
    places.sort_by_key(first);
    places
}

/// Whether the gateway of a row has a control plane.
pub(super) fn has_control(row: &Row) -> bool {
    row.parts.iter().any(|part| part.role == Role::Control)
}

/// Whether all parts of the gateway are known. For a gateway that weir does not run, they are unknown.
pub(super) fn is_known(row: &Row) -> bool {
    let data = || row.parts.iter().filter(|part| part.role == Role::Data);
    data().next().is_some() && data().all(|part| part.limits_known)
}

/// Splits axes into the axes of the control plane's size and all other axes.
pub(super) fn split(axes: &Axes) -> (Axes, Axes) {
    let is_size =
        |path: &str| path.strip_prefix(SIZE).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    axes.clone().into_iter().partition(|(path, _)| is_size(path))
}

impl Place<'_> {
    pub(super) fn is_open(&self) -> bool {
        self.model == ArrivalModel::Open
    }

    /// The compared metrics: the main metric of the load, then CPU time per request.
    pub(super) fn measures(&self) -> &'static [Measure] {
        if self.is_open() { &OPEN } else { &CLOSED }
    }
}

impl<'a> Sized<'a> {
    fn of(point: &'a Point, group: &Group<'_>, row: &'a Row) -> Self {
        let none = Repeats::default();
        let repeats = group.repeats(&row.gateway).unwrap_or(&none);
        let control = |of: fn(&Usage) -> Option<f64>| {
            let value = |repeat: &Repeat<'_>| {
                let usage = role_usage(&repeat.cell.parts, &repeat.measurement.usage, Role::Control);
                usage.as_ref().and_then(of).into()
            };
            Figure::of(repeats.repeated(Metric::Cpu, &value))
        };
        Self {
            size: Size::of(&point.axes, Some(row)),
            point,
            row,
            control_cores: control(|usage| Some(usage.cpu_cores)),
            control_share: control(|usage| usage.cpu_share_of_limit),
            compared: Vec::new(),
        }
    }

    pub(super) fn figure(&self, measure: Measure) -> Option<&FigureComparison> {
        self.compared.iter().find(|figure| figure.measure == measure)
    }
}

impl Size {
    /// The CPU and memory limits of the control plane, from `axes` and from the control plane in `row`. `words` lists
    /// only the limits in `axes`, or the limits in `row` if `axes` contains none.
    pub(super) fn of(axes: &Axes, row: Option<&Row>) -> Self {
        let written = |field: &str| {
            let whole = || axes.get(SIZE).and_then(|size| size.get(field));
            axes.get(&format!("{SIZE}.{field}")).or_else(whole)
        };
        let parts = || row.iter().flat_map(|row| &row.parts).filter(|part| part.role == Role::Control);
        let started_cpus =
            parts().map(|part| part.limit_cpus).sum::<Option<f64>>().filter(|cpus| *cpus > 0.0);
        let started_bytes =
            parts().map(|part| part.limit_memory_bytes).sum::<Option<u64>>().filter(|bytes| *bytes > 0);
        let (cpus, memory) = (written("cpus"), written("memory"));
        let of_cpus = cpus.and_then(|cpus| cpus.as_f64().map(cores));
        let of_memory = memory.and_then(|memory| match memory {
            Value::String(text) => Some(text.clone()),
            other => other.as_f64().map(bytes),
        });
        let mut words: Vec<String> = [of_cpus, of_memory].into_iter().flatten().collect();
        if words.is_empty() {
            words.extend(started_cpus.map(cores));
            words.extend(started_bytes.map(|limit| bytes(limit as f64)));
        }
        Self {
            words: if words.is_empty() { "no limit".to_owned() } else { words.join(", ") },
            cpus: cpus.and_then(Value::as_f64).or(started_cpus).unwrap_or(f64::INFINITY),
            memory_bytes: started_bytes.or_else(|| memory?.as_u64()).unwrap_or(u64::MAX),
        }
    }

    /// Orders by CPUs, then by memory.
    fn order(&self, other: &Self) -> Ordering {
        self.cpus.total_cmp(&other.cpus).then_with(|| self.memory_bytes.cmp(&other.memory_bytes))
    }
}
