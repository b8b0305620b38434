//! A run by a user without root rights: parts that weir cannot limit are measured and marked.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::program::{finish, json, scenario, text, the_host, weir};
use crate::run::measurements;

/// The user and group ID of `nobody`.
const NOBODY: u32 = 65534;

/// Returns a command that runs `weir` as a user without root rights. If the test runs as root, `weir` runs as `nobody`,
/// which owns no control group and gets programs and folders that it may use.
fn weir_as_a_user(folder: &Path, arguments: &[&str]) -> Command {
    if !rustix::process::geteuid().is_root() {
        return weir(folder, arguments);
    }
    let programs = folder.join("programs");
    fs::create_dir_all(&programs).unwrap();
    let built = Path::new(env!("CARGO_BIN_EXE_weir")).parent().unwrap();
    for name in ["weir", "weir-gateway"] {
        let (from, to) = (built.join(name), programs.join(name));
        if !to.exists() {
            fs::hard_link(&from, &to).or_else(|_| fs::copy(&from, &to).map(|_| ())).unwrap();
        }
    }
    fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
    let mut command = Command::new(programs.join("weir"));
    command.args(arguments).current_dir(folder).uid(NOBODY).gid(NOBODY);
    command.env("XDG_DATA_HOME", folder.join("data")).env("WEIR_STATE_DIR", folder.join("state"));
    command.env_remove("XDG_RUNTIME_DIR");
    command
}

/// Runs the scenario with the data plane limited to `limits`. Returns `limited_by` and `limits_applied` of the gateway,
/// the reasons for the throughput verdict of each load, and the text that weir printed on stderr.
fn limited_to(limits: &str) -> (String, bool, Vec<String>, String) {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let path = scenario(folder.path(), "[weir]", "");
    let wanted = fs::read_to_string(&path).unwrap().replace("cpus: 0.5, memory: 256MiB", limits);
    fs::write(&path, wanted).unwrap();
    let arguments =
        ["run", path.to_str().unwrap(), "--repeats", "1", "--db", "weir.db", "--out", "out", "--json"];
    let output = finish(weir_as_a_user(folder.path(), &arguments));
    let said = text(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{said}");
    let result = json(&output);
    let cells = result["cells"].as_array().unwrap();
    let parts = cells.iter().flat_map(|cell| cell["parts"].as_array().unwrap());
    let gateway = parts.clone().find(|part| part["role"] == "data").unwrap();
    let reasons = |one: &Value| one["judgement"]["verdicts"]["throughput"].to_string();
    (
        gateway["limited_by"].as_str().unwrap().to_owned(),
        gateway["limits_applied"].as_bool().unwrap(),
        measurements(&result, "weir").into_iter().map(reasons).collect(),
        said,
    )
}

#[test]
fn a_fractional_cpu_limit_that_is_not_applied_makes_the_cell_invalid() {
    let (by, applied, reasons, said) = limited_to("cpus: 0.5, memory: 256MiB");
    assert_eq!(reasons.len(), 2);
    assert!(reasons.iter().all(|reasons| reasons.contains("limit-not-applied") != applied), "{reasons:?}");
    assert_eq!(said.contains("cannot use control groups: "), !applied, "{said}");
    if rustix::process::geteuid().is_root() {
        assert_eq!((by.as_str(), applied), ("none", false), "nobody has no control group");
    }
}

#[test]
fn agents_without_control_groups_are_sampled_with_their_generators() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let path = scenario(folder.path(), "[weir]", "");
    let run = ["run", path.to_str().unwrap(), "--repeats", "1", "--db", "weir.db", "--out", "out", "--json"];
    let output = finish(weir_as_a_user(folder.path(), &[&run[..], &["--on", "local:2"]].concat()));
    assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{}", text(&output.stderr));
    let result = json(&output);
    for measurement in measurements(&result, "weir") {
        let usage = &measurement["usage"]["agent-1"]["cpu_s"];
        let used_s = usage["user"].as_f64().unwrap() + usage["system"].as_f64().unwrap();
        let worker_s = measurement["record"]["shards"][0]["generator"]["worker_cpu_s"][0].as_f64().unwrap();
        // CPU time without control groups counts in ticks of 10 ms.
        assert!(used_s >= worker_s - 0.03, "{used_s} s of CPU time, of which the worker used {worker_s} s");
    }
}

#[test]
fn a_whole_cpu_is_limited_even_without_control_groups() {
    let (by, applied, reasons, _) = limited_to("cpus: 1");
    assert!(applied, "limited by {by}");
    assert!(reasons.iter().all(|reasons| !reasons.contains("limit-not-applied")), "{reasons:?}");
    if rustix::process::geteuid().is_root() {
        assert_eq!(by, "affinity");
    }
}
