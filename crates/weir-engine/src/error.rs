//! Why a load could not be driven, and whose fault that is.

use std::io;
use std::path::PathBuf;

/// A load that could not be driven. What a peer does wrong during the load is no error but a count.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The specification asks for something that makes no sense: the caller's fault.
    #[error("{field}: {message}")]
    Invalid {
        /// The field of the specification.
        field: &'static str,
        /// What is wrong with it, and what would be right.
        message: String,
    },
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
    #[error("this host has nothing left for another connection: {0}")]
    Exhausted(io::Error),
    /// The times of requests could not be written: the environment's fault.
    #[error("{}: cannot write it: {source}", path.display())]
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
    #[error("worker {worker} ended in a panic; this is a defect of weir")]
    Panicked {
        /// Which worker.
        worker: u32,
    },
}

impl EngineError {
    /// What to do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "correct the value",
            Self::Resolve { .. } => "check the name and the DNS server, or give an IP address",
            Self::Socket { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied => "run weir as a user that may write to the socket",
                _ => "start the server first, or correct the path",
            },
            Self::OpenFiles { .. } => "ask for fewer connections, or raise the limit with `ulimit -n`",
            Self::Exhausted(_) => "ask for fewer connections, or give the host more ports and open files",
            Self::Worker { .. } => "ask for fewer workers, or free memory, threads and open files",
            Self::Trace { .. } => "name a file that can be written, on a disk with room",
            Self::Panicked { .. } => "report it with the panic's message",
        }
    }
}
