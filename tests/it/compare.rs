//! `weir compare` and `weir run --baseline`: comparisons of real runs and of files of other tools, and rejected input.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::program::{finish, json, scenario, text, the_host, weir};

const FIXTURE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../weir-results/tests/fixtures/archive-1-schema-1.weir");
const FOREIGN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../weir-export/tests/fixtures");
/// Two gateways that are the same program.
const TWICE: &str = "[{ name: old, driver: weir }, { name: new, driver: weir }]";

fn compare(folder: &Path, arguments: &[&str]) -> Output {
    finish(weir(folder, &[&["compare"], arguments].concat()))
}

#[track_caller]
fn good(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

/// Runs a scenario. Returns (output, run ID).
fn measured(folder: &Path, path: &Path, arguments: &[&str]) -> (Output, String) {
    let own = ["run", path.to_str().unwrap(), "--db", "weir.db", "--out", "out"];
    let output = finish(weir(folder, &[&own, arguments].concat()));
    assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{}", text(&output.stderr));
    let runs = json(&finish(weir(folder, &["runs", "--db", "weir.db", "--json"])));
    (output, runs[0]["id"].as_str().unwrap().to_owned())
}

/// Verdicts of a comparison: (load, metric, verdict).
fn verdicts(comparison: &Value) -> Vec<(String, String, String)> {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let points = comparison["points"].as_array().unwrap();
    points
        .iter()
        .flat_map(|point| {
            let figures = point["figures"].as_array().unwrap();
            let judged = figures.iter().filter(|figure| !figure["verdict"].is_null());
            judged.map(|figure| (word(&point["load"]), word(&figure["measure"]), word(&figure["verdict"])))
        })
        .collect()
}

#[test]
fn two_runs_and_two_gateways_of_one_run_are_compared() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let path = scenario(here, TWICE, "");
    let (_, first) = measured(here, &path, &[]);
    let (output, second) =
        measured(here, &path, &["--baseline", &first, "--fail-on", "missed,worse", "--json"]);
    // Two repeats are too few for a verdict `worse`. An undecided comparison must not exit with 0.
    assert!(matches!(output.status.code(), Some(1 | 4)), "{}", text(&output.stderr));
    let undecided = "exit code 4: nothing could be compared with the baseline: ";
    assert!(text(&output.stderr).contains(undecided), "{}", text(&output.stderr));
    let document = json(&output);
    assert_eq!(document["comparison"]["a"]["run"], first.as_str());
    assert_eq!(document["comparison"]["b"]["run"], second.as_str());
    assert_eq!(document["comparison"]["is_paired"], false);
    assert!(document["comparison"]["notes"].to_string().contains("one after the other"), "order not noted");

    // Every row has the rig's own CPU time, even if this value is invalid.
    for row in
        document["summary"]["points"].as_array().unwrap().iter().flat_map(|of| of["rows"].as_array().unwrap())
    {
        assert!(row["rig_cpu_us_per_request"]["mean"].as_f64().is_some_and(|us| us > 0.0), "{row}");
    }

    // A comparison of two runs covers every gateway at each load, with the metrics of the load.
    let output = compare(here, &[&first, &second, "--db", "weir.db", "--json"]);
    good(&output);
    let comparison = json(&output);
    assert_eq!(comparison, document["comparison"], "weir run --baseline gives another comparison");
    let all = verdicts(&comparison);
    assert_eq!(comparison["family"], all.len());
    let figures = |load: &str| -> Vec<&str> {
        all.iter().filter(|(of, ..)| of == load).map(|(_, measure, _)| measure.as_str()).collect()
    };
    assert_eq!(figures("full"), ["throughput", "cpu"].repeat(2));
    // If a busy host keeps a load below its rate, throughput is also compared.
    let of_tail: Vec<&str> = figures("tail").into_iter().filter(|measure| *measure != "throughput").collect();
    assert_eq!(of_tail, ["cpu", "p50", "p99"].repeat(2));
    for (load, measure, verdict) in &all {
        assert!(
            ["undecided", "same"].contains(&verdict.as_str()),
            "two repeats allow no claim: {load} {measure} {verdict}"
        );
    }

    // A comparison of two gateways of one run is paired by block.
    let (old, new) = (format!("{first}:old"), format!("{first}:new"));
    let output = compare(here, &[&old, &new, "--db", "weir.db", "--json"]);
    good(&output);
    let paired = json(&output);
    assert_eq!(paired["is_paired"], true);
    assert_eq!(paired["points"].as_array().unwrap().len(), 2);
    assert_eq!(paired["environment"].as_array().unwrap().len(), 0, "one run has one environment");

    // Write the output formats, with default labels and with labels from the flags.
    let labels = ["--label-a", "before", "--label-b", "after"];
    let files = ["--markdown", "c.md", "--html", "c.html"];
    let output = compare(here, &[&[old.as_str(), &new, "--db", "weir.db"], &labels[..], &files[..]].concat());
    good(&output);
    let gate = [old.as_str(), &new, "--db", "weir.db", "--metric", "p99", "--fail-on", "worse"];
    refused(here, &gate, &["--fail-on worse: nothing could be compared", "weir doctor"]);
    let printed = text(&output.stdout);
    assert!(printed.contains("after against before"), "{printed}");
    let markdown = std::fs::read_to_string(here.join("c.md")).unwrap();
    assert!(markdown.starts_with("## after against before\n"), "{markdown}");
    assert!(markdown.contains("| CPU per request |"), "{markdown}");
    let page = std::fs::read_to_string(here.join("c.html")).unwrap();
    assert!(page.matches("<svg").count() >= 3, "bars of two loads and overlaid curves are missing");
    for loads in ["<script", "<link", "http://", "https://", "url("] {
        assert!(!page.contains(loads), "the page has {loads}");
    }
    let output = compare(here, &[&old, &new, "--db", "weir.db", "--markdown", "-", "--metric", "p99"]);
    good(&output);
    assert!(text(&output.stdout).starts_with("## "), "{}", text(&output.stdout));

    // An exported run can be compared like a stored run.
    good(&finish(weir(here, &["export", &first, "--db", "weir.db", "--out", "first.weir"])));
    let output = compare(here, &["first.weir:old", "first.weir:new", "--json"]);
    good(&output);
    assert_eq!(json(&output)["points"], paired["points"]);

    // Runs under different conditions are rejected without --force.
    let (_, third) =
        measured(here, &path, &["--set", "limits.data.cpus=0.4", "--repeats", "1", "--gateway", "new"]);
    refused(here, &[&first, &third, "--db", "weir.db"], &["limits.data.cpus: 0.5 in A, 0.4 in B", "--force"]);
    let output = compare(here, &[&first, &third, "--db", "weir.db", "--force"]);
    good(&output);
    let printed = text(&output.stdout);
    for words in ["Forced", "limits.data.cpus", &format!("only in {first}: old, full")] {
        assert!(printed.contains(words), "{words:?} is missing in {printed}");
    }
    let run = |arguments: &[&str], words: &[&str]| {
        let own = ["run", path.to_str().unwrap(), "--db", "weir.db", "--out", "no"];
        wrong_use(&finish(weir(here, &[&own, arguments].concat())), words);
        assert!(!here.join("no").exists(), "the run has started");
    };
    run(&["--baseline", "nosuchrun"], &["no run `nosuchrun`", &third]);
    run(&["--baseline", &third], &["--baseline", "limits.data.cpus: 0.4 in A, 0.5 in B"]);
    run(
        &["--baseline", &third, "--gateway", "nginx"],
        &["--baseline", "did not measure any gateway of the new run"],
    );
    run(&["--fail-on", "worse"], &["--baseline"]);
}

