//! CPU and memory use of this process.

use std::fs;
use std::time::Instant;

/// Linux reports the CPU times of processes in hundredths of a second, on every architecture.
const TICKS_PER_S: f64 = 100.0;
/// Minimum time between two readings, in seconds. For a shorter time, ticks are too coarse.
const SPAN_MIN_S: f64 = 0.5;

/// CPU time that this process has used so far, and its current memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnUse {
    at: Instant,
    cpu_ticks: Option<u64>,
    pub(super) memory_bytes: Option<u64>,
}

impl OwnUse {
    pub(super) fn now() -> Self {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        Self { at: Instant::now(), cpu_ticks: cpu_ticks(&stat), memory_bytes: memory_bytes(&status) }
    }

    /// CPU time divided by wall-clock time since the reading `before`. `None` if too little time has passed.
    pub(super) fn cores_since(&self, before: &Self) -> Option<f64> {
        let wall_s = self.at.saturating_duration_since(before.at).as_secs_f64();
        let ticks = self.cpu_ticks?.saturating_sub(before.cpu_ticks?);
        (wall_s >= SPAN_MIN_S).then(|| ticks as f64 / TICKS_PER_S / wall_s)
    }
}

/// Parses the time in user mode and in the kernel from `/proc/self/stat`: fields 14 and 15. Field 2 is the process
/// name, which may contain spaces, so parsing starts after it.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(user + system)
}

fn memory_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_files_are_parsed() {
        let stat = "7 (a) b) R 1 2 3 4 5 6 7 8 9 10 40 2 0 0 20 0 1";
        assert_eq!((cpu_ticks(stat), cpu_ticks("")), (Some(42), None));
        assert_eq!(memory_bytes("Name:\tx\nVmRSS:\t    2048 kB\n"), Some(2 << 20));
        let own = OwnUse::now();
        assert!(own.cpu_ticks.is_some() && own.memory_bytes > Some(1 << 16));
    }
}
