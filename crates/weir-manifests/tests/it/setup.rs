//! Helpers that translate manifests to a route table, or return their errors.

use std::sync::Arc;

use weir_config::{Batch, Change, Listener, Policy, RequestView, Resource, State, Table};
use weir_manifests::{Manifest, Read, Translation, read, translate};

/// A class and a gateway. Its listener is plain HTTP for every host, on port 80 of 127.0.0.1.
pub(crate) const GATEWAY: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: { name: weir }
spec: { controllerName: gateway.weir.example/controller }
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: edge }
spec:
  gatewayClassName: weir
  addresses: [{ type: IPAddress, value: 127.0.0.1 }]
  listeners: [{ name: http, port: 80, protocol: HTTP }]
";

/// The manifest of a backend with this name.
pub(crate) fn backend(name: &str) -> String {
    format!(
        "apiVersion: gateway.weir.example/v1alpha1\nkind: Backend\nmetadata: {{ name: {name} }}\n\
         spec: {{ endpoints: [{{ address: 127.0.0.1, port: 9000 }}] }}\n"
    )
}

/// An entry of `backendRefs` for the backend with this name.
pub(crate) fn to(name: &str) -> String {
    format!("{{ group: gateway.weir.example, kind: Backend, name: {name} }}")
}

/// The manifest of an HTTPRoute of the gateway `edge`, with these lines in its `metadata` and `spec`.
pub(crate) fn route(name: &str, metadata: &str, spec: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{ name: {name}{metadata} }}\n\
         spec:\n  parentRefs: [{{ name: edge }}]\n{spec}\n"
    )
}

pub(crate) fn manifests(documents: &[&str]) -> Vec<Read> {
    let text = documents.join("\n---\n");
    read("all.yaml", &text).unwrap_or_else(|errors| panic!("{errors:#?}\n{text}"))
}

/// Translates manifests. Errors are returned as `resource: path: message`, each with its remedy.
pub(crate) fn translated(documents: &[&str]) -> Result<Translation, Vec<(String, String)>> {
    let read = manifests(documents);
    let all: Vec<&Manifest> = read.iter().map(|read| &read.manifest).collect();
    translate(&all).map_err(|misfits| {
        let tell = |misfit: weir_manifests::Misfit| {
            let title = all[misfit.manifest].title();
            (format!("{title}: {}: {}", misfit.path, misfit.message), misfit.remedy)
        };
        misfits.into_iter().map(tell).collect()
    })
}

pub(crate) fn table(documents: &[&str]) -> Arc<Table> {
    let translation = translated(documents).unwrap_or_else(|misfits| panic!("{misfits:#?}"));
    let changes =
        translation.resources.into_iter().map(|(key, resource)| Change::Put(key, resource)).collect();
    let applied = State::default().apply(Batch { version: 1, policy: Policy::AllOrNothing, changes });
    applied.table.unwrap_or_else(|| panic!("{:#?}", applied.refused))
}

/// The key of the route that matches a GET of `url` (host and path) at the listener with this port; `none` if none
/// matches.
pub(crate) fn found(table: &Table, port: u16, url: &str) -> String {
    let (host, path) = url.split_at(url.find('/').unwrap());
    let scope = table.scope(std::net::SocketAddr::from(([127, 0, 0, 1], port)));
    let found = table.find(&RequestView { scope, ..RequestView::get(host, path) });
    found.map_or("none".to_owned(), |found| table.key(found.route).to_owned())
}

/// All listeners in a translation.
pub(crate) fn listeners(translation: &Translation) -> Vec<&Listener> {
    let made = translation.resources.iter();
    made.filter_map(|(_, resource)| match resource {
        Resource::Listener(listener) => Some(listener),
        _ => None,
    })
    .collect()
}
