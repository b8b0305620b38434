//! A run in figures: gateways x axes x loads, each over its repeats.

use std::collections::BTreeMap;

use serde::Serialize;
use weir_results::{ArrivalModel, BoundBy, Cell, CellKey, CellOutcome, DIRECT, DIRECT_TWIN, Reason, Run};

use crate::added::{self, AddedLatency, RigBias};
use crate::baseline::{Added, RatioToDirect, added_latency};
use crate::capacity::{Capacity, capacities};
use crate::conclusions::{by_reason, conclude};
use crate::counts::RequestCounts;
use crate::cpu_range::CpuRange;
use crate::curve::CurvePoint;
use crate::domains::{self, ManyDomains};
use crate::errors::ErrorShare;
use crate::experiments::{self, Experiment};
use crate::faults::{self, Faults};
use crate::figure::Figure;
use crate::grouping::{Group, group};
use crate::headroom::{self, Headroom};
use crate::measured::Repeats;
use crate::new_connections::{self, NewConnections};
use crate::noise;
use crate::objective::{ObjectiveResult, evaluate};
use crate::part_use::PartUse;
use crate::problems::{self, Outcome, Problem, ProblemKind};
use crate::quantity::{counted, rate};
use crate::slow::{self, SlowCost};

/// Axes of a point: values by their path in the scenario.
pub type Axes = BTreeMap<String, serde_json::Value>;

/// Everything that a run says, computed from its cells.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Cells of the plan.
    pub cells_planned: usize,
    /// Cells that were measured.
    pub cells_measured: usize,
    /// Of these, cells with a load that was measured more than once, because the host disturbed it or its generator sent late.
    pub cells_measured_again: usize,
    /// Load points, in the order of axes and then of the scenario's loads.
    pub points: Vec<Point>,
    /// What searches for the capacity at an objective found, in the order of axes and then of the scenario's loads.
    pub capacities: Vec<Capacity>,
    /// What points say together: more users, more cores, and the share of direct.
    pub experiments: Vec<Experiment>,
    /// What gateways add at each rate, where direct cells have a twin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added: Option<AddedLatency>,
    /// What gateways carry with what they are configured for, and how they start; where starts are measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domains: Option<ManyDomains>,
    /// Curves of latency over throughput, and what connections, routes and changes of routes cost.
    pub headroom: Headroom,
    /// How many new connections gateways take, of loads whose connections end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub new_connections: Vec<NewConnections>,
    /// What slow clients beside loads cost.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slow: Vec<SlowCost>,
    /// What clients noticed of faults of the upstream, where it had some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faults: Option<Faults>,
    /// The systems under test, in the scenario's order, the direct baseline last.
    pub gateways: Vec<Gateway>,
    /// Cells that could not be measured.
    pub failed: Vec<FailedCell>,
    /// Cells of the plan that have not run.
    pub not_run: Vec<CellKey>,
    /// What the run comes to.
    pub outcome: Outcome,
    #[serde(serialize_with = "problems::in_words")]
    problems: Vec<Problem>,
}

/// One load at one point of the axes, with every gateway that was put through it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Values of the axes.
    pub axes: Axes,
    /// The load's name.
    pub load: String,
    /// Its arrival model.
    pub model: ArrivalModel,
    /// Connections of the generator.
    pub connections: u32,
    /// Asked rate (open loop).
    pub rate_per_s: Option<f64>,
    /// One row per gateway, in the scenario's order, the direct baseline last.
    pub rows: Vec<Row>,
    /// How far the direct baseline and its twin are apart; `None` without a twin, and in closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bias: Option<RigBias>,
    /// Sentences that the figures imply.
    pub conclusions: Vec<String>,
}

