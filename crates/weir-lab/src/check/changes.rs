//! Checks loads with several rates, and gateways whose configuration changes under load.

use std::collections::HashSet;
use std::time::Duration;

use weir_results::{ArrivalModel, Changed};

use super::REQUESTS_MAX;
use super::problem::{Problems, suggestion};
use crate::scenario::{CHANGED, CertificateScope, Changes, Load, Scenario};

/// Minimum time between two changes. After each change, weir sends requests until the change takes effect.
const EVERY_MIN: Duration = Duration::from_millis(100);

/// Rejects `rates` together with a rate or steps, and rates that give two loads the same name.
pub(super) fn check_rates(scenario: &Scenario, name: &str, load: &Load, found: &mut Problems) {
    if load.rates.is_none() {
        return;
    }
    let at = ["loads", name, "rates"];
    if load.model == ArrivalModel::Closed {
        found.add(&at, "a closed load cannot have rates", "remove the rates, or use `model: open`");
    }
    let others = [("rate", load.rate.is_some()), ("steps", !load.steps.is_empty())];
    for (other, _) in others.into_iter().filter(|(_, is_given)| *is_given) {
        let message =
            format!("`rates` and `{other}` cannot be combined: weir runs one load for each of the rates");
        found.add(&at, message, "remove one of the two");
    }
    let all = scenario.loads.iter().flat_map(|(name, load)| load.at_each_rate(name));
    let all: Vec<String> = all.map(|(name, _)| name).collect();
    let taken = |own: &String| all.iter().filter(|other| *other == own).count() > 1;
    if let Some((own, _)) = load.at_each_rate(name).into_iter().find(|(own, _)| taken(own)) {
        let message =
            format!("the rates of `{name}` create a load named `{own}`, but another load has this name");
        found.add(&at, message, "rename one of the two loads");
    }
}

/// Rejects changes that weir cannot make or observe.
pub(super) fn check_changes(scenario: &Scenario, found: &mut Problems) {
    let Some(changes) = &scenario.changes else { return };
    if changes.every.0 < EVERY_MIN {
        found.add_range(&["changes", "every"], changes.every, "use at least 100ms, like 10s");
    }
    check_kinds(scenario, changes, found);
    let routes = u64::from(changes.paths) * u64::from(scenario.topology.domains);
    if !(1..=REQUESTS_MAX).contains(&routes) {
        let remedy = format!("use at least 1 path per domain, and at most {REQUESTS_MAX} paths in total");
        found.add_range(&["changes", "paths"], changes.paths, remedy);
    }
    check_load_names(scenario, &["changes", "loads"], &changes.loads, found);
    if let Some(path) = scenario.topology.paths().iter().find(|path| path.starts_with(CHANGED)) {
        let message =
            format!("path `{path}` of the topology begins with `{CHANGED}`, which weir uses for changes");
        found.add(&["changes"], message, "rename the path");
    }
    check_gateways(scenario, found);
}

/// Rejects names in the list at `path` that are not loads of the scenario.
pub(super) fn check_load_names(scenario: &Scenario, path: &[&str], names: &[String], found: &mut Problems) {
    let known: HashSet<&str> = scenario.loads.names().collect();
    for (place, name) in names.iter().enumerate().filter(|(_, name)| !known.contains(name.as_str())) {
        let loads: Vec<&str> = scenario.loads.names().collect();
        let remedy = suggestion(name, loads.iter().copied(), "loads");
        found.add(&[path, &[&place.to_string()]].concat(), format!("unknown load `{name}`"), remedy);
    }
}

/// Rejects duplicate kinds of changes. Also rejects `endpoints` if there is only one replica, and `certificates` if the
/// topology has no TLS or each domain has its own certificate.
fn check_kinds(scenario: &Scenario, changes: &Changes, found: &mut Problems) {
    if changes.of.is_empty() {
        let remedy = "add `routes`, `endpoints` or `certificates`; without `of`, weir changes routes";
        found.add(&["changes", "of"], "the list is empty", remedy);
    }
    for (place, what) in changes.of.iter().enumerate() {
        let at = ["changes", "of", &place.to_string()];
        if changes.of[..place].contains(what) {
            found.add_duplicate(&at, what);
            continue;
        }
        let topology = &scenario.topology;
        match what {
            Changed::Endpoints if scenario.origin.replica_count() < 2 => {
                let message =
                    "changes of `endpoints` remove an endpoint, but the upstream has only 1 endpoint";
                found.add(&at, message, "set `origin.replicas` to at least 2");
            }
            Changed::Certificates if !topology.tls => {
                found.add(&at, "changes of certificates need TLS", "add `tls: true` to the topology");
            }
            Changed::Certificates if topology.certificates == CertificateScope::Each => {
                let message = "changes of certificates need a certificate that all domains share";
                found.add(
                    &at,
                    message,
                    "remove `topology.certificates`; the domains then share a certificate",
                );
            }
            _ => {}
        }
    }
}

/// Rejects gateways whose routes weir does not control.
fn check_gateways(scenario: &Scenario, found: &mut Problems) {
    for (place, gateway) in scenario.gateways.iter().enumerate() {
        let (why, remedy) = if gateway.is_remote() {
            ("the gateway is remote", "remove `changes`, or the gateway")
        } else if gateway.config.is_some() {
            ("the gateway has its own configuration", "remove `changes`, or the `config` of the gateway")
        } else {
            continue;
        };
        let message = format!("weir cannot change the routes of `{}`: {why}", gateway.name);
        found.add(&["gateways", &place.to_string()], message, remedy);
    }
}
