//! Tests `network: namespaces`: weir counts the traffic of each part's interfaces, the request counts of generator,
//! gateway and origin agree as they do on loopback, and no network is left over. Only root may use it; other users get
//! an error.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::CommandExt;
use std::path::Path;

use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;

use crate::crash::started;
use crate::pages::blocks;
use crate::program::{finish, json, text, the_host_alone, until, wait, weir};
use crate::run::{assert_reconciled, measurements, run};
use crate::yard::Yard;

/// The user `nobody`.
const NOBODY: u32 = 65_534;
/// Maximum relative difference between two sums that should be equal, each over many phases. In one short phase,
/// counters may differ more, because weir reads the parts one after another, and with delays on a busy host. If traffic
/// is counted twice or not at all, the sums differ by more than this.
const SUMS_APART: f64 = 0.3;

/// Whether this user can make namespaces. If not, checks that `weir run` reports it.
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
    for words in ["--set network=namespaces", "cannot create network namespaces", "as root", "loopback"] {
        assert!(error.contains(words), "{words}: {error}");
    }
}

fn of(measurement: &Value, part: &str, figure: &str) -> f64 {
    let number = measurement["usage"][part]["network"][figure].as_f64();
    number.unwrap_or_else(|| panic!("no {figure} of {part}: {}", measurement["usage"]))
}

/// Sums over all measurements, by description. Each entry has two sums: sent by one side, and received by the other
/// side.
#[derive(Default)]
struct Sums(BTreeMap<String, (f64, f64)>);

impl Sums {
    fn add(&mut self, measurement: &Value, gateway: &str, origins: &[&str]) {
        let of_origins = |figure: &str| origins.iter().map(|name| of(measurement, name, figure)).sum::<f64>();
        for (sent, received) in [("sent_bytes", "received_bytes"), ("sent_packets", "received_packets")] {
            let generator = |figure: &str| of(measurement, "generator", figure);
            if gateway == "direct" {
                self.both(&format!("{sent} by origins"), of_origins(sent), generator(received));
                self.both(&format!("{sent} by the generator"), generator(sent), of_origins(received));
                continue;
            }
            let around = |figure: &str| generator(figure) + of_origins(figure);
            self.both(&format!("{sent} to gateways"), around(sent), of(measurement, gateway, received));
            self.both(&format!("{sent} by gateways"), of(measurement, gateway, sent), around(received));
        }
        let completed = measurement["record"]["result"]["requests"]["completed"].as_f64().unwrap();
        self.both("bytes of bodies and bytes sent by origins", completed * 64.0, of_origins("sent_bytes"));
    }

    fn both(&mut self, what: &str, one: f64, other: f64) {
        let sum = self.0.entry(what.to_owned()).or_default();
        *sum = (sum.0 + one, sum.1 + other);
    }

    fn assert_conserved(&self) {
        for (what, (one, other)) in &self.0 {
            if what.contains("bodies") {
                // Origins also send headers of all layers, from Ethernet to HTTP. So they send more bytes than the
                // bodies have, but less than ten times as many.
                assert!(one < other && *other < one * 10.0, "{what}: {one} and {other}");
                continue;
            }
            let apart = (one - other).abs() / one.max(*other);
            assert!(apart <= SUMS_APART, "{what}: {one} sent and {other} received");
        }
    }
}

#[test]
fn interface_counters_agree_on_both_sides() {
    let _host = the_host_alone();
    if !is_allowed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), "[weir, nginx, haproxy, envoy]", "network: namespaces\n", &[]);
    let result = json(&output);
    let mut sums = Sums::default();
    for gateway in ["weir", "nginx", "haproxy", "envoy", "direct"] {
        let all = measurements(&result, gateway);
        assert_eq!(all.len(), 4, "two loads in two repeats of {gateway}");
        for measurement in all {
            assert_reconciled(measurement, gateway);
            sums.add(measurement, gateway, &["origin"]);
        }
    }
    sums.assert_conserved();
    assert_eq!(result["run"]["manifest"]["network"], "namespaces");
    let table = std::fs::read_to_string(folder.path().join("out/cells.csv")).unwrap();
    assert!(table.contains("data_network_sent_bytes"));
}

#[test]
fn replicas_and_gateways_with_user_configurations_are_reached_over_links() {
    let _host = the_host_alone();
    if !is_allowed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = blocks("scenarios.md").into_iter().find(|block| block.language == "nginx").unwrap().text;
    std::fs::write(folder.path().join("templated.conf"), &file).unwrap();
    let own = file.replace("listen {{ listen }};", "listen 8080;");
    assert_ne!(own, file);
    std::fs::write(folder.path().join("own.conf"), own).unwrap();
    let gateways = "[weir, { name: templated, driver: nginx, config: ./templated.conf }, \
                    { name: own, driver: nginx, config: ./own.conf, listen: '0.0.0.0:8080' }]";
    let origin = ["--set", "origin.driver=nginx", "--set", "origin.replicas=3", "--repeats", "1"];
    let result = json(&run(folder.path(), gateways, "network: namespaces\n", &origin));
    let mut sums = Sums::default();
    for gateway in ["weir", "templated", "own", "direct"] {
        for measurement in measurements(&result, gateway) {
            assert_reconciled(measurement, gateway);
            let part = if gateway == "weir" || gateway == "direct" { gateway } else { "nginx" };
            sums.add(measurement, part, &["origin-1", "origin-2", "origin-3"]);
        }
    }
    sums.assert_conserved();
}

#[test]
fn a_sweep_over_both_networks_counts_traffic_only_in_namespaces() {
    let _host = the_host_alone();
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

/// The network namespaces of the run's processes, except the namespace of this process.
pub fn networks_of(yard: &Yard) -> BTreeSet<String> {
    let network = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let own = network("self").unwrap();
    let all = yard.processes().into_iter().filter_map(|(pid, _)| network(&pid.to_string()));
    all.filter(|network| *network != own).map(|network| network.to_string_lossy().into_owned()).collect()
}

/// All `/proc` links which show that a process on this host is in one of these networks, or holds one open.
pub fn holders(networks: &BTreeSet<String>) -> Vec<String> {
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
pub fn interfaces() -> Vec<String> {
    let text = std::fs::read_to_string("/proc/net/dev").unwrap();
    text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned())).collect()
}

/// Stops a run with `signal` in the middle of its cells, and checks that nothing is left over.
fn leaves_nothing_after(signal: Signal) {
    let _host = the_host_alone();
    if !is_allowed() {
        return;
    }
    let yard = Yard::new();
    let before = interfaces();
    let (child, _, _) = started(&yard, "network: namespaces\n");
    let mut networks = BTreeSet::new();
    until("separate networks of generator, gateway and origin", || {
        networks.extend(networks_of(&yard));
        networks.len() >= 3
    });
    kill_process(Pid::from_child(&child), signal).unwrap();
    wait(child);
    yard.await_nothing_left();
    until("the end of the networks", || holders(&networks).is_empty());
    assert_eq!(interfaces(), before, "the run has left interfaces in the host's network");
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
fn users_without_root_and_unreachable_addresses_get_an_error() {
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
    assert!(
        error.contains("127.0.0.1:8080 cannot be reached from another network namespace")
            && error.contains("0.0.0.0:8080"),
        "{error}"
    );
}
