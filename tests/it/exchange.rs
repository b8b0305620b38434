//! `weir export` and `weir import`: a real run is copied to another database and back, and other programs read its
//! exports.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use weir_results::Histogram;

use crate::program::{finish, json, scenario, text, the_host, weir};

const FIXTURE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../weir-results/tests/fixtures/archive-1-schema-1.weir");
const READ_BACK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/it/read_back.py");

/// A folder whose `weir.db` has a real run: weir and direct, two loads, one repeat.
fn measured() -> tempfile::TempDir {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let path = scenario(folder.path(), "[weir]", "");
    let arguments = ["run", path.to_str().unwrap(), "--db", "weir.db", "--out", "out", "--repeats", "1"];
    let output = finish(weir(folder.path(), &arguments));
    assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{}", text(&output.stderr));
    folder
}

/// A folder whose `weir.db` has the run of the fixture.
fn imported() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    good(&finish(weir(folder.path(), &["import", FIXTURE, "--db", "weir.db"])));
    folder
}

fn good(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

fn export(folder: &Path, arguments: &[&str]) -> Output {
    let mut all = vec!["export", "last", "--db", "weir.db"];
    all.extend(arguments);
    finish(weir(folder, &all))
}

/// `weir report --json` of the last run in a database.
fn report(folder: &Path, db: &str) -> Value {
    json(&finish(weir(folder, &["report", "last", "--db", db, "--json", "--out", "report"])))
}

/// The Python of `make peers` that has pandas, pyarrow and hdrhistogram.
fn readers() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let mut places = own.ancestors().map(|folder| folder.join("target/peers/bin/readers"));
    places.find(|path| path.exists()).expect("no target/peers/bin/readers; `make peers` fetches it")
}

#[test]
fn a_run_imported_into_another_database_has_the_same_report() {
    let folder = measured();
    good(&export(folder.path(), &["--out", "run.weir"]));
    let import = |db: &str| finish(weir(folder.path(), &["import", "run.weir", "--db", db]));
    let output = import("other.db");
    good(&output);
    assert!(text(&output.stdout).contains("2 of 2 cells"), "{}", text(&output.stdout));
    assert_eq!(report(folder.path(), "other.db"), report(folder.path(), "weir.db"));
    for db in ["other.db", "weir.db"] {
        let output = import(db);
        good(&output);
        assert!(text(&output.stdout).contains(", with the same content"), "{}", text(&output.stdout));
    }
    // Standard output has the same bytes as the file, and `weir import -` reads them from standard input.
    let piped = export(folder.path(), &["--out", "-"]);
    good(&piped);
    assert_eq!(piped.stdout, std::fs::read(folder.path().join("run.weir")).unwrap());
    let file = std::fs::File::open(folder.path().join("run.weir")).unwrap();
    good(&weir(folder.path(), &["import", "-", "--db", "piped.db"]).stdin(file).output().unwrap());
    assert_eq!(report(folder.path(), "piped.db"), report(folder.path(), "weir.db"));
}

#[test]
fn pandas_pyarrow_and_hdrhistogram_read_the_exports() {
    let folder = measured();
    for (format, file) in
        [("csv", "run.csv"), ("parquet", "run.parquet"), ("hdr", "run.hlog"), ("locust", "run_stats.csv")]
    {
        good(&export(folder.path(), &["--format", format, "--out", file]));
    }
    let mut command = Command::new(readers());
    command.args([READ_BACK, "run.csv", "run.parquet", "run.hlog", "run_stats.csv"]);
    command.current_dir(folder.path());
    let read = json(&finish(command));
    let cells = report(folder.path(), "weir.db")["cells"].clone();
    let (mut place, mut intervals) = (0, 0);
    for cell in cells.as_array().unwrap() {
        for measurement in cell["outcome"]["measurements"].as_array().unwrap() {
            for form in ["csv", "parquet", "parquet_in_pandas"] {
                row_is(&read[form][place], cell, measurement);
            }
            let row = &read["locust"][place];
            assert_eq!(row["Name"], "Aggregated");
            assert_eq!(row["weir load"], measurement["load"]);
            assert_eq!(row["Requests/s"], measurement["record"]["result"]["rate_per_s"]);
            intervals += intervals_are(&read["hdr"], cell, measurement);
            place += 1;
        }
    }
    assert_eq!(place, 4, "two loads of weir and of direct");
    for form in ["csv", "parquet", "parquet_in_pandas", "locust"] {
        assert_eq!(read[form].as_array().unwrap().len(), place, "{form}");
    }
    let types = &read["parquet_types"];
    let of = |column: &str| types[column].as_str().unwrap_or_default().to_owned();
    assert_eq!(
        (of("latency_ns_p99"), of("rate_per_s"), of("gateway")),
        ("uint64".into(), "double".into(), "string".into())
    );
    assert_eq!(read["hdr"].as_array().unwrap().len(), intervals);
}

