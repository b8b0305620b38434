//! Gateways that need a service: a real NATS server, from which a gateway receives its routes.

use std::process::Command;

use serde_json::Value;

use crate::pages::blocks;
use crate::program::{finish, json, text, the_host, weir};
use crate::run::{assert_reconciled, measurements};

pub const DRIVERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/it/drivers/over-nats");

fn scenario(every: &str, more: &str) -> String {
    format!(
        "name: it-services\nquestion: Who follows a message bus?\n\
         gateways: [{{ name: bus, driver: over-nats, set: {{ every: \"{every}\" }} }}]\n\
         limits: {{ service: {{ cpus: 0.5, memory: 256MiB }} }}\n\
         topology: {{ domains: 3, paths: [/ping, /get/1] }}\n\
         origin: {{ body: 64B, replicas: 2 }}\n\
         loads: {{ steady: {{ model: open, rate: 60/s, connections: 4 }} }}\n\
         warmup: 300ms\nduration: 2s\ntimeout: 10s\nrepeats: 1\nretries: 0\n{more}"
    )
}

fn run(folder: &std::path::Path, scenario: &str, drivers: &str) -> std::process::Output {
    std::fs::write(folder.join("bus.yaml"), scenario).unwrap();
    let options = ["--drivers", drivers, "--db", "weir.db", "--out", "out", "--json"];
    finish(weir(folder, &[&["run", "bus.yaml"], &options[..]].concat()))
}

/// Returns the part `name` of a cell.
pub fn part<'a>(cell: &'a Value, name: &str) -> &'a Value {
    let parts = cell["parts"].as_array().unwrap();
    parts.iter().find(|part| part["name"] == name).unwrap_or_else(|| panic!("no part {name}: {parts:?}"))
}

#[test]
fn a_gateway_receives_its_routes_over_nats_in_every_round() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let result = json(&run(folder.path(), &scenario("400ms", ""), DRIVERS));
    let all = measurements(&result, "bus");
    let [steady] = all.as_slice() else { panic!("one load: {all:?}") };
    assert_reconciled(steady, "bus");
    let whole = &steady["record"]["whole"];
    let wrong = ["failed", "timed_out", "dropped", "unexpected"].map(|name| whole[name].as_u64().unwrap());
    assert_eq!(wrong, [0; 4], "a route was missing when the load started: {whole}");
    // Each round has 12 messages: three hosts, two paths, two servers.
    let events = steady["events"].as_array().unwrap();
    assert!(events.len() >= 3, "{events:?}");
    for event in events {
        assert_eq!(
            (event["kind"].as_str(), event["details"]["messages"].as_u64()),
            (Some("registration"), Some(12))
        );
        // Twelve messages have eleven gaps of 50 µs.
        assert!(event["details"]["took_ns"].as_u64().unwrap() >= 550_000, "{event}");
    }
    let cells = result["cells"].as_array().unwrap();
    let cell = cells.iter().find(|cell| cell["key"]["gateway"] == "bus").unwrap();
    for name in ["nats", "registrations"] {
        assert!(steady["usage"][name]["cpu_cores"].is_number(), "{name} is sampled: {}", steady["usage"]);
    }
    let part = part(cell, "nats");
    assert_eq!((part["role"].as_str(), part["limit_cpus"].as_f64()), (Some("service"), Some(0.5)), "{part}");
    let direct = cells.iter().find(|cell| cell["key"]["gateway"] == "direct").unwrap();
    assert!(direct["parts"].as_array().unwrap().iter().all(|part| part["role"] != "service"));
    let csv = std::fs::read_to_string(folder.path().join("out/cells.csv")).unwrap();
    assert!(csv.lines().next().unwrap().contains(",service_version,"), "{csv}");
    let html = std::fs::read_to_string(folder.path().join("out/report.html")).unwrap();
    assert!(html.contains("service that bus needs"));
}

