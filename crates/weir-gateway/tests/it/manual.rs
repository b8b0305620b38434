//! Manual and help, compared with the program.

use std::path::Path;
use std::process::Command;

use weir_config::RequestView;
use weir_control::FileSource;

const MANUAL: &str = include_str!("../../../../docs/gateway.md");
const SYSTEMD: &str = include_str!("../../../../docs/gateway-on-systemd.md");
const KUBERNETES: &str = include_str!("../../../../deploy/kubernetes/weir-gateway.yaml");
const LIMITS: &str = include_str!("../../../../docs/gateway-limits.md");
const LOGS: &str = include_str!("../../../../docs/gateway-logs.md");
const ROUTES: &str = include_str!("../../../../docs/gateway-routes.md");

/// The configuration source for `text`, written to a file in `dir`.
fn source(dir: &Path, text: &str) -> FileSource {
    let path = dir.join("gateway.yaml");
    std::fs::write(&path, text).expect("a configuration file");
    FileSource::new(path)
}

#[test]
fn the_limits_page_shows_the_defaults() {
    let (_, rest) = LIMITS.split_once("```yaml\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let bare = "listeners: [{ address: 127.0.0.1:1 }]\n";
    let dir = tempfile::tempdir().expect("a temporary folder");
    let shown = source(dir.path(), &format!("{bare}{example}")).load().expect("the example is valid");
    let default = source(dir.path(), bare).load().expect("a listener is enough");
    assert_eq!((&shown.limits, &shown.timeouts), (&default.limits, &default.timeouts));
    assert_eq!(shown.drain, default.drain);
    for (block, fields) in [
        ("limits", format!("{:?}", default.limits)),
        ("timeouts", format!("{:?}", default.timeouts)),
        ("drain", format!("{:?}", default.drain)),
    ] {
        for (name, value) in fields.split(['{', ',']).filter_map(|field| field.split_once(": ")) {
            // A field without a default cannot be shown in the example.
            let is_shown = example.contains(&format!("\n  {}: ", name.trim())) || value.starts_with("None");
            assert!(is_shown, "{block}.{name} is not in the example");
        }
    }
}

/// Writes the first configuration of a page to `file`, runs the commands that the page shows for it, and compares their
/// output with the page. Returns the subcommands.
fn run_shown(page: &'static str, file: &str) -> Vec<&'static str> {
    let (_, rest) = page.split_once("```yaml\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let dir = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(dir.path().join(file), example).expect("a configuration file");
    let run = |shown: &'static str| {
        let (command, rest) = shown.split_once('\n').expect("its line");
        let (expected, _) = rest.split_once("```").expect("its end");
        let output = Command::new("sh")
            .current_dir(dir.path())
            .args(["-c", &format!("\"$0\" {command}"), env!("CARGO_BIN_EXE_weir-gateway")])
            .output()
            .expect("it starts");
        assert_eq!(String::from_utf8(output.stdout).expect("text"), expected, "{command}");
        command.split(' ').next().unwrap_or_default()
    };
    page.split("```\n$ weir-gateway ").skip(1).map(run).collect()
}

#[test]
fn commands_of_the_pages_print_what_the_pages_show() {
    assert_eq!(run_shown(MANUAL, "gateway.yaml"), ["check", "explain"]);
    assert_eq!(run_shown(ROUTES, "routes.yaml"), ["explain"]);
}

#[test]
fn the_example_of_the_help_loads() {
    let output = Command::new(env!("CARGO_BIN_EXE_weir-gateway")).arg("--help").output().expect("it starts");
    let help = String::from_utf8(output.stdout).expect("text");
    let (_, rest) = help.split_once("A minimal configuration:\n").expect("an example");
    let (example, _) = rest.split_once("\n\n").expect("its end");
    let dir = tempfile::tempdir().expect("a temporary folder");
    let table = source(dir.path(), example).load().expect("the example is valid");
    let finds = |host, path| table.find(&RequestView::get(host, path)).is_some();
    assert!(finds("example.com", "/api/x") && finds("any", "/b"));
    assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
}

#[test]
fn units_name_existing_flags() {
    let output = Command::new(env!("CARGO_BIN_EXE_weir-gateway")).arg("--help").output().expect("it starts");
    let help = String::from_utf8(output.stdout).expect("text");
    for (unit, flag) in
        [(SYSTEMD, "--config"), (SYSTEMD, "--admin"), (SYSTEMD, "--runtime-dir"), (KUBERNETES, "--watch")]
    {
        assert!(unit.contains(flag) && help.contains(flag), "{flag}");
    }
}

#[test]
fn the_configuration_in_the_deployment_manifests_is_valid() {
    let (_, rest) = KUBERNETES.split_once("  gateway.yaml: |\n").expect("a ConfigMap");
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
fn the_examples_for_logs_and_forwarding_load() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for (page, start) in [(LOGS, "access_log: "), (LOGS, "log: "), (ROUTES, "forwarding:\n")] {
        let (_, rest) = page.split_once(&format!("```yaml\n{start}")).expect("an example");
        let (example, _) = rest.split_once("```").expect("its end");
        let text = format!("listeners: [{{ address: 127.0.0.1:1 }}]\n{start}{example}");
        source(dir.path(), &text).load().unwrap_or_else(|error| panic!("{error:?}: {text}"));
    }
}
