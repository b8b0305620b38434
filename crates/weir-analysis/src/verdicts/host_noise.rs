//! Words for host noise: the processes that caused it, and what to do about it.

use weir_results::{Cell, CellOutcome, HostProcess, HostShare, Measurement, Reason};

use crate::figures::quantity::counted;
use crate::points::conclusions::join;

/// Minimum CPU use of a process that is listed as busy, cores.
const NAMED_CORES: f64 = 0.01;
/// Maximum number of processes that [`host_noise`] names.
const NAMED: usize = 3;

/// Names the busiest processes: `; busiest: rustc (pid 42) 0.93 of a core, cargo (pid 7) 0.10 of a core`. Empty if none
/// was busy.
#[must_use]
pub fn busiest_words(busiest: &[HostProcess]) -> String {
    let named = busiest.iter().filter(|process| process.cores >= NAMED_CORES);
    let words = named.map(|of| format!("{} (pid {}) {}", of.name, of.pid, of_a_core(of.cores)));
    busiest_of(words.collect())
}

fn busiest_of(words: Vec<String>) -> String {
    if words.is_empty() { String::new() } else { format!("; busiest: {}", words.join(", ")) }
}

/// What to do about the noise on `host`.
pub(crate) fn remedy(host: &HostShare) -> &'static str {
    if host.steal > host.others {
        "Most of this is steal, CPU time taken by other virtual machines: use a dedicated host, or raise `repeats`; \
         `weir doctor` checks this host"
    } else {
        "Stop other programs, pin them to CPUs that weir does not use (`taskset`), or raise `repeats`; `weir doctor` \
         checks this host"
    }
}

/// Summarizes the host noise in all loads of `cells` in one sentence; `None` if host noise made no latency invalid. A
/// host is noisy if other processes took more than the share `allowed` of its CPU.
pub fn host_noise(cells: &[Cell], allowed: f64) -> Option<String> {
    let disturbed: Vec<&Measurement> =
        cells.iter().flat_map(measured).filter(|of| is_disturbed(of)).collect();
    let loads = disturbed.len();
    if loads == 0 {
        return None;
    }
    let is_noisy = |share: &HostShare| share.taken() > allowed;
    let (mut named, mut here, mut machines): (Vec<Named>, Vec<HostShare>, Vec<String>) = Default::default();
    for measurement in disturbed {
        let (mut busiest, mut is_elsewhere) = (Vec::<HostProcess>::new(), false);
        for shard in &measurement.record.shards {
            let machine =
                shard.machine.as_ref().filter(|machine| machine.share.as_ref().is_some_and(is_noisy));
            let Some(machine) = machine else { continue };
            is_elsewhere = true;
            busiest.extend(machine.busiest.iter().cloned());
            if !machines.contains(&shard.agent) {
                machines.push(shard.agent.clone());
            }
        }
        // If no agent's machine was noisy, attribute the noise to this host, even if its share does not exceed
        // `allowed`.
        if !is_elsewhere || is_noisy(&measurement.host) {
            here.push(measurement.host);
            busiest.extend(measurement.host_usage.iter().flat_map(|usage| usage.busiest.iter().cloned()));
        }
        busiest.iter().for_each(|process| Named::add(&mut named, process));
    }
    named.retain(|name| name.cores >= NAMED_CORES * loads as f64);
    named.sort_by(|one, other| other.cores.total_cmp(&one.cores));
    let busiest = busiest_of(named.iter().take(NAMED).map(|name| name.words(loads)).collect());
    let sum = |of: fn(&HostShare) -> f64| here.iter().map(of).sum();
    let host = HostShare { steal: sum(|host| host.steal), others: sum(|host| host.others), idle: 0.0 };
    let (on, remedy) = match (machines.is_empty(), here.is_empty()) {
        (true, _) => (String::new(), remedy(&host)),
        (false, true) => (
            format!(" on the machines of {}", join(&machines)),
            "Stop other programs on these machines, or use other machines",
        ),
        (false, false) => {
            (format!(" on this host and on the machines of {}", join(&machines)), remedy(&host))
        }
    };
    let loads = counted(loads as u64, "measurement");
    Some(format!("host noise{on} disturbed {loads}{busiest}. {remedy}"))
}

fn measured(cell: &Cell) -> &[Measurement] {
    match &cell.outcome {
        CellOutcome::Measured { measurements } => measurements,
        CellOutcome::Failed { .. } => &[],
    }
}

fn is_disturbed(of: &Measurement) -> bool {
    // Only the verdict of latency is checked.
    of.judgement.verdicts.latency.contains(&Reason::HostNoise)
}

/// All processes with the same name, in all loads with host noise.
struct Named {
    name: String,
    pids: Vec<u32>,
    /// Cores used, summed over the loads.
    cores: f64,
}

impl Named {
    fn add(all: &mut Vec<Self>, process: &HostProcess) {
        let at = all.iter().position(|known| known.name == process.name).unwrap_or_else(|| {
            all.push(Self { name: process.name.clone(), pids: Vec::new(), cores: 0.0 });
            all.len() - 1
        });
        all[at].cores += process.cores;
        if !all[at].pids.contains(&process.pid) {
            all[at].pids.push(process.pid);
        }
    }

    fn words(&self, loads: usize) -> String {
        let who = match &self.pids[..] {
            [pid] => format!("pid {pid}"),
            pids => format!("{} processes", pids.len()),
        };
        format!("{} ({who}) {}", self.name, of_a_core(self.cores / loads as f64))
    }
}

fn of_a_core(cores: f64) -> String {
    if cores < 1.0 { format!("{cores:.2} of a core") } else { format!("{cores:.2} cores") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_named_by_name_pid_and_share_of_a_core() {
        let process = |name: &str, pid, cores| HostProcess { name: name.into(), pid, cores };
        let check = |busiest: &[HostProcess], expected: &str| assert_eq!(busiest_words(busiest), expected);
        check(&[], "");
        check(&[process("idle", 7, 0.001)], "");
        check(
            &[process("cc1", 42, 1.5), process("a b", 7, 0.25), process("idle", 8, 0.001)],
            "; busiest: cc1 (pid 42) 1.50 cores, a b (pid 7) 0.25 of a core",
        );
    }
}
