//! Resource use of the process, with the metric names of Prometheus' client libraries.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};
use serde::Serialize;
use weir_io::process_cpu_time;

use crate::exposition::{Exposition, seconds};

/// Resource use of the process. A value that the kernel does not report is `None`, and its metric is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProcessStats {
    /// CPU time in user and system mode since the start of the process, in nanoseconds.
    pub cpu_ns: u64,
    /// Resident memory in bytes.
    pub resident_bytes: Option<u64>,
    /// Size of the address space in bytes.
    pub virtual_bytes: Option<u64>,
    /// Number of open file descriptors.
    pub open_fds: Option<u64>,
    /// The limit of open file descriptors; `None` without a limit.
    pub max_fds: Option<u64>,
    /// Number of threads.
    pub threads: Option<u64>,
    /// The start of the process, in milliseconds since 1970.
    pub start_ms: Option<u64>,
}

/// Values from `/proc/self/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kernel {
    threads: u64,
    /// The start, in clock ticks since the boot.
    start_ticks: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl ProcessStats {
    /// Reads the current values from the kernel.
    pub(crate) fn read() -> ProcessStats {
        let cpu = process_cpu_time();
        let kernel = std::fs::read_to_string("/proc/self/stat").ok().and_then(|text| Kernel::parse(&text));
        let boot_s = std::fs::read_to_string("/proc/stat").ok().and_then(|text| boot_s(&text));
        let start_ms = |kernel: Kernel| {
            Some(boot_s? * 1_000 + kernel.start_ticks.checked_mul(1_000)? / clock_ticks_per_second())
        };
        ProcessStats {
            cpu_ns: cpu.user_ns + cpu.system_ns,
            resident_bytes: kernel.map(|kernel| kernel.resident_pages * page_size() as u64),
            virtual_bytes: kernel.map(|kernel| kernel.virtual_bytes),
            open_fds: open_fds(Path::new("/proc/self/fd")),
            max_fds: getrlimit(Resource::Nofile).current,
            threads: kernel.map(|kernel| kernel.threads),
            start_ms: kernel.and_then(start_ms),
        }
    }

    pub(crate) fn append(&self, text: &mut Exposition) {
        let help = "User and system CPU time of the process.";
        text.family("process_cpu_seconds_total", "counter", help);
        text.sample("process_cpu_seconds_total", &[], seconds(self.cpu_ns));
        let gauges = [
            ("process_resident_memory_bytes", "Resident memory of the process.", self.resident_bytes),
            ("process_virtual_memory_bytes", "Virtual memory of the process.", self.virtual_bytes),
            ("process_open_fds", "Open file descriptors.", self.open_fds),
            (
                "process_max_fds",
                "Maximum number of open file descriptors; missing if there is no limit.",
                self.max_fds,
            ),
            ("process_threads", "Threads of the process.", self.threads),
        ];
        for (name, help, value) in gauges {
            if let Some(value) = value {
                text.family(name, "gauge", help);
                text.sample(name, &[], value);
            }
        }
        if let Some(start_ms) = self.start_ms {
            let help = "Start time of the process, in seconds since 1970.";
            text.family("process_start_time_seconds", "gauge", help);
            text.sample("process_start_time_seconds", &[], seconds(start_ms * 1_000_000));
        }
    }
}

impl Kernel {
    /// The program's name is in parentheses and may contain any byte, so fields are counted after the last parenthesis.
    fn parse(text: &str) -> Option<Kernel> {
        let (_, fields) = text.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        // The first element of `fields` is field 3 of proc_pid_stat(5).
        let number = |field: usize| fields.get(field - 3)?.parse().ok();
        Some(Kernel {
            threads: number(20)?,
            start_ticks: number(22)?,
            virtual_bytes: number(23)?,
            resident_pages: number(24)?,
        })
    }
}

/// When the host booted, in seconds since 1970, from `/proc/stat`.
fn boot_s(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

/// The number of open descriptors. Since Linux 6.2, the kernel reports it as the size of the folder. On older kernels
/// the entries are counted, without the descriptor that the listing itself uses.
fn open_fds(folder: &Path) -> Option<u64> {
    match std::fs::metadata(folder).ok()?.size() {
        0 => Some((std::fs::read_dir(folder).ok()?.count() as u64).saturating_sub(1)),
        count => Some(count),
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn a_program_name_with_parentheses_is_parsed() {
        let line = "42 (a) R 1 (x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 20 0 900 4096000 77 1 2\n";
        let expected = Kernel { threads: 20, start_ticks: 900, virtual_bytes: 4_096_000, resident_pages: 77 };
        assert_eq!(Kernel::parse(line), Some(expected));
        assert_eq!(Kernel::parse("42 (a) S 1 2 3"), None);
        assert_eq!(boot_s("cpu 1 2\nbtime 1700000000\nprocesses 5\n"), Some(1_700_000_000));
    }

    #[test]
    fn the_reported_values_are_plausible() {
        let before = ProcessStats::read();
        let held: Vec<_> = (0..100).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        let after = ProcessStats::read();
        // Other tests of this process open and close descriptors in the meantime.
        assert!(after.open_fds.unwrap() >= before.open_fds.unwrap() + 50, "{before:?} {after:?}");
        assert!(after.open_fds.unwrap() >= held.len() as u64 + 3 && after.open_fds <= after.max_fds);
        assert!(after.resident_bytes.unwrap() > 1 << 20 && after.virtual_bytes > after.resident_bytes);
        assert!(after.threads.unwrap() >= 1 && after.cpu_ns >= before.cpu_ns && after.cpu_ns > 0);
        let now_ms = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis() as u64;
        let age_ms = now_ms.saturating_sub(after.start_ms.unwrap());
        assert!(age_ms < 3_600_000 && after.start_ms.unwrap() < now_ms + 2_000, "{age_ms}");
        assert_eq!(before.start_ms, after.start_ms);
    }

    #[test]
    fn values_that_the_kernel_does_not_report_are_missing() {
        let stats = ProcessStats {
            cpu_ns: 1_500_000_000,
            start_ms: Some(1_700_000_000_120),
            ..ProcessStats::default()
        };
        let mut text = Exposition::default();
        stats.append(&mut text);
        let samples: Vec<String> =
            text.into_text().lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
        assert_eq!(samples, ["process_cpu_seconds_total 1.5", "process_start_time_seconds 1700000000.12"]);
    }
}
