//! Attaches routes to listeners, and determines their hosts there.

use super::catalog::{Catalog, Referrer, Wanted, meant};
use super::gateways::{GatewayView, Gateways, Port};
use super::hosts::intersection;
use super::{Attachments, Misfit};
use crate::gateway::{AllowedRoutes, FromNamespaces, Protocol, RouteKind};
use crate::kind::{GATEWAY_API, Kind};
use crate::manifest::Name;
use crate::reference::ParentRef;

/// A route that attaches to its parents.
#[derive(Clone, Copy)]
pub(super) struct Child<'m> {
    pub(super) manifest: usize,
    pub(super) kind: Kind,
    pub(super) name: &'m Name,
    pub(super) parents: &'m [ParentRef],
    pub(super) hostnames: &'m [String],
}

/// A listener of a gateway, with its port and its index in the Gateway.
type Candidate<'g, 'm> = (&'g GatewayView<'m>, &'g Port, usize);

impl Child<'_> {
    /// Returns the listeners and hosts of the route. Adds an error for each parent that does not accept it.
    pub(super) fn attach(
        &self,
        catalog: &Catalog<'_>,
        gateways: &Gateways<'_>,
        misfits: &mut Vec<Misfit>,
    ) -> Attachments {
        let mut attachments = Attachments::new();
        if self.parents.is_empty() {
            let remedy = "add its Gateway: `parentRefs: [{ name: .. }]`";
            misfits.push(Misfit::new(
                self.manifest,
                "spec.parentRefs",
                "the route has no parent Gateway",
                remedy,
            ));
        }
        for (index, parent) in self.parents.iter().enumerate() {
            let path = format!("spec.parentRefs[{index}]");
            let candidates = match self.candidates(catalog, gateways, parent, &path) {
                Ok(candidates) => candidates,
                Err(misfit) => {
                    misfits.push(misfit);
                    continue;
                }
            };
            let attached = candidates.iter().filter(|candidate| self.take(candidate, &mut attachments));
            if attached.count() == 0 && !candidates.is_empty() {
                let message = "no hostname of the route matches a hostname of the listener";
                let remedy = self.hostnames_there(&candidates);
                misfits.push(Misfit::new(self.manifest, "spec.hostnames", message, remedy));
            }
        }
        attachments
    }

    /// The listeners that a parent reference selects and that accept the route; none if another controller implements
    /// the gateway.
    fn candidates<'g, 'm>(
        &self,
        catalog: &Catalog<'_>,
        gateways: &'g Gateways<'m>,
        parent: &ParentRef,
        path: &str,
    ) -> Result<Vec<Candidate<'g, 'm>>, Misfit> {
        let wrong = |field: &str, message: String, remedy: &str| {
            Err(Misfit::new(self.manifest, format!("{path}{field}"), message, remedy))
        };
        if !parent.is_gateway() {
            return wrong(
                ".kind",
                "unsupported parent; only a Gateway is supported".to_owned(),
                "reference a Gateway",
            );
        }
        let namespace = parent.namespace.as_deref().unwrap_or(&self.name.namespace);
        // A route may reference a gateway in another namespace without a ReferenceGrant: `allowedRoutes` of the
        // listeners decides.
        let referrer = Referrer { manifest: self.manifest, kind: self.kind, namespace };
        let (position, name) =
            catalog.resolve(referrer, path, Wanted::without_namespace(Kind::Gateway, &parent.name))?;
        let Some(gateway) = gateways.at(position).filter(|gateway| !gateway.is_foreign) else {
            return Ok(Vec::new());
        };
        let all = gateway.ports.iter();
        let mut found: Vec<Candidate<'g, 'm>> = all
            .flat_map(|port| port.listeners.iter().map(move |&listener| (gateway, port, listener)))
            .collect();
        if let Some(section) = &parent.section_name {
            found.retain(|(gateway, _, listener)| gateway.listener(*listener).name == *section);
            if found.is_empty() {
                let names = gateway.spec.listeners.iter().map(|listener| listener.name.as_str());
                let message = format!("Gateway {name} has no listener `{section}`");
                let remedy =
                    meant(section, names).unwrap_or_else(|| "add the listener to the Gateway".to_owned());
                return wrong(".sectionName", message, &remedy);
            }
        }
        if let Some(number) = parent.port {
            found.retain(|(_, port, _)| port.number == number);
            if found.is_empty() {
                let (message, remedy) = match &parent.section_name {
                    Some(section) => (
                        format!("the port of listener `{section}` of Gateway {name} is not {number}"),
                        "remove `port`, or use the port of the listener",
                    ),
                    None => (
                        format!("Gateway {name} has no listener on port {number}"),
                        "remove `port`, or use the port of a listener",
                    ),
                };
                return wrong(".port", message, remedy);
            }
        }
        self.retain_willing(catalog, &mut found);
        if found.is_empty() {
            let own = &self.name.namespace;
            let message = format!(
                "no matching listener of Gateway {name} allows a {} from namespace `{own}`",
                self.kind
            );
            let remedy = "check the listener's `protocol` (HTTPRoutes need HTTP or HTTPS, TLSRoutes need TLS) and its \
                          `allowedRoutes` (by default, only routes of the Gateway's namespace)";
            return wrong("", message, remedy);
        }
        Ok(found)
    }

    /// Keeps only the listeners that accept this kind of route from its namespace.
    fn retain_willing(&self, catalog: &Catalog<'_>, found: &mut Vec<Candidate<'_, '_>>) {
        found.retain(|(gateway, _, position)| {
            let listener = gateway.listener(*position);
            let is_served = match listener.protocol {
                Protocol::Http | Protocol::Https => self.kind == Kind::HttpRoute,
                Protocol::Tls => self.kind == Kind::TlsRoute,
            };
            is_served && self.is_allowed(catalog, &listener.allowed_routes, gateway.name)
        });
    }

    fn is_allowed(&self, catalog: &Catalog<'_>, allowed: &AllowedRoutes, gateway: &Name) -> bool {
        let own = &self.name.namespace;
        let is_of_namespace = match (allowed.namespaces.from, &allowed.namespaces.selector) {
            (FromNamespaces::All, _) => true,
            (FromNamespaces::Same, _) => *own == gateway.namespace,
            (FromNamespaces::Selector, Some(selector)) => {
                selector.match_labels.iter().all(|(label, value)| has_label(catalog, own, label, value))
            }
            (FromNamespaces::None | FromNamespaces::Selector, _) => false,
        };
        let is_of_kind = |kind: &RouteKind| {
            kind.group.as_deref().unwrap_or(GATEWAY_API) == GATEWAY_API && kind.kind == self.kind.name()
        };
        is_of_namespace && (allowed.kinds.is_empty() || allowed.kinds.iter().any(is_of_kind))
    }

    /// Adds the hosts that the route has at this listener. Returns whether there are any.
    fn take(&self, (gateway, port, listener): &Candidate<'_, '_>, attachments: &mut Attachments) -> bool {
        let hostname = gateway.hostname(*listener);
        let names: Vec<String> = match self.hostnames {
            [] => hostname.iter().cloned().collect(),
            own => {
                let both = |name: &String| intersection(hostname.as_deref(), &name.to_ascii_lowercase());
                own.iter().filter_map(both).collect()
            }
        };
        let every = self.hostnames.is_empty() && hostname.is_none();
        if !every && names.is_empty() {
            return false;
        }
        let wanted = attachments.entry(port.label.clone()).or_default();
        wanted.port = port.number;
        wanted.every |= every;
        // Leave out hosts that a more specific listener handles: requests for them never match the route at this
        // listener.
        wanted.names.extend(names.into_iter().filter(|name| !gateway.is_taken(port, *listener, name)));
        true
    }

    /// Suggests a hostname of these listeners, as a remedy.
    fn hostnames_there(&self, candidates: &[Candidate<'_, '_>]) -> String {
        let there: Vec<String> =
            candidates.iter().filter_map(|(gateway, _, listener)| gateway.hostname(*listener)).collect();
        let first = self.hostnames.first().map(String::as_str).unwrap_or_default();
        meant(first, there.iter().map(String::as_str)).unwrap_or_else(|| "remove `hostnames`".to_owned())
    }
}

fn has_label(catalog: &Catalog<'_>, namespace: &str, label: &str, value: &str) -> bool {
    // Kubernetes sets this label on every namespace.
    if label == "kubernetes.io/metadata.name" {
        return value == namespace;
    }
    let name = Name { namespace: String::new(), name: namespace.to_owned() };
    let found = catalog.find(Kind::Namespace, &name);
    found
        .is_some_and(|position| catalog.manifests[position].labels.get(label).is_some_and(|own| own == value))
}
