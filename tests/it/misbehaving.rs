//! Gateways that misbehave: each loses at most its own cells, other gateways are measured, nothing is left over.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde_json::Value;

use crate::program::{json, scenario, text, the_host, until, wait};
use crate::run::{assert_reconciled, measurements, outcomes};
use crate::yard::Yard;

const DRIVERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/it/drivers");

/// The scenario's entry for a gateway that misbehaves in the way that `way` names.
fn gateway(name: &str, way: &str) -> String {
    format!(
        "{{ name: {name}, driver: misbehaving, binary: {DRIVERS}/misbehaving/gateway.py, set: {{ way: {way} }} }}"
    )
}

/// Runs one repeat of these gateways and weir-gateway. Checks that no process, control group or file is left over.
fn run(yard: &Yard, gateways: &[String]) -> Value {
    let gateways = format!("[weir, {}]", gateways.join(", "));
    let path = scenario(yard.path(), &gateways, "");
    let arguments = ["run", path.to_str().unwrap(), "--drivers", DRIVERS, "--repeats", "1"];
    let kept = ["--db", "weir.db", "--out", "out", "--json"];
    let output = yard.run(&[&arguments[..], &kept[..]].concat());
    assert_eq!(yard.left_over(), Vec::<String>::new());
    assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{}", text(&output.stderr));
    let result = json(&output);
    for well in ["weir", "direct"] {
        let all = measurements(&result, well);
        assert_eq!(all.len(), 2, "two loads of {well}");
        all.into_iter().for_each(|measurement| assert_reconciled(measurement, well));
    }
    result
}

/// Checks that the only cell of a gateway failed with `cause`, and that its outcome contains `words`.
fn failed(result: &Value, gateway: &str, cause: &str, words: &[&str]) {
    let outcome = outcomes(result, gateway)[0];
    assert_eq!(outcome["cause"], cause, "{gateway}: {outcome}");
    let said = outcome.to_string();
    for word in words {
        assert!(said.contains(word), "{gateway}: {word:?} is missing in {said}");
    }
    assert!(!outcome["remedy"].as_str().unwrap().is_empty(), "{outcome}");
}

#[test]
fn a_gateway_that_ignores_sigterm_is_measured_and_killed() {
    let _host = the_host();
    let result = run(&Yard::new(), &[gateway("deaf", "deaf")]);
    let all = measurements(&result, "deaf");
    assert_eq!(all.len(), 2, "two loads");
    for measurement in all {
        assert!(measurement["counters"]["origin_requests"].as_u64().unwrap() > 0, "{measurement}");
    }
    // The gateway prints unprintable bytes around its version.
    let cells = result["cells"].as_array().unwrap();
    let deaf = cells.iter().find(|cell| cell["key"]["gateway"] == "deaf").unwrap();
    let part = deaf["parts"].as_array().unwrap().iter().find(|part| part["role"] == "data").unwrap();
    assert_eq!(part["version"], "0.1");
}

#[test]
fn gateways_that_daemonize_exit_or_exhaust_memory_fail_with_their_cause() {
    let _host = the_host();
    let greedy =
        format!("{{ name: greedy, driver: two-on-one-port, binary: {DRIVERS}/misbehaving/gateway.py }}");
    let ways =
        [gateway("away", "going away"), gateway("quits", "quitting"), gateway("eats", "eating"), greedy];
    let result = run(&Yard::new(), &ways);
    failed(&result, "away", "died", &["misbehaving moved to the background", "foreground"]);
    failed(
        &result,
        "quits",
        "died",
        &["misbehaving exited unexpectedly: exit status: 7", "I have had enough"],
    );
    // The limit of the scenario, 256 MiB.
    failed(&result, "eats", "out-of-memory", &["limit: 256MiB", "memory limit"]);
    failed(&result, "greedy", "port-taken", &["late: port 127.0.0.1:", "by python3 (pid "]);
}

/// Metadata of the log that the gateway writes during the run in `yard`, if the log exists.
fn log_of(yard: &Yard) -> Option<std::fs::Metadata> {
    let below = |folder: &Path, word: &str| {
        let mut entries = std::fs::read_dir(folder).ok()?.flatten();
        entries.find(|entry| entry.file_name().to_string_lossy().contains(word)).map(|entry| entry.path())
    };
    let work = below(&yard.tmp(), "weir-work-")?;
    let cells = std::fs::read_dir(work).ok()?.flatten();
    cells.filter_map(|cell| cell.path().join("gateway/misbehaving.log").metadata().ok()).next()
}

#[test]
fn a_gateway_that_fills_its_log_is_measured_and_uses_little_disk_space() {
    const MIB: u64 = 1 << 20;
    let _host = the_host();
    let yard = Yard::new();
    let path = scenario(yard.path(), &format!("[{}]", gateway("shouts", "shouting")), "");
    let arguments =
        ["run", path.to_str().unwrap(), "--drivers", DRIVERS, "--repeats", "1", "--set", "duration=2s"];
    let kept = ["--db", "weir.db", "--out", "out", "--json"];
    let child = yard.start(yard.weir(&[&arguments[..], &kept[..]].concat()));
    until("a long log that takes little of the disk", || {
        log_of(&yard).is_some_and(|log| log.len() > 48 * MIB && log.blocks() * 512 < 8 * MIB)
    });
    let output = wait(child);
    assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{}", text(&output.stderr));
    let result = json(&output);
    assert_eq!(measurements(&result, "shouts").len(), 2);
    assert_eq!(yard.left_over(), Vec::<String>::new());
}
