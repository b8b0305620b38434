//! CPU time of processes outside the rig, to name the source of host noise.
//!
//! A snapshot reads `/proc/PID/stat` of every process: 13 µs each, 4 ms for 300. So weir takes no snapshot while it
//! measures. It takes three around that time: before the load, shortly before the end of the warm-up, and after the
//! load.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use weir_results::HostProcess;

use crate::clock::mono_ns;

/// Replaces control characters in process names, because a terminal would interpret them.
const UNPRINTABLE: char = '\u{fffd}';

/// A process in a snapshot. CPU times count from the start of the process, in kernel clock ticks.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    name: String,
    parent: i32,
    /// CPU time of the process and its threads.
    own: u64,
    /// CPU time of children that have exited. It includes the exited children of these children.
    ended: u64,
}

/// Maximum number of ancestors that weir follows. It reads processes one after another, so parents can seem to form a
/// cycle.
const ANCESTORS_MAX: usize = 64;

/// A process ID with the start time, because IDs are reused.
type Identity = (i32, u64);

/// All processes of the host at one time.
#[derive(Clone, Debug)]
struct Snapshot {
    at_ns: u64,
    processes: BTreeMap<Identity, Process>,
}

/// Snapshots of all processes around a load, and which of the processes belong to the rig.
#[derive(Clone, Debug, Default)]
pub(super) struct Neighbours {
    snapshots: Vec<Snapshot>,
    rig: BTreeSet<i32>,
}

impl Neighbours {
    /// Takes a snapshot of the CPU time of every process.
    pub(super) fn snapshot(&mut self) {
        let before = mono_ns();
        let processes = all_processes();
        self.snapshots.push(Snapshot { at_ns: before + (mono_ns() - before) / 2, processes });
    }

    /// Excludes the processes `pids` and their descendants, which belong to the rig. This process and its descendants
    /// are always excluded.
    pub(super) fn belong_to_the_rig(&mut self, pids: &[i32]) {
        self.rig.extend(pids);
    }

    /// The processes outside the rig that used CPU time from `from_ns` to `to_ns`, the busiest first. Compares the last
    /// snapshot before `from_ns` with the first one after `to_ns`, so it includes some CPU time before and after. Empty
    /// if one of the two snapshots is missing.
    pub(super) fn busiest(&self, from_ns: u64, to_ns: u64) -> Vec<HostProcess> {
        let Some((first, last)) = self.around(from_ns, to_ns) else { return Vec::new() };
        let tick_s = 1.0 / procfs::ticks_per_second() as f64;
        let wall_s = (last.at_ns - first.at_ns) as f64 / 1e9;
        let foreign = used(&first.processes, &last.processes).into_iter().filter(|(identity, ticks)| {
            *ticks > 0 && !self.is_of_the_rig(identity.0, [&first.processes, &last.processes])
        });
        let mut busiest: Vec<HostProcess> = foreign
            .map(|(identity, ticks)| HostProcess {
                name: last.processes[&identity].name.clone(),
                pid: identity.0.unsigned_abs(),
                cores: ticks as f64 * tick_s / wall_s,
            })
            .collect();
        busiest.sort_by(|one, other| other.cores.total_cmp(&one.cores).then(one.pid.cmp(&other.pid)));
        busiest
    }

    /// The last snapshot before `from_ns` and the first one after `to_ns`.
    fn around(&self, from_ns: u64, to_ns: u64) -> Option<(&Snapshot, &Snapshot)> {
        let first = self.snapshots.iter().rfind(|snapshot| snapshot.at_ns <= from_ns)?;
        let last = self.snapshots.iter().find(|snapshot| snapshot.at_ns >= to_ns)?;
        (first.at_ns < last.at_ns).then_some((first, last))
    }

    /// Whether `pid` or one of its ancestors is this process or a process of a part.
    fn is_of_the_rig(&self, pid: i32, snapshots: [&BTreeMap<Identity, Process>; 2]) -> bool {
        let lab = std::process::id() as i32;
        let parent_of = |pid: i32| {
            let known = |snapshot: &BTreeMap<Identity, Process>| {
                snapshot.range((pid, 0)..=(pid, u64::MAX)).next_back().map(|(_, process)| process.parent)
            };
            snapshots.into_iter().rev().find_map(known)
        };
        let ancestors = std::iter::successors(Some(pid), |pid| parent_of(*pid).filter(|parent| *parent > 0));
        ancestors.take(ANCESTORS_MAX).any(|ancestor| ancestor == lab || self.rig.contains(&ancestor))
    }
}

/// The ticks that each process of `last` used since `first`. A program with many short-lived children, like a compiler
/// driver, is charged with their CPU time once they exit.
fn used(first: &BTreeMap<Identity, Process>, last: &BTreeMap<Identity, Process>) -> BTreeMap<Identity, u64> {
    // When a child exits, the kernel adds its whole CPU time to `ended` of its parent. That includes the CPU time
    // before the first snapshot, so subtract it from the parent. If the parent has exited too, subtract it from the
    // nearest ancestor that still runs.
    let gone: BTreeMap<i32, &Process> = first
        .iter()
        .filter(|(identity, _)| !last.contains_key(identity))
        .map(|((pid, _), process)| (*pid, process))
        .collect();
    let mut inherited: BTreeMap<i32, u64> = BTreeMap::new();
    for process in gone.values() {
        let ancestors = std::iter::successors(Some(process.parent), |pid| Some(gone.get(pid)?.parent));
        let heir = ancestors.take(ANCESTORS_MAX).last().unwrap_or(process.parent);
        *inherited.entry(heir).or_default() += process.own + process.ended;
    }
    let ticks = |(identity, now): (&Identity, &Process)| {
        let (own, ended) = first.get(identity).map_or((0, 0), |then| (then.own, then.ended));
        let inherited = inherited.get(&identity.0).copied().unwrap_or(0);
        let of_children = now.ended.saturating_sub(ended).saturating_sub(inherited);
        (*identity, now.own.saturating_sub(own) + of_children)
    };
    last.iter().map(ticks).collect()
}

