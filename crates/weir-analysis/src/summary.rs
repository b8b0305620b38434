//! Summary of a run: load points, findings, missing cells, and the overall result.

use serde::Serialize;
use weir_results::{ArrivalModel, Cell, CellKey, CellOutcome, DIRECT, DIRECT_TWIN, Run};

use crate::added::{self, AddedLatency, RigBias};
use crate::capacity::{Capacity, capacities};
use crate::experiments::{self, Experiment};
use crate::figures::noise;
use crate::findings::{self, Finding, FindingObjective, Former, Measured, expects_errors};
use crate::headroom::{self, Headroom};
use crate::points::Point;
use crate::points::baseline::added_latency;
use crate::points::conclusions::{by_reason, conclude};
use crate::points::gateways::{FailedCell, Gateway};
use crate::points::grouping::{Group, group};
use crate::points::host_speed::HostSpeed;
use crate::points::measured::Repeats;
use crate::points::objective::evaluate;
use crate::points::rows::{Context, row};
use crate::problems::{self, Outcome, Problem, ProblemKind};

/// All results of a run, computed from its cells.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Number of cells in the plan.
    pub cells_planned: usize,
    /// Number of cells that were measured.
    pub cells_measured: usize,
    /// Number of cells in which a load was measured again, because of host noise or a late generator.
    pub cells_measured_again: usize,
    /// Load points, in the order of axes and then of the scenario's loads.
    pub points: Vec<Point>,
    /// Results of capacity searches, in the order of axes and then of the scenario's loads.
    pub capacities: Vec<Capacity>,
    /// Throughput over several load points: by number of users, per core, and as share of the direct baseline.
    pub experiments: Vec<Experiment>,
    /// Added latency at each rate; `None` unless the run measures the direct baseline twice in each block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added: Option<AddedLatency>,
    /// Curves of latency against throughput, and the cost of connections, routes and route changes.
    pub headroom: Headroom,
    /// Results beyond single load points, for example of faults, route changes or capacity searches.
    pub findings: Vec<Finding>,
    /// Results of the objective for the finding metrics that it limits; empty if it limits none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finding_objectives: Vec<FindingObjective>,
    /// Copies of some findings in an older JSON form, for programs that still read this form.
    #[serde(flatten)]
    pub former: Former,
    /// The gateways under test in the scenario's order, the direct baseline last.
    pub gateways: Vec<Gateway>,
    /// Cells that could not be measured.
    pub failed: Vec<FailedCell>,
    /// Cells of the plan that did not run.
    pub not_run: Vec<CellKey>,
    /// The overall result, which decides the exit code.
    pub outcome: Outcome,
    #[serde(serialize_with = "problems::in_words")]
    problems: Vec<Problem>,
}

/// Summarizes the cells of a run.
pub(crate) fn summarize(run: &Run, cells: &[Cell]) -> Summary {
    let groups = group(run, cells);
    let mut points: Vec<Point> = groups.iter().map(|group| point(run, group)).collect();
    let has_open = points.iter().any(|point| point.model == ArrivalModel::Open);
    for (point, group) in points.iter_mut().zip(&groups) {
        let judges_latency = point.model == ArrivalModel::Open || !has_open;
        let is_one_of_several = headroom::is_one_of_several_rates(run, &point.load);
        for row in &mut point.rows {
            if run.manifest.repeats_were_added {
                row.allow_any_look();
            }
            if let Some(allowed) = run.thresholds.interval_share {
                noise::mark(row, allowed);
            }
            let objective = run.objective.as_ref().filter(|_| !is_one_of_several);
            let objective = objective.map(|all| all.of(&row.gateway, &point.axes, &point.load));
            let errors_default = (!expects_errors(group)).then_some(run.thresholds.error_share);
            row.objective = evaluate(objective.as_ref(), row, judges_latency, errors_default);
        }
        point.conclusions = conclude(point);
    }
    let experiments = experiments::find(run, &points);
    let failed: Vec<FailedCell> = cells.iter().filter_map(failed_cell).collect();
    let not_run: Vec<CellKey> = run.plan.iter().filter(|key| !ran(key, cells)).cloned().collect();
    let headroom = headroom::find(run, &groups, &points, &experiments);
    let capacities = capacities(run, cells);
    let added = added::find(run, &groups, &points);
    let (findings, former) = findings::find(&Measured {
        run,
        cells,
        groups: &groups,
        points: &points,
        capacities: &capacities,
        experiments: &experiments,
        added: added.as_ref(),
        headroom: &headroom,
    });
    let gateways = gateways(run, cells);
    let finding_objectives = run
        .objective
        .as_ref()
        .map_or_else(Vec::new, |objective| findings::objective::evaluate(objective, &findings, &gateways));
    let mut summary = Summary {
        cells_planned: run.plan.len(),
        cells_measured: cells.len() - failed.len(),
        cells_measured_again: cells.iter().filter(|cell| cell.attempts > 1).count(),
        gateways,
        finding_objectives,
        added,
        headroom,
        findings,
        former,
        experiments,
        points,
        capacities,
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
    /// Whether errors and overload are expected at this load point: curves include rates beyond the gateway's capacity,
    /// and faults cause errors on purpose.
    pub fn is_meant_to_break(&self, point: &Point) -> bool {
        let mut breaks = self.findings.iter().flat_map(|finding| &finding.breaks);
        self.headroom.has_point(point)
            || breaks.any(|place| place.axes == point.axes && place.load == point.load)
    }

    /// The problems behind [`Summary::outcome`]; empty if it is good.
    pub fn problems(&self) -> Vec<&str> {
        self.problems.iter().map(|problem| problem.words.as_str()).collect()
    }

    /// The problems with their kind.
    pub fn problems_by_kind(&self) -> impl Iterator<Item = (ProblemKind, &str)> {
        self.problems.iter().map(|problem| (problem.kind, problem.words.as_str()))
    }

    /// The problems, grouped by cause, in the order of first appearance.
    pub fn problems_by_cause(&self) -> Vec<(String, Vec<String>)> {
        by_reason(
            self.problems.iter().map(|problem| (problem.cause.clone(), problem.words.clone())).collect(),
        )
    }

    /// Names the load points where a gateway's latency is a headline but its added latency is not, because direct cells
    /// are invalid. `None` if there is no such load point. This does not count as a problem of the run.
    pub fn missing_added_latency(&self) -> Option<String> {
        added::for_want_of_direct(&self.points)
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
    let context = Context { model: group.model, direct, speed: HostSpeed::of(group) };
    let rows = group
        .rows
        .iter()
        .filter(|(gateway, _)| *gateway != DIRECT_TWIN)
        .map(|(gateway, repeats)| row(repeats, gateway, planned(gateway), &context))
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
    crate::points::grouping::gateway_names(run, cells)
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
