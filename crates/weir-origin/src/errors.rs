//! Why an origin failed to start or failed while running.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use thiserror::Error;

/// Why an origin failed to start or failed while running.
#[derive(Debug, Error)]
pub enum OriginError {
    /// Another process listens on the address: an error of the environment.
    #[error("cannot listen on {address}: another process listens there")]
    AddressTaken {
        /// The address to listen on.
        address: SocketAddr,
    },
    /// The address cannot be used for another reason: an error of the environment or the caller.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address to listen on.
        address: SocketAddr,
        /// Error of the operating system.
        source: io::Error,
    },
    /// No thread or file descriptor is left: an error of the environment.
    #[error("cannot start a worker: {0}")]
    Worker(#[source] io::Error),
    /// The number of workers is zero: an error of the caller.
    #[error("the origin needs at least one worker")]
    NoWorkers,
    /// A share is not between 0 and 1: an error of the caller.
    #[error("the share {share} is not between 0 and 1")]
    Share {
        /// The invalid share.
        share: f64,
    },
    /// The sum of the shares exceeds 1: an error of the caller.
    #[error("the shares of errors, resets, half, slow and refuse add up to {}%", sum * 100.0)]
    Shares {
        /// The sum of the shares.
        sum: f64,
    },
    /// Both a delay and a service time are set: an error of the caller.
    #[error("`delay` and `service` cannot be combined")]
    DelayAndService,
    /// The queue has too many servers: an error of the caller.
    #[error("{servers} servers exceed the maximum of {most}")]
    Servers {
        /// The requested number of servers.
        servers: usize,
        /// The maximum number of servers.
        most: usize,
    },
    /// HTTP/2 options are set, but HTTP/2 is disabled: an error of the caller.
    #[error("goaway, max-streams and refuse need HTTP/2, but `http1-only` is set")]
    Http2Off,
    /// A certificate or key file cannot be used: an error of the caller.
    #[error("cannot use `{}`: {cause}", path.display())]
    Certificate {
        /// Path of the file.
        path: PathBuf,
        /// Why the file cannot be used.
        cause: String,
    },
    /// No certificate can be generated for these names: an error of the caller.
    #[error("cannot make a certificate: {0}")]
    MakeCertificate(String),
    /// A worker panicked: a bug in weir.
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

    /// Whether the specification is wrong. Other errors come from the environment or from weir.
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
                "stop that process (`ss -ltnp` shows it), or use another port; port 0 selects a free one"
            }
            Self::Listen { .. } => "give an address of this host, and a port above 1023 unless you are root",
            Self::Worker(_) => {
                "raise this user's limits on threads and open files (`ulimit -u`, `ulimit -n`)"
            }
            Self::NoWorkers => "give 1 worker or more",
            Self::Share { .. } => "give a share like 0.1%",
            Self::Shares { .. } => {
                "reduce their sum to 100% or less: a request gets at most one of these faults"
            }
            Self::DelayAndService => "remove one of the two: `delay` is a service time without queueing",
            Self::Servers { .. } => "use fewer servers, or `delay`, which has no queueing",
            Self::Http2Off => "remove `http1-only`, or remove goaway, max-streams and refuse",
            Self::Certificate { .. } => {
                "use two PEM files: the certificate with its chain, and the unencrypted key"
            }
            Self::MakeCertificate(_) => "give domains like api.example.com or *.example.com",
            Self::Panicked => "report this as a bug, with the message above",
        }
    }
}
