//! Measures faults of the upstream: servers die, stall, reset connections and return, with and without retries.

use serde_json::Value;

use crate::program::{finish, json, text, the_host, weir};
use crate::run::{assert_reconciled, measurements};

const SCENARIO: &str = "\
name: it-failover
question: Who notices?
gateways:
  - nginx
  - { name: weir-retries, driver: weir, set: { retries: 2 } }
  - { name: nginx-retries, driver: nginx, set: { retries: 2 } }
  - { name: haproxy-retries, driver: haproxy, set: { retries: 2 } }
  - { name: envoy-retries, driver: envoy, set: { retries: 2 } }
limits: { data: { cpus: 0.5, memory: 512MiB } }
origin: { replicas: 2, body: 64B }
loads: { steady: { model: open, rate: 200/s, connections: 256 } }
faults:
  - { at: 1.3s, replica: 1, do: kill }
  - { at: 2.3s, replica: 1, do: return }
  - { at: 3.3s, replica: 2, do: stall }
  - { at: 4.3s, replica: 2, do: return }
  - { at: 5.3s, replica: 2, do: reset }
  - { at: 6.3s, replica: 2, do: return }
warmup: 200ms
duration: 7s
timeout: 10s
repeats: 1
retries: 0
";

/// (Replica, action) of each fault, in order.
const FAULTS: [(u64, &str); 6] =
    [(1, "kill"), (1, "return"), (2, "stall"), (2, "return"), (2, "reset"), (2, "return")];

/// Number of failed, timed-out, dropped and unexpected requests of the whole load.
fn wrong(measurement: &Value) -> u64 {
    let whole = &measurement["record"]["whole"];
    ["failed", "timed_out", "dropped", "unexpected"].map(|name| whole[name].as_u64().unwrap()).iter().sum()
}

#[test]
fn retries_hide_servers_that_die_stall_reset_and_return() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("failover.yaml"), SCENARIO).unwrap();
    let output =
        finish(weir(folder.path(), &["run", "failover.yaml", "--db", "weir.db", "--out", "out", "--json"]));
    let result = json(&output);
    for gateway in ["nginx", "weir-retries", "nginx-retries", "haproxy-retries", "envoy-retries"] {
        let all = measurements(&result, gateway);
        let [measurement] = all.as_slice() else { panic!("one load of {gateway}: {all:?}") };
        let done = measurement["faults"].as_array().unwrap_or_else(|| panic!("no faults: {measurement}"));
        let words = done.iter().map(|fault| {
            assert!(fault["sustained"].as_bool().unwrap(), "{fault}");
            (fault["replica"].as_u64().unwrap(), fault["action"].as_str().unwrap())
        });
        assert_eq!(words.collect::<Vec<_>>(), FAULTS, "{gateway}");
        let counters = &measurement["counters"];
        assert!(counters["origin_requests"].is_null(), "restarted servers count from zero: {counters}");
        let (sent, uncertain) =
            (counters["generator_sent"].as_u64(), counters["generator_uncertain"].as_u64());
        let (sent, uncertain) = (sent.unwrap(), uncertain.unwrap());
        let counted = counters["gateway_requests"].as_u64().unwrap();
        assert!((sent - uncertain..=sent).contains(&counted), "{gateway}: {counters}");
        let wrong = wrong(measurement);
        match gateway {
            // One server refuses connections for a second; another resets them for a second.
            "nginx" => assert!(wrong > 0, "{measurement}"),
            "weir-retries" => assert_eq!(wrong, 0, "{measurement}"),
            _ => assert!(wrong * 50 < sent, "{gateway}: {wrong} of {sent}"),
        }
    }
    for measurement in measurements(&result, "direct") {
        assert!(measurement["faults"].is_null(), "{measurement}");
        assert_reconciled(measurement, "direct");
    }
    let courses = result["summary"]["faults"]["courses"].as_array().unwrap();
    assert_eq!(courses.len(), 5, "{courses:?}");
    for course in courses {
        let stages = course["stages"].as_array().unwrap();
        assert_eq!(stages.len(), 7, "{course}");
        assert!(stages[0]["fault"].is_null() && stages[1]["fault"]["action"] == "kill", "{course}");
        let quiet = &stages[0];
        assert_eq!((&quiet["unexpected"], &quiet["lost"]), (&0.into(), &0.into()), "{course}");
        let refused = stages[1]["unexpected"].as_u64().unwrap();
        assert!(course["gateway"] != "nginx" || refused > 0, "{course}");
    }
    let report = std::fs::read_to_string(folder.path().join("out/report.md")).unwrap();
    for words in ["## Faults", "Between faults: steady", "replica 2 stalled"] {
        assert!(report.contains(words), "{words}: {report}");
    }
    let svg = std::fs::read_to_string(folder.path().join("out/charts/failover-wrong-steady.svg")).unwrap();
    assert!(svg.contains("stalled") && svg.contains("envoy-retries"), "{svg}");
    let export = ["export", "last", "--db", "weir.db", "--findings"];
    let table = text(&finish(weir(folder.path(), &export)).stdout);
    let recovered =
        table.lines().filter(|row| row.starts_with("recovery,") && row.contains(",time,s,lower,"));
    // Five gateways recover from a kill, a stall and a reset each.
    assert_eq!(recovered.count(), 5 * 3, "{table}");
    assert!(table.contains("recovery,nginx,steady,"), "{table}");
    // The stored run has the same summary.
    let again = json(&finish(weir(folder.path(), &["report", "last", "--db", "weir.db", "--json"])));
    assert_eq!(again["summary"]["faults"], result["summary"]["faults"]);
}

#[test]
fn faults_of_missing_replicas_are_rejected_before_the_run_starts() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = SCENARIO.replace("replicas: 2", "replicas: 1");
    std::fs::write(folder.path().join("failover.yaml"), scenario).unwrap();
    let output = finish(weir(folder.path(), &["run", "failover.yaml", "--db", "weir.db"]));
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("the upstream has no replica 2"), "{error}");
    assert!(!folder.path().join("weir.db").exists(), "the run has started");
}
