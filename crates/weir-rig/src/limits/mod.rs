//! Limits on CPU and memory, and the control groups (cgroups) that enforce them.

use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::cleanup;

mod delegation;
pub(crate) mod hierarchy;
mod version;

pub use delegation::start_again_in_scope;
pub use version::CgroupVersion;

/// The CPU quota period, microseconds. 100 ms is the default of the kernel and of container platforms.
const PERIOD_US: u64 = 100_000;
/// The smallest CPU quota that the kernel accepts, microseconds per period.
const QUOTA_US_MIN: u64 = 1_000;

/// Limits of a part (a gateway, an upstream or another process of the run); `None` is unlimited.
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

/// The cgroup of a run, below which each part gets its own cgroup.
#[derive(Debug)]
pub(crate) struct GroupParent {
    pub(crate) version: CgroupVersion,
    /// The root folders of the cgroup hierarchies with the controllers that weir needs.
    roots: Vec<PathBuf>,
    /// The path of the run's cgroup, relative to each of `roots`.
    path: PathBuf,
}

impl GroupParent {
    /// Chooses where the run's cgroup `name` will be, without creating it. The error is the reason why this host or
    /// user cannot create cgroups with limits.
    pub(crate) fn find(name: &str) -> Result<Self, String> {
        let version = hierarchy::version();
        let roots = hierarchy::roots(version, version.controllers())?;
        let path = match version {
            CgroupVersion::V1 => PathBuf::from(name),
            CgroupVersion::V2 => delegation::base(version.controllers())?.join(name),
        };
        Ok(Self { version, roots, path })
    }

    /// The folders of the part's cgroup `name`, one per hierarchy. If `name` is `None`, the folders of the run's
    /// cgroup.
    pub(crate) fn directories(&self, name: Option<&str>) -> Vec<PathBuf> {
        let path = name.map_or_else(|| self.path.clone(), |name| self.path.join(name));
        self.roots.iter().map(|root| root.join(&path)).collect()
    }

    /// Creates the cgroup of the run. The error is the reason why this host or user cannot create it. The caller must
    /// first add [`Self::directories`] to the cleanup ledger.
    pub(crate) fn make(&self) -> Result<(), String> {
        let directories = self.directories(None);
        let made = make_all(&directories).and_then(|()| match self.version {
            CgroupVersion::V1 => Ok(()),
            CgroupVersion::V2 => directories.iter().try_for_each(|directory| {
                delegation::enable(directory, self.version.controllers())
                    .map_err(|error| format!("{}: {error}", directory.display()))
            }),
        });
        if made.is_err() {
            cleanup::remove_groups(&directories);
        }
        made
    }

    /// Creates the cgroup `name` for a part, with `limits`.
    pub(crate) fn create(&self, name: &str, limits: &Limits) -> Result<Group, String> {
        let group = Group { version: self.version, directories: self.directories(Some(name)) };
        let made = make_all(&group.directories).and_then(|()| group.limit(limits));
        if made.is_err() {
            group.remove();
        }
        made.map(|()| group)
    }

    /// The path of the run's cgroup, relative to the root of each hierarchy.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Sets the CPU weight of the run's cgroup, as [`Group::put_first`] does for a part.
    pub(crate) fn put_first(&self) {
        Group { version: self.version, directories: self.directories(None) }.put_first();
    }
}

/// The cgroup of one part: one folder per hierarchy.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) version: CgroupVersion,
    pub(crate) directories: Vec<PathBuf>,
}

impl Group {
    /// The cgroup that a container engine created for the container `id`, in which the process `pid` runs.
    pub(crate) fn of_container(pid: i32, id: &str) -> Option<Self> {
        let version = hierarchy::version();
        let directories = hierarchy::group_of(pid, id, version, version.controllers())?;
        Some(Self { version, directories })
    }

    /// The path of the cgroup file `name`, in the hierarchy that has this file; `None` if no hierarchy has it.
    pub(crate) fn file(&self, name: &str) -> Option<PathBuf> {
        self.directories.iter().map(|directory| directory.join(name)).find(|path| path.exists())
    }

    fn limit(&self, limits: &Limits) -> Result<(), String> {
        if let Some(cpus) = limits.cpus {
            let quota_us = ((cpus * PERIOD_US as f64).round() as u64).max(QUOTA_US_MIN);
            match self.version {
                CgroupVersion::V1 => {
                    self.set("cpu.cfs_period_us", PERIOD_US)?;
                    self.set("cpu.cfs_quota_us", quota_us)?;
                }
                CgroupVersion::V2 => self.set("cpu.max", format_args!("{quota_us} {PERIOD_US}"))?,
            }
        }
        if let Some(bytes) = limits.memory_bytes {
            // Limit swap too: swapping would evade the memory limit. Kernels without swap accounting lack this file.
            let (limit, swap) = match self.version {
                CgroupVersion::V1 => ("memory.limit_in_bytes", ("memory.memsw.limit_in_bytes", bytes)),
                CgroupVersion::V2 => ("memory.max", ("memory.swap.max", 0)),
            };
            self.set(limit, bytes)?;
            if self.file(swap.0).is_some() {
                let _ = self.set(swap.0, swap.1);
            }
        }
        Ok(())
    }

    /// The trimmed content of the cgroup file `name`; `None` if it cannot be read.
    fn read(&self, name: &str) -> Option<String> {
        Some(fs::read_to_string(self.file(name)?).ok()?.trim().to_owned())
    }

