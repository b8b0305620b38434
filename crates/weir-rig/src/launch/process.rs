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
    /// When the process accepts connections on all addresses of `listens`; at once if `listens` is empty.
    None,
    /// Ready when this address accepts connections.
    Tcp(SocketAddr),
    /// Ready when a GET request returns the expected status.
    Http {
        /// The address to which the request is sent.
        address: SocketAddr,
        /// The value of the Host header.
        host: String,
        /// The path of the request.
        path: String,
        /// The expected status.
        status: u16,
        /// Credentials for the request. If they contain no certificates, the request is plain HTTP.
        credentials: Box<Credentials>,
    },
}

/// Describes a process to launch.
#[derive(Clone, Debug)]
pub struct ProcessSpec {
    /// The name of the part, unique in the cell.
    pub name: String,
    /// The role of the part.
    pub role: Role,
    /// The program that `command` runs, for the manifest.
    pub binary: Binary,
    /// SHA-256 of the configuration in hexadecimal digits; `None` if there is no configuration.
    pub config_sha256: Option<String>,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Additional environment variables.
    pub env: Vec<(String, String)>,
    /// The working folder of the process.
    pub dir: PathBuf,
    /// The file for standard output and standard error.
    pub log: PathBuf,
    /// The file for standard input; `None` means empty input. A container always has empty input.
    pub input: Option<PathBuf>,
    /// Limits on CPU and memory.
    pub limits: Limits,
    /// Whether the process has CPU priority over other parts. Use it for a process that measures time and uses little
    /// CPU. No effect without cgroups.
    pub is_urgent: bool,
    /// The CPUs on which the process can run; `None` allows all.
    pub cpus: Option<Vec<usize>>,
    /// When the process is ready.
    pub ready: Ready,
    /// How long the process may take to become ready.
    pub ready_timeout: Duration,
    /// The addresses on which the process will listen. They must be free before it starts.
    pub listens: Vec<SocketAddr>,
    /// The network namespace in which the process runs; `None` is the namespace of the host.
    pub namespace: Option<Namespace>,
}

impl ProcessSpec {
    /// A process without limits, addresses or input, which is ready at once. The caller must set its folder and log.
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
    /// The reason why the process is not ready.
    pub fn look(&self) -> Result<(), String> {
        readiness::check(self)
    }

    /// Replaces each unspecified IP (`0.0.0.0`, `::`) in the addresses of `listens` and `ready` with `ip`, so that weir
    /// can connect to the process.
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

/// Replaces the IP of `address` by `ip` if it is unspecified (`0.0.0.0`, `::`).
pub(crate) fn reach(address: &mut SocketAddr, ip: IpAddr) {
    if address.ip().is_unspecified() {
        address.set_ip(ip);
    }
}
