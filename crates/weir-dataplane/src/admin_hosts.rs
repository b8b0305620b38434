//! The Host names that the admin server accepts.
//!
//! A web page can let its own name resolve to a loopback address (DNS rebinding). A browser then lets the page read the
//! responses of the admin server. The `Host` of such a request is the page's own host name, never an address. So the
//! server accepts only addresses, names that always mean this host, and names that the operator lists.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use weir_config::host_and_port;

/// A Host name that the admin server accepts in addition to addresses and `localhost`: `NAME`, or `*.NAME` for all its
/// subdomains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminHost {
    /// The name in lower case. `.NAME` means all subdomains of `NAME`.
    name: String,
}

impl FromStr for AdminHost {
    type Err = String;

    fn from_str(text: &str) -> Result<AdminHost, String> {
        let name = text.strip_prefix('*').unwrap_or(text);
        let labels = name.strip_prefix('.').filter(|_| text.starts_with('*')).unwrap_or(name);
        let is_label = |label: &str| {
            !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
        };
        if !labels.split('.').all(is_label) || text.starts_with('*') && labels == name {
            return Err(
                "not a host name; write it without scheme and port, as in `gw.example.com` or `*.example.com`".to_owned()
            );
        }
        Ok(AdminHost { name: name.to_ascii_lowercase() })
    }
}

impl AdminHost {
    fn matches(&self, name: &str) -> bool {
        match self.name.starts_with('.') {
            true => name.len() > self.name.len() && name.ends_with(&self.name),
            false => name == self.name,
        }
    }
}

/// Whether the server accepts the Host `authority`. It accepts an empty Host, an address, `localhost` with its
/// subdomains, and the `listed` names. Ports are ignored.
pub(crate) fn is_accepted(authority: &str, listed: &[AdminHost]) -> bool {
    let (name, _) = host_and_port(authority);
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    name.is_empty()
        || is_address(&name)
        || name == "localhost"
        || name.ends_with(".localhost")
        || listed.iter().any(|host| host.matches(&name))
}

fn is_address(name: &str) -> bool {
    match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        // A link-local address may contain a zone after a percent sign.
        Some(inner) => inner.split('%').next().is_some_and(|address| address.parse::<Ipv6Addr>().is_ok()),
        None => name.parse::<Ipv4Addr>().is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_rebound_names() {
        let listed: Vec<AdminHost> =
            ["GW.example.com", "*.svc.local"].map(|text| text.parse().unwrap()).into();
        let check = |authority: &str, expected: bool| {
            assert_eq!(is_accepted(authority, &listed), expected, "{authority}");
        };
        for accepted in [
            "",
            "localhost",
            "LocalHost:9901",
            "localhost.",
            "a.localhost:1",
            "127.0.0.1",
            "127.8.9.10:9901",
            "[::1]",
            "[::1]:9901",
            "[fe80::1%25eth0]:80",
            "10.0.0.7:9901",
            "[2001:db8::7]",
            "gw.example.com",
            "gw.Example.com.:80",
            "pod-1.svc.local:9901",
            "a.b.svc.local",
        ] {
            check(accepted, true);
        }
        for refused in [
            "evil.example",
            "localhost.evil.example",
            "evil-localhost",
            "127.0.0.1.evil.example",
            "127.1",
            "[evil]",
            "[::1.evil",
            "[::1",
            "[]",
            "a.gw.example.com",
            "example.com",
            "svc.local",
            "evilsvc.local",
            ".svc.local",
            "gw.example.comx",
        ] {
            check(refused, false);
        }
    }

    #[test]
    fn rejects_listed_names_that_are_no_host_names() {
        for wrong in ["", "*", "*.", "*x.test", "http://a", "a:80", "a b", "a..b", ".a", "a*.b", "[::1]"] {
            assert!(wrong.parse::<AdminHost>().is_err(), "{wrong}");
        }
    }
}
