//! Reads the resources of a part from its cgroup.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::{PartSample, open_files};
use crate::limits::{CgroupVersion, Group, keyed};

/// A file that stays open and is read repeatedly.
#[derive(Debug)]
pub(super) struct Kept(Option<File>);

impl Kept {
    pub(super) fn at(path: &Path) -> Self {
        Self(File::open(path).ok())
    }

    fn open(group: &Group, name: &str) -> Self {
        Self(group.file(name).and_then(|path| File::open(path).ok()))
    }

    pub(super) fn read<'a>(&self, buffer: &'a mut Vec<u8>) -> Option<&'a str> {
        read_whole(self.0.as_ref()?, buffer)
    }

    pub(super) fn number(&self, buffer: &mut Vec<u8>) -> Option<u64> {
        self.read(buffer)?.trim().parse().ok()
    }
}

/// Reads `file` from its beginning, at most 64 KiB.
pub(super) fn read_whole<'a>(file: &File, buffer: &'a mut Vec<u8>) -> Option<&'a str> {
    buffer.resize(64 << 10, 0);
    let mut length = 0;
    while length < buffer.len() {
        match file.read_at(&mut buffer[length..], length as u64).ok()? {
            0 => break,
            read => length += read,
        }
    }
    std::str::from_utf8(&buffer[..length]).ok()
}

/// Opens the `cgroup.procs` files of the cgroup and of its direct children, in one hierarchy.
fn procs(group: &Group) -> Vec<Kept> {
    let Some(directory) = group.directories.first() else { return Vec::new() };
    let children = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let all = [directory.clone()].into_iter().chain(children.filter(|path| path.is_dir()));
    all.map(|directory| Kept::at(&directory.join("cgroup.procs"))).collect()
}

/// Reads the resources of one cgroup.
#[derive(Debug)]
pub(crate) struct GroupReader {
    version: CgroupVersion,
    /// Whether the cgroup has a CPU quota. Without a quota, the kernel counts no periods, and all throttling values are
    /// `None`.
    has_quota: bool,
    usage: Kept,
    user: Kept,
    system: Kept,
    cpu_stat: Kept,
    memory: Kept,
    memory_stat: Kept,
    threads: Kept,
    /// The process lists of the cgroup and its children. A container engine can put the processes into a child cgroup.
    procs: Vec<Kept>,
    buffer: Vec<u8>,
    /// The CPU counters of the part's former cgroups: a container gets a new cgroup when it restarts.
    ended: CpuCounters,
    /// The CPU counters of the part at the last read, including `ended`.
    last: CpuCounters,
}

/// The six CPU counters of a [`PartSample`].
#[derive(Clone, Copy, Debug, Default)]
struct CpuCounters([Option<u64>; 6]);

impl CpuCounters {
    fn of(sample: &PartSample) -> Self {
        let PartSample { cpu_ns, user_ns, system_ns, throttled_ns, periods, periods_throttled, .. } = *sample;
        Self([cpu_ns, user_ns, system_ns, throttled_ns, periods, periods_throttled])
    }

    /// Adds `ended`, the counters of former cgroups.
    fn after(self, ended: Self) -> Self {
        let mut sums = self.0;
        for (sum, before) in sums.iter_mut().zip(ended.0) {
            *sum = sum.map(|now| now + before.unwrap_or(0));
        }
        Self(sums)
    }

    fn put(self, sample: PartSample) -> PartSample {
        let [cpu_ns, user_ns, system_ns, throttled_ns, periods, periods_throttled] = self.0;
        PartSample { cpu_ns, user_ns, system_ns, throttled_ns, periods, periods_throttled, ..sample }
    }
}

