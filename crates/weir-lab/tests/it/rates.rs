//! Loads with several rates, and changes of routes while load runs.

use std::time::Duration;

use serde_json::json;
use weir_document::Levels;
use weir_lab::{LabError, Overrides, Source, plan};

use crate::{known, read, read_with, run_of};

const HEAD: &str = "name: x\ngateways: [weir]\n";

/// Names and rates of the loads at the first point of the scenario.
fn loads(text: &str) -> Vec<(String, f64)> {
    let checked = read(&format!("{HEAD}{text}")).unwrap();
    let rate = |levels: &Option<Levels<weir_document::AskedRate>>| match levels {
        Some(Levels::Constant(rate)) => rate.per_s().unwrap(),
        other => panic!("{other:?}"),
    };
    let loads = checked.points[0].scenario.loads.iter();
    loads.map(|(name, load)| (name.to_owned(), rate(&load.rate))).collect()
}

#[track_caller]
fn check(text: &str, expected: &str) {
    let error: LabError = read(&format!("{HEAD}{text}")).expect_err(expected);
    assert_eq!(format!("{error} | {}", error.remedy()), expected);
    assert!(error.is_wrong_use(), "{error:?}");
}

#[test]
fn a_list_of_rates_is_one_load_per_rate_in_ascending_order() {
    let text = "loads: { curve: { model: open, rates: [1000/s, 500/s, 0.5/s] }, tail: { model: open, rate: 7/s } }\n";
    let expected = [("curve-0_5", 0.5), ("curve-500", 500.0), ("curve-1000", 1000.0), ("tail", 7.0)];
    assert_eq!(loads(text), expected.map(|(name, rate)| (name.to_owned(), rate)));
    let spread = "loads: { c: { model: open, rates: 500/s..8000/s..4, connections: 8, duration: 3s } }\n";
    let names: Vec<String> = loads(spread).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["c-500", "c-3000", "c-5500", "c-8000"]);
    let checked = read(&format!("{HEAD}{spread}")).unwrap();
    let first = checked.points[0].scenario.loads.named("c-500").unwrap();
    assert_eq!((first.connections.greatest(), first.duration.unwrap().0), (8, Duration::from_secs(3)));
    // Four loads of three seconds, each with a warm-up of five seconds.
    assert!(plan::cell_time(&checked.points[0].scenario).min >= Duration::from_secs(32));
}

#[test]
fn a_stored_run_keeps_its_list_of_rates() {
    let text = format!(
        "{HEAD}loads: {{ c: {{ model: open, rates: 500/s..1500/s..3 }} }}\nchanges: {{ every: 1s }}\n"
    );
    let once = read(&text).unwrap();
    let run = run_of(&once, 1);
    assert_eq!(run.scenario["loads"]["c"]["rates"], json!(["500/s", "1000/s", "1500/s"]));
    assert_eq!(weir_lab::read_again(&run, None, &known()).unwrap(), once);
}

#[test]
fn rates_can_be_overridden_and_varied_by_the_name_of_their_load() {
    let text = format!(
        "{HEAD}loads: {{ c: {{ model: open, rates: [5/s, 6/s] }} }}\nvary: {{ loads.c.connections: [2, 4] }}\n"
    );
    let set = Overrides { set: vec!["loads.c.rates=[7/s, 8/s]".into()], ..Overrides::default() };
    let checked = read_with(&text, &set).unwrap();
    for (point, connections) in checked.points.iter().zip([2, 4]) {
        let loads: Vec<_> =
            point.scenario.loads.iter().map(|(name, load)| (name, load.connections.greatest())).collect();
        assert_eq!(loads, [("c-7", connections), ("c-8", connections)]);
        assert_eq!(point.axes["loads.c.connections"], json!(connections));
    }
}

#[test]
fn changes_apply_to_every_rate_of_the_listed_loads() {
    let text = "loads: { c: { model: open, rates: [5/s, 6/s] }, full: { model: closed } }\n\
                changes: { every: 2s, paths: 3, loads: [c] }\n";
    let checked = read(&format!("{HEAD}{text}")).unwrap();
    let changes = checked.points[0].scenario.changes.as_ref().unwrap();
    assert_eq!((changes.every.0, changes.paths), (Duration::from_secs(2), 3));
    assert_eq!(changes.loads, ["c-5", "c-6"]);
    assert_eq!(checked.scenario.changes.as_ref().unwrap().loads, ["c"], "the run keeps the original list");
}

