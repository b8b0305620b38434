//! Reads where the host's CPU time goes.

use std::path::Path;

use cgroups_rs::fs::hierarchies::mountinfo_self;
use rustix::fs::readlink;
use rustix::time::{ClockId, clock_gettime};

use super::HostSample;
use super::group::Kept;

/// The kernel's first cgroup namespace has this number on every host.
const FIRST_CGROUP_NAMESPACE: &[u8] = b"cgroup:[4026531835]";

/// Reads the host.
#[derive(Debug)]
pub(crate) struct HostReader {
    stat: Kept,
    /// Exact CPU time of every process on the host. Only the true root of cgroup v1's hierarchy has it: in a
    /// container the same file tells of the container, and the root of v2 is sampled at the clock's tick.
    every_process: Option<Kept>,
    buffer: Vec<u8>,
}

impl HostReader {
    pub(crate) fn open() -> Self {
        Self { stat: Kept::at(Path::new("/proc/stat")), every_process: true_root(), buffer: Vec::new() }
    }

    pub(crate) fn sample(&mut self) -> Option<HostSample> {
        let tick_ns = 1_000_000_000 / procfs::ticks_per_second();
        let stat = parse(self.stat.read(&mut self.buffer)?, tick_ns)?;
        let busy_ns = match &self.every_process {
            Some(kept) => kept.number(&mut self.buffer)?,
            None => stat.busy_ns,
        };
        let lab = clock_gettime(ClockId::ProcessCPUTime);
        let lab_ns = lab.tv_sec as u64 * 1_000_000_000 + lab.tv_nsec as u64;
        Some(HostSample { busy_ns, lab_ns, ..stat })
    }
}

fn true_root() -> Option<Kept> {
    let namespace = readlink("/proc/self/ns/cgroup", Vec::new()).ok()?;
    if namespace.to_bytes() != FIRST_CGROUP_NAMESPACE {
        return None;
    }
    let mount = mountinfo_self().into_iter().find(|mount| {
        mount.mount_root == Path::new("/") && mount.super_opts.iter().any(|o| o == "cpuacct")
    })?;
    let kept = Kept::at(&mount.mount_point.join("cpuacct.usage"));
    kept.number(&mut Vec::new()).is_some().then_some(kept)
}

/// Reads /proc/stat: `cpu user nice system idle iowait irq softirq steal guest guest_nice`, then a line per core.
fn parse(text: &str, tick_ns: u64) -> Option<HostSample> {
    let mut lines = text.lines();
    let all = lines.next()?.strip_prefix("cpu ")?;
    let cores = lines.take_while(|line| line.starts_with("cpu")).count();
    let ticks: Vec<u64> = all.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let [user, nice, system, idle, iowait, irq, softirq, steal] = *ticks.first_chunk()?;
    Some(HostSample {
        cores: u32::try_from(cores).ok()?,
        busy_ns: (user + nice + system + irq + softirq) * tick_ns,
        idle_ns: (idle + iowait) * tick_ns,
        steal_ns: steal * tick_ns,
        lab_ns: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_the_host_and_the_next_are_its_cores() {
        let text = "cpu  10 1 20 300 5 2 3 7 4 0\ncpu0 5 0 10 150 2 1 1 3 2 0\ncpu1 5 1 10 150 3 1 2 4 2 0\nintr 5\n";
        let expected = HostSample { cores: 2, busy_ns: 360, idle_ns: 3050, steal_ns: 70, lab_ns: 0 };
        assert_eq!(parse(text, 10), Some(expected));
        assert_eq!(parse("cpu  1 2 3\n", 10), None);
        assert_eq!(parse("", 10), None);
    }

    #[test]
    fn this_host_can_be_read() {
        let mut reader = HostReader::open();
        let first = reader.sample().unwrap();
        let second = reader.sample().unwrap();
        assert!(first.cores > 0);
        assert!(second.busy_ns >= first.busy_ns && second.lab_ns >= first.lab_ns);
    }
}
