//! Services behind the gateway, and who may name what of another namespace.

use serde::Deserialize;

/// weir's own kind for a service with its addresses.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BackendSpec {
    pub(crate) endpoints: Vec<Endpoint>,
}

/// Where a service runs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Endpoint {
    /// An IP address.
    pub(crate) address: String,
    pub(crate) port: u16,
}

/// Resources of its namespace that resources of others may name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReferenceGrantSpec {
    pub(crate) from: Vec<GrantFrom>,
    pub(crate) to: Vec<GrantTo>,
}

/// Who may name them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GrantFrom {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) namespace: String,
}

/// What may be named; every one of the kind where no name stands.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GrantTo {
    pub(crate) group: String,
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) name: Option<String>,
}
