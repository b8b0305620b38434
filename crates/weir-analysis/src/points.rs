//! Load points. A load point is one load with one value of each axis, and has a row of values per gateway.

pub(crate) mod axes;
pub(crate) mod baseline;
pub(crate) mod conclusions;
pub(crate) mod gateways;
pub(crate) mod grouping;
pub(crate) mod host_speed;
pub(crate) mod measured;
pub(crate) mod objective;
pub(crate) mod rows;
pub(crate) mod scaling;
pub(crate) mod tails;

use serde::Serialize;
use weir_results::{ArrivalModel, BoundBy, DIRECT, Reason};

use crate::added::RigBias;
use crate::figures::counts::RequestCounts;
use crate::figures::cpu_range::CpuRange;
use crate::figures::curve::CurvePoint;
use crate::figures::errors::ErrorShare;
use crate::figures::figure::Figure;
use crate::figures::part_use::PartUse;
use crate::figures::quantity::{counted, rate};
use crate::points::axes::{Axes, axes_words};
use crate::points::baseline::{Added, RatioToDirect};
use crate::points::objective::ObjectiveResult;
use crate::points::tails::ShortTail;

/// One load with one value of each axis, and a row for each gateway.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Values of the axes.
    pub axes: Axes,
    /// The load's name.
    pub load: String,
    /// The load's arrival model.
    pub model: ArrivalModel,
    /// Number of connections of the load generator.
    pub connections: u32,
    /// Offered rate in an open loop, requests per second.
    pub rate_per_s: Option<f64>,
    /// One row per gateway, in the scenario's order, the direct baseline last.
    pub rows: Vec<Row>,
    /// Difference between the direct baseline and its twin, a second identical cell. `None` without a twin, and in a
    /// closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bias: Option<RigBias>,
    /// Conclusions, one sentence each.
    pub conclusions: Vec<String>,
}

/// A gateway, or the direct baseline, at a load point.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// The gateway's name, or [`DIRECT`].
    pub gateway: String,
    /// Number of planned repeats.
    pub planned: usize,
    /// Complete responses per second.
    pub throughput_per_s: Figure,
    /// Latency in nanoseconds by name, in the order of [`crate::LATENCIES`].
    pub latency_ns: Vec<(String, Figure)>,
    /// Quantiles that are not headlines, because too few seconds contain requests slower than the quantile.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub short_tails: Vec<ShortTail>,
    /// Latency by quantile, from all valid repeats together, or from all repeats if none is valid.
    pub latency_curve: Vec<CurvePoint>,
    /// Errors divided by scheduled requests, 0 to 1.
    pub error_share: Figure,
    /// Error share of each repeat, with bounds of the share that the gateway caused.
    pub errors: Vec<ErrorShare>,
    /// Cores used by the data plane.
    pub cpu_cores: Figure,
    /// Cores used by the data plane divided by its CPU limit.
    pub cpu_share_of_limit: Figure,
    /// Minimum and maximum of `cpu_share_of_limit` in single seconds.
    pub cpu_share_range: Option<CpuRange>,
    /// Numbers of requests and failures in all measured repeats.
    pub requests: RequestCounts,
    /// CPU time of the data plane per completed request, microseconds.
    pub cpu_us_per_request: Figure,
    /// CPU time of upstream and load generator per completed request, microseconds. Both do the same work with every
    /// gateway, so this value shows how fast the host was.
    pub rig_cpu_us_per_request: Figure,
    /// Memory of the data plane without page cache, bytes: the mean of the phase.
    pub memory_bytes_mean: Figure,
    /// Peak memory of the data plane without page cache, bytes.
    pub memory_bytes_peak: Figure,
    /// Latency minus the latency of the direct baseline in the same repeat.
    pub added_latency_ns: Vec<(String, Added)>,
    /// Throughput divided by the throughput of the direct baseline in the same repeat; `None` in an open loop.
    pub ratio_to_direct: Option<RatioToDirect>,
    /// Values that are excluded from headlines because their interval is wider than the scenario allows, each in words.
    pub noisy: Vec<String>,
    /// For each measured repeat: its number, and what limited the load.
    pub bound_by: Vec<(u32, BoundBy)>,
    /// Results of the objective, one per limit; empty without an objective.
    pub objective: Vec<ObjectiveResult>,
    /// Resource use of every part of the rig in the measured repeats.
    pub parts: Vec<PartUse>,
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

    /// The row of `gateway`, if it has one.
    pub(crate) fn row(&self, gateway: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.gateway == gateway)
    }

    /// The row of the direct baseline, if it was measured.
    pub fn direct(&self) -> Option<&Row> {
        self.rows.iter().find(|row| row.is_direct())
    }
}

impl Row {
    /// Whether this is the row of the direct baseline.
    pub fn is_direct(&self) -> bool {
        self.gateway == DIRECT
    }

    /// The latency with this name.
    pub fn latency(&self, name: &str) -> Option<&Figure> {
        self.latency_ns.iter().find(|(known, _)| known == name).map(|(_, figure)| figure)
    }

    /// The added latency with this name.
    pub fn added_latency(&self, name: &str) -> Option<&Figure> {
        self.added_latency_ns.iter().find(|(known, _)| known == name).map(|(_, figure)| figure)
    }

    /// Widens the intervals, so that they hold even if the values are evaluated after every added repeat.
    pub(crate) fn allow_any_look(&mut self) {
        let latencies =
            self.latency_ns.iter_mut().chain(&mut self.added_latency_ns).map(|(_, figure)| figure);
        let others = [
            &mut self.throughput_per_s,
            &mut self.cpu_cores,
            &mut self.cpu_share_of_limit,
            &mut self.cpu_us_per_request,
            &mut self.rig_cpu_us_per_request,
            &mut self.memory_bytes_mean,
            &mut self.memory_bytes_peak,
        ];
        let ratio = self.ratio_to_direct.iter_mut().map(|to_direct| &mut to_direct.ratio);
        latencies.chain(others).chain(ratio).for_each(|figure| *figure = figure.at_any_look());
    }

    /// The reasons that make throughput or p50 invalid, each with its number of repeats.
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

    /// What limited the repeats: each limit with its number of repeats, most frequent first.
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

/// The bottleneck's name in reports and in the JSON.
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
