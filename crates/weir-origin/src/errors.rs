//! Why an origin did not start or did not end well.

use std::io;
use std::net::SocketAddr;

use thiserror::Error;

/// Why an origin did not start or did not end well.
#[derive(Debug, Error)]
pub enum OriginError {
    /// Somebody listens there already: the environment's fault.
    #[error("cannot listen on {address}: another process listens there")]
    AddressTaken {
        /// Where.
        address: SocketAddr,
    },
    /// Another reason why the address is refused: the environment's fault, or that of who asked for it.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// No thread or no descriptor is left: the environment's fault.
    #[error("cannot start a worker: {0}")]
    Worker(#[source] io::Error),
    /// Asked for no worker: the caller's fault.
    #[error("an origin needs at least one worker")]
    NoWorkers,
    /// Asked for an impossible share: the caller's fault.
    #[error("a share of errors lies between 0 and 1, not at {share}")]
    ErrorShare {
        /// What was asked for.
        share: f64,
    },
    /// A worker broke off: our fault.
    #[error("a worker of the origin panicked")]
    Panicked,
}

impl OriginError {
    pub(crate) fn listen(address: SocketAddr, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::AddrInUse => Self::AddressTaken { address },
            _ => Self::Listen { address, source },
        }
    }

    /// What to do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::AddressTaken { .. } => {
                "end that process (`ss -ltnp` names it), or give another port; port 0 takes a free one"
            }
            Self::Listen { .. } => "give an address of this host, and a port above 1023 unless you are root",
            Self::Worker(_) => {
                "raise the limits of this user on threads and open files (`ulimit -u`, `ulimit -n`)"
            }
            Self::NoWorkers => "give 1 worker or more",
            Self::ErrorShare { .. } => "give a share like 0.1%",
            Self::Panicked => "report this as a bug, with the message above",
        }
    }
}
