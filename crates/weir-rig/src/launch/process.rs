//! The specification of a process: role, limits, readiness.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use weir_results::Role;

use super::readiness;
use crate::{Binary, Credentials, Limits, Namespace};

/// When a process is ready. In addition, every address of [`ProcessSpec::listens`] must accept connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// When it listens, or at once if it has no addresses.
    None,
    /// When this address accepts connections.
    Tcp(SocketAddr),
    /// When a GET to this address gets this status.
    Http {
        /// The address.
        address: SocketAddr,
        /// The Host header.
        host: String,
        /// The path.
        path: String,
        /// The status.
        status: u16,
        /// Credentials of the request; plain HTTP without certificates.
        credentials: Box<Credentials>,
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
    /// SHA-256 over its configuration, hexadecimal; `None` without one.
    pub config_sha256: Option<String>,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Additional environment variables.
    pub env: Vec<(String, String)>,
    /// Its working folder.
    pub dir: PathBuf,
    /// The file for standard output and standard error.
    pub log: PathBuf,
    /// The file for standard input; `None` is an empty one. A container gets none.
    pub input: Option<PathBuf>,
    /// Its limits.
    pub limits: Limits,
    /// Whether it has CPU priority over other parts: for parts that measure time and rarely work. No effect without
    /// control groups.
    pub is_urgent: bool,
    /// The CPUs that it can use; `None` allows all.
    pub cpus: Option<Vec<usize>>,
    /// When it is ready.
    pub ready: Ready,
    /// How long it may take to become ready.
    pub ready_timeout: Duration,
    /// Addresses that it will listen on; they must be free before it starts.
    pub listens: Vec<SocketAddr>,
    /// The network namespace of its addresses; `None` is that of the host.
    pub namespace: Option<Namespace>,
}

impl ProcessSpec {
    /// A process without limits, addresses and input, which is ready at once. The caller must set its folder and log.
    pub fn plain(name: String, role: Role, binary: Binary, command: Vec<String>) -> Self {
        Self {
            name,
            role,
            binary,
            config_sha256: None,
            command,
            env: Vec::new(),
            dir: PathBuf::new(),
            log: PathBuf::new(),
            input: None,
            limits: Limits::default(),
            is_urgent: false,
            cpus: None,
            ready: Ready::None,
            ready_timeout: Duration::ZERO,
            listens: Vec::new(),
            namespace: None,
        }
    }

    /// Checks readiness once.
    ///
    /// # Errors
    /// The reason why it is not ready.
    pub fn look(&self) -> Result<(), String> {
        readiness::check(self)
    }

    /// The same at `ip`, if it listens on all addresses.
    #[must_use]
    pub fn reached_at(mut self, ip: IpAddr) -> Self {
        let address = match &mut self.ready {
            Ready::None => None,
            Ready::Tcp(address) | Ready::Http { address, .. } => Some(address),
        };
        self.listens.iter_mut().chain(address).for_each(|address| reach(address, ip));
        self
    }
}

/// Sets the host of an unspecified address.
pub(crate) fn reach(address: &mut SocketAddr, ip: IpAddr) {
    if address.ip().is_unspecified() {
        address.set_ip(ip);
    }
}
