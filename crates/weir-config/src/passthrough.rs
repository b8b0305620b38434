//! Clients whose TLS is passed on sealed, by the name that they ask for.

use std::sync::Arc;

use rustls::ServerConfig;

use crate::host::HostPattern;
use crate::model::Passthrough;
use crate::paths::FastMap;
use crate::problem::Problem;

/// Backends by the names that clients ask for in their handshakes.
#[derive(Debug)]
pub struct ByName {
    entries: Vec<Passthrough>,
    exact: FastMap<Box<str>, usize>,
    /// By the suffix with its dot.
    suffixes: FastMap<Box<str>, usize>,
    tls: Option<Arc<ServerConfig>>,
}

impl ByName {
    /// The backend for clients that ask for `name`, in lower case: exact names first, then the longest suffix.
    pub fn backend(&self, name: &str) -> Option<&str> {
        let by_suffix = || {
            let dots = name.bytes().enumerate().skip(1).filter(|&(_, byte)| byte == b'.');
            dots.map(|(at, _)| at).find_map(|dot| self.suffixes.get(&name[dot..]))
        };
        let index = self.exact.get(name).or_else(by_suffix)?;
        Some(&self.entries[*index].backend)
    }

    /// What is spoken with the others; `None` where they are closed.
    pub fn tls(&self) -> Option<&Arc<ServerConfig>> {
        self.tls.as_ref()
    }

    /// Those of `entries`; `former` stays where nothing has changed.
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
            tls: tls.cloned(),
        };
        for (index, entry) in entries.iter().enumerate() {
            for host in entry.hosts.iter().filter_map(|host| HostPattern::parse(host).ok()) {
                match host {
                    HostPattern::Exact(name) => drop(made.exact.insert(name.into(), index)),
                    HostPattern::Suffix(suffix) => drop(made.suffixes.insert(suffix.into(), index)),
                }
            }
        }
        Arc::new(made)
    }
}

/// Whether the entries of the listener `key` name hosts, each once.
pub(crate) fn check(key: &str, entries: &[Passthrough]) -> Result<(), Problem> {
    let mut taken: FastMap<HostPattern, usize> = FastMap::default();
    for (index, entry) in entries.iter().enumerate() {
        let place = format!("{key}.passthrough[{index}].hosts");
        if entry.hosts.is_empty() {
            return Err(
                Problem::new(place, "the list is empty").help("name the hosts whose TLS is passed on")
            );
        }
        for (position, host) in entry.hosts.iter().enumerate() {
            let place = format!("{place}[{position}]");
            let pattern = HostPattern::parse(host).map_err(|wrong| {
                Problem::new(place.clone(), wrong)
                    .help("write `example.com`, or `*.example.com` for the names below it")
            })?;
            if let Some(other) = taken.insert(pattern, index) {
                let message = format!("`{host}` stands in {key}.passthrough[{other}] already");
                return Err(Problem::new(place, message).help("give each host to one backend"));
            }
        }
    }
    Ok(())
}
