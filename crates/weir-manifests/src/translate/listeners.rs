//! Makes the listeners of the gateway model: one per address and port of each gateway.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use weir_config::{
    CertificateFiles, Content, Instead, Key, Listener, Passthrough, Precedence, Resource, Respond, Route, Tls,
};

use super::catalog::{Catalog, Referrer, Wanted};
use super::gateways::{GatewayView, Gateways, Port};
use super::hosts::EVERY;
use super::tls_routes::PassedOn;
use super::{Misfit, Translation};
use crate::gateway::Protocol;
use crate::kind::Kind;
use crate::manifest::{Body, Name};
use crate::origin::Origin;
use crate::secret::PAIR;

/// State during the translation of listeners.
struct Making<'c, 'm> {
    catalog: &'c Catalog<'m>,
    translation: &'c mut Translation,
    misfits: &'c mut Vec<Misfit>,
    /// Secrets whose certificates have already been added to the resources.
    secrets: BTreeSet<Name>,
}

/// The certificates of a port, and for each certificate a list of references, one per host. A reference consists of the
/// index of a listener and an index in this listener's `certificateRefs`.
type Certificates = (Vec<CertificateFiles>, Vec<Vec<(usize, usize)>>);

/// Adds the listeners of all gateways.
pub(super) fn add_listeners(
    catalog: &Catalog<'_>,
    gateways: &Gateways<'_>,
    passed_on: &BTreeMap<String, Vec<PassedOn>>,
    translation: &mut Translation,
    misfits: &mut Vec<Misfit>,
) {
    let mut making = Making { catalog, translation, misfits, secrets: BTreeSet::new() };
    for gateway in gateways.own() {
        let addresses = making.addresses(gateway);
        for port in &gateway.ports {
            let sealed = passed_on.get(&port.label).map(Vec::as_slice).unwrap_or_default();
            making.add_port(gateway, port, &addresses, sealed);
            making.add_fences(gateway, port);
        }
    }
}

impl Making<'_, '_> {
    fn addresses(&mut self, gateway: &GatewayView<'_>) -> Vec<IpAddr> {
        if gateway.spec.addresses.is_empty() {
            return vec![Ipv4Addr::UNSPECIFIED.into()];
        }
        let mut addresses = Vec::new();
        for (index, address) in gateway.spec.addresses.iter().enumerate() {
            match address.value.parse() {
                Ok(address) => addresses.push(address),
                Err(_) => {
                    let message = format!("`{}` is not an IP address", address.value);
                    let path = format!("spec.addresses[{index}].value");
                    let remedy = "use an address of this host, for example 10.0.0.7 or `::`";
                    self.misfits.push(Misfit::new(gateway.manifest, path, message, remedy));
                }
            }
        }
        addresses
    }

    fn add_port(
        &mut self,
        gateway: &GatewayView<'_>,
        port: &Port,
        addresses: &[IpAddr],
        sealed: &[PassedOn],
    ) {
        let (files, certificates) = self.certificates(gateway, port);
        let tls = tls(gateway, port, files);
        for &address in addresses {
            let listener = Listener {
                name: Some(port.label.clone()),
                tls: tls.clone().map(Box::new),
                passthrough: by_name(gateway, port, sealed),
                ..Listener::plain((address, port.number).into())
            };
            let key = format!("{} {} {}", Kind::Gateway, gateway.name, listener.address);
            let origin = Origin::Listener {
                manifest: gateway.manifest,
                listeners: port.listeners.clone(),
                certificates: certificates.clone(),
                sealed: sealed.iter().map(|passed_on| passed_on.manifest).collect(),
            };
            self.translation.add(key.clone(), origin, Key::Listener(key), Resource::Listener(listener));
        }
    }

    /// Collects the certificates of all listeners with this port, each with the hosts of the listeners that reference
    /// it. Certificates of the listener for every host come first: clients without a server name, or with an unknown
    /// one, get the first certificate.
    fn certificates(&mut self, gateway: &GatewayView<'_>, port: &Port) -> Certificates {
        let (mut files, mut places): Certificates = (Vec::new(), Vec::new());
        let mut known: BTreeMap<Name, usize> = BTreeMap::new();
        let mut listeners = port.listeners.clone();
        listeners.sort_by_key(|&listener| gateway.hostname(listener).is_some());
        let namespace = gateway.name.namespace.as_str();
        let referrer = Referrer { manifest: gateway.manifest, kind: Kind::Gateway, namespace };
        for listener in listeners {
            let host = gateway.hostname(listener).unwrap_or_else(|| EVERY.to_owned());
            let references = gateway.listener(listener).tls.iter().flat_map(|tls| &tls.certificate_refs);
            let mut last = 0;
            for (index, reference) in references.enumerate() {
                let path = format!("spec.listeners[{listener}].tls.certificateRefs[{index}]");
                if !reference.is_secret() {
                    let message = "only a Secret can hold a certificate";
                    self.misfits.push(Misfit::new(gateway.manifest, path, message, "reference a Secret"));
                    continue;
                }
                let (namespace, name) = (reference.namespace.as_deref(), reference.name.as_str());
                let wanted = Wanted { kind: Kind::Secret, namespace, name };
                let (secret, name) = match self.catalog.resolve(referrer, &path, wanted) {
                    Ok(found) => found,
                    Err(misfit) => {
                        self.misfits.push(misfit);
                        continue;
                    }
                };
                // The certificates of each listener stay in the order of its references. An entry of another listener
                // is reused only if this keeps the order. Otherwise the certificate is listed again.
                match known.get(&name) {
                    Some(&there) if files[there].hosts.contains(&host) => {}
                    Some(&there) if there >= last => {
                        files[there].hosts.push(host.clone());
                        places[there].push((listener, index));
                        last = there;
                    }
                    _ => {
                        last = files.len();
                        known.insert(name.clone(), last);
                        files.push(self.pair(secret, &name, host.clone()));
                        places.push(vec![(listener, index)]);
                    }
                }
            }
        }
        (files, places)
    }

