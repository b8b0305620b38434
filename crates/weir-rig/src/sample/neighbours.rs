//! Processes outside the rig and the CPU time that each used, to name those that disturb a load.
//!
//! A look reads `/proc/PID/stat` of every process of the host: 13 µs each, 4 ms for 300. So there are three
//! looks for each load, and none while it is measured: before it, shortly before its warm-up ends, and after it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use weir_results::HostProcess;

use crate::clock::mono_ns;

/// What stands in place of a character that a terminal would obey: a process may choose any name.
const UNPRINTABLE: char = '\u{fffd}';

/// A process at one look. Times are in ticks of the kernel's clock, since the process started.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Process {
    name: String,
    parent: i32,
    /// What its threads used.
    own: u64,
    /// What its children used that have ended, theirs among it.
    ended: u64,
}

/// A process by its id and its start, since ids are used again.
type Identity = (i32, u64);

/// All processes of the host at one moment.
#[derive(Clone, Debug)]
struct Look {
    at_ns: u64,
    processes: BTreeMap<Identity, Process>,
}

/// The looks at the host while a load runs, and the processes that are the rig's own.
#[derive(Clone, Debug, Default)]
pub(super) struct Neighbours {
    looks: Vec<Look>,
    rig: BTreeSet<i32>,
}

impl Neighbours {
    /// Reads the CPU time of every process.
    pub(super) fn look(&mut self) {
        let before = mono_ns();
        let processes = all_processes();
        self.looks.push(Look { at_ns: before + (mono_ns() - before) / 2, processes });
    }

    /// Leaves out the processes `pids`, which are parts of the rig. This process and its children are never named.
    pub(super) fn belong_to_the_rig(&mut self, pids: &[i32]) {
        self.rig.extend(pids);
    }

    /// The processes that used any CPU time from one moment to another, the busiest first: over the looks around it, of
    /// which the first may be earlier and the last later.
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

    /// The last look before `from_ns` and the first one after `to_ns`.
    fn around(&self, from_ns: u64, to_ns: u64) -> Option<(&Look, &Look)> {
        let first = self.looks.iter().rfind(|look| look.at_ns <= from_ns)?;
        let last = self.looks.iter().find(|look| look.at_ns >= to_ns)?;
        (first.at_ns < last.at_ns).then_some((first, last))
    }

    /// Whether it is this process, one of its children and theirs, or one of a part.
    fn is_of_the_rig(&self, pid: i32, looks: [&BTreeMap<Identity, Process>; 2]) -> bool {
        let lab = std::process::id() as i32;
        let parent_of = |pid: i32| {
            let known = |look: &BTreeMap<Identity, Process>| {
                look.range((pid, 0)..=(pid, u64::MAX)).next_back().map(|(_, process)| process.parent)
            };
            looks.into_iter().rev().find_map(known)
        };
        let ancestors = std::iter::successors(Some(pid), |pid| parent_of(*pid).filter(|parent| *parent > 0));
        // Two looks are not of one moment, so that parents may seem to go round in circles.
        ancestors.take(64).any(|ancestor| ancestor == lab || self.rig.contains(&ancestor))
    }
}

/// The ticks that each process of `last` used since `first`. A program that starts many short ones, like a compiler's
/// driver, is charged with what they used once they have ended.
fn used(first: &BTreeMap<Identity, Process>, last: &BTreeMap<Identity, Process>) -> BTreeMap<Identity, u64> {
    // Parents inherit the CPU time of children that end; time from before the first look is subtracted.
    let mut inherited: BTreeMap<i32, u64> = BTreeMap::new();
    for (_, gone) in first.iter().filter(|(identity, _)| !last.contains_key(identity)) {
        *inherited.entry(gone.parent).or_default() += gone.own + gone.ended;
    }
    let ticks = |(identity, now): (&Identity, &Process)| {
        let (own, ended) = first.get(identity).map_or((0, 0), |then| (then.own, then.ended));
        let inherited = inherited.get(&identity.0).copied().unwrap_or(0);
        let of_children = now.ended.saturating_sub(ended).saturating_sub(inherited);
        (*identity, now.own.saturating_sub(own) + of_children)
    };
    last.iter().map(ticks).collect()
}

