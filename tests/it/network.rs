//! `network: namespaces`: what crosses each part's interfaces is counted, cells agree as on loopback, and nothing is
//! left. Only root may; others are told so.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::Path;

use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;

use crate::crash::started;
use crate::pages::blocks;
use crate::program::{finish, json, text, the_host, until, wait, weir};
use crate::run::{assert_reconciled, measurements, run};
use crate::yard::Yard;

/// The user `nobody`.
const NOBODY: u32 = 65_534;
/// Parts are read one after the other, and later than they should be on a host that is busy: this much of a short
/// phase may be off. What is counted twice, or not at all, is off by more.
const BORDERS: f64 = 0.2;

/// Whether this user can make namespaces; where not, `weir run` must say so.
fn is_allowed() -> bool {
    if geteuid().is_root() {
        return true;
    }
    refused(weir(Path::new("/"), &["run", "quickstart", "--set", "network=namespaces", "--plan"]));
    false
}

fn refused(command: std::process::Command) {
    let output = finish(command);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{error}");
    for words in ["--set network=namespaces", "may not make network namespaces", "as root", "loopback"] {
        assert!(error.contains(words), "{words}: {error}");
    }
}

fn of(measurement: &Value, part: &str, figure: &str) -> f64 {
    let number = measurement["usage"][part]["network"][figure].as_f64();
    number.unwrap_or_else(|| panic!("no {figure} of {part}: {}", measurement["usage"]))
}

/// What one side received is what the others sent, and bodies are in it.
fn assert_conserved(measurement: &Value, gateway: &str, origins: &[&str]) {
    let completed = measurement["record"]["result"]["requests"]["completed"].as_f64().unwrap();
    let same = |what: &str, one: f64, other: f64| {
        let apart = (one - other).abs() / one.max(other);
        assert!(apart <= BORDERS, "{gateway}: {what}: {one} and {other}");
    };
    let of_origins = |figure: &str| origins.iter().map(|name| of(measurement, name, figure)).sum::<f64>();
    for (sent, received) in [("sent_bytes", "received_bytes"), ("sent_packets", "received_packets")] {
        if gateway == "direct" {
            same("of origins", of_origins(sent), of(measurement, "generator", received));
            same("of the generator", of(measurement, "generator", sent), of_origins(received));
            continue;
        }
        let around = |figure: &str| of(measurement, "generator", figure) + of_origins(figure);
        same("to the gateway", around(sent), of(measurement, gateway, received));
        same("from the gateway", of(measurement, gateway, sent), around(received));
    }
    // Bodies have 64 bytes; heads, Ethernet's among them, make a response no more than this.
    let bodies = completed * 64.0 * (1.0 - BORDERS);
    for sent in [of_origins("sent_bytes"), of(measurement, "generator", "received_bytes")] {
        assert!((bodies..completed * 1_000.0).contains(&sent), "{gateway}: {sent} for {completed} bodies");
    }
}

#[test]
fn what_crosses_the_interfaces_is_counted_on_both_sides() {
    let _host = the_host();
    if !is_allowed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), "[weir, nginx, haproxy, envoy]", "network: namespaces\n", &[]);
    let result = json(&output);
    for gateway in ["weir", "nginx", "haproxy", "envoy", "direct"] {
        let all = measurements(&result, gateway);
        assert_eq!(all.len(), 4, "two loads in two repeats of {gateway}");
        for measurement in all {
            assert_reconciled(measurement, gateway);
            assert_conserved(measurement, gateway, &["origin"]);
        }
    }
    assert_eq!(result["run"]["manifest"]["network"], "namespaces");
    let table = std::fs::read_to_string(folder.path().join("out/cells.csv")).unwrap();
    assert!(table.contains("data_network_sent_bytes"));
}

