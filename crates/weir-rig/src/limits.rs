//! Limits on CPU and memory, and the control groups that hold them.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use cgroups_rs::fs::cpu::CpuController;
use cgroups_rs::fs::memory::MemController;
use cgroups_rs::fs::{Cgroup, Hierarchy, hierarchies};

use crate::{cleanup, delegation};

/// The quota's period. A tenth of a second is the kernel's default and what container platforms use.
const PERIOD_US: u64 = 100_000;
/// The least quota that the kernel takes.
const QUOTA_US_MIN: i64 = 1_000;

/// Limits of a part; `None` is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// CPU in cores.
    pub cpus: Option<f64>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
}

impl Limits {
    /// Whether anything is limited.
    pub fn any(&self) -> bool {
        self.cpus.is_some() || self.memory_bytes.is_some()
    }
}

/// The kernel's form of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupVersion {
    /// A hierarchy per controller.
    V1,
    /// One hierarchy.
    V2,
}

impl CgroupVersion {
    /// `v1` or `v2`.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
        }
    }

    /// The target of weir's Makefile whose tests hold limits against this form on a real kernel.
    pub fn tested_by(self) -> &'static str {
        match self {
            Self::V1 => "make test",
            Self::V2 => "make cgroup-v2",
        }
    }

    /// How a part says that it was limited.
    pub(crate) fn limited_by(self) -> &'static str {
        match self {
            Self::V1 => "cgroup-v1",
            Self::V2 => "cgroup-v2",
        }
    }

    /// CPU time is a controller of its own in v1.
    pub(crate) fn controllers(self) -> &'static [&'static str] {
        match self {
            Self::V1 => &["cpu", "cpuacct", "memory", "pids"],
            Self::V2 => &["cpu", "memory", "pids"],
        }
    }
}

/// The place in the hierarchy under which a run makes its groups.
#[derive(Debug)]
pub(crate) struct GroupParent {
    pub(crate) version: CgroupVersion,
    path: PathBuf,
}

impl GroupParent {
    /// A parent for groups named `name`, which need not exist; says why this host or user has none.
    pub(crate) fn find(name: &str) -> Result<Self, String> {
        let hierarchy = hierarchies::auto();
        let version = if hierarchy.v2() { CgroupVersion::V2 } else { CgroupVersion::V1 };
        let present: Vec<String> =
            hierarchy.subsystems().iter().map(|subsystem| subsystem.controller_name()).collect();
        let missing: Vec<&str> = version
            .controllers()
            .iter()
            .copied()
            .filter(|wanted| !present.iter().any(|p| p == wanted))
            .collect();
        if !missing.is_empty() {
            return Err(format!("cgroup {} lacks the controllers {}", version.name(), missing.join(", ")));
        }
        let path = match version {
            CgroupVersion::V1 => PathBuf::from(name),
            CgroupVersion::V2 => delegation::base(version.controllers())?.join(name),
        };
        Ok(Self { version, path })
    }

    /// The folders of group `name`, one per controller in v1.
    pub(crate) fn directories(&self, name: Option<&str>) -> Vec<PathBuf> {
        let path = name.map_or_else(|| self.path.clone(), |name| self.path.join(name));
        match self.version {
            CgroupVersion::V2 => vec![hierarchies::V2::new().root().join(path)],
            CgroupVersion::V1 => self
                .load(&path)
                .subsystems()
                .iter()
                .map(|subsystem| subsystem.to_controller().path().to_owned())
                .collect(),
        }
    }

    /// Makes the group under which those of the parts will be; says why this host or user cannot. Whoever calls it
    /// has noted [`Self::directories`] for removal.
    pub(crate) fn make(&self) -> Result<(), String> {
        let made = self.cgroup(&self.path).and_then(|_| match self.version {
            CgroupVersion::V1 => Ok(()),
            // The library asks for controllers and does not look whether the kernel gives them.
            CgroupVersion::V2 => self.directories(None).iter().try_for_each(|directory| {
                delegation::enable(directory, self.version.controllers())
                    .map_err(|error| format!("{}: {error}", directory.display()))
            }),
        });
        if made.is_err() {
            cleanup::remove_groups(&self.directories(None));
        }
        made
    }