/// Checks that a row has the same values as the report of the load, and that the same values are missing.
fn row_is(row: &Value, cell: &Value, measurement: &Value) {
    let result = &measurement["record"]["result"];
    assert_eq!((&row["gateway"], &row["load"]), (&cell["key"]["gateway"], &measurement["load"]));
    for (column, value) in [
        ("cell", &cell["key"]["index"]),
        ("connections", &measurement["connections"]),
        ("asked_rate_per_s", &measurement["rate_per_s"]),
        ("requests_scheduled", &result["requests"]["scheduled"]),
        ("requests_failed", &result["requests"]["failed"]),
        ("rate_per_s", &result["rate_per_s"]),
        ("latency_ns_mean", &result["latency_ns"]["mean"]),
        ("latency_ns_p50", &result["latency_ns"]["p50"]),
        ("latency_ns_p9999", &result["latency_ns"]["p9999"]),
        ("lateness_ns_p99", &result["lateness_ns"]["p99"]),
        ("bytes_received", &result["bytes"]["received"]),
        ("status_2xx", &result["status"]["200"]),
        ("cpu_us_per_request", &measurement["cpu_us_per_request"]),
        ("data_cpu_cores", &measurement["usage"]["weir"]["cpu_cores"]),
        ("origin_memory_bytes_peak", &measurement["usage"]["origin"]["memory_bytes_peak"]),
        ("host_idle_share", &measurement["host"]["idle"]),
        ("counted_gateway", &measurement["counters"]["gateway_requests"]),
        ("whole_sent", &measurement["record"]["whole"]["sent"]),
    ] {
        assert_eq!(row[column].as_f64(), value.as_f64(), "{column} in {row}");
    }
    let reasons: Vec<&str> = measurement["judgement"]["verdicts"]["latency"]
        .as_array()
        .unwrap()
        .iter()
        .map(|reason| reason.as_str().unwrap())
        .collect();
    let verdict = if reasons.is_empty() { "valid".to_owned() } else { reasons.join(";") };
    assert_eq!(row["verdict_latency"], verdict);
    assert_eq!(row["bound_by"], measurement["judgement"]["bound_by"]);
}

