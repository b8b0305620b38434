//! Checks that no process, cgroup or file of a lab is left after the lab exits or is killed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use weir_rig::Rig;

use crate::{Bench, PROBE, eventually, options};

/// A lab in a separate process. Its rig runs a process tree.
struct Lab {
    child: Child,
    tree: i32,
    work_dir: PathBuf,
}

impl Lab {
    fn start(folder: &Path, how: &str, members: usize) -> Self {
        let folder = folder.to_str().unwrap();
        let mut child = Command::new(PROBE)
            .args(["lab", folder, folder, how])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (tree, work_dir) = line.trim().split_once(' ').unwrap();
        let lab = Self { tree: tree.parse().unwrap(), work_dir: work_dir.into(), child };
        eventually("the tree has children", || descendants(lab.tree).len() == members);
        eventually("one process of the tree is an orphan", || {
            how == "namespaces" || lab.processes().len() == members + 1
        });
        lab
    }

    /// All processes that the lab started, including orphans: each has the lab's mark in its environment.
    fn processes(&self) -> Vec<i32> {
        let mark = format!("WEIR_RUN_PART=killed-{}-0/", self.child.id());
        let bears = |pid: &i32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|entry| entry.starts_with(mark.as_bytes()))
        };
        let entries = fs::read_dir("/proc").unwrap().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(bears).collect()
    }

    fn ledger(&self, folder: &Path) -> PathBuf {
        folder.join(format!("killed-{}-0.ledger", self.child.id()))
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The process `root` and its descendants, if they still run.
fn descendants(root: i32) -> Vec<i32> {
    let mut found = if alive(root) { vec![root] } else { Vec::new() };
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        let tasks = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
        found.extend(
            tasks.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()).filter(|pid| alive(*pid)),
        );
        next += 1;
    }
    found
}

pub(crate) fn alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}

/// The cgroups of the lab with the process ID `lab`.
fn groups_of(lab: u32) -> Vec<PathBuf> {
    let suffix = format!("-{lab}-0");
    let roots = fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten().map(|entry| entry.path());
    roots
        .chain([PathBuf::from("/sys/fs/cgroup")])
        .flat_map(|root| fs::read_dir(root).into_iter().flatten().flatten())
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with("weir-") && name.ends_with(&suffix)
        })
        .collect()
}

fn none_is_left(folder: &Path, lab: &Lab, processes: &[i32]) {
    eventually("every process is gone", || !processes.iter().any(|pid| alive(*pid)));
    eventually("every control group is gone", || groups_of(lab.child.id()).is_empty());
    eventually("the work folder is gone", || !lab.work_dir.exists());
    eventually("the ledger is gone", || !lab.ledger(folder).exists());
}

#[test]
fn a_lab_killed_by_sigkill_leaves_no_process_group_or_folder() {
    let folder = TempDir::new().unwrap();
    let mut lab = Lab::start(folder.path(), "cgroups", 3);
    let processes = lab.processes();
    assert!(lab.work_dir.exists() && lab.ledger(folder.path()).exists());
    lab.kill();
    none_is_left(folder.path(), &lab, &processes);
}

#[test]
fn without_control_groups_all_processes_are_killed() {
    let folder = TempDir::new().unwrap();
    let mut lab = Lab::start(folder.path(), "none", 3);
    let processes = lab.processes();
    lab.kill();
    none_is_left(folder.path(), &lab, &processes);
}

/// The /proc links to the network namespace `network`: from processes in it, and from open files that keep it alive.
fn holders(network: &Path) -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let links = processes.flat_map(|process| {
        let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        files.map(|entry| entry.path()).chain([process.join("ns/net")]).collect::<Vec<_>>()
    });
    links.filter(|link| fs::read_link(link).is_ok_and(|target| target == network)).collect()
}

#[test]
fn processes_that_left_the_session_are_killed_by_their_network_namespace() {
    if weir_rig::try_namespaces().is_err() {
        // Only root can create namespaces. A unit test covers the error for other users.
        assert!(!rustix::process::geteuid().is_root());
        return;
    }
    let folder = TempDir::new().unwrap();
    let mut lab = Lab::start(folder.path(), "namespaces", 2);
    let processes = descendants(lab.tree);
    let network = |pid: i32| fs::read_link(format!("/proc/{pid}/ns/net")).unwrap();
    let session = |pid: i32| rustix::process::getsid(Pid::from_raw(pid)).unwrap();
    let [first, escaped] = processes[..] else { panic!("{processes:?}") };
    eventually("the child has its own session", || session(first) != session(escaped));
    let theirs = network(first);
    // The namespace at the other end of the link is gone, so the kernel has removed the link.
    let interfaces = || fs::read_to_string(format!("/proc/{first}/net/dev")).unwrap().lines().count();
    eventually("only two header lines, the loopback and the marking pair remain", || interfaces() == 5);
    assert_eq!(theirs, network(escaped));
    assert_ne!(theirs, network(std::process::id() as i32));
    lab.kill();
    none_is_left(folder.path(), &lab, &processes);
    eventually("no process uses the network namespace", || holders(&theirs).is_empty());
}

#[test]
fn the_next_run_cleans_up_if_the_guard_was_killed() {
    let folder = TempDir::new().unwrap();
    let mut lab = Lab::start(folder.path(), "cgroups", 3);
    let processes = lab.processes();
    let guard = descendants(lab.child.id() as i32)
        .into_iter()
        .find(|pid| command_of(*pid).contains("guard"))
        .unwrap();
    kill_process(Pid::from_raw(guard).unwrap(), Signal::KILL).unwrap();
    lab.kill();
    assert!(lab.ledger(folder.path()).exists());
    let next = Rig::open_with(&options("next", folder.path(), true)).unwrap();
    none_is_left(folder.path(), &lab, &processes);
    next.close().unwrap();
}

fn command_of(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

#[test]
fn a_lab_that_exits_normally_leaves_nothing() {
    let folder = TempDir::new().unwrap();
    let mut lab = Lab::start(folder.path(), "cgroups", 3);
    let processes = lab.processes();
    drop(lab.child.stdin.take());
    assert!(lab.child.wait().unwrap().success());
    none_is_left(folder.path(), &lab, &processes);
}

#[test]
fn a_ledger_with_reused_process_ids_kills_nothing() {
    let folder = TempDir::new().unwrap();
    let mut stranger = Command::new(PROBE).arg("wait").spawn().unwrap();
    let pid = stranger.id();
    // The ledger has another start time for this process ID, as if the ID had been reused.
    let text = format!(
        "{{\"process\":{{\"pid\":{pid},\"started_ticks\":1}}}}\n{{\"work-dir\":\"/\"}}\n{{\"interfaces\":\"\"}}\n{{\"cut"
    );
    fs::write(folder.path().join("old-1.ledger"), text).unwrap();
    let rig = Rig::open_with(&options("after", folder.path(), true)).unwrap();
    assert!(alive(pid as i32));
    assert!(!folder.path().join("old-1.ledger").exists());
    rig.close().unwrap();
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[test]
fn running_parts_are_killed_when_the_rig_closes() {
    let bench = Bench::new("unstopped");
    let running = bench.rig().launch(&bench.probe("tree", &["tree"])).unwrap();
    let tree = running.pid() as i32;
    eventually("the tree has children", || descendants(tree).len() == 3);
    let processes = descendants(tree);
    bench.close();
    eventually("every process is gone", || !processes.iter().any(|pid| alive(*pid)));
    drop(running);
}