#[track_caller]
fn wrong_use(output: &Output, words: &[&str]) {
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    let is_one = error.lines().filter(|line| line.starts_with("error")).count() == 1;
    assert!(is_one && !error.contains("panicked"), "one error: {error}");
    for word in words {
        assert!(error.contains(word), "{word:?} is missing in: {error}");
    }
}

#[track_caller]
fn refused(folder: &Path, arguments: &[&str], words: &[&str]) {
    wrong_use(&compare(folder, arguments), words);
}

fn foreign(name: &str) -> String {
    format!("{FOREIGN}/{name}")
}

#[test]
fn files_of_other_tools_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let (perf, again) = (foreign("gorouter/perf.csv"), foreign("gorouter/perfAgain.csv"));
    let with_cpu = format!("{perf},{}", foreign("gorouter/cpuStats.csv"));
    let output = compare(here, &[&with_cpu, &again, "--cores", "4", "--json"]);
    good(&output);
    let comparison = json(&output);
    assert_eq!(comparison["a"]["run"], Value::Null);
    assert!(comparison["a"]["source"].as_str().unwrap().contains("provenance unknown"));
    let all = verdicts(&comparison);
    assert!(!all.is_empty() && all.iter().all(|(.., verdict)| verdict == "undecided"), "no repeats: {all:?}");
    // A folder with several repeats gives confidence intervals.
    for side in ["a", "b"] {
        std::fs::create_dir(here.join(side)).unwrap();
        std::fs::copy(&perf, here.join(side).join("1.csv")).unwrap();
        std::fs::copy(&again, here.join(side).join("2.csv")).unwrap();
    }
    let output = compare(here, &["a", "b", "--json"]);
    good(&output);
    assert!(json(&output)["points"][0]["figures"][0]["interval"].is_array());

    let locust = foreign("locust_stats.csv");
    std::fs::copy(&locust, here.join("new_stats.csv")).unwrap();
    let output = compare(here, &[&locust, "new_stats.csv"]);
    good(&output);
    assert!(text(&output.stdout).contains("provenance unknown"), "{}", text(&output.stdout));
    let (exported, handled) = (foreign("k6_summary_export.json"), foreign("k6_handle_summary.json"));
    good(&compare(here, &[&exported, &handled]));
    let gate = [exported.as_str(), &handled, "--fail-on", "worse"];
    refused(here, &gate, &["nothing could be compared", "two valid repeats"]);
    let page = compare(here, &[&exported, &handled, "--html", "-"]);
    good(&page);
    assert!(text(&page.stdout).starts_with("<!") && !here.join("-").exists());
    refused(here, &[&exported, &locust], &["measured by: k6 in A, Locust in B", "--force"]);
    refused(here, &[&exported, FIXTURE, "--force"], &["several gateways or loads", "--load"]);
    refused(here, &[&exported, &handled, "--metric", "cpu"], &["`cpu`"]);
    refused(here, &[&locust, &locust], &["the same"]);
    let twice = format!("{locust},new_stats.csv");
    refused(
        here,
        &[&perf, &twice],
        &["locust_stats.csv and new_stats.csv have the same content", "each file once"],
    );
    let step = ["--force", "--load", "step 2"];
    let apart = ["loads: unnamed in A, step 1, step 2 in B", "--load NAME"];
    refused(here, &[&locust, &perf, "--force"], &apart);
    good(&compare(here, &[&[locust.as_str(), &perf], &step[..]].concat()));
    let failed = std::fs::read_to_string(&locust).unwrap().replace(",3195,0,", ",3195,3195,");
    std::fs::write(here.join("failed_stats.csv"), failed).unwrap();
    let output = compare(here, &[&locust, "failed_stats.csv", "--metric", "p999", "--markdown", "-"]);
    good(&output);
    let printed = text(&output.stdout);
    let place = |words: &str| printed.find(words).unwrap_or_else(|| panic!("no {words} in {printed}"));
    assert!(place("3,195 of 3,195 requests failed") < place("| p99.9 latency |"), "{printed}");
    assert!(printed.contains("A has 1, B has 0 (errors)"), "{printed}");
    refused(here, &[&format!("{locust}:weir"), &exported], &["no gateway `weir`"]);
}