    /// Returns the file names of the secret's certificate and key, to be used for `host`. When the secret is used for
    /// the first time, its contents become file resources.
    fn pair(&mut self, secret: usize, name: &Name, host: String) -> CertificateFiles {
        let [certificate, key] = PAIR.map(|file| format!("{} {name} {file}", Kind::Secret));
        if self.secrets.insert(name.clone())
            && let Body::Secret(content) = &self.catalog.manifests[secret].body
        {
            match content.pair() {
                Ok(contents) => {
                    for (file, bytes) in [&certificate, &key].into_iter().zip(contents) {
                        let resource = Resource::File(Content::from(bytes));
                        self.translation.resources.push((Key::File(file.clone()), resource));
                    }
                }
                Err((path, message, remedy)) => {
                    self.misfits.push(Misfit::new(secret, path, message, remedy));
                }
            }
        }
        CertificateFiles { certificate, key, ocsp: None, hosts: vec![host] }
    }

    /// Adds a 404 route for each listener that is more specific than another listener of the port, such as `a.test`
    /// next to `*.test`. The route matches requests that no other route of the listener matches. Without it, the less
    /// specific listener would handle them. The 404 is the same as for any request without a route.
    fn add_fences(&mut self, gateway: &GatewayView<'_>, port: &Port) {
        for &listener in &port.listeners {
            let is_http = gateway.listener(listener).protocol != Protocol::Tls;
            let Some(hostname) = gateway.hostname(listener).filter(|_| is_http) else { continue };
            if !gateway.is_within_another(port, listener) {
                continue;
            }
            let name = &gateway.listener(listener).name;
            let key = format!("{} {} listener {name}", Kind::Gateway, gateway.name);
            let route = Route {
                hosts: vec![hostname],
                listeners: vec![port.label.clone()],
                path: Some("/".to_owned()),
                respond: Some(Box::new(Respond {
                    status: 404,
                    body: "404 no_route: no route matches this request\n".to_owned(),
                    headers: BTreeMap::from([("X-Weir-Error".to_owned(), "no_route".to_owned())]),
                })),
                precedence: Some(Box::new(behind_all(gateway.name))),
                ..Route::default()
            };
            let origin = Origin::Listener {
                manifest: gateway.manifest,
                listeners: vec![listener],
                certificates: Vec::new(),
                sealed: Vec::new(),
            };
            self.translation.add(key.clone(), origin, Key::Route(key), Resource::Route(Arc::new(route)));
        }
    }
}

/// The passthrough entries of a port, by server name. The listener with the most specific hostname handles a client. If
/// this is a passthrough listener without a TLSRoute for the server name, the gateway closes the connection.
fn by_name(gateway: &GatewayView<'_>, port: &Port, sealed: &[PassedOn]) -> Vec<Passthrough> {
    let mut entries: Vec<Passthrough> = sealed.iter().map(|passed_on| passed_on.entry.clone()).collect();
    let protocol = |listener: usize| gateway.listener(listener).protocol;
    if !port.listeners.iter().any(|&listener| protocol(listener) == Protocol::Tls) {
        return entries;
    }
    for &listener in &port.listeners {
        let host = gateway.hostname(listener).unwrap_or_else(|| EVERY.to_owned());
        if entries.iter().any(|entry| entry.hosts.contains(&host)) {
            continue;
        }
        let instead = if protocol(listener) == Protocol::Tls { Instead::Close } else { Instead::Open };
        entries.push(Passthrough { hosts: vec![host], backend: None, instead: Some(instead) });
    }
    entries
}

/// A precedence lower than that of all routes in manifests.
fn behind_all(gateway: &Name) -> Precedence {
    Precedence { created_s: i64::MAX, resource: format!("~{gateway}"), position: (usize::MAX, usize::MAX) }
}

/// The TLS settings with these certificates; `None` if there are none.
fn tls(gateway: &GatewayView<'_>, port: &Port, mut files: Vec<CertificateFiles>) -> Option<Tls> {
    if files.is_empty() {
        return None;
    }
    let further = files.split_off(1);
    let first = files.pop()?;
    // Only a listener for every host accepts clients without a server name, or with an unknown one.
    let is_for_all = |&listener: &usize| {
        gateway.listener(listener).protocol == Protocol::Https && gateway.hostname(listener).is_none()
    };
    Some(Tls { strict_sni: !port.listeners.iter().any(is_for_all), ..Tls::of(first, further) })
}
