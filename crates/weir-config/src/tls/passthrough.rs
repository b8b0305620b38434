//! TLS passthrough by server name.

use std::sync::Arc;

use rustls::ServerConfig;

use crate::collections::FastMap;
use crate::host::{HostPattern, suffixes};
use crate::model::{Instead, Passthrough};

/// The destinations of TLS connections, by server name.
#[derive(Debug)]
pub struct ByName {
    entries: Vec<Passthrough>,
    exact: FastMap<Box<str>, usize>,
    /// Wildcard hosts by suffix, such as `.example.com`; each value is an index in `entries`.
    suffixes: FastMap<Box<str>, usize>,
    /// The entry for the host `*`, as an index in `entries`. It handles all clients that no other entry matches.
    every: Option<usize>,
    tls: Option<Arc<ServerConfig>>,
}

/// How a client's TLS connection is handled.
#[derive(Clone, Copy, Debug)]
pub enum Destination<'d> {
    /// The connection is forwarded to this backend.
    Backend(&'d str),
    /// The gateway terminates TLS with this configuration.
    Here(&'d Arc<ServerConfig>),
    /// The connection is closed.
    Closed,
}

impl ByName {
    /// The destination for a client that sends this server name, in lower case. Exact names come first, then the
    /// longest suffix, then `*`.
    pub fn destination(&self, name: Option<&str>) -> Destination<'_> {
        let found = name.and_then(|name| self.find(name)).or(self.every);
        match found.map(|index| &self.entries[index]) {
            Some(Passthrough { backend: Some(backend), .. }) => Destination::Backend(backend),
            Some(Passthrough { instead: Some(Instead::Close), .. }) => Destination::Closed,
            _ => self.tls.as_ref().map_or(Destination::Closed, Destination::Here),
        }
    }

    fn find(&self, name: &str) -> Option<usize> {
        let by_suffix = || suffixes(name).find_map(|suffix| self.suffixes.get(suffix));
        self.exact.get(name).or_else(by_suffix).copied()
    }

    /// The TLS configuration of the listener itself; `None` if it has no `tls`.
    pub fn tls(&self) -> Option<&Arc<ServerConfig>> {
        self.tls.as_ref()
    }

    /// Compiles `entries`; returns `former` if nothing changed.
    pub(crate) fn make(
        entries: &[Passthrough],
        tls: Option<&Arc<ServerConfig>>,
        former: Option<&Arc<ByName>>,
    ) -> Arc<ByName> {
        if let Some(former) = former
            && former.entries == entries
            && former.tls.as_ref().map(Arc::as_ptr) == tls.map(Arc::as_ptr)
        {
            return Arc::clone(former);
        }
        let mut made = ByName {
            entries: entries.to_vec(),
            exact: FastMap::default(),
            suffixes: FastMap::default(),
            every: None,
            tls: tls.cloned(),
        };
        for (index, entry) in entries.iter().enumerate() {
            for host in &entry.hosts {
                match HostPattern::parse(host) {
                    Ok(HostPattern::Exact(name)) => drop(made.exact.insert(name.into(), index)),
                    Ok(HostPattern::Suffix(suffix)) => drop(made.suffixes.insert(suffix.into(), index)),
                    // All hosts have passed validation. Of the valid hosts, `HostPattern` rejects only `*`.
                    Err(_) => made.every = Some(index),
                }
            }
        }
        Arc::new(made)
    }
}