#[test]
fn routes_are_registered_again_between_loads_shorter_than_the_interval() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let loads: Vec<String> = (1..=4)
        .map(|number| format!("short-{number}: {{ model: open, rate: 60/s, connections: 4, duration: 1s }}"))
        .collect();
    // The four short loads together last longer than the gateway keeps a route.
    let scenario = scenario("2s", "")
        .replace("steady: { model: open, rate: 60/s, connections: 4 }", &loads.join(", "))
        .replace("every: \"2s\"", "every: \"2s\", forgets_after: \"4\"")
        .replace(
            "loads: { ",
            "loads: { long: { model: open, rate: 60/s, connections: 4, duration: 2500ms }, ",
        );
    let result = json(&run(folder.path(), &scenario, DRIVERS));
    let all = measurements(&result, "bus");
    assert_eq!(all.len(), 5);
    for measurement in &all {
        let whole = &measurement["record"]["whole"];
        assert_eq!(whole["unexpected"], 0, "{}: a route is missing: {whole}", measurement["load"]);
        let has_registrations = measurement["load"] == "long";
        assert_eq!(measurement["events"].is_array(), has_registrations, "{measurement}");
        assert_eq!(measurement["usage"]["registrations"].is_object(), has_registrations, "{measurement}");
    }
}

#[test]
fn headroom_registered_reports_the_cost_of_routes_and_registrations() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // A driver folder with this name replaces the built-in driver.
    let gorouter = folder.join("drivers/gorouter");
    std::fs::create_dir_all(&gorouter).unwrap();
    for file in std::fs::read_dir(DRIVERS).unwrap().map(|entry| entry.unwrap()) {
        std::fs::copy(file.path(), gorouter.join(file.file_name())).unwrap();
    }
    let smaller = [
        "gateways.gorouter.set.every=2500ms",
        "loads.steady.duration=4s",
        "loads.steady.rate=40/s",
        "loads.curve.rates=[20/s, 30/s, 40/s]",
        "loads.curve.of=null",
        "loads.curve.duration=200ms",
        "loads.ramp.duration=60ms",
        "loads.ramp.connections=[1, 2, 4]",
        // Removes the search, because it takes at least ten trials.
        "loads.capacity.search=null",
        "loads.capacity.rate=20/s",
        "loads.capacity.duration=200ms",
        "vary={topology.domains: [1, 20]}",
        "warmup=200ms",
        "timeout=2s",
        "retries=0",
    ];
    let mut arguments =
        vec!["run", "headroom-registered", "--gateway", "gorouter", "--repeats", "1", "--json"];
    arguments.extend(["--drivers", "drivers", "--db", "weir.db", "--out", "out"]);
    arguments.extend(smaller.iter().flat_map(|set| ["--set", set]));
    let result = json(&finish(weir(folder, &arguments)));
    let all = measurements(&result, "gorouter");
    for domains in [1_u64, 20] {
        let steady = all.iter().filter(|of| of["load"] == "steady");
        let events = steady.flat_map(|of| of["events"].as_array().unwrap());
        let messages = events.map(|event| event["details"]["messages"].as_u64().unwrap());
        assert!(messages.clone().any(|messages| messages == domains), "{:?}", messages.collect::<Vec<_>>());
    }
    let findings = result["summary"]["findings"].as_array().unwrap();
    let finding = |key: &str| findings.iter().find(|finding| finding["key"] == key).unwrap();
    for (key, said) in [("registrations", "20 messages each"), ("routes", "with 20 domains, memory is")] {
        let finding = finding(key);
        assert_eq!(finding["tables"][0]["rows"].as_array().unwrap().len(), 2, "{finding}");
        let sentences = finding["sentences"].to_string();
        assert!(sentences.contains(said), "{sentences}");
    }
    let curves = result["summary"]["headroom"]["curves"].as_array().unwrap();
    for load in ["curve", "ramp"] {
        assert!(
            curves.iter().any(|curve| curve["gateway"] == "gorouter" && curve["load"] == load),
            "{load}: {curves:?}"
        );
    }
    let chart =
        |name: &str| std::fs::read_to_string(folder.join(format!("out/charts/headroom-{name}.svg"))).unwrap();
    for name in ["over-time-cpu", "over-time-throughput"] {
        assert!(chart(name).contains("gorouter, registrations"), "{name}");
    }
    let report = std::fs::read_to_string(folder.join("out/report.md")).unwrap();
    for heading in ["## Registrations", "## Routes", "## Headroom"] {
        assert!(report.contains(heading), "{heading}: {report}");
    }
}

