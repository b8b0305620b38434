//! The mount points of control groups.

use std::fs;
use std::path::{Path, PathBuf};

use procfs::process::Process;
use rustix::fs::{FsWord, statfs};

use super::version::CgroupVersion;

/// The mount point of cgroup v2. With v1, this folder contains one mount point per hierarchy.
const MOUNT_POINT: &str = "/sys/fs/cgroup";
/// `CGROUP2_SUPER_MAGIC` of linux/magic.h: what statfs reports for a file system of cgroup v2.
const CGROUP2_MAGIC: FsWord = 0x6367_7270;

/// The cgroup version that limits processes on this host. If both are mounted, it is v1, because v1 then has the
/// controllers.
pub(crate) fn version() -> CgroupVersion {
    let is_v2 = statfs(MOUNT_POINT).is_ok_and(|found| found.f_type == CGROUP2_MAGIC);
    if is_v2 { CgroupVersion::V2 } else { CgroupVersion::V1 }
}

/// The root folder of cgroup v2.
pub(crate) fn v2_root() -> &'static Path {
    Path::new(MOUNT_POINT)
}

/// The root folders of the hierarchies that together have all `controllers`: one folder in v2, one per mount in v1.
///
/// # Errors
/// If some of the controllers are in no mounted hierarchy; the error lists these controllers.
pub(crate) fn roots(version: CgroupVersion, controllers: &[&str]) -> Result<Vec<PathBuf>, String> {
    let found: Vec<(&str, Option<PathBuf>)> = match version {
        CgroupVersion::V1 => {
            let mounts = v1_mounts();
            let has = |controller: &str| mounts.iter().find(|mount| mount.has(controller));
            controllers.iter().map(|name| (*name, has(name).map(|mount| mount.point.clone()))).collect()
        }
        CgroupVersion::V2 => {
            let present = fs::read_to_string(v2_root().join("cgroup.controllers")).unwrap_or_default();
            let has = |controller: &str| present.split_whitespace().any(|name| name == controller);
            controllers.iter().map(|name| (*name, has(name).then(|| v2_root().to_owned()))).collect()
        }
    };
    let missing: Vec<&str> =
        found.iter().filter(|(_, root)| root.is_none()).map(|(controller, _)| *controller).collect();
    if !missing.is_empty() {
        return Err(format!("cgroup {} lacks the controllers {}", version.name(), missing.join(", ")));
    }
    let mut roots: Vec<PathBuf> = found.into_iter().filter_map(|(_, root)| root).collect();
    // Controllers that are mounted together share a folder.
    roots.sort();
    roots.dedup();
    Ok(roots)
}

/// The mount points of all cgroup hierarchies, even of those that weir does not use: container engines create cgroups
/// in all of them.
pub(crate) fn all_roots() -> Vec<PathBuf> {
    let mounts = Process::myself().and_then(|own| own.mountinfo());
    let mounts = mounts.into_iter().flatten().filter(|mount| mount.fs_type.starts_with("cgroup"));
    mounts.map(|mount| mount.mount_point).collect()
}

/// Searches the cgroup of process `pid` and the cgroups above it for a cgroup whose own name contains `name`. If
/// several match, takes the topmost. Returns its folder in each hierarchy of `controllers`; `None` if no cgroup
/// matches.
pub(crate) fn group_of(
    pid: i32,
    name: &str,
    version: CgroupVersion,
    controllers: &[&str],
) -> Option<Vec<PathBuf>> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let within = |root: &Path, path: &str| Some(root.join(named_part(path, name)?));
    match version {
        CgroupVersion::V2 => Some(vec![within(v2_root(), path_of(&text, None)?)?]),
        CgroupVersion::V1 => {
            let mounts = v1_mounts();
            let mut folders = Vec::new();
            for controller in controllers {
                let mount = mounts.iter().find(|mount| mount.has(controller))?;
                folders.push(within(&mount.point, path_of(&text, Some(controller))?)?);
            }
            folders.sort();
            folders.dedup();
            Some(folders)
        }
    }
}

