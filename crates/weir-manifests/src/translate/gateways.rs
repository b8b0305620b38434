//! The gateways that weir implements, and their listeners by port. All listeners with one port become one listener of
//! the gateway model.

use std::collections::BTreeMap;

use super::Misfit;
use super::catalog::{Catalog, Referrer, Wanted};
use super::hosts::covers;
use crate::gateway::{FromNamespaces, GatewaySpec, ListenerSpec, Protocol, TlsMode};
use crate::kind::{CONTROLLER, Kind};
use crate::manifest::{Body, Name};

/// All gateways, by their index among the manifests.
pub(super) struct Gateways<'m> {
    by_position: BTreeMap<usize, GatewayView<'m>>,
}

/// A gateway, with its listeners grouped by port.
pub(super) struct GatewayView<'m> {
    /// Index of the gateway among the manifests.
    pub(super) manifest: usize,
    pub(super) name: &'m Name,
    pub(super) spec: &'m GatewaySpec,
    /// Whether another controller implements the gateway. weir then ignores it.
    pub(super) is_foreign: bool,
    pub(super) ports: Vec<Port>,
}

/// The listeners of a gateway that have the same port.
pub(super) struct Port {
    pub(super) number: u16,
    /// The label of the listener in the gateway model.
    pub(super) label: String,
    /// Indexes of these listeners in the Gateway.
    pub(super) listeners: Vec<usize>,
}

impl<'m> Gateways<'m> {
    pub(super) fn of(catalog: &Catalog<'m>, misfits: &mut Vec<Misfit>) -> Gateways<'m> {
        let mut by_position = BTreeMap::new();
        for (manifest, name, body) in catalog.all(Kind::Gateway) {
            let Body::Gateway(spec) = body else { continue };
            let is_foreign = is_foreign(catalog, manifest, name, spec).unwrap_or_else(|misfit| {
                misfits.push(misfit);
                false
            });
            if !is_foreign {
                check_listeners(manifest, spec, misfits);
            }
            let ports = ports(name, spec);
            by_position.insert(manifest, GatewayView { manifest, name, spec, is_foreign, ports });
        }
        Gateways { by_position }
    }

    /// The gateways that weir implements, sorted by name.
    pub(super) fn own(&self) -> impl Iterator<Item = &GatewayView<'m>> {
        let mut own: Vec<_> = self.by_position.values().filter(|gateway| !gateway.is_foreign).collect();
        own.sort_by_key(|gateway| gateway.name);
        own.into_iter()
    }

    pub(super) fn at(&self, manifest: usize) -> Option<&GatewayView<'m>> {
        self.by_position.get(&manifest)
    }
}

impl<'m> GatewayView<'m> {
    pub(super) fn listener(&self, position: usize) -> &'m ListenerSpec {
        &self.spec.listeners[position]
    }

    /// The hostname of a listener, in lower case.
    pub(super) fn hostname(&self, position: usize) -> Option<String> {
        lower(self.listener(position))
    }

    /// Whether a listener of this port matches all hosts of the hostname `name`, and is more specific than the listener
    /// at `position`.
    pub(super) fn is_taken(&self, port: &Port, position: usize, name: &str) -> bool {
        let own = self.hostname(position);
        port.listeners.iter().any(|&other| {
            let hostname = self.hostname(other).filter(|hostname| is_narrower(own.as_deref(), hostname));
            hostname.is_some_and(|hostname| covers(Some(&hostname), name))
        })
    }

    /// Whether another listener of the port matches all hosts of the listener at `position`, and more hosts.
    pub(super) fn is_within_another(&self, port: &Port, position: usize) -> bool {
        let Some(own) = self.hostname(position) else { return false };
        port.listeners.iter().any(|&other| is_narrower(self.hostname(other).as_deref(), &own))
    }
}

/// Whether `hostname` matches only some of the hosts that `wide` matches.
fn is_narrower(wide: Option<&str>, hostname: &str) -> bool {
    wide != Some(hostname) && covers(wide, hostname)
}

fn lower(listener: &ListenerSpec) -> Option<String> {
    listener.hostname.as_deref().map(str::to_ascii_lowercase)
}