#[test]
fn the_guide_adds_a_gateway_and_its_service() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let guide = blocks("services.md");
    let mut files = 0;
    for block in &guide {
        let name = block.before.split('`').nth(1).unwrap_or_default();
        if name.starts_with("mine/") {
            std::fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
            std::fs::write(folder.join(name), &block.text).unwrap();
            files += 1;
        }
    }
    assert_eq!(files, 4, "a service, a driver, its template and the gateway");
    let commands: Vec<&str> = guide[0].text.lines().collect();
    let [doctor, run] = commands.as_slice() else { panic!("the guide has {commands:?}") };
    let command = |line: &str, more: &[&str]| {
        let arguments: Vec<&str> = line.split_whitespace().skip(1).chain(more.iter().copied()).collect();
        json(&finish(weir(folder, &arguments)))
    };
    let doctor = command(doctor, &["--json", "--db", "weir.db"]);
    let services = doctor["services"].as_array().unwrap();
    let bus = services.iter().find(|service| service["name"] == "bus").unwrap();
    assert!(bus["version"].is_string() && bus["problem"].is_null(), "{bus}");
    let result = command(run, &["--json", "--repeats", "1", "--db", "weir.db", "--out", "out"]);
    for measurement in measurements(&result, "follower") {
        assert_eq!(measurement["record"]["result"]["requests"]["unexpected"], 0, "{measurement}");
        assert!(measurement["counters"]["origin_requests"].as_u64().unwrap() > 0, "{measurement}");
    }
    let cells = result["cells"].as_array().unwrap();
    let cell = cells.iter().find(|cell| cell["key"]["gateway"] == "follower").unwrap();
    assert_eq!(part(cell, "bus")["role"], "service");
}

#[test]
fn the_commands_of_the_gorouter_tutorial_can_be_planned() {
    let folder = tempfile::tempdir().unwrap();
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/size-gorouter.md"));
    let page = page.unwrap();
    let commands = page.lines().filter_map(|line| line.strip_prefix("weir run "));
    let commands = commands.map(|line| line.split(" #").next().unwrap().trim().to_owned());
    // Rows of the table of optional flags.
    let cells = page.lines().filter_map(|line| line.strip_suffix(" |")?.rsplit("| `").next());
    let added = cells.filter(|cell| cell.starts_with("--")).map(|cell| cell.trim_end_matches('`'));
    let added = added.map(|options| format!("headroom-registered --gateway gorouter {options}"));
    let all: Vec<String> = commands.chain(added).collect();
    assert!(all.len() >= 8, "{all:?}");
    for arguments in all {
        let weir = env!("CARGO_BIN_EXE_weir");
        let plan = if arguments.contains("--plan") { "" } else { "--plan" };
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec {weir} run {arguments} {plan} --db weir.db")]);
        shell.current_dir(folder.path());
        let output = finish(shell);
        assert_eq!(output.status.code(), Some(0), "{arguments}: {}", text(&output.stderr));
        assert!(text(&output.stdout).contains("topology.domains = 1"), "{arguments}");
    }
}

