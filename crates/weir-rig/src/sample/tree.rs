//! Reads the resources of a part without a cgroup from /proc, process by process.

use std::collections::BTreeMap;

use procfs::process::Process;

use super::{PartSample, find, open_files};
use crate::cleanup::{self, ProcessId};

/// Which processes belong to a part.
#[derive(Debug)]
pub(crate) enum Members {
    /// The processes in the session of this leader.
    Session(ProcessId),
    /// The processes of the program with this name.
    Program(String),
    /// The process with this ID and its descendants.
    Below(i32),
    /// The processes in the containers with these IDs.
    Containers(Vec<String>),
}

/// Number of samples between two searches for the processes of a program or container. weir searches rarely, because a
/// search reads all processes of the host. A process that starts between two searches is found by the second one, with
/// all its CPU time. If it exits before the second search, it is missed.
const LOOK_EVERY: u32 = 10;

impl Members {
    fn living(&self) -> Vec<i32> {
        match self {
            Self::Session(leader) => cleanup::members(leader),
            Self::Program(name) => find::of_program(name),
            Self::Below(pid) => find::below(*pid),
            Self::Containers(ids) => find::of_containers(ids),
        }
    }
}

/// Reads the processes of a part, one by one.
#[derive(Debug)]
pub(crate) struct TreeReader {
    members: Members,
    /// The processes of the last search, and the number of samples until the next one.
    known: (Vec<i32>, u32),
    /// The last user and system time of every process that was ever found, by process ID and start time. The CPU time
    /// of an exited process still counts.
    seen_ticks: BTreeMap<(i32, u64), (u64, u64)>,
}

impl TreeReader {
    pub(crate) fn of(members: Members) -> Self {
        Self { members, known: (Vec::new(), 0), seen_ticks: BTreeMap::new() }
    }

    /// Returns the process IDs of the part. For a program or containers, weir repeats the search only every
    /// [`LOOK_EVERY`] samples.
    fn look(&mut self) -> &[i32] {
        let (known, samples_left) = &mut self.known;
        if *samples_left == 0 || matches!(self.members, Members::Session(_) | Members::Below(_)) {
            *known = self.members.living();
            *samples_left = LOOK_EVERY;
        }
        *samples_left -= 1;
        known
    }

    /// Takes a sample. Also returns the IDs of the running processes of the part.
    pub(crate) fn sample(&mut self) -> (PartSample, Vec<i32>) {
        let living: Vec<Process> = self.look().iter().filter_map(|pid| Process::new(*pid).ok()).collect();
        let (mut memory, mut threads, mut files) = (0, 0, 0);
        for process in &living {
            let Ok(stat) = process.stat() else { continue };
            self.seen_ticks.insert((stat.pid, stat.starttime), (stat.utime, stat.stime));
            threads += stat.num_threads.max(0) as u64;
            files += open_files(stat.pid).unwrap_or(0);
            memory += process
                .status()
                .ok()
                .map_or(0, |status| (status.rssanon.unwrap_or(0) + status.rssshmem.unwrap_or(0)) * 1024);
        }
        if self.seen_ticks.is_empty() {
            return (PartSample::default(), Vec::new());
        }
        let tick_ns = 1_000_000_000 / procfs::ticks_per_second();
        let sum = |part: fn(&(u64, u64)) -> u64| self.seen_ticks.values().map(part).sum::<u64>() * tick_ns;
        let (user_ns, system_ns) = (sum(|ticks| ticks.0), sum(|ticks| ticks.1));
        let used = PartSample {
            cpu_ns: Some(user_ns + system_ns),
            user_ns: Some(user_ns),
            system_ns: Some(system_ns),
            ..PartSample::default()
        };
        if living.is_empty() {
            // A part that has exited holds no memory or files, but its CPU time still counts.
            return (used, Vec::new());
        }
        let sample = PartSample {
            memory_bytes: Some(memory),
            threads: Some(threads),
            pids: Some(living.len() as u64),
            open_files: Some(files),
            ..used
        };
        let pids: Vec<i32> = living.iter().map(Process::pid).collect();
        (sample, pids)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn usage_of_a_part_is_known_after_its_exit() {
        let mut child = Command::new("setsid").args(["sleep", "60"]).spawn().unwrap();
        let leader = ProcessId::of(child.id() as i32).unwrap();
        let mut reader = TreeReader::of(Members::Session(leader));
        assert!(cleanup::wait_until(|| reader.sample().0.pids == Some(1)), "it begins a session");
        let before = reader.sample().0;
        assert!(before.memory_bytes.is_some() && before.open_files.is_some(), "{before:?}");
        assert!(cleanup::kill_sessions(&[leader]));
        child.wait().unwrap();
        let after = reader.sample().0;
        assert!(after.cpu_ns.unwrap() >= before.cpu_ns.unwrap(), "{before:?} {after:?}");
        assert_eq!(
            (after.memory_bytes, after.threads, after.pids, after.open_files),
            (None, None, None, None)
        );
        assert_eq!(
            TreeReader::of(Members::Session(leader)).sample().0,
            PartSample::default(),
            "usage of processes that were never sampled is unknown"
        );
    }
}
