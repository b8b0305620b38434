//! TLS passthrough by server name.

use std::sync::Arc;

use rustls::ServerConfig;

use crate::collections::FastMap;
use crate::host::{HostPattern, suffixes};
use crate::model::{Instead, Passthrough};

/// Backends by server name.
#[derive(Debug)]
pub struct ByName {
    entries: Vec<Passthrough>,
    exact: FastMap<Box<str>, usize>,
    /// By suffix, including its dot.
    suffixes: FastMap<Box<str>, usize>,
    /// For all other clients.
    every: Option<usize>,
    tls: Option<Arc<ServerConfig>>,
}

/// How a client's TLS connection is handled.
#[derive(Clone, Copy, Debug)]
pub enum Destination<'d> {
    /// Forwarded to this backend.
    Backend(&'d str),
    /// Terminated here.
    Here(&'d Arc<ServerConfig>),
    /// The connection is closed.
    Closed,
}

impl ByName {
    /// The destination for the server name `name`, in lower case: exact names first, then the longest suffix.
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

    /// TLS of the listener itself.
    pub fn tls(&self) -> Option<&Arc<ServerConfig>> {
        self.tls.as_ref()
    }

    /// The destinations of `entries`; `former` is shared if nothing changed.
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
                    // The only valid text that is no pattern is `*`.
                    Err(_) => made.every = Some(index),
                }
            }
        }
        Arc::new(made)
    }
}
