//! Throughput per core at full load over CPU limits, as a finding: reports have it in a section of their own.

use super::model::{Column, Finding, KEEP, Row, Table, Unit, Value};
use super::{Finder, Former, Measured};
use crate::experiments::{DataLimit, Experiment, PerCore};
use crate::points::axes::of_number;

pub(super) const FINDER: Finder = Finder { key: "per-core", columns: &[&LIMIT, &EFFICIENCY], find };

/// The axis of the data plane's CPU limit.
const CPUS: &str = "limits.data.cpus";

static LIMIT: [Column; 1] =
    [Column::of("rate", "Throughput per core", Unit::PerSecond, KEEP).higher().judged("per-core.rate", 0.10)];

static EFFICIENCY: [Column; 1] = [Column::of("efficiency", "Highest / lowest limit", Unit::Share, KEEP)
    .higher()
    .compared("per-core.efficiency", 0.10)];

fn find(measured: &Measured<'_>, _: &mut Former) -> Option<Finding> {
    let intro = "Throughput per core at full load, at each CPU limit of the data plane.";
    let mut finding =
        Finding { has_section: false, ..Finding::new(FINDER.key, "Throughput per core", intro) };
    for experiment in measured.experiments.iter().filter(|experiment| !experiment.per_core.is_empty()) {
        finding.sentences.extend(experiment.per_core.iter().map(|of| of.conclusion.clone()));
        finding.tables.extend([by_limit(experiment), efficiency(experiment)]);
    }
    (!finding.tables.is_empty()).then_some(finding)
}

fn by_limit(experiment: &Experiment) -> Table {
    let of_gateway = |of: &PerCore| -> Vec<Row> {
        let limits = experiment.limits.iter().zip(&of.per_core_per_s);
        let row = |(limit, figure): (&DataLimit, &Option<_>)| {
            let mut axes = experiment.axes.clone();
            axes.insert(CPUS.to_owned(), of_number(limit.cpus?));
            let values = vec![Value::optional(figure.as_ref())];
            Some(Row { gateway: of.gateway.clone(), load: experiment.loads.join(", "), axes, values })
        };
        limits.filter_map(row).collect()
    };
    let rows = experiment.per_core.iter().flat_map(of_gateway).collect();
    Table { caption: "Throughput per core at full load".into(), columns: &LIMIT, rows }
}

fn efficiency(experiment: &Experiment) -> Table {
    let row = |of: &PerCore| {
        let values = vec![Value::optional(of.efficiency.as_ref())];
        let (load, axes) = (experiment.loads.join(", "), experiment.axes.clone());
        Row { gateway: of.gateway.clone(), load, axes, values }
    };
    let rows = experiment.per_core.iter().map(row).collect();
    Table { caption: "Throughput per core, highest over lowest limit".into(), columns: &EFFICIENCY, rows }
}
