//! Checks rates that are shares of a capacity, and the second direct baseline (`twin`).

use weir_results::ArrivalModel;

use super::problem::Problems;
use crate::scenario::{Load, Scenario};

pub(super) fn check_share(scenario: &Scenario, name: &str, load: &Load, found: &mut Problems) {
    let at = |field| ["loads", name, field];
    if !load.is_relative() {
        if load.of.is_some() {
            let message = "`of` needs a rate that is a share, like 30%, but this rate is absolute";
            found.add(&at("of"), message, "remove `of`, or use a rate like 30%");
        }
    } else if load.model == ArrivalModel::Open && scenario.is_elsewhere() {
        let message =
            "a share needs the capacity of the gateway, which weir does not measure on remote gateways";
        let field = if load.one_of.is_some() { "rates" } else { "rate" };
        found.add(&at(field), message, "use a rate like 500/s");
    }
}

pub(super) fn check_twin(scenario: &Scenario, found: &mut Problems) {
    if scenario.twin && !scenario.has_direct() {
        let remedy = "add `direct` to a gateway, or remove `twin`";
        found.add(&["twin"], "the scenario has no direct baseline to repeat", remedy);
    }
}
