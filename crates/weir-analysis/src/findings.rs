//! Findings: results beyond load points. Each finder fills one model, which every output consumes.
//!
//! To add one, write a file below `findings/` and list it in [`FINDERS`].

mod added_latency;
mod amplification;
mod capacity;
mod changes;
mod control_size;
mod failover;
mod headroom;
mod limits_and_starts;
mod model;
mod new_connections;
pub(crate) mod objective;
mod of_direct;
mod outages;
mod per_core;
mod recovery;
mod registrations;
mod routes;
mod shards;
mod silent_connections;
mod slow_clients;
mod users;

use serde::Serialize;
use weir_results::{Cell, Event, Run, SilentBurst};

use crate::added::AddedLatency;
use crate::capacity::Capacity;
use crate::experiments::Experiment;
use crate::headroom::Headroom;
use crate::points::Point;
use crate::points::grouping::Group;

pub use added_latency::RIG;
pub use failover::{FaultCourse, FaultStage, Faults, StageFault};
pub use limits_and_starts::{CarriedLoad, CarriedRow, ManyDomains, StartRow, Starts};
pub use model::{Better, Column, Compared, Finding, KEEP, Place, Row, Table, Unit, Value};
pub use new_connections::{NewConnections, NewConnectionsRow};
pub use objective::FindingObjective;
pub use slow_clients::{Alone, Carried, SlowCost};

/// A source of findings.
pub(crate) struct Finder {
    /// The key of its findings.
    pub(crate) key: &'static str,
    /// Columns of its tables.
    pub(crate) columns: &'static [&'static [Column]],
    /// The function that finds; `None` if the run does not measure it.
    pub(crate) find: fn(&Measured<'_>, &mut Former) -> Option<Finding>,
}

/// Input of finders.
pub(crate) struct Measured<'a> {
    pub(crate) run: &'a Run,
    pub(crate) cells: &'a [Cell],
    /// In the order of `points`.
    pub(crate) groups: &'a [Group<'a>],
    pub(crate) points: &'a [Point],
    pub(crate) capacities: &'a [Capacity],
    pub(crate) experiments: &'a [Experiment],
    pub(crate) added: Option<&'a AddedLatency>,
    pub(crate) headroom: &'a Headroom,
}

/// All finders, in the order in which reports show their findings.
const FINDERS: &[Finder] = &[
    capacity::FINDER,
    failover::FINDER,
    recovery::FINDER,
    slow_clients::FINDER,
    silent_connections::FINDER,
    limits_and_starts::FINDER,
    new_connections::FINDER,
    changes::FINDER,
    registrations::FINDER,
    routes::FINDER,
    shards::FINDER,
    added_latency::FINDER,
    amplification::FINDER,
    headroom::FINDER,
    users::FINDER,
    per_core::FINDER,
    control_size::FINDER,
    of_direct::FINDER,
];

/// Findings in the former JSON form of a summary. Only readers of the JSON use them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Former {
    /// See [`ManyDomains`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domains: Option<ManyDomains>,
    /// See [`NewConnections`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub new_connections: Vec<NewConnections>,
    /// See [`SlowCost`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slow: Vec<SlowCost>,
    /// See [`Faults`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faults: Option<Faults>,
}

/// Every finding of a run.
pub(crate) fn find(measured: &Measured<'_>) -> (Vec<Finding>, Former) {
    let mut former = Former::default();
    let findings = FINDERS.iter().filter_map(|finder| (finder.find)(measured, &mut former));
    let mut findings: Vec<Finding> = findings.collect();
    if measured.run.manifest.repeats_were_added {
        let rows =
            findings.iter_mut().flat_map(|finding| &mut finding.tables).flat_map(|table| &mut table.rows);
        for value in rows.flat_map(|row| &mut row.values) {
            if let Value::Figure { figure } = value {
                *figure = figure.at_any_look();
            }
        }
    }
    (findings, former)
}

/// Whether one of the loads had an event that may cause errors on purpose: a fault, or a burst of silent connections.
pub(crate) fn expects_errors(group: &Group<'_>) -> bool {
    let mut repeats = group.rows.iter().flat_map(|(_, repeats)| repeats.iter());
    repeats.any(|repeat| {
        let measurement = repeat.measurement;
        let is_burst = |event: &Event| event.kind == SilentBurst::KIND;
        !measurement.faults.is_empty() || measurement.events.iter().any(is_burst)
    })
}

/// The metrics of findings that an objective can limit, by name (`recovery.time`), with their columns.
pub fn metrics() -> impl Iterator<Item = (String, &'static Column)> {
    let limited = columns().filter(|(_, column)| column.better.is_some());
    limited.map(|(finding, column)| (metric(finding, column), column))
}

/// The column of a metric of [`metrics`].
pub fn column_named(name: &str) -> Option<&'static Column> {
    metrics().find(|(metric, _)| metric == name).map(|(_, column)| column)
}

/// The metric of a column: `recovery.time`.
fn metric(finding: &str, column: &Column) -> String {
    format!("{finding}.{}", column.key)
}

/// All columns of findings that `weir compare` compares.
pub(crate) fn compared() -> impl Iterator<Item = &'static Column> {
    columns().map(|(_, column)| column).filter(|column| column.compared.is_some())
}

/// Every column, with the key of its finding.
fn columns() -> impl Iterator<Item = (&'static str, &'static Column)> {
    let of =
        |finder: &'static Finder| finder.columns.iter().copied().flatten().map(|column| (finder.key, column));
    FINDERS.iter().flat_map(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_named_by_their_finding_and_column() {
        let mut names = Vec::new();
        for finder in FINDERS {
            for column in finder.columns.iter().copied().flatten() {
                let Some(compared) = column.compared else { continue };
                assert_eq!(compared.metric, metric(finder.key, column));
                assert!(column.better.is_some(), "{}: which way is better?", compared.metric);
                assert!(!names.contains(&compared.metric), "{} twice", compared.metric);
                names.push(compared.metric);
            }
        }
        assert!(names.contains(&"slow-clients.memory_per_client"));
    }
}