/// A gateway, or the direct baseline, at a load point.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// The gateway's name, or [`DIRECT`].
    pub gateway: String,
    /// Repeats that the plan holds.
    pub planned: usize,
    /// Whole responses per second.
    pub throughput_per_s: Figure,
    /// Latency in nanoseconds by name, in the order of [`LATENCIES`].
    pub latency_ns: Vec<(String, Figure)>,
    /// Latency by quantile over the valid repeats together; over all of them where none is valid.
    pub latency_curve: Vec<CurvePoint>,
    /// Share of errors of the scheduled.
    pub error_share: Figure,
    /// The same of each repeat, with how much of it is the gateway's fault whatever else is wrong with the repeat.
    pub errors: Vec<ErrorShare>,
    /// Cores used by the data plane.
    pub cpu_cores: Figure,
    /// Cores used over the limit.
    pub cpu_share_of_limit: Figure,
    /// The least and greatest of these shares in a second.
    pub cpu_share_range: Option<CpuRange>,
    /// Requests and fails of all measured repeats.
    pub requests: RequestCounts,
    /// CPU time of the data plane per completed request, microseconds.
    pub cpu_us_per_request: Figure,
    /// CPU time of upstream and load generator together per completed request, microseconds: what is the same work with
    /// every gateway tells how fast the host was.
    pub rig_cpu_us_per_request: Figure,
    /// Memory of the data plane without page cache, mean over the phase, bytes.
    pub memory_bytes_mean: Figure,
    /// The greatest such, bytes.
    pub memory_bytes_peak: Figure,
    /// Added over direct in the same repeat.
    pub added_latency_ns: Vec<(String, Added)>,
    /// Throughput over direct in the same repeat; closed loop only.
    pub ratio_to_direct: Option<RatioToDirect>,
    /// Headlines that conclusions would be drawn from, were their intervals not wider than the scenario allows; each
    /// with its figures in words.
    pub noisy: Vec<String>,
    /// What bounds each measured repeat.
    pub bound_by: Vec<(u32, BoundBy)>,
    /// The objective, where the scenario has one.
    pub objective: Vec<ObjectiveResult>,
    /// Use of every part of the rig, over the measured repeats.
    pub parts: Vec<PartUse>,
}

/// A system under test as it was launched.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gateway {
    /// Its name in the scenario, or [`DIRECT`].
    pub name: String,
    /// Its parts, from its first measured cell.
    pub parts: Vec<weir_results::Part>,
    /// What could not be made equal.
    pub unequal: Vec<String>,
}

/// A cell that could not be measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct FailedCell {
    pub key: CellKey,
    pub cause: String,
    pub message: String,
    pub remedy: String,
    pub log_tail: String,
}

/// The latency figures of a row, in this order.
pub const LATENCIES: [&str; 13] =
    ["min", "mean", "p50", "p66", "p75", "p80", "p90", "p95", "p98", "p99", "p999", "p9999", "max"];

/// Summarizes the cells of a run.
pub fn summarize(run: &Run, cells: &[Cell]) -> Summary {
    let groups = group(run, cells);
    let mut points: Vec<Point> = groups.iter().map(|group| point(run, group)).collect();
    let has_open = points.iter().any(|point| point.model == ArrivalModel::Open);
    for (point, group) in points.iter_mut().zip(&groups) {
        let judges_latency = point.model == ArrivalModel::Open || !has_open;
        let is_one_of_several = headroom::is_one_of_several_rates(run, &point.load);
        for row in &mut point.rows {
            if let Some(allowed) = run.thresholds.interval_share {
                noise::void(row, allowed);
            }
            let objective = run.objective.as_ref().filter(|_| !is_one_of_several);
            let objective = objective.map(|all| all.of(&row.gateway, &point.axes, &point.load));
            // Faults of the upstream are there to bring errors about.
            let errors_default = (!faults::has_some(group)).then_some(run.thresholds.error_share);
            row.objective = evaluate(objective.as_ref(), row, judges_latency, errors_default);
        }
        point.conclusions = conclude(point);
    }
    let experiments = experiments::find(run, &points);
    let failed: Vec<FailedCell> = cells.iter().filter_map(failed_cell).collect();
    let not_run: Vec<CellKey> = run.plan.iter().filter(|key| !ran(key, cells)).cloned().collect();
    let mut summary = Summary {
        cells_planned: run.plan.len(),
        cells_measured: cells.len() - failed.len(),
        cells_measured_again: cells.iter().filter(|cell| cell.attempts > 1).count(),
        gateways: gateways(run, cells),
        added: added::find(run, &groups, &points),
        domains: domains::find(run, cells, &groups, &points),
        headroom: headroom::find(run, &groups, &points, &experiments),
        new_connections: new_connections::find(run, &groups, &points),
        slow: slow::find(&groups),
        faults: faults::find(&groups),
        experiments,
        points,
        capacities: capacities(run, cells),
        failed,
        not_run,
        outcome: Outcome::Good,
        problems: Vec::new(),
    };
    summary.problems = problems::find(&summary);
    summary.outcome = Outcome::of(&summary.problems);
    summary
}