#[test]
fn invalid_rates_are_located() {
    check(
        "loads: { c: { model: closed, rates: [5/s] } }\n",
        "side.yaml:3:37: loads.c.rates: a closed load cannot have rates | remove the rates, or use `model: open`",
    );
    check(
        "loads: { c: { model: open, rate: 5/s, rates: [5/s] } }\n",
        "side.yaml:3:46: loads.c.rates: `rates` and `rate` cannot be combined: weir runs one load for each of \
         the rates | remove one of the two",
    );
    check(
        "loads: { c: { model: open, rates: [5/s] }, c-5: { model: closed } }\n",
        "side.yaml:3:35: loads.c.rates: the rates of `c` create a load named `c-5`, but another load has this \
         name | rename one of the two loads",
    );
    check(
        "loads: { c: { model: open, rates: [5/s, 300/m] } }\n",
        "side.yaml:3:35: duplicate rate `5/s` | remove one of the two",
    );
    check(
        "loads: { c: { model: open, rates: [] } }\n",
        "side.yaml:3:35: no rates | write a list like [500/s, 1000/s], 500/s..8000/s..8 for eight of them, or \
         500/s..8000/s..500/s for strides",
    );
}

#[test]
fn invalid_changes_are_located() {
    const LOADS: &str = "loads: { full: { model: closed } }\n";
    check(
        &format!("changes: {{ every: 0s }}\n{LOADS}"),
        "side.yaml:3:19: changes.every: `0s` is out of range | use at least 100ms, like 10s",
    );
    check(
        &format!("changes: {{ every: 1s, paths: 0 }}\n{LOADS}"),
        "side.yaml:3:30: changes.paths: `0` is out of range | use at least 1 path per domain, \
         and at most 1000000 paths in total",
    );
    check(
        &format!("changes: {{ every: 1s, loads: [ful] }}\n{LOADS}"),
        "side.yaml:3:31: changes.loads[0]: unknown load `ful` | did you mean `full`?",
    );
    check(
        &format!("changes: {{ every: 1s }}\ntopology: {{ paths: [/changed/1] }}\n{LOADS}"),
        "side.yaml:3:10: changes: path `/changed/1` of the topology begins with `/changed/`, which weir uses \
         for changes | rename the path",
    );
    check(&format!("changes: {{}}\n{LOADS}"), "side.yaml:3:10: missing field `every` | add `every`");
    let of = |kinds: &str, more: &str| format!("changes: {{ every: 1s, of: [{kinds}] }}\n{more}{LOADS}");
    check(
        &of("", ""),
        "side.yaml:3:27: changes.of: the list is empty | add `routes`, `endpoints` or `certificates`; \
         without `of`, weir changes routes",
    );
    check(
        &of("routes, routes", ""),
        "side.yaml:3:36: changes.of[1]: duplicate value `routes` | remove one of \
        the two",
    );
    check(
        &of("endpoints", ""),
        "side.yaml:3:28: changes.of[0]: changes of `endpoints` remove an endpoint, but the upstream has only \
         1 endpoint | set `origin.replicas` to at least 2",
    );
    check(
        &of("certificates", ""),
        "side.yaml:3:28: changes.of[0]: changes of certificates need TLS | add `tls: true` to the topology",
    );
    check(
        &of("certificates", "topology: { tls: true, certificates: each }\n"),
        "side.yaml:3:28: changes.of[0]: changes of certificates need a certificate that all domains share | remove \
         `topology.certificates`; the domains then share a certificate",
    );
    let remote = "name: x\ngateways: [{ name: prod, driver: remote, url: 'http://127.0.0.1:1' }]\n\
                  changes: { every: 1s }\nloads: { full: { model: closed } }\n";
    let error = read(remote).unwrap_err();
    assert!(
        error.to_string().contains("weir cannot change the routes of `prod`: the gateway is remote"),
        "{error}"
    );
}

#[test]
fn headroom_has_the_same_rates_with_few_and_many_routes() {
    let checked =
        weir_lab::read(&Source::find("headroom").unwrap(), &Overrides::default(), &known()).unwrap();
    let paths: Vec<usize> =
        checked.points.iter().map(|point| point.scenario.topology.paths().len()).collect();
    assert_eq!(paths, [1, 100_000]);
    for point in &checked.points {
        let names: Vec<&str> = point.scenario.loads.names().collect();
        assert!(names.len() > 8 && names.starts_with(&["curve-2pct", "curve-5pct"]), "{names:?}");
        assert_eq!(point.scenario.changes.as_ref().unwrap().loads, ["changing"]);
        assert!(point.scenario.loads.named("capacity").unwrap().search.is_some());
    }
    let ramp =
        weir_lab::read(&Source::find("headroom-ramp").unwrap(), &Overrides::default(), &known()).unwrap();
    let connections = &ramp.scenario.loads.named("ramp").unwrap().connections;
    assert!(connections.steps().len() >= 6, "the scalability law needs six steps: {connections:?}");
}
