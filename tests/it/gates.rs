//! Gates for continuous integration: missed and undecided objectives, and their exit codes.

use std::path::Path;

use serde_json::Value;

use crate::objectives::tests;
use crate::pages::blocks;
use crate::program::{finish, json, text, the_host, weir};
use crate::run::{measurements, run};

/// Thresholds of zero. Every open load exceeds the lateness thresholds, and nearly every host exceeds the noise
/// threshold.
const NOTHING_COUNTS: &str =
    "thresholds: { disturbed_share: 0, lateness_ns: 0, lateness_share: 0, worker_busy_share: 0 }\n";

/// The documented configuration of nginx, with status 503 for every fifth request of a connection.
fn failing() -> String {
    let file = blocks("scenarios.md").into_iter().find(|block| block.language == "nginx").unwrap().text;
    let fails = "    map $connection_requests $fails { ~[27]$ 1; default 0; }\n    server {\n        listen {{ listen }};\n";
    let file = file.replace("    server {\n        listen {{ listen }};\n", fails);
    file.replace("location / {\n", "location / {\n            if ($fails) { return 503; }\n")
}

/// Results of the objective: (load, objective, `met`).
fn results(document: &Value) -> Vec<(String, String, String)> {
    let points = document["summary"]["points"].as_array().unwrap();
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let of = |point: &Value| {
        let results = point["rows"][0]["objective"].as_array().unwrap().clone();
        let load = word(&point["load"]);
        results.into_iter().map(move |result| (load.clone(), word(&result["name"]), word(&result["met"])))
    };
    points.iter().flat_map(of).collect()
}

fn expected(of: [(&str, &str, &str); 3]) -> Vec<(String, String, String)> {
    of.map(|(load, name, met)| (load.to_owned(), name.to_owned(), met.to_owned())).to_vec()
}

fn report(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = finish(weir(folder, &[&["report", "last", "--db", "weir.db"], arguments].concat()));
    (output.status.code(), text(&output.stderr))
}

#[test]
fn errors_miss_the_objective_even_if_every_repeat_is_invalid() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("my.conf"), failing()).unwrap();
    let gateways = "[{ name: failing, driver: nginx, config: ./my.conf }]";
    let more = format!("objective: {{ p99: 1h, errors: 5% }}\n{NOTHING_COUNTS}");
    let output = run(folder.path(), gateways, &more, &["--junit", "tests.xml", "--fail-on", "missed"]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    let document = json(&output);
    for measurement in measurements(&document, "failing") {
        let requests = &measurement["record"]["result"]["requests"];
        let count = |name: &str| requests[name].as_u64().unwrap() as f64;
        assert!(count("unexpected") > 0.1 * count("scheduled"), "{requests}");
        let reasons = measurement["judgement"]["verdicts"]["latency"].to_string();
        if measurement["load"] == "tail" {
            let is_bounded = reasons.contains("generator-limited") || reasons.contains("host-noise");
            assert!(is_bounded, "a repeat is valid: {reasons}");
        }
    }
    let all = [("full", "errors", "missed"), ("tail", "p99", "unknown"), ("tail", "errors", "missed")];
    assert_eq!(results(&document), expected(all));
    assert_eq!(document["summary"]["outcome"], "missed");
    let missed =
        error.lines().filter(|line| line.starts_with("missed: ") && line.contains("failing")).count();
    assert_eq!(missed, 2, "{error}");

    let mut found = tests(&folder.path().join("tests.xml"));
    found.retain(|test| test.0 == "failing");
    let kind = |words: &str| found.iter().find(|test| test.1.contains(words)).unwrap().2.as_str();
    assert_eq!(
        [kind("full"), kind("p99"), kind("tail (open, 300/s, 32 connections): errors")],
        ["failure", "skipped", "failure"]
    );
    let skipped = found.iter().find(|test| test.2 == "skipped").unwrap();
    assert!(skipped.3.contains("undecided: "), "{skipped:?}");
}

#[test]
fn undecided_objectives_have_a_separate_exit_code() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    // No throughput has a confidence interval as narrow as this `interval_share`.
    let more = "objective: { p99: 1h, errors: 100% }\nthresholds: { disturbed_share: 1, worker_busy_share: 1, \
                completed_share: 0.01, error_share: 1, interval_share: 0.000001 }\n";
    let output = run(folder.path(), "[weir]", more, &["--repeats", "3"]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{error}");
    let all = [("full", "errors", "met"), ("tail", "p99", "met"), ("tail", "errors", "met")];
    assert_eq!(results(&json(&output)), expected(all));
    assert!(error.contains("\nundecided: ") && !error.contains("missed: "), "{error}");
    assert!(
        error.ends_with(
            "exit code 4: no objective is missed, but a result is undecided; with `--fail-on missed`, weir exits \
             with 0\n"
        ),
        "{error}"
    );
    for (outcome, code) in [("missed", 0), ("undecided", 4)] {
        let (found, error) = report(folder.path(), &["--out", "again", "--fail-on", outcome]);
        assert_eq!(found, Some(code), "{outcome}: {error}");
        // Several outcomes are separated by commas, in any order.
        let list = if outcome == "missed" { "missed" } else { "undecided,missed" };
        let again = ["run", "--resume", "last", "--db", "weir.db", "--out", "again", "--fail-on", list];
        let output = finish(weir(folder.path(), &again));
        assert_eq!(output.status.code(), Some(code), "{list}: {}", text(&output.stderr));
    }
    // `worse` requires a baseline; `bad` is not a valid outcome.
    for (list, word) in [("missed,worse", "--baseline RUN"), ("bad", "undecided")] {
        let output =
            finish(weir(folder.path(), &["run", "--resume", "last", "--db", "weir.db", "--fail-on", list]));
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(word), "{}", text(&output.stderr));
    }
}

#[test]
fn help_lists_the_exit_codes_of_the_docs_page() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ci.md")).unwrap();
    let table = page.split("## Exit codes").nth(1).unwrap();
    let documented = |command: &str| -> Vec<String> {
        let rows = table.lines().skip_while(|line| !line.starts_with("| code | commands |")).skip(2);
        let rows = rows.take_while(|line| line.starts_with('|'));
        let cells = rows.map(|row| row.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>());
        let is_of = |commands: &str| commands == "all" || commands.contains(&format!("`{command}`"));
        cells.filter(|cells| is_of(&cells[2])).map(|cells| cells[1].clone()).collect()
    };
    for command in ["run", "report", "compare", "size"] {
        let help = text(&finish(weir(Path::new("."), &[command, "--help"])).stdout);
        let codes = help.split("Exit codes:\n").nth(1).unwrap_or_else(|| panic!("{help}"));
        let codes = codes.lines().take_while(|line| line.starts_with("  "));
        let words = codes.map(|line| line.split_whitespace().next().unwrap());
        let listed: Vec<&str> = words.filter(|word| word.parse::<u8>().is_ok()).collect();
        assert_eq!(listed, documented(command), "{command}");
    }
}
