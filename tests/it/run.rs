//! `weir run`: cells, counters and reports. A failed cell does not stop the run.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::program::{finish, json, scenario, text, the_host, weir};

/// Runs a scenario for `gateways` with `more` appended; standard output is JSON.
pub fn run(folder: &Path, gateways: &str, more: &str, arguments: &[&str]) -> Output {
    let path = scenario(folder, gateways, more);
    let mut all = vec!["run", path.to_str().unwrap(), "--db", "weir.db", "--out", "out", "--json"];
    all.extend(arguments);
    finish(weir(folder, &all))
}

/// The outcomes of a gateway's cells.
pub fn outcomes<'a>(result: &'a Value, gateway: &str) -> Vec<&'a Value> {
    let cells = result["cells"].as_array().unwrap();
    cells.iter().filter(|cell| cell["key"]["gateway"] == gateway).map(|cell| &cell["outcome"]).collect()
}

/// The measurements of a gateway's cells. Panics if a cell failed.
pub fn measurements<'a>(result: &'a Value, gateway: &str) -> Vec<&'a Value> {
    let mut all = Vec::new();
    for outcome in outcomes(result, gateway) {
        assert_eq!(outcome["kind"], "measured", "{outcome}");
        all.extend(outcome["measurements"].as_array().unwrap());
    }
    all
}

/// Checks that the counters of generator, gateway and origin agree, except for requests on broken connections.
pub fn assert_reconciled(measurement: &Value, gateway: &str) {
    let counters = &measurement["counters"];
    let number = |name: &str| counters[name].as_u64().unwrap_or_else(|| panic!("no {name}: {counters}"));
    let (sent, uncertain) = (number("generator_sent"), number("generator_uncertain"));
    let agrees = |name: &str| (sent - uncertain..=sent).contains(&number(name));
    assert!(sent > 0 && agrees("origin_requests"), "{gateway}: {counters}");
    assert!(gateway == "direct" || agrees("gateway_requests"), "{gateway}: {counters}");
}

#[test]
fn every_gateway_is_measured_and_all_three_counters_agree() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), "[weir, nginx, haproxy, envoy]", "", &[]);
    let result = json(&output);
    for gateway in ["weir", "nginx", "haproxy", "envoy", "direct"] {
        let all = measurements(&result, gateway);
        assert_eq!(all.len(), 4, "two loads in two repeats of {gateway}");
        all.into_iter().for_each(|measurement| assert_reconciled(measurement, gateway));
    }
    for (gateway, of_it) in [
        ("weir", "listeners:"),
        ("nginx", "worker_processes"),
        ("haproxy", "nbthread"),
        ("envoy", "static_resources"),
    ] {
        let cells = result["cells"].as_array().unwrap();
        for cell in cells.iter().filter(|cell| cell["key"]["gateway"] == gateway) {
            let kept = cell["files"].as_array().unwrap_or_else(|| panic!("no files stored for {gateway}"));
            let says = |file: &Value| file["text"].as_str().unwrap().contains(of_it);
            let is_kept = kept.iter().any(|file| file["kind"] == "configuration" && says(file));
            assert!(is_kept, "{gateway}: {kept:?}");
        }
    }
    let pages = std::fs::read_dir(folder.path().join("out/cells")).unwrap().count();
    assert_eq!(pages, 10, "a page for each cell");
    for file in ["report.html", "report.md", "cells.csv"] {
        assert!(folder.path().join("out").join(file).is_file(), "{file}");
    }
    let html = std::fs::read_to_string(folder.path().join("out/report.html")).unwrap();
    for loads in ["<script src", "<link", "<img src=\"http", "@import"] {
        assert!(!html.contains(loads), "the report loads an external resource: {loads}");
    }
}