/// All processes that this process can see; in a container, only the processes of the container.
fn all_processes() -> BTreeMap<Identity, Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| {
        // A name can contain any bytes. Processes that just exited are skipped.
        let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let (start, process) = parse(&String::from_utf8_lossy(&text))?;
        Some(((pid, start), process))
    })
    .collect()
}

/// Parses /proc/PID/stat into start time and process: `PID (NAME) STATE PARENT ..`. The name can contain brackets and
/// spaces.
fn parse(text: &str) -> Option<(u64, Process)> {
    let (head, rest) = text.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |place: usize| fields.get(place)?.parse::<u64>().ok();
    let process = Process {
        name: name.chars().map(|letter| if letter.is_control() { UNPRINTABLE } else { letter }).collect(),
        parent: fields.get(1)?.parse().ok()?,
        own: number(11)? + number(12)?,
        ended: number(13)? + number(14)?,
    };
    Some((number(19)?, process))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(parent: i32, own: u64, ended: u64) -> Process {
        Process { name: "x".into(), parent, own, ended }
    }

    #[test]
    fn process_names_can_contain_brackets_but_no_escapes() {
        let line = "42 (a) b(\u{1b}[2J) S 7 42 42 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 99 5 6";
        let expected = Process { name: "a) b(\u{fffd}[2J".into(), parent: 7, own: 30, ended: 70 };
        assert_eq!(parse(line), Some((99, expected)));
        assert_eq!(parse("42 (a) S 7"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn ended_children_count_without_their_time_before_the_snapshot() {
        let first = BTreeMap::from([
            ((10, 1), process(1, 100, 50)),
            // This process exits between the snapshots. At the first snapshot, it has used 30 + 5 ticks.
            ((11, 2), process(10, 30, 5)),
            ((12, 3), process(1, 7, 0)),
        ]);
        let last = BTreeMap::from([
            // Process 10 used 4 ticks itself, and also inherits the time of two exited children. Process 11 used 40
            // ticks, 35 of them before the first snapshot, so 5 count. The other child is in no snapshot, so all its 6
            // ticks count.
            ((10, 1), process(1, 104, 50 + 40 + 6)),
            // Another process, which reuses the ID of an exited process.
            ((12, 9), process(1, 3, 0)),
            ((13, 8), process(1, 2, 1)),
        ]);
        assert_eq!(used(&first, &last), BTreeMap::from([((10, 1), 4 + 11), ((12, 9), 3), ((13, 8), 3)]));
    }

    #[test]
    fn time_of_exited_grandchildren_counts_once() {
        // Process 11 and its child, process 12, exit between the snapshots. Process 10 inherits 913 ticks of CPU time
        // from them. 905 of these ticks are from before the first snapshot.
        let first = BTreeMap::from([
            ((10, 1), process(1, 0, 0)),
            ((11, 2), process(10, 5, 0)),
            ((12, 3), process(11, 900, 0)),
        ]);
        let last = BTreeMap::from([((10, 1), process(1, 0, 905 + 8))]);
        assert_eq!(used(&first, &last), BTreeMap::from([((10, 1), 8)]));
    }

    #[test]
    fn the_busiest_come_first_and_the_rig_is_excluded() {
        let lab = std::process::id() as i32;
        let at = |at_ns: u64, ticks: [u64; 6]| {
            let parents = [1, 1, lab, 20, 1, 1];
            let pids = [20, 21, 22, 23, 24, lab];
            let processes = pids.into_iter().zip(parents).zip(ticks);
            let processes = processes.map(|((pid, parent), own)| ((pid, 1), process(parent, own, 0)));
            Snapshot { at_ns, processes: processes.collect() }
        };
        let mut neighbours = Neighbours::default();
        neighbours.snapshots.push(at(1_000_000_000, [0, 0, 0, 0, 5, 0]));
        neighbours.snapshots.push(at(2_000_000_000, [10, 0, 0, 0, 5, 0]));
        // Process 20 is a part, 23 is its child, 22 is a child of this process (`lab`), and 24 used no CPU time.
        neighbours.snapshots.push(at(4_000_000_000, [90, 100, 100, 100, 5, 100]));
        neighbours.belong_to_the_rig(&[20]);
        let per_second = procfs::ticks_per_second() as f64;
        let busiest = neighbours.busiest(2_500_000_000, 3_500_000_000);
        assert_eq!(busiest, [HostProcess { name: "x".into(), pid: 21, cores: 100.0 / per_second / 2.0 }]);
        assert_eq!(neighbours.busiest(500_000_000, 3_500_000_000), [], "before the first snapshot");
        assert_eq!(neighbours.busiest(2_500_000_000, 4_500_000_000), [], "after the last snapshot");
        neighbours.rig.clear();
        let pids: Vec<u32> = neighbours.busiest(2_500_000_000, 3_500_000_000).iter().map(|p| p.pid).collect();
        assert_eq!(pids, [21, 23, 20]);
    }
}
