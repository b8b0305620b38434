//! Why a load could not be driven, and whose fault that is.

use std::io;
use std::path::PathBuf;

use weir_document::Problem;

/// A load that could not be driven. What a peer does wrong during the load is no error but a count.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The specification contradicts itself or asks for the impossible: the caller's fault. The place is the field.
    #[error("{0}")]
    Invalid(Problem<&'static str>),
    /// The host's name does not resolve: the caller's or the environment's fault.
    #[error("{connect}: cannot resolve the host name: {source}")]
    Resolve {
        /// `host:port` as asked.
        connect: String,
        /// What the resolver says.
        source: io::Error,
    },
    /// The Unix socket cannot be connected to: the caller's or the environment's fault.
    #[error("unix:{}: cannot connect: {source}", path.display())]
    Socket {
        /// The socket's path.
        path: PathBuf,
        /// What is wrong with it.
        source: io::Error,
    },
    /// The process may not open as many files as there are connections: the environment's fault.
    #[error("{connections} connections need {needed} open files, but the limit of this process is {limit}")]
    OpenFiles {
        /// Connections asked for.
        connections: u32,
        /// Files needed for them.
        needed: u64,
        /// Files that the process may open.
        limit: u64,
    },
    /// The host has no port, descriptor or memory left for another connection: the environment's fault.
    #[error("this host cannot open another connection: {0}")]
    Exhausted(io::Error),
    /// The load was not ready at its planned start: the fault of whoever planned it, or of a slow server.
    #[error("cannot start at the planned time: the load was ready {:.1} ms after it", *late_ns as f64 / 1e6)]
    Late {
        /// Time between the planned start and the moment at which the load could have started.
        late_ns: u64,
    },
    /// The times of requests could not be written: the environment's fault.
    #[error("{}: cannot write the request times: {source}", path.display())]
    Trace {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A worker thread could not start: the environment's fault.
    #[error("worker {worker} could not start: {source}")]
    Worker {
        /// Which worker.
        worker: u32,
        /// What the system says.
        source: io::Error,
    },
    /// A worker thread panicked: our fault.
    #[error("worker {worker} panicked; this is a bug in weir")]
    Panicked {
        /// Which worker.
        worker: u32,
    },
}

pub(crate) fn not_base64(error: &base64::DecodeError) -> EngineError {
    let message = format!("the body is not base64: {error}");
    EngineError::Invalid(Problem::new(message, "encode the body as base64, or give it as text").at("body"))
}

impl EngineError {
    /// What to do about it.
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
                "use fewer connections, or raise the limits of the host for ports and open files"
            }
            Self::Late { .. } => "plan the start later, so that all connections are open by then",
            Self::Worker { .. } => "use fewer workers, or free memory, threads and open files",
            Self::Trace { .. } => "use a writable path on a disk with free space",
            Self::Panicked { .. } => "report the bug with the message of the panic",
        }
    }
}
