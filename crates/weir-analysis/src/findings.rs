//! Findings: conclusions and tables on one topic, such as recovery. All finders return findings of one type, which
//! every output uses.
//!
//! To add a finding, write a file below `findings/` and list it in [`FINDERS`].

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

/// Computes one kind of finding.
pub(crate) struct Finder {
    /// Name of the finding in files and on command lines: `failover`.
    pub(crate) key: &'static str,
    /// The columns of the finding's tables, one list per kind of table.
    pub(crate) columns: &'static [&'static [Column]],
    /// Computes the finding; returns `None` if the run does not measure it.
    pub(crate) find: fn(&Measured<'_>, &mut Former) -> Option<Finding>,
}

/// The results of a run that finders use.
pub(crate) struct Measured<'a> {
    pub(crate) run: &'a Run,
    pub(crate) cells: &'a [Cell],
    /// The measurements of each load point, in the order of `points`.
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

/// Some findings in an older JSON form of the summary, for programs that still read that form.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Former {
    /// Loads at each CPU limit, gateway starts, and conclusions; see [`ManyDomains`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domains: Option<ManyDomains>,
    /// Loads that open new connections; see [`NewConnections`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub new_connections: Vec<NewConnections>,
    /// Cost of slow clients; see [`SlowCost`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slow: Vec<SlowCost>,
    /// Effects of faults; see [`Faults`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faults: Option<Faults>,
}

/// Computes all findings of a run, and the older JSON form of some findings.
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

/// Whether a repeat of `group` had a disturbance that may cause errors: a fault, or a burst of silent connections.
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

/// The column of the metric with this name, one of [`metrics`].
pub fn column_named(name: &str) -> Option<&'static Column> {
    metrics().find(|(metric, _)| metric == name).map(|(_, column)| column)
}

/// The name of a column's metric: `recovery.time`.
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
