//! Container engines (Docker, Podman). They run a part from an image if its program is not installed on this host.
//!
//! The engine starts the container; weir limits, samples, signals and stops its processes like other processes. See
//! docs/decisions/0025-images.md.

pub(crate) mod daemon;
mod image;

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

use crate::RigError;
use crate::ask::{Answer, ask};
use crate::host::is_executable;

use daemon::Daemon;
pub(crate) use image::open_files;
pub use image::{Image, ImageName};

/// Timeout of all engine commands except pulls.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// A kind of container engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// Docker.
    Docker,
    /// Podman.
    Podman,
}

/// A container engine that responds on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    kind: EngineKind,
    program: PathBuf,
    version: String,
    /// Whether the engine creates cgroups itself. If so, it can create them below weir's cgroup. Otherwise systemd
    /// creates them.
    makes_groups: bool,
    /// Whether the engine is rootless. If so, the root user of a container is the host user that runs the engine.
    is_rootless: bool,
}

/// Finds the container engine of this host. The search runs at the first use, and its result is kept.
#[derive(Debug, Default)]
pub struct Engines {
    wanted: Option<EngineKind>,
    found: OnceCell<Result<Engine, String>>,
}

impl EngineKind {
    const ALL: [Self; 2] = [Self::Docker, Self::Podman];

    /// The name of the engine's program.
    pub fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }
}

impl FromStr for EngineKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|kind| kind.name() == name);
        known.ok_or_else(|| format!("unknown engine `{name}`; use docker or podman"))
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.version)
    }
}

impl Engines {
    /// Searches for the engine `wanted`; `None` accepts any.
    pub fn new(wanted: Option<EngineKind>) -> Self {
        Self { wanted, found: OnceCell::new() }
    }

    /// The first engine that responds. If none responds, the error contains the reason for each engine.
    pub fn find(&self) -> Result<&Engine, &str> {
        let found = self.found.get_or_init(|| {
            let kinds =
                EngineKind::ALL.into_iter().filter(|kind| self.wanted.is_none_or(|wanted| wanted == *kind));
            let mut problems = Vec::new();
            for kind in kinds {
                match Engine::of(kind) {
                    Ok(engine) => return Ok(engine),
                    Err(problem) => problems.push(problem),
                }
            }
            Err(problems.join("; "))
        });
        found.as_ref().map_err(String::as_str)
    }

    /// Like [`Engines::find`], but the error names the part `part`.
    ///
    /// # Errors
    /// [`RigError::EngineMissing`] if no engine responds.
    pub fn engine(&self, part: &str) -> Result<&Engine, RigError> {
        self.find().map_err(|why| RigError::EngineMissing { part: part.into(), why: why.into() })
    }
}

impl Engine {
    fn of(kind: EngineKind) -> Result<Self, String> {
        let name = kind.name();
        let program = on_path(name).ok_or_else(|| format!("{name} is not on PATH"))?;
        // The program `docker` can be Podman.
        let shown = asked(&program, &["--version"]).map_err(|error| format!("{name}: {error}"))?;
        let kind = if shown.output.starts_with("podman") { EngineKind::Podman } else { kind };
        let format = match kind {
            EngineKind::Docker => "{{.ServerVersion}}|{{.CgroupDriver}}|{{json .SecurityOptions}}",
            EngineKind::Podman => "{{.Version.Version}}|{{.Host.CgroupManager}}|{{.Host.Security.Rootless}}",
        };
        let info =
            asked(&program, &["info", "--format", format]).map_err(|error| format!("{name}: {error}"))?;
        if !info.status.success() {
            return Err(format!("{name}: {}", complaint(&info.errors)));
        }
        let mut fields = info.output.trim().splitn(3, '|');
        let mut field = || fields.next().unwrap_or_default();
        let (version, driver, security) = (field().to_owned(), field(), field());
        if version.is_empty() {
            // Docker's client prints an empty version for a daemon that does not respond.
            return Err(format!("{name}: {}", complaint(&info.errors)));
        }
        let is_rootless = match kind {
            EngineKind::Docker => security.contains("name=rootless"),
            EngineKind::Podman => security == "true",
        };
        // Podman has no daemon; weir selects Podman's cgroup driver with a command-line option. If weir does not run as
        // root, systemd must create the cgroups.
        let is_root = rustix::process::geteuid().is_root();
        let makes_groups = is_root && (driver == "cgroupfs" || kind == EngineKind::Podman) && !is_rootless;
        Ok(Self { kind, program, version, makes_groups, is_rootless })
    }

