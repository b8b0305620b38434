//! Objectives of gateways, loads and cases as a gate: exit codes, messages, and JUnit files.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::pages::blocks;
use crate::program::{finish, json, scenario, text, the_host, weir};

/// Thresholds that make values of a short run valid even on a busy host.
pub const ANYTHING_COUNTS: &str = "thresholds: { disturbed_share: 1, worker_busy_share: 1, error_share: 1, \
    lateness_ns: 3600000000000, completed_share: 0, throttled_share: 1, upstream_delay_share: 1, drift_share: 1 }\n";

/// Runs the scenario of `gateways` with `more` appended; standard output is JSON.
fn run(folder: &Path, gateways: &str, more: &str, arguments: &[&str]) -> Output {
    let path = scenario(folder, gateways, &format!("{more}{ANYTHING_COUNTS}"));
    let mut all = vec!["run", path.to_str().unwrap(), "--db", "weir.db", "--out", "out", "--json"];
    all.extend(arguments);
    finish(weir(folder, &all))
}

/// Results of the objective: (gateway, load, objective, `met`).
fn results(document: &Value) -> Vec<(String, String, String, String)> {
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let mut all = Vec::new();
    for point in document["summary"]["points"].as_array().unwrap() {
        for row in point["rows"].as_array().unwrap() {
            for result in row["objective"].as_array().unwrap() {
                let name = word(&result["name"]);
                all.push((word(&row["gateway"]), word(&point["load"]), name, word(&result["met"])));
            }
        }
    }
    all
}

/// The tests of a JUnit file, read by Python's XML parser: (suite, name, result, message).
pub fn tests(path: &Path) -> Vec<(String, String, String, String)> {
    let script = "import json, sys, xml.etree.ElementTree as tree\n\
        root = tree.parse(sys.argv[1]).getroot()\n\
        suites = list(root.iter('testsuite'))\n\
        assert root.tag == 'testsuites' and int(root.get('tests')) == sum(int(s.get('tests')) for s in suites)\n\
        found = []\n\
        for suite in suites:\n\
        \x20   cases = list(suite.iter('testcase'))\n\
        \x20   assert int(suite.get('tests')) == len(cases)\n\
        \x20   for kind, name in [('failures', 'failure'), ('errors', 'error'), ('skipped', 'skipped')]:\n\
        \x20       assert int(suite.get(kind)) == sum(case.find(name) is not None for case in cases), kind\n\
        \x20   for case in cases:\n\
        \x20       bad = [child for child in case if child.tag in ('failure', 'error', 'skipped')]\n\
        \x20       came_to = (bad[0].tag, bad[0].get('message')) if bad else ('passed', '')\n\
        \x20       found.append([suite.get('name'), case.get('name'), *came_to])\n\
        print(json.dumps(found))\n";
    let output = Command::new("python3").args(["-c", script]).arg(path).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn gateways_and_loads_can_override_the_objective() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let gateways = "[weir, { name: strict, driver: weir, objective: { mean: 1ns } }, \
                    { name: gone, driver: nginx, binary: /nonexistent/nginx }]";
    let loads = "objective: { mean: 1h, errors: 100% }\n";
    let set = ["--set", "loads.tail.objective={max: 1h}", "--junit", "ci/tests.xml"];
    let output = run(folder.path(), gateways, loads, &set);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let document = json(&output);
    let of = |gateway: &str, load: &str, name: &str, met: &str| {
        [gateway, load, name, met].map(str::to_owned).into()
    };
    // The closed load measures throughput: only its errors have an objective.
    let mut expected: Vec<(String, String, String, String)> = Vec::new();
    for (gateway, mean) in [("weir", "met"), ("strict", "missed")] {
        expected.push(of(gateway, "full", "errors", "met"));
        for (name, met) in [("max", "met"), ("mean", mean), ("errors", "met")] {
            expected.push(of(gateway, "tail", name, met));
        }
    }
    let mut found = results(&document);
    found.sort();
    expected.sort();
    assert_eq!(found, expected);

    // The message contains cell, value, limit and interval.
    let error = text(&output.stderr);
    let missed =
        error.lines().find(|line| line.contains("misses the objective")).unwrap_or_else(|| panic!("{error}"));
    for words in ["tail (open, 300/s, 32 connections)", "strict", "mean at most 1.00 ns: ", ", missed"] {
        assert!(missed.contains(words), "no {words:?} in {missed}");
    }
    // The interval covers both repeats, unless a repeat is invalid.
    assert!(missed.contains("s [") || missed.contains("1 undecided"), "{missed}");

    let junit = folder.path().join("ci/tests.xml");
    let tests_ = tests(&junit);
    let count = |kind: &str| tests_.iter().filter(|test| test.2 == kind).count();
    assert_eq!(
        (count("passed"), count("failure"), count("error"), count("skipped")),
        (7, 1, 2, 0),
        "{tests_:?}"
    );
    let failure = tests_.iter().find(|test| test.2 == "failure").unwrap();
    assert_eq!(failure.0, "strict");
    assert!(
        failure.1.starts_with("tail (open") && failure.1.ends_with("mean at most 1.00 ns"),
        "{failure:?}"
    );
    assert!(missed.contains(&failure.3), "{failure:?}");
    assert!(tests_.iter().filter(|test| test.2 == "error").all(|test| test.0 == "gone"), "{tests_:?}");

    // `weir report` writes the same file from the stored run.
    let arguments = ["report", "last", "--db", "weir.db", "--out", "again", "--format", "junit"];
    let output = finish(weir(folder.path(), &arguments));
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let again = std::fs::read(folder.path().join("again/junit.xml")).unwrap();
    assert_eq!(again, std::fs::read(&junit).unwrap());
}

