//! A launched process: start, readiness, failures, stop.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::CpuSet;
use weir_results::Part;

use super::affinity::Pinned;
use super::process::{ProcessSpec, Ready};
use super::spawn::Birth;
use super::wrong_address::WrongAddressWatch;
use super::{Launcher, ports, readiness};
use crate::cleanup::ledger::Entry;
use crate::cleanup::{self, MARK_VARIABLE, ProcessId};
use crate::clock::mono_ns;
use crate::limits::{CgroupVersion, Group};
use crate::{Namespace, RigError};

/// How much of the end of a log an error contains.
const LOG_TAIL_BYTES: u64 = 4096;
/// Readiness is checked after a fiftieth of the time that has passed, which bounds the error of measured start times.
const READY_POLL_SHARE: u32 = 50;
const READY_POLL_MIN: Duration = Duration::from_millis(1);
const READY_POLL_MAX: Duration = Duration::from_millis(20);
/// How a part was limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LimitedBy {
    Cgroup(CgroupVersion),
    Affinity,
    Nothing,
}

/// A process that the rig started, with its children.
#[derive(Debug)]
pub struct Running {
    spec: ProcessSpec,
    child: Child,
    leader: ProcessId,
    /// The mark in the environment of its processes.
    mark: String,
    /// The beginning of its start, before it used any resources. `CLOCK_MONOTONIC`.
    launched_ns: u64,
    group: Option<Group>,
    limited_by: LimitedBy,
    /// Its log, limited in size while it is open here.
    log: Arc<File>,
    /// Its CPUs, which other parts get only if there are no others.
    pinned: Option<Pinned>,
    status: Option<ExitStatus>,
    /// Whether it was killed on purpose and may start again.
    crashed: bool,
    stopped: bool,
}

impl Running {
    pub(crate) fn launch(launcher: &Launcher, spec: &ProcessSpec) -> Result<Self, RigError> {
        for address in &spec.listens {
            ports::require_free(&spec.name, spec.namespace.as_ref(), *address)?;
        }
        let log = launcher.logs.open(&spec.log).map_err(|error| RigError::file(&spec.log, error))?;
        let mark = launcher.next_mark();
        let group = enter_group(launcher, spec)?;
        let Placement { cpus, pinned, limited_by } = placement(launcher, spec, group.as_ref());
        let launched_ns = mono_ns();
        let child = match spawn(launcher, spec, &mark, &log, group.as_ref(), cpus.as_deref()) {
            Ok(child) => child,
            Err(error) => {
                if let Some(group) = group {
                    group.remove();
                }
                return Err(launch_error(spec, &error));
            }
        };
        let pid = child.id() as i32;
        let leader = ProcessId::of(pid).unwrap_or(ProcessId { pid, started_ticks: 0 });
        let mut running = Self {
            spec: spec.clone(),
            child,
            leader,
            mark,
            launched_ns,
            group,
            limited_by,
            log,
            pinned,
            status: None,
            crashed: false,
            stopped: false,
        };
        launcher.note(&Entry::Process(leader))?;
        running.await_ready(launcher)?;
        Ok(running)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// The ID of the started process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its entry in the manifest of a cell.
    pub fn part(&self) -> Part {
        let spec = &self.spec;
        let asked = spec.limits.any();
        Part {
            name: spec.name.clone(),
            role: spec.role,
            version: spec.binary.version.clone(),
            binary: spec.binary.path.display().to_string(),
            binary_sha256: spec.binary.sha256.clone(),
            config_sha256: spec.config_sha256.clone(),
            command: spec.command.clone(),
            limit_cpus: spec.limits.cpus,
            limit_memory_bytes: spec.limits.memory_bytes,
            limits_applied: match self.limited_by {
                LimitedBy::Cgroup(_) => true,
                LimitedBy::Affinity => spec.limits.memory_bytes.is_none(),
                LimitedBy::Nothing => !asked,
            },
            limited_by: match self.limited_by {
                LimitedBy::Cgroup(version) if asked => version.limited_by(),
                LimitedBy::Affinity => "affinity",
                LimitedBy::Cgroup(_) | LimitedBy::Nothing => "none",
            }
            .into(),
        }
    }

    /// Waits until it exits; `None` after `timeout`.
    ///
    /// # Errors
    /// If the system cannot report its status.
    pub fn wait(&mut self, timeout: Duration) -> Result<Option<ExitStatus>, RigError> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(status) = self.exit_status()? {
                return Ok(Some(status));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            thread::sleep(left.min(READY_POLL_MAX));
        }
    }

