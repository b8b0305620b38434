//! Results that need several load points: throughput by number of users at a CPU limit, throughput by number of cores,
//! and throughput as share of the direct baseline.
//!
//! An experiment consists of closed loads that differ only in their number of connections (users), with their load
//! points at all CPU and memory limits of the data plane. The cells are the same as in the other tables; nothing is
//! measured twice.

mod of_direct;
mod per_core;
mod saturation;
mod trend;
mod users;

use serde::Serialize;
use serde_json::Value;
use weir_results::words::counted;
use weir_results::{ArrivalModel, Role, Run};

use crate::figures::quantity::bytes;
use crate::points::axes::{Axes, at_axes};
use crate::points::{Point, Row};

pub use per_core::PerCore;
pub use saturation::{Maximum, Saturation};

/// Axes that limit the data plane.
pub(crate) const LIMIT_PATHS: [&str; 2] = ["limits.data.cpus", "limits.data.memory"];

/// Closed loads that differ only in their number of connections, measured at each limit of the data plane.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Experiment {
    /// Values of all axes except connections and limits of the data plane.
    pub axes: Axes,
    /// Names of the closed loads, by ascending number of connections.
    pub loads: Vec<String>,
    /// The limits of the data plane, ascending.
    pub limits: Vec<DataLimit>,
    /// Throughput by number of connections for each gateway and limit: gateways in the scenario's order, limits
    /// ascending.
    pub saturations: Vec<Saturation>,
    /// Throughput per core at full load, per gateway; empty if `limits` has fewer than two entries.
    pub per_core: Vec<PerCore>,
    /// Sentences about the highest limit of the data plane: which gateways saturate it, with how many connections, and
    /// their throughput.
    pub users_conclusions: Vec<String>,
    /// Sentences about throughput as a share of the direct baseline.
    pub direct_conclusions: Vec<String>,
}

/// A limit of the data plane, and the load points measured with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DataLimit {
    /// CPU limit, cores; `None` without a limit.
    pub cpus: Option<f64>,
    /// Memory limit, bytes; `None` without a limit.
    pub memory_bytes: Option<u64>,
    /// Indices of the closed loads in the summary's `points`, by ascending number of connections.
    pub closed: Vec<usize>,
    /// Indices of the open loads in the summary's `points`.
    pub open: Vec<usize>,
}

/// An experiment under construction.
struct Draft {
    /// The load's fields in the scenario, without connections and duration.
    kind: Value,
    axes: Axes,
    limits: Vec<(Axes, DataLimit)>,
}

/// Finds the experiments of a run. An experiment has at least two limits, or one limit measured with at least two
/// connection counts.
pub(crate) fn find(run: &Run, points: &[Point]) -> Vec<Experiment> {
    let mut drafts: Vec<Draft> = Vec::new();
    for (place, point) in of_model(points, ArrivalModel::Closed) {
        if let Some(kind) = kind(run, point) {
            gather(&mut drafts, kind, place, point);
        }
    }
    for draft in &mut drafts {
        draft.order(points);
        for (place, point) in of_model(points, ArrivalModel::Open) {
            draft.add_open(place, point);
        }
        draft.drop_ambiguous(points);
    }
    let tells = |draft: &Draft| {
        draft.limits.len() > 1 || draft.limits.iter().any(|(_, limit)| limit.closed.len() > 1)
    };
    drafts.into_iter().filter(tells).map(|draft| draft.experiment(run, points)).collect()
}

impl Experiment {
    /// The caption of a table about `what`, with loads and axes if the run has several experiments.
    pub(crate) fn caption(&self, what: &str, all: &[Self]) -> String {
        match all {
            [_] => what.to_owned(),
            _ => format!("{what}: {}", at_axes(&self.loads.join(", "), &self.axes)),
        }
    }

    /// Names of the gateways, in the scenario's order.
    pub(crate) fn gateways(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for saturation in &self.saturations {
            if !names.contains(&saturation.gateway.as_str()) {
                names.push(&saturation.gateway);
            }
        }
        names
    }

    /// The saturation of `gateway` at the limit with this index.
    pub fn saturation(&self, gateway: &str, limit: usize) -> Option<&Saturation> {
        self.saturations.iter().find(|found| found.gateway == gateway && found.limit == limit)
    }
}

impl DataLimit {
    /// The CPU limit in words: `0.5 cores`.
    pub fn words(&self) -> String {
        self.cpus.map_or_else(|| "no CPU limit".to_owned(), cores)
    }

    /// Both limits in words: `0.5 cores, 1.00 GiB`.
    pub(crate) fn all_words(&self) -> String {
        match self.memory_bytes {
            Some(limit) => format!("{}, {}", self.words(), bytes(limit as f64)),
            None => self.words(),
        }
    }
}

impl Draft {
    /// Returns the limit with the axis values `axes`. If `limits` does not contain it yet, adds the limit of `point`.
    fn limit_at(&mut self, axes: Axes, point: &Point) -> &mut DataLimit {
        let known = self.limits.iter().position(|(known, _)| *known == axes);
        let at = known.unwrap_or_else(|| {
            self.limits.push((axes, data_limit(point)));
            self.limits.len() - 1
        });
        &mut self.limits[at].1
    }

    /// Sorts limits ascending, and the closed loads of each limit by number of connections, without duplicates.
    fn order(&mut self, points: &[Point]) {
        self.limits.sort_by(|(_, a), (_, b)| {
            let cpus = |limit: &DataLimit| limit.cpus.unwrap_or(f64::INFINITY);
            cpus(a).total_cmp(&cpus(b)).then_with(|| a.memory_bytes.cmp(&b.memory_bytes))
        });
        for (_, limit) in &mut self.limits {
            limit.closed.sort_by_key(|place| points[*place].connections);
            limit.closed.dedup_by_key(|place| points[*place].connections);
        }
    }

