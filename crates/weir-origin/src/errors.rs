//! Why an origin did not start or did not end well.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

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
    #[error("a share of requests lies between 0 and 1, not at {share}")]
    Share {
        /// What was asked for.
        share: f64,
    },
    /// Asked for more than all requests: the caller's fault.
    #[error("errors, resets, half, slow and refuse are together {}% of the requests", sum * 100.0)]
    Shares {
        /// The sum of the shares.
        sum: f64,
    },
    /// Asked for two times that exclude each other: the caller's fault.
    #[error("an origin has a delay or a service, not both")]
    DelayAndService,
    /// Asked for too many servers: the caller's fault.
    #[error("{servers} servers are more than {most}")]
    Servers {
        /// What was asked for.
        servers: usize,
        /// The most.
        most: usize,
    },
    /// Asked for something of HTTP/2 and for HTTP/1.1 alone: the caller's fault.
    #[error("goaway, max-streams and refuse are HTTP/2's, and only HTTP/1.1 was asked for")]
    Http2Off,
    /// A file of the certificate that was given: the fault of who gave it.
    #[error("cannot use `{}`: {cause}", path.display())]
    Certificate {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// A certificate cannot be made for these names: the caller's fault.
    #[error("cannot make a certificate: {0}")]
    MakeCertificate(String),
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

    /// Whether the specification is what is wrong, and not the environment or this program.
    pub fn is_wrong_use(&self) -> bool {
        match self {
            Self::NoWorkers
            | Self::Share { .. }
            | Self::Shares { .. }
            | Self::DelayAndService
            | Self::Servers { .. }
            | Self::Http2Off
            | Self::Certificate { .. }
            | Self::MakeCertificate(_) => true,
            Self::AddressTaken { .. } | Self::Listen { .. } | Self::Worker(_) | Self::Panicked => false,
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
            Self::Share { .. } => "give a share like 0.1%",
            Self::Shares { .. } => "make them 100% or less together: no request gets two of them",
            Self::DelayAndService => "leave one of them out; a delay is a service with servers without end",
            Self::Servers { .. } => "give fewer, or a delay, which is a service with servers without end",
            Self::Http2Off => "leave out either `http1-only` or what is HTTP/2's",
            Self::Certificate { .. } => {
                "give the certificate (and those above it) and its key, not encrypted, as two PEM files"
            }
            Self::MakeCertificate(_) => "give domains like api.example.com or *.example.com",
            Self::Panicked => "report this as a bug, with the message above",
        }
    }
}
