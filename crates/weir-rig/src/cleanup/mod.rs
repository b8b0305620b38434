//! Kills exactly the processes of a run, and removes its cgroups, network namespaces and files.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use procfs::process::{Process, all_processes};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

mod guard;
pub(crate) mod ledger;

pub use guard::run_guard;

/// How long to wait until killed processes have disappeared, and then until their cgroups are removed.
const VANISH_TIMEOUT: Duration = Duration::from_secs(5);
const VANISH_POLL: Duration = Duration::from_millis(5);

/// The environment variable that identifies the processes of a run. Descendants inherit it, even in other sessions and
/// cgroups. Its value is the *mark*.
pub(crate) const MARK_VARIABLE: &str = "WEIR_RUN_PART";

/// A process, distinguished from later ones with the same ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessId {
    pub(crate) pid: i32,
    /// Start time, in clock ticks since boot.
    pub(crate) started_ticks: u64,
}

impl ProcessId {
    /// The process that has this ID now.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        let stat = Process::new(pid).ok()?.stat().ok()?;
        Some(Self { pid, started_ticks: stat.starttime })
    }

    /// Whether the process still runs; a zombie does not.
    pub(crate) fn is_alive(&self) -> bool {
        let stat = Process::new(self.pid).and_then(|process| process.stat());
        stat.is_ok_and(|stat| stat.starttime == self.started_ticks && !matches!(stat.state, 'Z' | 'X'))
    }

    /// Whether another process now has this process ID.
    fn is_reused(&self) -> bool {
        Self::of(self.pid).is_some_and(|now| now.started_ticks != self.started_ticks)
    }
}

/// The running processes of the sessions of `leaders`, in all process groups.
///
/// The kernel does not reuse the ID of a session while the session has members. So if another process now has the ID of
/// a leader, a session with this ID is not ours.
pub(crate) fn members_of(leaders: &[ProcessId]) -> Vec<i32> {
    let ours = leaders.iter().filter(|leader| !leader.is_reused());
    let started: HashMap<i32, u64> = ours.map(|leader| (leader.pid, leader.started_ticks)).collect();
    let Ok(processes) = all_processes() else { return Vec::new() };
    processes
        .flatten()
        .filter_map(|process| process.stat().ok())
        .filter(|stat| started.get(&stat.session).is_some_and(|started| stat.starttime >= *started))
        .filter(|stat| !matches!(stat.state, 'Z' | 'X'))
        .map(|stat| stat.pid)
        .collect()
}

/// The running processes of one session.
pub(crate) fn members(leader: &ProcessId) -> Vec<i32> {
    members_of(&[*leader])
}

/// Kills the sessions of `leaders`; returns whether no process is left.
pub(crate) fn kill_sessions(leaders: &[ProcessId]) -> bool {
    kill_until_none(|| members_of(leaders))
}

/// Kills every process whose mark is `mark` or starts with `mark/`; returns whether no process is left.
pub(crate) fn kill_marked(mark: &str) -> bool {
    kill_until_none(|| match marked(mark) {
        // A process has no environment for a moment during exec, so search twice.
        none if none.is_empty() => {
            thread::sleep(VANISH_POLL);
            marked(mark)
        }
        found => found,
    })
}

/// The running processes whose mark is `mark` or starts with `mark/`. Without cgroups, only the mark identifies a
/// process that forked into its own session.
pub(crate) fn marked(mark: &str) -> Vec<i32> {
    let name = format!("{MARK_VARIABLE}=");
    let bears = |environment: &[u8]| {
        let values =
            environment.split(|byte| *byte == 0).filter_map(|entry| entry.strip_prefix(name.as_bytes()));
        values
            .filter_map(|value| value.strip_prefix(mark.as_bytes()))
            .any(|rest| rest.is_empty() || rest.starts_with(b"/"))
    };
    let Ok(processes) = all_processes() else { return Vec::new() };
    processes
        .flatten()
        .map(|process| process.pid())
        .filter(|pid| fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| bears(&environment)))
        .collect()
}