    /// Kills its processes at once (SIGKILL), like a crash. Its control group stays. This is not reported as a failure.
    pub fn crash(&mut self) {
        self.crashed = true;
        // Processes that remain are killed when the part is stopped.
        let _ = match &self.group {
            Some(group) => cleanup::kill_group(&group.directories),
            None => self.kill_session(),
        };
        self.status = self.child.wait().ok();
    }

    /// Starts it again after [`Running::crash`], under the same limits, and waits until it is ready. One that runs is left
    /// alone.
    ///
    /// # Errors
    /// As [`Rig::launch`].
    pub(crate) fn relaunch(&mut self, launcher: &Launcher) -> Result<(), RigError> {
        if !self.crashed {
            return Ok(());
        }
        let spec = &self.spec;
        let cpus = self.pinned.as_ref().map(Pinned::cpus).or(spec.cpus.as_deref());
        self.launched_ns = mono_ns();
        self.child = spawn(launcher, spec, &self.mark, &self.log, self.group.as_ref(), cpus)
            .map_err(|error| launch_error(spec, &error))?;
        let pid = self.child.id() as i32;
        self.leader = ProcessId::of(pid).unwrap_or(ProcessId { pid, started_ticks: 0 });
        self.status = None;
        self.crashed = false;
        launcher.note(&Entry::Process(self.leader))?;
        self.await_ready(launcher)
    }

    /// Stops all of its processes (SIGSTOP): the kernel still accepts connections, but no process responds.
    pub fn stall(&self) {
        self.signal_all(Signal::STOP);
    }

    /// Continues its processes after [`Running::stall`].
    pub fn go_on(&self) {
        self.signal_all(Signal::CONT);
    }

    /// Its failure since its start, if any: out of memory, or an exit.
    pub fn failure(&mut self) -> Option<RigError> {
        if self.crashed {
            return None;
        }
        let part = self.spec.name.clone();
        let killed = self.group.as_ref().and_then(Group::oom_kills).is_some_and(|kills| kills > 0);
        if killed {
            let limit_bytes = self.spec.limits.memory_bytes;
            return Some(RigError::OutOfMemory { part, limit_bytes, log_tail: self.log_tail() });
        }
        let status = match self.exit_status() {
            Ok(status) => status?,
            Err(error) => return Some(error),
        };
        let log_tail = self.log_tail();
        if disk_is_full(&log_tail, &self.spec.dir) {
            return Some(RigError::DiskFull { place: part, log_tail });
        }
        let left = self.living();
        if status.success() && !left.is_empty() {
            return Some(RigError::Background { part, pids: left, log_tail });
        }
        Some(RigError::Died { part, status: status.to_string(), log_tail })
    }

    /// Asks it to exit (SIGTERM), waits up to `grace`, and kills what is left of it and its children.
    pub fn stop(mut self, grace: Duration) {
        if self.status.is_none() {
            self.signal(Signal::TERM);
            let _ = self.wait(grace);
        }
        self.end();
    }

    /// The end of its log.
    pub fn log_tail(&self) -> String {
        log_tail(&self.spec.log).unwrap_or_default()
    }

    /// Its control group, if it has one.
    pub(crate) fn group(&self) -> Option<&Group> {
        self.group.as_ref()
    }

    pub(crate) fn namespace(&self) -> Option<&Namespace> {
        self.spec.namespace.as_ref()
    }

    pub(crate) fn leader(&self) -> ProcessId {
        self.leader
    }

    pub(crate) fn limit_cpus(&self) -> Option<f64> {
        self.spec.limits.cpus
    }

    /// The beginning of its start, `CLOCK_MONOTONIC` in nanoseconds, before it used any resources.
    pub fn launched_ns(&self) -> u64 {
        self.launched_ns
    }

