//! Reads the CPU time of the host.

use std::path::Path;

use rustix::fs::readlink;
use rustix::time::{ClockId, clock_gettime};

use super::HostSample;
use super::group::Kept;
use crate::clock::mono_ns;
use crate::limits::hierarchy::v1_mounts;

/// The link target of `/proc/self/ns/cgroup` in the initial cgroup namespace; the same on every host.
const FIRST_CGROUP_NAMESPACE: &[u8] = b"cgroup:[4026531835]";

/// Reads the CPU time of the host.
///
/// Host noise is the CPU time of all processes minus the CPU time of the rig. Both are large numbers, so their
/// difference needs an exact total. We compared three totals while only the rig worked, in quiet windows of two seconds
/// at 16 to 90 % load. The host had 2 cores, and a kernel without irq time accounting. According to the counters of the
/// other processes, they used 0.3 to 0.4 %.
///
/// - The usage of the root cgroup showed 0.2 to 0.8 % for other processes. weir uses it if it is available.
/// - Time that is neither idle nor stolen showed 1.3 to 1.5 %, because it includes interrupts and idle transitions.
///   weir uses it in all other cases.
/// - The fields of /proc/stat showed -3.7 to 0.7 %, because the kernel samples them at the clock tick.
///
/// A kernel without irq time accounting charges soft interrupts of the loopback to the sending process, which belongs
/// to the rig.
#[derive(Debug)]
pub(crate) struct HostReader {
    stat: Kept,
    /// The file with the exact CPU time of all processes: the usage of the root cgroup of v1. `None` in a container,
    /// where the file covers only the container. Also `None` with v2, because the kernel samples the value of the v2
    /// root at the clock tick.
    every_process: Option<Kept>,
    /// TCP counters of the host's network namespace.
    snmp: Kept,
    /// Without `every_process`: time and counters of the first sample. Busy time counts from that sample on.
    first: Option<(u64, Stat)>,
    buffer: Vec<u8>,
}

/// CPU time of all cores since boot, from /proc/stat.
#[derive(Clone, Debug, PartialEq)]
struct Stat {
    idle_ns: u64,
    steal_ns: u64,
    /// Idle plus stolen time of each core.
    core_rest_ns: Vec<u64>,
}

impl HostReader {
    pub(crate) fn open() -> Self {
        let stat = Kept::at(Path::new("/proc/stat"));
        let snmp = Kept::at(Path::new("/proc/net/snmp"));
        Self { stat, every_process: true_root(), snmp, first: None, buffer: Vec::new() }
    }

    pub(crate) fn sample(&mut self) -> Option<HostSample> {
        let tick_ns = 1_000_000_000 / procfs::ticks_per_second();
        let stat = parse(self.stat.read(&mut self.buffer)?, tick_ns)?;
        let busy_ns = match &self.every_process {
            Some(kept) => kept.number(&mut self.buffer)?,
            None => {
                let now_ns = mono_ns();
                let (first_ns, first) = self.first.get_or_insert_with(|| (now_ns, stat.clone()));
                stat.busy_ns(first, now_ns - *first_ns)
            }
        };
        let lab = clock_gettime(ClockId::ProcessCPUTime);
        let lab_ns = lab.tv_sec as u64 * 1_000_000_000 + lab.tv_nsec as u64;
        let retransmitted_segments = self.snmp.read(&mut self.buffer).and_then(retransmitted_segments);
        let Stat { idle_ns, steal_ns, core_rest_ns } = stat;
        Some(HostSample { busy_ns, idle_ns, steal_ns, lab_ns, core_rest_ns, retransmitted_segments })
    }
}

impl Stat {
    /// CPU time of all cores since `first`, without idle and stolen time. `wall_ns` is the time since `first`.
    fn busy_ns(&self, first: &Self, wall_ns: u64) -> u64 {
        let rest = (self.idle_ns - first.idle_ns.min(self.idle_ns))
            + (self.steal_ns - first.steal_ns.min(self.steal_ns));
        (wall_ns * self.core_rest_ns.len() as u64).saturating_sub(rest)
    }
}

