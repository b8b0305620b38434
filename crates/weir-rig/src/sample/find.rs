//! Finds processes that weir did not start.

use std::fs;
use std::path::Path;

use procfs::process::{Process, Stat, all_processes};

/// The `/proc/PID/stat` of all running processes.
fn stats() -> Vec<Stat> {
    let processes = all_processes().into_iter().flatten().flatten();
    let stats = processes.filter_map(|process| process.stat().ok());
    stats.filter(|stat| !matches!(stat.state, 'Z' | 'X')).collect()
}

/// The processes whose process name or program file name is `name`. weir compares both, because the kernel truncates
/// the process name, and only the same user can read the link to the program. If weir's own process matches, weir
/// excludes it and its descendants.
pub(super) fn of_program(name: &str) -> Vec<i32> {
    let is_it = |stat: &Stat| {
        let program = fs::read_link(format!("/proc/{}/exe", stat.pid)).ok();
        let program = program.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
        stat.comm == name || program.is_some_and(|program| program.trim_end_matches(" (deleted)") == name)
    };
    let found: Vec<i32> = stats().iter().filter(|stat| is_it(stat)).map(|stat| stat.pid).collect();
    let own = std::process::id() as i32;
    // An agent and weir's upstream server run the same program. The upstream's processes must not include the agent.
    let own = if found.contains(&own) { below(own) } else { Vec::new() };
    found.into_iter().filter(|pid| !own.contains(pid)).collect()
}

/// The processes of the containers with these IDs: the cgroup path of such a process contains the ID. The processes
/// must be visible in /proc; no other permission is required.
pub(super) fn of_containers(ids: &[String]) -> Vec<i32> {
    let is_of = |stat: &Stat| {
        let groups = fs::read_to_string(format!("/proc/{}/cgroup", stat.pid)).unwrap_or_default();
        ids.iter().any(|id| !id.is_empty() && groups.contains(id.as_str()))
    };
    stats().iter().filter(|stat| is_of(stat)).map(|stat| stat.pid).collect()
}

/// The process `pid` and its descendants. Uses the kernel's list of the children of each thread. If this kernel has no
/// such lists, weir reads all processes of the host instead.
pub(super) fn below(pid: i32) -> Vec<i32> {
    let has_lists = Path::new("/proc/thread-self/children").exists();
    let all = if has_lists { Vec::new() } else { stats() };
    let children = |parent: i32| -> Vec<i32> {
        match has_lists {
            true => listed_children(parent),
            false => all.iter().filter(|stat| stat.ppid == parent).map(|stat| stat.pid).collect(),
        }
    };
    let is_running = |pid: &i32| {
        let stat = Process::new(*pid).and_then(|process| process.stat());
        stat.is_ok_and(|stat| !matches!(stat.state, 'Z' | 'X'))
    };
    let mut found: Vec<i32> = [pid].into_iter().filter(is_running).collect();
    let mut place = 0;
    while let Some(parent) = found.get(place).copied() {
        found.extend(children(parent).into_iter().filter(is_running));
        place += 1;
    }
    found
}

fn listed_children(parent: i32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>())
        .collect()
}
