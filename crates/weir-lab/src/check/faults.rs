//! Checks the scheduled faults of the upstream, of services, and of gateways in a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use weir_document::{Time, nearest};
use weir_results::{Changed, FaultAction, FaultTarget};

use super::Known;
use super::problem::Problems;
use crate::scenario::{Load, Scenario, ScheduledFault};

/// An error in one entry of `faults`, with the field that is invalid.
struct Wrong {
    field: &'static str,
    message: String,
    remedy: String,
}

impl Wrong {
    fn new(field: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { field, message: message.into(), remedy: remedy.into() }
    }
}

/// Rejects faults with an unknown target, an unsupported action, a wrong order, or a time after the end of a load.
pub(super) fn check_faults(scenario: &Scenario, known: &Known, found: &mut Problems) {
    if scenario.faults.is_empty() {
        return;
    }
    if scenario.is_elsewhere() {
        let message = "weir cannot stop the upstream or a service of a remote gateway";
        return found.add(
            &["faults"],
            message,
            "remove the faults: weir stops only processes that it started",
        );
    }
    check_changes(scenario, found);
    let mut away: BTreeMap<FaultTarget, FaultAction> = BTreeMap::new();
    let mut before = Duration::ZERO;
    for (place, fault) in scenario.faults.iter().enumerate() {
        let wrong = wrong_time(fault, before)
            .or_else(|| wrong_target(scenario, known, fault))
            .or_else(|| wrong_action(scenario, fault))
            .or_else(|| wrong_order(fault, &mut away));
        if let Some(Wrong { field, message, remedy }) = wrong {
            found.add(&["faults", &place.to_string(), field], message, remedy);
        }
        before = fault.at.0;
    }
    for (name, load) in scenario.loads.iter() {
        check_load(scenario, name, load, found);
    }
}

/// Rejects changes of endpoints if there are faults, because weir could not observe the return of a stopped replica.
/// Rejects all changes if a service has faults, because changes can use that service.
fn check_changes(scenario: &Scenario, found: &mut Problems) {
    let Some(changes) = &scenario.changes else { return };
    if scenario.faulted_services().next().is_some() {
        let message = "`changes` cannot be combined with faults of a service";
        return found.add(&["changes"], message, "remove one of the two");
    }
    if let Some(place) = changes.of.iter().position(|what| *what == Changed::Endpoints) {
        let message = "changes of `endpoints` cannot be combined with `faults`";
        let remedy = "remove `endpoints` from this list, or remove `faults`";
        found.add(&["changes", "of", &place.to_string()], message, remedy);
    }
}

/// Rejects a fault that is earlier than `before`, the time of the previous fault in the list.
fn wrong_time(fault: &ScheduledFault, before: Duration) -> Option<Wrong> {
    let message = format!("the fault at {} is listed after a fault at {}", fault.at, Time(before));
    (fault.at.0 < before).then(|| Wrong::new("at", message, "sort the faults by time"))
}

/// Rejects replicas that the upstream does not have, and services that are neither the upstream nor needed by a
/// gateway.
fn wrong_target(scenario: &Scenario, known: &Known, fault: &ScheduledFault) -> Option<Wrong> {
    if fault.gateway.is_some() {
        return wrong_gateway(scenario, known, fault);
    }
    match (&fault.service, fault.replica) {
        (Some(_), Some(_)) => {
            let message = "`replica` and `service` cannot be combined";
            Some(Wrong::new("replica", message, "remove one of the two"))
        }
        (Some(service), None) => wrong_service(scenario, known, service),
        (None, replica) => match scenario.origin.service.name() {
            Some(upstream) => {
                let message = format!("the upstream is the service `{upstream}`, which has no replicas");
                let field = if replica.is_some() { "replica" } else { "do" };
                Some(Wrong::new(field, message, format!("use `service: {upstream}`, without `replica`")))
            }
            None => wrong_replica(scenario, replica.unwrap_or(1)),
        },
    }
}

/// Validates a fault of the data plane or control plane pods of a gateway. `replica` and `service` must be empty. The
/// scenario must run in a cluster, and at least one of its gateways must already run pods of this plane in the cluster.
fn wrong_gateway(scenario: &Scenario, known: &Known, fault: &ScheduledFault) -> Option<Wrong> {
    let wrong = |message: &str, remedy: &str| Some(Wrong::new("gateway", message, remedy));
    if fault.replica.is_some() || fault.service.is_some() {
        let remedy = "remove `replica` and `service`, or remove `gateway`";
        return wrong("`gateway` cannot be combined with `replica` or `service`", remedy);
    }
    if !scenario.is_in_pods() {
        let remedy = "run the scenario with --on k8s, or use `replica` or `service`";
        return wrong("outside a cluster, weir cannot inject faults into gateways", remedy);
    }
    let mut planes =
        scenario.gateways.iter().filter_map(|gateway| known.in_cluster.get(&gateway.driver)).flatten();
    if planes.any(|plane| Some(*plane) == fault.gateway) {
        return None;
    }
    let target = fault.target();
    let message = format!("no gateway of this scenario runs its {target} pods in the cluster");
    wrong(&message, "add a gateway that already runs in the cluster, like `contour`, or remove the fault")
}