/// The folders of this process's cgroup and of all cgroups above it, in the hierarchy that limits CPU time.
pub(crate) fn own_groups(version: CgroupVersion) -> Option<Vec<PathBuf>> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let (root, path) = match version {
        CgroupVersion::V2 => (v2_root().to_owned(), path_of(&text, None)?),
        CgroupVersion::V1 => {
            let mount = v1_mounts().into_iter().find(|mount| mount.has("cpu"))?;
            (mount.point, path_of(&text, Some("cpu"))?)
        }
    };
    let own = root.join(path.trim_start_matches('/'));
    // In a container, the mount point can be the container's own cgroup. Then the path from /proc does not exist below
    // it.
    let own = if own.is_dir() { own } else { root.clone() };
    Some(own.ancestors().take_while(|folder| folder.starts_with(&root)).map(Path::to_owned).collect())
}

/// Parses the `text` of /proc/PID/cgroup: the cgroup path for a v1 `controller`, or for v2 if `controller` is `None`.
fn path_of<'a>(text: &'a str, controller: Option<&str>) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let is_it = match controller {
            None => controllers.is_empty(),
            Some(wanted) => controllers.split(',').any(|one| one == wanted),
        };
        is_it.then_some(path)
    })
}

/// Cuts `path` after its first component that contains `name`, and makes it relative; `None` without such a component.
fn named_part(path: &str, name: &str) -> Option<PathBuf> {
    let components: Vec<&str> = path.split('/').filter(|component| !component.is_empty()).collect();
    let end = components.iter().position(|component| component.contains(name))?;
    Some(components[..=end].iter().collect())
}

/// A mounted hierarchy of cgroup v1.
#[derive(Debug)]
pub(crate) struct V1Mount {
    pub(crate) point: PathBuf,
    /// Whether the mount shows the whole hierarchy, and not only the cgroup of a container.
    pub(crate) is_whole: bool,
    options: Vec<String>,
}

impl V1Mount {
    pub(crate) fn has(&self, controller: &str) -> bool {
        self.options.iter().any(|option| option == controller)
    }
}

/// The mounted hierarchies of cgroup v1, in the order of /proc/self/mountinfo.
pub(crate) fn v1_mounts() -> Vec<V1Mount> {
    let mounts = Process::myself().and_then(|own| own.mountinfo());
    let mounts = mounts.into_iter().flatten().filter(|mount| mount.fs_type == "cgroup");
    let v1 = mounts.map(|mount| V1Mount {
        is_whole: mount.root == "/",
        point: mount.mount_point,
        options: mount.super_options.into_keys().collect(),
    });
    v1.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_controller_is_named() {
        for version in [CgroupVersion::V1, CgroupVersion::V2] {
            let found = roots(version, &["warp"]);
            assert_eq!(found, Err(format!("cgroup {} lacks the controllers warp", version.name())));
        }
    }

    #[test]
    fn a_process_group_is_found_by_its_full_name_only() {
        let text = "9:name=systemd:/\n2:cpu,cpuacct:/weir-1/4711\n1:memory:/weir-1/4711\n0::/system.slice/x-4711.scope/y\n";
        assert_eq!(path_of(text, Some("cpuacct")), Some("/weir-1/4711"));
        assert_eq!(path_of(text, Some("pids")), None);
        assert_eq!(path_of(text, None), Some("/system.slice/x-4711.scope/y"));
        let named = |path: &str| named_part(path, "4711").map(|path| path.display().to_string());
        assert_eq!(named("/weir-1/4711").as_deref(), Some("weir-1/4711"));
        assert_eq!(named("/system.slice/x-4711.scope/y").as_deref(), Some("system.slice/x-4711.scope"));
        // weir must never kill or remove a group that it did not create.
        assert_eq!(named("/"), None);
        assert_eq!(named("/user.slice"), None);
    }

    #[test]
    fn each_root_folder_is_listed_once() {
        let version = version();
        let Ok(roots) = roots(version, version.controllers()) else { return };
        assert!(
            !roots.is_empty() && roots.iter().all(|root| root.join("cgroup.procs").exists()),
            "{roots:?}"
        );
        assert!(roots.iter().all(|root| roots.iter().filter(|other| *other == root).count() == 1));
    }
}