/// Checks that the log has one interval per second of a load. Returns their number.
fn intervals_are(intervals: &Value, cell: &Value, measurement: &Value) -> usize {
    let tag = format!(
        "cell={};gateway={};repeat=0;load={};",
        cell["key"]["index"],
        cell["key"]["gateway"].as_str().unwrap(),
        measurement["load"].as_str().unwrap()
    );
    let of_load: Vec<&Value> = intervals
        .as_array()
        .unwrap()
        .iter()
        .filter(|interval| interval["tag"].as_str().unwrap().starts_with(&tag))
        .collect();
    let seconds = measurement["record"]["seconds"].as_array().unwrap();
    assert!(!seconds.is_empty() && of_load.len() == seconds.len(), "{tag}");
    for (interval, second) in of_load.into_iter().zip(seconds) {
        let kept: Histogram = serde_json::from_value(second["latency"].clone()).unwrap();
        let kept = kept.decode().unwrap();
        assert_eq!(
            (&interval["count"], &interval["max_ns"]),
            (&kept.len().into(), &kept.max().into()),
            "{tag}"
        );
        let (start, end) = (number(&interval["start_unix_ms"]), number(&interval["end_unix_ms"]));
        let length_s = number(&second["length_s"]);
        assert!(((end - start) / 1e3 - length_s).abs() < 0.002, "{interval} for {length_s} s");
        let (begun, ended) = (number(&cell["started_unix_ms"]), number(&cell["ended_unix_ms"]));
        assert!((begun - 1.0..=ended).contains(&start), "{interval} in {begun} .. {ended}");
        let sustained = interval["tag"].as_str().unwrap().contains("phase=sustained");
        assert_eq!(sustained, second["sustained"], "{tag}");
    }
    seconds.len()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn an_unfinished_run_exports_its_finished_cells() {
    let folder = tempfile::tempdir().unwrap();
    good(&finish(weir(folder.path(), &["import", &unfinished(folder.path()), "--db", "weir.db"])));
    let output = export(folder.path(), &["--format", "csv"]);
    good(&output);
    assert!(text(&output.stderr).contains("unfinished: 1 of 2 cells"), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout).lines().count(), 2, "the only stored cell failed and has one row");
    // The finished run differs from the stored one: the import is rejected, and the stored run is unchanged.
    let output = finish(weir(folder.path(), &["import", FIXTURE, "--db", "weir.db"]));
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("1 finished cells in the database, 2 in the file"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(report(folder.path(), "weir.db")["cells"].as_array().unwrap().len(), 1);
}

/// Writes the fixture's run to a file, without its first cell. Returns the path.
fn unfinished(folder: &Path) -> String {
    let mut archive = weir_results::read_archive("fixture", std::fs::File::open(FIXTURE).unwrap()).unwrap();
    archive.cells.remove(0);
    let path = folder.join("unfinished.weir");
    weir_results::write_archive(&archive.run, &archive.cells, std::fs::File::create(&path).unwrap()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn every_format_can_be_written_to_standard_output_and_to_a_file() {
    let folder = imported();
    for format in ["weir", "csv", "json", "parquet", "hdr", "k6", "locust"] {
        let printed = export(folder.path(), &["--format", format]);
        good(&printed);
        assert!(printed.stderr.is_empty() && !printed.stdout.is_empty(), "{format}");
        good(&export(folder.path(), &["--format", format, "--out", format]));
        assert_eq!(std::fs::read(folder.path().join(format)).unwrap(), printed.stdout, "{format}");
    }
    let names: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().ends_with(".part")), "{names:?}");
    let one = export(folder.path(), &["--format", "k6", "--cell", "1", "--load", "tail"]);
    assert_eq!(json(&one)["weir"]["load"], "tail");
}

#[test]
fn export_numbers_cells_from_one_like_plan_and_report() {
    let folder = imported();
    let first = text(&export(folder.path(), &["--format", "csv", "--cell", "1"]).stdout);
    let cells: Vec<_> = first.lines().skip(1).map(|row| row.split(',').nth(2).unwrap().to_owned()).collect();
    assert!(!cells.is_empty() && cells.iter().all(|cell| cell == "0"), "{first}");
    for (number, words) in [("0", "1.."), ("99", "no finished cell 99")] {
        let output = export(folder.path(), &["--format", "csv", "--cell", number]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(words), "{}", text(&output.stderr));
    }
}

#[test]
fn an_existing_file_is_overwritten_only_with_force() {
    let folder = imported();
    let path = folder.path().join("notes");
    std::fs::write(&path, "mine").unwrap();
    let output = export(folder.path(), &["--format", "csv", "--out", "notes"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("notes") && text(&output.stderr).contains("--force"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    good(&export(folder.path(), &["--format", "csv", "--out", "notes", "--force"]));
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("run,scenario,"));
    // --force does not replace a device with a file.
    good(&export(folder.path(), &["--format", "csv", "--out", "/dev/null", "--force"]));
    assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
}

#[test]
fn a_binary_format_is_not_written_to_a_terminal() {
    let folder = imported();
    for (format, code) in [("parquet", 2), ("weir", 2), ("csv", 0)] {
        // `script` runs a command whose output is a terminal.
        let command = format!("{} export last --db weir.db --format {format}", env!("CARGO_BIN_EXE_weir"));
        let mut terminal = Command::new("script");
        terminal.args(["-qec", &command, "/dev/null"]).current_dir(folder.path());
        let output = finish(terminal);
        assert_eq!(output.status.code(), Some(code), "{format}: {}", text(&output.stdout));
        assert_eq!(text(&output.stdout).contains("to a terminal"), code == 2, "{format}");
    }
}

/// Terminal escapes: set the title, clear the screen, an 8-bit sequence, right-to-left override.
const HOSTILE: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\u{202e}";

/// Writes the fixture's run to a file, with terminal escapes in all free text. Returns the path.
fn hostile(folder: &Path) -> String {
    let mut archive = weir_results::read_archive("fixture", std::fs::File::open(FIXTURE).unwrap()).unwrap();
    let spoil = |text: &mut String| text.push_str(HOSTILE);
    spoil(&mut archive.run.question);
    let axis = || ("origin.body".to_owned(), Value::from(HOSTILE));
    archive.run.plan.iter_mut().for_each(|key| key.axes.extend([axis()]));
    for cell in &mut archive.cells {
        cell.key.axes.extend([axis()]);
        cell.unequal.iter_mut().for_each(spoil);
        cell.parts
            .iter_mut()
            .for_each(|part| [&mut part.name, &mut part.version].into_iter().for_each(spoil));
        match &mut cell.outcome {
            weir_results::CellOutcome::Failed { cause, message, remedy, log_tail } => {
                [cause, message, remedy, log_tail].into_iter().for_each(spoil);
            }
            weir_results::CellOutcome::Measured { measurements } => {
                for measurement in measurements {
                    spoil(&mut measurement.load);
                    measurement.judgement.evidence.iter_mut().for_each(spoil);
                }
            }
        }
    }
    let path = folder.join("hostile.weir");
    weir_results::write_archive(&archive.run, &archive.cells, std::fs::File::create(&path).unwrap()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn terminal_escapes_of_an_imported_run_are_escaped() {
    let folder = tempfile::tempdir().unwrap();
    good(&finish(weir(folder.path(), &["import", &hostile(folder.path()), "--db", "weir.db"])));
    for command in [
        "report last --db weir.db --out out",
        "report last --db weir.db --out -  --format md",
        "report last --db weir.db --json",
        "compare last:weir last:weir --db weir.db --force",
        "compare last:weir last:weir --db weir.db --markdown -",
        "size last --db weir.db --rate 10/s --objective p99<20ms",
        "runs --db weir.db",
    ] {
        let words: Vec<&str> = command.split_whitespace().collect();
        let piped = finish(weir(folder.path(), &words));
        let quoted = command.replace('<', "\\<");
        let mut terminal = Command::new("script");
        terminal
            .args(["-qec", &format!("{} {quoted}", env!("CARGO_BIN_EXE_weir")), "/dev/null"])
            .current_dir(folder.path());
        let shown = finish(terminal);
        for (output, is_terminal) in [(&piped.stdout, false), (&piped.stderr, false), (&shown.stdout, true)] {
            let text = text(output);
            // On a terminal, lines end with a carriage return, and weir prints its own styles.
            let text = if is_terminal { without_styles(&text) } else { text };
            let harmful = text.chars().find(|c| (c.is_control() && !"\n\t".contains(*c)) || *c == '\u{202e}');
            assert_eq!(harmful, None, "{command}: {text:?}");
        }
    }
    let report = finish(weir(folder.path(), &["report", "last", "--db", "weir.db", "--out", "out"]));
    assert!(text(&report.stdout).contains("\\u001b]0;owned\\u0007"), "{}", text(&report.stdout));
}

/// Removes weir's styles and the terminal's carriage returns from `text`.
fn without_styles(text: &str) -> String {
    let mut out = text.replace("\r\n", "\n");
    for style in ["0", "1", "2", "39", "49", "38;5;9", "1;31", "1;32"] {
        out = out.replace(&format!("\u{1b}[{style}m"), "");
    }
    out
}

#[test]
fn files_that_cannot_be_imported_are_rejected_and_create_no_database() {
    let folder = imported();
    good(&export(folder.path(), &["--out", "run.weir"]));
    good(&export(folder.path(), &["--format", "csv", "--out", "run.csv"]));
    let whole = std::fs::read(folder.path().join("run.weir")).unwrap();
    std::fs::write(folder.path().join("cut.weir"), &whole[..whole.len() / 2]).unwrap();
    std::fs::write(folder.path().join("empty.weir"), "").unwrap();
    for (file, word) in [
        ("cut.weir", "incomplete"),
        ("empty.weir", "not an archive"),
        ("run.csv", "not an archive"),
        ("absent.weir", "cannot read"),
        (".", "cannot read"),
    ] {
        let output = finish(weir(folder.path(), &["import", file, "--db", "new.db"]));
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{file}: {error}");
        assert!(error.contains(&format!("error: {file}: ")) && error.contains(word), "{error}");
        assert!(error.contains("help: "), "{error}");
        assert!(!folder.path().join("new.db").exists(), "{file}");
    }
}
