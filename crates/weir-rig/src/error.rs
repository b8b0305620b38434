//! Errors of the rig, each with cause and remedy. [`RigError::is_wrong_use`] separates wrong user input from problems
//! of the environment.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_document::{Position, Problem, Size};

use crate::holder::{Holder, Occupant};

/// An error of the rig.
#[derive(Debug, thiserror::Error)]
pub enum RigError {
    /// No driver has this name.
    #[error("unknown driver `{name}`")]
    UnknownDriver {
        /// The requested name.
        name: String,
        /// The names of all drivers.
        known: Vec<String>,
        /// The known name that is most similar to the requested one.
        nearest: Option<String>,
    },
    /// A driver.yaml that cannot be read.
    #[error(transparent)]
    Document(#[from] Problem<Position>),
    /// A driver uses something that is not supported yet.
    #[error("{place}: {what} is not supported yet")]
    NotYetServed {
        /// The driver's file.
        place: String,
        /// The unsupported setting.
        what: String,
    },
    /// A driver is inconsistent, or a setting is unknown. The message names the driver's file, or the gateway in the
    /// scenario.
    #[error("{0}")]
    Driver(Problem),
    /// A template that cannot be rendered.
    #[error("{place}: {message}")]
    Render {
        /// The template, with its line if known.
        place: String,
        /// What is wrong with the template.
        message: String,
    },
    /// The program of a part is not on this host.
    #[error("{part}: program `{binary}` not found")]
    BinaryMissing {
        /// The part or driver.
        part: String,
        /// The name or path of the program that was not found.
        binary: String,
        /// How to install the program.
        get: String,
    },
    /// No container engine of this host responds.
    #[error("{part}: no container engine responds: {why}")]
    EngineMissing {
        /// The part or driver.
        part: String,
        /// The error of each engine that was tried.
        why: String,
    },
    /// A container image that cannot be used.
    #[error("{part}: {message}")]
    Image {
        /// The part or driver.
        part: String,
        /// What is wrong with the image.
        message: String,
        /// The remedy.
        remedy: String,
    },
    /// A port that a part must listen on is taken.
    #[error("{part}: port {address} is in use{}", held_by(holder))]
    PortTaken {
        /// The part.
        part: String,
        /// The address on which the part must listen.
        address: SocketAddr,
        /// The process that listens there, if known.
        holder: Option<Holder>,
    },
    /// A part exited before weir stopped it.
    #[error("{part} exited unexpectedly: {status}")]
    Died {
        /// The part.
        part: String,
        /// Exit status or signal.
        status: String,
        /// The end of the part's log.
        log_tail: String,
    },
    /// A part exited successfully, and left processes running in the background.
    #[error("{part} moved to the background: its process exited and left {} running", processes(pids))]
    Background {
        /// The part.
        part: String,
        /// The processes that still run.
        pids: Vec<i32>,
        /// The end of the part's log.
        log_tail: String,
    },
    /// A part that did not become ready.
    #[error("{part} was not ready after {waited:?}: {last}")]
    NeverReady {
        /// The part.
        part: String,
        /// How long the rig waited.
        waited: Duration,
        /// The result of the last readiness check.
        last: String,
        /// The end of the part's log.
        log_tail: String,
    },
    /// The kernel killed a process of the part because memory ran out.
    #[error("{part} was killed: out of memory{}", limited_to(limit_bytes))]
    OutOfMemory {
        /// The part.
        part: String,
        /// The memory limit of the part, if it has one.
        limit_bytes: Option<u64>,
        /// The end of the part's log.
        log_tail: String,
    },
    /// No space is left on the device.
    #[error("{place}: no space left on device")]
    DiskFull {
        /// The file that could not be written, or the part that could not write.
        place: String,
        /// The end of the part's log; empty if no part reported the error.
        log_tail: String,
    },
    /// A process could not be started.
    #[error("cannot start {part}: {message}")]
    Launch {
        /// The part.
        part: String,
        /// The reason.
        message: String,
    },
    /// Another run of weir holds this host.
    #[error("this host is in use by {}", describe_holder(occupant, holder))]
    HostBusy {
        /// The other run, if known.
        occupant: Option<Occupant>,
        /// If another user's run holds this host: the process of that run, if found. `occupant` is then `None`.
        holder: Option<Holder>,
    },
    /// A gateway's own counters could not be read.
    #[error("cannot read the counters at {place}: {message}")]
    Counters {
        /// The address and path of the request, or the metric.
        place: String,
        /// Why the counters cannot be read.
        message: String,
    },
    /// A Prometheus server could not be used.
    #[error("{place}: {message}")]
    Prometheus {
        /// The URL of the Prometheus server, or the file with its CA or credentials.
        place: String,
        /// What is wrong.
        message: String,
        /// The remedy.
        remedy: String,
        /// Whether the user's settings are wrong. If false, the Prometheus server is unavailable or fails.
        is_wrong_use: bool,
    },
    /// A network namespace or a link could not be created or entered.
    #[error("network namespaces: {message}")]
    Network {
        /// What failed, and why.
        message: String,
    },
    /// A file or folder of the rig could not be used.
    #[error("{path}: {source}")]
    File {
        /// The path of the file or folder.
        path: PathBuf,
        /// The error that the system reports.
        source: io::Error,
    },
}

impl RigError {
    /// Wraps `source`, an I/O error at `path`. A full disk becomes [`RigError::DiskFull`].
    pub(crate) fn file(path: impl AsRef<Path>, source: io::Error) -> Self {
        let path = path.as_ref();
        if source.kind() == io::ErrorKind::StorageFull {
            return Self::DiskFull { place: path.display().to_string(), log_tail: String::new() };
        }
        Self::File { path: path.to_owned(), source }
    }