    /// Makes the group `name` with `limits`.
    pub(crate) fn create(&self, name: &str, limits: &Limits) -> Result<Group, String> {
        let path = self.path.join(name);
        let cgroup = self.cgroup(&path)?;
        let group = Group { version: self.version, directories: self.directories(Some(name)) };
        if let Err(error) = limit(&cgroup, self.version, limits) {
            group.remove();
            return Err(format!("cannot set limits on {}: {error}", path.display()));
        }
        Ok(group)
    }

    /// Gives the run's own group the weight that [`Group::put_first`] gives to one of its parts.
    pub(crate) fn put_first(&self) {
        Group { version: self.version, directories: self.directories(None) }.put_first();
    }

    fn cgroup(&self, path: &Path) -> Result<Cgroup, String> {
        Cgroup::new_with_specified_controllers(hierarchies::auto(), path, Some(self.controllers())).map_err(
            |error| format!("cannot make the control group {}: {}", path.display(), in_words(&error)),
        )
    }

    fn controllers(&self) -> Vec<String> {
        self.version.controllers().iter().map(|name| (*name).to_owned()).collect()
    }

    fn load(&self, path: &Path) -> Cgroup {
        Cgroup::load_with_specified_controllers(hierarchies::auto(), path, self.controllers())
    }
}

/// The control group of one part.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) version: CgroupVersion,
    pub(crate) directories: Vec<PathBuf>,
}

impl Group {
    /// The file `name` in the controller that has it.
    pub(crate) fn file(&self, name: &str) -> Option<PathBuf> {
        self.directories.iter().map(|directory| directory.join(name)).find(|path| path.exists())
    }

    /// Open `cgroup.procs` of every controller: a process that writes 0 into each has moved itself.
    pub(crate) fn entries(&self) -> io::Result<Vec<File>> {
        self.directories
            .iter()
            .map(|directory| OpenOptions::new().write(true).open(directory.join("cgroup.procs")))
            .collect()
    }

    /// Gives the group the weight of nice -20 where groups want the same CPU: a thread's own priority counts only among
    /// those of its group. Where the kernel has no weights, it stays one among equals.
    pub(crate) fn put_first(&self) {
        // What `sched_prio_to_weight` of the kernel has for it, 88,761 beside 1,024 for nice 0.
        let (name, weight) = match self.version {
            CgroupVersion::V1 => ("cpu.shares", "88761"),
            CgroupVersion::V2 => ("cpu.weight", "8668"),
        };
        if let Some(path) = self.file(name) {
            let _ = fs::write(path, weight);
        }
    }

    /// How many processes of the group the kernel killed for want of memory.
    pub(crate) fn oom_kills(&self) -> Option<u64> {
        let name = match self.version {
            CgroupVersion::V1 => "memory.oom_control",
            CgroupVersion::V2 => "memory.events",
        };
        keyed(&fs::read_to_string(self.file(name)?).ok()?, "oom_kill")
    }

    /// Ends every process in the group and removes it; whether nothing of it is left.
    pub(crate) fn remove(&self) -> bool {
        cleanup::kill_and_remove(&self.directories)
    }
}

/// The value behind `key` in a file of `key value` lines.
pub(crate) fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

fn limit(cgroup: &Cgroup, version: CgroupVersion, limits: &Limits) -> Result<(), String> {
    if let Some(cpus) = limits.cpus {
        let cpu: &CpuController = cgroup.controller_of().ok_or("no cpu controller")?;
        let quota = ((cpus * PERIOD_US as f64).round() as i64).max(QUOTA_US_MIN);
        cpu.set_cfs_quota_and_period(Some(quota), Some(PERIOD_US)).map_err(|error| in_words(&error))?;
    }
    if let Some(bytes) = limits.memory_bytes {
        let memory: &MemController = cgroup.controller_of().ok_or("no memory controller")?;
        let bytes = i64::try_from(bytes).map_err(|_| "the memory limit is too large")?;
        memory.set_limit(bytes).map_err(|error| in_words(&error))?;
        // Swapped-out memory would evade the limit. Kernels without swap accounting have no such file,
        // and then nothing to set.
        let with_swap = if version == CgroupVersion::V1 { bytes } else { 0 };
        let _ = memory.set_memswap_limit(with_swap);
    }
    Ok(())
}

/// The library's error with its cause, which its own text leaves out.
fn in_words(error: &cgroups_rs::fs::error::Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keyed_values_are_found_by_their_whole_key() {
        let text = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        assert_eq!(keyed(text, "oom_kill"), Some(3));
        assert_eq!(keyed(text, "oom"), None);
        assert_eq!(keyed("oom_kill x\n", "oom_kill"), None);
    }
}
