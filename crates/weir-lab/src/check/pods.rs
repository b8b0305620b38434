//! Checks of a run in a cluster: what pods cannot do yet is rejected before anything is started.

use super::Known;
use super::problem::Problems;
use crate::scenario::{Network, Scenario};

/// Rejects what a scenario asks of pods that they cannot do.
pub(super) fn check_pods(scenario: &Scenario, known: &Known, found: &mut Problems) {
    if !scenario.is_in_pods() {
        return;
    }
    let here = "remove it, or run the scenario on one host (without --on k8s)";
    let fields: [(&[&str], bool, &str); 8] = [
        (&["network"], scenario.network == Network::Namespaces, "network namespaces"),
        (&["origin", "on"], scenario.origin.on.is_some(), "the upstream on another host"),
        (&["origin", "service"], scenario.origin.service.name().is_some(), "a service as the upstream"),
        (&["changes"], scenario.changes.is_some(), "changes"),
        (&["faults"], !scenario.faults.is_empty(), "faults"),
        (&["control"], scenario.control.is_some(), "a positive control"),
        (&["slow"], scenario.slow.is_some(), "slow clients"),
        (&["silent"], scenario.silent.is_some(), "silent connections"),
    ];
    for (path, _, what) in fields.into_iter().filter(|(_, is_given, _)| *is_given) {
        found.add(path, format!("{what}: not supported in a cluster yet"), here);
    }
    for (place, gateway) in scenario.gateways.iter().enumerate() {
        let (place, name) = (place.to_string(), &gateway.name);
        let of_host = [
            ("config", gateway.config.is_some(), "a configuration file of your own"),
            ("listen", gateway.listen.is_some(), "an address of your own"),
            ("url", gateway.is_remote(), "a gateway that is reached by its URL"),
        ];
        for (field, _, what) in of_host.into_iter().filter(|(_, is_given, _)| *is_given) {
            let message = format!("{name}: {what} is not supported in a cluster yet");
            found.add(&["gateways", &place, field], message, here);
        }
        if known.needs.get(&gateway.driver).is_some_and(|needs| !needs.is_empty()) {
            let message = format!("{name}: its driver needs services, which do not run in a cluster yet");
            found.add(&["gateways", &place], message, "remove the gateway, or run the scenario on one host");
        }
    }
}
