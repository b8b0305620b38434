//! Bindings: the values with which a driver renders its templates for a gateway or an upstream, such as addresses,
//! topology and limits.

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

/// The values with which a driver renders its templates for a gateway.
#[derive(Clone, Debug)]
pub struct Binding {
    /// The address to which the load generator sends requests.
    pub listen: SocketAddr,
    /// The admin address.
    pub admin: SocketAddr,
    /// Additional addresses of the gateway, by name.
    pub addresses: BTreeMap<String, SocketAddr>,
    /// The addresses of the upstream, for round-robin load balancing.
    pub origins: Vec<SocketAddr>,
    /// Host names of the routes. If empty, routes match every host.
    pub hosts: Vec<String>,
    /// Exact paths of the routes, on every host. The gateway responds to other paths with 404.
    pub paths: Vec<String>,
    /// The path that the gateway sends upstream; `None` sends the request's path.
    pub rewrite: Option<String>,
    /// TLS for clients; `None` is plain HTTP.
    pub tls: Option<TlsBinding>,
    /// Existing certificates; `None` creates certificates in the folder of the gateway.
    pub certificates: Option<Certificates>,
    /// Bearer tokens. The gateway responds with 401 to requests without one of them. If empty, no token is required.
    pub tokens: Vec<String>,
    /// How long a gateway that validates tokens at the upstream may cache the result.
    pub token_cache: Duration,
    /// Number of worker threads: the CPU limit of the data plane, rounded up.
    pub workers: u32,
    /// Limits of the gateway's processes, by role.
    pub limits: BTreeMap<Role, Limits>,
    /// Settings of the driver that the scenario overrides.
    pub set: BTreeMap<String, Value>,
    /// The program of the gateway.
    pub binary: Binary,
    /// The user's own configuration file, which replaces the main template of the driver.
    pub config: Option<Configuration>,
    /// Whether the routes change while the gateway runs.
    pub changes: bool,
    /// Outputs of the services that the driver needs, by service and name of the output.
    pub services: BTreeMap<String, BTreeMap<String, String>>,
    /// How to reach an upstream that uses TLS and authenticates clients.
    pub secure_origin: Option<SecureOrigin>,
    /// Values about the cluster in which the gateway runs; `None` outside a cluster.
    pub pods: Option<PodBinding>,
}

/// How a gateway connects to an upstream that uses TLS and authenticates clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecureOrigin {
    /// The CA certificate of the upstream.
    pub ca: PathBuf,
    /// The client certificate of the gateway; `None` if clients send a token that the gateway forwards.
    pub client: Option<CertificateFiles>,
}

/// The TLS settings of a gateway for its clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlsBinding {
    /// Whether clients must send a certificate that the cell's CA has signed.
    pub client_certificate: bool,
    /// Whether each host has its own certificate and key.
    pub certificate_each: bool,
}

/// The values with which a driver renders its templates for an upstream.
#[derive(Clone, Debug)]
pub struct OriginBinding {
    /// The name of the upstream, unique in the cell. The names of its processes start with it.
    pub name: String,
    /// The address for requests.
    pub listen: SocketAddr,
    /// The admin address.
    pub admin: SocketAddr,
    /// Number of worker threads.
    pub workers: u32,
    /// Limits of each process.
    pub limits: Limits,
    /// Length of response bodies, bytes.
    pub body_bytes: u64,
    /// The program of the upstream.
    pub binary: Binary,
}

impl Binding {
    /// The gateway's address with this name.
    pub(super) fn address(&self, name: &str) -> Option<SocketAddr> {
        match name {
            Place::LISTEN => Some(self.listen),
            Place::ADMIN => Some(self.admin),
            name => self.addresses.get(name).copied(),
        }
    }

    /// The features that this gateway requires from its driver, besides hosts, paths and a rewrite.
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
