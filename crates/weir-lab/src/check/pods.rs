//! Checks scenarios that run in a cluster: rejects features that pods do not support yet, before the run starts.

use weir_results::Changed;

use super::Known;
use super::problem::Problems;
use crate::scenario::{Gateway, Network, Scenario};

/// Rejects fields of a scenario that are not supported in pods.
pub(super) fn check_pods(scenario: &Scenario, known: &Known, found: &mut Problems) {
    if !scenario.is_in_pods() {
        return;
    }
    let here = "remove this field, or run the scenario on one host (without --on k8s)";
    let fields: [(&[&str], bool, &str); 6] = [
        (&["network"], scenario.network == Network::Namespaces, "network namespaces"),
        (&["origin", "on"], scenario.origin.on.is_some(), "the upstream on another host"),
        (&["origin", "service"], scenario.origin.service.name().is_some(), "a service as the upstream"),
        (&["control"], scenario.control.is_some(), "a positive control"),
        (&["slow"], scenario.slow.is_some(), "slow clients"),
        (&["silent"], scenario.silent.is_some(), "silent connections"),
    ];
    for (path, _, what) in fields.into_iter().filter(|(_, is_given, _)| *is_given) {
        found.add(path, format!("{what}: not supported in a cluster yet"), here);
    }
    check_changes(scenario, found);
    for (place, fault) in scenario.faults.iter().enumerate().filter(|(_, fault)| fault.gateway.is_none()) {
        let field = if fault.service.is_some() { "service" } else { "replica" };
        let message = "in a cluster, weir can inject faults only into gateways";
        found.add(
            &["faults", &place.to_string(), field],
            message,
            "add `gateway: data` or `gateway: control`",
        );
    }
    for (place, gateway) in scenario.gateways.iter().enumerate() {
        let (place, name) = (place.to_string(), &gateway.name);
        let of_host = [
            ("config", gateway.config.is_some(), "a user configuration"),
            ("listen", gateway.listen.is_some(), "a fixed listen address"),
            ("url", gateway.is_remote(), "a remote gateway"),
        ];
        for (field, _, what) in of_host.into_iter().filter(|(_, is_given, _)| *is_given) {
            let message = format!("{name}: {what} is not supported in a cluster yet");
            found.add(&["gateways", &place, field], message, here);
        }
        if known.needs.get(&gateway.driver).is_some_and(|needs| !needs.is_empty()) {
            let message =
                format!("{name}: its driver needs services, which are not supported in a cluster yet");
            found.add(&["gateways", &place], message, "remove the gateway, or run the scenario on one host");
        }
        check_changed(scenario, known, gateway, &place, found);
    }
}

/// Rejects changes of endpoints: gateways use the Service of the upstream, and the address of a Service does not
/// change.
fn check_changes(scenario: &Scenario, found: &mut Problems) {
    let kinds = scenario.changes.iter().flat_map(|changes| changes.of.iter().enumerate());
    for (place, _) in kinds.filter(|(_, what)| **what == Changed::Endpoints) {
        let message =
            "in a cluster, weir cannot remove an endpoint: gateways use the Service of the upstream";
        found.add(&["changes", "of", &place.to_string()], message, "use routes or certificates");
    }
}

/// Rejects changes of a gateway whose pod reads its routes from files.
fn check_changed(scenario: &Scenario, known: &Known, gateway: &Gateway, place: &str, found: &mut Problems) {
    if scenario.changes.is_some() && !known.in_cluster.contains_key(&gateway.driver) {
        let message = format!(
            "{}: weir cannot change the routes of this gateway in a cluster, because its pod reads them from files",
            gateway.name
        );
        let remedy = "select gateways that run in the cluster already, like --gateway contour";
        found.add(&["gateways", place], message, remedy);
    }
}