    /// Its running processes, including those that left its session.
    fn living(&self) -> Vec<i32> {
        match &self.group {
            Some(group) => cleanup::living_in(&group.directories),
            None => {
                let mut pids = cleanup::members(&self.leader);
                pids.extend(cleanup::marked(&self.mark));
                pids.sort_unstable();
                pids.dedup();
                pids
            }
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.leader.pid) {
            let _ = kill_process(pid, signal);
        }
    }

    fn signal_all(&self, signal: Signal) {
        for pid in self.living().into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Kills a part without a control group; returns whether nothing is left.
    fn kill_session(&self) -> bool {
        // The session first: it has most processes, and is found without reading environments.
        cleanup::kill_sessions(&[self.leader]) && cleanup::kill_marked(&self.mark)
    }

    fn exit_status(&mut self) -> Result<Option<ExitStatus>, RigError> {
        if self.status.is_none() {
            self.status = self.child.try_wait().map_err(|error| RigError::file(&self.spec.name, error))?;
        }
        Ok(self.status)
    }

    fn await_ready(&mut self, launcher: &Launcher) -> Result<(), RigError> {
        let started = Instant::now();
        let mut watch = WrongAddressWatch::new(readiness::addresses(&self.spec));
        loop {
            // If nothing was to become ready, a process that already exited is not a failure.
            let waits = self.spec.ready != Ready::None || !self.spec.listens.is_empty();
            if !waits {
                return Ok(());
            }
            if let Some(failure) = self.failure() {
                let taken = if failure.cause() == "died" { self.port_taken() } else { None };
                return Err(taken.unwrap_or(failure));
            }
            let last = match readiness::check(&self.spec) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let waited = started.elapsed();
            let is_over = waited >= self.spec.ready_timeout || launcher.is_given_up();
            if is_over || watch.is_settled(|| self.living()) {
                let part = self.spec.name.clone();
                let last = format!("{last}{}", self.where_it_listens());
                return Err(RigError::NeverReady { part, waited, last, log_tail: self.log_tail() });
            }
            thread::sleep((waited / READY_POLL_SHARE).clamp(READY_POLL_MIN, READY_POLL_MAX));
        }
    }

    /// The error for a part that died at its start because another process took its port after the check.
    fn port_taken(&self) -> Option<RigError> {
        if !self.living().is_empty() {
            return None;
        }
        let (name, namespace) = (&self.spec.name, self.spec.namespace.as_ref());
        let taken = |address: &SocketAddr| ports::require_free(name, namespace, *address).err();
        self.spec.listens.iter().find_map(taken).filter(|error| error.cause() == "port-taken")
    }

    /// The addresses that it listens on instead, in words.
    fn where_it_listens(&self) -> String {
        let addresses = ports::listened_on(&self.living());
        let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        if addresses.is_empty() {
            String::new()
        } else {
            format!(" (it listens on {})", addresses.join(", "))
        }
    }

    fn end(&mut self) {
        if self.stopped {
            return;
        }
        self.stopped = true;
        // Processes that remain stay in the ledger, and are killed with it.
        let _ = match &self.group {
            Some(group) => group.remove(),
            None => self.kill_session(),
        };
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
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
        // Killing one of them would kill the other.
        let message = "a part with this name is still running".into();
        return Err(RigError::Launch { part: spec.name.clone(), message });
    }
    launcher.note(&Entry::Groups(directories))?;
    // Without permission the part runs unlimited, and its manifest entry says so.
    let group = parent.create(&spec.name, &spec.limits).ok();
    if spec.is_urgent {
        group.iter().for_each(Group::put_first);
    }
    Ok(group)
}

/// The CPUs of a part, and how they limit it.
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
        .stdin(Stdio::null())
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

fn disk_is_full(log_tail: &str, directory: &Path) -> bool {
    let none_left = rustix::fs::statvfs(directory).is_ok_and(|disk| disk.f_bavail == 0);
    // Programs in Go print it in lower case.
    none_left || log_tail.to_ascii_lowercase().contains("no space left on device")
}

fn log_tail(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = fs::metadata(path)?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(LOG_TAIL_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
}
