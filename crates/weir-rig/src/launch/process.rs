//! What is to be launched: a process with its role, limits and sign of readiness.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use weir_results::Role;

use crate::{Binary, Limits, Namespace};

/// When a process counts as ready. Whatever it says, every address of [`ProcessSpec::listens`] must accept too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// As soon as it listens, or at once if it listens nowhere.
    None,
    /// When this address accepts a connection.
    Tcp(SocketAddr),
    /// When this address answers a GET with this status.
    Http {
        /// The address.
        address: SocketAddr,
        /// The Host header.
        host: String,
        /// The path.
        path: String,
        /// The status.
        status: u16,
    },
}

/// A process to launch.
#[derive(Clone, Debug)]
pub struct ProcessSpec {
    /// Its name, unique in the cell.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// The binary behind the command, for the manifest.
    pub binary: Binary,
    /// SHA-256 over its configuration, hexadecimal; `None` where it has none.
    pub config_sha256: Option<String>,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Variables beside those of this process.
    pub env: Vec<(String, String)>,
    /// Its working folder.
    pub dir: PathBuf,
    /// Where its standard output and standard error go.
    pub log: PathBuf,
    /// Its limits.
    pub limits: Limits,
    /// Whether it comes before the other parts where they want the same CPU: for what measures time and rarely works.
    /// Where this user may not make control groups, nothing comes of it.
    pub is_urgent: bool,
    /// CPUs that it may use; `None` leaves it to the kernel.
    pub cpus: Option<Vec<usize>>,
    /// When it is ready.
    pub ready: Ready,
    /// How long it may take to become ready.
    pub ready_timeout: Duration,
    /// Addresses that it will listen on; they must be free before it starts.
    pub listens: Vec<SocketAddr>,
    /// The network that it is in, where its addresses are; `None` is the host's.
    pub namespace: Option<Namespace>,
}
