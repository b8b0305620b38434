//! Checks limits without root: CPU affinity enforces whole CPUs, and a delegated cgroup enforces all limits. The report
//! lists limits that cannot be enforced.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use weir_rig::usable_cpus;

use crate::PROBE;

/// The user ID and group ID of `nobody`.
const NOBODY: u32 = 65534;

/// Runs the probe without root. The probe launches one part for each element of `asked`, with these limits. Returns its
/// report.
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

/// A command that runs the probe as user `nobody`, from `folder`, which this user can read.
fn as_nobody(folder: &Path) -> Command {
    let probe = folder.join("probe");
    // Let `cp` write the copy. If this process wrote it, children of concurrent tests could inherit the open file,
    // and the kernel does not execute a file that is open for writing.
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
        // weir can use cgroups, because this user has a delegated cgroup.
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
