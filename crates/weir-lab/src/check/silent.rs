//! Checks bursts of silent connections.

use std::time::Duration;

use weir_document::Time;

use super::changes::check_load_names;
use super::problem::Problems;
use crate::scenario::{Load, Scenario, SilentConnections};

/// Maximum number of silent connections: each needs an open file in weir and in the gateway.
const CONNECTIONS_MAX: u32 = 100_000;

/// Rejects bursts of silent connections that weir cannot open, or that outlast a load.
pub(super) fn check_silent(scenario: &Scenario, found: &mut Problems) {
    let Some(silent) = &scenario.silent else { return };
    if scenario.is_elsewhere() {
        let message = "silent connections can exhaust a remote gateway, so weir opens none to it";
        return found.add(&["silent"], message, "remove `silent`, or let weir start the gateway");
    }
    if !(1..=CONNECTIONS_MAX).contains(&silent.connections) {
        let remedy = format!("use 1 to {CONNECTIONS_MAX}");
        found.add_range(&["silent", "connections"], silent.connections, remedy);
    }
    if silent.hold.0 == Duration::ZERO {
        found.add(&["silent", "hold"], "the time is zero", "use a longer time, like 5s");
    }
    check_load_names(scenario, &["silent", "loads"], &silent.loads, found);
    for (name, load) in scenario.loads.iter().filter(|(name, _)| silent.concerns(name)) {
        check_load(scenario, silent, name, load, found);
    }
}

/// Rejects searches, because their trials differ in length. Rejects loads that can end before the silent connections
/// are closed.
fn check_load(
    scenario: &Scenario,
    silent: &SilentConnections,
    name: &str,
    load: &Load,
    found: &mut Problems,
) {
    if load.search.is_some() {
        let message = "a capacity search and `silent` cannot be combined";
        return found.add(
            &["loads", name, "search"],
            message,
            "remove one of the two, or set `silent.loads`",
        );
    }
    let Some(length) = load.sustained(scenario.duration.0) else {
        let message = "a load with `requests` can end before the silent connections are closed";
        return found.add(&["loads", name, "requests"], message, "set `duration` instead");
    };
    let end = silent.at.0.saturating_add(silent.hold.0);
    if end > length {
        let message = format!(
            "the silent connections are closed at {}, after the end of load `{name}`, which lasts {}",
            Time(end),
            Time(length)
        );
        found.add(&["silent", "hold"], message, "use shorter times, or a longer load");
    }
}