#[test]
fn changes_reach_a_gateway_over_nats() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let result = json(&run(folder.path(), &scenario("", changes_of_both()), DRIVERS));
    let all = measurements(&result, "bus");
    let changes = all[0]["route_changes"].as_array().unwrap();
    let endpoints = changes.iter().filter(|change| change["what"] == "endpoints").count();
    assert!(endpoints >= 2 && changes.len() >= endpoints + 2, "{changes:?}");
    let added: i64 = changes.iter().map(|change| change["routes_added"].as_i64().unwrap()).sum();
    assert!(added == 0 || added == 3, "added routes are not removed: {changes:?}");
    let findings = result["summary"]["findings"].as_array().unwrap();
    assert!(findings.iter().any(|finding| finding["key"] == "changes"), "{findings:?}");

    let result = json(&run(folder.path(), &scenario("400ms", changes_of_both()), DRIVERS));
    let cells = result["cells"].as_array().unwrap();
    let cell = cells.iter().find(|cell| cell["key"]["gateway"] == "bus").unwrap();
    let message = cell["outcome"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("would restore a removed endpoint"), "{}", cell["outcome"]);
}

fn changes_of_both() -> &'static str {
    "changes: { every: 250ms, of: [routes, endpoints] }\n"
}

#[test]
fn a_missing_service_program_fails_its_gateway_and_is_named() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let own = folder.join("drivers");
    for (from, name) in
        [(DRIVERS, "over-nats"), (concat!(env!("CARGO_MANIFEST_DIR"), "/../../services/nats"), "nats")]
    {
        std::fs::create_dir_all(own.join(name)).unwrap();
        for file in std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()) {
            let text = std::fs::read_to_string(&file)
                .unwrap()
                .replace("- name: nats-server", "- name: no-such-server");
            std::fs::write(own.join(name).join(file.file_name().unwrap()), text).unwrap();
        }
    }
    let output = run(folder, &scenario("400ms", ""), own.to_str().unwrap());
    let result = json(&output);
    let cells = result["cells"].as_array().unwrap();
    let cell = cells.iter().find(|cell| cell["key"]["gateway"] == "bus").unwrap();
    assert_eq!(cell["outcome"]["cause"], "binary-missing", "{cell}");
    assert_eq!(measurements(&result, "direct").len(), 1, "other cells are not measured");
    let error = text(&output.stderr);
    assert!(error.contains("bus cannot be measured: nats: program `no-such-server` not found"), "{error}");
    assert!(error.contains("make peers"), "{error}");
    let doctor = json(&finish(weir(folder, &["doctor", "--quick", "--json", "--db", "weir.db"])));
    let services = doctor["services"].as_array().unwrap();
    let nats = services.iter().find(|service| service["name"] == "nats").unwrap();
    assert!(nats["name"] == "nats" && nats["version"].is_string() && nats["problem"].is_null(), "{nats}");
}

#[test]
fn drivers_with_unknown_services_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let driver = std::fs::read_to_string(format!("{DRIVERS}/driver.yaml")).unwrap();
    let refused = |driver: &str, said: &str| {
        std::fs::write(folder.path().join("driver.yaml"), driver).unwrap();
        for name in ["gateway.py", "follow.py", "route.json"] {
            std::fs::copy(format!("{DRIVERS}/{name}"), folder.path().join(name)).unwrap();
        }
        let options = ["run", "quickstart", "--plan", "--drivers", folder.path().to_str().unwrap()];
        let output = finish(weir(folder.path(), &options));
        let error = text(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains(said), "{error}");
    };
    refused(&driver.replace("needs: [nats]", "needs: [nats, nast]"), "`needs`: unknown service `nast`");
    refused(&driver.replace("needs: [nats]", "needs: []"), "`nats` is not in `needs`");
    refused(
        &driver.replace("{ service: nats, subject", "{ service: bus, subject"),
        "`bus` is not in `needs`",
    );
    refused(
        &driver.replace("template: route.json, gap", "template: rout.json, gap"),
        "unknown template `rout.json`",
    );
    refused(
        &driver.replace("listens: [listen, admin]", "listens: [listen, amdin]"),
        "unknown address `amdin`",
    );
}