    /// The CPU quota of this cgroup in cores; `None` without a quota.
    fn quota_cpus(&self) -> Option<f64> {
        let (quota, period) = match self.version {
            CgroupVersion::V1 => (self.read("cpu.cfs_quota_us")?, self.read("cpu.cfs_period_us")?),
            CgroupVersion::V2 => {
                let text = self.read("cpu.max")?;
                let (quota, period) = text.split_once(' ')?;
                (quota.to_owned(), period.to_owned())
            }
        };
        // Without a quota, the file contains `max` in v2 and -1 in v1.
        let cpus = quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?;
        (cpus > 0.0).then_some(cpus)
    }

    /// Whether the cgroup has `limits` within 1 %. Either weir or a container engine has set them.
    pub(crate) fn has(&self, limits: &Limits) -> bool {
        let number = |name: &str| self.read(name)?.parse::<f64>().ok();
        let memory = || match self.version {
            CgroupVersion::V1 => number("memory.limit_in_bytes"),
            CgroupVersion::V2 => number("memory.max"),
        };
        // The kernel rounds memory to pages, and container engines round the quota to microseconds.
        let is_near =
            |found: Option<f64>, wanted: f64| found.is_some_and(|found| (found / wanted - 1.0).abs() < 0.01);
        limits.cpus.is_none_or(|wanted| is_near(self.quota_cpus(), wanted))
            && limits.memory_bytes.is_none_or(|wanted| is_near(memory(), wanted as f64))
    }

    /// Writes `value` into the cgroup file `name`.
    fn set(&self, name: &str, value: impl Display) -> Result<(), String> {
        let path = self
            .file(name)
            .ok_or_else(|| format!("cannot set the limit: the cgroup file {name} is missing"))?;
        fs::write(&path, value.to_string())
            .map_err(|error| format!("{}: cannot write {value}: {error}", path.display()))
    }

    /// Opens `cgroup.procs` in each hierarchy for writing. A process joins the cgroup by writing 0 into each file.
    pub(crate) fn entries(&self) -> io::Result<Vec<File>> {
        self.directories
            .iter()
            .map(|directory| OpenOptions::new().write(true).open(directory.join("cgroup.procs")))
            .collect()
    }

    /// Prefers this cgroup to others: sets the CPU weight that equals nice -20. The nice value of a thread has no
    /// effect outside its cgroup. Does nothing if the kernel has no CPU weights.
    pub(crate) fn put_first(&self) {
        // The kernel's table `sched_prio_to_weight` maps nice -20 to 88,761 and nice 0 to 1,024. In v2, the weight of
        // nice 0 is 100.
        let (name, weight) = match self.version {
            CgroupVersion::V1 => ("cpu.shares", "88761"),
            CgroupVersion::V2 => ("cpu.weight", "8668"),
        };
        if let Some(path) = self.file(name) {
            let _ = fs::write(path, weight);
        }
    }

    /// How many processes of this cgroup the kernel killed because memory ran out; `None` if the kernel does not count.
    pub(crate) fn oom_kills(&self) -> Option<u64> {
        let name = match self.version {
            CgroupVersion::V1 => "memory.oom_control",
            CgroupVersion::V2 => "memory.events",
        };
        keyed(&fs::read_to_string(self.file(name)?).ok()?, "oom_kill")
    }

    /// Kills every process in the cgroup and removes the cgroup; returns whether nothing is left.
    pub(crate) fn remove(&self) -> bool {
        cleanup::kill_and_remove(&self.directories)
    }
}

/// Cores that this process can use: the smallest CPU quota of its cgroup and of the cgroups above. `None` without a
/// quota.
pub fn quota_cpus() -> Option<f64> {
    let version = hierarchy::version();
    let groups = hierarchy::own_groups(version)?;
    let quota = |directory: PathBuf| Group { version, directories: vec![directory] }.quota_cpus();
    groups.into_iter().filter_map(quota).reduce(f64::min)
}

/// The value of `key` in a file of `key value` lines.
pub(crate) fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

fn make_all(directories: &[PathBuf]) -> Result<(), String> {
    directories.iter().try_for_each(|directory| {
        fs::create_dir_all(directory)
            .map_err(|error| format!("{}: cannot create the control group: {error}", directory.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keyed_values_are_found_by_full_key() {
        let text = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        assert_eq!(keyed(text, "oom_kill"), Some(3));
        assert_eq!(keyed(text, "oom"), None);
        assert_eq!(keyed("oom_kill x\n", "oom_kill"), None);
    }

    #[test]
    fn a_quota_is_read_in_cores() {
        let folder = tempfile::tempdir().unwrap();
        let quota = |version, files: &[(&str, &str)]| {
            files.iter().for_each(|(name, text)| fs::write(folder.path().join(name), text).unwrap());
            Group { version, directories: vec![folder.path().to_owned()] }.quota_cpus()
        };
        assert_eq!(quota(CgroupVersion::V2, &[("cpu.max", "50000 100000\n")]), Some(0.5));
        assert_eq!(quota(CgroupVersion::V2, &[("cpu.max", "max 100000\n")]), None);
        let v1 = |us| [("cpu.cfs_quota_us", us), ("cpu.cfs_period_us", "100000\n")];
        assert_eq!(quota(CgroupVersion::V1, &v1("250000\n")), Some(2.5));
        assert_eq!(quota(CgroupVersion::V1, &v1("-1\n")), None);
        let groups = hierarchy::own_groups(hierarchy::version()).unwrap();
        assert!(groups.iter().all(|group| group.is_dir()), "{groups:?}");
    }
}
