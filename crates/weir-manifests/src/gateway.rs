//! Gateways and their classes.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::reference::SecretRef;

/// Who makes gateways of a class.
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
    #[serde(default)]
    pub(crate) addresses: Vec<AddressSpec>,
}

/// Where a gateway listens.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AddressSpec {
    #[serde(rename = "type", default)]
    _kind: AddressKind,
    pub(crate) value: String,
}

/// What an address is.
#[derive(Debug, Default, Deserialize)]
enum AddressKind {
    #[default]
    #[serde(rename = "IPAddress")]
    Ip,
}

/// One of a gateway's listeners.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ListenerSpec {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) hostname: Option<String>,
    pub(crate) port: u16,
    pub(crate) protocol: Protocol,
    #[serde(default)]
    pub(crate) tls: Option<ListenerTls>,
    #[serde(default)]
    pub(crate) allowed_routes: AllowedRoutes,
}

/// What is spoken with clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum Protocol {
    #[serde(rename = "HTTP")]
    Http,
    #[serde(rename = "HTTPS")]
    Https,
    #[serde(rename = "TLS")]
    Tls,
}

/// TLS with clients.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ListenerTls {
    pub(crate) mode: TlsMode,
    pub(crate) certificate_refs: Vec<SecretRef>,
}

/// Where TLS ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum TlsMode {
    #[default]
    Terminate,
    Passthrough,
}

/// Which routes may name a listener as their parent.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AllowedRoutes {
    pub(crate) namespaces: RouteNamespaces,
    pub(crate) kinds: Vec<RouteKind>,
}

/// The namespaces that they may stand in.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RouteNamespaces {
    pub(crate) from: FromNamespaces,
    pub(crate) selector: Option<LabelSelector>,
}

/// Which namespaces, seen from the gateway's.
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
