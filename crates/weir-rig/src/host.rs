//! Facts about the host for the manifest.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::process::{Resource, getrlimit};
use rustix::thread::{CpuSet, sched_getaffinity};
use weir_results::Manifest;

/// Reads the facts about this host. Values that the rig does not know (command line, TLS) keep their default. So do
/// values that weir can only find by trying, see [`crate::Rig::try_limits`].
pub(crate) fn facts() -> Manifest {
    let cpu_info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    Manifest {
        weir_version: env!("CARGO_PKG_VERSION").into(),
        kernel: kernel(),
        os: os_name(&fs::read_to_string("/etc/os-release").unwrap_or_default()),
        cpu_model: field(&cpu_info, "model name"),
        cpus: Some(usable_cpus().len() as u32).filter(|cpus| *cpus > 0),
        cpu_governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        memory_bytes: memory_bytes(),
        mitigations: mitigations(),
        clock_source: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        virtualized: field(&cpu_info, "flags")
            .map(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor")),
        open_files_max: getrlimit(Resource::Nofile).maximum,
        network: "loopback".into(),
        ..Manifest::default()
    }
}

/// The numbers of the CPUs that the affinity mask of this process allows, in ascending order.
pub fn usable_cpus() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// The boot ID of the kernel, which is the same in all containers of a machine; empty if it cannot be read.
pub fn boot_id() -> String {
    line("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

fn kernel() -> Option<String> {
    let name = line("/proc/sys/kernel/ostype")?;
    let release = line("/proc/sys/kernel/osrelease")?;
    Some(format!("{name} {release} {}", std::env::consts::ARCH))
}

fn line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The value of the first line `name : value` in `text`.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().to_owned())
}

fn os_name(os_release: &str) -> Option<String> {
    let name = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_owned())
}

fn memory_bytes() -> Option<u64> {
    let kib = field(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal")?;
    kib.strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib * 1024)
}

fn mitigations() -> BTreeMap<String, String> {
    let Ok(files) = fs::read_dir("/sys/devices/system/cpu/vulnerabilities") else { return BTreeMap::new() };
    files
        .flatten()
        .filter_map(|file| Some((file.file_name().into_string().ok()?, line(file.path().to_str()?)?)))
        .collect()
}

/// Whether `path` is a file with an execute permission.
pub(crate) fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_by_name() {
        let text = "processor\t: 0\nmodel name\t: A CPU: fast\nflags\t\t: fpu hypervisor\n";
        assert_eq!(field(text, "model name").as_deref(), Some("A CPU: fast"));
        assert_eq!(field(text, "model"), None);
        assert_eq!(os_name("ID=x\nPRETTY_NAME=\"A Linux 12\"\n").as_deref(), Some("A Linux 12"));
    }

    #[test]
    fn this_host_reports_the_facts_that_every_linux_has() {
        let facts = facts();
        assert!(facts.kernel.unwrap().starts_with("Linux "));
        assert!(facts.cpus.unwrap() > 0);
        assert!(facts.memory_bytes.unwrap() > 1 << 20);
        assert!(facts.open_files_max.is_none_or(|files| files > 0));
        assert_eq!(facts.network, "loopback");
    }
}
