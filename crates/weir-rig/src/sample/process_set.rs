//! Selects processes that weir samples, although it did not start them.

use std::fs;
use std::path::{Path, PathBuf};

use super::find::{below, of_containers, of_program};
use super::group::GroupReader;
use super::tree::{Members, TreeReader};
use crate::limits::{CgroupVersion, Group, hierarchy};

/// A selection of processes that weir did not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessSet {
    /// The processes of the program with this name.
    Program(String),
    /// The process with this ID and its descendants.
    Process(i32),
    /// The processes in this cgroup and its children, like `/system.slice/nginx.service`.
    Group(PathBuf),
    /// The processes in the containers with these IDs.
    Containers(Vec<String>),
}

/// How the sampler reads the selected processes.
pub(super) enum SetReader {
    Group(Box<GroupReader>),
    Tree(TreeReader),
}

impl ProcessSet {
    /// The IDs of the processes that match now.
    pub fn processes(&self) -> Vec<i32> {
        match self {
            Self::Program(name) => of_program(name),
            Self::Process(pid) => below(*pid),
            Self::Containers(ids) => of_containers(ids),
            Self::Group(path) => {
                let reader = group(path).map(|group| GroupReader::open(&group, false));
                reader.map_or_else(Vec::new, |mut reader| reader.sample().1)
            }
        }
    }

    /// Creates the reader; the error names the processes or the cgroup that do not exist.
    pub(super) fn reader(&self) -> Result<SetReader, String> {
        let missing = |what: String| Err(format!("there is no {what} on this host"));
        match self {
            Self::Group(path) => match group(path) {
                Some(group) => {
                    let has_quota = has_quota(&group);
                    Ok(SetReader::Group(Box::new(GroupReader::open(&group, has_quota))))
                }
                None => missing(format!("control group {}", path.display())),
            },
            Self::Program(name) if self.processes().is_empty() => {
                missing(format!("process of the program `{name}`"))
            }
            Self::Process(pid) if self.processes().is_empty() => missing(format!("process {pid}")),
            Self::Containers(_) if self.processes().is_empty() => {
                missing("process of the gateway's containers".into())
            }
            Self::Containers(ids) => Ok(SetReader::Tree(TreeReader::of(Members::Containers(ids.clone())))),
            Self::Program(name) => Ok(SetReader::Tree(TreeReader::of(Members::Program(name.clone())))),
            Self::Process(pid) => Ok(SetReader::Tree(TreeReader::of(Members::Below(*pid)))),
        }
    }
}

/// The cgroup with this path; `None` for the root, or if any hierarchy that weir reads lacks it.
fn group(path: &Path) -> Option<Group> {
    let version = hierarchy::version();
    let roots = hierarchy::roots(version, version.controllers()).ok()?;
    let path = path.strip_prefix("/").unwrap_or(path);
    let directories: Vec<PathBuf> = roots.iter().map(|root| root.join(path)).collect();
    let exists = !path.as_os_str().is_empty() && directories.iter().all(|directory| directory.is_dir());
    exists.then_some(Group { version, directories })
}

/// Whether the cgroup has a CPU quota. Without a quota, the file contains `max` in v2 and -1 in v1.
fn has_quota(group: &Group) -> bool {
    let name = match group.version {
        CgroupVersion::V1 => "cpu.cfs_quota_us",
        CgroupVersion::V2 => "cpu.max",
    };
    let text = group.file(name).and_then(|path| fs::read_to_string(path).ok());
    text.is_some_and(|text| !text.starts_with("max") && !text.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn processes_are_found_by_program_and_by_parent() {
        let mut child =
            Command::new("sh").args(["-c", "sleep 60; true"]).stdin(Stdio::null()).spawn().unwrap();
        let pid = child.id() as i32;
        assert!(crate::cleanup::wait_until(|| ProcessSet::Process(pid).processes().len() == 2));
        let sleeping = ProcessSet::Process(pid).processes()[1];
        assert!(ProcessSet::Program("sleep".into()).processes().contains(&sleeping));
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(sleeping).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
        child.wait().unwrap();
        assert!(ProcessSet::Process(pid).processes().is_empty());
        let why = |set: ProcessSet| set.reader().err().unwrap();
        assert_eq!(why(ProcessSet::Process(pid)), format!("there is no process {pid} on this host"));
        assert_eq!(
            why(ProcessSet::Program("no-such".into())),
            "there is no process of the program `no-such` on this host"
        );
        assert_eq!(
            why(ProcessSet::Group("/no-such".into())),
            "there is no control group /no-such on this host"
        );
    }
}