/// Whether another controller implements the gateway, according to its class.
fn is_foreign(
    catalog: &Catalog<'_>,
    manifest: usize,
    name: &Name,
    spec: &GatewaySpec,
) -> Result<bool, Misfit> {
    let class = spec.gateway_class_name.as_str();
    // A class is cluster-scoped, so it needs no ReferenceGrant.
    let referrer = Referrer { manifest, kind: Kind::Gateway, namespace: "" };
    let found = catalog.resolve(
        referrer,
        "spec.gatewayClassName",
        Wanted::without_namespace(Kind::GatewayClass, class),
    );
    let (position, _) = found.map_err(|misfit| match catalog.all(Kind::GatewayClass).next() {
        Some(_) => misfit,
        None => Misfit {
            message: format!("unknown GatewayClass {class}, so no controller implements Gateway {name}"),
            remedy: format!("add a GatewayClass {class} with `controllerName: {CONTROLLER}`"),
            ..misfit
        },
    })?;
    match &catalog.manifests[position].body {
        Body::GatewayClass(spec) => Ok(spec.controller_name != CONTROLLER),
        _ => Ok(true),
    }
}

fn ports(name: &Name, spec: &GatewaySpec) -> Vec<Port> {
    let mut by_port: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
    for (position, listener) in spec.listeners.iter().enumerate() {
        by_port.entry(listener.port).or_default().push(position);
    }
    let port = |(number, listeners)| Port { number, label: format!("{name}:{number}"), listeners };
    by_port.into_iter().map(port).collect()
}

fn check_listeners(manifest: usize, spec: &GatewaySpec, misfits: &mut Vec<Misfit>) {
    if spec.listeners.is_empty() {
        let message = "the Gateway has no listeners";
        misfits.push(Misfit::new(manifest, "spec.listeners", message, "add a listener"));
    }
    for (position, listener) in spec.listeners.iter().enumerate() {
        let place = |field: &str| format!("spec.listeners[{position}].{field}");
        let former = || spec.listeners[..position].iter().find_map(|other| conflict(listener, other));
        if let Some((field, message, remedy)) = check_listener(listener).or_else(former) {
            misfits.push(Misfit::new(manifest, place(field), message, remedy));
        }
    }
}

/// An invalid field, the reason and the remedy.
type Wrong = (&'static str, String, &'static str);

/// Checks whether a listener conflicts with another listener of its gateway.
fn conflict(listener: &ListenerSpec, other: &ListenerSpec) -> Option<Wrong> {
    if listener.name == other.name {
        let message = format!("another listener has the name `{}`", other.name);
        return Some(("name", message, "give each listener its own name"));
    }
    if listener.port != other.port {
        return None;
    }
    if (listener.protocol == Protocol::Http) != (other.protocol == Protocol::Http) {
        let message = format!(
            "the protocol differs from that of listener `{}`, which has the same port, {}",
            other.name, other.port
        );
        return Some(("protocol", message, "use separate ports for HTTP and TLS"));
    }
    (lower(listener) == lower(other)).then(|| {
        let message = format!("listener `{}` has the same port and hostname", other.name);
        ("hostname", message, "remove one of the two listeners, or use different hostnames")
    })
}

/// Validates a listener on its own.
fn check_listener(listener: &ListenerSpec) -> Option<Wrong> {
    let wrong = |field, message: &str, remedy| Some((field, message.to_owned(), remedy));
    if listener.port == 0 {
        return wrong("port", "port 0 is not valid", "write a port from 1 to 65535");
    }
    let namespaces = &listener.allowed_routes.namespaces;
    if (namespaces.from == FromNamespaces::Selector) != namespaces.selector.is_some() {
        let message = "`from: Selector` and `selector` require each other";
        return wrong("allowedRoutes.namespaces", message, "write both, or neither");
    }
    let tls = listener.tls.as_ref();
    let is_passed_on = tls.is_some_and(|tls| tls.mode == TlsMode::Passthrough);
    let has_certificate = tls.is_some_and(|tls| !tls.certificate_refs.is_empty());
    match listener.protocol {
        Protocol::Http if tls.is_some() => {
            wrong("tls", "`protocol: HTTP` does not allow `tls`", "write `protocol: HTTPS`, or remove `tls`")
        }
        Protocol::Https if is_passed_on => wrong(
            "tls.mode",
            "`protocol: HTTPS` requires `mode: Terminate`",
            "for passthrough, use `protocol: TLS` and a TLSRoute",
        ),
        Protocol::Https if !has_certificate => wrong(
            "tls",
            "`protocol: HTTPS` requires a certificate",
            "reference a Secret in `tls.certificateRefs`",
        ),
        Protocol::Tls if !is_passed_on => {
            let message = "`protocol: TLS` with `mode: Terminate` is not supported";
            wrong("tls", message, "write `tls: { mode: Passthrough }`, or `protocol: HTTPS`")
        }
        Protocol::Tls if has_certificate => {
            let message = "`mode: Passthrough` does not use certificates";
            wrong("tls.certificateRefs", message, "remove `certificateRefs`")
        }
        Protocol::Http | Protocol::Https | Protocol::Tls => None,
    }
}
