//! Faults of the upstream that nobody could do, or see.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_document::Time;
use weir_results::{Changed, FaultAction};

use super::{Checked, problem};
use crate::scenario::{Load, Scenario, ScheduledFault};

/// Refuses faults of what is not there, and those that no load meets.
pub(super) fn check_faults(scenario: &Scenario) -> Checked {
    if scenario.faults.is_empty() {
        return Ok(());
    }
    if scenario.is_elsewhere() {
        let message = "faults of the upstream of a gateway that runs elsewhere";
        return Err(problem(&["faults"], message, "leave them out: weir stops only what it has started"));
    }
    check_changes(scenario)?;
    let mut away: BTreeMap<u32, FaultAction> = BTreeMap::new();
    let mut before = Duration::ZERO;
    for (place, fault) in scenario.faults.iter().enumerate() {
        check_fault(scenario, place, fault, before, &mut away)?;
        before = fault.at.0;
    }
    scenario.loads.iter().try_for_each(|(name, load)| check_load(scenario, name, load))
}

/// Refuses faults of servers that leave by themselves: one that is away could not be seen to return.
fn check_changes(scenario: &Scenario) -> Checked {
    let of = scenario.changes.as_ref().map_or(&[][..], |changes| &changes.of);
    match of.iter().position(|what| *what == Changed::Endpoints) {
        Some(place) => {
            let message = "endpoints that leave and return, of an upstream that has faults";
            let remedy = "leave out the `faults`, or `endpoints` here";
            Err(problem(&["changes", "of", &place.to_string()], message, remedy))
        }
        None => Ok(()),
    }
}

/// Checks the fault at `place`, which comes after `before`; `away` has the servers that earlier ones have left so.
fn check_fault(
    scenario: &Scenario,
    place: usize,
    fault: &ScheduledFault,
    before: Duration,
    away: &mut BTreeMap<u32, FaultAction>,
) -> Checked {
    let place = place.to_string();
    let wrong = |field: &str, message: String, remedy: String| {
        Err(problem(&["faults", place.as_str(), field], message, remedy))
    };
    let (origin, replica) = (&scenario.origin, fault.replica);
    if fault.at.0 < before {
        let message = format!("a fault at {} after one at {}", fault.at, Time(before));
        return wrong("at", message, "put them in the order of time".into());
    }
    let replicas = origin.replica_count();
    if !(1..=replicas).contains(&replica) {
        let remedy = match replicas {
            1 => "give the origin `replicas`, or leave `replica` out".to_owned(),
            most => format!("give 1 to {most}"),
        };
        return wrong("replica", format!("the upstream has no replica {replica}"), remedy);
    }
    if let (FaultAction::Reset, Some(driver)) = (fault.action, &origin.driver) {
        let message = format!("an upstream of the driver `{driver}` cannot be told to reset connections");
        return wrong("do", message, "leave out the origin's `driver`: weir's own can".into());
    }
    let was = match fault.action {
        FaultAction::Return => away.remove(&replica),
        action => away.insert(replica, action),
    };
    match (fault.action, was) {
        (FaultAction::Return, None) => {
            let message = format!("replica {replica} returns, and was not away");
            wrong("do", message, "leave it out, or put what it returns from before it".into())
        }
        (FaultAction::Return, Some(_)) | (_, None) => Ok(()),
        (_, Some(was)) => {
            let message = format!("replica {replica} is away already (`{was}`)");
            wrong("do", message, "let it `return` before".into())
        }
    }
}

/// Refuses loads that may end before the last fault, or ask for what has none.
fn check_load(scenario: &Scenario, name: &str, load: &Load) -> Checked {
    if load.search.is_some() {
        let message = format!("the load `{name}` searches for a capacity, and the upstream has faults");
        return Err(problem(&["loads", name, "search"], message, "leave one of the two out"));
    }
    let Some(length) = load.sustained(scenario.duration.0) else {
        let message = format!("the load `{name}` ends by its count, and nobody knows whether before a fault");
        return Err(problem(&["loads", name, "requests"], message, "give it a `duration`"));
    };
    match scenario.faults.iter().position(|fault| fault.at.0 >= length) {
        Some(place) => {
            let at = scenario.faults[place].at;
            let message =
                format!("a fault at {at}, and the sustained phase of `{name}` has {}", Time(length));
            let remedy = "give less, or make the load longer";
            Err(problem(&["faults", &place.to_string(), "at"], message, remedy))
        }
        None => Ok(()),
    }
}