#[test]
fn invalid_input_is_reported_once_with_its_location() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    good(&finish(weir(here, &["import", FIXTURE, "--db", "weir.db"])));
    let in_db = |a: &str, b: &str, words: &[&str]| refused(here, &[a, b, "--db", "weir.db"], words);
    in_db("last", "nosuchrun", &["no run `nosuchrun`", "weir runs"]);
    in_db("last", "last", &["the same: run", "RUN:old RUN:new"]);
    in_db("last:wier", "last", &["no gateway `wier`", "gateways of the run"]);
    in_db("last:weir", "last", &["the same: gateway weir of run", "RUN:old RUN:new"]);
    in_db("absent.csv", "last", &["absent.csv", "cannot read the file"]);
    refused(here, &["last", "last", "--db", "other.db"], &["other.db"]);
    let put = |name: &str, text: &str| std::fs::write(here.join(name), text).unwrap();
    put("empty.csv", "");
    put("columns.csv", "start-time,latency\n2017-08-25T21:07:33Z,1\n");
    put("binary.csv", "a");
    std::fs::write(here.join("binary.csv"), [0xff, 0xfe, 0]).unwrap();
    std::fs::create_dir(here.join("none")).unwrap();
    for (file, words) in [
        ("empty.csv", &["empty.csv", "empty"][..]),
        ("columns.csv", &["columns.csv", "columns missing", "`response-time`"]),
        ("binary.csv", &["binary.csv", "not UTF-8 text"]),
        ("none", &["none", "the folder has no CSV or JSON file to compare"]),
    ] {
        refused(here, &[file, "columns.csv"], words);
    }
    let flag = |flags: &[&str], words: &[&str]| {
        refused(here, &[&["last", "last", "--db", "weir.db"], flags].concat(), words);
    };
    flag(&["--metric", "p98.5"], &["--metric", "`p98.5`", "p98"]);
    flag(&["--metric", "trouhgput"], &["did you mean `throughput`?"]);
    flag(&["--margin", "p99"], &["--margin p99", "p99=30%"]);
    flag(&["--margin", "p99=wide"], &["--margin p99=wide", "0.1%"]);
    flag(&["--margin", "p99=0"], &["--margin p99=0", "1%"]);
    flag(&["--margin", "q=1%"], &["--margin", "`q`"]);
    flag(&["--cores", "0"], &["--cores"]);
    flag(&["--json", "--markdown", "-"], &["--json", "--markdown"]);
    flag(&["--html", "-", "--markdown", "-"], &["--html -", "--markdown -"]);
    flag(&["--fail-on", "same"], &["worse"]);
    refused(here, &["last"], &["<B>"]);
    assert!(text(&compare(here, &["--help"]).stdout).contains("RUN:GATEWAY"));
}

#[test]
fn help_lists_every_metric() {
    let folder = tempfile::tempdir().unwrap();
    let error = text(&compare(folder.path(), &["last", "last", "--metric", "trouhgput"]).stderr);
    let known = error.split("Known metrics: ").nth(1).unwrap_or_else(|| panic!("{error}"));
    let help = text(&compare(folder.path(), &["--help"]).stdout);
    let listed: Vec<&str> = help.split([' ', ',', '\n']).collect();
    let names: Vec<&str> = known.lines().next().unwrap().split(", ").map(str::trim).collect();
    assert!(names.contains(&"recovery.time"), "{names:?}");
    for name in names {
        assert!(listed.contains(&name), "`weir compare --help` does not list {name}");
    }
}
