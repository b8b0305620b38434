//! Tests drivers in a user's folder: the driver of the guide `docs/drivers.md`, with the guide's commands, and a copy
//! of a bundled driver under another name.

use std::path::Path;

use serde_json::Value;

use crate::pages::blocks;
use crate::program::{finish, json, scenario, text, the_host, weir};
use crate::run::{assert_reconciled, measurements};

/// Runs one command, which must exit with 0, 1 or 4, and returns its JSON.
fn command(folder: &Path, arguments: &[&str]) -> Value {
    let output = finish(weir(folder, arguments));
    assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{arguments:?}: {}", text(&output.stderr));
    json(&output)
}

/// The report of `weir doctor` on a gateway.
fn found<'a>(doctor: &'a Value, name: &str) -> &'a Value {
    let gateways = doctor["gateways"].as_array().unwrap();
    gateways.iter().find(|gateway| gateway["name"] == name).unwrap_or_else(|| panic!("no {name}: {doctor}"))
}

#[test]
fn the_guide_adds_caddy() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let guide = blocks("drivers.md");
    std::fs::create_dir(folder.join("caddy")).unwrap();
    let mut files = 0;
    for block in &guide {
        let name = block.before.trim_end_matches(':').trim_matches('`');
        if name.starts_with("caddy/") {
            std::fs::write(folder.join(name), &block.text).unwrap();
            files += 1;
        }
    }
    assert_eq!(files, 2, "the guide's driver.yaml and its template");

    let commands = guide.iter().find(|block| block.text.starts_with("weir doctor")).unwrap();
    let commands: Vec<Vec<&str>> =
        commands.text.lines().map(|line| line.split_whitespace().skip(1).collect()).collect();
    let [doctor, render, run] = commands.as_slice() else { panic!("the guide has {commands:?}") };
    let with = |arguments: &[&'static str], command_line: &[&str]| {
        let all: Vec<&str> = command_line.iter().copied().chain(arguments.iter().copied()).collect();
        command(folder, &all)
    };

    let doctor = with(&["--json"], doctor);
    let caddy = found(&doctor, "caddy");
    assert!(caddy["version"].is_string() && caddy["problem"].is_null(), "{caddy}");
    let manifest = with(&["--json"], render);
    assert_eq!(manifest["driver"], "caddy");
    let rendered = std::fs::read_to_string(folder.join("rendered/caddy.json")).unwrap();
    let rendered: Value = serde_json::from_str(&rendered).unwrap();
    assert_eq!(rendered["admin"]["listen"], "127.0.0.1:8081", "{rendered}");
    let result = with(&["--json", "--repeats", "1", "--db", "weir.db", "--out", "out"], run);
    for measurement in measurements(&result, "caddy") {
        let counters = &measurement["counters"];
        assert!(counters["origin_requests"].as_u64().unwrap() > 0, "{counters}");
        assert_eq!(counters["gateway_requests"], Value::Null, "the guide's driver has no counters");
        assert_eq!(measurement["record"]["result"]["requests"]["unexpected"], 0, "{measurement}");
    }
    for measurement in measurements(&result, "weir") {
        assert_reconciled(measurement, "weir");
    }
}

#[test]
fn a_folder_of_drivers_adds_gateways_to_every_command() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let other = folder.join("mine/other");
    std::fs::create_dir_all(&other).unwrap();
    let nginx = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../drivers/nginx");
    for file in nginx.read_dir().unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), other.join(file.file_name())).unwrap();
    }
    let doctor = command(folder, &["doctor", "--quick", "--json", "--drivers", "mine"]);
    assert_eq!(found(&doctor, "other")["sha256"], found(&doctor, "nginx")["sha256"]);
    let path = scenario(folder, "[nginx]", "");
    let path = path.to_str().unwrap();
    let rendered = command(
        folder,
        &["render", path, "--gateway", "other", "--drivers", "mine", "--out", "rendered", "--json"],
    );
    assert_eq!(rendered["driver"], "other");
    let run =
        ["run", path, "--drivers", "mine", "--gateway", "other", "--gateway", "nginx", "--repeats", "1"];
    // The same driver can also be the upstream.
    let more = ["--set", "origin.driver=other", "--db", "weir.db", "--out", "out", "--json"];
    let result = command(folder, &[&run[..], &more[..]].concat());
    for gateway in ["other", "nginx", "direct"] {
        let all = measurements(&result, gateway);
        assert_eq!(all.len(), 2, "two loads of {gateway}");
        all.into_iter().for_each(|measurement| assert_reconciled(measurement, gateway));
    }
    // Without `--drivers` the gateway is unknown.
    let output = finish(weir(folder, &["run", path, "--gateway", "other", "--plan"]));
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}
