//! Summary of a configuration, for checks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::sign::CertifiedKey;
use serde::Serialize;

use crate::host::HostPattern;
use crate::model::Listener;
use crate::state::State;
use crate::tls::certificates::names_of;
use crate::tls::validity::Validity;

/// Maximum number of listeners, of certificates, and of names per certificate that are printed.
const PRINTED_MAX: usize = 8;

/// A count of what a configuration contains. `Display` prints it for people and shortens long lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// The listeners.
    pub listeners: Vec<ListenerSummary>,
    /// Number of routes.
    pub routes: usize,
    /// Number of different hosts in routes; a wildcard counts as one.
    pub hosts: usize,
    /// Whether a route matches every host.
    pub has_every_host: bool,
    /// Number of backends.
    pub backends: usize,
    /// Number of endpoints of all backends.
    pub endpoints: usize,
    /// The certificates of listeners, by file; the one that expires first comes first.
    pub certificates: Vec<CertificateSummary>,
}

/// The summary of one listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListenerSummary {
    /// The configured address.
    pub address: SocketAddr,
    /// The configured name, if any.
    pub name: Option<String>,
    /// Number of certificates; 0 without TLS, or with passthrough only.
    pub certificates: usize,
    /// Number of hosts with TLS passthrough to a backend.
    pub passed_on: usize,
}

/// The summary of one certificate of listeners.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CertificateSummary {
    /// The name of the file, as configured.
    pub file: String,
    /// The DNS names in the certificate.
    pub names: Vec<String>,
    /// Whole days until it expires, negative after that; `None` if its validity cannot be read.
    pub days_left: Option<i64>,
}

/// A certificate of a listener, with its place in the configuration.
pub(crate) struct Shown<'s> {
    /// The key of the listener.
    pub(crate) listener: &'s str,
    /// The field that names the file: `listeners[0].tls.certificates[3].certificate`.
    pub(crate) place: String,
    pub(crate) file: &'s str,
    /// Whether clients without a server name, or with an unknown one, get this certificate.
    pub(crate) is_default: bool,
    pub(crate) certified: &'s Arc<CertifiedKey>,
    /// The configured `hosts` of this certificate.
    pub(crate) hosts: &'s [String],
}

impl State {
    /// Summarizes the configuration. `now_s` is the time in seconds since 1970, for the validity of certificates.
    pub fn summary(&self, now_s: u64) -> Summary {
        let hosts = self.resources.routes.values().flat_map(|entry| &entry.route.hosts);
        let hosts: BTreeSet<HostPattern> = hosts.filter_map(|host| HostPattern::parse(host).ok()).collect();
        Summary {
            listeners: self
                .resources
                .listeners
                .iter()
                .map(|(key, l)| self.listener_summary(key, l))
                .collect(),
            routes: self.resources.routes.len(),
            hosts: hosts.len(),
            has_every_host: self.resources.routes.values().any(|entry| entry.route.hosts.is_empty()),
            backends: self.resources.backends.len(),
            endpoints: self.resources.backends.values().map(|backend| backend.endpoints.len()).sum(),
            certificates: self.certificate_summaries(now_s),
        }
    }