/// The running processes in the cgroup with these folders (one per hierarchy), and in the cgroups below it.
pub(crate) fn living_in(directories: &[PathBuf]) -> Vec<i32> {
    // A cgroup also lists zombies. Skip them, because signals do not remove them; only their parent can.
    let living = |pid: &i32| ProcessId::of(*pid).is_some_and(|process| process.is_alive());
    let mut pids: Vec<i32> =
        directories.iter().flat_map(|directory| pids_below(directory)).filter(living).collect();
    // Each hierarchy lists the same processes.
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// Kills every process in the cgroup whose folders are `directories`; returns whether no process is left.
pub(crate) fn kill_group(directories: &[PathBuf]) -> bool {
    kill_until_none(|| living_in(directories))
}

/// Kills every process in the cgroup with these folders, and removes the cgroup; returns whether nothing is left.
pub(crate) fn kill_and_remove(directories: &[PathBuf]) -> bool {
    kill_group(directories) && remove_groups(directories)
}

/// Kills every process in the network namespaces that have an interface whose name starts with `prefix`; returns
/// whether no process is left. The kernel removes a namespace when its last process and open file are gone.
pub(crate) fn kill_in_namespaces(prefix: &str) -> bool {
    kill_until_none(|| processes_in_namespaces(prefix))
}

fn processes_in_namespaces(prefix: &str) -> Vec<i32> {
    let network = |pid: &dyn Display| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let has_interface = |pid: i32| {
        let text = fs::read_to_string(format!("/proc/{pid}/net/dev")).ok()?;
        Some(text.lines().any(|line| line.trim_start().starts_with(prefix)))
    };
    let Ok(processes) = all_processes() else { return Vec::new() };
    // This process is in the namespace of the host or of a container, never in a namespace of a run. So skip its
    // namespace.
    let mut known: BTreeMap<PathBuf, bool> = network(&"self").into_iter().map(|own| (own, false)).collect();
    let mut found = Vec::new();
    for pid in processes.flatten().map(|process| process.pid()) {
        // The namespaces of zombies and of other users' processes cannot be read.
        let Some(network) = network(&pid) else { continue };
        let is_ours = match known.get(&network) {
            Some(known) => *known,
            None => {
                let Some(is_ours) = has_interface(pid) else { continue };
                known.insert(network, is_ours);
                is_ours
            }
        };
        found.extend(is_ours.then_some(pid));
    }
    found
}

/// The processes in the cgroup `directory` and in the cgroups below it.
fn pids_below(directory: &Path) -> Vec<i32> {
    let mut pids = pids_in(directory);
    let children = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    for child in children.filter(|path| path.is_dir()) {
        pids.extend(pids_below(&child));
    }
    pids
}

/// The processes in the cgroup `directory`.
pub(crate) fn pids_in(directory: &Path) -> Vec<i32> {
    let text = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

/// Removes cgroups without processes, and the cgroups below them; returns whether all are gone. It retries, because a
/// cgroup stays busy for a moment after its last process exits.
pub(crate) fn remove_groups(directories: &[PathBuf]) -> bool {
    wait_until(|| directories.iter().filter(|directory| !remove_group(directory)).count() == 0)
}

/// Removes the cgroup `directory`, after all cgroups below it. Container engines leave their own cgroups below the
/// cgroups of a run.
fn remove_group(directory: &Path) -> bool {
    let children = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    children.filter(|path| path.is_dir()).for_each(|child| {
        remove_group(&child);
    });
    fs::remove_dir(directory).is_ok() || !directory.exists()
}

/// Removes a folder with its content; returns whether it is gone.
pub(crate) fn remove_folder(directory: &Path) -> bool {
    wait_until(|| match fs::remove_dir_all(directory) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound && !directory.exists(),
    })
}

/// Repeatedly kills the processes that `living` finds, because a process can fork meanwhile. Stops when none is left,
/// or after [`VANISH_TIMEOUT`]. Returns whether none is left.
fn kill_until_none(living: impl Fn() -> Vec<i32>) -> bool {
    wait_until(|| {
        let found = living();
        for pid in found.iter().filter_map(|pid| Pid::from_raw(*pid)) {
            let _ = kill_process(pid, Signal::KILL);
        }
        found.is_empty()
    })
}

/// Polls `done` until it returns true, or until [`VANISH_TIMEOUT`] has passed.
pub(crate) fn wait_until(mut done: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + VANISH_TIMEOUT;
    loop {
        if done() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(VANISH_POLL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_reused_process_id_is_not_killed() {
        let mut child = Command::new("setsid").args(["sleep", "60"]).spawn().unwrap();
        let own = ProcessId::of(child.id() as i32).unwrap();
        assert!(wait_until(|| members(&own) == [own.pid]), "it begins a session");
        let earlier = ProcessId { started_ticks: own.started_ticks - 1, ..own };
        assert!(!earlier.is_alive());
        assert!(members(&earlier).is_empty());
        kill_sessions(&[earlier]);
        assert!(own.is_alive());
        assert_eq!(members(&own), [own.pid]);
        kill_sessions(&[own]);
        assert!(!own.is_alive());
        child.wait().unwrap();
    }

    #[test]
    fn a_mark_identifies_descendants_in_other_sessions_only() {
        let run = format!("marks-{}", std::process::id());
        let start = |mark: String, command: &[&str]| {
            Command::new(command[0]).args(&command[1..]).env(MARK_VARIABLE, mark).spawn().unwrap()
        };
        let mut other = start(format!("{run}0/1"), &["sleep", "60"]);
        // `sleep` runs in a new session, and its parents exit. So neither parent nor session identifies it as a process
        // of the run.
        let away = "setsid sh -c 'sleep 60 & exit' & exit";
        start(format!("{run}/1"), &["sh", "-c", away]).wait().unwrap();
        // Wait until the shells have exited and only `sleep` is left. Before that, each search can find different
        // processes.
        let settled = |pids: &[i32]| matches!(pids, [one] if fs::read_to_string(format!("/proc/{one}/comm")).is_ok_and(|name| name == "sleep\n"));
        assert!(wait_until(|| settled(&marked(&run))));
        assert_eq!(marked(&format!("{run}/1")), marked(&run));
        assert!(marked(&format!("{run}/")).is_empty() && marked(&format!("{run}/2")).is_empty());
        assert!(kill_marked(&run) && marked(&run).is_empty());
        assert_eq!(marked(&format!("{run}0")), [other.id() as i32]);
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
