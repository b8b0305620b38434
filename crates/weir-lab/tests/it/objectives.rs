//! Objectives of gateways, loads and cases, which override the objective of the scenario.

use weir_lab::{Checked, LabError};
use weir_results::OwnObjective;

use crate::read;

const HEAD: &str = "name: x\n";
const LOADS: &str = "loads: { full: { model: closed }, tail: { model: open, rate: 5/s }, light: { model: open, \
    rate: 1/s } }\n";

/// Reads `scenario`. If it has no loads, adds a closed load and two open ones.
fn with_loads(scenario: &str) -> Result<Checked, LabError> {
    let loads = if scenario.contains("loads:") { "" } else { LOADS };
    read(&format!("{HEAD}{scenario}{loads}"))
}

/// The objectives that override the run's objective, as words: gateway, axes, load, latency limits, and error limit.
fn own(scenario: &str) -> Vec<String> {
    let objective = with_loads(scenario).unwrap().objective();
    let words = |own: &OwnObjective| {
        let axes: Vec<String> = own.axes.iter().map(|(path, value)| format!("{path}={value}")).collect();
        let bounds: Vec<String> = own.latency_ns.iter().map(|(name, ns)| format!("{name}={ns}")).collect();
        format!("{} {} {} {} {:?}", own.gateway, axes.join(","), own.load, bounds.join(","), own.errors)
    };
    objective.map(|objective| objective.own.iter().map(words).collect()).unwrap_or_default()
}

#[test]
fn limits_override_each_other() {
    assert_eq!(own("gateways: [weir]\nobjective: { p99: 20ms }\n"), [] as [&str; 0]);
    assert_eq!(own("gateways: [weir]\n"), [] as [&str; 0]);
    // Limits of a gateway override the limits of a load. Limits of a load override the limits of the scenario.
    let all = own("\
gateways: [weir, { name: slow, driver: nginx, objective: { p99: 9ns } }]
objective: { p99: 3ns, errors: 1% }
loads: { full: { model: closed }, light: { model: open, rate: 1/s, objective: { p99: 2ns, mean: 1ns } } }
");
    assert_eq!(
        all,
        [
            "weir  light mean=1,p99=2 Some(0.01)",
            "slow  full p99=9 Some(0.01)",
            "slow  light mean=1,p99=9 Some(0.01)",
        ]
    );
}

#[test]
fn a_case_can_have_an_objective_and_an_axis_cannot() {
    let scenario = "\
gateways: [weir]
objective: { p99: 3ns, errors: 1% }
cases: [{ limits.data.cpus: 1 }, { limits.data.cpus: 2, objective: { p99: 1ns }, loads.tail.objective: { max: 7ns } }]
";
    let found = own(scenario);
    assert_eq!(
        found,
        [
            "weir limits.data.cpus=2 full p99=1 Some(0.01)",
            "weir limits.data.cpus=2 tail max=7,p99=1 Some(0.01)",
            "weir limits.data.cpus=2 light p99=1 Some(0.01)",
        ]
    );
    let checked = with_loads(scenario).unwrap();
    for point in &checked.points {
        assert_eq!(point.axes.keys().collect::<Vec<_>>(), ["limits.data.cpus"]);
    }
}

#[test]
fn findings_are_limited_in_the_unit_of_their_metric() {
    let scenario = "\
gateways: [weir, { name: slow, driver: nginx, objective: { findings: { recovery.time: 9s } } }]
objective:
  findings: { recovery.time: 5s, recovery.errors: 0.5%, failover.p99: 20ms, new-connections.cpu: 50us,
    slow-clients.memory_per_client: 32KiB, capacity.rate: 5000/s, per-core.efficiency: 80%, changes.p99_ratio: 1.5 }
";
    let objective = with_loads(scenario).unwrap().objective().unwrap();
    let limits: Vec<(&str, f64)> =
        objective.findings.iter().map(|(name, limit)| (name.as_str(), *limit)).collect();
    assert_eq!(
        limits,
        [
            ("capacity.rate", 5000.0),
            ("changes.p99_ratio", 1.5),
            ("failover.p99", 20e6),
            ("new-connections.cpu", 50.0),
            ("per-core.efficiency", 0.8),
            ("recovery.errors", 0.005),
            ("recovery.time", 5.0),
            ("slow-clients.memory_per_client", 32768.0),
        ]
    );
    let axes = [("fault".to_owned(), "1: replica 1 killed".into())].into();
    assert_eq!(objective.findings_of("slow", &axes, "tail")["recovery.time"], 9.0);
    assert_eq!(
        objective.findings_of("slow", &axes, "")["recovery.errors"],
        0.005,
        "laid over the scenario's"
    );
    assert_eq!(objective.findings_of("weir", &axes, "tail")["recovery.time"], 5.0);
}

#[test]
fn invalid_objectives_are_located() {
    let check = |scenario: &str, expected: &str| {
        let error = with_loads(scenario).expect_err(expected);
        assert_eq!(format!("{error} | {}", error.remedy()), expected);
    };
    check(
        "gateways: [{ name: weir, objective: {} }]\n",
        "side.yaml:2:37: gateways[0].objective: the objective has no limits | limit a latency or the errors, \
         like { p99: 20ms, errors: 0.1% }, or remove the objective",
    );
    check(
        "gateways: [{ name: weir, objective: { findings: { recovery.tme: 1s } } }]\n",
        "side.yaml:2:65: gateways[0].objective.findings.recovery.tme: unknown metric `recovery.tme` | \
         did you mean `recovery.time`?",
    );
    check(
        "gateways: [weir]\nobjective: { findings: { recovery.time: 5 } }\n",
        "side.yaml:3:41: objective.findings.recovery.time: `5` has no unit | write a time with its unit, like 100us, \
         20ms, 1.5s, 2m",
    );
    check(
        "gateways: [weir]\nobjective: { findings: { changes.p99_ratio: 5ms } }\n",
        "side.yaml:3:45: objective.findings.changes.p99_ratio: `5ms` is not a number | write a number without unit, \
         like 1.5",
    );
    check(
        "gateways: [{ name: weir, objective: { p97: 1ms } }]\n",
        "side.yaml:2:39: unknown field `p97` | did you mean `p90`?",
    );
    check(
        "gateways: [weir]\nvary: { objective.p99: [1ms, 2ms] }\n",
        "side.yaml:3:24: `objective.p99: \"1ms\"`: an objective cannot vary: it does not change any measurement \
         | move the objective to `cases`, to a gateway or to a load",
    );
    check(
        "gateways: [weir]\ncases: [{ objective: { p99: 1ms } }, { objective: { p99: 2ms } }]\n",
        "side.yaml:3:8: cases: combinations 1 and 2 are the same | remove one of the equal values",
    );
}

#[test]
fn closed_loads_cannot_limit_latency_beside_open_loads() {
    let scenario = "\
name: x
gateways: [weir]
loads:
  full: { model: closed, objective: { errors: 1%, p99: 1ms } }
  tail: { model: open, rate: 5/s }
";
    let error = read(scenario).unwrap_err();
    assert_eq!(
        format!("{error} | {}", error.remedy()),
        "side.yaml:4:56: loads.full.objective.p99: the latency of a closed load is not judged if the scenario \
         has open loads | move the objective to an open load, or limit only `errors`"
    );
    assert!(read(&scenario.replace("p99: 1ms", "")).is_ok());
    assert!(read(&scenario.replace("  tail: { model: open, rate: 5/s }\n", "")).is_ok());
}