    /// The certificates of all listeners, each with its field.
    pub(crate) fn shown(&self) -> impl Iterator<Item = Shown<'_>> {
        self.resources.listeners.iter().flat_map(|(key, listener)| {
            let named = listener
                .tls
                .iter()
                .flat_map(|tls| tls.pairs().enumerate().map(move |(position, pair)| (tls, position, pair)));
            let made = self.credentials.pairs_of(key);
            named.zip(made).map(move |((tls, position, pair), certified)| Shown {
                listener: key,
                place: format!("{key}.tls.{}", pair.field("certificate")),
                file: pair.certificate,
                is_default: position == 0,
                certified,
                hosts: tls.hosts(position),
            })
        })
    }

    fn listener_summary(&self, key: &str, listener: &Listener) -> ListenerSummary {
        let sealed = listener.passthrough.iter().filter(|entry| entry.backend.is_some());
        ListenerSummary {
            address: listener.address,
            name: listener.name.clone(),
            certificates: self.credentials.pairs_of(key).len(),
            passed_on: sealed.map(|entry| entry.hosts.len()).sum(),
        }
    }

    fn certificate_summaries(&self, now_s: u64) -> Vec<CertificateSummary> {
        let by_file: BTreeMap<&str, _> = self.shown().map(|shown| (shown.file, shown.certified)).collect();
        let mut summaries: Vec<CertificateSummary> = by_file
            .into_iter()
            .map(|(file, certified)| CertificateSummary {
                file: file.to_owned(),
                names: names_of(certified),
                days_left: certified.cert.first().and_then(Validity::of).map(|v| v.days_left(now_s)),
            })
            .collect();
        summaries.sort_by_key(|summary| summary.days_left);
        summaries
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        rows(f, "listeners", &self.listeners)?;
        let hosts = match (self.hosts, self.has_every_host) {
            (0, _) => "every host".to_owned(),
            (hosts, false) => count(hosts, "host"),
            (hosts, true) => format!("{}, some for every host", count(hosts, "host")),
        };
        let routes =
            if self.routes == 0 { "none".to_owned() } else { format!("{} for {hosts}", self.routes) };
        row(f, "routes", &routes)?;
        let endpoints = count(self.endpoints, "endpoint");
        let backends = if self.backends == 0 {
            "none".to_owned()
        } else {
            format!("{} with {endpoints}", self.backends)
        };
        row(f, "backends", &backends)?;
        rows(f, "certificates", &self.certificates)
    }
}

impl fmt::Display for ListenerSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)?;
        if let Some(name) = &self.name {
            write!(f, " `{name}`")?;
        }
        match (self.certificates, self.passed_on) {
            (0, 0) => f.write_str(", plain HTTP"),
            (0, hosts) => write!(f, ", TLS passthrough for {}", count(hosts, "host")),
            (certificates, 0) => write!(f, ", TLS with {}", count(certificates, "certificate")),
            (certificates, hosts) => {
                let certificates = count(certificates, "certificate");
                write!(f, ", TLS with {certificates}, passthrough for {}", count(hosts, "host"))
            }
        }
    }
}

impl fmt::Display for CertificateSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days = |days: u64| count(usize::try_from(days).unwrap_or(usize::MAX), "day");
        match self.days_left {
            Some(left @ 0..) => write!(f, "{}: {} left", self.file, days(left.unsigned_abs()))?,
            Some(since) => write!(f, "{}: expired {} ago", self.file, days(since.unsigned_abs()))?,
            None => write!(f, "{}", self.file)?,
        }
        match self.names.as_slice() {
            [] => Ok(()),
            names => write!(f, ", for {}", first_of(names)),
        }
    }
}

fn row(f: &mut fmt::Formatter<'_>, name: &str, text: &str) -> fmt::Result {
    writeln!(f, "{name:<12}  {text}")
}

/// Writes one row per item, at most [`PRINTED_MAX`], then the number of others.
fn rows<T: fmt::Display>(f: &mut fmt::Formatter<'_>, name: &str, all: &[T]) -> fmt::Result {
    let names = std::iter::once(name).chain(std::iter::repeat(""));
    for (item, name) in all.iter().take(PRINTED_MAX).zip(names) {
        row(f, name, &item.to_string())?;
    }
    match all.len().saturating_sub(PRINTED_MAX) {
        0 => Ok(()),
        more => row(f, "", &format!("and {more} more")),
    }
}

/// The first [`PRINTED_MAX`] names, and the number of others.
fn first_of(names: &[String]) -> String {
    match names.split_at_checked(PRINTED_MAX) {
        Some((first, more)) if !more.is_empty() => format!("{} and {} more", first.join(", "), more.len()),
        _ => names.join(", "),
    }
}

/// `1 host`, `2 hosts`
fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
