//! Why an origin failed to start or failed while running.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use thiserror::Error;

/// Why an origin failed to start or failed while running.
#[derive(Debug, Error)]
pub enum OriginError {
    /// Another process listens on the address. Caused by the environment.
    #[error("cannot listen on {address}: another process listens there")]
    AddressTaken {
        /// The address.
        address: SocketAddr,
    },
    /// The address cannot be used for another reason. Caused by the environment or the caller.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system error.
        source: io::Error,
    },
    /// No thread or file descriptor is left. Caused by the environment.
    #[error("cannot start a worker: {0}")]
    Worker(#[source] io::Error),
    /// The number of workers is zero. Caused by the caller.
    #[error("an origin needs at least one worker")]
    NoWorkers,
    /// A share is not between 0 and 1. Caused by the caller.
    #[error("a share of requests lies between 0 and 1, not at {share}")]
    Share {
        /// The invalid share.
        share: f64,
    },
    /// The shares exceed all requests. Caused by the caller.
    #[error("errors, resets, half, slow and refuse are together {}% of the requests", sum * 100.0)]
    Shares {
        /// The sum of the shares.
        sum: f64,
    },
    /// Delay and service are both set. Caused by the caller.
    #[error("an origin has a delay or a service, not both")]
    DelayAndService,
    /// Too many servers. Caused by the caller.
    #[error("{servers} servers are more than {most}")]
    Servers {
        /// The requested number.
        servers: usize,
        /// The maximum.
        most: usize,
    },
    /// HTTP/2 options are set, but HTTP/2 is off. Caused by the caller.
    #[error("goaway, max-streams and refuse are HTTP/2's, and only HTTP/1.1 was asked for")]
    Http2Off,
    /// A given certificate or key file cannot be used. Caused by the caller.
    #[error("cannot use `{}`: {cause}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: String,
    },
    /// No certificate can be generated for these names. Caused by the caller.
    #[error("cannot make a certificate: {0}")]
    MakeCertificate(String),
    /// A worker panicked. A bug in this program.
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

    /// Whether the specification is wrong, as opposed to the environment or this program.
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

    /// Returns what the user can do about the error.
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
