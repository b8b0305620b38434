//! Checks the scheduled faults of the upstream.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_document::Time;
use weir_results::{Changed, FaultAction};

use super::problem::Problems;
use crate::scenario::{Load, Scenario, ScheduledFault};

/// Rejects faults of replicas that do not exist, and faults that happen after a load has ended.
pub(super) fn check_faults(scenario: &Scenario, found: &mut Problems) {
    if scenario.faults.is_empty() {
        return;
    }
    if scenario.is_elsewhere() {
        let message = "weir cannot stop the upstream of a remote gateway";
        return found.add(
            &["faults"],
            message,
            "remove the faults: weir stops only processes that it started",
        );
    }
    check_changes(scenario, found);
    let mut away: BTreeMap<u32, FaultAction> = BTreeMap::new();
    let mut before = Duration::ZERO;
    for (place, fault) in scenario.faults.iter().enumerate() {
        check_fault(scenario, place, fault, before, &mut away, found);
        before = fault.at.0;
    }
    for (name, load) in scenario.loads.iter() {
        check_load(scenario, name, load, found);
    }
}

/// Rejects faults beside endpoints that leave and return: the return of a stopped replica cannot be observed.
fn check_changes(scenario: &Scenario, found: &mut Problems) {
    let of = scenario.changes.as_ref().map_or(&[][..], |changes| &changes.of);
    if let Some(place) = of.iter().position(|what| *what == Changed::Endpoints) {
        let message = "changes of `endpoints` and `faults` exclude each other";
        let remedy = "remove `faults`, or `endpoints` from this list";
        found.add(&["changes", "of", &place.to_string()], message, remedy);
    }
}

/// Checks the fault at `place`, which follows one at `before`; `away` holds the replicas that earlier faults stopped.
fn check_fault(
    scenario: &Scenario,
    place: usize,
    fault: &ScheduledFault,
    before: Duration,
    away: &mut BTreeMap<u32, FaultAction>,
    found: &mut Problems,
) {
    let place = place.to_string();
    let mut wrong = |field: &str, message: String, remedy: String| {
        found.add(&["faults", place.as_str(), field], message, remedy);
    };
    let (origin, replica) = (&scenario.origin, fault.replica);
    if fault.at.0 < before {
        let message = format!("the fault at {} follows a fault at {}", fault.at, Time(before));
        return wrong("at", message, "sort the faults by time".into());
    }
    let replicas = origin.replica_count();
    if !(1..=replicas).contains(&replica) {
        let remedy = match replicas {
            1 => "set `origin.replicas`, or remove `replica`".to_owned(),
            most => format!("use 1 to {most}"),
        };
        return wrong("replica", format!("the upstream has no replica {replica}"), remedy);
    }
    if let (FaultAction::Reset, Some(driver)) = (fault.action, &origin.driver) {
        let message = format!("an upstream with the driver `{driver}` cannot reset connections");
        return wrong("do", message, "remove `origin.driver`: the built-in origin can".into());
    }
    let was = match fault.action {
        FaultAction::Return => away.remove(&replica),
        action => away.insert(replica, action),
    };
    match (fault.action, was) {
        (FaultAction::Return, None) => {
            let message = format!("replica {replica} cannot return: no earlier fault stops it");
            wrong("do", message, "remove this fault, or add a fault that stops the replica before it".into());
        }
        (FaultAction::Return, Some(_)) | (_, None) => {}
        (_, Some(was)) => {
            let message = format!("replica {replica} is already stopped by `{was}`");
            wrong("do", message, "add a `return` for it before this fault".into());
        }
    }
}

/// Rejects loads that can end before the last fault, and searches, which cannot have faults.
fn check_load(scenario: &Scenario, name: &str, load: &Load, found: &mut Problems) {
    if load.search.is_some() {
        let message = "a capacity search and `faults` exclude each other";
        return found.add(&["loads", name, "search"], message, "remove one of the two");
    }
    let Some(length) = load.sustained(scenario.duration.0) else {
        let message = "a load with a number of requests can end before the last fault";
        return found.add(&["loads", name, "requests"], message, "replace it by a `duration`");
    };
    for (place, fault) in scenario.faults.iter().enumerate().filter(|(_, fault)| fault.at.0 >= length) {
        let message = format!(
            "the fault at {} is after the end of load `{name}`, which lasts {}",
            fault.at,
            Time(length)
        );
        let remedy = "use an earlier time, or a longer load";
        found.add(&["faults", &place.to_string(), "at"], message, remedy);
    }
}
