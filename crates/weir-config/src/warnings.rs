//! Warnings for valid configurations that are probably mistakes: routes that never match, unused backends, expired
//! certificates, syntax of other gateways.
//!
//! A configuration with warnings still takes effect.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use weir_document::Problem;

use crate::model::Balance;
use crate::model::{Backend, ClientAuth, Listener, Route, SYSTEM_AUTHORITIES};
use crate::state::State;
use crate::table::Table;
use crate::tls::certificates::{is_carried, names_of};
use crate::tls::validity::Validity;

mod certified_hosts;
mod habits;
mod spellings;
mod unreached;
mod unread_fields;

use certified_hosts::CertifiedHosts;

/// Certificates that expire in less than this number of days are reported.
const DAYS_LEFT_MIN: i64 = 14;

const GIVE_WEIGHT: &str = "set at least one `weight` to 1 or more";

impl State {
    /// Lists probable mistakes. `table` must be compiled from this state. `now_s` is the time in seconds since 1970,
    /// for the validity of certificates.
    pub fn warnings(&self, table: &Table, now_s: u64) -> Vec<Problem> {
        let mut found = unreached::routes(table);
        found.extend(
            self.resources.routes.values().filter_map(|entry| unmatched_preflights(&entry.key, &entry.route)),
        );
        found.extend(self.resources.routes.values().filter_map(|entry| no_weight(&entry.key, &entry.route)));
        found.extend(
            self.resources.routes.values().flat_map(|entry| habits::of_route(&entry.key, &entry.route)),
        );
        found.extend(spellings::around_rules(table));
        found.extend(unread_fields::of_state(self));
        found.extend(self.no_routes());
        found.extend(self.unused_backends());
        found.extend(self.backends_without_endpoints());
        found.extend(self.plain_listeners());
        found.extend(self.certificates_without_route());
        found.extend(self.certificates_invalid_for_hosts());
        found.extend(self.expiring_certificates(now_s));
        found
    }

    fn no_routes(&self) -> Option<Problem> {
        let answers = |listener: &Listener| listener.passthrough.is_empty() || listener.tls.is_some();
        let is_bare = self.resources.routes.is_empty() && self.resources.listeners.values().any(answers);
        is_bare.then(|| {
            Problem::of("routes", "no route is configured: every request gets 404")
                .help("add one: `routes: [{ path: /, backend: NAME }]`")
        })
    }

    /// The backends that routes and listeners name.
    fn used_backends(&self) -> BTreeSet<&str> {
        let passed_on = self.resources.listeners.values().flat_map(|listener| &listener.passthrough);
        self.resources
            .uses
            .backends
            .names()
            .chain(passed_on.filter_map(|entry| entry.backend.as_deref()))
            .collect()
    }

    fn unused_backends(&self) -> Vec<Problem> {
        let used = self.used_backends();
        let unused = self.resources.backends.keys().filter(|name| !used.contains(name.as_str()));
        unused
            .map(|name| {
                Problem::of(format!("backends.{name}"), "no route uses this backend")
                    .help("use the backend in a route, or remove it")
            })
            .collect()
    }

    /// Finds backends that are used, but have no endpoint for new clients.
    fn backends_without_endpoints(&self) -> Vec<Problem> {
        let used = self.used_backends();
        let of_use = self.resources.backends.iter().filter(|(name, _)| used.contains(name.as_str()));
        of_use.filter_map(|(name, backend)| no_endpoint(name, backend)).collect()
    }

    /// Finds plain HTTP listeners on non-loopback addresses if they receive bearer tokens, or if another listener
    /// requires client certificates for the same routes.
    fn plain_listeners(&self) -> Vec<Problem> {
        let asking =
            self.resources.listeners.iter().find(|(_, listener)| requires_client_certificates(listener));
        let with_tokens = self.resources.routes.values().find(|entry| entry.route.tokens.is_some());
        let plain = self.resources.listeners.iter().filter(|(_, listener)| {
            listener.tls.is_none() && listener.passthrough.is_empty() && is_remote(listener.address)
        });
        let mut found = Vec::new();
        for (key, listener) in plain {
            if let Some((other, _)) = asking {
                let message = format!(
                    "{} accepts plain HTTP, but {other} requires client certificates for the same routes",
                    listener.address
                );
                found.push(
                    Problem::of(key, message)
                        .help("add `tls` with `client_ca` to this listener, or remove the listener"),
                );
            }
            if let Some(entry) = with_tokens {
                let message =
                    format!("bearer tokens for {} reach {} unencrypted", entry.key, listener.address);
                found.push(Problem::of(key, message).help("add `tls` to this listener"));
            }
        }
        found
    }

    fn certificates_without_route(&self) -> Vec<Problem> {
        let Some(hosts) = CertifiedHosts::of(self.resources.routes.values().map(|entry| &*entry.route))
        else {
            return Vec::new();
        };
        let is_only_one = |key: &str| self.credentials.pairs_of(key).len() == 1;
        let shown = self.shown().filter(|shown| {
            // If the listener has several certificates, the default one also serves clients with other server names. So
            // it needs no matching route.
            (!shown.is_default || is_only_one(shown.listener)) && !hosts.have_any_of(shown.certified)
        });
        shown
            .map(|shown| {
                let message = format!("`{}` is valid for none of the hosts in `routes`", shown.file);
                Problem::of(shown.place, message)
                    .help("use a certificate for these hosts, or add a route for a host of this certificate")
            })
            .collect()
    }

