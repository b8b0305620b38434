//! Uses the program of a container engine to create, start, inspect and remove the container of a part.

use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{getegid, geteuid, getpid};

use super::process::ProcessSpec;
use super::spawn::Birth;
use super::start::{LimitedBy, Started, leader_of};
use super::{Launcher, logs};
use crate::RigError;
use crate::cleanup::ledger::Entry;
use crate::cleanup::{MARK_VARIABLE, ProcessId};
use crate::clock::mono_ns;
use crate::engine::daemon::RUN_LABEL;
use crate::engine::{EngineKind, Image, complaint, open_files};
use crate::limits::{Group, GroupParent, hierarchy};

/// How long an engine may take to start a container.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const START_POLL: Duration = Duration::from_millis(10);
/// How long an engine may take to report the exit of a container whose process is gone. A busy engine takes seconds.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

impl Started {
    /// Starts a part in a container of `image`. The engine sets the limits. weir finds the container's cgroup through
    /// its first process.
    pub(super) fn in_container(
        launcher: &Launcher,
        spec: &ProcessSpec,
        image: &Image,
        mark: &str,
        log: &File,
    ) -> Result<Self, RigError> {
        if spec.namespace.is_some() {
            image.engine().check_namespaces(&spec.name)?;
        }
        launcher.note(&Entry::Containers { engine: image.engine().daemon(), run: launcher.mark.clone() })?;
        let parent = launcher.groups.as_ref().ok().filter(|_| image.engine().makes_groups());
        match (parent, &launcher.groups) {
            (Some(parent), _) => {
                // Engines create cgroups in every hierarchy, even if weir does not use it, and leave the parent cgroups
                // behind. Add the parents to the ledger now, before their children, so that the cleanup removes the
                // parents last.
                let own = parent.directories(None);
                let all = hierarchy::all_roots().into_iter().map(|root| root.join(parent.path()));
                launcher.note(&Entry::Groups(all.filter(|directory| !own.contains(directory)).collect()))?;
            }
            // The container's cgroup is outside the run's cgroup, which contains the load generator and the upstream.
            // So the run's cgroup gets priority over the container.
            (None, Ok(groups)) => groups.put_first(),
            (None, Err(_)) => {}
        }
        let folder = if spec.dir.starts_with(&launcher.work_dir) { &launcher.work_dir } else { &spec.dir };
        let parent = parent.map(GroupParent::path);
        let launched_ns = mono_ns();
        let container = Container::make(&Wanted { spec, image, run: &launcher.mark, mark, folder, parent })?;
        let mut start = container.start();
        let attached = (|| {
            start.stdout(log.try_clone()?).stderr(log.try_clone()?).stdin(Stdio::null());
            launcher.spawner.spawn(start, Birth::default())
        })();
        let child = match attached {
            Ok(child) => child,
            Err(error) => {
                container.remove();
                return Err(RigError::Launch { part: spec.name.clone(), message: error.to_string() });
            }
        };
        let leader = leader_of(&child);
        let mut started = Self {
            child,
            leader,
            group: None,
            limited_by: LimitedBy::Nothing,
            launched_ns,
            pinned: None,
            container: Some(container),
        };
        let found = launcher.note(&Entry::Process(leader)).and_then(|()| started.find(launcher, spec));
        match found {
            Ok(()) => Ok(started),
            Err(error) => {
                started.end(mark);
                Err(error)
            }
        }
    }

    /// Waits until the container has started, and finds its first process and its cgroup on this host.
    fn find(&mut self, launcher: &Launcher, spec: &ProcessSpec) -> Result<(), RigError> {
        let Some(container) = &self.container else { return Ok(()) };
        let failed = |message: String| RigError::Launch { part: spec.name.clone(), message };
        let begun = Instant::now();
        let pid = loop {
            let has_ended = self.child.try_wait().map_err(|error| failed(error.to_string()))?.is_some();
            match container.state() {
                Some(State::Running(pid)) => break pid,
                // The container has started and already exited; the readiness check reports that.
                Some(State::Exited { .. }) => return Ok(()),
                _ if has_ended => {
                    let said = logs::tail(&spec.log);
                    return Err(failed(first_line(&said).to_owned()));
                }
                _ if begun.elapsed() > START_TIMEOUT => {
                    return Err(failed(format!("the container did not start within {START_TIMEOUT:?}")));
                }
                _ => thread::sleep(START_POLL),
            }
        };
        let Some(leader) = ProcessId::of(pid) else {
            let begun = Instant::now();
            while begun.elapsed() < EXIT_TIMEOUT {
                if matches!(container.state(), Some(State::Exited { .. })) {
                    return Ok(());
                }
                thread::sleep(START_POLL);
            }
            let message = "the container engine runs on another machine; weir can measure only containers on this \
                           host";
            return Err(failed(message.into()));
        };
        self.leader = leader;
        self.group = Group::of_container(pid, &container.id);
        if let Some(group) = &self.group {
            launcher.note(&Entry::Groups(group.directories.clone()))?;
            if group.has(&spec.limits) {
                self.limited_by = LimitedBy::Cgroup(group.version);
            }
        }
        Ok(())
    }

