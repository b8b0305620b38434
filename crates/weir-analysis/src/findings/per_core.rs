//! Finding: throughput per core at full load, for each CPU limit.

use super::model::{Column, Finding, KEEP, Row, Table, Unit, Value};
use super::{Finder, Former, Measured};
use crate::experiments::{DataLimit, Experiment, LIMIT_PATHS, PerCore};
use crate::figures::figure::Figure;
use crate::points::Point;

pub(super) const FINDER: Finder = Finder { key: "per-core", columns: &[&LIMIT, &EFFICIENCY], find };

const INTRO: &str = "The maximum throughput at full load, divided by the cores of each CPU limit of the data plane. \
    *Highest / lowest limit* divides the value at the highest saturated limit by the value at the lowest one, in the \
    same repeat. 100 % is linear scaling.";

static LIMIT: [Column; 2] = [
    Column::of("limit", "Limit", Unit::Text, KEEP),
    Column::of("rate", "Throughput per core", Unit::PerSecond, KEEP).higher().judged("per-core.rate", 0.10),
];

static EFFICIENCY: [Column; 1] = [Column::of("efficiency", "Highest / lowest limit", Unit::Share, KEEP)
    .higher()
    .compared("per-core.efficiency", 0.10)];

fn find(measured: &Measured<'_>, _: &mut Former) -> Option<Finding> {
    let mut finding = Finding::new(FINDER.key, "Throughput per core", INTRO);
    for experiment in measured.experiments.iter().filter(|experiment| !experiment.per_core.is_empty()) {
        finding.sentences.extend(experiment.per_core.iter().map(|of| of.conclusion.clone()));
        let mut tables = [by_limit(experiment, measured.points), efficiency(experiment)];
        // Without a CPU limit there is no value per core, so both tables may be empty.
        for table in tables.iter_mut().filter(|table| !table.rows.is_empty()) {
            table.caption = experiment.caption(&table.caption, measured.experiments);
        }
        finding.tables.extend(tables.into_iter().filter(|table| !table.rows.is_empty()));
    }
    (!finding.tables.is_empty()).then_some(finding)
}

fn by_limit(experiment: &Experiment, points: &[Point]) -> Table {
    let of_gateway = |of: &PerCore| -> Vec<Row> {
        let limits = experiment.limits.iter().zip(&of.per_core_per_s).enumerate();
        let row = |(place, (limit, figure)): (usize, (&DataLimit, &Option<Figure>))| {
            let is_counted =
                experiment.saturation(&of.gateway, place).is_some_and(|found| !found.counted_at.is_empty());
            let rate = match figure {
                Some(figure) => Value::figure(figure),
                None if is_counted => Value::Number { number: None, words: Some("not saturated".to_owned()) },
                None => Value::Number { number: None, words: None },
            };
            limit.cpus?;
            let mut axes = experiment.axes.clone();
            let of_limit = points[*limit.closed.first()?].axes.iter();
            axes.extend(
                of_limit
                    .filter(|(path, _)| LIMIT_PATHS.contains(&path.as_str()))
                    .map(|(path, value)| (path.clone(), value.clone())),
            );
            let values = vec![Value::text(limit.all_words()), rate];
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
    Table { caption: "Throughput per core, highest / lowest limit".into(), columns: &EFFICIENCY, rows }
}
