//! Capacity searches: valid fields, and errors with location and remedy.

use weir_lab::{Overrides, plan};

use crate::{read, read_with};

const HEAD: &str = "name: x\ngateways: [weir]\n";

fn search(load: &str) -> String {
    format!("{HEAD}loads: {{ capacity: {{ connections: 64, {load} }} }}\n")
}

#[track_caller]
fn refused(load: &str, expected: &str) {
    let error = read(&search(load)).expect_err(expected);
    let said = format!("{error} | {}", error.remedy());
    assert!(said.contains(expected) && said.starts_with("side.yaml:3:"), "{said}");
    assert!(error.is_wrong_use(), "{error:?}");
}

#[test]
fn a_search_needs_no_rate_and_uses_the_scenarios_objective() {
    for (load, more) in [
        ("model: open, search: { p99: 20ms, errors: 0.1% }", ""),
        ("model: open, rate: 500/s, duration: 4s, search: { mean: 5ms, width: 5%, trials: 60 }", ""),
        ("model: open, search: {}", "objective: { p99: 20ms }\n"),
    ] {
        let checked = read(&format!("{}{more}", search(load))).unwrap();
        let (_, load) = checked.scenario.loads.iter().next().unwrap();
        assert!(load.search.is_some());
    }
}

#[test]
fn a_search_without_limits_uses_its_loads_objective() {
    read(&search("model: open, search: {}, objective: { p99: 20ms }")).unwrap();
    let checked = read(&search("model: open, search: {}, objective: { errors: 0.1% }"));
    assert!(checked.is_ok(), "a search can limit errors only");
    refused(
        "model: open, search: {}, objective: { max: 20ms }",
        "loads.capacity.search: a search cannot limit \
        `max`: at every rate, `max` grows with the number of requests | set limits, like `search: { p99: 20ms, errors: 0.1% }`; default: the objective of the load or the scenario",
    );
}

#[test]
fn invalid_searches_are_rejected() {
    refused(
        "model: closed, search: { p99: 20ms }",
        "loads.capacity.search: a closed load cannot search for a \
        capacity: a search varies the rate | use `model: open`",
    );
    refused(
        "model: open, search: {}",
        "loads.capacity.search: the search has no objective | set limits, like \
        `search: { p99: 20ms, errors: 0.1% }`; default: the objective of the load or the scenario",
    );
    refused("model: open, search: { p97: 20ms }", "unknown field `p97`");
    refused(
        "model: open, search: { p99: 0s }",
        "loads.capacity.search: the latency is zero | set limits, like \
        `search: { p99: 20ms, errors: 0.1% }`; default: the objective of the load or the scenario",
    );
    refused(
        "model: open, search: { errors: 0% }",
        "loads.capacity.search: the share of errors must be above 0 \
        and below 100% | set limits, like `search: { p99: 20ms, errors: 0.1% }`; default: the objective of the load or the scenario",
    );
    refused(
        "model: open, search: { p99: 20ms, width: 0% }",
        "loads.capacity.search.width: `0%` is out of range \
        | use 1% to 100%; the default is 10%",
    );
    refused(
        "model: open, search: { p99: 20ms, trials: 3 }",
        "loads.capacity.search.trials: `3` is out of range \
        | use 10 to 1000, or remove `trials`",
    );
    refused(
        "model: open, rate: 100/s..500/s, search: { p99: 20ms }",
        "loads.capacity.rate: a search cannot \
        start with a changing rate | use the rate of the first trial, like `rate: 500/s`",
    );
    refused(
        "model: open, requests: 500, search: { p99: 20ms }",
        "loads.capacity.requests: trials of a search cannot have a fixed number of requests | set the length of a trial instead, like `duration: 2s`",
    );
    refused(
        "model: open, duration: 0s, search: { p99: 20ms }",
        "loads.capacity.duration: the duration is zero \
        | use a longer time, like 10s",
    );
    refused(
        "model: open, steps: [{ rate: 5/s }], search: { p99: 20ms }",
        "loads.capacity.steps: a search \
        cannot have steps | remove `steps`",
    );
    let objective = format!("{}objective: {{ max: 1s }}\n", search("model: open, search: {}"));
    let error = read(&objective).unwrap_err();
    assert!(error.to_string().contains("a search cannot limit `max`"), "{error}");
}

#[test]
fn the_plan_contains_the_time_of_trials_and_quick_has_fewer() {
    let text = search("model: open, duration: 4s, search: { p99: 20ms }");
    let seconds =
        |overrides: &Overrides| plan::cell_time(&read_with(&text, overrides).unwrap().points[0].scenario);
    let whole = seconds(&Overrides::default());
    let quick = seconds(&Overrides { quick: true, ..Overrides::default() });
    // 10 to 60 trials of 5 s; with `quick` at most 24 trials of 1 s.
    assert!(whole.min.as_secs() > 50 && whole.max.as_secs() > 60 * 5, "{whole:?}");
    assert!(quick.min < whole.min / 3 && quick.max < whole.max / 8, "{whole:?} {quick:?}");
}
