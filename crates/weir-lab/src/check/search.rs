//! What a search for the capacity cannot be.

use weir_analysis::capacity::unsearchable;
use weir_document::Levels;
use weir_results::words::counted;

use super::{Checked, problem};
use crate::scenario::{Load, Model, Scenario, Search};

/// Fewer find no border, more nobody waits for.
const TRIALS: std::ops::RangeInclusive<u32> = 10..=1_000;

/// Narrower than this, no number of trials is enough.
const WIDTH_MIN: f64 = 0.01;

/// Checks the load `name`, which is the search `search`.
pub(super) fn check_search(scenario: &Scenario, name: &str, load: &Load, search: &Search) -> Checked {
    let at = |field| ["loads", name, field];
    let of_search = |field| ["loads", name, "search", field];
    if load.model == Model::Closed {
        let remedy = "make it an open load: `model: open`; a search goes through rates";
        return Err(problem(&at("search"), format!("the closed load `{name}` is a search"), remedy));
    }
    let is_constant = load.rate.as_ref().is_none_or(|rate| matches!(rate, Levels::Constant(_)));
    let given = [
        ("steps", !load.steps.is_empty(), "it makes its own steps"),
        ("connections", !matches!(load.connections, Levels::Constant(_)), "give one number of them"),
        ("rate", !is_constant, "give the one rate to begin with, like `rate: 500/s`"),
        ("burst", load.burst.is_some(), "it is for a rate that stays"),
        ("requests", load.requests.is_some(), "give the length of a trial, like `duration: 2s`"),
    ];
    if let Some((field, _, why)) = given.into_iter().find(|(_, is_given, _)| *is_given) {
        let what = match field {
            "rate" => "rates of its own",
            "connections" => "connections that change",
            field => field,
        };
        let message = format!("the search `{name}` has {what}");
        return Err(problem(&at(field), message, format!("leave them out: {why}")));
    }
    let objective = search.objective(scenario.objective_at(name));
    if let Some(why) = unsearchable(&objective.objective()) {
        let remedy = "name bounds, like search: { p99: 20ms, errors: 0.1% }; without any, the objective of the load or the scenario is taken";
        return Err(problem(&at("search"), format!("the search `{name}`: {why}"), remedy));
    }
    if let Some(width) = search.width.filter(|width| !(WIDTH_MIN..=1.0).contains(&width.0)) {
        let message = format!("an interval of {width} of the capacity");
        return Err(problem(&of_search("width"), message, "give 1% to 100%; without it, 10%"));
    }
    match search.trials.filter(|trials| !TRIALS.contains(trials)) {
        Some(trials) => {
            let remedy = format!("give {} to {}, or leave it out", TRIALS.start(), TRIALS.end());
            Err(problem(
                &of_search("trials"),
                format!("a search of at most {}", counted(trials.into(), "trial")),
                remedy,
            ))
        }
        None => Ok(()),
    }
}
