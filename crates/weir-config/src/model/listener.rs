//! A listener: an address that accepts client connections.

use std::borrow::Cow;
use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::address::address;
use super::forms::ADDRESS;
use super::tls::{Passthrough, Tls};

/// An address that accepts client connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Listener {
    /// IP address and port. With port 0, the system chooses a port. If several listeners have port 0, a reload matches
    /// them by order.
    #[schemars(with = "String", regex(pattern = ADDRESS), example = "127.0.0.1:8080")]
    #[serde(deserialize_with = "address")]
    pub address: SocketAddr,
    /// Name in metrics, logs and `routes[].listeners`. A reload can change it only together with the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"public", extend("x-default" = "the address"))]
    pub name: Option<String>,
    /// TLS settings for clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "certificate": "shop.pem", "key": "shop.key" }))]
    #[schemars(extend("x-default" = "no TLS"))]
    pub tls: Option<Box<Tls>>,
    /// TLS passthrough by server name (SNI). Clients with other names use `tls`; without `tls` the gateway closes their
    /// connections (`unknown_name`). The client's first message (at most 16 KiB) must arrive within `timeouts.head`;
    /// after that `timeouts.upgraded` applies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(example = json!([{ "hosts": ["bank.example"], "backend": "sealed" }]))]
    pub passthrough: Vec<Passthrough>,
    /// Require a PROXY protocol header (version 1 or 2) with the client address on every connection, before TLS. The
    /// header (at most 2 KiB) must arrive within `timeouts.head`; otherwise the gateway closes the connection
    /// (`proxy_header`). A reload changes this only for new connections.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("x-default" = "`false`"))]
    pub proxy_protocol: bool,
    /// If true, clients that close their sending side (FIN) early still get a response, and only a reset counts as a
    /// disconnect. If false, the gateway treats them as disconnected and cancels the request. A reload changes this for
    /// open connections too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(example = &true, extend("x-default" = false))]
    pub half_close: bool,
}

impl Listener {
    /// A listener for plain HTTP.
    pub fn plain(address: SocketAddr) -> Listener {
        Listener {
            address,
            name: None,
            tls: None,
            passthrough: Vec::new(),
            proxy_protocol: false,
            half_close: false,
        }
    }

    /// The name that routes use for this listener: the configured name, else the configured address.
    pub fn label(&self) -> Cow<'_, str> {
        match &self.name {
            Some(name) => Cow::Borrowed(name),
            None => Cow::Owned(self.address.to_string()),
        }
    }
}
