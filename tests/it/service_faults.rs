//! Real failures of services that gateways need. A service is killed or stalled, is never ready, has no disk space, or
//! rejects messages. A killed lab leaves no service running.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Output;

use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;

use crate::network::{holders, interfaces, networks_of};
use crate::places::Disk;
use crate::program::{json, text, the_host, the_host_alone, until, wait};
use crate::run::{assert_reconciled, measurements, outcomes};
use crate::services::DRIVERS;
use crate::yard::Yard;

const SERVICE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../services/nats/service.yaml");

/// A scenario with these gateways.
fn scenario(yard: &Yard, gateways: &str, more: &str) -> PathBuf {
    let path = yard.path().join("bus.yaml");
    let text = format!(
        "name: it-service-faults\nquestion: Who notices?\ngateways: [{gateways}]\n\
         limits: {{ service: {{ cpus: 0.5, memory: 256MiB }} }}\n\
         topology: {{ domains: 3, paths: [/ping, /get/1] }}\norigin: {{ body: 64B }}\n\
         loads: {{ steady: {{ model: open, rate: 60/s, connections: 4 }} }}\n\
         warmup: 300ms\nduration: 1s\ntimeout: 5s\nrepeats: 1\nretries: 0\n{more}"
    );
    std::fs::write(&path, text).unwrap();
    path
}

fn bus(name: &str, set: &str) -> String {
    format!("{{ name: {name}, driver: over-nats, set: {{ every: 400ms{set} }} }}")
}

fn arguments(path: &Path, drivers: &str) -> Vec<String> {
    let words = ["run", path.to_str().unwrap(), "--drivers", drivers, "--db", "weir.db", "--out", "out"];
    words.iter().map(|word| (*word).to_owned()).chain(["--json".to_owned()]).collect()
}

