//! Limits for a user who is not root: whole CPUs by affinity, what a delegated group allows, and nothing pretended.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use weir_rig::usable_cpus;

use crate::PROBE;

/// The user and group that owns nothing.
const NOBODY: u32 = 65534;

/// What the probe tells of parts under `asked` limits, as a user who is not root.
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

/// The probe as nobody, from where nobody can read it: the folder in which it was built may be closed to others.
fn as_nobody(folder: &Path) -> Command {
    let probe = folder.join("probe");
    // By another process: a file that this one has open for writing is inherited by whatever another test starts
    // meanwhile, and is no program until that has begun.
    assert!(Command::new("cp").arg(PROBE).arg(&probe).status().unwrap().success());
    fs::set_permissions(&probe, Permissions::from_mode(0o755)).unwrap();
    chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
    let mut command = Command::new(probe);
    command.uid(NOBODY).gid(NOBODY).current_dir(folder);
    command
}

fn by(told: &Value) -> (&str, bool) {
    let part = &told["part"];
    (part["limited_by"].as_str().unwrap(), part["limits_applied"].as_bool().unwrap())
}

#[test]
fn without_root_whole_cpus_are_limited_by_affinity_and_the_rest_says_that_it_is_not() {
    let told = limited(&["1:-", "0.5:-", "-:67108864", "1:67108864", "-:-", "4096:-"]);
    let parts = told["parts"].as_array().unwrap();
    let found: Vec<(&str, bool)> = parts.iter().map(by).collect();
    match told["cgroups"].as_str() {
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
            assert_eq!(found, expected, "{told}");
        }
        // A user to whom a group was delegated.
        None => {
            let limited = ("cgroup-v2", true);
            assert_eq!(found, [limited, limited, limited, limited, ("none", true), limited], "{told}");
        }
    }
}

#[test]
fn parts_with_whole_cpus_have_them_to_themselves() {
    let usable = usable_cpus().len();
    let asked = vec!["1:-"; usable];
    let told = limited(&asked);
    let parts = told["parts"].as_array().unwrap();
    assert_eq!(parts.len(), usable);
    if told["cgroups"].is_string() {
        let mut cpus: Vec<&str> = parts.iter().map(|part| part["cpus"].as_str().unwrap()).collect();
        cpus.sort_unstable();
        cpus.dedup();
        assert_eq!(cpus.len(), usable, "{told}");
    }
}