    /// The exit status of the part; `None` while it runs. Does not wait for the exit.
    ///
    /// `docker` or `podman` usually exits with its container. If it still runs [`EXIT_TIMEOUT`] later, it is killed, and
    /// the status is the one that the engine reports.
    pub(super) fn exit_status(&mut self) -> io::Result<Option<ExitStatus>> {
        let status = self.child.try_wait()?;
        let Some(container) = self.container.as_mut().filter(|_| status.is_none()) else { return Ok(status) };
        let is_unknown = self.leader.pid == self.child.id() as i32;
        if self.leader.is_alive() && !is_unknown {
            return Ok(None);
        }
        match container.exited {
            None => {
                if let Some(State::Exited { code, .. }) = container.state() {
                    container.exited = Some((Instant::now(), code));
                }
                Ok(None)
            }
            // The program may still forward the last output of the container.
            Some((seen, _)) if seen.elapsed() < EXIT_TIMEOUT => Ok(None),
            Some((_, code)) => {
                self.child.kill()?;
                self.child.wait()?;
                Ok(Some(ExitStatus::from_raw(code << 8)))
            }
        }
    }

    /// Waits until the killed part has exited. Kills `docker` or `podman` if it does not exit within [`EXIT_TIMEOUT`].
    pub(super) fn reap(&mut self) -> Option<ExitStatus> {
        let begun = Instant::now();
        while self.container.is_some() && begun.elapsed() < EXIT_TIMEOUT {
            if let Some(status) = self.child.try_wait().ok()? {
                return Some(status);
            }
            thread::sleep(START_POLL);
        }
        if self.container.is_some() {
            let _ = self.child.kill();
        }
        self.child.wait().ok()
    }

    /// Whether the kernel killed a process of the part because memory ran out. `has_ended`: the part has exited.
    pub(super) fn is_out_of_memory(&self, has_ended: bool) -> bool {
        if self.group.as_ref().and_then(Group::oom_kills).is_some_and(|kills| kills > 0) {
            return true;
        }
        // When a container exits, its cgroup is removed, but the engine still reports whether memory ran out.
        let state = || self.container.as_ref().and_then(Container::state);
        has_ended && matches!(state(), Some(State::Exited { out_of_memory: true, .. }))
    }
}

/// The first non-empty line of `text`, or a general message if there is none.
fn first_line(text: &str) -> &str {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("the container did not start")
}

/// The specification of a container.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) spec: &'a ProcessSpec,
    pub(crate) image: &'a Image,
    /// The value of the container label [`RUN_LABEL`], which names the run.
    pub(crate) run: &'a str,
    /// The mark of the part, which all its processes have in their environment (`WEIR_RUN_PART`).
    pub(crate) mark: &'a str,
    /// The host folder that is mounted in the container, at the same path.
    pub(crate) folder: &'a Path,
    /// The cgroup below which the engine creates the container's cgroup, relative to the root of each hierarchy;
    /// `None` if the engine chooses.
    pub(crate) parent: Option<&'a Path>,
}

/// The container of a part.
#[derive(Debug)]
pub(crate) struct Container {
    image: Image,
    name: String,
    /// The container ID. It is part of the names of the container's cgroups.
    pub(crate) id: String,
    /// When weir first saw that the container had exited, and the exit code.
    exited: Option<(Instant, i32)>,
}

/// The state of a container, as reported by the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The container was created, but its process does not run yet.
    Made,
    /// The container runs. The number is the process ID of its first process on this host.
    Running(i32),
    /// The process of the container has exited with `code`. `out_of_memory`: the kernel killed it because memory ran
    /// out.
    Exited { code: i32, out_of_memory: bool },
}

impl Container {
    /// Creates the container without starting it.
    pub(crate) fn make(wanted: &Wanted<'_>) -> Result<Self, RigError> {
        let (spec, image) = (wanted.spec, wanted.image);
        let failed = |message: String| RigError::Launch { part: spec.name.clone(), message };
        let name = name_of(wanted);
        let answer = image.engine().ask(&create(wanted, &name)).map_err(|error| failed(error.to_string()))?;
        if !answer.status.success() {
            return Err(failed(format!("{}: {}", image.engine(), complaint(&answer.errors))));
        }
        let id = answer.output.lines().next_back().unwrap_or_default().trim().to_owned();
        Ok(Self { image: image.clone(), name, id, exited: None })
    }

    /// The command that starts the container, forwards its output, and exits with the container's exit code.
    pub(crate) fn start(&self) -> Command {
        self.image.engine().command(&["start", "--attach", &self.name])
    }

