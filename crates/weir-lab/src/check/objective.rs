//! What a gateway has to keep, wherever it is said.

use std::time::Duration;

use super::{Checked, problem};
use crate::scenario::{Model, ObjectiveSpec, Scenario};

/// Checks the objective of the scenario, of each gateway and of each load.
pub(super) fn check_objectives(scenario: &Scenario) -> Checked {
    check(&["objective"], scenario.objective.as_ref())?;
    for (place, gateway) in scenario.gateways.iter().enumerate() {
        check(&["gateways", &place.to_string(), "objective"], gateway.objective.as_ref())?;
    }
    let has_open = scenario.loads.iter().any(|(_, load)| load.model == Model::Open);
    for (name, load) in scenario.loads.iter() {
        let path = ["loads", name, "objective"];
        check(&path, load.objective.as_ref())?;
        let latency = load.objective.as_ref().and_then(|objective| objective.latencies().first().copied());
        if let Some((bound, _)) = latency.filter(|_| has_open && load.model == Model::Closed) {
            let message =
                format!("a bound on the {bound} of a closed load, where latency is judged on open ones");
            return Err(problem(
                &[path[0], name, path[2], bound],
                message,
                "give it to an open load, or bound its errors",
            ));
        }
    }
    Ok(())
}

fn check(path: &[&str], objective: Option<&ObjectiveSpec>) -> Checked {
    let Some(objective) = objective else { return Ok(()) };
    let latencies = objective.latencies();
    if latencies.is_empty() && objective.errors.is_none() {
        let remedy = "name a latency or the errors, like { p99: 20ms, errors: 0.1% }, or leave it out";
        return Err(problem(path, "an objective that asks for nothing", remedy));
    }
    match latencies.iter().find(|(_, time)| time.0 == Duration::ZERO) {
        Some((name, _)) => {
            Err(problem(&[path, &[name]].concat(), "a latency of zero", "give more, like 20ms"))
        }
        None => Ok(()),
    }
}