fn words(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

/// Copies the test drivers and the NATS service into a folder, with `from` replaced by `to` in service.yaml.
fn with_service(yard: &Yard, from: &str, to: &str) -> PathBuf {
    let own = yard.path().join("drivers");
    for folder in ["over-nats", "nats"] {
        std::fs::create_dir_all(own.join(folder)).unwrap();
    }
    for file in std::fs::read_dir(DRIVERS).unwrap().map(|entry| entry.unwrap().path()) {
        std::fs::copy(&file, own.join("over-nats").join(file.file_name().unwrap())).unwrap();
    }
    let service = std::fs::read_to_string(SERVICE).unwrap();
    assert!(service.contains(from), "{service}");
    std::fs::write(own.join("nats/service.yaml"), service.replace(from, to)).unwrap();
    own
}

/// Checks that the cell of `bus` failed with `cause`, that its outcome contains `said`, that the cells of weir and the
/// direct baseline are measured, and that nothing is left over.
fn assert_failed(yard: &Yard, output: &Output, cause: &str, said: &[&str]) -> Value {
    assert_eq!(yard.left_over(), Vec::<String>::new());
    let result = json(output);
    let outcome = outcomes(&result, "bus")[0].clone();
    assert_eq!(outcome["cause"], cause, "{outcome}");
    let message = outcome["message"].as_str().unwrap();
    assert!(message.starts_with("service `nats`: "), "{message}");
    for words in said {
        assert!(outcome.to_string().contains(words), "{words:?} is missing in {outcome}");
    }
    assert!(!outcome["remedy"].as_str().unwrap().is_empty(), "{outcome}");
    for well in ["weir", "direct"] {
        let all = measurements(&result, well);
        assert_eq!(all.len(), 1, "{well}");
        assert_reconciled(all[0], well);
    }
    let report = std::fs::read_to_string(yard.path().join("out/report.md")).unwrap();
    assert!(report.contains(&format!("bus, repeat 1: {cause}: service")), "{report}");
    outcome
}

/// Number of failed, timed-out, dropped and unexpected requests of a load.
fn wrong(measurement: &Value) -> u64 {
    let whole = &measurement["record"]["whole"];
    ["failed", "timed_out", "dropped", "unexpected"].map(|name| whole[name].as_u64().unwrap()).iter().sum()
}

/// Times of the events of a kind, in seconds.
fn times(measurement: &Value, kind: &str) -> Vec<f64> {
    let events = measurement["events"].as_array().unwrap().iter();
    events.filter(|event| event["kind"] == kind).map(|event| event["t_s"].as_f64().unwrap()).collect()
}

#[test]
fn the_report_shows_which_gateways_notice_a_killed_or_stalled_service() {
    let _host = the_host();
    let yard = Yard::new();
    let gateways = format!("{}, {}, weir", bus("keeps", ""), bus("forgets", ", forgets: true"));
    let faults = "duration: 6s\nfaults:\n\
        \x20 - { at: 1.3s, service: nats, do: kill }\n  - { at: 2.3s, service: nats, do: return }\n\
        \x20 - { at: 4.3s, service: nats, do: stall }\n  - { at: 5.3s, service: nats, do: return }\n";
    let path = scenario(&yard, &gateways, "");
    let text_of = std::fs::read_to_string(&path).unwrap().replace("duration: 1s\n", faults);
    std::fs::write(&path, text_of).unwrap();
    let output = yard.run(&words(&arguments(&path, DRIVERS)));
    let error = text(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{error}");
    assert!(
        error.contains("faults of the service `nats` are skipped for gateways that do not use it: weir"),
        "{error}"
    );
    assert_eq!(yard.left_over(), Vec::<String>::new());
    let result = json(&output);
    for gateway in ["keeps", "forgets"] {
        let measurement = measurements(&result, gateway)[0];
        let done = measurement["faults"].as_array().unwrap_or_else(|| panic!("no faults: {measurement}"));
        let actions: Vec<&str> = done.iter().map(|fault| fault["action"].as_str().unwrap()).collect();
        assert_eq!(actions, ["kill", "return", "stall", "return"], "{gateway}");
        assert!(
            done.iter().all(|fault| fault["service"] == "nats" && fault["replica"].is_null()),
            "{done:?}"
        );
        // While NATS is killed, registrations fail. After it returns, they succeed until the end.
        let failed = times(measurement, "registration-failed");
        // NATS still accepts messages until the kill completes.
        let killed = done[0]["t_s"].as_f64().unwrap() + done[0]["took_ns"].as_f64().unwrap() / 1e9;
        let returned = done[1]["t_s"].as_f64().unwrap();
        assert!(failed.iter().any(|t_s| (killed..returned).contains(t_s)), "{failed:?}");
        let registered = times(measurement, "registration");
        assert!(registered.iter().all(|t_s| !(killed..returned).contains(t_s)), "{registered:?}");
        let last = done[3]["t_s"].as_f64().unwrap();
        assert!(registered.iter().any(|t_s| *t_s >= last), "{registered:?}, {last}");
        let count = |name: &str| measurement["counters"][name].as_u64().unwrap();
        let (sent, uncertain) = (count("generator_sent"), count("generator_uncertain"));
        assert!((sent - uncertain..=sent).contains(&count("gateway_requests")), "{measurement}");
    }
    assert_eq!(wrong(measurements(&result, "keeps")[0]), 0);
    let forgotten = wrong(measurements(&result, "forgets")[0]);
    assert!((1..360).contains(&forgotten), "{forgotten} requests without a route");
    for well in ["weir", "direct"] {
        let measurement = measurements(&result, well)[0];
        assert!(measurement["faults"].is_null(), "{measurement}");
        assert_reconciled(measurement, well);
    }
    let failover = finding(&result, "failover");
    for said in [
        "keeps kept serving while nats was down: 0 of",
        "keeps kept serving while nats was stalled: 0 of",
        "requests failed while nats was down, 0 of",
        "weir: not affected, because it does not use nats.",
    ] {
        assert!(failover.contains(said), "{said:?} is missing in {failover}");
    }
    assert!(
        failover.contains("re-registrations failed") || failover.contains("re-registration failed"),
        "{failover}"
    );
    let recovery = finding(&result, "recovery");
    assert!(
        recovery.contains("forgets: nats killed: ") && !recovery.contains("forgets: nats killed: no error"),
        "{recovery}"
    );
    let report = std::fs::read_to_string(yard.path().join("out/report.md")).unwrap();
    assert!(report.contains("keeps kept serving while nats was down"), "{report}");
    let export = text(&yard.run(&["export", "last", "--db", "weir.db", "--findings"]).stdout);
    let is_row = |row: &str| row.starts_with("failover,keeps,steady,") && row.contains("nats killed");
    assert!(export.lines().any(is_row), "{export}");
}

/// The sentences of a finding, as one text.
fn finding(result: &Value, key: &str) -> String {
    let findings = result["summary"]["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["key"] == key);
    found.unwrap_or_else(|| panic!("no finding {key}: {findings:?}"))["sentences"].to_string()
}

#[test]
fn a_service_that_is_never_ready_fails_only_its_cells() {
    let _host = the_host();
    let yard = Yard::new();
    let ready = "path: /healthz, status: 200 } }";
    let drivers = with_service(&yard, ready, "path: /nowhere, status: 200 } }\n    ready_timeout: 1s");
    let path = scenario(&yard, &format!("{}, weir", bus("bus", "")), "");
    let output = yard.run(&words(&arguments(&path, drivers.to_str().unwrap())));
    let said = [
        "was not ready after",
        "/nowhere returned status 404 instead of 200",
        "Server is ready",
        "`ready_timeout`",
    ];
    assert_failed(&yard, &output, "never-ready", &said);
}

#[test]
fn a_service_without_disk_space_fails_only_its_cells() {
    let _host = the_host();
    let yard = Yard::new();
    let disk = Disk::mount(&yard, "256k");
    disk.fill();
    let file = yard.path().join("disk/nats.pid");
    let port = "- --http_port\n";
    let drivers = with_service(&yard, port, &format!("- --pid\n      - {}\n      {port}", file.display()));
    let path = scenario(&yard, &format!("{}, weir", bus("bus", "")), "");
    let output = disk.run(&words(&arguments(&path, drivers.to_str().unwrap())));
    let said = ["nats: no space left on device", "Could not write pidfile", "free up disk space"];
    assert_failed(&yard, &output, "disk-full", &said);
}

#[test]
fn a_service_that_rejects_messages_fails_only_its_cells() {
    let _host = the_host();
    let yard = Yard::new();
    // The gateway uses the only allowed connection.
    let file = yard.path().join("nats.conf");
    std::fs::write(&file, "max_connections: 1\n").unwrap();
    let port = "- --http_port\n";
    let drivers = with_service(&yard, port, &format!("- --config\n      - {}\n      {port}", file.display()));
    let path = scenario(&yard, &format!("{}, weir", bus("bus", "")), "");
    let output = yard.run(&words(&arguments(&path, drivers.to_str().unwrap())));
    let said = ["cannot connect to NATS at", "maximum connections exceeded", "see the log of"];
    assert_failed(&yard, &output, "service", &said);
}

/// The process ID of the NATS server of a yard.
fn nats(yard: &Yard) -> Option<Pid> {
    let is_nats = |(_, command): &(i32, String)| command.contains("nats-server --addr");
    yard.processes().into_iter().find(is_nats).and_then(|(pid, _)| Pid::from_raw(pid))
}

/// Whether the load generator, the publisher and NATS of a cell are running.
fn is_loaded(yard: &Yard) -> bool {
    let processes = yard.processes();
    let runs = |words: &str| processes.iter().any(|(_, command)| command.contains(words));
    runs("weir generate") && runs("weir publish") && runs("nats-server --addr")
}

#[test]
fn a_service_that_crashes_fails_only_its_cell() {
    let _host = the_host();
    let yard = Yard::new();
    let path = scenario(&yard, &format!("{}, weir", bus("bus", "")), "");
    let child = yard.start(yard.weir(&words(&arguments(&path, DRIVERS))));
    until("a load beside NATS", || is_loaded(&yard));
    kill_process(nats(&yard).unwrap(), Signal::KILL).unwrap();
    let output = wait(child);
    let said = ["exited unexpectedly: signal: 9", "Server is ready", "see the log of nats"];
    assert_failed(&yard, &output, "died", &said);
}

/// Kills the lab when `has_come` holds, and checks that nothing is left over.
fn leaves_nothing_of_a_service(more: &str, has_come: impl Fn(&Yard) -> bool) {
    let yard = Yard::new();
    let before = interfaces();
    let path = scenario(&yard, &bus("bus", ""), more);
    let mut child = yard.start(yard.weir(&words(&arguments(&path, DRIVERS))));
    until("the moment", || is_loaded(&yard) && has_come(&yard));
    let networks: BTreeSet<String> = networks_of(&yard);
    child.kill().unwrap();
    child.wait().unwrap();
    yard.await_nothing_left();
    until("the end of the networks", || holders(&networks).is_empty());
    assert_eq!(interfaces(), before);
}

#[test]
fn a_killed_lab_leaves_no_stalled_service_and_no_service_network() {
    let _host = the_host_alone();
    let is_stopped = |yard: &Yard| {
        let stat = nats(yard).map(|pid| format!("/proc/{}/stat", pid.as_raw_nonzero()));
        let stat = stat.and_then(|stat| std::fs::read_to_string(stat).ok()).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
    };
    leaves_nothing_of_a_service("faults: [{ at: 0ms, service: nats, do: stall }]\n", is_stopped);
    if geteuid().is_root() {
        // Networks of generator, gateway, upstream and service.
        leaves_nothing_of_a_service("network: namespaces\n", |yard| networks_of(yard).len() >= 4);
    }
}
