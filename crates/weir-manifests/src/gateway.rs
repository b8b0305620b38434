//! Gateways and their classes.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::reference::SecretRef;

/// A class of gateways. It contains the name of the controller that implements its gateways.
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
    /// IP addresses of this host on which the gateway listens; 0.0.0.0 if the list is empty.
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

/// A listener of a gateway. All listeners with the same port become one listener of the configuration, named
/// `NAMESPACE/NAME:PORT`; so either all of them use plain HTTP, or all use TLS.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ListenerSpec {
    pub(crate) name: String,
    /// If several listeners of a port match the host of a request, the listener with the most specific hostname handles
    /// it.
    ///
    /// If none of this listener's routes matches, the response is 404 (`no_route`), even if another listener has a
    /// matching route. Metrics count this 404 as a response; `weir_errors_total` does not count it.
    ///
    /// TLS server names follow the same rule: if a `TLS` listener has a hostname, an HTTPS listener that accepts every
    /// host never terminates TLS for this hostname.
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
    /// TLS passthrough: connections are forwarded without decryption. Requires `mode: Passthrough`. If no TLSRoute
    /// matches the server name, the gateway closes the connection (`unknown_name`). A TLSRoute without hostnames
    /// matches every client.
    #[serde(rename = "TLS")]
    Tls,
}

/// TLS settings of a listener.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ListenerTls {
    pub(crate) mode: TlsMode,
    /// Secrets with certificates. The server name of a client selects the listener. The client gets a certificate of
    /// this listener that contains the name, or else the listener's first certificate. A client without a server name,
    /// or with a name that matches no listener, gets the first certificate of the listener without a hostname; without
    /// such a listener its handshake fails. Requests are routed by `Host`, whatever the server name. A Secret of
    /// another namespace needs a ReferenceGrant in that namespace.
    pub(crate) certificate_refs: Vec<SecretRef>,
}

/// Whether the gateway or the backend terminates TLS.
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

/// Selects namespaces, relative to the namespace of the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum FromNamespaces {
    All,
    #[default]
    Same,
    Selector,
    None,
}

/// Labels that a namespace must have.
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
