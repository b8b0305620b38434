//! Limits without root: whole CPUs by affinity, or all limits in a delegated group; limits that do not apply are
//! reported.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use weir_rig::usable_cpus;

use crate::PROBE;

/// The user and group `nobody`.
const NOBODY: u32 = 65534;

/// The output of the probe about parts with `asked` limits, without root.
fn limited(asked: &[&str]) -> Value {
    let folder = TempDir::new().unwrap();
    let mut probe = match rustix::process::geteuid().is_root() {
        true => as_nobody(folder.path()),
        false => Command::new(PROBE),
    };
    probe.arg("limited").args([folder.path(), folder.path()]).args(asked);
    let output = probe.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The probe as user `nobody`, in a folder that this user can read.
fn as_nobody(folder: &Path) -> Command {
    let probe = folder.join("probe");
    // Copied by another process: children of concurrent tests could inherit a file that this process has open for
    // writing, and the kernel does not execute such a file.
    assert!(Command::new("cp").arg(PROBE).arg(&probe).status().unwrap().success());
    fs::set_permissions(&probe, Permissions::from_mode(0o755)).unwrap();
    chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
    let mut command = Command::new(probe);
    command.uid(NOBODY).gid(NOBODY).current_dir(folder);
    command
}

fn by(report: &Value) -> (&str, bool) {
    let part = &report["part"];
    (part["limited_by"].as_str().unwrap(), part["limits_applied"].as_bool().unwrap())
}

#[test]
fn without_root_only_whole_cpus_are_limited_and_other_limits_are_reported_as_missing() {
    let report = limited(&["1:-", "0.5:-", "-:67108864", "1:67108864", "-:-", "4096:-"]);
    let parts = report["parts"].as_array().unwrap();
    let found: Vec<(&str, bool)> = parts.iter().map(by).collect();
    match report["cgroups"].as_str() {
        Some(why) => {
            assert!(!why.is_empty());
            let expected = [
                ("affinity", true),
                ("none", false),
                ("none", false),
                ("affinity", false),
                ("none", true),
                ("none", false),
            ];
            assert_eq!(found, expected, "{report}");
        }
        // A user with a delegated group.
        None => {
            let limited = ("cgroup-v2", true);
            assert_eq!(found, [limited, limited, limited, limited, ("none", true), limited], "{report}");
        }
    }
}

#[test]
fn parts_with_whole_cpus_do_not_share_them() {
    let usable = usable_cpus().len();
    let asked = vec!["1:-"; usable];
    let report = limited(&asked);
    let parts = report["parts"].as_array().unwrap();
    assert_eq!(parts.len(), usable);
    if report["cgroups"].is_string() {
        let mut cpus: Vec<&str> = parts.iter().map(|part| part["cpus"].as_str().unwrap()).collect();
        cpus.sort_unstable();
        cpus.dedup();
        assert_eq!(cpus.len(), usable, "{report}");
    }
}
