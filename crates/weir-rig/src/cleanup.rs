//! Ending exactly the processes that a run started, and removing what it made.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use procfs::process::{Process, all_processes};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// How long processes may take to vanish after SIGKILL, and their groups after them.
const VANISH_TIMEOUT: Duration = Duration::from_secs(5);
const VANISH_POLL: Duration = Duration::from_millis(5);

/// A process that cannot be confused with a later one of the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessId {
    pub(crate) pid: i32,
    /// Start, in clock ticks since the boot.
    pub(crate) started_ticks: u64,
}

impl ProcessId {
    /// The identity of the process that has this number now.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        let stat = Process::new(pid).ok()?.stat().ok()?;
        Some(Self { pid, started_ticks: stat.starttime })
    }

    /// Whether it still runs; a zombie does not.
    pub(crate) fn is_alive(&self) -> bool {
        let stat = Process::new(self.pid).and_then(|process| process.stat());
        stat.is_ok_and(|stat| stat.starttime == self.started_ticks && !matches!(stat.state, 'Z' | 'X'))
    }

    /// Whether its number belongs to another process by now.
    fn is_reused(&self) -> bool {
        Self::of(self.pid).is_some_and(|now| now.started_ticks != self.started_ticks)
    }
}

/// The living processes of the session that `leader` began, whatever process groups they made in it.
///
/// While a session has members its number is given to nobody else, so a session whose leader's number has
/// another owner is not ours.
pub(crate) fn members(leader: &ProcessId) -> Vec<i32> {
    if leader.is_reused() {
        return Vec::new();
    }
    let Ok(processes) = all_processes() else { return Vec::new() };
    processes
        .flatten()
        .filter_map(|process| process.stat().ok())
        .filter(|stat| stat.session == leader.pid && stat.starttime >= leader.started_ticks)
        .filter(|stat| !matches!(stat.state, 'Z' | 'X'))
        .map(|stat| stat.pid)
        .collect()
}

/// Ends the session that `leader` began.
pub(crate) fn kill_session(leader: &ProcessId) {
    kill_until_none(|| members(leader));
}

/// Ends every process in the control group with these folders (one per controller), then removes them.
pub(crate) fn kill_and_remove(directories: &[PathBuf]) {
    let living = |pid: &i32| ProcessId::of(*pid).is_some_and(|process| process.is_alive());
    // A control group lists zombies too, which go when their parent takes note of them, and not by a signal.
    kill_until_none(|| directories.iter().flat_map(|directory| pids_in(directory)).filter(living).collect());
    remove_groups(directories);
}

/// The processes in a control group's folder.
pub(crate) fn pids_in(directory: &Path) -> Vec<i32> {
    let text = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

/// Removes empty control groups. The kernel keeps one busy for a moment after its last process is gone.
pub(crate) fn remove_groups(directories: &[PathBuf]) {
    wait_until(|| {
        directories
            .iter()
            .filter(|directory| fs::remove_dir(directory).is_err() && directory.exists())
            .count()
            == 0
    });
}

/// Kills what `living` finds until it finds nothing: a process may fork while it is looked at.
fn kill_until_none(living: impl Fn() -> Vec<i32>) {
    wait_until(|| {
        let found = living();
        for pid in found.iter().filter_map(|pid| Pid::from_raw(*pid)) {
            let _ = kill_process(pid, Signal::KILL);
        }
        found.is_empty()
    });
}

/// Asks `done` until it says yes, but no longer than a process may take to vanish.
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
    fn a_reused_number_is_nobody_of_ours() {
        let mut child = Command::new("setsid").args(["sleep", "60"]).spawn().unwrap();
        let own = ProcessId::of(child.id() as i32).unwrap();
        assert!(wait_until(|| members(&own) == [own.pid]), "it begins a session");
        let earlier = ProcessId { started_ticks: own.started_ticks - 1, ..own };
        assert!(!earlier.is_alive());
        assert!(members(&earlier).is_empty());
        kill_session(&earlier);
        assert!(own.is_alive());
        assert_eq!(members(&own), [own.pid]);
        kill_session(&own);
        assert!(!own.is_alive());
        child.wait().unwrap();
    }
}
