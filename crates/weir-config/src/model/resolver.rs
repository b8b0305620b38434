//! DNS servers for host names of endpoints.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::Problem;

use super::address::addresses;

/// DNS servers that resolve the host names of endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Resolver {
    /// DNS servers, each an IP address with a port. The gateway asks over UDP, and over TCP for long responses. If
    /// empty, it uses `/etc/resolv.conf` with its search list. `/etc/hosts` always takes precedence over DNS.
    #[schemars(with = "Vec<String>")]
    #[serde(deserialize_with = "addresses", skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<SocketAddr>,
}

/// Validates `resolver`.
pub(crate) fn check(resolver: &Resolver) -> Result<(), Problem> {
    match resolver.servers.iter().position(|server| server.port() == 0) {
        Some(index) => {
            let message = format!("{} has port 0", resolver.servers[index]);
            Err(Problem::of(format!("resolver.servers[{index}]"), message)
                .help("write the port of the DNS server, usually 53"))
        }
        None => Ok(()),
    }
}
