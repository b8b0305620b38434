//! References between resources.

use serde::Deserialize;

use crate::filter::HttpFilter;
use crate::kind::{GATEWAY_API, Kind};

/// The parent of a route: a gateway, or some of its listeners.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ParentRef {
    #[serde(default)]
    pub(crate) group: Option<String>,
    #[serde(default)]
    pub(crate) kind: Option<String>,
    #[serde(default)]
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    /// The name of a listener of the gateway; `None` selects all listeners.
    #[serde(default)]
    pub(crate) section_name: Option<String>,
    #[serde(default)]
    pub(crate) port: Option<u16>,
}

/// A Secret that a listener references.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SecretRef {
    #[serde(default)]
    pub(crate) group: Option<String>,
    #[serde(default)]
    pub(crate) kind: Option<String>,
    #[serde(default)]
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

/// A backend that a rule references.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BackendRef {
    #[serde(default)]
    pub(crate) group: Option<String>,
    #[serde(default)]
    pub(crate) kind: Option<String>,
    #[serde(default)]
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) port: Option<u16>,
    #[serde(default)]
    pub(crate) weight: Option<u32>,
    #[serde(default)]
    pub(crate) filters: Vec<HttpFilter>,
}

impl ParentRef {
    pub(crate) fn is_gateway(&self) -> bool {
        self.group.as_deref().unwrap_or(GATEWAY_API) == GATEWAY_API
            && self.kind.as_deref().unwrap_or(Kind::Gateway.name()) == Kind::Gateway.name()
    }
}

impl SecretRef {
    pub(crate) fn is_secret(&self) -> bool {
        self.group.as_deref().unwrap_or_default().is_empty()
            && self.kind.as_deref().unwrap_or(Kind::Secret.name()) == Kind::Secret.name()
    }
}

impl BackendRef {
    pub(crate) fn is_backend(&self) -> bool {
        self.group.as_deref() == Some(Kind::Backend.group())
            && self.kind.as_deref() == Some(Kind::Backend.name())
    }

    pub(crate) fn weight(&self) -> u32 {
        self.weight.unwrap_or(1)
    }
}
