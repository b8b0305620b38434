//! Errors of a load and their causes.

use std::io;
use std::path::PathBuf;

use weir_document::Problem;

/// An error that prevents a load from running. Errors of servers during the load are counted in its record instead.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The specification is invalid: an error of the caller. The place of the problem is the name of the field.
    #[error("{0}")]
    Invalid(Problem<&'static str>),
    /// The host name does not resolve: an error of the caller or the environment.
    #[error("{connect}: cannot resolve the host name: {source}")]
    Resolve {
        /// `host:port` as configured.
        connect: String,
        /// Error of the resolver.
        source: io::Error,
    },
    /// The engine cannot use the Unix socket: an error of the caller or the environment.
    #[error("unix:{}: cannot connect: {source}", path.display())]
    Socket {
        /// Path of the socket.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The limit of open files is too low for the number of connections: an error of the environment.
    #[error("{connections} connections need {needed} open files, but the limit of this process is {limit}")]
    OpenFiles {
        /// Number of connections of the load.
        connections: u32,
        /// Number of open files that the load needs.
        needed: u64,
        /// Maximum number of open files of this process.
        limit: u64,
    },
    /// The host has no port, descriptor or memory left for another connection: an error of the environment.
    #[error("the load generator cannot open another connection: {0}")]
    Exhausted(io::Error),
    /// Connections were not open at the planned start: the start was planned too early, or a server was slow.
    #[error("cannot start at the planned time: the load was ready {:.1} ms too late", *late_ns as f64 / 1e6)]
    Late {
        /// Time in nanoseconds from the planned start until the load could have started.
        late_ns: u64,
    },
    /// The file of send times could not be written: an error of the environment.
    #[error("{}: cannot write the request times: {source}", path.display())]
    Trace {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A worker thread could not start: an error of the environment.
    #[error("worker {worker} could not start: {source}")]
    Worker {
        /// Index of the worker.
        worker: u32,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A worker thread panicked: a bug in weir.
    #[error("worker {worker} panicked; this is a bug in weir")]
    Panicked {
        /// Index of the worker.
        worker: u32,
    },
}

pub(crate) fn not_base64(error: &base64::DecodeError) -> EngineError {
    let message = format!("the body is not base64: {error}");
    EngineError::Invalid(Problem::new(message, "encode the body as base64, or give it as text").at("body"))
}

impl EngineError {
    /// What the user can do about the error.
    pub fn remedy(&self) -> &str {
        match self {
            Self::Invalid(problem) => &problem.remedy,
            Self::Resolve { .. } => "check the name and the DNS server, or give an IP address",
            Self::Socket { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied => "run weir as a user that may write to the socket",
                _ => "start the server first, or correct the path",
            },
            Self::OpenFiles { .. } => "use fewer connections, or raise the limit with `ulimit -n`",
            Self::Exhausted(_) => {
                "use fewer connections, or raise `ulimit -n` or net.ipv4.ip_local_port_range on the generator's host"
            }
            Self::Late { .. } => "plan the start later, so that all connections are open by then",
            Self::Worker { .. } => {
                "use fewer workers, or stop other programs that use memory, threads or open files"
            }
            Self::Trace { .. } => "use a writable path on a disk with free space",
            Self::Panicked { .. } => "report the bug, and include the panic message",
        }
    }
}
