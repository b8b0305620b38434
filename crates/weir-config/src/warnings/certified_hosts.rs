//! Compares the names in certificates with the hosts of routes.

use std::collections::HashSet;
use std::sync::Arc;

use foldhash::fast::RandomState;
use rustls::sign::CertifiedKey;

use crate::host::{HostPattern, suffixes};
use crate::model::Route;
use crate::tls::certificates::names_of;

/// The hosts of all routes, stored for comparison with names in certificates.
#[derive(Default)]
pub(super) struct CertifiedHosts {
    exact: HashSet<String, RandomState>,
    /// The part of each exact host after its first dot.
    parents: HashSet<String, RandomState>,
    /// Wildcard hosts by suffix, such as `.example.com`.
    suffixes: HashSet<String, RandomState>,
}

impl CertifiedHosts {
    /// Collects the hosts of `routes`; `None` if a route matches every host, or if there are no routes.
    pub(super) fn of<'r>(routes: impl Iterator<Item = &'r Route>) -> Option<CertifiedHosts> {
        let mut hosts = CertifiedHosts::default();
        for route in routes {
            if route.hosts.is_empty() {
                return None;
            }
            for host in route.hosts.iter().filter_map(|host| HostPattern::parse(host).ok()) {
                match host {
                    HostPattern::Exact(name) => {
                        hosts.parents.extend(name.split_once('.').map(|(_, parent)| parent.to_owned()));
                        hosts.exact.insert(name);
                    }
                    HostPattern::Suffix(suffix) => drop(hosts.suffixes.insert(suffix)),
                }
            }
        }
        (!hosts.exact.is_empty() || !hosts.suffixes.is_empty()).then_some(hosts)
    }

    /// Whether `certified` is valid for at least one host. Certificates without DNS names count as valid: they are for
    /// IP addresses, which routes seldom name.
    pub(super) fn have_any_of(&self, certified: &Arc<CertifiedKey>) -> bool {
        let names = names_of(certified);
        names.is_empty() || names.iter().any(|name| self.have(name))
    }

    /// Whether `name`, as written in a certificate, covers at least one host.
    fn have(&self, name: &str) -> bool {
        match name.strip_prefix("*.") {
            Some(parent) => self.parents.contains(parent) || self.is_below_suffix(&format!("x.{parent}")),
            None => self.exact.contains(name) || self.is_below_suffix(name),
        }
    }

    fn is_below_suffix(&self, name: &str) -> bool {
        suffixes(name).any(|suffix| self.suffixes.contains(suffix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_certificate_names_with_route_hosts() {
        let hosts = ["shop.test", "a.b.test", "*.wide.test"].map(str::to_owned).to_vec();
        let route = Route { hosts, ..Route::default() };
        let hosts = CertifiedHosts::of([&route].into_iter()).unwrap();
        for name in [
            "shop.test",
            "*.b.test",
            "x.wide.test",
            "x.y.wide.test",
            "*.wide.test",
            "*.x.wide.test",
            "*.test",
        ] {
            assert!(hosts.have(name), "{name}");
        }
        for name in ["b.test", "wide.test", "other.test", "*.shop.test", "*.a.b.test"] {
            assert!(!hosts.have(name), "{name}");
        }
        assert!(CertifiedHosts::of([&route, &Route::default()].into_iter()).is_none());
        assert!(CertifiedHosts::of(std::iter::empty()).is_none());
    }
}
