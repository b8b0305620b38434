//! What the popularity of domains and paths, and a measured start, cannot be.

use super::{Checked, problem};
use crate::scenario::{Load, Scenario};

/// Refuses a popularity of what a load asks for by itself.
pub(super) fn check_popularity(name: &str, load: &Load) -> Checked {
    let own = if load.mix.is_empty() { load.file.is_some().then_some("file") } else { Some("mix") };
    match own {
        Some(own) if load.popularity.is_some() => {
            let message =
                format!("the load `{name}` has a `{own}` of requests, and a popularity of the topology's");
            let remedy = "leave it out: requests of a mix have their `weight`";
            Err(problem(&["loads", name, "popularity"], message, remedy))
        }
        _ => Ok(()),
    }
}

/// Refuses to measure the start of what weir does not start, or of what need not answer.
pub(super) fn check_cold_start(scenario: &Scenario) -> Checked {
    if !scenario.cold_start {
        return Ok(());
    }
    let wrong = |message: &str, remedy: &str| Err(problem(&["cold_start"], message, remedy));
    if scenario.is_elsewhere() {
        return wrong("the start of a gateway that runs elsewhere", "leave it out: weir does not start it");
    }
    if scenario.gateways.iter().any(|gateway| gateway.config.is_some()) {
        let remedy = "leave it out, or the gateway's `config`: what it answers with 200 is not known";
        return wrong("the start of a gateway with a configuration of its own", remedy);
    }
    Ok(())
}
