//! Datasets of a comparison: a stored run, or the results of another program.

use std::borrow::Cow;

use weir_results::{ArrivalModel, CONTROL, Cell, DIRECT, Part, Reason, Role, Run};

use super::measure::Measure;
use crate::control::without_control;
use crate::figures::curve::CurvePoint;
use crate::figures::figure::{Figure, Repeated};
use crate::findings::{self, Table, Value};
use crate::points::axes::{Axes, axes_words};
use crate::points::gateways::{FailedCell, Gateway};
use crate::points::{Point, Row};
use crate::summary::summarize;

/// One of the two datasets of a comparison.
#[derive(Clone, Debug)]
pub struct Dataset {
    /// Name of the dataset in tables.
    pub label: String,
    /// Where the data comes from.
    pub source: Source,
    /// A series for each gateway at each load point.
    pub series: Vec<Series>,
}

/// Where the data of a dataset comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A run of weir.
    Run(Box<RunSource>),
    /// Files of another program, which state no test conditions.
    Foreign {
        /// The program: `Locust`.
        program: &'static str,
        /// The files, as named on the command line.
        files: Vec<String>,
        /// Notes about how the files were read: units, skipped data.
        notes: Vec<String>,
        /// Warnings about the data, such as failed requests.
        warnings: Vec<String>,
    },
}

/// A run, and which of its gateways are compared.
#[derive(Clone, Debug)]
pub struct RunSource {
    /// The whole run.
    pub run: Run,
    /// The only compared gateway, if one was named.
    pub gateway: Option<String>,
    /// The run's gateways and its direct baseline, as they were launched.
    pub gateways: Vec<Gateway>,
    /// Number of cells of the plan that were not measured.
    pub cells_missing: usize,
    /// Cells of the run that failed.
    pub failed: Vec<FailedCell>,
}

/// The values of a gateway at a load point, from all its repeats.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// The gateway's name, or [`DIRECT`]; empty if unknown.
    pub gateway: String,
    /// Values of the axes.
    pub axes: Axes,
    /// The load's name; empty for a single unnamed load.
    pub load: String,
    /// The load's parameters; `None` if unknown.
    pub load_point: Option<LoadPoint>,
    /// All measured metrics with their values.
    pub figures: Vec<(Measure, Figure)>,
    /// CPU time per request of upstream and load generator, which do the same work with every gateway.
    pub rig_cpu: Figure,
    /// Measures that get no verdict in this load.
    pub not_for: Vec<Measure>,
    /// Latency by quantile, from all repeats together.
    pub curve: Vec<CurvePoint>,
}

/// Parameters of a load. CPU time per request is compared only at equal parameters (`docs/method.md#cpu`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadPoint {
    /// Arrival model of the load.
    pub model: ArrivalModel,
    /// Number of connections of the load generator.
    pub connections: u32,
    /// Offered rate in an open loop, requests per second.
    pub rate_per_s: Option<f64>,
}

/// Gives A and B labels that differ. Two runs are labelled with their versions if these differ, else with their
/// gateways, else with their ids. If one dataset comes from files, the folder is removed from both labels, unless the
/// labels would then be equal.
pub fn label_apart(a: &mut Dataset, b: &mut Dataset) {
    let (Source::Run(of_a), Source::Run(of_b)) = (&a.source, &b.source) else {
        let short = |label: &str| label.rsplit('/').next().unwrap_or(label).to_owned();
        let (of_a, of_b) = (short(&a.label), short(&b.label));
        if of_a != of_b {
            (a.label, b.label) = (of_a, of_b);
        }
        return;
    };
    let gateway = |of: &RunSource| of.gateway.clone();
    let labels = [
        of_a.version().zip(of_b.version()),
        gateway(of_a).zip(gateway(of_b)),
        Some((of_a.run.id.clone(), of_b.run.id.clone())),
    ];
    if let Some((of_a, of_b)) = labels.into_iter().flatten().find(|(a, b)| a != b) {
        (a.label, b.label) = (of_a, of_b);
    }
}

