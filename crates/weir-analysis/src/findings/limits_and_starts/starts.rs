//! Starts of gateways: time and CPU time until the first 200 response, and memory before any load.

use std::cmp::Ordering;

use serde::Serialize;
use serde_json::Value;
use weir_results::{Cell, CellOutcome, ColdStart, FileKind, Reason, Role, Run, Thresholds};

use super::{by_limit, limit_cpus, without_limit};
use crate::figures::figure::{Figure, Repeated, Sample};
use crate::points::axes::Axes;
use crate::points::grouping::{compare_axes, gateway_names};

/// The scenario field with the number of domains.
const DOMAINS: &str = "topology.domains";
/// The prefix of all scenario fields of the topology.
const TOPOLOGY: &str = "topology.";

/// Prefix of the names of the gateway's own files in a cell.
const GATEWAY_FOLDER: &str = "gateway/";

/// Starts of gateways at all CPU limits, for one combination of values of the other axes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Starts {
    /// Values of all axes except the CPU limit.
    pub axes: Axes,
    /// Gateways in the scenario's order, each with ascending CPU limits.
    pub rows: Vec<StartRow>,
}

/// Starts of a gateway at one CPU limit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StartRow {
    /// The gateway's name.
    pub gateway: String,
    /// CPU limit of the data plane, cores; `None` without a limit.
    pub limit_cpus: Option<f64>,
    /// Time from the launch of the gateway's first process to the first 200 response, nanoseconds.
    pub first_answer_ns: Figure,
    /// CPU time of the data plane until the first 200 response, seconds.
    pub cpu_s: Figure,
    /// Memory of the data plane before any load, without page cache, bytes.
    pub memory_bytes: Figure,
    /// `memory_bytes` minus the memory of the same gateway with one domain in the same repeat; `None` if the run has no
    /// such cell.
    pub configuration_memory_bytes: Option<Figure>,
    /// Total size of the gateway's configuration files, bytes; `None` if there are none.
    pub configuration_bytes: Option<u64>,
}

/// Finds all starts, grouped by the values of all axes except the CPU limit.
pub(super) fn find(run: &Run, cells: &[Cell]) -> Vec<Starts> {
    let mut axes: Vec<Axes> = cells.iter().map(|cell| without_limit(&cell.key.axes)).collect();
    axes.sort_by(compare_axes);
    axes.dedup();
    let names = gateway_names(run, cells);
    let at = |axes: Axes| {
        let rows = names.iter().flat_map(|gateway| rows(run, cells, &axes, gateway)).collect();
        Starts { axes, rows }
    };
    axes.into_iter().map(at).filter(|starts| !starts.rows.is_empty()).collect()
}

fn rows(run: &Run, cells: &[Cell], axes: &Axes, gateway: &str) -> Vec<StartRow> {
    let mut started: Vec<Started<'_>> = cells
        .iter()
        .filter(|cell| cell.key.gateway == gateway && without_limit(&cell.key.axes) == *axes)
        .filter_map(Started::of)
        .collect();
    started.sort_by(|a, b| a.order(b));
    let limits = started.chunk_by(|a, b| limit_cpus(a.cell) == limit_cpus(b.cell));
    limits.map(|repeats| row(run, cells, gateway, repeats)).collect()
}

fn row(run: &Run, cells: &[Cell], gateway: &str, repeats: &[Started<'_>]) -> StartRow {
    let thresholds = &run.thresholds;
    let repeated = |of: &dyn Fn(&Started<'_>) -> Option<f64>| {
        let one = |started: &Started<'_>| Repeated {
            repeat: started.cell.key.repeat,
            sample: of(started).into(),
            reasons: started.reasons(thresholds),
            ..Repeated::default()
        };
        Figure::of(repeats.iter().map(one).collect()).headline_if(true)
    };
    StartRow {
        gateway: gateway.to_owned(),
        limit_cpus: repeats.first().and_then(|started| limit_cpus(started.cell)),
        first_answer_ns: repeated(&|started| Some(started.start.first_answer_ns as f64)),
        cpu_s: repeated(&|started| started.start.cpu_s.map(|cpu_s| cpu_s.total())),
        memory_bytes: repeated(&|started| started.memory_bytes()),
        configuration_memory_bytes: configuration(run, cells, repeats),
        configuration_bytes: repeats.first().and_then(|started| files_bytes(started.cell)),
    }
}