/// Every process that can be seen from here; in a container those of the container.
fn all_processes() -> BTreeMap<Identity, Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| {
        // A name may be of any bytes. What ended meanwhile is left out.
        let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let (start, process) = parse(&String::from_utf8_lossy(&text))?;
        Some(((pid, start), process))
    })
    .collect()
}

/// Reads `PID (NAME) STATE PARENT ..`; the name may have brackets and spaces of its own.
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
    fn names_have_no_escapes_and_may_have_brackets() {
        let line = "42 (a) b(\u{1b}[2J) S 7 42 42 0 -1 4194560 1 2 3 4 10 20 30 40 20 0 1 0 99 5 6";
        let expected = Process { name: "a) b(\u{fffd}[2J".into(), parent: 7, own: 30, ended: 70 };
        assert_eq!(parse(line), Some((99, expected)));
        assert_eq!(parse("42 (a) S 7"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn a_program_is_charged_with_its_short_lived_children_and_with_nothing_from_before() {
        let first = BTreeMap::from([
            ((10, 1), process(1, 100, 50)),
            // Ends between the looks, and had used 30 + 5 before the first.
            ((11, 2), process(10, 30, 5)),
            ((12, 3), process(1, 7, 0)),
        ]);
        let last = BTreeMap::from([
            // 4 of its own, 40 of the child that ended, of which 35 are from before, and 6 of one that no look saw.
            ((10, 1), process(1, 104, 50 + 40 + 6)),
            // Another process with the id of one that ended.
            ((12, 9), process(1, 3, 0)),
            ((13, 8), process(1, 2, 1)),
        ]);
        assert_eq!(used(&first, &last), BTreeMap::from([((10, 1), 4 + 11), ((12, 9), 3), ((13, 8), 3)]));
    }

    #[test]
    fn the_busiest_are_first_and_the_rig_is_none_of_them() {
        let lab = std::process::id() as i32;
        let at = |at_ns: u64, ticks: [u64; 6]| {
            let parents = [1, 1, lab, 20, 1, 1];
            let pids = [20, 21, 22, 23, 24, lab];
            let processes = pids.into_iter().zip(parents).zip(ticks);
            let processes = processes.map(|((pid, parent), own)| ((pid, 1), process(parent, own, 0)));
            Look { at_ns, processes: processes.collect() }
        };
        let mut neighbours = Neighbours::default();
        neighbours.looks.push(at(1_000_000_000, [0, 0, 0, 0, 5, 0]));
        neighbours.looks.push(at(2_000_000_000, [10, 0, 0, 0, 5, 0]));
        // 20 is a part, 23 its child, 22 a child of the lab, 24 did nothing.
        neighbours.looks.push(at(4_000_000_000, [90, 100, 100, 100, 5, 100]));
        neighbours.belong_to_the_rig(&[20]);
        let per_second = procfs::ticks_per_second() as f64;
        let busiest = neighbours.busiest(2_500_000_000, 3_500_000_000);
        assert_eq!(busiest, [HostProcess { name: "x".into(), pid: 21, cores: 100.0 / per_second / 2.0 }]);
        assert_eq!(neighbours.busiest(500_000_000, 3_500_000_000), [], "before the first look");
        assert_eq!(neighbours.busiest(2_500_000_000, 4_500_000_000), [], "after the last");
        neighbours.rig.clear();
        let pids: Vec<u32> = neighbours.busiest(2_500_000_000, 3_500_000_000).iter().map(|p| p.pid).collect();
        assert_eq!(pids, [21, 23, 20]);
    }
}