impl Dataset {
    /// Creates a dataset from a run, or from one of its gateways and the direct baseline. The positive control is
    /// compared only if `gateway` names it.
    ///
    /// # Errors
    /// The existing names, if no gateway has the requested name.
    pub fn of_run(run: &Run, cells: &[Cell], gateway: Option<&str>) -> Result<Self, Vec<String>> {
        let (run, cells) = match gateway {
            Some(CONTROL) => (Cow::Borrowed(run), Cow::Borrowed(cells)),
            _ => without_control(run, cells),
        };
        let (run, cells) = (run.as_ref(), cells.as_ref());
        let summary = summarize(run, cells);
        let names = summary.gateways.iter().map(|gateway| gateway.name.clone());
        let names: Vec<String> = names.filter(|name| name != DIRECT).collect();
        if gateway.is_some_and(|wanted| !names.iter().any(|name| name == wanted)) {
            return Err(names);
        }
        let has_open = summary.points.iter().any(|point| point.model == ArrivalModel::Open);
        let is_meant = |name: &str| gateway.is_none_or(|wanted| name == wanted);
        let is_shown = |row: &&Row| row.is_direct() || is_meant(&row.gateway);
        let of_point = |point: &Point| {
            point.rows.iter().filter(is_shown).map(|row| Series::of(point, row, has_open)).collect()
        };
        let mut series: Vec<Series> = summary.points.iter().flat_map::<Vec<Series>, _>(of_point).collect();
        // Tables of findings also contain rows of the rig, which are not compared.
        let is_one = |name: &str| summary.gateways.iter().any(|gateway| gateway.name == name);
        let is_compared = |row: &&findings::Row| is_meant(&row.gateway) && is_one(&row.gateway);
        for table in summary.findings.iter().flat_map(|finding| &finding.tables) {
            table.rows.iter().filter(is_compared).for_each(|row| add(&mut series, table, row));
        }
        let label = match gateway {
            Some(gateway) => gateway.to_owned(),
            None => run.id.clone(),
        };
        let source = RunSource {
            run: run.clone(),
            gateway: gateway.map(str::to_owned),
            cells_missing: summary.cells_planned.saturating_sub(summary.cells_measured),
            gateways: summary.gateways,
            failed: summary.failed,
        };
        Ok(Self { label, source: Source::Run(Box::new(source)), series })
    }

    /// The run that the data comes from; `None` for files of another program.
    pub(super) fn run(&self) -> Option<&RunSource> {
        match &self.source {
            Source::Run(run) => Some(run),
            Source::Foreign { .. } => None,
        }
    }

    /// The gateways' series, without the direct baseline.
    pub(super) fn own(&self) -> impl Iterator<Item = &Series> {
        self.series.iter().filter(|series| series.gateway != DIRECT)
    }

    /// The direct baseline at the load point of the series `of`.
    pub(super) fn direct(&self, of: &Series) -> Option<&Series> {
        self.series
            .iter()
            .find(|series| series.gateway == DIRECT && series.axes == of.axes && series.load == of.load)
    }
}

impl RunSource {
    /// The parts of a gateway, or of the direct baseline.
    pub(super) fn parts(&self, gateway: &str) -> &[Part] {
        let found = self.gateways.iter().find(|known| known.name == gateway);
        found.map(|known| known.parts.as_slice()).unwrap_or_default()
    }

    /// Whether a cell failed at these values of the axes. Checks the selected gateway, or `gateway` if none is
    /// selected.
    pub(super) fn has_failed(&self, gateway: &str, axes: &Axes) -> bool {
        let gateway = self.gateway.as_deref().unwrap_or(gateway);
        self.failed.iter().any(|cell| cell.key.gateway == gateway && cell.key.axes == *axes)
    }

    /// `nginx 1.22.1`: the only compared gateway, with its version; `None` if there are several.
    fn version(&self) -> Option<String> {
        let is_meant = |known: &&Gateway| match &self.gateway {
            Some(wanted) => known.name == *wanted,
            None => known.name != DIRECT,
        };
        let mut meant = self.gateways.iter().filter(is_meant);
        let (gateway, None) = (meant.next()?, meant.next()) else { return None };
        let version = gateway.parts.iter().find(|part| part.role == Role::Data)?.version.trim();
        (!version.is_empty()).then(|| format!("{} {version}", gateway.name))
    }
}

impl Series {
    /// Creates the series of a row. If the run has open loads (`has_open`), closed loads get no verdict on latency.
    pub(crate) fn of(point: &Point, row: &Row, has_open: bool) -> Self {
        let is_open = point.model == ArrivalModel::Open;
        let latency = |measure: Measure| match measure {
            Measure::Latency(name) => row.latency(name).cloned(),
            _ => None,
        };
        let mut figures = vec![(Measure::Throughput, row.throughput_per_s.clone())];
        if !row.is_direct() {
            let cpu = &row.cpu_us_per_request;
            let cpu = match row.latency("p50") {
                Some(p50) if is_open => at_the_load_point(cpu, p50),
                _ => cpu.clone(),
            };
            figures.push((Measure::CpuPerRequest, cpu));
        }
        figures.extend(Measure::all().filter_map(|measure| Some((measure, latency(measure)?))));
        let is_latency = |measure: &Measure| matches!(measure, Measure::Latency(_));
        let not_for = match is_open {
            // In a closed loop, latency depends on the number of connections (`docs/method.md#tails`).
            false if has_open => Measure::all().filter(is_latency).collect(),
            false => Vec::new(),
            // The throughput of an open load is the offered rate, unless the gateway was overloaded.
            true if row.latency("p50").is_some_and(|p50| p50.repeats.iter().any(is_overloaded)) => Vec::new(),
            true => vec![Measure::Throughput],
        };
        Self {
            gateway: row.gateway.clone(),
            axes: point.axes.clone(),
            load: point.load.clone(),
            load_point: Some(LoadPoint {
                model: point.model,
                connections: point.connections,
                rate_per_s: point.rate_per_s,
            }),
            figures,
            rig_cpu: row.rig_cpu_us_per_request.clone(),
            not_for,
            curve: row.latency_curve.clone(),
        }
    }

