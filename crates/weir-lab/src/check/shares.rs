//! What a rate that is a share, and a baseline's twin, cannot be.

use super::{Checked, problem};
use crate::scenario::{Load, Model, Scenario};

pub(super) fn check_share(scenario: &Scenario, name: &str, load: &Load) -> Checked {
    let at = |field| ["loads", name, field];
    if !load.is_relative() {
        let message = format!("the load `{name}` says of which gateway its rate is a share, and it is none");
        let remedy = "leave `of` out, or give a rate like 30%";
        return if load.of.is_some() { Err(problem(&at("of"), message, remedy)) } else { Ok(()) };
    }
    if load.model != Model::Open {
        return Ok(());
    }
    if scenario.is_elsewhere() {
        let message = format!("the load `{name}` asks for a share of what a gateway elsewhere carries");
        let remedy = "give a rate like 500/s: such a gateway is not loaded with all it carries to find out";
        let field = if load.one_of.is_some() { "rates" } else { "rate" };
        return Err(problem(&at(field), message, remedy));
    }
    Ok(())
}

pub(super) fn check_twin(scenario: &Scenario) -> Checked {
    if scenario.twin && !scenario.has_direct() {
        let remedy = "give a gateway its `direct`, or leave `twin` out";
        return Err(problem(&["twin"], "a twin of a direct baseline that there is not", remedy));
    }
    Ok(())
}