fn wrong_replica(scenario: &Scenario, replica: u32) -> Option<Wrong> {
    let replicas = scenario.origin.replica_count();
    if (1..=replicas).contains(&replica) {
        return None;
    }
    let remedy = match replicas {
        1 => "set `origin.replicas`, or remove `replica`".to_owned(),
        most => format!("use 1 to {most}"),
    };
    Some(Wrong::new("replica", format!("the upstream has no replica {replica}"), remedy))
}

fn wrong_service(scenario: &Scenario, known: &Known, service: &str) -> Option<Wrong> {
    let upstream = scenario.origin.service.name();
    let needed: BTreeSet<&str> = known.needed(&scenario.gateways).chain(upstream).collect();
    if needed.contains(service) {
        return None;
    }
    let needs_it = known.needs.iter().find(|(_, needs)| needs.iter().any(|need| need == service));
    let remedy = match (nearest(service, needed.iter().copied()), needs_it) {
        (Some(near), _) => format!("did you mean `{near}`?"),
        (None, Some((driver, _))) => {
            format!("add a gateway that needs this service, like `{driver}`, or remove the fault")
        }
        (None, None) if needed.is_empty() => {
            "remove the fault, or add a gateway whose driver lists the service in `needs`".to_owned()
        }
        (None, None) => {
            format!("services of this scenario: {}", needed.into_iter().collect::<Vec<_>>().join(", "))
        }
    };
    let message = format!("no gateway of this scenario needs a service `{service}`");
    Some(Wrong::new("service", message, remedy))
}

/// Rejects actions that the target does not support: `evict` and `rollout` need pods of a gateway, and only weir's own
/// upstream can reset connections.
fn wrong_action(scenario: &Scenario, fault: &ScheduledFault) -> Option<Wrong> {
    let is_of_pods = matches!(fault.action, FaultAction::Evict | FaultAction::Rollout);
    if fault.gateway.is_some() {
        let is_possible = is_of_pods || fault.action == FaultAction::Kill;
        let message = format!("`{}` is not supported for pods of a gateway", fault.action);
        let remedy = "use `kill`, `evict` or `rollout`: Kubernetes then replaces or restarts the pods";
        return (!is_possible).then(|| Wrong::new("do", message, remedy));
    }
    if is_of_pods {
        let message = format!("`{}` is supported only for pods of a gateway", fault.action);
        return Some(Wrong::new("do", message, "add `gateway: data`, or use `kill`, `stall` or `reset`"));
    }
    match (fault.action, &fault.service, &scenario.origin.driver) {
        (FaultAction::Reset, Some(service), _) => {
            let message = format!("weir cannot make the service `{service}` reset connections");
            Some(Wrong::new("do", message, "use `kill` or `stall`"))
        }
        (FaultAction::Reset, None, Some(driver)) => {
            let message = format!("an upstream with the driver `{driver}` cannot reset connections");
            let remedy = "remove `origin.driver`: the built-in origin can reset connections";
            Some(Wrong::new("do", message, remedy))
        }
        _ => None,
    }
}

/// Rejects a `return` if the target runs, and any other fault if the target is stopped. `away` contains the targets
/// that earlier faults have stopped.
fn wrong_order(fault: &ScheduledFault, away: &mut BTreeMap<FaultTarget, FaultAction>) -> Option<Wrong> {
    if fault.gateway.is_some() {
        // Faults of gateway pods can have any order, because Kubernetes replaces the pods.
        return None;
    }
    let target = fault.target();
    let kind = if target.service().is_some() { "service" } else { "replica" };
    let was = match fault.action {
        FaultAction::Return => away.remove(&target),
        action => away.insert(target.clone(), action),
    };
    let (message, remedy) = match (fault.action, was) {
        (FaultAction::Return, None) => (
            format!("{target} cannot return: no earlier fault stops it"),
            format!("remove this fault, or add an earlier fault that stops the {kind}"),
        ),
        (FaultAction::Return, Some(_)) | (_, None) => return None,
        (_, Some(was)) => (
            format!("{target} is already stopped by `{was}`"),
            format!("add a `return` of this {kind} before this fault"),
        ),
    };
    Some(Wrong::new("do", message, remedy))
}

/// Rejects loads that can end before the last fault, and searches, which cannot have faults.
fn check_load(scenario: &Scenario, name: &str, load: &Load, found: &mut Problems) {
    if load.search.is_some() {
        let message = "a capacity search and `faults` cannot be combined";
        return found.add(&["loads", name, "search"], message, "remove one of the two");
    }
    let Some(length) = load.sustained(scenario.duration.0) else {
        let message = "a load with `requests` can end before the last fault";
        return found.add(&["loads", name, "requests"], message, "set `duration` instead");
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