    /// The values of a metric; `None` if it was not measured.
    pub fn figure(&self, measure: Measure) -> Option<&Figure> {
        self.figures.iter().find(|(known, _)| *known == measure).map(|(_, figure)| figure)
    }

    /// Whether the series holds values of a load, not only of findings.
    pub(super) fn is_load(&self) -> bool {
        self.of_load().next().is_some()
    }

    /// Whether at least one repeat of the load has a value and no more errors than allowed. Ignores values of findings,
    /// because they can be valid even if the load failed: for example, the time until a change takes effect.
    pub(super) fn has_answers(&self) -> bool {
        let is_answered =
            |repeated: &Repeated| repeated.value().is_some() && !repeated.reasons.contains(&Reason::Errors);
        self.of_load().any(|figure| figure.repeats.iter().any(is_answered))
    }

    /// Throughput, CPU time and latency of the load itself.
    fn of_load(&self) -> impl Iterator<Item = &Figure> {
        self.figures.iter().filter(|(measure, _)| !measure.is_of_finding()).map(|(_, figure)| figure)
    }

    /// Gateway, load and axes in words: `nginx, tail, limits.data.cpus = 0.5`.
    pub fn words(&self) -> String {
        let named = [self.gateway.clone(), self.load.clone(), axes_words(&self.axes)];
        let named: Vec<String> = named.into_iter().filter(|name| !name.is_empty()).collect();
        if named.is_empty() { "all".into() } else { named.join(", ") }
    }
}

/// Adds the values of a finding to the series of the same gateway and load point, or to a new one.
fn add(all: &mut Vec<Series>, table: &Table, row: &findings::Row) {
    let values = table.columns.iter().zip(&row.values);
    let figures = values.filter_map(|(column, value)| match value {
        Value::Figure { figure } => Some((Measure::of_column(column)?, figure.clone())),
        _ => None,
    });
    let figures: Vec<(Measure, Figure)> = figures.collect();
    if figures.is_empty() {
        return;
    }
    let is_same =
        |known: &Series| known.gateway == row.gateway && known.load == row.load && known.axes == row.axes;
    let place = all.iter().position(is_same).unwrap_or_else(|| {
        let (gateway, load, axes) = (row.gateway.clone(), row.load.clone(), row.axes.clone());
        all.push(Series { gateway, axes, load, ..Series::default() });
        all.len() - 1
    });
    let series = &mut all[place];
    let p50 = series.figure(Measure::Latency("p50")).cloned();
    let is_open = series.load_point.is_some_and(|point| point.model == ArrivalModel::Open);
    let figures = figures.into_iter().map(|(measure, figure)| match &p50 {
        Some(p50) if is_open && measure.is_cpu_time() => (measure, at_the_load_point(&figure, p50)),
        _ => (measure, figure),
    });
    series.figures.extend(figures);
}

/// Returns `cpu`, the CPU time of an open load, with overloaded repeats marked as invalid. The reasons of `p50` show
/// which repeats were overloaded.
fn at_the_load_point(cpu: &Figure, p50: &Figure) -> Figure {
    let was_overloaded = |repeated: &Repeated| {
        p50.repeats.iter().any(|other| other.repeat == repeated.repeat && is_overloaded(other))
    };
    let marked = cpu.repeats.iter().map(|repeated| {
        let mut marked: Repeated = repeated.clone();
        marked.reasons.extend(was_overloaded(repeated).then_some(Reason::Overloaded));
        marked
    });
    // CPU times are always positive. So if a value is zero or negative, the values are differences of two CPU times.
    match cpu.repeats.iter().filter_map(Repeated::value).all(|value| value > 0.0) {
        true => Figure::of(marked.collect()),
        false => Figure::of_difference(marked.collect()),
    }
}

fn is_overloaded(repeated: &Repeated) -> bool {
    repeated.reasons.contains(&Reason::Overloaded)
}
