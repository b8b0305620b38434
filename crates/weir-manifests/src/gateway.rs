//! Gateways and their classes.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::reference::SecretRef;

/// The controller of a class of gateways.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct GatewayClassSpec {
    pub(crate) controller_name: String,
    #[serde(rename = "description", default)]
    _description: IgnoredAny,
}

/// A gateway.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct GatewaySpec {
    pub(crate) gateway_class_name: String,
    pub(crate) listeners: Vec<ListenerSpec>,
    /// IP addresses of this host; 0.0.0.0 if there are none.
    #[serde(default)]
    pub(crate) addresses: Vec<AddressSpec>,
}

/// An address of a gateway.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AddressSpec {
    #[serde(rename = "type", default)]
    _kind: AddressKind,
    pub(crate) value: String,
}

/// The type of an address.
#[derive(Debug, Default, Deserialize)]
enum AddressKind {
    #[default]
    #[serde(rename = "IPAddress")]
    Ip,
}

/// One of a gateway's listeners. All listeners of one port are one listener of the configuration,
/// `NAMESPACE/NAME:PORT`; they are all plain text or all TLS.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ListenerSpec {
    pub(crate) name: String,
    /// A request belongs to the listener of its port with the most specific hostname. If none of its routes matches,
    /// the response is 404 (`no_route`), whatever other listeners would do; it counts as a response, not in
    /// `weir_errors_total`. TLS server names work in the same way: a `TLS` listener for a name is never opened by an
    /// HTTPS listener for every host.
    #[serde(default)]
    pub(crate) hostname: Option<String>,
    pub(crate) port: u16,
    pub(crate) protocol: Protocol,
    #[serde(default)]
    pub(crate) tls: Option<ListenerTls>,
    #[serde(default)]
    pub(crate) allowed_routes: AllowedRoutes,
}

/// The protocol of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum Protocol {
    #[serde(rename = "HTTP")]
    Http,
    #[serde(rename = "HTTPS")]
    Https,
    /// Forwarded without decryption; requires `mode: Passthrough`. Without a TLSRoute for the server name, the gateway
    /// closes the connection (`unknown_name`). A TLSRoute without hostnames matches every client.
    #[serde(rename = "TLS")]
    Tls,
}

/// TLS with clients.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ListenerTls {
    pub(crate) mode: TlsMode,
    /// A client gets a certificate of the listener for its server name: one that contains the name, otherwise the
    /// first. A client without a server name, or with one of no listener, gets the first certificate of the listener
    /// without a hostname; without such a listener its handshake fails. Requests are routed by `Host`, whatever the
    /// server name. A Secret of another namespace needs a ReferenceGrant there.
    pub(crate) certificate_refs: Vec<SecretRef>,
}

/// Where TLS is terminated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum TlsMode {
    #[default]
    Terminate,
    Passthrough,
}

/// Routes that may attach to a listener.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AllowedRoutes {
    pub(crate) namespaces: RouteNamespaces,
    pub(crate) kinds: Vec<RouteKind>,
}

/// Namespaces from which routes may attach.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RouteNamespaces {
    pub(crate) from: FromNamespaces,
    pub(crate) selector: Option<LabelSelector>,
}

/// Which namespaces, relative to the gateway's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum FromNamespaces {
    All,
    #[default]
    Same,
    Selector,
    None,
}

/// Required labels of a namespace.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct LabelSelector {
    pub(crate) match_labels: BTreeMap<String, String>,
}

/// A kind of route.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RouteKind {
    #[serde(default)]
    pub(crate) group: Option<String>,
    pub(crate) kind: String,
}