    /// Finds certificates that are not valid for their configured hosts.
    fn certificates_invalid_for_hosts(&self) -> Vec<Problem> {
        let mismatched = self.shown().flat_map(|shown| {
            let carried = names_of(shown.certified);
            let of_hosts = shown.place.strip_suffix("certificate").unwrap_or(&shown.place).to_owned();
            let hosts = shown.hosts.iter().enumerate();
            let mismatched = hosts.filter(move |(_, host)| !is_carried(&carried, &host.to_ascii_lowercase()));
            mismatched.map(move |(index, host)| (format!("{of_hosts}hosts[{index}]"), shown.file, host))
        });
        mismatched
            .map(|(place, file, host)| {
                Problem::of(
                    place,
                    format!("clients of `{host}` get the certificate in `{file}`, which is not valid for this host"),
                )
                .help("use a certificate for this host, or remove the host")
            })
            .collect()
    }

    fn expiring_certificates(&self, now_s: u64) -> Vec<Problem> {
        let mut seen = BTreeSet::new();
        let mut found = Vec::new();
        for (place, file) in self.certificate_files() {
            let Some(content) = self.resources.files.get(file).filter(|_| seen.insert(file)) else {
                continue;
            };
            let ended = Validity::of_file(content.bytes())
                .into_iter()
                .filter_map(|v| validity_problem(file, v, now_s));
            // One warning per file is enough.
            found.extend(
                ended.take(1).map(|(message, remedy)| Problem::of(place.as_str(), message).help(remedy)),
            );
        }
        found
    }

    /// All files that contain certificates, each with the field that names it.
    fn certificate_files(&self) -> Vec<(String, &str)> {
        let mut files: Vec<(String, &str)> = self.shown().map(|shown| (shown.place, shown.file)).collect();
        for (key, listener) in &self.resources.listeners {
            let authorities = listener.tls.as_ref().and_then(|tls| tls.client_ca.as_deref());
            files.extend(authorities.map(|file| (format!("{key}.tls.client_ca"), file)));
        }
        for (name, backend) in &self.resources.backends {
            let named = backend.tls.iter().flat_map(|tls| tls.files());
            let named = named.filter(|(field, file)| *field != "key" && *file != SYSTEM_AUTHORITIES);
            files.extend(named.map(|(field, file)| (format!("backends.{name}.tls.{field}"), file)));
        }
        files
    }
}

/// The message and the remedy if a certificate in `file` is expired, expires soon or is not valid yet; `None`
/// otherwise.
fn validity_problem(file: &str, validity: Validity, now_s: u64) -> Option<(String, &'static str)> {
    let days = |days: u64| format!("{days} day{}", if days == 1 { "" } else { "s" });
    let (until, left) = (validity.days_until(now_s), validity.days_left(now_s));
    let renew = "renew the certificate; the gateway reloads the file by itself";
    match left {
        _ if until > 0 => {
            let message =
                format!("a certificate in `{file}` is not valid yet; it becomes valid in {}", days(until));
            Some((message, "use a certificate that is valid now, or correct the system clock"))
        }
        ..0 => Some((format!("a certificate in `{file}` expired {} ago", days(left.unsigned_abs())), renew)),
        0..DAYS_LEFT_MIN => {
            Some((format!("a certificate in `{file}` expires in {}", days(left.unsigned_abs())), renew))
        }
        _ => None,
    }
}

fn unmatched_preflights(key: &str, route: &Route) -> Option<Problem> {
    let rejects_preflights = route.cors.is_some()
        && !route.methods.is_empty()
        && !route.methods.iter().any(|method| method == "OPTIONS");
    rejects_preflights.then(|| {
        Problem::of(
            format!("{key}.methods"),
            "`cors` requires OPTIONS for preflight requests, but the route does not match OPTIONS",
        )
        .help("add OPTIONS to `methods`")
    })
}

fn no_weight(key: &str, route: &Route) -> Option<Problem> {
    let is_bare = route.backends.iter().any(|backends| backends.iter().all(|backend| backend.weight == 0));
    is_bare.then(|| {
        Problem::of(format!("{key}.backends"), "all weights are 0: every request gets 500").help(GIVE_WEIGHT)
    })
}

fn no_endpoint(name: &str, backend: &Backend) -> Option<Problem> {
    if backend.endpoints.iter().any(|endpoint| endpoint.weight > 0) {
        return None;
    }
    let (what, except, remedy) = match (backend.endpoints.is_empty(), &backend.balance) {
        (true, _) => ("the list is empty", "", "add the addresses of the service"),
        (false, Balance::Sticky(_)) => {
            ("all weights are 0", ", except requests with a valid sticky cookie", GIVE_WEIGHT)
        }
        (false, _) => ("all weights are 0", "", GIVE_WEIGHT),
    };
    let message = format!("{what}: requests for this backend get 503{except}");
    Some(Problem::of(format!("backends.{name}.endpoints"), message).help(remedy))
}

fn requires_client_certificates(listener: &Listener) -> bool {
    let tls = listener.tls.as_ref();
    tls.is_some_and(|tls| tls.client_ca.is_some() && tls.client_auth != Some(ClientAuth::Optional))
}

fn is_remote(address: SocketAddr) -> bool {
    !address.ip().is_loopback()
}

#[cfg(test)]
mod tests;