#[test]
fn replicas_and_a_configuration_of_ones_own_are_reached_over_links_too() {
    let _host = the_host();
    if !is_allowed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = blocks("scenarios.md").into_iter().find(|block| block.language == "nginx").unwrap().text;
    std::fs::write(folder.path().join("told.conf"), &file).unwrap();
    let own = file.replace("listen {{ listen }};", "listen 8080;");
    assert_ne!(own, file);
    std::fs::write(folder.path().join("own.conf"), own).unwrap();
    let gateways = "[weir, { name: told, driver: nginx, config: ./told.conf }, \
                    { name: own, driver: nginx, config: ./own.conf, listen: '0.0.0.0:8080' }]";
    let origin = ["--set", "origin.driver=nginx", "--set", "origin.replicas=3", "--repeats", "1"];
    let result = json(&run(folder.path(), gateways, "network: namespaces\n", &origin));
    for gateway in ["weir", "told", "own", "direct"] {
        for measurement in measurements(&result, gateway) {
            assert_reconciled(measurement, gateway);
            let part = if gateway == "weir" || gateway == "direct" { gateway } else { "nginx" };
            assert_conserved(measurement, part, &["origin-1", "origin-2", "origin-3"]);
        }
    }
}

#[test]
fn a_sweep_over_both_networks_has_figures_for_one_of_them() {
    let _host = the_host();
    if !is_allowed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let more = "vary: { network: [loopback, namespaces] }\n";
    let result = json(&run(folder.path(), "[weir]", more, &["--repeats", "1"]));
    assert_eq!(result["run"]["manifest"]["network"], "loopback, namespaces");
    let cells = result["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 4);
    for cell in cells {
        let has = cell["key"]["axes"]["network"] == "namespaces";
        for measurement in cell["outcome"]["measurements"].as_array().unwrap() {
            for (part, usage) in measurement["usage"].as_object().unwrap() {
                assert_eq!(usage["network"].is_object(), has, "{part}: {usage}");
            }
        }
    }
}

/// The networks of the run's processes, but for this one's own.
fn networks_of(yard: &Yard) -> BTreeSet<String> {
    let network = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let own = network("self").unwrap();
    let all = yard.processes().into_iter().filter_map(|(pid, _)| network(&pid.to_string()));
    all.filter(|network| *network != own).map(|network| network.to_string_lossy().into_owned()).collect()
}

/// Whoever on this host is in one of these networks, or holds one.
fn holders(networks: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path()) {
        let files = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        for link in files.map(|entry| entry.path()).chain([process.join("ns/net")]) {
            let target = std::fs::read_link(&link).unwrap_or_default();
            if networks.contains(&*target.to_string_lossy()) {
                found.push(link.display().to_string());
            }
        }
    }
    found
}

/// The names of the interfaces in the host's network.
fn interfaces() -> Vec<String> {
    let text = std::fs::read_to_string("/proc/net/dev").unwrap();
    text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned())).collect()
}

/// Ends a run in the middle of its cells by `signal`; nothing of it may be left.
fn leaves_nothing_after(signal: Signal) {
    let _host = the_host();
    if !is_allowed() {
        return;
    }
    let yard = Yard::new();
    let before = interfaces();
    let (child, _, _) = started(&yard, "network: namespaces\n");
    let mut networks = BTreeSet::new();
    until("generator, gateway and origin in networks of their own", || {
        networks.extend(networks_of(&yard));
        networks.len() >= 3
    });
    kill_process(Pid::from_child(&child), signal).unwrap();
    wait(child);
    yard.await_nothing_left();
    until("the end of the networks", || holders(&networks).is_empty());
    assert_eq!(interfaces(), before, "nothing of the run was, or is, in the host's own network");
}

#[test]
fn a_killed_run_leaves_no_network() {
    leaves_nothing_after(Signal::KILL);
}

#[test]
fn ctrl_c_leaves_no_network() {
    leaves_nothing_after(Signal::INT);
}

#[test]
fn others_than_root_are_told_and_so_is_an_address_that_nobody_reaches() {
    if is_allowed() {
        let mut command =
            weir(Path::new("/"), &["run", "quickstart", "--set", "network=namespaces", "--plan"]);
        command.uid(NOBODY).gid(NOBODY);
        refused(command);
    }
    let folder = tempfile::tempdir().unwrap();
    let gateways = "[{ name: weir, listen: '127.0.0.1:8080' }]";
    let output = run(folder.path(), gateways, "network: namespaces\n", &["--plan"]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("nobody can ask 127.0.0.1:8080") && error.contains("0.0.0.0:8080"), "{error}");
}