impl Summary {
    /// Why [`Summary::outcome`] is not good; empty is good.
    pub fn problems(&self) -> Vec<&str> {
        self.problems.iter().map(|problem| problem.words.as_str()).collect()
    }

    /// The same, each with its kind.
    pub fn problems_by_kind(&self) -> impl Iterator<Item = (ProblemKind, &str)> {
        self.problems.iter().map(|problem| (problem.kind, problem.words.as_str()))
    }

    /// Words of the problems by cause, in the order in which each cause is first met.
    pub fn problems_by_cause(&self) -> Vec<(String, Vec<String>)> {
        by_reason(
            self.problems.iter().map(|problem| (problem.cause.clone(), problem.words.clone())).collect(),
        )
    }

    /// Where added latency is missing although the gateways' own repeats count, in a sentence; no problem of the run.
    pub fn missing_added_latency(&self) -> Option<String> {
        added::for_want_of_direct(&self.points)
    }
}

impl Point {
    /// The axes in words: `limits.data.cpus = 0.5`; empty without axes.
    pub fn axes_words(&self) -> String {
        axes_words(&self.axes)
    }

    /// Model, connections and axes in words: `closed, 10 connections; limits.data.cpus = 0.5`.
    pub fn setting(&self) -> String {
        let connections = counted(self.connections.into(), "connection");
        let load = match (self.model, self.rate_per_s) {
            (ArrivalModel::Closed, _) => format!("closed, {connections}"),
            (ArrivalModel::Open, Some(per_s)) => format!("open, {}, {connections}", rate(per_s)),
            (ArrivalModel::Open, None) => format!("open, {connections}"),
        };
        if self.axes.is_empty() { load } else { format!("{load}; {}", self.axes_words()) }
    }

    /// The load and its setting in words: `full (closed, 10 connections)`.
    pub fn words(&self) -> String {
        format!("{} ({})", self.load, self.setting())
    }

    /// The gateways, without the direct baseline.
    pub fn gateways(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| !row.is_direct())
    }

    /// The direct baseline.
    pub fn direct(&self) -> Option<&Row> {
        self.rows.iter().find(|row| row.is_direct())
    }
}

impl Row {
    /// Whether it is the direct baseline.
    pub fn is_direct(&self) -> bool {
        self.gateway == DIRECT
    }

    /// The latency figure of that name.
    pub fn latency(&self, name: &str) -> Option<&Figure> {
        self.latency_ns.iter().find(|(known, _)| known == name).map(|(_, figure)| figure)
    }

    /// What it adds to the latency of that name, beside the direct baseline.
    pub fn added_latency(&self, name: &str) -> Option<&Figure> {
        self.added_latency_ns.iter().find(|(known, _)| known == name).map(|(_, figure)| figure)
    }

    /// Every reason that voids something, with the number of repeats.
    pub fn reasons(&self) -> Vec<(Reason, usize)> {
        let mut all = self.throughput_per_s.reasons();
        for (reason, n) in self.latency("p50").map(Figure::reasons).unwrap_or_default() {
            if !all.iter().any(|(known, _)| *known == reason) {
                all.push((reason, n));
            }
        }
        all.sort();
        all
    }

