//! Bindings: the addresses, topology and limits for which a driver renders a gateway or an upstream.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use weir_results::{Configuration, Role};

use super::form::{Place, Serves};
use super::kubernetes::PodBinding;
use super::locate::Binary;
use crate::{CertificateFiles, Certificates, Limits};

/// A gateway: its addresses, topology and limits.
#[derive(Clone, Debug)]
pub struct Binding {
    /// The address for load.
    pub listen: SocketAddr,
    /// The admin address.
    pub admin: SocketAddr,
    /// Its additional addresses, by name.
    pub addresses: BTreeMap<String, SocketAddr>,
    /// The upstreams, for round-robin load balancing.
    pub origins: Vec<SocketAddr>,
    /// Host names; empty matches every host.
    pub hosts: Vec<String>,
    /// Exact paths on every host; all others get 404.
    pub paths: Vec<String>,
    /// The path sent upstream instead of the request's path.
    pub rewrite: Option<String>,
    /// TLS for clients; `None` is plain HTTP.
    pub tls: Option<TlsBinding>,
    /// Existing certificates; without them, certificates are created in the folder of the gateway.
    pub certificates: Option<Certificates>,
    /// Bearer tokens: requests without one of them get 401. Empty requires none.
    pub tokens: Vec<String>,
    /// How long a gateway that validates tokens at the upstream may cache the result.
    pub token_cache: Duration,
    /// Worker threads: the CPU limit of the data plane rounded up.
    pub workers: u32,
    /// Limits by role.
    pub limits: BTreeMap<Role, Limits>,
    /// Settings of the driver that the scenario overrides.
    pub set: BTreeMap<String, Value>,
    /// The binary.
    pub binary: Binary,
    /// The user's own configuration file, which replaces the main one of the driver.
    pub config: Option<Configuration>,
    /// Whether its routes change while it runs.
    pub changes: bool,
    /// Outputs of the required services, by service and name.
    pub services: BTreeMap<String, BTreeMap<String, String>>,
    /// How to reach an upstream that uses TLS and authenticates clients.
    pub secure_origin: Option<SecureOrigin>,
    /// The cluster that it runs in, if it runs in one.
    pub pods: Option<PodBinding>,
}

/// A service as upstream: it uses TLS and authenticates clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecureOrigin {
    /// Its CA certificate.
    pub ca: PathBuf,
    /// The client certificate of the gateway; `None` if clients send a token, which the gateway forwards.
    pub client: Option<CertificateFiles>,
}

/// TLS for clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlsBinding {
    /// Whether clients must send a certificate of the cell's CA.
    pub client_certificate: bool,
    /// Whether each host has its own certificate and key.
    pub certificate_each: bool,
}

/// An upstream.
#[derive(Clone, Debug)]
pub struct OriginBinding {
    /// Its name, unique in the cell; also the name of its process.
    pub name: String,
    /// The address for requests.
    pub listen: SocketAddr,
    /// The admin address.
    pub admin: SocketAddr,
    /// Worker threads.
    pub workers: u32,
    /// Its limits.
    pub limits: Limits,
    /// Length of response bodies.
    pub body_bytes: u64,
    /// The binary.
    pub binary: Binary,
}

impl Binding {
    /// Its address with this name.
    pub(super) fn address(&self, name: &str) -> Option<SocketAddr> {
        match name {
            Place::LISTEN => Some(self.listen),
            Place::ADMIN => Some(self.admin),
            name => self.addresses.get(name).copied(),
        }
    }

    /// The features that it requires from a driver besides hosts, paths and a rewrite.
    pub(super) fn wants(&self) -> Vec<Serves> {
        let wants = [
            (Serves::Tls, self.tls.is_some()),
            (Serves::ClientCertificate, self.tls.is_some_and(|tls| tls.client_certificate)),
            (Serves::Certificates, self.tls.is_some_and(|tls| tls.certificate_each)),
            (Serves::Bearer, !self.tokens.is_empty()),
            (Serves::SecureOrigin, self.secure_origin.is_some()),
        ];
        wants.into_iter().filter_map(|(what, is_wanted)| is_wanted.then_some(what)).collect()
    }
}