#[test]
fn a_case_can_override_the_objective_without_adding_an_axis() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let cases = "objective: { mean: 1h }\n\
                 cases: [{ limits.data.cpus: 0.25 }, { limits.data.cpus: 0.5, objective: { mean: 1ns } }]\n";
    let output = run(folder.path(), "[weir]", cases, &["--repeats", "2"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let document = json(&output);
    for point in document["summary"]["points"].as_array().unwrap() {
        let axes = point["axes"].as_object().unwrap();
        assert_eq!(axes.keys().collect::<Vec<_>>(), ["limits.data.cpus"]);
        let met: Vec<&Value> =
            point["rows"][0]["objective"].as_array().unwrap().iter().map(|result| &result["met"]).collect();
        match (point["load"].as_str().unwrap(), axes["limits.data.cpus"].as_f64().unwrap()) {
            ("tail", 0.25) => assert_eq!(met, ["met"], "{point}"),
            ("tail", _) => assert_eq!(met, ["missed"], "{point}"),
            _ => assert!(met.is_empty(), "{point}"),
        }
    }
}

#[test]
fn junit_requires_an_objective_and_a_writable_file() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let check = |more: &str, junit: &str, code: i32, words: &[&str]| {
        let output = run(folder.path(), "[weir]", more, &["--junit", junit]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{error}");
        words.iter().for_each(|word| assert!(error.contains(word), "no {word:?} in {error}"));
        let runs = json(&finish(weir(folder.path(), &["runs", "--db", "weir.db", "--json"])));
        assert_eq!(runs.as_array().unwrap().len(), 0, "the run has started");
    };
    check("", "tests.xml", 2, &["--junit", "no objective", "p99: 20ms"]);
    check(
        "objective: { p99: 1h }\n",
        ".",
        2,
        &["--junit .: the path is a directory", "a file in this directory"],
    );
    check("objective: { p99: 1h }\n", "file/tests.xml", 3, &["file/tests.xml", "cannot write"]);
}

#[test]
fn documented_pipelines_parse_and_use_existing_flags() {
    let pages: Vec<_> = blocks("gate-in-ci.md").into_iter().chain(blocks("ci.md")).collect();
    let workflow = &pages.iter().find(|block| block.language == "yaml").unwrap().text;
    let workflow: Value = weir_document::read("ci.yaml", workflow).unwrap();
    let steps = workflow["jobs"]["objectives"]["steps"].as_array().unwrap();
    let run = steps.iter().find(|step| step["name"] == "Run").unwrap()["run"].as_str().unwrap();
    let help = text(&finish(weir(Path::new("."), &["run", "--help"])).stdout);
    let flags: Vec<&str> = run.split_whitespace().filter(|word| word.starts_with("--")).collect();
    assert_eq!(flags, ["--db", "--out", "--junit", "--fail-on"]);
    flags.iter().for_each(|flag| assert!(help.contains(flag), "{flag}"));
    // All documented pipelines and commands are well-formed, and the flags of `weir run` in them exist.
    let others: Vec<_> =
        pages.iter().filter(|block| ["yaml", "sh"].contains(&block.language.as_str())).collect();
    assert!(others.iter().filter(|block| block.text.contains("weir run")).count() >= 4);
    for block in others {
        if block.language == "yaml" {
            weir_document::read::<Value>("ci.yaml", &block.text).unwrap();
        } else {
            let checked = Command::new("sh").args(["-n", "-c", &block.text]).output().unwrap();
            assert!(checked.status.success(), "{}", text(&checked.stderr));
        }
        let calls = block.text.lines().filter(|line| line.contains("weir run"));
        for flag in calls.flat_map(str::split_whitespace).filter(|word| word.starts_with("--")) {
            assert!(help.contains(flag), "{flag}");
        }
    }
    assert!(!workflow.to_string().contains("secrets."), "the workflow needs secrets");
    // The workflow publishes the file that the run writes.
    let publish = steps.iter().find(|step| step["name"] == "Publish the tests").unwrap();
    assert!(run.contains(&format!("--junit {}", publish["with"]["report_paths"].as_str().unwrap())), "{run}");
}