#[test]
fn a_gateway_that_cannot_be_measured_loses_only_its_own_cells() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let version = "[ \"$1\" = --version ] && echo weir-gateway 0.0.0 && exit 0\n";
    let dies = folder.path().join("dies.sh");
    std::fs::write(&dies, format!("#!/bin/sh\n{version}echo it is over >&2\nexit 7\n")).unwrap();
    let sleeps = folder.path().join("sleeps.sh");
    std::fs::write(&sleeps, format!("#!/bin/sh\n{version}exec sleep 60\n")).unwrap();
    for path in [&dies, &sleeps] {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let gateways = format!(
        "[weir, {{ name: gone, driver: nginx, binary: /nonexistent/nginx }}, \
         {{ name: dies, driver: weir, binary: {} }}, {{ name: sleeps, driver: weir, binary: {} }}]",
        dies.display(),
        sleeps.display()
    );
    let output = run(folder.path(), &gateways, "", &["--repeats", "1"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let result = json(&output);
    assert_eq!(measurements(&result, "weir").len(), 2);
    for (gateway, cause) in [("gone", "binary-missing"), ("dies", "died"), ("sleeps", "never-ready")] {
        let outcomes = outcomes(&result, gateway);
        assert_eq!(outcomes[0]["cause"], cause, "{}", outcomes[0]);
        assert!(!outcomes[0]["remedy"].as_str().unwrap().is_empty(), "{}", outcomes[0]);
    }
    assert!(outcomes(&result, "dies")[0]["log_tail"].as_str().unwrap().contains("it is over"));
    let died =
        result["cells"].as_array().unwrap().iter().find(|cell| cell["key"]["gateway"] == "dies").unwrap();
    let log = died["files"].as_array().unwrap().iter().find(|file| file["kind"] == "log").unwrap();
    assert!(log["text"].as_str().unwrap().contains("it is over"), "{log}");
}

#[test]
fn a_stored_run_is_listed_and_reported_again() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), "[weir]", "", &["--repeats", "1"]);
    let runs = json(&finish(weir(folder.path(), &["runs", "--db", "weir.db", "--json"])));
    assert!(runs.to_string().contains("end-to-end"), "{runs}");
    let output = finish(weir(folder.path(), &["report", "last", "--db", "weir.db", "--out", "again"]));
    assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{}", text(&output.stderr));
    let first = std::fs::read_to_string(folder.path().join("out/cells.csv")).unwrap();
    let again = std::fs::read_to_string(folder.path().join("again/cells.csv")).unwrap();
    assert_eq!(first, again);
}

#[test]
fn a_plan_runs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), "[weir, nginx]", "", &["--plan"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let plan = json(&output).to_string();
    for gateway in ["weir", "nginx", "direct"] {
        assert!(plan.contains(gateway), "{plan}");
    }
    assert!(!folder.path().join("out").exists());
}

#[test]
fn a_plan_rejects_the_same_arguments_as_a_run() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    for (more, words) in [
        (&["--baseline", "nope"][..], "no such database"),
        (&["--junit", "-"], "--junit"),
        (&["--out", "-"], "--out -"),
        (&["--out", "file/below"], "file"),
    ] {
        let path = scenario(folder.path(), "[weir]", "objective: { errors: 1% }\n");
        let arguments = [&["run", path.to_str().unwrap(), "--db", "weir.db", "--plan"], more].concat();
        let output = finish(weir(folder.path(), &arguments));
        let said = text(&output.stderr);
        assert!(matches!(output.status.code(), Some(2 | 3)), "{more:?}: {said}");
        assert!(said.contains(words) && output.stdout.is_empty(), "{more:?}: {said}");
    }
}

#[test]
fn a_quick_doctor_needs_no_database() {
    let folder = tempfile::tempdir().unwrap();
    let output = finish(weir(folder.path(), &["doctor", "--quick", "--json", "--db", "new.db"]));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(json(&output)["gateways"].is_array() && !folder.path().join("new.db").exists());
}

#[test]
fn a_plan_reports_missing_programs_and_rejects_unknown_settings() {
    let folder = tempfile::tempdir().unwrap();
    let plan =
        |gateways: &str, more: &[&str]| run(folder.path(), gateways, "", &[&["--plan"], more].concat());
    let gone = "{ name: gone, driver: nginx, binary: /nonexistent/nginx }";
    let notes = json(&plan(&format!("[weir, {gone}]"), &[]))["notes"].to_string();
    assert!(
        notes.contains("gone cannot be measured: nginx: program `/nonexistent/nginx` not found"),
        "{notes}"
    );

    let tuned = "[weir, { name: tuned, driver: nginx, set: { buffering: true } }]";
    assert!(plan(tuned, &[]).status.success());
    let mistaken = [
        (
            &["--set", "gateways.tuned.set.bufering=true"][..],
            "unknown setting `set.bufering`",
            "did you mean `buffering`?",
        ),
        (
            &["--set", "gateways.tuned.set.buffering=12"],
            "`set.buffering` has the wrong type: 12",
            "the same type as the default, true",
        ),
        (
            &["--set", "vary={gateways.tuned.set.buffering: [false, 12]}"],
            "`set.buffering` has the wrong type: 12",
            "the same type as the default, true",
        ),
    ];
    for (more, what, remedy) in mistaken {
        let output = plan(tuned, more);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{more:?}: {said}");
        assert!(said.contains(what) && said.contains(remedy), "{said}");
    }
}
