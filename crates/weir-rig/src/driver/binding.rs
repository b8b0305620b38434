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
    /// Its further addresses, by name.
    pub addresses: BTreeMap<String, SocketAddr>,
    /// The upstreams, used in turn.
    pub origins: Vec<SocketAddr>,
    /// Host names; empty matches every host.
    pub hosts: Vec<String>,
    /// Exact paths on every host; all others get 404.
    pub paths: Vec<String>,
    /// What replaces the path.
    pub rewrite: Option<String>,
    /// TLS for clients; `None` is plain HTTP.
    pub tls: Option<TlsBinding>,
    /// Existing certificates; without them, certificates are created in the folder of the gateway.
    pub certificates: Option<Certificates>,
    /// Bearer tokens: requests without one of them get 401. Empty requires none.
    pub tokens: Vec<String>,
    /// How long a gateway that asks the upstream about a token may keep the answer.
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
    /// Outputs of the services that it needs, by service and name.
    pub services: BTreeMap<String, BTreeMap<String, String>>,
    /// How the upstream is reached, if it speaks TLS and authenticates clients.
    pub secure_origin: Option<SecureOrigin>,
    /// The cluster that it runs in, if it runs in one.
    pub pods: Option<PodBinding>,
}

/// An upstream that speaks TLS and authenticates clients: a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecureOrigin {
    /// The certificate of its authority.
    pub ca: PathBuf,
    /// What a gateway shows of itself; `None` if clients show a token, which the gateway passes on.
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
    /// Its name, unique in the cell, which its process gets.
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
    /// Its address of that name.
    pub(super) fn address(&self, name: &str) -> Option<SocketAddr> {
        match name {
            Place::LISTEN => Some(self.listen),
            Place::ADMIN => Some(self.admin),
            name => self.addresses.get(name).copied(),
        }
    }

    /// What it requires from a driver besides hosts, paths and a rewrite.
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