fn true_root() -> Option<Kept> {
    let namespace = readlink("/proc/self/ns/cgroup", Vec::new()).ok()?;
    if namespace.to_bytes() != FIRST_CGROUP_NAMESPACE {
        return None;
    }
    let mount = v1_mounts().into_iter().find(|mount| mount.is_whole && mount.has("cpuacct"))?;
    let kept = Kept::at(&mount.point.join("cpuacct.usage"));
    kept.number(&mut Vec::new()).is_some().then_some(kept)
}

/// Parses /proc/stat: `cpu user nice system idle iowait irq softirq steal guest guest_nice`, then a line per core.
fn parse(text: &str, tick_ns: u64) -> Option<Stat> {
    let mut lines = text.lines().take_while(|line| line.starts_with("cpu"));
    // Parses a line's idle and stolen time.
    let rest = |line: &str| {
        let fields = line.split_whitespace().skip(1).map_while(|field| field.parse().ok());
        let ticks: Vec<u64> = fields.collect();
        let [_user, _nice, _system, idle, iowait, _irq, _softirq, steal] = *ticks.first_chunk()?;
        Some(((idle + iowait) * tick_ns, steal * tick_ns))
    };
    let (idle_ns, steal_ns) = rest(lines.next().filter(|line| line.starts_with("cpu "))?)?;
    let core_rest_ns = lines.map(|line| rest(line).map(|(idle_ns, steal_ns)| idle_ns + steal_ns));
    Some(Stat { idle_ns, steal_ns, core_rest_ns: core_rest_ns.collect::<Option<_>>()? })
}

/// Finds TCP's `RetransSegs` in /proc/net/snmp, which has a line of names and a line of numbers per protocol.
pub(super) fn retransmitted_segments(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp:"));
    let place = lines.next()?.split_whitespace().position(|name| name == "RetransSegs")?;
    lines.next()?.split_whitespace().nth(place)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_the_host_and_the_others_are_cores() {
        let text = "cpu  10 1 20 300 5 2 3 7 4 0\ncpu0 5 0 10 150 2 1 1 3 2 0\ncpu1 5 1 10 150 3 1 2 4 2 0\nintr 5\n";
        let expected = Stat { idle_ns: 3050, steal_ns: 70, core_rest_ns: vec![1550, 1570] };
        assert_eq!(parse(text, 10), Some(expected));
        assert_eq!(parse("cpu  1 2 3\n", 10), None);
        assert_eq!(parse("", 10), None);
    }

    #[test]
    fn without_exact_accounting_busy_time_is_neither_idle_nor_stolen() {
        let first = Stat { idle_ns: 100, steal_ns: 10, core_rest_ns: vec![50, 60] };
        let later = Stat { idle_ns: 160, steal_ns: 15, core_rest_ns: vec![80, 95] };
        assert_eq!(later.busy_ns(&first, 100), 135);
        // The idle counter can be a tick ahead of the clock or a tick behind it. The result must still not become
        // negative.
        assert_eq!(later.busy_ns(&first, 10), 0);
        assert_eq!(first.busy_ns(&later, 10), 20);
    }

    #[test]
    fn retransmitted_segments_are_found_by_name() {
        let text = "Ip: Forwarding DefaultTTL\nIp: 1 64\nTcp: RtoMin OutSegs RetransSegs InErrs\n\
                    Tcp: 200 9 7 0\nUdp: InDatagrams\nUdp: 3\n";
        assert_eq!(retransmitted_segments(text), Some(7));
        assert_eq!(retransmitted_segments("Tcp: RetransSegs\n"), None);
        assert_eq!(retransmitted_segments("Tcp: OutSegs\nTcp: 1\n"), None);
    }

    #[test]
    fn this_host_can_be_read() {
        for exact in [true, false] {
            let mut reader = HostReader::open();
            if !exact {
                reader.every_process = None;
            }
            this_host_is_read_by(&mut reader);
        }
    }

    fn this_host_is_read_by(reader: &mut HostReader) {
        let first = reader.sample().unwrap();
        let second = reader.sample().unwrap();
        assert!(!first.core_rest_ns.is_empty() && first.retransmitted_segments.is_some());
        assert!(second.busy_ns >= first.busy_ns && second.lab_ns >= first.lab_ns);
    }
}