    fn add_open(&mut self, place: usize, point: &Point) {
        let (axes, limited) = split(&point.axes);
        if axes != self.axes {
            return;
        }
        if let Some((_, limit)) = self.limits.iter_mut().find(|(known, _)| *known == limited) {
            limit.open.push(place);
        }
    }

    /// Drops open loads that were measured several times at one limit with different numbers of connections, because it
    /// is unclear which of their load points belongs to the limit.
    fn drop_ambiguous(&mut self, points: &[Point]) {
        for (_, limit) in &mut self.limits {
            let all = limit.open.clone();
            let named =
                |place: usize| all.iter().filter(move |other| points[**other].load == points[place].load);
            limit.open.retain(|place| named(*place).count() == 1);
        }
    }

    fn experiment(self, run: &Run, points: &[Point]) -> Experiment {
        let limits: Vec<DataLimit> = self.limits.into_iter().map(|(_, limit)| limit).collect();
        let mut closed: Vec<&Point> =
            limits.iter().flat_map(|limit| &limit.closed).map(|place| &points[*place]).collect();
        closed.sort_by_key(|point| point.connections);
        let (mut loads, mut gateways): (Vec<String>, Vec<&str>) = (Vec::new(), Vec::new());
        for point in &closed {
            if !loads.contains(&point.load) {
                loads.push(point.load.clone());
            }
        }
        // Rows are in the scenario's order, but a gateway may have no row at some of the load points. So the names come
        // from all load points.
        for row in points.iter().flat_map(Point::gateways) {
            if !gateways.contains(&row.gateway.as_str()) {
                gateways.push(&row.gateway);
            }
        }
        let full_share = run.thresholds.full_load_share;
        let saturations: Vec<Saturation> = gateways
            .iter()
            .flat_map(|gateway| {
                limits.iter().enumerate().map(move |(place, limit)| {
                    saturation::saturation(gateway, place, limit, points, full_share)
                })
            })
            .collect();
        let per_core = match limits.len() {
            0 | 1 => Vec::new(),
            _ => gateways.iter().map(|gateway| per_core::per_core(gateway, &limits, &saturations)).collect(),
        };
        Experiment {
            axes: self.axes,
            loads,
            users_conclusions: users::conclude(&limits, &saturations, full_share),
            direct_conclusions: of_direct::conclude(&closed, &gateways),
            limits,
            saturations,
            per_core,
        }
    }
}

/// Formats a number of cores: `0.5 cores`.
pub(crate) fn cores(cpus: f64) -> String {
    format!("{cpus} core{}", if cpus == 1.0 { "" } else { "s" })
}

/// Formats a number of connections: `8 connections`.
fn connections(count: u32) -> String {
    counted(count.into(), "connection")
}

fn of_model(points: &[Point], model: ArrivalModel) -> impl Iterator<Item = (usize, &Point)> {
    points.iter().enumerate().filter(move |(_, point)| point.model == model)
}

fn gather(drafts: &mut Vec<Draft>, kind: Value, place: usize, point: &Point) {
    let (axes, limited) = split(&point.axes);
    let known = drafts.iter().position(|draft| draft.kind == kind && draft.axes == axes);
    let at = known.unwrap_or_else(|| {
        drafts.push(Draft { kind, axes, limits: Vec::new() });
        drafts.len() - 1
    });
    drafts[at].limit_at(limited, point).closed.push(place);
}

/// The fields of a closed load, except `connections` and `duration`. `None` if the number of connections changes within
/// the load.
fn kind(run: &Run, point: &Point) -> Option<Value> {
    let Some(Value::Object(written)) = run.scenario.get("loads").and_then(|loads| loads.get(&point.load))
    else {
        return Some(Value::Null);
    };
    let mut kind = written.clone();
    let levels = kind.remove("connections");
    kind.remove("duration");
    let is_constant = levels.is_none_or(|levels| levels.is_u64()) && !kind.contains_key("steps");
    is_constant.then_some(Value::Object(kind))
}

/// Splits the axes: returns the axes outside [`LIMIT_PATHS`], then the axes in it. Drops axes that set a number of
/// connections.
fn split(axes: &Axes) -> (Axes, Axes) {
    let is_connections = |path: &str| path.starts_with("loads.") && path.ends_with(".connections");
    let kept = axes.iter().filter(|(path, _)| !is_connections(path));
    let own = |(path, value): (&String, &Value)| (path.clone(), value.clone());
    let (limited, others): (Vec<_>, Vec<_>) =
        kept.map(own).partition(|(path, _)| LIMIT_PATHS.contains(&path.as_str()));
    (others.into_iter().collect(), limited.into_iter().collect())
}

/// The CPU and memory limits of the data plane at `point`. The CPU limit is the value of the axis `limits.data.cpus`;
/// without this axis, it is the sum over a gateway's data parts. The memory limit is always the sum over these parts.
fn data_limit(point: &Point) -> DataLimit {
    let data =
        |row: &'_ Row| row.parts.iter().filter(|part| part.role == Role::Data).cloned().collect::<Vec<_>>();
    let parts = point.gateways().map(data).find(|parts| !parts.is_empty()).unwrap_or_default();
    let started = || parts.iter().map(|part| part.limit_cpus).sum::<Option<f64>>().filter(|cpus| *cpus > 0.0);
    let memory = parts.iter().map(|part| part.limit_memory_bytes).sum::<Option<u64>>();
    DataLimit {
        cpus: point.axes.get("limits.data.cpus").and_then(Value::as_f64).or_else(started),
        memory_bytes: memory.filter(|bytes| *bytes > 0),
        ..DataLimit::default()
    }
}
