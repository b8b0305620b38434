//! A backend: the endpoints of a service, and how the gateway uses them.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use weir_document::Time;

use super::tls::BackendTls;

pub(crate) mod balance;
mod endpoint;
pub(crate) mod health;
pub(crate) mod keepalive;
pub(crate) mod limits;
pub(crate) mod timeouts;
mod upstream_address;

pub use balance::{Balance, HashKey, Sticky};
pub use endpoint::{Endpoint, EndpointAddress, Member};
pub use health::{Ejection, ErrorShare, HealthCheck};
pub use keepalive::Keepalive;
pub use limits::BackendLimits;
pub use timeouts::BackendTimeouts;
pub use upstream_address::UpstreamAddress;

/// A service behind the gateway, with one or more endpoints.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Backend {
    /// Addresses of the service: IP addresses or host names with ports, or Unix sockets (`unix:/run/app.sock`). If the
    /// list is empty, requests get 503.
    #[schemars(example = json!(["127.0.0.1:9000"]))]
    pub endpoints: Vec<Endpoint>,
    /// Load balancing algorithm.
    #[serde(default, skip_serializing_if = "Balance::is_default")]
    #[schemars(extend("x-default" = "`round_robin`"))]
    pub balance: Balance,
    /// Time in which a new or recovered endpoint ramps up from a tenth to its full share of requests. The endpoints
    /// that a backend starts with get their full share immediately. Cannot be combined with `hash`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow_start: Option<Time>,
    /// TLS settings for connections to the endpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "sni": "web.internal" }), extend("x-default" = "no TLS"))]
    pub tls: Option<BackendTls>,
    /// Active health checks. Unhealthy endpoints get no requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<Box<HealthCheck>>,
    /// Passive health checks: temporarily eject endpoints with too many errors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ejection: Option<Ejection>,
    /// Connection and request limits of this backend.
    #[serde(default, skip_serializing_if = "BackendLimits::is_default")]
    pub limits: BackendLimits,
    /// Timeouts of this backend; they override those of the gateway.
    #[serde(default, skip_serializing_if = "BackendTimeouts::is_default")]
    pub timeouts: BackendTimeouts,
    /// Send a PROXY protocol header of this version on each connection, with the client address and the address that
    /// the client connected to. A connection then serves one request or tunnel. Default: no header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_protocol: Option<ProxyVersion>,
    /// Limits on the lifetime of connections to the endpoints.
    #[serde(default, skip_serializing_if = "Keepalive::is_default")]
    pub keepalive: Keepalive,
}

impl Backend {
    /// The endpoints with resolved addresses: `addresses` returns the IP addresses of a host name.
    pub fn members(&self, addresses: impl Fn(&str) -> Vec<IpAddr>) -> Vec<Member> {
        let mut members = Vec::with_capacity(self.endpoints.len());
        for Endpoint { address, weight } in &self.endpoints {
            let found = address.resolved(&addresses).into_iter();
            members.extend(found.map(|address| Member { address, weight: *weight }));
        }
        members
    }

    /// Whether at least one endpoint is a Unix socket.
    pub(crate) fn has_unix_sockets(&self) -> bool {
        let is_unix = |endpoint: &Endpoint| {
            matches!(endpoint.address, EndpointAddress::Known(UpstreamAddress::Unix(_)))
        };
        self.endpoints.iter().any(is_unix)
    }

    /// The host names among the endpoints.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.endpoints.iter().filter_map(|endpoint| match &endpoint.address {
            EndpointAddress::Known(_) => None,
            EndpointAddress::Name { host, .. } => Some(host.as_str()),
        })
    }
}

/// A version of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProxyVersion {
    /// Text format.
    V1,
    /// Binary format.
    V2,
}
