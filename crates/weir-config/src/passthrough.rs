//! Clients whose TLS is passed on sealed, by the name that they ask for.

use std::sync::Arc;

use rustls::ServerConfig;

use crate::host::{HostPattern, suffixes};
use crate::model::{Instead, Listener, Passthrough};
use crate::paths::FastMap;
use crate::problem::Problem;

/// What stands among the hosts of an entry for every client.
const EVERY: &str = "*";

/// Backends by the names that clients ask for in their handshakes.
#[derive(Debug)]
pub struct ByName {
    entries: Vec<Passthrough>,
    exact: FastMap<Box<str>, usize>,
    /// By the suffix with its dot.
    suffixes: FastMap<Box<str>, usize>,
    /// For clients that none of those is for.
    every: Option<usize>,
    tls: Option<Arc<ServerConfig>>,
}

/// Where a client's TLS goes.
#[derive(Clone, Copy, Debug)]
pub enum Destination<'d> {
    /// To this backend, sealed.
    Backend(&'d str),
    /// Nowhere: it ends here.
    Here(&'d Arc<ServerConfig>),
    /// Nobody speaks with the client.
    Closed,
}

impl ByName {
    /// For a client that asks for `name`, in lower case: exact names go first, then the longest suffix.
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
            every: None,
            tls: tls.cloned(),
        };
        for (index, entry) in entries.iter().enumerate() {
            for host in &entry.hosts {
                match HostPattern::parse(host) {
                    Ok(HostPattern::Exact(name)) => drop(made.exact.insert(name.into(), index)),
                    Ok(HostPattern::Suffix(suffix)) => drop(made.suffixes.insert(suffix.into(), index)),
                    // What is no pattern and has been checked is `*`.
                    Err(_) => made.every = Some(index),
                }
            }
        }
        Arc::new(made)
    }
}

/// Whether the entries of the listener `key` name hosts, each once, and say what becomes of them.
pub(crate) fn check(key: &str, listener: &Listener) -> Result<(), Problem> {
    // `None` is every client.
    let mut taken: FastMap<Option<HostPattern>, usize> = FastMap::default();
    for (index, entry) in listener.passthrough.iter().enumerate() {
        let place = format!("{key}.passthrough[{index}]");
        check_fate(&place, entry, listener)?;
        let place = format!("{place}.hosts");
        if entry.hosts.is_empty() {
            return Err(Problem::new(place, "the list is empty").help("list the hosts for TLS passthrough"));
        }
        for (position, host) in entry.hosts.iter().enumerate() {
            let place = format!("{place}[{position}]");
            let pattern = checked_host(&place, host)?;
            if let Some(other) = taken.insert(pattern, index) {
                let message = format!("`{host}` is already listed in {key}.passthrough[{other}]");
                return Err(Problem::new(place, message).help("list each host once"));
            }
        }
    }
    Ok(())
}

/// Whether an entry says either where TLS goes or what becomes of it instead.
fn check_fate(place: &str, entry: &Passthrough, listener: &Listener) -> Result<(), Problem> {
    match (&entry.backend, entry.instead) {
        (None, None) => Err(Problem::new(place, "`backend` or `instead` is required")
            .help("write `backend: NAME`, `instead: open` or `instead: close`")),
        (Some(_), Some(_)) => {
            Err(Problem::new(place, "`backend` and `instead` cannot be combined").help("remove one of them"))
        }
        (None, Some(Instead::Open)) if listener.tls.is_none() => {
            let message = "`instead: open` requires `tls` in the listener";
            Err(Problem::new(format!("{place}.instead"), message)
                .help("add `tls` to the listener, or write `instead: close`"))
        }
        _ => Ok(()),
    }
}

/// The pattern at `place`; none for `*`, which is every host.
pub(crate) fn checked_host(place: &str, host: &str) -> Result<Option<HostPattern>, Problem> {
    if host == EVERY {
        return Ok(None);
    }
    HostPattern::parse(host).map(Some).map_err(|wrong| {
        Problem::new(place, wrong)
            .help("write `example.com`, `*.example.com` for its subdomains, or `*` for every host")
    })
}