    /// A command that runs the engine's program with `arguments`.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(&self.program);
        if self.kind == EngineKind::Podman && self.makes_groups {
            command.args(["--cgroup-manager", "cgroupfs"]);
        }
        command.args(arguments);
        command
    }

    pub(crate) fn ask<S: AsRef<OsStr>>(&self, arguments: &[S]) -> io::Result<Answer> {
        ask(self.command(arguments), ANSWER_TIMEOUT)
    }

    /// The engine's program and daemon. The ledger stores them, so that the guard can remove containers if this process
    /// is killed.
    pub(crate) fn daemon(&self) -> Daemon {
        Daemon::of(&self.program)
    }

    /// Whether this is Docker or Podman.
    pub(crate) fn kind(&self) -> EngineKind {
        self.kind
    }

    /// Whether the engine is rootless.
    pub(crate) fn is_rootless(&self) -> bool {
        self.is_rootless
    }

    /// Whether the engine can create a container's cgroup below weir's cgroup.
    pub(crate) fn makes_groups(&self) -> bool {
        self.makes_groups
    }

    /// Checks that the engine can run a container in a network namespace of weir. Only Podman as root can.
    ///
    /// # Errors
    /// [`RigError::Image`], which names `part`, for other engines.
    pub fn check_namespaces(&self, part: &str) -> Result<(), RigError> {
        match self.kind {
            EngineKind::Podman if self.makes_groups => Ok(()),
            kind => {
                let who = if kind == EngineKind::Docker { "docker" } else { "podman without root" };
                Err(RigError::Image {
                    part: part.into(),
                    message: format!("{who} cannot run a container in a network namespace that weir creates"),
                    remedy: "use `network: loopback`, or podman as root (`--engine podman`)".into(),
                })
            }
        }
    }
}

fn asked(program: &Path, arguments: &[&str]) -> io::Result<Answer> {
    let mut command = Command::new(program);
    command.args(arguments);
    ask(command, ANSWER_TIMEOUT)
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| is_executable(file))
}

/// Extracts the line with the error from the standard error of an engine, which also contains hints and warnings.
pub(crate) fn complaint(errors: &str) -> &str {
    let lines = || errors.lines().map(str::trim).filter(|line| !line.is_empty());
    let error = lines().rfind(|line| line.contains("rror"));
    error.or_else(|| lines().next_back()).unwrap_or("the engine failed without an error message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_engine_is_named() {
        assert_eq!("podman".parse(), Ok(EngineKind::Podman));
        assert!("lxc".parse::<EngineKind>().unwrap_err().contains("use docker or podman"));
        let said = "docker: Error response from daemon: x\n\nRun 'docker run --help' for more information\n";
        assert_eq!(complaint(said), "docker: Error response from daemon: x");
        assert_eq!(complaint("one\n\n  two \n\n"), "two");
        assert_eq!(complaint(" \n"), "the engine failed without an error message");
        let engines = Engines { wanted: None, found: Err("docker is not on PATH".to_owned()).into() };
        let error = engines.engine("nginx").unwrap_err();
        assert_eq!(error.to_string(), "nginx: no container engine responds: docker is not on PATH");
        assert_eq!(error.cause(), "binary-missing");
    }

    #[test]
    fn docker_cannot_join_a_network_namespace() {
        let engine = |kind, makes_groups| Engine {
            kind,
            program: "x".into(),
            version: "1".into(),
            makes_groups,
            is_rootless: !makes_groups,
        };
        let refused = engine(EngineKind::Docker, true).check_namespaces("nginx").unwrap_err();
        assert!(refused.remedy().contains("`network: loopback`"), "{}", refused.remedy());
        engine(EngineKind::Podman, true).check_namespaces("nginx").unwrap();
        engine(EngineKind::Podman, false).check_namespaces("nginx").unwrap_err();
    }
}
