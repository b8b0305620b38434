//! Checks the objectives of the scenario, of its gateways and of its loads.

use std::time::Duration;

use weir_results::ArrivalModel;

use super::problem::Problems;
use crate::scenario::{ObjectiveSpec, Scenario};

/// Checks every objective.
pub(super) fn check_objectives(scenario: &Scenario, found: &mut Problems) {
    check(&["objective"], scenario.objective.as_ref(), found);
    for (place, gateway) in scenario.gateways.iter().enumerate() {
        check(&["gateways", &place.to_string(), "objective"], gateway.objective.as_ref(), found);
    }
    let has_open = scenario.loads.iter().any(|(_, load)| load.model == ArrivalModel::Open);
    for (name, load) in scenario.loads.iter() {
        check(&["loads", name, "objective"], load.objective.as_ref(), found);
        let latency = load.objective.as_ref().and_then(|objective| objective.latencies().first().copied());
        if let Some((limit, _)) = latency.filter(|_| has_open && load.model == ArrivalModel::Closed) {
            let message = "the latency of a closed load is not judged if the scenario has open loads";
            let remedy = "move the objective to an open load, or limit only `errors`";
            found.add(&["loads", name, "objective", limit], message, remedy);
        }
    }
}

fn check(path: &[&str], objective: Option<&ObjectiveSpec>, found: &mut Problems) {
    let Some(objective) = objective else { return };
    let latencies = objective.latencies();
    if latencies.is_empty() && objective.errors.is_none() && objective.findings.is_empty() {
        let remedy =
            "limit a latency or the errors, like { p99: 20ms, errors: 0.1% }, or remove the objective";
        found.add(path, "the objective has no limits", remedy);
    }
    for (name, _) in latencies.iter().filter(|(_, time)| time.0 == Duration::ZERO) {
        found.add(&[path, &[name]].concat(), "the latency is zero", "use a longer time, like 20ms");
    }
    for (metric, limit) in &objective.findings {
        if let Err(error) = limit.of(metric) {
            found.add(&[path, &["findings", metric]].concat(), error.message, error.remedy);
        }
    }
}
