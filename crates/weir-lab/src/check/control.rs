//! Checks the positive control.

use weir_results::CONTROL;

use super::problem::{Problems, suggestion};
use crate::scenario::Scenario;

/// Allowed values of `control.share`: extra CPU time divided by the CPU time of the gateway. Extra CPU time below 1 %
/// would be less than the cost of sampling.
const SHARES: std::ops::RangeInclusive<f64> = 0.01..=1.0;

pub(super) fn check_control(scenario: &Scenario, found: &mut Problems) {
    let Some(control) = &scenario.control else { return };
    if scenario.is_elsewhere() {
        let message = "weir cannot make a remote gateway slower";
        return found.add(&["control"], message, "remove `control`, or let weir start the gateway");
    }
    if !SHARES.contains(&control.share.0) {
        found.add_range(&["control", "share"], control.share, "use 1% to 100%, like 10%");
    }
    if let Some(place) = scenario.gateways.iter().position(|gateway| gateway.name == CONTROL) {
        let message = format!("`{CONTROL}` is reserved for the positive control");
        found.add(&["gateways", &place.to_string()], message, "choose another name");
    }
    let Some(name) = &control.gateway else { return };
    if control.of(&scenario.gateways).is_none() {
        let names = scenario.gateways.iter().map(|gateway| gateway.name.as_str());
        let remedy = suggestion(name, names, "gateways");
        found.add(&["control", "gateway"], format!("the scenario has no gateway `{name}`"), remedy);
    }
}
