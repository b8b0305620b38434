//! A run that is killed or interrupted: nothing finished is lost, nothing started stays.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::program::{finish, json, processes_with, scenario, text, the_host, until, wait, weir};

/// Starts a run, and waits until at least two of its cells are in the store.
fn started(folder: &Path) -> (Child, String, usize) {
    let path = scenario(folder, "[weir]", "");
    let arguments = ["run", path.to_str().unwrap(), "--db", "weir.db", "--out", "out", "--repeats", "4"];
    let child = weir(folder, &arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let mut found = (String::new(), 0);
    until("two finished cells", || {
        let output = finish(weir(folder, &["runs", "--db", "weir.db", "--json"]));
        let Ok(runs) = serde_json::from_slice::<Value>(&output.stdout) else { return false };
        let list = runs.as_array().or_else(|| runs["runs"].as_array()).cloned().unwrap_or_default();
        let Some(run) = list.first() else { return false };
        let done = run["cells_done"].as_u64().unwrap_or(0) as usize;
        found = (run["id"].as_str().unwrap().to_owned(), done);
        done >= 2
    });
    (child, found.0, found.1)
}

/// Everything of this machine that bears the run's id: processes, cgroups, folders for temporary files.
fn left_over(id: &str) -> Vec<String> {
    let mut left: Vec<String> = processes_with(id).iter().map(|pid| format!("process {pid}")).collect();
    for root in ["/sys/fs/cgroup", "/tmp", "/dev/shm", "/run"] {
        walk(Path::new(root), 4, &mut |path| {
            if path.file_name().is_some_and(|name| name.to_string_lossy().contains(id)) {
                left.push(path.display().to_string());
            }
        });
    }
    left
}

fn walk(folder: &Path, depth: u32, visit: &mut dyn FnMut(&PathBuf)) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        visit(&path);
        if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&path, depth - 1, visit);
        }
    }
}

/// The cells of the store as (gateway, repeat), and the start of each.
fn cells(folder: &Path, id: &str) -> Vec<(String, u64, u64)> {
    let output = finish(weir(folder, &["report", id, "--db", "weir.db", "--out", "again", "--json"]));
    let result = json(&output);
    let list = result["cells"].as_array().unwrap_or_else(|| panic!("no cells in {}", text(&output.stdout)));
    let one = |cell: &Value| {
        (
            cell["key"]["gateway"].as_str().unwrap().to_owned(),
            cell["key"]["repeat"].as_u64().unwrap(),
            cell["started_unix_ms"].as_u64().unwrap(),
        )
    };
    list.iter().map(one).collect()
}

#[test]
fn a_killed_run_is_resumed_without_repeating_a_cell_and_leaves_nothing() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let (mut child, id, _) = started(folder.path());
    child.kill().unwrap();
    child.wait().unwrap();
    until("the guard's clean-up", || left_over(&id).is_empty());
    let before = cells(folder.path(), &id);

    let output =
        finish(weir(folder.path(), &["run", "--resume", &id, "--db", "weir.db", "--out", "out", "--json"]));
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", text(&output.stderr));
    let after = cells(folder.path(), &id);
    assert_eq!(after.len(), 8, "{after:?}");
    let distinct: BTreeSet<_> = after.iter().map(|(gateway, repeat, _)| (gateway, repeat)).collect();
    assert_eq!(distinct.len(), 8, "{after:?}");
    for cell in &before {
        assert!(after.contains(cell), "{cell:?} was measured again");
    }
    assert_eq!(left_over(&id), Vec::<String>::new());
}

#[test]
fn ctrl_c_keeps_what_is_finished_and_leaves_nothing() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let (child, id, done) = started(folder.path());
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = wait(child);
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("--resume"), "says how to go on: {}", text(&output.stderr));
    until("the clean-up", || left_over(&id).is_empty());
    assert!(cells(folder.path(), &id).len() >= done);
}
