//! Checks capacity searches.

use weir_analysis::capacity::unsearchable;
use weir_document::Levels;
use weir_results::ArrivalModel;

use super::problem::Problems;
use crate::scenario::{Load, Scenario, Search};

/// Allowed numbers of trials: fewer cannot find a capacity, and more take hours.
const TRIALS: std::ops::RangeInclusive<u32> = 10..=1_000;

/// Minimum of the field `width`. A search ends when its confidence interval is as narrow as `width`, a share of the
/// capacity. Below the minimum, more trials cannot make the interval narrow enough.
const WIDTH_MIN: f64 = 0.01;

/// Checks the load `name` and its capacity search `search`.
pub(super) fn check_search(
    scenario: &Scenario,
    name: &str,
    load: &Load,
    search: &Search,
    found: &mut Problems,
) {
    let at = |field| ["loads", name, field];
    let of_search = |field| ["loads", name, "search", field];
    if load.model == ArrivalModel::Closed {
        let message = "a closed load cannot search for a capacity: a search varies the rate";
        return found.add(&at("search"), message, "use `model: open`");
    }
    let is_constant = load.rate.as_ref().is_none_or(|rate| matches!(rate, Levels::Constant(_)));
    let given = [
        ("steps", !load.steps.is_empty(), "a search cannot have steps", "remove `steps`"),
        (
            "connections",
            !matches!(load.connections, Levels::Constant(_)),
            "the number of connections cannot change during a search",
            "use one number",
        ),
        (
            "rate",
            !is_constant,
            "a search cannot start with a changing rate",
            "use the rate of the first trial, like `rate: 500/s`",
        ),
        ("burst", load.burst.is_some(), "a search cannot have bursts", "remove `burst`"),
        (
            "requests",
            load.requests.is_some(),
            "trials of a search cannot have a fixed number of requests",
            "set the length of a trial instead, like `duration: 2s`",
        ),
    ];
    for (field, _, message, remedy) in given.into_iter().filter(|(_, is_given, ..)| *is_given) {
        found.add(&at(field), message, remedy);
    }
    let objective = search.objective(scenario.objective_at(name));
    if let Some(why) = unsearchable(&objective.objective()) {
        let remedy = "set limits, like `search: { p99: 20ms, errors: 0.1% }`; default: the objective of the load or the scenario";
        found.add(&at("search"), why, remedy);
    }
    if let Some(width) = search.width.filter(|width| !(WIDTH_MIN..=1.0).contains(&width.0)) {
        found.add_range(&of_search("width"), width, "use 1% to 100%; the default is 10%");
    }
    if let Some(trials) = search.trials.filter(|trials| !TRIALS.contains(trials)) {
        let remedy = format!("use {} to {}, or remove `trials`", TRIALS.start(), TRIALS.end());
        found.add_range(&of_search("trials"), trials, remedy);
    }
}
