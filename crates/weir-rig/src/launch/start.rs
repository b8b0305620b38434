//! Starts the process of a part, on the host or in a container.

use std::fs::File;
use std::io;
use std::process::{Child, Command, Stdio};

use rustix::thread::CpuSet;

use super::Launcher;
use super::affinity::Pinned;
use super::container::Container;
use super::process::ProcessSpec;
use super::spawn::Birth;
use crate::RigError;
use crate::cleanup::ledger::Entry;
use crate::cleanup::{self, MARK_VARIABLE, ProcessId};
use crate::clock::mono_ns;
use crate::limits::{CgroupVersion, Group};

/// What limits the CPU of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitedBy {
    Cgroup(CgroupVersion),
    Affinity,
    Nothing,
}

/// The running process of a part.
#[derive(Debug)]
pub(super) struct Started {
    /// The process that weir started: the part itself, or `docker` or `podman` for a part in a container.
    pub(super) child: Child,
    /// The first process of the part.
    pub(super) leader: ProcessId,
    /// The cgroup of the part; `None` if it has none.
    pub(super) group: Option<Group>,
    pub(super) limited_by: LimitedBy,
    /// When weir began to start the part, before the part used any resources; `CLOCK_MONOTONIC` in nanoseconds.
    pub(super) launched_ns: u64,
    /// The CPUs to which the part is pinned; `None` if it is not pinned. Other pinned parts use these CPUs only if no
    /// other CPUs are free.
    pub(super) pinned: Option<Pinned>,
    /// The container of the part, if it runs in one.
    pub(super) container: Option<Container>,
}

impl Started {
    pub(super) fn new(
        launcher: &Launcher,
        spec: &ProcessSpec,
        mark: &str,
        log: &File,
    ) -> Result<Self, RigError> {
        match &spec.binary.image {
            Some(image) => Self::in_container(launcher, spec, image, mark, log),
            None => Self::as_process(launcher, spec, mark, log),
        }
    }

    fn as_process(launcher: &Launcher, spec: &ProcessSpec, mark: &str, log: &File) -> Result<Self, RigError> {
        let group = enter_group(launcher, spec)?;
        let Placement { cpus, pinned, limited_by } = placement(launcher, spec, group.as_ref());
        let launched_ns = mono_ns();
        match spawn(launcher, spec, mark, log, group.as_ref(), cpus.as_deref()) {
            Ok(child) => {
                let leader = leader_of(&child);
                Ok(Self { child, leader, group, limited_by, launched_ns, pinned, container: None })
            }
            Err(error) => {
                if let Some(group) = group {
                    group.remove();
                }
                Err(launch_error(spec, &error))
            }
        }
    }

    /// Restarts the part after a crash, under the same limits.
    pub(super) fn again(
        &mut self,
        launcher: &Launcher,
        spec: &ProcessSpec,
        mark: &str,
        log: &File,
    ) -> Result<(), RigError> {
        if self.container.is_some() {
            self.end(mark);
            *self = Self::new(launcher, spec, mark, log)?;
            return Ok(());
        }
        let cpus = self.pinned.as_ref().map(Pinned::cpus).or(spec.cpus.as_deref());
        self.launched_ns = mono_ns();
        self.child = spawn(launcher, spec, mark, log, self.group.as_ref(), cpus)
            .map_err(|error| launch_error(spec, &error))?;
        self.leader = leader_of(&self.child);
        Ok(())
    }

    /// The running processes of the part, including those that left its session.
    pub(super) fn living(&self, mark: &str) -> Vec<i32> {
        match &self.group {
            Some(group) => cleanup::living_in(&group.directories),
            None => {
                let mut pids = cleanup::members(&self.leader);
                pids.extend(cleanup::marked(mark));
                pids.sort_unstable();
                pids.dedup();
                pids
            }
        }
    }

    /// Kills the processes of the part, and keeps its cgroup. [`Self::end`] kills processes that remain.
    pub(super) fn kill(&self, mark: &str) {
        let _ = match &self.group {
            Some(group) => cleanup::kill_group(&group.directories),
            None => self.kill_session(mark),
        };
    }

    /// Kills the processes of the part, and removes its cgroup or container. The cleanup of the run kills processes
    /// that remain.
    pub(super) fn end(&mut self, mark: &str) {
        if let Some(container) = &self.container {
            container.remove();
            // If the engine does not respond, the client program (`docker` or `podman`) is still running. Kill this
            // program.
            let _ = self.child.kill();
        }
        let _ = match &self.group {
            Some(group) => group.remove(),
            None => self.kill_session(mark),
        };
        let _ = self.child.wait();
    }

