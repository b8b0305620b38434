//! Translates TLSRoutes: TLS passthrough by server name.

use std::collections::{BTreeMap, BTreeSet};

use weir_config::Passthrough;

use super::Misfit;
use super::attach::Child;
use super::catalog::{Catalog, Referrer};
use super::gateways::Gateways;
use super::hosts::EVERY;
use super::rules::backend_name;
use crate::kind::Kind;
use crate::manifest::Body;
use crate::route::TlsRouteSpec;

/// A passthrough entry of a listener, with the index of its TLSRoute among the manifests.
pub(super) struct PassedOn {
    pub(super) entry: Passthrough,
    pub(super) manifest: usize,
}

/// The passthrough entries of all TLSRoutes, by the label of the listener. If several routes have the same host, the
/// one that has precedence in Gateway API wins.
pub(super) fn passed_on(
    catalog: &Catalog<'_>,
    gateways: &Gateways<'_>,
    misfits: &mut Vec<Misfit>,
) -> BTreeMap<String, Vec<PassedOn>> {
    let mut routes: Vec<_> = catalog.all(Kind::TlsRoute).collect();
    routes
        .sort_by_cached_key(|(manifest, name, _)| (catalog.manifests[*manifest].created_s, name.to_string()));
    let mut passed_on: BTreeMap<String, Vec<PassedOn>> = BTreeMap::new();
    let mut taken = BTreeSet::new();
    for (manifest, name, body) in routes {
        let Body::TlsRoute(spec) = body else { continue };
        let kind = Kind::TlsRoute;
        let child = Child { manifest, kind, name, parents: &spec.parent_refs, hostnames: &spec.hostnames };
        let attachments = child.attach(catalog, gateways, misfits);
        let referrer = Referrer { manifest, kind, namespace: &name.namespace };
        let backend = match backend(catalog, referrer, spec) {
            Ok(backend) => backend,
            Err(misfit) => {
                misfits.push(misfit);
                continue;
            }
        };
        for (label, hosts) in attachments {
            let is_free = |host: &String| taken.insert((label.clone(), host.clone()));
            let every = hosts.every.then(|| EVERY.to_owned());
            let hosts: Vec<String> = hosts.names.into_iter().chain(every).filter(is_free).collect();
            if !hosts.is_empty() {
                let entry = Passthrough { hosts, backend: Some(backend.clone()), instead: None };
                passed_on.entry(label).or_default().push(PassedOn { entry, manifest });
            }
        }
    }
    passed_on
}

/// The backend of the route, which must have exactly one.
fn backend(catalog: &Catalog<'_>, referrer: Referrer<'_>, spec: &TlsRouteSpec) -> Result<String, Misfit> {
    let references: Vec<_> = spec.rules.iter().flat_map(|rule| &rule.backend_refs).collect();
    match references.as_slice() {
        [only] if only.weight() > 0 && only.filters.is_empty() => {
            backend_name(catalog, referrer, only, "spec.rules[0].backendRefs[0]")
        }
        _ => {
            let message = "TLS passthrough requires exactly one backend";
            Err(Misfit::new(
                referrer.manifest,
                "spec.rules",
                message,
                "write one rule with one entry in `backendRefs`",
            ))
        }
    }
}
