//! A launched process: start, readiness, failures, stop.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use weir_results::{Part, Role};

use super::process::{ProcessSpec, Ready};
use super::start::{LimitedBy, Started};
use super::wrong_address::WrongAddressWatch;
use super::{Launcher, logs, ports, readiness};
use crate::cleanup::ProcessId;
use crate::cleanup::ledger::Entry;
use crate::engine::Image;
use crate::limits::Group;
use crate::{Namespace, RigError};

/// The pause before the next readiness check is the time waited so far, divided by this number. A measured start time
/// is therefore at most 2 % too long.
const READY_POLL_SHARE: u32 = 50;
const READY_POLL_MIN: Duration = Duration::from_millis(1);
const READY_POLL_MAX: Duration = Duration::from_millis(20);

/// A part that the rig started: its first process and all its descendants.
#[derive(Debug)]
pub struct Running {
    spec: ProcessSpec,
    started: Started,
    /// The mark of the part: the value of `WEIR_RUN_PART` in the environment of all its processes.
    mark: String,
    /// The log file. Its disk space is limited as long as it is open here.
    log: Arc<File>,
    status: Option<ExitStatus>,
    /// Whether [`Running::crash`] killed the part, so that it may start again.
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
        let started = Started::new(launcher, spec, &mark, &log)?;
        let mut running =
            Self { spec: spec.clone(), started, mark, log, status: None, crashed: false, stopped: false };
        launcher.note(&Entry::Process(running.started.leader))?;
        running.await_ready(launcher)?;
        Ok(running)
    }

    /// The name of the part.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// The role of the part.
    pub fn role(&self) -> Role {
        self.spec.role
    }

    /// The process ID of the part's first process.
    pub fn pid(&self) -> u32 {
        self.started.leader.pid as u32
    }

    /// The entry of the part in the manifest of a cell.
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
            limits_applied: match self.started.limited_by {
                LimitedBy::Cgroup(_) => true,
                LimitedBy::Affinity => spec.limits.memory_bytes.is_none(),
                LimitedBy::Nothing => !asked,
            },
            image: spec.binary.image.as_ref().map(Image::facts),
            limited_by: match self.started.limited_by {
                LimitedBy::Cgroup(version) if asked => version.limited_by(),
                LimitedBy::Affinity => "affinity",
                LimitedBy::Cgroup(_) | LimitedBy::Nothing => "none",
            }
            .into(),
        }
    }

    /// Waits until the process exits; `None` if it still runs after `timeout`.
    ///
    /// # Errors
    /// If the system cannot report the exit status.
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

    /// Kills all processes of the part at once (SIGKILL), as in a crash. The cgroup stays. [`Running::failure`] does
    /// not report the crash.
    pub fn crash(&mut self) {
        self.crashed = true;
        self.started.kill(&self.mark);
        self.status = self.started.reap();
    }

    /// Restarts the part after [`Running::crash`] under the same limits, and waits until it is ready. Does nothing if
    /// the part still runs.
    ///
    /// # Errors
    /// As [`crate::Rig::launch`].
    pub(crate) fn relaunch(&mut self, launcher: &Launcher) -> Result<(), RigError> {
        if !self.crashed {
            return Ok(());
        }
        self.started.again(launcher, &self.spec, &self.mark, &self.log)?;
        self.status = None;
        self.crashed = false;
        launcher.note(&Entry::Process(self.leader()))?;
        self.await_ready(launcher)
    }

    /// Pauses all processes of the part (SIGSTOP): the kernel still accepts connections, but no process responds.
    pub fn stall(&self) {
        self.signal_all(Signal::STOP);
    }

    /// Resumes all processes of the part after [`Running::stall`].
    pub fn go_on(&self) {
        self.signal_all(Signal::CONT);
    }

    /// The error if the part has run out of memory or exited since its start; `None` if it runs, or was killed by
    /// [`Running::crash`].
    pub fn failure(&mut self) -> Option<RigError> {
        if self.crashed {
            return None;
        }
        let part = self.spec.name.clone();
        let status = self.exit_status();
        if self.started.is_out_of_memory(matches!(status, Ok(Some(_)))) {
            let limit_bytes = self.spec.limits.memory_bytes;
            return Some(RigError::OutOfMemory { part, limit_bytes, log_tail: self.log_tail() });
        }
        let status = match status {
            Ok(status) => status?,
            Err(error) => return Some(error),
        };
        let log_tail = self.log_tail();
        if disk_is_full(&log_tail, &self.spec.dir) {
            return Some(RigError::DiskFull { place: part, log_tail });
        }
        let left = self.started.living(&self.mark);
        if status.success() && !left.is_empty() {
            return Some(RigError::Background { part, pids: left, log_tail });
        }
        Some(RigError::Died { part, status: status.to_string(), log_tail })
    }

    /// Sends SIGTERM to the first process, waits up to `grace` until it exits, and kills all remaining processes of the
    /// part.
    pub fn stop(mut self, grace: Duration) {
        if self.status.is_none() {
            self.ask_to_exit();
            let _ = self.wait(grace);
        }
        self.end();
    }

    /// Sends SIGTERM to the first process of the part, without waiting.
    pub fn ask_to_exit(&self) {
        self.signal(Signal::TERM);
    }

    /// The end of the part's log.
    pub fn log_tail(&self) -> String {
        logs::tail(&self.spec.log)
    }

    /// The cgroup of the part, if it has one.
    pub(crate) fn group(&self) -> Option<&Group> {
        self.started.group.as_ref()
    }

    /// Whether the part runs in a container, which gets a new cgroup at each start.
    pub(crate) fn is_in_container(&self) -> bool {
        self.started.container.is_some()
    }

    pub(crate) fn namespace(&self) -> Option<&Namespace> {
        self.spec.namespace.as_ref()
    }

    pub(crate) fn leader(&self) -> ProcessId {
        self.started.leader
    }

    pub(crate) fn limit_cpus(&self) -> Option<f64> {
        self.spec.limits.cpus
    }

    /// When weir began to start the part, before the part used any resources; `CLOCK_MONOTONIC` in nanoseconds.
    pub fn launched_ns(&self) -> u64 {
        self.started.launched_ns
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.started.leader.pid) {
            let _ = kill_process(pid, signal);
        }
    }

    fn signal_all(&self, signal: Signal) {
        for pid in self.started.living(&self.mark).into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }

    fn exit_status(&mut self) -> Result<Option<ExitStatus>, RigError> {
        if self.status.is_none() {
            self.status =
                self.started.exit_status().map_err(|error| RigError::file(&self.spec.name, error))?;
        }
        Ok(self.status)
    }

    fn await_ready(&mut self, launcher: &Launcher) -> Result<(), RigError> {
        let started = Instant::now();
        let mut watch = WrongAddressWatch::new(readiness::addresses(&self.spec));
        loop {
            // A part without a readiness check is ready at once, even if it has already exited.
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
            if is_over || watch.is_settled(|| self.started.living(&self.mark)) {
                let part = self.spec.name.clone();
                let last = format!("{last}{}", self.where_it_listens());
                return Err(RigError::NeverReady { part, waited, last, log_tail: self.log_tail() });
            }
            thread::sleep((waited / READY_POLL_SHARE).clamp(READY_POLL_MIN, READY_POLL_MAX));
        }
    }

    /// The error for a port that another process has taken since weir checked the ports. `None` if a process of the
    /// part still runs, or if no port is taken.
    fn port_taken(&self) -> Option<RigError> {
        if !self.started.living(&self.mark).is_empty() {
            return None;
        }
        let (name, namespace) = (&self.spec.name, self.spec.namespace.as_ref());
        let taken = |address: &SocketAddr| ports::require_free(name, namespace, *address).err();
        self.spec.listens.iter().filter_map(taken).find(|error| error.cause() == "port-taken")
    }

    /// The addresses on which the part listens, as a suffix for an error; empty if there are none.
    fn where_it_listens(&self) -> String {
        let addresses = ports::listened_on(&self.started.living(&self.mark));
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
        self.started.end(&self.mark);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

fn disk_is_full(log_tail: &str, directory: &Path) -> bool {
    let none_left = rustix::fs::statvfs(directory).is_ok_and(|disk| disk.f_bavail == 0);
    // Programs in Go print this message in lower case.
    none_left || log_tail.to_ascii_lowercase().contains("no space left on device")
}
