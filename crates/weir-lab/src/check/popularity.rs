//! Checks the popularity of domains and paths, and cold starts.

use super::problem::Problems;
use crate::scenario::{Load, Scenario};

/// Rejects a popularity together with a mix or a request file, because these already determine which requests are sent.
pub(super) fn check_popularity(name: &str, load: &Load, found: &mut Problems) {
    let own = if load.mix.is_empty() { load.file.is_some().then_some("file") } else { Some("mix") };
    if let Some(own) = own.filter(|_| load.popularity.is_some()) {
        let message = format!("`popularity` and `{own}` cannot be combined");
        let remedy = "remove `popularity`; in a mix, set the `weight` of each request";
        found.add(&["loads", name, "popularity"], message, remedy);
    }
}

/// Rejects cold starts if weir does not start a gateway, or cannot recognize its first response.
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
            "`{}` uses `config`, so weir cannot recognize the first response of this gateway",
            gateway.name
        );
        let remedy = "remove `cold_start`, or the `config` of the gateway";
        found.add(&["cold_start"], message, remedy);
    }
}
