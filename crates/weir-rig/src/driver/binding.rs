//! What a driver renders: a gateway or an upstream, with its addresses, topology and limits.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::Value;
use weir_results::{Configuration, Role};

use super::form::Serves;
use super::locate::Binary;
use crate::{Certificates, Limits};

/// What a gateway is to be: its place in the rig and its topology.
#[derive(Clone, Debug)]
pub struct Binding {
    /// Where load arrives.
    pub listen: SocketAddr,
    /// The gateway's own administration.
    pub admin: SocketAddr,
    /// The upstreams, taken in turn.
    pub origins: Vec<SocketAddr>,
    /// Host names that are served; empty is every host.
    pub hosts: Vec<String>,
    /// Exact paths that are served on every host; every other is answered 404.
    pub paths: Vec<String>,
    /// What replaces the path.
    pub rewrite: Option<String>,
    /// TLS towards clients; `None` is plain text.
    pub tls: Option<TlsBinding>,
    /// Certificates that are there already; by default those that TLS takes are made in the folder of the gateway.
    pub certificates: Option<Certificates>,
    /// Bearer tokens: a request for a path that is served and that carries none of them is answered 401. Empty asks for
    /// none.
    pub tokens: Vec<String>,
    /// Worker threads: the CPU limit of the data plane rounded up.
    pub workers: u32,
    /// Limits by role.
    pub limits: BTreeMap<Role, Limits>,
    /// Settings of the driver that the scenario changes.
    pub set: BTreeMap<String, Value>,
    /// The binary.
    pub binary: Binary,
    /// A configuration file of the user's own, in place of the driver's main one.
    pub config: Option<Configuration>,
    /// Whether its routes will change while it runs.
    pub changes: bool,
}

/// TLS towards clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlsBinding {
    /// Whether a client must show a certificate of the cell's authority.
    pub client_certificate: bool,
    /// Whether each host has a certificate and a key of its own.
    pub certificate_each: bool,
}

/// What an upstream is to be.
#[derive(Clone, Debug)]
pub struct OriginBinding {
    /// Its name, unique in the cell; its process bears it.
    pub name: String,
    /// Where it is asked.
    pub listen: SocketAddr,
    /// Its own administration.
    pub admin: SocketAddr,
    /// Worker threads.
    pub workers: u32,
    /// Its limits.
    pub limits: Limits,
    /// Length of the body that it answers with.
    pub body_bytes: u64,
    /// The binary.
    pub binary: Binary,
}

impl Binding {
    /// What it asks of a driver beyond hosts, paths and a rewrite.
    pub(super) fn wants(&self) -> Vec<Serves> {
        let wants = [
            (Serves::Tls, self.tls.is_some()),
            (Serves::ClientCertificate, self.tls.is_some_and(|tls| tls.client_certificate)),
            (Serves::Certificates, self.tls.is_some_and(|tls| tls.certificate_each)),
            (Serves::Bearer, !self.tokens.is_empty()),
        ];
        wants.into_iter().filter_map(|(what, is_wanted)| is_wanted.then_some(what)).collect()
    }
}
