//! Finds processes that weir has not started.

use std::fs;
use std::path::Path;

use procfs::process::{Stat, all_processes};

/// All running processes.
fn stats() -> Vec<Stat> {
    let processes = all_processes().into_iter().flatten().flatten();
    let stats = processes.filter_map(|process| process.stat().ok());
    stats.filter(|stat| !matches!(stat.state, 'Z' | 'X')).collect()
}

/// The processes whose program has this name. The kernel cuts the name that a process has; its link to the program has all
/// of it, and can be read by the same user only.
pub(super) fn of_program(name: &str) -> Vec<i32> {
    let is_it = |stat: &Stat| {
        let program = fs::read_link(format!("/proc/{}/exe", stat.pid)).ok();
        let program = program.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
        stat.comm == name || program.is_some_and(|program| program.trim_end_matches(" (deleted)") == name)
    };
    stats().iter().filter(|stat| is_it(stat)).map(|stat| stat.pid).collect()
}

/// The process `pid`, and all below it.
pub(super) fn below(pid: i32) -> Vec<i32> {
    let stats = stats();
    let mut found: Vec<i32> = stats.iter().filter(|stat| stat.pid == pid).map(|stat| stat.pid).collect();
    let mut place = 0;
    while let Some(parent) = found.get(place).copied() {
        found.extend(stats.iter().filter(|stat| stat.ppid == parent).map(|stat| stat.pid));
        place += 1;
    }
    found
}