    /// The cause of the failure, one of the values that `CellOutcome::Failed` allows.
    pub fn cause(&self) -> &'static str {
        match self {
            Self::PortTaken { .. } => "port-taken",
            Self::BinaryMissing { .. } | Self::EngineMissing { .. } | Self::Image { .. } => "binary-missing",
            Self::Died { .. } | Self::Background { .. } => "died",
            Self::NeverReady { .. } => "never-ready",
            Self::OutOfMemory { .. } => "out-of-memory",
            Self::DiskFull { .. } => "disk-full",
            Self::UnknownDriver { .. }
            | Self::Document(_)
            | Self::NotYetServed { .. }
            | Self::Driver(_)
            | Self::Render { .. } => "render",
            Self::Launch { .. }
            | Self::HostBusy { .. }
            | Self::Counters { .. }
            | Self::Prometheus { .. }
            | Self::Network { .. }
            | Self::File { .. } => "launch",
        }
    }

    /// Whether the user's input is wrong (a driver, a template, a setting, a selector). If false, the problem is in the
    /// environment.
    pub fn is_wrong_use(&self) -> bool {
        self.cause() == "render" || matches!(self, Self::Prometheus { is_wrong_use: true, .. })
    }

    /// What the user can do about the error.
    pub fn remedy(&self) -> String {
        match self {
            Self::UnknownDriver { known, nearest, .. } => match nearest {
                Some(nearest) => format!("did you mean `{nearest}`? Known drivers: {}", known.join(", ")),
                None => format!("known drivers: {}", known.join(", ")),
            },
            Self::Document(error) => error.remedy.clone(),
            Self::NotYetServed { .. } => "remove this step or setting; a later version of weir may support it".into(),
            Self::Driver(problem) => problem.remedy.clone(),
            Self::Prometheus { remedy, .. } => remedy.clone(),
            Self::Render { .. } => "correct the template; docs/drivers.md lists the template values".into(),
            Self::BinaryMissing { get, .. } => get.clone(),
            Self::EngineMissing { .. } => {
                "install and start Docker or Podman, or install the program; `weir doctor` lists the programs and the container engine that it finds on this host".into()
            }
            Self::Image { remedy, .. } => remedy.clone(),
            Self::PortTaken { holder: Some(holder), .. } => {
                format!("stop {holder}, or choose another address")
            }
            Self::PortTaken { .. } => "stop the process that listens on this port, or choose another address".into(),
            Self::Died { part, .. } => {
                format!("see the log of {part}; to see the configuration and the command of {part}, run `weir render`")
            }
            Self::Background { part, .. } => format!(
                "run {part} in the foreground (`daemon off` or similar): weir limits, samples and stops only the process \
                 that it started"
            ),
            Self::NeverReady { part, .. } => format!(
                "see the log of {part}; if it starts slowly, set a longer `ready_timeout` in its driver.yaml or service.yaml"
            ),
            Self::OutOfMemory { part, limit_bytes: Some(_), .. } => {
                format!("raise the memory limit of {part} in the scenario, or use a smaller load or topology")
            }
            Self::OutOfMemory { .. } => "free memory on this host, or use a smaller load or topology".into(),
            Self::DiskFull { .. } => "free up disk space, or set TMPDIR to a directory on another disk".into(),
            Self::Launch { .. } => "`weir doctor` reports what this host allows".into(),
            Self::HostBusy { .. } => {
                "wait until that run ends, or interrupt it and resume it later: concurrent runs on one host distort \
                 results"
                    .into()
            }
            Self::Network { .. } => {
                "run weir as root, or use `network: loopback`; `weir doctor` reports what this host allows"
                    .into()
            }
            Self::Counters { .. } => "correct the address, path or parser in `counters` of the driver".into(),
            Self::File { .. } => "check that the path exists, and that weir may read and write it".into(),
        }
    }

    /// The end of the failed part's log; empty for errors without a log.
    pub fn log_tail(&self) -> &str {
        match self {
            Self::Died { log_tail, .. }
            | Self::Background { log_tail, .. }
            | Self::NeverReady { log_tail, .. }
            | Self::OutOfMemory { log_tail, .. }
            | Self::DiskFull { log_tail, .. } => log_tail,
            _ => "",
        }
    }
}

fn held_by(holder: &Option<Holder>) -> String {
    holder.as_ref().map(|holder| format!(" by {holder}")).unwrap_or_default()
}

fn limited_to(limit_bytes: &Option<u64>) -> String {
    limit_bytes.map(|bytes| format!(" (limit: {})", Size(bytes))).unwrap_or_default()
}

fn describe_holder(occupant: &Option<Occupant>, holder: &Option<Holder>) -> String {
    occupant.as_ref().map_or_else(|| format!("another run{}", held_by(holder)), Occupant::to_string)
}

fn processes(pids: &[i32]) -> String {
    let noun = weir_results::words::plural(pids.len() as u64, "process");
    let pids: Vec<String> = pids.iter().map(i32::to_string).collect();
    format!("{noun} {}", pids.join(", "))
}
