//! Supported kinds of resources.

use std::fmt;

use serde::{Deserialize, Deserializer};
use weir_document::nearest;

use crate::text::parsed;

/// The API group of weir's own kinds.
pub const GROUP: &str = "gateway.weir.example";

/// The `controllerName` of a `GatewayClass` whose gateways weir implements.
pub const CONTROLLER: &str = "gateway.weir.example/controller";

/// The API group of Gateway API.
pub(crate) const GATEWAY_API: &str = "gateway.networking.k8s.io";

/// A kind of resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    GatewayClass,
    Gateway,
    HttpRoute,
    TlsRoute,
    ReferenceGrant,
    Backend,
    Secret,
    Namespace,
    List,
}

/// Every kind with its name, its API group and its supported versions, in the order of [`Kind`].
const KINDS: [(Kind, &str, &str, &[&str]); 9] = [
    (Kind::GatewayClass, "GatewayClass", GATEWAY_API, &["v1", "v1beta1"]),
    (Kind::Gateway, "Gateway", GATEWAY_API, &["v1", "v1beta1"]),
    (Kind::HttpRoute, "HTTPRoute", GATEWAY_API, &["v1", "v1beta1"]),
    (Kind::TlsRoute, "TLSRoute", GATEWAY_API, &["v1", "v1alpha3", "v1alpha2"]),
    (Kind::ReferenceGrant, "ReferenceGrant", GATEWAY_API, &["v1", "v1beta1"]),
    (Kind::Backend, "Backend", GROUP, &["v1alpha1"]),
    (Kind::Secret, "Secret", "", &["v1"]),
    (Kind::Namespace, "Namespace", "", &["v1"]),
    (Kind::List, "List", "", &["v1"]),
];

impl Kind {
    /// The kind with this name in manifests, if it is supported.
    pub(crate) fn named(name: &str) -> Option<Kind> {
        KINDS.iter().find(|(_, known, ..)| *known == name).map(|(kind, ..)| *kind)
    }

    /// The name of the kind in manifests.
    pub(crate) fn name(self) -> &'static str {
        KINDS[self as usize].1
    }

    pub(crate) fn group(self) -> &'static str {
        KINDS[self as usize].2
    }

    /// Whether resources of this kind are cluster-scoped.
    pub(crate) fn is_of_cluster(self) -> bool {
        matches!(self, Kind::GatewayClass | Kind::Namespace | Kind::List)
    }

    /// Checks that the kind is supported in `api_version`. An error has the form `cause; remedy`.
    pub(crate) fn check_version(self, api_version: &str) -> Result<(), String> {
        let (_, name, group, versions) = KINDS[self as usize];
        let (found_group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        match found_group == group && versions.contains(&version) {
            true => Ok(()),
            false => {
                let written = |version: &&str| {
                    if group.is_empty() { (*version).to_owned() } else { format!("{group}/{version}") }
                };
                let known: Vec<String> = versions.iter().map(written).collect();
                Err(format!(
                    "unsupported apiVersion `{api_version}` for {name}; write {}",
                    known.join(" or ")
                ))
            }
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Kind, D::Error> {
        parsed(deserializer, "the name of a kind", |text| {
            Kind::named(text).ok_or_else(|| {
                let names: Vec<&str> = KINDS.iter().map(|(_, name, ..)| *name).collect();
                let meant = nearest(text, names.iter().copied());
                let meant = meant.map_or(String::new(), |name| format!("did you mean {name}? "));
                format!("unsupported kind `{text}`; {meant}supported kinds: {}", names.join(", "))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_at_its_index_in_the_table() {
        for (position, (kind, ..)) in KINDS.iter().enumerate() {
            assert_eq!(*kind as usize, position, "{kind}");
        }
    }

    #[test]
    fn kinds_are_matched_by_group_and_version() {
        assert_eq!(Kind::HttpRoute.check_version("gateway.networking.k8s.io/v1"), Ok(()));
        assert_eq!(Kind::Secret.check_version("v1"), Ok(()));
        assert_eq!(
            Kind::Gateway.check_version("networking.istio.io/v1"),
            Err("unsupported apiVersion `networking.istio.io/v1` for Gateway; write gateway.networking.k8s.io/v1 or \
                 gateway.networking.k8s.io/v1beta1"
                .to_owned())
        );
        assert!(Kind::Secret.check_version("v2").unwrap_err().ends_with("; write v1"));
    }
}
