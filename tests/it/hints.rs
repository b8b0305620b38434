//! Printed commands work when pasted into a shell, and file formats match file names.

use std::path::Path;
use std::process::{Command, Output};

use rustix::process::{Pid, Signal, kill_process};

use crate::program::{finish, json, scenario, text, the_host, until, wait, weir};

const FIXTURE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../weir-results/tests/fixtures/archive-1-schema-1.weir");
/// A name that a shell splits and expands unless it is quoted.
const DATABASE: &str = "my run's $1.db";

/// The printed `weir` commands between backticks.
fn commands(message: &str) -> Vec<String> {
    message
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|command| command.starts_with("weir "))
        .map(str::to_owned)
        .collect()
}

/// Runs a line in a shell, with the `weir` under test in PATH.
fn paste(folder: &Path, line: &str) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_weir")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(folder).env("PATH", path);
    command.env("XDG_DATA_HOME", folder.join("data")).env("WEIR_STATE_DIR", folder.join("state"));
    finish(command)
}

fn listed(folder: &Path) -> serde_json::Value {
    json(&finish(weir(folder, &["runs", "--db", DATABASE, "--json"])))
}

#[test]
fn the_resume_hint_names_the_database_of_the_run() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let path = scenario(here, "[weir]", "");
    let arguments =
        ["run", path.to_str().unwrap(), "--db", DATABASE, "--out", "my reports", "--fail-on", "missed"];
    let child = weir(here, &arguments)
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    until("a stored cell", || listed_or_nothing(here).is_some_and(|done| done > 0));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = wait(child);
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert_eq!(listed(here)[0]["state"], "unfinished");

    // The listing has the same command, without backticks.
    let table = text(&finish(weir(here, &["runs", "--db", DATABASE])).stdout);
    let id = listed(here)[0]["id"].as_str().unwrap().to_owned();
    assert!(table.contains(&format!("weir run --resume {id} --db 'my run'\\''s $1.db'")), "{table}");

    let message = text(&output.stderr);
    let [command] = &commands(&message)[..] else { panic!("one command: {message}") };
    assert_eq!(
        *command,
        format!("weir run --resume {id} --out 'my reports' --fail-on missed --db 'my run'\\''s $1.db'")
    );
    let output = paste(here, command);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", text(&output.stderr));
    assert_eq!(listed(here)[0]["state"], "finished", "{}", text(&output.stderr));
    assert!(here.join("my reports/report.html").exists());
}

/// Number of stored cells of the first run; `None` while the database is not readable.
fn listed_or_nothing(folder: &Path) -> Option<u64> {
    let output = finish(weir(folder, &["runs", "--db", DATABASE, "--json"]));
    let runs: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    runs.get(0)?["cells_done"].as_u64()
}

#[test]
fn every_other_hint_names_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let with = |arguments: &[&str]| finish(weir(here, &[arguments, &["--db", DATABASE]].concat()));
    let imported = with(&["import", FIXTURE]);
    assert_eq!(imported.status.code(), Some(0), "{}", text(&imported.stderr));
    let wrong = [
        text(&imported.stdout),
        text(&with(&["report", "nosuchrun"]).stderr),
        text(&with(&["compare", "absent.csv", "last"]).stderr),
    ];
    for message in wrong {
        let commands = commands(&message);
        assert!(!commands.is_empty(), "{message}");
        for command in commands {
            let output = paste(here, &command);
            assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{command}: {}", text(&output.stderr));
            assert!(!output.stdout.is_empty(), "{command}");
        }
    }
    assert!(!here.join("data/weir/weir.db").exists(), "a command used the default database");
}

#[test]
fn the_file_extension_selects_the_export_format() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    finish(weir(here, &["import", FIXTURE, "--db", "weir.db"]));
    let export = |arguments: &[&str]| {
        finish(weir(here, &[&["export", "last", "--db", "weir.db"], arguments].concat()))
    };
    for (file, begins) in
        [("x.csv", &b"run,scenario,"[..]), ("x.json", b"{"), ("x.parquet", b"PAR1"), ("x.weir", b"\x1f\x8b")]
    {
        let output = export(&["--out", file]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(std::fs::read(here.join(file)).unwrap().starts_with(begins), "{file}");
    }
    for (arguments, words) in [
        (&["--out", "y.csv", "--format", "weir"][..], "y.csv: the ending .csv contradicts --format weir"),
        (&["--out", "y.xlsx"], "y.xlsx: unknown format .xlsx"),
    ] {
        let output = export(arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(words), "{}", text(&output.stderr));
        assert!(!here.join(arguments[1]).exists());
    }
}

#[test]
fn a_dash_means_standard_output_and_never_a_folder_or_file() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    finish(weir(here, &["import", FIXTURE, "--db", "weir.db"]));
    let call = |arguments: &[&str]| finish(weir(here, &[arguments, &["--db", "weir.db"]].concat()));
    let report = |arguments: &[&str]| call(&[&["report", "last", "--out", "-"], arguments].concat());
    for (format, begins) in [("md", "# "), ("csv", "run,scenario,"), ("terminal", "")] {
        let output = report(&["--format", format, "--fail-on", "missed"]);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{format}: {}", text(&output.stderr));
        let printed = text(&output.stdout);
        assert!(printed.len() > 100 && printed.starts_with(begins), "{format}: {printed}");
    }
    assert!(json(&report(&["--json"]))["summary"].is_object());
    let refused = |output: Output, words: &str| {
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(output.stdout.is_empty() && error.contains(words), "{words}: {error}");
    };
    refused(report(&[]), "--out -: a report is several files");
    refused(report(&["--format", "html"]), "--out -: report.html needs a folder");
    refused(
        report(&["--format", "md", "--format", "csv"]),
        "--out -: standard output cannot hold several formats",
    );
    refused(call(&["run", "quickstart", "--out", "-"]), "--out -: a report is several files");
    let rendered = ["render", "quickstart", "--gateway", "weir", "--out", "-"];
    refused(finish(weir(here, &rendered)), "--out -: standard output cannot hold several files");
    let path = scenario(here, "[weir]", "objective: { p99: 1s }\n");
    refused(
        call(&["run", path.to_str().unwrap(), "--junit", "-"]),
        "--junit -: `weir run` already writes its report to standard output",
    );
    assert!(!here.join("-").exists());
}