impl GroupReader {
    pub(crate) fn open(group: &Group, has_quota: bool) -> Self {
        let open = |name| Kept::open(group, name);
        let memory = match group.version {
            CgroupVersion::V1 => "memory.usage_in_bytes",
            CgroupVersion::V2 => "memory.current",
        };
        Self {
            version: group.version,
            has_quota,
            usage: open("cpuacct.usage"),
            user: open("cpuacct.usage_user"),
            system: open("cpuacct.usage_sys"),
            cpu_stat: open("cpu.stat"),
            memory: open(memory),
            memory_stat: open("memory.stat"),
            // In both cgroup versions, this counts threads, not processes.
            threads: open("pids.current"),
            procs: procs(group),
            buffer: Vec::new(),
            ended: CpuCounters::default(),
            last: CpuCounters::default(),
        }
    }

    /// Reads the cgroup of `next` from now on. The CPU counters continue from their last values.
    pub(crate) fn follow(&mut self, next: Self) {
        *self = Self { ended: self.last, last: self.last, ..next };
    }

    /// Takes a sample. Also returns the IDs of the processes in the cgroup.
    pub(crate) fn sample(&mut self) -> (PartSample, Vec<i32>) {
        let mut sample = match self.version {
            CgroupVersion::V1 => self.cpu_v1(),
            CgroupVersion::V2 => self.cpu_v2(),
        };
        if sample.cpu_ns.is_some() {
            self.last = CpuCounters::of(&sample).after(self.ended);
        }
        // When a container exits, its cgroup is removed. The container then uses no memory or files, but its CPU time
        // still counts.
        sample = self.last.put(sample);
        let buffer = &mut self.buffer;
        let [inactive, active] = match self.version {
            CgroupVersion::V1 => ["total_inactive_file", "total_active_file"],
            CgroupVersion::V2 => ["inactive_file", "active_file"],
        };
        // Subtract all file pages, active or not. If the host has dropped a page from its cache, the kernel charges the
        // page to the first cgroup that reads it again (docs/decisions/0019).
        let cached = self
            .memory_stat
            .read(buffer)
            .and_then(|text| Some(keyed(text, inactive)? + keyed(text, active)?));
        let used = self.memory.number(buffer);
        sample.memory_bytes = used.zip(cached).map(|(used, cached)| used.saturating_sub(cached));
        sample.threads = self.threads.number(buffer);
        let mut pids: Option<Vec<i32>> = None;
        for procs in &self.procs {
            if let Some(text) = procs.read(buffer) {
                let found = text.lines().filter_map(|line| line.trim().parse::<i32>().ok());
                pids.get_or_insert_default().extend(found);
            }
        }
        sample.pids = pids.as_ref().map(|pids| pids.len() as u64);
        // A process that just exited is skipped; files of the others are still counted.
        sample.open_files = pids.as_ref().map(|pids| pids.iter().copied().filter_map(open_files).sum());
        (sample, pids.unwrap_or_default())
    }

    fn cpu_v1(&mut self) -> PartSample {
        let buffer = &mut self.buffer;
        let mut sample = PartSample {
            cpu_ns: self.usage.number(buffer),
            user_ns: self.user.number(buffer),
            system_ns: self.system.number(buffer),
            ..PartSample::default()
        };
        if let Some(text) = self.cpu_stat.read(buffer).filter(|_| self.has_quota) {
            sample.throttled_ns = keyed(text, "throttled_time");
            sample.periods = keyed(text, "nr_periods");
            sample.periods_throttled = keyed(text, "nr_throttled");
        }
        sample
    }

    fn cpu_v2(&mut self) -> PartSample {
        let Some(text) = self.cpu_stat.read(&mut self.buffer) else { return PartSample::default() };
        let ns = |key| keyed(text, key).map(|us| us * 1_000);
        let quota = |value: Option<u64>| value.filter(|_| self.has_quota);
        PartSample {
            cpu_ns: ns("usage_usec"),
            user_ns: ns("user_usec"),
            system_ns: ns("system_usec"),
            throttled_ns: quota(ns("throttled_usec")),
            periods: quota(keyed(text, "nr_periods")),
            periods_throttled: quota(keyed(text, "nr_throttled")),
            ..PartSample::default()
        }
    }
}