    pub(crate) fn state(&self) -> Option<State> {
        let format = "{{.State.Pid}} {{.State.Status}} {{.State.OOMKilled}} {{.State.ExitCode}}";
        let answer =
            self.image.engine().ask(&["container", "inspect", "--format", format, &self.name]).ok()?;
        read_state(&answer.output)
    }

    /// Kills the container's processes and removes the container. If that fails, the cleanup of the run removes it.
    pub(crate) fn remove(&self) {
        let _ = self.image.engine().ask(&["rm", "--force", "--volumes", &self.name]);
    }
}

fn read_state(text: &str) -> Option<State> {
    let mut words = text.split_whitespace();
    let (pid, status, out_of_memory) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
    let code = words.next()?.parse().ok()?;
    Some(match (pid, status) {
        (1.., _) => State::Running(pid),
        // With any other status, the container has not started yet: `created`, and in Podman also `configured` or
        // `initialized`.
        (_, "exited" | "stopped" | "dead" | "removing") => {
            State::Exited { code, out_of_memory: out_of_memory == "true" }
        }
        _ => State::Made,
    })
}

/// The name of the container: `weir-`, the mark of the part, `-`, and the name of the part. Characters that engines do
/// not allow are replaced by `-`. The mark identifies the run.
fn name_of(wanted: &Wanted<'_>) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '-' };
    format!("weir-{}-{}", wanted.mark, wanted.spec.name).chars().map(plain).collect()
}

/// The arguments of the engine's program that create the container.
fn create(wanted: &Wanted<'_>, name: &str) -> Vec<String> {
    let Wanted { spec, image, run, mark, folder, parent } = wanted;
    let mut words = vec!["create".to_owned(), "--no-healthcheck".to_owned()];
    let mut add = |option: &str, value: String| words.extend([option.to_owned(), value]);
    add("--name", name.into());
    add("--label", format!("{RUN_LABEL}={run}"));
    // The engine has the image; a pull could get another image of the same name.
    add("--pull", "never".into());
    // The engine keeps no log. The output goes to the part's log file, whose size weir limits.
    add("--log-driver", "none".into());
    // On hosts with SELinux, the container can then access the folder mounted below, without new labels on the host's
    // files.
    add("--security-opt", "label=disable".into());
    add("--volume", format!("{0}:{0}", folder.display()));
    add("--workdir", spec.dir.display().to_string());
    add("--network", network(spec));
    let engine = image.engine();
    match (engine.is_rootless(), engine.kind()) {
        (true, EngineKind::Docker) => add("--user", "0:0".into()),
        (is_rootless, _) => {
            add("--user", format!("{}:{}", geteuid().as_raw(), getegid().as_raw()));
            if is_rootless {
                add("--userns", "keep-id".into());
            }
        }
    }
    let variables = spec.env.iter().map(|(name, value)| format!("{name}={value}"));
    for variable in variables.chain([format!("{MARK_VARIABLE}={mark}")]) {
        add("--env", variable);
    }
    add("--pids-limit", "-1".into());
    if let Some(cpus) = spec.limits.cpus {
        add("--cpus", cpus.to_string());
    }
    if let Some(bytes) = spec.limits.memory_bytes {
        add("--memory", format!("{bytes}b"));
        // Limits memory plus swap, as weir's own cgroups do: swapping would evade the memory limit.
        add("--memory-swap", format!("{bytes}b"));
    }
    if let Some(cpus) = &spec.cpus {
        let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
        add("--cpuset-cpus", cpus.join(","));
    }
    if let Some(parent) = parent {
        add("--cgroup-parent", PathBuf::from("/").join(parent).display().to_string());
    }
    let (program, arguments) =
        spec.command.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
    add("--entrypoint", program.into());
    words.extend(open_files());
    words.push(image.reference());
    words.extend(arguments.iter().cloned());
    words
}

/// The value of `--network`: the host's network, or the path of the part's namespace, which this process holds open.
fn network(spec: &ProcessSpec) -> String {
    match &spec.namespace {
        None => "host".into(),
        Some(namespace) => format!("ns:/proc/{}/fd/{}", getpid().as_raw_nonzero(), namespace.descriptor()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_containers_are_read() {
        assert_eq!(read_state("0 created false 0\n"), Some(State::Made));
        assert_eq!(read_state("0 configured false 0\n"), Some(State::Made));
        assert_eq!(read_state("4711 running false 0\n"), Some(State::Running(4711)));
        assert_eq!(read_state("0 exited true 137\n"), Some(State::Exited { code: 137, out_of_memory: true }));
        assert_eq!(read_state("0 exited false 1\n"), Some(State::Exited { code: 1, out_of_memory: false }));
        assert_eq!(read_state("\n"), None);
    }
}
