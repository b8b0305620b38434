//! Checks the popularity of domains and paths, and cold starts.

use super::problem::Problems;
use crate::scenario::{Load, Scenario};

/// Rejects a popularity together with a mix or a request file, which have their own order.
pub(super) fn check_popularity(name: &str, load: &Load, found: &mut Problems) {
    let own = if load.mix.is_empty() { load.file.is_some().then_some("file") } else { Some("mix") };
    if let Some(own) = own.filter(|_| load.popularity.is_some()) {
        let message = format!("`popularity` and `{own}` cannot be combined");
        let remedy = "remove the popularity; in a mix, each request has its `weight`";
        found.add(&["loads", name, "popularity"], message, remedy);
    }
}

/// Rejects cold starts of gateways that weir does not start, or whose first response cannot be recognized.
pub(super) fn check_cold_start(scenario: &Scenario, found: &mut Problems) {
    if !scenario.cold_start {
        return;
    }
    if scenario.is_elsewhere() {
        let message = "weir cannot start a remote gateway";
        return found.add(&["cold_start"], message, "remove `cold_start`");
    }
    if let Some(gateway) = scenario.gateways.iter().find(|gateway| gateway.config.is_some()) {
        let message = format!(
            "`{}` has its own configuration, so weir cannot recognize its first response",
            gateway.name
        );
        let remedy = "remove `cold_start`, or the `config` of the gateway";
        found.add(&["cold_start"], message, remedy);
    }
}