    /// What bounds the repeats, with the number of repeats each, the most frequent first.
    pub fn bounds(&self) -> Vec<(BoundBy, usize)> {
        let mut counted: Vec<(BoundBy, usize)> = Vec::new();
        for (_, bound) in &self.bound_by {
            match counted.iter_mut().find(|(known, _)| known == bound) {
                Some((_, n)) => *n += 1,
                None => counted.push((*bound, 1)),
            }
        }
        counted.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        counted
    }
}

/// The axes in words: `limits.data.cpus = 0.5`.
pub fn axes_words(axes: &Axes) -> String {
    let value = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    axes.iter().map(|(path, at)| format!("{path} = {}", value(at))).collect::<Vec<_>>().join(", ")
}

/// A name with its axes: `weir (limits.data.cpus = 0.5)`.
pub(crate) fn with_axes(name: &str, axes: &Axes) -> String {
    match axes_words(axes) {
        words if words.is_empty() => name.to_owned(),
        words => format!("{name} ({words})"),
    }
}

/// The bound's name in reports, as in the JSON.
pub fn bound_name(bound: BoundBy) -> &'static str {
    match bound {
        BoundBy::Gateway => "gateway",
        BoundBy::Upstream => "upstream",
        BoundBy::Generator => "generator",
        BoundBy::Host => "host",
        BoundBy::Concurrency => "concurrency",
        BoundBy::Rate => "rate",
    }
}

fn point(run: &Run, group: &Group<'_>) -> Point {
    let none = Repeats::default();
    let direct = group.repeats(DIRECT).unwrap_or(&none);
    let open = group.model == ArrivalModel::Open;
    let twin = group.repeats(DIRECT_TWIN).filter(|_| open);
    let planned = |gateway: &str| {
        let same = |key: &&CellKey| key.gateway == gateway && key.axes == *group.axes;
        run.plan.iter().filter(same).count()
    };
    let rows = group
        .rows
        .iter()
        .filter(|(gateway, _)| *gateway != DIRECT_TWIN)
        .map(|(gateway, repeats)| repeats.row(gateway, planned(gateway), group.model, direct))
        .collect();
    Point {
        axes: group.axes.clone(),
        load: group.load.to_owned(),
        model: group.model,
        connections: group.connections,
        rate_per_s: group.rate_per_s,
        rows,
        bias: twin.map(|twin| RigBias { difference_ns: added_latency(twin, direct, open) }),
        conclusions: Vec::new(),
    }
}

fn failed_cell(cell: &Cell) -> Option<FailedCell> {
    let CellOutcome::Failed { cause, message, remedy, log_tail } = &cell.outcome else { return None };
    Some(FailedCell {
        key: cell.key.clone(),
        cause: cause.clone(),
        message: message.clone(),
        remedy: remedy.clone(),
        log_tail: log_tail.clone(),
    })
}

fn ran(key: &CellKey, cells: &[Cell]) -> bool {
    cells.iter().any(|cell| {
        cell.key.gateway == key.gateway && cell.key.repeat == key.repeat && cell.key.axes == key.axes
    })
}

fn gateways(run: &Run, cells: &[Cell]) -> Vec<Gateway> {
    let launched = |name: &str| {
        let of_name = || cells.iter().filter(|cell| cell.key.gateway == name);
        let measured = of_name().find(|cell| matches!(cell.outcome, CellOutcome::Measured { .. }));
        measured.or_else(|| of_name().next())
    };
    crate::grouping::gateway_names(run, cells)
        .into_iter()
        .map(|name| {
            let cell = launched(&name);
            Gateway {
                parts: cell.map(|cell| cell.parts.clone()).unwrap_or_default(),
                unequal: cell.map(|cell| cell.unequal.clone()).unwrap_or_default(),
                name,
            }
        })
        .collect()
}