/// The additional memory of several domains compared with one domain; see [`StartRow::configuration_memory_bytes`].
fn configuration(run: &Run, cells: &[Cell], repeats: &[Started<'_>]) -> Option<Figure> {
    let pair = |started: &Started<'_>| {
        let one = cells.iter().find(|cell| is_with_one_domain(run, cell, started.cell))?;
        let one = Started::of(one)?;
        let more = started.memory_bytes().zip(one.memory_bytes()).map(|(many, one)| many - one);
        let mut reasons = started.reasons(&run.thresholds);
        reasons.extend(one.reasons(&run.thresholds));
        reasons.sort();
        reasons.dedup();
        Some(Repeated {
            repeat: started.cell.key.repeat,
            sample: Sample::from(more),
            reasons,
            ..Repeated::default()
        })
    };
    let pairs: Vec<Repeated> = repeats.iter().filter_map(pair).collect();
    (!pairs.is_empty()).then(|| Figure::of_difference(pairs).headline_if(true))
}

/// Whether `cell` has one domain and `many` has several. Both must have the same gateway and repeat. Their axes may
/// differ only in the topology.
fn is_with_one_domain(run: &Run, cell: &Cell, many: &Cell) -> bool {
    let others = |axes: &Axes| -> Axes {
        let kept = axes.iter().filter(|(path, _)| !path.starts_with(TOPOLOGY));
        kept.map(|(path, value)| (path.clone(), value.clone())).collect()
    };
    let domains = |axes: &Axes| {
        let written = || run.scenario.pointer("/topology/domains");
        axes.get(DOMAINS).or_else(written).and_then(Value::as_u64).unwrap_or(1)
    };
    (&cell.key.gateway, cell.key.repeat) == (&many.key.gateway, many.key.repeat)
        && domains(&cell.key.axes) == 1
        && domains(&many.key.axes) > 1
        && others(&cell.key.axes) == others(&many.key.axes)
}

fn files_bytes(cell: &Cell) -> Option<u64> {
    let is_own = |name: &str| name.starts_with(GATEWAY_FOLDER);
    let files =
        || cell.files.iter().filter(|file| file.kind == FileKind::Configuration && is_own(&file.name));
    files().next()?;
    Some(files().map(|file| file.bytes).sum())
}

/// A measured cell with its start.
#[derive(Clone, Copy)]
struct Started<'a> {
    cell: &'a Cell,
    start: &'a ColdStart,
}

impl<'a> Started<'a> {
    fn of(cell: &'a Cell) -> Option<Self> {
        let is_measured = matches!(cell.outcome, CellOutcome::Measured { .. });
        Some(Self { cell, start: cell.cold_start.as_ref().filter(|_| is_measured)? })
    }

    fn memory_bytes(&self) -> Option<f64> {
        self.start.memory_bytes.map(|bytes| bytes as f64)
    }

    /// Why the values of this start are invalid; empty if they are valid.
    fn reasons(&self, thresholds: &Thresholds) -> Vec<Reason> {
        let is_disturbed = self.start.host.is_some_and(|host| host.taken() > thresholds.disturbed_share);
        let mut data = self.cell.parts.iter().filter(|part| part.role == Role::Data);
        let is_unlimited = !data.all(|part| part.limits_applied);
        let reasons = [(Reason::HostNoise, is_disturbed), (Reason::LimitNotApplied, is_unlimited)];
        reasons.into_iter().filter_map(|(reason, holds)| holds.then_some(reason)).collect()
    }

    fn order(&self, other: &Self) -> Ordering {
        by_limit(limit_cpus(self.cell), limit_cpus(other.cell))
            .then_with(|| self.cell.key.repeat.cmp(&other.cell.key.repeat))
    }
}