    /// Kills the processes of a part without a cgroup; returns whether none is left.
    fn kill_session(&self, mark: &str) -> bool {
        // Kill the session first: it contains most processes, and weir finds them without reading the environment of a
        // process.
        cleanup::kill_sessions(&[self.leader]) && cleanup::kill_marked(mark)
    }
}

/// Identifies a process that was just started.
pub(super) fn leader_of(child: &Child) -> ProcessId {
    let pid = child.id() as i32;
    ProcessId::of(pid).unwrap_or(ProcessId { pid, started_ticks: 0 })
}

/// Starts the process of a part.
fn spawn(
    launcher: &Launcher,
    spec: &ProcessSpec,
    mark: &str,
    log: &File,
    group: Option<&Group>,
    cpus: Option<&[usize]>,
) -> io::Result<Child> {
    let birth = Birth {
        groups: group.map(Group::entries).transpose()?.unwrap_or_default(),
        cpus: cpus.map(cpu_set),
        namespace: spec.namespace.clone(),
    };
    launcher.spawner.spawn(command(spec, mark, log)?, birth)
}

fn enter_group(launcher: &Launcher, spec: &ProcessSpec) -> Result<Option<Group>, RigError> {
    let Ok(parent) = &launcher.groups else { return Ok(None) };
    let directories = parent.directories(Some(&spec.name));
    if directories.iter().any(|directory| directory.exists()) {
        // Both parts would share one cgroup, so killing one part would kill the other.
        let message = "a process with this name is still running".into();
        return Err(RigError::Launch { part: spec.name.clone(), message });
    }
    launcher.note(&Entry::Groups(directories))?;
    // Without permission, the part runs unlimited, and the manifest records that.
    let group = parent.create(&spec.name, &spec.limits).ok();
    if spec.is_urgent {
        group.iter().for_each(Group::put_first);
    }
    Ok(group)
}

/// The CPUs on which a part runs, and what limits its CPU use.
struct Placement {
    cpus: Option<Vec<usize>>,
    pinned: Option<Pinned>,
    limited_by: LimitedBy,
}

fn placement(launcher: &Launcher, spec: &ProcessSpec, group: Option<&Group>) -> Placement {
    let unpinned = |limited_by| Placement { cpus: spec.cpus.clone(), pinned: None, limited_by };
    if let Some(group) = group {
        return unpinned(LimitedBy::Cgroup(group.version));
    }
    let Some(count) = spec.limits.cpus.filter(|cpus| *cpus >= 1.0 && cpus.fract() == 0.0) else {
        return unpinned(LimitedBy::Nothing);
    };
    let usable = spec.cpus.clone().unwrap_or_else(crate::host::usable_cpus);
    match launcher.pins.take(&usable, count as usize) {
        Some(pinned) => Placement {
            cpus: Some(pinned.cpus().to_vec()),
            pinned: Some(pinned),
            limited_by: LimitedBy::Affinity,
        },
        None => unpinned(LimitedBy::Nothing),
    }
}

fn cpu_set(cpus: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    for cpu in cpus.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU) {
        set.set(*cpu);
    }
    set
}

fn command(spec: &ProcessSpec, mark: &str, log: &File) -> io::Result<Command> {
    let (program, arguments) =
        spec.command.split_first().ok_or_else(|| io::Error::other("it has no command"))?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .envs(spec.env.iter().map(|(name, value)| (name, value)))
        .env(MARK_VARIABLE, mark)
        .current_dir(&spec.dir)
        .stdin(spec.input.as_ref().map_or(Ok(Stdio::null()), |input| File::open(input).map(Stdio::from))?)
        .stdout(log.try_clone()?)
        .stderr(log.try_clone()?);
    Ok(command)
}

fn launch_error(spec: &ProcessSpec, error: &io::Error) -> RigError {
    let part = spec.name.clone();
    match (error.kind(), spec.command.first()) {
        (io::ErrorKind::NotFound, Some(program)) if spec.dir.is_dir() => RigError::BinaryMissing {
            part,
            binary: program.clone(),
            get: "`make peers` installs the known gateways; `weir doctor` lists how to get the others".into(),
        },
        (io::ErrorKind::StorageFull, _) => RigError::DiskFull { place: part, log_tail: String::new() },
        _ => RigError::Launch { part, message: error.to_string() },
    }
}
