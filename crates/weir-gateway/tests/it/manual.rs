//! What the manual and the help say, against the program.

use std::path::Path;
use std::process::Command;

use weir_config::{LogValue, RequestView};
use weir_control::FileSource;
use weir_dataplane::{Cause, Gateway};

const MANUAL: &str = include_str!("../../../../docs/gateway.md");
const OPERATIONS: &str = include_str!("../../../../docs/operations.md");
const ERRORS: &str = include_str!("../../../../docs/errors.md");

/// The source of this text as a file in `dir`.
fn source(dir: &Path, text: &str) -> FileSource {
    let path = dir.join("gateway.yaml");
    std::fs::write(&path, text).expect("a configuration file");
    FileSource::new(path)
}

#[test]
fn the_example_of_the_manual_loads_and_shows_the_defaults() {
    let (_, rest) = MANUAL.split_once("```yaml\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let dir = tempfile::tempdir().expect("a temporary folder");
    let shown = source(dir.path(), example).load().expect("the example is good");
    let bare = "listeners: [{ address: 127.0.0.1:1 }]";
    let default = source(dir.path(), bare).load().expect("a listener is enough");
    assert_eq!((&shown.limits, &shown.timeouts), (&default.limits, &default.timeouts));
    assert_eq!(shown.drain, default.drain);
    // They are shown whole: whatever is there has a line of its own.
    for (block, fields) in [
        ("limits", format!("{:?}", default.limits)),
        ("timeouts", format!("{:?}", default.timeouts)),
        ("drain", format!("{:?}", default.drain)),
    ] {
        for (name, value) in fields.split(['{', ',']).filter_map(|f| f.split_once(": ")) {
            let name = name.trim();
            // What is no bound has no value that could be shown.
            let is_shown = example.contains(&format!("\n  {name}: ")) || value.starts_with("None");
            assert!(is_shown, "{block}.{name} is not in the example");
            assert!(MANUAL.contains(&format!("\n| `{name}` | ")), "{block}.{name} has no row");
        }
    }
}

#[test]
fn what_the_manual_shows_of_the_example_is_what_is_printed() {
    let (_, rest) = MANUAL.split_once("```yaml\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let dir = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(dir.path().join("gateway.yaml"), example).expect("a configuration file");
    let shown = MANUAL.split("```\n$ weir-gateway ").skip(1);
    let commands: Vec<&str> = shown
        .map(|rest| {
            let (command, rest) = rest.split_once('\n').expect("its line");
            let (printed, _) = rest.split_once("```").expect("its end");
            let output = Command::new("sh")
                .current_dir(dir.path())
                .args(["-c", &format!("\"$0\" {command}"), env!("CARGO_BIN_EXE_weir-gateway")])
                .output()
                .expect("it starts");
            assert_eq!(String::from_utf8(output.stdout).expect("text"), printed, "{command}");
            command.split(' ').next().unwrap_or_default()
        })
        .collect();
    assert_eq!(commands, ["check", "explain"]);
}

#[test]
fn the_example_of_the_help_loads() {
    let output = Command::new(env!("CARGO_BIN_EXE_weir-gateway")).arg("--help").output().expect("it starts");
    let help = String::from_utf8(output.stdout).expect("text");
    let (_, rest) = help.split_once("A minimal configuration:\n").expect("an example");
    let (example, _) = rest.split_once("\n\n").expect("its end");
    let dir = tempfile::tempdir().expect("a temporary folder");
    let table = source(dir.path(), example).load().expect("the example is good");
    let finds = |host, path| table.find(&RequestView::get(host, path)).is_some();
    assert!(finds("example.com", "/api/x") && finds("any", "/b"));
    assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
}

#[test]
fn the_list_of_errors_is_that_of_the_program() {
    let rows = ERRORS.lines().filter(|line| line.contains(" | `") && line.starts_with("| "));
    let told: Vec<[&str; 3]> = rows
        .map(|row| {
            let mut cells = row.trim_matches('|').split('|').map(str::trim);
            let mut next = || cells.next().unwrap_or_default();
            [next(), next().trim_matches('`'), next()]
        })
        .collect();
    assert_eq!(told.len(), Cause::ALL.len());
    for cause in Cause::ALL {
        let status = cause.status().to_string();
        // Those that are never answered have no status.
        let is_right = |[told, name, sentence]: &&[&str; 3]| {
            [status.as_str(), ""].contains(told) && (*name, *sentence) == (cause.name(), cause.text())
        };
        assert_eq!(told.iter().filter(is_right).count(), 1, "{status} {} {}", cause.name(), cause.text());
    }
}

#[test]
fn every_value_of_the_access_log_has_its_row() {
    for (name, _, meaning) in LogValue::NAMED {
        assert!(MANUAL.contains(&format!("\n| `${name}` | {meaning} |\n")), "${name} has no row");
    }
}

#[test]
fn every_metric_has_its_row() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let table = source(dir.path(), "listeners: [{ address: 127.0.0.1:0 }]\nworkers: 1\n").load();
    let gateway = Gateway::start(table.expect("it is good")).expect("it starts");
    let text = gateway.stats().prometheus();
    let metrics: Vec<&str> =
        text.lines().filter_map(|l| l.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    assert!(metrics.len() > 10, "{text}");
    for metric in metrics {
        assert!(MANUAL.contains(&format!("\n| `{metric}` |")), "{metric} has no row");
    }
}

#[test]
fn units_name_flags_that_there_are() {
    let output = Command::new(env!("CARGO_BIN_EXE_weir-gateway")).arg("--help").output().expect("it starts");
    let help = String::from_utf8(output.stdout).expect("text");
    for flag in ["--config", "--admin", "--watch", "--runtime-dir"] {
        assert!(OPERATIONS.contains(flag) && help.contains(flag), "{flag}");
    }
}

#[test]
fn the_configuration_in_the_manifests_of_a_deployment_is_good() {
    let (_, rest) = OPERATIONS.split_once("  gateway.yaml: |\n").expect("a ConfigMap");
    let (text, _) = rest.split_once("---\n").expect("its end");
    let dir = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(dir.path().join("gateway.yaml"), text).expect("a file");
    let output = Command::new(env!("CARGO_BIN_EXE_weir-gateway"))
        .args(["check", "--strict"])
        .arg(dir.path().join("gateway.yaml"))
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_examples_of_the_log_and_of_forwarding_load() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for start in ["```\naccess_log: ", "```\nforwarding:\n"] {
        let (_, rest) = MANUAL.split_once(start).expect("an example");
        let (example, _) = rest.split_once("```").expect("its end");
        let key = start.trim_start_matches("```\n");
        let text = format!("listeners: [{{ address: 127.0.0.1:1 }}]\n{key}{example}");
        let table = source(dir.path(), &text).load().expect("the example is good");
        assert!(table.access_log.is_some() != table.forwarding.is_some(), "{text}");
    }
}
